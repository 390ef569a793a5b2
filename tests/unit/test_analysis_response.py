"""The step response of shunt and decoupling: synthetic first orders with noise, poles and jitter."""

import math

import numpy as np
import pytest

from labctl.analysis.response import GUARD_S, fit_step, rough_tau_s, superpose
from labctl.errors import CaptureError

DT_S = 2e-9
TAU_S = 6.11e-6


def times(before_s=10e-6, behind_s=14 * TAU_S, dt_s=DT_S):
    return np.arange(-round(before_s / dt_s), round(behind_s / dt_s)) * dt_s


def first_order(t_s, *, tau_s=TAU_S, delay_s=0.0, base=1e-3, change=13e-3):
    after = np.maximum(t_s - delay_s, 0.0)
    return base + change * -np.expm1(-after / tau_s)


@pytest.mark.parametrize("change", [13e-3, -13e-3])
def test_a_clean_step(change):
    step = fit_step(times(), first_order(times(), delay_s=4e-9, change=change))
    assert step.tau_s == pytest.approx(TAU_S, rel=1e-9)
    assert step.delay_s == pytest.approx(4e-9, abs=1e-13)
    assert (step.base, step.change) == (pytest.approx(1e-3), pytest.approx(change))


def test_stated_uncertainties_hold():
    """Over fifty draws of noise the errors, in standard uncertainties, have an rms of about one."""
    t_s = times(dt_s=20e-9)
    errors = []
    for seed in range(50):
        noise = np.random.default_rng(seed).normal(0.0, 0.2e-3, len(t_s))
        step = fit_step(t_s, first_order(t_s, delay_s=7e-9) + noise)
        errors.append(((step.tau_s - TAU_S) / step.tau_standard_s, (step.delay_s - 7e-9) / step.delay_standard_s))
    rms = np.sqrt(np.mean(np.square(errors), axis=0))
    # The mean of fifty squares of normal values lies within 1 +- 0.6 with more than 99.7 %.
    assert (rms > math.sqrt(0.4)).all() and (rms < math.sqrt(1.7)).all()
    assert np.abs(np.mean(errors, axis=0)).max() < 3.5 / math.sqrt(50)


def test_correlated_noise_is_stated_larger():
    t_s = times(dt_s=20e-9)
    white = np.random.default_rng(3).normal(0.0, 0.2e-3, len(t_s) + 16)
    smooth = np.convolve(white, np.ones(16) / 4.0, "valid")[: len(t_s)]  # same variance, sixteen samples long
    alone = fit_step(t_s, first_order(t_s) + white[: len(t_s)])
    together = fit_step(t_s, first_order(t_s) + smooth)
    # The variance of means is sixteen times that of independent samples, of which the fit finds at least half.
    assert together.tau_standard_s > math.sqrt(8) * alone.tau_standard_s


def test_a_pole_of_the_front_end_delays_and_does_no_more():
    """Two poles: 1 - (tau e^(-t/tau) - p e^(-t/p)) / (tau - p); its tail starts at tau ln(tau/(tau - p))."""
    pole_s = 8e-9
    t_s = times()
    after = np.maximum(t_s, 0.0)
    values = 13e-3 * (
        1 - (TAU_S * np.exp(-after / TAU_S) - pole_s * np.exp(-after / pole_s)) / (TAU_S - pole_s)
    )
    step = fit_step(t_s, values)
    assert step.tau_s == pytest.approx(TAU_S, rel=1e-6)
    assert step.delay_s == pytest.approx(TAU_S * math.log(TAU_S / (TAU_S - pole_s)), abs=1e-12)


@pytest.mark.parametrize("tau_s", [0.3e-6, 1e-6, 50e-6, 400e-6])
def test_any_time_constant(tau_s):
    t_s = times(behind_s=14 * tau_s, dt_s=tau_s / 2000)
    t_s = np.concatenate([np.arange(-2000, 0) * (t_s[1] - t_s[0]) - 2 * GUARD_S, t_s[t_s >= 0]])
    noise = np.random.default_rng(5).normal(0.0, 0.1e-3, len(t_s))
    step = fit_step(t_s, first_order(t_s, tau_s=tau_s) + noise)
    assert step.tau_s == pytest.approx(tau_s, abs=4 * step.tau_standard_s)
    assert step.tau_standard_s < 0.01 * tau_s


def test_the_rough_time_constant_is_near():
    t_s = times(before_s=50e-6, behind_s=900e-6, dt_s=5e-9)
    noise = np.random.default_rng(6).normal(0.0, 0.3e-3, len(t_s))
    assert rough_tau_s(t_s, first_order(t_s) + noise) == pytest.approx(TAU_S, rel=0.3)


def test_no_decoupling():
    """A step that is over at once has no time constant but a bound, and the place where it passes its middle."""
    t_s = times(before_s=2e-6, behind_s=6e-6, dt_s=0.5e-9)
    noise = np.random.default_rng(7).normal(0.0, 0.05e-3, len(t_s))
    step = fit_step(t_s, first_order(t_s, tau_s=8e-9, delay_s=3e-9) + noise)
    assert step.tau_s is None and step.tau_standard_s is None
    assert 8e-9 < step.tau_below_s < GUARD_S
    assert step.delay_s == pytest.approx(3e-9 + 8e-9 * math.log(2), abs=2e-9)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (lambda t: np.random.default_rng(8).normal(0.0, 1e-3, len(t)), "no step"),
        (lambda t: first_order(t, tau_s=40e-6), "does not settle"),
        (lambda t: first_order(t)[:100], "too short"),
    ],
)
def test_what_is_no_step_is_refused(values, words):
    t_s = times()
    found = values(t_s)
    with pytest.raises(CaptureError, match=words):
        fit_step(t_s[: len(found)], found)


def test_superposed_segments_keep_their_edge():
    """Segments whose edges fall at different places: the mean of the ramp behind them is the ramp."""
    edges = np.array([100.3, 103.8, 98.0])
    k = np.arange(400)
    ramps = [np.rint(1000 * np.maximum(k - edge, 0.0)).astype(np.int64) for edge in edges]
    t_s, values = superpose([np.stack(ramps)], np.array([1e-3]), 5.0, edges, DT_S)
    assert values.shape == t_s.shape == (98 + 400 - 104,)
    inside = t_s > 2 * DT_S
    assert values[inside] == pytest.approx(5.0 + t_s[inside] / DT_S, abs=1e-3)
    assert values[t_s < -2 * DT_S] == pytest.approx(5.0)


def test_two_channels_are_subtracted():
    edges = np.array([50.0])
    high, low = np.full((1, 200), 9, np.uint8), np.full((1, 200), 4, np.uint8)
    _, values = superpose([high, low], np.array([0.5, -0.5]), 0.0, edges, DT_S)
    assert values == pytest.approx(2.5)
