"""Statistics over the runs of a series: centre, spread, and whether the runs are alike and independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

_LAG_VALUES_MIN = 10
# An autocorrelation counts from one standard deviation above that of independent values: one such series in six.
_PERSISTENT_Z = 1.0
_NODES_MIN = 64
_LEVEL = 0.95


@dataclass(frozen=True)
class Summary:
    """What n values say. `std` has n - 1 in its denominator.

    The mean plus and minus Student's factor at `degrees_of_freedom` times `se` is its interval, autocorrelation
    included (`errors_of_means`); `n_effective` is the number of independent values that would know the mean as well
    and `lag1` the autocorrelation of neighbours as found. `drift` is the least-squares slope per run; `drift_p` and
    `lag1_p` are the probabilities of a drift so steep and of an autocorrelation so far from nought where there is
    none. Nothing here sees an error that all runs share.
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
    degrees_of_freedom: float


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
    se, degrees_of_freedom, n_effective = (float(found[0]) for found in errors_of_means(residual[None]))
    return Summary(
        n, mean, std, se, median, quartile_low, quartile_high, float(v.max()), lag1,
        _lag1_p(n, lag1) if squares > 0 else 1.0, n_effective, drift, drift_p, degrees_of_freedom,
    )


def errors_of_means(residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give standard error, degrees of freedom and effective number of the mean of each row of n values.

    `residuals`, shape (series, n), are distances to the mean of their row. Independent values have std / sqrt(n) and
    n - 1. So have those whose lag-1 autocorrelation lies less than one standard deviation above what independent ones
    show, and fewer than ten, which cannot tell: what independent series lose is kept small that way, at the price of
    some coverage where neighbours are correlated a little. All others are taken for a first-order autoregression
    (`_persistent`). Of intervals made for 95 %, simulation finds these to hold the mean: with 20 values 96 %, 93 %,
    94 % and 93 % at autocorrelations of 0, 0.3, 0.6 and 0.9; with 100 and more 95 to 96 %.
    """
    n_series, n = residuals.shape
    squares = np.einsum("ij,ij->i", residuals, residuals)
    se = np.sqrt(squares / (max(n - 1, 1) * n))
    degrees, n_effective = np.full(n_series, n - 1.0), np.full(n_series, float(n))
    if n >= _LAG_VALUES_MIN:
        products = np.einsum("ij,ij->i", residuals[:, 1:], residuals[:, :-1])
        lag1 = np.divide(products, squares, out=np.full(n_series, -1.0), where=squares > 0)
        told = _lag1_z(n, lag1) > _PERSISTENT_Z
        if told.any():
            se[told], degrees[told], n_effective[told] = _persistent(residuals[told])
    return se, degrees, n_effective


def _persistent(residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Do the work of `errors_of_means` for rows of a normal first-order autoregression of unknown coefficient rho >= 0.

    The sample's own autocorrelation would do badly: it is low by (1 + 4 rho) / n (Marriott and Pope, Biometrika 41,
    1954), and so is the sample variance. So mean and scale are integrated out, which leaves the restricted likelihood
    of rho (Harville, Biometrika 61, 1974), and rho is averaged over with Jeffreys' prior for it, 1 / sqrt(1 - rho^2)
    (Berger and Yang, Econometric Theory 10, 1994): equal weights for equal steps of arcsin(rho). For each rho the
    precision of the mean has a gamma distribution; the average's first two moments are those of the gamma that leads
    to Student's distribution with the standard error and the degrees of freedom returned, at least one. A 95 %
    interval wider than the span of the values on either side of the mean is cut there, by more degrees of freedom:
    where neighbours are strongly correlated that halves the intervals, for less than half a percent of coverage from 20
    values on (for 10, six).
    """
    n = residuals.shape[1]
    nodes = max(_NODES_MIN, 4 * math.isqrt(n))
    rho = np.sin((np.arange(nodes) + 0.5) / nodes * math.pi / 2)
    inside = 1 - rho * rho
    first, last = residuals[:, 0], residuals[:, -1]
    squares = np.einsum("ij,ij->i", residuals, residuals)[:, None]
    products = np.einsum("ij,ij->i", residuals[:, 1:], residuals[:, :-1])[:, None]
    # With R the matrix of correlations, whose inverse has three diagonals: 1'R^-1 1, 1'R^-1 x and x'R^-1 x.
    ones = (n - (n - 2) * rho) / (1 + rho)
    cross = rho / (1 + rho) * (first + last)[:, None]
    whole = ((1 + rho * rho) * squares - rho * rho * (first**2 + last**2)[:, None] - 2 * rho * products) / inside
    rest = whole - cross * cross / ones
    log_weight = -0.5 * ((n - 1) * np.log(inside * rest / squares) + np.log(ones))
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    number = effective_number(n, rho)
    precision = number * (n - 1) / rest
    mean = (weight * precision).sum(axis=1)
    square = (weight * precision * precision).sum(axis=1) * (1 + 2 / (n - 1))
    degrees = np.maximum(2 / (square / (mean * mean) - 1), 1.0)
    span = np.ptp(residuals, axis=1)
    se = np.minimum(1 / np.sqrt(mean), span / student_factor(n - 1))
    degrees = np.maximum(degrees, np.minimum(special.stdtridf((1 + _LEVEL) / 2, span / se), n - 1))
    return se, degrees, (weight * number).sum(axis=1)


def effective_number(n: int, rho: np.ndarray) -> np.ndarray:
    """Count the independent values whose mean scatters as that of n with autocorrelation rho^k at distance k.

    n / (1 + 2 sum over k of (1 - k/n) rho^k), the sum in closed form (Bayley and Hammersley, J. R. Stat. Soc. Suppl.
    8, 1946). At least 1; rho below 1.
    """
    return n / ((1 + rho) / (1 - rho) - 2 * rho * (1 - rho**n) / (n * (1 - rho) ** 2))


def student_factor(degrees_of_freedom: float, level: float = _LEVEL) -> float:
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
    """Give the two-sided p of no autocorrelation. Normal enough from ten values; fewer tell nothing."""
    if n < _LAG_VALUES_MIN:
        return 1.0
    return float(2 * special.ndtr(-abs(_lag1_z(n, lag1))))


def _lag1_z(n: int, lag1: Any) -> Any:
    """Scale lag1 by what independent values show: mean -1/n and variance (n-2)^2 / (n^2 (n-1)).

    Moran, Some theorems on time series II, Biometrika 35, 1948.
    """
    return (lag1 + 1 / n) * n * math.sqrt(n - 1) / (n - 2)


def reach(n: float) -> float:
    """Tell how far the greatest of n normal values reaches: the standard deviations that one in n exceeds."""
    return float(-special.ndtri(1 / n))
