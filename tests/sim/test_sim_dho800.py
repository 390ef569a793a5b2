"""The emulated DHO814 over raw sockets, against programming guide PGA39106-1110 and data sheet DSA36106-1110."""

import contextlib
import math
import socket
import time
from pathlib import Path

import numpy as np
import pytest

from instruments.sim import scopes
from instruments.sim.circuit import Circuit
from instruments.sim.dho800 import Dho800
from instruments.sim.dho800_frames import stamp_text
from instruments.sim.dho800_settings import INPUTS
from instruments.sim.frontend import ChannelSetup, FrontEnd, SampleClock
from instruments.sim.server import ScpiServer
from instruments.sim.world import World

PAGE = (Path(__file__).parents[2] / "docs" / "error-terms.md").read_text(encoding="utf-8")
CLOCK_HZ = 24e6
R_OHM, V_V = 1.3, 3.3
QUIET_A, BUSY_A = 4e-3, 10e-3
DEADLINE_S = 20.0
# Asked after what may say nothing: an answer that no other question has.
MARK = "77"


class Rig:
    """The scope on a raw socket, and a DUT whose line is driven by hand."""

    def __init__(self, seed=1, **options):
        self.world = World(Circuit(R_OHM, V_V, 4.7e-6, 0.0, CLOCK_HZ, 3.3))
        self.world.parked(0, QUIET_A)
        options.setdefault("slowness", 0.0)
        self.scope = Dho800(lambda: self.world, seed, {1: "shunt", 2: "trigger"}, **options)
        self.server = ScpiServer("scope", self.scope, one_client=True)
        self.client = self.connect()
        self.cycle = 0
        self.send(f"*ESE {MARK}")

    def connect(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=DEADLINE_S) as link:
            return link.makefile("rwb")  # which keeps it open

    def send(self, message):
        self.client.write(message.encode() + b"\n")
        self.client.flush()

    def ask(self, message):
        self.send(message)
        return self.client.readline().decode().removesuffix("\n")

    def said(self, message):
        """Give everything that is said until a further question is answered."""
        self.send(message)
        self.send("*ESE?")
        lines = []
        while (line := self.client.readline().decode().removesuffix("\n")) != MARK:
            lines.append(line)
        return lines

    def errors(self):
        found = []
        while not (entry := self.ask(":SYST:ERR?")).startswith("0,"):
            found.append(int(entry.split(",")[0]))
        return found

    def block(self, message=":WAV:DATA?"):
        self.send(message)
        assert self.client.read(2) == b"#9"
        n_bytes = int(self.client.read(9))
        data = self.client.read(n_bytes)
        assert self.client.read(1) == b"\n"
        return data

    def words(self):
        return np.frombuffer(self.block(), "<u2")

    def preamble(self):
        return [float(field) for field in self.ask(":WAV:PRE?").split(",")]

    def volts(self, codes):
        """Convert as the guide says (3.28): (code - YORigin - YREFerence) x YINCrement."""
        *_, step_v, origin, reference = self.preamble()
        return (codes - origin - reference) * step_v

    def until(self, question, answer):
        end_s = time.monotonic() + DEADLINE_S
        while self.ask(question) != answer:
            assert time.monotonic() < end_s, f"{question} never answered {answer}"
            time.sleep(0.002)

    def run(self, n_cycles, current_a):
        self.cycle += n_cycles
        self.world.current(np.array([self.cycle], np.uint64), np.array([current_a], np.float32))

    def pulses(self, *currents_a, high=4800, low=48_000):
        """A pulse of the pin for each current, quiet around each; parked at the end."""
        self.run(low, QUIET_A)
        for current_a in currents_a:
            self.world.pin(self.cycle, 1)
            self.run(high, current_a)
            self.world.pin(self.cycle, 0)
            self.run(low, QUIET_A)
        self.world.parked(self.cycle, QUIET_A)

    def set_up(self, *messages, scale_s=1e-4, depth="10k"):
        """Both channels on, CH2 triggers; the screen begins a division before the trigger."""
        for message in (
            ":STOP", ":CHAN2:DISP 1", ":CHAN1:SCAL 0.01;OFFS -0.01;BWL 20M", ":CHAN2:SCAL 1;OFFS -2",
            f":TIM:MAIN:SCAL {scale_s}", f":TIM:MAIN:OFFS {4 * scale_s}", f":ACQ:MDEP {depth}",
            ":TRIG:EDGE:SOUR CHAN2;LEV 1.65", ":TRIG:SWE NORM", ":WAV:MODE RAW;FORM WORD", *messages,
        ):  # fmt: skip
            self.send(message)
        assert self.errors() == []

    def single(self, *currents_a, **times):
        self.send(":SING")
        self.until(":TRIG:STAT?", "WAIT")
        self.pulses(*currents_a or (BUSY_A,), **times)
        self.until(":TRIG:STAT?", "STOP")

    def record(self, n_frames):
        self.send(":REC:WREC:ENAB 1")
        self.send(f":REC:WREC:FRAM {n_frames}")
        self.send(":REC:WREC:OPER RUN")
        self.until(":REC:WREP:FCUR?", "1")

    def close(self):
        with contextlib.suppress(OSError):
            self.client.close()
        self.server.close()
        self.scope.execute(":STOP")
        self.world.close()


