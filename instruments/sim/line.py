"""Native kernels over a piecewise-constant quantity seen through one exponential pole.

Piece k holds the value ``x[k]`` from the end of piece k-1 to ``end_s[k]``; `y` is the filtered quantity, exact at
every end: y(t) = x + (y0 - x) exp(-(t - t0)/tau), the solution of tau y' = x - y for constant x. tau = 0 means y = x.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# Below any current of interest; nothing is computed any more before it crawls through denormal numbers.
NEGLIGIBLE = 1e-30


@njit(cache=True, nogil=True)
def append_pieces(
    start_s: float, y0: float, end_s: np.ndarray, x: np.ndarray, tau_s: float, y_out: np.ndarray, totals: np.ndarray
) -> None:
    """Filter the pieces into `y_out` and add their integrals to `totals` = (integral of x, integral of x*y).

    The integral of y over a piece of length d is x d + (y0 - x) tau (1 - exp(-d/tau)).
    """
    t = start_s
    y = y0
    charge = 0.0
    product = 0.0
    for k in range(end_s.shape[0]):
        d = end_s[k] - t
        value = x[k]
        if tau_s > 0.0:
            rise = -math.expm1(-d / tau_s)
            product += value * (value * d + (y - value) * tau_s * rise)
            y += (value - y) * rise
        else:
            product += value * value * d
            y = value
        charge += value * d
        y_out[k] = y
        t = end_s[k]
    totals[0] += charge
    totals[1] += product


@njit(cache=True, nogil=True)
def sample_pieces(
    start_s: float,
    y0: float,
    end_s: np.ndarray,
    x: np.ndarray,
    y_end: np.ndarray,
    tau_s: float,
    first_s: float,
    dt_s: float,
    out: np.ndarray,
    k: int,
    n_before: int,
) -> int:
    """Fill ``out[k:]`` with y at ``first_s + (n_before + k)*dt_s`` as far as the pieces reach; return the next k.

    Each value is computed by itself: a record filled in parts is, to the last bit, the one filled at once.
    """
    n = out.shape[0]
    t = start_s
    y = y0
    for piece in range(end_s.shape[0]):
        stop = end_s[piece]
        if k < n and first_s + (n_before + k) * dt_s <= stop:
            value = x[piece]
            difference = y - value if tau_s > 0.0 else 0.0
            while k < n and first_s + (n_before + k) * dt_s <= stop:
                out[k] = value
                if difference != 0.0:
                    elapsed = max(0.0, first_s + (n_before + k) * dt_s - t)
                    left = difference * math.exp(-elapsed / tau_s)
                    if abs(left) < NEGLIGIBLE:
                        difference = 0.0
                    else:
                        out[k] += left
                k += 1
        if k >= n:
            break
        t = stop
        y = y_end[piece]
    return k


@njit(cache=True, nogil=True)
def mean_pieces(
    start_s: float,
    y0: float,
    end_s: np.ndarray,
    x: np.ndarray,
    y_end: np.ndarray,
    tau_s: float,
    first_s: float,
    dt_s: float,
    out: np.ndarray,
    k: int,
    n_before: int,
) -> int:
    """Add to ``out[k:]`` the integrals of y over consecutive intervals, as far as the pieces reach; return the next k.

    Interval k spans ``first_s + (n_before + k)*dt_s`` and what follows it by `dt_s`. The integral over [a, b] inside a
    piece from t0 is x (b - a) + (y0 - x) tau (exp(-(a - t0)/tau) - exp(-(b - t0)/tau)).
    """
    n = out.shape[0]
    t = start_s
    y = y0
    for piece in range(end_s.shape[0]):
        stop = end_s[piece]
        value = x[piece]
        difference = y - value if tau_s > 0.0 else 0.0
        while k < n:
            a = max(first_s + (n_before + k) * dt_s, t)
            last = first_s + (n_before + k + 1) * dt_s
            b = min(last, stop)
            if b > a:
                out[k] += value * (b - a)
                if difference != 0.0:
                    before = difference * math.exp(-(a - t) / tau_s)
                    if abs(before) > NEGLIGIBLE:
                        out[k] -= before * tau_s * math.expm1(-(b - a) / tau_s)
            if last > stop:
                break
            k += 1
        if k >= n:
            break
        t = stop
        y = y_end[piece]
    return k


@njit(cache=True, nogil=True)
def first_crossing(
    start_s: float,
    y0: float,
    end_s: np.ndarray,
    x: np.ndarray,
    y_end: np.ndarray,
    tau_s: float,
    after_s: float,
    level: float,
    rising: bool,
) -> float:
    """Return the first time beyond `after_s` at which y passes `level` in the given direction; NaN for never.

    Within a piece y is monotonic, so that it passes a level at t0 + tau ln((x - y0)/(x - level)) or not at all.
    """
    sign = 1.0 if rising else -1.0
    t = start_s
    y = y0
    for piece in range(end_s.shape[0]):
        value = x[piece]
        # Without a pole the step happens at the start of the piece.
        y1 = y_end[piece] if tau_s > 0.0 else value
        if sign * (y - level) < 0.0 <= sign * (y1 - level):
            crossing = t
            if tau_s > 0.0 and value != level:
                ratio = (value - y) / (value - level)
                crossing = min(t + tau_s * math.log(ratio), end_s[piece]) if ratio > 0.0 else end_s[piece]
            if crossing > after_s:
                return crossing
        t = end_s[piece]
        y = y_end[piece]
    return math.nan
