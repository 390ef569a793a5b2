"""The N6705 driver's three ways to record, exchange by exchange."""

import struct
from dataclasses import replace

import numpy as np
import pytest

from instruments.drivers import n6705_elog
from instruments.drivers.keysight_n6705 import KeysightN6705
from instruments.errors import BadData, InstrumentTimeout, LinkLost, Rejected
from instruments.protocols import AcquisitionSettings, ChannelSettings, CurrentSettings, TriggerSettings
from instruments.record import volts

IDENTITY = [
    ("*IDN?", "Keysight Technologies,N6705C,MY00000000,E.02.07.2802"),
    ("SYST:CHAN?", "2"),
    ("SYST:CHAN:MOD? (@1,2)", "N6781A,N6781A"),
]
OK = (":SYSTem:ERRor?", '+0,"No error"')
ABORT = [("ABOR:ACQ (@1,2)", None), ("ABOR:DLOG", None), ("ABOR:ELOG (@1,2)", None), ("*CLS", None)]
CONDITION, CONDITION_1 = "STAT:OPER:COND? (@1,2)", "STAT:OPER:COND? (@1)"
FILE = r"internal:\labctl.dlog"
SIZE, READ = f'MMEM:ATTR? "{FILE}","FileSize"', f'MMEM:DATA? "{FILE}"'

I1 = CurrentSettings("I1")
V1 = ChannelSettings("V1", range_v=6.6)
V2 = ChannelSettings("V2", range_v=6.6, offset_v=1.65)
ALONE = AcquisitionSettings((I1,), None, span_s=51.2e-6, pre_s=0.0)
SERIES = AcquisitionSettings((I1, V2), TriggerSettings("PIN3", 1.65), span_s=61.44e-6, pre_s=20.48e-6)
LOGGED = AcquisitionSettings((I1, V1), None, span_s=10.0, pre_s=0.0)
STREAMED = AcquisitionSettings((I1, V1, V2), TriggerSettings("PIN1", 1.65, "falling"), span_s=600.0, pre_s=0.0)


def sent(header, value, reply, output=None):
    """Return the three exchanges of one setting: set, read the error queue, read back."""
    if output is None:
        return [(f"{header} {value}", None), OK, (f"{header}?", reply)]
    return [(f"{header} {value},(@{output})", None), OK, (f"{header}? (@{output})", reply)]


def functions(sense, *wanted):
    """Return the exchanges that switch every quantity of two outputs on or off; `wanted` has those to be on."""
    return [
        step
        for output in (1, 2)
        for word in ("VOLT", "CURR")
        for on in [f"{word}{output}" in wanted]
        for step in sent(f"SENS:{sense}FUNC:{word}", "ON" if on else "OFF", "1" if on else "0", output)
    ]


def block(*values, order=">"):
    return struct.pack(f"{order}{len(values)}f", *values)


FORMAT = [*ABORT, *sent("FORM", "REAL", "REAL"), *sent("FORM:BORD", "NORM", "NORM")]
VOLTMETER = ("EMUL? (@2)", "VMET")
RES20 = sent("SENS:SWE:TINT:RES", "RES20", "RES20")
SEAMLESS = sent("SENS:CURR:RANG:AUTO", "ON", "1", 1)
CONFIGURE_ALONE = [
    *FORMAT,
    *functions("", "CURR1"),
    *SEAMLESS,
    *RES20,
    *sent("SENS:SWE:TINT", "5.12E-06", "5.12000000E-06", 1),
    *sent("SENS:SWE:POIN", "10", "+10", 1),
    *sent("SENS:SWE:OFFS:POIN", "0", "+0", 1),
    *sent("TRIG:ACQ:SOUR", "BUS", "BUS", 1),
]
SWEEP_SERIES = [
    step
    for output in (1, 2)
    for step in [
        *sent("SENS:SWE:POIN", "6", "6", output),
        *sent("SENS:SWE:OFFS:POIN", "-2", "-2", output),
    ]
]
START_SERIES = [
    *FORMAT,
    VOLTMETER,
    *functions("", "CURR1", "VOLT2"),
    *SEAMLESS,
    *sent("SENS:VOLT:RANG", "4.95", "2.00000000E+01", 2),
    *RES20,
    *sent("SENS:SWE:TINT", "1.024E-05", "1.02400000E-05", 1),
    *sent("SENS:SWE:TINT", "1.024E-05", "1.02400000E-05", 2),
    *SWEEP_SERIES,
]
CONFIGURE_SERIES = [
    *START_SERIES,
    *sent("DIG:PIN3:FUNC", "TINP", "TINP"),
    *sent("DIG:PIN3:POL", "POS", "POS"),
    *sent("TRIG:ACQ:SOUR", "PIN3", "PIN3", 1),
    *sent("TRIG:ACQ:SOUR", "PIN3", "PIN3", 2),
]
ARM_ALONE = [("INIT:ACQ (@1)", None), OK, (CONDITION_1, "+33"), ("TRIG:ACQ (@1)", None), OK]
ARM_SERIES = [("INIT:ACQ (@1,2)", None), OK, (CONDITION, "+33,+1"), (CONDITION, "+33,+32")]
DONE_ALONE, DONE_SERIES = (CONDITION_1, "+1"), [(CONDITION, "+33,+32"), (CONDITION, "+1,+4")]


