"""What is known of a PPK2 beside its words: rate, limits, accuracy; sources are those of `nordic_ppk2`."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

from instruments.drivers.ppk2_words import N_LEVELS
from instruments.errors import OutOfRange
from instruments.protocols import AcquisitionSettings, CurrentSettings, DigitalSettings

MODES = {"ampere": 1, "source": 2}
CURRENT_CHANNEL = "I1"
INPUTS = tuple(f"D{number}" for number in range(N_LEVELS))
RATE_HZ = 100e3
DT_S = 1 / RATE_HZ
SPAN_MAX_S = 600.0  # of this driver: a recording is held in memory, 4 bytes a sample
CURRENT_MAX_A = 1.0
VOLTAGE_MIN_V, VOLTAGE_MAX_V = 0.8, 5.0
VOLTAGE_NEAR_V = 1.5e-3  # millivolts are whole
VOLTAGE_DEFAULT_V = 5.0  # of the maker's program, for the term of the supply where neither side tells its voltage
TIMEBASE_RATIO = 50e-6
# By range: typical accuracy of the reading, and resolution, taken as the limit of the offset.
GAIN_RATIO = (0.10, 0.10, 0.10, 0.10, 0.15)
OFFSET_A = (0.2e-6, 0.5e-6, 5e-6, 50e-6, 1e-3)
STEP_A = (43e-9, 0.43e-6, 4.3e-6, 47e-6, 1e-3)  # of the converter, at the default resistors
ACCURACY_SOURCE = (
    "not verified: typical figures by range that ppk2lab 0.5.1 reports of Nordic's page; no guaranteed limits are "
    "published"
)


def granted_settings(settings: AcquisitionSettings) -> AcquisitionSettings:
    """Return the settings in whole samples, with ranges that change by themselves."""
    # A count that lies a rounding error above a whole number is that number.
    n_words = max(1, ceil(settings.span_s * RATE_HZ - 1e-6))
    n_before = min(ceil(settings.pre_s * RATE_HZ - 1e-6), n_words - 1) if settings.trigger is not None else 0
    channels = tuple(
        replace(channel, range_a=None) if isinstance(channel, CurrentSettings) else channel
        for channel in settings.channels
    )
    return replace(settings, channels=channels, span_s=n_words * DT_S, pre_s=n_before * DT_S, rate_hz=RATE_HZ)


def check_supply(mode: str, voltage_v: float | None) -> None:
    """Raise OutOfRange for a mode that there is not, or a voltage that the regulator cannot give. None is left."""
    if mode not in MODES:
        raise OutOfRange(f"the mode is {' or '.join(MODES)}, not {mode!r}")
    if voltage_v is not None and not VOLTAGE_MIN_V <= voltage_v <= VOLTAGE_MAX_V:
        raise OutOfRange(f"supply voltage must be from {VOLTAGE_MIN_V:g} V to {VOLTAGE_MAX_V:g} V, not {voltage_v:g} V")


def check_settings(settings: AcquisitionSettings) -> None:
    """Raise OutOfRange for what the instrument cannot do. NaN fails every comparison and so is refused too."""
    if not settings.channels:
        raise OutOfRange("at least one channel must be recorded")
    used = [channel.name for channel in settings.channels]
    if len(set(used)) != len(used):
        raise OutOfRange(f"a channel is asked for twice: {', '.join(used)}")
    for channel in settings.channels:
        _check_channel(channel)
    if settings.n_segments != 1:
        raise OutOfRange(f"a meter records one segment that holds all windows, not {settings.n_segments!r}")
    if not 0 < settings.span_s <= SPAN_MAX_S:
        raise OutOfRange(f"span must be above 0 s and up to {SPAN_MAX_S:g} s, not {settings.span_s:g} s")
    if not 0 <= settings.pre_s <= settings.span_s:
        raise OutOfRange(f"pre-trigger time must be from 0 s to the span, not {settings.pre_s:g} s")
    if not 0 <= settings.rate_hz <= RATE_HZ * (1 + 1e-9):
        raise OutOfRange(f"a PPK2 samples at {RATE_HZ:g} Hz, not at {settings.rate_hz:g} Hz")
    trigger = settings.trigger
    if trigger is None:
        return
    if trigger.source not in INPUTS:
        raise OutOfRange(f"no trigger source {trigger.source!r}; this instrument has {', '.join(INPUTS)}")
    if trigger.edge not in ("rising", "falling"):
        raise OutOfRange(f"trigger edge must be rising or falling, not {trigger.edge!r}")


def _check_channel(channel: Any) -> None:
    if channel.name not in (CURRENT_CHANNEL, *INPUTS):
        raise OutOfRange(f"no channel {channel.name!r}; this instrument has {CURRENT_CHANNEL}, {', '.join(INPUTS)}")
    if channel.name == CURRENT_CHANNEL:
        if not isinstance(channel, CurrentSettings):
            raise OutOfRange(f"channel {channel.name} measures current, so it takes a range in ampere, or none")
        if channel.range_a is not None and not 0 < channel.range_a <= CURRENT_MAX_A:
            raise OutOfRange(f"{channel.name} range must be up to {CURRENT_MAX_A:g} A, not {channel.range_a:g} A")
    elif not isinstance(channel, DigitalSettings) or channel.threshold_v is not None:
        raise OutOfRange(f"{channel.name} is a logic input; its threshold follows VCC of the logic port and is not set")
