"""Whether the runs of a series are alike: drift, correlation, groups, outliers, skewness, each in a sentence.

Every rule has a stated rate of false alarms for series of independent runs: 0.5 %, or 1 % for outliers and groups. One
cause makes one sentence: two groups explain drift, correlation, skewness and outliers; outliers and drift explain
skewness. Nothing is ever left out of a result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis.shape import find_outliers, high_skewness, two_groups
from labctl.analysis.statistics import Summary, summarize
from labctl.units import percent, quantity

_ORDER_P = 0.005
_ROUNDING_RATIO = 1e-9
_N_NAMED = 5


@dataclass(frozen=True)
class _Verdict:
    outliers: tuple[int, ...] = ()
    shape: str = ""
    sentences: tuple[str, ...] = ()


def judge_runs(
    warnings: list[str], values: Sequence[float] | np.ndarray, summary: Summary, resolution_j: float = 0.0
) -> tuple[int, ...]:
    """Warn where the energies of runs, in their order, are not alike; return the outliers, counted from 0.

    `summary` is that of the values. Differences of at most `resolution_j`, as the sample clock makes them among equal
    runs, and those of rounding are no outliers, no groups and no skewness.
    """
    verdict = _judge(np.asarray(values, dtype=np.float64), summary, resolution_j)
    warnings.extend(verdict.sentences)
    return verdict.outliers


def clock_energy(durations_s: Sequence[float], dt_s: float, power_w: float) -> float:
    """Give how far the energies of equal runs may lie apart because each edge falls between two samples.

    That is two samples' worth, but no more than half as much again as durations differ.
    """
    return abs(power_w) * min(1.5 * (max(durations_s) - min(durations_s)), 2 * dt_s)


def shape_of(values: Sequence[float] | np.ndarray, summary: Summary, resolution_j: float = 0.0) -> str:
    """Name why a mean is not typical of its runs: "bimodal", "outliers", "skewed", or "" where it is.

    Arguments as for `judge_runs`, whose warnings agree.
    """
    return _judge(np.asarray(values, dtype=np.float64), summary, resolution_j).shape


def _judge(values: np.ndarray, summary: Summary, resolution_j: float) -> _Verdict:
    if summary.n < 3 or summary.std <= _ROUNDING_RATIO * abs(summary.mean):
        return _Verdict()
    floor = max(resolution_j, _ROUNDING_RATIO * float(np.abs(values).max()))
    upper = two_groups(values, floor)
    if upper is not None:
        return _Verdict((), "bimodal", (_of_groups(values, upper, summary),))
    skewness = high_skewness(values, floor)
    outliers = _not_explained(find_outliers(values, floor), values, skewness, summary, floor)
    if not outliers:
        order = _of_order(summary)
        if order or not skewness:
            return _Verdict((), "", order)
        return _Verdict((), "skewed", (_of_skewness(values, skewness, summary),))
    rest = np.delete(values, outliers)
    remaining = summarize(rest)
    upper = two_groups(rest, floor)
    more: tuple[str, ...] = ()
    if upper is not None:
        more = (_of_groups(rest, upper, remaining),)
    elif np.ptp(rest) > floor and not _come_first(outliers):
        more = _of_order(remaining)
    return _Verdict(outliers, "outliers", (_of_outliers(values, outliers, summary, remaining), *more))


def _not_explained(
    outliers: tuple[int, ...], values: np.ndarray, skewness: float, energy: Summary, floor: float
) -> tuple[int, ...]:
    """Leave only the outliers that neither a skewed distribution nor correlated neighbours explain."""
    if outliers and skewness and values.min() > 0:
        # The logarithmic normal distribution stands for skewed ones.
        of_logarithms = find_outliers(np.log(values), floor / float(np.median(values)))
        outliers = tuple(k for k in outliers if k in of_logarithms)
    if outliers and energy.lag1 > 0 and energy.lag1_p < _ORDER_P:
        # What is left of each value when the part that its predecessor foretells is taken off.
        news = values - np.median(values)
        news[1:] -= energy.lag1 * news[:-1]
        of_news = find_outliers(news, floor)
        outliers = tuple(k for k in outliers if k in of_news)
    return outliers


def _of_order(energy: Summary) -> tuple[str, ...]:
    """Tell of drift over the series, or else of correlated neighbours: Student's t test, and a normal one of lag 1."""
    worth = ""
    if energy.n_effective < energy.n:
        worth = f", and the runs are worth {energy.n_effective:.1f} independent ones"
    if energy.drift_p < _ORDER_P:
        return (
            f"the energy drifts by {quantity(energy.drift * (energy.n - 1), 'J')} over the {energy.n} runs (t test, "
            f"0.5 % false alarms): the mean depends on when it is taken{worth}; let board and scope warm up, and see "
            "what else changes",
        )
    if energy.lag1_p >= _ORDER_P:
        return ()
    meaning = (
        f"the {energy.n} runs are worth {energy.n_effective:.1f} independent ones, which the standard error knows; "
        "measure more runs, or with longer pauses" if energy.lag1 > 0
        else "they tend to alternate, which makes the standard error too large; see what takes turns"
    )
    return (f"the energies of neighbouring runs are correlated by {energy.lag1:.2f} (0.5 % false alarms): {meaning}",)


