"""Known currents in closed form; what is refused from files alone; the page and the JSON."""

import dataclasses
import datetime
import json
import math
import shlex
from types import SimpleNamespace

import click
import numpy as np
import pytest

from instruments.record import Accuracy, Channel, Identity, Record
from labctl import boards
from labctl.analysis import keys
from labctl.analysis.pulses import steady
from labctl.bench import Bench, Fixture
from labctl.benchfile import parse_bench
from labctl.benchwiring import wiring_of
from labctl.calibrate import VALID_S, MeterReading, Request
from labctl.calibrate.common import Found, check_benefit, store
from labctl.calibrate.gain import _check_load, _evaluate, _shunt_channel, calibrate_gain
from labctl.calibrate.reference import at_the_dut, in_series, reference_current, with_measured_supply, with_meter_read
from labctl.calibrate.timing import calibrate_deskew
from labctl.cli.calibrate import Validity
from labctl.dated import check_bench, check_resistance, read_calibration, read_dated, replay
from labctl.errors import CaptureError, ConfigError, FileFault
from labctl.frontend import channel_settings, utc_text
from labctl.model import Capture, Operation
from labctl.report.calibration import Stored, apply_text, render, sentence, to_json_document
from labctl.store import open_capture, write_capture

WHO = Identity("V", "DSO-X 3024T", "MY1", "1")
SQRT3 = math.sqrt(3)
STEP_V = 40e-3 / 256
OFFSET_V = -12e-3  # of code 0


def make_bench(*, name="desk", shunt=None, supply=None, scope=None, who=WHO):
    tables = {
        "bench": {"name": name},
        "shunt": {"resistance_ohm": 1.3, **(shunt or {})},
        "supply": {"voltage_v": 3.3, **(supply or {})},
        "scope": {"driver": "none", "resource": "none", **(scope or {})},
        "dut": {"board": "stm32vldiscovery", "port": "none"},
    }
    file = parse_bench(tables, "here")
    board = boards.load("stm32vldiscovery")

    def nobody(text):
        raise AssertionError(text)

    recorder = SimpleNamespace(identify=lambda: who, stop=lambda: None)
    return Bench(file, board, wiring_of(file, board), recorder, None, None, nobody)


def by_name(contributions):
    return {c.name: c for c in contributions}


