"""The PPK2's driver on the emulated one: the energy of a window as the world has it, also where the link fails."""

import contextlib
import time

import numpy as np
import pytest

from instruments.drivers.nordic_ppk2 import NordicPpk2
from instruments.drivers.ppk2_words import RESISTORS_OHM
from instruments.errors import InstrumentTimeout, LinkLost
from instruments.protocols import AcquisitionSettings, CurrentSettings, DigitalSettings, TriggerSettings
from instruments.sim.bench import Bench

CLOCK_HZ = 24_000_000
V_V, QUIET_A, BUSY_A, WINDOW_S = 3.3, 4e-3, 12e-3, 0.05
DT_S = 10e-6
CONFIG = {
    "board": {"clock_hz": CLOCK_HZ, "pins": {"level_v": 3.3}},
    "elf": "none",
    "seed": 7,
    "shunt": {"resistance_ohm": 0.0, "tolerance_ratio": 0.0},
    "supply": {"voltage_v": V_V, "tolerance_ratio": 0.01},
    "decoupling": {"capacitance_f": 4.7e-6, "tolerance_ratio": 0.2},
    "crystal": {"tolerance_ratio": 50e-6},
    "wiring": {"shunt_channel": 1, "trigger_channel": 2},
    # Quiet passes faster than in truth; one loses no more than the host is late by.
    "meter": {"kind": "ppk2", "pace": 20},
}
SETTINGS = AcquisitionSettings(
    (CurrentSettings("I1"), DigitalSettings("D0")), TriggerSettings("D0", 1.65), span_s=0.08, pre_s=0.01
)


class Dut:
    """Draws a floor, and when told more for the time of one window, with quiet around it."""

    def __init__(self, world):
        self.world, self.on, self.cycle = world, False, 0
        world.parked(0, 0.0)

    def power(self, on):
        self.on = on
        self.world.parked(self.cycle, QUIET_A if on else 0.0)

    def window(self):
        for n_s, current_a, level in ((0.02, QUIET_A, 0), (WINDOW_S, BUSY_A, 1), (0.02, QUIET_A, 0)):
            self.world.pin(self.cycle, level)
            self.cycle += round(n_s * CLOCK_HZ)
            self.world.current(np.array([self.cycle], np.uint64), np.array([current_a], np.float32))
        self.world.parked(self.cycle, QUIET_A)

    def set_faults(self, faults):
        pass

    def status(self):
        return {"engine": "parked" if self.on else "off", "fault": ""}

    def close(self):
        self.on = False


@pytest.fixture
def bench():
    """Give the bench and its DUT."""
    duts = []

    def make(config, world, on_uart):
        duts.append(Dut(world))
        return duts[0]

    made = Bench(CONFIG, make)
    with contextlib.closing(made):
        made._booted.wait(10.0)
        made.world.windows()
        yield made, duts[0]


@pytest.fixture
def meter(bench):
    """Give the opened driver, its output on."""
    with contextlib.closing(NordicPpk2.open(bench[0].addresses()["meter"])) as meter:
        meter.set_output(True)
        yield meter


def taken(meter, dut):
    """Record one window."""
    meter.configure(SETTINGS)
    meter.arm(30.0)
    dut.window()
    assert meter.wait(30.0) == 1
    return meter.fetch()


def check(record, window, n_lost_max=0):
    """Hold a record against the world's window: its edges, and its charge where nothing was lost."""
    current_a, high = record.channels["I1"].codes[0].astype(float), record.channels["D0"].codes[0] == 1
    assert record.n_samples == 8000
    known = np.isfinite(current_a)
    assert (~known).sum() == sum(n for _, _, n in record.gaps) <= n_lost_max
    # 50 ppm of its clock and the crystal's, and an interval at each end; an edge in a gap shows behind it.
    late = max((n for _, _, n in record.gaps), default=0)
    assert high.sum() * DT_S == pytest.approx(window["duration_s"], abs=(2 + late) * DT_S)
    assert 1000 <= np.flatnonzero(high)[0] <= 1000 + late
    accuracy = record.channels["I1"].accuracy
    limit = accuracy.gain_ratio + accuracy.offset_limit / BUSY_A + 0.01  # and of the supply's voltage
    inside = known & high
    told_j = V_V * current_a[inside].mean() * window["duration_s"]
    assert told_j == pytest.approx(window["energy_dut_j"], rel=limit)
    # Quiet and busy are three times apart: no sample is in the wrong place, and none is off by a range.
    settled = np.convolve(high, np.ones(21), "same")  # the decoupling's charge takes a while
    assert current_a[known & (settled == 21)] == pytest.approx(BUSY_A, rel=limit)
    assert current_a[known & (settled == 0)] == pytest.approx(QUIET_A, rel=accuracy.gain_ratio + 0.06)


