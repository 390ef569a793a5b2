"""The known load and the known pulse in the DUT's place, the skew, and wiring faults: against closed forms."""

import contextlib
import math
import re
import time

import numpy as np
import pytest
from scipy import stats

from instruments.sim.circuit import Circuit
from instruments.sim.fixture import Fixture, Nominal
from instruments.sim.frontend import ChannelSetup, FrontEnd, SampleClock, noise_generator
from instruments.sim.infiniivision import InfiniiVision
from instruments.sim.world import World

R_OHM, C_F, V_V, PIN_V = 1.3, 4.7e-6, 3.3, 3.3
TAU_S = R_OHM * C_F
DEADLINE_S = 20.0
# Seeds whose skew is positive and negative.
LATE, EARLY = 8, 3


def make_world(decoupling_f=C_F):
    world = World(Circuit(R_OHM, V_V, decoupling_f, 0.0, 24e6, PIN_V))
    world.parked(0, 0.0)
    return world


def front_end(seed=1, signal="shunt", *, channel=1, range_v=0.04, offset_v=0.0, limit=False):
    return FrontEnd(seed, signal, ChannelSetup(channel, range_v, offset_v, 1.0, limit))


def load_v(nominal, seed):
    """Give the shunt's drop under a load: both resistors in series at the supply."""
    return V_V * R_OHM / (nominal.true_load_ohm(seed) + R_OHM)


class Scope:
    """The oscilloscope on a world, without sockets."""

    def __init__(self, world, seed=1):
        self.world = world
        self.scope = InfiniiVision(lambda: world, seed, {1: "shunt", 2: "trigger"})

    def ask(self, message):
        parts = self.scope.execute(message)
        return b"".join(bytes(p) if not isinstance(p, str) else p.encode("latin-1") for p in parts)

    def until(self, question, answer):
        deadline = time.monotonic() + DEADLINE_S
        while self.ask(question) != answer:
            assert time.monotonic() < deadline, f"{question} never answered {answer}"
            time.sleep(0.002)

    def arm(self, message, n_segments=1):
        """Arm for pulses of the trigger pin."""
        self.ask(
            ":CHAN1:DISP 1;RANG 0.08;OFFS 0.02;:CHAN2:DISP 1;RANG 8;OFFS 2;:TRIG:SWE NORM;SOUR CHAN2;SLOP POS;LEV 1.65"
            f";:ACQ:MODE SEGM;SEGM:COUN {max(2, n_segments)};:WAV:POIN:MODE RAW;:WAV:POIN MAX;SEGM:ALL ON;:{message}"
        )
        self.ask(":SING")
        self.until(":AER?", b"+1\n")

    def volts(self, channel):
        """Give all segments of a channel, and the sample interval."""
        self.ask(f":WAV:SOUR CHAN{channel}")
        n = int(self.ask(":WAV:SEGM:COUN?"))
        preamble = [float(x) for x in self.ask(":WAV:PRE?").split(b",")]
        codes = np.frombuffer(self.ask(":WAV:DATA?")[10:-1], np.uint8).reshape(n, -1)
        return (codes.astype(float) - preamble[9]) * preamble[7] + preamble[8], preamble[4]


@pytest.fixture
def scope():
    scope = Scope(make_world())
    yield scope
    scope.ask(":STOP")
    scope.world.close()


# --- the load -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_load_is_a_divider_with_the_shunt(seed):
    world, nominal = make_world(), Nominal(330.0, 0.01)
    Fixture(world, seed, "load", nominal, on=True)
    assert abs(nominal.true_load_ohm(seed) / 330.0 - 1) <= 0.01
    end_s, steady = world.reach(world.end_s + 1.0, 0.0)
    assert steady
    assert world.sample(end_s - 0.5, 1e-6, 50) == pytest.approx(np.full(50, load_v(nominal, seed)), rel=1e-6)


def test_a_load_reads_its_drop_within_the_drawn_errors():
    world, nominal, front = make_world(), Nominal(), front_end(limit=True, offset_v=0.01)
    Fixture(world, 1, "load", nominal, on=True)
    world.reach(world.end_s + 1.0, 0.0)
    volts = front.volts(world, world.end_s - 0.5, 1e-7, 200_000)
    codes = front.digitize(volts, noise_generator(1, 1, 0))
    reading_v = ((codes.astype(float) - 128) * 0.04 / 256 + 0.01).mean()
    expected_v = (load_v(nominal, 1) - 0.01) * (1 + front.gain_ratio) + 0.01 + front.offset_error_v
    assert reading_v == pytest.approx(expected_v, abs=5 * front.noise_rms_v / math.sqrt(200_000))


