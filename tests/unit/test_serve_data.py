"""What charts are given equals what the store holds, by closed forms of the made-up captures."""

import dataclasses
import math

import numpy as np
import pytest

from labctl.analysis.result import analyze
from labctl.campaign import journal
from labctl.campaign.watch import Watcher
from labctl.report.waveform import headline_energies
from labctl.serve import charts
from labctl.serve.shelf import Shelf
from labctl.serve.waveforms import outline, runs
from labctl.store import envelope, open_capture, range_statistics, write_capture

from .campaign_synthetic import OHM, RUN_V
from .serve_campaigns import BOARDS, LONG_S, N_LONG, begin, take

# The zero reading of made-up captures is 0 V, and channel 1 holds the drop.
UNIT_V = 1e-6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = begin(tmp_path_factory.mktemp("data") / "night")
    take(folder)
    return folder


@pytest.fixture(scope="module")
def sight(folder):
    return Watcher(folder.path).look()


def capture(folder, number):
    return folder.capture_path(folder.campaign.items[number - 1])


@pytest.mark.parametrize(("start", "stop"), [(0.0, None), (0.9, 1.3), (1.2345, 1.2346), (1.234560, 1.234575)],
                         ids=["whole", "part", "near", "samples"])
def test_a_waveform_is_the_pyramid_over_the_shunt(folder, start, stop):
    found = outline(capture(folder, 1), 0, start, stop, 500)
    assert (found["unit"], found["n_samples"], found["step"]) == ("A", N_LONG, LONG_S)
    first, last = found["first"], found["last"]
    if stop is None:
        assert (first, last) == (0, N_LONG)
    else:
        assert (first, last) == (math.floor(start / LONG_S), math.ceil(stop / LONG_S) + 1)
    whole = envelope(capture(folder, 1), "series", "CH1", 0, first, last, 500)
    for name, values in (("low", whole.minimum), ("high", whole.maximum), ("mean", whole.mean)):
        np.testing.assert_allclose(found[name], values / OHM, rtol=1e-9)
    assert len(found["x"]) == min(500, last - first)
    assert found["x"] == sorted(found["x"])
    assert found["x"][0] == pytest.approx((whole.position[0] + whole.position[1] - 1) / 2 * LONG_S)


def test_a_spike_of_one_sample_is_seen_at_every_zoom(folder):
    for start, stop in ((0.0, None), (1.2, 1.3), (1.23456, 1.23458)):
        found = outline(capture(folder, 1), 0, start, stop, 300)
        assert max(found["high"]) == pytest.approx(30_000 * UNIT_V / OHM, rel=1e-9)


def test_a_span_outside_the_record_is_its_end(folder):
    found = outline(capture(folder, 1), 0, 10.0, 20.0, 100)
    assert (found["first"], found["last"]) == (N_LONG - 2, N_LONG)
    with pytest.raises(IndexError, match="1 segments"):
        outline(capture(folder, 1), 1)


def test_windows_lie_where_the_trigger_rises(folder):
    found = runs(capture(folder, 1))
    # The trigger's line is up from sample 1 000 000 to 2 000 000; an edge lies half a sample before.
    assert [(one["segment"], pytest.approx(1.0, abs=LONG_S), pytest.approx(2.0, abs=LONG_S))
            for one in found["windows"]] == [(one["segment"], one["start"], one["stop"]) for one in found["windows"]]
    assert [one["segment"] for one in found["windows"]] == [0]
    each = runs(capture(folder, 2))["windows"]
    assert [one["segment"] for one in each] == [0, 1, 2, 3]
    assert {round(one["start"], 9) for one in each} == {149.5e-6}


def test_runs_are_the_result_and_their_mean_is_its(folder, sight):
    found = runs(capture(folder, 2))
    with open_capture(capture(folder, 2)) as read:
        gross = headline_energies(analyze(read))
    row = next(one.last.row for one in sight.state.items if one.item.number == 2)
    assert found["energy_mean_j"] == row["energy_mean_j"]
    assert found["energy_expanded_j"] == row["energy_expanded_j"]
    assert np.mean(found["energies_j"]) == pytest.approx(row["energy_mean_j"], rel=1e-12)
    assert np.std(found["energies_j"], ddof=1) == pytest.approx(row["energy_std_j"], rel=1e-9)
    np.testing.assert_allclose(np.diff(found["energies_j"]), np.diff(gross), rtol=1e-9)


def test_a_capture_without_a_number_says_why(folder, tmp_path):
    with open_capture(capture(folder, 2)) as read:
        wiring = dataclasses.replace(read.wiring, supply=None)
        write_capture(tmp_path / "none.h5", dataclasses.replace(read, wiring=wiring))
    found = runs(tmp_path / "none.h5")
    assert found["windows"] == []
    assert "supply voltage is not known" in found["reason"]
    assert str(tmp_path) not in found["reason"]
    # Its waveform is there all the same, as the scope saw it.
    assert outline(tmp_path / "none.h5")["unit"] == "V"


