"""Read the data log files (.dlog) that Keysight N6705 DC power analysers write.

Layout, as dlog-viewer (derf) and files of N6705B show it; the maker publishes none: an XML head, which may begin with a
comment, up to the closing ``dlog`` tag and its line end, 8 bytes of unknown use, then records of big-endian float32,
interleaved over what was logged, by output, voltage before current. With ``frame/sense_minmax`` each quantity has three
values: mean, least, largest. ``frame/tint`` is the interval in seconds, ``frame/time`` the planned length. Some element
names in the head start with a digit, which no XML parser takes. Values beyond ±1e6 mark what was not measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any
from xml.etree import ElementTree

import numpy as np

from instruments.errors import BadData

CLOSING_TAG = b"</dlog>"
HEAD_BYTES_MAX = 1 << 20
UNKNOWN_BYTES = 8
VALUE_BYTES = 4
VALUE_TYPE = np.dtype(">f4")
INVALID_FROM = 1e6
STATISTICS = ("", "_MIN", "_MAX")
_DIGIT_NAME = re.compile(rb"<(/?)(?=\d)")
_BLOCK = 1 << 20


@dataclass(frozen=True)
class DatalogColumn:
    """One value of each record: channel name (V1, I1, V1_MIN), unit, number and model of the output."""

    name: str
    unit: str
    output: int
    model: str


@dataclass(frozen=True)
class DatalogHead:
    """What the head of a file says; the records begin at byte `data_start`."""

    columns: tuple[DatalogColumn, ...]
    dt_s: float
    planned_s: float
    data_start: int

    @property
    def record_bytes(self) -> int:
        """Return the size of a record."""
        return VALUE_BYTES * len(self.columns)


def parse_head(data: bytes | memoryview, where: str) -> DatalogHead:
    """Read the head at the beginning of `data`. Raises BadData, naming `where`, for what does not follow the layout."""
    start = bytes(data[:HEAD_BYTES_MAX])
    end = start.find(CLOSING_TAG)
    if end < 0:
        raise BadData(f"{where}: no {CLOSING_TAG.decode()} ends the head of a data log: {start[:32]!r}")
    end += len(CLOSING_TAG)
    text = start[:end].lstrip()
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise BadData(f"{where}: the head of the data log holds declarations, which no N6705 writes")
    try:
        root = ElementTree.fromstring(_DIGIT_NAME.sub(rb"<\1_", text))
    except ElementTree.ParseError as error:
        raise BadData(f"{where}: the head of the data log is not well formed ({error})") from error
    n_values = 3 if _number(root, "frame/sense_minmax", where, default="0") else 1
    dt_s = _number(root, "frame/tint", where)
    if not 0 < dt_s < inf:
        raise BadData(f"{where}: the head of the data log gives no sample interval: frame/tint is {dt_s:g}")
    columns = tuple(
        DatalogColumn(f"{letter}{output}{statistic}", unit, output, channel.findtext("ident/model", "").strip())
        for channel in root.findall("channel")
        for output in [_output(channel, where)]
        for tag, letter, unit in (("sense_volt", "V", "V"), ("sense_curr", "I", "A"))
        if _number(channel, tag, where)
        for statistic in STATISTICS[:n_values]
    )
    names = [column.name for column in columns]
    if not names or len(set(names)) < len(names):
        raise BadData(f"{where}: the data log logs nothing, or an output twice: {', '.join(names) or 'no quantity'}")
    line_end = re.match(rb"\r?\n", start[end:])
    end += len(line_end[0]) if line_end else 0
    planned_s = _number(root, "frame/time", where, default="nan")
    return DatalogHead(columns, dt_s, planned_s, end + UNKNOWN_BYTES)


def records_of(data: np.ndarray[Any, Any], head: DatalogHead) -> np.ndarray[Any, Any]:
    """View the whole records in `data`, the bytes of a file, as big-endian float32 of shape (records, columns)."""
    body = data[head.data_start :]
    n_records = len(body) // head.record_bytes
    return body[: n_records * head.record_bytes].view(VALUE_TYPE).reshape(n_records, len(head.columns))


def cleaned(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Copy values as float32 of this machine's byte order, NaN where a marker stands."""
    clean = np.asarray(values).astype(np.float32)
    clean[~(np.abs(clean) <= INVALID_FROM)] = np.nan
    return clean


def find_gaps(records: np.ndarray[Any, Any]) -> tuple[tuple[int, int], ...]:
    """Find stretches (first record, number of records) in which any value is a marker; block by block."""
    edges: list[int] = []
    inside = False
    for first in range(0, len(records), _BLOCK):
        invalid = ~(np.abs(records[first : first + _BLOCK]) <= INVALID_FROM).all(axis=1)
        flags = np.concatenate(([inside], invalid))
        edges += (first + np.flatnonzero(flags[1:] != flags[:-1])).tolist()
        inside = bool(flags[-1])
    if inside:
        edges.append(len(records))
    return tuple((start, stop - start) for start, stop in list(pairwise(edges))[::2])


def _output(channel: ElementTree.Element, where: str) -> int:
    number = channel.get("id", "")
    if not (number.isascii() and number.isdigit()):
        raise BadData(f"{where}: an output of the data log has no number but {number!r}")
    return int(number)


def _number(element: ElementTree.Element, path: str, where: str, default: str | None = None) -> float:
    text = element.findtext(path, default)
    try:
        return float(text if text is not None else "")
    except ValueError as error:
        raise BadData(f"{where}: {path} in the head of the data log must be a number, not {text!r}") from error
