"""Driver of TI EnergyTrace through a command-line recorder: a meter that counts energy and has no trigger.

`resource` is the command of the recorder, as "energytrace-util"; the seconds to record are added to it. It is to print
a line a sample (`instruments.energytrace`), as energytrace-util (carrotIndustries) and msp430-etv (dfatool) do, and
records only while the DUT runs freely, not in a debugger.

Accuracy: 2 % and 500 nA up to 25 mA, 5 % up to 75 mA (TI, EnergyTrace Technology, web page). One sample is about 1 ms;
its energy comes in the charge pulses of the supply. Nothing was tried on an instrument: not the recorders, not how soon
they print, not what they do when they are ended.
"""

from __future__ import annotations

import contextlib
import math
import shlex
import shutil
import subprocess
import threading
import time
from typing import Any, Self

import numpy as np

from instruments import DRIVER_API as CURRENT_API
from instruments.energytrace import INTERVAL_S, Trace, is_counts, make_trace, parse_line
from instruments.errors import BadData, DriverUnavailable, InstrumentTimeout, LinkLost, OutOfRange, Rejected
from instruments.protocols import AcquisitionSettings, Capabilities, CurrentSettings, Progress
from instruments.record import Accuracy, Channel, Identity, Record

ACCURACY_SOURCE = "TI, EnergyTrace Technology (web page): accuracy of energy and current"
SMALL_MAX_A, LARGE_MAX_A = 25e-3, 75e-3
GAIN_SMALL_RATIO, GAIN_LARGE_RATIO, OFFSET_LIMIT_A = 0.02, 0.05, 500e-9
VOLTAGE_RATIO = 0.02  # taken as that of the energy: the page does not give it
SPAN_MAX_S = 3600.0
# Asked for beyond the span: what passes until the first line.
SPARE_S = 2
CHANNELS = ("I1", "V1", "E1")
_END_S = 5.0
_POLL_S = 0.01


