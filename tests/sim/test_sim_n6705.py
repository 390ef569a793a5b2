"""The emulated N6705C against its manuals: intervals by traces, triggers, logs, file image, known currents."""

import struct
import time

import numpy as np
import pytest

from instruments.sim import n6705_rules as rules
from instruments.sim.circuit import Circuit
from instruments.sim.n6705 import N6705
from instruments.sim.n6705_module import CURRENT, VOLTAGE, Module
from instruments.sim.n6705_view import Wiring
from instruments.sim.world import World

CLOCK_HZ = 24e6
V_V = 3.3
QUIET_A, BUSY_A = 4e-3, 10e-3
DEADLINE_S = 20.0


class Rig:
    """The mainframe and a scripted DUT on one world, no sockets."""

    def __init__(self, seed=1, pace=1000.0, **wiring):
        self.world = World(Circuit(0.0, V_V, 0.0, 0.0, CLOCK_HZ, 3.3))
        self.world.parked(0, QUIET_A)
        self.cycle, self.on, self.levels = 0, True, []
        self.meter = N6705(
            lambda: self.world, seed, power=self.power, is_on=lambda: self.on, regulate=self.levels.append,
            level_v=V_V, pace=pace, wiring=Wiring(**wiring),
        )  # fmt: skip

    def power(self, on):
        self.on = on
        self.world.parked(self.cycle, QUIET_A if on else 0.0)

    def ask(self, message):
        """Return the answer without its LF, bytes where there is a block, or None for silence."""
        parts = self.meter.execute(message)
        data = b"".join(bytes(p) if not isinstance(p, str) else p.encode("latin-1") for p in parts)
        if not data:
            return None
        assert data.endswith(b"\n")
        return data[:-1] if data.startswith(b"#") else data[:-1].decode("ascii")

    def errors(self):
        codes = []
        while (entry := self.ask(":SYST:ERR?")) != '+0,"No error"':
            codes.append(int(entry.split(",")[0]))
        return codes

    def do(self, message):
        assert self.ask(message) is None
        assert self.errors() == []

    def run(self, *pieces):
        for n_cycles, current_a, level in pieces:
            self.world.pin(self.cycle, level)
            self.cycle += n_cycles
            self.world.current(np.array([self.cycle], np.uint64), np.array([current_a], np.float32))
        self.world.pin(self.cycle, 0)
        self.world.parked(self.cycle, QUIET_A)

    def pulses(self, n, high_cycles, low_cycles):
        self.run((low_cycles, QUIET_A, 0), *([(high_cycles, BUSY_A, 1), (low_cycles, QUIET_A, 0)] * n))

    def condition(self, n=1):
        return int(self.ask(f"STAT:OPER:COND? (@{n})"))

    def until(self, holds):
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def until_filled(self, span_s):
        """Wait for the part before the trigger; a steady line that nobody held began anew with the acquisition."""
        self.until(lambda: self.world.end_s >= 0.999 * span_s)

    def array(self, kind, n=1):
        return unblock(self.ask(f"FETC:ARR:{kind}? (@{n})"))


def unblock(data):
    """Read one block by the letter of IEEE 488.2: #, number of digits, length; big-endian floats."""
    n_digits = int(data[1:2])
    assert int(data[2 : 2 + n_digits]) == len(data) - 2 - n_digits
    return np.frombuffer(data[2 + n_digits :], ">f4").astype(float)


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.meter.close()


def no_errors(rig):
    """Take gain and offset errors away, so that closed forms hold up to noise."""
    for module in rig.meter.frame.modules.values():
        for kind in module.gain:
            module.gain[kind][:] = module.offset[kind][:] = 0.0


