"""Calibrations on the emulated bench: what they find is what its world drew, and results gain by them."""

import contextlib
import dataclasses
import json
import math
import os
import shlex
import shutil
import signal
import time

import pytest

from instruments.sim.frontend import BANDWIDTH_HZ, BANDWIDTH_LIMITED_HZ
from instruments.sim.pin import PIN_RISE_S, RISE_PER_TAU
from labctl import boards
from labctl.analysis.benefit import value_expanded
from labctl.analysis.result import analyze
from labctl.bench import Fixture, open_bench
from labctl.calibrate import (
    MeterReading,
    Request,
    calibrate_deskew,
    calibrate_gain,
    calibrate_timebase,
    calibrate_zero,
)
from labctl.dated import read_calibration
from labctl.errors import CaptureError, ConfigError
from labctl.firmware import COMPILER, default_image, ensure
from labctl.frontend import channel_settings
from labctl.measure import Plan, measure
from labctl.model import Operation
from labctl.simulation import Simulation, connecting
from labctl.store import open_capture, read_truth

SHA = Operation("sha256", bytes=64)
FEW = dataclasses.replace(SHA, n_runs=5)


def nobody(sentence):
    raise AssertionError(sentence)


@contextlib.contextmanager
def emulated(seed, change=lambda file: file):
    with open_bench(None, board_name=None, overrides=change, ask=nobody, seed=seed) as bench:
        yield bench


def draws(bench):
    return bench.simulation.ask(cmd="draws")["draws"]


def request(folder, **more):
    return Request((SHA,), folder, 3600.0, **more)


def measured(bench, folder, operation=SHA, **plan):
    """Measure one operation and analyse it; the result, and the world's truth."""
    (path,) = measure(bench, Plan((operation,), folder, **plan))
    with open_capture(path) as capture:
        return analyze(capture), read_truth(path)


def of_timebase(result):
    return math.hypot(*(c.effect for c in result.budget["duration"] if c.name.startswith("time base")))


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_everything_about_one_bench(elf, tmp_path, seed):
    """Each finding holds the world's value, within its own uncertainty; the results hold theirs and are tighter."""
    with emulated(seed) as bench:
        # Five runs: each has so much of the memory that the sample clock does not hide what the time base gains.
        plain, _ = measured(bench, tmp_path / "plain", FEW)
        gain = calibrate_gain(bench, request(tmp_path), Fixture())
        world = draws(bench)
        deskew = calibrate_deskew(bench, request(tmp_path), Fixture())
        timebase = calibrate_timebase(bench, request(tmp_path), Fixture())
        paths = (gain, deskew, timebase)
        result, truth = measured(bench, tmp_path / "calibrated", FEW, calibrations=paths)
        assert bench.simulation.ask(cmd="status")["fault"] == ""
    found = {c.kind: c for c in map(read_calibration, paths)}

    # The reading is (1 + g) R i of the true i; at the settings of the calibration, the last ones before it ended.
    channel = world["channels"]["1"]
    true = {"gain": 1.3 / world["shunt_ohm"] / (1 + channel["gain_ratio"])}
    # By the front end's model: the shunt's drop is late by its pole, the windows by the half-way of the pin's.
    late_s = 0.35 / BANDWIDTH_LIMITED_HZ / RISE_PER_TAU + world["skew_s"]
    true["deskew"] = late_s - math.log(2) * math.hypot(PIN_RISE_S, 0.35 / BANDWIDTH_HZ) / RISE_PER_TAU
    true["timebase"] = world["timebase_ratio"]
    for kind, calibration in found.items():
        half, _ = value_expanded(calibration)
        assert abs(calibration.value - true[kind]) <= half, kind
    assert value_expanded(found["timebase"])[0] < 2e-6  # the pulse is known to 1 ppm
    assert value_expanded(found["deskew"])[0] < 2e-9

    assert result.energy_expanded_j < 0.03 * result.energy_mean_j
    assert result.energy_expanded_j / result.energy_mean_j < plain.energy_expanded_j / plain.energy_mean_j
    assert result.duration_expanded_s < plain.duration_expanded_s
    assert of_timebase(result) < 0.2 * of_timebase(plain)
    for value, expanded, key in (
        (result.energy_mean_j, result.energy_expanded_j, "energy_j"),
        (result.power_mean_w, result.power_expanded_w, "power_w"),
        (result.duration_mean_s, result.duration_expanded_s, "duration_s"),
    ):
        assert abs(value - truth[key]) <= expanded, key


