"""The emulated PPK2 against the published conversion, worked by hand, and against known currents."""

import struct
import threading
import time

import numpy as np
import pytest

from instruments.sim.circuit import Circuit
from instruments.sim.ppk2 import Ppk2, Unit, words
from instruments.sim.world import World

CLOCK_HZ = 24e6
V_V = 3.3
DEADLINE_S = 20.0


class Rig:
    """A unit and a scripted DUT on one world; what the unit sends is gathered."""

    def __init__(self, seed=3, pace=50.0):
        self.world = World(Circuit(0.0, V_V, 4.7e-6, 0.0, CLOCK_HZ, 3.3))
        self.world.parked(0, 4e-3)
        self.cycle, self.on, self.levels, self.unplugged = 0, True, [], []
        self.data, self.lock = bytearray(), threading.Lock()
        self.unit = Ppk2(
            lambda: self.world, seed, self.put, power=self.power, is_on=lambda: self.on, regulate=self.levels.append,
            level_v=V_V, pace=pace, unplug=self.unplugged.append,
        )  # fmt: skip

    def put(self, data):
        with self.lock:
            self.data += data

    def power(self, on):
        self.on = on
        self.world.parked(self.cycle, 4e-3 if on else 0.0)

    def run(self, *pieces):
        for n_cycles, current_a, level in pieces:
            self.world.pin(self.cycle, level)
            self.cycle += n_cycles
            self.world.current(np.array([self.cycle], np.uint64), np.array([current_a], np.float32))
        self.world.pin(self.cycle, 0)
        self.world.parked(self.cycle, 4e-3 if self.on else 0.0)

    def until(self, n_bytes):
        deadline = time.monotonic() + DEADLINE_S
        while len(self.data) < n_bytes:
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def record(self, *pieces, after=20_000):
        """Stream over the pieces and `after` words of quiet; return the words."""
        self.unit.receive(b"\x06")
        self.until(4000)
        self.run(*pieces)
        self.until(len(self.data) + 4 * after)
        self.unit.receive(b"\x07")
        return np.frombuffer(bytes(self.data[: len(self.data) // 4 * 4]), "<u4")


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.unit.close()


def by_hand():
    """A unit whose constants make the arithmetic easy: one of the conversion's units is 10 uA everywhere."""
    unit = Unit(1)
    for name, value in (("resistor_ohm", 1.0986328125), ("square_gain", 1.0), ("gain", 1.0), ("zero", 0.0)):
        setattr(unit, name, np.full(5, value))
    for name in ("supply_part", "current_part", "gain_error", "offset_a"):
        setattr(unit, name, np.zeros(5))
    return unit


def test_the_published_conversion_worked_by_hand():
    """Code 1000 counts 4000 units of 10 uA: r = 0.04 and I = r (r + 1) = 41.6 mA, in the range up to 60 mA."""
    unit = by_hand()
    codes, ranges = unit.codes(np.array([41.6e-3, 0.0]), 3.3, np.zeros(2))
    assert codes.tolist() == [1000, 0]
    assert ranges.tolist() == [3, 0]


def test_every_constant_has_its_part_worked_by_hand():
    """41.6 mA of the first term, 0.01 A/V at 2 V, 5 mA: 66.6 mA; a zero of 80 units is 20 codes; 1 % more is shown."""
    unit = by_hand()
    unit.supply_part[:], unit.current_part[:], unit.zero[:], unit.gain_error[:] = 0.01, 0.005, 80.0, 0.01
    codes, ranges = unit.codes(np.array([66.6e-3 / 1.01]), 2.0, np.zeros(1))
    assert codes.tolist() == [1020]
    assert ranges.tolist() == [4]
    unit.offset_a[:] = 66.6e-3  # and with nothing flowing, an offset of as much is read in the finest range
    unit.gain_error[:] = 0.0
    assert unit.codes(np.zeros(1), 2.0, np.zeros(1))[0].tolist() == [1020]


def test_a_word_by_hand():
    """Code 0x1234 | range 2 in bit 14 | counter 62, 63, 0 in bit 18 | D0 in bit 24: bytes written out."""
    made = words(np.full(3, 0x1234, np.uint32), np.full(3, 2, np.uint32), 62, np.array([0, 1, 1]))
    assert made == bytes.fromhex("3492f800 3492fc01 34920001")


def test_ranges_follow_the_current():
    limits = [20e-6, 200e-6, 2e-3, 20e-3, 200e-3, 20e-3]
    _, ranges = Unit(4).codes(np.array(limits), 3.3, np.zeros(6))
    assert ranges.tolist() == [0, 1, 2, 3, 4, 3]


def test_metadata_is_text_that_ends_in_END(rig):
    rig.unit.receive(b"\x19")
    lines = bytes(rig.data).decode("ascii").split("\n")
    assert lines[-1] == "END"
    values = dict(line.split(": ") for line in lines[:-1])
    for k, ohm in enumerate((1031.64, 101.65, 10.15, 0.94, 0.043)):
        assert float(values[f"R{k}"]) == pytest.approx(ohm, rel=0.02)
        assert values[f"UG{k}"] == "1.00"
        assert {f"{name}{k}" for name in ("GS", "GI", "O", "S", "I")} <= set(values)
    assert values["VDD"] == "3300"


def test_metadata_slow_and_with_nan(rig):
    rig.unit.set_faults({"metadata_nan": True, "metadata_s": 0.01})
    rig.unit.receive(b"\x19")
    assert b"\nR4: -nan\n" in rig.data


def published(raw, metadata, supply_v):
    """Nordic's conversion, from its text: the constants by name, the fields by bit."""
    m = {k.lower(): float(v) for k, v in (line.split(": ") for line in metadata.split("\n")[:-1])}
    k = raw >> 14 & 7

    def constant(name):
        return np.array([m[f"{name}{n}"] for n in range(5)])[k]

    r = ((raw & 0x3FFF) * 4.0 - constant("o")) * (1.8 / 163840 / constant("r"))
    first = r * (constant("gs") * r + constant("gi"))
    return constant("ug") * (first + constant("s") * supply_v + constant("i"))


def test_a_rectangle_of_current_has_its_charge_between_the_edges_of_d0(rig):
    """10 mA for 20 ms on a floor of 4 mA: 200 uC above nothing, less what the unit's own errors make of it."""
    raw = rig.record((240_000, 4e-3, 0), (480_000, 10e-3, 1), (240_000, 4e-3, 0))
    assert np.array_equal((raw >> 18 & 63)[1:], ((raw >> 18 & 63)[:-1] + 1) % 64)
    high = (raw >> 24 & 1) == 1
    assert np.array_equal(raw >> 25, np.zeros(len(raw)))
    assert abs(high.sum() - 2000) <= 1
    current_a = published(raw, rig.unit.metadata(), V_V)
    unit = rig.unit.unit
    shown_a = 10e-3 * (1 + unit.gain_error[3]) + unit.offset_a[3]
    # One step of the converter is 47 uA; 2000 of them average.
    inside = np.flatnonzero(high)[2:-2]
    assert current_a[inside].mean() == pytest.approx(shown_a, abs=5 * 47e-6 / 2000**0.5)
    assert current_a[high].sum() * 10e-6 == pytest.approx(200e-6, rel=0.02 + 47e-6 / 10e-3 + 1e-3)
    quiet = current_a[np.flatnonzero(high)[-1] + 3 :]
    floor_a = 4e-3 * (1 + unit.gain_error[2]) + unit.offset_a[2]
    assert quiet.mean() == pytest.approx(floor_a, abs=5 * 4.4e-6 / len(quiet) ** 0.5)


def test_power_level_mode_gain_and_reset(rig):
    rig.unit.receive(bytes([0x11, 2, 0x0C, 0]))
    assert not rig.on
    rig.unit.receive(bytes([0x0C, 1]))
    assert rig.on
    # 1800 mV: 1000 more than 800, and 32 are 1032 = 4 x 256 + 8.
    rig.unit.receive(bytes([0x0D, 3 + 4, 8]))
    assert rig.levels[-1] == pytest.approx(1.8)
    rig.unit.receive(bytes([0x0D, 40, 0]))  # 10 V: out of range, ignored
    assert rig.levels[-1] == pytest.approx(1.8)
    rig.unit.receive(bytes([0x25, 3]) + struct.pack("<f", 1.5))
    rig.unit.receive(b"\x19")
    assert b"VDD: 1800\n" in rig.data
    assert b"UG3: 1.50\n" in rig.data
    n_levels = len(rig.levels)
    rig.unit.receive(bytes([0x11, 1, 0x0D, 7, 9]))  # as an ammeter it has no say in the supply
    assert len(rig.levels) == n_levels
    rig.unit.receive(b"\x20")
    assert not rig.on


def test_a_dut_without_supply_draws_nothing(rig):
    rig.unit.receive(bytes([0x0C, 0]))
    raw = rig.record(after=5000)
    current_a = published(raw[-4000:], rig.unit.metadata(), V_V)
    assert np.array_equal(raw[-4000:] >> 14 & 7, np.zeros(4000))
    assert abs(current_a.mean()) < 2 * 42.6e-9


def test_a_command_in_pieces_and_bytes_that_are_none(rig):
    for byte in b"\xee\x0c":
        rig.unit.receive(bytes([byte]))
    assert rig.on
    rig.unit.receive(b"\x00")
    assert not rig.on


def test_lost_and_repeated_bytes_and_packets(rig):
    rig.unit.set_faults({"serial_loss": 1.0})
    rig.unit.receive(b"\x19")
    assert not rig.data
    rig.unit.set_faults({"serial_repeat": 1.0})
    rig.unit.receive(b"\x19")
    assert bytes(rig.data[::2]) == bytes(rig.data[1::2]) == rig.unit.metadata().encode()
    rig.data.clear()
    rig.unit.set_faults({"packet_loss": 0.1})
    raw = rig.record(after=50_000)
    # Packets are whole words: every step of the counter is one more than a whole number of 16 lost.
    steps = np.diff((raw >> 18 & 63).astype(int)) % 64
    assert set(np.unique(steps)) <= {1, 17, 33, 49}
    # One packet in ten is lost; neighbours that are lost together make one step.
    assert (steps != 1).sum() == pytest.approx(0.09 * len(raw) / 14.4, rel=0.2)


def test_unplugged_after_so_many_bytes_and_stale_bytes(rig):
    rig.unit.set_faults({"unplug_after_bytes": 10, "replug_after_s": 0.5})
    rig.unit.receive(b"\x19")
    assert rig.unplugged == [0.5]
    assert bytes(rig.data[:10]) == rig.unit.metadata().encode()[:10]
    rig.data.clear()
    rig.unit.set_faults({"stale_bytes": 37})
    rig.unit.receive(b"\x19")
    assert bytes(rig.data[37:]) == rig.unit.metadata().encode()


def test_a_fault_that_nothing_has_is_refused(rig):
    with pytest.raises(ValueError, match="'typo' is not one of"):
        rig.unit.set_faults({"typo": 1})
    with pytest.raises(ValueError, match="serial_loss"):
        rig.unit.set_faults({"serial_loss": -0.1})


def test_draws_stay_inside_their_limits():
    units = [Unit(seed) for seed in range(200)]
    gains = np.array([u.gain_error for u in units]) / 0.02
    offsets = np.array([u.offset_a / u.step_a for u in units])
    for draws in (gains, offsets):
        assert 0.95 < np.abs(draws).max() <= 1
