"""What a watcher sees of a campaign equals what is in its folder, however the journal grew, and nothing is touched."""

import dataclasses
import json
import os

import pytest
from click.testing import CliRunner

from labctl.campaign import journal
from labctl.campaign.folder import Now
from labctl.campaign.model import Event
from labctl.campaign.state import state_of
from labctl.campaign.watch import Cell, Watcher
from labctl.cli.campaignwatch import watch
from labctl.errors import FileFault

from .serve_campaigns import BOARDS, begin, take

UTC = "2026-11-30T12:00:00Z"


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    folder = begin(tmp_path_factory.mktemp("watched") / "night")
    take(folder)
    return folder


@pytest.fixture
def copy(taken, tmp_path):
    """A campaign of the same list whose journal is empty."""
    return begin(tmp_path / "night"), (taken.path / journal.NAME).read_bytes()


def agrees(watcher):
    """Tell whether what is seen is what the whole journal holds."""
    sight, whole = watcher.look(), journal.read(watcher.path)
    return (sight.attempts, sight.events, sight.state) == (
        whole.attempts, whole.events, dataclasses.replace(state_of(sight.campaign, whole), held_by=None)
    )


@pytest.mark.parametrize("step", [61, 1000, 100_000], ids=str)
def test_a_journal_that_grows_by_any_steps_is_seen_as_it_is(copy, step):
    folder, data = copy
    watcher = Watcher(folder.path)
    for stop in range(step, len(data) + step, step):
        (folder.path / journal.NAME).write_bytes(data[:stop])
        assert agrees(watcher)
    assert watcher.look().attempts


def test_only_what_was_added_is_read(copy, monkeypatch):
    folder, data = copy
    lines = data.splitlines(keepends=True)
    path = folder.path / journal.NAME
    path.write_bytes(b"".join(lines[:-1]))
    watcher = Watcher(folder.path)
    before = watcher.look()
    parsed = []
    whole = journal.parse
    monkeypatch.setattr(journal, "parse", lambda text, *more: parsed.append(len(text)) or whole(text, *more))
    assert watcher.look() is before
    assert parsed == []
    with path.open("ab") as stream:
        stream.write(lines[-1])
    assert watcher.look().number == before.number + 1
    assert sum(parsed) == len(lines[-1])


def test_a_line_that_was_taken_back_is_forgotten(copy):
    folder, data = copy
    lines = data.splitlines(keepends=True)
    path = folder.path / journal.NAME
    watcher = Watcher(folder.path)
    path.write_bytes(b"".join(lines[:5]))
    assert agrees(watcher)
    os.truncate(path, sum(map(len, lines[:4])))
    assert agrees(watcher)
    # As long as before, and another line: the length alone would not tell.
    path.write_bytes(b"".join(lines[:3]) + lines[5] + lines[4])
    assert agrees(watcher)
    assert watcher.look().attempts


def test_the_remains_of_a_crash_count_as_nothing(copy):
    folder, data = copy
    path = folder.path / journal.NAME
    watcher = Watcher(folder.path)
    path.write_bytes(data[:-20])
    assert agrees(watcher)
    assert watcher.look().state.n_dropped == 1
    journal.append(folder.path, Event("begin", UTC))
    assert agrees(watcher)
    assert watcher.look().events[-1].utc == UTC


def test_looking_changes_nothing(taken):
    def everything():
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in taken.path.rglob("*")}

    before = everything()
    assert Watcher(taken.path).look().state.n_items == 18
    assert everything() == before


def test_items_that_are_added_are_seen(copy):
    folder, _ = copy
    watcher = Watcher(folder.path)
    assert watcher.look().state.n_items == 18
    last = folder.campaign.items[-1]
    more = dataclasses.replace(last, number=19, key=f"{last.key} more")
    folder.extend((*folder.campaign.items, more), (*folder.campaign.schedule, 19), "")
    assert watcher.look().state.n_items == 19