@pytest.fixture
def make():
    rigs = []

    def build(**options):
        rigs.append(Rig(**options))
        return rigs[-1]

    yield build
    for rig in rigs:
        rig.close()


@pytest.fixture
def rig(make):
    return make()


# --- syntax, errors, settings ---------------------------------------------------------------------------------------


def test_its_serial_number_says_that_it_is_emulated(make):
    """The four fields of guide 3.12.1."""
    assert make(seed=42).ask("*IDN?") == "RIGOL TECHNOLOGIES,DHO814,EMULATED42,00.01.03"


def test_what_is_not_known_is_silence_and_a_text_in_the_queue(rig):
    """The text is the example of guide 3.24.3."""
    assert rig.said(":NONSENSE?") == []
    assert rig.ask(":SYSTem:ERRor:NEXT?") == '-113,"Undefined header; command cannot be found"'
    assert rig.ask(":SYST:ERR?").startswith("0,")


@pytest.mark.parametrize(
    ("message", "said", "errors"),
    [
        (":CHANnel1:SCALe?", ["5.000000E-02"], []),
        ("chan1:scal?", ["5.000000E-02"], []),
        (":CHANN1:SCAL?", [], [-113]),
        (":CHAN5:SCAL?", [], [-113]),
        (":CHAN1:IMP?", [], [-113]),
        ("*OPT?", [], [-113]),
        (":WAV:BEG", [], [-113]),
        (":CHAN1:SCAL 100mV", [], [-131]),
        (":TIM:MAIN:SCAL 1ms", [], [-131]),
        (":CHAN1:SCAL 20", [], [-222]),
        (":CHAN1:SCAL 0.0004", [], [-222]),
        (":CHAN1:OFFS 1.1", [], [-222]),
        (":CHAN1:PROB 3", [], [-222]),
        (":CHAN1:COUP AC", [], [-241]),
        (":TRIG:MODE PULS", [], [-241]),
        (":TRIG:EDGE:SOUR D0", [], [-141]),
        (":TRIG:EDGE:LEV 0.3", [], [-222]),
        (":TRIG:HOLD 7e-9", [], [-222]),
        (":WAV:STAR 1.0", [], [-104]),
        (":WAV:STAR 1e2", [], [-104]),
        (":WAV:STAR 0", [], [-222]),
        (":WAV:STOP 1001", [], [-222]),
        (":ACQ:MDEP 20k", [], [-222]),
        (":ACQ:MDEP", [], [-109]),
        (":ACQ:TYPE AVER", [], [-241]),
        (":REC:WREC:OPER RUN", [], [-221]),
        (":REC:WREP:FCUR 1", [], [-222]),
        (":REC:WREP:FCUR?", ["0"], []),
        (":REC:WREP:FMAX?", ["0"], []),
        (":SYST:RAM?", ["4"], []),
    ],
)
def test_strict_like_the_guide(rig, message, said, errors):
    assert rig.said(message) == said
    assert rig.errors() == errors


@pytest.mark.parametrize(
    ("message", "question", "answer"),
    [
        (":ACQuire:MDEPth 1M", ":ACQuire:MDEPth?", 1e6),
        (":CHANnel1:BWLimit 20M", ":CHANnel1:BWLimit?", "20M"),
        (":CHANnel1:DISPlay ON", ":CHANnel1:DISPlay?", "1"),
        (":CHANnel1:OFFSet 0.01", ":CHANnel1:OFFSet?", 1e-2),
        (":CHANnel1:SCALe 0.1", ":CHANnel1:SCALe?", 0.1),
        (":CHANnel1:PROBe 10", ":CHANnel1:PROBe?", "10"),
        (":CHANnel1:UNITs VOLTage", ":CHANnel1:UNITs?", "VOLT"),
        (":CHANnel1:VERNier ON", ":CHANnel1:VERNier?", "1"),
        (":RECord:WRECord:ENABle ON", ":RECord:WRECord:ENABle?", "1"),
        (":RECord:WRECord:FRAMes 300", ":RECord:WRECord:FRAMes?", "300"),
        (":RECord:FRAMes 300", ":RECord:FRAMes?", "300"),
        (":RECord:WRECord:FINTerval 1", ":RECord:WRECord:FINTerval?", 1.0),
        (":RECord:WRECord:PROMpt ON", ":RECord:WRECord:PROMpt?", "1"),
        (":RECord:WREPlay:FINTerval 1", ":RECord:WREPlay:FINTerval?", 1.0),
        (":RECord:WREPlay:MODE REP", ":RECord:WREPlay:MODE?", "REP"),
        (":RECord:WREPlay:DIRection BACK", ":RECord:WREPlay:DIRection?", "BACK"),
        (":TIMebase:MAIN:OFFSet 0.0002", ":TIMebase:MAIN:OFFSet?", 2e-4),
        (":TIMebase:MAIN:SCALe 0.0002", ":TIMebase:MAIN:SCALe?", 2e-4),
        (":TIMebase:VERNier ON", ":TIMebase:VERNier?", "1"),
        (":TIMebase:ROLL 0", ":TIMebase:ROLL?", "0"),
        (":TRIGger:SWEep NORMal", ":TRIGger:SWEep?", "NORM"),
        (":TRIGger:HOLDoff 0.0000002", ":TRIGger:HOLDoff?", 2e-7),
        (":TRIGger:EDGE:SOURce CHANnel1", ":TRIGger:EDGE:SOURce?", "CHAN1"),
        (":TRIGger:EDGE:SLOPe NEGative", ":TRIGger:EDGE:SLOPe?", "NEG"),
        (":TRIGger:EDGE:LEVel 0.16", ":TRIGger:EDGE:LEVel?", 0.16),
        (":WAVeform:SOURce CHANnel2", ":WAVeform:SOURce?", "CHAN2"),
        (":WAVeform:MODE RAW", ":WAVeform:MODE?", "RAW"),
        (":WAVeform:FORMat WORD", ":WAVeform:FORMat?", "WORD"),
        (":WAVeform:POINts 100", ":WAVeform:POINts?", "100"),
        (":WAVeform:STARt 100", ":WAVeform:STARt?", "100"),
        (":WAVeform:STOP 500", ":WAVeform:STOP?", "500"),
        ("*ESE 16", "*ESE?", "16"),
    ],
)
def test_the_guides_own_examples(rig, message, question, answer):
    rig.send(message)
    said = rig.ask(question)
    if isinstance(answer, str):
        assert said == answer
    else:
        assert "E" in said
        assert float(said) == pytest.approx(answer, rel=1e-9)
    rig.send(f"*ESE {MARK}")
    assert rig.errors() == []


