"""Energy from logs of a meter that counts it and has no trigger, on logs in closed form."""

import dataclasses

import numpy as np
import pytest

from instruments.record import Accuracy, Channel, Identity, Record
from labctl.analysis.result import analyze
from labctl.errors import CaptureError
from labctl.model import Capture, DutReport, Operation, Supply, Wiring

DT_S, CLOCK_HZ = 1e-3, 24_000_000
WAIT_W, WINDOW_W, SUPPLY_V = 6e-3, 30e-3, 3.0
N_ITERATIONS, NULL_CYCLES = 100_000, 24
BOARD = {"name": "made-up", "clock_hz": CLOCK_HZ, "crystal_tolerance_ratio": 50e-6}
METER = Identity("TI", "EnergyTrace", "", "")
SHEET = Accuracy(0.02, 0.0, 0.0, "data sheet")
OFFSET_A = 500e-9


def log(windows_s, n, quantum_j=0.0):
    """Cumulative energy of n samples, one segment for each (start, length) of a window; counted in `quantum_j`."""
    t_s = np.arange(n) * DT_S
    energy = np.stack([
        WAIT_W * t_s + (WINDOW_W - WAIT_W) * np.clip(t_s - start, 0, length) for start, length in windows_s
    ])
    if quantum_j:
        energy = np.floor(energy / quantum_j) * quantum_j
    return Record(
        {
            "E1": Channel("E1", energy, 1.0, 0.0, unit="J", accuracy=SHEET),
            "I1": Channel("I1", np.full(energy.shape, 1e-3), 1.0, 0.0, unit="A",
                          accuracy=Accuracy(0.02, OFFSET_A, 0.0, "data sheet")),
            "V1": Channel("V1", np.full(energy.shape, SUPPLY_V), 1.0, 0.0),
        },
        DT_S, np.arange(len(windows_s)) * 10.0, METER, granted={"averages": True},
    )  # fmt: skip


def capture_of(lengths_s=(1.0,) * 5, n=2001, quantum_j=0.0, beside_s=0.0, **changed):
    series = log([(0.3 + 0.01 * k, length) for k, length in enumerate(lengths_s)], n, quantum_j)
    series = dataclasses.replace(series, granted={**series.granted, "beside_s": beside_s})
    cycles = tuple(round(length * CLOCK_HZ) for length in lengths_s)
    return dataclasses.replace(Capture(
        records={"series": series, "waiting": log([(0.0, 0.0)], 1001)},
        wiring=Wiring(supply=Supply(SUPPLY_V), shunt_channel="I1"),
        operation=Operation("sha256", 64, n_iterations=N_ITERATIONS, n_runs=len(lengths_s)),
        board=BOARD,
        dut_report=DutReport(cycles, True),
        null_report=DutReport((NULL_CYCLES,) * 100, True),
    ), **changed)  # fmt: skip


def test_waiting_and_null_are_taken_off_and_the_rest_shared():
    result = analyze(capture_of())
    null_s = NULL_CYCLES / CLOCK_HZ
    assert result.duration_mean_s == pytest.approx((1.0 - null_s) / N_ITERATIONS, rel=1e-12)
    assert result.power_mean_w == pytest.approx(WINDOW_W, rel=1e-9)
    assert result.energy_mean_j == pytest.approx(WINDOW_W * (1.0 - null_s) / N_ITERATIONS, rel=1e-9)
    assert result.energy_net_idle_j == pytest.approx((WINDOW_W - WAIT_W) * (1.0 - null_s) / N_ITERATIONS, rel=1e-9)
    assert result.current_mean_a == pytest.approx(WINDOW_W / SUPPLY_V, rel=1e-9)
    assert result.cycles_mean == pytest.approx((CLOCK_HZ - NULL_CYCLES) / N_ITERATIONS)
    assert result.n_runs == 5
    assert any("no trigger" in text for text in result.warnings)


def test_the_meters_limits_are_in_the_interval():
    result = analyze(capture_of())
    parts = {part.name: part for part in result.budget["power"]}
    assert parts["gain"].effect == pytest.approx(0.02 / 3**0.5 * WINDOW_W, rel=1e-6)
    assert parts["offset"].effect == pytest.approx(OFFSET_A / 3**0.5 * SUPPLY_V, rel=1e-6)
    # A rectangular limit of 2 % alone: 95 % of it lie within 0.95 of the limit.
    assert result.power_expanded_w == pytest.approx(0.95 * 0.02 * WINDOW_W, rel=0.02)


def test_what_the_dut_does_beside_the_window_is_bounded():
    result = analyze(capture_of(beside_s=0.02))
    parts = {part.name: part for part in result.budget["energy"]}
    per_window_j = parts["beside the window"].effect * N_ITERATIONS
    assert per_window_j == pytest.approx((WINDOW_W - WAIT_W) * 0.02 / 3**0.5, rel=1e-6)


def test_counts_in_steps_scatter_and_the_truth_stays_inside():
    result = analyze(capture_of(lengths_s=tuple(1.0 + 1e-4 * k for k in range(8)), quantum_j=20e-6))
    truth_j = WINDOW_W * (1.0 + 3.5e-4) / N_ITERATIONS
    assert abs(result.energy_mean_j - truth_j) < result.energy_expanded_j
    assert result.energy_std_j > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"records": {"series": log([(0.3, 1.0)] * 5, 2001)}}, "no log of the waiting DUT"),
        ({"dut_report": DutReport((), True)}, "counts no cycles"),
        ({"dut_report": DutReport((CLOCK_HZ,) * 4, True)}, "counted 4 runs and there are 5 logs"),
        ({"dut_report": DutReport((3 * CLOCK_HZ,) * 5, True)}, "does not hold a window"),
    ],
)
def test_what_gives_no_honest_number_is_refused(change, words):
    with pytest.raises(CaptureError, match=words):
        analyze(capture_of(**change))


def test_a_gap_at_an_end_is_refused():
    capture = capture_of()
    capture.records["series"].channels["E1"].codes[2, -1] = np.nan
    with pytest.raises(CaptureError, match="gap"):
        analyze(capture)