@pytest.mark.parametrize("decoupling_f", [0.0, 4.7e-6, 470e-6])
def test_who_connects_a_load_finds_it_settled(decoupling_f):
    world, nominal = make_world(decoupling_f), Nominal()
    fixture = Fixture(world, 1, "load", nominal, on=True)
    assert world.sample(world.end_s, 1e-6, 1)[0] == pytest.approx(load_v(nominal, 1), rel=1e-6)
    fixture.power(False)
    assert world.sample(world.end_s, 1e-6, 1)[0] == pytest.approx(0.0, abs=1e-15)
    fixture.power(True)
    fixture.close()
    assert world.sample(world.end_s, 1e-6, 1)[0] == pytest.approx(0.0, abs=1e-15)


def test_a_switched_load_goes_through_the_pole_of_shunt_and_decoupling(scope):
    nominal = Nominal()
    fixture = Fixture(scope.world, 1, "pulsed-load", nominal, on=True)
    viewer, start_s = scope.world.view()
    fixture.fire(1)
    rise_s = scope.world.pin_crossing(start_s, PIN_V / 2, True, 0.0)
    t = np.arange(500) * 0.1e-6
    up_v = scope.world.sample(rise_s, 0.1e-6, 500)
    assert up_v == pytest.approx(load_v(nominal, 1) * (1 - np.exp(-t / TAU_S)), rel=1e-6, abs=1e-9)
    fall_s = scope.world.pin_crossing(start_s, PIN_V / 2, False, 0.0)
    assert fall_s - rise_s == pytest.approx(1e-3 * (1 + nominal.pulse_ratio(1)), rel=1e-9)
    down_v = scope.world.sample(fall_s, 0.1e-6, 500)
    assert down_v == pytest.approx(load_v(nominal, 1) * np.exp(-t / TAU_S), rel=1e-6, abs=1e-9)
    viewer.close()


def test_without_its_supply_a_switched_load_draws_nothing_while_the_generator_runs(scope):
    fixture = Fixture(scope.world, 1, "pulsed-load", Nominal(), on=False)
    viewer, start_s = scope.world.view()
    fixture.fire(2)
    assert not scope.world.sample(start_s, 10e-6, 500).any()
    assert math.isfinite(scope.world.pin_crossing(start_s, PIN_V / 2, True, 0.0))
    viewer.close()


# --- the pulse ------------------------------------------------------------------------------------------------------


def test_pulses_start_low_keep_width_and_quiet_and_fall_at_any_phase():
    world, nominal, n = make_world(), Nominal(width_s=100e-6, period_s=250e-6, pulse_tolerance_ratio=1e-3), 400
    fixture = Fixture(world, 4, "pulse", nominal, on=True)
    viewer, start_s = world.view()
    fixture.fire(n)
    stretch = 1 + nominal.pulse_ratio(4)
    rises_s, falls_s, t = [], [], start_s
    for _ in range(n):
        rises_s.append(world.pin_crossing(t, PIN_V / 2, True, 0.0))
        falls_s.append(t := world.pin_crossing(rises_s[-1], PIN_V / 2, False, 0.0))
    assert math.isnan(world.pin_crossing(t, PIN_V / 2, True, 0.0))
    assert world.level(start_s, 1e-6, 1, 1e-9)[0] == 0.0
    assert np.subtract(falls_s, rises_s) == pytest.approx(np.full(n, 100e-6 * stretch), rel=1e-9)
    quiet_s = np.subtract(rises_s[1:], falls_s[:-1])
    assert 150e-6 * stretch <= quiet_s.min() < quiet_s.max() <= (150e-6 + 2.5e-6) * stretch
    assert rises_s[0] - start_s >= 250e-6 * stretch
    assert world.end_s - falls_s[-1] == pytest.approx(250e-6 * stretch)
    phases = np.array(rises_s) / 100e-9 % 1.0
    assert stats.kstest(phases, "uniform").pvalue > 0.01
    assert not world.sample(start_s, 1e-6, 1000).any()  # a pulse draws no current
    assert world.windows() == []
    viewer.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_armed_scope_sees_each_pulse_as_long_as_its_own_clock_says(seed):
    nominal = Nominal(pulse_tolerance_ratio=1e-3)
    scope = Scope(make_world(), seed)
    fixture = Fixture(scope.world, seed, "pulsed-load", nominal, on=True)
    scope.arm("TIM:RANG 1.4E-3;REF LEFT;POS -1E-4", 20)
    fixture.fire(20)
    scope.until(":OPER:COND?", b"+0\n")
    volts, dt_s = scope.volts(2)
    assert len(volts) == 20
    widths_s = (volts > PIN_V / 2).sum(axis=1) * dt_s
    expected_s = 1e-3 * (1 + nominal.pulse_ratio(seed)) / (1 + SampleClock(seed).error_ratio)
    # Two edges, each anywhere within a sample: dt/sqrt(6) a pulse.
    assert np.abs(widths_s - expected_s).max() <= dt_s
    assert widths_s.mean() == pytest.approx(expected_s, abs=4 * dt_s / math.sqrt(6 * 20))
    scope.world.close()


