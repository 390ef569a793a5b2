"""Published tables: their values as printed there, with what is known of how they came about."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Column:
    """A column: text where it has no `unit`, else numbers that times 10^`exponent` are in it.

    `rounded` columns hold values that the publication rounded; `quantity` says what of a result stands beside them.
    """

    name: str
    heading: str
    unit: str = ""
    exponent: int = 0
    rounded: bool = False
    quantity: str = ""
    hidden: bool = False


@dataclass(frozen=True)
class PublishedTable:
    """One table; `origin` says what kind of publication it is from, without its name: that is not known.

    `rows` map the name of a column to the text in it, "" where nothing was published.

    `operations` maps an operation as published to labctl's name of it; `board` and `clock_hz` are those of all rows.
    """

    name: str
    title: str
    origin: str
    notes: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, str], ...]
    operations: Mapping[str, str] = field(default_factory=dict)
    board: str = ""
    clock_hz: int | None = None

    def board_of(self, row: Mapping[str, str]) -> str:
        """Name the board, or the chip, of a row."""
        return row.get("board") or row.get("mcu") or self.board

    def operation_of(self, row: Mapping[str, str]) -> str:
        """Name the operation of a row as it was published."""
        return row.get("operation") or row.get("algorithm") or row.get("mode") or row.get("case") or ""

    def clock_of(self, row: Mapping[str, str]) -> int | None:
        """Tell the clock of a row in Hz, None where it is not known."""
        return int(row["clock_hz"]) if row.get("clock_hz") else self.clock_hz


def value_of(column: Column, text: str) -> float | None:
    """Read a value in the column's unit; None where nothing was published.

    A column without a unit has none: its text is all there is.
    """
    return float(Decimal(text).scaleb(column.exponent)) if text and column.unit else None


def half_step_of(column: Column, text: str) -> float | None:
    """Tell half a unit of the last digit that was published, in the column's unit: 1.94e-3 -> 5e-6."""
    if not text or not column.unit:
        return None
    return float(Decimal(5).scaleb(int(Decimal(text).as_tuple().exponent) - 1 + column.exponent))


@cache
def load() -> tuple[PublishedTable, ...]:
    """Load every table."""
    folder = resources.files(__name__.rpartition(".")[0]) / "data"
    described = tomllib.loads((folder / "tables.toml").read_text(encoding="utf-8"))
    return tuple(_table(name, facts, (folder / f"{name}.csv").read_text("utf-8")) for name, facts in described.items())


def _table(name: str, facts: Mapping[str, Any], text: str) -> PublishedTable:
    columns = tuple(Column(**column) for column in facts["columns"])
    reader = csv.DictReader(text.splitlines())
    assert reader.fieldnames == [column.name for column in columns], name
    rest = {key: facts[key] for key in ("operations", "board", "clock_hz") if key in facts}
    return PublishedTable(name, facts["title"], facts["origin"], tuple(facts["notes"]), columns, tuple(reader), **rest)
