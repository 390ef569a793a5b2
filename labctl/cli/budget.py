"""``labctl budget``: what makes a result, or a calibration, uncertain, line by line."""

from __future__ import annotations

import json
from pathlib import Path

import click

from labctl.cli.options import json_option, power_option
from labctl.cli.terminal import page_console

QUANTITIES = ("duration", "power", "energy")


@click.command()
@click.argument("captures", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--quantity", "quantities", multiple=True, type=click.Choice(QUANTITIES), help="Only this one; repeatable."
)
@power_option
@click.option(
    "--monte-carlo", is_flag=True, help="Set each interval against trials of the whole model (JCGM 101), seconds each."
)
@json_option
def command(
    captures: tuple[Path, ...], quantities: tuple[str, ...], power: str, monte_carlo: bool, as_json: bool
) -> int:
    """Print the uncertainty budget of captures, or of calibrations.

    CAPTURES are files that `labctl measure` or `labctl calibrate` wrote, or folders of them; they may come from
    several benches. Several captures are also compared: what their errors have in common, and the ratio of each to
    the first.
    """
    from labctl.cli.analyze import each_file, sort_files
    from labctl.report.budget import Subject, subject_of
    from labctl.store import open_capture

    found, others = sort_files(captures)
    subjects: list[Subject] = []

    def add(path: Path) -> None:
        with open_capture(path) as capture:
            subjects.append(subject_of(capture, power, quantities or QUANTITIES, monte_carlo=monte_carlo))

    status = each_file([*found, *others], add)
    if not subjects:
        return status
    if as_json:
        from labctl.report.budgetjson import to_json

        click.echo(json.dumps(to_json(subjects, power), allow_nan=False))
        return status

    from labctl.report.budget import render

    page_console().print(render(subjects, power))
    return status
