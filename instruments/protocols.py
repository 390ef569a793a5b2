"""What labctl asks of an instrument. A driver implements one of these and is found by name in the entry-point
group ``labctl.drivers``.

A recorder is configured, armed, waited for and fetched; the device under test is released between arm and wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from instruments.record import Identity, Record


@dataclass(frozen=True)
class ChannelSettings:
    """Ask for one channel: full-scale range (8 divisions on a scope) and voltage at mid-screen, at the probe tip."""

    name: str
    range_v: float
    offset_v: float = 0.0
    probe_ratio: float = 1.0
    coupling: str = "DC"
    bandwidth_limit: bool = False


@dataclass(frozen=True)
class TriggerSettings:
    """Ask for an edge trigger: `edge` is "rising" or "falling"."""

    source: str
    level_v: float
    edge: str = "rising"


@dataclass(frozen=True)
class AcquisitionSettings:
    """Ask for an acquisition: `n_segments` stretches of `span_s`, of which `pre_s` lies before the trigger.

    `trigger` None takes one stretch at once (a zero reading). `rate_hz` is the least wanted; what the memory
    allows is granted.
    """

    channels: tuple[ChannelSettings, ...]
    trigger: TriggerSettings | None
    span_s: float
    pre_s: float
    n_segments: int = 1
    rate_hz: float = 0.0


@dataclass(frozen=True)
class Capabilities:
    """Tell what a recorder can do, before it is asked. Ranges are at the probe tip with a 1:1 probe."""

    channels: tuple[str, ...]
    range_min_v: float
    range_max_v: float
    rate_max_hz: float
    memory_samples: int
    segments_max: int


Progress = Callable[[int, int], None]


@runtime_checkable
class Recorder(Protocol):
    """Record waveforms. All waits are bounded; a time-out leaves the link tainted, and says so."""

    def identify(self) -> Identity:
        """Return who answers."""
        ...

    def capabilities(self) -> Capabilities:
        """Return the limits to plan within."""
        ...

    def configure(self, settings: AcquisitionSettings) -> AcquisitionSettings:
        """Set everything, read it back, and return what was granted. Raises OutOfRange or Rejected."""
        ...

    def arm(self, timeout_s: float = 10.0) -> None:
        """Start the acquisition and return once the instrument really waits for its trigger."""
        ...

    def wait(self, timeout_s: float, progress: Progress | None = None) -> int:
        """Wait until the acquisition is complete; return the number of segments taken, which may be fewer.

        Raises InstrumentTimeout where no segment at all arrived; `progress` is called with (taken, wanted).
        """
        ...

    def fetch(self) -> Record:
        """Read the codes of every configured channel and segment."""
        ...

    def stop(self) -> None:
        """Stop an acquisition that is under way; harmless otherwise."""
        ...

    def close(self) -> None:
        """Leave the instrument safe and release the link. May be called twice."""
        ...


@runtime_checkable
class PowerSwitch(Protocol):
    """Switch the supply of the device under test."""

    def identify(self) -> Identity:
        """Return who answers."""
        ...

    def set_output(self, on: bool) -> None:
        """Switch the output and confirm that it switched. Raises Rejected."""
        ...

    def close(self) -> None:
        """Release the link; leaves the output as it is."""
        ...
