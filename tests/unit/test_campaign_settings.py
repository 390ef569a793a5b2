"""What may not be another when a campaign goes on: benches, headline, readings of zero and gain, firmware."""

import dataclasses
import zlib

import pytest

from labctl.campaign import ready, scrub, settings
from labctl.campaign.attempt import Station
from labctl.campaign.items import expansion
from labctl.campaign.journal import Journal
from labctl.campaign.model import Campaign, Event
from labctl.campaign.plan import load_plan, parse_plan, to_toml
from labctl.errors import ConfigError

PLAN = """
[campaign]
name = "night"
[factors]
boards = ["stm32vldiscovery"]
operations = ["sha256"]
"""
WITH_FILE = """
[bench]
file = "desk.toml"
zero = "zero.h5"
calibrations = ["gain.h5"]
"""
DESK = """
[shunt]
resistance_ohm = 1.3
[scope]
driver = "keysight-infiniivision"
resource = "TCPIP::scope.invalid::INSTR"
[dut]
board = "stm32vldiscovery"
port = "/dev/ttyACM0"
"""
READING = b"a reading"


@pytest.fixture
def desk(tmp_path):
    """Write a plan with all its files; give its folder."""
    for name, data in {"desk.toml": DESK.encode(), "zero.h5": READING, "gain.h5": b"another"}.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "plan.toml").write_text(PLAN + WITH_FILE)
    return tmp_path


def begin(plan):
    facts = tuple(scrub.facts(ready.facts(plan, section)) for section in plan.benches)
    items = expansion(plan).items
    return Campaign(plan.campaign.name, plan.campaign.seed, items, (), facts, "2026-11-30T12:00:00Z", "labctl")


def test_nothing_is_another(desk):
    plan = load_plan(desk / "plan.toml")
    assert settings.changed(begin(plan), plan) == ()


def test_only_size_and_content_of_a_reading_are_kept(desk):
    (facts,) = begin(load_plan(desk / "plan.toml")).benches
    assert facts["zero_reading"] == f"9 bytes with CRC-32 {zlib.crc32(READING):08x}"
    assert "zero.h5" not in str(facts)
    assert "scope.invalid" not in str(facts)


@pytest.mark.parametrize(
    ("file", "before", "after", "what"),
    [
        ("desk.toml", "resistance_ohm = 1.3", "resistance_ohm = 2.6", "bench bench: shunt resistance_ohm was 1.3 "),
        ("desk.toml", "[dut]", "shunt_probe_ratio = 10\n[dut]", "bench bench: scope shunt_probe_ratio was 1.0 "),
        ("desk.toml", "[shunt]", "[supply]\nvoltage_v = 3.0\n[shunt]", "bench bench: supply voltage_v was nothing "),
        ("plan.toml", '[campaign]\n', '[campaign]\npower = "supply"\n', "[campaign] power was dut "),
        ("plan.toml", "[bench]\n", '[bench]\nshunt = "2.6 ohm"\n', "bench bench: shunt resistance_ohm was 1.3 "),
        ("plan.toml", 'zero = "zero.h5"\n', "", "bench bench: zero_reading was 9 bytes with CRC-32 "),
        ("plan.toml", 'file = "desk.toml"\n', "", "bench bench: emulated was False "),
        ("zero.h5", "reading", "Reading", "bench bench: zero_reading was 9 bytes with CRC-32 "),
        ("gain.h5", "another", "another one", "bench bench: calibration_readings was 7 bytes with CRC-32 "),
    ],
    ids=["shunt", "probe", "supply", "power", "shunt-of-plan", "no-zero", "emulated", "zero", "calibration"],
)
def test_what_is_another_is_named_old_and_new(desk, file, before, after, what):
    began = begin(load_plan(desk / "plan.toml"))
    text = (desk / file).read_text()
    assert before in text
    (desk / file).write_text(text.replace(before, after))
    told = settings.changed(began, load_plan(desk / "plan.toml"))
    assert [one for one in told if one.startswith(what) and " when the campaign began and is " in one]
    assert len(told) == 1 or "emulated" in what  # an emulated bench has a shunt of its own too


def test_a_bench_file_on_the_command_line_is_compared_too(desk):
    plan = load_plan(desk / "plan.toml")
    (desk / "other.toml").write_text(DESK.replace("1.3", "2.6"))
    (told,) = settings.changed(begin(plan), ready.with_bench(plan, desk / "other.toml"))
    assert told == "bench bench: shunt resistance_ohm was 1.3 when the campaign began and is 2.6 now"


def test_of_files_that_are_not_at_hand_what_the_plan_says_is_compared(desk):
    plan = load_plan(desk / "plan.toml")
    kept = to_toml(plan)
    assert settings.changed(begin(plan), parse_plan(kept, "plan.toml")) == ()
    edited = kept.replace('power = "dut"', 'power = "supply"') + 'shunt = "2.6 ohm"\n'
    assert settings.changed(begin(plan), parse_plan(edited, "plan.toml")) == (
        "[campaign] power was dut when the campaign began and is supply now",
        "bench bench: shunt resistance_ohm was 1.3 when the campaign began and is 2.6 now",
    )


class Built(Station):
    def builds(self):
        return {"stm32vldiscovery/Os": "00000000000000AA", "stm32vldiscovery/O2": "00000000000000BB"}


def began(**images):
    facts = {"images": {f"stm32vldiscovery/{name}": build for name, build in images.items()}}
    return Event("begin", "2026-11-30T12:00:00Z", facts=facts)


def test_another_build_of_an_image_that_was_measured_is_refused():
    station = Built("bench", None, 1)
    settings.check_firmware(Journal((), ()), [station])
    settings.check_firmware(Journal((), (began(Os="00000000000000AA"), Event("end", "x"))), [station])
    with pytest.raises(ConfigError) as caught:
        settings.check_firmware(Journal((), (began(Os="00000000000000CC"), began(Os="00000000000000AA"))), [station])
    assert "stm32vldiscovery/Os: build 00000000000000CC when the campaign began and 00000000000000AA now" in str(
        caught.value
    )
    assert "O2" not in str(caught.value)


def test_name_and_seed():
    plan = parse_plan(PLAN, "plan.toml")
    other = dataclasses.replace(begin(plan), name="day", seed=5)
    assert settings.changed(other, plan)[:2] == (
        "[campaign] name was day when the campaign began and is night now",
        "[campaign] seed was 5 when the campaign began and is 1 now",
    )


def test_settings_that_change_no_result_may_change():
    more = 'order = "listed"\nattempts = 9\nbackoff = "9 s"\ntemperature_degc = 20\n[factors]'
    other = parse_plan(PLAN.replace("[factors]", more) + '[budget]\nmax_time = "1 h"\n', "plan.toml")
    assert settings.changed(begin(parse_plan(PLAN, "plan.toml")), other) == ()
