"""Published tables, and results beside them, for 80 columns and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from labctl.boards import clock_text
from labctl.published.compare import Beside
from labctl.published.tables import Column, PublishedTable, value_of
from labctl.report.memory import grouped, plain_table
from labctl.report.text import Sentences, wrap
from labctl.units import quantity, with_uncertainty

SCHEMA = "labctl.published/1"
NOT_PUBLISHED = "not published"
# The same in a table of more columns than these.
_NOT_PUBLISHED_SHORT = "–"
_N_COLUMNS_WIDE = 6
_ROUNDED = "~"
# In these units a prefix is chosen for each value; others, and multiples, are named in the heading.
_PREFIXED = ("s", "A", "W", "Hz")
NO_CITATION = "By whom and where these values were published is not recorded; labctl cannot cite them."
_LEGEND = "~ marks what the publication rounded."
_WORDS = {"duration": "time", "current": "current", "power_at_5v": "5.0 V × current"}


def to_json(tables: Sequence[PublishedTable], pairs: Sequence[Beside]) -> dict[str, Any]:
    """Turn tables and comparisons into the object of the JSON contract; what was not published is null."""
    return {
        "schema": SCHEMA,
        "emulated": any(pair.found.emulated for pair in pairs),
        "tables": [_table_to_json(table) for table in tables],
        "comparisons": [_pair_to_json(pair) for pair in pairs],
    }


def _table_to_json(table: PublishedTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "origin": table.origin,
        "notes": list(table.notes),
        "columns": [{"name": c.name, "unit": c.unit or None, "rounded": c.rounded} for c in table.columns],
        "rows": [
            {c.name: value_of(c, row[c.name]) if c.unit else row[c.name] or None for c in table.columns}
            for row in table.rows
        ],
    }


def _pair_to_json(pair: Beside) -> dict[str, Any]:
    found = pair.found
    settings = ("board", "operation", "bytes", "implementation", "profile", "clock_hz", "variant", "emulated")
    return {
        "table": pair.table,
        "row": pair.row,
        "column": pair.column.name,
        "published_operation": pair.published_operation,
        "published": pair.published,
        "published_half_step": pair.half_step,
        "rounded": pair.column.rounded,
        "unit": pair.column.unit,
        **{key: getattr(found, key) for key in settings},
        "value": pair.value,
        "expanded": _finite(pair.expanded),
        "ratio": pair.ratio,
        "ratio_expanded": _finite(pair.ratio_expanded),
        "captures": list(found.sources),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def render(tables: Sequence[PublishedTable]) -> Group:
    """Lay out tables as they were published, each with its origin above and notes below."""
    parts: list[Any] = [Sentences([NO_CITATION]), ""]
    for table in tables:
        notes = [*table.notes, *([_LEGEND] if any(column.rounded for column in table.columns) else [])]
        parts += [*_heading(table), _whole(table), Sentences(notes), ""]
    return Group(*parts[:-1])


def render_beside(tables: Sequence[PublishedTable], pairs: Sequence[Beside]) -> Group:
    """Lay out results beside published values, and name the tables that nothing stands beside."""
    parts: list[Any] = []
    if any(pair.found.emulated for pair in pairs):
        which = "What is here" if all(pair.found.emulated for pair in pairs) else "What is marked so"
        parts += [Text(f"{which} was emulated: its currents are a model, not silicon.", style="bold"), ""]
    lacking = []
    for table in tables:
        own = [pair for pair in pairs if pair.table == table.name]
        if not own:
            lacking.append(table.title)
            continue
        n_rows = len({pair.row for pair in own})
        left = len(table.rows) - n_rows
        parts += [*_heading(table), _compared(table, own)]
        if left:
            parts.append(Sentences([f"{left} of {len(table.rows)} published rows have no counterpart among the results "
                                    "(board, clock, operation and message must be the same)."]))
        parts.append("")
    if lacking:
        titles = "; ".join(lacking)
        parts.append(Sentences([f"No result is of the same board, operation and message as a row of: {titles}."]))
    parts.append(Sentences([f"{_LEGEND} labctl published alone prints all rows, and how each table came about. "
                            f"{NO_CITATION}"]))
    return Group(*parts)


def _heading(table: PublishedTable) -> list[Any]:
    return [Text("\n".join(wrap(table.title)), style="bold"), Sentences([table.origin])]


def _whole(table: PublishedTable) -> Group:
    shown = [column for column in table.columns if not column.hidden]
    lacking = _NOT_PUBLISHED_SHORT if len(shown) > _N_COLUMNS_WIDE else NOT_PUBLISHED
    laid_out = plain_table(shown[0].heading)
    laid_out.columns[0].min_width = _longest_word(table, shown[0])
    for column in shown[1:]:
        laid_out.add_column(column.heading, justify="right" if column.unit else "left", overflow="fold",
                            min_width=_longest_word(table, column))
    rows = [[cell(column, row[column.name], lacking) for column in shown] for row in table.rows]
    for texts in rows:
        laid_out.add_row(*map(Text, texts))
    short = any(_NOT_PUBLISHED_SHORT in texts for texts in rows)
    return Group(laid_out, Sentences([f"{_NOT_PUBLISHED_SHORT} is {NOT_PUBLISHED}."] if short else []))


def _longest_word(table: PublishedTable, column: Column) -> int | None:
    words = [word for row in table.rows for word in row[column.name].split()]
    return max(map(len, words), default=None) if not column.unit else None


def cell(column: Column, text: str, lacking: str = NOT_PUBLISHED) -> str:
    """Print one published value with as many digits as were published; `lacking` where there is none.

    An operation without a message has no size: nothing is lacking there.
    """
    if not text:
        return lacking if column.unit and (column.name != "bytes" or column.quantity) else ""
    if not column.unit:
        return text
    mark = _ROUNDED if column.rounded else ""
    if column.unit == "Hz":
        return mark + clock_text(float(text))
    if column.unit in _PREFIXED and not column.exponent:
        return mark + quantity(value_of(column, text), column.unit, len(Decimal(text).as_tuple().digits))
    return mark + (grouped(int(text)) if column.unit == "bytes" else text)


def _compared(table: PublishedTable, pairs: Sequence[Beside]) -> Table:
    laid_out = plain_table("published operation, result")
    for heading in ("published", "here", "here over\npublished"):
        laid_out.add_column(heading, justify="right", overflow="fold")
    several = len({pair.found.emulated for pair in pairs}) > 1
    before: tuple[int, str] | None = None
    for pair in pairs:
        if (pair.row, pair.column.name) != before:
            row = table.rows[pair.row]
            size = f" {row['bytes']} B" if row.get("bytes") and pair.column.name != "bytes" else ""
            board = "" if table.board else f"{pair.found.board}: "
            text = f"{board}{pair.published_operation}{size}"
            what = row["memory"].upper() if pair.column.quantity == "memory" else _WORDS[pair.column.quantity]
            laid_out.add_row(Text("\n".join(wrap(f"{text}, {what}", 40))), Text(cell(pair.column, pair.text)))
        before = (pair.row, pair.column.name)
        laid_out.add_row(Text("\n".join(f"  {line}" for line in wrap(_settings(pair, several), 38))), "",
                         Text(_value(pair)), Text(quantity(pair.ratio, "")))
    return laid_out


def _settings(pair: Beside, several: bool) -> str:
    found = pair.found
    parts: list[str] = [found.operation]
    parts += [f"{found.bytes} B"] if found.bytes is not None else []
    parts += [found.profile] if found.profile else []
    parts += [clock_text(found.clock_hz)] if found.clock_hz else []
    parts += [found.variant] if found.variant else []
    parts += ["emulated" if found.emulated else "measured"] if several else []
    return ", ".join(parts)


def _value(pair: Beside) -> str:
    if pair.column.unit == "bytes":
        return grouped(round(pair.value))
    if pair.expanded is None:
        return quantity(pair.value, pair.column.unit)
    return with_uncertainty(pair.value, pair.expanded, pair.column.unit).replace(" ± ", "\n± ")

