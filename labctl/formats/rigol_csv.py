"""Rigol .csv in its four shapes.

1. `X,CH1,CH2,Start,Increment,` above `Sequence,Volt,Volt,-3.5e-03,5e-07`: X counts samples (DS1000Z, DS2000, DS4000).
2. `X,CH1,CH2,` above `Second,Volt,Volt,`: time in the first column, rounded to float32 (DS1000E; DS1000B leaves X out).
3. `CH1,CH2,Start,Increment,` above units, start and increment: no X at all.
4. A header of names with values, `"Number of Data points =",8192`, then a row of names where there is one.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from instruments.record import Identity, Record
from labctl.errors import FileFault
from labctl.formats.foreign import ForeignFile, unit_symbol
from labctl.formats.text import Sheet, is_number, read_numbers
from labctl.formats.timed import column_channels, time_base, timed_file, without_empty_tail

NAME = "rigol-csv"
_RIGOL = Identity("Rigol", "", "", "")
_N_POINTS = re.compile(r"number of data points|data points|record length|memory depth", re.IGNORECASE)
_STEP = re.compile(
    r"increment|samp\w* (?:interval|period|time)|time (?:interval|increment)|delta ?t|^dt$", re.IGNORECASE
)
_RATE = re.compile(r"samp\w* (?:rate|freq)", re.IGNORECASE)
_CHANNEL = re.compile(r"x?\(?ch", re.IGNORECASE)
_START = re.compile(r"start|first point|x ?origin|^t0$", re.IGNORECASE)
_TIME_SCALES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "ns": 1e-9, "ps": 1e-12}
_RATE_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}


def matches(sheet: Sheet) -> bool:
    """Recognise one of the four shapes by its header."""
    return _is_counted(sheet) or _is_timed(sheet) or _is_named(sheet)


def read(sheet: Sheet) -> ForeignFile:
    """Read the sheet in whichever shape it has. Raises FileFault."""
    if _is_counted(sheet):
        return _read_counted(sheet)
    if _is_timed(sheet):
        return timed_file(sheet, NAME, _RIGOL)
    return _read_named(sheet)


def _lower(fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(field.lower() for field in without_empty_tail(fields))


def _is_counted(sheet: Sheet) -> bool:
    return bool(sheet.header) and _lower(sheet.header[0])[-2:] == ("start", "increment")


def _is_timed(sheet: Sheet) -> bool:
    if len(sheet.header) < 2 or sheet.header[0][0].lower() not in ("x", "", "time"):
        return False
    labels = without_empty_tail(sheet.header[0])[1:]
    return unit_symbol(sheet.header[1][0]) == "s" and any("ch" in label.lower() for label in labels)


def _is_named(sheet: Sheet) -> bool:
    return any(_N_POINTS.search(fields[0]) and _header_number(fields) is not None for fields in sheet.header)


def _read_counted(sheet: Sheet) -> ForeignFile:
    names = without_empty_tail(sheet.header[0])
    has_index = names[0].lower() == "x"
    labels = names[1 if has_index else 0 : -2]
    # The second row has a unit for every column, then start and increment. Some write the first sample where the
    # units should stand.
    second = without_empty_tail(sheet.header[1] if len(sheet.header) > 1 else sheet.first_row())
    if not labels or len(second) != len(names):
        raise FileFault(
            f"{sheet.path}: its first line names {len(names)} columns, its second has {len(second)}; export it again"
        )
    if len(sheet.header) == 1:
        sheet = _with_first_row_cut(sheet, len(names) - 2)
    numbers = read_numbers(sheet, len(labels) + has_index)
    warnings = list(numbers.warnings)
    dt_s, start_s = _float(second[-1]), _float(second[-2])
    if dt_s is None or dt_s <= 0 or start_s is None:
        warnings.append(f"the header's increment {second[-1]!r} is no time: the sample rate is unknown, give --rate")
        dt_s, start_s = None, 0.0
    values = numbers.values
    if has_index:
        start_s += _first_index(sheet, values[:, 0]) * (dt_s or 0.0)
        values = values[:, 1:]
    channels = column_channels(values, labels, second[1 if has_index else 0 :])
    return ForeignFile(sheet.path, NAME, Record(channels, dt_s, np.array([start_s]), _RIGOL), tuple(warnings))


def _with_first_row_cut(sheet: Sheet, n_fields: int) -> Sheet:
    """Leave the first row of numbers its first fields only, as far as the second row's fields go."""
    first, _, rest = sheet.block.partition(b"\n")
    separator = sheet.separator.encode()
    n_following = rest.partition(b"\n")[0].count(separator)
    fields = first.split(separator)[:n_fields] + [b""] * (n_following + 1 - n_fields)
    return replace(sheet, block=separator.join(fields) + b"\n" + rest)