def test_the_supply_counts_twice(elf, tmp_path):
    """E = V i and i = V/R: a supply of 1 % makes 2 % of the energy; a meter in its place leaves 1 %."""
    with emulated(7) as bench:
        load = calibrate_gain(bench, request(tmp_path), Fixture())
        world = draws(bench)
        by_load, truth = measured(bench, tmp_path / "load", calibrations=(load,))
        meter = calibrate_gain(bench, request(tmp_path / "m"), MeterReading(tolerance_ratio=1e-4))
        by_meter, meter_truth = measured(bench, tmp_path / "meter", calibrations=(meter,))
    # 95 % of a rectangle of half-width 2 % (and 1 %); the load's 0.1 %, the meter's 0.01 % and all else are small.
    assert by_load.energy_expanded_j / by_load.energy_mean_j == pytest.approx(0.95 * 0.02, rel=0.03)
    assert by_meter.energy_expanded_j / by_meter.energy_mean_j == pytest.approx(0.95 * 0.01, rel=0.05)
    for result, true in ((by_load, truth), (by_meter, meter_truth)):
        assert abs(result.energy_mean_j - true["energy_j"]) <= result.energy_expanded_j
    # The meter told the true current, within 0.01 %: what is left is the supply's own error, and no factor of two.
    ratio = by_meter.energy_mean_j / meter_truth["energy_j"]
    assert ratio == pytest.approx(3.3 / world["supply_v"], abs=1e-3)
    ratio = by_load.energy_mean_j / truth["energy_j"]
    assert ratio == pytest.approx((3.3 / world["supply_v"]) ** 2, abs=2e-3)


@pytest.mark.parametrize("seed", [1, 2, 3, 8, 13])
def test_the_meter_of_the_emulated_bench(elf, tmp_path, seed):
    """The factor holds the world's, and the energy its truth, whatever this bench's load, supply and meter are."""
    with emulated(seed) as bench:
        path = calibrate_gain(bench, request(tmp_path), MeterReading(tolerance_ratio=2e-3))
        world = draws(bench)
        result, truth = measured(bench, tmp_path / "out", FEW, calibrations=(path,))
    found = read_calibration(path)
    half, _ = value_expanded(found)
    true = 1.3 / world["shunt_ohm"] / (1 + world["channels"]["1"]["gain_ratio"])
    # The meter's error is the rectangle's: 95 % of 0.2 %, so that all of it is 1.06 times as much, and a little noise.
    assert half == pytest.approx(0.95 * 2e-3 * found.value, rel=0.05)
    assert abs(found.value - true) <= 1.1 * half
    assert found.value / true - 1 == pytest.approx(world["meter_ratio"], abs=2e-4)  # nothing else
    assert abs(result.energy_mean_j - truth["energy_j"]) <= result.energy_expanded_j


def test_a_meter_s_reading_cannot_be_told_to_the_emulated_bench(elf, labctl, tmp_path):
    done = labctl("calibrate", "gain", "--meter", "9.957mA", cwd=tmp_path, status=2)
    assert "the meter is emulated too" in done.stderr
    assert "leave the value out" in done.stderr
    assert list(tmp_path.iterdir()) == []
    page = labctl("calibrate", "gain", "--meter", "--op", "sha256", "--seed", "3", cwd=tmp_path).stdout
    assert "reference meter in series" in page
    assert "--seed 3" in page.replace("\\\n", "") and "--op sha256" in page


