"""Rows laid out as sheets: a line a row, or a quantity as a matrix; with what a reader has to know about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labctl.errors import ConfigError
from labctl.operations import has_two_passes
from labctl.report.tables import choose, remarks
from labctl.report.tables.columns import AUTO, FACTS, MEMORY, NAMES, QUANTITIES, Unit, unit_of
from labctl.report.tables.row import COORDINATES, DONE, Row, Value, coordinate, coordinate_text
from labctl.report.text import TWO_PASSES
from labctl.tomlsource import nearest

_TITLES = {
    "bytes": "bytes", "implementation": "by", "emulated": "emulated", "memory_of": "memory of", "runs": "runs",
}
# Among --columns: no others than those, even where rows look alike then.
EXACT = "exact"
_BARE = ("state", "reason", "emulated")
# A text, a count, a value, names of captures, or nothing.
Cell = str | int | Value | tuple[str, ...] | None
_Column = tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """What a table is to be like: names of columns, groups, sorting, units, rows that are wanted, and a matrix.

    Empty is the usual. `matrix` names a quantity, `across` the coordinate whose values become columns.
    """

    columns: tuple[str, ...] = ()
    group_by: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    roles: tuple[str, ...] = ("item",)
    complete: bool = False
    captures: bool = False
    matrix: str = ""
    across: str = "board"


@dataclass(frozen=True)
class Head:
    """The head of a column; `unit` is None where it holds texts or counts, and `uncertain` says of numbers more."""

    key: str
    title: str
    unit: Unit | None = None
    uncertain: bool = False


@dataclass(frozen=True)
class Sheet:
    """Lines under heads."""

    title: str
    heads: tuple[Head, ...]
    lines: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Page:
    """Sheets with what is said above them and, of items without a result, below."""

    caption: tuple[str, ...]
    sheets: tuple[Sheet, ...]
    notes: tuple[str, ...]


def selected(rows: Sequence[Row], layout: Layout) -> list[Row]:
    """Give the rows that a layout wants, in its order, those without a result among them unless it is complete."""
    found = choose.ordered(choose.chosen(rows, layout.where, layout.roles), layout.sort)
    found = [row for _, group in choose.grouped(found, layout.group_by) for row in group]
    return [row for row in found if row.state == DONE] if layout.complete else found


def page(rows: Sequence[Row], layout: Layout) -> Page:
    """Lay out rows for people: what all rows share in the caption, units that suit, each group a sheet.

    `rows` are those of `selected`. Raises ConfigError for names that there are not.
    """
    differing = [name for name in COORDINATES if len({coordinate_text(row, name) for row in rows}) > 1]
    there = {key for row in rows for key in row.values}
    clocks = {} if layout.matrix or "clock" in (*layout.columns, *layout.group_by) else _clocks(rows)
    index = [name for name in _identity(rows) if name not in layout.group_by] or ["operation"]
    quantities = [key for key, one in QUANTITIES.items() if one.usual and key in there]
    same = {} if layout.columns or layout.matrix else _same_memory(rows)
    names = asked_for(layout, index) or [*index, *(key for key in quantities if key not in same)]
    if layout.matrix:
        _check_matrix(layout)
        names = [layout.matrix]
    elif not layout.columns and (any(row.state != DONE for row in rows) or not quantities):
        names.append("state")
    if any(key in names for key in MEMORY) and len({row.memory_of for row in rows if row.memory_of}) > 1:
        names.append("memory_of")
    sheets = []
    for title, group in choose.grouped(rows, layout.group_by):
        if layout.matrix:
            named = QUANTITIES[layout.matrix].title
            sheets.append(matrix(group, layout, AUTO, f"{title}, {named}" if title else named.capitalize()))
        else:
            sheets.append(lines(group, names, layout, AUTO, title))
    shared = [name for name in COORDINATES if name not in differing and name != "repeat"]
    caption = remarks.caption(rows, names, shared, same)
    if clocks:
        caption.append(f"Clocks: {', '.join(f'{board} {text}' for board, text in clocks.items() if text)}.")
    return Page(tuple(caption), tuple(sheets), tuple(remarks.notes(rows, names, _identity(rows))))


def asked_for(layout: Layout, identity: Sequence[str]) -> list[str]:
    """Give the columns asked for, behind the coordinates that tell rows apart, unless "exact" is among them."""
    asked = [name for name in layout.columns if name != EXACT]
    before = [] if not asked or EXACT in layout.columns else [name for name in identity if name not in asked]
    return [*before, *asked]


def _identity(rows: Sequence[Row]) -> list[str]:
    """List the coordinates that tell rows apart; not the clock, where a board has one only."""
    differing = [name for name in COORDINATES if len({coordinate_text(row, name) for row in rows}) > 1]
    return [name for name in differing if name != "clock" or not _clocks(rows)]


def _same_memory(rows: Sequence[Row]) -> dict[str, Value]:
    """Give what of the memory all of several rows share."""
    shared = {key: {row.values.get(key) for row in rows} for key in MEMORY}
    found = {key: values.pop() for key, values in shared.items() if len(values) == 1}
    return {key: value for key, value in found.items() if value is not None and len(rows) > 1}


def lines(
    rows: Sequence[Row], names: Sequence[str], layout: Layout, usual_unit: str, title: str = "", *, whole: bool = False
) -> Sheet:
    """Lay out a line a row; with `whole` clocks are numbers. Raises ConfigError for a column that there is not."""
    for name in names:
        if name not in NAMES:
            raise ConfigError(f"--columns {name}: there is no such column; {nearest(name, NAMES, 'columns are')}")
    names = list(dict.fromkeys([*names, *(["captures"] if layout.captures else [])]))
    heads = tuple(_head(name, rows, layout, usual_unit) for name in names)
    marked = not whole and any(name in remarks.PER_BYTE for name in names)
    return Sheet(title, heads, tuple(tuple(_cell(row, name, whole, marked) for name in names) for row in rows))


def matrix(rows: Sequence[Row], layout: Layout, usual_unit: str, title: str = "", *, whole: bool = False) -> Sheet:
    """Lay out one quantity: a line for each of the other coordinates, a column for each value of `layout.across`.

    A column holds the results of one bench, and names it where there are several; so it does with a board's clock. With
    `whole` every other coordinate has a column, else those that differ. Raises ConfigError for a quantity or coordinate
    that there is not.
    """
    _check_matrix(layout)
    if not rows:
        return Sheet(title, (Head("operation", "operation"),), ())
    over = _over(rows, layout.across)
    index = [name for name in COORDINATES if name not in (*over, "bench")]
    if not whole:
        index = [name for name in index if name not in layout.group_by
                 and len({coordinate_text(row, name) for row in rows}) > 1] or ["operation"]
    columns = list(dict.fromkeys(_column(row, over) for row in choose.ordered(rows, over)))
    marked = not whole and layout.matrix in remarks.PER_BYTE
    held: dict[tuple[Cell, ...], dict[_Column, Row]] = {}
    for row in rows:
        # Rows differ in their coordinates, and these are in the index or the column: each cell has one row.
        line = tuple(_cell(row, name, whole, marked) for name in index)
        held.setdefault(line, {})[_column(row, over)] = row
    quantity = QUANTITIES[layout.matrix]
    values = [row.values[layout.matrix] for row in rows if layout.matrix in row.values]
    unit = unit_of(quantity, layout.units, values, usual_unit)
    heads = [Head(name, _TITLES.get(name, name)) for name in index]
    heads += [Head(" ".join((quantity.key, *column)), choose.title(over, column), unit, quantity.uncertain)
              for column in columns]
    found = []
    for line, cells in held.items():
        cell_rows = [cells[column] for column in columns if column in cells]
        more: list[Cell] = [_emulated(cell_rows), _missing(cell_rows, over)] if whole else []
        more += [tuple(name for row in cell_rows for name in row.captures)] if layout.captures else []
        found.append((*line, *(_result(cells.get(column), layout, whole) for column in columns), *more))
    names = [*(["emulated", "missing"] if whole else []), *(["captures"] if layout.captures else [])]
    return Sheet(title, (*heads, *(Head(name, name) for name in names)), tuple(found))


def emulated_word(emulated: bool | None) -> str:
    """Say whether a row is from an emulated bench: "yes", "no", or "" where that is not known."""
    return "" if emulated is None else "yes" if emulated else "no"


def _check_matrix(layout: Layout) -> None:
    if layout.matrix not in QUANTITIES:
        hint = nearest(layout.matrix, QUANTITIES, "quantities are")
        raise ConfigError(f"--matrix {layout.matrix}: there is no such quantity; {hint}")
    if layout.across not in COORDINATES or layout.across in layout.group_by:
        others = [name for name in COORDINATES if name not in layout.group_by]
        raise ConfigError(f"--across {layout.across}: columns may be the values of {', '.join(others)}")
    if layout.columns:
        raise ConfigError("--columns and --matrix exclude each other: the columns of a matrix are values of --across")


def _head(name: str, rows: Sequence[Row], layout: Layout, usual_unit: str) -> Head:
    if name not in QUANTITIES:
        return Head(name, _TITLES.get(name, name))
    quantity = QUANTITIES[name]
    values = [row.values[name] for row in rows if name in row.values]
    return Head(name, quantity.title, unit_of(quantity, layout.units, values, usual_unit), quantity.uncertain)


def _cell(row: Row, name: str, whole: bool, marked: bool = False) -> Cell:
    """Give what a column shows of a row; with `marked`, operations of two passes have their mark."""
    if name in QUANTITIES:
        return row.values.get(name)
    if name in ("bytes", "repeat") or (name == "clock" and whole):
        return coordinate(row, name)
    if name in COORDINATES:
        mark = TWO_PASSES if marked and name == "operation" and has_two_passes(row.operation) else ""
        return coordinate_text(row, name) + mark
    texts: dict[str, Cell] = {
        "emulated": emulated_word(row.emulated), "runs": row.n_runs, "iterations": row.n_iterations,
        "captures": row.captures,
    }
    return texts[name] if name in texts else getattr(row, name)


def _result(row: Row | None, layout: Layout, whole: bool) -> Cell:
    """Give what a cell of a matrix shows; of a row without a result, for people, its state."""
    if row is None:
        return None
    if layout.matrix in row.values or whole or row.state == DONE:
        return row.values.get(layout.matrix)
    return row.state


def _over(rows: Sequence[Row], across: str) -> tuple[str, ...]:
    """List the coordinates that a column stands for: the one asked for; a board's only clock; the bench."""
    names = [across]
    if across == "board" and _clocks(rows):
        names.append("clock")
    if across != "bench" and len({row.bench for row in rows}) > 1:
        names.append("bench")
    return tuple(names)


