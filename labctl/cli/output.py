"""What every command prints: progress and questions to stderr, results to stdout."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from labctl.errors import CaptureError, ConfigError, EnvironmentFault, NobodyThere
from labctl.model import SCHEMA_RESULTS

if TYPE_CHECKING:
    from labctl.model import Calibration, Capture, Result


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

    def ask(self, sentence: str) -> str:
        """Ask the person to do or type something, and return what was typed before Enter.

        Raises NobodyThere where nobody can answer.
        """
        from labctl.report.text import wrap

        if not sys.stdin.isatty():
            raise NobodyThere(f"{sentence}: but nobody is at the keyboard. Run it from a terminal")
        with self.paused():
            # A command in backquotes stays on one line, to be copied.
            whole = re.sub("`[^`]*`", lambda found: found[0].replace(" ", "\u00a0"), sentence)
            text = "\n".join(wrap(f"{whole}, then press Enter"))
            return click.prompt(text, default="", show_default=False, prompt_suffix=" ", err=True)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Take the progress out of the way of what is printed or asked in between."""
        self._bar.stop()
        yield
        self._bar.start()


class Report:
    """Results of stored captures, so that measuring and analysing print the same from the same files.

    `power` is "dut" or "supply"; with `figures` a PNG is written beside each capture.
    """

    def __init__(self, *, power: str, figures: bool = False) -> None:
        self.power = power
        self.figures = figures
        self.paths: list[Path] = []
        self._results: list[Result] = []
        self._truths: list[Mapping[str, float] | None] = []
        self._bench: Mapping[str, Any] = {}
        self._zeros: list[str] = []
        self._calibrations: list[Calibration] = []

    def add(self, path: Path) -> None:
        """Analyse one capture. Raises LabctlError, naming the file, where it cannot give a number."""
        from labctl.analysis.result import analyze
        from labctl.store import open_capture, read_truth

        with open_capture(path) as capture:
            if capture.provenance.get("what") == "calibration":
                raise ConfigError(f"{path} is a calibration and no measurement: labctl calibrate show {path}")
            try:
                result = analyze(capture, self.power)
            except CaptureError as error:
                raise CaptureError(f"{path}: {error}") from error
            self._same_bench(path, capture.provenance["bench"])
            zero = _zero_sentence(capture)
            if zero not in self._zeros:
                self._zeros.append(zero)
            self._calibrations += [c for c in capture.calibrations if c not in self._calibrations]
            if self.figures:
                os.environ["MPLBACKEND"] = "agg"  # whatever the user's own setting, no window is wanted
                from labctl.report.figure import waveform_figure

                try:
                    waveform_figure(capture, result, path.with_suffix(".png"))
                except EnvironmentFault as error:  # the numbers stand without their picture
                    click.echo(f"labctl: {error}", err=True)
        self.paths.append(path)
        self._results.append(result)
        self._truths.append(_headline(read_truth(path), self.power))

    def _same_bench(self, path: Path, bench: Mapping[str, Any]) -> None:
        """Take note of the bench; one page speaks of one. Raises ConfigError for another."""
        if self._bench and dict(bench) != dict(self._bench):
            keys = sorted(k for k in {*bench, *self._bench} if bench.get(k) != self._bench.get(k))
            raise ConfigError(
                f"{path} was taken on another bench than {self.paths[0]} ({', '.join(keys)} differ): "
                "analyse them one after the other"
            )
        self._bench = bench

    def print(self, *, as_json: bool) -> None:
        """Print everything added, as a page or as the one object of the JSON contract."""
        from labctl.report.calibration import sentence, to_json
        from labctl.report.table import render, to_json_rows
        from labctl.report.text import Sentences

        if as_json:
            rows = to_json_rows(self._results, [[str(path)] for path in self.paths], self._truths)
            document = {"schema": SCHEMA_RESULTS, "bench": dict(self._bench), "results": rows}
            if self._calibrations:
                document["calibrations"] = [to_json(calibration) for calibration in self._calibrations]
            click.echo(json.dumps(document, allow_nan=False))
            return
        from rich.console import Console

        console = Console(highlight=False, width=None if sys.stdout.isatty() else 80)
        page = render(self._results, self._bench["name"], self._bench["emulated"], self.power, self._truths)
        console.print(page)
        world_v = self._bench.get("world_supply_v")
        if world_v is not None and world_v != self._bench["supply_v"]:
            console.print(
                f"The true values are the world's, at nominally {world_v:g} V; the computation was told "
                f"{self._bench['supply_v']:g} V."
            )
        for text in self._zeros:
            console.print(text)
        console.print(Sentences([sentence(calibration) for calibration in self._calibrations]))
        folders = ", ".join(sorted({str(path.parent) for path in self.paths}))
        console.print(f"Captures{' and figures' if self.figures else ''} in {folders}", soft_wrap=True)


def _zero_sentence(capture: Capture) -> str:
    """Say which zero reading holds for a capture."""
    zero = capture.records.get("zero")
    if zero is None:
        return "Zero: none was taken."
    method, utc = zero.granted.get("method", "method unknown"), zero.granted.get("utc", "at an unknown time")
    return f"Zero: {method}, {utc}."


def _headline(truth: Mapping[str, float] | None, power: str) -> Mapping[str, float] | None:
    """Choose the truth that belongs to the headline power."""
    if truth is None or power == "dut":
        return truth
    return {**truth, "power_w": truth["power_supply_w"], "energy_j": truth["energy_supply_j"]}
