"""The trigger line beside its codes: its edges, and one bit a sample, found once when the capture is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from instruments.record import Channel
from labctl.analysis.kernels import Edges
from labctl.analysis.trigger import Threshold, find_edges
from labctl.errors import CaptureError, ConfigError
from labctl.model import Wiring

# Edges closer than this on average are those of noise, and take more room than the codes.
_SAMPLES_PER_EDGE_MIN = 16

ARRAYS = ("segment", "position", "rising", "level")


@dataclass(frozen=True)
class StoredTrigger:
    """What `find_edges` gave for a channel; for the same `asked` threshold and hysteresis it would give it again.

    `bits` has shape (segments, (samples + 7) // 8): the line's level, first sample in the highest bit
    (`numpy.packbits`), read when sliced. A sample on the threshold itself counts to either side.
    """

    asked: tuple[float | None, float | None]
    edges: Edges
    cut: Threshold
    bits: Any


def find(channel: Channel, wiring: Wiring) -> tuple[Edges, Threshold] | None:
    """Find the edges of a trigger channel; None where it does not switch (the DUT unpowered, a fault) or is noise."""
    try:
        edges, cut = find_edges(channel, wiring.threshold, wiring.hysteresis)
    except (CaptureError, ConfigError):
        return None
    n_segments, n_samples = channel.codes.shape
    worth_keeping = len(edges.position) <= 4 * n_segments + n_segments * n_samples // _SAMPLES_PER_EDGE_MIN
    return (edges, cut) if worth_keeping else None


def describe(wiring: Wiring, edges: Edges, cut: Threshold) -> dict[str, Any]:
    """Give what is not an array, for the metadata."""
    return {
        "asked": (wiring.threshold, wiring.hysteresis),
        "cut": (cut.level, cut.hysteresis, cut.low, cut.high),
        "line": (edges.low, edges.high, edges.n_middle),
    }


def restore(described: dict[str, Any], arrays: dict[str, np.ndarray], bits: Any) -> StoredTrigger:
    """Build it again from the metadata and the arrays."""
    low, high, n_middle = described["line"]
    edges = Edges(**arrays, low=low, high=high, n_middle=n_middle)
    return StoredTrigger(tuple(described["asked"]), edges, Threshold(*described["cut"]), bits)


def packed_bits(edges: Edges, blocks: Iterator[tuple[int, int, int, int]]) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Pack the line's level block by block: (segments, bytes, packed); blocks begin at multiples of eight samples."""
    limits = np.searchsorted(edges.segment, np.arange(len(edges.level) + 1))
    first_after = np.ceil(edges.position).astype(np.int64)
    for row, row_stop, column, column_stop in blocks:
        part = slice(limits[row], limits[row_stop])
        n_rows, width = row_stop - row, column_stop - column
        # The line holds its level from each turn, and from the start of each row, to the next: all rows in one.
        starts = limits[row:row_stop] - limits[row] + np.arange(n_rows)
        is_turn = np.ones(n_rows + part.stop - part.start, bool)
        is_turn[starts] = False
        turns, levels = np.empty(len(is_turn), np.int64), np.empty(len(is_turn), np.uint8)
        turns[starts], levels[starts] = np.arange(n_rows) * width, edges.level[row:row_stop]
        turns[is_turn] = (edges.segment[part] - row) * width + np.clip(first_after[part] - column, 0, width)
        levels[is_turn] = edges.rising[part]
        line = np.repeat(levels, np.diff(turns, append=n_rows * width)).reshape(n_rows, width)
        packed = np.packbits(line, axis=1)
        yield slice(row, row_stop), slice(column // 8, column // 8 + packed.shape[1]), packed
