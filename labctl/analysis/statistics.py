"""Statistics over the runs of a series: centre, spread, and whether the runs are alike and independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

_LAG_VALUES_MIN = 10


@dataclass(frozen=True)
class Summary:
    """What n values say. `std` has n - 1 in its denominator; `se` is std / sqrt(n_effective).

    `lag1` is the autocorrelation of neighbours and `n_effective` the number of independent values that know as much.
    `drift` is the least-squares slope per run; `drift_p` and `lag1_p` are the probabilities of a drift so steep and of
    an autocorrelation so far from nought where there is none. Nothing here sees an error that all runs share.
    """

    n: int
    mean: float
    std: float
    se: float
    median: float
    quartile_low: float
    quartile_high: float
    greatest: float
    lag1: float
    lag1_p: float
    n_effective: float
    drift: float
    drift_p: float


def summarize(values: Sequence[float] | np.ndarray) -> Summary:
    """Summarise values in the order they were taken. Raises ValueError for none, or for one that is no number."""
    v = np.asarray(values, dtype=np.float64)
    n = len(v)
    if n == 0 or not np.isfinite(v).all():
        raise ValueError(f"statistics need one or more finite values, not {values!r}")
    # Distances to the first value are exactly zero where all are equal.
    rest = v - v[0]
    mean_rest = math.fsum(rest) / n
    mean = float(v[0] + mean_rest)
    residual = rest - mean_rest
    squares = math.fsum(residual * residual)
    std = math.sqrt(squares / (n - 1)) if n > 1 else 0.0
    lag1 = math.fsum(residual[1:] * residual[:-1]) / squares if squares > 0 else 0.0
    quartile_low, median, quartile_high = (float(q) for q in np.quantile(v, [0.25, 0.5, 0.75]))
    drift, drift_p = _drift(residual, squares)
    return Summary(
        n, mean, std, std / math.sqrt(effective_number(n, lag1)), median, quartile_low, quartile_high, float(v.max()),
        lag1, _lag1_p(n, lag1) if squares > 0 else 1.0, effective_number(n, lag1), drift, drift_p,
    )


def effective_number(n: int, lag1: float) -> float:
    """Count the independent values that n values with autocorrelation lag1 are worth.

    n (1 - r) / (1 + r) holds for a first-order autoregression (Bayley and Hammersley, J. R. Stat. Soc. Suppl. 8, 1946).
    A lag1 below 2 / sqrt(n), which independent values reach by chance, and a negative one leave n as it is.
    """
    if n < 3 or lag1 <= 2 / math.sqrt(n):
        return float(n)
    return max(1.0, n * (1 - lag1) / (1 + lag1))


def student_factor(degrees_of_freedom: float, level: float = 0.95) -> float:
    """Give the half-width of a two-sided Student interval in standard deviations."""
    if degrees_of_freedom <= 0:
        return math.inf
    if math.isinf(degrees_of_freedom):
        return float(special.ndtri((1 + level) / 2))
    return float(special.stdtrit(degrees_of_freedom, (1 + level) / 2))


def _drift(residual: np.ndarray, squares: float) -> tuple[float, float]:
    """Fit a line through residuals over their index: slope, and two-sided p of no slope (t test, n - 2)."""
    n = len(residual)
    if n < 3 or squares == 0:
        return 0.0, 1.0
    index = np.arange(n) - (n - 1) / 2
    spread = math.fsum(index * index)
    slope = math.fsum(index * residual) / spread
    rest = max(squares - slope * slope * spread, 0.0)
    if rest <= 1e-24 * squares:
        return slope, 0.0
    t = abs(slope) / math.sqrt(rest / (n - 2) / spread)
    return slope, float(2 * special.stdtr(n - 2, -t))


def _lag1_p(n: int, lag1: float) -> float:
    """Give the two-sided p of no autocorrelation: independent values have mean -1/n and variance (n-2)^2 / (n^2 (n-1)).

    Moran, Some theorems on time series II, Biometrika 35, 1948. Normal enough from ten values; fewer tell nothing.
    """
    if n < _LAG_VALUES_MIN:
        return 1.0
    return float(2 * special.ndtr(-abs(lag1 + 1 / n) * n * math.sqrt(n - 1) / (n - 2)))


def reach(n: float) -> float:
    """Tell how far the greatest of n normal values reaches: the standard deviations that one in n exceeds."""
    return float(-special.ndtri(1 / n))
