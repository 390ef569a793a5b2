"""Driver of logic analysers through sigrok-cli: a clone of the Saleae Logic with an FX2 (`fx2lafw`), and others.

`resource` is what sigrok-cli takes as --driver: "fx2lafw", "fx2lafw:conn=1.17", "demo". Facts of the command line are
in `sigrok_cli`. An fx2lafw streams over USB, gives up where the computer does not keep up, and is then said to have
sent fewer samples: what is missing is a gap. Data that a device drops without a word nobody can tell.

Assumed: sigrok-cli 0.7.2. Tried on its demo device; never on a real logic analyser.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import tempfile
import time
from pathlib import Path
from typing import Self

import numpy as np

from instruments import DRIVER_API as CURRENT_API
from instruments.drivers import sigrok_cli
from instruments.errors import BadData, DriverUnavailable, InstrumentTimeout, LinkLost, OutOfRange, Rejected
from instruments.levels import Levels
from instruments.protocols import AcquisitionSettings, Capabilities, DigitalSettings, Progress, TriggerSettings
from instruments.record import Channel, Identity, Record
from instruments.sigrok import Session, read_session

PROGRAM = "sigrok-cli"
INSTALL_LINE = "sudo apt-get install -y --no-install-recommends sigrok-cli"
# A byte each for eight inputs, in a file beside the program, then in memory.
N_SAMPLES_MAX = 1 << 32
# Taken where no rate is asked for: the most that an FX2 with eight inputs sends.
RATE_DEFAULT_HZ = 24e6
_TRIGGERS = {"rising": "r", "falling": "f"}
_POLL_S = 0.05


class Sigrok:
    """Record logic levels."""

    DRIVER_API = CURRENT_API
    KIND = "logic analyser"
    SUMMARY = "logic analysers through sigrok-cli, such as fx2lafw; tried on its demo device only"
    PROGRAMS = (PROGRAM,)
    INSTALL = INSTALL_LINE

    def __init__(self, resource: str, timeout_s: float, program: str) -> None:
        """Ask sigrok-cli what the device is. Raises DriverUnavailable, LinkLost, InstrumentTimeout, BadData."""
        if shutil.which(program) is None:
            raise DriverUnavailable(f"the program {program} is missing; install it: {INSTALL_LINE}", INSTALL_LINE)
        self._resource = resource
        self._program = program
        version = sigrok_cli.ask([program, "--version"], timeout_s).splitlines()
        scan = sigrok_cli.ask([program, "--driver", resource, "--scan"], timeout_s)
        _, self._model, self._channels = sigrok_cli.parse_scan(scan, resource)
        shown = sigrok_cli.ask([program, "--driver", resource, "--show"], timeout_s)
        self._rates_hz, self._any_rate = sigrok_cli.parse_rates(shown, resource)
        self._version = version[0] if version else ""
        self._settings: AcquisitionSettings | None = None
        self._before_percent = 0
        self._run: sigrok_cli.Run | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._taken = False

    @classmethod
    def open(cls, resource: str, timeout_s: float = 10.0, program: str = PROGRAM) -> Self:
        """Look for the device; `program` is sigrok-cli's name or path.

        Raises DriverUnavailable, OutOfRange for an empty resource, LinkLost, InstrumentTimeout, BadData.
        """
        if not resource.strip() or resource.startswith("-"):
            raise OutOfRange(f"the resource {resource!r} is no driver of sigrok-cli, such as fx2lafw")
        return cls(resource, timeout_s, program)

    @staticmethod
    def fits(identity: Identity) -> bool:
        """Tell that nothing that answers to ``*IDN?`` is its own."""
        del identity
        return False

    def identify(self) -> Identity:
        """Name the device as sigrok does."""
        return Identity("sigrok", self._model, "", self._version, self._resource)

    def capabilities(self) -> Capabilities:
        """Return the limits to plan within."""
        return Capabilities(
            channels=self._channels,
            range_min_v=0.0,
            range_max_v=0.0,
            rate_max_hz=self._rates_hz[-1],
            memory_samples=N_SAMPLES_MAX,
            segments_max=1,
            units=dict.fromkeys(self._channels, ""),
            trigger_sources=self._channels,
        )

    def configure(self, settings: AcquisitionSettings) -> AcquisitionSettings:
        """Choose what to record; sigrok-cli takes it with the acquisition, and the rate is checked in what it wrote.

        The next higher rate there is is granted. Raises OutOfRange.
        """
        self.stop()
        self._settings = None
        self._check(settings)
        rate_hz = self._rate(settings.rate_hz)
        n_samples = math.ceil(settings.span_s * rate_hz - 1e-6)
        if not 1 <= n_samples <= N_SAMPLES_MAX:
            raise OutOfRange(f"{self._resource}: {n_samples} samples, and 1 to {N_SAMPLES_MAX} can be held; record a "
                             "shorter span or at a lower rate")
        self._before_percent = math.ceil(100 * settings.pre_s / settings.span_s - 1e-9)
        span_s = n_samples / rate_hz
        self._settings = AcquisitionSettings(
            settings.channels, settings.trigger, span_s, self._before_percent / 100 * span_s, rate_hz=rate_hz
        )
        return self._settings

    def _check(self, settings: AcquisitionSettings) -> None:
        names = [channel.name for channel in settings.channels]
        for channel in settings.channels:
            if not isinstance(channel, DigitalSettings) or channel.name not in self._channels:
                raise OutOfRange(f"{self._resource}: no logic input {channel.name!r}; there are "
                                 f"{', '.join(self._channels)}")
            if channel.threshold_v is not None:
                raise OutOfRange(f"{self._resource}: the threshold of {channel.name} cannot be set; leave it out")
        if not names or len(set(names)) < len(names):
            raise OutOfRange(f"{self._resource}: name each input to record once, and at least one")
        if settings.n_segments != 1:
            raise OutOfRange(f"{self._resource}: one stretch at a time, not {settings.n_segments}")
        if not 0 < settings.span_s < math.inf or not 0 <= settings.pre_s <= settings.span_s:
            raise OutOfRange(f"{self._resource}: {settings.pre_s:g} s before the trigger do not lie within a span of "
                             f"{settings.span_s:g} s")
        self._check_trigger(settings.trigger, settings.pre_s, names)

    def _check_trigger(self, trigger: TriggerSettings | None, pre_s: float, names: list[str]) -> None:
        if trigger is None and pre_s:
            raise OutOfRange(f"{self._resource}: nothing lies before a trigger where there is none")
        if trigger is not None and (trigger.source not in names or trigger.edge not in _TRIGGERS):
            raise OutOfRange(f"{self._resource}: no trigger on the {trigger.edge} edge of {trigger.source}; it is a "
                             "rising or falling edge of an input that is recorded")

    def _rate(self, asked_hz: float) -> float:
        if not 0 <= asked_hz <= self._rates_hz[-1]:
            raise OutOfRange(f"{self._resource}: {asked_hz:g} Hz cannot be had; up to {self._rates_hz[-1]:g} Hz")
        if self._any_rate:
            return float(math.ceil(max(asked_hz or min(RATE_DEFAULT_HZ, self._rates_hz[-1]), self._rates_hz[0])))
        if not asked_hz:
            return max((rate for rate in self._rates_hz if rate <= RATE_DEFAULT_HZ), default=self._rates_hz[0])
        return next(rate for rate in self._rates_hz if rate >= asked_hz * (1 - 1e-9))

    def arm(self, timeout_s: float = 10.0) -> None:
        """Start sigrok-cli and return once its acquisition has begun. Raises Rejected, InstrumentTimeout, LinkLost."""
        if self._settings is None:
            raise Rejected(f"{self._resource}: nothing is configured; call configure first")
        self.stop()
        self._folder = tempfile.TemporaryDirectory(prefix="labctl-sigrok-")
        self._run = sigrok_cli.Run(self._command(self._settings))
        if self._run.wait_begun(timeout_s):
            return
        run, ended = self._run, self._run.wait_ended(0.0)
        self.stop()
        if ended:
            raise LinkLost(f"{self._resource}: {self._program} ended with status {run.status} and said: {run.told()}")
        raise InstrumentTimeout(f"{self._resource}: the acquisition did not begin within {timeout_s:g} s: {run.told()}")

    def _command(self, settings: AcquisitionSettings) -> list[str]:
        config = f"samplerate={settings.rate_hz:.0f}"
        command = [self._program, "--driver", self._resource, "--loglevel", str(sigrok_cli.LOG_LEVEL)]
        if settings.trigger is not None:
            config += f":captureratio={self._before_percent}"
        command += ["--config", config, "--channels", ",".join(channel.name for channel in settings.channels)]
        if settings.trigger is not None:
            command += ["--triggers", f"{settings.trigger.source}={_TRIGGERS[settings.trigger.edge]}"]
        return [*command, "--samples", str(self._n_samples(settings)), "--output-format", "srzip",
                "--output-file", str(self._file())]

    @staticmethod
    def _n_samples(settings: AcquisitionSettings) -> int:
        return round(settings.span_s * settings.rate_hz)

    def _file(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / "capture.sr"

    def wait(self, timeout_s: float, progress: Progress | None = None) -> int:
        """Wait until sigrok-cli has ended; return 1. Raises Rejected, InstrumentTimeout, LinkLost."""
        if self._run is None or self._settings is None:
            raise Rejected(f"{self._resource}: nothing is armed; call configure and arm first")
        run, end_s = self._run, time.monotonic() + timeout_s
        while not run.wait_ended(max(0.0, min(_POLL_S, end_s - time.monotonic()))):
            if time.monotonic() >= end_s:
                n_wanted = self._n_samples(self._settings)
                self.stop()
                awaited = self._settings.trigger is not None and run.n_before is None
                why = "the trigger did not come" if awaited else f"{run.n_samples} of {n_wanted} samples are there"
                raise InstrumentTimeout(f"{self._resource}: {why} after {timeout_s:g} s; it was stopped")
        if run.status:
            status = run.status
            self.stop()
            raise LinkLost(f"{self._resource}: {self._program} ended with status {status} and said: {run.told()}")
        self._taken = True
        if progress is not None:
            progress(1, 1)
        return 1

    def fetch(self) -> Record:
        """Return the levels of the inputs asked for. Raises Rejected, BadData, LinkLost where nothing was recorded."""
        if not self._taken or self._run is None or self._settings is None:
            raise Rejected(f"{self._resource}: nothing is recorded; call configure, arm and wait first")
        if not self._file().is_file():
            raise LinkLost(f"{self._resource}: {self._program} wrote nothing and said: {self._run.told()}")
        session = read_session(self._file())
        self._check_session(session, self._settings)
        rate_hz, n_wanted = self._settings.rate_hz, self._n_samples(self._settings)
        n_there = next(iter(session.levels.values())).shape[1]
        gaps = [(0, n_there, n_wanted - n_there)] if n_there < n_wanted else []
        if self._run.loss:
            gaps = [(0, 0, n_wanted)]  # where in the record is not told
        n_before = (self._run.n_before or 0) if self._settings.trigger is not None else 0
        return Record(
            channels={
                channel.name: Channel(channel.name, _held(session.levels[channel.name], n_wanted), 1.0, 0.0, unit="",
                                      kind="digital")
                for channel in self._settings.channels
            },
            dt_s=1 / rate_hz,
            segment_start_s=np.array([-n_before / rate_hz]),
            instrument=self.identify(),
            asked={"rate_hz": rate_hz, "span_s": self._settings.span_s},
            granted={"rate_hz": session.rate_hz, "loss": self._run.loss},
            gaps=tuple(gaps),
        )

    def _check_session(self, session: Session, settings: AcquisitionSettings) -> None:
        missing = [channel.name for channel in settings.channels if channel.name not in session.levels]
        if missing:
            raise BadData(f"{self._resource}: sigrok-cli did not record {', '.join(missing)}")
        if session.rate_hz is None or abs(session.rate_hz / settings.rate_hz - 1) > 1e-6:
            told = "no rate" if session.rate_hz is None else f"{session.rate_hz:.9g} Hz"
            raise Rejected(f"{self._resource}: {settings.rate_hz:.9g} Hz was asked, {told} recorded; ask for another")

    def stop(self) -> None:
        """Kill sigrok-cli and drop what it wrote; harmless where none runs."""
        run, self._run = self._run, None
        folder, self._folder = self._folder, None
        self._taken = False
        try:
            if run is not None:
                run.end()
        finally:
            if folder is not None:
                with contextlib.suppress(OSError):
                    folder.cleanup()

    def close(self) -> None:
        """Kill sigrok-cli where it runs. May be called twice."""
        self.stop()


def _held(levels: Levels, n_samples: int) -> Levels:
    """Cut levels to so many samples, or hold the last one."""
    return Levels(n_samples, levels.first_level, levels.changes[levels.changes < n_samples])
