"""Judge the whole chain: many emulated benches, each with errors of its own, and how often their intervals hold.

Each bench is measured as a person would, by simulator process, SCPI over sockets, capture files and analysis; the
world's own account of what the core drew is the judge.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labctl import interrupts
from labctl.analysis.comparison import ratio
from labctl.analysis.judgement import Judgement, judge
from labctl.analysis.result import analyze
from labctl.bench import Bench, Fixture, open_bench
from labctl.calibrate import (
    VALID_S,
    Request,
    calibrate_deskew,
    calibrate_gain,
    calibrate_timebase,
    calibrate_zero,
)
from labctl.errors import CaptureError, ConfigError, EnvironmentFault, LabctlError
from labctl.measure import Plan, measure
from labctl.model import Operation, Result
from labctl.report.coverage import Account, Failure
from labctl.store import open_capture, read_truth

OPERATIONS = (Operation("sha256", bytes=64), Operation("aes-128-ctr", bytes=64))
KINDS = ("duration", "power", "energy", "energy_ratio")
CALIBRATIONS = ("zero", "gain", "deskew", "timebase")

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Study:
    """What to judge: how many benches, drawn from which seed, and what is calibrated on each before it measures."""

    n_benches: int
    seed: int
    calibrate: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stated:
    """A stated interval, value ± expanded, and the truth that it should hold; all of one unit."""

    value: float
    expanded: float
    truth: float


@dataclass(frozen=True)
class Outcome:
    """The intervals that one bench stated, by kind: one of each operation, and one ratio."""

    seed: int
    intervals: Mapping[str, tuple[Stated, ...]]


def bench_seeds(seed: int, n: int) -> list[int]:
    """Draw the seeds of n benches; more benches of the same seed begin with the same.

    Integers of 53 bits, which any reader of JSON keeps: two studies have a bench in common about never.
    """
    words = np.random.SeedSequence(seed).generate_state(n, np.uint64) >> np.uint64(11)
    return [int(word) for word in words]


class Coverage:
    """A study that goes on: `outcomes` and `failures` hold what is known so far, whatever ends it."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.outcomes: list[Outcome] = []
        self.failures: list[Failure] = []

    def run(self, progress: Progress = lambda *_: None) -> None:
        """Measure every bench; one that fails is kept under `failures` and does not stop the others.

        Raises ConfigError or EnvironmentFault where the very first bench cannot be had, since no other could.
        """
        from instruments.errors import InstrumentError

        seeds = bench_seeds(self.study.seed, self.study.n_benches)
        for k, seed in enumerate(seeds):
            interrupts.check()
            progress(self._so_far(k), k, len(seeds))
            try:
                self.outcomes.append(measure_bench(seed, self.study.calibrate))
            except (LabctlError, InstrumentError) as error:
                if k == 0 and isinstance(error, ConfigError | EnvironmentFault):
                    raise
                self.failures.append(Failure(seed, str(error)))
        progress(self._so_far(len(seeds) - 1), len(seeds), len(seeds))

    def judgements(self) -> dict[str, Judgement]:
        """Judge each kind of interval, those of both operations together."""
        return {kind: _judge([i for outcome in self.outcomes for i in outcome.intervals[kind]]) for kind in KINDS}

    def account(self) -> Account:
        """Sum up what is known so far."""
        return Account(
            n_benches=self.study.n_benches,
            n_complete=len(self.outcomes),
            seed=self.study.seed,
            operations=OPERATIONS,
            calibrated=self.study.calibrate,
            judgements=self.judgements(),
            failures=tuple(self.failures),
        )

    def _so_far(self, k: int) -> str:
        text = f"bench {k + 1}/{self.study.n_benches}"
        if self.failures:
            text += f", {len(self.failures)} failed"
        if not self.outcomes:
            return text
        held = [f"{100 * j.coverage_ratio:.0f}" for j in self.judgements().values()]
        return f"{text}: t {held[0]}, P {held[1]}, E {held[2]}, ratio {held[3]} %"


def measure_bench(seed: int, calibrate: tuple[str, ...] = ()) -> Outcome:
    """Draw one emulated bench, calibrate it as asked, measure both operations, and set them beside the truth.

    Its captures are gone afterwards. Raises LabctlError or InstrumentError.
    """
    with tempfile.TemporaryDirectory(prefix="labctl-coverage-") as name:
        folder = Path(name)
        with open_bench(None, board_name=None, overrides=lambda file: file, ask=_nobody, seed=seed) as bench:
            calibrations = tuple(_calibrate(bench, kind, folder) for kind in calibrate)
            paths = list(measure(bench, Plan(OPERATIONS, folder, calibrations=calibrations)))
        judged = [_read(path) for path in paths]
    intervals: dict[str, tuple[Stated, ...]] = {
        "duration": tuple(Stated(r.duration_mean_s, r.duration_expanded_s, t["duration_s"]) for r, t in judged),
        "power": tuple(Stated(r.power_mean_w, r.power_expanded_w, t["power_w"]) for r, t in judged),
        "energy": tuple(Stated(r.energy_mean_j, r.energy_expanded_j, t["energy_j"]) for r, t in judged),
    }
    (one, one_true), (other, other_true) = judged
    comparison = ratio(one, other, "energy")
    truth = one_true["energy_j"] / other_true["energy_j"]
    intervals["energy_ratio"] = (Stated(comparison.value, comparison.expanded, truth),)
    _check(intervals)
    return Outcome(seed, intervals)


def _calibrate(bench: Bench, kind: str, folder: Path) -> Path:
    """Calibrate one bench against the emulated load or pulse, as `labctl calibrate` does by default."""
    if kind not in CALIBRATIONS:
        raise ConfigError(f"there is no calibration {kind!r}; there are {', '.join(CALIBRATIONS)}")
    request, fixture = Request(OPERATIONS, folder, VALID_S[kind]), Fixture()
    if kind == "zero":
        return calibrate_zero(bench, request)
    if kind == "gain":
        return calibrate_gain(bench, request, fixture)
    if kind == "deskew":
        return calibrate_deskew(bench, request, fixture)
    return calibrate_timebase(bench, request, fixture)


def _read(path: Path) -> tuple[Result, Mapping[str, float]]:
    with open_capture(path) as capture:
        result = analyze(capture)
    truth = read_truth(path)
    if truth is None:
        raise CaptureError(f"{path.name} holds no account of the world's, so nothing can be judged by it")
    return result, truth


def _judge(intervals: list[Stated]) -> Judgement:
    return judge([i.value for i in intervals], [i.expanded for i in intervals], [i.truth for i in intervals])


def _check(intervals: Mapping[str, tuple[Stated, ...]]) -> None:
    for kind, stated in intervals.items():
        for i in stated:
            if not (math.isfinite(i.value) and i.expanded >= 0 and math.isfinite(i.truth) and i.truth != 0):
                raise CaptureError(f"{kind}: {i.value:g} ± {i.expanded:g} with the truth {i.truth:g} cannot be judged")


def _nobody(sentence: str) -> None:
    raise ConfigError(f"{sentence}: but an emulated bench has nobody to ask")


def _silent(text: str, done: int, total: int) -> None:
    """Say nothing: progress is told by bench."""
