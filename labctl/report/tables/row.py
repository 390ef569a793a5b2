"""A row of a table as plain data: what was measured and on which bench, what became of it, and its quantities."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from labctl.boards import clock_text

# What tells rows apart, in the order that they are sorted by.
COORDINATES = (
    *("board", "operation", "bytes", "implementation", "profile", "clock", "variant"), *("role", "repeat", "bench"),
)
# What became of an item.
DONE, FAILED, PENDING = "done", "failed", "pending"


@dataclass(frozen=True)
class Value:
    """A number in the base unit of its quantity, with its expanded uncertainty for 95 % (None: it has none)."""

    number: float
    expanded: float | None = None


@dataclass(frozen=True)
class Row:
    """One item of a campaign, or one capture.

    `bench` names the bench, `emulated` is None where that is not known. `repeat`, from 1, tells apart rows that nothing
    else does. `values` are by key of `columns.QUANTITIES`; `memory_of` says what flash, RAM and stack are of: "image"
    or "operation", `power_of` whose power and energy they are: "dut" or "supply". `captures` are paths within the
    folder that was given.
    """

    board: str
    operation: str
    bytes: int | None = None
    implementation: str = ""
    profile: str = ""
    clock_hz: int | None = None
    variant: str = ""
    role: str = "item"
    repeat: int = 1
    bench: str = ""
    emulated: bool | None = None
    state: str = DONE
    reason: str = ""
    n_runs: int | None = None
    n_iterations: int | None = None
    memory_of: str = ""
    power_of: str = "dut"
    values: Mapping[str, Value] = field(default_factory=dict)
    captures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def coordinate(row: Row, name: str) -> Any:
    """Give a coordinate's value: a text, a number, or None where the row has none."""
    return row.clock_hz if name == "clock" else getattr(row, name)


def coordinate_text(row: Row, name: str) -> str:
    """Give a coordinate as a person reads it."""
    value = coordinate(row, name)
    if name == "variant":
        return variant_text(value)
    if value is None:
        return ""
    return clock_text(value) if name == "clock" else str(value)


def variant_text(variant: str) -> str:
    """Spell a variant in a table: "plain" where nothing differs."""
    return variant or "plain"


def bench_text(bench: Mapping[str, Any]) -> str:
    """Name a bench in a table by what is known of it: an emulated one with its seed."""
    name, emulated = str(bench.get("name", "")), bench.get("emulated")
    # A plan's only bench goes without a name, and so it does in a capture taken on the emulated one.
    name = "emulated" if emulated and name == "bench" else name
    return f"{name}, seed {bench['seed']}" if emulated and "seed" in bench else name


def arranged(rows: Iterable[Row]) -> list[Row]:
    """Put rows into their order, which is that of their coordinates and, for equal ones, of their data.

    Rows of equal coordinates get a `repeat` each, so that the order in which they come here shows nowhere.
    """
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(_place(dataclasses.replace(row, repeat=1)), []).append(row)
    found: list[Row] = []
    for group in groups.values():
        group.sort(key=lambda row: (row.repeat, _data(row)))
        if len({row.repeat for row in group}) < len(group):
            found += [dataclasses.replace(row, repeat=number) for number, row in enumerate(group, 1)]
        else:
            found += group
    return sorted(found, key=_place)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Give a key that sorts texts as a person does: numbers in them by value."""
    parts = re.split("([0-9]+)", text)
    return tuple((0, int(part), part) if number % 2 else (1, 0, part) for number, part in enumerate(parts))


def place_of(row: Row, name: str) -> Any:
    """Give a key that sorts rows by one coordinate, those without it first."""
    value = coordinate(row, name)
    if value is None:
        return ()
    return natural(value) if isinstance(value, str) else ((0, value, ""),)


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(place_of(row, name) for name in COORDINATES)


def _data(row: Row) -> tuple[Any, ...]:
    keys = sorted(row.values, key=lambda key: (key != "energy", key))
    values = tuple((key, row.values[key].number, row.values[key].expanded or 0.0) for key in keys)
    return values, row.state, row.reason, row.memory_of, row.warnings, row.captures
