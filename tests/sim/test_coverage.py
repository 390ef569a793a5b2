"""How often the stated interval contains the world's truth: the only judge of an uncertainty."""

import contextlib
import dataclasses
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from labctl.analysis.judgement import Judgement
from labctl.analysis.result import analyze
from labctl.bench import open_bench
from labctl.coverage import KINDS, Coverage, Study
from labctl.measure import Plan, measure
from labctl.model import Operation
from labctl.store import open_capture, read_truth

# Of all the checks of coverage in one test together, were every interval right: one false alarm in a thousand.
FALSE_ALARM = 1e-3


@dataclasses.dataclass(frozen=True)
class Judged:
    """One seed: measured over true, and whether the stated interval held, for each quantity."""

    ratio: dict[str, float]
    held: dict[str, bool]
    relative: dict[str, float]


def judge(seed: int, folder: Path) -> Judged:
    def nobody(sentence):
        raise AssertionError(sentence)

    plan = Plan((Operation("sha256", bytes=64),), folder)
    with open_bench(
        None, board_name=None, overrides=lambda f: f.with_values(shunt_ohm=1.3), ask=nobody, seed=seed
    ) as bench:
        (path,) = measure(bench, plan)
    truth = read_truth(path)
    assert truth is not None
    with open_capture(path) as capture:
        result = analyze(capture)
    path.unlink()
    numbers = {
        "duration": (result.duration_mean_s, result.duration_expanded_s, truth["duration_s"]),
        "power": (result.power_mean_w, result.power_expanded_w, truth["power_w"]),
        "energy": (result.energy_mean_j, result.energy_expanded_j, truth["energy_j"]),
    }
    return Judged(
        ratio={k: value / true for k, (value, _, true) in numbers.items()},
        held={k: abs(value - true) <= expanded for k, (value, expanded, true) in numbers.items()},
        relative={k: expanded / value for k, (value, expanded, _) in numbers.items()},
    )


def check_hits(study: Coverage, probability: float = 0.95) -> None:
    """Fail where fewer intervals hold the truth than chance explains, each holding it with this probability.

    Two intervals of one bench share their errors and are no independent trials, so those of each operation are
    counted by themselves, one a bench, against the quantile of the binomial distribution. There are seven such counts,
    in whatever way they depend on each other: each is given a seventh of the false alarms.
    """
    n = len(study.outcomes)
    counts = {
        (kind, k): [o.intervals[kind][k] for o in study.outcomes]
        for kind in KINDS
        for k in range(len(study.outcomes[0].intervals[kind]))
    }
    assert len(counts) == 7
    least = int(stats.binom.ppf(FALSE_ALARM / len(counts), n, probability))
    assert stats.binom.cdf(least - 1, n, probability) < FALSE_ALARM / len(counts)
    for name, stated in counts.items():
        held = sum(abs(i.value - i.truth) <= i.expanded for i in stated)
        assert held >= least, f"{name}: {held} of {n} intervals hold the truth"


def report(study: Coverage) -> dict[str, Judgement]:
    judged = study.judgements()
    for kind, j in judged.items():
        print(f"{kind}: {j}")
    return judged


@pytest.fixture(scope="module")
def few(elf) -> Coverage:
    study = Coverage(Study(n_benches=8, seed=2))
    study.run()
    return study


def test_every_bench_gives_its_intervals(few):
    assert few.failures == []
    assert {kind: j.n for kind, j in few.judgements().items()} == {
        "duration": 16, "power": 16, "energy": 16, "energy_ratio": 8
    }
    truths = [o.intervals["energy"][0].truth for o in few.outcomes]
    assert len(set(truths)) == 8  # no two benches are one


def test_coverage_of_a_few_benches(few):
    check_hits(few)


