"""Quantities as text: read what a person types, print what a person reads. Everything between is SI base units."""

from __future__ import annotations

import datetime
import math
import re
from decimal import ROUND_HALF_EVEN, Decimal

from labctl.errors import ConfigError

MICRO = "\u00b5"  # MICRO SIGN; U+03BC (Greek mu) is accepted as well on the way in
NOT_KNOWN = "n/a"

_PREFIX_EXPONENTS = {"p": -12, "n": -9, "u": -6, MICRO: -6, "\u03bc": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9}
_SYMBOL_BY_EXPONENT = {3 * (i - 6): symbol for i, symbol in enumerate(("a", "f", "p", "n", MICRO, "m", "", *"kMGT"))}
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_QUANTITY = re.compile(rf"({_NUMBER})\s*(.*)", re.DOTALL)
_TIMES = {"ms": Decimal("0.001")} | {
    spelling: seconds
    for seconds, spellings in ((1, "s sec second seconds"), (60, "min minute minutes"), (3600, "h hour hours"),
                               (86400, "d day days"))
    for spelling in spellings.split()
}
_TIME_PART = re.compile(rf"({_NUMBER})\s*({'|'.join(sorted(_TIMES, key=len, reverse=True))})(?![a-zA-Z])\s*")
_SIZES = {"B": 1} | {
    f"{prefix}{unit}": base**i
    for unit, base in (("B", 1000), ("iB", 1024)) for i, prefixes in enumerate(("kK", "M", "G", "T"), 1)
    for prefix in prefixes
}
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9.]*,[0-9]")
_PRINTED = {"ohm": "Ω"}

# Unit -> (spellings a person uses, prefixes that make sense, example). Prefixes are told apart by case, units are not
# where that cannot mislead; kiloseconds and the like are left out because "1 Ms" is a slip for "1 ms".
_SMALL, _ALL = "pnuµ\u03bcm", "pnuµ\u03bcmkMG"
_UNITS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "ohm": (("ohm", "ohms", "Ohm", "Ohms", "OHM", "\u03a9", "\u2126", "R"), _ALL, "1.3 ohm"),
    "V": (("V", "v", "volt", "volts", "Volt"), _ALL, "3.3 V"),
    "A": (("A", "a", "amp", "amps", "ampere", "amperes"), _ALL, "12 mA"),
    "s": (("s", "sec", "second", "seconds"), _SMALL, "10 ms"),
    "Hz": (("Hz", "hertz", "S/s", "Sa/s"), _ALL, "24 MHz"),
    "F": (("F", "farad", "farads"), _SMALL, "4.7 uF"),
    "W": (("W", "w", "watt", "watts"), _ALL, "40 mW"),
    "J": (("J", "j", "joule", "joules"), _ALL, "59.3 uJ"),
    "C": (("C", "coulomb", "coulombs"), _ALL, "18 uC"),
}


def parse(text: str | float, unit: str, *, what: str = "value", positive: bool = False) -> float:
    """Read a quantity such as "1.3", "1.3 ohm" or "50 mohm" in `unit` (a key of the table above) and return SI.

    Raises ConfigError, with what was expected and an example, for anything else: words, nan, inf, a decimal comma,
    another unit, and with `positive` for zero and below. Numbers pass through the same checks.
    """
    spellings, prefixes, example = _UNITS[unit]
    expected = f"expected a number in {unit}, for example {example!r}"
    typed = _typed(text, what, expected)
    match = _QUANTITY.fullmatch(typed)
    if match is None:
        raise ConfigError(f"{what} {text!r} is not a number; {expected}")
    number, suffix = match.groups()
    exponent = _exponent(suffix, spellings, prefixes)
    if unit == "Hz" and exponent is None and suffix.lower() in ("hz", "khz", "ghz"):
        exponent = {"h": 0, "k": 3, "g": 9}[suffix[0].lower()]  # "mhz" stays refused: it may mean either of two
    if exponent is None:
        other = any(_exponent(suffix, *known[:2]) is not None for known in _UNITS.values())
        raise ConfigError(
            f"{what} {text!r}: {suffix!r} is {'no unit of this' if other else 'not a unit known here'}; {expected}"
        )
    return _checked(Decimal(number).scaleb(exponent), text, what, expected, positive=positive, unit=unit)


# What a bench can hold; beyond these a slip of unit or prefix is far likelier.
_PLAUSIBLE = {
    "ohm": (1e-6, 1e6), "V": (1e-3, 1e3), "A": (1e-12, 1e3), "F": (1e-13, 1e-2), "Hz": (1e-3, 1e12), "s": (1e-8, 1e5),
}


def check_plausible(value: float, unit: str, *, what: str = "value") -> float:
    """Return a positive value that a bench can hold. Raises ConfigError, with the limits, for any other."""
    low, high = _PLAUSIBLE[unit]
    if low <= value <= high:
        return value
    raise ConfigError(
        f"{what} {value:g} {unit} is not plausible here ({quantity(low, unit)} to {quantity(high, unit)}): "
        f"check the unit and its prefix, for example {_UNITS[unit][2]!r}"
    )


