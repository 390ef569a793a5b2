"""The driver of the PPK2: every byte both ways, what it makes of the stream, and what it never sends."""

import math
import struct
import time

import numpy as np
import pytest

from instruments.drivers import nordic_ppk2
from instruments.drivers.nordic_ppk2 import NordicPpk2
from instruments.drivers.ppk2_recording import N_SETTLING
from instruments.errors import BadData, InstrumentTimeout, LinkLost, OutOfRange, Rejected, WrongIdentity
from instruments.protocols import (
    AcquisitionSettings,
    ChannelSettings,
    CurrentSettings,
    DigitalSettings,
    PowerSwitch,
    Recorder,
    TriggerSettings,
)
from instruments.record import Identity

STOP, START, ASK = b"\x07", b"\x06", b"\x19"
ON, OFF = b"\x0c\x01", b"\x0c\x00"
SHORT_S, AMPLE_S = 0.05, 20.0
# One step of the converter, 4 codes, is 4 x 1.8 / 163840 / 100 A at the resistor of range 1.
STEP_A = 4.39453125e-7


def metadata(mode=2, vdd_mv=3300):
    return f"Calibrated: 1\nR1: 100\nGS1: 0\nVDD: {vdd_mv}\nHW: 9173\nmode: {mode}\nEND".encode()


QUIET = (STOP, None)
TELLS = (QUIET, (ASK, metadata()))


class Wire:
    """Play the device's part of `steps`: pairs of (bytes that must be written, what comes then | exception | None).

    What is left of it in the end was never sent.
    """

    resource = "ppk"

    def __init__(self, *steps, waiting=b""):
        self.steps, self.waiting = list(steps), bytearray(waiting)
        self.fault = None
        self.n_dropped = self.n_reopened = self.n_closed = 0

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            assert not self.steps, f"never sent: {self.steps}"

    def write(self, data, timeout_s=1.0):
        assert timeout_s > 0
        if self.fault is not None:
            raise self.fault
        assert self.steps, f"unexpected: {data!r}"
        expected, then = self.steps.pop(0)
        assert data == expected
        if isinstance(then, Exception):
            raise then
        self.waiting += then or b""

    def receive_into(self, view, deadline):
        if self.waiting:
            n = min(len(view), len(self.waiting), 4096)
            view[:n] = self.waiting[:n]
            del self.waiting[:n]
            return n, False
        if self.fault is not None:
            raise self.fault
        time.sleep(min(0.002, max(0.0, deadline.remaining_s)))
        raise InstrumentTimeout(f"{self.resource}: no byte came within {deadline.timeout_s:g} s")

    def drain(self, quiet_s=0.05):
        self.n_dropped += len(self.waiting)
        self.waiting.clear()
        return self.n_dropped

    def reopen(self):
        self.fault = None
        self.n_reopened += 1

    def close(self):
        self.n_closed += 1


def meter_at(wire, **options):
    return NordicPpk2(wire, timeout_s=SHORT_S, **options)


def stream(*parts, first=0, settling=N_SETTLING):
    """Give the bytes of words in range 1: `parts` are (steps of the converter, levels, how many); they count on."""
    parts = ((0, 0, settling), *parts)
    words = [(adc, logic) for adc, logic, n in parts for _ in range(n)]
    counted = [a + (1 << 14) + ((first + k) % 64 << 18) + (logic << 24) for k, (a, logic) in enumerate(words)]
    return struct.pack(f"<{len(counted)}I", *counted)


def ask(span_s=200e-6, pre_s=50e-6, source="D0", edge="rising", channels=("I1", "D0"), **more):
    made = tuple(CurrentSettings(name) if name == "I1" else DigitalSettings(name) for name in channels)
    trigger = None if source is None else TriggerSettings(source, math.nan, edge)
    return AcquisitionSettings(made, trigger, span_s, pre_s, **more)


