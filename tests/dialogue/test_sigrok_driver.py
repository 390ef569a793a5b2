"""The sigrok driver and the command lines that it emits, against a stand-in, and on sigrok's own demo device."""

import json
import os
import shutil
import sys
import time

import numpy as np
import pytest

from instruments.drivers.sigrok import Sigrok
from instruments.errors import (
    BadData,
    DriverUnavailable,
    InstrumentTimeout,
    LinkLost,
    OutOfRange,
    Rejected,
)
from instruments.protocols import (
    AcquisitionSettings,
    ChannelSettings,
    CurrentSettings,
    DigitalSettings,
    Recorder,
    TriggerSettings,
)

# Answers as sigrok-cli 0.7.2 does; writes down how it was called, and what `plan` says into the session file.
STAND_IN = """#!{python}
import json, os, sys, time, zipfile
plan = json.load(open({plan!r}))
args = sys.argv[1:]
with open({told!r}, "a") as told:
    told.write(json.dumps(args) + "\\n")
if args == ["--version"]:
    print("sigrok-cli 0.7.2\\n\\nLibraries and features:")
elif args[-1] == "--scan":
    time.sleep(plan.get("scan_s", 0))
    print("The following devices were found:" if plan["devices"] else "", *plan["devices"], sep="\\n")
elif args[-1] == "--show":
    print(plan["show"])
else:
    def say(line):
        print(line, file=sys.stderr, flush=True)
    with open({pid!r}, "w") as file:
        file.write(str(os.getpid()))
    for line in plan.get("early", ()):
        say(line)
    if "status" in plan:
        sys.exit(plan["status"])
    time.sleep(plan.get("late_s", 0))
    say("sr: session: Starting.")
    say("cli: Received SR_DF_HEADER.")
    chunks = [bytes(chunk) for chunk in plan["chunks"]]
    for number, chunk in enumerate(chunks):
        if number == plan.get("trigger"):
            say("cli: Received SR_DF_TRIGGER.")
        say(f"cli: Received SR_DF_LOGIC ({{len(chunk)}} bytes, unitsize = 1).")
    time.sleep(plan.get("stall_s", 0))
    say("cli: Received SR_DF_END.")
    for line in plan.get("end", ()):
        say(line)
    if plan.get("file", True):
        names = args[args.index("--channels") + 1].split(",")
        with zipfile.ZipFile(args[args.index("--output-file") + 1], "w") as archive:
            archive.writestr("version", "2")
            archive.writestr("metadata", "[global]\\nsigrok version=0.5.2\\n[device 1]\\ncapturefile=logic-1\\n"
                             f"unitsize=1\\nsamplerate={{plan['rate']}}\\n"
                             + "".join(f"probe{{int(n[1:]) + 1}}={{n}}\\n" for n in plan.get("names", names)))
            for number, chunk in enumerate(chunks):
                archive.writestr(f"logic-1-{{number + 1}}", chunk)
    sys.exit(plan.get("end_status", 0))
"""
FX2 = "fx2lafw:conn=1.17 - Saleae Logic with 8 channels: D0 D1 D2 D3 D4 D5 D6 D7"
SHOW = f"""{FX2}
Supported configuration options across all channel groups:
    continuous: on, off
    samplerate - supported samplerates:
      20 kHz
      1 MHz (current)
      12 MHz
      24 MHz
      48 MHz
    Supported triggers: 0 1 r f e
    captureratio: 0 (current)"""
D0 = (DigitalSettings("D0"),)
ASK = [["--version"], ["--driver", "fx2lafw", "--scan"], ["--driver", "fx2lafw", "--show"]]


@pytest.fixture
def bench(tmp_path):
    """Give a function that opens the driver on a stand-in that does as told."""
    opened = []

    class Bench:
        folder = tmp_path

        def open(self, resource="fx2lafw", timeout_s=20.0, **plan):
            plan = {"devices": [FX2], "show": SHOW, "chunks": [[0] * 10], "rate": "1 MHz"} | plan
            (tmp_path / "plan.json").write_text(json.dumps(plan))
            script = tmp_path / "sigrok-cli"
            paths = {name: str(tmp_path / name) for name in ("told", "pid")}
            script.write_text(STAND_IN.format(python=sys.executable, plan=str(tmp_path / "plan.json"), **paths))
            script.chmod(0o755)
            driver = Sigrok.open(resource, timeout_s, program=str(script))
            opened.append(driver)
            return driver

        def told(self):
            return [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]

        def is_running(self):
            try:
                os.kill(int((tmp_path / "pid").read_text()), 0)
            except ProcessLookupError:
                return False
            return True

    yield Bench()
    for driver in opened:
        driver.close()
        driver.close()


def stretch(channels=D0, trigger=None, span_s=10e-6, pre_s=0.0, **more):
    return AcquisitionSettings(channels, trigger, span_s, pre_s, **{"rate_hz": 1e6, **more})


def record(driver, settings):
    driver.configure(settings)
    driver.arm(20.0)
    assert driver.wait(20.0) == 1
    return driver.fetch()


def levels(record, name):
    return record.channels[name].codes[0].tolist()


