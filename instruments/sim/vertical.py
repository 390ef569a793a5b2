"""Channels and trigger level of an emulated oscilloscope, as settings that stay within reach of each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

from instruments.sim.frontend import N_DIVISIONS, ChannelSetup
from instruments.sim.scpi import ScpiError, choice

N_CHANNELS = 4
N_TIME_DIVISIONS = 10

T = TypeVar("T")


@dataclass(frozen=True)
class Vertical:
    """Channels, which of them are on, and the trigger's source and level. Voltages at the probe tip."""

    LEVEL_LIMIT_DIVISIONS: ClassVar[float]

    channels: tuple[ChannelSetup, ...]
    display: tuple[bool, ...] = (True, False, False, False)
    source: int = 1
    level_v: float = 0.0

    @staticmethod
    def offset_limit_v(channel: ChannelSetup) -> float:
        """Return how far a channel's offset may go from 0."""
        raise NotImplementedError

    def channel(self, n: int) -> ChannelSetup:
        """Return the settings of channel n."""
        return self.channels[channel_index(n)]

    def with_channel(self, n: int, **values: Any) -> Self:
        """Change one channel; its offset and the trigger level stay within reach."""
        channel = replace(self.channel(n), **values)
        limit_v = self.offset_limit_v(channel)
        channel = replace(channel, offset_v=min(max(channel.offset_v, -limit_v), limit_v))
        changed = replace(self, channels=changed_at(self.channels, n, channel))
        low_v, high_v = changed._level_limits()
        return replace(changed, level_v=min(max(self.level_v, low_v), high_v))

    def with_display(self, n: int, on: bool) -> Self:
        """Turn a channel on or off."""
        return replace(self, display=changed_at(self.display, n, on))

    def with_offset(self, n: int, offset_v: float) -> Self:
        """Set the voltage at mid-screen; raises -222 beyond what the range allows."""
        limit_v = self.offset_limit_v(self.channel(n))
        return self.with_channel(n, offset_v=between(offset_v, -limit_v, limit_v))

    def with_probe(self, n: int, probe_ratio: float) -> Self:
        """Change the probe's ratio; the screen keeps what it shows, in the new volts."""
        channel = self.channel(n)
        scale = probe_ratio / channel.probe_ratio
        return self.with_channel(
            n, probe_ratio=probe_ratio, range_v=channel.range_v * scale, offset_v=channel.offset_v * scale
        )

    def level(self, level_v: float) -> float:
        """Return a trigger level; raises -222 where the trigger's channel cannot reach it."""
        return between(level_v, *self._level_limits())

    def _level_limits(self) -> tuple[float, float]:
        channel = self.channel(self.source)
        reach_v = self.LEVEL_LIMIT_DIVISIONS / N_DIVISIONS * channel.range_v
        return channel.offset_v - reach_v, channel.offset_v + reach_v


def channel_index(n: int) -> int:
    """Return the place of channel n in tuples; a channel that does not exist is an unknown header."""
    if not 1 <= n <= N_CHANNELS:
        raise ScpiError(-113)
    return n - 1


def channel_name(parameters: list[str]) -> int:
    """Read the name of an analog channel."""
    return int(choice(parameters, *(f"CHANnel{n}" for n in range(1, N_CHANNELS + 1)))[-1])


def between(value: float, low: float, high: float) -> float:
    """Return the value where it lies within the limits, to a part in 1e9; refuse it elsewhere."""
    if not low - 1e-9 * abs(low) <= value <= high + 1e-9 * abs(high):
        raise ScpiError(-222)
    return value


def changed_at(values: tuple[T, ...], n: int, value: T) -> tuple[T, ...]:
    """Return what holds for the channels, with another value for channel n."""
    place = channel_index(n)
    return (*values[:place], value, *values[place + 1 :])