class TestKnownCurrent:
    def test_a_load_behind_the_shunt(self):
        bench = make_bench()
        known = reference_current(bench, Fixture(load_ohm=330.0, load_tolerance_ratio=1e-3))
        assert known.current_a == pytest.approx(3.3 / 331.3)
        parts = by_name(known.contributions)
        # I = V/(R + S): dI/I = dV/V - R/(R+S) dR/R - S/(R+S) dS/S; half-widths 1 %, 0.1 %, 1 %.
        assert parts["supply"].effect == pytest.approx(0.01 / SQRT3)
        assert parts["load"].effect == pytest.approx(-330 / 331.3 * 1e-3 / SQRT3)
        assert parts["shunt"].effect == pytest.approx(-1.3 / 331.3 * 0.01 / SQRT3)
        names = keys.Keys.of(bench.describe(), WHO)
        assert parts["supply"].key == names.supply(bench.wiring.supply)
        assert parts["shunt"].key == names.shunt(bench.wiring.shunt)
        assert "330 ohm" in parts["load"].key and names.bench in parts["load"].key

    def test_a_supply_sensed_at_the_dut(self):
        bench = make_bench(supply={"sensed": "dut"})
        known = reference_current(bench, Fixture(load_ohm=330.0, load_tolerance_ratio=1e-3))
        assert known.current_a == pytest.approx(0.01)
        parts = by_name(known.contributions)
        assert set(parts) == {"load", "supply"}
        assert parts["load"].effect == pytest.approx(-1e-3 / SQRT3)
        # Told for a DUT of 8 mA: the source may be 2 mA times 1.3 ohm lower at the load.
        moved = by_name(at_the_dut(bench, known, 8e-3).contributions)["supply at the load"]
        assert moved.effect == pytest.approx(2e-3 * 1.3 / 3.3 / SQRT3)
        assert at_the_dut(make_bench(), known, 8e-3) is known

    def test_a_meter_does_without_supply_and_shunt(self):
        bench = make_bench()
        known = reference_current(bench, MeterReading(9.957e-3, 2e-3))
        assert known.current_a == 9.957e-3
        (part,) = known.contributions
        assert (part.name, part.effect) == ("meter", pytest.approx(2e-3 / SQRT3))
        # What draws about such a current, to tell a person which load is meant: 330.1 ohm, in the E12 series.
        assert known.fixture.load_ohm == 330.0
        assert known.fixture.meter_tolerance_ratio == 2e-3
        assert reference_current(bench, MeterReading(9.957e-3, load_ohm=330.0)).fixture.load_ohm == 330.0

    def test_a_meter_that_a_person_reads_once_the_load_is_connected(self):
        asked, answers = [], iter(["ten", "-5 mA", "9.957mA"])
        bench = make_bench()

        def person(sentence):
            asked.append(sentence)
            return next(answers)

        bench.ask = person
        reference = MeterReading(load_ohm=300.0)
        known = reference_current(bench, reference)
        assert known.current_a == pytest.approx(3.3 / 301.3)  # expected, to see whether the load suits
        read = with_meter_read(bench, known, reference)
        assert read.current_a == 9.957e-3
        assert [c.name for c in read.contributions] == ["meter"]
        assert "9.9570 mA" in read.method
        assert len(asked) == 3 and all("meter in series with the load" in text for text in asked)

    @pytest.mark.parametrize("current_a", [9957.0, 9.957e-6])
    def test_a_meter_whose_reading_cannot_be(self, current_a):
        with pytest.raises(ConfigError, match=r"a meter that reads 9.9. (kA|µA) tells of no current .*9.957mA"):
            reference_current(make_bench(), MeterReading(current_a))

    def test_a_meter_whose_current_is_not_the_dut_s(self):
        zero = shunt_channel(0.0)
        known = reference_current(make_bench(), MeterReading(3.3e-3))
        with pytest.raises(ConfigError, match=r"^the meter's current is 3.30 mA, and the DUT draws 9.40 mA: .*330 Ω"):
            _check_load(make_bench(), known, 9.4e-3, zero, steady(zero))

    def test_a_channel_that_measures_the_supply(self):
        bench = make_bench(scope={"supply_channel": 3})
        known = reference_current(bench, Fixture())
        accuracy = Accuracy(0.02, 20e-3, 1e-3, "sheet")
        codes = np.tile(np.array([127, 129], np.uint8), 5000)[None]
        supply = Channel("CH3", codes, 0.02, 0.76, settings={"offset_v": 3.0}, accuracy=accuracy)
        load = Record({"CH3": supply}, 1e-9, np.zeros(1), WHO)
        measured = with_measured_supply(bench, known, load, Fixture())
        assert measured.current_a == pytest.approx((128 * 0.02 + 0.76) / 331.3)
        parts = by_name(measured.contributions)
        assert "supply" not in parts
        # The slope error acts about mid-screen: 0.32 V of 3.32 V.
        assert parts["gain CH3"].effect == pytest.approx(0.02 / SQRT3 * 0.32 / 3.32)
        assert parts["gain CH3"].key == keys.Keys.of(bench.describe(), WHO).gain(supply)
        assert parts["supply offset CH3"].effect == pytest.approx(0.02 / SQRT3 / 3.32)
        meter = MeterReading(10e-3)
        assert with_measured_supply(bench, known, load, meter) is known

    @pytest.mark.parametrize(
        ("wanted", "above", "chosen"),
        [(349.8, False, 330.0), (349.8, True, 390.0), (1000.0, True, 1000.0), (97.0, False, 100.0), (9.0, False, 8.2),
         (0.0123, False, 0.012)],
    )
    def test_the_e12_series(self, wanted, above, chosen):
        assert in_series(wanted, above=above) == pytest.approx(chosen)


