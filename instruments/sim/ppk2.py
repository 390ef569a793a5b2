"""Nordic Power Profiler Kit II behind a serial port: commands, metadata, words at 100 kS/s.

From: Nordic pc-nrfconnect-ppk, src/constants.ts and src/device/serialDevice.ts (commands, fields of a word, conversion,
resistors that hold where the metadata has none), and a unit's metadata as printed in Nordic DevZone thread 92921.

Modelled, each with its source:

- A word holds the mean current over the 10 us that end with it (a filter before the converter: assumed) and the level
  of D0..D7 at its end. D0 is the DUT's trigger pin, the other inputs lie at low.
- Five ranges, each used up to `RANGE_MAX_A` (labels of Nordic's app: not verified), chosen anew for every word.
- The converter reads what the published conversion, with the constants in the unit's metadata, turns into the current;
  on top of it a gain error, an offset and noise for each range. Limits of all three and of the clock: not verified
  against Nordic's user guide.
- The unit's settings and the DUT's supply outlive an unplugged port (one that the computer alone supplies would not).
- What a client does not fetch waits, and so does the unit: words are lost where a fault says so, never by themselves.
"""

from __future__ import annotations

import contextlib
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from instruments.sim.circuit import draw, of_stream
from instruments.sim.follow import Follower, MeterClock
from instruments.sim.serial_faults import SerialFaults
from instruments.sim.world import World

DT_S = 10e-6
# Volts at a range's resistor for one of the published conversion's units; a code counts four of them.
UNIT_V = 1.8 / 163840
UNITS_PER_CODE = 4
CODE_MAX = 0x3FFF
RESISTORS_OHM = (1031.64, 101.65, 10.15, 0.94, 0.043)
RANGE_MAX_A = (50e-6, 500e-6, 5e-3, 60e-3, 1.0)
# A usual unit's constants: gain for the square, gain, supply's part in ampere a volt.
SQUARE_GAINS = (1.0, 138.3582, 21.5994, 3.0130, 0.0876)
GAINS = (1.0, 0.9614, 0.9534, 0.9415, 0.9521)
SUPPLY_PARTS = (-9e-9, -64e-9, -512e-9, -4.891e-6, 2.447326e-3)
GAIN_LIMIT_RATIO = 0.02
# Offset and noise in steps of the converter.
OFFSET_LIMIT_CODES = 1.0
NOISE_RMS_CODES = 0.7
TIMEBASE_LIMIT_RATIO = 50e-6
MILLIVOLTS_MIN, MILLIVOLTS_MAX = 800, 5000

START, STOP, POWER, REGULATOR, MODE = 0x06, 0x07, 0x0C, 0x0D, 0x11
FILTER_ON, FILTER_OFF, METADATA, RESET, USER_GAIN = 0x15, 0x16, 0x19, 0x20, 0x25
ARGUMENT_BYTES = {POWER: 1, REGULATOR: 2, MODE: 1, USER_GAIN: 5}
MODE_AMPERE, MODE_SOURCE = 1, 2


