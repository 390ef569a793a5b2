"""What the manuals say of InfiniiVision 3000T X-Series oscilloscopes: limits, accuracy, how a preamble is read.

The short names in brackets are explained in `keysight_infiniivision`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np

from instruments.drivers.oscilloscope import DIVISIONS, Limits, channel_number, check_input, check_plan, within
from instruments.errors import BadData
from instruments.protocols import AcquisitionSettings, ChannelSettings
from instruments.record import Accuracy, Channel

RANGE_MIN_V, RANGE_MAX_V = 8e-3, 40.0  # 1 mV/div to 5 V/div, 8 divisions, 1:1 [DS]
OFFSET_MAX_V, OFFSET_MAX_COARSE_V, COARSE_FROM_V = 2.0, 50.0, 1.6  # coarse: more than 200 mV/div [DS]
PROBE_MIN_RATIO, PROBE_MAX_RATIO = 1e-3, 1e4  # [DS]
SPAN_MIN_S, SPAN_MAX_S = 20e-9, 500.0  # 2 ns/div to 50 s/div, 10 divisions [DS]
RATE_MAX_HZ = 5e9  # one channel of each pair; half of it with both [DS]
MEMORY_SAMPLES = 4_000_000  # one channel of each pair; half of it with both, divided by the segments [DS], [UG]
SEGMENTS_MAX = 1000  # [DS]
LEVEL_MAX_DIVISIONS = 6.0  # from mid-screen [PG] p. 1014
LIMITS = Limits(SPAN_MIN_S, SPAN_MAX_S, RATE_MAX_HZ, SEGMENTS_MAX, LEVEL_MAX_DIVISIONS)

GAIN_RATIO = 0.02  # [DS]
OFFSET_DIVISIONS, OFFSET_FIXED_V, OFFSET_SETTING_RATIO = 0.1, 2e-3, 0.01  # [DS]
# rms: a fixed part and a part of a division. Not verified against [DS]: limits of a comparable oscilloscope,
# Tektronix MSO3000 and DPO3000 user manual p. 166, 300 MHz model, at full bandwidth and with the 20 MHz limit.
NOISE_FULL_V, NOISE_FULL_RATIO = 140e-6, 0.06
NOISE_LIMITED_V, NOISE_LIMITED_RATIO = 30e-6, 0.05
TIMEBASE_RATIO = 10e-6  # [SG]
ACCURACY_SOURCE = (
    "assumption, not verified against Keysight 3000T X-Series data sheet 5992-0140EN: gain ±2 % of full scale as a "
    "slope, offset ±(0.1 div + 2 mV + 1 % of the offset setting); noise: that of a Tektronix MSO3000 (manual p. 166)"
)

PREAMBLE_FIELDS = 10
CODE_MIN, CODE_MAX = 0, 255  # BYTE, unsigned; 0 also stands for a sample that is missing [PG] p. 1095


@dataclass(frozen=True)
class Preamble:
    """What turns codes into volts and positions into seconds [PG3] p. 940, [PG2] p. 632."""

    n_points: int
    dt_s: float
    start_s: float
    scale_v: float
    offset_v: float


def check_settings(settings: AcquisitionSettings, names: tuple[str, ...]) -> None:
    """Raise OutOfRange for what the instrument cannot do."""
    check_plan(settings, LIMITS, lambda channel: _check_channel(channel, names))


def _check_channel(channel: ChannelSettings, names: tuple[str, ...]) -> None:
    check_input(channel, names)
    probe = channel.probe_ratio
    within(f"{channel.name} probe ratio", probe, PROBE_MIN_RATIO, PROBE_MAX_RATIO, "to 1")
    # At the probe's tip everything is as many times larger as the probe divides.
    through = "" if probe == 1 else f" with its {probe:g}:1 probe"
    within(f"{channel.name} range", channel.range_v, RANGE_MIN_V * probe, RANGE_MAX_V * probe, "V", through)
    limit_v = probe * (OFFSET_MAX_COARSE_V if channel.range_v > COARSE_FROM_V * probe else OFFSET_MAX_V)
    within(f"{channel.name} offset", channel.offset_v, -limit_v, limit_v, "V", through)


def parse_preamble(reply: str, where: str) -> Preamble:
    """Return what the ten fields mean: value = (code - yreference) * yincrement + yorigin, and the same in time."""
    fields = reply.split(",")
    try:
        values = [float(field) for field in fields]
    except ValueError as error:
        raise BadData(f"{where}: the preamble holds something else than numbers: {reply!r}") from error
    if len(values) != PREAMBLE_FIELDS or not all(isfinite(value) for value in values):
        raise BadData(f"{where}: the preamble must hold {PREAMBLE_FIELDS} finite numbers: {reply!r}")
    form, kind, n_points, _, x_step, x_origin, x_reference, y_step, y_origin, y_reference = values
    if (form, kind) != (0, 0):
        raise BadData(f"{where}: expected format 0 (BYTE) and type 0 (NORMal) in the preamble: {reply!r}")
    if not (n_points >= 1 and n_points.is_integer() and x_step > 0 and y_step > 0):
        raise BadData(f"{where}: the preamble tells of no points, or of steps that are not positive: {reply!r}")
    return Preamble(
        n_points=int(n_points),
        dt_s=x_step,
        start_s=x_origin - x_reference * x_step,
        scale_v=y_step,
        offset_v=y_origin - y_reference * y_step,
    )


def noise_rms_v(settings: ChannelSettings) -> float:
    """Return the noise at the probe tip, rms."""
    fixed_v, ratio = NOISE_FULL_V, NOISE_FULL_RATIO
    if settings.bandwidth_limit:
        fixed_v, ratio = NOISE_LIMITED_V, NOISE_LIMITED_RATIO
    return fixed_v * settings.probe_ratio + ratio * settings.range_v / DIVISIONS


def make_channel(settings: ChannelSettings, codes: np.ndarray[Any, Any], preamble: Preamble) -> Channel:
    """Join codes of shape (segments, samples) with what the preamble, the settings and the data sheet say of them."""
    probe, range_v = settings.probe_ratio, settings.range_v
    offset_limit_v = (
        OFFSET_DIVISIONS * range_v / DIVISIONS + OFFSET_FIXED_V * probe + OFFSET_SETTING_RATIO * abs(settings.offset_v)
    )
    return Channel(
        name=settings.name,
        codes=codes,
        scale=preamble.scale_v,
        offset=preamble.offset_v,
        label=f"CHAN{channel_number(settings.name)}",
        code_min=CODE_MIN,
        code_max=CODE_MAX,
        settings={**asdict(settings), "impedance_ohm": 1e6},
        accuracy=Accuracy(
            gain_ratio=GAIN_RATIO,
            offset_limit=offset_limit_v,
            noise_rms=noise_rms_v(settings),
            source=ACCURACY_SOURCE,
        ),
    )