# --- intervals, by hand from the guide ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked_us", "n", "resolution", "granted_us"),
    [
        (5.12, 1, "RES20", 5.12),
        (5.12, 2, "RES20", 10.24),
        (5.12, 3, "RES20", 20.48),
        (5.12, 4, "RES20", 20.48),
        (5.12, 1, "RES40", 40.96),
        (10.0, 1, "RES20", 10.24),
        (10.24, 2, "RES20", 10.24),
        (14.0, 2, "RES20", 10.24),
        (20.0, 2, "RES20", 20.48),
        (50.0, 1, "RES20", 40.96),
        (100.0, 1, "RES20", 102.4),
        (100.0, 1, "RES40", 81.92),
        (1000.0, 4, "RES20", 1003.52),
    ],
)
def test_scope_interval_by_number_of_traces(asked_us, n, resolution, granted_us):
    assert rules.scope_interval(asked_us * 1e-6, n, resolution) == pytest.approx(granted_us * 1e-6, rel=1e-9)


@pytest.mark.parametrize(
    ("asked_us", "n_values", "resolution", "granted_us"),
    [
        (20.48, 1, "RES20", 20.48),
        (20.48, 3, "RES20", 61.44),
        (20.48, 6, "RES20", 122.88),
        (100.0, 1, "RES20", 102.4),
        (20.48, 1, "RES40", 40.96),
        (20.48, 3, "RES40", 81.92),
    ],
)
def test_log_period_by_number_of_values(asked_us, n_values, resolution, granted_us):
    granted_s = rules.log_period(asked_us * 1e-6, 10.0, n_values, resolution)
    assert granted_s == pytest.approx(granted_us * 1e-6, rel=1e-9)


def test_a_log_that_would_not_fit_into_a_file_gets_a_longer_period():
    """Ten hours of two values of four bytes in 2e9 bytes: 144 us, 7.03 steps of 20.48 us, so eight of them."""
    assert rules.log_period(20.48e-6, 36_000.0, 2, "RES20") == pytest.approx(163.84e-6, rel=1e-9)


def test_external_log_period():
    assert rules.elog_period(1e-6, 1, "RES20") == pytest.approx(102.4e-6, rel=1e-9)
    assert rules.elog_period(1e-6, 2, "RES20") == pytest.approx(204.8e-6, rel=1e-9)
    assert rules.elog_period(1e-3, 1, "RES20") == pytest.approx(1003.52e-6, rel=1e-9)


def test_read_back_counts_every_trace_of_every_output(rig):
    """After power-on the voltage of both outputs is a trace: with the current of one there are three."""
    rig.do("SENS:FUNC:CURR ON,(@1);:SENS:SWE:TINT 5.12E-6,(@1)")
    assert float(rig.ask("SENS:SWE:TINT? (@1)")) == pytest.approx(20.48e-6)
    rig.do("SENS:FUNC:VOLT OFF,(@2)")
    assert float(rig.ask("SENS:SWE:TINT? (@1)")) == pytest.approx(10.24e-6)
    rig.do("SENS:FUNC:VOLT OFF,(@1)")
    assert float(rig.ask("SENS:SWE:TINT? (@1)")) == pytest.approx(5.12e-6)
    rig.do("SENS:SWE:TINT:RES RES40")
    assert float(rig.ask("SENS:SWE:TINT? (@1)")) == pytest.approx(40.96e-6)


def test_every_output_logs_its_voltage_after_power_on(rig):
    rig.do("SENS:DLOG:FUNC:CURR ON,(@1);:SENS:DLOG:PER 20.48E-6")
    assert float(rig.ask("SENS:DLOG:PER?")) == pytest.approx(61.44e-6)
    rig.do("SENS:DLOG:FUNC:VOLT OFF,(@1,2)")
    assert float(rig.ask("SENS:DLOG:PER?")) == pytest.approx(20.48e-6)
    rig.do("SENS:DLOG:FUNC:MINM ON")
    assert float(rig.ask("SENS:DLOG:PER?")) == pytest.approx(61.44e-6)


# --- dialect --------------------------------------------------------------------------------------------------------


