"""Mean, deviation and extremes of any range of a capture, and its outline for figures, from the pyramid of sums."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from instruments.record import Channel, Record
from labctl.model import Capture
from labctl.store.pyramid import Sums, sum_range
from labctl.store.read import open_capture

# A level serves an outline whose columns are at least this many of its blocks wide.
_BLOCKS_PER_COLUMN = 8


@dataclass(frozen=True)
class RangeStatistics:
    """Statistics of the samples of one range, in the channel's unit `unit`.

    `std` is the population's (divided by n). `n_gap` samples of the range were lost and `n_invalid` are no finite
    number; both are left out of everything else. NaN where no sample is left.
    """

    n_samples: int
    n_gap: int
    n_invalid: int
    mean: float
    std: float
    minimum: float
    maximum: float
    unit: str


@dataclass(frozen=True)
class Envelope:
    """The outline of one range in columns: `minimum`, `maximum`, `mean`, shape (columns,), in the channel's `unit`.

    Column k covers samples [position[k], position[k + 1]); `position` has shape (columns + 1,). A column of which
    nothing was recorded is NaN.
    """

    position: np.ndarray
    minimum: np.ndarray
    maximum: np.ndarray
    mean: np.ndarray
    unit: str


def range_statistics(
    source: Path | str | Capture,
    record: str,
    channel: str,
    segment: int = 0,
    start: int = 0,
    stop: int | None = None,
) -> RangeStatistics:
    """Summarise samples [start, stop) of one segment; sums of integer codes are exact.

    With n codes c: mean = sum(c) / n and variance = (n sum(c^2) - sum(c)^2) / n^2, both as exact fractions, rounded
    once. Raises KeyError for a name and IndexError for a range that the capture does not have.
    """
    with _channel(source, record, channel) as (held, line):
        stop = held.n_samples if stop is None else stop
        _check_range(held, segment, start, stop)
        total, n_gap = _sum_kept(held, line, segment, start, stop)
    minimum, maximum = _extremes(total, line)
    mean, std = _moments(total)
    return RangeStatistics(
        total.n_samples,
        n_gap,
        total.n_invalid,
        mean * line.scale + line.offset,
        std * abs(line.scale),
        minimum,
        maximum,
        line.unit,
    )


def envelope(
    source: Path | str | Capture,
    record: str,
    channel: str,
    segment: int = 0,
    start: int = 0,
    stop: int | None = None,
    n_columns: int = 1000,
) -> Envelope:
    """Outline samples [start, stop) of one segment in at most `n_columns` columns.

    Where a column is wider than a block of the pyramid, columns are cut between blocks, so that nothing but the two
    ends is read from the codes. Raises KeyError for a name and IndexError for a range that the capture does not have.
    """
    with _channel(source, record, channel) as (held, line):
        stop = held.n_samples if stop is None else stop
        _check_range(held, segment, start, stop)
        if n_columns < 1:
            raise IndexError(f"an outline needs at least one column, not {n_columns}")
        block = _block_for((stop - start) // n_columns, _pyramid(line))
        position = _cuts(start, stop, n_columns, block)
        n_found = len(position) - 1
        low, high, mean = (np.full(n_found, math.nan) for _ in range(3))
        alone = range(n_found)
        if block and n_found > 2 and not any(gap[0] == segment for gap in held.gaps):
            # Columns between the two ends are whole blocks: one reading of the level serves them all.
            low[1:-1], high[1:-1], mean[1:-1] = _join_blocks(_pyramid(line)[block], block, segment, position[1:-1])
            alone = range(0, n_found, n_found - 1)
        for k in alone:
            column, _ = _sum_kept(held, line, segment, int(position[k]), int(position[k + 1]))
            if column.n_samples:
                low[k], high[k], mean[k] = column.minimum, column.maximum, _moments(column)[0]
    if line.scale < 0:
        low, high = high, low
    low, high, mean = (codes * line.scale + line.offset for codes in (low, high, mean))
    return Envelope(position, low, high, mean, line.unit)


@contextmanager
def _channel(source: Path | str | Capture, record: str, channel: str) -> Iterator[tuple[Record, Channel]]:
    if not isinstance(source, Capture):
        with open_capture(source) as capture, _channel(capture, record, channel) as found:
            yield found
        return
    held = source.records.get(record)
    if held is None or channel not in held.channels:
        names = ", ".join(f"{r}/{c}" for r, one in source.records.items() for c in one.channels)
        raise KeyError(f"the capture has no {record}/{channel}; it has {names or 'nothing'}")
    yield held, held.channels[channel]


def _check_range(record: Record, segment: int, start: int, stop: int) -> None:
    if not (0 <= segment < record.n_segments and 0 <= start <= stop <= record.n_samples):
        raise IndexError(
            f"samples [{start}, {stop}) of segment {segment} lie outside the record: "
            f"{record.n_segments} segments of {record.n_samples} samples"
        )


def _pyramid(channel: Channel) -> Mapping[int, Mapping[str, Any]]:
    return getattr(channel.codes, "pyramid", {})


def _sum_kept(record: Record, channel: Channel, segment: int, start: int, stop: int) -> tuple[Sums, int]:
    """Sum what of [start, stop) lies in no gap; also count what does."""
    total, n_gap, position = Sums(), 0, start
    for _, first, length in sorted(gap for gap in record.gaps if gap[0] == segment):
        low, high = max(first, position), min(first + length, stop)
        if low < high:
            total += sum_range(channel.codes, _pyramid(channel), segment, position, low)
            n_gap += high - low
            position = high
    return total + sum_range(channel.codes, _pyramid(channel), segment, position, stop), n_gap


def _moments(total: Sums) -> tuple[float, float]:
    """Give mean and standard deviation in codes."""
    n = total.n_samples
    if not n:
        return math.nan, math.nan
    spread = n * Fraction(total.total_squares) - Fraction(total.total) ** 2
    return float(Fraction(total.total) / n), math.sqrt(max(spread, Fraction(0)) / n**2)


def _extremes(total: Sums, channel: Channel) -> tuple[float, float]:
    if not total.n_samples:
        return math.nan, math.nan
    ends = (total.minimum * channel.scale + channel.offset, total.maximum * channel.scale + channel.offset)
    return min(ends), max(ends)


def _block_for(width: int, pyramid: Mapping[int, Any]) -> int:
    """Choose the pyramid's level for columns of this width; 0 where only the codes are fine enough."""
    fit = [block for block in pyramid if block * _BLOCKS_PER_COLUMN <= width]
    return max(fit) if fit else min((block for block in pyramid if block <= width), default=0)


def _cuts(start: int, stop: int, n_columns: int, block: int) -> np.ndarray:
    n_columns = max(1, min(n_columns, stop - start))
    cuts = start + (stop - start) * np.arange(n_columns + 1, dtype=np.int64) // n_columns
    if block:
        cuts[1:-1] = (cuts[1:-1] + block // 2) // block * block
    return np.unique(cuts) if stop > start else cuts[:1]


def _join_blocks(
    level: Mapping[str, Any], block: int, segment: int, position: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give minimum, maximum and mean code between the given positions, all multiples of `block`."""
    first, last = int(position[0]) // block, int(position[-1]) // block
    at = position[:-1] // block - first
    total = np.add.reduceat(level["sum"][segment, first:last], at)
    return (
        np.minimum.reduceat(level["minimum"][segment, first:last], at),
        np.maximum.reduceat(level["maximum"][segment, first:last], at),
        total / np.diff(position),
    )