def parse_ratio(text: str | float, *, what: str = "ratio", positive: bool = False) -> float:
    """Read a ratio such as "0.01", "1 %" or "50 ppm". Raises ConfigError for anything else."""
    expected = "expected a ratio, for example '1 %', '50 ppm' or '0.01'"
    match = _QUANTITY.fullmatch(_typed(text, what, expected))
    exponent = None if match is None else {"": 0, "%": -2, "ppm": -6}.get(match[2])
    if match is None or exponent is None:
        raise ConfigError(f"{what} {text!r} cannot be read; {expected}")
    return _checked(Decimal(match[1]).scaleb(exponent), text, what, expected, positive=positive, unit="")


def parse_time(text: str, *, what: str = "time") -> float:
    """Read a span of time such as "8 h", "90 min", "1 h 30 min" or "500 ms" and return seconds, more than 0.

    A number needs its unit here. Raises ConfigError for anything else, and for more than a year.
    """
    expected = "expected a number with its unit, for example '8 h', '90 min' or '2 s'"
    typed = _with_unit(text, what, expected)
    parts = [match.groups() for match in _TIME_PART.finditer(typed)]
    if not parts or _TIME_PART.sub("", typed):
        raise ConfigError(f"{what} {text!r} cannot be read; {expected}")
    total = sum(Decimal(number) * _TIMES[unit] for number, unit in parts)
    if not 0 < total <= _TIMES["d"] * 366:
        raise ConfigError(f"{what} {text!r} must be more than 0 and at most a year; {expected}")
    return float(total)


def parse_time_of_day(text: str, *, what: str = "time of day") -> datetime.time:
    """Read a time of day such as "07:00", 24 hours a day. Raises ConfigError for anything else."""
    match = re.fullmatch("([0-9]{1,2}):([0-9]{2})", text.strip()) if isinstance(text, str) else None
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise ConfigError(f"{what} {text!r} cannot be read; expected hours and minutes, for example '07:00'")
    return datetime.time(int(match[1]), int(match[2]))


def parse_size(text: str, *, what: str = "size") -> int:
    """Read a size such as "20 GB" or "512 MiB" and return bytes, 1 or more. Raises ConfigError for anything else."""
    expected = "expected a number with its unit, for example '20 GB' or '512 MiB'"
    match = _QUANTITY.fullmatch(_with_unit(text, what, expected))
    if match is None or match[2] not in _SIZES:
        raise ConfigError(f"{what} {text!r} cannot be read; {expected}")
    n_bytes = _checked(Decimal(match[1]) * _SIZES[match[2]], text, what, expected, positive=True, unit="bytes")
    if not 1 <= n_bytes <= _SIZES["TB"] * 10**6:
        raise ConfigError(f"{what} {text!r} is beyond what a disk holds; {expected}")
    return round(n_bytes)