class TiEnergyTrace:
    """Record logs of current, voltage and counted energy."""

    DRIVER_API = CURRENT_API
    KIND = "meter"
    SUMMARY = "TI EnergyTrace through a command-line recorder; never tried on an instrument"

    def __init__(self, resource: str) -> None:
        """Look for the recorder. Raises DriverUnavailable where it is not there, OutOfRange for an empty command."""
        self._resource = resource
        self._command = shlex.split(resource)
        if not self._command:
            raise OutOfRange("the resource of EnergyTrace is the command of its recorder, such as energytrace-util")
        if shutil.which(self._command[0]) is None:
            raise DriverUnavailable(
                f"the recorder {self._command[0]!r} is not installed: build energytrace-util (its README says how) and "
                "name it in [meter] resource"
            )
        self._settings: AcquisitionSettings | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False

    @classmethod
    def open(cls, resource: str, timeout_s: float = 10.0) -> Self:
        """Return the meter whose recorder is the command `resource`; nothing is started yet."""
        del timeout_s
        return cls(resource)

    @classmethod
    def fits(cls, identity: Identity) -> bool:
        """Tell that nothing that answers to ``*IDN?`` is an EnergyTrace."""
        del identity
        return False

    def identify(self) -> Identity:
        """Name it: the recorder tells nothing of its instrument."""
        return Identity("Texas Instruments", "EnergyTrace", "", "", self._resource)

    def capabilities(self) -> Capabilities:
        """Return the limits to plan within."""
        return Capabilities(
            channels=CHANNELS,
            range_min_v=0.0,
            range_max_v=3.6,
            rate_max_hz=1 / INTERVAL_S,
            memory_samples=int(SPAN_MAX_S / INTERVAL_S),
            segments_max=1,
            units={"I1": "A", "V1": "V", "E1": "J"},
            range_max_a=LARGE_MAX_A,
            averages=True,
        )

    def configure(self, settings: AcquisitionSettings) -> AcquisitionSettings:
        """Take what is to be recorded; current, voltage and energy always come together. Raises OutOfRange."""
        for channel in settings.channels:
            if channel.name not in CHANNELS or (channel.name == "I1") != isinstance(channel, CurrentSettings):
                raise OutOfRange(f"no channel {channel.name!r} of this kind; EnergyTrace has I1 (current), V1 and E1")
        if settings.trigger is not None or settings.n_segments != 1 or settings.pre_s:
            raise OutOfRange("EnergyTrace has no trigger: it records one stretch at once, with nothing before it")
        if not 0 < settings.span_s <= SPAN_MAX_S:
            raise OutOfRange(f"a span of {settings.span_s:g} s cannot be recorded: up to {SPAN_MAX_S:g} s")
        if settings.rate_hz > 1 / INTERVAL_S:
            raise OutOfRange(f"EnergyTrace gives {1 / INTERVAL_S:g} samples a second, not {settings.rate_hz:g}")
        self.stop()
        self._settings = AcquisitionSettings(
            settings.channels, None, settings.span_s, 0.0, rate_hz=1 / INTERVAL_S
        )
        return self._settings

    def arm(self, timeout_s: float = 10.0) -> None:
        """Start the recorder and return once its first line has come. Raises InstrumentTimeout, LinkLost."""
        if self._settings is None:
            raise Rejected(f"{self._resource}: nothing is configured; call configure first")
        self.stop()
        self._lines, self._ended = [], False
        seconds = math.ceil(self._settings.span_s) + SPARE_S
        try:
            self._process = subprocess.Popen(
                [*self._command, str(seconds)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )
        except OSError as error:
            raise LinkLost(f"{self._resource} cannot be started ({error}): check the command") from error
        self._thread = threading.Thread(target=self._read, args=(self._process,), name="energytrace", daemon=True)
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._ended, timeout_s)
            if self._lines:
                return
            ended = self._ended
        why = f"ended with status {self._status()}" if ended else f"printed nothing within {timeout_s:g} s"
        self.stop()
        error_class = LinkLost if ended else InstrumentTimeout
        raise error_class(f"{self._resource} {seconds}: the recorder {why}: check the cable, and that the target runs")

    def wait(self, timeout_s: float, progress: Progress | None = None) -> int:
        """Wait until the span is recorded; return 1. Raises InstrumentTimeout, LinkLost for a recorder that ended."""
        if self._settings is None or self._process is None:
            raise Rejected(f"{self._resource}: nothing is armed; call configure and arm first")
        end_s = time.monotonic() + timeout_s
        while True:
            with self._changed:
                recorded_s, ended = self._recorded_s(), self._ended
                if recorded_s >= self._settings.span_s:
                    break
                if not ended and time.monotonic() < end_s:
                    self._changed.wait(min(max(end_s - time.monotonic(), 0.0), _POLL_S))
                    continue
            status = self._status()
            self.stop()
            told = f"{recorded_s:.3g} of {self._settings.span_s:.3g} s are recorded"
            if ended:
                raise LinkLost(f"{self._resource}: the recorder ended with status {status}, {told}: check its cable")
            raise InstrumentTimeout(f"{self._resource}: {told} after {timeout_s:g} s: check that the target runs")
        if progress is not None:
            progress(1, 1)
        self.stop()
        return 1

    def fetch(self) -> Record:
        """Return what was recorded: current, voltage and energy, float64 of shape (1, samples). Raises BadData."""
        if self._settings is None or not self._lines:
            raise Rejected(f"{self._resource}: nothing is recorded; call configure, arm and wait first")
        try:
            rows = [row for row in map(parse_line, self._lines) if row is not None]
            trace = make_trace(rows, is_counts(self._lines[0]))
        except BadData as error:
            raise BadData(f"{self._resource}: {error}") from error
        n = min(math.floor(self._settings.span_s / trace.dt_s) + 1, len(trace.energy_j))
        columns = {"I1": (trace.current_a, "A"), "V1": (trace.voltage_v, "V"), "E1": (trace.energy_j, "J")}
        accuracy = _accuracy(trace)
        return Record(
            channels={
                name: Channel(name, values[None, :n], 1.0, 0.0, unit=unit, accuracy=accuracy[name])
                for name, (values, unit) in columns.items()
            },
            dt_s=trace.dt_s,
            segment_start_s=np.zeros(1),
            instrument=self.identify(),
            asked={"span_s": self._settings.span_s},
            granted={"averages": True, "unit_j": trace.unit_j, "n_repeated": trace.n_repeated},
            gaps=tuple((0, first, min(length, n - first)) for first, length in trace.gaps if first < n),
        )

    def stop(self) -> None:
        """End the recorder; harmless where none runs."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._thread is not None:
            self._thread.join(_END_S)
        if process.stdout is not None:
            process.stdout.close()

    def close(self) -> None:
        """End the recorder. May be called twice."""
        self.stop()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            text = line.decode("ascii", "replace").strip()
            # The last line of a recorder that was ended may be cut; even its numbers may be.
            if text and not text.startswith("#") and line.endswith(b"\n"):
                with self._changed:
                    self._lines.append(text)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _recorded_s(self) -> float:
        """Tell how long the lines reach."""
        if len(self._lines) < 2:
            return 0.0
        try:
            first, last = parse_line(self._lines[0]), parse_line(self._lines[-1])
        except BadData:
            return math.inf  # fetch says what is wrong with it
        assert first is not None and last is not None
        return (last[0] - first[0]) * (1e-6 if is_counts(self._lines[0]) else 1.0)

    def _status(self) -> Any:
        process = self._process
        with contextlib.suppress(subprocess.TimeoutExpired):
            return None if process is None else process.wait(_END_S)
        return None


def _accuracy(trace: Trace) -> dict[str, Accuracy]:
    """Give the limits at the mean current of a log."""
    large = float(np.nanmean(trace.current_a)) > SMALL_MAX_A
    gain = GAIN_LARGE_RATIO if large else GAIN_SMALL_RATIO
    return {
        "I1": Accuracy(gain, OFFSET_LIMIT_A, 0.0, ACCURACY_SOURCE),
        "V1": Accuracy(VOLTAGE_RATIO, 0.0, 0.0, ACCURACY_SOURCE),
        "E1": Accuracy(gain, 0.0, 0.0, ACCURACY_SOURCE),
    }
