"""What the manuals say of Rigol DHO800 and DHO900 oscilloscopes: limits, accuracy, how replies are read.

The short names in brackets are explained in `rigol_dho800`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from instruments.drivers.oscilloscope import DIVISIONS, Limits, channel_number, check_input, check_plan, within
from instruments.errors import BadData, OutOfRange
from instruments.protocols import AcquisitionSettings, ChannelSettings
from instruments.record import Accuracy, Channel

SPAN_MIN_S, SPAN_MAX_S = 50e-9, 5e3  # 5 ns/div to 500 s/div, 10 divisions [DS]
RATE_MAX_HZ = 1.25e9  # one channel on; half of it with two, a quarter with three or four [DS]
SEGMENTS_MAX = 500_000  # frames, at the smallest depth [DS]
LEVEL_MAX_DIVISIONS = 4.5  # from mid-screen [PG] 3.27.8.3
LIMITS = Limits(SPAN_MIN_S, SPAN_MAX_S, RATE_MAX_HZ, SEGMENTS_MAX, LEVEL_MAX_DIVISIONS)

SCALE_MAX_V = 10.0  # per division at 1:1 [PG] 3.6.7
STEPS_V = tuple(float(f"{step}e{decade}") for decade in range(-4, 2) for step in (1, 2, 5))
PROBES = tuple(float(f"{step}e{decade}") for decade in range(-3, 5) for step in (1, 2, 5))  # [PG] 3.6.8
# Largest offset at 1:1, by the largest scale per division that it holds for [PG] 3.6.5.
OFFSET_MAX_V = ((499e-6, 0.5), (65e-3, 1.0), (260e-3, 8.0), (2.65, 20.0), (SCALE_MAX_V, 100.0))

DEPTHS = (1_000, 10_000, 100_000, 1_000_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000)  # [PG] 3.3.2
# Largest depth with one, two, and more channels on [PG] 3.3.2, [DS].
DEPTHS_MAX = {"8": (25_000_000, 10_000_000, 5_000_000), "9": (50_000_000, 25_000_000, 10_000_000)}
# Deeper records than this take seconds to read; who needs one asks for its sample rate.
DEPTH_USUAL = 1_000_000

# DC gain, of full scale, above 5 mV/div and up to it; below 1 mV/div the limit is that of 1 mV/div [DS].
GAIN_RATIO, GAIN_FINE_RATIO, FINE_UP_TO_V, GAIN_LEAST_V = 0.01, 0.02, 5e-3, 1e-3
OFFSET_DIVISIONS, OFFSET_FIXED_V = 0.1, 2e-3  # [DS]
OFFSET_SETTING_RATIO, OFFSET_SETTING_COARSE_RATIO, COARSE_FROM_V = 0.015, 0.01, 0.2  # [DS]
# rms: a fixed part and a part of a division. [DS] has none; assumed, about twice what a DHO824 showed at 50 mV/div.
NOISE_FULL_V, NOISE_FULL_RATIO = 100e-6, 0.015
NOISE_LIMITED_V, NOISE_LIMITED_RATIO = 50e-6, 0.01
# 25 ppm and 5 ppm a year; the calibration that is due after 18 months is taken to be two years old at most [DS].
TIMEBASE_RATIO = 25e-6 + 2 * 5e-6
ACCURACY_SOURCE = (
    "Rigol DHO800 data sheet DSA36106-1110: gain ±1 % of full scale (±2 % typical up to 5 mV/div) as a slope, offset "
    "±(0.1 div + 2 mV + 1.5 % of the offset setting, 1 % above 200 mV/div); noise: assumption; DHO900: not verified"
)

PREAMBLE_FIELDS = 10
WORD, RAW = 1, 2  # [PG] 3.28.14
CODE_LAST = 0xFFFF
UNITS_S = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6}
STAMP = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?) ?([pnumkM]?)s?")


@dataclass(frozen=True)
class Preamble:
    """What turns codes into volts and positions into seconds [PG] 3.28, 3.28.14."""

    dt_s: float
    start_s: float
    scale_v: float
    offset_v: float


def scale_min_v(model: str) -> float:
    """Return the finest scale per division at 1:1 [PG] 3.6.7."""
    return 200e-6 if model[3] == "9" else 500e-6


def check_settings(settings: AcquisitionSettings, names: tuple[str, ...], model: str) -> AcquisitionSettings:
    """Return the settings with each range on a step that the instrument has; raise OutOfRange for what it cannot do."""
    check_plan(settings, LIMITS, lambda channel: _check_channel(channel, names, model))
    return replace(settings, channels=tuple(on_step(channel, model) for channel in settings.voltages))


def on_step(channel: ChannelSettings, model: str) -> ChannelSettings:
    """Round a range up to 1, 2 or 5 times a power of ten per division: the steps between are off by default."""
    wanted_v = channel.range_v / DIVISIONS / channel.probe_ratio
    # What a rounding error brings above a step is that step.
    step_v = next(step_v for step_v in STEPS_V if step_v * (1 + 1e-6) >= max(wanted_v, scale_min_v(model)))
    return replace(channel, range_v=float(f"{DIVISIONS * step_v * channel.probe_ratio:.9g}"))


def _check_channel(channel: ChannelSettings, names: tuple[str, ...], model: str) -> None:
    check_input(channel, names)
    probe = channel.probe_ratio
    if probe not in PROBES:
        raise OutOfRange(
            f"{channel.name} probe ratio must be 1, 2 or 5 times a power of ten from 0.001 to 50000, not {probe:g}"
        )
    # At the probe's tip everything is as many times larger as the probe divides.
    through = "" if probe == 1 else f" with its {probe:g}:1 probe"
    low_v, high_v = DIVISIONS * scale_min_v(model) * probe, DIVISIONS * SCALE_MAX_V * probe
    within(f"{channel.name} range", channel.range_v, low_v, high_v, "V", through)
    scale_v = on_step(channel, model).range_v / DIVISIONS / probe
    limit_v = probe * next(most_v for up_to_v, most_v in OFFSET_MAX_V if scale_v <= up_to_v * (1 + 1e-6))
    within(f"{channel.name} offset", channel.offset_v, -limit_v, limit_v, "V", through)


def rate_max_hz(n_used: int) -> float:
    """Return the highest sample rate with that many channels on."""
    return RATE_MAX_HZ / (1, 2, 4, 4)[n_used - 1]


def choose_depth(settings: AcquisitionSettings, model: str) -> int:
    """Return the memory depth of a frame: enough for the rate asked for, of which `n_segments` fit, else the most.

    Where none is asked for, as much as is read in good time.
    """
    n_used = len(settings.channels)
    most = DEPTHS_MAX[model[3]][min(n_used, 3) - 1]
    fitting = [depth for depth in DEPTHS if depth * settings.n_segments <= most] or [DEPTHS[0]]
    wanted = settings.rate_hz * settings.span_s or min(DEPTH_USUAL, rate_max_hz(n_used) * settings.span_s)
    return next((depth for depth in fitting if depth >= wanted * (1 - 1e-9)), fitting[-1])


def parse_preamble(reply: str, where: str) -> Preamble:
    """Return what the ten fields mean: value = (code - yorigin - yreference) * yincrement.

    The third field, the number of points, is the size of the page that is read, and so is not used. Raises BadData.
    """
    try:
        values = [float(field) for field in reply.split(",")]
    except ValueError as error:
        raise BadData(f"{where}: the preamble holds something else than numbers: {reply!r}") from error
    if len(values) != PREAMBLE_FIELDS or not all(isfinite(value) for value in values):
        raise BadData(f"{where}: the preamble must hold {PREAMBLE_FIELDS} finite numbers: {reply!r}")
    form, kind, _, _, x_step, x_origin, x_reference, y_step, y_origin, y_reference = values
    if (form, kind) != (WORD, RAW):
        raise BadData(f"{where}: expected format 1 (WORD) and type 2 (RAW) in the preamble: {reply!r}")
    if not (x_step > 0 and y_step > 0):
        raise BadData(f"{where}: the preamble tells of steps that are not positive: {reply!r}")
    if x_reference != 0:
        raise BadData(f"{where}: the preamble's time reference is always the first point, 0: {reply!r}")
    return Preamble(
        dt_s=x_step, start_s=x_origin, scale_v=y_step, offset_v=-(y_origin + y_reference) * y_step
    )


def parse_stamp(reply: str, where: str) -> float:
    """Return the seconds that a frame's time stamp tells, such as 109.48ms. Raises BadData."""
    found = STAMP.fullmatch(reply.strip('" '))
    if found is None:
        raise BadData(f"{where}: expected a time with its unit, such as 109.48ms, got {reply!r}")
    return float(found[1]) * UNITS_S[found[2]]


