"""Rows laid out as sheets: a line a row, or a quantity as a matrix; with what a reader has to know about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labctl.errors import ConfigError
from labctl.operations import has_two_passes
from labctl.report.tables import choose, remarks
from labctl.report.tables.columns import AUTO, FACTS, MEMORY, NAMES, QUANTITIES, Unit, unit_of
from labctl.report.tables.row import COORDINATES, DONE, Row, Value, coordinate, coordinate_text
from labctl.tomlsource import nearest

_TITLES = {
    "bytes": "bytes", "implementation": "by", "emulated": "emulated", "memory_of": "memory of", "runs": "runs",
}
# Among --columns: no others than those, even where rows look alike then.
EXACT = "exact"
_BARE = ("state", "reason", "emulated", "passes")
# What a board may have one of only: then it is said once.
_ONCE = {"clock": "Clocks", "bench": "Benches"}
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
    """The head of a column; `unit` is None where it holds texts or counts.

    `uncertain` and `limited` are those of its quantity.
    """

    key: str
    title: str
    unit: Unit | None = None
    uncertain: bool = False
    limited: bool = False


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
    once = {name: texts for name in _ONCE if name not in (*layout.columns, *layout.group_by)
            and (texts := _of_boards(rows, name)) and not _in_heads(layout, name)}
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
    for of, group in choose.grouped(rows, layout.group_by):
        own = [choose.titled(name, texts[group[0].board]) for name, texts in once.items() if "board" in layout.group_by]
        title = ", ".join([of, *own])
        if layout.matrix:
            named = QUANTITIES[layout.matrix].title
            sheets.append(matrix(group, layout, AUTO, f"{title}, {named}" if title else named.capitalize()))
        else:
            memory = _same_memory(group) if of and not layout.columns else {}
            title = ", ".join([title, *remarks.memory_texts({key: memory[key] for key in memory if key not in same})])
            sheets.append(lines(group, [name for name in names if name not in memory], layout, AUTO, title))
    shared = [name for name in COORDINATES if name not in differing and name != "repeat"]
    caption = remarks.caption(rows, names, shared, same)
    if "board" not in layout.group_by:
        caption += [f"{_ONCE[name]}: {'; '.join(f'{board} {text}' for board, text in texts.items() if text)}."
                    for name, texts in once.items()]
    return Page(tuple(caption), tuple(sheets), tuple(remarks.notes(rows, names, _identity(rows))))


def asked_for(layout: Layout, identity: Sequence[str]) -> list[str]:
    """Give the columns asked for, behind the coordinates that tell rows apart, unless "exact" is among them."""
    asked = [name for name in layout.columns if name != EXACT]
    before = [] if not asked or EXACT in layout.columns else [name for name in identity if name not in asked]
    return [*before, *asked]


def _identity(rows: Sequence[Row]) -> list[str]:
    """List the coordinates that tell rows apart; not the clock, nor the bench, where each board has one only."""
    differing = [name for name in COORDINATES if len({coordinate_text(row, name) for row in rows}) > 1]
    return [name for name in differing if name not in _ONCE or not _of_boards(rows, name)]


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
    return Sheet(title, heads, tuple(tuple(_cell(row, name, whole) for name in names) for row in rows))


def matrix(rows: Sequence[Row], layout: Layout, usual_unit: str, title: str = "", *, whole: bool = False) -> Sheet:
    """Lay out one quantity: a line for each of the other coordinates, a column for each value of `layout.across`.

    A column holds the results of one bench, and names it where there are several; so it does with a board's clock. With
    `whole` every other coordinate has a column, else those that differ. Raises ConfigError for a quantity or coordinate
    that there is not.
    """
    _check_matrix(layout)
    if not rows:
        return Sheet(title, (Head("operation", "operation"),), ())
    over = _over(rows, layout.across, whole)
    index = [name for name in COORDINATES if name not in (*over, "bench")]
    if not whole:
        index = [name for name in index if name not in layout.group_by
                 and len({coordinate_text(row, name) for row in rows}) > 1] or ["operation"]
    columns = list(dict.fromkeys(_column(row, over) for row in choose.ordered(rows, over)))
    held: dict[tuple[Cell, ...], dict[_Column, Row]] = {}
    for row in rows if layout.sort else choose.ordered(rows, [*layout.group_by, *index]):
        # Rows differ in their coordinates, and these are in the index or the column: each cell has one row.
        line = tuple(_cell(row, name, whole) for name in index)
        held.setdefault(line, {})[_column(row, over)] = row
    quantity = QUANTITIES[layout.matrix]
    values = [row.values[layout.matrix] for row in rows if layout.matrix in row.values]
    unit = unit_of(quantity, layout.units, values, usual_unit)
    heads = [Head(name, _TITLES.get(name, name)) for name in index]
    heads += [Head(" ".join((quantity.key, *column)), choose.title(over, column), unit, quantity.uncertain,
                   quantity.limited) for column in columns]
    found = []
    for line, cells in held.items():
        cell_rows = [cells[column] for column in columns if column in cells]
        more: list[Cell] = [_same(cell_rows, "emulated"), _same(cell_rows, "passes"), _missing(cell_rows, over)] \
            if whole else []
        more += [tuple(name for row in cell_rows for name in row.captures)] if layout.captures else []
        found.append((*line, *(_result(cells.get(column), layout, whole) for column in columns), *more))
    names = [*(["emulated", "passes", "missing"] if whole else []), *(["captures"] if layout.captures else [])]
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
    unit = unit_of(quantity, layout.units, values, usual_unit)
    return Head(name, quantity.title, unit, quantity.uncertain, quantity.limited)


def _cell(row: Row, name: str, whole: bool) -> Cell:
    """Give what a column shows of a row; for people, operations of two passes have their mark."""
    if name in QUANTITIES:
        return row.values.get(name)
    if name in ("bytes", "repeat") or (name == "clock" and whole):
        return coordinate(row, name)
    if name in COORDINATES:
        return choose.marked(row.operation) if name == "operation" and not whole else coordinate_text(row, name)
    texts: dict[str, Cell] = {
        "emulated": emulated_word(row.emulated), "runs": row.n_runs, "iterations": row.n_iterations,
        "captures": row.captures, "passes": (1 + has_two_passes(row.operation)) if row.operation else None,
    }
    return texts[name] if name in texts else getattr(row, name)


def _result(row: Row | None, layout: Layout, whole: bool) -> Cell:
    """Give what a cell of a matrix shows; of a row without a result, for people, its state."""
    if row is None:
        return None
    if layout.matrix in row.values or whole or row.state == DONE:
        return row.values.get(layout.matrix)
    return row.state


def _over(rows: Sequence[Row], across: str, whole: bool) -> tuple[str, ...]:
    """List the coordinates that a column stands for: the one asked for; a board's only clock; the bench.

    For people a bench that is its board's only one is said once, above.
    """
    names = [across]
    if across == "board" and _of_boards(rows, "clock"):
        names.append("clock")
    if across != "bench" and len({row.bench for row in rows}) > 1 and (whole or not _of_boards(rows, "bench")):
        names.append("bench")
    return tuple(names)


def _in_heads(layout: Layout, name: str) -> bool:
    """Tell whether the columns or lines of a matrix say a board's clock, or its bench."""
    return bool(layout.matrix) and (layout.across == name or (name == "clock" and "board" not in layout.group_by))


def _of_boards(rows: Sequence[Row], name: str) -> dict[str, str]:
    """Give the only clock, or bench, of each board, in their order, where these are not all the same; else nothing."""
    found: dict[str, set[str]] = {}
    for row in choose.ordered(rows, ("board",)):
        found.setdefault(row.board, set()).add(coordinate_text(row, name))
    if any(len(texts) > 1 for texts in found.values()) or len(set().union(*found.values())) < 2:
        return {}
    return {board: texts.pop() for board, texts in found.items()}


def _column(row: Row, over: Sequence[str]) -> _Column:
    return tuple(coordinate_text(row, name) for name in over)


def _same(rows: Sequence[Row], name: str) -> Cell:
    """Give what a fact is of all rows of a line, "mixed" where they differ."""
    cells = {_cell(row, name, whole=True) for row in rows}
    return cells.pop() if len(cells) == 1 else "mixed"


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