def ready(link, **options):
    """Return an identified driver."""
    meter = KeysightN6705(link, timeout_s=1.0, **options)
    meter.identify()
    return meter


def taken(link, settings):
    meter = ready(link)
    meter.configure(settings)
    meter.arm()
    assert meter.wait(5.0) == 1
    return meter.fetch()


def test_a_scope_view_of_current_at_once(dialogue):
    values = [0.001 * k for k in range(10)]
    steps = [*CONFIGURE_ALONE, *ARM_ALONE, DONE_ALONE, ("FETC:ARR:CURR? (@1)", block(*values)), OK]
    with dialogue(*IDENTITY, *steps) as link:
        record = taken(link, ALONE)
    assert record.granted["mode"] == "scope view"
    assert record.granted["averages"] is True
    assert (record.n_segments, record.n_samples, record.dt_s, record.gaps) == (1, 10, 5.12e-6, ())
    # The first sample is the mean of the interval that begins with the trigger.
    assert record.segment_start_s.tolist() == [5.12e-6]
    current = record.channels["I1"]
    assert (current.unit, current.scale, current.offset, current.codes.dtype) == ("A", 1.0, 0.0, np.dtype(np.float32))
    assert volts(current, 0, 0, 10) == pytest.approx(values, rel=1e-7)
    assert record.granted["replies"]["SENS:SWE:TINT (@1)"] == "5.12000000E-06"
    assert record.granted["replies"]["FORM:BORD"] == "NORM"


def test_a_scope_view_on_a_pin_with_the_voltmeter(dialogue):
    current, pin = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), (0.0, 0.0, 3.25, 3.5, 3.25, 0.0)
    read = [("FETC:ARR:CURR? (@1)", block(*current)), ("FETC:ARR:VOLT? (@2)", block(*pin)), OK]
    seen = []
    with dialogue(*IDENTITY, *CONFIGURE_SERIES, *ARM_SERIES, *DONE_SERIES, *read) as link:
        meter = ready(link)
        granted = meter.configure(SERIES)
        meter.arm()
        meter.wait(5.0, lambda *counts: seen.append(counts))
        record = meter.fetch()
    assert (granted.rate_hz, granted.trigger) == (pytest.approx(97656.25), SERIES.trigger)
    assert granted.span_s == pytest.approx(61.44e-6)
    assert granted.pre_s == pytest.approx(20.48e-6)
    assert granted.channels == (I1, replace(V2, range_v=40.0, offset_v=0.0))
    assert seen == [(0, 1), (1, 1)]
    # Two samples before the trigger: the first of them ends one interval before it.
    assert record.segment_start_s == pytest.approx([-10.24e-6])
    assert record.channels["I1"].codes.tolist() == [list(current)]
    assert record.channels["V2"].codes.tolist() == [list(pin)]
    assert record.channels["V2"].unit == "V"


@pytest.mark.parametrize(("edge", "polarity"), [("rising", "POS"), ("falling", "NEG")])
def test_the_voltage_of_output_2_triggers(dialogue, edge, polarity):
    trigger = [
        *sent("TRIG:ACQ:VOLT", "1.65", "1.64990000E+00", 2),
        *sent("TRIG:ACQ:VOLT:SLOP", polarity, polarity, 2),
        *sent("TRIG:ACQ:SOUR", "VOLT2", "VOLT2", 1),
        *sent("TRIG:ACQ:SOUR", "VOLT2", "VOLT2", 2),
    ]
    with dialogue(*IDENTITY, *START_SERIES, *trigger) as link:
        granted = ready(link).configure(replace(SERIES, trigger=TriggerSettings("VOLT2", 1.65, edge)))
    assert granted.trigger == TriggerSettings("VOLT2", 1.6499, edge)