def test_who_it_is(rig):
    assert rig.ask("*IDN?").split(",")[:2] == ["Keysight Technologies", "N6705C"]
    assert rig.ask("SYST:CHAN?") == "2"
    assert rig.ask("SYST:CHAN:MOD? (@1,2)") == "N6781A,N6781A"
    assert rig.ask("SYST:CHAN:MOD? (@1:2)") == "N6781A,N6781A"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("SENS:FUNC:POW ON,(@1)", -113),
        ("OUTP ON", -109),
        ("OUTP ON,(@3)", -222),
        ("OUTP (@1)", -109),
        ("OUTP 1,2,(@1)", -108),
        ("VOLT 25,(@1)", -222),
        ("VOLT 1V,(@1)", -131),
        ("VOLT x,(@1)", -104),
        ("SENS:CURR:RANG 4,(@1)", -222),
        ("SENS:SWE:TINT 1E-6,(@1)", -222),
        ("SENS:SWE:POIN 600000,(@1)", -222),
        ("SENS:DLOG:PER 1E-6", -222),
        ("SENS:ELOG:PER 50E-6,(@1)", -222),
        ("TRIG:ACQ:SOUR PIN8,(@1)", -141),
        ("DIG:PIN8:FUNC TINP", -113),
        ("FETC:ARR:CURR? (@1)", -230),
        ("FETC:ELOG? 10,(@1)", -230),
        ('MMEM:DATA? "internal:\\none.dlog"', -256),
        ("MMEM:DATA? none", -104),
        ('INIT:DLOG "internal:\\x.txt"', -257),
        ("*IDN", -113),
        ("STAT:OPER:COND?", -109),
    ],
)
def test_what_it_refuses(rig, message, code):
    assert rig.ask(message) is None
    assert rig.errors() == [code]


def test_settings_are_read_back(rig):
    for header, sent, read in (
        ("SENS:CURR:RANG", "0.05", 0.1),
        ("SENS:CURR:RANG", "0.0005", 1e-3),
        ("SENS:VOLT:RANG", "3.3", 20.0),
        ("SENS:SWE:POIN", "4096", 4096),
        ("SENS:SWE:OFFS:POIN", "-100", -100),
        ("VOLT:PROT:REM", "4", 4.0),
        ("CURR:LIM", "0.2", 0.2),
        ("SENS:CURR:RANG:AUTO", "ON", 1),
        ("TRIG:ACQ:VOLT", "1.65", 1.65),
    ):
        rig.do(f"{header} {sent},(@1,2)")
        assert [float(word) for word in rig.ask(f"{header}? (@1,2)").split(",")] == [read, read]
    rig.do("FUNC VOLT,(@1);:SENS:CURR:CCOM OFF,(@1);:FORM REAL;:FORM:BORD SWAP")
    assert rig.ask("FORM:BORD?") == "SWAP"
    rig.do("*RST")
    assert rig.ask("FORM?") == "ASC"


def test_output_one_is_the_supply(rig):
    assert rig.ask("OUTP? (@1,2)") == "1,0"
    rig.do("OUTP OFF,(@1)")
    assert not rig.on
    assert rig.condition() == 4
    rig.do("VOLT 1.8,(@1);:OUTP ON,(@1)")
    assert rig.on
    assert rig.levels[-1] == 1.8
    assert rig.condition() == 1
    rig.do("EMUL PS4Q,(@1)")  # another mode turns the output off
    assert not rig.on
    rig.do("OUTP ON,(@1)")
    rig.do("*RST")
    assert not rig.on
    rig.do("OUTP ON,(@1)")  # at 0 V nothing runs
    assert rig.ask("OUTP? (@1)") == "1"
    assert not rig.on


def test_a_dut_that_does_not_switch_is_an_execution_error(rig):
    def stuck(on):
        raise OSError("stuck")

    rig.meter._power = stuck
    rig.ask("OUTP OFF,(@1)")
    assert rig.errors() == [-200]


