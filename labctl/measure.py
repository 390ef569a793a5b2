"""One measurement: front end, null and each series, checked and stored as they come."""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from instruments.protocols import ChannelSettings
from instruments.record import Record
from labctl import __version__, interrupts
from labctl.bench import Bench
from labctl.dated import Dated, check_bench, check_record, read_dated, replay
from labctl.errors import ConfigError, DeviceStable, EnvironmentFault, FileFault, NobodyThere, Unsupported
from labctl.firmware import mismatch
from labctl.frontend import choose_range, look, take_zero, utc_text
from labctl.metering import count_null, has_trigger, plan_stretch, take_logs, take_stretch
from labctl.model import Capture, Operation
from labctl.operations import OF_IMAGE, parts, spelled
from labctl.series import expected_duration_s, take_series, warm_up
from labctl.simulation import truth_per_iteration
from labctl.store import capture_name, write_capture

N_NULL_WINDOWS = 100

Progress = Callable[[str, int, int], None]
# Told an operation that the DUT has not, and why.
Missing = Callable[[Operation, Unsupported], None]


def refuse(_: Operation, error: Unsupported) -> None:
    """Let an operation that the DUT has not end the measurement."""
    raise error


@dataclass(frozen=True)
class Plan:
    """What to measure: operations in order, where captures go, and what found earlier is applied.

    `zero` is a capture whose zero reading is applied instead of a new one, `calibrations` are files of calibrations. A
    gain calibration dictates range and offset, as a dated zero reading does. `temperature_degc` goes into the captures.
    Before each series the DUT runs `n_warmup` windows that nobody records.
    """

    operations: tuple[Operation, ...]
    out: Path = Path()
    zero: Path | None = None
    calibrations: tuple[Path, ...] = ()
    temperature_degc: float | None = None
    n_warmup: int = 0


@dataclass(frozen=True)
class _FrontEnd:
    """`numbers` are those of the plan's operations, from 1, that the DUT has as far as is known."""

    shunt: tuple[ChannelSettings, ...]
    zero: Record
    null_duration_s: float
    numbers: tuple[int, ...]


def measure(
    bench: Bench, plan: Plan, progress: Progress = lambda *_: None, missing: Missing = refuse
) -> Iterator[Path]:
    """Measure every operation of the plan; yield the path of each capture once it is safely stored.

    `missing` is told of each operation that the DUT has not, or not so; unless it raises, the others go on. Raises
    LabctlError or InstrumentError; the scope is stopped on the way out, whatever happens.
    """
    with _folder(plan.out), contextlib.closing(_take(bench, plan, progress, missing)) as captures:
        for number, taken, capture in captures:
            yield _store(plan, number, taken, capture)


def take(
    bench: Bench, plan: Plan, progress: Progress = lambda *_: None, missing: Missing = refuse
) -> Iterator[Capture]:
    """Measure every operation of the plan as `measure` does, and yield each capture without storing it."""
    with contextlib.closing(_take(bench, plan, progress, missing)) as captures:
        for _, _, capture in captures:
            yield capture


def _take(
    bench: Bench, plan: Plan, progress: Progress, missing: Missing
) -> Generator[tuple[int, datetime.datetime, Capture], None, None]:
    """Measure; yield each capture with the number of its operation in the plan, from 1, and the time it was taken."""
    dated = read_dated(plan.calibrations, plan.zero)
    with _stopped(bench):
        check_bench(dated, bench)
        hello = bench.dut.hello()
        manifest = {**bench.dut.manifest(), "build": hello["build"]}
        plan = replace(plan, operations=tuple(_of_image(bench, manifest, one) for one in plan.operations))
        n_steps = len(plan.operations) + 2
        if bench.file.meter is not None:
            yield from _metered(bench, plan, manifest, progress, missing)
            return
        null = null_of(plan.operations)
        front_end = _prepare(bench, plan, dated, null, lambda text, done: progress(text, done, n_steps), missing)
        if front_end is None:
            return
        null_series = take_series(bench, null, front_end.shunt, front_end.null_duration_s)
        check_record(bench, null_series.record, dated, front_end.zero)
        for number in front_end.numbers:
            interrupts.check()
            operation = plan.operations[number - 1]
            progress(f"{operation.name}: {operation.n_runs} runs", number + 1, n_steps)
            try:
                duration_s = expected_duration_s(bench, operation)
                warm_up(bench, operation, plan.n_warmup)
                series = take_series(bench, operation, front_end.shunt, duration_s)
            except Unsupported as error:  # in the trials already, unless dated findings made them needless
                missing(operation, error)
                continue
            check_record(bench, series.record, dated, front_end.zero)
            taken = datetime.datetime.now(datetime.UTC)
            truth = truth_per_iteration(series.truth, null_series.truth, operation) if bench.simulation else None
            yield number, taken, Capture(
                records={"series": series.record, "null": null_series.record, "zero": front_end.zero},
                wiring=bench.wiring,
                operation=operation,
                board=bench.board,
                dut_report=series.report,
                null_report=null_series.report,
                manifest=manifest,
                provenance=provenance(bench, taken, plan.temperature_degc),
                truth=truth,
                calibrations=dated.calibrations,
            )
        progress("done", n_steps, n_steps)


