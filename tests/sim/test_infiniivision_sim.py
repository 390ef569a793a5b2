"""The emulated InfiniiVision against its manuals: syntax, errors, settings, memory, acquisition, read-out."""

import math
import time

import numpy as np
import pytest

from instruments.sim.circuit import Circuit
from instruments.sim.frontend import FrontEnd, SampleClock
from instruments.sim.infiniivision import InfiniiVision
from instruments.sim.world import World

CLOCK_HZ = 24e6
R_OHM, C_F, V_V = 1.3, 4.7e-6, 3.3
QUIET_A, BUSY_A = 4e-3, 10e-3
DEADLINE_S = 20.0


class Rig:
    """A scope and a scripted DUT on one world, no sockets."""

    def __init__(self, seed=1, **options):
        self.seed = seed
        self.world = World(Circuit(R_OHM, V_V, C_F, 30e-6, CLOCK_HZ, 3.3))
        self.world.parked(0, QUIET_A)
        self.scope = InfiniiVision(lambda: self.world, seed, {1: "shunt", 2: "trigger"}, **options)
        self.cycle = 0

    def ask(self, message):
        """Return the answer without its LF, or None for silence."""
        parts = self.scope.execute(message)
        data = b"".join(bytes(p) if not isinstance(p, str) else p.encode("latin-1") for p in parts)
        if not data:
            return None
        assert data.endswith(b"\n")
        return data[:-1] if b"#" in data else data[:-1].decode("ascii")

    def errors(self):
        codes = []
        while (entry := self.ask(":SYST:ERR?")) != '+0,"No error"':
            codes.append(int(entry.split(",")[0]))
        return codes

    def run(self, n_cycles, current_a):
        self.cycle += n_cycles
        self.world.current(np.array([self.cycle], np.uint64), np.array([current_a], np.float32))

    def pulses(self, n, high_cycles, low_cycles):
        """n trigger pulses, busy while high, quiet before and after each; parked at the end."""
        self.run(low_cycles, QUIET_A)
        for _ in range(n):
            self.world.pin(self.cycle, 1)
            self.run(high_cycles, BUSY_A)
            self.world.pin(self.cycle, 0)
            self.run(low_cycles, QUIET_A)
        self.world.parked(self.cycle, QUIET_A)

    def until(self, question, answer):
        deadline = time.monotonic() + DEADLINE_S
        while self.ask(question) != answer:
            assert time.monotonic() < deadline, f"{question} never answered {answer}"
            time.sleep(0.002)

    def arm(self, message):
        """Configure both channels for trigger pulses, then the message, then arm."""
        self.ask(
            "*CLS;:CHAN1:DISP 1;RANG 0.08;OFFS 0.02;BWL 1;:CHAN2:DISP 1;RANG 8;OFFS 2"
            ";:TRIG:SWE NORM;SOUR CHAN2;SLOP POS;LEV 1.65;:WAV:POIN:MODE RAW;:WAV:POIN MAX;" + message
        )
        self.ask(":SINGle")
        assert self.errors() == []
        self.until(":AER?", "+1")

    def codes(self):
        data = self.ask(":WAV:DATA?")
        assert data[:2] == b"#8"
        assert int(data[2:10]) == len(data) - 10
        return np.frombuffer(data[10:], np.uint8)

    def preamble(self):
        return [float(x) for x in self.ask(":WAV:PRE?").split(",")]

    def volts(self):
        p = self.preamble()
        return (self.codes().astype(float) - p[9]) * p[7] + p[8]


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.scope.execute(":STOP")
    rig.world.close()


# --- syntax and errors ----------------------------------------------------------------------------------------------


def test_its_serial_number_says_that_it_is_emulated():
    """What reads identities relies on this word."""
    assert Rig(seed=42).ask("*IDN?").split(",")[2] == "EMULATED42"


