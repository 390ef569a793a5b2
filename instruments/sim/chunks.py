"""The line of core current in runs of pieces, and what is computed over several of them; see `line` for the pole."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass
class Chunk:
    """A run of pieces with the state before them."""

    start_s: float
    y0: float
    end_s: np.ndarray
    x: np.ndarray
    y_end: np.ndarray
    totals_before: np.ndarray

    def after(self, t_s: float) -> tuple[float, float, np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the pieces that end at `t_s` or later, with time and value before them; None where there are none."""
        skip = int(np.searchsorted(self.end_s, t_s))
        if skip == len(self.end_s):
            return None
        start_s, y0 = (self.end_s[skip - 1], self.y_end[skip - 1]) if skip else (self.start_s, self.y0)
        return start_s, y0, self.end_s[skip:], self.x[skip:], self.y_end[skip:]


def overlapping(chunks: list[Chunk], from_s: float, to_s: float) -> list[Chunk]:
    """Return the chunks that reach into [from_s, to_s]."""
    first = bisect_left(chunks, from_s, key=lambda c: c.end_s[-1])
    last = bisect_right(chunks, to_s, key=lambda c: c.start_s)
    return chunks[first:last]


def sample(
    chunks: Sequence[Chunk], tau_s: float, t0_s: float, dt_s: float, n: int, n_before: int, beyond: float
) -> np.ndarray:
    """Return the filtered line at ``t0_s + (n_before + k)*dt_s``, float64 of shape (n,); `beyond` its end that value.

    Times before the first chunk read its oldest value.
    """
    from instruments.sim import line

    out = np.empty(n)
    k = 0
    for chunk in chunks:
        pieces = chunk.after(t0_s + (n_before + k) * dt_s)
        if pieces is not None:
            k = line.sample_pieces(*pieces, tau_s, t0_s, dt_s, out, k, n_before)
    out[k:] = beyond
    return out


def mean(
    chunks: Sequence[Chunk], tau_s: float, t0_s: float, dt_s: float, n: int, n_before: int, beyond: float
) -> np.ndarray:
    """Return the filtered line's mean over n consecutive intervals from ``t0_s + n_before*dt_s``, float64 (n,).

    Times before the first chunk count with its oldest value, those after the last with `beyond`.
    """
    from instruments.sim import line

    first_s, last_s = t0_s + n_before * dt_s, t0_s + (n_before + n) * dt_s
    if not chunks:
        return np.full(n, beyond)
    out = np.zeros(n)

    def steady(start_s: float, end_s: float, value: float, k: int) -> None:
        one = np.array([value])
        line.mean_pieces(start_s, value, np.array([end_s]), one, one, 0.0, t0_s, dt_s, out, k, n_before)

    if first_s < chunks[0].start_s:
        steady(first_s, chunks[0].start_s, chunks[0].y0, 0)
    k = 0
    for chunk in chunks:
        pieces = chunk.after(t0_s + (n_before + k) * dt_s)
        if pieces is not None:
            k = line.mean_pieces(*pieces, tau_s, t0_s, dt_s, out, k, n_before)
    if k < n:
        steady(float(chunks[-1].end_s[-1]), last_s + dt_s, beyond, k)
    out /= dt_s
    return out


def crossing(chunks: Sequence[Chunk], tau_s: float, after_s: float, level: float, rising: bool) -> float:
    """Return when the filtered line first passes `level` beyond `after_s`; NaN where it does not."""
    from instruments.sim import line

    for chunk in chunks:
        t = line.first_crossing(
            chunk.start_s, chunk.y0, chunk.end_s, chunk.x, chunk.y_end, tau_s, after_s, level, rising
        )
        if not math.isnan(t):
            return t
    return math.nan
