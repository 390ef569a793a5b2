"""Measure on the emulated bench what published tables hold, and read from files what is to stand beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from labctl import boards
from labctl.analysis.result import analyze
from labctl.combinations import Choice
from labctl.errors import CaptureError, ConfigError
from labctl.measure import Plan, Progress
from labctl.memory.document import read_rows
from labctl.model import MissingRow
from labctl.operations import takes_message
from labctl.published.compare import Found, of_memory, of_result, to_measure
from labctl.published.tables import PublishedTable
from labctl.store import open_capture
from labctl.survey import Survey, survey

# The publication's shunt (labctl/published/data/tables.toml), and windows enough for a mean.
_SHUNT_OHM = 1.3
_N_RUNS = 3


@dataclass(frozen=True)
class Quick:
    """How a quick run on the emulated bench is to be done; `sizes` are for messages whose size was not published."""

    out: Path
    profiles: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    seed: int = 1


def measure_published(
    tables: Sequence[PublishedTable], quick: Quick, progress: Progress, missing: Callable[[MissingRow], None],
    note: Callable[[str], object] = lambda _: None,
) -> Iterator[Path]:
    """Measure what stands in these tables, of the boards that labctl has; yield the captures.

    Raises ConfigError where there is nothing of these boards, and what a survey raises.
    """
    wanted = to_measure(tables, boards.names())
    if not wanted:
        raise ConfigError("--measure: of these tables labctl has no board and operation; labctl measure takes others")
    for board, (names, sizes) in wanted.items():
        messages = tuple(sizes) or quick.sizes if any(map(takes_message, names)) else ()
        choice = Choice((board,), tuple(names), profiles=quick.profiles, variants=quick.variants, sizes=messages,
                        n_runs=_N_RUNS)
        # No bench file: this never touches instruments, so nobody is to be asked anything.
        found = Survey(choice, Plan((), quick.out), None, lambda file: file.with_values(shunt_ohm=_SHUNT_OHM),
                       lambda _: None, quick.seed, note)
        yield from survey(found, lambda text, *rest, b=board: progress(f"{b}: {text}", *rest), missing)


def read_found(path: Path) -> list[Found]:
    """Read what one file tells: a capture, or what `labctl memory --json` printed.

    Raises FileFault for another file, CaptureError where a capture gives no number.
    """
    if path.suffix == ".json":
        rows, emulated = read_rows(path)
        return [of_memory(row, emulated, str(path)) for row in rows]
    with open_capture(path) as capture:
        if capture.provenance.get("what") == "calibration" or capture.operation is None:
            raise ConfigError(f"{path} is no measurement of an operation")
        try:
            result = analyze(capture, "dut")
        except CaptureError as error:
            raise CaptureError(f"{path}: {error}") from error
        return [of_result(result, bool(capture.provenance["bench"]["emulated"]), (str(path),))]