def _metered(
    bench: Bench, plan: Plan, manifest: dict[str, Any], progress: Progress, missing: Missing
) -> Generator[tuple[int, datetime.datetime, Capture], None, None]:
    """Measure by a meter, which needs neither a range nor a zero reading of its own, and sees no null windows."""
    if plan.zero is not None or plan.calibrations:
        raise ConfigError("zero readings and calibrations are of an oscilloscope's shunt: leave them out with a meter")
    n_steps = len(plan.operations) + 1
    for number, operation in enumerate(plan.operations, 1):
        interrupts.check()
        progress(f"{operation.name}: {operation.n_runs} runs", number - 1, n_steps)
        records: dict[str, Record] = {}
        try:
            duration_s = expected_duration_s(bench, operation)
            if has_trigger(bench):
                stretch = plan_stretch(bench, operation, duration_s)
                operation = stretch.operation  # noqa: PLW2901 - with its iterations
                warm_up(bench, operation, plan.n_warmup)
                series = take_stretch(bench, stretch)
            else:
                operation, records["waiting"], series = take_logs(bench, operation, duration_s)  # noqa: PLW2901
            null_report, null_truth = count_null(bench, null_of((operation,)))
        except Unsupported as error:
            missing(operation, error)
            continue
        taken = datetime.datetime.now(datetime.UTC)
        yield number, taken, Capture(
            records={"series": series.record, **records},
            wiring=bench.wiring,
            operation=operation,
            board=bench.board,
            dut_report=series.report,
            null_report=null_report,
            manifest=manifest,
            provenance=provenance(bench, taken, plan.temperature_degc),
            truth=truth_per_iteration(series.truth, null_truth, operation) if bench.simulation else None,
        )
    progress("done", n_steps, n_steps)


def _of_image(bench: Bench, manifest: dict[str, Any], operation: Operation) -> Operation:
    """Give an operation the clock that the DUT has. Raises DeviceStable where it runs another firmware than asked."""
    other = mismatch(bench.board, manifest, operation)
    if other:
        raise DeviceStable(f"{bench.dut.port}: the firmware there was built with {other}: flash the one that is asked")
    return replace(operation, clock_hz=bench.board["clock_hz"])


@contextlib.contextmanager
def session(bench: Bench, out: Path) -> Iterator[None]:
    """Have a folder to write to for the length of the block; stop the scope at its end, and leave no empty folder.

    Raises EnvironmentFault where the folder cannot be written.
    """
    with _stopped(bench), _folder(out):
        yield


@contextlib.contextmanager
def _stopped(bench: Bench) -> Iterator[None]:
    """Stop the scope at the end of the block, whatever happens."""
    try:
        yield
    finally:
        _quietly(bench.scope.stop)


@contextlib.contextmanager
def _folder(out: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if _make_folder(out):
            stack.callback(_remove_if_empty, out)
        yield


def null_of(operations: tuple[Operation, ...]) -> Operation:
    """Give the empty operation that goes with these, of one image all."""
    like = operations[0]
    variant = spelled({key: value for key, value in parts(like.variant).items() if key in OF_IMAGE})
    return Operation("null", n_runs=N_NULL_WINDOWS, n_iterations=like.n_iterations, profile=like.profile,
                     clock_hz=like.clock_hz, variant=variant)


def _prepare(
    bench: Bench, plan: Plan, dated: Dated, null: Operation, progress: Callable[[str, int], None], missing: Missing
) -> _FrontEnd | None:
    """Choose (or repeat) the shunt channels' range and offset; take (or apply) the zero reading at exactly these.

    None where trials showed that the DUT has none of the operations.
    """
    replayed = replay(bench, dated)
    numbers = list(range(1, len(plan.operations) + 1))
    if replayed is None:
        progress("trial runs", 0)
        trials = [look(bench, null)]
        for number, operation in enumerate(plan.operations, 1):
            interrupts.check()
            try:
                trials.append(look(bench, operation))
            except Unsupported as error:
                missing(operation, error)
                numbers.remove(number)
        shunt, zero, null_duration_s = choose_range(bench, trials), None, trials[0].duration_s
    else:
        shunt, zero, null_duration_s = replayed.shunt, replayed.zero, expected_duration_s(bench, null)
    if not numbers:
        return None
    if zero is None:
        progress("zero reading, DUT unpowered", 1)
        try:
            zero = take_zero(bench, shunt)
        except NobodyThere as error:
            raise NobodyThere(f"{error}, or apply an earlier zero reading (--zero)") from error
    return _FrontEnd(shunt, zero, null_duration_s, tuple(numbers))


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


def _store(plan: Plan, number: int, taken: datetime.datetime, capture: Capture) -> Path:
    assert capture.operation is not None
    while True:
        path = plan.out / capture_name(taken, str(capture.board["name"]), capture.operation, number)
        try:
            return write_capture(path, capture)
        except FileFault:
            if not path.exists():
                raise
        number += len(plan.operations)  # another measurement of this second, into the same folder


def provenance(bench: Bench, taken: datetime.datetime, temperature_degc: float | None) -> dict[str, Any]:
    """Tell where a capture comes from: when, by which software, on which bench, at which temperature if known."""
    facts = {"utc": utc_text(taken), "software": f"labctl {__version__}", "bench": bench.describe()}
    return facts if temperature_degc is None else {**facts, "temperature_degc": temperature_degc}
