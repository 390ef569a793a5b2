"""Keysight and Agilent InfiniiVision .csv: a row of names, a row of units, then time and one column a channel."""

from __future__ import annotations

from instruments.record import Identity
from labctl.formats.foreign import ForeignFile, unit_symbol
from labctl.formats.text import Sheet
from labctl.formats.timed import timed_file

NAME = "keysight-csv"


def matches(sheet: Sheet) -> bool:
    """Recognise `x-axis,1,2` above `second,Volt,Volt`."""
    return len(sheet.header) >= 2 and sheet.header[0][0].lower() == "x-axis" and unit_symbol(sheet.header[1][0]) == "s"


def read(sheet: Sheet) -> ForeignFile:
    """Read the sheet. Raises FileFault."""
    return timed_file(sheet, NAME, Identity("Keysight", "", "", ""))
