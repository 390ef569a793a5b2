"""What every command prints: progress and questions to stderr, results to stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import click

from labctl.errors import ConfigError
from labctl.model import SCHEMA_RESULTS


class Output:
    """Progress on stderr and questions to the person, for the length of a command."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=quiet or not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("opening the bench", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def progress(self, text: str, done: int, total: int) -> None:
        """Show how far the work is."""
        self._bar.update(self._task, description=text, completed=done, total=total)

    def ask(self, sentence: str) -> None:
        """Ask the person to do something by hand and wait for Enter. Raises ConfigError where nobody can answer."""
        if not sys.stdin.isatty():
            raise ConfigError(
                f"{sentence}: but nobody is at the keyboard. Name the supply's switch in [dut] power of the bench "
                "file, or apply an earlier zero reading with --zero FILE"
            )
        self._bar.stop()
        click.prompt(f"{sentence}, then press Enter", default="", show_default=False, prompt_suffix=" ", err=True)
        self._bar.start()


def print_results(paths: Sequence[Path], *, power: str, as_json: bool, figures: bool = False) -> None:
    """Analyse stored captures and print their results, so that measuring and analysing print the same.

    With `figures` a PNG is written beside each capture. Raises LabctlError where a capture cannot give a number.
    """
    from labctl.analysis.result import analyze
    from labctl.report.table import render, to_json_rows
    from labctl.store import open_capture, read_truth

    results, benches = [], []
    for path in paths:
        with open_capture(path) as capture:
            result = analyze(capture, power)
            benches.append(dict(capture.provenance["bench"]))
            if figures:
                from labctl.report.figure import waveform_figure

                waveform_figure(capture, result, path.with_suffix(".png"))
        results.append(result)
    truths = [read_truth(path) for path in paths]
    if as_json:
        rows = to_json_rows(results, [[str(path)] for path in paths], [_headline(truth, power) for truth in truths])
        click.echo(json.dumps({"schema": SCHEMA_RESULTS, "bench": benches[0], "results": rows}, allow_nan=False))
        return
    from rich.console import Console

    bench = benches[0]
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 80)
    console.print(
        render(results, bench["name"], bench["emulated"], power, [_headline(truth, power) for truth in truths])
    )
    folders = sorted({str(path.parent) for path in paths})
    console.print(f"Captures{' and figures' if figures else ''} in {', '.join(folders)}", soft_wrap=True)


def _headline(truth: Mapping[str, float] | None, power: str) -> Mapping[str, float] | None:
    """Choose the truth that belongs to the headline power."""
    if truth is None or power == "dut":
        return truth
    return {**truth, "power_w": truth["power_supply_w"], "energy_j": truth["energy_supply_j"]}