def test_a_fault_of_the_simulator_is_an_error_of_the_instrument(rig, capsys):
    rig.scope.on(":BROKEN?", lambda: 1 / 0)
    assert rig.ask(":BROKEN?;:BROKEN?;*OPC?") == "1"
    assert rig.errors() == [-310, -310]
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("message", "answer", "errors"),
    [
        ("*OPC?", "1", []),
        (":CHANnel1:RANGe?", "+4.00000E+001", []),
        ("CHAN1:RANG?", "+4.00000E+001", []),
        ("chan1:rang?", "+4.00000E+001", []),
        (":CHANNEL1:RANGE?", "+4.00000E+001", []),
        (":CHANN1:RANG?", None, [-113]),
        (":CHAN5:RANG?", None, [-113]),
        (":CHAN:RANG?", None, [-113]),
        (":NONSENSE?", None, [-113]),
        (":NONSENSE", None, [-113]),
        (":STOP?", None, [-113]),
        (":AER", None, [-113]),
        ("*IDN", None, [-113]),
        (":CHAN1:RANG 0.4;OFFS 0.1;RANG?;OFFS?", "+4.00000E-001;+1.00000E-001", []),
        (":CHAN1:RANG 0.4;:CHAN1:RANG?", "+4.00000E-001", []),
        (":CHAN1:RANG 0.4;*OPC?;RANG?", "1;+4.00000E-001", []),
        (":CHAN1:RANG 0.4;CHAN1:RANG?", None, [-113]),
        (":CHAN1:RANG 400mV;RANG?", "+4.00000E-001", []),
        (":CHAN1:RANG 400 mV;RANG?", "+4.00000E-001", []),
        (":CHAN1:RANG 4E-1;RANG?", "+4.00000E-001", []),
        (":CHAN1:RANG +.4;RANG?", "+4.00000E-001", []),
        (":CHAN1:RANG 400 ms", None, [-131]),
        (":CHAN1:RANG 400 furlongs", None, [-131]),
        (":CHAN1:RANG wide", None, [-104]),
        (":CHAN1:RANG nan", None, [-104]),
        (":CHAN1:RANG", None, [-109]),
        (":CHAN1:RANG 1,2", None, [-108]),
        (":CHAN1:RANG? 1", None, [-108]),
        (":STOP 1", None, [-108]),
        (":CHAN1:DISP MAYBE", None, [-141]),
        (":CHAN1:DISP 2", None, [-224]),
        (":CHAN1:DISP OFF;DISP?", "0", []),
        (":CHAN1:COUP SIDEWAYS", None, [-141]),
        (":CHAN1:COUP 1", None, [-128]),
        (":CHAN1:COUP DC;COUP?", "DC", []),
        (":CHAN1:COUP AC;COUP?", "DC", [-241]),
        (":CHAN1:IMP FIFT;IMP?", "ONEM", [-241]),
        (":CHAN1:UNIT AMP;UNIT?", "AMP", []),
        (":TRIG:EDGE:SLOP NEG;:TRIG:SLOP?", "NEG", []),
        (":TRIGger:SLOPe POSitive;SLOPe?", "POS", []),
        (":TRIG:SOUR CHANnel2;SOUR?", "CHAN2", []),
        (":TRIG:SOUR EXT", None, [-141]),
        (":TRIG:SWE?", "AUTO", []),
        (":WAV:FORM?;UNS?;BYT?;SOUR?;POIN:MODE?", "BYTE;1;MSBF;CHAN1;NORM", []),
        (":WAV:FORM ASCii;FORM?", "ASC", []),
        (":WAV:DATA?", None, [-230]),
        (":WAV:PRE?", None, [-230]),
        (":ACQ:TYPE HRES;TYPE?", "NORM", [-241]),
        (";;:CHAN1:BWL?;", "0", []),
        ("", None, []),
    ],
)
def test_a_message_is_answered_or_refused(rig, message, answer, errors):
    assert rig.ask(message) == answer
    assert rig.errors() == errors


def test_identity_names_maker_model_serial_and_firmware(rig):
    maker, model, serial, firmware = rig.ask("*IDN?").split(",")
    assert (maker, model) == ("KEYSIGHT TECHNOLOGIES", "DSO-X 3024T")
    assert serial
    assert firmware


def test_error_queue_is_first_in_first_out_and_says_when_it_overflows(rig):
    """4000 X-Series Programmer's Guide p. 1570: 29 errors and one place for the overflow."""
    rig.ask(":NONSENSE;:CHAN1:RANG wide")
    assert rig.ask(":SYST:ERR?") == '-113,"Undefined header"'
    assert rig.ask(":SYSTem:ERRor?") == '-104,"Data type error"'
    for _ in range(40):
        rig.ask(":NONSENSE")
    assert rig.errors() == [-113] * 29 + [-350]
    rig.ask(":NONSENSE;*CLS")
    assert rig.errors() == []


