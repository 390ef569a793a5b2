"""Files of other tools: from a path and what a person says of the wiring to windows with energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruments.record import Record
from labctl import boards
from labctl.analysis.foreign import RecordResult, RecordWindow, analyze_record
from labctl.errors import CaptureError, ConfigError
from labctl.formats import describe, read_file
from labctl.model import Shunt, Supply, Wiring
from labctl.units import parse, percent, quantity

DEFAULT_TOLERANCE_RATIO = 0.01


@dataclass(frozen=True)
class Given:
    """What a person says of the wiring of a file; None where nothing is said."""

    shunt_ohm: float | None = None
    shunt_tolerance_ratio: float | None = None
    supply: str | None = None
    supply_tolerance_ratio: float | None = None
    sensed: str | None = None
    shunt_channel: str | None = None
    shunt_high: str | None = None
    shunt_low: str | None = None
    decoupling_f: float | None = None
    trigger: str | None = None
    threshold_v: float | None = None
    edge: str | None = None
    board: str | None = None


@dataclass(frozen=True)
class FileReport:
    """What a file says: its description for JSON, its windows (None: sample rate not known), what to know beside."""

    description: dict[str, Any]
    result: RecordResult | None
    warnings: tuple[str, ...]


def analyze_file(path: Path, given: Given, *, rate_hz: float | None = None, power: str = "dut") -> FileReport:
    """Read a file, find its windows, and measure them where a shunt is given.

    Raises FileFault, ConfigError and CaptureError, the last naming the file.
    """
    foreign = read_file(path, rate_hz=rate_hz)
    wiring = wiring_for(foreign.record, given)
    warnings = list(foreign.warnings)
    result = None
    if foreign.record.dt_s is None:
        warnings.append("the sample rate is not known, so there is no duration and no energy; give it with --rate")
    else:
        board = boards.load(given.board) if given.board else None
        try:
            result = analyze_record(foreign.record, wiring, board=board, power=power)
        except CaptureError as error:
            raise CaptureError(f"{path}: {error}") from error
        warnings += [*result.warnings, *_unitless(foreign.record, wiring), *_assumed(wiring, given)]
        of_all = f"of {foreign.record.n_segments} " if foreign.record.n_segments > 1 else ""
        warnings += [
            f"a window {f'in segment {refusal.segment} {of_all}' if of_all else ''}was refused: {refusal.reason}"
            for refusal in result.refusals
        ]
        if board is None:
            warnings += _implausible(result.windows)
    return FileReport(describe(foreign), result, tuple(warnings))


def _unitless(record: Record, wiring: Wiring) -> list[str]:
    """Warn where the shunt's channel has no unit: its numbers are taken as volts."""
    names = (wiring.shunt_channel, wiring.shunt_high_channel, wiring.shunt_low_channel)
    found = [name for name in names if name is not None and not record.channels[name].unit]
    text = "has no unit in the file; its numbers are taken as volts across the shunt"
    return [f"{', '.join(found)} {text}"] if found else []


def _assumed(wiring: Wiring, given: Given) -> list[str]:
    """Say which tolerances nobody gave."""
    names = []
    if wiring.shunt is not None and given.shunt_tolerance_ratio is None:
        names.append("the shunt (--shunt-tolerance)")
    if wiring.supply is not None and wiring.supply.channel is None and given.supply_tolerance_ratio is None:
        names.append("the supply (--supply-tolerance)")
    if not names:
        return []
    return [f"a tolerance of {percent(DEFAULT_TOLERANCE_RATIO)} is assumed for {' and '.join(names)}"]


def _tolerance(ratio: float | None) -> float:
    return DEFAULT_TOLERANCE_RATIO if ratio is None else ratio


def _implausible(windows: Sequence[RecordWindow]) -> list[str]:
    """Warn where the implied current is nothing that a board known to labctl draws."""
    supplies = [boards.load(name)["supply"] for name in boards.names()]
    low_a, high_a = min(s["current_min_a"] for s in supplies), max(s["current_max_a"] for s in supplies)
    currents = [w.run.current_mean_a for w in windows if w.run is not None]
    if not currents or all(low_a <= current <= high_a for current in currents):
        return []
    mean_a = sum(currents) / len(currents)
    return [
        f"the implied current of {quantity(mean_a, 'A')} lies outside what any board known here draws "
        f"({quantity(low_a, 'A')} to {quantity(high_a, 'A')}): check the shunt's value and unit, and the probe's factor"
    ]


