"""``labctl coverage``: how often the stated intervals hold the truth, on many emulated benches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from labctl.cli.options import json_option
from labctl.cli.terminal import page_console

if TYPE_CHECKING:
    from labctl.report.coverage import Account

EXIT_FAILURES = 4


@click.command()
@click.option(
    "--benches", "n_benches", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many to draw."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="What they are drawn from.")
@click.option(
    "--calibrate",
    "calibrations",
    multiple=True,
    type=click.Choice(["zero", "gain", "deskew", "timebase"]),
    help="Calibrate each bench first; repeatable.",
)
@json_option
def command(n_benches: int, seed: int, calibrations: tuple[str, ...], as_json: bool) -> int:
    """Draw emulated benches, measure on each, and print how often the stated intervals hold the truth.

    Each bench has errors of its own inside the limits, measures sha256 and aes-128-ctr through the whole chain, and
    takes some two seconds. Ctrl-C prints what is known by then. Exit status: 0 all ran, 4 some failed.
    """
    from labctl import interrupts
    from labctl.cli import EXIT_INTERRUPTED
    from labctl.cli.output import Output
    from labctl.coverage import Coverage, Study
    from labctl.report.coverage import to_json

    coverage = Coverage(Study(n_benches, seed, tuple(dict.fromkeys(calibrations))))
    try:
        with Output(quiet=False) as output:
            coverage.run(output.progress)
    except KeyboardInterrupt:
        interrupts.reset()  # the result so far is what was asked for
        account = coverage.account()
        _print(account, to_stderr=as_json)
        click.echo(f"interrupted after {account.n_tried} of {n_benches} benches", err=True)
        return EXIT_INTERRUPTED
    except BaseException:
        if coverage.outcomes:
            _print(coverage.account(), to_stderr=True)
        raise
    account = coverage.account()
    if as_json:
        click.echo(json.dumps(to_json(account), allow_nan=False))
    else:
        _print(account, to_stderr=False)
    return EXIT_FAILURES if account.failures else 0


def _print(account: Account, *, to_stderr: bool) -> None:

    from labctl.report.coverage import render

    page_console(to_stderr=to_stderr).print(render(account))