def test_a_level_that_was_moved_is_refused(dialogue):
    trigger = sent("TRIG:ACQ:VOLT", "1.65", "5.0", 2)
    with dialogue(*IDENTITY, *START_SERIES, *trigger) as link, pytest.raises(Rejected, match="TRIG:ACQ:VOLT was set"):
        ready(link).configure(replace(SERIES, trigger=TriggerSettings("VOLT2", 1.65)))


def test_the_bnc_input_triggers_on_its_falling_edge(dialogue):
    trigger = [*sent("TRIG:ACQ:SOUR", "EXT", "EXT", 1), *sent("TRIG:ACQ:SOUR", "EXT", "EXT", 2)]
    with dialogue(*IDENTITY, *START_SERIES, *trigger) as link:
        ready(link).configure(replace(SERIES, trigger=TriggerSettings("BNC", 0.0, "falling")))


def test_output_2_becomes_a_voltmeter_only_where_it_is_none(dialogue):
    steps = [*FORMAT, ("EMUL? (@2)", "PS4Q"), *sent("EMUL", "VMET", "VMET", 2)]
    with dialogue(*IDENTITY, *steps, *CONFIGURE_SERIES[len(FORMAT) + 1 :]) as link:
        ready(link).configure(SERIES)


def test_a_fixed_range(dialogue):
    steps = [
        *CONFIGURE_ALONE[: len(FORMAT) + 12],
        *sent("SENS:CURR:RANG:AUTO", "OFF", "0", 1),
        *sent("SENS:CURR:RANG", "0.05", "1.00000000E-01", 1),
        *CONFIGURE_ALONE[len(FORMAT) + 15 :],
    ]
    with dialogue(*IDENTITY, *steps) as link:
        granted = ready(link).configure(replace(ALONE, channels=(CurrentSettings("I1", 0.05),)))
    assert granted.channels == (CurrentSettings("I1", 0.1),)


def test_a_range_that_would_clip_is_refused(dialogue):
    steps = [
        *CONFIGURE_ALONE[: len(FORMAT) + 12],
        *sent("SENS:CURR:RANG:AUTO", "OFF", "0", 1),
        *sent("SENS:CURR:RANG", "0.05", "1.0E-03", 1),
    ]
    with dialogue(*IDENTITY, *steps) as link, pytest.raises(Rejected, match=r"CURR:RANG was set to 0.05 but 0.001"):
        ready(link).configure(replace(ALONE, channels=(CurrentSettings("I1", 0.05),)))


def test_the_interval_is_read_back_and_the_points_follow_it(dialogue):
    steps = [
        *CONFIGURE_ALONE[: len(FORMAT) + 18],
        *sent("SENS:SWE:TINT", "5.12E-06", "2.56E-05", 1),
        *sent("SENS:SWE:POIN", "2", "2", 1),
        *sent("SENS:SWE:OFFS:POIN", "0", "0", 1),
        *sent("TRIG:ACQ:SOUR", "BUS", "BUS", 1),
    ]
    with dialogue(*IDENTITY, *steps) as link:
        granted = ready(link).configure(ALONE)
    assert (granted.span_s, granted.rate_hz) == (pytest.approx(51.2e-6), pytest.approx(1 / 25.6e-6))
    slow = replace(ALONE, rate_hz=100e3)
    with dialogue(*IDENTITY, *steps[: len(FORMAT) + 21]) as link, pytest.raises(Rejected, match="SENS:SWE:TINT"):
        ready(link).configure(slow)


def test_outputs_with_different_intervals_are_refused(dialogue):
    steps = [*CONFIGURE_SERIES[: len(FORMAT) + 22], *sent("SENS:SWE:TINT", "1.024E-05", "1.024E-05", 1)]
    steps += sent("SENS:SWE:TINT", "1.024E-05", "2.048E-05", 2)
    with dialogue(*IDENTITY, *steps) as link, pytest.raises(Rejected, match=r"2.048e-05 was granted"):
        ready(link).configure(SERIES)


