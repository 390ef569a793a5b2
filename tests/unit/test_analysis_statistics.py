"""Statistics over runs, against values worked out by hand and published tables."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, signal

from labctl.analysis.statistics import effective_number, errors_of_means, reach, student_factor, summarize


@given(st.floats(-1e9, 1e9), st.integers(2, 40))
def test_equal_values_have_no_spread_at_all(value, n):
    summary = summarize([value] * n)
    assert (summary.mean, summary.std, summary.se) == (value, 0.0, 0.0)
    assert (summary.lag1, summary.drift, summary.lag1_p, summary.drift_p) == (0.0, 0.0, 1.0, 1.0)


def test_small_set_by_hand():
    summary = summarize([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert summary.mean == 5.0
    # Squares of the distances sum to 32, over n - 1 = 7.
    assert summary.std == pytest.approx(math.sqrt(32 / 7), rel=1e-14)
    assert summary.se == pytest.approx(math.sqrt(32 / 7 / 8), rel=1e-14)
    assert (summary.median, summary.quartile_low, summary.quartile_high) == (4.5, 4.0, 5.5)
    assert summary.greatest == 9.0


def test_one_value_has_no_spread():
    summary = summarize([3.0])
    assert (summary.mean, summary.std, summary.n_effective) == (3.0, 0.0, 1.0)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_what_cannot_be_summarised_is_refused(values):
    with pytest.raises(ValueError, match="finite"):
        summarize(values)


def test_spread_survives_a_large_common_value():
    assert summarize(1e9 + np.array([0.0, 1.0, 2.0])).std == 1.0


@pytest.mark.parametrize(
    ("degrees", "factor"),
    # JCGM 100:2008, table G.2, column 95 %.
    [(1, 12.71), (2, 4.30), (5, 2.57), (10, 2.23), (19, 2.09), (50, 2.01), (math.inf, 1.960)],
)
def test_student_factors_are_those_of_the_guide(degrees, factor):
    assert student_factor(degrees) == pytest.approx(factor, abs=0.005)


def test_no_degree_of_freedom_bounds_nothing():
    assert student_factor(0) == math.inf


def test_a_straight_line_drifts_by_its_slope():
    summary = summarize(3.0 + 0.25 * np.arange(20))
    assert summary.drift == pytest.approx(0.25, rel=1e-12)
    assert summary.drift_p == 0.0


def test_slope_test_by_hand():
    # Residuals +1 -1 -1 +1 about the line y = x: slope 1, S = 4, s^2 = 2, spread of the index 5; t = sqrt(5/2).
    # Student with 2 degrees: p = 1 - t / sqrt(t^2 + 2).
    summary = summarize([1.0, 0.0, 1.0, 4.0])
    t = math.sqrt(5 / 2)
    assert summary.drift == pytest.approx(1.0, rel=1e-12)
    assert summary.drift_p == pytest.approx(1 - t / math.sqrt(t * t + 2), rel=1e-9)


def test_alternation_and_persistence_in_the_autocorrelation():
    # +1 -1 ... (n = 20): 19 products of -1 over 20. No more is known of the mean than of independent values'.
    summary = summarize([(-1.0) ** k for k in range(20)])
    assert summary.lag1 == pytest.approx(-19 / 20)
    assert (summary.n_effective, summary.degrees_of_freedom) == (20, 19)
    assert summary.se == pytest.approx(math.sqrt(20 / 19 / 20), rel=1e-14)
    # Ten times -1, ten times +1: 18 products of +1, one of -1.
    summary = summarize([-1.0] * 10 + [1.0] * 10)
    assert summary.lag1 == pytest.approx(17 / 20)
    assert 1 <= summary.n_effective < 2
    assert summary.degrees_of_freedom >= 1


@pytest.mark.parametrize(("n", "rho"), [(2, 0.5), (20, 0.0), (20, 0.3), (20, 0.9), (20, 0.9999), (1000, 0.9)])
def test_effective_number_is_that_of_the_sum(n, rho):
    total = 1 + 2 * math.fsum((1 - k / n) * rho**k for k in range(1, n))
    assert effective_number(n, rho) == pytest.approx(n / total, rel=1e-9)


def by_matrices(values):
    """Average over an autoregression's coefficient with whole matrices: standard error, degrees, effective number."""
    n, ones = len(values), np.ones(len(values))
    precisions, logs, numbers = [], [], []
    for angle in (np.arange(400) + 0.5) / 400 * math.pi / 2:
        r = linalg.toeplitz(math.sin(angle) ** np.arange(n))
        inverse = np.linalg.inv(r)
        known = ones @ inverse @ ones
        rest = values - ones @ inverse @ values / known
        squares = rest @ inverse @ rest
        numbers.append(n * n / (ones @ r @ ones))
        precisions.append(numbers[-1] * (n - 1) / squares)
        logs.append(-np.linalg.slogdet(r)[1] / 2 - math.log(known) / 2 - (n - 1) / 2 * math.log(squares))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    first = weights @ np.array(precisions)
    second = weights @ np.array(precisions) ** 2 * (1 + 2 / (n - 1))
    return 1 / math.sqrt(first), 2 / (second / first**2 - 1), weights @ np.array(numbers)