def _first_index(sheet: Sheet, indices: np.ndarray) -> float:
    steps = np.diff(indices)
    if len(steps) and not (steps == 1).all():
        line = sheet.first_line + 1 + int(np.argmax(steps != 1))
        raise FileFault(f"{sheet.path}: line {line}: the sample numbers jump, so rows are missing; export it again")
    return float(indices[0])


def _read_named(sheet: Sheet) -> ForeignFile:
    settings = [fields for fields in sheet.header if _header_number(fields) is not None]
    n_columns = len(without_empty_tail(sheet.first_row()))
    numbers = read_numbers(sheet, n_columns)
    column = numbers.values[:, 0]
    titles = [row for row in map(without_empty_tail, sheet.header) if row and row not in settings]
    units = next((row for row in titles if len(row) == n_columns and all(map(unit_symbol, row))), ("",) * n_columns)
    labels = next((row for row in reversed(titles) if any(map(_CHANNEL.match, row))), None)
    if labels is not None:
        if len(labels) != n_columns:
            raise _doubtful_commas(sheet)
        first = 0 if _CHANNEL.match(labels[0]) else 1
    else:
        _refuse_doubtful_commas(sheet, settings, n_columns)
        rising = n_columns > 1 and len(column) > 1 and bool((np.diff(column) >= 0).all()) and column[-1] > column[0]
        first = 1 if rising else 0
        labels = tuple(f"CH{index + 1 - first}" for index in range(n_columns))
    warnings = list(numbers.warnings)
    n_points = _setting(settings, _N_POINTS)
    if n_points is not None and n_points != len(column):
        warnings.append(f"the header promises {n_points:.0f} samples, the file holds {len(column)}")
    dt_s, rate_hz, start_s = (_setting(settings, pattern) for pattern in (_STEP, _RATE, _START))
    if dt_s is None and rate_hz:
        dt_s = 1 / rate_hz
    if first and len(column) > 1 and not (np.diff(column) == 1).all():  # seconds, not a count of samples
        found_s, start_s = time_base(sheet, column, numbers.resolution)
        dt_s = dt_s if dt_s is not None else found_s
    if dt_s is None or not 0 < dt_s < math.inf:
        warnings.append("the header tells no sample interval: the sample rate is unknown, give --rate")
        dt_s = None
    channels = column_channels(numbers.values[:, first:], labels[first:], units[first:])
    record = Record(channels, dt_s, np.array([start_s or 0.0]), _RIGOL)
    return ForeignFile(sheet.path, NAME, record, tuple(warnings))


def _refuse_doubtful_commas(sheet: Sheet, settings: list[tuple[str, ...]], n_columns: int) -> None:
    """Raise FileFault where no names tell how many columns there are and commas may be decimal signs."""
    patterns = (_N_POINTS, _STEP, _RATE, _START)
    split = any(len(row) > 2 and is_number(row[2]) and any(p.search(row[0]) for p in patterns) for row in settings)
    pointless = n_columns > 1 and sheet.separator == "," and not any("." in field for field in sheet.first_row())
    if split or pointless:
        raise _doubtful_commas(sheet)


def _doubtful_commas(sheet: Sheet) -> FileFault:
    return FileFault(
        f"{sheet.path}: line {sheet.first_line} does not fit the header's columns, its commas may be decimal signs; "
        "export with a decimal point or with ';' between the columns"
    )


def _setting(settings: list[tuple[str, ...]], pattern: re.Pattern[str]) -> float | None:
    return next((_header_number(fields) for fields in settings if pattern.search(fields[0].rstrip(" =:"))), None)


def _header_number(fields: tuple[str, ...]) -> float | None:
    """Read the value of a `name =,value[,unit]` row in SI units; None where it has none."""
    if len(fields) < 2 or not fields[0] or is_number(fields[0]):
        return None
    match = re.fullmatch(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(\S*)", fields[1])
    if match is None or not is_number(match[1]):
        return None
    suffix = (match[2] or (fields[2] if len(fields) > 2 else "")).lower()
    scale = _TIME_SCALES.get(suffix)
    rate = re.fullmatch("([kmg]?)(?:hz|sa/s|s/s|sps)", suffix)
    if scale is None:
        scale = _RATE_SCALES[rate[1]] if rate else 1.0
    value = float(match[1]) * scale
    return value if math.isfinite(value) else None


def _float(text: str) -> float | None:
    return float(text) if is_number(text) and math.isfinite(float(text)) else None
