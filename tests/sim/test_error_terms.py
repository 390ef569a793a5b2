"""The limits that the world draws from and the budget allows for are the same, and are those of docs/error-terms.md."""

from pathlib import Path

import numpy as np
import pytest

from instruments.drivers import infiniivision_facts as driver
from instruments.protocols import ChannelSettings
from instruments.sim import frontend as world
from labctl import boards

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


def test_the_draws_stay_inside_and_fill_their_limits():
    draws = np.array([world.SampleClock(seed).error_ratio for seed in range(400)]) / 10e-6
    assert np.abs(draws).max() <= 1
    assert np.abs(draws).max() > 0.95
    # A rectangular distribution of half-width 1 has the standard deviation 1/sqrt(3).
    assert draws.std() == pytest.approx(3**-0.5, rel=0.08)