@pytest.mark.parametrize(
    ("n_on", "deepest", "rate_hz"), [(1, "25M", 1.25e9), (2, "10M", 625e6), (3, "5M", 312.5e6), (4, "5M", 312.5e6)]
)
def test_memory_and_rate_are_shared_by_the_channels_that_are_on(rig, n_on, deepest, rate_hz):
    """Depths: guide 3.3.2 for the DHO800; rates: data sheet, acquisition system."""
    depths = ["1k", "10k", "100k", "1M", "5M", "10M", "25M", "50M"]
    for n in range(2, n_on + 1):
        rig.send(f":CHAN{n}:DISP 1")
    granted = []
    for depth in depths:
        rig.send(f":ACQ:MDEP {depth}")
        if rig.errors() == []:
            granted.append(depth)
    assert granted == depths[: depths.index(deepest) + 1]
    rig.send(":TIM:MAIN:SCAL 5e-9")
    assert float(rig.ask(":ACQ:SRAT?")) == pytest.approx(rate_hz)


def test_a_channel_more_takes_memory_from_the_others(rig):
    rig.send(":ACQ:MDEP 25M")
    rig.send(":CHAN3:DISP 1")
    assert float(rig.ask(":ACQ:MDEP?")) == 10e6


def test_the_time_base_changes_the_depth_so_it_must_be_set_first(rig):
    rig.send(":ACQ:MDEP 10k")
    rig.send(":TIM:MAIN:SCAL 0.001")
    assert float(rig.ask(":ACQ:MDEP?")) > 10e3
    rig.send(":ACQ:MDEP 10k")
    assert float(rig.ask(":ACQ:MDEP?")) == 10e3
    # 10 divisions of 1 ms in 10 000 points.
    assert float(rig.ask(":ACQ:SRAT?")) == pytest.approx(1e6)


def test_auto_depth_fills_the_screen_at_the_highest_rate(rig):
    rig.send(":ACQ:MDEP AUTO")
    rig.send(":TIM:MAIN:SCAL 0.0001")
    # 1 ms at 1.25 GS/s is 1.25 M points.
    assert float(rig.ask(":ACQ:MDEP?")) == 1e6


@pytest.mark.parametrize(("fine", "volts", "seconds"), [(0, 0.01, 5e-4), (1, 0.0073, 2.31e-4)])
def test_scales_go_by_1_2_5_unless_they_are_fine(rig, fine, volts, seconds):
    rig.send(f":CHAN1:VERN {fine}")
    rig.send(f":TIM:VERN {fine}")
    assert float(rig.ask(":CHAN1:SCAL 0.0073;SCAL?")) == pytest.approx(volts)
    assert float(rig.ask(":TIM:MAIN:SCAL 0.000231;SCAL?")) == pytest.approx(seconds)


def test_a_probe_scales_what_the_channel_says_and_may(rig):
    rig.send(":CHAN1:PROB 10")
    assert float(rig.ask(":CHAN1:SCAL?")) == pytest.approx(0.5)
    rig.send(":CHAN1:SCAL 100")
    assert rig.errors() == []


