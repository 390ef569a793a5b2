"""Uncertainties of a spread, of counted cycles and of the mean current: tables, and budgets added up by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from labctl.analysis.result import analyze
from labctl.analysis.spread import cycles_expanded, std_expanded
from labctl.model import DutReport

from .table_captures import N_NULL, OHM, PIN_V, RUN_V, make, operation


@pytest.mark.parametrize(("n", "chi_square"), [(2, 0.000982), (3, 0.0506), (11, 3.247), (20, 8.907), (101, 74.222)])
def test_how_far_a_spread_may_lie_above_that_of_the_runs(n, chi_square):
    # Lower 2.5 % points of chi-square with n - 1 degrees of freedom, from printed tables.
    assert std_expanded(2.0, n) == pytest.approx(2.0 * (math.sqrt((n - 1) / chi_square) - 1), rel=2e-3)


def test_a_spread_of_nought_is_known_and_that_of_one_run_is_not():
    assert std_expanded(0.0, 20) == 0
    assert std_expanded(0.0, 1) is None


def test_the_true_spread_lies_that_far_above_in_one_series_of_forty():
    n, n_series = 10, 20_000
    spreads = np.random.default_rng(7).normal(size=(n_series, n)).std(axis=1, ddof=1)
    beyond = sum(spread + std_expanded(spread, n) < 1.0 for spread in spreads) / n_series
    assert beyond == pytest.approx(0.025, abs=0.004)


def test_counts_that_agree_are_as_uncertain_as_whole_numbers():
    # Two counts, each within half a cycle: a triangle of half-width 1, which holds 95 % within 1 - sqrt(0.05).
    found = cycles_expanded(DutReport((7144,) * 20, True), DutReport((30,) * 100, True), 4)
    assert found == pytest.approx((1 - math.sqrt(0.05)) / 4, rel=0.01)


def test_counts_that_scatter_are_as_uncertain_as_their_mean():
    counts = (7000, 7400) * 10
    found = cycles_expanded(DutReport(counts, True), None, 1)
    # Student's factor for 19 degrees of freedom is 2.093; half a cycle does not show.
    assert found == pytest.approx(2.093 * np.std(counts, ddof=1) / math.sqrt(20), rel=2e-3)


def test_what_counts_no_cycles_has_no_uncertainty_of_them():
    assert cycles_expanded(None, None, 1) is None
    assert cycles_expanded(DutReport((), True), None, 1) is None


def test_the_current_is_uncertain_by_shunt_gain_and_null_but_not_by_the_supply():
    result = analyze(make(operation()))
    mean_a = (300 * RUN_V - N_NULL * PIN_V) / OHM / (300 - N_NULL)
    assert result.current_mean_a == pytest.approx(mean_a, rel=1e-9)
    # Rectangular limits of 1 % (shunt) and 2 % (gain) add up to a trapezoid; 5 % lie beyond h: (3 % - h)^2 = 0.05 * 8.
    assert result.current_expanded_a == pytest.approx(mean_a * (0.03 - 0.01 * math.sqrt(0.4)), rel=0.01)
    # The power has the supply's 1 % too.
    assert result.power_expanded_w / result.power_mean_w > 1.05 * result.current_expanded_a / result.current_mean_a


def test_the_current_of_the_dut_is_that_of_the_supply():
    capture = make(operation())
    both = [analyze(capture, power) for power in ("dut", "supply")]
    assert both[0].current_expanded_a == pytest.approx(both[1].current_expanded_a, rel=1e-9)


def test_a_current_far_from_linear_is_as_much_wider_as_the_power():
    # A shunt known to 60 % only: the current goes with its inverse.
    capture = make(operation())
    wide = replace(capture, wiring=replace(capture.wiring, shunt=replace(capture.wiring.shunt, tolerance_ratio=0.6)))
    result = analyze(wide)
    assert "Monte Carlo" in result.intervals["power"].method
    linear_a = result.current_mean_a * 0.95 * 0.6
    assert result.current_expanded_a > 1.3 * linear_a
