"""The Logic 2 driver against a stand-in of the automation package: every call that it makes, with its arguments."""

import enum
import struct
import sys
import threading
import types
from pathlib import Path

import pytest

from instruments.drivers.saleae_logic2 import SaleaeLogic2
from instruments.errors import BadData, DriverUnavailable, InstrumentTimeout, LinkLost, OutOfRange, Rejected
from instruments.protocols import (
    AcquisitionSettings,
    ChannelSettings,
    DigitalSettings,
    Recorder,
    TriggerSettings,
)

WHERE = "127.0.0.1:10430"
DeviceType = enum.Enum("DeviceType", "LOGIC LOGIC_8 LOGIC_PRO_8 LOGIC_PRO_16")


def configuration(name):
    """Make one of the package's configurations: it holds what it is given."""
    return type(name, (types.SimpleNamespace,), {})


def v0(level, begin_s, end_s, *times):
    return (b"<SALEAE>" + struct.pack("<iiIddQ", 0, 0, level, begin_s, end_s, len(times))
            + struct.pack(f"<{len(times)}d", *times))


def v1(*chunks):
    body = b"".join(struct.pack("<IdddQ", level, rate, begin, end, len(times)) + struct.pack(f"<{len(times)}d", *times)
                    for level, rate, begin, end, *times in chunks)
    return b"<SALEAE>" + struct.pack("<iiQ", 1, 0, len(chunks)) + body


class StandIn(types.ModuleType):
    """The package, Logic 2 and the analyser in one; `calls` lists what was asked of them."""

    DigitalTriggerType = enum.Enum("DigitalTriggerType", "RISING FALLING PULSE_HIGH PULSE_LOW")
    LogicDeviceConfiguration = configuration("LogicDeviceConfiguration")
    CaptureConfiguration = configuration("CaptureConfiguration")
    TimedCaptureMode = configuration("TimedCaptureMode")
    DigitalTriggerCaptureMode = configuration("DigitalTriggerCaptureMode")
    SaleaeError = type("SaleaeError", (Exception,), {})
    DeviceError = type("DeviceError", (SaleaeError,), {})
    OutOfMemoryError = type("OutOfMemoryError", (SaleaeError,), {})
    ExportError = type("ExportError", (SaleaeError,), {})

    def __init__(self):
        super().__init__("saleae.automation")
        self.calls, self.fail, self.hang, self.files = [], {}, {}, {0: v0(0, 0.0, 4e-6, 1e-6, 3e-6)}
        self.devices = [("ABC", DeviceType.LOGIC_PRO_8, False), ("F1", DeviceType.LOGIC_PRO_16, True)]
        stand_in = self

        class Manager:
            @classmethod
            def connect(cls, **given):
                stand_in.did("connect", **given)
                return cls()

            def get_devices(self, include_simulation_devices):
                stand_in.did("get_devices", include_simulation_devices=include_simulation_devices)
                return [types.SimpleNamespace(device_id=i, device_type=t, is_simulation=s)
                        for i, t, s in stand_in.devices if include_simulation_devices or not s]

            def get_app_info(self):
                return types.SimpleNamespace(app_version="2.4.29")

            def start_capture(self, **given):
                stand_in.did("start_capture", **given)
                return Capture()

            def close(self):
                stand_in.did("manager.close")
                for event in stand_in.hang.values():
                    event.set()

        class Capture:
            ended = 0

            def wait(self):
                self.end("wait")

            def stop(self):
                self.end("stop")

            def end(self, how):
                assert self.ended == 0, "a capture is waited for or stopped once"
                self.ended += 1
                stand_in.did(how)

            def close(self):
                stand_in.did("close")

            def export_raw_data_binary(self, directory, digital_channels):
                assert self.ended == 1
                stand_in.did("export", digital_channels=digital_channels)
                for number, content in stand_in.files.items():
                    (Path(directory) / f"digital_{number}.bin").write_bytes(content)

        self.Manager = Manager

    def did(self, name, **given):
        self.calls.append((name, given))
        if name in self.hang:
            self.hang[name].wait(60)
        if name in self.fail:
            raise self.fail[name]

    def names(self):
        return [name for name, _ in self.calls]


@pytest.fixture
def logic2(monkeypatch):
    automation = StandIn()
    package = types.ModuleType("saleae")
    package.automation = automation
    monkeypatch.setitem(sys.modules, "saleae", package)
    monkeypatch.setitem(sys.modules, "saleae.automation", automation)
    return automation


D0 = (DigitalSettings("D0"),)


def stretch(channels=D0, trigger=None, span_s=4e-6, pre_s=0.0, **more):
    return AcquisitionSettings(channels, trigger, span_s, pre_s, **{"rate_hz": 1e6, **more})