# --- scope view -----------------------------------------------------------------------------------------------------

CURRENT_ONLY = "FORM REAL;:SENS:FUNC:VOLT OFF,(@1,2);:SENS:FUNC:CURR ON,(@1);:SENS:CURR:RANG 0.1,(@1)"
WITH_PIN = "FORM REAL;:EMUL VMET,(@2);:SENS:FUNC:VOLT OFF,(@1);:SENS:FUNC:CURR ON,(@1);:SENS:CURR:RANG 0.1,(@1)"


def test_a_rectangle_of_current_after_the_edge_of_a_pin(rig):
    """10 mA for 1 ms: 10 uC, seen in samples of 10.24 us that are means, with the window's edges in output 2."""
    no_errors(rig)
    rig.do(f"{WITH_PIN};:SENS:SWE:TINT 10.24E-6,(@1,2);:SENS:SWE:POIN 400,(@1,2);:SENS:SWE:OFFS:POIN -100,(@1,2)")
    rig.do("DIG:PIN1:FUNC TINP;POL POS;:TRIG:ACQ:SOUR PIN1,(@1,2)")
    rig.do("INIT:ACQ (@1,2)")
    assert rig.condition(1) == 1 + 8
    assert rig.condition(2) == 4 + 8
    rig.until_filled(101 * 10.24e-6)
    rig.pulses(1, 24_000, 48_000)
    current_a, pin_v = rig.array("CURR"), rig.array("VOLT", 2)
    assert rig.condition(1) == 1
    assert len(current_a) == len(pin_v) == 400
    # Sample 100 ends at the first tick after the trigger: it and no earlier one has a part of the window.
    assert abs(current_a[90:100].mean() - QUIET_A) < 5 * 13.5e-6
    window = pin_v > 1.65
    assert 97 <= window.sum() <= 99  # 97.66 intervals
    assert np.flatnonzero(window)[0] in (100, 101)
    charge_c = (current_a - QUIET_A).sum() * 10.24e-6 * (1 + 50e-6)
    noise_c = 13.5e-6 * 0.76 * 400**0.5 * 10.24e-6
    assert charge_c == pytest.approx((BUSY_A - QUIET_A) * 1e-3, abs=5 * noise_c)
    assert (pin_v.sum() * 10.24e-6) == pytest.approx(3.3e-3, abs=5 * 2.3e-3 * 20 * 10.24e-6 + 3.3e-3 * 1e-4)


def test_a_trigger_before_the_part_before_it_is_full_is_ignored_and_it_waits_on():
    rig = Rig(pace=0.01)  # a second of pre-trigger lasts long
    rig.do(f"{CURRENT_ONLY};:SENS:SWE:TINT 1E-3,(@1);:SENS:SWE:POIN 2000,(@1);:SENS:SWE:OFFS:POIN -100,(@1)")
    rig.do("TRIG:ACQ:SOUR BUS,(@1);:INIT:ACQ (@1);*TRG")
    rig.run((24_000, QUIET_A, 0), (24_000, BUSY_A, 1), (24_000, QUIET_A, 0))
    assert rig.condition() == 1 + 8
    rig.run((24_000_000, QUIET_A, 0))  # the DUT runs: the line goes on for a second
    rig.until(lambda: rig.world.end_s > 0.9)
    time.sleep(0.1)
    assert rig.condition() == 1 + 8  # full by now, and the trigger that came before is forgotten
    rig.until(lambda: rig.ask("*TRG") is None and rig.condition() == 1 + 32)
    rig.do("ABOR:ACQ (@1)")
    assert rig.condition() == 1
    assert rig.ask("FETC:ARR:CURR? (@1)") is None
    assert rig.errors() == [-230]
    rig.meter.close()