def shunt_channel(volts, name="CH1", n=3000):
    """Give a channel of 40 mV full scale that reads `volts` on average, a code of noise on it."""
    middle = (volts - OFFSET_V) / STEP_V
    rng = np.random.default_rng(5)
    codes = np.clip(np.rint(middle + rng.standard_normal((1, n))), 0, 255).astype(np.uint8)
    settings = {"probe_ratio": 1.0, "bandwidth_limit": True, "offset_v": 8e-3}
    return Channel(name, codes, STEP_V, OFFSET_V, code_min=0, code_max=255, settings=settings,
                   accuracy=Accuracy(0.02, 3e-3, 3e-4, "sheet"))


def reading(volts, **more):
    asked = {"channels": [dataclasses.asdict(channel_settings(make_bench(), "CH1", 40e-3, 8e-3))]}
    return Record({"CH1": shunt_channel(volts)}, 1e-9, np.zeros(1), WHO, asked=asked, timebase_ratio=10e-6, **more)


def evaluate(bench, load_v, zero_v=0.0, reference=None):
    known = reference_current(bench, reference or Fixture())
    load, zero = reading(load_v), reading(zero_v)
    levels = steady(load.channels["CH1"]), steady(zero.channels["CH1"])
    return _evaluate(bench, known, load, zero, levels), levels


class TestGain:
    def test_the_factor(self):
        bench = make_bench()
        found, (at_load, at_zero) = evaluate(bench, 12.7e-3, 0.5e-3)
        drop_v = at_load.mean - at_zero.mean
        assert drop_v == pytest.approx(12.2e-3, abs=2e-5)
        assert found.value == pytest.approx((3.3 / 331.3) / (drop_v / 1.3), rel=1e-12)
        parts = by_name(found.contributions)
        assert parts["reading"].effect == pytest.approx(-at_load.standard / drop_v)
        assert parts["zero"].effect == pytest.approx(at_zero.standard / drop_v)
        assert (found.unit, found.shunt_ohm, set(found.channels)) == ("1", 1.3, {"CH1"})
        assert not any("quantisation" in name for name in parts)  # a code of noise spreads it

    def test_the_factor_of_a_meter(self):
        found, (at_load, at_zero) = evaluate(make_bench(), 13e-3, reference=MeterReading(9.9e-3))
        assert found.value == pytest.approx(9.9e-3 * 1.3 / (at_load.mean - at_zero.mean), rel=1e-12)

    @pytest.mark.parametrize(
        ("load_v", "message"),
        [(3e-3, "reads 2.3. mA on CH1, 9.96 mA expected: check the load, the shunt's value"),
         (-10e-3, "reads -7.6. mA on CH1, 9.96 mA expected: its leads are swapped"),
         (0.0, "expected: check the load"),
         (27e-3, "reads 20.. mA on CH1")],
    )
    def test_a_reading_that_makes_no_sense_is_refused(self, load_v, message):
        with pytest.raises(CaptureError, match=message):
            evaluate(make_bench(), load_v)

    def test_a_factor_that_nothing_explains_is_doubted(self):
        # 12.948 mV expected; limits 2 % + 1 % + 1 % + 0.1 %, and a little of the shunt's again.
        assert evaluate(make_bench(), 12.948e-3 * 1.035)[0].doubt == ""
        doubt = evaluate(make_bench(), 12.948e-3 * 1.06)[0].doubt
        assert "further from 1 than all tolerances together explain (4.1 %)" in doubt
        assert evaluate(make_bench(shunt={"tolerance_ratio": 0.05}), 12.948e-3 * 1.06)[0].doubt == ""

    @pytest.mark.parametrize(
        ("load_ohm", "own_a", "message"),
        [
            (1000.0, 9.4e-3, r"of 1.000 kΩ draws 3.30 mA, and the DUT draws 9.40 mA: .*factor of 2; .* about 330 Ω"),
            (10.0, 9.4e-3, r"a load of 10.00 Ω draws 292 mA, which is off the screen .*; use a load of about 390 Ω"),
            (165.0, 9.0e-3, r"draws 19.8 mA, and the DUT draws 9.00 mA"),
        ],
    )
    def test_a_load_that_does_not_suit_is_refused(self, load_ohm, own_a, message):
        known = reference_current(make_bench(), Fixture(load_ohm=load_ohm))
        zero = shunt_channel(0.0)
        with pytest.raises(ConfigError, match=message):
            _check_load(make_bench(), known, own_a, zero, steady(zero))

    def test_a_load_that_suits(self):
        zero = shunt_channel(0.0)
        for load_ohm in (220.0, 330.0, 560.0):
            _check_load(make_bench(), reference_current(make_bench(), Fixture(load_ohm=load_ohm)), 9.4e-3, zero,
                        steady(zero))

    def test_a_dut_that_reads_negative_is_said(self):
        zero = shunt_channel(0.0)
        with pytest.raises(CaptureError, match=r"swap the shunt's leads"):
            _check_load(make_bench(), reference_current(make_bench(), Fixture()), -9e-3, zero, steady(zero))

    def test_two_channels_are_refused_with_the_reason(self, tmp_path):
        bench = make_bench(shunt={"wiring": "two-channel"},
                           scope={"shunt_high_channel": 1, "shunt_low_channel": 3})
        request = Request((Operation("sha256"),), tmp_path, 60.0)
        with pytest.raises(ConfigError, match=r"one factor for one channel, but in two-channel wiring"):
            calibrate_gain(bench, request, Fixture())
        with pytest.raises(ConfigError, match=r"two-channel wiring has two"):
            calibrate_deskew(bench, request, Fixture())
        assert _shunt_channel(make_bench(), Fixture()) == "CH1"