@pytest.mark.parametrize(("scale_s", "low_s", "high_s"), [(1e-3, -5e-3, 1.0), (0.1, -0.5, 10.0), (20, -100, 1000)])
def test_the_offset_of_the_time_base_has_the_guides_limits(rig, scale_s, low_s, high_s):
    """Guide 3.26.4."""
    rig.send(f":TIM:MAIN:SCAL {scale_s}")
    for inside, outside in ((low_s, 1.01 * low_s), (high_s, 1.01 * high_s)):
        rig.send(f":TIM:MAIN:OFFS {inside}")
        assert rig.errors() == []
        rig.send(f":TIM:MAIN:OFFS {outside}")
        assert rig.errors() == [-222]


def test_nothing_triggers_while_the_waveform_rolls(rig):
    """Guide 3.26: from 50 ms/div on; :TIMebase:ROLL 0 ends it."""
    rig.set_up(scale_s=0.05)
    rig.send(":SING")
    assert rig.errors() == [-221]
    rig.send(":TIM:ROLL 0")
    rig.send(":SING")
    assert rig.errors() == []


# --- one acquisition ------------------------------------------------------------------------------------------------


def test_status_runs_from_power_up_and_stops_after_a_single(rig):
    """The words of guide 3.27.3."""
    assert rig.ask(":TRIG:STAT?") == "AUTO"
    rig.set_up()
    assert rig.ask(":TRIG:STAT?") == "STOP"
    rig.send(":SING")
    assert rig.ask(":TRIG:SWE?") == "SING"
    assert rig.ask("*OPC?") == "0"  # guide 3.12.6: 0 while it is not finished
    rig.until(":TRIG:STAT?", "WAIT")
    rig.pulses(BUSY_A)
    rig.until(":TRIG:STAT?", "STOP")
    rig.until("*OPC?", "1")
    rig.send(":RUN")
    assert rig.ask(":TRIG:STAT?") in ("RUN", "WAIT", "TD")
    rig.send(":TFOR")
    rig.send(":STOP")
    assert rig.ask(":TRIG:STAT?") == "STOP"


def test_words_are_the_voltages_in_the_guides_formula(rig):
    """At 50 mV/div YINCrement is 50 mV/7500, as in a public capture of a DHO824: 6.6667 uV, reference 32768."""
    rig.set_up(":CHAN1:SCAL 0.05;OFFS 0", ":WAV:SOUR CHAN1", ":WAV:STAR 1;STOP 10000")
    rig.single()
    kind, mode, n, count, dt_s, left_s, x_reference, step_v, origin, reference = rig.preamble()
    assert (kind, mode, n, count, x_reference, origin, reference) == (1, 2, 10_000, 1, 0, 0, 32768)
    assert step_v == pytest.approx(6.6667e-6, rel=1e-5)
    assert dt_s == pytest.approx(1e-7)
    quiet = rig.words()[: int((-left_s - 5e-6) / dt_s)]
    front_end = FrontEnd(1, "shunt", ChannelSetup(1, 0.4, 0.0, 1.0, True), INPUTS)
    true_v = R_OHM * QUIET_A * (1 + front_end.gain_ratio) + front_end.offset_error_v
    assert rig.volts(quiet).mean() == pytest.approx(true_v, abs=5 * front_end.noise_rms_v / math.sqrt(len(quiet)))
    assert rig.volts(quiet).std() == pytest.approx(front_end.noise_rms_v, rel=0.2)
    # Twelve of the sixteen bits.
    assert np.all(quiet % 16 == 0)
    assert np.gcd.reduce(quiet) == 16


def test_an_offset_moves_the_trace_and_is_taken_off_again(rig):
    """YORigin is the offset in steps (guide 3.28.10); the pin's levels are 0 and 3.3 V."""
    rig.set_up(":WAV:SOUR CHAN2", ":WAV:STAR 1;STOP 10000")
    rig.single()
    *_, step_v, origin, _reference = rig.preamble()
    assert step_v == pytest.approx(1 / 7500, rel=1e-6)
    assert origin == -2 * 7500
    volts = rig.volts(rig.words())
    # Data sheet at 1 V/div: 1 % of full scale as a slope about mid-screen, 0.1 div + 2 mV + 1 % of 2 V.
    limit_v = 0.1 + 2e-3 + 0.02 + 0.01 * 2 + 1e-3
    assert np.median(volts[volts < 1]) == pytest.approx(0.0, abs=limit_v)
    assert np.median(volts[volts > 2]) == pytest.approx(3.3, abs=limit_v)


def test_time_is_counted_from_the_trigger(rig):
    """t = XORigin + i x XINCrement: 4800 cycles of 24 MHz are 200 us, and the first edge is the trigger."""
    rig.set_up(":WAV:SOUR CHAN2", ":WAV:STAR 1;STOP 10000")
    rig.single()
    _, _, _, _, dt_s, left_s, *_ = rig.preamble()
    high = np.flatnonzero(rig.volts(rig.words()) > 1.65)
    assert left_s + high[0] * dt_s == pytest.approx(0.0, abs=2 * dt_s)
    assert (high[-1] - high[0] + 1) * dt_s == pytest.approx(200e-6, abs=2 * dt_s)
    assert left_s == pytest.approx(-1e-4, abs=dt_s)


