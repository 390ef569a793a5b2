"""Tables of numbers in text: separator, decimal sign, header, and a last row that may be cut. Ignores the locale."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np

from labctl.errors import FileFault
from labctl.formats.foreign import are_plausible

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_COMMA_IN_NUMBER = re.compile("(?<=[0-9]),(?=[0-9])")
_LINE_ENDS = b"\r\n "
_N_HEADER_LINES = 100
_N_HEADER_BYTES = 65536
# No scope writes a longer name or more columns; what has them is something else, and slow to look at.
_N_FIELD_CHARACTERS = 1000
_N_COLUMNS = 1000
_N_ROWS_COMPARED = 100


@dataclass(frozen=True)
class Sheet:
    """A text file split into `header` rows (lists of fields) and the block of numbers below, still as bytes.

    `first_line` is the line number of the first row of numbers; `terminated` tells whether the last line is ended.
    """

    path: Path
    separator: str
    header: tuple[tuple[str, ...], ...]
    block: bytes
    first_line: int
    terminated: bool

    def first_row(self) -> tuple[str, ...]:
        """Return the fields of the first row of numbers, with decimal points."""
        return split_row(self.block.partition(b"\n")[0].decode("latin-1"), self.separator)


@dataclass(frozen=True)
class Numbers:
    """Values of shape (rows, columns), half of the last printed place of column 0 where it is largest, warnings."""

    values: np.ndarray
    resolution: float
    warnings: tuple[str, ...]


def is_number(text: str) -> bool:
    """Tell whether a field is a plain decimal number with a decimal point."""
    return _NUMBER.fullmatch(text) is not None


def split_fields(line: str, separator: str) -> tuple[str, ...]:
    """Split one line into fields without quotes and surrounding blanks."""
    return tuple(field.strip().strip('"').strip() for field in line.split(separator))


def split_row(line: str, separator: str) -> tuple[str, ...]:
    """Split as `split_fields`, and turn decimal commas into points where the separator is not a comma."""
    fields = split_fields(line, separator)
    return fields if separator == "," else tuple(_COMMA_IN_NUMBER.sub(".", field) for field in fields)


def open_sheet(path: Path) -> Sheet | None:
    """Split a text file into header and numbers; None where it is no text or no line of numbers is found.

    Only where its beginning is that of a table is the rest read. Raises FileFault for a row longer than any scope's.
    """
    with path.open("rb") as file:
        head = file.read(_N_HEADER_BYTES)
        found = _header(_as_lines(head, head))
        if found is None:
            return None
        data = _as_lines(head + file.read(), head)
    separator, header, offset = found
    first_line = len(header) + 1
    end = data.find(b"\n", offset)
    if (end if end >= 0 else len(data)) - offset > _N_HEADER_BYTES:
        raise FileFault(
            f"{path}: line {first_line} is longer than {_N_HEADER_BYTES} bytes, which no scope's table has; "
            "give a file with one row a sample"
        )
    return Sheet(path, separator, header, data[offset:], first_line, data.endswith(b"\n"))


def _as_lines(data: bytes, head: bytes) -> bytes:
    """Take off a byte order mark, and end the lines by LF where the file's `head` has CR only."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    return data if b"\n" in head else data.replace(b"\r", b"\n")


_NO_NUMBERS = ("nan", "inf", "infinity")


def _header(head: bytes) -> tuple[str, tuple[tuple[str, ...], ...], int] | None:
    """Return (separator, rows above the first row of numbers, where that one begins)."""
    if b"\0" in head:
        return None
    lines = head.split(b"\n")[:_N_HEADER_LINES]
    text = [line.decode("latin-1").rstrip("\r") for line in lines]
    separator = next((sign for sign in ";\t" if any(sign in line for line in text)), ",")
    offset = 0
    header: list[tuple[str, ...]] = []
    for line, raw in zip(text, lines, strict=True):
        fields = split_row(line, separator)
        if any(len(field) > _N_FIELD_CHARACTERS for field in fields):
            return None
        numeric = [is_number(field) for field in fields if field]
        # A row that begins like numbers is one, if a faulty one: whoever reads the numbers says what is wrong with it.
        if numeric and (all(numeric) or is_number(fields[0]) or fields[0].strip("+-").lower() in _NO_NUMBERS):
            return separator, tuple(header), offset
        header.append(fields)
        offset += len(raw) + 1
    return None


