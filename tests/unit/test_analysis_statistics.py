"""Statistics over runs, against values worked out by hand and published tables."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.statistics import effective_number, reach, student_factor, summarize


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
    # +1 -1 ... (n = 20): 19 products of -1 over 20.
    summary = summarize([(-1.0) ** k for k in range(20)])
    assert summary.lag1 == pytest.approx(-19 / 20)
    assert summary.n_effective == 20
    # Ten times -1, ten times +1: 18 products of +1, one of -1.
    summary = summarize([-1.0] * 10 + [1.0] * 10)
    assert summary.lag1 == pytest.approx(17 / 20)
    assert summary.n_effective == pytest.approx(20 * 3 / 37)


def test_effective_number_ignores_what_chance_would_give():
    assert effective_number(100, 0.19) == 100
    assert effective_number(100, 0.9) == pytest.approx(100 / 19)


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