@pytest.mark.parametrize("seed", range(4))
def test_persistent_series_are_averaged_over_what_their_correlation_may_be(seed):
    values = autoregressions(0.5, 1, 40, seed)[0]
    summary = summarize(values)
    assert summary.n_effective < 40
    expected = by_matrices(values)
    assert (summary.se, summary.degrees_of_freedom, summary.n_effective) == pytest.approx(expected, rel=1e-4)


def test_the_interval_of_a_drift_ends_where_the_values_do():
    # Independent values would give 9.5 +- 2.09 x 5.92 / sqrt(20) = 2.8; these give more, but no more than their span.
    summary = summarize(np.arange(20.0))
    half = student_factor(summary.degrees_of_freedom) * summary.se
    assert half == pytest.approx(19.0, rel=1e-4)
    assert summary.n_effective < 1.1


def autoregressions(rho, n_series, n, seed):
    """Draw stationary first-order autoregressions of mean zero and standard deviation one."""
    noise = np.random.default_rng(seed).normal(size=(n_series, n)) * math.sqrt(1 - rho * rho)
    noise[:, 0] /= math.sqrt(1 - rho * rho)
    return signal.lfilter([1.0], [1.0, -rho], noise, axis=1)


# What is reached. With 20 values a small correlation often hides in chance and a great one looks like a drift.
REACHED = {
    **{(20, 0.0): 0.955, (20, 0.3): 0.925, (20, 0.6): 0.94, (20, 0.9): 0.925},
    **{(n, rho): 0.95 for n in (100, 1000) for rho in (0.0, 0.3, 0.6, 0.9)},
}


@pytest.mark.parametrize(("n", "rho"), REACHED)
def test_the_interval_holds_the_mean_of_correlated_values(n, rho):
    n_series = 8000 if n <= 100 else 2000
    values = autoregressions(rho, n_series, n, 20)
    means = values.mean(axis=1)
    se, degrees, _ = errors_of_means(values - means[:, None])
    factors = np.array([student_factor(d) for d in degrees])
    held = float(np.mean(np.abs(means) <= factors * se))
    spread = math.sqrt(0.95 * 0.05 / n_series)
    assert held > REACHED[n, rho] - 3 * spread
    assert held < 0.965 + 3 * spread
    # The standard errors themselves are those of the means, on the whole.
    assert np.sqrt(np.mean(se**2) / np.mean(means**2)) == pytest.approx(1.0, abs=0.25)


def test_independent_series_lose_little():
    values = np.random.default_rng(21).normal(size=(8000, 20))
    residuals = values - values.mean(axis=1)[:, None]
    se, degrees, n_effective = errors_of_means(residuals)
    alone = n_effective == 20
    # One standard deviation above what independent values show: 84 % stay below, within the normal approximation.
    assert np.mean(alone) == pytest.approx(0.841, abs=0.02)
    assert np.allclose(se[alone], residuals[alone].std(axis=1, ddof=1) / math.sqrt(20), rtol=1e-12)
    assert (degrees[alone] == 19).all()
    assert (n_effective >= 1).all()
    assert (degrees >= 1).all()


def test_one_row_is_what_many_rows_give():
    values = autoregressions(0.5, 50, 30, 22)
    many = np.array(errors_of_means(values - values.mean(axis=1)[:, None])).T
    one = [(s.se, s.degrees_of_freedom, s.n_effective) for s in map(summarize, values)]
    assert np.allclose(many, one, rtol=1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_whatever_the_values_the_numbers_are_numbers(values):
    summary = summarize(values)
    assert math.isfinite(summary.se)
    assert summary.se >= 0
    assert 1 <= summary.n_effective <= len(values)
    assert min(1, len(values) - 1) <= summary.degrees_of_freedom <= len(values) - 1


def test_false_alarms_of_the_autocorrelation_are_as_rare_as_it_says():
    drawn = np.random.default_rng(11).normal(size=(4000, 20))
    rare = np.mean([summarize(row).lag1_p < 0.05 for row in drawn])
    # 5 % of 4000 draws scatters by 0.35 % of them; the normal approximation makes it a little rarer.
    assert 0.035 < rare < 0.06
    # Ten times -1, ten times +1: 17/20, mean -1/20, variance 18^2/(400 x 19): z = 0.9 x 20 x sqrt(19) / 18.
    p = summarize([-1.0] * 10 + [1.0] * 10).lag1_p
    assert p == pytest.approx(math.erfc(math.sqrt(19) / math.sqrt(2)), rel=1e-6)
    assert summarize([1.0, -1.0] * 4).lag1_p == 1.0


def test_the_greatest_of_many_normal_values():
    # Tables of the normal distribution: one in 1000 exceeds 3.090, one in 44 exceeds 2.0.
    assert reach(1000) == pytest.approx(3.0902, abs=1e-4)
    assert reach(43.956) == pytest.approx(2.0, abs=1e-4)
