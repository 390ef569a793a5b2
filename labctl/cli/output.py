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

from labctl.cli.terminal import page_console
from labctl.errors import CaptureError, ConfigError, EnvironmentFault, NobodyThere
from labctl.model import SCHEMA_RESULTS, MissingRow

if TYPE_CHECKING:
    from labctl.model import Calibration, Capture, Result

# Some of the rows that were asked are there, and some are missing.
EXIT_PARTIAL = 4
# What of a bench goes with the board that stands on it.
_OF_BOARD = ("board", "supply_v", "world_supply_v")


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """End the block in peace where whoever reads our output has read enough, as `head` does."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing more can be said there, at exit neither


class Output:
    """Progress on stderr and questions to the person, for the length of a command.

    Where stderr is no terminal nothing moves: then with `lines` each step is a line, unless `quiet`.
    """

    def __init__(self, *, quiet: bool, lines: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            console=Console(stderr=True, markup=False, emoji=False),
            transient=True,
            disable=quiet or not sys.stderr.isatty(),
        )
        self._lines = lines and not quiet and not sys.stderr.isatty()
        self._last: tuple[str, int] | None = None
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
        # Behind the first colon stands what changes within a step, as the file that is compiled.
        step = (text.partition(":")[0], done)
        if self._lines and step != self._last and done < total:
            click.echo(f"{done + 1}/{total} {text}" if total > 1 else text, err=True)
        self._last = step

    def note(self, sentence: str) -> None:
        """Say something that is to stay on stderr."""
        with self.paused():
            click.echo(f"labctl: {sentence}", err=True)

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
        self._benches: dict[str, dict[str, Any]] = {}
        self._missing: list[MissingRow] = []
        self._zeros: list[str] = []
        self._calibrations: list[Calibration] = []

    def add(self, path: Path) -> None:
        """Analyse one capture. Raises LabctlError, naming the file, where it cannot give a number."""
        from labctl.analysis.result import analyze
        from labctl.report.table import headline
        from labctl.store import open_capture, read_truth

        with open_capture(path) as capture:
            if capture.provenance.get("what") == "calibration":
                raise ConfigError(f"{path} is a calibration and no measurement: labctl calibrate show {path}")
            try:
                result = analyze(capture, self.power)
            except CaptureError as error:
                raise CaptureError(f"{path}: {error}") from error
            self._same_bench(path, capture.provenance["bench"], result.board)
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
        self._truths.append(headline(read_truth(path), self.power))

    def lack(self, row: MissingRow) -> None:
        """Take note of a row that there is not."""
        self._missing.append(row)

    def add_or_lack(self, path: Path) -> None:
        """Analyse one capture of several: where it can give no number, its row is missing."""
        from labctl.store import open_capture

        try:
            self.add(path)
        except CaptureError as error:
            with open_capture(path) as capture:
                assert capture.operation is not None
                self.lack(MissingRow(str(capture.board["name"]), capture.operation, error))

    def exit_status(self) -> int:
        """Return 0, or where rows are missing the status that says so. Raises the first reason where all are."""
        if not self._missing:
            return 0
        if not self.paths:
            raise self._missing[0].error
        return EXIT_PARTIAL

    def _same_bench(self, path: Path, facts: Mapping[str, Any], board: str) -> None:
        """Take note of the bench; one page speaks of one, whose boards may differ. Raises ConfigError for another."""
        bench = {"board": board, **facts}
        for other in list(self._benches.values()):
            same = _OF_BOARD if bench["board"] != other["board"] else ()
            keys = sorted(k for k in {*bench, *other} if k not in same and bench.get(k) != other.get(k))
            if keys:
                raise ConfigError(
                    f"{path} was taken on another bench than {self.paths[0]} ({', '.join(keys)} differ): "
                    "analyse them one after the other"
                )
        self._benches[bench["board"]] = bench

    def print(self, *, as_json: bool) -> None:
        """Print everything added, as a page or as the one object of the JSON contract."""
        from labctl.report.labels import missing_sentences

        if as_json:
            self._print_json()
        elif self.paths:
            self._print_page()
        sentences = missing_sentences(self._missing, self._results)
        if not self.paths:
            sentences = sentences[1:]  # the first is the error that ends the command
        elif sentences:
            click.echo(f"labctl: {len(self._missing)} of {len(self._missing) + len(self.paths)} rows are missing",
                       err=True)
        for sentence in sentences:
            click.echo(f"labctl: {sentence}", err=True)

    def _print_json(self) -> None:
        from labctl.report.calibration import to_json
        from labctl.report.labels import missing_to_json
        from labctl.report.table import to_json_rows

        rows = to_json_rows(self._results, [[str(path)] for path in self.paths], self._truths)
        document: dict[str, Any] = {"schema": SCHEMA_RESULTS, "bench": _shared(self._benches), "results": rows}
        if self._calibrations:
            document["calibrations"] = [to_json(calibration) for calibration in self._calibrations]
        if self._missing:
            document["missing"] = missing_to_json(self._missing)
        click.echo(json.dumps(document, allow_nan=False))

    def _print_page(self) -> None:

        from labctl.report.calibration import sentence
        from labctl.report.table import render
        from labctl.report.text import Sentences
        from labctl.units import size_text

        console = page_console()
        bench = _shared(self._benches)
        console.print(render(self._results, bench["name"], bench["emulated"], self.power, self._truths))
        sentences = []
        for board, facts in self._benches.items():
            world_v = facts.get("world_supply_v")
            if world_v is not None and world_v != facts["supply_v"]:
                where = f" for {board}" if len(self._benches) > 1 else ""
                sentences.append(
                    f"The true values are the world's, at nominally {world_v:g} V; the computation was told "
                    f"{facts['supply_v']:g} V{where}."
                )
        sentences += [_together(self._zeros), *map(sentence, self._calibrations)]
        console.print(Sentences(sentences))
        folders = ", ".join(sorted({str(path.parent) for path in self.paths}))
        pictures = [path.with_suffix(".png") for path in self.paths] if self.figures else []
        n_bytes = sum(path.stat().st_size for path in (*self.paths, *pictures) if path.is_file())
        console.print(
            f"Captures{' and figures' if self.figures else ''} in {folders} ({size_text(n_bytes)})", soft_wrap=True
        )


def _shared(benches: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Give the facts that the benches of all boards share, and where there are several, those of each under `boards`.

    What differs is None among the shared ones.
    """
    facts = list(benches.values())
    if len(facts) < 2:
        return dict(facts[0]) if facts else {}
    keys = dict.fromkeys(key for one in facts for key in one)
    shared = {key: facts[0].get(key) if all(one.get(key) == facts[0].get(key) for one in facts) else None
              for key in keys}
    of_board = {board: {key: one.get(key) for key in _OF_BOARD if key != "board"} for board, one in benches.items()}
    return {**shared, "boards": of_board}


def _together(zeros: list[str]) -> str:
    """Say several zero readings in one sentence."""
    if len(zeros) == 1:
        return zeros[0]
    return f"Zero: {len(zeros)} readings, one for each image. The first: {zeros[0].removeprefix('Zero: ')}"


def _zero_sentence(capture: Capture) -> str:
    """Say which zero reading holds for a capture."""
    zero = capture.records.get("zero")
    if zero is None:
        return "Zero: none was taken." if capture.wiring.shunt else "Zero: none, for a meter states its own offset."
    method, utc = zero.granted.get("method", "method unknown"), zero.granted.get("utc", "at an unknown time")
    return f"Zero: {method}, {utc}."