def test_a_generator_that_runs_by_itself_needs_no_firing(scope):
    fixture = Fixture(scope.world, 1, "pulsed-load", Nominal(), on=True, runs=True)
    scope.arm("TIM:RANG 1.4E-3;REF LEFT;POS -1E-4", 5)
    scope.until(":OPER:COND?", b"+0\n")
    volts, _ = scope.volts(1)
    assert len(volts) == 5
    fixture.close()
    n_pieces = scope.world.n_pieces
    time.sleep(0.1)
    assert scope.world.n_pieces == n_pieces


# --- skew -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [LATE, EARLY])
@pytest.mark.parametrize("limit", [False, True])
def test_a_pulse_on_both_channels_shows_their_poles_and_the_skew(seed, limit):
    """An edge through a pole passes its half after tau ln 2; probe and cable of the shunt add what was drawn."""
    world = make_world()
    fixture = Fixture(world, seed, "pulse", Nominal(), on=False)
    world.shunt_at_pin = True
    viewer, start_s = world.view()
    fixture.fire(1)
    shunt = front_end(seed, range_v=8.0, limit=limit)
    trigger = front_end(seed, "trigger", channel=2, range_v=8.0)
    assert (shunt.skew_s > 0) == (seed == LATE)
    pole_s = [math.hypot(5e-9, 0.35 / hz) / math.log(9) for hz in (20e6 if limit else 200e6, 200e6)]
    expected_s = shunt.skew_s + (pole_s[0] - pole_s[1]) * math.log(2)
    for rising in (True, False):
        seen_s = [
            front.crossing(world, start_s, PIN_V / 2 * (1 + front.gain_ratio) + front.offset_error_v, rising)
            for front in (shunt, trigger)
        ]
        assert seen_s[0] - seen_s[1] == pytest.approx(expected_s, abs=1e-13)
    # The samples tell the same: half the height where the crossing says.
    crossing_s = shunt.crossing(world, start_s, PIN_V / 2 * (1 + shunt.gain_ratio) + shunt.offset_error_v, True)
    assert shunt.volts(world, crossing_s, 1e-9, 1)[0] == pytest.approx(PIN_V / 2, rel=1e-3)
    viewer.close()


@pytest.mark.parametrize("seed", [LATE, EARLY])
def test_the_skew_delays_the_current_of_any_measurement(seed):
    world, front = make_world(), front_end(seed, limit=True)
    viewer, _ = world.view()
    world.current(np.array([24_000], np.uint64), np.array([0.0], np.float32))
    world.current(np.array([48_000], np.uint64), np.array([10e-3], np.float32))
    late_s = front.skew_s + 1 / (2 * math.pi * 20e6)
    t = np.arange(300) * 0.1e-6
    seen_v = front.volts(world, 1e-3 + late_s, 0.1e-6, 300)
    # 0.35/bandwidth is the rise time of a pole to within 0.2 %.
    assert seen_v == pytest.approx(13e-3 * (1 - np.exp(-t / TAU_S)), abs=13e-3 * 0.02e-9 / TAU_S + 1e-9)
    level_v = 6.5e-3 * (1 + front.gain_ratio) + front.offset_error_v
    crossing_s = front.crossing(world, 0.0, level_v, True)
    assert crossing_s - 1e-3 == pytest.approx(TAU_S * math.log(2) + late_s, abs=0.1e-9)
    viewer.close()


# --- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "part"), [("reversed", -1.0), ("disconnected", 0.0), ("bypassed", 0.3)])
def test_a_shunt_wired_wrong_reads_so(fault, part):
    world, nominal = make_world(), Nominal()
    Fixture(world, 1, "load", nominal, on=True)
    world.shunt_fault = fault
    seen_v = front_end().volts(world, world.end_s, 1e-6, 3)
    assert seen_v == pytest.approx(np.full(3, part * load_v(nominal, 1)), rel=1e-6)


