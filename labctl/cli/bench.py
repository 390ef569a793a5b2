"""``labctl bench``: write a bench file, and check it against what is connected."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labctl.benchkeys import CHANNEL, FARAD, KEYS, OHM, SWITCH, VOLT, WORD, Key
from labctl.cli.options import json_option
from labctl.cli.terminal import page_console
from labctl.errors import ConfigError

if TYPE_CHECKING:
    from labctl.benchnew import Draft

_METAVARS = {OHM: "OHM", VOLT: "V", FARAD: "F", WORD: "TEXT", CHANNEL: "N"}
BENCH_TOML = Path("bench.toml")
SCHEMA = "labctl.bench-check/1"


class Typed(click.ParamType[Any]):
    """What a person types for one key of the bench file."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.name = key.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the text. Fails with what was expected."""
        from labctl.benchnew import read

        try:
            return read(self.key, value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)


def _key_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add one option a key, in the order of the questions."""
    for key in reversed(KEYS):
        default = f" [default: {key.default}]" if key.default and key.kind != SWITCH else ""
        example = f" E.g. {key.example}." if key.example else ""
        metavar = f"[{'|'.join(key.choices)}]" if key.choices else _METAVARS.get(key.kind, key.kind.upper())
        kind: dict[str, Any] = {} if key.kind == SWITCH else {"type": Typed(key), "metavar": metavar}
        function = click.option(
            key.option, "__".join(key.id), default=None, help=f"{key.text}{example}{default}", **kind
        )(function)
    return function


@click.group()
def command() -> None:
    """Write a bench file, and check it against what is connected."""


@command.command()
@click.option("--out", type=click.Path(path_type=Path), default=BENCH_TOML, show_default=True, help="File to write.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@_key_options
def new(out: Path, force: bool, **options: Any) -> int:
    """Write a commented bench file; ask for what the options leave open.

    Where nobody is at the keyboard nothing is asked, and what is not given takes its default.
    """
    from labctl.benchnew import Draft, check_target, write

    check_target(out, force=force)
    draft = Draft()
    for key in KEYS:
        value = options["__".join(key.id)]
        if value is not None:
            try:
                draft.set(key, value)
            except ConfigError as error:
                raise ConfigError(f"{key.option}: {error}") from error
    if sys.stdin.isatty() and sys.stderr.isatty():
        _ask_all(draft)
    write(draft.finish(), out, force=force)
    named = "" if out == BENCH_TOML else f" --bench {out}"
    click.echo(f"Written: {out}\nNext: labctl bench check{named}")
    return 0


@command.command()
@click.option("--bench", "bench_path", type=click.Path(path_type=Path), help="Bench file [default: ./bench.toml].")
@click.option("--board", help="Board [default: the bench file's, or stm32vldiscovery].")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Errors of the emulated bench.")
@json_option
def check(bench_path: Path | None, board: str | None, seed: int, as_json: bool) -> int:
    """Open what the bench file names and say, one by one, what holds: connections, wiring, voltages.

    Without a bench file the emulated bench is checked.
    """

    from labctl.analysis.finding import any_fault
    from labctl.bench import find_bench_file, locate_bench_file
    from labctl.benchcheck import check_links, open_links, subjects
    from labctl.cli.output import Output
    from labctl.report.findings import heading, render, summarize, to_json

    path = locate_bench_file(bench_path)
    console = page_console(quiet=as_json)
    findings = []
    every = subjects(find_bench_file(path) if path else None, path, board, seed)
    for subject in every:
        one_of_many = subject.board_name if len(every) > 1 else None
        with Output(quiet=as_json) as output, open_links(subject, output.progress) as links:
            name, emulated = links.file.bench.name, links.emulated
            details = [str(path or "no bench file"), *([one_of_many] if one_of_many else [])]
            with output.paused():
                console.print(heading("Check", name, emulated, ", ".join(details)))
            with contextlib.closing(check_links(links, output.ask, output.progress)) as signals:
                for finding in chain(links.findings, signals):
                    findings.append(replace(finding, name=f"{one_of_many}: {finding.name}") if one_of_many else finding)
                    with output.paused():
                        console.print(render(finding))
    console.print(summarize(findings))
    if as_json:
        facts = {"name": name, "emulated": emulated, "file": str(path) if path else None}
        document = {"schema": SCHEMA, "bench": facts, "findings": to_json(findings)}
        click.echo(json.dumps(document, allow_nan=False))
    return 1 if any_fault(findings) else 0


def _ask_all(draft: Draft) -> None:
    """Ask for everything that is open, one after the other."""
    if draft.next_key() is None:
        return
    _say("Enter takes what stands in [brackets]; Ctrl-C ends it, and nothing is written.")
    while (key := draft.next_key()) is not None:
        _ask(draft, key)


def _ask(draft: Draft, key: Key) -> None:
    """Ask for one key until the answer holds."""
    from labctl.benchnew import explain, read

    click.echo(err=True)
    _say(explain(key))
    proposal, shown = draft.proposal(key)
    while True:
        text = _line(key, shown)
        try:
            if not text and not shown:
                raise ConfigError("there is nothing to propose here: an answer is needed")
            draft.set(key, read(key, text) if text else proposal)
        except ConfigError as error:
            _say(str(error), indent=2)
        else:
            return


def _line(key: Key, shown: str) -> str:
    """Read one line. Raises ConfigError where the input has ended."""
    label = key.option.removeprefix("--")
    try:
        return click.prompt(
            f"{label} [{shown}]" if shown else label, default="", show_default=False, err=True, type=str
        ).strip()
    except click.Abort as error:
        click.echo(err=True)
        if isinstance(error.__context__, EOFError):
            raise ConfigError(f"the input ended before {key.option} was answered: nothing was written") from None
        raise


def _say(text: str, indent: int = 0) -> None:
    """Show a sentence to the person, in 80 columns."""
    from labctl.report.text import N_COLUMNS, wrap

    click.echo("\n".join(" " * indent + line for line in wrap(text, N_COLUMNS - indent)), err=True)