def test_the_matrix_counts_items_by_board_and_operation(taken):
    matrix = Watcher(taken.path).look().matrix
    assert matrix.boards == BOARDS
    assert matrix.operations == ("sha256", "aes-128-ctr.encrypt", "busy")
    # Two sizes and three times the reference; of the other operation one size fails on one board.
    assert matrix.cells[BOARDS[0], "sha256"] == Cell(5, 5, 0, 0)
    assert matrix.cells[BOARDS[0], "aes-128-ctr.encrypt"] == Cell(2, 1, 1, 0)
    assert matrix.cells[BOARDS[1], "aes-128-ctr.encrypt"] == Cell(2, 2, 0, 0)
    assert len(matrix.cells) == 6


@pytest.mark.parametrize(("cell", "state", "text"), [
    (Cell(3, 0, 0, 0), "pending", "0/3 done"),
    (Cell(3, 0, 0, 1), "running", "in work, 0/3"),
    (Cell(3, 1, 0, 0), "part", "1/3 done"),
    (Cell(3, 3, 0, 0), "done", "3/3 done"),
    (Cell(3, 1, 2, 0), "failed", "2 failed, 1/3 done"),
], ids=["pending", "running", "part", "done", "failed"])
def test_a_cell_says_its_state_in_words(cell, state, text):
    assert (cell.state, cell.text) == (state, text)


def test_a_campaign_at_work_shows_its_item(copy):
    folder, _ = copy
    watcher = Watcher(folder.path)
    assert watcher.look().phase == "not begun"
    with folder.lock(UTC):
        folder.show_now(Now("made-up-bench", 2, 1, UTC))
        sight = watcher.look()
        assert sight.is_at_work
        assert sight.phase == "in work"
        assert sight.matrix.cells[BOARDS[0], "sha256"] == Cell(5, 0, 0, 1)
        journal.append(folder.path, Event("pause", UTC, "the disk is full", "made-up-bench"))
        assert watcher.look().phase == "waiting: the disk is full"
        journal.append(folder.path, Event("go-on", UTC, "", "made-up-bench"))
        assert watcher.look().phase == "in work"
    assert watcher.look().phase == "broken off: its process is gone"
    journal.append(folder.path, Event("end", UTC, "07:00 is reached", "made-up-bench", {"ended": "budget"}))
    assert watcher.look().phase == "ended early: 07:00 is reached"


def test_a_campaign_at_its_end_is_finished(taken):
    sight = Watcher(taken.path).look()
    assert sight.phase == "finished, 1 failed"
    assert [one.item for one in sight.latest(2)] == [18, 17]
    assert sight.emulated == "made-up-bench"


def test_what_is_no_campaign_is_named(tmp_path):
    with pytest.raises(FileFault, match="no campaign"):
        Watcher(tmp_path).look()


def test_the_command_ends_by_itself_and_shows_no_command_to_the_terminal(taken):
    shown = CliRunner().invoke(watch, [str(taken.path)])
    assert shown.exit_code == 0
    assert "17 of 18 items done, 1 failed" in shown.output
    assert "emulated (currents are a model" in shown.output
    assert "1 failed, 1/2 done" in shown.output
    assert "\x1b" not in shown.output
    assert max(map(len, shown.output.splitlines())) <= 80
    last = journal.read(taken.path).attempts[-1]
    energy = json.loads(json.dumps(last.row))["energy_mean_j"]
    assert f"{energy * 1e6:.2f} µJ" in shown.output


def test_the_command_watches_until_the_work_ends(copy, monkeypatch):
    folder, data = copy
    told = []

    def wait(span_s):
        told.append(span_s)
        if len(told) == 1:
            (folder.path / journal.NAME).write_bytes(data)
        else:
            (folder.path / ".lock").write_bytes(b"")

    monkeypatch.setattr("time.sleep", wait)
    with folder.lock(UTC):
        shown = CliRunner().invoke(watch, [str(folder.path)])
    assert len(told) == 2
    assert shown.output.count("17 of 18 items done") == 1


def test_ctrl_c_leaves_quietly(copy, monkeypatch):
    folder, _ = copy

    def press(span_s):
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", press)
    with folder.lock(UTC):
        shown = CliRunner().invoke(watch, [str(folder.path)])
    assert shown.exit_code == 0
    assert "0 of 18 items done" in shown.output
