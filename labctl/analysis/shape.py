"""How values lie that should be of one kind: outliers, two groups, skewness. Each rule has a rate of false alarms."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

_SKEWNESS_P = 0.005
# Skewness above 1 is high by common usage (Bulmer, Principles of Statistics, 1979, 4.4).
_SKEWNESS_MIN = 1.0
# Fewer values tell nothing of a distribution's form.
_FORM_VALUES_MIN = 10
# Rosner found his critical values good from 15 values for more than one outlier.
_MANY_VALUES_MIN = 15
_OUTLIERS_RATIO_MAX = 4
_GROUP_VALUES_MIN = 3
_GROUP_RATIO_MIN = 5
_APART_MIN = 4.5


def find_outliers(values: np.ndarray, floor: float = 0.0, p: float = 0.01) -> tuple[int, ...]:
    """Find the values that lie apart from the others, wrongly in p of normal samples; indices in order.

    The generalised ESD test for up to a quarter of the values (Rosner, Technometrics 25, 1983; NIST/SEMATECH
    e-Handbook 1.3.5.17.3), two-sided; for one, with fewer than 15 values, where it is Grubbs' test (ISO 5725-2). A
    value within `floor` of the mean of what is left is none.
    """
    n = len(values)
    n_most = n // _OUTLIERS_RATIO_MAX if n >= _MANY_VALUES_MIN else min(1, max(n - 2, 0))
    # From the median equal values have a distance of exactly zero.
    rest, index = values - np.median(values), np.arange(n)
    furthest: list[int] = []
    n_found = 0
    for k in range(n_most):
        distance = np.abs(rest - rest.mean())
        j = int(distance.argmax())
        if distance[j] <= floor:
            break
        if distance[j] > _critical_deviate(n - k, p) * rest.std(ddof=1):
            n_found = k + 1
        furthest.append(int(index[j]))
        rest, index = np.delete(rest, j), np.delete(index, j)
    return tuple(sorted(furthest[:n_found]))


def _critical_deviate(n: int, p: float) -> float:
    """Give the distance to the mean, in standard deviations, that the furthest of n normal values exceeds in p."""
    t = special.stdtrit(n - 2, 1 - p / (2 * n))
    return float((n - 1) * t / math.sqrt((n - 2 + t * t) * n))


def two_groups(values: np.ndarray, floor: float = 0.0) -> np.ndarray | None:
    """Tell which values are of the upper of two groups; None where there are no two.

    Of all splits of the ordered values the one of least squares is taken (Engelman and Hartigan, J. Am. Stat. Assoc.
    64, 1969). Its parts are groups where each holds three values and a fifth of all, and their means lie further apart
    than `floor` and than `_critical_distance` times the standard deviation within.
    """
    n = len(values)
    if n < _FORM_VALUES_MIN:
        return None
    ordered = np.sort(values) - np.median(values)
    n_lower = np.arange(1, n)
    sums, squares = np.cumsum(ordered), np.cumsum(ordered * ordered)
    lower_mean, upper_mean = sums[:-1] / n_lower, (sums[-1] - sums[:-1]) / (n - n_lower)
    best = int((squares[-1] - n_lower * lower_mean**2 - (n - n_lower) * upper_mean**2).argmin()) + 1
    lower, upper = ordered[:best], ordered[best:]
    if min(len(lower), len(upper)) < max(_GROUP_VALUES_MIN, n / _GROUP_RATIO_MIN):
        return None
    within = math.sqrt((len(lower) * lower.var() + len(upper) * upper.var()) / n)
    if upper.mean() - lower.mean() <= max(floor, _critical_distance(n) * within):
        return None
    return values - np.median(values) >= upper[0]


def _critical_distance(n: int) -> float:
    """Give the distance of two parts that 0.5 % of samples with one mode exceed, in standard deviations within.

    The halves of uniform values lie sqrt(12) apart; what n of them exceed is fitted to 40000 simulated samples each of
    10 to 1000 values, uniform or exponential, whichever reach further (normal ones stay well below). The least takes
    care that values on three or four equal steps, or from a sine, are not two groups.
    """
    return max(_APART_MIN, math.sqrt(12) * (1 + 10 / n**0.78))


def high_skewness(values: np.ndarray, floor: float = 0.0) -> float:
    """Give the skewness where it is high and beyond chance, else 0. D'Agostino's test, Biometrika 57, 1970."""
    n = len(values)
    distance = values - values.mean()
    if n < _FORM_VALUES_MIN or np.ptp(values) <= floor:
        return 0.0
    skewness = float((distance**3).mean() / (distance**2).mean() ** 1.5)
    y = skewness * math.sqrt((n + 1) * (n + 3) / (6 * (n - 2)))
    kurtosis = 3 * (n * n + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2) * (n + 5) * (n + 7) * (n + 9))
    w2 = math.sqrt(2 * (kurtosis - 1)) - 1
    z = math.asinh(y / math.sqrt(2 / (w2 - 1))) / math.sqrt(math.log(w2) / 2)
    return skewness if abs(skewness) > _SKEWNESS_MIN and 2 * special.ndtr(-abs(z)) < _SKEWNESS_P else 0.0
