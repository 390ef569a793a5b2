"""Which calibration holds for a record: its instrument, its settings, its day."""

from __future__ import annotations

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


def check_calibration(calibration: Calibration, instrument: Identity, utc: str | None) -> None:
    """Raise ConfigError for a calibration of another instrument, or one not valid at `utc` (None: not known)."""
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
    gain = found.get("gain")
    if gain is not None:
        _check_gain(gain, wiring, channels)
    return found


def _check_gain(gain: Calibration, wiring: Wiring, channels: Sequence[Channel]) -> None:
    what = f"the gain calibration of {gain.utc}"
    if wiring.shunt is None or gain.shunt_ohm is None or len(channels) != 1 or channels[0].unit != "V":
        raise ConfigError(f"{what} is for a shunt seen by one channel, which this wiring has not: leave it out")
    if abs(gain.shunt_ohm - wiring.shunt.resistance_ohm) > _SHUNT_RATIO * gain.shunt_ohm:
        raise ConfigError(
            f"{what} was taken with a shunt of {gain.shunt_ohm:g} ohm, the wiring says {wiring.shunt.resistance_ohm:g} "
            "ohm: calibrate with this shunt (labctl calibrate gain), or leave it out"
        )
    for channel in channels:
        settings = gain.channels.get(channel.name)
        if settings is None or not same_settings(channel, settings):
            raise ConfigError(
                f"{what} was taken at another channel, range, offset or probe than {channel.name} has now: calibrate "
                "at these settings (labctl calibrate gain), or leave it out"
            )
