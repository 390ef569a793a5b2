"""Settings of the emulated DSO-X 3024T, what it grants of what it is asked, and the sample rate that follows.

Memory: Keysight InfiniiVision 3000T X-Series User's Guide p. 221 (rate = points / time, by throwing samples away);
3000 X-Series User's Guide p. 270 (the memory is shared by the channels of a pair, 1-2 and 3-4, and divided by the
number of segments). 5 GS/s, 4 M points and 1000 segments: not verified against the 3000T X-Series data sheet,
5992-0140EN.

Assumed, not verified against the 3000T X-Series Programmer's Guide: the sample interval is a whole multiple of the
shortest; V/div and time/div keep three significant digits; a value out of range is refused with -222 and the setting
stays; a trigger level may lie within 6 divisions of mid-screen. The limits of offset, span and holdoff: not verified
against 5992-0140EN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from instruments.sim.frontend import N_DIVISIONS, ChannelSetup
from instruments.sim.scpi import ScpiError, choice, integer

N_CHANNELS = 4
RATE_MAX_HZ = 5e9
MEMORY_POINTS = 4_000_000
MEASUREMENT_POINTS = 62_500
SEGMENTS_MIN, SEGMENTS_MAX = 2, 1000
RANGE_MIN_V, RANGE_MAX_V = 8e-3, 40.0  # at the input: 1 mV/div to 5 V/div
OFFSET_STEP_RANGE_V = 1.6  # up to 200 mV/div
OFFSET_LIMIT_LOW_V, OFFSET_LIMIT_HIGH_V = 2.0, 50.0
SPAN_MIN_S, SPAN_MAX_S = 20e-9, 500.0
LEVEL_LIMIT_DIVISIONS = 6
N_TIME_DIVISIONS = 10
SIGNIFICANT_DIGITS = 3
REFERENCE_RATIO = {"LEFT": 0.1, "CENT": 0.5, "RIGH": 0.9}

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """Everything that *RST resets. Voltages at the probe tip."""

    channels: tuple[ChannelSetup, ...] = tuple(ChannelSetup(n, 40.0, 0.0, 1.0, False) for n in range(1, 5))
    display: tuple[bool, ...] = (True, False, False, False)
    units: tuple[str, ...] = ("VOLT",) * N_CHANNELS
    span_s: float = 1e-3
    position_s: float = 0.0
    reference: str = "CENT"
    sweep: str = "AUTO"
    source: int = 1
    slope: str = "POS"
    level_v: float = 0.0
    holdoff_s: float = 40e-9
    segmented: bool = False
    n_segments: int = 25
    index: int = 1
    wave_source: int = 1
    wave_format: str = "BYTE"
    unsigned: bool = True
    byte_order: str = "MSBF"
    points: int | None = 1000  # None: MAXimum
    points_mode: str = "NORM"
    all_segments: bool = False

    def channel(self, n: int) -> ChannelSetup:
        """Return the settings of channel n."""
        return self.channels[channel_index(n)]

    def with_channel(self, n: int, **values: Any) -> Settings:
        """Change one channel; its offset and the trigger level stay within reach."""
        channel = replace(self.channel(n), **values)
        limit_v = _offset_limit_v(channel)
        channel = replace(channel, offset_v=min(max(channel.offset_v, -limit_v), limit_v))
        changed = replace(self, channels=_with(self.channels, n, channel))
        low_v, high_v = changed._level_limits()
        return replace(changed, level_v=min(max(self.level_v, low_v), high_v))

    def with_display(self, n: int, on: bool) -> Settings:
        """Turn a channel on or off."""
        return replace(self, display=_with(self.display, n, on))

    def with_units(self, n: int, unit: str) -> Settings:
        """Name a channel's unit."""
        return replace(self, units=_with(self.units, n, unit))

    def with_range(self, n: int, range_v: float) -> Settings:
        """Set a channel's full scale; raises -222 beyond what the input has."""
        granted_v = _rounded(range_v / N_DIVISIONS) * N_DIVISIONS
        between(granted_v / self.channel(n).probe_ratio, RANGE_MIN_V, RANGE_MAX_V)
        return self.with_channel(n, range_v=granted_v)

    def with_offset(self, n: int, offset_v: float) -> Settings:
        """Set the voltage at mid-screen; raises -222 beyond what the range allows."""
        limit_v = _offset_limit_v(self.channel(n))
        return self.with_channel(n, offset_v=between(offset_v, -limit_v, limit_v))

    def with_probe(self, n: int, probe_ratio: float) -> Settings:
        """Change the probe's ratio; the screen keeps what it shows, in the new volts."""
        channel = self.channel(n)
        scale = between(probe_ratio, 1e-3, 1e4) / channel.probe_ratio
        return self.with_channel(
            n, probe_ratio=probe_ratio, range_v=channel.range_v * scale, offset_v=channel.offset_v * scale
        )

    def level(self, level_v: float) -> float:
        """Return a trigger level; raises -222 where the trigger's channel cannot reach it."""
        return between(level_v, *self._level_limits())

    def _level_limits(self) -> tuple[float, float]:
        channel = self.channel(self.source)
        reach_v = LEVEL_LIMIT_DIVISIONS / N_DIVISIONS * channel.range_v
        return channel.offset_v - reach_v, channel.offset_v + reach_v

    @property
    def left_s(self) -> float:
        """Return where the record starts as seen from the trigger."""
        return self.position_s - REFERENCE_RATIO[self.reference] * self.span_s

    def sampling(self) -> tuple[float, int]:
        """Return sample interval and points of one segment, as memory and span allow."""
        display = self.display
        paired = (display[0] and display[1]) or (display[2] and display[3])
        shortest_s = (2.0 if paired else 1.0) / RATE_MAX_HZ
        memory = MEMORY_POINTS // (2 if paired else 1)
        if self.segmented:
            memory //= self.n_segments
        multiple = max(1, math.ceil(self.span_s / (shortest_s * memory) - 1e-9))
        dt_s = multiple * shortest_s
        return dt_s, int(self.span_s / dt_s + 1e-6)


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


def span(span_s: float) -> float:
    """Return the time range granted."""
    return between(_rounded(span_s), SPAN_MIN_S, SPAN_MAX_S)


def points(parameters: list[str]) -> int | None:
    """Read a number of points; MAXimum is None. Fewer than 100 are out of range."""
    if parameters and parameters[0][:1].isalpha():
        choice(parameters, "MAXimum")
        return None
    return integer(parameters, 100, 8_000_000)


def _with(values: tuple[T, ...], n: int, value: T) -> tuple[T, ...]:
    place = channel_index(n)
    return (*values[:place], value, *values[place + 1 :])


def _offset_limit_v(channel: ChannelSetup) -> float:
    is_fine = channel.range_v / channel.probe_ratio <= OFFSET_STEP_RANGE_V * (1 + 1e-9)
    return (OFFSET_LIMIT_LOW_V if is_fine else OFFSET_LIMIT_HIGH_V) * channel.probe_ratio


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT_DIGITS - 1}e}")