@pytest.mark.parametrize(("fault", "rising", "level_v"), [("reversed", False, -6.5e-3), ("bypassed", True, 1.95e-3)])
def test_a_scope_that_triggers_on_a_shunt_wired_wrong(fault, rising, level_v):
    """10 mA at 1.3 ohm: half of the step comes after tau ln 2, whatever part of it is seen."""
    world, front = make_world(), front_end()
    viewer, _ = world.view()
    world.current(np.array([24_000], np.uint64), np.array([0.0], np.float32))
    world.current(np.array([48_000], np.uint64), np.array([10e-3], np.float32))
    shown_v = level_v * (1 + front.gain_ratio) + front.offset_error_v
    world.shunt_fault = fault
    late_s = front.skew_s + front.rise_s / math.log(9)
    assert front.crossing(world, 0.0, shown_v, rising) - 1e-3 == pytest.approx(TAU_S * math.log(2) + late_s, rel=1e-4)
    assert math.isnan(front.crossing(world, 0.0, shown_v, not rising))
    world.shunt_fault = "disconnected"
    assert math.isnan(front.crossing(world, 0.0, shown_v, rising))
    viewer.close()


# --- what a command may say -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "error", "word"),
    [
        ({"load_ohm": 0}, ValueError, "load_ohm"),
        ({"load_ohm": "330"}, TypeError, "load_ohm"),
        ({"load_ohm": True}, TypeError, "load_ohm"),
        ({"load_ohm": math.inf}, TypeError, "load_ohm"),
        ({"load_tolerance_ratio": 1.0}, ValueError, "load_tolerance_ratio"),
        ({"pulse_tolerance_ratio": -1e-6}, ValueError, "pulse_tolerance_ratio"),
        ({"width_s": 2e-3}, ValueError, "period_s"),
    ],
)
def test_facts_that_do_not_fit_are_refused_by_name(request_, error, word):
    with pytest.raises(error, match=word):
        Nominal.of(request_)


@pytest.mark.parametrize("n", [0, -1, 10_001, 1.5, True, "20", None])
def test_a_number_of_pulses_that_is_none(n):
    fixture = Fixture(make_world(), 1, "pulse", Nominal(), on=True)
    with pytest.raises(ValueError, match="number of pulses"):
        fixture.fire(n)


def test_a_load_that_nothing_switches_is_not_fired():
    with pytest.raises(ValueError, match="pulsed-load"):
        Fixture(make_world(), 1, "load", Nominal(), on=True).fire(1)


# --- labctl's side --------------------------------------------------------------------------------------------------


class Recorded:
    """Stand for switch, DUT and scope of a bench, and write down what is asked of each."""

    def __init__(self, serial="MY1"):
        from instruments.record import Identity

        self.log = []
        self.identity = Identity("KEYSIGHT TECHNOLOGIES", "DSO-X 3024T", serial, "07.30")

    def set_output(self, on):
        self.log.append(f"supply {'on' if on else 'off'}")

    def hello(self):
        self.log.append("hello")

    def identify(self):
        return self.identity

    def ask(self, sentence):
        self.log.append(sentence)


def person_s_bench(part):
    from labctl import boards
    from labctl.bench import Bench
    from labctl.benchwiring import wiring_of
    from labctl.simulation import Simulation

    board = boards.load("stm32vldiscovery")
    file = Simulation(board, 1).bench_file()
    return Bench(file, board, wiring_of(file, board), part, part, part, part.ask)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("load", ["DUT out", "220 Ω", "behind the shunt"]),
        ("pulsed-load", ["DUT out", "220 Ω", "decoupling", "1.00 ms every 2.00 ms", "3.30 V", "trigger's probe"]),
        ("pulse", ["shunt's probe", "trigger's probe", "generator", "1.00 ms every 2.00 ms"]),
        ("dut", ["DUT behind the shunt", "across the shunt", "trigger pin"]),
    ],
)
def test_a_person_is_told_what_to_connect_with_the_supply_off(what, words):
    from labctl.bench import Fixture as Said

    part = Recorded()
    person_s_bench(part).connect(what, Said(load_ohm=220.0))
    first, sentence, *rest = part.log
    assert first == "supply off"
    for word in words:
        assert word in sentence
    assert rest == {"pulse": [], "dut": ["supply on", "hello"]}.get(what, ["supply on"])


