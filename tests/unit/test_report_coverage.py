"""What `labctl coverage` prints, and how it ends, with benches whose outcomes are made up."""

import io
import json
import math
import os
import signal

import pytest
from rich.console import Console

from labctl import cli, coverage
from labctl.coverage import KINDS, Coverage, Outcome, Stated, Study, bench_seeds
from labctl.errors import CaptureError, ConfigError, EnvironmentFault
from labctl.report.coverage import render


def outcome(seed: int, error_ratio: float = 0.01) -> Outcome:
    """Give the outcome of a bench whose every value is off by `error_ratio`, in intervals of ± 2 %."""
    truths = {"duration": (3e-4, 5e-4), "power": (0.031, 0.032), "energy": (9.3e-6, 16e-6), "energy_ratio": (0.58,)}
    return Outcome(seed, {
        kind: tuple(Stated(true * (1 + error_ratio), 0.02 * true, true) for true in of_kind)
        for kind, of_kind in truths.items()
    })


def page(account) -> str:
    stream = io.StringIO()
    Console(file=stream, width=80, highlight=False).print(render(account))
    return stream.getvalue()


@pytest.fixture
def benches(monkeypatch):
    """Let benches be what a function of their number, counted from 0, says."""
    def install(of_number):
        numbers = iter(range(10_000))
        monkeypatch.setattr(coverage, "measure_bench", lambda seed, _: of_number(next(numbers), seed))

    return install


def words(text: str) -> str:
    """Give the text as one line, however it was wrapped."""
    return " ".join(text.split())


def run(capsys, *arguments):
    status = cli.run(["coverage", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_seeds_are_prefixes_and_do_not_overlap():
    assert bench_seeds(7, 400)[:10] == bench_seeds(7, 10)
    seeds = [s for seed in range(200) for s in bench_seeds(seed, 400)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= s < 2**53 for s in seeds)


def test_the_json(capsys, benches):
    # Errors of -3 % miss intervals of ± 2 %, those of +1 % do not: one bench of four misses.
    benches(lambda number, seed: outcome(seed, -0.03 if number == 2 else 0.01))
    status, out, _ = run(capsys, "--benches", "4", "--seed", "9", "--json")
    document = json.loads(out)
    assert status == 0
    assert document["schema"] == "labctl.coverage/1"
    assert (document["benches"], document["complete"], document["seed"]) == (4, 4, 9)
    assert (document["emulated"], document["calibrated"], document["failures"]) == (True, [], [])
    assert document["n"] == {"duration": 8, "power": 8, "energy": 8, "energy_ratio": 4}
    # Errors of the ratio: three of 1 %, one of -3 %; the 95th percentile lies 0.85 of the way from 1 % to 3 %.
    for figure, value in (
        ("coverage", 0.75), ("bias", 0.0), ("spread", 0.02), ("expanded", 0.02), ("tightness", 0.02 / 0.027)
    ):
        assert set(document[figure]) == set(KINDS)
        assert document[figure]["energy_ratio"] == pytest.approx(value, abs=1e-12)
    assert document["spread"]["energy"] == pytest.approx(math.sqrt((6 * 1 + 2 * 9) * 1e-4 / 7))


def test_the_page_fits_and_says_what_it_is(capsys, benches):
    benches(lambda number, seed: outcome(seed, 0.021 * math.sin(number)))
    status, out, _ = run(capsys, "--benches", "400")
    assert status == 0
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "Emulated benches (currents are a model, not silicon): 400 of 400, seed 1" in out
    assert "energy ratio" in out
    # Quantiles of the binomial distribution of 400 trials at 95 %.
    assert "between 92.8 and 97.0 % in 95 of 100" in words(out)
    assert "not calibrated" in words(out)


def test_a_bench_that_fails_is_named_and_counted(capsys, benches):
    def of_number(number, seed):
        if number == 1:
            raise CaptureError("no edge was found")
        return outcome(seed)

    benches(of_number)
    failed = bench_seeds(3, 3)[1]
    status, out, _ = run(capsys, "--benches", "3", "--seed", "3")
    assert status == 4
    assert "2 of 3" in out
    assert f"Bench of seed {failed} failed: no edge was found" in words(out)
    benches(of_number)
    status, out, _ = run(capsys, "--benches", "3", "--seed", "3", "--json")
    document = json.loads(out)
    assert (status, document["complete"], document["n"]["power"]) == (4, 2, 4)
    assert document["failures"] == [{"seed": failed, "message": "no edge was found"}]


def test_where_every_bench_fails_nothing_is_made_up(capsys, benches):
    def of_number(number, seed):
        raise CaptureError("no edge was found")

    benches(of_number)
    status, out, _ = run(capsys, "--benches", "2", "--json")
    document = json.loads(out)
    assert (status, document["n"]["energy"], document["coverage"]["energy"]) == (4, 0, None)
    assert "tight" not in page(Coverage(Study(2, 1)).account())


@pytest.mark.parametrize(("error", "status"), [(EnvironmentFault("no firmware"), 3), (ConfigError("no such"), 2)])
def test_what_no_bench_could_do_without_ends_it_at_once(capsys, benches, error, status):
    def of_number(number, seed):
        assert number == 0
        raise error

    benches(of_number)
    assert run(capsys, "--benches", "5")[0] == status


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_prints_what_is_known(capsys, benches, as_json):
    def of_number(number, seed):
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return outcome(seed)

    benches(of_number)
    status, out, err = run(capsys, "--benches", "5", *(["--json"] if as_json else []))
    shown = err if as_json else out
    assert status == 130
    assert "2 of 5" in shown
    assert "Not finished: 3 of 5 benches were not tried." in words(shown)
    assert "energy ratio " in shown
    assert "interrupted after 2 of 5 benches" in err
    assert not (as_json and out)


def test_a_fault_that_nobody_foresaw_does_not_lose_the_rest(capsys, benches):
    def of_number(number, seed):
        if number == 3:
            raise ZeroDivisionError
        return outcome(seed)

    benches(of_number)
    with pytest.raises(ZeroDivisionError):
        cli.run(["coverage", "--benches", "5"])
    assert "3 of 5" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--benches", "0"], ["--seed", "-1"], ["--calibrate", "luck"]])
def test_usage(capsys, arguments):
    assert run(capsys, *arguments)[0] == 2


def test_progress_tells_what_is_known_so_far(benches):
    benches(lambda number, seed: outcome(seed, 0.03 if number % 2 else 0.01))
    told = []
    Coverage(Study(3, 1)).run(lambda *one: told.append(one))
    assert told[0] == ("bench 1/3", 0, 3)
    assert told[2] == ("bench 3/3: t 50, P 50, E 50, ratio 50 %", 2, 3)
    assert told[-1][1:] == (3, 3)