def test_event_status_tells_the_class_of_error_once(rig):
    """IEEE 488.2, 11.5.1: command error bit 5, execution error bit 4, operation complete bit 0."""
    rig.ask(":NONSENSE")
    assert rig.ask("*ESR?") == "+32"
    assert rig.ask("*ESR?") == "+0"
    rig.ask(":CHAN1:RANG 1000;*OPC")
    assert rig.ask("*STB?") == "+0"
    rig.ask("*ESE 16")
    assert rig.ask("*STB?") == "+32"
    assert rig.ask("*ESR?") == "+17"


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "question", "answer"),
    [
        (":CHAN1:RANG 0.0533", ":CHAN1:RANG?", "+5.32800E-002"),  # 6.6625 mV/div keeps three digits
        (":CHAN1:SCAL 0.005", ":CHAN1:RANG?", "+4.00000E-002"),
        (":CHAN1:RANG 0.008", ":CHAN1:SCAL?", "+1.00000E-003"),
        (":CHAN1:PROB 10", ":CHAN1:PROB?;RANG?", "+1.00000E+001;+4.00000E+002"),
        (":TIM:RANG 1.2345E-3", ":TIM:RANG?;SCAL?", "+1.23000E-003;+1.23000E-004"),
        (":TIM:SCAL 50us", ":TIM:RANG?", "+5.00000E-004"),
        (":TIM:REF LEFT;POS 1E-3", ":TIM:REF?;POS?", "LEFT;+1.00000E-003"),
        (":TRIG:LEV 1.65", ":TRIG:EDGE:LEV?", "+1.65000E+000"),
        (":TRIG:HOLD 1E-3", ":TRIG:HOLD?", "+1.00000E-003"),
        (":ACQ:MODE SEGM;SEGM:COUN 20", ":ACQ:MODE?;SEGM:COUN?", "SEGM;+20"),
        (":CHAN2:BWL ON", ":CHAN1:BWL?;:CHAN2:BWL?", "0;1"),
        (":WAV:POIN MAX;POIN:MODE RAW", ":WAV:POIN:MODE?", "RAW"),
    ],
)
def test_a_setting_reads_back_as_granted(rig, message, question, answer):
    rig.ask(message)
    assert rig.ask(question) == answer
    assert rig.errors() == []


@pytest.mark.parametrize(
    "message",
    [
        ":CHAN1:RANG 0.007",
        ":CHAN1:RANG 41",
        ":CHAN1:OFFS 51",
        ":CHAN1:RANG 1.6;OFFS 2.1",
        ":CHAN1:PROB 0",
        ":TIM:RANG 1E-9",
        ":TIM:RANG 501",
        ":TIM:POS 501",
        ":TRIG:HOLD 0",
        ":TRIG:SOUR CHAN1;LEV 31",
        ":ACQ:SEGM:COUN 1",
        ":ACQ:SEGM:COUN 1001",
        ":ACQ:SEGM:IND 2",
        ":WAV:POIN 99",
    ],
)
def test_a_value_out_of_range_is_refused_and_changes_nothing(rig, message):
    before = rig.ask(":CHAN1:OFFS?;PROB?;:TIM:RANG?;POS?;:TRIG:HOLD?;LEV?;:ACQ:SEGM:COUN?;IND?")
    rig.ask(message)
    assert rig.ask(":CHAN1:OFFS?;PROB?;:TIM:RANG?;POS?;:TRIG:HOLD?;LEV?;:ACQ:SEGM:COUN?;IND?") == before
    assert rig.errors() == [-222]


def test_offset_and_level_stay_within_reach_of_a_smaller_range(rig):
    rig.ask(":CHAN1:OFFS 20;:TRIG:LEV 40;:CHAN1:RANG 0.8")
    assert rig.ask(":CHAN1:OFFS?") == "+2.00000E+000"
    assert rig.ask(":TRIG:LEV?") == "+2.60000E+000"  # 6 of 8 divisions above mid-screen
    rig.ask("*RST")
    assert rig.ask(":CHAN1:RANG?;OFFS?;:TRIG:LEV?") == "+4.00000E+001;+0.00000E+000;+0.00000E+000"


