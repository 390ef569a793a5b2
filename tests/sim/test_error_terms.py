"""The limits that the world draws from and the budget allows for are the same, and are those of docs/error-terms.md."""

from pathlib import Path

import numpy as np
import pytest

from instruments.drivers import infiniivision_facts as driver
from instruments.protocols import ChannelSettings
from instruments.sim import frontend as world
from instruments.sim.fixture import Nominal
from labctl import boards
from labctl.analysis import uncertainty
from labctl.bench import Fixture

PAGE = (Path(__file__).parents[2] / "docs" / "error-terms.md").read_text(encoding="utf-8")


def test_gain():
    assert world.GAIN_LIMIT_RATIO == driver.GAIN_RATIO == 0.02
    assert "| channel gain | 2 % of full scale" in PAGE


def test_offset():
    assert world.OFFSET_LIMIT_DIVISION == driver.OFFSET_DIVISIONS == 0.1
    assert world.OFFSET_LIMIT_V == driver.OFFSET_FIXED_V == 2e-3
    assert world.OFFSET_LIMIT_SETTING_RATIO == driver.OFFSET_SETTING_RATIO == 0.01
    assert "0.1 div + 2 mV + 1 % of the offset setting" in PAGE


def test_noise():
    assert world.NOISE_LIMITED == (driver.NOISE_LIMITED_V, driver.NOISE_LIMITED_RATIO) == (30e-6, 0.05)
    assert world.NOISE_FULL == (driver.NOISE_FULL_V, driver.NOISE_FULL_RATIO) == (140e-6, 0.06)
    assert "30 µV + 5 % of a division" in PAGE
    assert "140 µV + 6 % of a division" in PAGE
    # 5 mV/div with the limit on: 30 uV + 5 % of 5 mV.
    assert driver.noise_rms_v(ChannelSettings("CH1", 40e-3, bandwidth_limit=True)) == pytest.approx(280e-6)


def test_time_base():
    assert world.TIMEBASE_LIMIT_RATIO == driver.TIMEBASE_RATIO == 10e-6
    assert "| time base | 10 ppm" in PAGE


def test_crystal():
    assert boards.load("stm32vldiscovery")["crystal_tolerance_ratio"] == 50e-6
    assert "| crystal | 50 ppm" in PAGE


def test_skew():
    """The budget holds the world's cables and the limiter's pole, less what the trigger's own pole takes off it."""
    assert world.SKEW_LIMIT_S == 5e-9
    assert uncertainty.SKEW_LIMIT_S == 20e-9
    limited, full = (
        world.FrontEnd(1, "shunt", world.ChannelSetup(1, 0.04, 0.0, 1.0, on)).rise_s / world.RISE_PER_TAU
        for on in (True, False)
    )
    # One pole at f: tau = 1/(2 pi f).
    assert limited == pytest.approx(1 / (2 * np.pi * 20e6), rel=0.01)
    assert round(limited * 1e9) == 8
    assert round(full * 1e9, 1) == 0.8
    assert world.SKEW_LIMIT_S + limited < uncertainty.SKEW_LIMIT_S
    assert "| 5 ns, either way; beside it each channel delays by its own pole, 8 ns with the 20 MHz limit" in PAGE
    assert "| skew, 20 ns: the limiter's 8 ns and the cables' 5 ns" in PAGE


def test_skew_is_drawn_once_and_delays_only_the_shunt():
    draws = np.array([world.skew_s(seed) for seed in range(400)])
    assert 0.95 * 5e-9 < np.abs(draws).max() <= 5e-9
    setups = [world.ChannelSetup(n, range_v, 0.0, 1.0, True) for n, range_v in ((1, 0.04), (3, 8.0))]
    assert {world.FrontEnd(7, "shunt", setup).skew_s for setup in setups} == {draws[7]}
    assert world.FrontEnd(7, "trigger", setups[0]).skew_s == 0.0


def test_load_and_pulse():
    """The world and labctl hold their own copies of what a fixture usually is."""
    ours, theirs = Fixture(), Nominal()
    assert (ours.load_ohm, ours.load_tolerance_ratio) == (theirs.load_ohm, theirs.load_tolerance_ratio) == (330, 1e-3)
    assert (ours.pulse_s, ours.period_s) == (theirs.width_s, theirs.period_s) == (1e-3, 2e-3)
    assert ours.pulse_tolerance_ratio == theirs.pulse_tolerance_ratio == 1e-6
    assert "| known load | 0.1 %" in PAGE
    assert "| known pulse | 1 ppm" in PAGE
    loads = np.array([Nominal(330, 0.01).true_load_ohm(seed) for seed in range(400)]) / 330 - 1
    pulses = np.array([Nominal(pulse_tolerance_ratio=1e-5).pulse_ratio(seed) for seed in range(400)])
    for draws, limit in ((loads, 0.01), (pulses, 1e-5)):
        assert 0.95 * limit < np.abs(draws).max() <= limit * (1 + 1e-12)
        assert draws.std() == pytest.approx(limit * 3**-0.5, rel=0.08)


def test_the_draws_stay_inside_and_fill_their_limits():
    draws = np.array([world.SampleClock(seed).error_ratio for seed in range(400)]) / 10e-6
    assert np.abs(draws).max() <= 1
    assert np.abs(draws).max() > 0.95
    # A rectangular distribution of half-width 1 has the standard deviation 1/sqrt(3).
    assert draws.std() == pytest.approx(3**-0.5, rel=0.08)