def recorded(meter, settings):
    meter.configure(settings)
    meter.arm(AMPLE_S)
    assert meter.wait(AMPLE_S) == 1
    return meter.fetch()


# --- who it is, and the supply ---------------------------------------------------------------------------------------


def test_it_stops_what_streams_lets_it_pass_and_reads_the_calibration():
    with Wire(*TELLS, waiting=stream((5, 0, 100))) as wire:
        meter = meter_at(wire)
        identity = meter.identify()
        assert identity == Identity("Nordic Semiconductor", "PPK2", "", "HW 9173", "ppk")
        assert meter.fits(identity)
        assert wire.n_dropped == 4 * (N_SETTLING + 100)
        assert meter.identify() == identity  # asks no second time
    assert not NordicPpk2.fits(Identity("KEYSIGHT", "PPK2", "", ""))
    assert isinstance(meter, Recorder)
    assert isinstance(meter, PowerSwitch)


def test_the_serial_number_is_that_of_the_usb_port(monkeypatch):
    class Port:
        device, serial_number = "ppk", "EA12"

    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: [Port])
    with Wire(*TELLS) as wire:
        assert meter_at(wire).identify().serial == "EA12"


def test_metadata_may_come_in_pieces_with_more_behind():
    with Wire(QUIET, (ASK, metadata() + b"\r\n")) as wire:
        wire.receive_into = piecewise(wire.receive_into)
        assert meter_at(wire).identify().firmware == "HW 9173"


def piecewise(receive_into):
    return lambda view, deadline: receive_into(view[:3], deadline)


def test_something_else_that_answers_is_refused():
    made = (b"hello\nEND", "ppk: the metadata .*b'hello"), (b"x" * 10000, "without END after .*0x19: b'x")
    for answer, text in made:
        with Wire(QUIET, (ASK, answer)) as wire, pytest.raises(WrongIdentity, match=text):
            meter_at(wire).identify()


def test_silence_and_a_cut_answer_end_in_time_and_say_what_had_come():
    text = r"ppk: no byte .*0x19.* b'R0: 1\\nEN' had come.*two"
    with Wire(QUIET, (ASK, b"R0: 1\nEN")) as wire, pytest.raises(InstrumentTimeout, match=text):
        meter_at(wire).identify()


def test_a_device_that_does_not_answer_behind_the_switch_is_told():
    text = r"0x19.* b'' had come"
    with Wire(*TELLS, (ON, None), QUIET, (ASK, None)) as wire, pytest.raises(InstrumentTimeout, match=text):
        meter_at(wire).set_output(True)


def test_the_output_is_switched_on_in_its_mode_at_its_voltage_and_off():
    steps = (
        QUIET, (ASK, metadata(mode=1)),
        (b"\x11\x02", None), QUIET, (ASK, metadata()),
        (b"\x0d\x0c\xe4", None), *TELLS,
        (ON, None), *TELLS, (OFF, None), *TELLS,
    )  # fmt: skip
    with Wire(*steps) as wire:
        meter = meter_at(wire, voltage_v=3.3)
        meter.set_output(True)
        meter.set_output(False)


def test_without_a_voltage_the_one_that_is_set_stays():
    with Wire(*TELLS, (ON, None), *TELLS) as wire:
        meter_at(wire).set_output(True)


def test_in_ampere_mode_the_output_is_the_way_through():
    ampere = (QUIET, (ASK, metadata(mode=1)))
    with Wire(*TELLS, (b"\x11\x01", None), *ampere, (ON, None), *ampere) as wire:
        meter_at(wire, mode="ampere").set_output(True)


@pytest.mark.parametrize(("voltage_v", "command", "mv"), [(0.8, b"\x0d\x03\x20", 800), (5.0, b"\x0d\x13\x88", 5000)])
def test_the_voltage_is_set_and_read_back(voltage_v, command, mv):
    with Wire((command, None), QUIET, (ASK, metadata(vdd_mv=mv))) as wire:
        meter_at(wire).set_supply(voltage_v, 0.1)


