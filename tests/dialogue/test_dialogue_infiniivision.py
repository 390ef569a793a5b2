"""The InfiniiVision driver, one exchange after the other, as the Programmer's Guide has it."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from instruments.drivers.infiniivision_facts import check_settings, make_channel, parse_preamble
from instruments.drivers.keysight_infiniivision import KeysightInfiniiVision
from instruments.errors import BadData, InstrumentTimeout, LinkLost, OutOfRange, Rejected, WrongIdentity
from instruments.protocols import AcquisitionSettings, ChannelSettings, Recorder, TriggerSettings
from instruments.record import volts

IDN = ("*IDN?", "KEYSIGHT TECHNOLOGIES,DSO-X 3022T,MY00000000,07.20.2017102614")
OK = (":SYSTem:ERRor?", '+0,"No error"')
FAULT = (":SYSTem:ERRor?", '-222,"Data out of range"')

SHUNT = ChannelSettings("CH1", range_v=0.04, offset_v=0.01, bandwidth_limit=True)
PIN = ChannelSettings("CH2", range_v=8.0, offset_v=2.0, probe_ratio=10.0)
THROUGH_100 = replace(SHUNT, probe_ratio=100.0)
SINGLE = AcquisitionSettings((SHUNT,), None, span_s=1e-3, pre_s=0.0)
SERIES = AcquisitionSettings((SHUNT, PIN), TriggerSettings("CH2", 1.5), span_s=1e-3, pre_s=1e-4, n_segments=3)


def sent(header, value, reply):
    """Return the three exchanges of one setting: set, read the error queue, read back."""
    return [(f"{header} {value}", None), OK, (f"{header}?", reply)]


def channel(n, probe, range_, offset, limit, replies):
    root = f":CHANnel{n}"
    return [
        *sent(f"{root}:DISPlay", "ON", "1"),
        *sent(f"{root}:COUPling", "DC", "DC"),
        *sent(f"{root}:IMPedance", "ONEMeg", "ONEM"),
        *sent(f"{root}:PROBe", probe, replies[0]),
        *sent(f"{root}:RANGe", range_, replies[1]),
        *sent(f"{root}:OFFSet", offset, replies[2]),
        *sent(f"{root}:BWLimit", limit, "1" if limit == "ON" else "0"),
    ]


def timebase(position, replies):
    return [
        *sent(":TIMebase:MODE", "MAIN", "MAIN"),
        *sent(":TIMebase:REFerence", "CENTer", "CENT"),
        *sent(":TIMebase:RANGe", "0.001", replies[0]),
        *sent(":TIMebase:POSition", position, replies[1]),
        *sent(":ACQuire:TYPE", "NORMal", "NORM"),
    ]


WAVEFORM = [
    *sent(":WAVeform:FORMat", "BYTE", "BYTE"),
    *sent(":WAVeform:UNSigned", "ON", "1"),
    *sent(":WAVeform:BYTeorder", "MSBFirst", "MSBF"),
    (":ACQuire:SRATe?", "+1.25000000E+09"),
]
SHUNT_STEPS = channel(1, "1", "0.04", "0.01", "ON", ("+1.00000E+00", "+40.0E-03", "+10.0000E-03"))
ALL_ON, ALL_OFF = (":WAVeform:SEGMented:ALL ON", None), (":WAVeform:SEGMented:ALL OFF", None)
UNKNOWN = (":SYSTem:ERRor?", '-113,"Undefined header"')
START = [("*CLS", None), (":STOP", None), OK, ALL_OFF, OK]
CONFIGURE_SINGLE = [
    *START,
    *SHUNT_STEPS,
    *sent(":CHANnel2:DISPlay", "OFF", "0"),
    *timebase("0.0005", ("+1.00000E-03", "+500.000E-06")),
    *sent(":ACQuire:MODE", "RTIMe", "RTIM"),
    *sent(":TRIGger:MODE", "EDGE", "EDGE"),
    *sent(":TRIGger:SWEep", "AUTO", "AUTO"),
    *WAVEFORM,
]
CONFIGURE_SERIES = [
    *START,
    *SHUNT_STEPS,
    *channel(2, "10", "8", "2", "OFF", ("+1.00000E+01", "+8.00E+00", "+2.00000E+00")),
    *timebase("0.0004", ("+1.00000E-03", "+400.000E-06")),
    *sent(":ACQuire:MODE", "SEGMented", "SEGM"),
    *sent(":ACQuire:SEGMented:COUNt", "3", "3"),
    *sent(":TRIGger:MODE", "EDGE", "EDGE"),
    *sent(":TRIGger:SWEep", "NORMal", "NORM"),
    *sent(":TRIGger:EDGE:SOURce", "CHANnel2", "CHAN2"),
    *sent(":TRIGger:EDGE:SLOPe", "POSitive", "POS"),
    *sent(":TRIGger:EDGE:LEVel", "1.5", "+1.49E+00"),
    *WAVEFORM,
]
ARM = [(":STOP", None), OK, ("*OPC?", "1"), (":AER?", "+1"), (":SINGle", None), OK, (":AER?", "+0"), (":AER?", "+1")]
COUNT = ":WAVeform:SEGMented:COUNt?"
CONDITION = ":OPERegister:CONDition?"
RUNNING, STOPPED = (CONDITION, "+40"), (CONDITION, "+32")  # run is bit 3; wait-trigger (bit 5) must not matter
DONE_SERIES = [STOPPED, (COUNT, "3")]


def select(n, preamble):
    return [
        (f":WAVeform:SOURce CHANnel{n}", None),
        OK,
        (":WAVeform:POINts MAXimum", None),
        OK,
        (":WAVeform:POINts:MODE RAW", None),
        OK,
        (":WAVeform:PREamble?", preamble),
    ]


def index(n, tag):
    return [(f":ACQuire:SEGMented:INDex {n}", None), (":WAVeform:SEGMented:TTAG?", tag)]


PREAMBLE = "+0,+0,+4,+1,+8.0E-10,-1.0E-04,+0,+1.5625E-04,+1.0E-02,+128"
PREAMBLE_PIN = "+0,+0,+4,+1,+8.0E-10,-1.0E-04,+0,+3.125E-02,+2.0E+00,+128"
DATA = ":WAVeform:DATA?"
OPC = ("*OPC?", "1")
SOURCE = [(":WAVeform:SOURce CHANnel1", None), OK]
TAGS = [*SOURCE, *index(1, "+0.0E+00"), *index(2, "+1.5E-03"), *index(3, "+3.0E-03")]


def ready(link):
    """Return an identified driver."""
    scope = KeysightInfiniiVision(link, timeout_s=1.0)
    scope.identify()
    return scope


def test_is_a_recorder(dialogue):
    assert isinstance(KeysightInfiniiVision(dialogue()), Recorder)


def test_identify_names_the_instrument(dialogue):
    with dialogue(IDN) as link:
        identity = KeysightInfiniiVision(link).identify()
    assert (identity.model, identity.serial, identity.resource) == ("DSO-X 3022T", "MY00000000", "dialogue")


@pytest.mark.parametrize(
    "answer",
    [
        "RIGOL TECHNOLOGIES,DS1104Z,DS1ZA0000,00.04.04",
        "KEYSIGHT TECHNOLOGIES,DSOS604A,MY00000000,06.20.00901",
        "KEYSIGHT TECHNOLOGIES,DSO-X 2024A,MY00000000,02.41",
    ],
)
def test_identify_refuses_others_by_name(dialogue, answer):
    vendor, model = answer.split(",")[:2]
    with dialogue(("*IDN?", answer)) as link, pytest.raises(WrongIdentity, match=f"{vendor} {model}"):
        KeysightInfiniiVision(link).identify()


def test_identify_refuses_what_is_no_identity(dialogue):
    with dialogue(("*IDN?", "1")) as link, pytest.raises(BadData, match="'1'"):
        KeysightInfiniiVision(link).identify()


def test_capabilities_follow_the_model(dialogue):
    with dialogue(IDN) as link:
        limits = KeysightInfiniiVision(link).capabilities()
    assert limits.channels == ("CH1", "CH2")
    assert (limits.memory_samples, limits.segments_max, limits.rate_max_hz) == (4_000_000, 1000, 5e9)


def test_configure_single_without_trigger(dialogue):
    with dialogue(IDN, *CONFIGURE_SINGLE) as link:
        granted = ready(link).configure(SINGLE)
    assert granted == replace(SINGLE, rate_hz=1.25e9)


def test_configure_series_returns_what_was_granted(dialogue):
    with dialogue(IDN, *CONFIGURE_SERIES) as link:
        granted = ready(link).configure(SERIES)
    assert granted.trigger == TriggerSettings("CH2", 1.49)
    assert granted.pre_s == pytest.approx(1e-4)
    assert granted.channels == (SHUNT, PIN)
    assert granted.rate_hz == 1.25e9


def test_a_complaint_carries_command_and_queue(dialogue):
    steps = [IDN, *START, (":CHANnel1:DISPlay ON", None), FAULT, OK]
    with dialogue(*steps) as link, pytest.raises(Rejected, match=r':CHANnel1:DISPlay ON: -222,"Data out of range"'):
        ready(link).configure(SINGLE)


def test_another_word_read_back_is_refused(dialogue):
    steps = [*START, *sent(":CHANnel1:DISPlay", "ON", "1"), *sent(":CHANnel1:COUPling", "DC", "AC")]
    with dialogue(IDN, *steps) as link, pytest.raises(Rejected, match="COUPling was set to DC but reads back 'AC'"):
        ready(link).configure(SINGLE)


@pytest.mark.parametrize(
    ("replies", "what"),
    [
        (("+1.0E+00", "+20.0E-03", "+10.0E-03"), "RANGe was set to 0.04 but 0.02"),
        (("+1.0E+00", "+40.0E-03", "+0.0E-03"), "OFFSet was set to 0.01 but 0 "),
        (("+1.0E+01", "+40.0E-03", "+10.0E-03"), "PROBe was set to 1 but 10"),
    ],
)
def test_a_setting_that_matters_must_be_granted(dialogue, replies, what):
    steps = [*START, *channel(1, "1", "0.04", "0.01", "ON", replies)]
    with dialogue(IDN, *steps) as link, pytest.raises(Rejected, match=what):
        ready(link).configure(SINGLE)


def test_a_shorter_span_is_refused(dialogue):
    steps = [*START, *SHUNT_STEPS, *sent(":CHANnel2:DISPlay", "OFF", "0")]
    steps += timebase("0.0005", ("+5.0E-04", "+2.5E-04"))[:9]
    with dialogue(IDN, *steps) as link, pytest.raises(Rejected, match=r"TIMebase:RANGe was set to 0.001 but 0.0005"):
        ready(link).configure(SINGLE)


BAD = [
    (replace(SINGLE, channels=()), "at least one channel"),
    (replace(SINGLE, channels=(SHUNT, SHUNT)), "twice"),
    (replace(SINGLE, channels=(replace(SHUNT, name="CH7"),)), "no channel 'CH7'"),
    (replace(SINGLE, channels=(replace(SHUNT, range_v=nan),)), "range must be from 0.008 V to 40 V, not nan"),
    (replace(SINGLE, channels=(replace(SHUNT, range_v=0.004),)), "CH1 range must be from 0.008 V to 40 V, not 0.004 V"),
    (replace(SINGLE, channels=(replace(PIN, range_v=500.0),)), "range must be from 0.08 V to 400 V with its 10:1"),
    (replace(SINGLE, channels=(THROUGH_100,)), "CH1 range must be from 0.8 V to 4000 V with its 100:1 probe"),
    (replace(SINGLE, channels=(replace(SHUNT, offset_v=3.0),)), "offset must be from -2 V to 2 V, not 3 V"),
    (replace(SINGLE, channels=(replace(PIN, offset_v=21.0),)), "offset must be from -20 V to 20 V with its 10:1 probe"),
    (replace(SINGLE, channels=(replace(PIN, range_v=17.0, offset_v=501.0),)), "from -500 V to 500 V with its 10:1"),
    (replace(SINGLE, channels=(replace(SHUNT, offset_v=nan),)), "offset"),
    (replace(SINGLE, channels=(replace(SHUNT, probe_ratio=0.0),)), "probe ratio"),
    (replace(SINGLE, channels=(replace(SHUNT, probe_ratio=nan),)), "probe ratio"),
    (replace(SINGLE, channels=(replace(SHUNT, coupling="GND"),)), "coupling must be DC or AC"),
    (replace(SINGLE, span_s=0.0), "span must be from 2e-08 s to 500 s"),
    (replace(SINGLE, span_s=inf), "span"),
    (replace(SINGLE, pre_s=-1e-6), "pre-trigger"),
    (replace(SINGLE, pre_s=2e-3), "pre-trigger time must be from 0 s to 0.001 s"),
    (replace(SINGLE, rate_hz=nan), "sample rate"),
    (replace(SINGLE, rate_hz=6e9), "sample rate must be from 0 Hz to 5e"),
    (replace(SINGLE, n_segments=2), "without a trigger"),
    (replace(SERIES, n_segments=0), "number of segments must be a whole number from 1 to 1000"),
    (replace(SERIES, n_segments=1001), "number of segments"),
    (replace(SERIES, n_segments=2.5), "number of segments"),
    (replace(SERIES, trigger=TriggerSettings("CH3", 1.5)), "trigger source 'CH3' is not among"),
    (replace(SERIES, trigger=TriggerSettings("CH2", 1.5, "both")), "rising or falling"),
    (replace(SERIES, trigger=TriggerSettings("CH2", 8.5)), "trigger level must be from -4 V to 8 V"),
    (replace(SERIES, trigger=TriggerSettings("CH2", nan)), "trigger level"),
]


@pytest.mark.parametrize(("settings", "what"), BAD, ids=[what for _, what in BAD])
def test_bad_values_never_reach_the_wire(dialogue, settings, what):
    with dialogue() as link, pytest.raises(OutOfRange, match=what):
        KeysightInfiniiVision(link).configure(settings)


def test_arm_waits_for_a_fresh_arming(dialogue):
    with dialogue(IDN, *CONFIGURE_SINGLE, *ARM) as link:
        scope = ready(link)
        scope.configure(SINGLE)
        scope.arm()


def test_arm_that_never_comes_ends_with_the_queue(dialogue):
    steps = [IDN, *CONFIGURE_SINGLE, *ARM[:-1], FAULT, OK, (":STOP", None), OK]
    with dialogue(*steps) as link:
        scope = ready(link)
        scope.configure(SINGLE)
        with pytest.raises(InstrumentTimeout, match=r"did not arm within 1e-09 s \(-222"):
            scope.arm(timeout_s=1e-9)


@pytest.mark.parametrize("call", ["arm", "wait", "fetch"])
def test_out_of_order_calls_say_what_is_missing(dialogue, call):
    with dialogue() as link, pytest.raises(Rejected, match="call configure"):
        getattr(KeysightInfiniiVision(link), call)(*([1.0] if call == "wait" else []))


def configured(link, settings):
    scope = ready(link)
    scope.configure(settings)
    return scope


def test_wait_reports_progress_in_segments(dialogue):
    seen = []
    steps = [RUNNING, (COUNT, "+0"), RUNNING, (COUNT, "+2"), *DONE_SERIES]
    with dialogue(IDN, *CONFIGURE_SERIES, *steps) as link:
        taken = configured(link, SERIES).wait(5.0, lambda *progress: seen.append(progress))
    assert taken == 3
    assert seen == [(0, 3), (2, 3), (3, 3)]


def test_wait_stops_and_returns_what_was_taken(dialogue):
    steps = [RUNNING, (COUNT, "+1"), (":STOP", None), OK, (COUNT, "+2")]
    with dialogue(IDN, *CONFIGURE_SERIES, *steps) as link:
        assert configured(link, SERIES).wait(1e-9) == 2


@pytest.mark.parametrize(
    ("settings", "configure", "steps", "what"),
    [
        (
            SERIES,
            CONFIGURE_SERIES,
            [RUNNING, (COUNT, "0"), (":STOP", None), OK, (COUNT, "0"), FAULT, OK],
            "saw no trigger within 1e-09 s .-222.*cable and pin, its level",
        ),
        (
            SINGLE,
            CONFIGURE_SINGLE,
            [RUNNING, (":STOP", None), OK, FAULT, OK],
            "did not finish within 1e-09 s .-222",
        ),
    ],
)
def test_wait_without_any_segment_says_what_to_check(dialogue, settings, configure, steps, what):
    with dialogue(IDN, *configure, *steps) as link:
        scope = configured(link, settings)
        with pytest.raises(InstrumentTimeout, match=what):
            scope.wait(1e-9)


def test_fetch_single(dialogue):
    steps = [STOPPED, *select(1, PREAMBLE), (DATA, bytes([0, 128, 255, 10])), OPC, OK]
    with dialogue(IDN, *CONFIGURE_SINGLE, *steps) as link:
        scope = configured(link, SINGLE)
        assert scope.wait(1.0) == 1
        record = scope.fetch()
    shunt = record.channels["CH1"]
    assert shunt.codes.dtype == np.uint8
    assert shunt.codes.tolist() == [[0, 128, 255, 10]]
    # (code - 128) * 156.25 µV + 10 mV
    assert volts(shunt, 0, 0, 4) == pytest.approx([-0.01, 0.01, 0.02984375, -0.0084375])
    assert (shunt.code_min, shunt.code_max, shunt.label, shunt.unit) == (0, 255, "CHAN1", "V")
    assert record.dt_s == 8e-10
    assert record.segment_start_s == pytest.approx([-1e-4])
    assert record.timebase_ratio == 10e-6
    assert record.asked["rate_hz"] == 0.0
    assert record.granted["rate_hz"] == pytest.approx(1.25e9)
    assert record.granted["replies"][":CHANnel1:RANGe"] == "+40.0E-03"
    # 0.1 div of 5 mV + 2 mV + 1 % of 10 mV
    assert shunt.accuracy.gain_ratio == 0.02
    assert shunt.accuracy.offset_limit == pytest.approx(0.0026)
    assert "not verified" in shunt.accuracy.source


def test_a_probe_multiplies_the_fixed_errors_too():
    """0.1 div of 1 V + 2 mV times ten + 1 % of 2 V; noise 140 uV times ten + 6 % of 1 V."""
    channel = make_channel(PIN, np.zeros((1, 4), np.uint8), parse_preamble(PREAMBLE_PIN, "CH2"))
    assert channel.accuracy.offset_limit == pytest.approx(0.1 + 0.02 + 0.02)
    assert channel.accuracy.noise_rms == pytest.approx(1.4e-3 + 0.06)


def test_offset_limits_are_those_of_the_input_times_the_probe():
    """At 200 mV/div of the input 2 V, above it 50 V; through 10:1 ten times that, at both ends of the step."""
    fine, coarse = replace(PIN, range_v=16.0, offset_v=20.0), replace(PIN, range_v=17.0, offset_v=-500.0)
    for channel in (fine, coarse):
        check_settings(replace(SINGLE, channels=(channel,)), ("CH2",))


BLOCKS = {1: bytes(range(12)), 2: bytes(range(100, 112))}


def series(link, *, taken=3):
    scope = configured(link, SERIES)
    assert scope.wait(1.0) == taken
    return scope


def test_fetch_all_segments_in_one_block(dialogue):
    steps = [*CONFIGURE_SERIES, *DONE_SERIES, *TAGS]
    for n, preamble in ((1, PREAMBLE), (2, PREAMBLE_PIN)):
        steps += [*select(n, preamble), ALL_ON, OK, (DATA, BLOCKS[n]), OPC, ALL_OFF, OK]
    with dialogue(IDN, *steps, OK) as link:
        record = series(link).fetch()
    assert record.channels["CH1"].codes.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert record.channels["CH2"].codes[2, 3] == 111
    assert record.segment_start_s == pytest.approx([-1e-4, 1.4e-3, 2.9e-3])
    assert record.n_segments == 3


def one_by_one(steps, channels=((1, PREAMBLE), (2, PREAMBLE_PIN))):
    """Return the steps with the read-out of one segment after the other behind them."""
    for n, preamble in channels:
        steps = [*steps, *select(n, preamble)]
        for segment, tag in enumerate(("+0.0E+00", "+1.5E-03", "+3.0E-03")):
            steps += [*index(segment + 1, tag), (DATA, BLOCKS[n][4 * segment : 4 * segment + 4]), OPC]
    return [*steps, OK]


def test_fetch_falls_back_to_one_segment_at_a_time(dialogue):
    """Firmware that does not know the command is asked once, when it is first configured."""
    first = [*START[:4], UNKNOWN, OK, *CONFIGURE_SERIES[5:]]
    again = [*START[:3], *CONFIGURE_SERIES[5:]]
    steps = [*one_by_one([*first, *DONE_SERIES, *TAGS]), *one_by_one([*again, *DONE_SERIES, *TAGS])]
    with dialogue(IDN, *steps) as link:
        scope = series(link)
        record = scope.fetch()
        scope.configure(SERIES)
        scope.wait(1.0)
        scope.fetch()
    assert record.channels["CH1"].codes.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert record.channels["CH2"].codes[1].tolist() == [104, 105, 106, 107]


def test_a_bulk_read_out_that_broke_is_switched_off_before_the_next(dialogue):
    """A broken block leaves ALL on in the instrument; the next series, of this program or of another, begins clean."""
    taken = [*CONFIGURE_SERIES, *DONE_SERIES, *TAGS]
    broken = [*taken, *select(1, PREAMBLE), ALL_ON, OK, (DATA, InstrumentTimeout("cut"))]
    with dialogue(IDN, *broken, *CONFIGURE_SINGLE) as link:
        scope = series(link)
        with pytest.raises(InstrumentTimeout, match="cut"):
            scope.fetch()
        link.reopen()
        assert scope.configure(SINGLE) == replace(SINGLE, rate_hz=1.25e9)


def test_a_repeated_time_tag_means_the_index_did_not_move(dialogue):
    tags = [*index(1, "+0.0E+00"), *index(2, "+1.5E-03"), *index(3, "+1.5E-03")]
    steps = [*CONFIGURE_SERIES, *DONE_SERIES, *SOURCE, *tags]
    with dialogue(IDN, *steps) as link, pytest.raises(BadData, match="index did not move"):
        series(link).fetch()


def test_a_segment_that_moved_is_noticed_in_the_fallback(dialogue):
    steps = [*CONFIGURE_SERIES, *DONE_SERIES, *TAGS, *select(1, PREAMBLE), ALL_ON, FAULT, OK, *index(1, "+1.5E-03")]
    with dialogue(IDN, *steps) as link, pytest.raises(BadData, match="segment 1 has another time tag"):
        series(link).fetch()


def test_a_short_block_is_refused(dialogue):
    steps = [STOPPED, *select(1, PREAMBLE), (DATA, bytes(3))]
    with dialogue(IDN, *CONFIGURE_SINGLE, *steps) as link:
        scope = configured(link, SINGLE)
        scope.wait(1.0)
        with pytest.raises(BadData, match="gave 3 points, the preamble promised 4"):
            scope.fetch()


def test_channels_must_share_their_sample_times(dialogue):
    other = PREAMBLE_PIN.replace("+8.0E-10", "+4.0E-10")
    steps = [*CONFIGURE_SERIES, *DONE_SERIES, *TAGS, *select(1, PREAMBLE), ALL_ON, OK, (DATA, BLOCKS[1]), OPC, ALL_OFF]
    with (
        dialogue(IDN, *steps, OK, *select(2, other)) as link,
        pytest.raises(BadData, match="CH2 has other sample times"),
    ):
        series(link).fetch()


def test_complaints_of_the_read_out_are_not_lost(dialogue):
    steps = [STOPPED, *select(1, PREAMBLE), (DATA, bytes(4)), OPC, (":SYSTem:ERRor?", '-410,"Query INTERRUPTED"'), OK]
    with dialogue(IDN, *CONFIGURE_SINGLE, *steps) as link:
        scope = configured(link, SINGLE)
        scope.wait(1.0)
        with pytest.raises(Rejected, match="-410"):
            scope.fetch()


def test_preamble_worked_example_of_the_manual():
    """Programmer's Guide, data conversion: xorigin 16 ns, xincrement 2 ns, xreference 0: bucket 3 is at 22 ns."""
    preamble = parse_preamble("0,0,1000,1,2E-9,16E-9,0,0.01,0,128", "manual")
    assert preamble.start_s + 3 * preamble.dt_s == pytest.approx(22e-9)


