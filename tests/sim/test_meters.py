"""The meters of the emulated bench on what they answer on: one DUT, and all must tell the same energy."""

import contextlib
import os
import socket
import time

import numpy as np
import pytest
import serial

from instruments.sim import meters
from instruments.sim.bench import Bench

CLOCK_HZ = 24_000_000
V_V, QUIET_A, BUSY_A, WINDOW_S = 3.3, 4e-3, 12e-3, 0.05
CONFIG = {
    "board": {"clock_hz": CLOCK_HZ, "pins": {"level_v": 3.3}},
    "elf": "none",
    "seed": 5,
    "shunt": {"resistance_ohm": 0.0, "tolerance_ratio": 0.0},
    "supply": {"voltage_v": V_V, "tolerance_ratio": 0.01},
    "decoupling": {"capacitance_f": 4.7e-6, "tolerance_ratio": 0.2},
    "crystal": {"tolerance_ratio": 50e-6},
    "wiring": {"shunt_channel": 1, "trigger_channel": 2},
}
DEADLINE_S = 30.0


class Dut:
    """Draws a floor, and on each byte more for the time of one window, with quiet around it."""

    def __init__(self, world):
        self.world, self.on, self.cycle = world, False, 0
        world.parked(0, 0.0)

    def power(self, on):
        self.on = on
        self.world.parked(self.cycle, QUIET_A if on else 0.0)

    def uart_write(self, data):
        for n_s, current_a, level in ((0.02, QUIET_A, 0), (WINDOW_S, BUSY_A, 1), (0.02, QUIET_A, 0)):
            self.world.pin(self.cycle, level)
            self.cycle += round(n_s * CLOCK_HZ)
            self.world.current(np.array([self.cycle], np.uint64), np.array([current_a], np.float32))
        self.world.parked(self.cycle, QUIET_A)

    def set_faults(self, faults):
        pass

    def status(self):
        return {"engine": "parked" if self.on else "off", "fault": ""}

    def close(self):
        self.on = False


@contextlib.contextmanager
def bench(**meter):
    duts = []

    def make(config, world, on_uart):
        duts.append(Dut(world))
        return duts[0]

    made = Bench({**CONFIG, "meter": {"pace": 1000, **meter}}, make)
    try:
        made._booted.wait(10.0)
        made.world.windows()
        yield made, duts[0], made.addresses()["meter"]
    finally:
        made.close()


def truth(made):
    """Return (energy, duration) of the one window."""
    (window,) = made.world.windows()
    assert window["energy_dut_j"] == window["energy_supply_j"]
    return window["energy_dut_j"], window["duration_s"]


class Scpi:
    """A socket that is read to the end of a line or of a block."""

    def __init__(self, address):
        host, port = address.split("::")[1:3]
        self.socket = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
        self.file = self.socket.makefile("rb")

    def ask(self, message):
        self.socket.sendall(message.encode() + b"\n")
        return self.file.readline().strip().decode()

    def block(self, message):
        self.socket.sendall(message.encode() + b"\n")
        n_digits = int(self.file.read(2)[1:])
        data = self.file.read(int(self.file.read(n_digits)))
        assert self.file.read(1) == b"\n"
        return np.frombuffer(data, ">f4").astype(float)

    def close(self):
        self.file.close()
        self.socket.close()


def test_n6705_tells_the_energy_of_a_window():
    with bench(kind="n6705") as (made, dut, address), contextlib.closing(Scpi(address)) as scpi:
        scpi.ask("FORM REAL;:EMUL VMET,(@2);:SENS:FUNC:CURR ON,(@1);:SENS:CURR:RANG 0.1,(@1);*ESR?")
        scpi.ask("SENS:SWE:TINT 20.48E-6,(@1,2);:SENS:SWE:POIN 5000,(@1,2);:SENS:SWE:OFFS:POIN -500,(@1,2);*ESR?")
        scpi.ask("DIG:PIN1:FUNC TINP;POL POS;:TRIG:ACQ:SOUR PIN1,(@1,2);:INIT:ACQ (@1,2);*ESR?")
        assert scpi.ask("SYST:ERR?") == '+0,"No error"'
        deadline = time.monotonic() + DEADLINE_S
        while made.world.end_s < 501 * 20.48e-6:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        dut.uart_write(b"x")
        current_a, volts, pin_v = (
            scpi.block(f"FETC:ARR:{what}") for what in ("CURR? (@1)", "VOLT? (@1)", "VOLT? (@2)")
        )
        energy_j, duration_s = truth(made)
    high = pin_v > 1.65
    assert high.sum() * 20.48e-6 == pytest.approx(duration_s, abs=2 * 20.48e-6)
    told_j = (current_a * volts)[high].sum() * 20.48e-6
    # 0.025 % and 10 uA of 12 mA, 0.025 % and 1.2 mV of 3.3 V, 50 ppm, an interval at each end.
    limit = 0.25e-3 + 10e-6 / BUSY_A + 0.25e-3 + 1.2e-3 / V_V + 50e-6 + 2 * 20.48e-6 / WINDOW_S
    assert told_j == pytest.approx(energy_j, rel=limit)