def test_another_voltage_or_mode_than_asked_is_rejected_before_the_output_is_on():
    text = r"ppk: 1.8 V were set \(0d 07 08\), and its metadata say 3.3 V"
    with Wire(*TELLS, (b"\x0d\x07\x08", None), *TELLS) as wire, pytest.raises(Rejected, match=text):
        meter_at(wire, voltage_v=1.8).set_output(True)
    text = r"ppk: ampere mode was set \(11 01\), and its metadata say mode 2"
    with Wire(*TELLS, (b"\x11\x01", None), *TELLS) as wire, pytest.raises(Rejected, match=text):
        meter_at(wire, mode="ampere").set_output(True)


def test_a_device_that_does_not_tell_its_mode_and_voltage_is_believed():
    silent = (QUIET, (ASK, b"R1: 100\nEND"))
    steps = (*silent, (b"\x11\x02", None), *silent, (b"\x0d\x07\x08", None), *silent, (ON, None), *silent)
    with Wire(*steps) as wire:
        meter_at(wire, voltage_v=1.8).set_output(True)


@pytest.mark.parametrize("voltage_v", [0.799, 5.001, math.nan, math.inf, -3.3])
def test_a_voltage_that_it_cannot_give_sends_nothing(voltage_v):
    with Wire() as wire:
        with pytest.raises(OutOfRange, match=r"supply voltage must be from 0.8 V to 5 V"):
            meter_at(wire).set_supply(voltage_v)
        with pytest.raises(OutOfRange, match="supply voltage"):
            meter_at(wire, voltage_v=voltage_v)
    with pytest.raises(OutOfRange, match="supply voltage"):
        NordicPpk2.open("/dev/none-such", voltage_v=voltage_v)


def test_a_mode_that_there_is_not_and_an_output_that_is_neither():
    with Wire() as wire:
        with pytest.raises(OutOfRange, match=r"the mode is ampere or source, not 'volt'"):
            meter_at(wire, mode="volt")
        with pytest.raises(TypeError, match="not 1"):
            meter_at(wire).set_output(1)


# --- recording -------------------------------------------------------------------------------------------------------


def test_a_recording_lies_about_the_first_edge():
    data = stream((100, 0, 40), (200, 1, 15), (300, 0, 10), (400, 1, 30))
    with Wire(*TELLS, (START, data), QUIET) as wire:
        record = recorded(meter_at(wire), ask())
    current, pin = record.channels["I1"], record.channels["D0"]
    assert current.codes.dtype == np.float32
    # 200 us are 20 samples, 5 of them before the edge.
    expected = [100 * STEP_A] * 5 + [200 * STEP_A] * 15
    assert current.codes[0] == pytest.approx(np.array(expected), rel=1e-6)
    assert pin.codes.tolist() == [[0] * 5 + [1] * 15]
    assert (pin.kind, pin.unit, pin.scale, pin.offset, pin.codes.dtype) == ("digital", "", 1.0, 0.0, np.uint8)
    assert (current.unit, current.scale, current.offset) == ("A", 1.0, 0.0)
    assert record.dt_s == pytest.approx(10e-6)
    assert record.segment_start_s == pytest.approx([-45e-6])
    assert record.gaps == ()
    assert record.granted["averages"] is True
    assert (record.granted["supply_v"], record.granted["ranges"], record.granted["mode"]) == (3.3, (1,), "source")
    assert (current.accuracy.gain_ratio, current.accuracy.offset_limit) == (0.10, 0.5e-6)
    assert current.accuracy.source.startswith("not verified")


