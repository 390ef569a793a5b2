"""Coverage, bias, spread and tightness of intervals whose errors are known in closed form."""

import math

import numpy as np
import pytest
from scipy import stats

from labctl.analysis.judgement import expected_shares, judge, share_interval


def test_four_intervals_by_hand():
    # measured/true: 1.02, 0.99, 1.00, 1.03; the intervals reach 0.025, 0.015, 0.02 and 0.02 of the truth.
    truth = [1.0, 2.0, 4.0, 10.0]
    value = [1.02, 1.98, 4.0, 10.3]
    found = judge(value, [0.025, 0.03, 0.08, 0.2], truth)
    assert found.n == 4
    assert found.coverage_ratio == 0.75
    assert found.bias_ratio == pytest.approx((0.02 - 0.01 + 0.0 + 0.03) / 4)
    # Deviations from the mean of 0.01: 0.01, -0.02, -0.01, 0.02.
    assert found.spread_ratio == pytest.approx(math.sqrt((1 + 4 + 1 + 4) * 1e-4 / 3))
    assert found.expanded_ratio == pytest.approx(0.02)
    # Absolute errors in order: 0, 0.01, 0.02, 0.03; their 95th percentile lies at 0.95 * 3 = 2.85 steps.
    assert found.tightness_ratio == pytest.approx(0.02 / 0.0285)


@pytest.mark.parametrize("padding", [0.8, 1.0, 1.3])
def test_rectangular_errors(padding):
    # Errors evenly over ±2 %: 95 % of them lie within ±1.9 %, their standard deviation is 2 %/sqrt(3).
    error = np.linspace(-0.02, 0.02, 20_001)
    found = judge(5.0 * (1 + error), np.full(error.shape, 5.0 * 0.019 * padding), np.full(error.shape, 5.0))
    assert found.coverage_ratio == pytest.approx(min(0.95 * padding, 1), abs=2e-4)
    assert found.bias_ratio == pytest.approx(0, abs=1e-12)
    assert found.spread_ratio == pytest.approx(0.02 / math.sqrt(3), rel=1e-3)
    assert found.tightness_ratio == pytest.approx(padding, rel=1e-3)


def test_the_size_and_sign_of_the_truth_do_not_matter():
    generator = np.random.default_rng(3)
    error, width = generator.normal(0, 0.01, 50), generator.uniform(0.01, 0.03, 50)
    scale = 10.0 ** generator.integers(-9, 9, 50) * generator.choice([-1, 1], 50)
    one = judge(1 + error, width, np.ones(50))
    other = judge((1 + error) * scale, width * np.abs(scale), scale)
    assert (one.n, one.coverage_ratio) == (other.n, other.coverage_ratio)
    for figure in ("bias_ratio", "spread_ratio", "expanded_ratio", "tightness_ratio"):
        assert getattr(other, figure) == pytest.approx(getattr(one, figure), rel=1e-9)


def test_what_too_few_cannot_tell_is_no_number():
    assert all(math.isnan(x) for x in (judge([], [], []).coverage_ratio, judge([], [], []).tightness_ratio))
    one = judge([1.1], [0.2], [1.0])
    assert (one.n, one.coverage_ratio) == (1, 1.0)
    assert math.isnan(one.spread_ratio)
    assert one.tightness_ratio == pytest.approx(2.0)
    assert math.isnan(judge([1.0, 1.0], [0.1, 0.1], [1.0, 1.0]).tightness_ratio)  # no error at all


def test_an_interval_without_limit_holds_everything():
    found = judge([1.0, 2.0], [math.inf, 0.1], [1.5, 1.95])
    assert found.coverage_ratio == 1.0
    assert found.tightness_ratio == math.inf


@pytest.mark.parametrize(
    ("value", "expanded", "truth"),
    [
        ([1.0, 2.0], [0.1], [1.0, 2.0]),
        ([[1.0]], [[0.1]], [[1.0]]),
        ([math.nan], [0.1], [1.0]),
        ([1.0], [math.nan], [1.0]),
        ([1.0], [-0.1], [1.0]),
        ([1.0], [0.1], [0.0]),
        ([1.0], [0.1], [math.inf]),
    ],
)
def test_what_cannot_be_judged_is_refused(value, expanded, truth):
    with pytest.raises(ValueError, match=r"shapes|judged"):
        judge(value, expanded, truth)


def test_the_interval_of_a_share():
    # None of n, all of n: closed forms of Clopper and Pearson.
    assert share_interval(0.0, 20) == pytest.approx((0.0, 1 - 0.025 ** (1 / 20)))
    assert share_interval(1.0, 20) == pytest.approx((0.025 ** (1 / 20), 1.0))
    for k, n in ((4, 10), (93, 100), (372, 400)):
        exact = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
        assert share_interval(k / n, n) == pytest.approx((exact.low, exact.high))
    assert all(math.isnan(x) for x in share_interval(0.5, 0))


@pytest.mark.parametrize("n", [1, 8, 100, 400])
def test_the_shares_to_expect(n):
    low, high = expected_shares(n)
    k_low, k_high = round(low * n), round(high * n)
    assert stats.binom.cdf(k_low - 1, n, 0.95) <= 0.025 < stats.binom.cdf(k_low, n, 0.95)
    assert stats.binom.sf(k_high, n, 0.95) <= 0.025
    assert k_high == 0 or stats.binom.sf(k_high - 1, n, 0.95) > 0.025