def test_bytes_and_text_are_the_same_voltages(rig):
    rig.set_up(":WAV:SOUR CHAN2", ":WAV:STAR 1;STOP 10000")
    rig.single()
    fine_v = rig.volts(rig.words())
    rig.send(":WAV:FORM BYTE")
    assert rig.preamble()[-1] == 128
    coarse = np.frombuffer(rig.block(), np.uint8)
    assert len(coarse) == 10_000
    step_v = rig.preamble()[7]
    assert step_v == pytest.approx(256 / 7500, rel=1e-6)
    assert rig.volts(coarse.astype(float)) == pytest.approx(fine_v, abs=1.01 * step_v)
    rig.send(":WAV:FORM ASC")
    said = rig.ask(":WAV:DATA?").split(",")
    assert [float(v) for v in said] == pytest.approx(fine_v, abs=1e-5)


def test_beyond_the_screen_the_converter_clips(rig):
    rig.set_up(":CHAN2:SCAL 0.5;OFFS 0", ":WAV:SOUR CHAN2", ":WAV:STAR 1;STOP 10000")
    rig.single()
    assert rig.words().max() == 4095 * 16


def test_300_000_points_of_word_take_three_reads_of_at_most_125_000(rig):
    rig.set_up(":WAV:SOUR CHAN2", depth="1M", scale_s=1e-4)
    rig.single()
    pages = []
    while (start := 1 + sum(map(len, pages))) <= 300_000:
        rig.send(f":WAV:STAR {start};STOP 300000")
        assert int(rig.ask(":WAV:POIN?")) == int(rig.preamble()[2])
        pages.append(rig.words())
        assert len(pages[-1]) == rig.preamble()[2]
    assert [len(page) for page in pages] == [125_000, 125_000, 50_000]
    # Adjacent pages are consecutive (guide 3.28): other pages give the same points.
    whole = np.concatenate(pages)
    for start, stop in ((1, 100_000), (100_001, 200_000), (200_001, 300_000)):
        rig.send(f":WAV:STAR {start};STOP {stop}")
        assert np.array_equal(rig.words(), whole[start - 1 : stop])
    rig.send(":WAV:STAR 125000;STOP 125001")
    assert np.array_equal(rig.words(), whole[124_999:125_001])


def test_250_000_points_of_byte_are_read_at_once(rig):
    rig.set_up(":WAV:SOUR CHAN2;FORM BYTE", depth="1M")
    rig.single()
    rig.send(":WAV:STAR 1;STOP 1000000")
    assert len(rig.block()) == 250_000
    rig.send(":WAV:STAR 999901")
    assert len(rig.block()) == 100


def test_the_screen_is_1000_points_of_a_hundredth_of_a_division(rig):
    """The header is the guide's example (3.28): 1000 bytes of BYTE are #9000001000."""
    rig.set_up(":WAV:SOUR CHAN2;MODE NORM;FORM BYTE")
    rig.single()
    rig.send(":WAV:DATA?")
    assert rig.client.read(11) == b"#9000001000"
    assert len(rig.client.read(1001)) == 1001
    _, mode, n, _, dt_s, left_s, *_ = rig.preamble()
    assert (mode, n) == (0, 1000)
    assert dt_s == pytest.approx(1e-4 / 100)
    assert left_s == pytest.approx(-1e-4)
    codes = np.frombuffer(rig.block(), np.uint8)
    high = np.flatnonzero(rig.volts(codes.astype(float)) > 1.65)
    # 200 us from the trigger, a division into the screen, on.
    assert (high[0], len(high)) == (pytest.approx(100, abs=1), pytest.approx(200, abs=1))


def test_memory_is_not_read_while_it_runs_and_maximum_is_the_screen_then(rig):
    """Guide 3.28.2."""
    rig.set_up(":WAV:SOUR CHAN2")
    rig.single()
    rig.send(":RUN")
    for question in (":WAV:DATA?", ":WAV:PRE?", ":WAV:XINC?"):
        assert rig.said(question) == []
        assert rig.errors() == [-221]
    rig.send(":WAV:MODE MAX;STAR 1;STOP 1000")
    assert rig.preamble()[4] == pytest.approx(1e-6)
    assert len(rig.words()) == 1000
    rig.send(":STOP")
    rig.send(":WAV:STOP 10000")
    assert rig.preamble()[4] == pytest.approx(1e-7)
    assert len(rig.words()) == 10_000


@pytest.mark.parametrize("ready_s", [1000.0, 0.0])
def test_asked_too_soon_a_block_is_a_header_without_data(make, ready_s):
    rig = make(ready_s=ready_s)
    rig.set_up(":WAV:SOUR CHAN2;STOP 10000")
    rig.single()
    n = 0 if ready_s else 10_000
    assert rig.preamble()[2] == n
    assert len(rig.words()) == n
    assert rig.ask("*OPC?") == ("0" if ready_s else "1")


def test_wai_waits_for_the_data(make):
    rig = make(ready_s=0.2)
    rig.set_up(":WAV:SOUR CHAN2;STOP 10000")
    rig.single()
    rig.send("*WAI")
    assert len(rig.words()) == 10_000