def record(driver, settings):
    driver.configure(settings)
    driver.arm()
    assert driver.wait(10.0) == 1
    return driver.fetch()


def test_a_timed_capture_call_by_call(logic2):
    driver = SaleaeLogic2.open(WHERE, 5.0)
    assert isinstance(driver, Recorder)
    found = record(driver, stretch())
    driver.close()
    driver.close()
    assert logic2.calls == [
        ("connect", {"address": "127.0.0.1", "port": 10430, "connect_timeout_seconds": 5.0}),
        ("get_devices", {"include_simulation_devices": False}),
        ("start_capture", {
            "device_id": "ABC",
            "device_configuration": logic2.LogicDeviceConfiguration(
                enabled_digital_channels=[0], digital_sample_rate=1_000_000, digital_threshold_volts=None),
            "capture_configuration": logic2.CaptureConfiguration(
                capture_mode=logic2.TimedCaptureMode(duration_seconds=4e-6)),
        }),
        ("wait", {}),
        ("export", {"digital_channels": [0]}),
        ("close", {}),
        ("manager.close", {}),
    ]
    assert found.channels["D0"].codes[0].tolist() == [0, 1, 1, 0]
    assert (found.channels["D0"].kind, found.channels["D0"].unit) == ("digital", "")
    assert (found.dt_s, found.segment_start_s.tolist(), found.gaps) == (1e-6, [0.0], ())
    identity = found.instrument
    assert (identity.vendor, identity.model, identity.serial, identity.firmware) == (
        "Saleae", "LOGIC_PRO_8", "ABC", "Logic 2.4.29")  # fmt: skip


def test_a_trigger_with_a_threshold_and_time_before_it(logic2):
    logic2.files = {3: v0(0, -2e-6, 3e-6, 0.0)}
    driver = SaleaeLogic2.open(WHERE)
    trigger = TriggerSettings("D3", 1.65, "falling")
    found = record(driver, stretch((DigitalSettings("D3", 1.8),), trigger, span_s=5e-6, pre_s=2e-6))
    given = dict(logic2.calls)["start_capture"]
    assert given["device_configuration"].digital_threshold_volts == 1.8
    assert given["capture_configuration"].capture_mode == logic2.DigitalTriggerCaptureMode(
        trigger_type=logic2.DigitalTriggerType.FALLING, trigger_channel_index=3,
        after_trigger_seconds=pytest.approx(3e-6), trim_data_seconds=5e-6,
    )  # fmt: skip
    assert found.segment_start_s.tolist() == [-2e-6]
    assert found.channels["D3"].codes[0].tolist() == [0, 0, 1, 1, 1]


def test_what_is_lost_on_one_input_is_a_gap_of_the_record(logic2):
    logic2.files = {0: v1((0, 1e6, 0.0, 2e-6, 1e-6), (1, 1e6, 4e-6, 6e-6)), 2: v1((0, 1e6, 0.0, 6e-6, 5e-6))}
    found = record(SaleaeLogic2.open(WHERE), stretch((DigitalSettings("D0"), DigitalSettings("D2")), span_s=6e-6))
    assert found.gaps == ((0, 2, 2),)
    assert found.channels["D0"].codes[0].tolist() == [0, 1, 1, 1, 1, 1]
    assert found.channels["D2"].codes[0].tolist() == [0, 0, 0, 0, 0, 1]


def test_stopped_before_it_is_waited_for_a_capture_is_stopped_once(logic2):
    driver = SaleaeLogic2.open(WHERE)
    driver.configure(stretch())
    driver.arm()
    driver.stop()
    driver.stop()
    assert logic2.names()[-2:] == ["stop", "close"]
    with pytest.raises(Rejected, match="armed"):
        driver.wait(1.0)


def test_a_wait_that_does_not_return_ends_the_connection_and_arm_makes_a_new_one(logic2):
    logic2.hang["wait"] = threading.Event()
    driver = SaleaeLogic2.open(WHERE)
    driver.configure(stretch(trigger=TriggerSettings("D0", 0.0)))
    driver.arm()
    with pytest.raises(InstrumentTimeout, match=r"wait did not return within 0\.1 s"):
        driver.wait(0.1)
    # A capture that is waited for may not be stopped.
    assert logic2.names()[-1] == "manager.close"
    assert "stop" not in logic2.names()
    del logic2.hang["wait"]
    assert record(driver, stretch()).n_samples == 4
    assert logic2.names().count("connect") == 2


