"""Results beside published values, and their ratio. Only what was done alike is compared: board, clock, message."""

from __future__ import annotations

import difflib
import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labctl.errors import ConfigError
from labctl.model import Result
from labctl.published.tables import Column, PublishedTable, half_step_of, load, value_of

# What the publication multiplied the MCU's current by (data/tables.toml).
PUBLISHED_SUPPLY_V = 5.0


@dataclass(frozen=True)
class Found:
    """What labctl found for an operation: `values` by quantity with their expanded uncertainty (None: not known)."""

    board: str
    operation: str
    bytes: int | None
    implementation: str
    profile: str
    clock_hz: int | None
    variant: str
    emulated: bool
    values: Mapping[str, tuple[float, float | None]]
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Beside:
    """One published value and one found; `ratio` is found over published."""

    table: str
    row: int
    published_operation: str
    column: Column
    text: str
    published: float
    half_step: float
    found: Found
    value: float
    expanded: float | None

    @property
    def ratio(self) -> float:
        """Give found over published."""
        return self.value / self.published

    @property
    def ratio_expanded(self) -> float | None:
        """Give the ratio's expanded uncertainty by what was found; no uncertainty was published."""
        return None if self.expanded is None else self.expanded / self.published


def of_result(result: Result, emulated: bool, sources: Sequence[str]) -> Found:
    """Take from a result what publications quote; its current has no uncertainty of its own."""
    current_a = result.current_mean_a
    values: dict[str, tuple[float, float | None]] = {
        "duration": (result.duration_mean_s, result.duration_expanded_s),
        "current": (current_a, None),
        "power_at_5v": (PUBLISHED_SUPPLY_V * current_a, None),
    }
    return Found(result.board, result.operation, result.bytes, result.implementation, result.profile, result.clock_hz,
                 result.variant, emulated, values, tuple(sources))


def of_memory(row: Mapping[str, Any], emulated: bool, source: str) -> Found:
    """Take a row of `labctl memory --json`: RAM is data, bss, stack and heap together."""
    ram_bytes = sum(row.get(key) or 0 for key in ("ram_bytes", "stack_bytes", "heap_bytes"))
    values = {"ram": (float(ram_bytes), None), "flash": (float(row["flash_bytes"]), None)}
    return Found(row["board"], row["operation"], row.get("bytes"), row.get("implementation") or "",
                 row.get("profile") or "", row.get("clock_hz"), row.get("variant") or "", emulated, values, (source,))


def chosen(board: str | None, operation: str | None) -> list[PublishedTable]:
    """Give the tables with their rows of a board and an operation; both may be patterns, the latter of either's names.

    Raises ConfigError, with the nearest, where nothing published fits.
    """
    tables = load()
    if board is not None:
        known = dict.fromkeys(table.board_of(row) for table in tables for row in table.rows)
        tables = tuple(_kept(table, lambda t, row: fnmatch.fnmatchcase(t.board_of(row), board)) for table in tables)
        _check(tables, "board", board, known)
    if operation is not None:
        known = dict.fromkeys(name for table in tables for row in table.rows for name in _names(table, row))
        tables = tuple(
            _kept(table, lambda t, row: any(fnmatch.fnmatchcase(name, operation) for name in _names(t, row)))
            for table in tables
        )
        _check(tables, "operation", operation, known)
    return [table for table in tables if table.rows]


def _names(table: PublishedTable, row: Mapping[str, str]) -> list[str]:
    name = table.operation_of(row)
    return [name, table.operations[name]] if name in table.operations else [name]


def _kept(table: PublishedTable, fits: Any) -> PublishedTable:
    return replace(table, rows=tuple(row for row in table.rows if fits(table, row)))


def _check(tables: Iterable[PublishedTable], what: str, typed: str, known: Iterable[str]) -> None:
    if any(table.rows for table in tables):
        return
    names = [name for name in known if name]
    near = difflib.get_close_matches(typed, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"nothing published here is of {what} {typed!r}; {hint}labctl published prints all there is")


def compare(tables: Sequence[PublishedTable], found: Sequence[Found]) -> list[Beside]:
    """Put beside each published value every one found on the same board, at the same clock, of the same message.

    Where no message size was published any is taken. Clocks are not looked at where none was published.
    """
    pairs = []
    for table in tables:
        for number, row in enumerate(table.rows):
            for column in table.columns:
                published, half_step = value_of(column, row[column.name]), half_step_of(column, row[column.name])
                quantity = row["memory"] if column.quantity == "memory" else column.quantity
                if not quantity or published is None or half_step is None:
                    continue
                for one in found:
                    if quantity in one.values and alike(table, row, one):
                        value, expanded = one.values[quantity]
                        if math.isfinite(value):
                            pairs.append(Beside(table.name, number, table.operation_of(row), column, row[column.name],
                                                published, half_step, one, value, expanded))
    return pairs


def alike(table: PublishedTable, row: Mapping[str, str], found: Found) -> bool:
    """Tell whether something found is of the board, operation, clock and message of a published row."""
    size = "bytes" in [column.name for column in table.columns if not column.quantity] and row["bytes"]
    return (
        found.board == table.board_of(row)
        and found.operation == table.operations.get(table.operation_of(row))
        and (not size or found.bytes == int(size))
        and table.clock_of(row) in (None, found.clock_hz)
    )


def to_measure(tables: Sequence[PublishedTable], known: Sequence[str]) -> dict[str, tuple[list[str], list[int]]]:
    """Say what to measure so that something stands beside these tables: of each known board, operations and sizes."""
    wanted: dict[str, tuple[list[str], list[int]]] = {}
    for table in tables:
        if not any(column.quantity not in ("", "memory") for column in table.columns):
            continue
        for row in table.rows:
            name, board = table.operations.get(table.operation_of(row)), table.board_of(row)
            if name is None or board not in known:
                continue
            names, sizes = wanted.setdefault(board, ([], []))
            names += [name] if name not in names else []
            size = row.get("bytes")
            sizes += [int(size)] if size and int(size) not in sizes else []
    return wanted