def start(rig, source, pieces, offset=-20):
    """Arm for a source, with the part before the trigger full, and play pieces."""
    rig.do(f"{CURRENT_ONLY};:SENS:SWE:TINT 5.12E-6,(@1);:SENS:SWE:POIN 200,(@1);:SENS:SWE:OFFS:POIN {offset},(@1)")
    rig.do(f"TRIG:ACQ:SOUR {source},(@1)")
    rig.do("INIT:ACQ (@1)")
    rig.until_filled((1 - offset) * 5.12e-6)
    rig.run(*pieces)


def acquire(rig, source, *pieces, **options):
    """Trigger on a source while pieces are played; return the current."""
    start(rig, source, pieces, **options)
    return rig.array("CURR")


def ignores(rig, source, *pieces):
    """Tell whether pieces are played and it still waits."""
    start(rig, source, pieces)
    time.sleep(0.05)
    waits = bool(rig.condition() & 8)
    rig.do("ABOR:ACQ (@1)")
    return waits


LOW, HIGH = (24_000, QUIET_A, 0), (2400, BUSY_A, 1)


def test_the_bnc_input_is_low_true(rig):
    """Idle at low it waits; the window's end, a falling edge, triggers: there the current falls."""
    current_a = acquire(rig, "EXT", LOW, HIGH, LOW)
    assert current_a[5:19].mean() == pytest.approx(BUSY_A, abs=1e-4)
    assert current_a[22:].mean() == pytest.approx(QUIET_A, abs=1e-4)


def test_an_inverter_before_the_bnc_makes_it_the_windows_start():
    rig = Rig(bnc_inverted=True)
    current_a = acquire(rig, "EXT", LOW, HIGH, LOW)
    assert current_a[5:19].mean() == pytest.approx(QUIET_A, abs=1e-4)
    assert current_a[22:38].mean() == pytest.approx(BUSY_A, abs=1e-4)
    rig.meter.close()


@pytest.mark.parametrize(("n_cycles", "triggers"), [(47, False), (49, True)])
def test_pulses_shorter_than_two_microseconds_are_not_seen(n_cycles, triggers):
    """48 cycles of 24 MHz are 2 us."""
    rig = Rig(bnc_inverted=True)
    pieces = LOW, (n_cycles, BUSY_A, 1), LOW
    if triggers:
        assert len(acquire(rig, "EXT", *pieces)) == 200
    else:
        assert ignores(rig, "EXT", *pieces)
    rig.meter.close()


def test_a_pin_has_a_polarity_and_must_be_a_trigger_input(rig):
    rig.ask("TRIG:ACQ:SOUR PIN1,(@1);:INIT:ACQ (@1)")
    assert rig.errors() == [-221]
    rig.do("DIG:PIN1:FUNC TINP;POL NEG")
    current_a = acquire(rig, "PIN1", LOW, HIGH, LOW)
    assert current_a[22:].mean() == pytest.approx(QUIET_A, abs=1e-4)
    rig.do("DIG:PIN1:POL POS")
    assert acquire(rig, "PIN1", LOW, HIGH, LOW)[22:38].mean() == pytest.approx(BUSY_A, abs=1e-4)
    rig.do("DIG:PIN2:FUNC TINP")  # nothing is led there
    assert ignores(rig, "PIN2", LOW, HIGH, LOW)


def test_levels_of_voltage_and_current_trigger(rig):
    rig.do("TRIG:ACQ:VOLT 1.65,(@2);:TRIG:ACQ:VOLT:SLOP POS,(@2)")
    rig.do("TRIG:ACQ:CURR 0.007,(@1);:TRIG:ACQ:CURR:SLOP NEG,(@1)")
    assert acquire(rig, "VOLT2", LOW, HIGH, LOW)[22:38].mean() == pytest.approx(BUSY_A, abs=1e-4)
    assert acquire(rig, "CURR1", LOW, HIGH, LOW)[22:].mean() == pytest.approx(QUIET_A, abs=1e-4)
    rig.do("TRIG:ACQ:VOLT 5,(@2)")
    assert ignores(rig, "VOLT2", LOW, HIGH, LOW)


