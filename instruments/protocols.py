"""What labctl asks of an instrument. A driver implements one of these and is found by name in the entry-point
group ``labctl.drivers``.

A recorder is configured, armed, waited for and fetched; the device under test is released between arm and wait. It
may be an oscilloscope, which sees voltages, or a meter, which sees the current itself; what it has, it says in its
capabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from instruments.errors import OutOfRange
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
class CurrentSettings:
    """Ask for a channel that measures current itself: `range_a` is the largest to expect, None lets it range alone."""

    name: str
    range_a: float | None = None


@dataclass(frozen=True)
class DigitalSettings:
    """Ask for a digital input; `threshold_v` is None where the instrument has one of its own."""

    name: str
    threshold_v: float | None = None


AnyChannelSettings = ChannelSettings | CurrentSettings | DigitalSettings


@dataclass(frozen=True)
class TriggerSettings:
    """Ask for an edge trigger: `edge` is "rising" or "falling", as seen on the wire.

    `level_v` means nothing for a source that has a level of its own (a digital input).
    """

    source: str
    level_v: float
    edge: str = "rising"


@dataclass(frozen=True)
class AcquisitionSettings:
    """Ask for an acquisition: `n_segments` stretches of `span_s`, of which `pre_s` lies before the trigger.

    `trigger` None takes one stretch at once (a zero reading). `rate_hz` is the least wanted; what the memory
    allows is granted. A meter says what it can do of this in its capabilities, and refuses the rest (OutOfRange).
    """

    channels: tuple[AnyChannelSettings, ...]
    trigger: TriggerSettings | None
    span_s: float
    pre_s: float
    n_segments: int = 1
    rate_hz: float = 0.0

    @property
    def voltages(self) -> tuple[ChannelSettings, ...]:
        """Return the channels for an instrument that sees voltages alone. Raises OutOfRange for any other."""
        found = tuple(channel for channel in self.channels if isinstance(channel, ChannelSettings))
        if len(found) < len(self.channels):
            other = next(channel for channel in self.channels if not isinstance(channel, ChannelSettings))
            raise OutOfRange(f"channel {other.name} is asked for current or logic levels, and this instrument has none")
        return found


@dataclass(frozen=True)
class Capabilities:
    """Tell what a recorder can do, before it is asked.

    Ranges are at the probe tip with a 1:1 probe; `range_max_a` is that of the current channels. `units` maps a channel
    to "V", "A" or "" (digital); a channel that is not named there is in volt. `trigger_sources` are channels and inputs
    whose edge can start a segment: none for a meter without a trigger. With `averages` a sample is the mean over the
    interval that ends with it, not an instant. `burden_ohm` is what the meter puts in series with the DUT.
    """

    channels: tuple[str, ...]
    range_min_v: float
    range_max_v: float
    rate_max_hz: float
    memory_samples: int
    segments_max: int
    units: Mapping[str, str] = field(default_factory=dict)
    trigger_sources: tuple[str, ...] = ()
    range_max_a: float = 0.0
    averages: bool = False
    burden_ohm: float = 0.0


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


@runtime_checkable
class Source(PowerSwitch, Protocol):
    """Supply the device under test at a voltage that can be set."""

    def set_supply(self, voltage_v: float, current_limit_a: float | None = None) -> None:
        """Set voltage and current limit, where it has one, and confirm them. Raises OutOfRange, Rejected."""
        ...