@pytest.mark.parametrize(
    ("message", "rate_hz", "n_points"),
    [
        # alone on its pair: 5 GS/s, 4 M points; the interval is a whole multiple of 0.2 ns
        (":TIM:RANG 1E-6", 5e9, 5000),
        (":TIM:RANG 8E-4", 5e9, 4_000_000),
        (":TIM:RANG 1E-3", 2.5e9, 2_500_000),
        (":CHAN3:DISP 1;:TIM:RANG 8E-4", 5e9, 4_000_000),
        # both of a pair: 2.5 GS/s, 2 M points
        (":CHAN2:DISP 1;:TIM:RANG 1E-6", 2.5e9, 2500),
        (":CHAN2:DISP 1;:TIM:RANG 8E-4", 2.5e9, 2_000_000),
        (":CHAN3:DISP 1;:CHAN4:DISP 1;:TIM:RANG 1E-2", 1 / 5.2e-9, 1_923_076),
        # the segments share the memory
        (":ACQ:MODE SEGM;SEGM:COUN 20;:TIM:RANG 1E-3", 200e6, 200_000),
        (":CHAN2:DISP 1;:ACQ:MODE SEGM;SEGM:COUN 1000;:TIM:RANG 1E-3", 2e6, 2000),
    ],
)
def test_memory_limits_the_rate(rig, message, rate_hz, n_points):
    rig.ask(message)
    assert float(rig.ask(":ACQ:SRAT?")) == pytest.approx(rate_hz, rel=1e-5)
    assert int(rig.ask(":ACQ:POIN?")) == n_points


# --- acquisition ----------------------------------------------------------------------------------------------------


def test_single_acquisition_arms_triggers_and_stops(rig):
    """:AER? is cleared by reading; run is bit 3 and wait for trigger bit 5 (3000 X-Series Programmer's Guide)."""
    assert rig.ask(":OPER:COND?") == "+0"
    rig.arm(":TIM:RANG 1E-3;REF CENT;POS 0")
    assert rig.ask(":AER?") == "+0"
    assert rig.ask(":OPER:COND?") == "+40"
    assert rig.ask(":TER?") == "+0"
    assert rig.ask(":OPER?") == "+40"
    rig.pulses(1, 4800, 24_000)
    rig.until(":OPER:COND?", "+0")
    assert rig.ask(":TER?") == "+1"
    assert rig.ask(":TER?") == "+0"
    assert rig.ask(":OPER?") == "+0"
    rig.ask(":WAV:SOUR CHAN2")
    p = rig.preamble()
    volts = rig.volts()
    x = p[5] + p[4] * np.arange(len(volts))
    true_dt_ratio = 1 + SampleClock(1).error_ratio
    high = np.flatnonzero(volts > 1.65)
    # up at the trigger, down after 200 us of the DUT's clock, in the scope's own seconds
    assert x[high[0]] == pytest.approx(0.0, abs=p[4])
    assert x[high[-1]] == pytest.approx(4800 / CLOCK_HZ / (1 + 30e-6) / true_dt_ratio, abs=p[4])
    assert x[0] == pytest.approx(-0.5e-3, abs=p[4])


def test_armed_event_of_an_earlier_acquisition_stays_until_it_is_read(rig):
    rig.ask(":TRIG:SWE NORM;LEV 20;:SING")
    rig.until(":OPER:COND?", "+40")
    rig.ask(":STOP;:SING;:STOP")
    assert rig.ask(":AER?") == "+1"


def test_preamble_and_framing(rig):
    """Programmer's Guide: 10 fields; V = (code - yref) * yinc + yorg; x reference 0, y reference half the steps."""
    rig.arm(":TIM:RANG 1E-4;REF CENT;POS 0")
    rig.pulses(1, 4800, 24_000)
    rig.until(":OPER:COND?", "+0")
    rig.ask(":WAV:SOUR CHAN1")
    p = rig.preamble()
    assert p[:4] == [0, 0, 250_000, 1]
    assert p[4] == 0.4e-9
    assert p[5] == pytest.approx(-50e-6, abs=0.4e-9)
    assert p[6:] == [0, 0.08 / 256, 0.02, 128]
    assert [float(rig.ask(f":WAV:{q}?")) for q in ("XINC", "XOR", "XREF", "YINC", "YOR", "YREF")] == p[4:]
    codes = rig.codes()
    assert len(codes) == 250_000
    rig.ask(":WAV:UNS 0")
    assert np.array_equal(rig.codes().view(np.int8), codes.astype(int) - 128)
    assert rig.preamble()[9] == 0
    rig.ask(":WAV:UNS 1;FORM WORD")
    assert np.array_equal(rig.codes().view(">u2"), codes.astype(int) * 256)
    assert rig.preamble()[0] == 1
    assert rig.preamble()[7:] == pytest.approx([0.08 / 65536, 0.02, 32768], rel=1e-8)
    rig.ask(":WAV:BYT LSBF")
    assert np.array_equal(rig.codes().view("<u2"), codes.astype(int) * 256)
    rig.ask(":WAV:FORM ASC;POIN 1000")
    text = rig.ask(":WAV:DATA?")
    volts = np.array(text[10:].split(b","), dtype=float)
    assert volts == pytest.approx((codes[::250].astype(float) - 128) * 0.08 / 256 + 0.02, rel=1e-5)
    assert rig.preamble()[0] == 4


