"""The firmware's protocol from the host's side: lines with a checksum both ways (firmware/PROTOCOL.md, version 2).

Every wait is bounded. What is garbled is asked again where asking twice does no harm, and never in a series.
"""

from __future__ import annotations

import difflib
import re
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from labctl.dut_link import BAUD_HZ, DutLink, GarbledLine, describe, frame, unframe
from labctl.errors import ConfigError, DeviceStable, DeviceTransient, Unsupported, WrongOutput
from labctl.expected import expected_output
from labctl.model import DutReport, Operation
from labctl.operations import OF_IMAGE, families, implementations, parts

PROTOCOL_VERSION = "2"
PAUSE_MAX_S = 10.0
# Begins the names of a board's own sleep modes. Over those that stop the core's clock nothing counts cycles.
IDLE_MODE = "idle."
MEMORY_KEYS = ("stack_peak_bytes", "heap_peak_bytes", "heap_held_bytes", "state_bytes", "buffer_bytes")
# A DUT cannot answer while it computes, so a link that dies meanwhile shows only by this silence. Without optimisation
# the known answers of all curves and ciphers need some 100 s at 24 MHz, without a long multiplication even more.
SELF_TEST_TIMEOUT_S = 300.0
PREPARE_TIMEOUT_S = 120.0
_TIMEOUTS_HOLD_AT_HZ = 24e6
_HELLO_INTERVAL_S = 0.5
_ATTEMPTS = 3


class NoMemory(Unsupported):
    """The DUT has too little memory for an operation, so long a message or so many runs."""


@dataclass(frozen=True)
class Ready:
    """What a prepared series will take, foretold by the DUT from its warm-up: one window, and all of it."""

    window_s: float
    series_s: float


