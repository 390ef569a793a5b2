"""From sums over whole samples to integrals over exactly the windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis import kernels
from labctl.analysis.chain import Moments

# Sums of each channel, and for each pair of channels those of their products: what `kernels.sum_spans` gives.
SpanSums = tuple[Sequence[kernels.Sums], Mapping[tuple[int, int], np.ndarray]]
AtEdges = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Stretches:
    """Stretches [start, stop) in samples with a fraction, and the whole samples [begin, end) that hold them."""

    start: np.ndarray
    stop: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def mean_codes(sums: Sequence[kernels.Sums], n: int) -> np.ndarray:
    """Give the rounded mean of each channel's codes in the first n spans, 0 of floats: (channels,).

    Taking a whole number off keeps the second moments exact integers, and small.
    """
    return np.array([
        0 if s.total.dtype.kind == "f" else round(int(s.total[:n].sum()) / max(int(s.n[:n].sum()), 1)) for s in sums
    ])


def weigh(found: SpanSums, stretches: Stretches, shift: np.ndarray, edges: AtEdges) -> Moments:
    """Turn the sums of the first spans, one a stretch, into integrals over exactly the stretches.

    `edges` are the codes less `shift` at starts and stops, (stretches, channels) each.
    """
    sums, cross = found
    n = len(stretches.start)
    outside_first = 1 - (stretches.begin + 0.5 - stretches.start)
    outside_last = 1 - (stretches.stop - (stretches.end - 1) + 0.5)
    first = np.empty((n, len(sums)))
    second = np.empty((n, len(sums), len(sums)))
    for i, s in enumerate(sums):
        a, b = s.first[:n] - shift[i], s.last[:n] - shift[i]
        first[:, i] = (s.total[:n] - shift[i] * s.n[:n]) - outside_first * a - outside_last * b
        for j in range(i, len(sums)):
            t = sums[j]
            products = s.squares[:n] if i == j else cross[i, j][:n]
            whole = products - shift[i] * t.total[:n] - shift[j] * s.total[:n] + shift[i] * shift[j] * s.n[:n]
            part = outside_first * a * (t.first[:n] - shift[j]) + outside_last * b * (t.last[:n] - shift[j])
            second[:, i, j] = second[:, j, i] = whole - part
    return Moments(shift, stretches.stop - stretches.start, first, second, *edges)


def whole_inside(start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give the stretches of the samples that lie inside windows altogether, for an instrument that averages.

    Its sample is the mean over an interval, and that with an edge in it belongs to the window in part: half of it, were
    it weighted as an instant. The trigger's crossing lies between the sample before that one and the one after it.
    Windows of less than a few samples are left as they are.
    """
    first, last = np.ceil(start) + 0.5, np.floor(stop) - 0.5
    enough = last - first >= 1
    return np.where(enough, first, start), np.where(enough, last, stop)


def lengthened(m: Moments, weight: np.ndarray) -> Moments:
    """Let windows last `weight` samples, what they hold going on as it does on average."""
    ratio = weight / m.weight
    return Moments(m.shift, weight, m.first * ratio[:, None], m.second * ratio[:, None, None], m.start, m.stop)


def covariance(m: Moments) -> np.ndarray:
    """Give the covariance of the channels' codes inside each window, (windows, channels, channels)."""
    mean = m.first / m.weight[:, None]
    return m.second / m.weight[:, None, None] - mean[:, :, None] * mean[:, None, :]
