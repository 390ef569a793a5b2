"""``labctl campaign run`` and ``resume``: work through a plan."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labctl.cli.options import Span, TimeOfDay, json_option

if TYPE_CHECKING:
    from labctl.campaign.drive import Summary
    from labctl.campaign.work import Show

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_AT_FIRST = b"\nlabctl: ends after the item in work; once more stops at once\n"


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what `run` and `resume` share."""
    for option in reversed((
        click.option("--until", type=TimeOfDay(), help="Stop at this local time, e.g. 07:00; resume goes on."),
        click.option("--max-time", "max_time_s", type=Span(), help="Stop after so long, e.g. 8h; resume goes on."),
        click.option("--wait", "wait_s", type=Span(), default="10 min", show_default=True,
                     help="How long to wait for an instrument that is away."),
        click.option("--bench", "bench_file", type=_FILE, help="Bench file, in place of the plan's."),
        json_option,
    )):
        function = option(function)
    return function


@click.command()
@click.argument("file", type=_FILE)
@click.option("--out", type=click.Path(path_type=Path), help="Folder to make [default: captures/NAME-UTCSTAMP].")
@_options
def run(
    file: Path, out: Path | None, until: datetime.time | None, max_time_s: float | None, wait_s: float,
    bench_file: Path | None, as_json: bool,
) -> int:
    """Begin the campaign of a plan FILE and work through it.

    Benches are checked and firmware is built first. Ctrl-C, or SIGTERM, ends it after the item in work, twice at once;
    either way `labctl campaign resume` goes on. Ends with status 0 when all is done, 4 when items failed or a budget is
    used up, 1 when a limit was passed.
    """
    from labctl.campaign.drive import Options, begin
    from labctl.campaign.items import planned

    plan, _ = planned(file)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = out or Path("captures") / f"{plan.campaign.name}-{stamp}"
    options = Options(bench_file, until, max_time_s, wait_s)
    again = _resume_command(folder, file if plan.withholds else None, bench_file)
    return _shown(lambda show, told: begin(plan, folder, options, show, told), folder, again, as_json)


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--plan", "plan_file", type=_FILE, help="Plan to go on by: it may add to the one in DIR.")
@click.option("--retry-failed", is_flag=True, help="Take failed items once more too, and those whose capture is "
              "damaged or gone.")
@_options
def resume(
    folder: Path, plan_file: Path | None, retry_failed: bool, until: datetime.time | None, max_time_s: float | None,
    wait_s: float, bench_file: Path | None, as_json: bool,
) -> int:
    """Go on with the campaign in DIR where it was left.

    Items that were added to DIR/plan.toml, or that --plan adds, are taken; what was changed or taken away is refused.
    Hooks and bench files are not kept in DIR: --plan names the plan that has them. A campaign that is finished ends
    with status 0, or 4 where items failed.
    """
    from labctl.campaign.drive import Options
    from labctl.campaign.drive import resume as go_on
    from labctl.campaign.items import planned

    plan = None if plan_file is None else planned(plan_file)[0]
    options = Options(bench_file, until, max_time_s, wait_s, retry_failed)
    again = _resume_command(folder, plan_file, bench_file)
    return _shown(lambda show, told: go_on(folder, plan, options, show, told), folder, again, as_json)


def _resume_command(folder: Path, plan_file: Path | None, bench_file: Path | None) -> str:
    """Spell the command that goes on, for a shell, with the files that the folder does not keep."""
    words = ["labctl", "campaign", "resume", str(folder)]
    for option, path in (("--plan", plan_file), ("--bench", bench_file)):
        words += [] if path is None else [option, str(path)]
    return shlex.join(words)


def _shown(work: Callable[[Show, Callable[[], None]], Summary], folder: Path, again: str, as_json: bool) -> int:
    """Do the work, show its progress, and say how it ended; `again` is the command that goes on."""
    from labctl.cli.campaignshow import Progress

    progress = Progress(quiet=as_json)
    # A terminal that is closed ends the showing, and not the campaign; a file goes on being written.
    before = signal.signal(signal.SIGHUP, lambda *_: progress.hush() if sys.stderr.isatty() else None)
    try:
        summary = work(progress, lambda: None if as_json else _say_at_first())
    except KeyboardInterrupt:
        if (folder / "campaign.json").is_file():
            progress.note(f"go on with: {again}")
        raise
    finally:
        progress.close()
        signal.signal(signal.SIGHUP, before)
    page = json.dumps(_document(summary), allow_nan=False) if as_json else _sentence(summary, again, progress.errors)
    click.echo(page)
    return summary.exit_status


def _say_at_first() -> None:
    """Say what the first Ctrl-C does, past Python's streams, which a signal may have come in the middle of."""
    try:
        os.write(2, _AT_FIRST)
    except OSError:
        return


def _document(summary: Summary) -> dict[str, Any]:
    state = summary.state
    return {
        "schema": "labctl.campaign-run/1", "campaign": state.name, "folder": str(summary.path),
        "ended": summary.ending.kind, "text": summary.ending.text, "items": state.n_items, "done": state.n_done,
        "failed": state.n_failed, "pending": state.n_pending, "elapsed_s": state.elapsed_s,
    }


def _sentence(summary: Summary, again: str, errors: Mapping[int, str]) -> str:
    """Say how it ended, where it lies, and what to do next; `errors` are those that this run has told, by item."""
    from labctl.campaign.statuspage import named
    from labctl.report.text import printable, wrap

    state, ending, path = summary.state, summary.ending, shlex.quote(str(summary.path))
    parts = [f"{state.n_done} of {state.n_items} items done"]
    parts += [f"{state.n_failed} failed"] if state.n_failed else []
    parts += [f"{state.n_pending} left"] if state.n_pending else []
    said = {"complete": "", "interrupted": f" {ending.text.capitalize()}.", "safety": " Stopped: a limit was passed."}
    ended = said.get(ending.kind, f" Stopped: {ending.text}.")
    lines = wrap(f"Campaign {state.name}: {', '.join(parts)}.{ended}")
    for one in state.failures:
        if one.last is not None:
            error = errors.get(one.item.number, one.last.error)
            lines += wrap(printable(f"Failed: {named(one.item, one.item.number)}: {error}"))
    lines += _next(summary, again)
    lines += [f"Folder: {path}; results: labctl table {path}"]
    return "\n".join(lines)


def _next(summary: Summary, again: str) -> list[str]:
    """Say how to go on, and how to take failed items again."""
    from labctl.report.text import wrap

    if summary.ending.kind == "safety":
        return [
            *wrap("Other items may pass the limit too: see to the board, or raise current in [limits] of the plan, "
                  "before you go on. The failed item is taken again with:"),
            f"{again} --retry-failed",
        ]
    state = summary.state
    go_on = [f"Go on: {again}"] if state.n_pending else []
    return go_on + ([f"Failed items again: {again} --retry-failed"] if state.n_failed else [])
