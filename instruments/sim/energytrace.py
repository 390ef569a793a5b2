"""TI EnergyTrace as its open command-line recorders print it: lines of text, about a thousand a second.

From: carrotIndustries energytrace-util, energytrace.c (an event is time in us, current in nA, voltage in mV and an
energy counter of 32 bits, which is printed as s, A, V and 1e-7 J), derf dfatool (the four numbers as they come, a
counter that wraps), TI's page on EnergyTrace (accuracy 2 % and 500 nA to 25 mA, 5 % to 75 mA; not verified against it).

Modelled, each with its source:

- The probe is the DUT's supply. What it delivers is counted in charge pulses of its converter, each `PULSE_J` of
  energy: from 2 to 4 new values a second below 50 uA (energytrace-util issue 6) at 3.3 V. An assumption.
- The current column is what the pulses since the last one that came carried; it stays where none came.
- Gain of the counter: one draw for each of the two spans of current; an offset in current, one draw.
- Voltage as the probe sets it, within `VOLTAGE_LIMIT_RATIO`, in whole millivolts. Clock: assumed limit.
- What the counter counts is not the same in all tools: `unit_j` says it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from instruments.sim.circuit import draw
from instruments.sim.follow import Follower, MeterClock, pace_of
from instruments.sim.server import is_gone
from instruments.sim.world import World

DT_S = 1e-3
PULSE_J = 50e-6
UNIT_J = 1e-7
GAIN_LIMIT_RATIO, GAIN_LIMIT_HIGH_RATIO, HIGH_FROM_A = 0.02, 0.05, 25e-3
OFFSET_LIMIT_A = 500e-9
VOLTAGE_LIMIT_RATIO = 0.01
TIMEBASE_LIMIT_RATIO = 100e-6
FORMATS = ("counts", "si")
COUNTER_BITS = 32
# What `et` prints: the counter in units of 0.1 uJ, whatever it counts.
SI_UNIT_J = 1e-7


class EnergyTrace:
    """Serve recordings: who connects gets lines until it leaves. `serve` is for `server.Server`.

    Options: `unit_j` of one count, `counter_start` (near the wrap, say), `format`: "counts" for whole numbers in us,
    nA, mV and counts, or "si" for s, A, V and J. Raises ValueError or TypeError for options that do not fit.
    """

    def __init__(
        self, world: Callable[[], World], seed: int, options: Mapping[str, Any], *, stream: int = 0
    ) -> None:
        self.unit_j = float(options.get("unit_j", UNIT_J))
        self.counter_start = int(options.get("counter_start", 0))
        self.format = options.get("format", "counts")
        if not 1e-12 <= self.unit_j <= 1e-3:
            raise ValueError(f"meter: unit_j {self.unit_j!r} is out of range")
        if not 0 <= self.counter_start < 1 << COUNTER_BITS:
            raise ValueError(f"meter: counter_start {self.counter_start!r} is not a number of {COUNTER_BITS} bits")
        if self.format not in FORMATS:
            raise ValueError(f"meter: format {self.format!r} is not one of {', '.join(FORMATS)}")
        self._pace = pace_of(options)
        self._world, self._seed, self._stream = world, seed, stream
        self._n_recordings = 0
        self._closed = threading.Event()
        self.gain_ratio = GAIN_LIMIT_RATIO * draw(seed, "energytrace", "gain")
        self.gain_high_ratio = GAIN_LIMIT_HIGH_RATIO * draw(seed, "energytrace", "gain", "high")
        self.offset_a = OFFSET_LIMIT_A * draw(seed, "energytrace", "offset")
        self.voltage_ratio = VOLTAGE_LIMIT_RATIO * draw(seed, "energytrace", "voltage")

    def close(self) -> None:
        """End every recording."""
        self._closed.set()

    def serve(self, connection: socket.socket) -> None:
        """Record for one client until it leaves."""
        number, self._n_recordings = self._n_recordings, self._n_recordings + 1
        stop = threading.Event()
        follower = Follower(self._world(), self._pace, stop)
        try:
            self._record(follower, number, connection)
        finally:
            follower.close()

    def _record(self, follower: Follower, number: int, connection: socket.socket) -> None:
        world = self._world()
        clock = MeterClock(TIMEBASE_LIMIT_RATIO, self._seed, self._stream, number)
        step_s = clock.true_s(DT_S)
        t0_s = clock.first_tick_s(follower.start_s, DT_S)
        pulses = _Pulses(round(world.circuit.supply_v * (1.0 + self.voltage_ratio) * 1e3))
        while not self._closed.is_set():
            next_s = t0_s + pulses.n_records * step_s
            seen_s = follower.follow(next_s + max(follower.step_s, step_s), next_s - step_s)
            n = int((seen_s - t0_s) / step_s) - pulses.n_records
            if n <= 0:
                if is_gone(connection):
                    return
                continue
            current_a = world.mean_current(t0_s, step_s, n, pulses.n_records)
            gain = np.where(current_a > HIGH_FROM_A, self.gain_high_ratio, self.gain_ratio)
            shown_a = np.maximum(current_a * (1.0 + gain) + self.offset_a, 0.0)
            connection.sendall(self._lines(*pulses.count(shown_a * world.circuit.supply_v * step_s), pulses.millivolts))

    def _lines(self, microseconds: np.ndarray, nanoamperes: np.ndarray, energy_j: np.ndarray, millivolts: int) -> bytes:
        counter = np.rint(energy_j / self.unit_j).astype(np.int64) + self.counter_start
        counter &= (1 << COUNTER_BITS) - 1
        rows = zip(microseconds.tolist(), nanoamperes.tolist(), counter.tolist(), strict=True)
        if self.format == "counts":
            text = [f"{t} {i} {millivolts} {e}\n" for t, i, e in rows]
        else:
            text = [f"{t / 1e6:e} {i / 1e9:e} {millivolts / 1e3:e} {e * SI_UNIT_J:e}\n" for t, i, e in rows]
        return "".join(text).encode("ascii")


class _Pulses:
    """Count energy in whole pulses, a record after the other."""

    def __init__(self, millivolts: int) -> None:
        self.millivolts = millivolts
        self.n_records = 0
        self._energy_j = 0.0
        self._n_pulses = 0
        self._last_record = 0
        self._nanoamperes = 0

    def count(self, energy_j: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return time in us, current in nA and energy of whole pulses in joule after each of the records' energies."""
        record = self.n_records + 1 + np.arange(len(energy_j))
        total_j = self._energy_j + np.cumsum(energy_j)
        n_pulses = np.floor(total_j / PULSE_J).astype(np.int64)
        came = np.flatnonzero(np.diff(n_pulses, prepend=self._n_pulses))
        nanoamperes = np.full(len(record), self._nanoamperes, np.int64)
        if len(came):
            at, count = record[came], n_pulses[came]
            carried_j = PULSE_J * np.diff(count, prepend=self._n_pulses)
            since_s = DT_S * np.diff(at, prepend=self._last_record)
            values = np.rint(carried_j / since_s / (self.millivolts * 1e-3) * 1e9).astype(np.int64)
            place = np.searchsorted(at, record, side="right")
            nanoamperes = np.concatenate(([self._nanoamperes], values))[place]
            self._last_record, self._nanoamperes = int(at[-1]), int(values[-1])
        self.n_records += len(record)
        self._energy_j, self._n_pulses = float(total_j[-1]), int(n_pulses[-1])
        return np.rint(record * DT_S * 1e6).astype(np.int64), nanoamperes, n_pulses * PULSE_J