def test_fewer_points_are_one_of_n_and_the_normal_record_is_short(rig):
    rig.arm(":TIM:RANG 1E-4;REF CENT;POS 0")
    rig.pulses(1, 4800, 24_000)
    rig.until(":OPER:COND?", "+0")
    rig.ask(":WAV:SOUR CHAN2")
    full = rig.codes()
    rig.ask(":WAV:POIN 1000")
    assert rig.ask(":WAV:POIN?") == "+1000"
    assert rig.preamble()[4] == pytest.approx(250 * 0.4e-9)
    assert np.array_equal(rig.codes(), full[::250])
    rig.ask(":WAV:POIN:MODE NORM;:WAV:POIN MAX")
    assert int(rig.ask(":WAV:POIN?")) <= 62_500


def test_read_out_of_a_channel_that_was_not_taken_is_refused(rig):
    rig.arm(":TIM:RANG 1E-4")
    rig.pulses(1, 4800, 24_000)
    rig.until(":OPER:COND?", "+0")
    assert rig.ask(":WAV:SOUR CHAN3;:WAV:DATA?") is None
    assert rig.errors() == [-230]


@pytest.mark.parametrize(("reference", "left_ratio"), [("LEFT", 0.1), ("CENT", 0.5), ("RIGH", 0.9)])
def test_reference_and_position_place_the_trigger(rig, reference, left_ratio):
    rig.arm(f":TIM:RANG 1E-4;REF {reference};POS 2E-5")
    rig.pulses(1, 4800, 24_000)
    rig.until(":OPER:COND?", "+0")
    p = rig.preamble()
    assert p[5] == pytest.approx(20e-6 - left_ratio * 1e-4, abs=p[4])


def test_a_record_may_start_after_the_trigger(rig):
    rig.arm(":TIM:RANG 1E-4;REF LEFT;POS 1.9E-4")
    rig.pulses(1, 4800, 24_000)
    rig.until(":OPER:COND?", "+0")
    rig.ask(":WAV:SOUR CHAN2")
    p = rig.preamble()
    assert p[5] == pytest.approx(180e-6, abs=p[4])
    high = np.flatnonzero(rig.volts() > 1.65)
    assert p[5] + high[-1] * p[4] == pytest.approx(200e-6, rel=1e-4)


def test_falling_slope_triggers_at_the_end_of_the_pulse(rig):
    rig.arm(":TIM:RANG 1E-3;REF CENT;:TRIG:SLOP NEG")
    rig.pulses(1, 4800, 24_000)
    rig.until(":OPER:COND?", "+0")
    rig.ask(":WAV:SOUR CHAN2")
    p = rig.preamble()
    high = np.flatnonzero(rig.volts() > 1.65)
    assert p[5] + high[-1] * p[4] == pytest.approx(0.0, abs=p[4])


def test_the_shunt_itself_can_trigger(rig):
    rig.arm(":TIM:RANG 1E-3;REF CENT;:TRIG:SOUR CHAN1;LEV 0.009")
    rig.pulses(1, 24_000, 24_000)
    rig.until(":OPER:COND?", "+0")
    rig.ask(":WAV:SOUR CHAN2")
    p = rig.preamble()
    high = np.flatnonzero(rig.volts() > 1.65)
    front = FrontEnd(1, "shunt", rig.scope.channel_setups()[0])
    level_v = (0.009 - 0.02 - front.offset_error_v) / (1 + front.gain_ratio) + 0.02
    low_v, high_v = R_OHM * QUIET_A, R_OHM * BUSY_A
    late_s = R_OHM * C_F * math.log((high_v - low_v) / (high_v - level_v))
    assert p[5] + high[0] * p[4] == pytest.approx(-late_s, abs=10e-9)