def test_preamble_references_shift_both_axes():
    preamble = parse_preamble("+0,+0,+10,+1,+2.0E-09,+1.0E-08,+5,+5.0E-01,+1.0E+00,+100", "formula")
    assert preamble.start_s == pytest.approx(0.0)  # 10 ns - 5 * 2 ns
    assert 104 * preamble.scale_v + preamble.offset_v == pytest.approx(3.0)  # (104 - 100) * 0.5 V + 1 V


@pytest.mark.parametrize(
    "reply",
    [
        "0,0,1000,1,2E-9,16E-9,0,0.01,0",
        "0,0,1000,1,2E-9,16E-9,0,0.01,0,128,0",
        "0,0,1000,1,2E-9,16E-9,0,0.01,zero,128",
        "0,0,1000,1,NAN,16E-9,0,0.01,0,128",
        "1,0,1000,1,2E-9,16E-9,0,0.01,0,128",
        "0,2,1000,1,2E-9,16E-9,0,0.01,0,128",
        "0,0,0,1,2E-9,16E-9,0,0.01,0,128",
        "0,0,10.5,1,2E-9,16E-9,0,0.01,0,128",
        "0,0,1000,1,0,16E-9,0,0.01,0,128",
        "0,0,1000,1,2E-9,16E-9,0,0,0,128",
    ],
)
def test_a_preamble_of_another_form_is_refused(reply):
    with pytest.raises(BadData, match="preamble"):
        parse_preamble(reply, "CH1")


