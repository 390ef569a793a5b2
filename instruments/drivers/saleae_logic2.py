"""Driver of Saleae logic analysers through Logic 2 and its automation interface (the package logic2-automation).

`resource` is where Logic 2 listens: "127.0.0.1:10430", its default, with automation switched on in its settings. Data
come only as files, so Logic 2 must run on this machine. A capture is waited for or stopped, never both, and once.
Sources: saleae.github.io/logic2-automation (1.0.11); support.saleae.com (`instruments.saleae`). Not verified: which
sample rates a model grants with how many inputs; Logic 2 refuses those that it does not have when a capture starts.
Nothing was tried on an instrument or on Logic 2.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from instruments import DRIVER_API as CURRENT_API
from instruments.errors import BadData, DriverUnavailable, InstrumentTimeout, LinkLost, OutOfRange, Rejected
from instruments.levels import Levels
from instruments.protocols import AcquisitionSettings, Capabilities, DigitalSettings, Progress
from instruments.record import Channel, Identity, Record
from instruments.saleae import RATES_HZ, Digital, parse_digital

INSTALL_LINE = "python -m pip install 'logic2-automation>=1.0.11,<2'"
DEFAULT_PORT = 10430
# Inputs of each model, and the greatest rate; thresholds that the Pro models have.
_MODELS = {"LOGIC_8": (8, 100e6), "LOGIC_PRO_8": (8, 500e6), "LOGIC_PRO_16": (16, 500e6)}
_THRESHOLDS_V = (1.2, 1.8, 3.3)
RATE_DEFAULT_HZ = 25e6
N_SAMPLES_MAX = 1 << 40
_CLOSE_S = 5.0


class SaleaeLogic2:
    """Record logic levels."""

    DRIVER_API = CURRENT_API
    KIND = "logic analyser"
    SUMMARY = "Saleae Logic 8, Pro 8 and Pro 16 through Logic 2; never tried on one"
    MODULES = ("saleae.automation",)
    INSTALL = INSTALL_LINE

    def __init__(self, resource: str, timeout_s: float, device: str | None) -> None:
        """Connect and choose the device. Raises DriverUnavailable, OutOfRange, LinkLost, Rejected."""
        try:
            from saleae import automation
        except (ImportError, SystemExit) as error:  # the package leaves Python where what it needs is missing
            raise DriverUnavailable(f"the package logic2-automation is missing ({error}); install it: {INSTALL_LINE}",
                                    INSTALL_LINE) from error
        self._automation: Any = automation
        self._resource = resource
        self._timeout_s = timeout_s
        self._address, self._port = _endpoint(resource)
        self._settings: AcquisitionSettings | None = None
        self._capture: Any = None
        self._waited = False
        self._manager: Any = None
        self._manager = self._connect()
        try:
            self._device = self._choose(device)
            self._version = self._call("get_app_info", self._manager.get_app_info).app_version
        except Exception:
            self.close()
            raise

    @classmethod
    def open(cls, resource: str = f"127.0.0.1:{DEFAULT_PORT}", timeout_s: float = 10.0,
             device: str | None = None) -> Self:
        """Connect to Logic 2; `device` is the identifier of one of several, or of a simulated one.

        Raises DriverUnavailable, OutOfRange, LinkLost, Rejected.
        """
        return cls(resource, timeout_s, device)

    @staticmethod
    def fits(identity: Identity) -> bool:
        """Tell that nothing that answers to ``*IDN?`` is its own."""
        del identity
        return False

    def _connect(self) -> Any:
        return self._call("connect", lambda: self._automation.Manager.connect(
            address=self._address, port=self._port, connect_timeout_seconds=self._timeout_s
        ), self._timeout_s + _CLOSE_S)

    def _choose(self, device: str | None) -> Any:
        devices = self._call("get_devices", lambda: self._manager.get_devices(
            include_simulation_devices=device is not None
        ))
        fitting = [one for one in devices if device in (None, one.device_id)]
        there = ", ".join(f"{one.device_id} ({one.device_type.name})" for one in devices) or "none"
        if len(fitting) != 1:
            remedy = "name one (device)" if len(fitting) > 1 else "check its cable and its identifier"
            raise LinkLost(f"{self._resource}: Logic 2 sees {there}, of which {len(fitting)} fit; {remedy}")
        if fitting[0].device_type.name not in _MODELS:
            raise Rejected(f"{self._resource}: Logic 2 cannot automate {there}; it can {', '.join(_MODELS)}")
        return fitting[0]

    def identify(self) -> Identity:
        """Name the analyser as Logic 2 does."""
        model = self._device.device_type.name
        return Identity("Saleae", model, self._device.device_id, f"Logic {self._version}", self._resource)

    def capabilities(self) -> Capabilities:
        """Return the limits to plan within."""
        n_inputs, rate_max_hz = _MODELS[self._device.device_type.name]
        channels = tuple(f"D{number}" for number in range(n_inputs))
        return Capabilities(
            channels=channels,
            range_min_v=0.0,
            range_max_v=0.0,
            rate_max_hz=rate_max_hz,
            memory_samples=N_SAMPLES_MAX,
            segments_max=1,
            units=dict.fromkeys(channels, ""),
            trigger_sources=channels,
        )

    def configure(self, settings: AcquisitionSettings) -> AcquisitionSettings:
        """Choose what to record: Logic 2 takes it with the capture. The next higher rate is granted.

        Raises OutOfRange.
        """
        self.stop()
        self._settings = None
        _check(settings, self.capabilities(), self._device.device_type.name, self._resource)
        wanted_hz = settings.rate_hz or RATE_DEFAULT_HZ
        rate_hz = next(rate for rate in RATES_HZ if rate >= wanted_hz * (1 - 1e-9))
        self._settings = AcquisitionSettings(
            settings.channels, settings.trigger, settings.span_s, settings.pre_s, rate_hz=rate_hz
        )
        return self._settings

    def arm(self, timeout_s: float = 10.0) -> None:
        """Start the capture. Raises Rejected, LinkLost, InstrumentTimeout."""
        if self._settings is None:
            raise Rejected(f"{self._resource}: nothing is configured; call configure first")
        self.stop()
        if self._manager is None:
            self._manager = self._connect()
        settings, automation = self._settings, self._automation
        thresholds = {c.threshold_v for c in settings.channels if isinstance(c, DigitalSettings)}
        device = automation.LogicDeviceConfiguration(
            enabled_digital_channels=_numbers(settings),
            digital_sample_rate=round(settings.rate_hz),
            digital_threshold_volts=next(iter(thresholds)),
        )
        if settings.trigger is None:
            mode = automation.TimedCaptureMode(duration_seconds=settings.span_s)
        else:
            kinds = automation.DigitalTriggerType
            mode = automation.DigitalTriggerCaptureMode(
                trigger_type=kinds.RISING if settings.trigger.edge == "rising" else kinds.FALLING,
                trigger_channel_index=int(settings.trigger.source[1:]),
                after_trigger_seconds=settings.span_s - settings.pre_s,
                trim_data_seconds=settings.span_s,
            )
        self._capture = self._call("start_capture", lambda: self._manager.start_capture(
            device_id=self._device.device_id, device_configuration=device,
            capture_configuration=automation.CaptureConfiguration(capture_mode=mode),
        ), timeout_s)

    def wait(self, timeout_s: float, progress: Progress | None = None) -> int:
        """Wait until the capture has ended; return 1. Raises Rejected, InstrumentTimeout, LinkLost.

        After a time-out the connection is closed, for a wait can be left in no other way; `arm` connects again.
        """
        if self._capture is None or self._waited:
            raise Rejected(f"{self._resource}: nothing is armed; call configure and arm first")
        self._waited = True
        try:
            self._call("wait", self._capture.wait, timeout_s)
        except (LinkLost, Rejected):
            self._drop()
            raise
        if progress is not None:
            progress(1, 1)
        return 1

    def fetch(self) -> Record:
        """Export the capture and read it. Raises Rejected, LinkLost, InstrumentTimeout, BadData."""
        if self._capture is None or not self._waited or self._settings is None:
            raise Rejected(f"{self._resource}: nothing is recorded; call configure, arm and wait first")
        numbers = _numbers(self._settings)
        with tempfile.TemporaryDirectory(prefix="labctl-saleae-") as folder:
            self._call("export_raw_data_binary", lambda: self._capture.export_raw_data_binary(
                directory=folder, digital_channels=numbers
            ))
            found = {f"D{number}": self._read(Path(folder) / f"digital_{number}.bin") for number in numbers}
        first = next(iter(found.values()))
        if any(abs(one.start_s - first.start_s) > first.dt_s / 2 or one.dt_s != first.dt_s for one in found.values()):
            raise BadData(f"{self._resource}: the inputs were exported from different times on, or at different rates")
        n_samples = min(one.levels.shape[1] for one in found.values())
        return Record(
            channels={name: Channel(name, _cut(one.levels, n_samples), 1.0, 0.0, unit="", kind="digital")
                      for name, one in found.items()},
            dt_s=first.dt_s,
            segment_start_s=np.array([first.start_s]),
            instrument=self.identify(),
            asked={"rate_hz": self._settings.rate_hz, "span_s": self._settings.span_s},
            granted={"rate_hz": 1 / first.dt_s},
            gaps=tuple((0, start, min(n, n_samples - start)) for start, n in
                       sorted({gap for one in found.values() for gap in one.gaps}) if start < n_samples),
        )

    def _read(self, path: Path) -> Digital:
        if not path.is_file():
            raise BadData(f"{self._resource}: Logic 2 exported no {path.name}; does it run on this machine?")
        assert self._settings is not None
        found = parse_digital(path.read_bytes(), f"{self._resource}: {path.name}", self._settings.rate_hz)
        if abs(found.dt_s * self._settings.rate_hz - 1) > 1e-6:
            raise Rejected(f"{self._resource}: {self._settings.rate_hz:.9g} Hz was asked, {1 / found.dt_s:.9g} Hz "
                           "recorded; ask for another")
        return found

    def stop(self) -> None:
        """Stop a capture that is not waited for, and close it; harmless where there is none."""
        if self._capture is None:
            return
        capture, self._capture = self._capture, None
        waited, self._waited = self._waited, False
        if not waited:
            self._call("stop", capture.stop)
        self._call("close", capture.close)

    def close(self) -> None:
        """Stop and close what there is, and leave Logic 2 running. May be called twice."""
        if self._manager is None:
            return
        try:
            # What cannot be stopped any more is dropped with the connection.
            with contextlib.suppress(LinkLost, Rejected, InstrumentTimeout):
                self.stop()
        finally:
            self._drop()

    def _drop(self) -> None:
        self._capture, self._waited = None, False
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.close()

    def _call(self, name: str, action: Callable[[], Any], timeout_s: float | None = None) -> Any:
        """Do what may never return, in a thread that is left where it does not."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.append((True, action()))
            except Exception as error:  # noqa: BLE001 - handed to whoever waits
                outcome.append((False, error))

        thread = threading.Thread(target=work, name=f"saleae {name}", daemon=True)
        thread.start()
        thread.join(timeout_s)
        if not outcome:
            self._drop()
            raise InstrumentTimeout(f"{self._resource}: {name} did not return within {timeout_s:g} s: look at Logic 2, "
                                    "which may still record")
        done, result = outcome[0]
        if done:
            return result
        with self._errors(name):
            raise result

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Turn what the package raises into what a driver raises."""
        known = self._automation
        try:
            yield
        except known.DeviceError as error:
            raise LinkLost(f"{self._resource}: {name}: the analyser failed ({error}): check its cable") from error
        except known.OutOfMemoryError as error:
            raise Rejected(f"{self._resource}: {name}: Logic 2's buffer is full ({error}); record less") from error
        except known.SaleaeError as error:
            raise Rejected(f"{self._resource}: {name}: Logic 2 refused ({type(error).__name__}: {error})") from error
        except Exception as error:
            raise LinkLost(f"{self._resource}: {name}: no answer from Logic 2 ({type(error).__name__}): start it, with "
                           "automation switched on in its settings") from error


def _endpoint(resource: str) -> tuple[str, int]:
    host, _, port = resource.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise OutOfRange(f"the resource {resource!r} is not where Logic 2 listens, such as 127.0.0.1:{DEFAULT_PORT}")
    return host, int(port)


def _numbers(settings: AcquisitionSettings) -> list[int]:
    return [int(channel.name[1:]) for channel in settings.channels]


def _check(settings: AcquisitionSettings, limits: Capabilities, model: str, resource: str) -> None:
    """Raise OutOfRange for settings that the analyser cannot have."""
    names = [channel.name for channel in settings.channels]
    for channel in settings.channels:
        if not isinstance(channel, DigitalSettings) or channel.name not in limits.channels:
            raise OutOfRange(f"{resource}: no logic input {channel.name!r}; there are {', '.join(limits.channels)}")
    if not names or len(set(names)) < len(names):
        raise OutOfRange(f"{resource}: name each input to record once, and at least one")
    thresholds = {channel.threshold_v for channel in settings.channels if isinstance(channel, DigitalSettings)}
    allowed = (None, *_THRESHOLDS_V) if "PRO" in model else (None,)
    if len(thresholds) > 1 or not thresholds <= set(allowed):
        raise OutOfRange(f"{resource}: all inputs have one threshold, on Pro models {_THRESHOLDS_V} V, else its own")
    if settings.n_segments != 1:
        raise OutOfRange(f"{resource}: one stretch at a time, not {settings.n_segments}")
    if not 0 < settings.span_s < math.inf or not 0 <= settings.pre_s < settings.span_s:
        raise OutOfRange(f"{resource}: {settings.pre_s:g} s before the trigger do not lie within a span of "
                         f"{settings.span_s:g} s")
    if settings.trigger is None and settings.pre_s:
        raise OutOfRange(f"{resource}: nothing lies before a trigger where there is none")
    trigger = settings.trigger
    if trigger is not None and (trigger.source not in names or trigger.edge not in ("rising", "falling")):
        raise OutOfRange(f"{resource}: no trigger on the {trigger.edge} edge of {trigger.source}; it is a rising or "
                         "falling edge of an input that is recorded")
    if not 0 <= settings.rate_hz <= limits.rate_max_hz:
        raise OutOfRange(f"{resource}: {settings.rate_hz:g} Hz cannot be had; up to {limits.rate_max_hz:g} Hz")


def _cut(levels: Levels, n_samples: int) -> Levels:
    return Levels(n_samples, levels.first_level, levels.changes[levels.changes < n_samples])