def test_a_window_has_the_energy_that_the_world_has(bench, meter):
    made, dut = bench
    record = taken(meter, dut)
    (window,) = made.world.windows()
    check(record, window)
    assert (record.granted["words_lost"], record.granted["resynchronised"]) == (0, 0)


@pytest.mark.parametrize(
    ("fault", "n_lost_max"),
    [
        ({"serial_loss": 3e-4}, 200),
        ({"serial_repeat": 3e-4}, 200),
        ({"packet_loss": 0.01}, 1000),
        ({"stale_bytes": 333}, 0),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_lost_and_repeated_bytes_are_gaps_and_nothing_moves(bench, meter, fault, n_lost_max):
    made, dut = bench
    made.set_faults({"meter": fault})
    record = taken(meter, dut)
    (window,) = made.world.windows()
    check(record, window, n_lost_max)
    told = record.granted["words_lost"] + record.granted["words_repeated"] + record.granted["resynchronised"]
    assert (told > 0) == (n_lost_max > 0)
    made.set_faults({})
    check(taken(meter, dut), made.world.windows()[0])


def test_a_plug_that_is_pulled_and_comes_back(bench, meter):
    made, dut = bench
    made.set_faults({"meter": {"unplug_after_bytes": 6000, "replug_after_s": 0.2}})
    meter.configure(SETTINGS)
    with pytest.raises(LinkLost, match=made.addresses()["meter"]):
        meter.arm(10.0)  # the part before the trigger is longer than that
    made.set_faults({})
    end_s = time.monotonic() + 10.0
    while True:
        try:
            meter.set_output(True)
            break
        except LinkLost:
            assert time.monotonic() < end_s
            time.sleep(0.05)
    made.world.windows()
    record = taken(meter, dut)
    check(record, made.world.windows()[0])


def test_a_slow_device_ends_in_time(bench):
    made, _ = bench
    made.set_faults({"meter": {"metadata_s": 0.6}})
    with pytest.raises(InstrumentTimeout, match=r"metadata \(command 0x19\)"):
        NordicPpk2.open(made.addresses()["meter"], timeout_s=0.2)
    made.set_faults({})
    time.sleep(0.6)  # the late answer comes to nobody, and is stale for the next
    NordicPpk2.open(made.addresses()["meter"]).close()


def test_a_constant_that_the_device_does_not_know_is_the_published_default(bench):
    made, _ = bench
    told = []
    for faults in ({}, {"meter": {"metadata_nan": True}}):
        made.set_faults(faults)
        with contextlib.closing(NordicPpk2.open(made.addresses()["meter"])) as meter:
            told.append(meter._known().constants)
    ((name, number),) = [(name, k) for name in told[0] for k in range(5) if told[0][name][k] != told[1][name][k]]
    default = {"R": RESISTORS_OHM[number], "O": 0.0, "S": 0.0, "I": 0.0}.get(name, 1.0)
    assert told[1][name][number] == default


def test_no_edge_ends_in_time_and_the_next_recording_works(bench, meter):
    made, dut = bench
    meter.configure(SETTINGS)
    meter.arm(10.0)
    with pytest.raises(InstrumentTimeout, match="no edge came at D0"):
        meter.wait(0.1)
    check(taken(meter, dut), made.world.windows()[0])


def test_the_output_supplies_the_dut(bench, meter):
    _, dut = bench
    assert dut.on
    meter.set_output(False)
    assert not dut.on
    meter.set_supply(1.8)
    meter.set_output(True)
    assert dut.on