def test_a_zero_calibration_is_a_dated_zero(elf, tmp_path):
    with emulated(3) as bench:
        path = calibrate_zero(bench, request(tmp_path))
        assert read_calibration(path).kind == "zero"
        captures = [
            next(measure(bench, Plan((FEW,), tmp_path / way, **given)))
            for way, given in (("zero", {"zero": path}), ("calibration", {"calibrations": (path,)}))
        ]
    results = []
    for capture_path in (path, *captures):
        with open_capture(capture_path) as capture:
            zero = capture.records["zero"].channels["CH1"]
            results.append((zero.offset, zero.codes[...].tobytes()))
            if capture_path is captures[0]:
                asked, one = capture.records["series"].asked["channels"], analyze(capture)
            elif capture_path is captures[1]:
                assert capture.records["series"].asked["channels"] == asked
                assert capture.calibrations == (read_calibration(path),)
                other = analyze(capture)
    assert results[0] == results[1] == results[2]  # one reading
    # What differs is the noise of five runs.
    spread_j = math.hypot(one.energy_se_j, other.energy_se_j)
    assert abs(one.energy_mean_j - other.energy_mean_j) < 5 * spread_j
    assert other.energy_expanded_j == pytest.approx(one.energy_expanded_j, rel=0.01)


def test_a_zero_tells_the_offset_of_the_scope(elf, tmp_path):
    with emulated(3) as bench:
        zero = read_calibration(calibrate_zero(bench, request(tmp_path)))
        channel = draws(bench)["channels"]["1"]
    # No current reads as the offset error, and the slope's error of the way from mid-screen.
    true_v = channel["offset_error_v"] - channel["gain_ratio"] * channel["offset_v"]
    assert abs(zero.value - true_v) <= 2 * value_expanded(zero)[0]


def test_a_capture_holds_its_calibrations(elf, tmp_path, labctl):
    with emulated(2) as bench:
        gain = calibrate_gain(bench, request(tmp_path, temperature_degc=20.0), Fixture())
        (path,) = measure(bench, Plan((FEW,), tmp_path / "out", calibrations=(gain,), temperature_degc=26.0))
    with open_capture(path) as capture:
        assert capture.calibrations == (read_calibration(gain),)
        assert capture.provenance["temperature_degc"] == 26.0
        first = analyze(capture)
    assert any("taken at 20 °C and the runs at 26 °C" in text for text in first.warnings)
    gain.unlink()  # the capture needs it no more
    page = labctl("analyze", str(path), cwd=tmp_path, COLUMNS="80").stdout
    assert "Calibrated gain: " in page
    assert max(len(line) for line in page.splitlines() if "Captures" not in line) <= 80
    document = json.loads(labctl("analyze", str(path), "--json", cwd=tmp_path).stdout)
    assert document["results"][0]["energy_mean_j"] == first.energy_mean_j
    assert document["calibrations"][0]["kind"] == "gain"


def test_a_crystal_that_is_worse_than_the_scope(elf, tmp_path):
    with emulated(1) as bench:
        with pytest.raises(ConfigError, match=r"more harm than good: times are known to 29 ppm .* and to 5\.8 ppm"):
            calibrate_timebase(bench, request(tmp_path), None)
        assert not list(tmp_path.glob("*.h5"))
        path = calibrate_timebase(bench, request(tmp_path, force=True), None)
        world = draws(bench)
        result, _ = measured(bench, tmp_path / "out", FEW, calibrations=(path,))
    timebase = read_calibration(path)
    # The DUT is told to run at its nominal clock: its crystal's error goes into the time base, within its limit.
    assert timebase.value == pytest.approx(world["timebase_ratio"] + world["crystal_ratio"], abs=0.5e-6)
    assert abs(timebase.value - world["timebase_ratio"]) <= value_expanded(timebase)[0]
    assert any("applied all the same, does harm" in text for text in result.warnings)