def test_a_falling_edge_of_any_input_begins_it():
    data = stream((1, 0b0101, 20), (2, 0b0100, 20), (3, 0b0000, 60), settling=N_SETTLING)
    with Wire(*TELLS, (START, data), QUIET) as wire:
        record = recorded(meter_at(wire), ask(source="D2", edge="falling", channels=("D2", "I1"), pre_s=30e-6))
    assert record.channels["D2"].codes.tolist() == [[1] * 3 + [0] * 17]
    assert record.channels["I1"].codes[0, :4] == pytest.approx(np.array([2, 2, 2, 3]) * STEP_A, rel=1e-6)


def test_an_edge_before_the_part_before_it_is_full_is_not_taken():
    # The first edge has 4 words before it, the second enough.
    data = stream((1, 0, 4), (2, 1, 3), (3, 0, 8), (4, 1, 40))
    with Wire(*TELLS, (START, data), QUIET) as wire:
        record = recorded(meter_at(wire), ask(pre_s=50e-6))
    assert record.channels["I1"].codes[0, 4:6] == pytest.approx(np.array([3, 4]) * STEP_A, rel=1e-6)


def test_what_comes_first_settles_and_is_left_out():
    data = stream((7, 0, 40), settling=0) + stream((7, 0, 60), first=40, settling=N_SETTLING - 40)
    with Wire(*TELLS, (START, data), QUIET) as wire:
        record = recorded(meter_at(wire), ask(source=None, pre_s=0.0))
    assert record.channels["I1"].codes[0] == pytest.approx(np.full(20, 7 * STEP_A), rel=1e-6)
    assert record.segment_start_s == pytest.approx([5e-6])


def test_lost_words_are_a_gap_and_no_number():
    whole = stream((1, 0, 20), (2, 1, 100))
    cut = 4 * (N_SETTLING + 25)
    with Wire(*TELLS, (START, whole[:cut] + whole[cut + 4 * 7 :]), QUIET) as wire:
        record = recorded(meter_at(wire), ask())
    codes = record.channels["I1"].codes[0]
    assert np.flatnonzero(np.isnan(codes)).tolist() == list(range(10, 17))
    assert record.gaps == ((0, 10, 7),)
    assert record.channels["D0"].codes[0].tolist() == [0] * 5 + [1] * 15
    assert (record.granted["words_lost"], record.granted["words_repeated"]) == (7, 0)


def test_a_long_wait_keeps_the_last_words_alone(monkeypatch):
    monkeypatch.setattr("instruments.drivers.ppk2_recording._N_SPARE", 8)
    data = stream(*((k % 1000, 0, 3) for k in range(500)), (1001, 0, 5), (1002, 1, 40))
    with Wire(*TELLS, (START, data), QUIET) as wire:
        record = recorded(meter_at(wire), ask(pre_s=70e-6))
    steps = record.channels["I1"].codes[0] / STEP_A
    assert steps == pytest.approx(np.array([499] * 2 + [1001] * 5 + [1002] * 13), rel=1e-6)


def test_the_range_that_was_used_tells_the_accuracy():
    words = np.frombuffer(stream((10, 0, 40)), "<u4").copy()
    words[-15:] += 3 << 14  # range 4
    with Wire(*TELLS, (START, words.tobytes()), QUIET) as wire:
        record = recorded(meter_at(wire), ask(source=None, pre_s=0.0, span_s=300e-6))
    assert record.granted["ranges"] == (1, 4)
    accuracy = record.channels["I1"].accuracy
    assert (accuracy.gain_ratio, accuracy.offset_limit) == (0.15, 1e-3)


def test_a_second_recording_needs_no_setting_again():
    data = stream((1, 0, 20), (2, 1, 100))
    with Wire(*TELLS, (START, data), QUIET, (START, data), QUIET) as wire:
        meter = meter_at(wire)
        recorded(meter, ask())
        meter.arm(AMPLE_S)
        meter.wait(AMPLE_S)
        assert meter.fetch().n_samples == 20