class Dut:
    """The device under test behind a serial port (a device name, or a URL such as socket://HOST:PORT).

    `board` is the board that the bench expects; `watch` is called now and then while the DUT is silent, and may raise.
    Raises DeviceTransient, DeviceStable, EnvironmentFault (no permission).
    """

    def __init__(
        self,
        port: str,
        timeout_s: float = 5.0,
        board: str | None = None,
        watch: Callable[[], object] = lambda: None,
    ) -> None:
        self._link = DutLink(port, timeout_s, watch)
        self._board = board
        self._prepared: Operation | None = None
        self._clock_hz: float | None = None
        self._has_counter = self._counts_cycles = True

    @property
    def port(self) -> str:
        """Name of the port, for messages."""
        return self._link.port

    def hello(self) -> dict[str, str]:
        """Get in step with the DUT, whatever state it is in, and check who it is; return what it says of itself."""
        deadline_s = time.monotonic() + self._link.timeout_s
        seen: list[str] = []
        garbled = b""
        while time.monotonic() < deadline_s:
            # The empty line ends whatever half line the DUT may hold.
            self._link.write(b"\n" + frame("hello"))
            attempt_s = min(deadline_s, time.monotonic() + _HELLO_INTERVAL_S)
            while (line := self._link.read_line(attempt_s)) is not None:
                payload = unframe(line)
                if payload is None:
                    garbled = garbled or line
                elif payload.startswith("ok hello "):
                    self._link.drain()
                    return self._check_identity(_pairs(payload))
                elif not payload.startswith("ok boot") and not payload.startswith("err checksum"):
                    seen.append(payload)
        self._no_hello(garbled or bytes(self._link.pending), seen)

    def list_operations(self) -> tuple[str, ...]:
        """List the operations that the firmware knows."""
        data, answer = self._ask("list", "list", self._link.timeout_s)
        if not all(line.startswith("ops ") for line in data):
            raise DeviceTransient(f"{self.port}: the list holds {data!r}, which is no part of one: try again")
        names = tuple(name for line in data for name in line.removeprefix("ops ").split(",") if name)
        if len(names) != _number(_pairs(answer), "n", answer):
            raise DeviceTransient(f"{self.port}: the list came with {len(names)} names, not as {answer!r} says")
        if not names:
            raise _lacks(answer, "names of operations")
        return names

    def self_test(self, operation: Operation | None = None) -> int:
        """Let the DUT check its known answers, all or those behind one operation; return how many were right."""
        self._make_sure_it_listens()
        command = "kat" if operation is None else f"kat op={operation.name}"
        _, answer = self._ask(command, "kat", self._at_clock(SELF_TEST_TIMEOUT_S))
        return _number(_pairs(answer), "passed", answer)

    def prepare(self, operation: Operation, pause_s: float) -> Ready:
        """Make a series ready, warm-up done, with `pause_s` of sleep before and after each window.

        Raises Unsupported for what the firmware cannot do (NoMemory where it has too little for it), ConfigError for
        what no DUT can.
        """
        if not 0 <= pause_s <= PAUSE_MAX_S:
            raise ConfigError(f"a pause of {pause_s} s between runs is not possible: 0 to {PAUSE_MAX_S} s")
        if operation.implementation not in implementations(operation.name):
            computes = " and ".join(implementations(operation.name))
            raise Unsupported(f"the firmware has {operation.name} by {computes}, not by {operation.implementation!r}")
        if self._clock_hz is None:
            self.hello()
        else:
            self._make_sure_it_listens()
        assert self._clock_hz is not None
        self._prepared = None
        asked = {"op": operation.name} | ({} if operation.bytes is None else {"bytes": str(operation.bytes)})
        asked |= {"runs": str(operation.n_runs), "n": str(operation.n_iterations), "pause_us": f"{pause_s * 1e6:.0f}"}
        asked |= {key: value for key, value in parts(operation.variant).items() if key not in OF_IMAGE}
        command = " ".join(["prepare", *(f"{key}={value}" for key, value in asked.items())])
        _, answer = self._ask(command, "ready", self._at_clock(PREPARE_TIMEOUT_S))
        values = _pairs(answer)
        if other := [f"{key}={values.get(key)}" for key, value in asked.items() if values.get(key) != value]:
            raise DeviceStable(
                f"{self.port}: {command!r} was made ready with {' '.join(other)}: flash the firmware of this labctl"
            )
        self._prepared = operation
        window_s = _number(values, "window_us", answer) * 1e-6
        stops_clock = operation.name.startswith(IDLE_MODE) and "window_cycles" not in values
        self._counts_cycles = self._has_counter and not stops_clock
        if self._counts_cycles:
            window_s = _number(values, "window_cycles", answer) / self._clock_hz
        check_s = _number(values, "check_us", answer) * 1e-6
        return Ready(window_s, operation.n_runs * (2 * pause_s + window_s + check_s))

    def release(self) -> None:
        """Start the prepared series; the DUT falls silent until it is done."""
        self._link.write(frame("go"))

    def finish(self, timeout_s: float) -> DutReport:
        """Wait for the end of the series and check its report; `timeout_s` bounds the silence.

        Raises WrongOutput for a wrong output, DeviceTransient for a garbled or missing report or a reset.
        """
        operation = self._prepared
        if operation is None:
            raise DeviceStable(f"{self.port}: a series was to be finished, but none was prepared")
        data, answer = self._answer("go", "done", timeout_s)
        cycles: list[int] = []
        for line in data:
            word, *numbers = line.split() or [""]
            if word != "cycles" or len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
                raise DeviceTransient(f"{self.port}: {'data ' + line!r} is no part of a report: measure again")
            first, *counts = map(int, numbers)
            if first != len(cycles):
                raise DeviceTransient(f"{self.port}: a part of the report is missing before {line!r}: measure again")
            cycles += counts
        values = _pairs(answer)
        if len(cycles) != (operation.n_runs if self._counts_cycles else 0):
            raise DeviceTransient(
                f"{self.port}: {operation.name} told cycles of {len(cycles)} of {operation.n_runs} runs: measure again"
            )
        if _number(values, "runs", answer) != operation.n_runs:
            raise DeviceTransient(f"{self.port}: {answer!r} is not of {operation.n_runs} runs: measure again")
        return DutReport(tuple(cycles), True, self._check_output(operation, values, answer))

    def go(self, timeout_s: float) -> DutReport:
        """Run the prepared series and wait for its report."""
        self.release()
        return self.finish(timeout_s)

    def stack(self) -> dict[str, int]:
        """Return the memory of what was prepared last, by the keys of firmware/PROTOCOL.md (`stack_peak_bytes` …)."""
        _, answer = self._ask("stack", "stack", self._link.timeout_s)
        values = _pairs(answer)
        return {key: _number(values, key, answer) for key in MEMORY_KEYS}

    def manifest(self) -> dict[str, Any]:
        """Return the firmware's build manifest; the sizes (keys ending in _bytes) and the clock as numbers."""
        data, answer = self._ask("manifest", "manifest", self._link.timeout_s)
        lines = [line.removeprefix("manifest ") for line in data]
        if len(lines) != _number(_pairs(answer), "keys", answer):
            raise DeviceTransient(f"{self.port}: the manifest came with {len(lines)} lines, not as {answer!r} says")
        return parse_manifest(lines)

    def close(self) -> None:
        """Let go of the port."""
        self._link.close()

    def _check_identity(self, said: dict[str, str]) -> dict[str, str]:
        missing = {"proto", "board", "clock_hz", "clock", "counter", "build"} - said.keys()
        if missing or said["proto"] != PROTOCOL_VERSION:
            raise DeviceStable(
                f"{self.port}: the firmware speaks protocol version {said.get('proto', 'unknown')}, labctl speaks "
                f"{PROTOCOL_VERSION}: flash the firmware of this version of labctl"
            )
        if self._board is not None and said["board"] != self._board:
            raise DeviceStable(
                f"{self.port} has firmware for {said['board']}, but the bench names {self._board}: flash the right "
                "firmware, or correct [dut] board in the bench file (or --board)"
            )
        if said["clock"] != "crystal":
            raise DeviceStable(
                f"{self.port}: the crystal (or the clock from outside) of {said['board']} did not start; it runs at "
                f"about {said['clock_hz']} Hz from its internal oscillator, too inaccurate to measure: check the "
                "crystal and its solder bridges"
            )
        clock_hz = _number(said, "clock_hz", "hello")
        if clock_hz == 0:
            raise DeviceStable(
                f"{self.port}: the firmware says that its clock stands still (clock_hz=0): flash it again"
            )
        self._clock_hz = float(clock_hz)
        self._has_counter = said["counter"] != "none"
        return said

    def _check_output(self, operation: Operation, values: dict[str, str], answer: str) -> int:
        if values.get("check") != "pass":
            raise WrongOutput(
                f"{operation.name} gave a wrong result on the DUT (run {values.get('bad_run', 'unknown')}): nothing "
                "was measured; check supply, clock and the firmware's build"
            )
        crc_text = values.get("crc32", "")
        if not re.fullmatch("[0-9A-F]{8}", crc_text):
            raise DeviceTransient(f"{self.port}: the report {answer!r} has no checksum of the output: measure again")
        output = expected_output(operation)
        if output is not None and zlib.crc32(output * operation.n_runs) != int(crc_text, 16):
            raise WrongOutput(
                f"{operation.name}: the DUT calls its output right, but its checksum {crc_text} is not the one "
                "computed here: firmware and labctl do not belong together, or the DUT computes wrongly"
            )
        return int(crc_text, 16)

    def _make_sure_it_listens(self) -> None:
        """Find out in seconds that nobody is there, before a silence that would have to be taken for work."""
        self._ask("hello", "hello", self._link.timeout_s)

    def _at_clock(self, timeout_s: float) -> float:
        """Lengthen a time-out for a clock slower than that which it was chosen for."""
        return timeout_s * max(1.0, _TIMEOUTS_HOLD_AT_HZ / (self._clock_hz or _TIMEOUTS_HOLD_AT_HZ))

    def _ask(self, command: str, verb: str, timeout_s: float) -> tuple[list[str], str]:
        """Send a command that may be sent twice, and return its data lines and its answer."""
        for attempt in range(_ATTEMPTS):
            self._link.write(frame(command) if attempt == 0 else b"\n" + frame(command))
            try:
                return self._answer(command, verb, timeout_s)
            except GarbledLine:
                if attempt == _ATTEMPTS - 1:
                    raise
                self._link.drain()
        raise AssertionError("unreachable")

    def _answer(self, command: str, verb: str, timeout_s: float) -> tuple[list[str], str]:
        data: list[str] = []
        silence_s = timeout_s
        deadline_s = time.monotonic() + silence_s
        while True:
            line = self._link.read_line(deadline_s)
            if line is None:
                self._silence(command, silence_s, len(data))
            payload = unframe(line)
            if payload is None:
                raise GarbledLine(f"{self.port}: the answer to {command!r} is {describe(line)}: check cable and ground")
            if payload.startswith("ok boot"):
                raise DeviceTransient(
                    f"{self.port}: the DUT was reset in the middle of {command!r}: check its supply and its reset "
                    "line, then measure again"
                )
            if payload.startswith("err "):
                self._refused(command, payload)
            if payload == "data" or payload.startswith("data "):
                data.append(payload.removeprefix("data").removeprefix(" "))
                # Only the silence of a series is long: its lines follow one another.
                silence_s = self._link.timeout_s
                deadline_s = time.monotonic() + silence_s
            elif payload.startswith(f"ok {verb}"):
                return data, payload
            elif not payload.startswith("ok hello"):
                raise DeviceStable(f"{self.port}: {command!r} was answered by {payload!r}, which the protocol forbids")

    def _refused(self, command: str, payload: str) -> NoReturn:
        code, _, text = payload.removeprefix("err ").partition(" ")
        if code in ("checksum", "length"):
            raise GarbledLine(f"{self.port}: {command!r} reached the DUT garbled, {_ATTEMPTS} times: check the cable")
        if code == "operation":
            raise unknown_operation(self._board or "the DUT", text, self.list_operations())
        if code in ("range", "unsupported"):
            raise Unsupported(f"the DUT refuses: {text}")
        if code == "memory":
            raise NoMemory(f"the DUT refuses: {text}")
        if code == "argument":
            raise ConfigError(f"the DUT refuses: {text} (it was sent {command!r})")
        if code == "kat":
            raise WrongOutput(f"the DUT fails its self-test and is not measured: {text}. Build and flash it again")
        if code == "output":
            raise WrongOutput(
                "the operation gave a wrong result on the DUT in the run before the series, and nothing was measured; "
                "check supply, clock and the firmware's build"
            )
        raise DeviceStable(f"{self.port}: {command!r} failed on the DUT: {code}, {text}")

    def _silence(self, command: str, silence_s: float, n_data: int) -> NoReturn:
        what = (
            f"{command!r} was answered by {n_data} line(s), then by nothing" if n_data else f"no answer to {command!r}"
        )
        part = f", only {describe(bytes(self._link.pending))}" if self._link.pending else ""
        raise DeviceTransient(
            f"{self.port}: {what} within {silence_s:.3g} s{part}: the DUT may have lost its supply, "
            "met a fault, or still be busy; power it off and on, then measure again"
        )

    def _no_hello(self, garbled: bytes, seen: list[str]) -> NoReturn:
        if garbled:
            raise DeviceTransient(
                f"{self.port}: 'hello' was answered by {describe(garbled)}. Is it the DUT's port, at {BAUD_HZ} baud, "
                "with ground connected?"
            )
        if seen:
            raise DeviceStable(
                f"{self.port}: 'hello' was answered by {seen[0]!r}: another firmware or version; flash labctl's"
            )
        raise DeviceTransient(
            f"{self.port}: silence, no answer to 'hello' within {self._link.timeout_s:.3g} s: check that it is the "
            "right port, that the DUT has power and labctl's firmware, that TX and RX are crossed, and the speed "
            f"({BAUD_HZ} baud); a DUT still busy with a series answers after it"
        )


def unknown_operation(board: str, name: str, known: tuple[str, ...]) -> Unsupported:
    """Make the error for an operation that a DUT does not know, with the nearest that it does."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return Unsupported(f"{board} does not know the operation {name!r}; {hint}it knows {families(known)}")


def parse_manifest(lines: list[str]) -> dict[str, Any]:
    """Turn ``key=value`` lines into a mapping; sizes and clock become integers."""
    manifest: dict[str, Any] = {}
    for line in lines:
        key, _, value = line.partition("=")
        manifest[key] = int(value) if key.endswith(("_bytes", "_hz")) and value.isdecimal() else value
    return manifest


def _pairs(payload: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in payload.split() if "=" in word)


def _number(values: dict[str, str], key: str, answer: str) -> int:
    if not values.get(key, "").isdecimal():
        raise _lacks(answer, f"a number {key!r}")
    return int(values[key])


def _lacks(answer: str, what: str) -> DeviceStable:
    return DeviceStable(f"the DUT's answer {answer!r} lacks {what}: flash the firmware of this labctl")