@pytest.mark.parametrize("n_bytes", [36, 39, 0], ids=["short", "odd", "empty"])
def test_a_block_of_another_length_is_refused_by_name(dialogue, n_bytes):
    steps = [*CONFIGURE_ALONE, *ARM_ALONE, DONE_ALONE, ("FETC:ARR:CURR? (@1)", block(*range(10))[:n_bytes])]
    with dialogue(*IDENTITY, *steps) as link, pytest.raises(BadData, match=r"FETC:ARR:CURR\? \(@1\) gave .* 10 points"):
        taken(link, ALONE)


def test_what_was_not_measured_is_a_gap_and_never_a_number(dialogue):
    values = [0.5, 0.5, 9.91e37, 9.91e37, 0.5, 0.5, 0.5, 0.5, 0.5, -9.91e37]
    steps = [*CONFIGURE_ALONE, *ARM_ALONE, DONE_ALONE, ("FETC:ARR:CURR? (@1)", block(*values)), OK]
    with dialogue(*IDENTITY, *steps) as link:
        record = taken(link, ALONE)
    assert record.gaps == ((0, 2, 2), (0, 9, 1))
    assert np.flatnonzero(np.isnan(record.channels["I1"].codes[0])).tolist() == [2, 3, 9]
    # Those that were measured tell the range: 0.5 A is on the one of 3 A.
    assert record.channels["I1"].accuracy.offset_limit == 250e-6


def test_an_acquisition_that_does_not_start(dialogue):
    steps = [*CONFIGURE_ALONE, ("INIT:ACQ (@1)", None), OK, (CONDITION_1, "+1"), OK, ("ABOR:ACQ (@1)", None)]
    with dialogue(*IDENTITY, *steps) as link:
        meter = ready(link)
        meter.configure(ALONE)
        with pytest.raises(InstrumentTimeout, match=r"INIT:ACQ \(@1\) was not active within 0 s"):
            meter.arm(0.0)


def test_a_trigger_that_does_not_come(dialogue):
    steps = [*CONFIGURE_SERIES, *ARM_SERIES, (CONDITION, "+41,+8"), ("ABOR:ACQ (@1,2)", None), OK]
    with dialogue(*IDENTITY, *steps) as link:
        meter = ready(link)
        meter.configure(SERIES)
        meter.arm()
        with pytest.raises(InstrumentTimeout, match=r"scope view was not complete within 0 s .*polarity"):
            meter.wait(0.0)
        with pytest.raises(Rejected, match="nothing was recorded"):
            meter.fetch()


@pytest.mark.parametrize("reply", ["+1", "+1,+1,+1", "busy,idle", ""])
def test_a_condition_that_is_none(dialogue, reply):
    steps = [*CONFIGURE_SERIES, ("INIT:ACQ (@1,2)", None), OK, (CONDITION, reply)]
    with dialogue(*IDENTITY, *steps) as link:
        meter = ready(link)
        meter.configure(SERIES)
        with pytest.raises(BadData, match="STAT:OPER:COND"):
            meter.arm()


def test_a_complaint_names_its_command(dialogue):
    fault = (":SYSTem:ERRor?", '-222,"Data out of range"')
    steps = [*CONFIGURE_ALONE[: len(FORMAT)], ("SENS:FUNC:VOLT OFF,(@1)", None), fault, OK]
    match = r'refused SENS:FUNC:VOLT OFF,\(@1\): -222,"Data out of range"'
    with dialogue(*IDENTITY, *steps) as link, pytest.raises(Rejected, match=match):
        ready(link).configure(ALONE)


def dlog(values, tint="4.096E-05", volt=1, curr=1):
    head = (
        f'<dlog><channel id="1"><sense_volt>{volt}</sense_volt><sense_curr>{curr}</sense_curr><ident><option>'
        f"<1ua>0</1ua></option></ident></channel><frame><time>10</time><tint>{tint}</tint></frame></dlog>\n"
    )
    return head.encode() + bytes(8) + block(*values)