def _of_groups(values: np.ndarray, upper: np.ndarray, energy: Summary) -> str:
    def printed(value: float) -> str:
        return quantity(value, "J", _digits(energy))

    n_changes = int((upper[1:] != upper[:-1]).sum())
    return (
        f"the energies are bimodal, {int((~upper).sum())} runs lie at {printed(float(values[~upper].mean()))} and "
        f"{int(upper.sum())} at {printed(float(values[upper].mean()))}, with {n_changes} "
        f"change{'s' if n_changes != 1 else ''} between them (split of least squares, under 1 % false alarms): no run "
        f"is like the mean of {printed(energy.mean)}, the median is {printed(energy.median)} and the quartiles are "
        f"{printed(energy.quartile_low)} and {printed(energy.quartile_high)}; find out what the two states are and "
        "measure each"
    )


def _of_outliers(values: np.ndarray, outliers: Sequence[int], energy: Summary, rest: Summary) -> str:
    def printed(value: float) -> str:
        return quantity(value, "J", _digits(rest if rest.std else energy))

    one = len(outliers) == 1
    advice = f"look at {'its waveform' if one else 'their waveforms'} for what is different"
    if _come_first(outliers):
        advice = f"{'it comes' if one else 'they come'} first, so let the DUT run for a while before the series"
    low, high = float(values[list(outliers)].min()), float(values[list(outliers)].max())
    span = f"at {printed(high)}" if one else f"between {printed(low)} and {printed(high)}"
    named = ", ".join(ordinal(k + 1) for k in outliers[:_N_NAMED]) + (", …" if len(outliers) > _N_NAMED else "")
    return (
        f"{len(outliers)} of {energy.n} runs ({named}) {'is an outlier' if one else 'are outliers'} {span}, where "
        f"the median is {printed(energy.median)} and half of the runs lie between {printed(energy.quartile_low)} and "
        f"{printed(energy.quartile_high)} (generalised ESD test, 1 % false alarms): {'it is' if one else 'they are'} "
        f"in every number, and without {'it' if one else 'them'} the mean would be {printed(rest.mean)} instead of "
        f"{printed(energy.mean)}; {advice}"
    )


def _come_first(outliers: Sequence[int]) -> bool:
    return list(outliers) == list(range(len(outliers)))


def _of_skewness(values: np.ndarray, skewness: float, energy: Summary) -> str:
    def printed(value: float) -> str:
        return quantity(value, "J", _digits(energy))

    name, extreme = ("greatest", float(values.max())) if skewness > 0 else ("least", float(values.min()))
    ratio = extreme / energy.mean if energy.mean > 0 else math.nan
    if ratio > 1.5:
        size = f"{ratio:.1f} times the mean"
    elif math.isfinite(ratio):
        size = f"{percent(abs(ratio - 1))} {'above' if ratio > 1 else 'below'} the mean"
    else:
        size = printed(extreme)
    return (
        f"the energies are skewed, the {name} is {size} of {printed(energy.mean)} (skewness {skewness:.1f}; "
        "D'Agostino's test, 0.5 % false alarms): the mean is no typical run; give the median "
        f"{printed(energy.median)} and the quartiles {printed(energy.quartile_low)} and "
        f"{printed(energy.quartile_high)} beside it, and see what the duration depends on"
    )


def _digits(energy: Summary) -> int:
    """Choose so many digits that a tenth of the standard deviation shows."""
    if energy.std == 0 or energy.mean == 0:
        return 3
    return min(max(3, 2 + math.ceil(math.log10(abs(energy.mean) / energy.std))), 9)


def ordinal(k: int) -> str:
    """Print a place in a row, counted from 1: 1 -> "1st"."""
    suffix = "th" if 10 <= k % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(k % 10, "th")
    return f"{k}{suffix}"