class Unit:
    """One unit's constants, as its metadata prints them, and the errors that it knows nothing of."""

    def __init__(self, seed: int) -> None:
        def near(value: float, ratio: float, digits: int, name: str, k: int) -> float:
            return round(value * (1.0 + ratio * draw(seed, "ppk2", name, k)), digits)

        def each(values: tuple[float, ...], ratio: float, digits: int, name: str) -> np.ndarray:
            return np.array([near(value, ratio, digits, name, k) for k, value in enumerate(values)])

        self.resistor_ohm = each(RESISTORS_OHM, 0.01, 4, "R")
        self.square_gain = each(SQUARE_GAINS, 0.1, 4, "GS")
        self.gain = each(GAINS, 0.01, 4, "GI")
        self.zero = each((90.0,) * 5, 0.2, 4, "O")
        self.supply_part = each(SUPPLY_PARTS, 0.1, 9, "S")
        self.current_part = each(tuple(-3.3 * part for part in SUPPLY_PARTS), 0.1, 9, "I")
        self.gain_error = GAIN_LIMIT_RATIO * np.array([draw(seed, "ppk2", "gain error", k) for k in range(5)])
        self.offset_a = self.step_a * OFFSET_LIMIT_CODES * np.array([draw(seed, "ppk2", "offset", k) for k in range(5)])

    @property
    def step_a(self) -> np.ndarray:
        """Return the current of one converter step in each range."""
        return UNITS_PER_CODE * UNIT_V / self.resistor_ohm

    def codes(self, current_a: np.ndarray, supply_v: float, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, ranges), both uint32, for true currents; `noise` is in steps of the converter."""
        k = np.minimum(np.searchsorted(RANGE_MAX_A, current_a), len(RANGE_MAX_A) - 1)
        shown_a = current_a * (1.0 + self.gain_error[k]) + self.offset_a[k]
        # The published conversion solved for its first term: square_gain r^2 + gain r = what is left of the current.
        left_a = shown_a - self.supply_part[k] * supply_v - self.current_part[k]
        root = np.sqrt(np.maximum(self.gain[k] ** 2 + 4.0 * self.square_gain[k] * left_a, 0.0))
        units = (root - self.gain[k]) / (2.0 * self.square_gain[k]) * self.resistor_ohm[k] / UNIT_V + self.zero[k]
        codes = np.rint(units / UNITS_PER_CODE + noise).clip(0, CODE_MAX)
        return codes.astype(np.uint32), k.astype(np.uint32)


def words(codes: np.ndarray, ranges: np.ndarray, first: int, inputs: np.ndarray) -> bytes:
    """Pack words: code in bits 0-13, range in 14-16, counter from `first` in 18-23, inputs in 24-31, little endian."""
    counter = (np.arange(first, first + len(codes)) & 0x3F).astype(np.uint32)
    low, high = codes | ranges << np.uint32(14), counter << np.uint32(18) | inputs.astype(np.uint32) << np.uint32(24)
    return (low | high).astype("<u4").tobytes()


class Ppk2:
    """The instrument: `receive` takes what the client sends; what it says goes out by `send`, which may wait.

    `power` switches the DUT, `is_on` tells whether it has its supply, `regulate` sets the supply's level in volt, at
    first `level_v`. `send` raises OSError where nobody is connected; the unit then stops. `unplug` takes the port away,
    for so long or for good.
    """

    def __init__(
        self,
        world: Callable[[], World],
        seed: int,
        send: Callable[[bytes], None],
        *,
        power: Callable[[bool], None],
        is_on: Callable[[], bool],
        regulate: Callable[[float], None],
        level_v: float,
        pace: float,
        stream: int = 0,
        unplug: Callable[[float | None], None] = lambda _: None,
    ) -> None:
        self.unit = Unit(seed)
        self.mode = MODE_SOURCE
        self._world, self._seed, self._stream, self._pace = world, seed, stream, pace
        self._power, self._is_on, self._regulate = power, is_on, regulate
        self._millivolts = round(level_v * 1e3)
        self._user_gain = [1.0] * 5
        self._metadata: dict[str, Any] = {}
        self._raw_send, self._sending = send, threading.Lock()
        self._faults = SerialFaults({}, seed, unplug)
        self._stale = b""
        self._pending = bytearray()
        self._closed = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._n_streams = 0

    def set_faults(self, faults: Mapping[str, Any]) -> None:
        """Replace the set of faults: those of `SerialFaults`, and `metadata_s` (slow), `metadata_nan`, `stale_bytes`.

        `stale_bytes` lets so many bytes of an earlier recording come before anything else, once a client has spoken.
        Raises ValueError for another.
        """
        own = {name: faults[name] for name in ("metadata_s", "metadata_nan", "stale_bytes") if name in faults}
        self._faults = self._faults.replaced({name: faults[name] for name in faults if name not in own})
        self._metadata = own
        generator = np.random.default_rng([self._seed, zlib.crc32(b"stale")])
        self._stale = generator.integers(0, 256, int(own.get("stale_bytes", 0)), np.uint8).tobytes()

    # --- what the client sends ----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes; obey each command once its last byte is there. A byte that is no command is passed over."""
        if self._stale:
            stale, self._stale = self._stale, b""
            with contextlib.suppress(OSError):
                self._send(stale)
        self._pending += data
        while self._pending:
            command = self._pending[0]
            n = 1 + ARGUMENT_BYTES.get(command, 0)
            if len(self._pending) < n:
                return
            argument = bytes(self._pending[1:n])
            del self._pending[:n]
            self._obey(command, argument)

    def _obey(self, command: int, argument: bytes) -> None:
        if command == START:
            self._start()
        elif command == STOP:
            self.stop()
        elif command == POWER:
            self._switch(bool(argument[0]))
        elif command == REGULATOR:
            # The first byte counts 256 mV from 3 on, the second the rest; together 32 mV more than above the lowest.
            millivolts = (argument[0] - 3) * 256 + argument[1] - 32 + MILLIVOLTS_MIN
            if MILLIVOLTS_MIN <= millivolts <= MILLIVOLTS_MAX:
                self._millivolts = millivolts
                self._apply_level()
        elif command == MODE and argument[0] in (MODE_AMPERE, MODE_SOURCE):
            self.mode = argument[0]
            self._apply_level()
        elif command == METADATA:
            self._send_metadata()
        elif command == USER_GAIN and argument[0] < len(self._user_gain):
            self._user_gain[argument[0]] = struct.unpack("<f", argument[1:])[0]
        elif command == RESET:
            self.stop()
            self._switch(False)

    def _apply_level(self) -> None:
        if self.mode == MODE_SOURCE:
            self._regulate(self._millivolts * 1e-3)

    def _switch(self, on: bool) -> None:
        if on != self._is_on():
            self._power(on)

    # --- what it says -------------------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        with self._sending:
            for part in self._faults.pass_on(data):
                self._raw_send(part)

    def _send_metadata(self) -> None:
        text = self.metadata()
        if self._metadata.get("metadata_nan"):
            text = text.replace(f"R4: {self.unit.resistor_ohm[4]:.4f}", "R4: -nan")
        self._closed.wait(float(self._metadata.get("metadata_s", 0.0)))
        with contextlib.suppress(OSError):  # whoever asked has left
            self._send(text.encode("ascii"))

    def metadata(self) -> str:
        """Return the unit's constants as it prints them."""
        unit = self.unit

        def rows(name: str, values: Iterable[float], digits: int) -> list[str]:
            return [f"{name}{k}: {value:.{digits}f}" for k, value in enumerate(values)]

        text = ["Calibrated: 0", *rows("R", unit.resistor_ohm, 4), *rows("GS", unit.square_gain, 4)]
        text += [*rows("GI", unit.gain, 4), *rows("O", unit.zero, 4)]
        text += [f"VDD: {self._millivolts}", "HW: 54350", f"mode: {self.mode}"]
        text += [*rows("S", unit.supply_part, 9), *rows("I", unit.current_part, 9), *rows("UG", self._user_gain, 2)]
        return "\n".join([*text, "IA: 58", "END"])

    # --- the stream ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.stop()
        self._stop.clear()
        follower = Follower(self._world(), self._pace, self._stop)
        number, self._n_streams = self._n_streams, self._n_streams + 1
        self._thread = threading.Thread(target=self._run, args=(follower, number), name="ppk2", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop a stream; harmless otherwise."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=10.0)
        self._thread = None

    def close(self) -> None:
        """Say nothing any more."""
        self._closed.set()
        self.stop()

    def _run(self, follower: Follower, number: int) -> None:
        try:
            self._record(follower, number)
        except OSError:
            self._stop.set()  # nobody is there any more
        finally:
            follower.close()

    def _record(self, follower: Follower, number: int) -> None:
        world = self._world()
        clock = MeterClock(TIMEBASE_LIMIT_RATIO, self._seed, self._stream, number)
        step_s = clock.true_s(DT_S)
        t0_s = clock.first_tick_s(follower.start_s, DT_S)
        words_noise = [self._seed, zlib.crc32(b"ppk2"), number, *of_stream(self._stream)]
        noise = np.random.Generator(np.random.SFC64(words_noise))
        n_done = 0
        while not self._stop.is_set():
            next_s = t0_s + n_done * step_s
            seen_s = follower.follow(next_s + max(follower.step_s, step_s), next_s - step_s)
            n = int((seen_s - t0_s) / step_s) - n_done
            if n <= 0:
                continue
            current_a = world.mean_current(t0_s, step_s, n, n_done)
            fault = world.trigger_fault
            level_v = world.level(t0_s + step_s, step_s, n, 0.0, fault, n_done)
            inputs = level_v > world.circuit.pin_level_v / 2
            codes, ranges = self.unit.codes(
                current_a, self._millivolts * 1e-3, NOISE_RMS_CODES * noise.standard_normal(n)
            )
            self._send(words(codes, ranges, n_done, inputs))
            n_done += n
