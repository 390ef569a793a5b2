"""The converter's step behind values that a file gives as floats: they lie on a grid, or they do not."""

from __future__ import annotations

import math

import numpy as np

from instruments.record import Channel

_STRETCHES = 8
_STRETCH_SAMPLES = 8192
# A converter's values repeat: far fewer of them are distinct than there are samples. No converter here has more bits.
_DISTINCT_RATIO_MAX = 0.25
_STEPS_MAX = 1 << 16
# Text rounds the values; what is off a grid by more than this part of a step lies on none.
_OFF_GRID_RATIO = 0.25


def code_step(channel: Channel) -> float:
    """Give the converter's step in codes: 1 for integers, found from a sample of floats, NaN where there is none."""
    codes = channel.codes
    if np.dtype(codes.dtype).kind in "iu":
        return 1.0
    n_segments, n_samples = codes.shape
    length = min(_STRETCH_SAMPLES, n_samples)
    places = [(k * n_segments // _STRETCHES, (n_samples - length) * k // (_STRETCHES - 1)) for k in range(_STRETCHES)]
    parts = [codes[segment, first : first + length] for segment, first in dict.fromkeys(places)]
    seen = np.concatenate(parts).astype(np.float64)
    return _grid(seen[np.isfinite(seen)])


def _grid(values: np.ndarray) -> float:
    distinct = np.unique(values)
    if not 2 <= len(distinct) <= _DISTINCT_RATIO_MAX * len(values):
        return math.nan
    gaps = np.diff(distinct)
    # The smallest gap is a step that rounding made smaller; its like, and then all of them, tell it better.
    step = float(np.median(gaps[gaps <= 1.5 * gaps.min()]))
    n_steps = np.cumsum(np.rint(gaps / step))
    if n_steps[-1] > _STEPS_MAX:
        return math.nan
    step = float((distinct[-1] - distinct[0]) / n_steps[-1])
    off = np.abs((distinct[1:] - distinct[0]) / step - n_steps)
    return step if off.max() <= _OFF_GRID_RATIO else math.nan
