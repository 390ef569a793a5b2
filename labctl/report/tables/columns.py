"""The columns of a table: quantities and their units, and what a unit makes of a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from labctl.errors import ConfigError
from labctl.report.tables.row import COORDINATES, Value
from labctl.tomlsource import nearest
from labctl.units import MICRO, rounded
from labctl.units import quantity as significant

AUTO = "auto"
_EXPONENTS = {"p": -12, "n": -9, MICRO: -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3}
# Throughputs of less are told in KiB/s, as labctl measure does.
_MIB_FROM = 0.1 * 1024**2
# The prefixes that make sense of each base unit.
_PREFIXES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("J", "W", "A", "s"), ("p", "n", MICRO, "m", "", "k", "M", "G")),
    **dict.fromkeys(("B", "B/s"), ("", "k", "M", "G", *_BINARY)),
}


@dataclass(frozen=True)
class Quantity:
    """One quantity: its name in options and machine formats, its title for people, and its base unit ("1": a ratio).

    `uncertain` tells whether its values come with an uncertainty, `limited` that this is the distance to the upper end
    of an interval and no ±. `usual` ones are shown when no columns are asked for.
    """

    key: str
    title: str
    base: str
    uncertain: bool = True
    usual: bool = True
    limited: bool = False


QUANTITIES = {
    one.key: one
    for one in (
        Quantity("energy", "energy", "J"),
        Quantity("power", "power", "W"),
        Quantity("current", "current", "A"),
        Quantity("duration", "duration", "s"),
        Quantity("fluctuation_between", "fluctuation between runs", "1", limited=True),
        Quantity("fluctuation_within", "fluctuation within a run", "1", uncertain=False),
        Quantity("throughput", "throughput", "B/s"),
        Quantity("cycles_per_byte", "cycles per byte", ""),
        Quantity("flash", "flash", "B", uncertain=False),
        Quantity("ram", "RAM", "B", uncertain=False),
        Quantity("stack", "stack", "B", uncertain=False),
        Quantity("cycles", "cycles", "", usual=False),
        Quantity("energy_per_byte", "energy per byte", "J", usual=False),
        Quantity("energy_net_idle", "energy net of idle", "J", uncertain=False, usual=False),
        Quantity("current_max", "peak current", "A", uncertain=False, usual=False),
        Quantity("duration_max", "longest duration", "s", uncertain=False, usual=False),
    )
}
MEMORY = ("flash", "ram", "stack")
# What else a row tells.
FACTS = ("emulated", "passes", "state", "reason", "runs", "iterations", "memory_of")
NAMES = (*COORDINATES, *FACTS, *QUANTITIES)


@dataclass(frozen=True)
class Unit:
    """A unit: `base` with `prefix`; what is in the base unit, times `factor`, is in this one."""

    base: str
    prefix: str = ""
    factor: Decimal = Decimal(1)

    @property
    def symbol(self) -> str:
        """Give the unit as a person reads it; "" for a plain number."""
        return self.prefix + ("" if self.base == "1" else self.base)

    @property
    def ascii_symbol(self) -> str:
        """Give the unit in ASCII, as it may be typed; "1" for a ratio."""
        return self.symbol.replace(MICRO, "u") or self.base

    def of(self, number: float) -> float:
        """Give a number in this unit: the nearest to the exact product."""
        return float(Decimal(repr(float(number))) * self.factor)


def base_unit(quantity: Quantity) -> Unit:
    """Give the unit that values are held in."""
    return Unit(quantity.base)


def read_unit(quantity: Quantity, text: str) -> Unit:
    """Read a unit for a quantity, such as "uJ", "KiB/s" or "%". Raises ConfigError for any other."""
    typed = text.strip().replace("\u03bc", MICRO)
    known = {unit.symbol: unit for unit in _units(quantity)}
    known |= {unit.ascii_symbol: unit for unit in _units(quantity)}
    if typed not in known:
        spelled = ", ".join(dict.fromkeys(unit.ascii_symbol for unit in _units(quantity))) or "none"
        raise ConfigError(f"--units {quantity.key}={text}: units of {quantity.key} are {spelled}, or {AUTO}")
    return known[typed]


def fitting_unit(quantity: Quantity, values: Sequence[Value]) -> Unit:
    """Choose the unit in which the numbers of a column have the fewest digits too many before and behind their point.

    Ratios are in percent; throughputs in MiB/s, or in KiB/s where the least is below a tenth of one.
    """
    if quantity.base == "1":
        return Unit("1", "%", Decimal(100))
    sizes = [abs(value.number) for value in values if value.number]
    if not sizes or quantity.base not in _PREFIXES or quantity.base == "B":
        return base_unit(quantity)
    if quantity.base == "B/s":
        return read_unit(quantity, "MiB/s" if min(sizes) >= _MIB_FROM else "KiB/s")
    return min(_units(quantity), key=lambda unit: sum(_awkward(unit.of(size)) for size in sizes))


def _awkward(number: float) -> int:
    """Count what a number from 1 to 999 has not: digits before the point beyond three, or zeros behind it and one."""
    place = Decimal(repr(number)).adjusted()
    return max(0, place - 2) if place >= 0 else -place


def read_units(options: Sequence[str]) -> dict[str, str]:
    """Read `energy=uJ`, several with commas between, or `auto` for all: unit texts by quantity, and AUTO by "".

    Raises ConfigError, with what there is, for anything else.
    """
    found: dict[str, str] = {}
    for part in (part.strip() for option in options for part in option.split(",")):
        name, equals, text = part.partition("=")
        if part == AUTO:
            found[""] = AUTO
        elif not equals or name not in QUANTITIES:
            raise ConfigError(f"--units {part}: write QUANTITY=UNIT, for example energy=uJ, or {AUTO}; "
                              f"{nearest(name, QUANTITIES, 'quantities are')}")
        else:
            found[name] = text if text == AUTO else read_unit(QUANTITIES[name], text).ascii_symbol
    return found


def unit_of(quantity: Quantity, units: Mapping[str, str], values: Sequence[Value], usual: str) -> Unit:
    """Give the unit of a column: as asked for, else `usual`, which is AUTO or "" for the base unit."""
    text = units.get(quantity.key) or units.get("") or usual
    if text == AUTO:
        return fitting_unit(quantity, values)
    return read_unit(quantity, text) if text else base_unit(quantity)


def texts(value: Value, unit: Unit) -> tuple[str, str]:
    """Print a value in a unit and its expanded uncertainty, both rounded by it; "" for the latter where there is none.

    Without an uncertainty a number has three digits, a ratio two, a count all of them.
    """
    number = unit.of(value.number)
    if value.expanded is not None:
        pair = rounded(number, unit.of(value.expanded))
        return f"{pair[0]:f}", f"{pair[1]:f}"
    if unit.base == "B" and number.is_integer():
        return str(int(number)), ""
    return significant(number, "", 2 if unit.base == "1" else 3), ""


def limit_texts(value: Value, unit: Unit) -> tuple[str, str]:
    """Print a value in a unit and the upper end of its interval, "" where it has none, to the same place."""
    number, expanded = texts(value, unit)
    if value.expanded is None:
        return number, ""
    upper = Decimal(repr(unit.of(value.number + value.expanded)))
    return number, f"{upper.quantize(Decimal(expanded), ROUND_HALF_EVEN):f}"


def _units(quantity: Quantity) -> list[Unit]:
    if quantity.base == "1":
        return [Unit("1"), Unit("1", "%", Decimal(100))]
    units = []
    for prefix in _PREFIXES.get(quantity.base, ()):
        power = _BINARY.get(prefix)
        factor = Decimal(1).scaleb(-_EXPONENTS[prefix]) if power is None else Decimal(1) / Decimal(1024) ** power
        units.append(Unit(quantity.base, prefix, factor))
    return units
