"""What a digital line does, seen by an oscilloscope: its two levels, how long it is at each, its edges."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from instruments.record import Channel
from labctl.analysis import kernels

# Samples of noise alone, parted at their middle, lie 2.6 standard deviations of a part apart if they are normal (two
# halves of a normal distribution), 3.5 if they are uniform; six of them cannot be one level.
_APART = 6.0
_HYSTERESIS_RATIO = 0.2
_FLOAT_BINS = 4096


@dataclass(frozen=True)
class Line:
    """A channel as a line of two levels, `low` and `high`, in its unit; both are the mean where it does not switch.

    `noise` is the standard deviation about the levels. `high_ratio` is the part of the time at the higher level.
    `edges` are those at the middle of the levels, positions in samples. `clipped_ratio` is the part of the samples at
    the ends of the range.
    """

    name: str
    low: float
    high: float
    noise: float
    high_ratio: float
    clipped_ratio: float
    edges: kernels.Edges | None
    n_samples: int

    @property
    def switches(self) -> bool:
        """Tell whether there are two levels."""
        return self.edges is not None

    @property
    def swing(self) -> float:
        """Give the difference of the levels."""
        return self.high - self.low

    @property
    def middle(self) -> float:
        """Give the middle of the levels."""
        return (self.low + self.high) / 2

    def stretches(self, high: bool) -> np.ndarray:
        """Give the lengths, in samples, of the stretches at one level that lie whole inside the record."""
        if self.edges is None:
            return np.zeros(0)
        position, rising, segment = self.edges.position, self.edges.rising, self.edges.segment
        inside = (rising[:-1] == high) & (segment[1:] == segment[:-1])
        return np.diff(position)[inside]


def read_line(channel: Channel) -> Line:
    """Find the levels of a line by its histogram, parted in the middle (IEEE Std 181-2011, means of the two parts).

    `channel.codes` has shape (segments, samples), whole numbers or floats.
    """
    codes = np.asarray(channel.codes)
    values, counts = _histogram(codes)
    at_end = np.zeros(len(values), bool)
    if channel.code_min is not None:
        at_end |= values <= channel.code_min
    if channel.code_max is not None:
        at_end |= values >= channel.code_max
    n = int(counts.sum())
    upper = values >= (values[0] + values[-1]) / 2
    clipped_ratio = float(counts[at_end].sum() / n)
    if upper.all() or not upper.any():
        level = float(values[0]) * channel.scale + channel.offset
        return Line(channel.name, level, level, 0.0, 0.0, clipped_ratio, None, codes.shape[1])
    (low, low_square), (high, high_square) = (_moments(values[part], counts[part]) for part in (~upper, upper))
    n_high = int(counts[upper].sum())
    inner = np.sqrt((low_square * (n - n_high) + high_square * n_high) / n)
    rounding = 1 / math.sqrt(12) if codes.dtype.kind in "iu" else 0.0  # noise of less than a code shows as two codes
    if high - low <= _APART * math.hypot(inner, rounding):
        mean, square = _moments(values, counts)
        level = mean * channel.scale + channel.offset
        return Line(
            channel.name, level, level, np.sqrt(square) * abs(channel.scale), 0.0, clipped_ratio, None, codes.shape[1]
        )
    edges = kernels.edges_from_codes(codes, (low + high) / 2, _HYSTERESIS_RATIO * (high - low))
    ends = sorted((low * channel.scale + channel.offset, high * channel.scale + channel.offset))
    high_ratio = n_high / n
    if channel.scale < 0:
        high_ratio = 1 - high_ratio
        edges = kernels.Edges(edges.segment, edges.position, ~edges.rising, ~edges.level, edges.low, edges.high)
    return Line(
        channel.name, ends[0], ends[1], float(inner) * abs(channel.scale), high_ratio, clipped_ratio, edges,
        codes.shape[1],
    )


def _histogram(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the codes: values, ascending, and how many there are of each; floats in bins."""
    if codes.dtype.kind in "iu":
        low = int(codes.min())
        # A copy of a small type only where codes may be negative.
        shifted = codes.ravel() if low >= 0 else codes.ravel().astype(np.int64) - low
        counts = np.bincount(shifted)
        values = np.arange(len(counts), dtype=np.float64) + min(low, 0)
    else:
        finite = codes[np.isfinite(codes)]
        if finite.size == 0 or finite.min() == finite.max():
            return np.array([finite.flat[0] if finite.size else np.nan]), np.array([max(finite.size, 1)])
        counts, limits = np.histogram(finite, _FLOAT_BINS)
        values = (limits[1:] + limits[:-1]) / 2
    used = np.flatnonzero(counts)
    return values[used], counts[used]


def _moments(values: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """Give mean and variance of a histogram."""
    mean = float(values @ counts / counts.sum())
    return mean, float((values - mean) ** 2 @ counts / counts.sum())
