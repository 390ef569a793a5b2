"""Judge stated intervals against the truth: do they hold it as often as they say, and are they no wider than needed?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

LEVEL = 0.95


@dataclass(frozen=True)
class Judgement:
    """What n intervals were worth; everything is relative to the truth, NaN where too few tell it.

    `coverage_ratio` is the share of intervals that hold the truth; `bias_ratio` the mean of measured/true - 1 and
    `spread_ratio` its standard deviation, n - 1 in the denominator; `expanded_ratio` the mean expanded uncertainty.
    `tightness_ratio` is the mean expanded uncertainty over the 95th percentile of the absolute error: an interval of
    one width for all would hold 95 % of these errors at 1; more is padding.
    """

    n: int
    coverage_ratio: float
    bias_ratio: float
    spread_ratio: float
    expanded_ratio: float
    tightness_ratio: float


def judge(value: Sequence[float], expanded: Sequence[float], truth: Sequence[float]) -> Judgement:
    """Judge the intervals value ± expanded, all of one kind: sequences of one length and one unit.

    The percentile is interpolated between the two errors nearest to it. Raises ValueError for lengths that differ, an
    uncertainty that is no number or negative, a value or truth that is not finite, and a truth of zero.
    """
    x, u, true = (np.asarray(a, dtype=np.float64) for a in (value, expanded, truth))
    if not x.shape == u.shape == true.shape or x.ndim != 1:
        raise ValueError(f"values, uncertainties and truths of shapes {x.shape}, {u.shape} and {true.shape}")
    if not (np.isfinite(x).all() and np.isfinite(true).all() and (true != 0).all()):
        raise ValueError("a value or a truth is not finite, or a truth is zero: it cannot be judged")
    if not (u >= 0).all():
        raise ValueError("an expanded uncertainty is negative or no number: it cannot be judged")
    n = len(x)
    if n == 0:
        return Judgement(0, *[math.nan] * 5)
    error = (x - true) / true
    width = float(np.mean(u / np.abs(true)))
    reached = float(np.quantile(np.abs(error), LEVEL))
    return Judgement(
        n=n,
        coverage_ratio=float(np.mean(np.abs(x - true) <= u)),
        bias_ratio=float(np.mean(error)),
        spread_ratio=float(np.std(error, ddof=1)) if n > 1 else math.nan,
        expanded_ratio=width,
        tightness_ratio=width / reached if reached > 0 else math.nan,
    )


def share_interval(share_ratio: float, n: int) -> tuple[float, float]:
    """Give the interval, for 95 %, of the probability behind a share that n independent trials have shown.

    Clopper and Pearson, The use of confidence or fiducial limits illustrated in the case of the binomial, Biometrika
    26, 1934, in its form by the beta distribution. (NaN, NaN) where n is 0.
    """
    if n == 0:
        return math.nan, math.nan
    k, tail = share_ratio * n, (1 - LEVEL) / 2
    low = float(special.betaincinv(k, n - k + 1, tail)) if k > 0 else 0.0
    high = float(special.betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0
    return low, high


def expected_shares(n: int, probability: float = LEVEL) -> tuple[float, float]:
    """Give the least and the greatest share that n independent trials of this probability show in 95 % of cases.

    No more than one case in forty lies below, and no more than one in forty above.
    """
    if n == 0:
        return math.nan, math.nan
    up_to = special.bdtr(np.arange(n + 1), n, probability)
    tail = (1 - LEVEL) / 2
    low = int(np.searchsorted(up_to, tail, side="right"))
    high = int(np.searchsorted(up_to, 1 - tail))
    return low / n, high / n
