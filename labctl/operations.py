"""The operations that labctl knows by name: their messages, implementations, variants; names chosen by patterns.

The same names as in firmware/operations.mk. A DUT may hold others: what it has, it says itself.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence

from labctl.errors import ConfigError

DEFAULT = ("aes-128-ctr", "sha256", "ecdsa-p256.sign", "ecdsa-p256.verify")
# Every image has these (firmware/PROTOCOL.md).
EVERYWHERE = ("null", "busy", "idle")
BYTES_DEFAULT = 64
# Of a message, as the firmware takes it (firmware/bench/operation.h).
BYTES_MIN, BYTES_MAX = 16, 16384


def _both(*names: str) -> tuple[str, ...]:
    return tuple(name + direction for name in names for direction in ("", ".encrypt", ".decrypt"))


AES = _both(*(f"aes-{bits}-{mode}" for bits in (128, 192, 256) for mode in ("ecb", "cbc", "ctr", "ccm", "gcm")))
SHA = ("sha224", "sha256", "sha384", "sha512")
SM4 = _both(*(f"sm4-{mode}" for mode in ("ecb", "cbc", "ctr")))
ECDSA = tuple(f"ecdsa-p256{step}" for step in ("", ".keygen", ".sign", ".verify", ".full"))
ECDH = tuple(f"ecdh-{curve}{step}" for curve in ("p256", "curve25519") for step in ("", ".public", ".shared"))
NAMES = (*EVERYWHERE, *AES, *SHA, *SM4, "sm3", "drbg", *ECDSA, *ECDH)
_WITH_MESSAGE = {*AES, *SHA, *SM4, "sm3", "drbg"}

# What the image decides: firmware/Makefile says what each means. The first value is the plain one and goes unsaid.
OF_IMAGE = {"tables": ("flash", "ram"), "workspace": ("heap", "static"), "ecp": ("tuned", "plain")}
_CHOICES = {"key": ("outside", "inside"), **OF_IMAGE}
_LIMITS = {"piece": BYTES_MAX, "offset": 15}
_BLOCK = 16

# What is in the window: firmware/PROTOCOL.md, "Operations". Those of ciphers and digests are made from their names.
_MEANINGS = {
    "null": "an empty function",
    "busy": "a loop of 1000 rounds",
    "idle": "1 ms asleep (WFI)",
    "idle.stop": "1 ms stopped, clock restarted",
    "idle.lpstop": "same, regulator at low power",
    "drbg": "random bytes (HMAC_DRBG)",
    "ecdsa-p256": "signature, then verification",
    "ecdsa-p256.keygen": "new key pair",
    "ecdsa-p256.sign": "signature (RFC 6979)",
    "ecdsa-p256.verify": "verification",
    "ecdsa-p256.full": "key pair, signature, verified",
    "ecdh": "public key, then secret",
    "ecdh.public": "public key of a given key",
    "ecdh.shared": "secret shared with a peer",
}
_DIRECTIONS = {"": "encrypt, decrypt", "encrypt": "encrypt", "decrypt": "decrypt"}
VARIANT_KEYS = ("key", "piece", "offset", *OF_IMAGE)


def takes_message(name: str) -> bool:
    """Tell whether an operation has a message, whose size `bytes` says."""
    return name in _WITH_MESSAGE


def has_two_passes(name: str) -> bool:
    """Tell whether an operation encrypts its message and then decrypts it: a cipher's, without a direction."""
    return name.startswith(("aes-", "sm4-")) and "." not in name


def lacking(name: str, n_bytes: int | None, variant: str) -> str:
    """Say what of a size and a canonical variant an operation of labctl's firmware has not; "" where it has all.

    The table of variants in firmware/PROTOCOL.md.
    """
    given = parts(variant)
    if not takes_message(name):
        refused = [key for key in ("key", *_LIMITS) if key in given]
        return f"{name} has no variant with {' or '.join(refused)}" if refused else ""
    mode = name.partition(".")[0].rpartition("-")[2]
    if mode in ("ecb", "cbc") and (n_bytes or 0) % _BLOCK:
        return f"{name} takes multiples of {_BLOCK} bytes, not {n_bytes}"
    if "key" in given and name in (*SHA, "sm3"):
        return f"{name} has no key to set up inside"
    if "piece" in given and mode == "ccm":
        return f"{name} takes its message whole, without piece"
    if mode in ("ecb", "cbc", "gcm") and int(given.get("piece", 0)) % _BLOCK:
        return f"{name} takes pieces of multiples of {_BLOCK} bytes, not {given['piece']}"
    return ""