@pytest.mark.parametrize(
    ("call", "error", "raised", "words"),
    [
        ("start_capture", StandIn.DeviceError("no power"), LinkLost, "start_capture: the analyser failed .no power"),
        ("wait", StandIn.DeviceError("usb"), LinkLost, "wait: the analyser failed .usb"),
        ("wait", StandIn.OutOfMemoryError("full"), Rejected, "buffer is full"),
        ("start_capture", StandIn.SaleaeError("rate"), Rejected, "Logic 2 refused .SaleaeError: rate"),
        ("export", StandIn.ExportError("disk"), Rejected, "ExportError: disk"),
        ("wait", ConnectionError("gone"), LinkLost, "no answer from Logic 2"),
    ],
)
def test_what_goes_wrong_says_where(logic2, call, error, raised, words):
    driver = SaleaeLogic2.open(WHERE)
    logic2.fail[call] = error
    with pytest.raises(raised, match=words) as told:
        record(driver, stretch())
    assert WHERE in str(told.value)


def test_logic_2_that_does_not_answer(logic2):
    logic2.fail["connect"] = OSError("refused")
    with pytest.raises(LinkLost, match="automation"):
        SaleaeLogic2.open(WHERE)


@pytest.mark.parametrize(
    ("files", "error", "words"),
    [
        ({}, BadData, "exported no digital_0.bin"),
        ({0: v1((0, 2e6, 0.0, 4e-6))}, Rejected, "1000000 Hz was asked, 2000000 Hz recorded"),
        ({0: b"<SALEAE>"}, BadData, "digital_0.bin"),
    ],
)
def test_files_that_are_not_what_was_asked(logic2, files, error, words):
    logic2.files = files
    with pytest.raises(error, match=words):
        record(SaleaeLogic2.open(WHERE), stretch())


def test_one_of_several_is_named_and_a_simulated_one_only_so(logic2):
    assert SaleaeLogic2.open(WHERE, device="F1").identify().serial == "F1"
    assert ("get_devices", {"include_simulation_devices": True}) in logic2.calls
    with pytest.raises(LinkLost, match=r"ABC \(LOGIC_PRO_8\)"):
        SaleaeLogic2.open(WHERE, device="nobody")
    logic2.devices.append(("DEF", DeviceType.LOGIC_8, False))
    with pytest.raises(LinkLost, match="2 fit; name one"):
        SaleaeLogic2.open(WHERE)
    logic2.devices = [("OLD", DeviceType.LOGIC, False)]
    with pytest.raises(Rejected, match="cannot automate"):
        SaleaeLogic2.open(WHERE)
    logic2.devices = []
    with pytest.raises(LinkLost, match="sees none"):
        SaleaeLogic2.open(WHERE)


@pytest.mark.parametrize(
    "settings",
    [
        stretch((ChannelSettings("D0", 5.0),)),
        stretch((DigitalSettings("D8"),)),
        stretch((DigitalSettings("D0", 2.5),)),
        stretch((DigitalSettings("D0", 1.2), DigitalSettings("D1", 1.8))),
        stretch(()),
        stretch((DigitalSettings("D0"),) * 2),
        stretch(n_segments=2),
        stretch(span_s=0.0),
        stretch(span_s=float("nan")),
        stretch(pre_s=1e-6),
        stretch(trigger=TriggerSettings("D1", 0.0)),
        stretch(trigger=TriggerSettings("D0", 0.0, "both")),
        stretch(trigger=TriggerSettings("D0", 0.0), pre_s=4e-6),
        stretch(rate_hz=501e6),
        stretch(rate_hz=float("nan")),
    ],
    ids=range(15),
)
def test_what_it_cannot_do_starts_nothing(logic2, settings):
    driver = SaleaeLogic2.open(WHERE)
    with pytest.raises(OutOfRange, match="10430"):
        driver.configure(settings)
    with pytest.raises(Rejected, match="configure"):
        driver.arm()
    assert logic2.names() == ["connect", "get_devices"]


def test_the_next_rate_is_granted_and_a_logic_8_has_no_thresholds(logic2):
    driver = SaleaeLogic2.open(WHERE)
    assert driver.configure(stretch(rate_hz=0.0)).rate_hz == 25e6
    assert driver.configure(stretch(rate_hz=101e6)).rate_hz == 125e6
    logic2.devices = [("L8", DeviceType.LOGIC_8, False)]
    with pytest.raises(OutOfRange, match="threshold"):
        SaleaeLogic2.open(WHERE).configure(stretch((DigitalSettings("D0", 1.8),)))


@pytest.mark.parametrize("resource", ["", "localhost", "localhost:", ":10430", "localhost:http", "localhost:99999"])
def test_a_resource_that_is_none(logic2, resource):
    with pytest.raises(OutOfRange, match="10430"):
        SaleaeLogic2.open(resource)
    assert logic2.calls == []


def test_a_missing_package_says_what_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "saleae", None)
    with pytest.raises(DriverUnavailable, match="logic2-automation") as raised:
        SaleaeLogic2.open(WHERE)
    assert raised.value.install == SaleaeLogic2.INSTALL