def time_text(time_s: float) -> str:
    """Print a span of time for a person, in two units at most: "45 s", "12 min", "3 h 20 min", "2 d 4 h"."""
    if time_s < 99.5:
        return f"{time_s:.0f} s"
    n_min = round(time_s / 60)
    if n_min < 100:
        return f"{n_min} min"
    hours, minutes = divmod(n_min, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(time_s / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def size_text(n_bytes: float) -> str:
    """Print a size for a person: "512 B", "5.2 MB"."""
    return quantity(n_bytes, "B", 2 if n_bytes >= 1000 else 3)


def quantity(value: float | None, unit: str, digits: int = 3, *, ascii_only: bool = False) -> str:
    """Print a value with `digits` significant digits and the prefix that suits it: 5.93e-5, "J" -> "59.3 µJ"."""
    if value is None or not math.isfinite(value):
        return NOT_KNOWN
    if value == 0:
        return _joined("0", 0, unit, ascii_only)
    exact = Decimal(repr(float(value)))
    rounded = _round_to_digits(exact, digits)
    prefix = _prefix_exponent(rounded, unit)
    return _joined(_plain(rounded.scaleb(-prefix)), prefix, unit, ascii_only)


def percent(ratio: float | None, digits: int = 2) -> str:
    """Print a ratio in percent: 0.0123 -> "1.2 %"."""
    if ratio is None or not math.isfinite(ratio):
        return NOT_KNOWN
    if ratio == 0:
        return "0 %"
    return f"{_plain(_round_to_digits(Decimal(repr(float(ratio))) * 100, digits))} %"


def with_uncertainty(value: float | None, expanded: float | None, unit: str, *, ascii_only: bool = False) -> str:
    """Print a value and its expanded uncertainty, both in one unit: "59.3 µJ ± 2.1 µJ".

    Both are rounded by the uncertainty to two significant digits (JCGM 100:2008, 7.2.6). An uncertainty beyond
    what a double resolves is rounded up to one in the last of 15 digits; an unknown one is named as such.
    """
    sign = "+/-" if ascii_only else "±"
    if not _known(value):
        return NOT_KNOWN
    if not _known(expanded):
        return f"{quantity(value, unit, ascii_only=ascii_only)} {sign} {NOT_KNOWN}"
    number, uncertainty, prefix = _rounded_pair(value, expanded, unit)
    return (
        f"{_joined(_plain(number), prefix, unit, ascii_only)} {sign} "
        f"{_joined(_plain(uncertainty), prefix, unit, ascii_only)}"
    )


def short(value: float | None, standard: float | None, unit: str, *, ascii_only: bool = False) -> str:
    """Print a value with its standard uncertainty in units of the last digits: "59.3(21) µJ".

    The form is the second of JCGM 100:2008, 7.2.2; rounding as in `with_uncertainty`.
    """
    if not _known(value):
        return NOT_KNOWN
    if not _known(standard):
        text, _, symbol = quantity(value, unit, ascii_only=ascii_only).partition(" ")
        return f"{text}({NOT_KNOWN}) {symbol}".rstrip()
    number, uncertainty, prefix = _rounded_pair(value, standard, unit)
    last_digits = uncertainty.scaleb(-min(0, int(number.as_tuple().exponent)))
    return _joined(f"{_plain(number)}({_plain(last_digits.quantize(Decimal(1)))})", prefix, unit, ascii_only)


def rounded(value: float, expanded: float) -> tuple[Decimal, Decimal]:
    """Round a value and its expanded uncertainty as `with_uncertainty` does, without a prefix."""
    number, uncertainty, _ = _rounded_pair(value, expanded, "")
    return (abs(number) if number == 0 else number), uncertainty


def _with_unit(text: object, what: str, expected: str) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"{what} {text!r} has no unit; {expected}")
    return _typed(text, what, expected)


def _typed(text: str | float, what: str, expected: str) -> str:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise ConfigError(f"{what} {text!r} is not a number; {expected}")
    typed = (text if isinstance(text, str) else repr(text)).strip().replace("\u2212", "-").replace("\u00a0", " ")
    if _DECIMAL_COMMA.match(typed):
        raise ConfigError(f"{what} {text!r} holds a comma; write the decimals behind a point and no thousands marks")
    return typed


def _exponent(suffix: str, spellings: tuple[str, ...], prefixes: str) -> int | None:
    if suffix in ("", *spellings):
        return 0
    if suffix[0] in prefixes and suffix[1:] in spellings:
        return _PREFIX_EXPONENTS[suffix[0]]
    return None


def _checked(exact: Decimal, text: object, what: str, expected: str, *, positive: bool, unit: str) -> float:
    value = float(exact)
    if not math.isfinite(value) or (value == 0 and exact != 0):
        raise ConfigError(f"{what} {text!r} is beyond what a number holds; {expected}")
    if positive and value <= 0:
        raise ConfigError(f"{what} {text!r} must be greater than 0 {unit}".rstrip() + f"; {expected}")
    return value


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _round_to_digits(exact: Decimal, digits: int) -> Decimal:
    place = exact.adjusted() - digits + 1
    rounded = exact.quantize(Decimal(1).scaleb(place), ROUND_HALF_EVEN)
    if rounded.adjusted() > exact.adjusted():  # 9.96 becomes 10.0: one digit too many
        rounded = rounded.quantize(Decimal(1).scaleb(place + 1), ROUND_HALF_EVEN)
    return rounded


def _rounded_pair(value, uncertainty, unit: str) -> tuple[Decimal, Decimal, int]:
    """Round both at the uncertainty's second digit and scale both by one prefix, taken from the larger."""
    exact, spread = Decimal(repr(float(value))), abs(Decimal(repr(float(uncertainty))))
    finest = exact.adjusted() - 14 if exact else None
    if spread == 0:
        normal = exact.normalize() if exact else Decimal(0)
        place = max(int(normal.as_tuple().exponent), normal.adjusted() - 5) if exact else 0
        number, rounded = exact.quantize(Decimal(1).scaleb(place), ROUND_HALF_EVEN), Decimal(0)
    else:
        rounded = _round_to_digits(spread, 2)
        place = int(rounded.as_tuple().exponent)
        if finest is not None and place < finest:
            place = finest
            rounded = max(spread.quantize(Decimal(1).scaleb(place), ROUND_HALF_EVEN), Decimal(1).scaleb(place))
        number = exact.quantize(Decimal(1).scaleb(place), ROUND_HALF_EVEN)
    prefix = _prefix_exponent(max(abs(number), rounded), unit)
    return number.scaleb(-prefix), rounded.scaleb(-prefix), prefix


def _prefix_exponent(value: Decimal, unit: str) -> int:
    if value == 0 or unit in ("", "%", "cycles", "bytes"):
        return 0
    return min(max(3 * (value.adjusted() // 3), min(_SYMBOL_BY_EXPONENT)), max(_SYMBOL_BY_EXPONENT))


def _plain(number: Decimal) -> str:
    return f"{abs(number) if number == 0 else number:f}"


def _joined(number: str, prefix: int, unit: str, ascii_only: bool) -> str:
    symbol = _SYMBOL_BY_EXPONENT[prefix] + (unit if ascii_only else _PRINTED.get(unit, unit))
    return f"{number} {symbol.replace(MICRO, 'u') if ascii_only else symbol}".rstrip()
