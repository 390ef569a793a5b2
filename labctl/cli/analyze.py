"""``labctl analyze``: recompute every number from captures, or analyse files of a scope."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from labctl.cli.options import Quantity, Tolerance, json_option, power_option, shunt_option
from labctl.cli.terminal import page_console
from labctl.errors import ConfigError, FileFault, LabctlError

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@shunt_option
@click.option("--shunt-tolerance", "shunt_tolerance_ratio", type=Tolerance(), help="E.g. 1% [default: 1%].")
@click.option("--supply", metavar="VALUE|CHANNEL", help="Supply voltage, e.g. 3.3, or the channel that shows it.")
@click.option("--supply-tolerance", "supply_tolerance_ratio", type=Tolerance(), help="E.g. 1% [default: 1%].")
@click.option("--sensed", type=click.Choice(["source", "dut"]), help="Which side of the shunt --supply holds for.")
@click.option("--shunt-channel", metavar="CHANNEL", help="Channel across the shunt (or a current probe).")
@click.option("--shunt-high", metavar="CHANNEL", help="Channel at the supply's end of the shunt, with --shunt-low.")
@click.option("--shunt-low", metavar="CHANNEL", help="Channel at the DUT's end of the shunt.")
@click.option("--trigger", metavar="CHANNEL", help="Channel of the trigger pin [default: the record is one window].")
@click.option("--threshold", "threshold_v", type=Quantity("V", signed=True), help="Threshold [default: mid-swing].")
@click.option("--edge", type=click.Choice(["rising", "falling"]), help="Edge that opens a window [default: rising].")
@click.option("--decoupling", "decoupling_f", type=Quantity("F"), help="Capacitance behind the shunt, e.g. 4.7uF.")
@click.option("--rate", "rate_hz", type=Quantity("Hz"), help="Sample rate, for files that do not tell it.")
@click.option("--board", help="Check the implied current against this board's range.")
@power_option
@json_option
def command(files: tuple[Path, ...], rate_hz: float | None, power: str, as_json: bool, **given: Any) -> int:
    """Recompute every number from captures, or analyse files of a scope.

    FILES are captures of labctl (or folders of them), or files of other tools: Keysight .bin, .csv and .dlog, Rigol
    .csv, ChipWhisperer projects.
    """
    from labctl.foreign import Given

    wiring = Given(**given)
    captures, foreign = sort_files(files)
    if captures and foreign:
        raise ConfigError(f"{captures[0]} is a capture of labctl, {foreign[0]} is not: analyse one kind at a time")
    if captures:
        from labctl.cli.output import Report

        if wiring != Given() or rate_hz is not None:
            raise ConfigError("a capture holds its own wiring: the options for files of other tools do not apply to it")
        report = Report(power=power)
        status = each_file(captures, report.add)
        if report.paths:
            report.print(as_json=as_json)
        return status
    else:
        return _analyze_files(foreign, wiring, rate_hz, power, as_json)
    return 0


def sort_files(files: tuple[Path, ...]) -> tuple[list[Path], list[Path]]:
    """Tell captures from other files by their first bytes; a folder stands for the captures in it."""
    captures: list[Path] = []
    foreign: list[Path] = []
    for path in files:
        inside = sorted(path.glob("*.h5")) if path.is_dir() else []
        if inside:
            captures += inside
        elif path.is_dir():
            below = sorted(path.glob("*/*.h5"), key=lambda p: p.parent.name)
            hint = f"its newest folder with captures is {below[-1].parent}" if below else "or files"
            raise FileFault(f"{path} holds no captures (*.h5); name a folder that `labctl measure` wrote; {hint}")
        elif _is_hdf5(path):
            captures.append(path)
        else:
            foreign.append(path)
    return captures, foreign


def _is_hdf5(path: Path) -> bool:
    if not path.is_file():
        raise FileFault(f"{path} is no file: a pipe or a device cannot be analysed")
    try:
        with path.open("rb") as file:
            return file.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE
    except OSError:
        return False  # the reader of foreign files says what is wrong with it


def each_file(paths: list[Path], action: Any) -> int:
    """Do something with each file; one that cannot be read does not hide the others. Return the exit status."""
    status = 0
    for path in paths:
        try:
            action(path)
        except LabctlError as error:
            if len(paths) == 1:
                raise
            click.echo(f"labctl: {error}", err=True)
            status = error.exit_status
    return status


def _analyze_files(paths: list[Path], given: Any, rate_hz: float | None, power: str, as_json: bool) -> int:

    from labctl.foreign import analyze_file
    from labctl.report.files import render_file, to_json_object

    console = page_console()
    objects: list[dict[str, Any]] = []

    def one(path: Path) -> None:
        report = analyze_file(path, given, rate_hz=rate_hz, power=power)
        objects.append(to_json_object(report.description, report.result, report.warnings))
        if not as_json:
            bench = f"shunt {given.shunt_ohm:g} ohm" if given.shunt_ohm else "no shunt given"
            console.print(render_file(report.description, report.result, report.warnings, bench))

    status = each_file(paths, one)
    if as_json and objects:
        click.echo(json.dumps(objects[0] if len(paths) == 1 else {"files": objects}, allow_nan=False))
    return status