def test_a_known_crystal_is_a_good_reference(elf, tmp_path):
    with emulated(6) as bench:
        bench.board = {**bench.board, "crystal_tolerance_ratio": 1e-6}
        found = read_calibration(calibrate_timebase(bench, request(tmp_path), None))
        world = draws(bench)
    assert value_expanded(found)[0] < 1.5e-6
    assert found.value == pytest.approx(world["timebase_ratio"] + world["crystal_ratio"], abs=0.5e-6)


def test_a_pulse_of_another_length_is_refused(elf, tmp_path):
    with emulated(1) as bench:
        real = bench.simulation.connect
        # The generator is told 1 ms, the command says 1.0001 ms: a hundred ppm.
        bench.simulation.connect = lambda what, fixture: real(what, {**fixture, "pulse_s": 1e-3})
        with pytest.raises(CaptureError, match=r"1\.00000. ms long by the scope, and not 1\.000100 ms"):
            calibrate_timebase(bench, request(tmp_path), Fixture(pulse_s=1.0001e-3, period_s=2.1e-3))


@pytest.mark.parametrize(
    ("load_ohm", "message"),
    [(1000.0, "and the DUT draws 7.*within a factor of 2; use a load of about 470 Ω"),
     (47.0, "off the screen .*; use a load of about 470 Ω")],
)
def test_a_load_that_does_not_suit_is_refused(elf, tmp_path, load_ohm, message):
    with emulated(1) as bench:
        with pytest.raises(ConfigError, match=message):
            calibrate_gain(bench, request(tmp_path), Fixture(load_ohm=load_ohm))
        bench.dut.hello()  # powered again
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("fault", "message"),
    [("bypassed", "9.96 mA expected: .*no other ground bypasses the shunt"), ("disconnected", "expected")],
)
def test_a_load_that_reads_wrong_is_refused(elf, tmp_path, fault, message):
    """A fault that comes with the load: the DUT was read rightly before."""
    with emulated(1) as bench:
        real = bench.connect

        def connect(what, fixture):
            real(what, fixture)
            bench.simulation.ask(cmd="faults", faults={"shunt": fault} if what == "load" else {})

        bench.connect = connect
        with pytest.raises(CaptureError, match=message):
            calibrate_gain(bench, request(tmp_path), Fixture())
        bench.dut.hello()  # the DUT is back
    assert not list(tmp_path.glob("*.h5"))


def test_a_signal_that_leaves_the_screen_of_the_gain_is_refused(elf, tmp_path, monkeypatch):
    # As if only idle had been looked at, which draws 2.1 mA: 7.5 mV is the top of the screen.
    monkeypatch.setattr("labctl.calibrate.gain.choose_range",
                        lambda bench, trials: (channel_settings(bench, "CH1", 10e-3, 2.5e-3),))
    with emulated(1) as bench:
        path = calibrate_gain(bench, Request((Operation("idle"),), tmp_path, 60.0), Fixture(load_ohm=1000.0))
        plan = Plan((FEW,), tmp_path / "out", calibrations=(path,))
        with pytest.raises(ConfigError, match=r"CH1 leaves the screen at the range of the gain calibration: calibrate"):
            list(measure(bench, plan))
    assert not (tmp_path / "out").exists()