def test_immediate_and_bus(rig):
    assert len(acquire(rig, "IMM", offset=0)) == 200
    rig.do(f"{CURRENT_ONLY};:TRIG:ACQ:SOUR BUS,(@1);:SENS:SWE:OFFS:POIN 0,(@1)")
    rig.do("INIT:ACQ (@1)")
    rig.ask("INIT:ACQ (@1)")
    assert rig.errors() == [-213]
    rig.until(lambda: rig.ask("*TRG") is None and not rig.condition() & 8)
    assert len(rig.array("CURR")) == 200


def test_the_seed_decides_every_bit_of_an_acquisition_and_the_pace_none():
    records = []
    for seed, pace in ((1, 1000), (1, 0.2), (2, 1000)):
        rig = Rig(seed, pace)
        rig.do(f"{WITH_PIN};:SENS:SWE:TINT 10.24E-6,(@1,2);:SENS:SWE:POIN 3000,(@1,2)")
        rig.do("DIG:PIN1:FUNC TINP;:TRIG:ACQ:SOUR PIN1,(@1,2);:INIT:ACQ (@1,2)")
        rig.until_filled(10.24e-6)
        rig.run(LOW, HIGH, LOW)
        records.append([rig.array("CURR"), rig.array("VOLT", 2)])
        rig.meter.close()
    assert np.array_equal(records[0], records[1])
    assert not np.array_equal(records[0], records[2])


def test_byte_order_and_text(rig):
    acquire(rig, "IMM", offset=0)
    values = rig.array("CURR")
    rig.do("FORM:BORD SWAP")
    data = rig.ask("FETC:ARR:CURR? (@1)")
    assert data[:5] == b"#3800"
    assert struct.unpack("<f", data[5:9])[0] == pytest.approx(values[0])
    rig.do("FORM ASC")
    words = rig.ask("FETC:ARR:CURR? (@1)").split(",")
    assert [float(word) for word in words] == pytest.approx(values.tolist(), rel=1e-6)


def test_ranges(rig):
    """Beyond its range a reading is 9.91E37; seamless ranging holds 10 mA in 0.1 A and 50 uA in 1 mA."""
    rig.do("SENS:CURR:RANG 1E-3,(@1)")
    assert float(rig.ask("MEAS:CURR? (@1)")) == pytest.approx(9.91e37, rel=1e-6)
    module = Module(5, 1)
    quiet = np.random.default_rng(0)
    for true, k in ((10e-3, 2), (50e-6, 1), (5e-6, 0), (1.0, 3)):
        n = 20_000
        read = module.read("CURR", np.full(n, true), 5.12e-6, None, quiet)
        expected = true * (1 + module.gain["CURR"][k]) + module.offset["CURR"][k]
        assert read.mean() == pytest.approx(expected, abs=5 * CURRENT[k].noise_rms / n**0.5)
        assert read.std() == pytest.approx(CURRENT[k].noise_rms, rel=0.05)


def test_meter_readings_lie_within_the_accuracy(rig):
    rig.do("SENS:CURR:RANG 0.1,(@1)")
    assert float(rig.ask("MEAS:CURR? (@1)")) == pytest.approx(QUIET_A, abs=0.25e-3 * QUIET_A + 10e-6 + 3e-6)
    assert float(rig.ask("MEAS:VOLT? (@1)")) == pytest.approx(V_V, abs=0.25e-3 * V_V + 1.2e-3 + 0.5e-3)
    rig.do("OUTP OFF,(@1)")
    assert float(rig.ask("MEAS:VOLT? (@1)")) == pytest.approx(0.0, abs=1.2e-3 + 0.5e-3)