def read_numbers(sheet: Sheet, n_columns: int) -> Numbers:
    """Parse the block of numbers, of which the header names `n_columns` columns.

    A trailing separator may make one empty column more. Rows at the end without all their values, or cut in the
    middle of a number, are left out and counted in a warning. Raises FileFault for anything else that is not a full
    row of finite numbers.
    """
    if n_columns > _N_COLUMNS:
        raise FileFault(f"{sheet.path}: {n_columns} columns; labctl reads up to {_N_COLUMNS}: export fewer channels")
    block = sheet.block.replace(b'"', b"")
    if sheet.separator != ",":
        block = _with_points(sheet, block)
    separator = sheet.separator.encode()
    block, n_dropped = _drop_cut_rows(block, sheet, n_columns)
    if not block:
        raise FileFault(f"{sheet.path}: no complete row of {n_columns} values below the header; export it again")
    first = split_fields(block.partition(b"\n")[0].decode("latin-1"), sheet.separator)
    if len(first) < n_columns or any(first[n_columns:]) or len(first) > n_columns + 1:
        raise FileFault(
            f"{sheet.path}: line {sheet.first_line} has {len(first)} fields, the header names {n_columns} columns; "
            "if the decimals stand behind a comma, export with a decimal point or with ';' between the columns"
        )
    n_rows = block.count(b"\n") + 1
    if block.count(separator) != n_rows * (len(first) - 1):
        _refuse_first_bad_row(sheet, block, len(first), n_columns)
    stream = io.TextIOWrapper(io.BytesIO(block), encoding="latin-1")
    try:
        values = np.loadtxt(stream, delimiter=sheet.separator, usecols=range(n_columns), comments=None, ndmin=2)
    except ValueError:
        _refuse_first_bad_row(sheet, block, len(first), n_columns)
    if len(values) != n_rows or not are_plausible(values.T):
        _refuse_first_bad_row(sheet, block, len(first), n_columns)
    last = split_fields(block.rpartition(b"\n")[2].decode("latin-1"), sheet.separator)
    warnings = (f"{n_dropped} incomplete row(s) at the end left out",) if n_dropped else ()
    resolution = _half_place(max(first[0], last[0], key=lambda text: abs(float(text))))
    return Numbers(values, resolution, warnings)


def _with_points(sheet: Sheet, block: bytes) -> bytes:
    if b"," not in block:
        return block
    if b"." in block:
        raise FileFault(
            f"{sheet.path}: both ',' and '.' stand inside numbers, so one of them may mark thousands; "
            "export without thousands marks"
        )
    return block.replace(b",", b".")


def _drop_cut_rows(block: bytes, sheet: Sheet, n_columns: int) -> tuple[bytes, int]:
    """Take rows off the end that lack values, or whose last number may have lost digits."""
    n_dropped = 0
    # Blank lines go, tabs stay: at the end of a row they are empty columns.
    end, terminated = len(block.rstrip(_LINE_ENDS)), sheet.terminated
    while end:
        start = block.rfind(b"\n", 0, end) + 1
        fields = split_fields(block[start:end].decode("latin-1"), sheet.separator)
        whole = len(fields) >= n_columns and all(map(is_number, fields[:n_columns]))
        if whole and (terminated or _shape_is_usual(block[: max(0, start - 1)], fields, sheet.separator, n_columns)):
            break
        if not whole and terminated and any(field and not is_number(field) for field in fields):
            break  # a complete line with something else in it: refused where it is met
        end, terminated = start, True
        while end and block[end - 1] in _LINE_ENDS:
            end -= 1
        n_dropped += 1
    return block[:end], n_dropped


def _shape_is_usual(head: bytes, fields: tuple[str, ...], separator: str, n_columns: int) -> bool:
    """Tell whether an unterminated row's last number is as long as that of all rows shortly before it."""
    rows = head[-200 * _N_ROWS_COMPARED :].decode("latin-1").split("\n")[-_N_ROWS_COMPARED:]
    if len(rows) > 1:
        rows = rows[1:] if len(head) > 200 * _N_ROWS_COMPARED else rows
    shapes = {_shape(split_fields(row, separator)[n_columns - 1 : n_columns]) for row in rows if row.strip()}
    return shapes == {_shape(fields[n_columns - 1 : n_columns])}


def _shape(fields: tuple[str, ...]) -> str:
    return re.sub("[0-9]", "0", fields[0]).lstrip("+-") if fields else ""


def _half_place(text: str) -> float:
    """Return half of the last printed place of a number: "-5.98e-04" -> 5e-7."""
    return float(Decimal(5).scaleb(int(Decimal(text).as_tuple().exponent) - 1))


def _refuse_first_bad_row(sheet: Sheet, block: bytes, n_fields: int, n_columns: int) -> None:
    for index, line in enumerate(block.decode("latin-1").split("\n")):
        fields = split_fields(line, sheet.separator)
        bad = [field for field in fields[:n_columns] if not is_number(field)]
        if len(fields) != n_fields or bad:
            problem = f"{bad[0]!r} is not a number" if bad else f"it has {len(fields)} fields, not {n_fields}"
            raise FileFault(f"{sheet.path}: line {sheet.first_line + index}: {problem}; export the file again")
    raise FileFault(f"{sheet.path}: a number in it is too large for any measured value; export the file again")