def test_a_person_connects_what_is_asked_for(elf, tmp_path):
    """As on a real bench: a generator that runs by itself, and a person who does as told."""
    world = Simulation(boards.load("stm32vldiscovery"), seed=10)
    asked = []

    def person(sentence):
        if "reference meter" in sentence:
            asked.append("meter")
            return
        what = next(word for word in ("load", "pulse", "dut") if f" {word} " in sentence)
        asked.append(what)
        world.ask(**connecting(what, dataclasses.asdict(Fixture())), runs=True)

    world.start(world.bench_file())
    try:
        file = world.addressed(world.bench_file())
        with open_bench(file, board_name=None, overrides=lambda f: f, ask=person) as bench:
            gain = calibrate_gain(bench, request(tmp_path), MeterReading(9.96e-3, 0.02, load_ohm=330.0))
            assert asked == ["load", "meter", "dut"]
            asked.clear()
            paths = (gain, calibrate_deskew(bench, request(tmp_path), Fixture()),
                     calibrate_timebase(bench, request(tmp_path), Fixture()))
            assert asked == ["pulse", "dut", "pulse", "dut"]
            draws = world.ask(cmd="draws")["draws"]
            (path,) = measure(bench, Plan((FEW,), tmp_path / "out", calibrations=paths))
    finally:
        world.stop()
    found = {c.kind: c for c in map(read_calibration, paths)}
    assert abs(found["timebase"].value - draws["timebase_ratio"]) <= value_expanded(found["timebase"])[0]
    assert value_expanded(found["gain"])[0] == pytest.approx(0.95 * 0.02 * found["gain"].value, rel=0.02)
    with open_capture(path) as capture:
        assert {c.kind for c in capture.calibrations} == {"gain", "deskew", "timebase"}
        assert math.isfinite(analyze(capture).energy_mean_j)


def test_the_command_says_what_to_do_next(elf, labctl, tmp_path):
    done = labctl("calibrate", "gain", "--load", "330ohm", "--op", "sha256", "--valid", "2d", cwd=tmp_path)
    assert "emulated" in done.stdout.splitlines()[0]
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    command = shlex.split(done.stdout.partition("Apply it with:")[2].replace("\\\n", ""))
    assert command[:3] == ["labctl", "measure", "--calibration"]
    assert command[4:] == ["--op", "sha256"]
    measured = labctl(*command[1:], "--runs", "5", "--json", cwd=tmp_path)
    document = json.loads(measured.stdout)
    (row,) = document["results"]
    assert row["energy_expanded_j"] < 0.03 * row["energy_mean_j"]
    assert "Apply" not in labctl("calibrate", "show", command[3], cwd=tmp_path).stdout
    shown = json.loads(labctl("calibrate", "show", command[3], "--json", cwd=tmp_path).stdout)
    assert shown["calibrations"][0]["value"] == document["calibrations"][0]["value"]
    wrong = labctl("analyze", command[3], cwd=tmp_path, status=2)
    assert "is a calibration and no measurement: labctl calibrate show" in wrong.stderr
    measurement = labctl("measure", "--calibration", row["captures"][0], "--op", "sha256", cwd=tmp_path, status=2)
    assert "is a measurement and no calibration" in measurement.stderr
    other = labctl(*command[1:], "--seed", "2", "--out", "no", cwd=tmp_path, status=2)
    assert "belongs to DSO-X 3024T EMULATED1" in other.stderr
    shunt = labctl(*command[1:], "--shunt", "2", "--out", "no", cwd=tmp_path, status=2)
    assert "with a shunt of 1.3 ohm, the bench has 2 ohm" in shunt.stderr
    assert not (tmp_path / "no").exists()


def test_a_board_whose_usual_image_holds_not_every_usual_operation(elf, labctl, tmp_path):
    """That of the STM32F0 holds AES alone: nothing else is calibrated for, and what is printed says so."""
    image = default_image("stm32f0discovery")
    if not image.built and shutil.which(COMPILER) is None:
        pytest.skip(f"{image.path} is not built, and there is no {COMPILER}")
    ensure(image)
    done = labctl("calibrate", "gain", "--load", "330ohm", "--board", image.board, cwd=tmp_path)
    command = shlex.split(done.stdout.partition("Apply it with:")[2].replace("\\\n", ""))
    assert command[command.index("--op") :] == ["--op", "aes-128-ctr"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_end_in_the_middle_leaves_no_half_file(elf, forker, tmp_path, number):
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    command = ["calibrate", "timebase", "--out", "out"]
    with contextlib.closing(forker.start(command, tmp_path, environment)) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "out").exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL), err
    assert not list(tmp_path.rglob("*.h5"))
    if number == signal.SIGINT:
        assert not (tmp_path / "out").exists()
        assert "interrupted" in err