def half_width_of_rectangles(*limits: float) -> float:
    """Give q with P(|sum| < q) = 95 % for rectangular errors of these half-widths, by convolution."""
    step = 1e-5
    density = np.ones(1)
    for limit in limits:
        density = np.convolve(density, np.ones(2 * round(limit / step) + 1))
    reach = step * np.abs(np.arange(len(density)) - len(density) // 2)
    order = np.argsort(reach)
    return float(reach[order][np.searchsorted(np.cumsum(density[order]) / density.sum(), 0.95)])


def errors(study: Coverage, kind: str) -> np.ndarray:
    return np.array([i.value / i.truth - 1 for o in study.outcomes for i in o.intervals[kind]])


def test_the_interval_is_that_of_the_limits(few):
    # Errors of energy and power: shunt ± 1 %, supply ± 1 %, gain ± 2 %, rectangular, of sensitivities that differ from
    # one by the shunt's drop, 0.4 % of the supply; all else is below 0.1 %. What holds 95 % of their sum, exactly by
    # convolution and by the factor of a normal distribution, bounds the interval on either side.
    exact = half_width_of_rectangles(0.01, 0.01, 0.02)
    normal = 1.96 * np.sqrt((0.01**2 + 0.01**2 + 0.02**2) / 3)
    assert exact < normal
    for kind in ("power", "energy"):
        assert 0.99 * exact < few.judgements()[kind].expanded_ratio < 1.01 * normal


def test_no_error_is_beyond_all_limits_together(few):
    # Measured over true is (1 + gain) (1 + shunt) / (1 + supply), and 0.1 % is left for all else.
    for kind in ("power", "energy"):
        assert errors(few, kind).max() < 1.02 * 1.01 / 0.99 - 1 + 1e-3
        assert errors(few, kind).min() > 0.98 * 0.99 / 1.01 - 1 - 1e-3
    # Time base ± 10 ppm, and a nanosecond (a fifth of a sample) of 300 µs.
    assert np.abs(errors(few, "duration")).max() < 10e-6 + 1e-9 / 300e-6


def test_errors_that_cancel_are_not_in_the_ratio(few):
    judged = few.judgements()
    assert judged["energy_ratio"].expanded_ratio < 0.1 * judged["energy"].expanded_ratio
    # An interval cannot be right that is far wider than every error seen.
    assert judged["energy_ratio"].expanded_ratio < 10 * np.abs(errors(few, "energy_ratio")).max()


def test_a_few_calibrated_benches(elf):
    study = Coverage(Study(n_benches=4, seed=4, calibrate=("gain",)))
    study.run()
    assert study.failures == []
    check_hits(study)
    # Shunt and gain are gone. The load's current is known by the supply, ± 1 %, and the load, ± 0.1 %; the supply
    # enters the energy a second time. The rest (decoupling, noise) is below 0.1 %.
    exact = half_width_of_rectangles(0.02, 0.001)
    for kind in ("power", "energy"):
        expanded = np.array([i.expanded / i.truth for o in study.outcomes for i in o.intervals[kind]])
        assert expanded.max() < 0.03
        assert study.judgements()[kind].expanded_ratio == pytest.approx(exact, rel=0.03)
        assert np.abs(errors(study, kind)).max() < 1.001 / 0.99**2 - 1 + 1e-3


def test_the_command(elf, labctl, tmp_path):
    done = labctl("coverage", "--benches", "2", "--seed", "5", "--json", cwd=tmp_path, TMPDIR=str(tmp_path))
    document = json.loads(done.stdout)
    assert document["schema"] == "labctl.coverage/1"
    assert (document["complete"], document["n"]["energy"], document["failures"]) == (2, 4, [])
    assert list(tmp_path.iterdir()) == []  # its captures are gone


def test_ctrl_c_leaves_nothing_behind(elf, forker, tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = ["coverage", "--benches", "1000", "--seed", "6"]
    with contextlib.closing(forker.start(command, tmp_path, environment)) as process:
        folders: set[str] = set()
        deadline_s = time.monotonic() + 90
        while len(folders) < 2 and time.monotonic() < deadline_s and process.poll() is None:
            folders |= {p.name for p in tmp_path.glob("labctl-coverage-*")}
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "1 of 1000" in out
    assert "interrupted after 1 of 1000 benches" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sweep
def test_coverage_of_a_hundred_benches(elf, tmp_path):
    judged = [judge(seed, tmp_path) for seed in range(1, 101)]
    for quantity in ("duration", "power", "energy"):
        held = sum(j.held[quantity] for j in judged)
        mean = sum(j.ratio[quantity] for j in judged) / len(judged)
        print(f"{quantity}: {held} of {len(judged)} intervals hold the truth, mean measured/true {mean:.6f}")
        assert held >= 92, f"{quantity}: {held} of {len(judged)}"
    assert max(j.relative["energy"] for j in judged) < 0.1


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_coverage_of_four_hundred_benches(elf):
    study = Coverage(Study(n_benches=400, seed=1))
    study.run()
    assert study.failures == []
    check_hits(study)
    for kind, j in report(study).items():
        assert j.coverage_ratio >= 0.93, kind
        assert abs(j.bias_ratio) < max(1e-3, 0.1 * j.expanded_ratio), kind
    for kind in ("power", "energy"):
        assert study.judgements()[kind].tightness_ratio <= 1.3


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_coverage_of_a_hundred_calibrated_benches(elf):
    study = Coverage(Study(n_benches=100, seed=3, calibrate=("gain",)))
    study.run()
    assert study.failures == []
    check_hits(study)
    for kind, j in report(study).items():
        assert abs(j.bias_ratio) < max(1e-3, 0.1 * j.expanded_ratio), kind
    largest = max(i.expanded / i.truth for o in study.outcomes for i in o.intervals["energy"])
    assert largest < 0.03