def test_draws_stay_inside_their_limits():
    modules = [Module(seed, 1) for seed in range(200)]
    for kind, ranges in (("CURR", CURRENT), ("VOLT", VOLTAGE)):
        gains = np.abs([m.gain[kind] for m in modules]) / [r.gain_ratio for r in ranges]
        offsets = np.abs([m.offset[kind] for m in modules]) / [r.offset for r in ranges]
        for draws in (gains, offsets):
            assert 0.95 < draws.max() <= 1


# --- logs -----------------------------------------------------------------------------------------------------------


def read_dlog(image, n_columns):
    """Take a file apart by the letter of its description, with nothing of the simulator's."""
    head, _, rest = image.partition(b"</dlog>\n")
    tint_s = float(head.split(b"<tint>")[1].split(b"</tint>")[0])
    return head.decode("ascii"), tint_s, np.frombuffer(rest[8:], ">f4").reshape(-1, n_columns).astype(float)


def test_a_log_holds_the_energy_of_a_rectangle(rig):
    no_errors(rig)
    rig.do("SENS:DLOG:FUNC:CURR ON,(@1);:SENS:DLOG:FUNC:VOLT OFF,(@2);:SENS:DLOG:CURR:RANG 0.1,(@1)")
    rig.do("SENS:DLOG:TIME 0.2;PER 40.96E-6;OFFS 10;:TRIG:DLOG:SOUR CURR1;:TRIG:DLOG:CURR 0.007,(@1)")
    rig.do('INIT:DLOG "internal:\\e.dlog"')
    rig.until_filled(0.02)
    rig.pulses(1, 480_000, 240_000)  # 20 ms at 10 mA: 0.66 mJ, of which 0.396 mJ above the floor
    rig.until(lambda: not rig.condition() & (8 | 32))
    data = rig.ask('MMEM:DATA? "internal:\\e.dlog"')
    image = data[2 + int(data[1:2]) :]
    assert len(image) == int(data[2 : 2 + int(data[1:2])])
    assert rig.ask('MMEM:ATTR? "internal:\\e.dlog","FileSize"') == f'"{len(image)}"'
    head, tint_s, records = read_dlog(image, 2)
    assert tint_s == pytest.approx(40.96e-6, rel=1e-9)
    assert len(records) == 4883  # 0.2 s / 40.96 us
    for text in ('<channel id="1">', "<model>N6781A</model>", "<time>0.2</time>", "<sense_minmax>0</sense_minmax>"):
        assert text in head
    assert head.count("<sense_volt>1</sense_volt>") == head.count("<sense_curr>1</sense_curr>") == 1
    volts, amperes = records.T
    assert volts.mean() == pytest.approx(V_V, abs=1e-4)
    energy_j = (volts * (amperes - QUIET_A)).sum() * tint_s
    assert energy_j == pytest.approx(0.396e-3, rel=1e-4, abs=5 * 3.3 * 5.9e-6 * 4883**0.5 * tint_s)
    # A tenth lies before the trigger.
    assert np.flatnonzero(amperes > 7e-3)[0] in (488, 489)
    rig.do('MMEM:DEL "internal:\\e.dlog"')
    assert rig.ask('MMEM:ATTR? "internal:\\e.dlog","FileSize"') is None
    assert rig.errors() == [-256]


