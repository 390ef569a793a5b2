"""The self-test against the world's own draws, its faults, and what the command prints."""

import contextlib
import json
import math
from dataclasses import asdict

import pytest

from instruments.protocols import AcquisitionSettings
from instruments.sim.frontend import BANDWIDTH_HZ, BANDWIDTH_LIMITED_HZ
from instruments.sim.pin import PIN_RISE_S, RISE_PER_TAU
from labctl import boards
from labctl.analysis.finding import FAULT, LEFT_OUT, OK, WARNING
from labctl.bench import Fixture, open_bench
from labctl.errors import ConfigError, NobodyThere
from labctl.selftest import Request, Selftest, at_hand
from labctl.selftest.known import NUMBERS
from labctl.simulation import Simulation, connecting

SHUNT_OHM = 1.3
# Stated for 95 %; where one rectangular term dominates that is 95 % of its limit, so that all of it is 1.06 times as
# much. Normal errors exceed 1.6 times an interval of two standard deviations once in 700.
ROOM = 1.6


@contextlib.contextmanager
def emulated(seed=1, faults=None, **tables):
    """Open an emulated bench; `tables` change what its bench file says once the world has been made."""

    def nobody(sentence):
        raise AssertionError(sentence)

    with open_bench(None, board_name=None, overrides=lambda f: f, ask=nobody, seed=seed) as bench:
        bench.simulation.ask(cmd="faults", faults=faults or {})
        if tables:
            from labctl.benchwiring import wiring_of

            bench.file = bench.file.model_copy(
                update={name: getattr(bench.file, name).model_copy(update=new) for name, new in tables.items()}
            )
            bench.wiring = wiring_of(bench.file, bench.board)
        yield bench


def run(bench, request=None):
    test = Selftest(bench, request or Request())
    findings = list(test.run())
    by_name = {f.name: f for f in findings}
    assert len(by_name) == len(findings)
    return by_name, test


def named(found, status):
    return {name for name, finding in found.items() if finding.status == status}


@pytest.mark.parametrize("seed", [4, 21])
def test_what_it_finds_is_what_the_world_has(elf, seed):
    with emulated(seed) as bench:
        found, test = run(bench)
        assert named(found, OK) == set(found), [f.text for f in found.values() if f.status != OK]
        bench.scope.configure(AcquisitionSettings(test._known.settings, None, 1e-3, 0.0))
        draws = bench.simulation.ask(cmd="draws")["draws"]
    numbers, channel = test.numbers, draws["channels"]["1"]
    assert set(numbers) == set(NUMBERS)
    assert all(numbers[name] is not None for name in NUMBERS if name != "tau_below_s")

    def close(name, expanded, truth):
        assert numbers[name] == pytest.approx(truth, abs=ROOM * numbers[expanded], rel=0), name

    gain = 1 + channel["gain_ratio"]
    # A slope about mid-screen moves zero by its part of the offset setting.
    close("offset_v", "offset_expanded_v", channel["offset_error_v"] - channel["gain_ratio"] * channel["offset_v"])
    close("gain_ratio", "gain_expanded_ratio", SHUNT_OHM / draws["shunt_ohm"] / gain)
    close("tau_s", "tau_expanded_s", draws["tau_s"])
    close("timebase_ratio", "timebase_expanded_ratio", draws["timebase_ratio"])
    # The shunt's front end delays a slow signal by its pole; the pin passes its middle ln(2) of its own pole late.
    pole_s = 0.35 / BANDWIDTH_LIMITED_HZ / RISE_PER_TAU
    pin_pole_s = math.hypot(PIN_RISE_S, 0.35 / BANDWIDTH_HZ) / RISE_PER_TAU
    close("latency_s", "latency_expanded_s", draws["skew_s"] + pole_s - math.log(2) * pin_pole_s)
    # Noise and quantisation add in squares; 256 codes over the range.
    code_v = channel["range_v"] / 256
    noise_v = math.hypot(channel["noise_rms_v"], code_v / math.sqrt(12))
    assert numbers["noise_rms_v"] == pytest.approx(noise_v, rel=0.01)
    assert numbers["noise_rms_a"] == pytest.approx(noise_v / SHUNT_OHM, rel=0.01)
    assert numbers["effective_bits"] == pytest.approx(8 - math.log2(noise_v / code_v * math.sqrt(12)), abs=0.02)
    assert numbers["shortest_s"] == pytest.approx(5 * draws["tau_s"], rel=0.01)
    assert 0 < numbers["timebase_expanded_ratio"] < 3e-6
    assert 0 < numbers["tau_expanded_s"] < 0.01 * draws["tau_s"]
    assert 0 < numbers["latency_expanded_s"] < 5e-9
    assert 0 < numbers["gain_expanded_ratio"] < 0.012


