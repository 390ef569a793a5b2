"""Take out of a text whatever names a machine, an address, a path, a person or a secret: folders are handed on."""

from __future__ import annotations

import getpass
import ipaddress
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

ADDRESS, PATH, SECRET, HOST, USER = "<address>", "<path>", "<secret>", "<host>", "<user>"

# Keys of a bench file, or of facts about a bench, whose values are addresses or files of somebody's machine.
_DROPPED = frozenset({"resource", "port", "power", "host", "address", "file", "zero", "calibrations", "hooks"})
_N_MAX = 1000
# In this order: what holds a path or an address inside itself goes first.
_PATTERNS = (
    (re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"`<>]+(?<![.,:;)])"), ADDRESS),
    (re.compile(r"\b(?:TCPIP|USB|GPIB|ASRL|VXI|PXI|PRLGX|VICP)[\w/.-]*::[^\s'\"`<>,;]*(?<![.,:;)])", re.IGNORECASE),
     ADDRESS),
    (re.compile(r"\b(bearer\s+)[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1{SECRET}"),
    (re.compile(r"""\b((?:authorization|token|password|passwd|secret|api[ _-]?key)["']?\s*[=:]\s*["']?)"""
                r"""(?!bearer\b)(?:basic\s+)?[^\s"'`<>,;&]+""", re.IGNORECASE), rf"\1{SECRET}"),
    (re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*"), ADDRESS),
    (re.compile(r"(?P<quote>['\"`])(?:~?/|[A-Za-z]:[\\/]|\\\\)[^\n]*?(?P=quote)"), rf"\g<quote>{PATH}\g<quote>"),
    (re.compile(r"(?<![\w.~)\]/])(?<!<(?=/\w+>))~?/[^\s'\"`,;:()<>/][^\s'\"`,;:()<>]*"), PATH),
    (re.compile(r"\b[A-Za-z]:[\\/][^\s'\"`,;:()<>]+|\\\\[^\s'\"`,;:()<>]+"), PATH),
    (re.compile(r"\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b"), ADDRESS),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b"), ADDRESS),
    (re.compile(r"\blocalhost(?::\d+)?\b"), ADDRESS),
)
_MAYBE_IPV6 = re.compile(r"(?<![\w:])\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*\]?(?:%\w+)?(?![\w:])")


def scrub(text: str, secrets: Mapping[str, str] | None = None) -> str:
    """Give a text without secrets, addresses, absolute paths, and the names of this machine and its user.

    `secrets` are texts that must not appear, in whatever case, and what stands for each; see `secrets_of` for what an
    address holds. Control characters but line breaks become U+FFFD, and what is beyond 1000 characters is cut.
    """
    for secret, mark in sorted((secrets or {}).items(), key=lambda pair: len(pair[0]), reverse=True):
        if secret:
            text = re.sub(re.escape(secret), mark, text, flags=re.IGNORECASE)
    for folder in _own_folders():
        text = re.sub(re.escape(folder) + r"[^\s'\"`,;:()<>]*", PATH, text)
    for pattern, mark in _PATTERNS:
        text = pattern.sub(mark, text)
    text = _MAYBE_IPV6.sub(_address_or_not, text)
    for name, mark in _own_names().items():
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", mark, text)
    text = "".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in text)
    return text if len(text) <= _N_MAX else text[: _N_MAX - 1] + "…"


def within(text: str, folder: Path) -> str:
    """Name what lies in a folder as seen from there: where the folder lies may name a person."""
    for place in dict.fromkeys((str(folder.absolute()), str(folder))):
        if place != ".":
            text = re.sub(rf"(?<![\w./~-]){re.escape(place)}/", "", text)
        if "/" in place:  # a single word may be any word
            text = re.sub(rf"(?<![\w./~-]){re.escape(place)}(?![\w/-])", "the campaign's folder", text)
    return text


def secrets_of(address: str | None, mark: str = ADDRESS) -> dict[str, str]:
    """Give an address of an instrument, port, switch or hook, and the host's name in it, as secrets for `scrub`.

    `mark` is what stands for the address.
    """
    if not address:
        return {}
    hosts = re.findall(r"://(?:[^/@\s]*@)?([^\[\]/:?#\s]{3,})", address)
    hosts += re.findall(r"^TCPIP\d*::([^:\[]{3,})::", address, re.IGNORECASE)
    return {host: HOST for host in hosts if not re.fullmatch(r"[\d.]+", host)} | {address: mark}


def facts(bench: Mapping[str, Any]) -> dict[str, Any]:
    """Give facts of a bench without keys that hold addresses or files, and every text of them scrubbed."""
    return {key: _fact(value) for key, value in bench.items() if key not in _DROPPED}


def _fact(value: Any) -> Any:
    if isinstance(value, Mapping):
        return facts(value)
    if isinstance(value, list | tuple):
        return [_fact(one) for one in value]
    return scrub(value) if isinstance(value, str) else value


def _address_or_not(match: re.Match[str]) -> str:
    text = match[0]
    for found in (text, text[:-1]):  # a colon may belong to the sentence
        with suppress(ValueError):
            ipaddress.IPv6Address(found.strip("[]").partition("%")[0])
            return ADDRESS + text[len(found) :]
    return text


def _own_folders() -> list[str]:
    found = set()
    for folder in (Path.home, Path.cwd):
        with suppress(OSError, RuntimeError):  # no home, or a folder that was removed meanwhile
            found.add(str(folder()))
    return sorted((folder for folder in found if len(folder) > 1), key=len, reverse=True)


@cache
def _own_names() -> dict[str, str]:
    """Name this machine and its user; a name of one or two letters would be found in every other word."""
    names = {socket.gethostname(): HOST, socket.gethostname().partition(".")[0]: HOST}
    with suppress(KeyError, OSError):  # a user without a name
        names[getpass.getuser()] = USER
    return {name: mark for name, mark in names.items() if len(name) > 2}