def test_extremes_in_a_log(rig):
    """A period of 61.44 us in which 10 mA flow for 20.48 us: mean 6 mA, minimum 4 mA, maximum 10 mA."""
    no_errors(rig)
    rig.do("SENS:DLOG:FUNC:CURR ON,(@1);:SENS:DLOG:FUNC:VOLT OFF,(@1,2);:SENS:DLOG:FUNC:MINM ON")
    rig.do("SENS:DLOG:CURR:RANG 0.1,(@1);:SENS:DLOG:TIME 0.02;PER 20.48E-6")
    rig.do('TRIG:DLOG:SOUR CURR1;:TRIG:DLOG:CURR 0.007,(@1);:INIT:DLOG "internal:\\a.dlog"')
    rig.until_filled(61.44e-6)
    # 492 of 1474 cycles are 20.5 us in 61.42 us.
    rig.run((2400, QUIET_A, 0), *([(492, BUSY_A, 1), (982, QUIET_A, 0)] * 400))
    rig.until(lambda: not rig.condition() & (8 | 32))
    data = rig.ask('MMEM:DATA? "internal:\\a.dlog"')
    _, tint_s, records = read_dlog(data, 3)
    assert tint_s == pytest.approx(61.44e-6, rel=1e-9)
    busy = records[records[:, 0] > 5e-3]
    assert len(busy) > 50
    assert busy[:, 0].mean() == pytest.approx(QUIET_A + 6e-3 * 492 / 1474, abs=2e-5)
    assert (busy[:, 1] < QUIET_A + 1e-4).all()
    # Up to four of twelve sub-samples lie wholly inside, but never fewer than three.
    assert busy[:, 2].mean() == pytest.approx(BUSY_A, abs=5e-5)


def test_a_log_takes_the_converters_of_all_outputs(rig):
    rig.do('TRIG:DLOG:SOUR BUS;:INIT:DLOG "internal:\\b.dlog"')
    assert rig.condition(1) & 8
    assert rig.ask('MMEM:DATA? "internal:\\b.dlog"') is None
    rig.ask("INIT:ACQ (@1)")
    rig.ask("INIT:ELOG (@1)")
    rig.ask('INIT:DLOG "internal:\\c.dlog"')
    assert rig.errors() == [-221, -221, -221, -213]
    rig.do("ABOR:DLOG")
    _, _, records = read_dlog(rig.ask('MMEM:DATA? "internal:\\b.dlog"'), 2)
    assert len(records) == 0


def test_the_external_log_hands_out_current_and_then_voltage(rig):
    no_errors(rig)
    rig.do("FORM REAL;:SENS:ELOG:FUNC:CURR ON,(@1);:SENS:ELOG:FUNC:CURR:MINM ON,(@1);:SENS:ELOG:CURR:RANG 0.1,(@1)")
    rig.do("SENS:ELOG:PER 1E-3,(@1)")
    assert float(rig.ask("SENS:ELOG:PER? (@1)")) == pytest.approx(1003.52e-6)
    rig.do("TRIG:ELOG:SOUR BUS,(@1);:INIT:ELOG (@1)")
    assert rig.condition() & 8
    rig.until(lambda: rig.ask("TRIG:ELOG (@1)") is None and not rig.condition() & 8)
    found = np.empty((0, 4))
    while len(found) < 200:
        part = unblock(rig.ask("FETC:ELOG? 64,(@1)")).reshape(-1, 4)
        assert len(part) <= 64
        found = np.concatenate([found, part])
    rig.do("ABOR:ELOG (@1)")
    mean, low, high, volts = found.T
    assert mean.mean() == pytest.approx(QUIET_A, abs=5e-6)
    assert (low < mean).all()
    assert (high > mean).all()
    assert volts.mean() == pytest.approx(V_V, abs=1e-3)


def test_an_external_log_that_nobody_drains_keeps_twenty_seconds(rig):
    rig.do("FORM REAL;:SENS:ELOG:FUNC:VOLT OFF,(@1);:SENS:ELOG:FUNC:CURR ON,(@1);:SENS:ELOG:PER 0.1,(@1)")
    rig.do("TRIG:ELOG:SOUR IMM,(@1);:INIT:ELOG (@1)")
    rig.until(lambda: rig.world.end_s > 40.0)
    rig.do("ABOR:ELOG (@1)")
    # 20 s of 4883 x 20.48 us = 0.10000384 s.
    assert len(unblock(rig.ask("FETC:ELOG? 100000,(@1)"))) == 200
    assert rig.ask("FETC:ELOG? 100000,(@1)") == b"#10"