def stored_gain(folder, bench=None, *, force=False, shift=datetime.timedelta(), **found):
    """Store a gain calibration as the command does; `shift` moves its dates."""
    bench = bench or make_bench()
    gain, _ = evaluate(bench, 12.948e-3)
    path = store(bench, Request((), folder, 3600.0, 23.0, force), dataclasses.replace(gain, **found),
                 {"load": reading(12.948e-3), "zero": reading(0.0)})
    if shift:
        with open_capture(path) as capture:
            (old,) = capture.calibrations
            now = datetime.datetime.now(datetime.UTC) + shift
            moved = dataclasses.replace(old, utc=utc_text(now), valid_until_utc=utc_text(
                now + datetime.timedelta(hours=1)))
            path.with_suffix(".moved.h5").unlink(missing_ok=True)
            return write_capture(path.with_suffix(".moved.h5"), dataclasses.replace(capture, calibrations=(moved,)))
    return path


class TestStored:
    def test_what_the_file_holds(self, tmp_path):
        path = stored_gain(tmp_path)
        assert path.name.startswith("calibration-gain-20") and path.suffix == ".h5"
        with open_capture(path, verify=True) as capture:
            assert set(capture.records) == {"load", "zero"}
            assert capture.provenance["what"] == "calibration"
            (gain,) = capture.calibrations
        assert (gain.kind, gain.instrument, gain.temperature_degc) == ("gain", WHO, 23.0)
        assert gain.bench == "desk with stm32vldiscovery, DSO-X 3024T MY1"
        taken, until = (datetime.datetime.fromisoformat(t) for t in (gain.utc, gain.valid_until_utc))
        assert until - taken == datetime.timedelta(hours=1)
        assert read_calibration(path) == gain

    def test_a_doubted_value_is_stored_by_force_only(self, tmp_path):
        with pytest.raises(CaptureError, match=r"too odd. Nothing was stored; --force"):
            stored_gain(tmp_path, doubt="too odd")
        assert not list(tmp_path.iterdir())
        path = stored_gain(tmp_path, doubt="too odd", force=True)
        with open_capture(path) as capture:
            assert capture.provenance["remarks"] == ["stored by --force: too odd"]

    def test_what_does_harm_is_stored_by_force_only(self, tmp_path):
        bench = make_bench(supply={"tolerance_ratio": 0.05})
        with pytest.raises(ConfigError, match=r"more harm than good: .* the supply counting twice.*--meter"):
            stored_gain(tmp_path, bench)
        assert not list(tmp_path.iterdir())
        found, _ = evaluate(bench, 12.948e-3)
        assert "counting twice" in check_benefit(bench, Request((), tmp_path, 60.0, force=True), found, reading(0.0))


