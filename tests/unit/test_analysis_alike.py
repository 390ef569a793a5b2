"""Runs that are not alike: sets made in closed form, and how often the rules cry wolf."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import signal, special, stats

from labctl.analysis.alike import clock_energy, judge_runs, ordinal, shape_of
from labctl.analysis.shape import _critical_deviate, find_outliers, high_skewness, two_groups
from labctl.analysis.statistics import summarize
from labctl.report.text import wrap

# Normal quantiles in an order without drift or correlation: 7 has no divisor in common with 20.
NORMAL = special.ndtri((np.arange(20) + 0.5) / 20)[7 * np.arange(20) % 20]
MEAN_J = 7e-6
NOISE_J = 0.05e-6


def judged(values):
    """Give outliers, shape and warnings of energies; each warning must fit lines of 80 columns."""
    warnings: list[str] = []
    summary = summarize(values)
    outliers = judge_runs(warnings, values, summary)
    for warning in warnings:
        assert max(len(line) for line in wrap(warning)) <= 80
    return outliers, shape_of(values, summary), warnings


def calm():
    return MEAN_J + NOISE_J * NORMAL


# ---- one set for each way to be awkward


def test_runs_that_are_alike_are_not_warned_of():
    assert judged(calm()) == ((), "", [])


@pytest.mark.parametrize("values", [[MEAN_J], [MEAN_J, 2 * MEAN_J], [MEAN_J] * 3, [MEAN_J] * 20, [0.0] * 20])
def test_one_run_two_and_equal_ones_say_nothing(values):
    assert judged(values) == ((), "", [])


def test_differences_of_rounding_say_nothing():
    jumps = MEAN_J * (1 + 1e-12 * (np.arange(20) == 5))
    assert judged(jumps) == judged(MEAN_J * (1 + 1e-15 * np.arange(20))) == ((), "", [])


@pytest.mark.parametrize("place", [0, 7, 19])
@pytest.mark.parametrize("n", [3, 20, 1000])
def test_one_that_differs_from_equal_ones_is_an_outlier(n, place):
    place = min(place, n - 1)
    values = np.full(n, MEAN_J)
    values[place] = 8e-6
    outliers, shape, (text,) = judged(values)
    assert (outliers, shape) == ((place,), "outliers")
    assert f"1 of {n} runs ({ordinal(place + 1)}) is an outlier at 8.00" in text
    assert "without it the mean would be 7.00" in text


def test_an_outlier_among_twenty_and_what_it_does_to_the_mean():
    values = calm()
    values[7] += 2e-6
    outliers, shape, (text,) = judged(values)
    assert (outliers, shape) == ((7,), "outliers")
    # Quantiles of a normal distribution sum to nought: the others' mean lacks that of the eighth.
    without_j = MEAN_J - NOISE_J * NORMAL[7] / 19
    assert f"the mean would be {1e6 * without_j:.4f} \u00b5J instead of 7.1000 \u00b5J" in text
    assert f"the median is {1e6 * float(np.median(values)):.4f} \u00b5J" in text
    assert "generalised ESD test, 1 % false alarms" in text
    assert "in every number" in text
    assert "look at its waveform" in text


def test_outliers_that_hide_each_other_are_found_together():
    values = calm()
    values[[3, 9, 16]] += 2e-6
    outliers, shape, (text,) = judged(values)
    assert (outliers, shape) == ((3, 9, 16), "outliers")
    assert "3 of 20 runs (4th, 10th, 17th) are outliers between" in text


def test_runs_that_warm_up_are_told_to():
    values = calm()
    values[0] += 1.0e-6
    outliers, _, (text,) = judged(values)
    assert outliers == (0,)
    assert "it comes first, so let the DUT run for a while" in text


def test_skewed_runs_whose_greatest_is_far_from_the_mean():
    # The greatest is chosen so that it is 4.3 times the mean of all: M = 4.3 S / (20 - 4.3), S the sum of the others.
    values = 1e-6 * np.exp(NORMAL)
    top = int(values.argmax())
    rest = np.delete(values, top)
    values[top] = 4.3 * rest.sum() / (20 - 4.3)
    assert values.max() == pytest.approx(4.3 * values.mean(), rel=1e-12)
    outliers, shape, (text,) = judged(values)
    assert (outliers, shape) == ((), "skewed")
    assert "the greatest is 4.3 times the mean" in text
    # Of twenty quantiles the middle two are exp(+-0.0627): their mean is cosh(0.0627).
    assert f"median {math.cosh(special.ndtri(0.525)):.2f} \u00b5J" in text
    assert "quartiles" in text


def test_runs_skewed_to_the_other_side():
    # Fourth powers of uniform quantiles, taken off 9 uJ: skewness -1.4, the furthest three standard deviations away.
    outliers, shape, (text,) = judged(9e-6 - 1e-6 * ((7 * np.arange(40) % 40 + 0.5) / 40) ** 4)
    assert (outliers, shape) == ((), "skewed")
    assert "the least is" in text
    assert "below the mean" in text


@pytest.mark.parametrize("n_upper", [4, 7, 10, 15])
def test_two_groups_with_their_means(n_upper):
    upper = np.isin(np.arange(20), [(7 * k) % 20 for k in range(n_upper)])
    values = np.where(upper, 9e-6, 7e-6) + 0.1 * NOISE_J * NORMAL
    outliers, shape, (text,) = judged(values)
    assert (outliers, shape) == ((), "bimodal")
    assert f"{20 - n_upper} runs lie at 7.0" in text
    assert f"and {n_upper} at 9.0" in text
    assert f"with {int((upper[1:] != upper[:-1]).sum())} change" in text


def test_a_step_is_two_groups_and_nothing_else():
    outliers, shape, (text,) = judged(calm() + 2e-6 * (np.arange(20) >= 12))
    assert (outliers, shape) == ((), "bimodal")
    assert "with 1 change between them" in text


def test_a_group_too_small_is_of_outliers():
    values = calm()
    values[[4, 11]] += 3e-6
    assert judged(values)[:2] == ((4, 11), "outliers")


def test_strong_drift_is_told_alone():
    outliers, shape, (text,) = judged(calm() + 0.1e-6 * np.arange(20))
    assert (outliers, shape) == ((), "")
    assert "the energy drifts by 1.9" in text
    assert "over the 20 runs (t test, 0.5 % false alarms)" in text


def test_an_outlier_does_not_hide_a_drift():
    values = calm() + 0.1e-6 * np.arange(20)
    values[12] += 20e-6
    outliers, shape, (first, second) = judged(values)
    assert (outliers, shape) == ((12,), "outliers")
    assert "outlier" in first
    assert "drifts by 2.0" in second
    assert "over the 19 runs" in second


def test_an_autoregression_of_nine_tenths_is_correlated():
    # The ripples that follow two jolts: 0.9^k, once up and once down, on a line's worth of noise.
    wave = np.concatenate([0.9 ** np.arange(20), -(0.9 ** np.arange(20))])[np.r_[10:40, 0:10]]
    outliers, shape, (text,) = judged(MEAN_J + 1e-6 * wave + 0.01 * NOISE_J * np.tile(NORMAL, 2))
    assert (outliers, shape) == ((), "")
    assert "correlated by 0." in text or "drifts" in text
    assert "independent ones" in text


def test_correlated_runs_are_rarely_taken_for_anything_else():
    noise = np.random.default_rng(31).normal(size=(1000, 120)) * math.sqrt(1 - 0.81)
    rows = 100 + signal.lfilter([1.0], [1.0, -0.9], noise, axis=1)[:, 100:]
    assert sum(shape_of(row, summarize(row)) != "" for row in rows) <= 10 + 3 * math.sqrt(10)


def test_what_the_clock_explains_is_two_samples_at_most():
    assert clock_energy([1e-3] * 3, 1e-6, 0.1) == 0
    assert clock_energy([1e-3, 1.001e-3], 1e-6, -0.1) == pytest.approx(1.5e-7)
    assert clock_energy([1e-3, 2e-3], 1e-6, 0.1) == pytest.approx(2e-7)
    values = np.where(np.arange(20) % 3 == 0, 7.1e-6, 7e-6)
    summary = summarize(values)
    assert shape_of(values, summary) == "bimodal"
    assert shape_of(values, summary, 0.11e-6) == ""


def test_places_in_a_row():
    names = [ordinal(k) for k in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)]
    assert names == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"]


# ---- the rules themselves


@pytest.mark.parametrize(
    ("n", "deviate"),
    # ISO 5725-2:1994, table 5, one greatest or one least value, 1 %.
    [(3, 1.155), (5, 1.764), (8, 2.274), (10, 2.482), (20, 3.001), (30, 3.236), (40, 3.381)],
)
def test_critical_deviates_are_those_of_the_standard(n, deviate):
    assert _critical_deviate(n, 0.01) == pytest.approx(deviate, abs=0.001)


ROSNER = (
    "-0.25 0.68 0.94 1.15 1.20 1.26 1.26 1.34 1.38 1.43 1.49 1.49 1.55 1.56 1.58 1.65 1.69 1.70 1.76 1.77 1.81 1.91 "
    "1.94 1.96 1.99 2.06 2.09 2.10 2.14 2.15 2.23 2.24 2.26 2.35 2.37 2.40 2.47 2.54 2.62 2.64 2.90 2.92 2.92 2.93 "
    "3.21 3.26 3.30 3.59 3.68 4.30 4.64 5.34 5.42 6.01"
)


def test_the_handbooks_example_has_three_outliers():
    # NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.17.3: at 5 % three, though neither one nor two alone.
    values = np.array([float(text) for text in ROSNER.split()])
    assert [values[k] for k in find_outliers(values, p=0.05)] == [5.34, 5.42, 6.01]
    assert find_outliers(values, p=0.01) == ()


@pytest.mark.parametrize(("n", "n_series"), [(3, 8000), (10, 8000), (20, 8000), (100, 2000)])
def test_one_normal_series_in_a_hundred_has_an_outlier(n, n_series):
    rows = np.random.default_rng(32).normal(size=(n_series, n))
    found = sum(bool(find_outliers(row)) for row in rows)
    # Bonferroni's bound makes it fewer by little; the approximation for several, more by little.
    assert found == pytest.approx(0.01 * n_series, abs=3 * math.sqrt(0.01 * n_series) + 0.0015 * n_series)


@pytest.mark.parametrize("n", [10, 20, 100])
@pytest.mark.parametrize("draw", ["normal", "uniform", "exponential"])
def test_two_groups_are_seen_in_less_than_one_of_a_hundred_series_that_have_one(draw, n):
    rows = getattr(np.random.default_rng(33), draw)(size=(6000, n))
    assert sum(two_groups(row) is not None for row in rows) < 0.01 * len(rows)


@pytest.mark.parametrize("n_steps", [3, 4, 5, 6])
def test_values_on_a_few_equal_steps_are_not_two_groups(n_steps):
    assert two_groups(np.tile(np.arange(float(n_steps)), 60)) is None


def test_two_clear_groups_are_mostly_seen():
    rng = np.random.default_rng(34)
    upper = rng.uniform(size=(500, 20)) < 0.3
    rows = 100 + rng.normal(size=upper.shape) + 10 * upper
    shapes = Counter(shape_of(row, summarize(row)) for row in rows)
    # Groups of a fifth or more are groups, smaller ones outliers; of 20 runs nearly all hold two or more of each.
    assert shapes["bimodal"] > 0.8 * len(rows)
    assert shapes["bimodal"] + shapes["outliers"] > 0.98 * len(rows)


def test_skewness_is_judged_as_by_its_published_test():
    for n in (10, 20, 200):
        for row in np.random.default_rng(35).exponential(size=(200, n)):
            expected = float(stats.skew(row))
            if stats.skewtest(row).pvalue >= 0.005 or expected <= 1:
                expected = 0.0
            assert high_skewness(row) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [20, 100])
def test_of_a_hundred_independent_series_at_most_three_are_warned_of(n):
    kinds: Counter[str] = Counter()
    rows = np.random.default_rng(8).normal(10, 1, (3000, n))
    for row in rows:
        warnings: list[str] = []
        judge_runs(warnings, row, summarize(row))
        assert len(warnings) <= 2
        kinds.update(word for word in ("drifts", "correlated", "outlier") for w in warnings if word in w)
    # The slope's test is exact: 15 of its own. Outliers 30; the approximate test of neighbours fewer than 15.
    assert kinds["drifts"] == pytest.approx(15, abs=3 * math.sqrt(15))
    assert kinds["correlated"] <= 15 + 3 * math.sqrt(15)
    assert kinds.total() <= 60 + 3 * math.sqrt(60)
