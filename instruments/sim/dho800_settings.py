"""Settings of the emulated DHO814, what it grants of what it is asked, and the limits of its inputs.

Programming guide: RIGOL DHO800/DHO900 Series Programming Guide, PGA39106-1110, software 00.01.03 (memory depths by the
number of channels 3.3.2; offset 3.6.5, scale 3.6.7, probe 3.6.8; time base 3.26.4, 3.26.5; level 3.27.8.3). Data sheet:
RIGOL DHO800 Series Data Sheet DSA36106-1110, October 2024: 1.25 GS/s shared by the channels that are on; DC gain 1 % of
full scale above 5 mV/div and 2 % (typical) up to it, full scale 8 mV at 500 uV/div (note 4); DC offset 0.1 div + 2 mV +
1.5 % of the offset setting up to 200 mV/div, 1 % above; time base 25 ppm (and 5 ppm a year, which a new one has not);
100 MHz or 20 MHz; 12 bit; half a million frames. Both were read as text in a public repository, not as the vendor's
PDF.

Assumed, for neither says: noise of 100 uV + 0.8 % of a division, with the 20 MHz limit 50 uV + 0.5 % (a public capture
of a DHO824 at 50 mV/div has about 0.8 % of a division); with VERNier off scales go up to the next of 1-2-5, with it on
they keep three digits; the record holds as many points as the memory depth, at the rate that fits the screen or the
highest, around the middle of the screen; when the time base changes, the depth follows at the rate that was (users
report that it is computed anew); AUTO takes the deepest memory that the screen fills at the highest rate; 500 M points
of memory for frames.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from instruments.sim.frontend import N_DIVISIONS, ChannelSetup, Family
from instruments.sim.scpi import ScpiError
from instruments.sim.vertical import N_CHANNELS, N_TIME_DIVISIONS, Vertical, between, changed_at

# Steps of a code that the instrument tells in a division, of 16 bit; the converter's 12 bit are the upper ones.
CODES_PER_DIVISION = 7500
INPUTS = Family(
    gain_ratios=((5e-3, 0.02), (math.inf, 0.01)),
    full_scale_min_v=8e-3,
    offset_division=0.1,
    offset_v=2e-3,
    offset_setting_ratios=((0.2, 0.015), (math.inf, 0.01)),
    timebase_ratio=25e-6,
    noise_full=(100e-6, 0.008),
    noise_limited=(50e-6, 0.005),
    bandwidth_hz=100e6,
    n_codes=1 << 12,
    converter_divisions=(1 << 16) / CODES_PER_DIVISION,
)

RATE_MAX_HZ = 1.25e9
SHARES = {1: 1, 2: 2, 3: 4, 4: 4}
DEPTHS = (1_000, 10_000, 100_000, 1_000_000, 5_000_000, 10_000_000, 25_000_000)
DEPTH_MAX = {1: 25_000_000, 2: 10_000_000, 3: 5_000_000, 4: 5_000_000}
DEPTH_NAMES = {
    "1K": 1_000, "10K": 10_000, "100K": 100_000, "1M": 1_000_000, "5M": 5_000_000, "10M": 10_000_000,
    "25M": 25_000_000, "1E3": 1_000, "1E4": 10_000, "1E5": 100_000, "1E6": 1_000_000, "5E6": 5_000_000,
    "1E7": 10_000_000, "2.5E7": 25_000_000, **{str(depth): depth for depth in DEPTHS},
}  # fmt: skip
FRAMES_MAX = 500_000
FRAME_MEMORY_POINTS = 500_000_000
SCALE_MIN_V, SCALE_MAX_V = 500e-6, 10.0
OFFSET_LIMITS_V = ((65e-3, 1.0), (260e-3, 8.0), (2.65, 20.0), (math.inf, 100.0))
PROBES = tuple(m * 10.0**e for e in range(-3, 5) for m in (1, 2, 5))
SCALE_MIN_S, SCALE_MAX_S = 5e-9, 500.0
# From here on, unless that is switched off, the waveform rolls over the screen and nothing triggers.
ROLL_SCALE_S = 50e-3
SCREEN_POINTS = 1000


@dataclass(frozen=True)
class Settings(Vertical):
    """Everything that *RST resets. Voltages at the probe tip; an offset is what is at mid-screen."""

    LEVEL_LIMIT_DIVISIONS: ClassVar[float] = 4.5

    channels: tuple[ChannelSetup, ...] = tuple(
        ChannelSetup(n, 50e-3 * N_DIVISIONS, 0.0, 1.0, False) for n in range(1, N_CHANNELS + 1)
    )
    units: tuple[str, ...] = ("VOLT",) * N_CHANNELS
    fine: tuple[bool, ...] = (False,) * N_CHANNELS
    scale_s: float = SCALE_MIN_S
    offset_s: float = 0.0
    fine_time: bool = False
    rolls: bool = True
    depth: int = 10_000
    auto_depth: bool = False
    sweep: str = "AUTO"
    slope: str = "POS"
    holdoff_s: float = 8e-9
    wave_source: int = 1
    wave_mode: str = "NORM"
    wave_format: str = "BYTE"
    first: int = 1
    last: int = SCREEN_POINTS

    @staticmethod
    def offset_limit_v(channel: ChannelSetup) -> float:
        """Return how far a channel's offset may go from 0."""
        division_v = channel.range_v / N_DIVISIONS / channel.probe_ratio
        limit_v = next(limit for up_to_v, limit in OFFSET_LIMITS_V if division_v <= up_to_v * (1 + 1e-9))
        return limit_v * channel.probe_ratio

    def with_display(self, n: int, on: bool) -> Self:
        """Turn a channel on or off; more channels have less memory each."""
        changed = super().with_display(n, on)
        return replace(changed, depth=min(changed.depth, DEPTH_MAX[changed.n_on]))

    def with_scale(self, n: int, scale_v: float) -> Self:
        """Set a channel's scale in V/div; raises -222 beyond what the input has."""
        probe_ratio = self.channel(n).probe_ratio
        between(scale_v / probe_ratio, SCALE_MIN_V, SCALE_MAX_V)
        granted_v = granted(scale_v / probe_ratio, self.fine[n - 1]) * probe_ratio
        return self.with_channel(n, range_v=granted_v * N_DIVISIONS)

    def with_units(self, n: int, unit: str) -> Self:
        """Name a channel's unit."""
        return replace(self, units=changed_at(self.units, n, unit))

    def with_fine(self, n: int, on: bool) -> Self:
        """Let a channel's scale take any value, or 1-2-5 only."""
        return replace(self, fine=changed_at(self.fine, n, on))

    def with_time_scale(self, scale_s: float) -> Self:
        """Set the time base in s/div; memory depth and offset follow. Raises -222."""
        scale_s = granted(between(scale_s, SCALE_MIN_S, SCALE_MAX_S), self.fine_time)
        if math.isclose(scale_s, self.scale_s):
            return self
        needed = self.rate_hz * N_TIME_DIVISIONS * scale_s * (1 - 1e-9)
        fitting = [depth for depth in DEPTHS if needed <= depth <= DEPTH_MAX[self.n_on]]
        changed = replace(self, scale_s=scale_s, depth=fitting[0] if fitting else DEPTH_MAX[self.n_on])
        low_s, high_s = changed._offset_limits_s()
        return replace(changed, offset_s=min(max(self.offset_s, low_s), high_s))

    def with_time_offset(self, offset_s: float) -> Self:
        """Set when, after the trigger, the middle of the screen is; raises -222."""
        return replace(self, offset_s=between(offset_s, *self._offset_limits_s()))

    def with_depth(self, parameters: list[str]) -> Self:
        """Set the memory depth by one of its names; raises -222 for what the channels that are on do not have."""
        name = parameters[0].upper() if len(parameters) == 1 else ""
        if name == "AUTO":
            return replace(self, auto_depth=True)
        if DEPTH_NAMES.get(name, math.inf) > DEPTH_MAX[self.n_on]:
            raise ScpiError(-222 if parameters else -109)
        return replace(self, depth=DEPTH_NAMES[name], auto_depth=False)

    @property
    def n_on(self) -> int:
        """Return how many channels share rate and memory."""
        return max(1, sum(self.display))

    @property
    def n_points(self) -> int:
        """Return the points of a record."""
        if not self.auto_depth:
            return self.depth
        filled = N_TIME_DIVISIONS * self.scale_s * self._rate_max_hz * (1 + 1e-9)
        return max((depth for depth in DEPTHS if depth <= min(filled, DEPTH_MAX[self.n_on])), default=DEPTHS[0])

    @property
    def rate_hz(self) -> float:
        """Return the sample rate."""
        return min(self._rate_max_hz, self.n_points / (N_TIME_DIVISIONS * self.scale_s))

    @property
    def left_s(self) -> float:
        """Return where the record starts as seen from the trigger."""
        return self.offset_s - self.n_points / self.rate_hz / 2

    @property
    def frames_max(self) -> int:
        """Return how many frames the memory holds."""
        return min(FRAMES_MAX, FRAME_MEMORY_POINTS // (self.n_points * self.n_on))

    @property
    def is_rolling(self) -> bool:
        """Tell whether the waveform rolls over the screen."""
        return self.rolls and self.scale_s >= ROLL_SCALE_S * (1 - 1e-9)

    @property
    def _rate_max_hz(self) -> float:
        return RATE_MAX_HZ / SHARES[self.n_on]

    def _offset_limits_s(self) -> tuple[float, float]:
        """Return the limits of guide 3.26.4 for the RUN state."""
        scale_s = self.scale_s
        if scale_s <= 10e-3:
            high_s = 1.0
        elif scale_s < 10:
            high_s = 100 * scale_s
        else:
            high_s = 1000.0 if scale_s < 200 else 5 * scale_s
        return -5 * scale_s, high_s


def granted(value: float, fine: bool) -> float:
    """Return a scale with three digits, or the next of 1-2-5 that is not less."""
    if fine:
        return float(f"{value:.2e}")
    exponent = math.floor(math.log10(value) + 1e-9)
    steps = (float(f"{m}e{exponent}") for m in (1, 2, 5, 10))
    return next(step for step in steps if value <= step * (1 + 1e-9))