N_LOGGED = 244140  # whole intervals of 40.96 us in 10 s
CONFIGURE_LOGGED = [
    *FORMAT,
    *functions("DLOG:", "CURR1", "VOLT1"),
    *sent("SENS:DLOG:FUNC:MINM", "OFF", "0"),
    *sent("SENS:DLOG:CURR:RANG:AUTO", "ON", "1", 1),
    *sent("SENS:DLOG:VOLT:RANG", "3.3", "20", 1),
    *sent("SENS:DLOG:PER", "4.096E-05", "+4.096E-05"),
    *sent("SENS:DLOG:TIME", "10", "+1.0E+01"),
    *sent("SENS:DLOG:OFFS", "0", "0"),
    *sent("TRIG:DLOG:SOUR", "IMM", "IMM"),
]
GONE = (":SYSTem:ERRor?", '-256,"File name not found"')
ARM_LOGGED = [(f'MMEM:DEL "{FILE}"', None), GONE, OK, (f'INIT:DLOG "{FILE}"', None), OK]


def test_a_long_span_is_logged_and_its_file_read(dialogue):
    values = np.tile([3.25, 0.125], N_LOGGED)
    values[2:4] = 3.5, 0.25
    content = dlog(values)
    size = (SIZE, f'"{len(content)}"')
    # Neither an active measurement nor a file that still grows is the end.
    waiting = [(CONDITION_1, "+33"), (CONDITION_1, "+1"), (SIZE, '"4096"'), (CONDITION_1, "+1"), size]
    with dialogue(*IDENTITY, *CONFIGURE_LOGGED, *ARM_LOGGED, *waiting, size, (READ, content), OK) as link:
        record = taken(link, LOGGED)
    assert record.granted["mode"] == "data log"
    assert (record.n_samples, record.dt_s) == (N_LOGGED, 4.096e-05)
    assert record.channels["V1"].codes[0, :3].tolist() == [3.25, 3.5, 3.25]
    assert record.channels["I1"].codes[0, :3].tolist() == [0.125, 0.25, 0.125]


@pytest.mark.parametrize(
    "content",
    [
        dlog([3.25, 0.125] * (N_LOGGED - 2)),
        dlog([3.25] * 2 * N_LOGGED, curr=0),
        dlog([3.25, 0.125] * N_LOGGED, tint="8.192E-05"),
    ],
    ids=["short", "other quantities", "stretched"],
)
def test_a_log_of_something_else_is_refused(dialogue, content):
    size = (SIZE, str(len(content)))
    steps = [*CONFIGURE_LOGGED, *ARM_LOGGED, (CONDITION_1, "+1"), (SIZE, '"9999999"'), size, (READ, content)]
    match = r"244140 of V1, I1 every 4\.096e-05 s were set"
    with dialogue(*IDENTITY, *steps) as link, pytest.raises(BadData, match=match):
        taken(link, LOGGED)


def test_a_size_that_is_none(dialogue):
    steps = [*CONFIGURE_LOGGED, *ARM_LOGGED, (CONDITION_1, "+1"), (SIZE, '"large"')]
    with dialogue(*IDENTITY, *steps) as link, pytest.raises(BadData, match="FileSize"):
        taken(link, LOGGED)


def test_a_log_on_the_voltage_of_output_2_keeps_what_lies_before(dialogue):
    settings = replace(LOGGED, channels=(I1, V2), trigger=TriggerSettings("VOLT2", 1.65), span_s=10.0, pre_s=0.05)
    steps = [
        *FORMAT,
        VOLTMETER,
        *functions("DLOG:", "CURR1", "VOLT2"),
        *sent("SENS:DLOG:FUNC:MINM", "OFF", "0"),
        *sent("SENS:DLOG:CURR:RANG:AUTO", "ON", "1", 1),
        *sent("SENS:DLOG:VOLT:RANG", "4.95", "20", 2),
        *sent("SENS:DLOG:PER", "4.096E-05", "4.096E-05"),
        # 9.95 s after the trigger, of which 1 % of the whole lies before it: 10.05 s, in whole seconds 11.
        *sent("SENS:DLOG:TIME", "11", "11"),
        *sent("SENS:DLOG:OFFS", "1", "1"),
        *sent("TRIG:DLOG:VOLT", "1.65", "1.65", 2),
        *sent("TRIG:DLOG:VOLT:SLOP", "POS", "POS", 2),
        *sent("TRIG:DLOG:SOUR", "VOLT2", "VOLT2"),
    ]
    with dialogue(*IDENTITY, *steps) as link:
        granted = ready(link).configure(settings)
    assert granted.pre_s == pytest.approx(0.11, rel=1e-3)
    assert granted.span_s == pytest.approx(11.0, rel=1e-4)


