"""Keysight .dlog: the data logs of N6705 DC power analysers; `instruments.dlog` gives the layout.

The values stay on disk until they are used. What was not measured is NaN, and a gap of the record.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from instruments.dlog import DatalogHead, cleaned, find_gaps, parse_head, records_of
from instruments.errors import BadData
from instruments.record import Channel, Identity, Record
from labctl.errors import FileFault
from labctl.formats.foreign import ForeignFile

NAME = "keysight-dlog"


class _Column:
    """One column of the records on disk, as float32 of shape (1, records); slices are read and converted when used."""

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, values: np.ndarray) -> None:
        self._values = values[np.newaxis, :]
        self.shape = self._values.shape

    def __len__(self) -> int:
        return 1

    def __getitem__(self, key: Any) -> Any:
        return cleaned(self._values[key])[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return cleaned(self._values).astype(dtype or self.dtype, copy=False)


def matches(head: bytes) -> bool:
    """Recognise the root element, with or without an XML declaration or a comment before it."""
    start = head.lstrip()
    return start.startswith(b"<dlog>") or (start.startswith((b"<?xml", b"<!--")) and b"<dlog>" in start)


def read(path: Path) -> ForeignFile:
    """Read every quantity of a log; of a log that was cut, what is whole.

    Raises FileFault for a head that does not follow the layout and for a log without one whole record.
    """
    data = np.memmap(path, np.uint8, "r").view(np.ndarray)
    try:
        head = parse_head(data.data, str(path))
    except BadData as error:
        raise FileFault(f"{error}; copy it from the instrument again") from error
    records = records_of(data, head)
    if not len(records):
        raise FileFault(f"{path}: a Keysight data log without a whole record; copy it from the instrument again")
    gaps = find_gaps(records)
    channels = {
        column.name: Channel(
            column.name, _Column(records[:, index]), 1.0, 0.0, column.unit, label=f"output {column.output}"
        )
        for index, column in enumerate(head.columns)
    }
    instrument = Identity("Keysight", head.columns[0].model, "", "")
    record = Record(
        channels,
        head.dt_s,
        # A sample is the mean over the interval that ends with it; the file does not say where its trigger lies.
        np.array([head.dt_s]),
        instrument,
        granted={"averages": True},
        gaps=tuple((0, first, n) for first, n in gaps),
    )
    return ForeignFile(path, NAME, record, tuple(_warnings(data, head, len(records), gaps)))


def _warnings(data: np.ndarray, head: DatalogHead, n_records: int, gaps: tuple[tuple[int, int], ...]) -> list[str]:
    found = []
    n_left = (len(data) - head.data_start) % head.record_bytes
    if n_left:
        found.append(f"cut inside a record: its last {n_left} bytes are left out")
    if n_records * head.dt_s < head.planned_s - head.dt_s:
        found.append(f"the log ends early: {n_records * head.dt_s:.6g} s of {head.planned_s:.6g} s planned")
    if gaps:
        n_lost = sum(n for _, n in gaps)
        found.append(f"{n_lost} of {n_records} records hold a value beyond ±1e6: not measured, and gaps")
    return found
