"""The N6705's driver on the emulated one: each way to record tells the energy of a window as the world has it."""

import contextlib

import numpy as np
import pytest

from instruments.drivers.keysight_n6705 import KeysightN6705
from instruments.errors import InstrumentTimeout
from instruments.protocols import AcquisitionSettings, ChannelSettings, CurrentSettings, TriggerSettings
from instruments.sim.bench import Bench

CLOCK_HZ = 24_000_000
V_V, QUIET_A, BUSY_A, WINDOW_S = 3.3, 4e-3, 12e-3, 0.05
CONFIG = {
    "board": {"clock_hz": CLOCK_HZ, "pins": {"level_v": 3.3}},
    "elf": "none",
    "seed": 7,
    "shunt": {"resistance_ohm": 0.0, "tolerance_ratio": 0.0},
    "supply": {"voltage_v": V_V, "tolerance_ratio": 0.01},
    "decoupling": {"capacitance_f": 4.7e-6, "tolerance_ratio": 0.2},
    "crystal": {"tolerance_ratio": 50e-6},
    "wiring": {"shunt_channel": 1, "trigger_channel": 2},
}
CHANNELS = (CurrentSettings("I1"), ChannelSettings("V1", 8.0), ChannelSettings("V2", 6.6, 1.65))
PIN, LEVEL = TriggerSettings("PIN1", 1.65), TriggerSettings("VOLT2", 1.65)


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
def bench(request):
    """Give the bench, its DUT and the opened driver; quiet passes faster than in truth."""
    duts, pace = [], getattr(request, "param", 1000)

    def make(config, world, on_uart):
        duts.append(Dut(world))
        return duts[0]

    made = Bench({**CONFIG, "meter": {"kind": "n6705", "pace": pace}}, make)
    with contextlib.closing(made):
        made._booted.wait(10.0)
        made.world.windows()
        with contextlib.closing(KeysightN6705.open(made.addresses()["meter"])) as meter:
            yield made, duts[0], meter


@pytest.mark.parametrize(
    ("bench", "trigger", "span_s", "pre_s", "mode", "dt_s"),
    [
        (1000, PIN, 0.09, 0.01, "scope view", 20.48e-6),
        (1000, LEVEL, 4.0, 0.01, "data log", 61.44e-6),
        # It begins when it is armed, and what is not read within 20 s of the bench's time is overwritten.
        (10, PIN, 60.0, 0.01, "external log", 307.2e-6),
    ],
    ids=["scope view", "data log", "external log"],
    indirect=["bench"],
)
def test_each_way_tells_the_energy_of_a_window(bench, trigger, span_s, pre_s, mode, dt_s):
    made, dut, meter = bench
    granted = meter.configure(AcquisitionSettings(CHANNELS, trigger, span_s, pre_s))
    meter.arm()
    dut.window()
    assert meter.wait(30.0) == 1
    record = meter.fetch()
    (window,) = made.world.windows()
    assert record.granted["mode"] == mode
    assert record.dt_s == pytest.approx(dt_s)
    assert record.n_samples * record.dt_s >= 0.999 * span_s
    assert record.gaps == ()
    current_a, supply_v, pin_v = (np.asarray(channel.codes[0], float) for channel in record.channels.values())
    high = pin_v > 1.65
    edges = np.flatnonzero(np.diff(np.concatenate(([0], high))))
    assert edges.size == 2
    assert (edges[1] - edges[0]) * record.dt_s == pytest.approx(window["duration_s"], abs=2 * record.dt_s)
    if granted.trigger is not None:
        # The first sample of the window is the one that ends within an interval of the trigger, 0 s.
        first_s = record.segment_start_s[0] + edges[0] * record.dt_s
        assert first_s == pytest.approx(0.0, abs=2.5 * record.dt_s)
        assert edges[0] >= 0.9 * pre_s / record.dt_s
    # By the driver's own limits, 50 ppm of its clock, and an interval at each end.
    current, supply = record.channels["I1"].accuracy, record.channels["V1"].accuracy
    limit = current.gain_ratio + current.offset_limit / BUSY_A + supply.gain_ratio + supply.offset_limit / V_V
    limit += 50e-6 + 2 * record.dt_s / WINDOW_S
    told_j = (current_a * supply_v)[high].sum() * record.dt_s
    assert told_j == pytest.approx(window["energy_dut_j"], rel=limit)


def test_one_recording_follows_another_and_a_trigger_that_failed(bench):
    _, dut, meter = bench
    settings = AcquisitionSettings(CHANNELS, PIN, 0.09, 0.01)
    meter.configure(settings)
    meter.arm()
    with pytest.raises(InstrumentTimeout, match="polarity"):
        meter.wait(0.1)
    for _ in range(2):
        meter.configure(settings)
        meter.arm()
        dut.window()
        meter.wait(30.0)
        assert (np.asarray(meter.fetch().channels["V2"].codes[0]) > 1.65).sum() > 2000


def test_the_supply_is_switched_and_set(bench):
    _, dut, meter = bench
    meter.set_output(False)
    assert not dut.on
    meter.set_supply(1.8, 0.5)
    meter.set_output(True)
    assert dut.on
    meter.configure(AcquisitionSettings((ChannelSettings("V1", 8.0),), None, 1e-3, 0.0))
    meter.arm()
    meter.wait(30.0)
    assert np.asarray(meter.fetch().channels["V1"].codes).mean() == pytest.approx(1.8, rel=0.011, abs=1.2e-3)
