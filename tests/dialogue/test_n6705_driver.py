"""The N6705 driver: who answers, what is refused before the wire, how it plans, and the DUT's supply."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from instruments.drivers.keysight_n6705 import KeysightN6705
from instruments.drivers.n6705_facts import QUANTITIES, make_channel, make_plan, resolution, scope_interval_s
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

IDN = ("*IDN?", "Keysight Technologies,N6705C,MY00000000,E.02.07.2802")
TWO = [IDN, ("SYST:CHAN?", "+2"), ("SYST:CHAN:MOD? (@1,2)", '"N6781A","N6781A"')]
ONE = [IDN, ("SYST:CHAN?", "1"), ("SYST:CHAN:MOD? (@1)", "N6782A")]
OK = (":SYSTem:ERRor?", '+0,"No error"')

I1, V1, V2 = CurrentSettings("I1"), ChannelSettings("V1", 6.6), ChannelSettings("V2", 6.6, 1.65)
AT_ONCE = AcquisitionSettings((I1,), None, span_s=1e-3, pre_s=0.0)
PIN = replace(AT_ONCE, trigger=TriggerSettings("PIN1", 1.65))


def sent(header, value, reply):
    """Return the three exchanges of one setting of output 1: set, read the error queue, read back."""
    return [(f"{header} {value},(@1)", None), OK, (f"{header}? (@1)", reply)]


def test_is_a_recorder_and_a_power_switch(dialogue):
    meter = KeysightN6705(dialogue())
    assert isinstance(meter, Recorder)
    assert isinstance(meter, PowerSwitch)
    assert (meter.DRIVER_API, meter.KIND) == (1, "meter")
    assert len(meter.SUMMARY) <= 100


def test_who_answers_and_what_it_can_do(dialogue):
    with dialogue(*TWO) as link:
        meter = KeysightN6705(link)
        limits = meter.capabilities()
        assert meter.capabilities() == limits
    assert limits.channels == ("I1", "V1", "V2")
    assert limits.units == {"I1": "A", "V1": "V", "V2": "V"}
    assert limits.trigger_sources == ("BNC", "PIN1", "PIN2", "PIN3", "PIN4", "PIN5", "PIN6", "PIN7", "VOLT2")
    assert limits.rate_max_hz == pytest.approx(195312.5)  # 5.12 us
    assert (limits.segments_max, limits.averages, limits.burden_ohm, limits.range_max_a) == (1, True, 0.0, 3.0)


def test_without_an_n6781a_as_output_2_there_is_no_voltmeter(dialogue):
    with dialogue(*ONE) as link:
        meter = KeysightN6705(link)
        assert meter.capabilities().channels == ("I1", "V1")
        assert "VOLT2" not in meter.capabilities().trigger_sources
        with pytest.raises(OutOfRange, match="no channel 'V2'; this instrument has I1, V1"):
            meter.configure(replace(AT_ONCE, channels=(I1, V2)))


@pytest.mark.parametrize("answer", ["KEYSIGHT,N6700C,1,2", "RIGOL,N6705C,1,2", "Agilent Technologies,N6705,1,2"])
def test_others_are_refused_by_name(dialogue, answer):
    with dialogue(("*IDN?", answer)) as link, pytest.raises(WrongIdentity, match="N6705B and N6705C"):
        KeysightN6705(link).identify()


def test_another_module_is_refused_by_name(dialogue):
    steps = [IDN, ("SYST:CHAN?", "1"), ("SYST:CHAN:MOD? (@1)", "N6731B")]
    with dialogue(*steps) as link, pytest.raises(WrongIdentity, match="output 1 is a N6731B"):
        KeysightN6705(link).identify()


@pytest.mark.parametrize(
    "steps",
    [
        [("SYST:CHAN?", "0")],
        [("SYST:CHAN?", "1.5")],
        [("SYST:CHAN?", "two")],
        [("SYST:CHAN?", "2"), ("SYST:CHAN:MOD? (@1,2)", "N6781A")],
    ],
    ids=["none", "half", "word", "missing"],
)
def test_outputs_that_cannot_be_told(dialogue, steps):
    with dialogue(IDN, *steps) as link, pytest.raises(BadData, match="SYST:CHAN"):
        KeysightN6705(link).identify()


def test_what_it_fits():
    def named(vendor, model):
        return KeysightN6705.fits(Identity(vendor, model, "", ""))

    assert named("Agilent Technologies", "N6705B")
    assert named("KEYSIGHT TECHNOLOGIES", "N6705C")
    assert not named("Keysight Technologies", "N6705A")
    assert not named("RIGOL TECHNOLOGIES", "N6705C")


@pytest.mark.parametrize(
    "change",
    [
        {"channels": ()},
        {"channels": (I1, I1)},
        {"channels": (CurrentSettings("I2"),)},
        {"channels": (CurrentSettings("V1"),)},
        {"channels": (ChannelSettings("I1", 1.0),)},
        {"channels": (DigitalSettings("D0"),)},
        {"channels": (DigitalSettings("V2"),)},
        {"channels": (CurrentSettings("I1", 0.0),)},
        {"channels": (CurrentSettings("I1", -1e-3),)},
        {"channels": (CurrentSettings("I1", 3.1),)},
        {"channels": (CurrentSettings("I1", nan),)},
        {"channels": (ChannelSettings("V1", 0.0),)},
        {"channels": (ChannelSettings("V1", 40.1),)},
        {"channels": (ChannelSettings("V1", 20.0, 10.1),)},
        {"channels": (ChannelSettings("V1", nan),)},
        {"channels": (ChannelSettings("V1", 1.0, nan),)},
        {"channels": (ChannelSettings("V1", 1.0, probe_ratio=10.0),)},
        {"channels": (ChannelSettings("V1", 1.0, coupling="AC"),)},
        {"channels": (ChannelSettings("V1", 1.0, bandwidth_limit=True),)},
        {"n_segments": 2},
        {"n_segments": 0},
        {"span_s": -1.0},
        {"span_s": 3601.0},
        {"span_s": nan},
        {"span_s": inf},
        {"pre_s": -1e-6},
        {"pre_s": 2e-3},
        {"pre_s": nan},
        {"rate_hz": 195313.0},
        {"rate_hz": nan},
        {"channels": (I1, V1), "rate_hz": 97657.0},
        {"channels": (I1, V1), "span_s": 10.0, "rate_hz": 24415.0},
        {"trigger": TriggerSettings("PIN8", 1.0)},
        {"trigger": TriggerSettings("EXT", 1.0)},
        {"trigger": TriggerSettings("V2", 1.0)},
        {"trigger": TriggerSettings("PIN1", 1.0, "either")},
        {"trigger": TriggerSettings("BNC", 1.0, "rising")},
        {"trigger": TriggerSettings("VOLT2", 1.0)},
        {"channels": (I1, V2), "trigger": TriggerSettings("VOLT2", 5.0)},
        {"channels": (I1, V2), "trigger": TriggerSettings("VOLT2", nan)},
    ],
    ids=str,
)
def test_bad_values_never_reach_the_wire(dialogue, change):
    with dialogue() as link, pytest.raises(OutOfRange):
        KeysightN6705(link).configure(replace(AT_ONCE, **change))


def test_what_is_wrong_with_the_bnc_input_is_said(dialogue):
    settings = replace(AT_ONCE, trigger=TriggerSettings("BNC", 0.0, "rising"))
    with dialogue() as link, pytest.raises(OutOfRange, match=r"low-true, .* pulses of at least 2 µs"):
        KeysightN6705(link).configure(settings)


# N6705C User's Guide p. 213.
@pytest.mark.parametrize(
    ("n_quantities", "interval_s"),
    [
        (1, 5.12e-6),
        (2, 10.24e-6),
        (3, 20.48e-6),
        (4, 20.48e-6),
        (5, 40.96e-6),
        (6, 40.96e-6),
        (7, 40.96e-6),
        (8, 40.96e-6),
    ],
)
def test_intervals_by_parameter_count(n_quantities, interval_s):
    assert scope_interval_s(n_quantities) == interval_s
    assert resolution(n_quantities) == ("RES40" if n_quantities > 4 else "RES20")


# 512 Ki points of all quantities together; beyond, a data log of 20.48 us x quantities (N6705 User's Guide p. 168), or
# against a pin's trigger a coarser scope view, or an external log of 102.4 us x quantities (N6700C guide p. 146).
@pytest.mark.parametrize(
    ("channels", "source", "span_s", "pre_s", "mode", "dt_s", "n_samples"),
    [
        ((I1,), None, 524288 * 5.12e-6, 0.0, "scope view", 5.12e-6, 524288),
        ((I1,), None, 524289 * 5.12e-6, 0.0, "data log", 20.48e-6, 131073),
        ((I1, V1), None, 262144 * 10.24e-6, 0.0, "scope view", 10.24e-6, 262144),
        ((I1, V1), "BNC", 3.0, 0.0, "data log", 40.96e-6, 73243),
        ((I1, V1, V2), "VOLT2", 12.288, 0.0, "data log", 61.44e-6, 200000),
        ((I1, V1, V2), "VOLT2", 0.02048, 0.0, "scope view", 20.48e-6, 1000),
        ((I1, V2), "PIN1", 5.0, 1e-3, "scope view", 20.48e-6, 244141),
        ((I1, V2), "PIN1", 50.0, 1e-3, "scope view", 204.8e-6, 244141),
        ((I1, V2), "PIN1", 60.0, 0.0, "external log", 204.8e-6, 292969),
        ((I1,), "PIN7", 102.4, 0.0, "external log", 102.4e-6, 1000000),
        ((I1, V1, V2), "PIN7", 307.2, 0.0, "external log", 307.2e-6, 1000000),
    ],
)
def test_the_span_chooses(channels, source, span_s, pre_s, mode, dt_s, n_samples):
    edge = "falling" if source == "BNC" else "rising"
    trigger = None if source is None else TriggerSettings(source, 1.65, edge)
    plan = make_plan(AcquisitionSettings(channels, trigger, span_s, pre_s))
    assert (plan.mode, plan.n_samples) == (mode, n_samples)
    assert plan.dt_s == pytest.approx(dt_s)
    assert plan.waits is (trigger is not None)


def test_an_external_log_has_nothing_from_before_a_trigger_so_it_begins_when_armed():
    plan = make_plan(replace(PIN, span_s=60.0, pre_s=0.01))
    assert (plan.mode, plan.waits, plan.n_before) == ("external log", False, 0)


# Data sheet limits of an N6781A by range, as docs/error-terms.md has them.
@pytest.mark.parametrize(
    ("range_a", "gain", "offset_a"),
    [(3.0, 0.3e-3, 250e-6), (0.1, 0.25e-3, 10e-6), (1e-3, 0.25e-3, 100e-9), (10e-6, 0.25e-3, 8e-9)],
)
def test_accuracy_of_current(range_a, gain, offset_a):
    codes = np.array([[0.1 * range_a, 0.9 * range_a, np.nan]], np.float32)
    for told in (range_a, None):  # the seamless range is that which the largest sample needs
        accuracy = make_channel(QUANTITIES["I1"], {}, told, codes, 5.12e-6).accuracy
        assert (accuracy.gain_ratio, accuracy.offset_limit) == (gain, offset_a)
        assert "not verified" in accuracy.source


def test_accuracy_of_current_that_was_never_measured():
    nothing = np.full((1, 2), np.nan, np.float32)
    assert make_channel(QUANTITIES["I1"], {}, None, nothing, 5.12e-6).accuracy.offset_limit == 250e-6


# Specifications Guide N6700-90001 p. 52: N6781A on 20 V; N6785A on 100 mA.
@pytest.mark.parametrize(
    ("name", "range_", "dt_s", "rms"),
    [
        ("V1", 20.0, 5.12e-6, 2.3e-3),
        ("V1", 20.0, 102.4e-6, 993.7e-6),
        ("V1", 20.0, 1.0, 69.6e-6),
        ("V1", 1.0, 5.12e-6, 186.6e-6),
        ("V1", 0.1, 5.12e-6, 38.9e-6),
        ("I1", 0.1, 5.12e-6, 13.5e-6),
        ("I1", 0.1, 51.2e-6, 7.1e-6),
        ("I1", 1e-3, 5.12e-6, 1.4e-6),
    ],
)
def test_noise(name, range_, dt_s, rms):
    codes = np.zeros((1, 1), np.float32)
    assert make_channel(QUANTITIES[name], {}, range_, codes, dt_s).accuracy.noise_rms == pytest.approx(rms, rel=5e-3)


def test_the_supply_is_switched_on_as_it_is_set(dialogue):
    steps = [("EMUL? (@1)", "PS2Q"), ("FUNC? (@1)", "VOLT"), *sent("OUTP", "ON", "1")]
    with dialogue(*steps) as link:
        KeysightN6705(link).set_output(True)


def test_the_supply_is_set_before_it_is_switched_on(dialogue):
    steps = [
        ("EMUL? (@1)", "VMET"),
        *sent("EMUL", "PS2Q", "PS2Q"),
        ("FUNC? (@1)", "CURR"),
        *sent("FUNC", "VOLT", "VOLT"),
        *sent("VOLT", "3.3", "3.30010000E+00"),
        *sent("CURR:LIM", "0.25", "2.50000000E-01"),
        *sent("OUTP", "ON", "1"),
    ]
    with dialogue(*steps) as link:
        KeysightN6705(link, voltage_v=3.3, current_limit_a=0.25).set_output(True)


def test_switching_off_sets_nothing_else(dialogue):
    with dialogue(*sent("OUTP", "OFF", "0")) as link:
        KeysightN6705(link, voltage_v=3.3).set_output(False)


def test_an_output_that_did_not_switch_is_refused(dialogue):
    with dialogue(*sent("OUTP", "OFF", "1")) as link, pytest.raises(Rejected, match="was set to OFF but reads back"):
        KeysightN6705(link).set_output(False)


def test_another_voltage_than_the_one_asked_for_is_refused_before_it_is_on(dialogue):
    steps = [("EMUL? (@1)", "PS2Q"), ("FUNC? (@1)", "VOLT"), *sent("VOLT", "3.3", "5.0")]
    with dialogue(*steps) as link, pytest.raises(Rejected, match=r"VOLT was set to 3.3 but 5 was granted"):
        KeysightN6705(link, voltage_v=3.3).set_output(True)


def test_the_supply_can_be_set_alone(dialogue):
    with dialogue(*sent("VOLT", "1.8", "1.8")) as link:
        KeysightN6705(link).set_supply(1.8)


@pytest.mark.parametrize(
    ("voltage_v", "limit_a"),
    [(-0.1, None), (20.1, None), (nan, None), (3.3, 0.0), (3.3, 3.1), (12.0, 1.1), (3.3, nan), (None, -1.0)],
)
def test_a_supply_that_it_cannot_give_never_reaches_the_wire(dialogue, voltage_v, limit_a):
    with dialogue() as link:
        with pytest.raises(OutOfRange, match="supply"):
            KeysightN6705(link).set_supply(voltage_v, limit_a)
        with pytest.raises(OutOfRange, match="supply"):
            KeysightN6705(link, voltage_v=voltage_v, current_limit_a=limit_a)


@pytest.mark.parametrize("value", ["on", 1, None])
def test_anything_but_a_switch_position_never_reaches_the_wire(dialogue, value):
    with dialogue() as link, pytest.raises(TypeError, match="on \\(True\\) or off \\(False\\)"):
        KeysightN6705(link).set_output(value)


def test_a_tainted_link_is_reopened_before_power_is_switched(dialogue):
    with dialogue(*sent("OUTP", "OFF", "0")) as link:
        link.tainted = True
        KeysightN6705(link).set_output(False)
    assert link.n_reopened == 1


def test_nothing_is_armed_or_read_before_its_time(dialogue):
    with dialogue() as link:
        meter = KeysightN6705(link)
        with pytest.raises(Rejected, match="call configure first"):
            meter.arm()
        with pytest.raises(Rejected, match="call configure and arm first"):
            meter.wait(1.0)
        with pytest.raises(Rejected, match="call configure, arm and wait first"):
            meter.fetch()
        meter.stop()


def test_close_leaves_the_output_alone_and_may_come_twice(dialogue):
    with dialogue() as link:
        meter = KeysightN6705(link)
        meter.close()
        meter.close()
        meter.stop()
    assert link.n_closed == 2


def test_close_releases_a_link_that_cannot_be_reopened(dialogue):
    class Gone(dialogue):
        def reopen(self):
            raise LinkLost("gone")

    link = Gone()
    link.tainted = True
    KeysightN6705(link).close()
    assert link.n_closed == 1


def test_a_pre_trigger_part_that_fills_longer_than_allowed(dialogue):
    single = [*ONE, ("ABOR:ACQ (@1)", None), ("ABOR:DLOG", None), ("ABOR:ELOG (@1)", None), ("*CLS", None)]
    steps = [
        *single,
        *[("FORM REAL", None), OK, ("FORM?", "REAL"), ("FORM:BORD NORM", None), OK, ("FORM:BORD?", "NORM")],
        *sent("SENS:FUNC:VOLT", "OFF", "0"),
        *sent("SENS:FUNC:CURR", "ON", "1"),
        *sent("SENS:CURR:RANG:AUTO", "ON", "1"),
        *[("SENS:SWE:TINT:RES RES20", None), OK, ("SENS:SWE:TINT:RES?", "RES20")],
        *sent("SENS:SWE:TINT", "5.12E-06", "5.12E-06"),
        *sent("SENS:SWE:POIN", "390625", "390625"),
        *sent("SENS:SWE:OFFS:POIN", "-195313", "-195313"),
        *[("DIG:PIN1:FUNC TINP", None), OK, ("DIG:PIN1:FUNC?", "TINP")],
        *[("DIG:PIN1:POL POS", None), OK, ("DIG:PIN1:POL?", "POS")],
        *sent("TRIG:ACQ:SOUR", "PIN1", "PIN1"),
    ]
    with dialogue(*steps) as link:
        meter = KeysightN6705(link)
        meter.configure(replace(PIN, span_s=2.0, pre_s=1.0))
        with pytest.raises(InstrumentTimeout, match=r"before the trigger do not fill within 0.5 s"):
            meter.arm(0.5)
