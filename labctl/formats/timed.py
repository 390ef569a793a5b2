"""The table that most scopes export: a row of names, a row of units, time in the first column."""

from __future__ import annotations

import re

import numpy as np

from instruments.record import Channel, Identity, Record
from labctl.errors import FileFault
from labctl.formats.foreign import ForeignFile, channel_name, even_step, float_channel, unit_symbol
from labctl.formats.text import Sheet, read_numbers

_LABEL_WITH_UNIT = re.compile(r"(.+?)\s*[(\[](\w+)[)\]]")  # "CH1(V)"


def without_empty_tail(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the empty fields that trailing separators make."""
    n_fields = len(fields)
    while n_fields and not fields[n_fields - 1]:
        n_fields -= 1
    return fields[:n_fields]


def column_channels(values: np.ndarray, labels: tuple[str, ...], units: tuple[str, ...]) -> dict[str, Channel]:
    """Make one channel of each column of `values`, shape (rows, labels)."""
    channels: dict[str, Channel] = {}
    for index, label in enumerate(labels):
        match = _LABEL_WITH_UNIT.fullmatch(label)
        plain, bracketed = match.groups() if match and unit_symbol(match[2]) else (label, "")
        name = channel_name(plain, channels)
        unit = (unit_symbol(units[index]) if index < len(units) else "") or unit_symbol(bracketed)
        channels[name] = float_channel(name, values[:, index].reshape(1, -1), unit, label)
    return channels


def timed_file(sheet: Sheet, format_name: str, instrument: Identity) -> ForeignFile:
    """Read names, units and time stamps in seconds. Raises FileFault where the stamps are not evenly spaced."""
    labels = without_empty_tail(sheet.header[0])[1:]
    if not labels:
        raise FileFault(f"{sheet.path}: its first line names no channel; export it again with a channel on")
    numbers = read_numbers(sheet, 1 + len(labels))
    channels = column_channels(numbers.values[:, 1:], labels, sheet.header[1][1:])
    dt_s, start_s = time_base(sheet, numbers.values[:, 0], numbers.resolution)
    record = Record(channels, dt_s, np.array([start_s]), instrument)
    return ForeignFile(sheet.path, format_name, record, numbers.warnings)


def time_base(sheet: Sheet, times_s: np.ndarray, resolution_s: float) -> tuple[float | None, float]:
    """Find (dt_s, t0_s) of a time column; dt_s is None for a single row. Raises FileFault where it is uneven."""
    if len(times_s) == 1:
        return None, float(times_s[0])
    # Scopes keep their time stamps as float32: half a unit of its last place comes on top of the printed rounding.
    largest_s = float(np.abs(times_s).max())
    found = even_step(times_s, resolution_s + largest_s * 2.0**-24)
    if found is None:
        raise FileFault(
            f"{sheet.path}: the time stamps are not evenly spaced, so samples are missing or the file was edited; "
            "export it again"
        )
    return found