def ppk2_metadata(port):
    port.write(b"\x19")
    text = port.read_until(b"END").decode("ascii")
    return {k.lower(): float(v) for k, v in (line.split(": ") for line in text.split("\n")[:-1])}


def test_ppk2_tells_the_energy_of_a_window():
    with bench(kind="ppk2", pace=20) as (made, dut, address), serial.Serial(address, timeout=DEADLINE_S) as port:
        m = ppk2_metadata(port)
        port.write(b"\x06")
        data = port.read(40_000)
        dut.uart_write(b"x")
        # Every fourth byte holds D0: until it was seen, and 1000 words of quiet after it.
        while not any(data[3:-4000:4]) or any(data[len(data) // 4 * 4 - 3997 :: 4]):
            data += port.read(8000)
        port.write(b"\x07")
        energy_j, duration_s = truth(made)
    raw = np.frombuffer(data, "<u4")
    assert np.array_equal(np.diff(raw >> 18 & 63) & 63, np.ones(len(raw) - 1))
    k = raw >> 14 & 7

    def constant(name):
        return np.array([m[f"{name}{n}"] for n in range(5)])[k]

    r = ((raw & 0x3FFF) * 4.0 - constant("o")) * (1.8 / 163840 / constant("r"))
    current_a = constant("ug") * (r * (constant("gs") * r + constant("gi")) + constant("s") * V_V + constant("i"))
    high = raw >> 24 & 1 == 1
    assert high.sum() * 10e-6 == pytest.approx(duration_s, abs=11e-6 + 50e-6 * WINDOW_S)
    told_j = current_a[high].sum() * 10e-6 * made.world.circuit.supply_v
    limit = 0.02 + 47e-6 / BUSY_A + 50e-6 + 20e-6 / WINDOW_S + 1e-3
    assert told_j == pytest.approx(energy_j, rel=limit)


def test_energytrace_tells_the_energy_of_a_window_above_the_floor():
    with bench(kind="energytrace", pace=5) as (made, dut, address):
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as link, link.makefile("rb") as file:
            lines = [file.readline()]
            dut.uart_write(b"x")
            lines += [file.readline() for _ in range(2000)]
        energy_j, duration_s = truth(made)
    rows = np.array([[int(word) for word in line.split()] for line in lines])
    counted_j = (rows[-1, 3] - rows[0, 3]) * 1e-7
    supply_v = made.world.circuit.supply_v
    floor_w = QUIET_A * supply_v
    above_j = energy_j - floor_w * duration_s
    total_j = above_j + floor_w * 2.0
    assert counted_j == pytest.approx(total_j, rel=0.02 + 100e-6, abs=2 * 50e-6 + 500e-9 * supply_v * 2.0)


def test_the_level_that_is_set_has_the_supplys_own_error():
    with bench(kind="n6705") as (made, dut, address), contextlib.closing(Scpi(address)) as scpi:
        off_ratio = made.world.circuit.supply_v / V_V
        assert 1e-4 < abs(off_ratio - 1) <= 0.01
        assert scpi.ask("VOLT 1.8,(@1);:VOLT? (@1)") == "1.80000000E+00"
        assert made.world.circuit.supply_v == pytest.approx(1.8 * off_ratio)
        assert scpi.ask("OUTP OFF,(@1);*OPC?") == "1"
        assert not dut.on


def test_an_unplugged_profiler_comes_back_under_its_name():
    with bench(kind="ppk2") as (made, _, address):
        made.set_faults({"meter": {"unplug_after_bytes": 100}})
        with serial.Serial(address, timeout=DEADLINE_S) as port:
            port.write(b"\x19")
            with pytest.raises(serial.SerialException):
                port.read(10_000)
        assert not os.path.exists(address)
        made.set_faults({"meter": {}})
        with serial.Serial(address, timeout=DEADLINE_S) as port:
            assert ppk2_metadata(port)["vdd"] == 3300.0


@pytest.mark.parametrize(
    ("meter", "error", "text"),
    [
        ({"kind": "dmm"}, ValueError, "kind 'dmm' is not one of n6705, ppk2, energytrace"),
        ({}, ValueError, "kind None"),
        ("ppk2", TypeError, "not one JSON object"),
        ({"kind": "n6705", "pin": 8}, ValueError, "pin 8"),
        ({"kind": "n6705", "bnc_inverted": 1}, TypeError, "bnc_inverted 1"),
        ({"kind": "ppk2", "pace": 0}, ValueError, "pace 0"),
        ({"kind": "energytrace", "format": "xml"}, ValueError, "format 'xml'"),
    ],
)
def test_what_a_meter_cannot_be(meter, error, text):
    with pytest.raises(error, match=text):
        meters.build(meter, None, 1, 0, meters.Supply(lambda on: None, lambda: True, lambda v: None, V_V))
