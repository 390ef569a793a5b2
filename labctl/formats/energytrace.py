"""TI EnergyTrace: logs of command-line recorders, and the CSV that Code Composer Studio exports.

A log is lines of four or five columns (`instruments.energytrace` says which, and finds what a count is worth). An
export has a header that names time, current, voltage and energy, each with its unit in parentheses, as `Time (ns)`,
`Current (nA)`, `Voltage (mV)`, `Energy (uJ)` in the files that others' programs read; TI describes no format. Not
verified against a file of the instrument.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from instruments.energytrace import Trace, is_counts, make_trace, parse_line
from instruments.errors import BadData
from instruments.record import Channel, Identity, Record
from labctl.errors import FileFault
from labctl.formats.foreign import ForeignFile
from labctl.formats.text import is_number

NAME = "energytrace"
_QUANTITIES = {"time": "s", "current": "A", "voltage": "V", "energy": "J"}
_PREFIXES = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}
_COLUMN = re.compile(r"\s*(time|current|voltage|energy)\s*[(\[]\s*([mnuµ]?)([a-z])\s*[)\]]\s*", re.IGNORECASE)
_SEPARATORS = ",;\t"
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+(?:[eE][+-]?[0-9]+)?")
_N_COLUMNS = (4, 5)

_Row = tuple[float, float, float, float]


def matches(head: bytes) -> bool:
    """Recognise an export by its header, a log by two lines of four or five numbers that blanks separate."""
    lines = [line for line in _text(head).splitlines(keepends=True) if line.strip() and not line.startswith("#")]
    if not lines:
        return False
    if _columns(lines[0]) is not None:
        return True
    whole = [line.split() for line in lines[:2] if line.endswith("\n")]
    return len(whole) == 2 and all(
        len(fields) in _N_COLUMNS and all(is_number(field) for field in fields[-4:]) for fields in whole
    )


def read(path: Path) -> ForeignFile:
    """Read a log or an export. Raises FileFault, with the line, for what is neither, or tells no energy."""
    text = _text(path.read_bytes())
    warnings = []
    if not text.endswith("\n"):
        text, _, cut = text.rpartition("\n")
        if cut.strip():
            warnings.append("its last line is not ended, so it may be cut: left out")
    lines = text.splitlines()
    header = next((line for line in lines if line.strip()), "")
    columns = _columns(header)
    try:
        if columns is None:
            counts, rows = _read_log(path, lines)
        else:
            counts, rows = False, list(_read_export(path, lines, header, *columns))
        trace = make_trace(rows, counts)
    except BadData as error:
        raise FileFault(f"{path}: {error}") from error
    return ForeignFile(path, NAME, _record(trace), (*warnings, *_remarks(trace, counts)))


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _columns(line: str) -> tuple[str, dict[str, tuple[int, float]]] | None:
    """Return separator, and place and scale of each quantity, where a line is the header of an export."""
    for separator in _SEPARATORS:
        found = {}
        for place, field in enumerate(next(csv.reader([line], delimiter=separator), [])):
            match = _COLUMN.fullmatch(field)
            if match is None:
                continue
            quantity = match[1].lower()
            if match[3].lower() == _QUANTITIES[quantity].lower() and quantity not in found:
                found[quantity] = (place, _PREFIXES[match[2].lower()])
        if len(found) == len(_QUANTITIES):
            return separator, found
    return None


def _read_log(path: Path, lines: list[str]) -> tuple[bool, list[_Row]]:
    """Return whether the rows are counts, and the rows. Raises FileFault for a line that is none of a log."""
    rows, kinds = [], set()
    for number, line in enumerate(lines, 1):
        try:
            row = parse_line(line)
        except BadData as error:
            raise FileFault(f"{path}: line {number}: {error}") from error
        if row is None:
            continue
        rows.append(row)
        kinds.add(is_counts(line))
        if len(kinds) > 1:
            raise FileFault(
                f"{path}: line {number}: whole numbers and others are mixed, so that the units are not certain; give "
                "the log of one recorder"
            )
    return kinds == {True}, rows


def _read_export(
    path: Path, lines: list[str], header: str, separator: str, columns: dict[str, tuple[int, float]]
) -> Iterator[_Row]:
    """Give the rows below the header in SI units. Raises FileFault for a row that is not certain."""
    n_fields = len(next(csv.reader([header], delimiter=separator)))
    first = lines.index(header) + 1
    table = csv.reader(lines[first:], delimiter=separator)
    has_comma = has_point = False
    for fields in table:
        number = first + table.line_num
        if not any(field.strip() for field in fields):
            continue
        if len(fields) != n_fields and not (len(fields) == n_fields + 1 and not fields[-1].strip()):
            raise FileFault(
                f"{path}: line {number} has {len(fields)} fields, the header names {n_fields}; if the decimals stand "
                "behind a comma, export with a decimal point or with ';' between the columns"
            )
        row = []
        for place, scale in columns.values():
            field = fields[place].strip()
            if separator != "," and _DECIMAL_COMMA.fullmatch(field):
                has_comma, field = True, field.replace(",", ".")
            elif "." in field:
                has_point = True
            if not is_number(field) or (has_comma and has_point):
                raise FileFault(
                    f"{path}: line {number}: {fields[place].strip()!r} is no number that can be read in one way only; "
                    "export with a decimal point and without marks for thousands"
                )
            row.append(float(field) * scale)
        by_name = dict(zip(columns, row, strict=True))
        yield by_name["time"], by_name["current"], by_name["voltage"], by_name["energy"]


def _record(trace: Trace) -> Record:
    columns = (
        ("I1", trace.current_a, "A", "current, filtered by the recorder"),
        ("V1", trace.voltage_v, "V", "voltage"),
        ("E1", trace.energy_j, "J", "counted energy"),
    )
    return Record(
        {name: Channel(name, values[np.newaxis], 1.0, 0.0, unit, label=label) for name, values, unit, label in columns},
        trace.dt_s,
        np.zeros(1),
        Identity("Texas Instruments", "EnergyTrace", "", ""),
        granted={"averages": True, "unit_j": trace.unit_j, "n_repeated": trace.n_repeated},
        gaps=tuple((0, first, n) for first, n in trace.gaps),
    )


def _remarks(trace: Trace, counts: bool) -> Iterator[str]:
    if counts:
        yield f"a count of energy is taken as {trace.unit_j:g} J, which fits voltage, current and time"
    elif trace.unit_j != 1:
        yield f"its energy is taken times {trace.unit_j:g}, which fits voltage, current and time"
    if trace.n_repeated:
        yield f"{trace.n_repeated} line(s) whose time is not after that of the line before left out"
    if trace.gaps:
        n_lost = sum(n for _, n in trace.gaps)
        yield f"{n_lost} of {len(trace.energy_j)} samples are missing; the counted energy holds theirs"