def test_whole_samples_are_granted():
    with Wire(*TELLS) as wire:
        granted = meter_at(wire).configure(ask(span_s=0.3, pre_s=12.1e-6, rate_hz=1000.0))
    assert granted.span_s == pytest.approx(0.3, rel=1e-12)
    assert granted.pre_s == pytest.approx(20e-6)
    assert granted.rate_hz == 100e3
    assert granted.channels[0].range_a is None


def test_capabilities_are_those_of_the_page():
    limits = meter_at(Wire()).capabilities()
    assert (limits.rate_max_hz, limits.range_max_a, limits.segments_max, limits.averages) == (100e3, 1.0, 1, True)
    assert limits.trigger_sources == tuple(f"D{k}" for k in range(8))
    assert limits.units["I1"] == "A"


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_no_edge_ends_in_time_names_the_input_and_the_next_recording_works():
    data = stream((1, 0, 20), (2, 1, 100))
    with Wire(*TELLS, (START, stream((1, 0, 200))), QUIET, (START, data), QUIET) as wire:
        meter = meter_at(wire)
        meter.configure(ask())
        meter.arm(AMPLE_S)
        with pytest.raises(InstrumentTimeout, match=r"ppk: not complete within 0.05 s; no edge came at D0: .*polarity"):
            meter.wait(SHORT_S)
        with pytest.raises(Rejected, match="nothing was recorded"):
            meter.fetch()
        assert recorded(meter, ask()).n_samples == 20


def test_a_stream_that_dries_up_says_how_much_had_come():
    with Wire(*TELLS, (START, stream((1, 0, 20), (2, 1, 10), (3, 1, 8))), QUIET) as wire:
        meter = meter_at(wire)
        meter.configure(ask(span_s=1.0))
        meter.arm(AMPLE_S)
        with pytest.raises(InstrumentTimeout, match=r"15 samples had come: check the USB cable"):
            meter.wait(SHORT_S)


def test_a_stream_that_never_comes_ends_in_time():
    with Wire(*TELLS, (START, None), QUIET) as wire:
        meter = meter_at(wire)
        meter.configure(ask())
        with pytest.raises(InstrumentTimeout, match=r"ppk: after the start command \(0x06\) .* within 0.05 s"):
            meter.arm(SHORT_S)


def test_bytes_that_are_no_words_are_refused_and_the_next_recording_works():
    data = stream((1, 0, 20), (2, 1, 100))
    with Wire(*TELLS, (START, bytes(9000)), QUIET, (START, data), QUIET) as wire:
        meter = meter_at(wire)
        meter.configure(ask())
        with pytest.raises(BadData, match=r"ppk: 4096 bytes without words that count on"):
            meter.arm(AMPLE_S)
        assert recorded(meter, ask()).n_samples == 20


def test_a_pulled_plug_is_told_and_after_it_is_back_all_is_read_again():
    data = stream((1, 0, 20), (2, 1, 100))
    # Behind the plug it may have forgotten its mode.
    again = (QUIET, QUIET, (ASK, metadata(mode=1)), (b"\x11\x02", None), *TELLS, (START, data), QUIET)
    with Wire(*TELLS, (START, stream((1, 0, 20), (2, 1, 8))), *again) as wire:
        meter = meter_at(wire)
        meter.configure(ask(span_s=1.0))
        meter.arm(AMPLE_S)
        wire.fault = LinkLost("ppk was unplugged")
        with pytest.raises(LinkLost, match=r"ppk was unplugged \(\d+ samples had come\)"):
            meter.wait(AMPLE_S)
        assert recorded(meter, ask()).n_samples == 20
        assert wire.n_reopened == 1


def test_a_command_that_cannot_be_sent_is_named():
    with Wire(*TELLS, (ON, LinkLost("ppk is gone"))) as wire:
        meter = meter_at(wire)
        with pytest.raises(LinkLost, match=r"ppk is gone \(command 0c 01\)"):
            meter.set_output(True)


