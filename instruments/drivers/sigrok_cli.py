"""The command line of sigrok-cli: what it is asked, and what its answers and its log mean.

Sources: the manual page sigrok-cli(1), and sigrok-cli 0.7.2 (libsigrok 0.5.2) with its demo device. How a device with
a list of sample rates prints it is not verified: lines that are a rate are taken.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Sequence

from instruments.errors import BadData, InstrumentTimeout, LinkLost
from instruments.sigrok import parse_rate

# Level at which each packet of data is told.
LOG_LEVEL = 3
_DEVICE = re.compile(r"(\S+) - (.+) with [0-9]+ channels?: (.+)")
_RATE_RANGE = re.compile(r"\s+samplerate \(([0-9.]+ [kMG]?Hz) - ([0-9.]+ [kMG]?Hz) in steps of .*\)")
_RATE_LINE = re.compile(r"\s+([0-9.]+ [kMG]?Hz)(?: \(current\))?")
_LOGIC = re.compile(r"cli: Received SR_DF_LOGIC \(([0-9]+) bytes, unit ?size = ([0-9]+)\)")
_LOSS = re.compile(r"overflow|overrun|dropped|lost", re.IGNORECASE)
_END_S = 5.0
_N_LINES = 5


def parse_scan(text: str, resource: str) -> tuple[str, str, tuple[str, ...]]:
    """Find (how it is addressed, model, inputs) of the one device of a scan. Raises LinkLost, BadData."""
    found = [match.groups() for line in text.splitlines() if (match := _DEVICE.fullmatch(line.strip()))]
    if not found:
        raise LinkLost(f"{resource}: sigrok finds no such device: check its cable, and its udev rules")
    if len(found) > 1:
        addresses = ", ".join(address for address, _, _ in found)
        raise BadData(f"{resource}: sigrok finds {len(found)} devices; name one of {addresses}")
    address, model, channels = found[0]
    return address, model, tuple(channels.split())


def parse_rates(text: str, resource: str) -> tuple[tuple[float, ...], bool]:
    """Find the sample rates that ``--show`` tells, ascending, and whether all between them can be had as well."""
    for line in text.splitlines():
        if match := _RATE_RANGE.fullmatch(line):
            low_hz, high_hz = parse_rate(match[1]), parse_rate(match[2])
            if low_hz and high_hz:
                return (low_hz, high_hz), True
    matches = [_RATE_LINE.fullmatch(line) for line in text.splitlines()]
    rates = sorted({rate for match in matches if match and (rate := parse_rate(match[1]))})
    if not rates:
        raise BadData(f"{resource}: sigrok tells no sample rate of it; is it a logic analyser?")
    return tuple(rates), False


def ask(command: Sequence[str], timeout_s: float) -> str:
    """Run a command that ends by itself; return what it prints. Raises InstrumentTimeout, LinkLost."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False, text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired as error:
        raise InstrumentTimeout(f"{' '.join(command)}: no end after {timeout_s:g} s; it was killed") from error
    except OSError as error:
        raise LinkLost(f"{command[0]} cannot be started ({error})") from error
    if done.returncode:
        told = done.stderr.strip().splitlines()[-1:] or ["nothing"]
        raise LinkLost(f"{' '.join(command)}: ended with status {done.returncode} and said: {told[0]}")
    return done.stdout


class Run:
    """One acquisition under way; its log is read until it ends.

    `n_before` counts the samples before the trigger, None until it came; `loss` is the line that tells of lost data.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Start it. Raises LinkLost."""
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                start_new_session=True, text=True, errors="replace",
            )
        except OSError as error:
            raise LinkLost(f"{command[0]} cannot be started ({error})") from error
        self.n_samples = 0
        self.n_before: int | None = None
        self.loss = ""
        self._begun = self._ended = False
        self._last: deque[str] = deque(maxlen=_N_LINES)
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, name="sigrok-cli", daemon=True)
        self._thread.start()

    def wait_begun(self, timeout_s: float) -> bool:
        """Wait until the acquisition has begun; tell whether it has."""
        with self._changed:
            self._changed.wait_for(lambda: self._begun or self._ended, timeout_s)
            return self._begun

    def wait_ended(self, timeout_s: float) -> bool:
        """Wait until the program has ended; tell whether it has."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended, timeout_s):
                return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        return self._process.poll() is not None

    @property
    def status(self) -> int | None:
        """The exit status, None while it runs."""
        return self._process.poll()

    def told(self) -> str:
        """Return the last line of the log."""
        with self._changed:
            return self._last[-1] if self._last else "nothing"

    def end(self) -> None:
        """Kill the program with what it started, and reap it; harmless where it has ended."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
            if self._process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._thread.join(_END_S)
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._take(line.strip())
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _take(self, line: str) -> None:
        with self._changed:
            if line.startswith("cli: Received SR_DF_HEADER"):
                self._begun = True
            elif line.startswith("cli: Received SR_DF_TRIGGER"):
                self.n_before = self.n_samples
            elif match := _LOGIC.match(line):
                self.n_samples += int(match[1]) // max(int(match[2]), 1)
            elif line and not line.startswith("cli: Received"):
                self._last.append(line)
                if _LOSS.search(line):
                    self.loss = line
            self._changed.notify_all()