def test_the_dut_is_back_at_the_end(elf):
    with emulated() as bench:
        run(bench)
        assert bench.dut.hello()["board"] == bench.board["name"]


@pytest.mark.parametrize(
    ("faults", "faulty", "left_out"),
    [
        ({"shunt": "reversed"}, {"shunt"}, {"gain", "time constant", "latency"}),
        # The known load says what the DUT's own current only suggests.
        ({"shunt": "bypassed"}, {"shunt", "gain"}, {"time constant", "latency"}),
        (
            {"trigger": "disconnected"},
            {"trigger"},
            {"supply", "windows", "timer", "time constant", "latency", "time base", "shortest operation"},
        ),
        (
            {"wires": "swapped"},
            {"wires"},
            {
                *("trigger", "supply", "supply switch", "shunt", "zero", "windows", "timer", "offset", "noise"),
                *("effective bits", "gain", "time constant", "latency", "time base", "shortest operation"),
            },
        ),
    ],
    ids=lambda value: ",".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_a_fault_leaves_out_what_it_spoils_and_nothing_else(elf, monkeypatch, faults, faulty, left_out):
    monkeypatch.setattr("labctl.checkup.trigger.WAIT_S", 0.5)
    with emulated(2, faults) as bench:
        found, test = run(bench)
    assert named(found, FAULT) == faulty
    assert named(found, LEFT_OUT) == left_out
    if "gain" in faulty:
        # 30 % of the current, times what channel and shunt may be off by.
        assert test.numbers["gain_ratio"] == pytest.approx(1 / 0.3, rel=0.03)


@pytest.mark.parametrize(
    ("decoupling_f", "status", "words"),
    [
        (None, WARNING, ["bench file says nothing", "write decoupling_f ="]),
        (47e-6, FAULT, ["contradicts the stated 47.0 µF", "write decoupling_f ="]),
    ],
)
def test_what_to_write_of_the_decoupling(elf, decoupling_f, status, words):
    with emulated(5, shunt={"decoupling_f": decoupling_f}) as bench:
        found, test = run(bench)
        draws = bench.simulation.ask(cmd="draws")["draws"]
    assert named(found, status) == {"time constant"}
    for word in words:
        assert word in found["time constant"].text
    # The file's shunt is off by its tolerance, so what is to be written times it is the true time constant.
    assert test.numbers["decoupling_f"] * SHUNT_OHM == pytest.approx(draws["tau_s"], rel=0.005)


def test_a_load_that_is_not_what_was_said(elf):
    """A load of 300 ohm said to be 330 draws a tenth more."""
    with emulated(6) as bench:
        connect = bench.simulation.connect
        bench.simulation.connect = lambda what, fixture: connect(what, {**fixture, "load_ohm": 300.0})
        found, test = run(bench, at_hand(bench, None, 1e-3, None, 1e-6))
    assert found["gain"].status == FAULT
    assert "load's value" in found["gain"].text
    # Within the gain's own limits: 2 % of the channel, 1 % of shunt and supply each.
    assert test.numbers["gain_ratio"] == pytest.approx(301.3 / 331.3, rel=0.041)


def test_pulses_that_are_not_what_was_said(elf):
    with emulated(7) as bench:
        connect = bench.simulation.connect
        bench.simulation.connect = lambda what, fixture: connect(what, {**fixture, "pulse_s": 1.0005e-3})
        found, test = run(bench)
    assert named(found, FAULT) == {"time base"}
    assert test.numbers["timebase_ratio"] == pytest.approx(-500e-6, abs=12e-6)


def test_without_a_fixture(elf):
    with emulated(8) as bench:
        found, test = run(bench, at_hand(bench, None, 1e-3, None, 1e-6, without_fixture=True))
    assert named(found, LEFT_OUT) == {"gain", "time constant", "latency", "time base"}
    assert "330" in found["gain"].text and "--load" in found["gain"].text
    assert found["shortest operation"].status == OK
    # Five time constants of what the bench file says.
    assert test.numbers["shortest_s"] == pytest.approx(5 * SHUNT_OHM * 4.7e-6)


def test_a_load_that_would_draw_too_much(elf):
    with emulated() as bench, pytest.raises(ConfigError, match="330 ohm"):
        at_hand(bench, 1.0, 1e-3, None, 1e-6)


def test_a_person_connects_what_is_at_hand(elf):
    """As on a real bench: a generator that runs by itself, each fixture asked for once, and the DUT put back."""
    world = Simulation(boards.load("stm32vldiscovery"), seed=10)
    asked = []

    def person(sentence):
        what = next(word for word in ("pulsed-load", "load", "pulse", "dut") if f" {word} " in sentence)
        asked.append(what)
        world.ask(**connecting(what, asdict(Fixture())), runs=True)

    world.start(world.bench_file())
    try:
        file = world.addressed(world.bench_file())
        with open_bench(file, board_name=None, overrides=lambda f: f, ask=person) as bench:
            assert at_hand(bench, None, 1e-3, None, 1e-6) == Request(has_load=False, has_pulse=False)
            found, test = run(bench, at_hand(bench, 330.0, 1e-3, 1e-3, 1e-6))
    finally:
        world.stop()
    assert named(found, OK) == set(found)
    assert asked == ["load", "pulsed-load", "pulse", "dut"]
    assert test.numbers["tau_s"] is not None and test.numbers["timebase_ratio"] is not None


def test_what_needs_a_person_is_left_out_where_nobody_is(elf):
    """A load and a generator were named, and a script runs it: all that the DUT alone tells is told."""
    world = Simulation(boards.load("stm32vldiscovery"), seed=10)

    def nobody(sentence):
        raise NobodyThere(f"{sentence}: but nobody is at the keyboard")

    world.start(world.bench_file())
    try:
        file = world.addressed(world.bench_file())
        with open_bench(file, board_name=None, overrides=lambda f: f, ask=nobody) as bench:
            found, _ = run(bench, at_hand(bench, 330.0, 1e-3, 1e-3, 1e-6))
            assert bench.dut.hello()  # it has its supply
        by_hand = file.model_copy(update={"dut": file.dut.model_copy(update={"power": "manual"})})
        with open_bench(by_hand, board_name=None, overrides=lambda f: f, ask=nobody) as bench:
            unswitched, _ = run(bench, at_hand(bench, 330.0, 1e-3, 1e-3, 1e-6))
    finally:
        world.stop()
    fixtures = {"gain", "time constant", "latency", "time base"}
    assert named(found, LEFT_OUT) == fixtures
    assert {found[name].text for name in fixtures} == {found["gain"].text}  # one sentence of the page
    assert "nobody is at the keyboard" in found["gain"].text
    assert "[dut] power" in unswitched["zero"].text
    assert named(unswitched, LEFT_OUT) == fixtures | {"supply switch", "shunt", "zero", "offset", "noise",
                                                      "effective bits"}
    assert not named(found, FAULT) | named(unswitched, FAULT)


def test_zero_and_offset_say_their_ranges(elf):
    with emulated(1) as bench:
        found, _ = run(bench, at_hand(bench, None, 1e-3, None, 1e-6, without_fixture=True))
    # 1.2 times the drop of the largest current of the board data, 100 mA at 1.3 ohm, to either side.
    assert found["zero"].text.startswith("at 312 mV full scale CH1 reads")
    assert found["offset"].text.startswith("at 40.0 mV full scale CH1 reads")


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_a_page(elf, labctl, tmp_path):
    page = labctl("selftest", "--seed", "3", cwd=tmp_path).stdout
    first, *_, last = page.splitlines()
    assert "emulated" in first
    assert "No fault found" in last
    assert max(map(len, page.splitlines())) <= 80
    for name in ("trigger:", "shunt:", "gain:", "time constant:", "latency:", "shortest operation:"):
        assert name in page


def test_the_command_prints_json_and_nothing_else(elf, labctl, tmp_path):
    def strict(constant):
        raise AssertionError(constant)

    done = labctl("selftest", "--json", "--without-fixture", cwd=tmp_path)
    document = json.loads(done.stdout, parse_constant=strict)
    assert document["schema"] == "labctl.selftest/1"
    assert document["bench"]["emulated"] is True
    assert set(document["numbers"]) == set(NUMBERS)
    assert document["numbers"]["gain_ratio"] is None
    assert {"name", "status", "text", "value", "expanded", "unit"} == set(document["findings"][0])
    assert {f["status"] for f in document["findings"]} == {OK, LEFT_OUT}


def test_a_fault_gives_exit_status_1(elf, labctl, tmp_path):
    """The supply told as 5 V, where the pin shows 3.3 V."""
    done = labctl("selftest", "--supply", "5.0", "--without-fixture", cwd=tmp_path, status=1)
    assert "FAULT     supply:" in done.stdout


@pytest.mark.parametrize(
    "options", [("--load", "330 V"), ("--load", "330ohm", "--without-fixture"), ("--load", "1ohm")], ids=" ".join
)
def test_wrong_options(elf, labctl, tmp_path, options):
    assert labctl("selftest", *options, cwd=tmp_path, status=2).stdout == ""
