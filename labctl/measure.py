"""One measurement: front end, null and each series, checked and stored as they come."""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruments.protocols import ChannelSettings
from instruments.record import Record
from labctl import __version__, interrupts
from labctl.bench import Bench
from labctl.errors import EnvironmentFault, FileFault
from labctl.frontend import check_zero, choose_range, dated_zero, look, take_zero
from labctl.model import Capture, Operation
from labctl.series import Series, expected_duration_s, take_series
from labctl.simulation import truth_per_iteration
from labctl.store import capture_name, write_capture

N_NULL_WINDOWS = 100

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """What to measure: operations in order, where captures go, and a dated zero reading to apply instead of one."""

    operations: tuple[Operation, ...]
    out: Path
    zero: Path | None = None


@dataclass(frozen=True)
class _FrontEnd:
    shunt: tuple[ChannelSettings, ...]
    zero: Record
    null_duration_s: float


def measure(bench: Bench, plan: Plan, progress: Progress = lambda *_: None) -> Iterator[Path]:
    """Measure every operation of the plan; yield the path of each capture once it is safely stored.

    Raises LabctlError or InstrumentError; the scope is stopped on the way out, whatever happens.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(_quietly, bench.scope.stop)
        if _make_folder(plan.out):
            stack.callback(_remove_if_empty, plan.out)
        hello = bench.dut.hello()
        manifest = {**bench.dut.manifest(), "build": hello["build"]}
        n_steps = len(plan.operations) + 2
        null = Operation("null", n_runs=N_NULL_WINDOWS, n_iterations=plan.operations[0].n_iterations)
        front_end = _prepare(bench, plan, null, lambda text, done: progress(text, done, n_steps))
        null_series = take_series(bench, null, front_end.shunt, front_end.null_duration_s)
        for step, operation in enumerate(plan.operations, 1):
            interrupts.check()
            progress(f"{operation.name}: {operation.n_runs} runs", step + 1, n_steps)
            series = take_series(bench, operation, front_end.shunt, expected_duration_s(bench, operation))
            if plan.zero is not None:
                check_zero(bench, series.record, front_end.zero)
            yield _store(bench, plan, step, series, null_series, front_end.zero, manifest)
        progress("done", n_steps, n_steps)


def _prepare(bench: Bench, plan: Plan, null: Operation, progress: Callable[[str, int], None]) -> _FrontEnd:
    """Choose the shunt channels' range and offset, and take (or apply) the zero reading at exactly these."""
    progress("trial runs", 0)
    if plan.zero is not None:
        zero, shunt = dated_zero(bench, plan.zero)
        return _FrontEnd(shunt, zero, expected_duration_s(bench, null))
    trials = []
    for operation in (null, *plan.operations):
        interrupts.check()
        trials.append(look(bench, operation))
    shunt = choose_range(bench, trials)
    progress("zero reading, DUT unpowered", 1)
    return _FrontEnd(shunt, take_zero(bench, shunt), trials[0].duration_s)


def _make_folder(folder: Path) -> bool:
    """Make the folder for captures before anything is measured that could not be kept; tell whether it is new."""
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise EnvironmentFault(
            f"captures cannot be written to {folder} ({error.strerror or error}): name another folder with --out"
        ) from error
    return new


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _quietly(action: Callable[[], None]) -> None:
    """Make safe without hiding the error that brought us here."""
    from instruments.errors import InstrumentError

    with contextlib.suppress(InstrumentError):
        action()


def _store(
    bench: Bench,
    plan: Plan,
    number: int,
    series: Series,
    null: Series,
    zero: Record,
    manifest: dict[str, Any],
) -> Path:
    operation = plan.operations[number - 1]
    truth = truth_per_iteration(series.truth, null.truth, operation) if bench.simulation is not None else None
    taken = datetime.datetime.now(datetime.UTC)
    capture = Capture(
        records={"series": series.record, "null": null.record, "zero": zero},
        wiring=bench.wiring,
        operation=operation,
        board=bench.board,
        dut_report=series.report,
        null_report=null.report,
        manifest=manifest,
        provenance={
            "utc": taken.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "software": f"labctl {__version__}",
            "bench": bench.describe(),
        },
        truth=truth,
    )
    while True:
        path = plan.out / capture_name(taken, bench.board["name"], operation, number)
        try:
            return write_capture(path, capture)
        except FileFault:
            if not path.exists():
                raise
        number += len(plan.operations)  # another measurement of this second, into the same folder