def test_nothing_was_taken_of_a_channel_that_is_off(rig):
    rig.set_up(":WAV:SOUR CHAN3")
    rig.single()
    assert rig.block() == b""
    assert rig.preamble()[2:5] == [0, 1, 0]


def test_clear_and_reset_forget_the_waveform(rig):
    rig.set_up(":WAV:SOUR CHAN2;STOP 10000")
    rig.single()
    assert len(rig.words()) == 10_000
    rig.send(":CLE")
    assert rig.block() == b""
    rig.send("*RST")
    assert rig.ask(":CHAN2:DISP?") == "0"
    assert float(rig.ask(":CHAN1:SCAL?")) == 0.05
    assert rig.ask(":TRIG:STAT?") == "AUTO"


# --- frames ---------------------------------------------------------------------------------------------------------


def mean_v(rig, frame):
    """Read the shunt in the second half of a frame's window, which is past the decoupling."""
    rig.send(f":REC:WREP:FCUR {frame}")
    left_s, dt_s = rig.preamble()[5], rig.preamble()[4]
    first, last = (int((t_s - left_s) / dt_s) for t_s in (100e-6, 190e-6))
    return rig.volts(rig.words()[first:last]).mean()


def test_frames_are_the_triggers_in_their_order_and_are_read_in_any(rig):
    rig.set_up(":WAV:SOUR CHAN1;STOP 10000")
    rig.record(5)
    assert rig.ask(":REC:WREC:OPER?") == "RUN"
    currents_a = (5e-3, 9e-3, 6e-3, 11e-3, 7e-3)
    rig.pulses(*currents_a)
    rig.until(":REC:WREC:OPER?", "STOP")
    assert rig.ask(":REC:WREP:FMAX?") == rig.ask(":REC:WREP:FCUR?") == "5"
    read_v = {frame: mean_v(rig, frame) for frame in (3, 1, 5, 2, 4)}
    assert rig.ask(":REC:WREP:FCUR?") == "4"
    offset_v = read_v[1] - R_OHM * currents_a[0]
    for frame, current_a in enumerate(currents_a, start=1):
        # 1 % of gain between them, and noise.
        assert read_v[frame] - offset_v == pytest.approx(R_OHM * current_a, abs=0.01 * 8e-3 + 5e-5)
    rig.send(":REC:WREP:FCUR 6")
    assert rig.errors() == [-222]


def test_the_current_frame_is_one_before_and_after_the_first_trigger(rig):
    rig.set_up()
    rig.record(3)
    rig.pulses(BUSY_A)
    rig.until(":REC:WREP:FMAX?", "1")
    assert rig.ask(":REC:WREP:FCUR?") == "1"
    rig.pulses(BUSY_A)
    rig.until(":REC:WREP:FMAX?", "2")
    assert rig.ask(":REC:WREP:FCUR?") == "2"
    rig.send(":REC:WREP:FCUR 1")
    assert rig.errors() == [-221]
    rig.send(":REC:WREC:OPER STOP")
    assert rig.ask(":REC:WREC:OPER?") == "STOP"
    assert rig.ask(":REC:WREP:FMAX?") == "2"


def test_a_trigger_while_it_is_staged_is_lost(make):
    """Staging takes 1 to 16 s on a real one: 1000 s at least here."""
    rig = make(slowness=1000.0)
    rig.set_up(":REC:WREC:ENAB 1;FRAM 1")
    rig.send(":REC:WREC:OPER RUN")
    rig.pulses(BUSY_A)
    assert rig.ask("*OPC?") == "0"
    rig.send(":REC:WREC:OPER STOP")
    assert rig.ask(":REC:WREP:FMAX?") == "0"


def test_a_question_while_it_is_staged_is_answered_afterwards(make):
    """0 is never said, for the answer waits: 10 to 160 ms here."""
    rig = make(slowness=0.01)
    rig.set_up()
    rig.record(2)
    rig.pulses(BUSY_A, BUSY_A)
    rig.until(":REC:WREC:OPER?", "STOP")
    assert rig.ask(":REC:WREP:FMAX?") == "2"


def test_how_many_frames_fit_is_found_by_running_only(rig):
    """The memory is 500 M points: 50 000 frames of 10 000, 500 of a million."""
    rig.send(":TIM:MAIN:SCAL 0.0001")
    rig.send(":ACQ:MDEP 1M")
    assert rig.ask(":REC:WREC:FMAX?") == "50000"
    rig.send(":REC:WREC:ENAB 1;FRAM 1000")
    assert rig.errors() == []
    rig.send(":REC:WREC:OPER RUN")
    assert rig.ask(":REC:WREC:FMAX?") == rig.ask(":REC:WREC:FRAM?") == "500"
    rig.send(":REC:WREC:OPER STOP")
    rig.send(":REC:WREC:FRAM 501")
    assert rig.errors() == [-222]
    rig.send(":REC:WREC:FRAM:MAX")
    assert rig.ask(":REC:WREC:FRAM?") == "500"


