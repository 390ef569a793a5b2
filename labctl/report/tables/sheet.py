"""Rows laid out as sheets: a line a row, or a quantity as a matrix; with what a reader has to know about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labctl.errors import ConfigError
from labctl.report.tables import choose
from labctl.report.tables.columns import AUTO, FACTS, MEMORY, NAMES, QUANTITIES, Unit, unit_of
from labctl.report.tables.row import COORDINATES, DONE, FAILED, Row, Value, coordinate, coordinate_text

EMULATED = "Emulated bench: the currents are a model, not silicon."
_TITLES = {
    "bytes": "bytes", "implementation": "by", "emulated": "emulated", "memory_of": "memory of", "runs": "runs",
}
_BARE = ("state", "reason", "emulated")
_POWERS = {"dut": "the DUT's, behind the shunt", "supply": "the supply's, shunt included"}
_MEMORY = {
    "image": "of the whole image: flash that it fills, data and bss, and the room set aside for the stack",
    "operation": "of the operation alone as labctl memory finds them: beyond an image without it, and the deepest "
                 "stack in use",
}
# What goes without saying.
_UNSAID = (("role", "item"), ("variant", "plain"))
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


def page(rows: Sequence[Row], layout: Layout, power: str) -> Page:
    """Lay out rows for people: what all rows share in the caption, units that suit, each group a sheet.

    `rows` are those of `selected`. Raises ConfigError for names that there are not.
    """
    differing = [name for name in COORDINATES if len({coordinate_text(row, name) for row in rows}) > 1]
    there = {key for row in rows for key in row.values}
    clocks = {} if layout.matrix or "clock" in (*layout.columns, *layout.group_by) else _clocks(rows)
    index = [name for name in differing if name not in layout.group_by and not (clocks and name == "clock")]
    index = index or ["operation"]
    quantities = [key for key, one in QUANTITIES.items() if one.usual and key in there]
    names = list(layout.columns) or [*index, *quantities]
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
    caption = _caption(rows, names, shared, power)
    if clocks:
        caption.append(f"Clocks: {', '.join(f'{board} {text}' for board, text in clocks.items() if text)}.")
    return Page(tuple(caption), tuple(sheets), tuple(_notes(rows)))


def lines(
    rows: Sequence[Row], names: Sequence[str], layout: Layout, usual_unit: str, title: str = "", *, whole: bool = False
) -> Sheet:
    """Lay out a line a row; with `whole` clocks are numbers. Raises ConfigError for a column that there is not."""
    for name in names:
        if name not in NAMES:
            raise ConfigError(f"--columns {name}: columns are {', '.join(NAMES)}")
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
    over = _over(rows, layout.across)
    index = [name for name in COORDINATES if name not in (*over, "bench")]
    if not whole:
        index = [name for name in index if name not in layout.group_by
                 and len({coordinate_text(row, name) for row in rows}) > 1] or ["operation"]
    columns = list(dict.fromkeys(_column(row, over) for row in choose.ordered(rows, over)))
    held: dict[tuple[Cell, ...], dict[_Column, Row]] = {}
    for row in rows:
        # Rows differ in their coordinates, and these are in the index or the column: each cell has one row.
        held.setdefault(tuple(_cell(row, name, whole) for name in index), {})[_column(row, over)] = row
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
        raise ConfigError(f"--matrix {layout.matrix}: quantities are {', '.join(QUANTITIES)}")
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


def _cell(row: Row, name: str, whole: bool) -> Cell:
    if name in QUANTITIES:
        return row.values.get(name)
    if name in ("bytes", "repeat") or (name == "clock" and whole):
        return coordinate(row, name)
    if name in COORDINATES:
        return coordinate_text(row, name)
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


def _caption(rows: Sequence[Row], names: Sequence[str], shared: Sequence[str], power: str) -> list[str]:
    """Say what the numbers are; that a bench is emulated always."""
    if not rows:
        return ["No rows."]
    found = []
    emulated = {row.bench for row in rows if row.emulated}
    if emulated and len(emulated) < len({row.bench for row in rows}):
        found.append(f"{EMULATED[:-1]}: {', '.join(sorted(emulated))}.")
    elif emulated:
        found.append(EMULATED)
    if any(name in names for name in QUANTITIES if name not in MEMORY):
        found.append(f"Means per operation, the trigger's cost removed; power and energy are {_POWERS[power]}.")
    if any(name.startswith("fluctuation") for name in names):
        found.append("Fluctuation: standard deviation of the energy between runs, of the power within a run, each over "
                     "its mean.")
    kinds = sorted({row.memory_of for row in rows if row.memory_of})
    if kinds and any(name in names for name in MEMORY):
        if len(kinds) == 1:
            found.append(f"Flash, RAM and stack are {_MEMORY[kinds[0]]}.")
        else:
            found.append(f"Flash, RAM and stack: {'; '.join(f'{kind}, {_MEMORY[kind]}' for kind in kinds)}.")
    texts = [choose.titled(name, text) for name in shared
             if (text := coordinate_text(rows[0], name)) and (name, text) not in _UNSAID]
    if texts:
        found.append(f"All rows: {', '.join(texts)}.")
    return found


def _notes(rows: Sequence[Row]) -> list[str]:
    """Name the rows without a result, those of one reason together."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    missing = [row for row in rows if row.state != DONE]
    differing = [name for name in COORDINATES if len({coordinate_text(row, name) for row in rows}) > 1]
    for row in sorted(missing, key=lambda row: row.state != FAILED):
        names = [titled for name in COORDINATES if name in ("board", "operation") or name in differing
                 if (titled := coordinate_text(row, name) and choose.titled(name, coordinate_text(row, name)))]
        by_reason.setdefault((row.state, row.reason), []).append(" ".join(names) or "a capture")
    return [f"{state}: {'; '.join(names)}{f': {reason}' if reason else ''}"
            for (state, reason), names in by_reason.items()]


def whole_names(layout: Layout) -> list[str]:
    """Give the columns of a machine format: all, or those asked for with what no table may leave out."""
    if not layout.columns:
        return [*COORDINATES, *FACTS[:-1], *(key for key, one in QUANTITIES.items() if one.usual), "memory_of"]
    return [*layout.columns, *(name for name in _BARE if name not in layout.columns)]


def whole(rows: Sequence[Row], layout: Layout) -> Sheet:
    """Lay out rows for programs: base units unless others are asked for, and every coordinate."""
    if layout.matrix:
        return matrix(rows, layout, "", whole=True)
    return lines(rows, whole_names(layout), layout, "", whole=True)