def test_a_log_on_the_bnc_input_in_a_fixed_range(dialogue):
    settings = replace(LOGGED, channels=(CurrentSettings("I1", 0.5),), trigger=TriggerSettings("BNC", 0.0, "falling"))
    steps = [
        *FORMAT,
        *functions("DLOG:", "CURR1"),
        *sent("SENS:DLOG:FUNC:MINM", "OFF", "0"),
        *sent("SENS:DLOG:CURR:RANG:AUTO", "OFF", "0", 1),
        *sent("SENS:DLOG:CURR:RANG", "0.5", "3", 1),
        *sent("SENS:DLOG:PER", "2.048E-05", "2.048E-05"),
        *sent("SENS:DLOG:TIME", "10", "10"),
        *sent("SENS:DLOG:OFFS", "0", "0"),
        *sent("TRIG:DLOG:SOUR", "EXT", "EXT"),
    ]
    with dialogue(*IDENTITY, *steps) as link:
        granted = ready(link).configure(settings)
    assert granted.channels == (CurrentSettings("I1", 3.0),)
    assert granted.trigger == settings.trigger


def test_a_time_that_was_cut_is_refused(dialogue):
    steps = [*CONFIGURE_LOGGED[:-9], *sent("SENS:DLOG:TIME", "10", "5")]
    with dialogue(*IDENTITY, *steps) as link, pytest.raises(Rejected, match="SENS:DLOG:TIME was set to 10 but 5"):
        ready(link).configure(LOGGED)


def test_a_file_log_is_aborted_without_outputs(dialogue):
    steps = [*CONFIGURE_LOGGED, *ARM_LOGGED, ("ABOR:DLOG", None)]
    with dialogue(*IDENTITY, *steps) as link:
        meter = ready(link)
        meter.configure(LOGGED)
        meter.arm()
        meter.stop()
        meter.stop()


# The instrument may grant a longer interval than the shortest, 307.2 us: here 150 s, so that there are few records.
CONFIGURE_STREAMED = [
    *FORMAT,
    VOLTMETER,
    *functions("ELOG:", "CURR1", "VOLT1", "VOLT2"),
    *sent("SENS:ELOG:FUNC:VOLT:MINM", "OFF", "0", 1),
    *sent("SENS:ELOG:FUNC:CURR:MINM", "OFF", "0", 1),
    *sent("SENS:ELOG:FUNC:VOLT:MINM", "OFF", "0", 2),
    *sent("SENS:ELOG:CURR:RANG:AUTO", "ON", "1", 1),
    *sent("SENS:ELOG:VOLT:RANG", "3.3", "20", 1),
    *sent("SENS:ELOG:VOLT:RANG", "4.95", "20", 2),
    *RES20,
    *sent("SENS:ELOG:PER", "0.0003072", "150", 1),
    *sent("SENS:ELOG:PER", "0.0003072", "150", 2),
]
ON_THE_PIN = [
    *sent("DIG:PIN1:FUNC", "TINP", "TINP"),
    *sent("DIG:PIN1:POL", "NEG", "NEG"),
    *sent("TRIG:ELOG:SOUR", "PIN1", "PIN1", 1),
    *sent("TRIG:ELOG:SOUR", "PIN1", "PIN1", 2),
]
AT_ONCE = [*sent("TRIG:ELOG:SOUR", "BUS", "BUS", 1), *sent("TRIG:ELOG:SOUR", "BUS", "BUS", 2)]
TOGETHER = [("TRIG:ELOG (@1,2)", None), OK]
INIT_STREAMED, ABORT_STREAMED = [("INIT:ELOG (@1,2)", None), OK], ("ABOR:ELOG (@1,2)", None)


