"""Cells and heads as a person reads them."""

from __future__ import annotations

from labctl.report.tables.columns import limit_texts, texts
from labctl.report.tables.row import Value
from labctl.report.tables.sheet import Cell, Head, Page

_COUNTS = ("bytes", "repeat", "passes", "runs", "iterations")


def heading(head: Head) -> str:
    """Give a column's title, and over a stroke the unit that its numbers are in."""
    unit = head.unit.symbol if head.unit is not None else ""
    return f"{head.title} / {f'({unit})' if '/' in unit else unit}" if unit else head.title


def plain(head: Head, cell: Cell) -> str:
    """Give a cell as text: a number with its expanded uncertainty, or the upper end of its interval, rounded by it."""
    if cell is None:
        return ""
    if isinstance(cell, Value):
        assert head.unit is not None
        if head.limited:
            number, upper = limit_texts(cell, head.unit)
            return f"{number} (≤ {upper})" if upper else number
        number, expanded = texts(cell, head.unit)
        return f"{number} ± {expanded}" if expanded else number
    return " ".join(cell) if isinstance(cell, tuple) else str(cell)


def is_number(head: Head) -> bool:
    """Tell whether a column is set to the right."""
    return head.unit is not None or head.key in _COUNTS


def uncertain(page: Page) -> bool:
    """Tell whether a page has numbers with a ±."""
    return any(head.uncertain and not head.limited for sheet in page.sheets for head in sheet.heads)


def caption(page: Page) -> list[str]:
    """Give the sentences above a page, with that about ±."""
    return [*page.caption, *(["± is the expanded uncertainty (95 %)."] if uncertain(page) else [])]