def test_closing_stops_the_stream_and_leaves_the_output():
    with Wire(*TELLS, (START, stream((1, 0, 20))), QUIET) as wire:
        meter = meter_at(wire)
        meter.configure(ask())
        meter.arm(AMPLE_S)
        meter.close()
        meter.close()
        meter.stop()
        assert wire.n_closed == 2


def test_closing_a_port_that_is_gone_is_quiet():
    with Wire(*TELLS, (START, stream((1, 0, 20))), (STOP, LinkLost("gone"))) as wire:
        meter = meter_at(wire)
        meter.configure(ask())
        meter.arm(AMPLE_S)
        meter.close()
        assert wire.n_closed == 1


def test_out_of_order_calls_send_nothing():
    with Wire() as wire:
        meter = meter_at(wire)
        meter.stop()
        for call in (meter.arm, lambda: meter.wait(SHORT_S), meter.fetch):
            with pytest.raises(Rejected, match="call configure"):
                call()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (AcquisitionSettings((), None, 1.0, 0.0), "at least one channel"),
        (ask(channels=("I1", "D8")), "no channel 'D8'; this instrument has I1, D0"),
        (ask(channels=("I1", "I1")), "asked for twice"),
        (AcquisitionSettings((ChannelSettings("I1", 1.0),), None, 1.0, 0.0), "I1 measures current"),
        (AcquisitionSettings((CurrentSettings("D0"),), None, 1.0, 0.0), "D0 is a logic input"),
        (AcquisitionSettings((DigitalSettings("D0", 1.5),), None, 1.0, 0.0), "threshold follows VCC"),
        (AcquisitionSettings((CurrentSettings("I1", 1.01),), None, 1.0, 0.0), "I1 range must be up to 1 A"),
        (AcquisitionSettings((CurrentSettings("I1", math.nan),), None, 1.0, 0.0), "I1 range"),
        (AcquisitionSettings((CurrentSettings("I1", 0.0),), None, 1.0, 0.0), "I1 range"),
        (ask(n_segments=2), "one segment that holds all windows, not 2"),
        (ask(span_s=0.0, pre_s=0.0), "span must be above 0 s"),
        (ask(span_s=600.1), "up to 600 s, not 600.1 s"),
        (ask(span_s=math.nan), "span"),
        (ask(pre_s=-1e-6), "pre-trigger time"),
        (ask(pre_s=300e-6), "pre-trigger time"),
        (ask(rate_hz=200e3), "samples at 100000 Hz, not at 200000 Hz"),
        (ask(source="I1"), "no trigger source 'I1'"),
        (ask(source="BNC"), "no trigger source 'BNC'"),
        (ask(edge="both"), "rising or falling, not 'both'"),
    ],
    ids=range(19),
)
def test_what_it_cannot_do_is_refused_before_anything_is_sent(settings, text):
    with Wire() as wire, pytest.raises(OutOfRange, match=text):
        meter_at(wire).configure(settings)


def test_open_closes_a_port_where_nothing_answers(monkeypatch):
    wire = Wire(QUIET, (ASK, None))
    monkeypatch.setattr("instruments.transport.serial.SerialLink", lambda resource: wire)
    with pytest.raises(InstrumentTimeout, match="is this the port of a PPK2"):
        NordicPpk2.open("ppk", timeout_s=SHORT_S)
    assert wire.n_closed == 1
    monkeypatch.setattr("instruments.transport.serial.SerialLink", lambda resource: Wire(*TELLS))
    assert NordicPpk2.open("ppk").identify().model == "PPK2"


def test_the_driver_says_what_it_is():
    assert (NordicPpk2.KIND, NordicPpk2.DRIVER_API) == ("meter", 1)
    assert "not tried" in NordicPpk2.SUMMARY
    for text in ("pc-nrfconnect-ppk", "Firmware assumed", "Not verified", "multiple"):
        assert text in nordic_ppk2.__doc__
