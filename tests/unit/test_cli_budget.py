"""``labctl budget``: files in, pages and one JSON object out, faults named; the numbers are in test_report_budget."""

import dataclasses
import json
from pathlib import Path

import pytest

from labctl import cli
from labctl.analysis.result import analyze
from labctl.store import open_capture, write_capture

GOLDEN = Path(__file__).parents[2] / "captures" / "golden" / "stm32vldiscovery-sha256-64.h5"


def run(capsys, *arguments: object, status: int = 0) -> tuple[str, str]:
    assert cli.run(["budget", *map(str, arguments)]) == status, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.fixture
def other(tmp_path):
    """Copy the golden capture to another bench."""
    with open_capture(GOLDEN) as capture:
        bench = {**capture.provenance["bench"], "seed": 77}
        records = {
            name: dataclasses.replace(r, instrument=dataclasses.replace(r.instrument, serial="EMULATED77"))
            for name, r in capture.records.items()
        }
        return write_capture(tmp_path / "other.h5", dataclasses.replace(
            capture, records=records, provenance={**capture.provenance, "bench": bench}))


def test_the_page_and_the_object_state_what_analyze_states(capsys):
    with open_capture(GOLDEN) as capture:
        result = analyze(capture)
    out, _ = run(capsys, GOLDEN)
    assert max(map(len, out.splitlines())) <= 80
    assert "emulated (currents are a model, not silicon)" in out
    for word in ("Duration", "Power", "Energy", "gain CH1", "shunt", "supply", "JCGM 100"):
        assert word in out
    document = json.loads(run(capsys, GOLDEN, "--json")[0])
    (found,) = document["results"]
    assert found["capture"] == str(GOLDEN)
    assert found["bench"]["emulated"] is True
    energy = found["budgets"]["energy"]
    assert (energy["value"], energy["expanded"]) == (result.energy_mean_j, result.energy_expanded_j)
    assert found["budgets"]["power"]["expanded"] == result.power_expanded_w
    assert found["budgets"]["duration"]["expanded"] == result.duration_expanded_s
    assert len(energy["contributions"]) == len(result.budget["energy"])


def test_one_quantity_or_two(capsys):
    document = json.loads(run(capsys, GOLDEN, "--quantity", "energy", "--quantity", "duration", "--json")[0])
    assert set(document["results"][0]["budgets"]) == {"energy", "duration"}
    out, _ = run(capsys, GOLDEN, "--quantity", "power")
    assert "Power" in out
    assert "Energy" not in out


def test_the_supplys_power(capsys):
    with open_capture(GOLDEN) as capture:
        result = analyze(capture, "supply")
    document = json.loads(run(capsys, GOLDEN, "--power", "supply", "--json")[0])
    assert document["power"] == "supply"
    assert document["results"][0]["budgets"]["power"]["value"] == result.power_mean_w


def test_captures_of_two_benches_stand_side_by_side(capsys, other):
    out, _ = run(capsys, GOLDEN, other, "--quantity", "energy")
    assert max(map(len, out.splitlines())) <= 80
    assert "They were taken on 2 benches" in out
    document = json.loads(run(capsys, GOLDEN, other, GOLDEN, "--json")[0])
    far, near = document["comparison"]["energy"]["ratios"]
    assert (far["same_bench"], near["same_bench"]) == (False, True)
    energy = document["results"][0]["budgets"]["energy"]
    assert near["expanded"] / near["value"] < energy["expanded"] / energy["value"] < far["expanded"] / far["value"]


def test_a_folder_stands_for_its_captures(capsys, other):
    document = json.loads(run(capsys, other.parent, "--json")[0])
    assert [r["capture"] for r in document["results"]] == [str(other)]
    (other.parent / "empty").mkdir()
    _, err = run(capsys, other.parent / "empty", status=1)
    assert "holds no captures" in err


def test_trials_are_drawn_when_asked_for(capsys):
    document = json.loads(run(capsys, GOLDEN, "--quantity", "energy", "--monte-carlo", "--json")[0])
    checked = document["results"][0]["budgets"]["energy"]["monte_carlo"]
    assert checked["n_digits"] >= 1
    assert "Monte Carlo trials" in run(capsys, GOLDEN, "--quantity", "energy", "--monte-carlo")[0]


def test_what_is_no_capture_is_said_and_hides_no_other(capsys, tmp_path):
    (tmp_path / "scope.csv").write_text("x-axis,1\nsecond,Volt\n0,1\n")
    _, err = run(capsys, tmp_path / "scope.csv", status=1)
    assert "no labctl capture" in err
    out, err = run(capsys, tmp_path / "scope.csv", GOLDEN, "--json", status=1)
    assert len(json.loads(out)["results"]) == 1
    assert "scope.csv" in err
    run(capsys, tmp_path / "missing.h5", status=2)
    run(capsys, GOLDEN, "--quantity", "charge", status=2)
    run(capsys, status=2)


def test_a_capture_without_a_number_is_named(capsys, tmp_path):
    with open_capture(GOLDEN) as capture:
        path = write_capture(tmp_path / "broken.h5", dataclasses.replace(
            capture, records={"zero": capture.records["zero"]}))
    _, err = run(capsys, path, status=1)
    assert f"{path}: " in err
    assert "no series" in err
