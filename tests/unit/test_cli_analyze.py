"""``labctl analyze`` on files: closed forms on written ones, the manifest's truth on real ones."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from labctl import cli

SHARED = Path(__file__).parents[3] / "shared" / "data"
SHUNT_V, OHM, SUPPLY_V = 13e-3, 1.3, 3.3
DT_S = 1e-6
HIGH = range(300, 700)


def write_keysight(path: Path, columns: dict[str, list[float]], dt_s: float = DT_S) -> Path:
    """Write the layout of an InfiniiVision .csv: two header rows, then a row a sample."""
    rows = [",".join(["x-axis", *columns]), ",".join(["second", *["Volt"] * len(columns)])]
    n = len(next(iter(columns.values())))
    rows += [
        ",".join([f"{i * dt_s:.9E}", *(f"{column[i]:.9E}" for column in columns.values())]) for i in range(n)
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


def pulse(low: float, high: float, n: int = 1000) -> list[float]:
    return [high if i in HIGH else low for i in range(n)]


@pytest.fixture
def capture(tmp_path):
    return write_keysight(
        tmp_path / "c.csv",
        {"1": pulse(0.0, SHUNT_V), "2": pulse(0.0, 3.3), "3": [SUPPLY_V] * 1000, "4": pulse(3.3, 3.3 - SHUNT_V)},
    )


def run(capsys, *arguments: object, status: int = 0) -> tuple[str, str]:
    assert cli.run(["analyze", *map(str, arguments)]) == status, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.out, captured.err


def one_window(capsys, *arguments: object) -> dict:
    out, _ = run(capsys, *arguments, "--json")
    (window,) = json.loads(out)["windows"]
    return window


def test_thirteen_millivolts_across_the_shunt(capsys, capture):
    window = one_window(capsys, capture, "--shunt", OHM, "--supply", "3.3 V", "--shunt-channel", 1, "--trigger", "CH2")
    assert window["duration_s"] == pytest.approx(400 * DT_S, rel=1e-9)
    # 10 mA; 3.3 V before the shunt: 33.000 mW drawn, 32.870 mW in the DUT.
    assert window["current_mean_a"] == pytest.approx(10e-3, rel=1e-6)
    assert window["power_supply_mean_w"] == pytest.approx(33.000e-3, rel=1e-6)
    assert window["power_mean_w"] == pytest.approx(32.870e-3, rel=1e-6)
    assert window["energy_j"] == pytest.approx(32.870e-3 * 400e-6, rel=1e-6)
    assert 0 < window["energy_expanded_j"] < window["energy_j"]


@pytest.mark.parametrize(
    ("option", "other", "sensitivity"),
    # p = (V - v) v / R: in R to the power of -1, in V by V / (V - v).
    [("--shunt-tolerance", "--supply-tolerance", 1.0), ("--supply-tolerance", "--shunt-tolerance", 3.3 / 3.287)],
)
def test_a_tolerance_that_dominates_gives_its_rectangle(capsys, tmp_path, option, other, sensitivity):
    uneven = [v * (1 + 1e-3 * math.sin(1.7 * i)) for i, v in enumerate(pulse(1e-6, SHUNT_V))]  # on no grid of codes
    path = write_keysight(tmp_path / "t.csv", {"1": uneven, "2": pulse(0.0, 3.3)})
    arguments = ["--shunt", OHM, "--supply", 3.3, "--shunt-channel", 1, "--trigger", 2, option, "5 %", other, "0"]
    window = one_window(capsys, path, *arguments)
    # 95 % of a rectangle of half-width 5 %; the edges of a window of 400 samples add little.
    assert window["energy_expanded_j"] / window["energy_j"] == pytest.approx(0.95 * 0.05 * sensitivity, rel=0.01)


def test_sensed_at_the_dut(capsys, capture):
    arguments = ["--shunt", OHM, "--supply", 3.3, "--shunt-channel", "CH1", "--trigger", "CH2", "--sensed", "dut"]
    window = one_window(capsys, capture, *arguments)
    assert window["power_mean_w"] == pytest.approx(33.000e-3, rel=1e-6)
    assert window["power_supply_mean_w"] == pytest.approx(33.130e-3, rel=1e-6)


def test_two_channels_and_a_measured_supply(capsys, capture):
    arguments = ["--shunt", OHM, "--shunt-high", "CH3", "--shunt-low", "CH4", "--trigger", "CH2"]
    window = one_window(capsys, capture, *arguments, "--supply", "CH4")
    # A supply channel that is also the low end of the shunt: sensed at the DUT, (3.3 V - 13 mV) * 10 mA.
    assert window["current_mean_a"] == pytest.approx(10e-3, rel=1e-4)
    assert window["power_mean_w"] == pytest.approx(32.870e-3, rel=1e-4)


def test_falling_edge_and_threshold(capsys, tmp_path):
    path = write_keysight(tmp_path / "i.csv", {"1": pulse(0.0, SHUNT_V), "2": pulse(3.3, 0.0)})
    arguments = ["--shunt", OHM, "--supply", 3.3, "--shunt-channel", 1, "--trigger", 2]
    window = one_window(capsys, path, *arguments, "--edge", "falling", "--threshold", "1.0")
    assert window["energy_j"] == pytest.approx(32.870e-3 * 400e-6, rel=2e-3)
    _, err = run(capsys, path, *arguments, status=1)
    assert "inverted" in err
    assert "falling" in err


def test_without_a_trigger_the_record_is_one_window(capsys, capture):
    out, _ = run(capsys, capture, "--json")
    (window,) = json.loads(out)["windows"]
    assert window["duration_s"] == pytest.approx(1000 * DT_S, rel=1e-9)
    assert "energy_j" not in window


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--trigger", "CH9"], 2, "no channel 'CH9'"),
        (["--shunt", "1.3"], 2, "--shunt-channel"),
        (["--shunt", "1.3", "--shunt-channel", "1"], 2, "--supply"),
        (["--shunt-channel", "1", "--supply", "3.3"], 2, "--shunt 1.3"),
        (["--shunt-high", "1"], 2, "--shunt-low"),
        (["--shunt", "0"], 2, "more than zero"),
        (["--shunt", "nan"], 2, "1.3 ohm"),
        (["--supply", "five", "--shunt", "1.3", "--shunt-channel", "1"], 2, "name a channel"),
        (["--trigger", "CH3"], 1, "no trigger edge"),
        (["--board", "arduino"], 2, "stm32vldiscovery"),
        (["--shunt", "1.3", "--shunt-channel", "1", "--supply", "CH1"], 2, "already"),
        (["--shunt", "1.3", "--shunt-high", "3", "--shunt-low", "3", "--supply", "3.3"], 2, "two channels"),
        (["--threshold", "nan", "--trigger", "2"], 2, "3.3 V"),
    ],
)
def test_what_cannot_be_is_said(capsys, capture, arguments, status, words):
    _, err = run(capsys, capture, *arguments, status=status)
    assert words in err


def test_a_shunt_a_thousand_times_too_large(capsys, capture):
    arguments = ["--shunt", "1.3 kohm", "--supply", 3.3, "--shunt-channel", 1, "--trigger", 2]
    _, err = run(capsys, capture, *arguments, "--board", "stm32vldiscovery", status=1)
    assert "implied current" in err
    out, _ = run(capsys, capture, *arguments, "--json")
    assert "implied current of 10.0 µA lies outside" in " ".join(json.loads(out)["warnings"])


def test_a_first_row_that_is_no_number_is_named_not_dropped(capsys, tmp_path):
    (tmp_path / "n.csv").write_text("x-axis,1\nsecond,Volt\n0,nan\n1e-6,1\n2e-6,2\n3e-6,3\n")
    _, err = run(capsys, tmp_path / "n.csv", status=1)
    assert "line 3" in err


def test_half_precision_with_infinity_is_refused(capsys, tmp_path):
    traces = np.ones((2, 100), np.float16)
    traces[1, 50] = np.inf
    np.save(tmp_path / "t.npy", traces)
    _, err = run(capsys, tmp_path / "t.npy", "--json", status=1)
    assert len(err.strip().splitlines()) == 1


def test_several_files_are_a_list(capsys, capture):
    out, _ = run(capsys, capture, capture, "--json")
    document = json.loads(out)
    assert [entry["file"] for entry in document["files"]] == [str(capture)] * 2


def test_a_page_of_eighty_columns(capsys, capture):
    out, _ = run(capsys, capture, "--shunt", OHM, "--supply", 3.3, "--shunt-channel", 1, "--trigger", 2)
    assert max(map(len, out.splitlines())) <= 80
    assert "13.15 µJ" in out or "13.1 µJ" in out


def test_captures_and_files_do_not_mix(capsys, capture):
    golden = Path(__file__).parents[2] / "captures" / "golden" / "stm32vldiscovery-sha256-64.h5"
    _, err = run(capsys, golden, capture, status=2)
    assert "one kind at a time" in err
    _, err = run(capsys, golden, "--shunt", "1.3", status=2)
    assert "its own wiring" in err


def test_a_folder_without_captures(capsys, tmp_path):
    _, err = run(capsys, tmp_path, status=1)
    assert "no captures" in err


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"the folder of shared captures is not here ({path})")
    return path


def truth_of(name: str) -> dict:
    entries = json.loads(shared("manifest.json").read_text())["entries"]
    return next(e for e in entries if name in [f["path"] for f in e["files"]])["truth"]


@pytest.mark.parametrize("name", ["keysight/scope_30.bin", "rigol/DS2072A-9.csv"])
def test_real_files_equal_the_manifest(capsys, name):
    out, _ = run(capsys, shared(name), "--json")
    document = json.loads(out)
    truth = {channel["name"]: channel for channel in truth_of(name)["channels"]}
    assert {channel["name"] for channel in document["channels"]} == set(truth)
    for channel in document["channels"]:
        true = truth[channel["name"]]
        span = true["max"] - true["min"]
        assert channel["n"] == true["n"]
        assert channel["dt_s"] == pytest.approx(true["dt_s"], rel=1e-6)
        assert channel["t0_s"] == pytest.approx(true["t0_s"], abs=1e-6 * true["dt_s"])
        assert channel["mean"] == pytest.approx(true["mean"], abs=1e-6 * span)
        assert channel["min"] == pytest.approx(true["min"], abs=span / 200)
        assert channel["max"] == pytest.approx(true["max"], abs=span / 200)


def test_a_project_without_a_sample_rate(capsys):
    path = shared("chipwhisperer/jittertime.cwp")
    document = json.loads(run(capsys, path, "--json")[0])
    assert document["channels"][0]["dt_s"] is None
    assert document["windows"] == []
    document = json.loads(run(capsys, path, "--rate", "29.5 MHz", "--json")[0])
    assert document["channels"][0]["dt_s"] == pytest.approx(1 / 29.5e6, rel=1e-12)
    assert document["windows"][0]["duration_s"] == pytest.approx(document["channels"][0]["n"] / 29.5e6, rel=1e-9)


def test_a_format_that_is_not_read_gets_one_line(capsys):
    _, err = run(capsys, shared("trs/90x500xfloat.trs"), status=1)
    assert len(err.strip().splitlines()) == 1
    assert ".trs" in err