def test_a_level_that_is_never_reached_never_triggers_until_forced(rig):
    rig.arm(":TIM:RANG 1E-3;REF CENT;:TRIG:LEV 5")
    rig.pulses(5, 4800, 24_000)
    time.sleep(0.05)
    assert rig.ask(":OPER:COND?") == "+40"
    assert rig.ask(":WAV:DATA?") is None
    rig.ask(":TRIG:FORC")
    rig.until(":OPER:COND?", "+0")
    assert len(rig.volts()) == int(rig.ask(":ACQ:POIN?"))


def test_sweep_auto_needs_no_trigger(rig):
    rig.ask(":CHAN1:RANG 0.08;:TIM:RANG 1E-3;:TRIG:SWE AUTO;LEV 0.05;:DIG")
    assert rig.ask(":OPER:COND?") == "+0"
    rig.ask(":WAV:POIN:MODE RAW;:WAV:POIN MAX")
    volts = rig.volts()
    front = FrontEnd(1, "shunt", rig.scope.channel_setups()[0])
    expected_v = R_OHM * QUIET_A * (1 + front.gain_ratio) + front.offset_error_v
    assert volts.mean() == pytest.approx(expected_v, abs=5 * front.noise_rms_v / math.sqrt(len(volts)) + 1e-6)


def test_digitize_turns_on_what_it_names_and_ends_when_the_client_leaves(rig):
    rig.ask(":TRIG:SWE NORM;LEV 20")
    rig.scope.execute(":DIG CHAN2,CHAN3", lambda: True)
    assert rig.ask(":CHAN1:DISP?;:CHAN2:DISP?;:CHAN3:DISP?") == "0;1;1"
    assert rig.ask(":OPER:COND?") == "+0"


def test_run_goes_on_until_stop(rig):
    rig.ask(":CHAN1:RANG 0.08;:TIM:RANG 1E-5;:RUN")
    for _ in range(3):
        rig.until(":TER?", "+1")
    assert int(rig.ask(":OPER:COND?")) & 8
    rig.ask(":STOP")
    assert rig.ask(":OPER:COND?") == "+0"


# --- segments -------------------------------------------------------------------------------------------------------


def test_segments_are_taken_one_a_trigger_with_time_tags(rig):
    rig.arm(":TIM:RANG 4E-4;REF LEFT;POS 0;:ACQ:MODE SEGM;SEGM:COUN 8")
    rig.pulses(8, 4800, 12_000)
    rig.until(":OPER:COND?", "+0")
    assert rig.ask(":WAV:SEGM:COUN?") == "+8"
    rig.ask(":WAV:SOUR CHAN2")
    period_s = 16_800 / CLOCK_HZ / (1 + 30e-6) / (1 + SampleClock(1).error_ratio)
    rows, origins = [], []
    for index in range(1, 9):
        rig.ask(f":ACQ:SEGM:IND {index}")
        assert float(rig.ask(":WAV:SEGM:TTAG?")) == pytest.approx((index - 1) * period_s, abs=20e-12)
        p = rig.preamble()
        rows.append(rig.codes())
        origins.append(p[5])
        volts = (rows[-1].astype(float) - p[9]) * p[7] + p[8]
        assert p[5] + np.flatnonzero(volts > 1.65)[0] * p[4] == pytest.approx(0.0, abs=p[4])
    assert len(set(origins)) > 4  # the sample clock runs free of the trigger
    rig.ask(":WAV:SEGM:ALL ON")
    assert rig.preamble()[2] == len(rows[0])
    assert np.array_equal(rig.codes().reshape(8, -1), rows)
    rig.ask(":ACQ:SEGM:IND 9")
    assert rig.errors() == [-222]


def test_fewer_triggers_leave_it_running_and_stop_keeps_what_came(rig):
    rig.arm(":TIM:RANG 4E-4;REF LEFT;:ACQ:MODE SEGM;SEGM:COUN 8")
    rig.pulses(3, 4800, 12_000)
    rig.until(":WAV:SEGM:COUN?", "+3")
    assert rig.ask(":OPER:COND?") == "+40"
    rig.ask(":STOP;:WAV:SEGM:ALL 1")
    assert rig.ask(":OPER:COND?") == "+0"
    assert len(rig.codes()) == 3 * rig.preamble()[2]