def meaning(name: str) -> str:
    """Say in one line what an operation of labctl's firmware does in its window; "" for one of another's."""
    base, _, step = name.partition(".")
    if name in _MEANINGS or name in ECDH:
        return _MEANINGS.get(name) or _MEANINGS[f"ecdh.{step}".rstrip(".")]
    if name in (*AES, *SM4):
        cipher, _, mode = base.upper().rpartition("-")
        return f"{cipher} {mode}: {_DIRECTIONS[step]}"
    return f"digest, {re.sub('^SHA', 'SHA-', name.upper())}" if name in (*SHA, "sm3") else ""


def variants_of(name: str) -> tuple[str, ...]:
    """List what of --variant an operation takes, besides what its image decides."""
    samples = {"key": "inside", "piece": str(_BLOCK), "offset": "1"}
    return tuple(key for key, value in samples.items() if not lacking(name, BYTES_DEFAULT, f"{key}={value}"))


def step_bytes(name: str) -> int:
    """Tell what the size of an operation's message is a multiple of; 0 where it takes none."""
    if not takes_message(name):
        return 0
    return _BLOCK if lacking(name, BYTES_DEFAULT + 1, "") else 1


def implementations(name: str) -> tuple[str, ...]:
    """List who computes an operation in labctl's firmware, the usual one first."""
    return ("portable",) if name == "sm3" or name.startswith("sm4-") else ("mbedtls",)


def select(patterns: Sequence[str], more: Iterable[str] = ()) -> tuple[str, ...]:
    """Choose operations by names and patterns (``aes-128-*``), in the order given; none given: the usual ones.

    `more` are names of a board's own. A plain name is taken as it is, known or not: the DUT has the last word. Raises
    ConfigError for a pattern that no name fits.
    """
    known = (*NAMES, *(name for name in more if name not in NAMES))
    chosen: list[str] = []
    for pattern in patterns or DEFAULT:
        if not any(sign in pattern for sign in "*?["):
            chosen.append(pattern)
            continue
        fitting = [name for name in known if fnmatch.fnmatchcase(name, pattern)]
        if not fitting:
            raise ConfigError(f"no operation fits {pattern!r}: labctl knows {families(known)}")
        chosen += [name for name in fitting if name not in chosen]
    return tuple(chosen)


def families(names: Sequence[str]) -> str:
    """Say in a few words which operations there are: all of a few, else one pattern for each kind."""
    if len(names) <= len(DEFAULT) + len(EVERYWHERE):
        return ", ".join(names)
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(re.match("[a-z]*", name)[0] if name else "", []).append(name)  # type: ignore[index]
    return ", ".join(same[0] if len(same) == 1 else f"{kind}*" for kind, same in kinds.items())


def canonical(text: str) -> str:
    """Spell a variant in the one order, plain values left out: "piece=64, key=inside" -> "key=inside,piece=64".

    "" and "plain" are the plain operation. Raises ConfigError for another key or value.
    """
    given: dict[str, str] = {}
    for part in text.split(",") if text.strip() not in ("", "plain") else ():
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or key not in VARIANT_KEYS:
            raise ConfigError(f"--variant {text!r}: {part.strip()!r} is none of {', '.join(map(_usage, VARIANT_KEYS))}")
        if key in given:
            raise ConfigError(f"--variant {text!r} says {key} twice; each variant is an option of its own")
        given[key] = _value(text, key, value)
    plain = {key: values[0] for key, values in _CHOICES.items()} | dict.fromkeys(_LIMITS, "0")
    return ",".join(f"{key}={given[key]}" for key in VARIANT_KEYS if given.get(key, plain[key]) != plain[key])


def parts(variant: str) -> dict[str, str]:
    """Take a canonical variant apart: what differs from the plain operation."""
    return dict(part.split("=", 1) for part in variant.split(",") if part)


def spelled(given: Mapping[str, str]) -> str:
    """Put a canonical variant together from its parts."""
    return ",".join(f"{key}={given[key]}" for key in VARIANT_KEYS if key in given)


def _usage(key: str) -> str:
    return f"{key}={'|'.join(_CHOICES[key])}" if key in _CHOICES else f"{key}=0…{_LIMITS[key]}"


def _value(text: str, key: str, value: str) -> str:
    if key in _CHOICES:
        good = value in _CHOICES[key]
    else:
        good = value.isascii() and value.isdecimal() and int(value) <= _LIMITS[key]
    if not good:
        raise ConfigError(f"--variant {text!r}: {key} cannot be {value!r}; it is {_usage(key)}")
    return value if key in _CHOICES else str(int(value))
