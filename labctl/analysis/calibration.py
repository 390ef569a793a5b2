"""Which calibration holds for a record: its instrument, its settings, its day."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from instruments.record import Channel, Identity
from labctl.analysis import keys
from labctl.errors import ConfigError
from labctl.model import Calibration, Wiring

# Settings read back twice may differ in the last digit of a text; errors of the instrument are then the same.
_SCALE_RATIO = 1e-6
_OFFSET_CODES = 0.01
_SHUNT_RATIO = 1e-9
# What a value of each kind may be at all: the limits of the open interval.
_PLAUSIBLE = {"gain": (0.1, 10.0), "deskew": (-1e-5, 1e-5), "timebase": (-0.1, 0.1), "zero": (-1e3, 1e3)}


def same_settings(channel: Channel, settings: Mapping[str, Any]) -> bool:
    """Tell whether a channel is set as `settings` (of `keys.settings`) say: range, offset, probe and bandwidth."""
    # Codes that are floats have no size: their offset is part of the number, and exact.
    room = _OFFSET_CODES * abs(channel.scale) if np.dtype(channel.codes.dtype).kind in "iu" else 0.0
    mine = keys.settings(channel)
    return (
        channel.unit == settings["unit"]
        and abs(channel.scale - settings["scale"]) <= _SCALE_RATIO * abs(channel.scale)
        and abs(channel.offset - settings["offset"]) <= room
        and all(mine[key] == settings[key] for key in mine.keys() & settings.keys() - {"unit", "scale", "offset"})
    )


def check_numbers(calibration: Calibration) -> None:
    """Raise ConfigError for a calibration whose value or budget cannot be: a file that was made or changed by hand."""
    low, high = _PLAUSIBLE.get(calibration.kind, (math.nan, math.nan))
    good = low < calibration.value < high and all(
        0 < c.standard < math.inf and math.isfinite(c.effect) and c.degrees_of_freedom > 0
        for c in calibration.contributions
    )
    if not good or (not calibration.contributions and calibration.kind != "zero"):
        raise ConfigError(
            f"the {calibration.kind} calibration of {calibration.utc} holds a value of {calibration.value:g} or a "
            f"budget that cannot be: calibrate again (labctl calibrate {calibration.kind})"
        )


def check_calibration(calibration: Calibration, instrument: Identity, utc: str | None) -> None:
    """Raise ConfigError for a calibration of another instrument, one not valid at `utc` (None: not known), or nonsense.
    """
    check_numbers(calibration)
    what = f"the {calibration.kind} calibration of {calibration.utc}"
    if keys.instrument(calibration.instrument) != keys.instrument(instrument):
        raise ConfigError(
            f"{what} belongs to {keys.instrument(calibration.instrument)}, but the readings come from "
            f"{keys.instrument(instrument)}: calibrate this one (labctl calibrate {calibration.kind})"
        )
    # Times of one form in UTC compare as text.
    if utc is not None and utc > calibration.valid_until_utc:
        raise ConfigError(
            f"{what} was valid until {calibration.valid_until_utc}: calibrate again (labctl calibrate "
            f"{calibration.kind}), or leave it out"
        )
    if utc is not None and utc < calibration.utc:
        raise ConfigError(f"{what} was taken after the readings of {utc}: check the computer's clock, or leave it out")


def check_shunt(calibration: Calibration, shunt_ohm: float) -> None:
    """Raise ConfigError for a calibration that holds for another shunt than one of this value."""
    its_ohm = calibration.shunt_ohm
    if its_ohm is not None and abs(its_ohm - shunt_ohm) > _SHUNT_RATIO * its_ohm:
        raise ConfigError(
            f"the {calibration.kind} calibration of {calibration.utc} was taken with a shunt of {its_ohm:g} ohm, the "
            f"bench has {shunt_ohm:g} ohm: calibrate with this shunt (labctl calibrate {calibration.kind}), or leave "
            "it out"
        )


def in_force(
    calibrations: Sequence[Calibration], instrument: Identity, wiring: Wiring, channels: Sequence[Channel]
) -> dict[str, Calibration]:
    """Give the calibrations of a record by kind; `channels` are those of its shunt.

    Raises ConfigError for one that does not belong to the instrument, the shunt or the settings, and for two of a kind.
    """
    found: dict[str, Calibration] = {}
    for calibration in calibrations:
        kind = calibration.kind
        if kind in found:
            raise ConfigError(f"two {kind} calibrations, of {found[kind].utc} and {calibration.utc}: apply one")
        check_calibration(calibration, instrument, None)
        found[kind] = calibration
    if "gain" in found:
        _check_gain(found["gain"], wiring, channels)
    if "deskew" in found:
        _check_deskew(found["deskew"], wiring, channels)
    return found


def _check_gain(gain: Calibration, wiring: Wiring, channels: Sequence[Channel]) -> None:
    what = f"the gain calibration of {gain.utc}"
    if wiring.shunt is None or gain.shunt_ohm is None or len(channels) != 1 or channels[0].unit != "V":
        raise ConfigError(f"{what} is for a shunt seen by one channel, which this wiring has not: leave it out")
    check_shunt(gain, wiring.shunt.resistance_ohm)
    for channel in channels:
        settings = gain.channels.get(channel.name)
        if settings is None or not same_settings(channel, settings):
            raise ConfigError(
                f"{what} was taken at another channel, range, offset or probe than {channel.name} has now: calibrate "
                "at these settings (labctl calibrate gain), or leave it out"
            )


def _check_deskew(deskew: Calibration, wiring: Wiring, channels: Sequence[Channel]) -> None:
    what = f"the deskew calibration of {deskew.utc}"
    used = [*(c.name for c in channels), wiring.trigger_channel]
    if set(used) != set(deskew.channels):
        raise ConfigError(
            f"{what} is for {' and '.join(deskew.channels)}, but shunt and trigger are on "
            f"{' and '.join(str(name) for name in used)}: calibrate these (labctl calibrate deskew), or leave it out"
        )
    for channel in channels:
        mine, settings = keys.settings(channel), deskew.channels[channel.name]
        if any(mine[key] != settings[key] for key in mine.keys() & settings.keys()):
            raise ConfigError(
                f"{what} was taken with another probe or bandwidth limit than {channel.name} has now: calibrate with "
                "these (labctl calibrate deskew), or leave it out"
            )