def wiring_for(record: Record, given: Given) -> Wiring:
    """Build the wiring that the command line describes for the channels a file has.

    Raises ConfigError for a channel that is not there, and where a shunt is given but not which channel sees it.
    """
    def channel(name: str | None) -> str | None:
        return None if name is None else find_channel(record, name)

    trigger = channel(given.trigger)
    high, low, across = channel(given.shunt_high), channel(given.shunt_low), channel(given.shunt_channel)
    if (high is None) != (low is None):
        raise ConfigError("--shunt-high and --shunt-low belong together: both ends of the shunt, against ground")
    if high is not None and high == low:
        raise ConfigError(f"--shunt-high and --shunt-low are both {high}: the two ends of the shunt are two channels")
    if across is not None and high is not None:
        raise ConfigError("give either --shunt-channel, or --shunt-high with --shunt-low")
    supply_channel, supply_v = _supply(record, given.supply)
    if supply_channel is not None and supply_channel in (across, trigger):
        raise ConfigError(f"--supply names {supply_channel}, which is the shunt's or the trigger's channel already")
    amperes = [c.name for c in record.channels.values() if c.unit == "A"]
    if across is None and high is None and (given.shunt_ohm is not None or amperes):
        free = amperes or [name for name in record.channels if name not in (trigger, supply_channel)]
        if len(free) != 1:
            there = ", ".join(record.channels)
            raise ConfigError(f"which channel sees the shunt? Give --shunt-channel; there are {there}")
        across = free[0]
    if (across or high) and given.shunt_ohm is None and record.channels[across or high or ""].unit != "A":
        raise ConfigError("the shunt's resistance is missing: give --shunt, for example --shunt 1.3")
    if (across or high) and supply_v is None and supply_channel is None:
        raise ConfigError("the supply's voltage is missing: give --supply, for example --supply 3.3, or its channel")
    sensed = given.sensed or ("dut" if supply_channel is not None and supply_channel == low else "source")
    resistance_ohm = given.shunt_ohm
    return Wiring(
        shunt=None
        if resistance_ohm is None
        else Shunt(
            resistance_ohm,
            tolerance_ratio=_tolerance(given.shunt_tolerance_ratio),
            wiring="two-channel" if high else "low-side",
            decoupling_f=given.decoupling_f,
        ),
        supply=Supply(
            supply_v,
            tolerance_ratio=_tolerance(given.supply_tolerance_ratio),
            sensed=sensed,
            channel=supply_channel,
        )
        if across or high
        else None,
        shunt_channel=across,
        shunt_high_channel=high,
        shunt_low_channel=low,
        trigger_channel=trigger,
        trigger_edge=given.edge or "rising",
        threshold=given.threshold_v,
    )


def _supply(record: Record, text: str | None) -> tuple[str | None, float | None]:
    """Read --supply as a channel where there is one of that name, else as a voltage."""
    if text is None:
        return None, None
    names = _spellings(record.channels)
    if text.upper() in names and not text.isdigit():
        return names[text.upper()], None
    try:
        return None, parse(text, "V", what="--supply", positive=True)
    except ConfigError as error:
        raise ConfigError(f"{error}; or name a channel: {', '.join(record.channels)}") from error


def find_channel(record: Record, name: str) -> str:
    """Find a channel by its name, its number, or the file's own spelling. Raises ConfigError with those there are."""
    names = _spellings(record.channels)
    if name.upper() not in names:
        raise ConfigError(f"there is no channel {name!r} in the file; it has {', '.join(record.channels)}")
    return names[name.upper()]


def _spellings(channels: Mapping[str, Any]) -> dict[str, str]:
    spellings = {channel.label.upper(): name for name, channel in channels.items() if channel.label}
    spellings |= {name.upper().removeprefix("CH"): name for name in channels}
    return spellings | {name.upper(): name for name in channels}