def test_a_time_out_carries_the_error_queue_and_stays_tainted(dialogue):
    steps = [(":WAVeform:PREamble?", InstrumentTimeout("silence")), (":SYSTem:ERRor?", '-113,"Undefined header"'), OK]
    with dialogue(IDN, *CONFIGURE_SINGLE, STOPPED, *select(1, "")[:-1], *steps) as link:
        scope = configured(link, SINGLE)
        scope.wait(1.0)
        with pytest.raises(InstrumentTimeout, match=r'silence; error queue: -113,"Undefined header"'):
            scope.fetch()
        assert link.tainted


def test_stop_saves_a_tainted_link(dialogue):
    with dialogue((":STOP", None)) as link:
        link.tainted = True
        KeysightInfiniiVision(link).stop()
    assert link.n_reopened == 1


def test_close_stops_once_and_twice_is_harmless(dialogue):
    with dialogue((":STOP", None)) as link:
        scope = KeysightInfiniiVision(link)
        scope.close()
        scope.close()
        scope.stop()
    assert link.n_closed == 2


def test_close_releases_a_link_that_is_gone(dialogue):
    with dialogue((":STOP", LinkLost("gone"))) as link:
        KeysightInfiniiVision(link).close()
    assert link.n_closed == 1


def test_an_error_queue_that_never_ends_is_bounded(dialogue):
    with (
        dialogue(IDN, *CONFIGURE_SINGLE[:2], *[FAULT] * 32) as link,
        pytest.raises(BadData, match="did not end within"),
    ):
        ready(link).configure(SINGLE)