def test_in_auto_sweep_frames_come_without_a_trigger(rig):
    rig.set_up(":TRIG:SWE AUTO", ":REC:WREC:ENAB 1;FRAM 2")
    rig.send(":REC:WREC:OPER RUN")
    rig.until(":REC:WREC:OPER?", "STOP")
    assert rig.ask(":REC:WREP:FMAX?") == "2"


def test_single_is_refused_while_recording_is_enabled(rig):
    """Guide 3.1.4."""
    rig.set_up(":REC:WREC:ENAB 1")
    rig.send(":SING")
    rig.send(":TRIG:SWE SING")
    assert rig.errors() == [-221, -221]
    rig.send(":REC:WREC:ENAB 0")
    rig.send(":SING")
    assert rig.errors() == []


def seconds(text):
    """Read a time stamp such as 109.48ms."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    return float(number) * {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[text[len(number) :]]


def test_time_stamps_count_from_the_first_frame(rig):
    """52 800 cycles of 24 MHz from pulse to pulse: 2.2 ms, on a clock that is good to 25 ppm."""
    rig.set_up()
    rig.record(3)
    rig.pulses(BUSY_A, BUSY_A, BUSY_A)
    rig.until(":REC:WREC:OPER?", "STOP")
    stamps = []
    for frame in (1, 2, 3):
        rig.send(f":REC:WREP:FCUR {frame}")
        stamps.append(rig.ask(":REC:WREP:FCUR:TIME?"))
    assert seconds(stamps[0]) == 0
    assert [seconds(stamp) for stamp in stamps[1:]] == pytest.approx([2.2e-3, 4.4e-3], rel=30e-6, abs=20e-9)


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(0.0, "0s"), (109.489048e-3, "109.489ms"), (1282.17, "1.28217ks"), (2.5e-6, "2.50000us"), (12.34567, "12.3456s")],
)
def test_a_time_stamp_has_six_digits_and_the_rest_is_cut_off(time_s, text):
    """Public notes: 109.489048 ms, and 1.28217ks said by a DHO800."""
    assert stamp_text(time_s) == text


def test_right_after_a_choice_the_stamp_is_that_of_the_frame_before(make):
    """It is renewed 300 ms x slowness later: never, here; staged for a tenth of a second at most."""
    rig = make()
    rig.set_up()
    rig.record(2)
    rig.pulses(BUSY_A, BUSY_A)
    rig.until(":REC:WREC:OPER?", "STOP")
    rig.scope._frames._slowness = 1e6
    rig.send(":REC:WREP:FCUR 1")
    assert seconds(rig.ask(":REC:WREP:FCUR:TIME?")) > 0
    rig.send(":REC:WREP:FCUR 2")
    assert rig.ask(":REC:WREP:FCUR:TIME?") == "0s"


def test_frames_keep_the_interval_that_was_set(rig):
    """Pulses come every 2.2 ms; with 3 ms between frames every second of them is taken."""
    rig.set_up(":REC:WREC:FINT 0.003")
    rig.record(2)
    rig.pulses(*[BUSY_A] * 4)
    rig.until(":REC:WREC:OPER?", "STOP")
    assert seconds(rig.ask(":REC:WREP:FCUR:TIME?")) == pytest.approx(4.4e-3, rel=1e-3)


def test_playing_goes_to_the_end_and_stops(rig):
    rig.set_up()
    rig.record(3)
    rig.pulses(BUSY_A, BUSY_A, BUSY_A)
    rig.until(":REC:WREC:OPER?", "STOP")
    rig.send(":REC:WREP:FST 1;FEND 2;FINT 0.001")
    rig.send(":REC:WREP:OPER RUN")
    rig.until(":REC:WREP:OPER?", "STOP")
    assert rig.ask(":REC:WREP:FCUR?") == "2"
    rig.send(":REC:WREP:NEXT")
    assert rig.ask(":REC:WREP:FCUR?") == "3"
    rig.send(":REC:WREP:MODE REP;OPER RUN")
    assert rig.ask(":REC:WREP:OPER?") == "RUN"
    rig.send(":REC:WREP:FCUR 3")
    assert rig.ask(":REC:WREP:OPER?") == "STOP"
    assert rig.ask(":REC:WREP:FCUR?") == "3"


def test_with_the_trap_a_frame_is_read_only_once_it_is_loaded(make):
    """libsigrok pull request 71: the data stayed those of another frame until :WAVeform:RESet or :BEGin."""
    rig = make(frame_trap=True)
    rig.set_up(":WAV:SOUR CHAN1;STOP 10000")
    rig.record(2)
    rig.pulses(5e-3, 11e-3)
    rig.until(":REC:WREC:OPER?", "STOP")
    last_v = mean_v(rig, 2)
    assert mean_v(rig, 1) == pytest.approx(last_v)
    rig.send(":WAV:BEG")
    assert last_v - mean_v(rig, 1) == pytest.approx(R_OHM * 6e-3, rel=0.02)
    assert rig.errors() == []


# --- the link -------------------------------------------------------------------------------------------------------


def test_a_second_client_waits_until_the_first_has_left(rig):
    other = rig.connect()
    other.write(b"*IDN?\n")
    other.flush()
    assert rig.ask("*IDN?").startswith("RIGOL")
    assert rig.ask(":SYST:RAM?") == "4"
    assert not any(rig.said("*CLS"))
    rig.client.close()
    assert other.readline().startswith(b"RIGOL")
    other.close()


def test_a_lost_arm_and_a_stuck_frame_are_faults_of_the_link(rig):
    rig.set_up()
    rig.server.fault.set({"profile": "lost-arm"})
    for message in (
        ":SING", ":SINGle", ":RUN", ":TRIG:SWE SING", ":TRIGger:SWEep SINGle", ":REC:WREC:ENAB 1", ":REC:WREC:OPER RUN",
        ":RECord:WRECord:OPERate RUN", ":RECord:STARt ON",
    ):  # fmt: skip
        rig.send(message)
    assert rig.ask(":TRIG:STAT?") == "STOP"
    rig.server.fault.set({})
    rig.record(2)
    rig.pulses(BUSY_A, BUSY_A)
    rig.until(":REC:WREC:OPER?", "STOP")
    rig.server.fault.set({"profile": "stuck-index"})
    for message in (":REC:WREP:FCUR 1", ":RECord:WREPlay:FCURrent 1", ":REC:CURR 1", ":RECord:CURRent 1"):
        rig.send(message)
    assert rig.ask(":REC:WREP:FCUR?") == "2"
    rig.server.fault.set({})
    rig.send(":REC:WREP:FCUR 1")
    assert rig.ask(":REC:WREP:FCUR?") == "1"


# --- errors, and the bench ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("division_v", "gain_ratio", "setting_ratio"),
    [(0.5, 0.01, 0.01), (0.2, 0.01, 0.015), (10e-3, 0.01, 0.015), (5e-3, 0.02, 0.015), (500e-6, 0.04, 0.015)],
)
def test_gain_and_offset_fill_the_limits_of_the_data_sheet(division_v, gain_ratio, setting_ratio):
    """At 500 uV/div full scale counts as 8 mV (note 4): 2 % of it are 4 % of what is seen."""
    setup = ChannelSetup(1, 8 * division_v, 0.3, 1.0, False)
    fronts = [FrontEnd(seed, "shunt", setup, INPUTS) for seed in range(400)]
    for draws, limit in (
        ([f.gain_ratio for f in fronts], gain_ratio),
        ([f.offset_error_v for f in fronts], 0.1 * division_v + 2e-3 + setting_ratio * 0.3),
    ):
        assert 0.95 * limit < np.abs(draws).max() <= limit * (1 + 1e-12)


def test_the_time_base_fills_25_ppm():
    draws = np.array([SampleClock(seed, family=INPUTS).error_ratio for seed in range(400)])
    assert 0.95 * 25e-6 < np.abs(draws).max() <= 25e-6


def test_the_page_of_error_terms_has_what_is_drawn():
    assert INPUTS.gain_ratios == ((5e-3, 0.02), (math.inf, 0.01))
    assert "| channel gain | 1 % of full scale above 5 mV/div, 2 % up to it" in PAGE
    assert INPUTS.offset_setting_ratios == ((0.2, 0.015), (math.inf, 0.01))
    assert "| channel offset | 0.1 div + 2 mV + 1.5 % of the offset setting up to 200 mV/div, 1 % above" in PAGE
    assert INPUTS.timebase_ratio == 25e-6
    assert "| time base | 25 ppm" in PAGE
    assert (INPUTS.noise_limited, INPUTS.noise_full) == ((50e-6, 0.005), (100e-6, 0.008))
    assert "| 50 µV + 0.5 % of a division, rms; 100 µV + 0.8 % without the limit |" in PAGE


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"model": "dho900"}, ValueError, "model 'dho900' is not one of infiniivision, dho800"),
        ({"model": "dho800", "slowness": -1}, ValueError, "slowness -1"),
        ({"model": "dho800", "slowness": True}, ValueError, "slowness True"),
        ({"model": "dho800", "ready_s": "1"}, ValueError, "ready_s '1'"),
        ({"model": "dho800", "frame_trap": 1}, TypeError, "frame_trap 1"),
    ],
)
def test_the_bench_refuses_options_that_do_not_fit(options, error, text):
    world = World(Circuit(R_OHM, V_V, 4.7e-6, 0.0, CLOCK_HZ, 3.3))
    with pytest.raises(error, match=text):
        scopes.build(options, world, 1, 0, {})
    world.close()


@pytest.mark.parametrize("transport", ["socket", "hislip", "vxi11"])
def test_it_is_served_over_each_transport(transport):
    world = World(Circuit(R_OHM, V_V, 4.7e-6, 0.0, CLOCK_HZ, 3.3))
    scope = scopes.build({"model": "dho800"}, world, 1, 0, {})
    server = scopes.serve({"transport": transport}, scope)
    assert server.resource.startswith("TCPIP::127.0.0.1")
    assert server.instrument is scope
    server.close()
    world.close()
