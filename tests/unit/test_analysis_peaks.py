"""Ripple and extremes: the instrument's noise in them, and what the decoupling holds from before a window."""

import math
import re

import numpy as np
import pytest

from instruments.record import Accuracy, Channel, Identity, Record
from labctl.analysis.checks import warn_of_chain, warn_of_peaks
from labctl.analysis.power import measure_windows
from labctl.model import Shunt, Supply, Window, Wiring

IDENTITY = Identity("a", "b", "c", "d")
OHM, SUPPLY_V = 1.3, 3.3
SCALE_V = 65e-6  # two codes are 100 uA
MEAN = 200
WIRING = Wiring(Shunt(OHM, decoupling_f=0.0), Supply(SUPPLY_V), shunt_channel="CH1")
WINDOW = Window(0, 499.5, 2499.5)
# Over whole periods these do not correlate: variances add.
SIGNAL = np.tile(np.array([3, -3], np.int16), 1500)
NOISE = np.tile(np.array([2, 2, -2, -2], np.int16), 750)
SLOPE_W_PER_CODE = (SUPPLY_V - 2 * MEAN * SCALE_V) / OHM * SCALE_V


def record_of(scale=SCALE_V, **codes):
    sheet = Accuracy(0.02, 5e-3, 1.0, "sheet")
    channels = {name: Channel(name, np.atleast_2d(c), scale, 0.0, accuracy=sheet) for name, c in codes.items()}
    return Record(channels, 1e-6, np.zeros(1), IDENTITY)


def measured(codes, zero=None, wiring=WIRING, windows=(WINDOW,)):
    return measure_windows(record_of(CH1=MEAN + codes), wiring, list(windows), zero=zero)


def warned(measurement):
    warnings = []
    warn_of_peaks(warnings, measurement)
    return warnings


ZERO = record_of(CH1=np.tile(NOISE, 100))


def test_the_noise_of_the_zero_reading_is_taken_off_the_ripple_in_quadrature():
    found = measured(SIGNAL + NOISE, ZERO)
    assert found.ripple_w == pytest.approx(3 * SLOPE_W_PER_CODE, rel=1e-4)
    assert found.noise_w == pytest.approx(2 * SLOPE_W_PER_CODE, rel=1e-4)
    (run,) = found.runs
    assert run.power_ripple_w == pytest.approx(3 * SLOPE_W_PER_CODE, rel=1e-4)
    assert run.power_min_w <= run.power_w <= run.power_max_w
    assert run.current_min_a <= run.current_mean_a <= run.current_max_a


@pytest.mark.parametrize("zero", [None, record_of(scale=2 * SCALE_V, CH1=NOISE)])
def test_without_a_zero_reading_at_these_settings_no_noise_is_made_up_and_it_is_said(zero):
    found = measured(SIGNAL + NOISE, zero)
    # The data sheet's 1 V rms would leave nothing.
    assert found.ripple_w == pytest.approx(math.sqrt(9 + 4) * SLOPE_W_PER_CODE, rel=1e-6)
    assert found.noise_w is None
    warnings = []
    warn_of_chain(warnings, found, zero)
    assert any("its noise in ripple and extremes" in w for w in warnings)


def test_more_noise_than_ripple_leaves_none():
    found = measured(np.zeros(3000, np.int16), ZERO)
    assert found.ripple_w == 0.0
    assert found.runs[0].power_ripple_w == 0.0


def test_runs_of_which_noise_leaves_nothing_do_not_push_the_ripple_up():
    # One window has noise and no ripple, one has both: the mean of their squares, 9/2, not the mean of 0 and 3.
    codes = np.concatenate([NOISE, SIGNAL + NOISE])
    found = measured(codes, ZERO, windows=[WINDOW, Window(0, 3499.5, 5499.5)])
    assert found.ripple_w == pytest.approx(3 / math.sqrt(2) * SLOPE_W_PER_CODE, rel=1e-4)


def test_noise_that_both_ends_of_a_shunt_share_is_not_taken_off_their_difference():
    wiring = Wiring(Shunt(OHM, wiring="two-channel", decoupling_f=0.0), Supply(SUPPLY_V), shunt_high_channel="CH1",
                    shunt_low_channel="CH2")
    record = record_of(CH1=1000 + MEAN + SIGNAL + NOISE, CH2=1000 + NOISE)
    zero = record_of(CH1=np.tile(1000 + NOISE, 100), CH2=np.tile(1000 + NOISE, 100))
    found = measure_windows(record, wiring, [WINDOW], zero=zero)
    assert found.ripple_w == pytest.approx(3 * SLOPE_W_PER_CODE, rel=1e-9)
    assert found.noise_w == pytest.approx(0.0, abs=1e-9)


def test_extremes_that_noise_alone_would_reach_are_named_once():
    most, least, spread = warned(measured(SIGNAL // 3 + NOISE, ZERO))
    # One normal value in 2000 exceeds 3.29 standard deviations; the codes go three from the mean.
    assert most == "peak current and greatest power are mostly scope noise (100 µA rms)"
    assert least == "least power is mostly scope noise (100 µA rms)"
    # One code of it, and two of noise.
    assert spread == "std within runs is rough: more noise was taken off than is left"


def test_a_peak_far_above_the_noise_is_the_duts():
    # 100 codes up once in a while, and never down: only the least power is noise; the ripple is far above it.
    peaks = np.where(np.arange(3000) % 50 == 0, 100, 0).astype(np.int16)
    (text,) = warned(measured(peaks + NOISE, ZERO))
    assert text == "least power is mostly scope noise (100 µA rms)"
    assert warned(measured(40 * SIGNAL + NOISE, ZERO)) == []
    assert warned(measured(SIGNAL, record_of(CH1=np.zeros(1000, np.int16)))) == []


def tail(before_a, inside_a, decoupling_f=10e-6, noise=0):
    tau_s = OHM * 10e-6
    t = (np.arange(3000) - 499.5) * 1e-6
    current = np.where(t < 0, before_a, inside_a + (before_a - inside_a) * np.exp(-np.clip(t, 0, None) / tau_s))
    codes = np.rint(current * OHM / SCALE_V) + np.random.default_rng(2).normal(0, noise, 3000).round()
    wiring = Wiring(Shunt(OHM, decoupling_f=decoupling_f), Supply(SUPPLY_V), shunt_channel="CH1")
    return warned(measure_windows(record_of(CH1=codes.astype(np.int16)), wiring, [WINDOW]))


def test_a_window_that_begins_in_a_tail_says_that_the_peak_is_not_its_own():
    # 12 mA before, 3 mA inside: the window's mean, the decoupling's charge put back, is 3 mA.
    (text,) = tail(12e-3, 3e-3)
    assert "begin in the tail of what went before" in text
    assert "peak current and greatest power are not the operation's" in text
    assert float(re.search(r"([0-9.]+) mA above", text)[1]) == pytest.approx(9.0, rel=5e-3)
    # Five time constants of 13 us.
    assert "see the waveform from 65.0 µs on" in text


def test_a_rise_a_steady_current_or_no_decoupling_is_no_tail():
    assert tail(3e-3, 12e-3) == []
    assert tail(3e-3, 3e-3) == []
    assert tail(3e-3, 3e-3, noise=3.0) == []
    assert tail(12e-3, 3e-3, decoupling_f=0.0) == []