def _clocks(rows: Sequence[Row]) -> dict[str, str]:
    """Give the only clock of each board, in their order, where these are not all the same; else nothing."""
    clocks: dict[str, set[str]] = {}
    for row in choose.ordered(rows, ("board",)):
        clocks.setdefault(row.board, set()).add(coordinate_text(row, "clock"))
    if any(len(texts) > 1 for texts in clocks.values()) or len(set().union(*clocks.values())) < 2:
        return {}
    return {board: texts.pop() for board, texts in clocks.items()}


def _column(row: Row, over: Sequence[str]) -> _Column:
    return tuple(coordinate_text(row, name) for name in over)


def _emulated(rows: Sequence[Row]) -> str:
    words = {emulated_word(row.emulated) for row in rows}
    return words.pop() if len(words) == 1 else "mixed"


def _missing(rows: Sequence[Row], over: Sequence[str]) -> str:
    """Say of a line of a matrix which of its cells have no result, and why."""
    return "; ".join(
        ": ".join(part for part in (choose.title(over, _column(row, over)), row.state, row.reason) if part)
        for row in rows if row.state != DONE
    )


def whole_names(layout: Layout, identity: Sequence[str] = ()) -> list[str]:
    """Give the columns of a machine format: all, or those asked for with what no table may leave out."""
    if not layout.columns:
        return [*COORDINATES, *FACTS[:-1], *(key for key, one in QUANTITIES.items() if one.usual), "memory_of"]
    asked = asked_for(layout, identity)
    return [*asked, *(name for name in _BARE if name not in asked)]


def whole(rows: Sequence[Row], layout: Layout) -> Sheet:
    """Lay out rows for programs: base units unless others are asked for, and every coordinate."""
    if layout.matrix:
        return matrix(rows, layout, "", whole=True)
    return lines(rows, whole_names(layout, _identity(rows)), layout, "", whole=True)