def test_on_emulated_instruments_behind_a_bench_file_the_command_is_named():
    from labctl.bench import Fixture as Said
    from labctl.cli.sim import connect

    part = Recorded("EMULATED1")
    bench = person_s_bench(part)
    bench.connect("pulsed-load", Said(load_ohm=220.0, pulse_tolerance_ratio=2e-6))
    command = re.search(r"`labctl sim connect (.*?)`", part.log[1])[1].split()
    context = connect.make_context("connect", command)
    assert context.params["what"] == "pulsed-load"
    assert context.params["load_ohm"] == 220.0
    assert context.params["pulse_tolerance_ratio"] == 2e-6
    assert "--load 220ohm" in part.log[1] and "--pulse-tolerance 2ppm" in part.log[1]
    # What the simulator takes by itself is left out.
    assert {context.params[name] for name in ("load_tolerance_ratio", "pulse_s", "period_s")} == {None}
    bench.fire(20)  # that generator runs by itself
    with pytest.raises(ValueError, match="pulsed-load"):
        bench.connect("tea", Said())


def test_the_command_leaves_out_what_the_simulator_takes_by_itself():
    import dataclasses

    from labctl.fixture import Fixture as Said
    from labctl.fixture import sim_command
    from labctl.simulation import connecting

    usual = Said(meter_tolerance_ratio=1e-3)
    assert Nominal.of(connecting("load", dataclasses.asdict(usual))) == Nominal()
    assert Nominal.of(connecting("load", dataclasses.asdict(Said()))) == Nominal()
    assert sim_command("load", usual, "h:1") == "labctl sim connect load --control h:1"


@pytest.mark.parametrize("address", [None, "127.0.0.1:4711"])
def test_the_control_address_is_explained_once_or_known(monkeypatch, address):
    from labctl.bench import Fixture as Said

    monkeypatch.delenv("LABCTL_CONTROL", raising=False)
    if address:
        monkeypatch.setenv("LABCTL_CONTROL", address)
    part = Recorded("EMULATED1")
    bench = person_s_bench(part)
    for what in ("load", "dut"):
        bench.connect(what, Said())
    first, second = (text for text in part.log if "sim connect" in text)
    assert f"load --control {address or 'HOST:PORT'}`" in first and f"dut --control {address or 'HOST:PORT'}`" in second
    assert ("sim start" in first) == (address is None)
    assert "sim start" not in second


def test_where_nobody_is_asked_the_supply_is_on_again():
    from labctl.bench import Fixture as Said
    from labctl.errors import NobodyThere

    part = Recorded()
    bench = person_s_bench(part)

    def nobody(sentence):
        raise NobodyThere(sentence)

    bench.ask = nobody
    with pytest.raises(NobodyThere, match="DUT out"):
        bench.connect("load", Said())
    assert part.log == ["supply off", "supply on"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_meter_reads_the_true_current_of_the_load_within_its_tolerance(seed):
    nominal = Nominal(330.0, 0.01, meter_tolerance_ratio=2e-3)
    fixture = Fixture(make_world(), seed, "load", nominal, on=True)
    true_a = load_v(nominal, seed) / R_OHM
    now_a, powered_a = fixture.read_meter()
    assert now_a == powered_a == pytest.approx(true_a, rel=2e-3)
    assert now_a / true_a - 1 == pytest.approx(nominal.meter_ratio(seed), rel=1e-6)
    assert nominal.meter_ratio(seed) != nominal.meter_ratio(seed + 1) != 0
    fixture.power(False)
    assert fixture.read_meter() == (0.0, powered_a)


@pytest.mark.parametrize("what", ["pulse", "pulsed-load"])
def test_a_meter_reads_no_pulses(what):
    fixture = Fixture(make_world(), 1, what, Nominal(), on=True)
    with pytest.raises(ValueError, match='connect "load"'):
        fixture.read_meter()
    fixture.close()


@contextlib.contextmanager
def emulated(seed=1):
    from labctl.bench import open_bench

    def nobody(sentence):
        raise AssertionError(sentence)

    with open_bench(None, board_name=None, overrides=lambda f: f, ask=nobody, seed=seed) as bench:
        yield bench


def test_the_dut_answers_again_after_a_fixture_and_the_bench_measures(elf, tmp_path):
    from labctl.bench import Fixture as Said
    from labctl.errors import ConfigError
    from labctl.measure import Plan, measure
    from labctl.model import Operation

    with emulated() as bench:
        before = bench.dut.hello()
        for what in ("load", "pulsed-load", "pulse"):
            bench.connect(what, Said())
            assert bench.simulation.ask(cmd="status")["engine"] == "off"
        bench.fire(3)
        with pytest.raises(ConfigError, match="period_s"):
            bench.connect("pulse", Said(pulse_s=1.0, period_s=1.0))
        bench.connect("dut", Said())
        assert bench.dut.hello() == before
        with pytest.raises(ConfigError, match="no generator"):
            bench.fire(3)
        assert len(list(measure(bench, Plan((Operation("sha256", bytes=64, n_runs=3),), tmp_path)))) == 1
