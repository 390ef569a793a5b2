"""What was found earlier and is applied now: dated zero readings and calibrations, from their files.

Everything that the files alone can tell is checked before a bench is opened, the rest before anything is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from instruments.protocols import ChannelSettings
from instruments.record import Record
from labctl.analysis import keys
from labctl.analysis.calibration import check_calibration, check_shunt, same_settings
from labctl.analysis.chain import zero_applies
from labctl.bench import Bench
from labctl.errors import ConfigError
from labctl.frontend import channel_settings, on_screen, shunt_channels, utc_text
from labctl.model import Calibration
from labctl.store import open_capture

CALIBRATION = "calibration"  # what the provenance of a calibration's file says under "what"
# The record of a gain calibration whose settings a measurement repeats.
LOAD = "load"


@dataclass(frozen=True)
class Dated:
    """Calibrations to apply, each with its file, and the file whose zero reading is applied (None: take a new one)."""

    calibrations: tuple[Calibration, ...] = ()
    paths: dict[str, Path] = field(default_factory=dict)
    zero: Path | None = None

    @property
    def gain(self) -> Path | None:
        """Name the file of the gain calibration, which dictates range and offset; None where there is none."""
        return self.paths.get("gain")


@dataclass(frozen=True)
class Replayed:
    """Settings of the shunt's channels that dated findings dictate, and the zero reading taken at them, if any."""

    shunt: tuple[ChannelSettings, ...]
    zero: Record | None


def read_calibration(path: Path) -> Calibration:
    """Read the calibration in a file. Raises ConfigError where it holds none of its own, FileFault where it is none."""
    with open_capture(path) as capture:
        if capture.provenance.get("what") != CALIBRATION or len(capture.calibrations) != 1:
            raise ConfigError(
                f"{path} is a measurement and no calibration: name a file that labctl calibrate wrote, or take its "
                "zero reading with --zero"
            )
        return capture.calibrations[0]


def read_dated(calibrations: Sequence[Path], zero: Path | None = None) -> Dated:
    """Read what to apply. Raises ConfigError for two of a kind, two zero readings, and what is no longer valid."""
    found: list[Calibration] = []
    paths: dict[str, Path] = {}
    now = utc_text()
    for path in calibrations:
        calibration = read_calibration(path)
        kind = calibration.kind
        if kind in paths:
            raise ConfigError(f"{paths[kind]} and {path} are both {kind} calibrations: apply one")
        check_calibration(calibration, calibration.instrument, now)
        paths[kind] = path
        found.append(calibration)
    if zero is not None:
        if "zero" in paths:
            raise ConfigError(f"{paths['zero']} and --zero {zero} are both zero readings: apply one")
        with open_capture(zero):  # a file that cannot be read is said before anything is switched on
            pass
    return Dated(tuple(found), paths, zero or paths.get("zero"))


def check_resistance(dated: Dated, shunt_ohm: float) -> None:
    """Raise ConfigError where a calibration was taken with another shunt than one of this value."""
    for calibration in dated.calibrations:
        check_shunt(calibration, shunt_ohm)


def check_bench(dated: Dated, bench: Bench) -> None:
    """Raise ConfigError where a calibration is of another instrument, bench, shunt or channel than is there now."""
    identity = bench.scope.identify()
    here = keys.bench(bench.describe(), identity)
    wiring = bench.wiring
    if wiring.shunt is not None:
        check_resistance(dated, wiring.shunt.resistance_ohm)
    needed = {"gain": {wiring.shunt_channel}, "deskew": {wiring.shunt_channel, wiring.trigger_channel}}
    for calibration in dated.calibrations:
        check_calibration(calibration, identity, utc_text())
        kind, path = calibration.kind, dated.paths[calibration.kind]
        if kind in needed and calibration.bench != here:
            raise ConfigError(
                f"{path} is the {kind} calibration of another bench ({calibration.bench}) than this one ({here}): its "
                f"shunt and cables are others; calibrate this one (labctl calibrate {kind})"
            )
        if kind in needed and set(calibration.channels) != needed[kind]:
            raise ConfigError(
                f"{path} is the {kind} calibration of {' and '.join(calibration.channels)}, but shunt and trigger are "
                f"on {' and '.join((*shunt_channels(bench), str(wiring.trigger_channel)))}: calibrate these (labctl "
                f"calibrate {kind}), or leave it out"
            )


