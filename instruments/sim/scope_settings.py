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
from typing import ClassVar

from instruments.sim.frontend import N_DIVISIONS, ChannelSetup
from instruments.sim.scpi import choice, integer
from instruments.sim.vertical import N_CHANNELS, Vertical, between, changed_at

RATE_MAX_HZ = 5e9
MEMORY_POINTS = 4_000_000
MEASUREMENT_POINTS = 62_500
SEGMENTS_MIN, SEGMENTS_MAX = 2, 1000
RANGE_MIN_V, RANGE_MAX_V = 8e-3, 40.0  # at the input: 1 mV/div to 5 V/div
OFFSET_STEP_RANGE_V = 1.6  # up to 200 mV/div
OFFSET_LIMIT_LOW_V, OFFSET_LIMIT_HIGH_V = 2.0, 50.0
SPAN_MIN_S, SPAN_MAX_S = 20e-9, 500.0
SIGNIFICANT_DIGITS = 3
REFERENCE_RATIO = {"LEFT": 0.1, "CENT": 0.5, "RIGH": 0.9}


@dataclass(frozen=True)
class Settings(Vertical):
    """Everything that *RST resets. Voltages at the probe tip."""

    LEVEL_LIMIT_DIVISIONS: ClassVar[float] = 6

    channels: tuple[ChannelSetup, ...] = tuple(ChannelSetup(n, 40.0, 0.0, 1.0, False) for n in range(1, 5))
    units: tuple[str, ...] = ("VOLT",) * N_CHANNELS
    span_s: float = 1e-3
    position_s: float = 0.0
    reference: str = "CENT"
    sweep: str = "AUTO"
    slope: str = "POS"
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

    @staticmethod
    def offset_limit_v(channel: ChannelSetup) -> float:
        """Return how far a channel's offset may go from 0."""
        is_fine = channel.range_v / channel.probe_ratio <= OFFSET_STEP_RANGE_V * (1 + 1e-9)
        return (OFFSET_LIMIT_LOW_V if is_fine else OFFSET_LIMIT_HIGH_V) * channel.probe_ratio

    def with_units(self, n: int, unit: str) -> Settings:
        """Name a channel's unit."""
        return replace(self, units=changed_at(self.units, n, unit))

    def with_range(self, n: int, range_v: float) -> Settings:
        """Set a channel's full scale; raises -222 beyond what the input has."""
        granted_v = _rounded(range_v / N_DIVISIONS) * N_DIVISIONS
        between(granted_v / self.channel(n).probe_ratio, RANGE_MIN_V, RANGE_MAX_V)
        return self.with_channel(n, range_v=granted_v)

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


def span(span_s: float) -> float:
    """Return the time range granted."""
    return between(_rounded(span_s), SPAN_MIN_S, SPAN_MAX_S)


def points(parameters: list[str]) -> int | None:
    """Read a number of points; MAXimum is None. Fewer than 100 are out of range."""
    if parameters and parameters[0][:1].isalpha():
        choice(parameters, "MAXimum")
        return None
    return integer(parameters, 100, 8_000_000)


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT_DIGITS - 1}e}")
