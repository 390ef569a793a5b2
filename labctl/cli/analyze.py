"""``labctl analyze``: recompute every number from captures, or analyse files of a scope."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labctl.cli.options import Quantity, json_option, power_option, shunt_option
from labctl.errors import CaptureError, ConfigError, FileFault

if TYPE_CHECKING:
    from instruments.record import Record
    from labctl.model import Wiring

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True)
class Given:
    """What the command line says of the wiring; None where it says nothing."""

    shunt_ohm: float | None
    supply: str | None
    sensed: str | None
    shunt_channel: str | None
    shunt_high: str | None
    shunt_low: str | None
    trigger: str | None
    threshold_v: float | None
    edge: str | None
    decoupling_f: float | None
    board: str | None


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@shunt_option
@click.option("--supply", metavar="VALUE|CHANNEL", help="Supply voltage, e.g. 3.3, or the channel that shows it.")
@click.option("--sensed", type=click.Choice(["source", "dut"]), help="Which side of the shunt --supply holds for.")
@click.option("--shunt-channel", metavar="CHANNEL", help="Channel across the shunt (or a current probe).")
@click.option("--shunt-high", metavar="CHANNEL", help="Channel at the supply's end of the shunt, with --shunt-low.")
@click.option("--shunt-low", metavar="CHANNEL", help="Channel at the DUT's end of the shunt.")
@click.option("--trigger", metavar="CHANNEL", help="Channel of the trigger pin [default: the record is one window].")
@click.option("--threshold", "threshold_v", type=float, help="Trigger threshold, volts [default: mid-swing].")
@click.option("--edge", type=click.Choice(["rising", "falling"]), help="Edge that opens a window [default: rising].")
@click.option("--decoupling", "decoupling_f", type=Quantity("F"), help="Capacitance behind the shunt, e.g. 4.7uF.")
@click.option("--rate", "rate_hz", type=Quantity("Hz"), help="Sample rate, for files that do not tell it.")
@click.option("--board", help="Check the implied current against this board's range.")
@power_option
@json_option
def command(files: tuple[Path, ...], rate_hz: float | None, power: str, as_json: bool, **given: Any) -> int:
    """Recompute every number from captures, or analyse files of a scope.

    FILES are captures of labctl (or folders of them), or files of other tools: Keysight .bin and .csv, Rigol .csv,
    ChipWhisperer projects.
    """
    wiring = Given(**given)
    captures, foreign = _sort(files)
    if captures and foreign:
        raise ConfigError(f"{captures[0]} is a capture of labctl, {foreign[0]} is not: analyse one kind at a time")
    if captures:
        from labctl.cli.output import Report

        if wiring != Given(*[None] * len(given)):
            raise ConfigError("a capture holds its own wiring: the options for files of other tools do not apply to it")
        report = Report(power=power)
        for path in captures:
            report.add(path)
        report.print(as_json=as_json)
    else:
        _analyze_files(foreign, wiring, rate_hz, power, as_json)
    return 0


def _sort(files: tuple[Path, ...]) -> tuple[list[Path], list[Path]]:
    """Tell captures from other files by their first bytes; a folder stands for the captures in it."""
    captures: list[Path] = []
    foreign: list[Path] = []
    for path in files:
        inside = sorted(path.glob("*.h5")) if path.is_dir() else []
        if inside:
            captures += inside
        elif path.is_dir():
            raise FileFault(f"{path} holds no captures (*.h5); name a folder that `labctl measure` wrote, or files")
        elif _is_hdf5(path):
            captures.append(path)
        else:
            foreign.append(path)
    return captures, foreign


def _is_hdf5(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE
    except OSError:
        return False  # the reader of foreign files says what is wrong with it


def _analyze_files(paths: list[Path], given: Given, rate_hz: float | None, power: str, as_json: bool) -> None:
    from rich.console import Console

    from labctl.report.files import render_file

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 80)
    objects = []
    for path in paths:
        description, result, warnings = _analyze_file(path, given, rate_hz, power)
        objects.append(description)
        if not as_json:
            bench = f"shunt {given.shunt_ohm:g} ohm" if given.shunt_ohm else "no shunt given"
            console.print(render_file(description, result, warnings, bench))
    if as_json:
        click.echo(json.dumps(objects[0] if len(objects) == 1 else {"files": objects}, allow_nan=False))


def _analyze_file(path: Path, given: Given, rate_hz: float | None, power: str) -> tuple[dict[str, Any], Any, list[str]]:
    from labctl import boards
    from labctl.analysis.foreign import analyze_record
    from labctl.formats import describe, read_file
    from labctl.report.files import window_rows

    foreign = read_file(path, rate_hz=rate_hz)
    description = describe(foreign)
    wiring = wiring_for(foreign.record, given)
    warnings = list(foreign.warnings)
    result = None
    if foreign.record.dt_s is None:
        warnings.append("the sample rate is not known, so there is no duration and no energy; give it with --rate")
        description["windows"] = []
    else:
        board = boards.load(given.board) if given.board else None
        try:
            result = analyze_record(foreign.record, wiring, board=board, power=power)
        except CaptureError as error:
            raise CaptureError(f"{path}: {error}") from error
        warnings += result.warnings
        warnings += unitless(foreign.record, wiring)
        warnings += [f"segment {refusal.segment + 1}: refused, {refusal.reason}" for refusal in result.refusals]
        if board is None:
            warnings += implausible(result.windows)
        description["windows"] = window_rows(result)
    return {**description, "warnings": warnings}, result, warnings


def unitless(record: Record, wiring: Wiring) -> list[str]:
    """Warn where the shunt's channel has no unit: its numbers are taken as volts."""
    names = (wiring.shunt_channel, wiring.shunt_high_channel, wiring.shunt_low_channel)
    found = [name for name in names if name is not None and not record.channels[name].unit]
    text = "has no unit in the file; its numbers are taken as volts across the shunt"
    return [f"{', '.join(found)} {text}"] if found else []


def implausible(windows: Any) -> list[str]:
    """Warn where the implied current is nothing that a board known to labctl draws."""
    from labctl import boards
    from labctl.units import quantity

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
    from labctl.model import Shunt, Supply, Wiring

    def channel(name: str | None) -> str | None:
        return None if name is None else find_channel(record, name)

    trigger = channel(given.trigger)
    high, low, across = channel(given.shunt_high), channel(given.shunt_low), channel(given.shunt_channel)
    if (high is None) != (low is None):
        raise ConfigError("--shunt-high and --shunt-low belong together: both ends of the shunt, against ground")
    if across is not None and high is not None:
        raise ConfigError("give either --shunt-channel, or --shunt-high with --shunt-low")
    supply_channel, supply_v = _supply(record, given.supply)
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
            resistance_ohm, wiring="two-channel" if high else "low-side", decoupling_f=given.decoupling_f
        ),
        supply=Supply(supply_v, sensed=sensed, channel=supply_channel) if across or high else None,
        shunt_channel=across,
        shunt_high_channel=high,
        shunt_low_channel=low,
        trigger_channel=trigger,
        trigger_edge=given.edge or "rising",
        threshold=given.threshold_v,
    )


def _supply(record: Record, text: str | None) -> tuple[str | None, float | None]:
    """Read --supply as a channel where there is one of that name, else as a voltage."""
    from labctl.units import parse

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
