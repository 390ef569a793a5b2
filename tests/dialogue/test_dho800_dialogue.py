"""The DHO800 driver, one exchange after the other, as the Programming Guide of the DHO800/DHO900 has it."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from instruments.drivers import dho_readout, rigol_dho800
from instruments.drivers.rigol_dho800 import RigolDho800
from instruments.errors import BadData, InstrumentTimeout, LinkLost, OutOfRange, Rejected, WrongIdentity
from instruments.protocols import AcquisitionSettings, ChannelSettings, Recorder, TriggerSettings
from instruments.record import volts

IDN = ("*IDN?", "RIGOL TECHNOLOGIES,DHO802,DHO8A000000000,00.01.04")
OK = (":SYSTem:ERRor?", '0,"No error"')
FAULT = (":SYSTem:ERRor?", '-222,"Data out of range"')
UNKNOWN = (":SYSTem:ERRor?", '-113,"Undefined header"')

SHUNT = ChannelSettings("CH1", range_v=0.04, offset_v=0.01, bandwidth_limit=True)
PIN = ChannelSettings("CH2", range_v=6.6, offset_v=1.65, probe_ratio=10.0)
PIN_GRANTED = replace(PIN, range_v=8.0)
SINGLE = AcquisitionSettings((SHUNT,), None, span_s=1e-3, pre_s=0.0)
SERIES = AcquisitionSettings((SHUNT, PIN), TriggerSettings("CH2", 1.65), span_s=1e-3, pre_s=1e-4, n_segments=3)
# 1 000 points, the least depth, in 1 ms.
SMALL = replace(SERIES, channels=(SHUNT, PIN), rate_hz=1e6)
ONE = replace(SMALL, channels=(PIN,), n_segments=1)


def sent(header, value, reply):
    """Return the three exchanges of one setting: set, read the error queue, read back."""
    return [(f"{header} {value}", None), OK, (f"{header}?", reply)]


def channel(n, probe, scale, offset, limit, replies):
    root = f":CHANnel{n}"
    return [
        *sent(f"{root}:DISPlay", "ON", "1"),
        *sent(f"{root}:COUPling", "DC", "DC"),
        *sent(f"{root}:INVert", "OFF", "0"),
        *sent(f"{root}:PROBe", probe, replies[0]),
        *sent(f"{root}:SCALe", scale, replies[1]),
        *sent(f"{root}:OFFSet", offset, replies[2]),
        *sent(f"{root}:BWLimit", limit, limit),
    ]


def timebase(offset, replies):
    return [
        *sent(":TIMebase:MODE", "MAIN", "MAIN"),
        *sent(":TIMebase:DELay:ENABle", "OFF", "0"),
        *sent(":TIMebase:ROLL", "0", "0"),
        *sent(":TIMebase:VERNier", "ON", "1"),
        *sent(":TIMebase:MAIN:SCALe", "0.0001", replies[0]),
        *sent(":TIMebase:MAIN:OFFSet", offset, replies[1]),
        *sent(":ACQuire:TYPE", "NORMal", "NORM"),
    ]


def edge(n, slope, level, reply):
    return [
        *sent(":TRIGger:MODE", "EDGE", "EDGE"),
        *sent(":TRIGger:COUPling", "DC", "DC"),
        *sent(":TRIGger:HOLDoff", "8E-09", "8.000000E-9"),
        *sent(":TRIGger:SWEep", "NORMal", "NORM"),
        *sent(":TRIGger:EDGE:SOURce", f"CHANnel{n}", f"CHAN{n}"),
        *sent(":TRIGger:EDGE:SLOPe", slope, slope[:3]),
        *sent(":TRIGger:EDGE:LEVel", level, reply),
    ]


START = [("*CLS", None), *sent(":RECord:WRECord:ENABle", "OFF", "0"), (":RUN", None), OK]
SHUNT_STEPS = channel(1, "1", "0.005", "-0.01", "20M", ("1", "5.000000E-03", "-1.000000E-02"))
PIN_STEPS = channel(2, "10", "1", "-1.65", "OFF", ("10", "1.000000E+00", "-1.650000E+00"))
TIME = timebase("0.0004", ("1.000000E-4", "4.000000E-4"))
FRAME = ":RECord:WREPlay:FCURrent"
RECORDING = [
    *sent(":RECord:WRECord:ENABle", "ON", "1"),
    *sent(":RECord:WRECord:OPERate", "STOP", "STOP"),
    *sent(":RECord:WRECord:FINTerval", "1E-08", "1.000000E-8"),
    *sent(":RECord:WRECord:PROMpt", "OFF", "0"),
    (f"{FRAME}?", "0"),
]
FRAMES = [(":RECord:WRECord:FRAMes 3", None), (":RECord:WRECord:FRAMes?", "3"), OK]
RATE = (":ACQuire:SRATe?", "1.000000E+6")
CONFIGURE_SINGLE = [
    *START,
    *SHUNT_STEPS,
    *sent(":CHANnel2:DISPlay", "OFF", "0"),
    *timebase("0.0005", ("1.000000E-4", "5.000000E-4")),
    *sent(":ACQuire:MDEPth", "1000000", "1.000E+6"),
    *edge(1, "POSitive", "0.032", "3.200000E-2"),  # 10 mV and 4.4 divisions of 5 mV: where nothing triggers
    (":ACQuire:SRATe?", "1.00000E+9"),
]
CONFIGURE_SERIES = [
    *START,
    *SHUNT_STEPS,
    *PIN_STEPS,
    *TIME,
    *sent(":ACQuire:MDEPth", "1000", "1.000E+3"),
    *edge(2, "POSitive", "1.65", "1.660000E+0"),
    *RECORDING,
    *FRAMES,
    RATE,
]
CONFIGURE_ONE = [
    *START,
    *PIN_STEPS,
    *sent(":CHANnel1:DISPlay", "OFF", "0"),
    *TIME,
    *sent(":ACQuire:MDEPth", "1000", "1.000E+3"),
    *edge(2, "POSitive", "1.65", "1.660000E+0"),
    RATE,
]
STATE = ":TRIGger:STATus?"
HALT = [(":STOP", None), OK, (STATE, "STOP")]
ARM = [*HALT, (":SINGle", None), OK, (STATE, "RUN"), (STATE, "WAIT")]
OPERATE = ":RECord:WRECord:OPERate"
# What is asked first after RUN may wait for many seconds: not the error queue, whose time is short.
RUN_FRAMES = [(f"{OPERATE} STOP", None), OK, (f"{OPERATE} RUN", None)]
ARM_SERIES = [*RUN_FRAMES, (f"{FRAME}?", "0"), (f"{FRAME}?", "1")]
DONE_SERIES = [(f"{OPERATE}?", "RUN"), (f"{OPERATE}?", "STOP"), (":RECord:WREPlay:FMAX?", "3")]
DEPTH = (":ACQuire:MDEPth?", "1.000E+3")
DATA = ":WAVeform:DATA?"


def words(first, n=1000):
    """Return a ramp of codes as the instrument sends them: two bytes each, the low one first."""
    return b"".join(code.to_bytes(2, "little") for code in range(first, first + n))


def select(n, *then):
    source = f":WAVeform:SOURce CHANnel{n}"
    return [(source, None), (":WAVeform:MODE RAW", None), (":WAVeform:FORMat WORD", None), *then]


def page(first, last, block):
    return [(f":WAVeform:STARt {first}", None), (f":WAVeform:STOP {last}", None), (DATA, block)]


def preamble(text):
    return (":WAVeform:PREamble?", text)


# Points is the page's size; 1 us a point, the first 100 us before the trigger.
PRE_SHUNT = preamble("1,2,1000,1,1.000000E-6,-1.000000E-4,0.000000E-12,6.6667E-07,-15000,32768")
PRE_PIN = preamble("1,2,1000,1,1.000000E-6,-1.000000E-4,0.000000E-12,1.33333E-04,-12375,32768")
BEGIN = [(":WAVeform:RESet", None), (":WAVeform:BEGin", None)]
STAMP = ":RECord:WREPlay:FCURrent:TIME?"


def ready(link):
    """Return an identified driver."""
    scope = RigolDho800(link, timeout_s=1.0)
    scope.identify()
    return scope


def configured(link, settings):
    scope = ready(link)
    scope.configure(settings)
    return scope


def taken(link, settings):
    scope = configured(link, settings)
    scope.wait(5.0)
    return scope


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    """Wait for nothing: the dialogue answers at once."""
    monkeypatch.setattr(dho_readout, "EMPTY_PAUSE_S", 0.0)
    monkeypatch.setattr(rigol_dho800, "STAMP_REFRESH_S", 1e-9)


def test_is_a_recorder(dialogue):
    assert isinstance(RigolDho800(dialogue()), Recorder)


def test_identify_names_the_instrument(dialogue):
    with dialogue(IDN) as link:
        identity = RigolDho800(link).identify()
    assert (identity.model, identity.serial, identity.firmware) == ("DHO802", "DHO8A000000000", "00.01.04")


@pytest.mark.parametrize("answer", ["RIGOL TECHNOLOGIES,DS1104Z,DS1ZA0000,00.04.04", "ACME,DHO804,1,1"])
def test_identify_refuses_others_by_name(dialogue, answer):
    vendor, model = answer.split(",")[:2]
    with dialogue(("*IDN?", answer)) as link, pytest.raises(WrongIdentity, match=f"{vendor} {model}.*DHO800"):
        RigolDho800(link).identify()


@pytest.mark.parametrize(
    "stale",
    [
        "#9000030000MKJJIIJKKMNNMNMMLLLKJJJKKLMNN",
        BadData("expected a reply line of ASCII text, got b'#9000030000'"),
        LinkLost("the link is out of step"),
    ],
)
def test_a_stale_waveform_is_cleared_and_the_question_asked_again(dialogue, stale):
    """A DHO answered *IDN? with a waveform that nobody had fetched (libsigrok 246)."""
    with dialogue(("*IDN?", stale), IDN) as link:
        assert RigolDho800(link).identify().model == "DHO802"


def test_what_stays_stale_is_said(dialogue):
    stale = ("*IDN?", "#9000030000MKJJ")
    with dialogue(stale, stale, stale) as link, pytest.raises(BadData, match=r"\*IDN\? answered '#9000030000MKJJ'"):
        RigolDho800(link).identify()


@pytest.mark.parametrize(
    ("model", "channels", "range_min_v", "memory"),
    [
        ("DHO802", ("CH1", "CH2"), 0.004, 25_000_000),
        ("DHO814", ("CH1", "CH2", "CH3", "CH4"), 0.004, 25_000_000),
        ("DHO924S", ("CH1", "CH2", "CH3", "CH4"), 0.0016, 50_000_000),
    ],
)
def test_capabilities_follow_the_model(dialogue, model, channels, range_min_v, memory):
    with dialogue(("*IDN?", f"RIGOL TECHNOLOGIES,{model},DHO8A000000000,00.01.04")) as link:
        limits = RigolDho800(link).capabilities()
    assert limits.channels == channels
    assert (limits.range_min_v, limits.range_max_v) == (pytest.approx(range_min_v), 80.0)
    assert (limits.memory_samples, limits.segments_max, limits.rate_max_hz) == (memory, 500_000, 1.25e9)


def test_configure_single_without_trigger(dialogue):
    with dialogue(IDN, *CONFIGURE_SINGLE) as link:
        granted = ready(link).configure(SINGLE)
    assert granted == replace(SINGLE, rate_hz=1e9)


def test_configure_series_returns_what_was_granted(dialogue):
    with dialogue(IDN, *CONFIGURE_SERIES) as link:
        granted = ready(link).configure(SMALL)
    assert granted.trigger == TriggerSettings("CH2", 1.66)
    assert granted.channels == (SHUNT, PIN_GRANTED)
    assert (granted.span_s, granted.rate_hz) == (pytest.approx(1e-3), 1e6)
    assert granted.pre_s == pytest.approx(1e-4)


def test_a_memory_longer_than_the_screen_is_told_as_the_span(dialogue):
    steps = [*CONFIGURE_SERIES[:-1], (":ACQuire:SRATe?", "5.000000E+5")]
    with dialogue(IDN, *steps) as link:
        granted = ready(link).configure(SMALL)
    assert granted.span_s == pytest.approx(2e-3)
    assert granted.pre_s == pytest.approx(6e-4)  # half of it, less the 0.4 ms from the trigger to mid-screen


def test_a_falling_edge(dialogue):
    asked = replace(ONE, trigger=TriggerSettings("CH2", 1.65, "falling"))
    before = CONFIGURE_ONE[: -len(edge(2, "POSitive", "1.65", "")) - 1]
    with dialogue(IDN, *before, *edge(2, "NEGative", "1.65", "1.650000E+0"), RATE) as link:
        assert ready(link).configure(asked).trigger == asked.trigger


def test_a_complaint_carries_command_and_queue(dialogue):
    steps = [IDN, *START, (":CHANnel1:DISPlay ON", None), FAULT, OK]
    with dialogue(*steps) as link, pytest.raises(Rejected, match=r':CHANnel1:DISPlay ON: -222,"Data out of range"'):
        ready(link).configure(SINGLE)


@pytest.mark.parametrize(
    ("replies", "what"),
    [
        (("10", "5.0E-03", "-1.0E-02"), "PROBe was set to 1 but 10"),
        (("1", "2.0E-03", "-1.0E-02"), r"SCALe was set to 0\.005 but 0\.002"),
        (("1", "5.0E-03", "1.0E-02"), r"OFFSet was set to -0\.01 but 0\.01"),
    ],
)
def test_a_setting_that_matters_must_be_granted(dialogue, replies, what):
    n_sent = {"PROB": 12, "SCAL": 15, "OFFS": 18}[what[:4]]
    steps = channel(1, "1", "0.005", "-0.01", "20M", replies)[:n_sent]
    with dialogue(IDN, *START, *steps) as link, pytest.raises(Rejected, match=what):
        ready(link).configure(SINGLE)


def test_a_shorter_span_is_refused(dialogue):
    steps = [*START, *SHUNT_STEPS, *sent(":CHANnel2:DISPlay", "OFF", "0")]
    steps += timebase("", ("5.0E-05", ""))[:15]
    with dialogue(IDN, *steps) as link, pytest.raises(Rejected, match=r"MAIN:SCALe was set to 0\.0001 but 5e-05"):
        ready(link).configure(SINGLE)


def test_another_pre_trigger_time_is_refused(dialogue):
    steps = [*START, *SHUNT_STEPS, *sent(":CHANnel2:DISPlay", "OFF", "0")]
    steps += timebase("0.0005", ("1.0E-04", "0.000000E+0"))[:18]
    with dialogue(IDN, *steps) as link, pytest.raises(Rejected, match=r"MAIN:OFFSet was set to 0\.0005 but 0 "):
        ready(link).configure(SINGLE)


def test_a_depth_that_is_not_granted_is_refused(dialogue):
    at = CONFIGURE_SINGLE.index((":ACQuire:MDEPth?", "1.000E+6"))
    steps = [*CONFIGURE_SINGLE[:at], (":ACQuire:MDEPth?", "1.000E+4")]
    with dialogue(IDN, *steps) as link, pytest.raises(Rejected, match="MDEPth was set to 1000000 but reads back"):
        ready(link).configure(SINGLE)


def test_a_memory_that_is_shorter_than_the_span_is_refused(dialogue):
    steps = [*CONFIGURE_SINGLE[:-1], (":ACQuire:SRATe?", "1.25000E+9")]
    with dialogue(IDN, *steps) as link, pytest.raises(Rejected, match=r"MDEPth was set to 0\.001 but 0\.0008"):
        ready(link).configure(SINGLE)


@pytest.mark.parametrize("rate", ["0.00000E+0", "INF", "NAN"])
def test_a_sample_rate_that_is_none_is_refused(dialogue, rate):
    steps = [*CONFIGURE_SINGLE[:-1], (":ACQuire:SRATe?", rate)]
    with dialogue(IDN, *steps) as link, pytest.raises(BadData, match=r"SRATe\? answered"):
        ready(link).configure(SINGLE)


BEFORE_FRAMES = CONFIGURE_SERIES[: -len(FRAMES) - 1]
STALE_FRAMES = [(":RECord:WRECord:FRAMes 3", None), (":RECord:WRECord:FRAMes?", "2"), FAULT, OK]
TRY_FRAMES = [
    (f"{OPERATE} RUN", None), (f"{FRAME}?", "1"), (f"{OPERATE} STOP", None), OK, (f"{FRAME}?", "1"),
]


def test_frames_are_asked_for_again_where_the_limit_was_stale(dialogue):
    """What fits is known only after something was recorded at this depth."""
    again = [*TRY_FRAMES, (":RECord:WRECord:FMAX?", "5000"), *sent(":RECord:WRECord:FRAMes", "3", "3"), RATE]
    with dialogue(IDN, *BEFORE_FRAMES, *STALE_FRAMES, *again) as link:
        assert ready(link).configure(SMALL).n_segments == 3


def test_more_frames_than_fit_are_refused(dialogue):
    steps = [*BEFORE_FRAMES, *STALE_FRAMES, *TRY_FRAMES, (":RECord:WRECord:FMAX?", "2")]
    with dialogue(IDN, *steps) as link, pytest.raises(Rejected, match="3 segments of 1000 samples do not fit, 2 do"):
        ready(link).configure(SMALL)


TENFOLD = replace(SHUNT, probe_ratio=10.0)
BAD = [
    (replace(SINGLE, channels=()), "at least one channel"),
    (replace(SINGLE, channels=(SHUNT, SHUNT)), "twice"),
    (replace(SINGLE, channels=(replace(SHUNT, name="CH7"),)), "no channel 'CH7'"),
    (replace(SINGLE, channels=(replace(SHUNT, range_v=nan),)), "range must be from 0.0016 V to 80 V, not nan"),
    (replace(SINGLE, channels=(replace(SHUNT, range_v=0.001),)), "range must be from 0.0016 V to 80 V, not 0.001 V"),
    (replace(SINGLE, channels=(replace(SHUNT, range_v=81.0),)), "range must be from 0.0016 V to 80 V, not 81 V"),
    (replace(SINGLE, channels=(replace(TENFOLD, range_v=0.01),)), "from 0.016 V to 800 V with its 10:1 probe"),
    (replace(SINGLE, channels=(replace(SHUNT, offset_v=1.5),)), "offset must be from -1 V to 1 V, not 1.5 V"),
    (replace(SINGLE, channels=(replace(SHUNT, offset_v=nan),)), "offset"),
    (replace(SINGLE, channels=(replace(SHUNT, probe_ratio=3.0),)), "probe ratio must be 1, 2 or 5 times"),
    (replace(SINGLE, channels=(replace(SHUNT, probe_ratio=0.0),)), "probe ratio"),
    (replace(SINGLE, channels=(replace(SHUNT, probe_ratio=nan),)), "probe ratio"),
    (replace(SINGLE, channels=(replace(SHUNT, coupling="GND"),)), "coupling must be DC or AC"),
    (replace(SINGLE, span_s=0.0), "span must be from 5e-08 s to 5000 s"),
    (replace(SINGLE, span_s=inf), "span"),
    (replace(SINGLE, pre_s=-1e-6), "pre-trigger"),
    (replace(SINGLE, pre_s=2e-3), "pre-trigger time must be from 0 s to 0.001 s"),
    (replace(SINGLE, rate_hz=nan), "sample rate"),
    (replace(SINGLE, rate_hz=2e9), "sample rate must be from 0 Hz to 1.25e"),
    (replace(SINGLE, n_segments=2), "without a trigger"),
    (replace(SERIES, n_segments=0), "number of segments must be a whole number from 1 to 500000"),
    (replace(SERIES, n_segments=500_001), "number of segments"),
    (replace(SERIES, n_segments=2.5), "number of segments"),
    (replace(SERIES, trigger=TriggerSettings("CH3", 1.5)), "trigger source 'CH3' is not among"),
    (replace(SERIES, trigger=TriggerSettings("CH2", 1.5, "both")), "rising or falling"),
    (replace(SERIES, trigger=TriggerSettings("CH2", 5.5)), "trigger level must be from -2.0625 V to 5.3625 V"),
    (replace(SERIES, trigger=TriggerSettings("CH2", nan)), "trigger level"),
]


@pytest.mark.parametrize(("settings", "what"), BAD, ids=[what for _, what in BAD])
def test_bad_values_never_reach_the_wire(dialogue, settings, what):
    with dialogue() as link, pytest.raises(OutOfRange, match=what):
        RigolDho800(link).configure(settings)


def test_the_limits_are_those_of_the_model_once_it_is_known(dialogue):
    fine = replace(SINGLE, channels=(replace(SHUNT, range_v=0.0016),))
    with dialogue(IDN) as link, pytest.raises(OutOfRange, match=r"from 0\.004 V to 80 V"):
        ready(link).configure(fine)


def test_arm_single_waits_until_it_is_seen_to_wait(dialogue):
    with dialogue(IDN, *CONFIGURE_ONE, *ARM) as link:
        configured(link, ONE).arm()


def test_arm_without_trigger_forces_it(dialogue):
    with dialogue(IDN, *CONFIGURE_SINGLE, *ARM, (":TFORce", None), OK) as link:
        configured(link, SINGLE).arm()


@pytest.mark.parametrize(
    ("settings", "configure", "steps"),
    [
        (ONE, CONFIGURE_ONE, [*HALT, (":SINGle", None), OK, (STATE, "STOP")]),
        (SMALL, CONFIGURE_SERIES, [*RUN_FRAMES, (f"{FRAME}?", "0")]),
    ],
)
def test_arm_that_is_never_seen_ends_with_the_queue(dialogue, settings, configure, steps):
    """A lost arming and a trigger that came before it look alike; neither is taken for armed."""
    with dialogue(IDN, *configure, *steps, FAULT, OK, (":STOP", None), OK) as link:
        scope = configured(link, settings)
        with pytest.raises(InstrumentTimeout, match=r"did not arm within 1e-09 s \(-222.*triggered before that"):
            scope.arm(timeout_s=1e-9)


def test_arm_says_where_it_does_not_even_stop(dialogue):
    steps = [(":STOP", None), OK, (STATE, "RUN")]
    with dialogue(IDN, *CONFIGURE_ONE, *steps) as link:
        scope = configured(link, ONE)
        with pytest.raises(InstrumentTimeout, match=r"does not stop: :TRIGger:STATus\? still answers 'RUN'"):
            scope.arm(timeout_s=1e-9)


def test_arm_series_waits_for_the_first_frame(dialogue):
    with dialogue(IDN, *CONFIGURE_SERIES, *ARM_SERIES) as link:
        configured(link, SMALL).arm()


def test_an_earlier_frame_is_not_taken_for_the_first(dialogue):
    """After three frames, the third is the current one until the next recording is ready."""
    steps = [*DONE_SERIES, *RUN_FRAMES, (f"{FRAME}?", "3"), (f"{FRAME}?", "1")]
    with dialogue(IDN, *CONFIGURE_SERIES, *steps) as link:
        taken(link, SMALL).arm()


def test_a_first_frame_that_was_current_before_is_taken_for_armed(dialogue):
    at = CONFIGURE_SERIES.index((f"{FRAME}?", "0"))
    configure = [*CONFIGURE_SERIES[:at], (f"{FRAME}?", "1"), *CONFIGURE_SERIES[at + 1 :]]
    with dialogue(IDN, *configure, *RUN_FRAMES, (f"{FRAME}?", "1")) as link:
        configured(link, SMALL).arm()


@pytest.mark.parametrize("call", ["arm", "wait", "fetch"])
def test_out_of_order_calls_say_what_is_missing(dialogue, call):
    with dialogue() as link, pytest.raises(Rejected, match="call configure"):
        getattr(RigolDho800(link), call)(*([1.0] if call == "wait" else []))


def test_wait_reports_progress_in_segments(dialogue):
    """The current frame is the one that waits: 1 before the first trigger came."""
    seen = []
    poll = (f"{OPERATE}?", "RUN")
    steps = [poll, (f"{FRAME}?", "1"), poll, (f"{FRAME}?", "3"), *DONE_SERIES[1:]]
    with dialogue(IDN, *CONFIGURE_SERIES, *steps) as link:
        assert configured(link, SMALL).wait(5.0, lambda *progress: seen.append(progress)) == 3
    assert seen == [(0, 3), (2, 3), (3, 3)]


def test_wait_single_polls_the_state(dialogue):
    seen = []
    steps = [(STATE, "WAIT"), (STATE, "TD"), (STATE, "STOP")]
    with dialogue(IDN, *CONFIGURE_ONE, *steps) as link:
        assert configured(link, ONE).wait(5.0, lambda *progress: seen.append(progress)) == 1
    assert seen == [(0, 1), (0, 1), (1, 1)]


LATE = [(f"{OPERATE}?", "RUN"), (f"{OPERATE} STOP", None), OK]


def test_wait_stops_and_returns_what_was_taken(dialogue):
    with dialogue(IDN, *CONFIGURE_SERIES, *LATE, (":RECord:WREPlay:FMAX?", "2")) as link:
        assert configured(link, SMALL).wait(1e-9) == 2


@pytest.mark.parametrize(
    ("settings", "configure", "steps"),
    [
        (ONE, CONFIGURE_ONE, [(STATE, "WAIT"), (":STOP", None), OK]),
        (SMALL, CONFIGURE_SERIES, [*LATE, (":RECord:WREPlay:FMAX?", "0")]),
        (SMALL, CONFIGURE_SERIES, [*LATE, (":RECord:WREPlay:FMAX?", "1")]),  # armed, not one frame
    ],
)
def test_wait_without_a_trigger_ends_with_the_queue(dialogue, settings, configure, steps):
    with dialogue(IDN, *configure, *steps, FAULT, OK) as link:
        scope = configured(link, settings)
        with pytest.raises(InstrumentTimeout, match=r"saw no trigger within 1e-09 s \(-222.*check the trigger"):
            scope.wait(1e-9)


def test_fetch_single_reads_words_low_byte_first(dialogue):
    steps = [(STATE, "STOP"), *HALT, DEPTH, *select(2, PRE_PIN), *page(1, 1000, words(20000)), OK]
    with dialogue(IDN, *CONFIGURE_ONE, *steps) as link:
        record = taken(link, ONE).fetch()
    pin = record.channels["CH2"]
    assert pin.codes.dtype == np.uint16
    assert pin.codes.tolist() == [list(range(20000, 21000))]
    # V = (20000 + 12375 - 32768) * 133.333 uV
    assert volts(pin, 0, 0, 1)[0] == pytest.approx(-393 * 1.33333e-4)
    assert (record.dt_s, record.segment_start_s.tolist()) == (1e-6, [-1e-4])
    assert record.timebase_ratio == pytest.approx(35e-6)
    assert record.granted["replies"][":CHANnel2:SCALe"] == "1.000000E+00"
    assert record.asked["channels"][0]["range_v"] == 6.6
    assert record.granted["channels"][0]["range_v"] == 8.0


DEEP = replace(ONE, channels=(PIN,), span_s=0.3, pre_s=0.0, rate_hz=1e6)


def deep(n_points, *pages):
    """Configure and read a memory of `n_points`."""
    time = [
        *sent(":TIMebase:MODE", "MAIN", "MAIN"),
        *sent(":TIMebase:DELay:ENABle", "OFF", "0"),
        *sent(":TIMebase:ROLL", "0", "0"),
        *sent(":TIMebase:VERNier", "ON", "1"),
        *sent(":TIMebase:MAIN:SCALe", "0.03", "3.000000E-2"),
        *sent(":TIMebase:MAIN:OFFSet", "0.15", "1.500000E-1"),
        *sent(":ACQuire:TYPE", "NORMal", "NORM"),
        *sent(":ACQuire:MDEPth", n_points, f"{n_points:.3E}"),
    ]
    configure = [*START, *PIN_STEPS, *sent(":CHANnel1:DISPlay", "OFF", "0"), *time]
    configure += [*edge(2, "POSitive", "1.65", "1.660000E+0"), RATE]
    read = [(STATE, "STOP"), *HALT, (":ACQuire:MDEPth?", f"{n_points:.3E}"), *select(2, PRE_PIN), *pages]
    return [IDN, *configure, *read]


def test_paging_as_the_guide_counts_it(dialogue, monkeypatch):
    """300 000 points in three reads: 1 to 125000, 125001 to 250000, 250001 to 300000 (DS1000Z-E guide p. 2-180)."""
    monkeypatch.setattr(rigol_dho800, "choose_depth", lambda settings, model: 300_000)
    codes = (np.arange(300_000) % 60_000).astype("<u2")
    cut = [codes[:125_000].tobytes(), codes[125_000:250_000].tobytes(), codes[250_000:].tobytes()]
    pages = [*page(1, 125000, cut[0]), *page(125001, 250000, cut[1]), *page(250001, 300000, cut[2]), OK]
    with dialogue(*deep(300_000, *pages)) as link:
        record = taken(link, DEEP).fetch()
    assert np.array_equal(record.channels["CH2"].codes[0], codes)


def test_a_page_that_brings_less_is_gone_on_behind(dialogue, monkeypatch):
    monkeypatch.setattr(rigol_dho800, "choose_depth", lambda settings, model: 300_000)
    codes = (np.arange(300_000) % 60_000).astype("<u2")
    pages, first = page(1, 125000, codes[:100_000].tobytes()), 100_000
    for last in (200_000, 300_000):
        pages += page(first + 1, last, codes[first:last].tobytes())
        first = last
    with dialogue(*deep(300_000, *pages, OK)) as link:
        record = taken(link, DEEP).fetch()
    assert np.array_equal(record.channels["CH2"].codes[0], codes)


def test_a_header_without_data_is_asked_again(dialogue):
    """Asked too early, it sends a header alone (scopehal 359); mode and format are sent again with the wait."""
    again = [("*WAI", None), (":WAVeform:MODE RAW", None), (":WAVeform:FORMat WORD", None)]
    pages = [*page(1, 1000, b""), *again, *page(1, 1000, b""), *again, *page(1, 1000, words(30000)), OK]
    steps = [(STATE, "STOP"), *HALT, DEPTH, *select(2, PRE_PIN), *pages]
    with dialogue(IDN, *CONFIGURE_ONE, *steps) as link:
        record = taken(link, ONE).fetch()
    assert record.channels["CH2"].codes[0, 0] == 30000


def test_data_that_never_come_are_given_up(dialogue):
    again = [("*WAI", None), (":WAVeform:MODE RAW", None), (":WAVeform:FORMat WORD", None), *page(1, 1000, b"")]
    steps = [(STATE, "STOP"), *HALT, DEPTH, *select(2, PRE_PIN), *page(1, 1000, b""), *(4 * again)]
    with dialogue(IDN, *CONFIGURE_ONE, *steps) as link:
        scope = taken(link, ONE)
        with pytest.raises(BadData, match=r"DATA\? gave 0 bytes for the points 1 to 1000; expected 2000"):
            scope.fetch()


@pytest.mark.parametrize("n_bytes", [1999, 1998, 1])
def test_half_a_word_or_next_to_nothing_is_refused(dialogue, n_bytes):
    steps = [(STATE, "STOP"), *HALT, DEPTH, *select(2, PRE_PIN), *page(1, 1000, bytes(n_bytes))]
    with dialogue(IDN, *CONFIGURE_ONE, *steps) as link:
        scope = taken(link, ONE)
        with pytest.raises(BadData, match=f"gave {n_bytes} bytes"):
            scope.fetch()


def test_half_a_word_at_the_end_of_a_long_page_is_refused(dialogue, monkeypatch):
    monkeypatch.setattr(rigol_dho800, "choose_depth", lambda settings, model: 300_000)
    with dialogue(*deep(300_000, *page(1, 125000, bytes(200_001)))) as link:
        scope = taken(link, DEEP)
        with pytest.raises(BadData, match="gave 200001 bytes for the points 1 to 125000; expected 250000"):
            scope.fetch()


def test_a_time_step_of_zero_is_refused(dialogue):
    zero = preamble("1,2,0,1,0.000000E+0,0.000000E+0,0,1.33333E-04,-12375,32768")
    with dialogue(IDN, *CONFIGURE_ONE, (STATE, "STOP"), *HALT, DEPTH, *select(2, zero)) as link:
        scope = taken(link, ONE)
        with pytest.raises(BadData, match="dialogue CH2: the preamble tells of steps that are not positive"):
            scope.fetch()


def test_a_depth_that_changed_since_is_refused(dialogue):
    with dialogue(IDN, *CONFIGURE_ONE, (STATE, "STOP"), *HALT, (":ACQuire:MDEPth?", "1.000E+4")) as link:
        scope = taken(link, ONE)
        with pytest.raises(BadData, match=r"MDEPth\? is 10000 now, 1000 was recorded"):
            scope.fetch()


def test_a_depth_that_is_no_number_is_refused(dialogue):
    with dialogue(IDN, *CONFIGURE_ONE, (STATE, "STOP"), *HALT, (":ACQuire:MDEPth?", "AUTO")) as link:
        scope = taken(link, ONE)
        with pytest.raises(BadData, match="'AUTO' where a count was expected"):
            scope.fetch()


def frame(n, stamp, *, begin=(), first=False, current=None):
    """Read one frame of both channels, whose codes tell frame and channel."""
    steps = [(f"{FRAME} {n}", None)]
    for number, text in ((1, PRE_SHUNT), (2, PRE_PIN)):
        asked = [text] if first else []
        steps += [*select(number, *begin, *asked), *page(1, 1000, words(10000 * number + n))]
        begin = tuple(step for step in begin if step != OK)
    return [*steps, (f"{FRAME}?", str(current or n)), *((STAMP, text) for text in stamp)]


REPLAY = [*CONFIGURE_SERIES, *DONE_SERIES, *HALT, DEPTH, (":RECord:WREPlay:OPERate STOP", None), OK]
LEARN = (*BEGIN, OK)


def test_fetch_series_reads_frame_by_frame(dialogue, monkeypatch):
    """Each frame is begun anew, so that it is the one chosen; what counts are the times from the first frame on."""
    frames = [
        *frame(1, ["0.0000s"], begin=LEARN, first=True),
        *frame(2, ["1.5000ms"], begin=BEGIN),
        *frame(3, ["1.5000ms", "3.0001ms"], begin=BEGIN),  # the stamp follows its frame late
    ]
    with dialogue(IDN, *REPLAY, *frames, OK) as link:
        monkeypatch.setattr(rigol_dho800, "STAMP_REFRESH_S", 5.0)
        record = taken(link, SMALL).fetch()
    assert record.n_segments == 3
    assert record.segment_start_s == pytest.approx([-1e-4, 1.4e-3, 2.9001e-3])
    for name, base in (("CH1", 10000), ("CH2", 20000)):
        codes = record.channels[name].codes
        assert codes[:, 0].tolist() == [base + 1, base + 2, base + 3]
        assert codes[:, -1].tolist() == [base + 1000, base + 1001, base + 1002]
    assert record.channels["CH2"].settings["range_v"] == 8.0
    assert "five digits" in record.granted["segment_start"]


def test_firmware_that_does_not_know_the_reset_is_asked_once(dialogue):
    frames = [
        (f"{FRAME} 1", None),
        *select(1, *BEGIN, UNKNOWN, UNKNOWN, OK, PRE_SHUNT), *page(1, 1000, words(10001)),
        *select(2, PRE_PIN), *page(1, 1000, words(20001)),
        (f"{FRAME}?", "1"), (STAMP, "0.0000s"),
        *frame(2, ["1.5ms"]),
        *frame(3, ["3.0ms"]),
    ]
    with dialogue(IDN, *REPLAY, *frames, OK) as link:
        assert taken(link, SMALL).fetch().n_segments == 3


def test_another_current_frame_is_refused(dialogue):
    frames = frame(1, [], begin=LEARN, first=True, current=3)
    with dialogue(IDN, *REPLAY, *frames) as link:
        scope = taken(link, SMALL)
        with pytest.raises(BadData, match="frame 1 was asked for, frame 3 was read"):
            scope.fetch()


def test_a_frame_that_did_not_move_is_refused(dialogue):
    """Noise makes each frame another; the same codes in every channel are the frame before (libsigrok 71)."""
    same = [
        (f"{FRAME} 2", None),
        *select(1, *BEGIN), *page(1, 1000, words(10001)),
        *select(2, *BEGIN), *page(1, 1000, words(20001)),
        (f"{FRAME}?", "2"),
    ]
    with dialogue(IDN, *REPLAY, *frame(1, ["0s"], begin=LEARN, first=True), *same) as link:
        scope = taken(link, SMALL)
        with pytest.raises(BadData, match="frame 2 holds the codes of frame 1"):
            scope.fetch()


def test_rounded_time_stamps_may_be_equal(dialogue):
    frames = [
        *frame(1, ["1.28217ks"], begin=LEARN, first=True),
        *frame(2, ["1.28217ks"], begin=BEGIN),
        *frame(3, ["1.28218ks"], begin=BEGIN),
    ]
    with dialogue(IDN, *REPLAY, *frames, OK) as link:
        record = taken(link, SMALL).fetch()
    assert record.segment_start_s == pytest.approx([-1e-4, -1e-4, 0.01 - 1e-4])


def test_time_stamps_that_go_back_are_refused(dialogue):
    frames = [*frame(1, ["0s"], begin=LEARN, first=True), *frame(2, ["2ms"], begin=BEGIN)]
    with dialogue(IDN, *REPLAY, *frames, *frame(3, ["1ms"], begin=BEGIN)) as link:
        scope = taken(link, SMALL)
        with pytest.raises(BadData, match="time stamp of frame 3 is before that of frame 2"):
            scope.fetch()


def test_channels_must_share_their_sample_times(dialogue):
    other = preamble(PRE_PIN[1].replace("1.000000E-6", "2.000000E-6"))
    both = replace(SMALL, n_segments=1)
    steps = [*CONFIGURE_SERIES[: -len(RECORDING) - len(FRAMES) - 1], RATE, (STATE, "STOP"), *HALT, DEPTH]
    steps += [*select(1, PRE_SHUNT), *page(1, 1000, words(1)), *select(2, other), *page(1, 1000, words(2)), OK]
    with dialogue(IDN, *steps) as link:
        scope = taken(link, both)
        with pytest.raises(BadData, match="CH2 has other sample times"):
            scope.fetch()


def test_complaints_of_the_read_out_are_not_lost(dialogue):
    steps = [(STATE, "STOP"), *HALT, DEPTH, *select(2, PRE_PIN), *page(1, 1000, words(1)), FAULT, OK]
    with dialogue(IDN, *CONFIGURE_ONE, *steps) as link:
        scope = taken(link, ONE)
        with pytest.raises(Rejected, match="refused the read-out: -222"):
            scope.fetch()


def test_stop_saves_a_tainted_link(dialogue):
    with dialogue((":STOP", None)) as link:
        link.tainted = True
        RigolDho800(link).stop()
    assert link.n_reopened == 1


def test_close_stops_once_and_twice_is_harmless(dialogue):
    with dialogue((":STOP", None)) as link:
        scope = RigolDho800(link)
        scope.close()
        scope.close()
        scope.stop()
    assert link.n_closed == 2