def test_what_it_asks_and_who_answers(bench):
    driver = bench.open()
    assert isinstance(driver, Recorder)
    assert bench.told() == ASK
    identity = driver.identify()
    assert (identity.vendor, identity.model, identity.firmware) == ("sigrok", "Saleae Logic", "sigrok-cli 0.7.2")
    limits = driver.capabilities()
    assert limits.channels == tuple(f"D{number}" for number in range(8))
    assert (limits.rate_max_hz, limits.segments_max, limits.units["D7"]) == (48e6, 1, "")


def test_levels_and_the_command_of_a_free_running_acquisition(bench):
    driver = bench.open(chunks=[[0, 1, 9, 8], [8, 8, 1, 1, 0, 8]])
    found = record(driver, stretch((DigitalSettings("D3"), DigitalSettings("D0"))))
    command = bench.told()[3]
    assert command[:-1] == [
        "--driver", "fx2lafw", "--loglevel", "3", "--config", "samplerate=1000000", "--channels", "D3,D0",
        "--samples", "10", "--output-format", "srzip", "--output-file",
    ]  # fmt: skip
    assert command[-1].endswith("/capture.sr")
    assert levels(found, "D0") == [0, 1, 1, 0, 0, 0, 1, 1, 0, 0]
    assert levels(found, "D3") == [0, 0, 1, 1, 1, 1, 0, 0, 0, 1]
    channel = found.channels["D0"]
    assert (channel.kind, channel.unit, channel.scale, channel.offset) == ("digital", "", 1.0, 0.0)
    assert channel.codes[:, 2:4].dtype == np.uint8
    assert (found.dt_s, found.segment_start_s.tolist(), found.gaps) == (1e-6, [0.0], ())


def test_a_trigger_and_what_lies_before_it(bench):
    """25 % of 12 samples before the trigger are asked; two came before it did."""
    driver = bench.open(chunks=[[0, 0], [1] * 10], trigger=1)
    granted = driver.configure(stretch(trigger=TriggerSettings("D0", 1.65), span_s=12e-6, pre_s=2.9e-6))
    assert granted.pre_s == pytest.approx(3e-6)
    driver.arm(20.0)
    driver.wait(20.0)
    found = driver.fetch()
    assert bench.told()[3][4:12] == [
        "--config", "samplerate=1000000:captureratio=25", "--channels", "D0", "--triggers", "D0=r", "--samples", "12"
    ]  # fmt: skip
    assert found.segment_start_s.tolist() == [-2e-6]
    assert levels(found, "D0") == [0, 0] + [1] * 10


def test_a_falling_edge(bench):
    driver = bench.open(trigger=0)
    record(driver, stretch(trigger=TriggerSettings("D0", 0.0, "falling")))
    assert "D0=f" in bench.told()[3]


@pytest.mark.parametrize(("asked_hz", "granted_hz"), [(0.0, 24e6), (1.0, 20e3), (2e6, 12e6), (48e6, 48e6)])
def test_the_next_rate_there_is_is_granted(bench, asked_hz, granted_hz):
    granted = bench.open().configure(stretch(span_s=1e-3, rate_hz=asked_hz))
    assert granted.rate_hz == granted_hz
    assert granted.span_s == pytest.approx(1e-3)


def test_samples_that_were_not_sent_are_a_gap(bench):
    driver = bench.open(chunks=[[0, 1, 1]], end=["cli: Device only sent 3 samples."])
    found = record(driver, stretch())
    assert found.gaps == ((0, 3, 7),)
    assert found.n_samples == 10


def test_where_data_was_lost_and_nobody_says_where_all_is_a_gap(bench):
    driver = bench.open(early=["sr: some-driver: Overflow, samples lost."])
    found = record(driver, stretch())
    assert found.gaps == ((0, 0, 10),)
    assert "Overflow" in found.granted["loss"]


@pytest.mark.parametrize(
    "settings",
    [
        stretch((ChannelSettings("D0", 5.0),)),
        stretch((CurrentSettings("D0"),)),
        stretch((DigitalSettings("D8"),)),
        stretch((DigitalSettings("D0", 1.65),)),
        stretch(()),
        stretch(D0 * 2),
        stretch(n_segments=2),
        stretch(span_s=0.0),
        stretch(span_s=float("inf")),
        stretch(span_s=float("nan")),
        stretch(span_s=1e5, rate_hz=48e6),
        stretch(pre_s=1e-6),
        stretch(trigger=TriggerSettings("D1", 0.0)),
        stretch(trigger=TriggerSettings("D0", 0.0, "both")),
        stretch(trigger=TriggerSettings("D0", 0.0), pre_s=11e-6),
        stretch(rate_hz=49e6),
        stretch(rate_hz=-1.0),
        stretch(rate_hz=float("nan")),
    ],
    ids=range(18),
)
def test_what_it_cannot_do_starts_nothing(bench, settings):
    driver = bench.open()
    with pytest.raises(OutOfRange, match="fx2lafw"):
        driver.configure(settings)
    with pytest.raises(Rejected, match="configure"):
        driver.arm()
    assert bench.told() == ASK


