"""The limits that the emulated meters draw from are those of docs/error-terms.md."""

from pathlib import Path

import numpy as np
import pytest

from instruments.sim import energytrace, n6705_module, ppk2

PAGE = (Path(__file__).parents[2] / "docs" / "error-terms.md").read_text(encoding="utf-8")


def test_n6781a():
    rows = [(r.full, r.gain_ratio, r.offset, r.noise_rms) for r in n6705_module.CURRENT]
    assert rows == [
        (10e-6, 0.25e-3, 8e-9, 100e-9), (1e-3, 0.25e-3, 100e-9, 1.4e-6), (0.1, 0.25e-3, 10e-6, 13.5e-6),
        (3.0, 0.3e-3, 250e-6, 450e-6),
    ]  # fmt: skip
    rows = [(r.full, r.gain_ratio, r.offset, r.noise_rms) for r in n6705_module.VOLTAGE]
    assert rows == [(0.1, 0.25e-3, 50e-6, 38.9e-6), (1.0, 0.25e-3, 75e-6, 186.6e-6), (20.0, 0.25e-3, 1.2e-3, 2.3e-3)]
    assert n6705_module.TIMEBASE_LIMIT_RATIO == 50e-6
    for text in (
        "3 A range | 0.03 % + 250 µA", "100 mA range | 0.025 % + 10 µA", "1 mA range | 0.025 % + 100 nA",
        "10 µA range | 0.025 % + 8 nA", "0.025 % + 1.2 mV, 75 µV, 50 µV", "450 µA, 13.5 µA, 1.4 µA, 100 nA rms",
        "2.3 mV, 186.6 µV, 38.9 µV rms", "| N6705C | time base | 50 ppm",
    ):  # fmt: skip
        assert text in PAGE


@pytest.mark.parametrize(
    ("interval_s", "guide_v", "guide_a"),
    [(5.12e-6, 2.3e-3, 13.5e-6), (102.4e-6, 993.7e-6, 5.4e-6), (10e-3, 87.4e-6, 644.2e-9)],
)
def test_noise_over_an_interval_is_that_of_the_guide_within_a_third(interval_s, guide_v, guide_a):
    module = n6705_module.Module(1, 1)
    for kind, full, guide in (("VOLT", 20.0, guide_v), ("CURR", 0.1, guide_a)):
        read = module.read(kind, np.zeros(20_000), interval_s, full, np.random.default_rng(1))
        assert read.std() == pytest.approx(guide, rel=0.35)


def test_ppk2():
    assert ppk2.GAIN_LIMIT_RATIO == 0.02
    assert (ppk2.OFFSET_LIMIT_CODES, ppk2.NOISE_RMS_CODES) == (1.0, 0.7)
    assert ppk2.TIMEBASE_LIMIT_RATIO == 50e-6
    # A step is 4 x 1.8 / 163840 V at the range's resistor.
    steps = [4 * 1.8 / 163840 / ohm for ohm in ppk2.RESISTORS_OHM]
    assert steps == pytest.approx([43e-9, 0.43e-6, 4.3e-6, 47e-6, 1e-3], rel=0.03)
    assert "43 nA, 0.43 µA, 4.3 µA, 47 µA, 1 mA" in PAGE
    assert "| PPK2 | gain beside the unit's own constants | 2 %" in PAGE
    assert "| PPK2 | noise | 0.7 steps rms" in PAGE
    assert "| PPK2 | time base | 50 ppm" in PAGE


def test_energytrace():
    limits = energytrace.GAIN_LIMIT_RATIO, energytrace.HIGH_FROM_A, energytrace.GAIN_LIMIT_HIGH_RATIO
    assert limits == (0.02, 25e-3, 0.05)
    assert (energytrace.OFFSET_LIMIT_A, energytrace.PULSE_J) == (500e-9, 50e-6)
    assert (energytrace.VOLTAGE_LIMIT_RATIO, energytrace.TIMEBASE_LIMIT_RATIO) == (0.01, 100e-6)
    assert "| EnergyTrace | gain | 2 % up to 25 mA, 5 % above" in PAGE
    assert "| EnergyTrace | offset | 500 nA" in PAGE
    assert "| EnergyTrace | resolution of energy | 50 µJ" in PAGE
    assert "| EnergyTrace | voltage that it shows | 1 %" in PAGE
    assert "| EnergyTrace | time base | 100 ppm" in PAGE