def noise_rms_v(settings: ChannelSettings) -> float:
    """Return the noise at the probe tip, rms."""
    fixed_v, ratio = NOISE_FULL_V, NOISE_FULL_RATIO
    if settings.bandwidth_limit:
        fixed_v, ratio = NOISE_LIMITED_V, NOISE_LIMITED_RATIO
    return fixed_v * settings.probe_ratio + ratio * settings.range_v / DIVISIONS


def gain_ratio(settings: ChannelSettings) -> float:
    """Return the limit of the slope error."""
    scale_v = settings.range_v / DIVISIONS / settings.probe_ratio
    if scale_v > FINE_UP_TO_V * (1 + 1e-9):
        return GAIN_RATIO
    return GAIN_FINE_RATIO * max(1.0, GAIN_LEAST_V / scale_v)


def offset_limit_v(settings: ChannelSettings) -> float:
    """Return the limit of the offset error at the probe tip."""
    scale_v, probe = settings.range_v / DIVISIONS / settings.probe_ratio, settings.probe_ratio
    coarse = scale_v > COARSE_FROM_V * (1 + 1e-9)
    setting_ratio = OFFSET_SETTING_COARSE_RATIO if coarse else OFFSET_SETTING_RATIO
    return (OFFSET_DIVISIONS * scale_v + OFFSET_FIXED_V) * probe + setting_ratio * abs(settings.offset_v)


def make_channel(settings: ChannelSettings, codes: np.ndarray[Any, Any], preamble: Preamble) -> Channel:
    """Join codes of shape (segments, samples) with what the preamble, the settings and the data sheet say of them.

    Specified are 4 divisions on either side of mid-screen [DS], though the codes go on a little: what lies at that
    edge or beyond counts as clipped.
    """
    middle = (settings.offset_v - preamble.offset_v) / preamble.scale_v
    reach = settings.range_v / 2 / preamble.scale_v
    return Channel(
        name=settings.name,
        codes=codes,
        scale=preamble.scale_v,
        offset=preamble.offset_v,
        label=f"CHAN{channel_number(settings.name)}",
        code_min=max(0.0, middle - reach),
        code_max=min(float(CODE_LAST), middle + reach),
        settings={**asdict(settings), "impedance_ohm": 1e6},
        accuracy=Accuracy(
            gain_ratio=gain_ratio(settings),
            offset_limit=offset_limit_v(settings),
            noise_rms=noise_rms_v(settings),
            source=ACCURACY_SOURCE,
        ),
    )