@pytest.mark.parametrize(
    ("plan", "error", "words"),
    [
        ({"devices": []}, LinkLost, "finds no such device"),
        ({"devices": [FX2, FX2.replace("1.17", "1.18")]}, BadData, "conn=1.17, fx2lafw:conn=1.18"),
        ({"show": "no rates"}, BadData, "no sample rate"),
    ],
)
def test_a_device_that_is_not_there_or_not_the_only_one(bench, plan, error, words):
    with pytest.raises(error, match=words):
        bench.open(**plan)


def test_a_scan_that_hangs_is_killed(bench):
    with pytest.raises(InstrumentTimeout, match="--scan: no end after 2 s"):
        bench.open(timeout_s=2.0, scan_s=60)


@pytest.mark.parametrize("resource", ["", " ", "--help"])
def test_a_resource_that_is_none(bench, resource):
    with pytest.raises(OutOfRange, match="driver of sigrok-cli"):
        bench.open(resource)


def test_a_missing_program_says_what_brings_it():
    with pytest.raises(DriverUnavailable, match="apt-get install") as raised:
        Sigrok.open("fx2lafw", program="no-such-sigrok-cli")
    assert raised.value.install == Sigrok.INSTALL


def test_a_trigger_that_does_not_come_is_said_and_the_program_reaped(bench):
    driver = bench.open(chunks=[], stall_s=60)
    driver.configure(stretch(trigger=TriggerSettings("D0", 0.0)))
    driver.arm(20.0)
    begun_s = time.monotonic()
    with pytest.raises(InstrumentTimeout, match=r"the trigger did not come after 0\.2 s"):
        driver.wait(0.2)
    assert time.monotonic() - begun_s < 30
    assert not bench.is_running()
    with pytest.raises(Rejected, match="arm"):
        driver.wait(0.2)


def test_samples_that_do_not_come_are_counted(bench):
    driver = bench.open(chunks=[[0, 1, 0]], stall_s=60)
    driver.configure(stretch())
    driver.arm(20.0)
    with pytest.raises(InstrumentTimeout, match="of 10 samples are there"):
        driver.wait(0.5)
    assert not bench.is_running()


@pytest.mark.parametrize(
    ("plan", "error", "words"),
    [
        ({"early": ["sr: fx2lafw: Unable to open."], "status": 1}, LinkLost, "status 1 and said: .*Unable to open"),
        ({"late_s": 60}, InstrumentTimeout, "did not begin within"),
    ],
)
def test_an_acquisition_that_does_not_begin(bench, plan, error, words):
    driver = bench.open(**plan)
    driver.configure(stretch())
    with pytest.raises(error, match=words):
        driver.arm(1.0 if "late_s" in plan else 20.0)


@pytest.mark.parametrize(
    ("plan", "error", "words"),
    [
        ({"file": False, "end": ["sr: no space left"]}, LinkLost, "wrote nothing and said: sr: no space left"),
        ({"rate": "2 MHz"}, Rejected, "1000000 Hz was asked, 2000000 Hz recorded"),
        ({"names": ["D5"]}, BadData, "did not record D0"),
    ],
)
def test_a_session_that_is_not_what_was_asked(bench, plan, error, words):
    with pytest.raises(error, match=words):
        record(bench.open(**plan), stretch())


def test_a_program_that_fails_at_its_end(bench):
    driver = bench.open(end=["sr: USB gone"], end_status=3)
    driver.configure(stretch())
    driver.arm(20.0)
    with pytest.raises(LinkLost, match="status 3 and said: sr: USB gone"):
        driver.wait(20.0)


def test_nothing_is_left_behind_and_nothing_fetched_twice_after_stop(bench):
    driver = bench.open()
    record(driver, stretch())
    file = bench.told()[3][-1]
    assert os.path.exists(file)
    driver.stop()
    assert not os.path.exists(os.path.dirname(file))
    with pytest.raises(Rejected, match="nothing is recorded"):
        driver.fetch()


needs_program = pytest.mark.skipif(shutil.which("sigrok-cli") is None, reason=f"no sigrok-cli here: {Sigrok.INSTALL}")


@needs_program
def test_sigroks_demo_device_with_and_without_a_trigger():
    """Its default pattern is sigrok's logo in bits: D0 is low for a while before it rises."""
    driver = Sigrok.open("demo:logic_channels=8:analog_channels=0", 30.0)
    try:
        assert driver.identify().model == "Demo device"
        assert driver.capabilities().rate_max_hz == 1e9
        channels = (DigitalSettings("D0"), DigitalSettings("D7"))
        free = record(driver, stretch(channels, span_s=2e-3))
        assert (free.n_samples, free.dt_s, free.gaps) == (2000, 1e-6, ())
        rises = record(driver, stretch(channels, TriggerSettings("D0", 0.0), span_s=2e-3, pre_s=0.5e-3))
        n_before = round(-rises.segment_start_s[0] / rises.dt_s)
        # The first sample that differs is the trigger's.
        assert levels(rises, "D0")[n_before - 1 : n_before + 1] == [0, 1]
    finally:
        driver.close()