class TestDated:
    def test_a_measurement_is_no_calibration(self, tmp_path):
        path = write_capture(tmp_path / "m.h5", Capture({"series": reading(1e-3)}, make_bench().wiring))
        with pytest.raises(ConfigError, match=r"m.h5 is a measurement and no calibration: .*--zero"):
            read_calibration(path)

    def test_another_file_is_no_capture(self, tmp_path):
        (tmp_path / "x.h5").write_text("x")
        with pytest.raises(FileFault, match=r"no labctl capture"):
            read_dated((tmp_path / "x.h5",))

    def test_two_of_a_kind(self, tmp_path):
        path = stored_gain(tmp_path)
        with pytest.raises(ConfigError, match=r"both gain calibrations: apply one"):
            read_dated((path, path))

    def test_two_zeros(self, tmp_path):
        found = Found("zero", 0.0, "V", (), "DUT unpowered")
        path = store(make_bench(), Request((), tmp_path, 60.0), found, {"zero": reading(0.0)})
        assert read_dated((path,)).zero == path
        with pytest.raises(ConfigError, match=r"both zero readings: apply one"):
            read_dated((path,), path)

    def test_stale(self, tmp_path):
        path = stored_gain(tmp_path, shift=-datetime.timedelta(hours=2))
        with pytest.raises(ConfigError, match=r"was valid until .*calibrate again"):
            read_dated((path,))

    def test_from_the_future(self, tmp_path):
        path = stored_gain(tmp_path, shift=datetime.timedelta(hours=2))
        with pytest.raises(ConfigError, match=r"check the computer's clock"):
            read_dated((path,))

    @pytest.mark.parametrize(
        ("bench", "message"),
        [
            ({"who": dataclasses.replace(WHO, serial="MY2")}, "belongs to DSO-X 3024T MY1"),
            ({"name": "shelf"}, r"another bench \(desk with .*\) than this one \(shelf with .*\): its shunt"),
            ({"shunt": {"resistance_ohm": 1.5}}, "with a shunt of 1.3 ohm, the bench has 1.5 ohm"),
            ({"scope": {"shunt_channel": 3}}, "gain calibration of CH1, but shunt and trigger are on CH3 and CH2"),
        ],
    )
    def test_another_bench_is_refused(self, tmp_path, bench, message):
        dated = read_dated((stored_gain(tmp_path),))
        check_bench(dated, make_bench())
        with pytest.raises(ConfigError, match=message):
            check_bench(dated, make_bench(**bench))

    def test_the_shunt_is_checked_before_a_bench_is_opened(self, tmp_path):
        dated = read_dated((stored_gain(tmp_path),))
        check_resistance(dated, 1.3)
        with pytest.raises(ConfigError, match=r"the bench has 1.2 ohm"):
            check_resistance(dated, 1.2)

    def test_a_gain_dictates_the_settings(self, tmp_path):
        path = stored_gain(tmp_path)
        replayed = replay(make_bench(), read_dated((path,)))
        assert replayed.zero is None
        assert replayed.shunt == (channel_settings(make_bench(), "CH1", 40e-3, 8e-3),)
        # Its own zero reading was taken at the same settings.
        assert replay(make_bench(), read_dated((path,), path)).zero.channels["CH1"].scale == STEP_V

    def test_another_probe_is_refused(self, tmp_path):
        dated = read_dated((stored_gain(tmp_path),))
        with pytest.raises(ConfigError, match=r"the gain calibration in .* with a probe of 1:1 .* the bench has 10:1"):
            replay(make_bench(scope={"shunt_probe_ratio": 10}), dated)

    def test_a_zero_of_other_settings_than_the_gain_is_refused(self, tmp_path):
        asked = {"channels": [dataclasses.asdict(channel_settings(make_bench(), "CH1", 80e-3, 8e-3))]}
        other = dataclasses.replace(reading(0.0), asked=asked)
        zero = store(make_bench(), Request((), tmp_path, 60.0), Found("zero", 0.0, "V", (), "off"), {"zero": other})
        dated = read_dated((stored_gain(tmp_path), zero))
        with pytest.raises(ConfigError, match=r"at another range or offset than the gain calibration in"):
            replay(make_bench(), dated)