def replay(bench: Bench, dated: Dated) -> Replayed | None:
    """Give the settings that dated findings dictate, and their zero reading; None where they leave the choice.

    Raises ConfigError where they do not cover the bench's channels, probes and bandwidth limit, or contradict.
    """
    shunt = None if dated.gain is None else _settings(bench, dated.gain, LOAD)[0]
    if dated.zero is None:
        return None if shunt is None else Replayed(shunt, None)
    at_zero, zero = _settings(bench, dated.zero, "zero")
    if shunt is not None and shunt != at_zero:
        raise ConfigError(
            f"the zero reading in {dated.zero} was taken at another range or offset than the gain calibration in "
            f"{dated.gain}: apply the one in that same file (--zero {dated.gain}), or take a new one"
        )
    return Replayed(at_zero, zero)


def _settings(bench: Bench, path: Path, name: str) -> tuple[tuple[ChannelSettings, ...], Record]:
    """Take a record out of an earlier file, with the settings that were asked for it.

    Raises ConfigError where there is none, or one of another oscilloscope, of other channels, or of another probe.
    """
    what = "zero reading" if name == "zero" else "gain calibration"
    new = "leave --zero out to take a new one" if name == "zero" else "calibrate again (labctl calibrate gain)"
    with open_capture(path) as capture:
        stored = capture.records.get(name)
        if stored is None:
            raise ConfigError(f"{path} holds no {what}; {new}")
        record = replace(
            stored, channels={name: replace(c, codes=np.asarray(c.codes)) for name, c in stored.channels.items()}
        )
    identity = bench.scope.identify()
    if (record.instrument.model, record.instrument.serial) != (identity.model, identity.serial):
        raise ConfigError(
            f"the {what} in {path} was taken on {record.instrument.model} {record.instrument.serial}, "
            f"but {identity.model} {identity.serial} is connected; {new}"
        )
    asked = {channel["name"]: channel for channel in record.asked.get("channels", ())}
    missing = [name for name in shunt_channels(bench) if name not in asked or name not in record.channels]
    if missing:
        raise ConfigError(f"the {what} in {path} does not cover {', '.join(missing)}; {new}")
    settings = tuple(ChannelSettings(**asked[name]) for name in shunt_channels(bench))
    for one in settings:
        wanted = channel_settings(bench, one.name, one.range_v, one.offset_v)
        if one != wanted:
            raise ConfigError(
                f"the {what} in {path} was taken with a probe of {one.probe_ratio:g}:1 and the bandwidth limit "
                f"{'on' if one.bandwidth_limit else 'off'}, the bench has {wanted.probe_ratio:g}:1 and "
                f"{'on' if wanted.bandwidth_limit else 'off'}: {new}"
            )
    return settings, record


def check_record(bench: Bench, record: Record, dated: Dated, zero: Record) -> None:
    """Raise ConfigError where a dated zero or gain does not hold for a record: off the screen, other settings."""
    if dated.gain is None and dated.zero is None:
        return
    what, remedy = "dated zero reading", "leave --zero out, so that a range is chosen and a new reading taken at it"
    if dated.gain is not None:
        what, remedy = "gain calibration", "calibrate gain with this operation among them (--op), or leave it out"
    off_screen = [name for name in shunt_channels(bench) if not on_screen(record.channels[name])]
    if off_screen:
        raise ConfigError(f"{', '.join(off_screen)} leaves the screen at the range of the {what}: {remedy}")
    if not zero_applies(record, bench.wiring, zero):
        raise ConfigError(
            "the zero reading was taken at another range or offset than the scope granted now: "
            "leave --zero out to take a new one"
        )
    for calibration in dated.calibrations:
        moved = [name for name, held in calibration.channels.items()
                 if calibration.kind == "gain" and not same_settings(record.channels[name], held)]
        if moved:
            raise ConfigError(
                f"the gain calibration was taken at another range or offset than the scope granted {', '.join(moved)} "
                "now: calibrate again (labctl calibrate gain)"
            )
