"""The golden capture is analysed without the simulator that made it: its own truth judges the numbers."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.result import analyze
from labctl.store import open_capture, read_truth, verify_capture

GOLDEN = Path(__file__).parents[2] / "captures" / "golden" / "stm32vldiscovery-sha256-64.h5"


def test_the_file_is_sound():
    assert verify_capture(GOLDEN) == []


def test_energy_power_and_duration_hold_the_truth():
    truth = read_truth(GOLDEN)
    assert truth is not None
    with open_capture(GOLDEN) as capture:
        result = analyze(capture)
    assert abs(result.energy_mean_j - truth["energy_j"]) <= result.energy_expanded_j
    assert abs(result.power_mean_w - truth["power_w"]) <= result.power_expanded_w
    assert abs(result.duration_mean_s - truth["duration_s"]) <= result.duration_expanded_s
    assert result.n_runs == 3
    assert result.n_refused == 0


def test_duration_equals_the_cycles_of_the_dut():
    with open_capture(GOLDEN) as capture:
        result = analyze(capture)
        assert capture.dut_report is not None
        assert capture.null_report is not None
        cycles = np.mean(capture.dut_report.cycles) - np.mean(capture.null_report.cycles)
        clock_hz = capture.board["clock_hz"]
    assert result.cycles_mean == cycles
    # Time base 10 ppm, crystal 50 ppm, one count.
    assert result.duration_mean_s == pytest.approx(cycles / clock_hz, rel=60e-6, abs=1 / clock_hz)


def test_a_wrong_shunt_would_be_noticed():
    """Break one side: with the shunt 10 % off, the interval no longer holds the truth."""
    truth = read_truth(GOLDEN)
    assert truth is not None
    with open_capture(GOLDEN) as capture:
        assert capture.wiring.shunt is not None
        shunt = dataclasses.replace(capture.wiring.shunt, resistance_ohm=1.43)
        wiring = dataclasses.replace(capture.wiring, shunt=shunt)
        result = analyze(dataclasses.replace(capture, wiring=wiring))
    assert abs(result.energy_mean_j - truth["energy_j"]) > result.energy_expanded_j