def test_a_trigger_before_the_pre_trigger_part_is_full_is_not_taken(rig):
    """0.36 ms before the trigger do not fit between pulses that come every 0.3 ms with 0.04 ms after each."""
    rig.arm(":TIM:RANG 4E-4;REF RIGH;:ACQ:MODE SEGM;SEGM:COUN 5")
    rig.pulses(10, 2400, 4800)
    rig.until(":OPER:COND?", "+0")
    period_s = 7200 / CLOCK_HZ
    rig.ask(":ACQ:SEGM:IND 2")
    assert float(rig.ask(":WAV:SEGM:TTAG?")) == pytest.approx(2 * period_s, rel=1e-4)


def test_an_extra_edge_shows_in_a_window_far_longer_than_what_is_handed_over_at_once(rig):
    rig.world.trigger_fault = "extra-edge"
    rig.arm(":TIM:RANG 1;REF LEFT;POS 0")
    rig.run(4_800_000, QUIET_A)
    rig.world.pin(rig.cycle, 1)
    for _ in range(50):
        rig.run(240_000, BUSY_A)
    rig.world.pin(rig.cycle, 0)
    rig.run(24_000_000, QUIET_A)
    rig.world.parked(rig.cycle, QUIET_A)
    rig.until(":OPER:COND?", "+0")
    rig.ask(":WAV:SOUR CHAN2")
    assert np.count_nonzero(np.diff((rig.codes() > 115).astype(int))) == 4


def test_holdoff_skips_triggers(rig):
    rig.arm(":TIM:RANG 1E-4;REF LEFT;:TRIG:HOLD 1.6E-3;:ACQ:MODE SEGM;SEGM:COUN 2")
    rig.pulses(10, 2400, 9600)
    rig.until(":OPER:COND?", "+0")
    rig.ask(":ACQ:SEGM:IND 2")
    assert float(rig.ask(":WAV:SEGM:TTAG?")) == pytest.approx(4 * 12_000 / CLOCK_HZ, rel=1e-4)


def test_a_scope_without_bulk_read_out_says_so():
    rig = Rig(has_bulk_segments=False)
    rig.ask(":WAV:SEGM:ALL ON")
    assert rig.errors() == [-113]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_codes_give_the_true_charge_once_the_drawn_errors_are_undone(seed):
    """Charge in the window: integral of v/R over it + tau (i_end - i_start), the pole's own balance."""
    rig = Rig(seed)
    rig.arm(":TIM:RANG 4E-4;REF LEFT;POS 0;:ACQ:MODE SEGM;SEGM:COUN 20")
    rig.pulses(20, 4800, 12_000)
    rig.until(":OPER:COND?", "+0")
    rig.ask(":WAV:SOUR CHAN1;SEGM:ALL ON")
    p = rig.preamble()
    volts = ((rig.codes().astype(float) - p[9]) * p[7] + p[8]).reshape(20, -1)
    front = FrontEnd(seed, "shunt", rig.scope.channel_setups()[0])
    volts = (volts - 0.02 - front.offset_error_v) / (1 + front.gain_ratio) + 0.02
    dt_s = p[4] * (1 + SampleClock(seed).error_ratio)
    duration_s = 4800 / CLOCK_HZ / (1 + 30e-6)
    tau_s = R_OHM * C_F
    first, n = round(-p[5] / p[4]), round(duration_s / dt_s)
    shunt_c = volts[:, first : first + n].sum(axis=1) * dt_s / R_OHM
    end_a = BUSY_A + (QUIET_A - BUSY_A) * math.exp(-duration_s / tau_s)
    charge_c = shunt_c + tau_s * (end_a - QUIET_A)
    truth_c = [w["charge_c"] for w in rig.world.windows()]
    assert truth_c == pytest.approx([BUSY_A * duration_s] * 20, rel=1e-6)
    noise_c = front.noise_rms_v / R_OHM * dt_s * math.sqrt(n * 20)
    assert charge_c.mean() == pytest.approx(np.mean(truth_c), abs=5 * noise_c / 20 + 2 * dt_s * BUSY_A / 20)
    rig.world.close()
