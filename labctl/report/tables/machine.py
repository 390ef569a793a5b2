"""Tables for programs: CSV and JSON, with every digit (the shortest that reads back as the same number)."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any

from labctl.report.tables.row import Row, Value
from labctl.report.tables.sheet import Cell, Head, Layout, Sheet, emulated_word, whole

SCHEMA = "labctl.table/1"
# Delimiter and decimal sign.
DIALECTS = {"comma": (",", "."), "semicolon": (";", ",")}
# What a spreadsheet takes for the begin of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# What a terminal that shows a file takes for commands: all control characters but tab and line breaks.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
EXPANDED, UPPER = "_expanded", "_upper"
_COUNTED = {"bytes": "B", "clock": "Hz"}


def to_csv(rows: Sequence[Row], layout: Layout, dialect: str = "comma") -> str:
    """Write rows as CSV (RFC 4180): a line of names, a line of units, then a line a row.

    The dialect "semicolon" has semicolons and decimal commas. A text that begins as a formula does gets an apostrophe.
    """
    delimiter, point = DIALECTS[dialect]
    sheet = whole(rows, layout)
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\r\n")
    columns = [pair for head in sheet.heads for pair in _columns(head)]
    writer.writerow([harmless(name) for name, _ in columns] + ["power_of"])
    writer.writerow([unit for _, unit in columns] + [""])
    # A line of a matrix is of several rows.
    powers = [power_of(rows)] * len(sheet.lines) if layout.matrix else [row.power_of for row in rows]
    for line, power in zip(sheet.lines, powers, strict=True):
        fields = [text for head, cell in zip(sheet.heads, line, strict=True) for text in _fields(head, cell, point)]
        writer.writerow([*fields, power])
    return stream.getvalue()


def to_json(rows: Sequence[Row], layout: Layout) -> str:
    """Write rows as one JSON object: the columns with their units, and the rows by their names."""
    sheet = whole(rows, layout)
    powers = {row.power_of for row in rows}
    words = {emulated_word(row.emulated) for row in rows} - {""}
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "emulated": {"yes": True, "no": False}[words.pop()] if len(words) == 1 else None,
        "power_of": powers.pop() if len(powers) == 1 else None,
        "level": 0.95,
        "columns": [{"name": name, "unit": unit or None} for head in sheet.heads for name, unit in _columns(head)],
        "rows": _objects(sheet),
    }
    if not layout.matrix:
        mixed = document["power_of"] is None
        for found, row in zip(document["rows"], rows, strict=True):
            found["warnings"] = list(row.warnings)
            if mixed:
                found["power_of"] = row.power_of
    return json.dumps(document, ensure_ascii=True, allow_nan=False, indent=1) + "\n"


def power_of(rows: Sequence[Row]) -> str:
    """Say whose the power of some rows is, "mixed" where it is not that of one."""
    powers = {row.power_of for row in rows}
    return powers.pop() if len(powers) == 1 else "mixed" if powers else ""


def harmless(text: str) -> str:
    """Give a text that no spreadsheet takes for a formula and no terminal for a command."""
    text = _CONTROL.sub("\ufffd", text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _columns(head: Head) -> list[tuple[str, str]]:
    """Give the names and units of the columns that a head makes: of a number, one for its uncertainty or limit too."""
    if head.unit is None:
        return [(head.key, _COUNTED.get(head.key, ""))]
    unit = head.unit.ascii_symbol
    return [(head.key, unit), *([(head.key + (UPPER if head.limited else EXPANDED), unit)] if head.uncertain else [])]


def _numbers(head: Head, cell: Cell) -> list[float | int | None]:
    assert head.unit is not None
    if not isinstance(cell, Value):
        return [None, None] if head.uncertain else [None]
    numbers = [head.unit.of(cell.number)]
    if head.unit.base == "B" and numbers[0].is_integer():
        return [int(numbers[0])]
    if not head.uncertain:
        return [*numbers]
    if cell.expanded is None:
        return [*numbers, None]
    return [*numbers, head.unit.of(cell.expanded + cell.number if head.limited else cell.expanded)]


def _fields(head: Head, cell: Cell, point: str) -> list[str]:
    if head.unit is not None:
        return ["" if number is None else repr(number).replace(".", point) for number in _numbers(head, cell)]
    if cell is None or isinstance(cell, int):
        return ["" if cell is None else str(cell)]
    text = " ".join(cell) if isinstance(cell, tuple) else str(cell)
    return [harmless(text)]


def _objects(sheet: Sheet) -> list[dict[str, Any]]:
    found = []
    for line in sheet.lines:
        row: dict[str, Any] = {}
        for head, cell in zip(sheet.heads, line, strict=True):
            if head.unit is None:
                row[head.key] = _plain(head.key, cell)
            else:
                row |= zip((name for name, _ in _columns(head)), _numbers(head, cell), strict=True)
        found.append(row)
    return found


def _plain(key: str, cell: Cell) -> Any:
    if isinstance(cell, tuple):
        return list(cell)
    if key == "emulated":
        return {"yes": True, "no": False}.get(str(cell))
    return cell