class TestShown:
    def page(self, tmp_path, **more):
        path = stored_gain(tmp_path)
        return Stored(str(path), read_calibration(path), {"name": "desk", "emulated": False, **more})

    def test_a_page_of_80_columns(self, tmp_path):
        text = render(self.page(tmp_path))
        # The last line is a command to copy, whatever its length.
        assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= 80
        assert "probe 1:1, bandwidth limit on" in text
        assert "valid until" in text and "at 23 °C" in text
        assert "330.0 Ω ± 0.10 %" in text
        assert "supply 99 %" in text

    def test_settings_as_a_person_sets_them(self, tmp_path):
        page = dataclasses.replace(self.page(tmp_path), settings={"CH1": {"range_v": 40e-3, "offset_v": 8e-3}})
        assert "  CH1: full scale 40.0 mV about 8.00 mV, probe 1:1, bandwidth limit on" in render(page).splitlines()

    def test_the_command_that_applies_it_is_whole_and_can_be_copied(self):
        options = [("--shunt", "2.0ohm"), ("--bench", "my bench/" + "x" * 30 + ".toml"), ("--seed", "3")]
        first, *lines = apply_text("c/" + "y" * 30 + ".h5", options).splitlines()
        assert first == "Apply it with:"
        assert len(lines) > 1 and max(map(len, lines)) <= 80
        assert shlex.split("\n".join(lines).replace("\\\n", "")) == [
            "labctl", "measure", "--calibration", "c/" + "y" * 30 + ".h5", *(word for pair in options for word in pair)
        ]  # fmt: skip

    def test_emulated_is_said(self, tmp_path):
        assert "emulated" in render(self.page(tmp_path, emulated=True)).splitlines()[0]
        assert "emulated" in render(self.page(tmp_path, emulated=True, name="emulated")).splitlines()[0]

    def test_the_sentence_of_a_result(self, tmp_path):
        text = sentence(self.page(tmp_path).calibration)
        assert text.startswith("Calibrated gain: 1.00")
        assert "valid until" in text

    def test_json_is_strict(self, tmp_path):
        document = json.loads(json.dumps(to_json_document([self.page(tmp_path)]), allow_nan=False))
        assert document["schema"] == "labctl.calibration/1"
        (row,) = document["calibrations"]
        assert row["kind"] == "gain" and row["unit"] == "1"
        assert row["contributions"][0]["degrees_of_freedom"] is None  # infinite
        # Supply 1 % dominates, rectangular: 0.95 % of the value, and a little.
        assert row["expanded"] == pytest.approx(0.0095 * row["value"], rel=0.02)

    @pytest.mark.parametrize(
        ("text", "seconds"), [("8h", 28800.0), ("30d", 2592000.0), ("1.5 h", 5400.0), ("90min", 5400.0)]
    )
    def test_validity(self, text, seconds):
        assert Validity().convert(text, None, None) == seconds

    @pytest.mark.parametrize("text", ["", "8", "8s", "0h", "-1d", "inf", "nan d", "1e9d", "8 weeks"])
    def test_no_validity(self, text):
        with pytest.raises(click.BadParameter, match=r"is no validity: .*'8h' or '30d'"):
            Validity().convert(text, None, None)

    def test_every_kind_has_a_validity(self):
        assert set(VALID_S) == {"zero", "gain", "deskew", "timebase"}
