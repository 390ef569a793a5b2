"""Analog front ends and sample clock of the emulated oscilloscopes, with the errors their data sheets allow.

What is modelled; figures and sources are those of the InfiniiVision, a `Family` has those of others:

- Gain: a slope error of at most 2 % of full scale, about mid-screen, one draw per channel and range (Keysight
  InfiniiVision 3000T X-Series data sheet 5992-0140EN, DC vertical gain accuracy: not verified against it).
- Offset: at most 0.1 division + 2 mV + 1 % of the offset setting, one draw per channel and range (same source).
- Noise: white, Gaussian, rms = fixed part + part of a division: not verified against the same data sheet. Taken are
  the limits of a comparable scope, Tektronix MSO3000 manual p. 166, 300 MHz model: 140 uV + 6 % of a division, with
  the 20 MHz limit 30 uV + 5 %. An assumption.
- Time base: at most 10 ppm (Agilent 4000 X-Series Service Guide p. 52, test limit); the phase is free-running.
- Bandwidth: one exponential pole, 200 MHz or 20 MHz (rise time 0.35/bandwidth). The trigger pin goes through it
  exactly, its own rise time added as a root sum of squares; the shunt voltage, far slower, is delayed by its tau.
- Converter: 8 bit, 256 codes over 8 divisions, code 128 at the offset setting, clipped at 0 and 255.
- Skew: probe and cable of the shunt's channel delay it against the trigger's, or the other way round, by at most 5 ns:
  about a metre of coaxial cable at 5 ns/m (assumed), one draw per bench, on top of what the channels themselves delay.
- A probe's ratio scales range, offset and the fixed error parts, which hold at the scope's input.
- A gain limit in parts of full scale is a slope error of that size; where full scale is more than the screen, as a
  data sheet may say of the finest ranges, it is as much more.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field

import numpy as np

from instruments.sim.circuit import draw, of_stream
from instruments.sim.pin import PIN_RISE_S, RISE_PER_TAU
from instruments.sim.world import World

GAIN_LIMIT_RATIO = 0.02
OFFSET_LIMIT_DIVISION = 0.1
OFFSET_LIMIT_V = 2e-3
OFFSET_LIMIT_SETTING_RATIO = 0.01
TIMEBASE_LIMIT_RATIO = 10e-6
SKEW_LIMIT_S = 5e-9
# What the shunt's probe reads under a wiring fault, as part of what it would; "bypassed": another ground carries 70 %.
SHUNT_FAULTS = {"reversed": -1.0, "disconnected": 0.0, "bypassed": 0.3}
NOISE_FULL = (140e-6, 0.06)  # V at the input, parts of a division
NOISE_LIMITED = (30e-6, 0.05)
BANDWIDTH_HZ = 200e6
BANDWIDTH_LIMITED_HZ = 20e6
N_DIVISIONS = 8
N_CODES = 256
MID_CODE = 128


@dataclass(frozen=True)
class Family:
    """What the oscilloscopes of one family are like at their inputs.

    Limits that hang on the range are pairs of (V/div at the input up to which it holds, limit), rising. Noise is a
    fixed part in V and one of a division. The converter's codes reach over `converter_divisions`, its middle one lies
    at the offset setting.
    """

    gain_ratios: tuple[tuple[float, float], ...]
    full_scale_min_v: float
    offset_division: float
    offset_v: float
    offset_setting_ratios: tuple[tuple[float, float], ...]
    timebase_ratio: float
    noise_full: tuple[float, float]
    noise_limited: tuple[float, float]
    bandwidth_hz: float
    n_codes: int
    converter_divisions: float

    @property
    def mid_code(self) -> int:
        """Return the code at the offset setting."""
        return self.n_codes // 2

    @property
    def code_type(self) -> type[np.uint8] | type[np.uint16]:
        """Return what holds a code."""
        return np.uint8 if self.n_codes <= 1 << 8 else np.uint16


INFINIIVISION = Family(
    gain_ratios=((math.inf, GAIN_LIMIT_RATIO),),
    full_scale_min_v=0.0,
    offset_division=OFFSET_LIMIT_DIVISION,
    offset_v=OFFSET_LIMIT_V,
    offset_setting_ratios=((math.inf, OFFSET_LIMIT_SETTING_RATIO),),
    timebase_ratio=TIMEBASE_LIMIT_RATIO,
    noise_full=NOISE_FULL,
    noise_limited=NOISE_LIMITED,
    bandwidth_hz=BANDWIDTH_HZ,
    n_codes=N_CODES,
    converter_divisions=N_DIVISIONS,
)


@dataclass(frozen=True)
class ChannelSetup:
    """Settings of one channel as granted, at the probe tip."""

    number: int
    range_v: float
    offset_v: float
    probe_ratio: float
    bandwidth_limit: bool


class SampleClock:
    """The scope's time base in one acquisition: at a phase nobody chose, and off by a little.

    `stream` and the acquisition's number draw the phase; how far it is off hangs on the seed alone.
    """

    def __init__(self, seed: int, stream: int = 0, n_acquisitions: int = 0, family: Family = INFINIIVISION) -> None:
        self.error_ratio = family.timebase_ratio * draw(seed, "timebase")
        key = (stream, n_acquisitions) if stream or n_acquisitions else ()
        self._phase = 0.5 + 0.5 * draw(seed, "phase", *key)

    def true_s(self, believed_s: float) -> float:
        """Return how long a stretch really lasts that the instrument takes for `believed_s`."""
        return believed_s * (1.0 + self.error_ratio)

    def believed_s(self, true_s: float) -> float:
        """Return what the instrument takes a stretch of `true_s` for."""
        return true_s / (1.0 + self.error_ratio)

    def first_tick_s(self, from_s: float, dt_s: float) -> float:
        """Return the true time of the first sample at or after `from_s`, for a believed interval `dt_s`."""
        step_s = self.true_s(dt_s)
        return (math.ceil(from_s / step_s - self._phase) + self._phase) * step_s


def skew_s(seed: int) -> float:
    """Draw how much later the shunt's probe and cable deliver than the trigger's; one value a bench."""
    return SKEW_LIMIT_S * draw(seed, "skew")


@dataclass
class FrontEnd:
    """One channel's way from the probe tip to codes. `signal` is "shunt", "trigger" or "open"."""

    seed: int
    signal: str
    setup: ChannelSetup
    family: Family = INFINIIVISION
    gain_ratio: float = field(init=False)
    offset_error_v: float = field(init=False)
    skew_s: float = field(init=False)

    def __post_init__(self) -> None:
        setup, family = self.setup, self.family
        self.skew_s = skew_s(self.seed) if self.signal == "shunt" else 0.0
        input_v = setup.range_v / setup.probe_ratio
        # The range at the input in microvolts, so that a probe or the last digit of a float does not matter.
        key = (setup.number, round(input_v * 1e6))
        limit_v = (
            family.offset_division * setup.range_v / N_DIVISIONS
            + family.offset_v * setup.probe_ratio
            + _at(family.offset_setting_ratios, input_v) * abs(setup.offset_v)
        )
        limit_ratio = _at(family.gain_ratios, input_v) * max(1.0, family.full_scale_min_v / input_v)
        self.gain_ratio = limit_ratio * draw(self.seed, "gain", *key)
        self.offset_error_v = limit_v * draw(self.seed, "offset", *key)

    @property
    def volts_per_code(self) -> float:
        """Return the converter's step at the probe tip."""
        return self.setup.range_v / N_DIVISIONS * self.family.converter_divisions / self.family.n_codes

    @property
    def noise_rms_v(self) -> float:
        """Return the noise at the probe tip."""
        fixed_v, division_ratio = self.family.noise_limited if self.setup.bandwidth_limit else self.family.noise_full
        return fixed_v * self.setup.probe_ratio + division_ratio * self.setup.range_v / N_DIVISIONS

    @property
    def rise_s(self) -> float:
        """Return the front end's own rise time."""
        return 0.35 / (BANDWIDTH_LIMITED_HZ if self.setup.bandwidth_limit else self.family.bandwidth_hz)

    @property
    def pin_tau_s(self) -> float:
        """Return the pole through which this channel sees the trigger pin."""
        return math.hypot(PIN_RISE_S, self.rise_s) / RISE_PER_TAU

    def volts(self, world: World, t0_s: float, dt_s: float, n: int, n_before: int = 0) -> np.ndarray:
        """Return the true voltage at the converter's input, before the channel's errors; float64, shape (n,).

        Samples are at ``t0_s + (n_before + k)*dt_s``.
        """
        if self.signal == "shunt":
            part = SHUNT_FAULTS.get(world.shunt_fault or "", 1.0)
            if world.shunt_at_pin:
                return part * world.level(t0_s - self.skew_s, dt_s, n, self.pin_tau_s, n_before=n_before)
            return part * world.sample(t0_s - self.skew_s - self.rise_s / RISE_PER_TAU, dt_s, n, n_before)
        if self.signal == "trigger":
            return world.level(t0_s, dt_s, n, self.pin_tau_s, world.trigger_fault, n_before)
        return np.zeros(n)

    def crossing(self, world: World, after_s: float, level_v: float, rising: bool) -> float:
        """Return when this channel, with its errors but without noise, passes `level_v` after `after_s`; or NaN."""
        offset_v = self.setup.offset_v
        true_level_v = (level_v - offset_v - self.offset_error_v) / (1.0 + self.gain_ratio) + offset_v
        if self.signal == "shunt":
            part = SHUNT_FAULTS.get(world.shunt_fault or "", 1.0)
            if part == 0:
                return math.nan
            level_v, rising = true_level_v / part, rising == (part > 0)
            if world.shunt_at_pin:
                delay_s = self.skew_s
                return world.pin_crossing(after_s - delay_s, level_v, rising, self.pin_tau_s) + delay_s
            delay_s = self.skew_s + self.rise_s / RISE_PER_TAU
            return world.shunt_crossing(after_s - delay_s, level_v, rising) + delay_s
        if self.signal == "trigger":
            return world.pin_crossing(after_s, true_level_v, rising, self.pin_tau_s, world.trigger_fault)
        return math.nan

    def digitize(self, volts: np.ndarray, noise: np.random.Generator) -> np.ndarray:
        """Return the codes, uint8 or uint16 of shape (n,), for true voltages: errors, noise, rounding, clipping."""
        step_v = self.volts_per_code
        slope = (1.0 + self.gain_ratio) / step_v
        shift = self.family.mid_code + self.offset_error_v / step_v - self.setup.offset_v * slope
        codes = noise.standard_normal(len(volts), dtype=np.float32)
        codes *= np.float32(self.noise_rms_v / step_v)
        codes += (volts * slope + shift).astype(np.float32)
        np.rint(codes, out=codes)
        np.clip(codes, 0, self.family.n_codes - 1, out=codes)
        return codes.astype(self.family.code_type)


def _at(limits: tuple[tuple[float, float], ...], input_v: float) -> float:
    """Return the limit that holds for a full scale at the input."""
    return next(limit for division_v, limit in limits if input_v <= N_DIVISIONS * division_v * (1 + 1e-9))


def noise_generator(seed: int, channel: int, n_acquisitions: int, stream: int = 0) -> np.random.Generator:
    """Return the noise of one channel in one acquisition since power-up; the same seed and stream repeat it."""
    words = [seed, zlib.crc32(b"noise"), channel, n_acquisitions, *of_stream(stream)]
    return np.random.Generator(np.random.SFC64(words))
