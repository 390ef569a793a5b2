"""``labctl campaign status``, ``verify``, ``pack``, ``unpack`` and ``export``: what can be done with a folder."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from labctl.cli.options import json_option, power_option

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_DIR_ARGUMENT = click.argument("folder", metavar="DIR", type=_FOLDER)
_PLACE_ARGUMENT = click.argument("place", metavar="DIR", type=click.Path(exists=True, path_type=Path))


@click.command()
@_PLACE_ARGUMENT
@json_option
def status(place: Path, as_json: bool) -> int:
    """Say how far the campaign in DIR is: also while it is at work in another terminal, which is not disturbed.

    DIR is a campaign's folder, or a file that `labctl campaign pack` wrote.
    """
    from labctl.campaign.changes import n_to_add
    from labctl.campaign.source import open_source
    from labctl.campaign.statuspage import render, to_add, to_json_object

    with open_source(place) as source:
        campaign, state = source.campaign, source.state()
        n_more = 0 if state.held_by else n_to_add(source)
        changed = source.changed()
    if changed:
        named = changed[0] if len(changed) == 1 else f"{len(changed)} captures, {changed[0]} first,"
        folder = shlex.quote(str(place))
        click.echo(f"labctl: {named} cannot be what was stored: `labctl campaign verify {folder}` looks at all, and "
                   f"`labctl campaign resume {folder} --retry-failed` takes them again", err=True)
    if as_json:
        click.echo(json.dumps({**to_json_object(campaign, state), "n_to_add": n_more}, allow_nan=False))
    else:
        click.echo("\n".join([*render(campaign, state), *to_add(n_more)]))
    return 0


@click.command()
@_PLACE_ARGUMENT
def verify(place: Path) -> int:
    """Check a campaign: its captures' CRCs, that they belong to their items and benches, its plan and its list.

    DIR is a campaign's folder, or a file that `labctl campaign pack` wrote. Nothing is changed. Ends with status 1
    where something is wrong; what a crash leaves is named and is no fault.
    """
    from labctl.campaign.verify import verify as check
    from labctl.cli.output import Output
    from labctl.report.text import counted, wrap
    from labctl.units import size_text

    with Output(quiet=False) as output:
        report = check(place, output.progress)
    captures = "1 capture" if report.n_captures == 1 else f"{report.n_captures} captures"
    n_faults = len(report.faults)
    found = "all is well" if not n_faults else "1 fault" if n_faults == 1 else f"{n_faults} faults"
    lines = wrap(f"{place}: {captures} checked, {size_text(report.n_bytes)}: {found}")
    for word, texts in (("fault", report.faults), ("note", report.notes)):
        for text in texts:
            lines += wrap(f"{word}: {text}")
    if report.n_failed:
        lines += wrap(f"{counted(report.n_failed, 'item')} failed and {'has' if report.n_failed == 1 else 'have'} no "
                      "result to check")
    if report.damaged:
        unpacked = "" if place.is_dir() else "Unpack it (labctl campaign unpack), then "
        what = "this capture" if len(report.damaged) == 1 else f"these {len(report.damaged)} captures"
        folder = shlex.quote(str(place)) if place.is_dir() else "DIR"
        lines += wrap(f"{unpacked}`labctl campaign resume {folder} --retry-failed` takes {what} again")
    click.echo("\n".join(lines))
    return 1 if report.faults else 0


@click.command()
@_DIR_ARGUMENT
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write [default: DIR.h5].")
def pack(folder: Path, out: Path | None) -> None:
    """Put the campaign in DIR into one HDF5 file for the archive: whole, or not at all.

    Captures are groups in it, for any program that reads HDF5; `labctl campaign unpack` makes the folder again, byte
    for byte.
    """
    from labctl.campaign.pack import pack as write
    from labctl.cli.output import Output

    whole = folder.resolve()
    with Output(quiet=False) as output:
        path = write(folder, out or whole.with_name(f"{whole.name}.h5"), lambda name: output.progress(name, 0, 1),
                     output.note)
    click.echo(f"Written: {path}")


@click.command()
@click.argument("file", metavar="FILE", type=_FILE)
@click.option("--out", type=click.Path(path_type=Path), help="Folder to make [default: FILE without its .h5].")
def unpack(file: Path, out: Path | None) -> None:
    """Make the folder of a campaign again from a file that `labctl campaign pack` wrote."""
    from labctl.campaign.pack import unpack as make
    from labctl.cli.output import Output
    from labctl.errors import ConfigError

    if out is None and file.suffix != ".h5":
        raise ConfigError(f"{file} does not end in .h5: name the folder to make with --out")
    with Output(quiet=False) as output:
        path = make(file, out or file.with_suffix(""), lambda name: output.progress(name, 0, 1))
    click.echo(f"Made: {path}")


@click.command()
@_PLACE_ARGUMENT
@click.option("--format", type=click.Choice(["csv"]), default="csv", show_default=True, expose_value=False,
              help="Format.")
@click.option("--waveform", metavar="NUMBER", type=click.IntRange(min=1),
              help="Not the runs, but the samples in the windows of this item.")
@power_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write instead of stdout.")
def export(place: Path, waveform: int | None, power: str, out: Path | None) -> int:
    """Write the runs of the campaign in DIR for other programs, a row each, or the samples of one capture.

    DIR is a campaign's folder, or a file that `labctl campaign pack` wrote. Numbers are in SI units with a decimal
    point; the unit ends the name of a column. An item whose capture is damaged is left out and named, and the command
    ends with status 4.
    """
    from labctl.campaign.export import runs_csv, waveform_csv
    from labctl.cli.output import EXIT_PARTIAL, Output, reader_may_leave

    left_out = _damage(place)
    with Output(quiet=out is None) as output, reader_may_leave():
        lines = (runs_csv(place, power, output.progress, left_out.append) if waveform is None
                 else waveform_csv(place, waveform))
        _write(lines, out)
    for text in left_out:
        click.echo(f"labctl: {text}", err=True)
    return EXIT_PARTIAL if left_out else 0


def _damage(place: Path) -> list[str]:
    """Say where the journal is damaged, so that not all that was done may be known."""
    from labctl.campaign.journal import damage
    from labctl.campaign.source import open_source

    with open_source(place) as source:
        return [text] if (text := damage(source.journal.broken)) else []


def _write(lines: Iterable[str], out: Path | None) -> None:
    if out is None:
        sys.stdout.writelines(lines)
        sys.stdout.flush()
        return
    from labctl.store.atomic import new_file

    with new_file(out, overwrite=True) as sink:
        for line in lines:
            sink.write(line.encode())