def test_statistics_are_the_rows_of_the_journal(sight, folder):
    rows = {one.item: one.row for one in journal.read(folder.path).attempts if one.state == "done"}
    for quantity, (mean, expanded) in {
        "energy": ("energy_mean_j", "energy_expanded_j"), "power": ("power_mean_w", "power_expanded_w"),
        "duration": ("duration_mean_s", "duration_expanded_s"), "current": ("current_mean_a", None),
    }.items():
        found = charts.statistics(sight, quantity)["items"]
        assert [one["item"] for one in found] == [1, 2, 3, 10, 11, 12, 13]
        assert [one["mean"] for one in found] == [rows[one["item"]][mean] for one in found]
        assert [one["expanded"] for one in found] == [rows[one["item"]].get(expanded) for one in found]
    assert len({one["name"] for one in found}) == 7


def test_statistics_of_one_board_and_operation(sight):
    found = charts.statistics(sight, "energy", BOARDS[1], "sha256")["items"]
    assert [(one["item"], one["name"]) for one in found] == [(10, "sha256 (64 B)"), (11, "sha256 (1024 B)")]


def test_spread_is_of_the_runs(sight, folder):
    one = charts.statistics(sight, "power")["items"][1]
    energies = np.array(runs(capture(folder, one["item"]))["energies_j"])
    assert one["spread"]["std"] == pytest.approx(np.std(energies, ddof=1) / energies.mean(), rel=1e-9)
    assert one["spread"]["median"] == pytest.approx(np.median(energies) / energies.mean() - 1, abs=1e-12)
    # One run has no spread.
    assert charts.statistics(sight, "energy")["items"][0]["spread"] is None


def test_drift_is_of_references_and_baselines_in_the_order_they_were_taken(sight, folder):
    found = charts.drift(sight, "energy")["series"]
    assert [(one["role"], len(one["points"])) for one in found] == [
        ("reference", 3), ("baseline", 2), ("reference", 3), ("baseline", 2)
    ]
    assert [point["item"] for point in found[0]["points"]] == [5, 6, 7]
    attempts = journal.read(folder.path).attempts
    assert [attempts[point["order"] - 1].item for point in found[0]["points"]] == [5, 6, 7]
    rows = [attempts[point["order"] - 1].row for point in found[0]["points"]]
    mean = sum(row["energy_mean_j"] for row in rows) / 3
    for point, row in zip(found[0]["points"], rows, strict=True):
        assert point["value"] == row["energy_mean_j"]
        assert point["ratio"] == pytest.approx(row["energy_mean_j"] / mean - 1, abs=1e-12)
        assert point["error"] == pytest.approx(row["energy_se_j"] / mean, rel=1e-12)
    powers = charts.drift(sight, "power")["series"][0]["points"]
    assert powers[0]["error"] == pytest.approx(rows[0]["power_std_w"] / math.sqrt(4) / charts.drift(sight, "power")[
        "series"][0]["mean"], rel=1e-12)


def test_the_mean_current_in_a_window_is_what_was_made(folder):
    found = outline(capture(folder, 1), 0, 1.3, 1.9, 10)
    assert np.mean(found["mean"]) == pytest.approx(RUN_V / OHM, rel=1e-3)
    whole = range_statistics(capture(folder, 1), "series", "CH1", 0, found["first"], found["last"])
    assert min(found["low"]) == pytest.approx(whole.minimum / OHM, rel=1e-9)


def test_a_shelf_finds_campaigns_that_come_later(folder, tmp_path):
    begin(tmp_path / "a")
    with Shelf([tmp_path]) as shelf:
        assert [book.key for book in shelf.books()] == ["a"]
        begin(tmp_path / "b")
        assert [book.key for book in shelf.books()] == ["a", "b"]
        assert shelf.book("b").path == tmp_path / "b"
        assert shelf.book("../a") is None
    with Shelf([tmp_path / "a", folder.path.parent, tmp_path]) as shelf:
        assert sorted(book.key for book in shelf.books()) == ["a", "b", "night"]


def test_campaigns_of_one_name_have_keys_of_their_own(tmp_path):
    for place in ("x", "y"):
        begin(tmp_path / place / "night 1")
    with Shelf([tmp_path / "x", tmp_path / "y"]) as shelf:
        assert [book.key for book in shelf.books()] == ["night_1", "night_1-2"]


def test_a_chart_of_many_items_says_how_many_it_leaves_out(sight, monkeypatch):
    monkeypatch.setattr(charts, "N_SHOWN", 3)
    found = charts.statistics(sight, "energy")
    assert ([one["item"] for one in found["items"]], found["n_more"]) == ([1, 2, 3], 4)
    assert charts.statistics(sight, "energy", BOARDS[0])["n_more"] == 0