def drained(output, *values):
    return (f"FETC:ELOG? 16384,(@{output})", block(*values))


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(n6705_elog, "PAUSE_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_an_external_log_on_a_pin_is_drained_while_it_runs(dialogue):
    # Records come in pieces and are not even between outputs; in each, current goes before voltage.
    drain = [
        drained(1),
        drained(2),
        drained(1, 0.5, 3.25, 0.25, 3.5),
        drained(2, 0.0),
        drained(1, 0.125, 3.75, 1.0, 4.0, 2.0, 5.0),
        drained(2, 3.0, 3.25, 0.5),
    ]
    steps = [*CONFIGURE_STREAMED, *ON_THE_PIN, *INIT_STREAMED, *drain, ABORT_STREAMED, OK]
    with dialogue(*IDENTITY, *steps) as link:
        record = taken(link, STREAMED)
    assert record.granted["mode"] == "external log"
    assert (record.n_samples, record.dt_s, record.segment_start_s.tolist()) == (4, 150.0, [150.0])
    assert record.channels["I1"].codes.tolist() == [[0.5, 0.25, 0.125, 1.0]]
    assert record.channels["V1"].codes.tolist() == [[3.25, 3.5, 3.75, 4.0]]
    assert record.channels["V2"].codes.tolist() == [[0.0, 3.0, 3.25, 0.5]]


def test_an_external_log_in_a_fixed_range(dialogue):
    settings = replace(STREAMED, channels=(CurrentSettings("I1", 0.05),), span_s=100.0)
    steps = [
        *FORMAT,
        *functions("ELOG:", "CURR1"),
        *sent("SENS:ELOG:FUNC:CURR:MINM", "OFF", "0", 1),
        *sent("SENS:ELOG:CURR:RANG:AUTO", "OFF", "0", 1),
        *sent("SENS:ELOG:CURR:RANG", "0.05", "0.1", 1),
        *RES20,
        *sent("SENS:ELOG:PER", "0.0001024", "1.024E-04", 1),
        *ON_THE_PIN[:9],
    ]
    with dialogue(*IDENTITY, *steps) as link:
        granted = ready(link).configure(settings)
    assert granted.rate_hz == pytest.approx(1 / 102.4e-6)


@pytest.mark.usefixtures("impatient")
def test_what_lies_before_a_pin_s_trigger_is_streamed_from_arming_on(dialogue):
    drain = [drained(1, *[0.5] * 8), drained(2, *[3.0] * 4)]
    steps = [*CONFIGURE_STREAMED, *AT_ONCE, *INIT_STREAMED, *TOGETHER, *drain, ABORT_STREAMED, OK]
    with dialogue(*IDENTITY, *steps) as link:
        meter = ready(link)
        granted = meter.configure(replace(STREAMED, pre_s=0.01))
        meter.arm()
        meter.wait(5.0)
        assert meter.fetch().n_samples == 4
    assert (granted.trigger, granted.pre_s) == (None, 0.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("payload", [block(0.5), block(0.5, 3.0) + b"\0"], ids=["half a record", "half a value"])
def test_records_that_are_not_whole_are_refused_by_name(dialogue, payload):
    steps = [*CONFIGURE_STREAMED, *ON_THE_PIN, *INIT_STREAMED, ("FETC:ELOG? 16384,(@1)", payload)]
    with dialogue(*IDENTITY, *steps) as link:
        match = r"FETC:ELOG\? 16384,\(@1\) gave . bytes, .* 2 quantities"
        with pytest.raises(BadData, match=match):
            taken(link, STREAMED)


@pytest.mark.usefixtures("impatient")
def test_a_link_that_breaks_while_it_is_drained(dialogue):
    steps = [*CONFIGURE_STREAMED, *ON_THE_PIN, *INIT_STREAMED, ("FETC:ELOG? 16384,(@1)", LinkLost("gone"))]
    with dialogue(*IDENTITY, *steps) as link, pytest.raises(LinkLost, match="gone"):
        taken(link, STREAMED)


@pytest.mark.usefixtures("impatient")
def test_records_that_may_have_been_overwritten_are_refused(dialogue, monkeypatch):
    monkeypatch.setattr(n6705_elog, "LATE_S", 0.0)
    drain = [drained(1, 0.5, 3.0), drained(2, 0.0)]
    steps = [*CONFIGURE_STREAMED, *ON_THE_PIN, *INIT_STREAMED, *drain]
    with dialogue(*IDENTITY, *steps) as link, pytest.raises(InstrumentTimeout, match="may have been overwritten"):
        taken(link, STREAMED)


def test_an_external_log_whose_trigger_does_not_come(dialogue, monkeypatch):
    monkeypatch.setattr(n6705_elog, "PAUSE_S", 60.0)
    drain = [drained(1), drained(2)]
    steps = [*CONFIGURE_STREAMED, *ON_THE_PIN, *INIT_STREAMED, *drain, ABORT_STREAMED, OK]
    with dialogue(*IDENTITY, *steps) as link:
        meter = ready(link)
        meter.configure(STREAMED)
        meter.arm()
        with pytest.raises(InstrumentTimeout, match=r"external log was not complete within 0 s .*polarity"):
            meter.wait(0.0)
