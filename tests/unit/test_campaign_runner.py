"""The loop over items: attempts and their classes, pauses, budgets, and what is on record, on made-up captures."""

import errno
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from instruments.errors import InstrumentTimeout, LinkLost, Rejected, SafetyStop
from labctl.campaign import hooks, journal, pace
from labctl.campaign.budget import Budget, Tally
from labctl.campaign.runner import run
from labctl.campaign.state import state_of
from labctl.campaign.work import Policy, Show
from labctl.campaign.workers import run_all
from labctl.errors import (
    CaptureError,
    DeviceStable,
    DeviceTransient,
    DiskFull,
    EnvironmentFault,
    Unsupported,
    WrongOutput,
)
from labctl.interrupts import Wish
from labctl.store import open_capture, verify_capture

from .campaign_synthetic import BENCH, FakeClocks, Synthetic, campaign_folder, capture_of, duration_s, items_of

HANGS = DeviceTransient("silence, no answer")


class Notes(Show):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


@pytest.fixture
def folder(tmp_path):
    return campaign_folder(tmp_path / "night", 3)


@pytest.fixture
def clocks():
    return FakeClocks()


def work(folder, measurer, clocks=None, **settings):
    budget, show, wish = settings.pop("budget", None), settings.pop("show", None), settings.pop("wish", None)
    fake = clocks or FakeClocks()
    return run(folder, measurer, BENCH, Policy(**settings), budget=budget, show=show, wish=wish, clocks=fake.clocks)


def attempts(folder):
    return [(one.item, one.number, one.state, one.final, one.failure) for one in journal.read(folder.path).attempts]


def events(folder):
    return [event.kind for event in journal.read(folder.path).events]


def test_every_item_is_taken_in_the_order_of_the_schedule(tmp_path):
    folder = campaign_folder(tmp_path / "night", 3, schedule=(2, 3, 1))
    measurer = Synthetic()
    assert work(folder, measurer).kind == "complete"
    assert measurer.asked == [(2, 1), (3, 1), (1, 1)]
    assert events(folder) == ["begin", "end"]
    for attempt, item in zip(journal.read(folder.path).attempts, (items_of(3)[n] for n in (1, 2, 0)), strict=True):
        assert attempt.row["duration_mean_s"] == pytest.approx(duration_s(item), rel=1e-9)
        file = folder.path / attempt.capture
        assert file == folder.capture_path(item)
        assert file.stat().st_size == attempt.capture_bytes
        assert verify_capture(file) == []


def test_items_of_another_bench_are_left_alone(folder):
    measurer = Synthetic()
    assert run(folder, measurer, "another").kind == "complete"
    assert measurer.asked == []


@pytest.mark.parametrize(
    "error",
    [HANGS, InstrumentTimeout("no answer"), WrongOutput("wrong"), CaptureError("an edge was missed"), OSError("odd")],
    ids=lambda error: type(error).__name__,
)
def test_a_fault_of_the_moment_is_tried_again_and_stays_on_record(folder, error):
    measurer = Synthetic({(2, 1): error})
    assert work(folder, measurer).kind == "complete"
    assert measurer.asked == [(1, 1), (2, 1), (2, 2), (3, 1)]
    assert measurer.n_recovered == 1
    assert attempts(folder)[1:3] == [(2, 1, "failed", False, "transient"), (2, 2, "done", True, "")]


def test_a_fault_that_persists_costs_its_item_after_the_last_attempt(folder, clocks):
    assert work(folder, Synthetic({2: HANGS}), clocks, n_attempts=4, backoff_s=2.0).kind == "complete"
    assert attempts(folder)[1:5] == [(2, n, "failed", n == 4, "transient") for n in (1, 2, 3, 4)]
    assert attempts(folder)[5] == (3, 1, "done", True, "")
    # The pause is doubled each time: 2 + 4 + 8 s.
    assert sum(clocks.waits_s) == pytest.approx(14.0)


@pytest.mark.parametrize(
    "error",
    [Unsupported("no such size"), DeviceStable("another board"), Rejected("-222"), ValueError("nobody foresaw this")],
    ids=lambda error: type(error).__name__,
)
def test_a_stable_fault_costs_its_item_at_once(folder, error):
    assert work(folder, Synthetic({2: error})).kind == "complete"
    assert attempts(folder) == [
        (1, 1, "done", True, ""), (2, 1, "failed", True, "stable"), (3, 1, "done", True, ""),
    ]
    assert str(error) in journal.read(folder.path).attempts[1].error


def test_a_capture_that_gives_no_number_is_kept_with_its_attempt(folder):
    def without_series(item):
        capture = capture_of(item)
        return capture_of(item, records={"null": capture.records["null"]})

    work(folder, Synthetic({(2, 1): without_series}))
    failed = journal.read(folder.path).attempts[1]
    assert failed.failure == "transient"
    assert failed.capture.startswith("captures/failed/0002-")
    assert failed.capture.endswith("-attempt1.h5")
    with open_capture(folder.path / failed.capture, verify=True) as capture:
        assert list(capture.records) == ["null"]


def test_a_current_beyond_the_limit_switches_off_and_stops(folder):
    # 13 mV across 1.3 ohm are 10 mA.
    measurer, notes = Synthetic(), Notes()
    ending = work(folder, measurer, show=notes, current_limit_a=9e-3)
    assert ending.kind == "safety"
    assert "10.0 mA" in ending.text
    assert "9.00 mA" in ending.text
    assert measurer.n_safe == 1
    assert attempts(folder) == [(1, 1, "failed", True, "safety")]
    assert journal.read(folder.path).attempts[0].capture.startswith("captures/failed/")
    assert measurer.asked == [(1, 1)]


def test_a_current_within_the_limit_is_measured(folder):
    assert work(folder, Synthetic(), current_limit_a=11e-3).kind == "complete"


def test_an_instrument_that_stops_for_safety_stops_all(folder):
    measurer = Synthetic({2: SafetyStop("over-current")})
    assert work(folder, measurer).kind == "safety"
    assert measurer.asked == [(1, 1), (2, 1)]
    assert measurer.n_safe == 1


def test_outputs_that_do_not_switch_off_are_told_and_stop_it_all_the_same(folder):
    measurer, notes = Synthetic({1: SafetyStop("over-current")}), Notes()

    def broken():
        raise LinkLost("the switch is gone")

    measurer.make_safe = broken
    assert work(folder, measurer, show=notes).kind == "safety"
    assert any("the switch is gone" in note for note in notes.notes)


def filling(monkeypatch, module, name, n_full, error):
    """Let a function meet a full disk `n_full` times, then work."""
    real, left = getattr(module, name), [error] * n_full

    def call(*arguments, **keywords):
        if left:
            raise left.pop()
        return real(*arguments, **keywords)

    monkeypatch.setattr(module, name, call)


def test_a_full_disk_pauses_and_the_capture_in_memory_is_stored_when_there_is_room(folder, clocks, monkeypatch):
    filling(monkeypatch, pace, "write_capture", 3, DiskFull("the disk is full"))
    measurer, notes = Synthetic(), Notes()
    assert work(folder, measurer, clocks, show=notes).kind == "complete"
    assert measurer.asked == [(1, 1), (2, 1), (3, 1)]
    assert events(folder) == ["begin", "pause", "go-on", "end"]
    assert sum(clocks.waits_s) == pytest.approx(3 * pace.DISK_POLL_S)
    assert len([note for note in notes.notes if "the disk is full" in note]) == 1
    # The pause is no time at work.
    assert journal.read(folder.path).attempts[0].elapsed_s == 0.0


def test_a_full_disk_under_the_journal_pauses_too(folder, clocks, monkeypatch):
    work_before = journal.append
    n_left = [2]

    def append(path, entry):
        if not hasattr(entry, "kind") and n_left[0]:
            n_left[0] -= 1
            raise DiskFull("the disk is full")
        work_before(path, entry)

    monkeypatch.setattr(journal, "append", append)
    assert work(folder, Synthetic(), clocks).kind == "complete"
    assert [item for item, *_ in attempts(folder)] == [1, 2, 3]


def test_a_full_disk_while_measuring_costs_no_attempt(folder, clocks):
    full = [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.ENOSPC, "No space left on device")]

    def once(item):
        if full:
            raise full.pop()
        return capture_of(item)

    measurer = Synthetic({(2, 1): once})
    assert work(folder, measurer, clocks).kind == "complete"
    assert attempts(folder) == [(n, 1, "done", True, "") for n in (1, 2, 3)]
    assert measurer.asked == [(1, 1), (2, 1), (2, 1), (2, 1), (3, 1)]


def test_a_disk_that_stays_full_ends_with_the_budget(folder, clocks, monkeypatch):
    filling(monkeypatch, pace, "write_capture", 1000, DiskFull("the disk is full"))
    ending = work(folder, Synthetic(), clocks, budget=Budget(deadline_s=clocks.now_s + 60.0))
    assert ending.kind == "budget"
    assert attempts(folder) == []


def test_a_folder_that_cannot_be_written_ends_it(folder, monkeypatch):
    filling(monkeypatch, pace, "write_capture", 1, EnvironmentFault("input/output error"))
    with pytest.raises(EnvironmentFault, match="input/output"):
        work(folder, Synthetic())


def test_a_folder_that_is_taken_away_is_said_to_be_gone(folder):
    def take_away(item):
        folder.path.rename(folder.path.with_name("elsewhere"))
        return capture_of(item)

    with pytest.raises(EnvironmentFault, match=r"moved or removed.* while the campaign worked: put it back"):
        work(folder, Synthetic({2: take_away}))
    assert not folder.path.exists()


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0, 2.5])
def test_a_clock_that_jumps_is_noted_and_changes_no_duration(folder, clocks, jump_s):
    def jumping(item):
        clocks.now_s += 10.0
        clocks.ahead_s += jump_s
        return capture_of(item)

    budget = Budget(deadline_s=clocks.now_s + 1000.0)
    assert work(folder, Synthetic({2: jumping}), clocks, budget=budget).kind == "complete"
    found = journal.read(folder.path)
    assert [event.facts["jump_s"] for event in found.events if event.kind == "clock"] == [jump_s]
    assert found.attempts[1].elapsed_s == pytest.approx(10.0)


def test_a_clock_that_is_slewed_is_no_jump(folder, clocks):
    def slewed(item):
        clocks.ahead_s += 1.5
        return capture_of(item)

    work(folder, Synthetic({1: slewed, 2: slewed, 3: slewed}), clocks)
    assert events(folder) == ["begin", "end"]


def test_until_is_by_the_clock_on_the_wall(folder, clocks):
    def jumping(item):
        clocks.ahead_s += 3600.0
        return capture_of(item)

    budget = Budget(until_s=clocks.clocks.wall_s() + 1800.0)
    assert work(folder, Synthetic({2: jumping}), clocks, budget=budget).kind == "budget"
    assert [item for item, *_ in attempts(folder)] == [1, 2]


@pytest.mark.parametrize("limit", ["deadline_s", "disk_bytes"])
def test_a_budget_that_is_used_up_stops_between_items_and_a_resume_goes_on(folder, clocks, limit):
    def slow(item):
        clocks.now_s += 10.0
        return capture_of(item)

    value = {"deadline_s": clocks.now_s + 15.0, "disk_bytes": 1}[limit]
    ending = work(folder, Synthetic({n: slow for n in (1, 2, 3)}), clocks, budget=Budget(**{limit: value}))
    assert ending.kind == "budget"
    assert [item for item, *_ in attempts(folder)] == {"deadline_s": [1, 2], "disk_bytes": [1]}[limit]
    assert work(folder, Synthetic()).kind == "complete"
    assert sorted(item for item, *_ in attempts(folder)) == [1, 2, 3]


def test_a_wish_to_end_lets_the_item_in_work_end(folder):
    wish = Wish()

    def wished(item):
        wish.asked = True
        return capture_of(item)

    assert work(folder, Synthetic({2: wished}), wish=wish).kind == "interrupted"
    assert attempts(folder) == [(1, 1, "done", True, ""), (2, 1, "done", True, "")]
    measurer = Synthetic()
    assert work(folder, measurer).kind == "complete"
    assert measurer.asked == [(3, 1)]


def test_a_wish_to_end_begins_no_further_attempt_and_attempts_go_on_counting(folder):
    wish = Wish()

    def wished(item):
        wish.asked = True
        raise HANGS

    assert work(folder, Synthetic({2: wished}), wish=wish).kind == "interrupted"
    measurer = Synthetic({2: HANGS})
    assert work(folder, measurer, n_attempts=3).kind == "complete"
    assert measurer.asked == [(2, 2), (2, 3), (3, 1)]
    assert [one for one in attempts(folder) if one[0] == 2] == [
        (2, n, "failed", n == 3, "transient") for n in (1, 2, 3)
    ]


def test_stopped_at_once_leaves_the_item_to_be_taken(folder):
    with pytest.raises(KeyboardInterrupt):
        work(folder, Synthetic({2: KeyboardInterrupt()}))
    assert attempts(folder) == [(1, 1, "done", True, "")]
    assert events(folder) == ["begin", "end"]
    state = state_of(folder.campaign, journal.read(folder.path))
    assert [one.item.number for one in state.pending] == [2, 3]
    assert folder.now() == ()


def test_an_instrument_that_is_away_is_waited_for(folder, clocks):
    measurer = Synthetic({(2, 1): LinkLost("the scope is gone")}, away=[LinkLost("no route")] * 3)
    assert work(folder, measurer, clocks, backoff_s=2.0, wait_s=600.0).kind == "complete"
    assert attempts(folder)[1:3] == [(2, 1, "failed", False, "transient"), (2, 2, "done", True, "")]
    assert events(folder) == ["begin", "pause", "go-on", "end"]
    # 2 s before the attempt, then 2 + 4 + 8 s while it is away.
    assert sum(clocks.waits_s) == pytest.approx(16.0)


def test_an_instrument_that_does_not_come_back_ends_it_and_costs_no_item(folder, clocks):
    measurer = Synthetic({2: LinkLost("the scope is gone")}, away=[LinkLost("no route")] * 1000)
    ending = work(folder, measurer, clocks, backoff_s=2.0, wait_s=600.0)
    assert ending.kind == "lost"
    assert "10 min" in ending.text
    assert sum(clocks.waits_s) == pytest.approx(602.0)
    state = state_of(folder.campaign, journal.read(folder.path))
    assert (state.n_done, state.n_failed, state.n_pending) == (1, 0, 2)


def test_failed_items_are_tried_again_only_on_request(folder):
    work(folder, Synthetic({2: DeviceStable("another board")}))
    measurer = Synthetic()
    assert work(folder, measurer).kind == "complete"
    assert measurer.asked == []
    assert work(folder, measurer, retry_failed=True).kind == "complete"
    assert measurer.asked == [(2, 2)]
    state = state_of(folder.campaign, journal.read(folder.path))
    assert (state.n_done, state.n_failed) == (3, 0)


def test_what_is_written_names_no_address_and_no_secret_and_what_is_shown_does(folder, tmp_path):
    texts = {
        1: "TCPIP::scope.lab::5025::SOCKET and http://chat.lab/hook?token=abc: no", 2: "password hunter2",
        3: "GPIB0::7::INSTR: no answer",
    }
    shown, hidden = [], {"hunter2": "<secret>", "GPIB0::7::INSTR": "the oscilloscope"}
    show = Show()
    show.ended = lambda _, attempt: shown.append(attempt.error)
    told = tmp_path / "told.jsonl"
    hook = (sys.executable, "-c", f"import sys; open({str(told)!r}, 'a').write(sys.stdin.read())")
    faults = {number: DeviceStable(text) for number, text in texts.items()}
    work(folder, Synthetic(faults), show=show, secrets=hidden, failure_hook=hook)
    assert shown == list(texts.values())
    kept = [one.error for one in journal.read(folder.path).attempts]
    assert kept == ["<address> and <address>: no", "password <secret>", "the oscilloscope: no answer"]
    assert all(text not in told.read_text() for text in ("lab", "hunter2", "GPIB"))


def test_the_folder_is_named_as_it_is_seen_from_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = campaign_folder(Path("people", "ann", "night"), 1)
    text = "cannot write people/ann/night/captures/1.h5: the disk is full"
    notes = Notes()
    filling(monkeypatch, pace, "write_capture", 1, DiskFull(text))
    work(folder, Synthetic(), show=notes)
    (pause,) = [event for event in journal.read(folder.path).events if event.kind == "pause"]
    assert pause.text == "cannot write captures/1.h5: the disk is full"
    assert notes.notes[0].startswith(text)


def test_the_hook_on_failure_gets_what_failed(folder, tmp_path):
    told = tmp_path / "told.json"
    hook = (sys.executable, "-c", f"import sys; open({str(told)!r}, 'w').write(sys.stdin.read())")
    work(folder, Synthetic({2: DeviceStable("another board")}), failure_hook=hook)
    document = json.loads(told.read_text())
    assert (document["event"], document["item"], document["failure"]) == ("failure", 2, "stable")
    assert document["error"] == "another board"
    assert events(folder) == ["begin", "end"]


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        ((sys.executable, "-c", "import sys; sys.exit('no display for hunter2')"), "status 1: no display for hunter2"),
        (("no-such-program-here",), "cannot be run"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "did not end within"),
        ("http://127.0.0.1:9/hook", "does not answer"),
        ("http://[::1/", "does not answer"),
    ],
    ids=["fails", "missing", "hangs", "nobody answers", "no address"],
)
def test_a_hook_that_fails_is_told_and_never_ends_the_campaign(folder, monkeypatch, hook, words):
    monkeypatch.setattr(hooks.call, "__defaults__", (0.5,))
    notes = Notes()
    assert work(folder, Synthetic({2: DeviceStable("no")}), show=notes, failure_hook=hook).kind == "complete"
    assert events(folder) == ["begin", "hook", "end"]
    assert any(words in note for note in notes.notes)
    assert "hunter2" not in journal.read(folder.path).events[1].text  # what a command says may be anything
    assert [one[2] for one in attempts(folder)] == ["done", "failed", "done"]


def test_a_budget_of_disk_is_that_of_all_benches_together(tmp_path):
    first = campaign_folder(tmp_path / "one", 1)
    work(first, Synthetic())
    n_bytes = journal.read(first.path).attempts[0].capture_bytes
    folder = campaign_folder(tmp_path / "night", 12)
    items = tuple(replace(item, bench="left" if item.number % 2 else "right") for item in folder.campaign.items)
    folder.campaign = replace(folder.campaign, items=items)
    limit, tally = Budget(disk_bytes=5 * n_bytes // 2), Tally(("left", "right"))

    def job(bench):
        return lambda show, wish: run(folder, Synthetic(), bench, budget=limit, tally=tally, show=show, wish=wish)

    endings = run_all({bench: job(bench) for bench in ("left", "right")}, Show(), Wish())
    assert [ending.kind for ending in endings.values()] == ["budget", "budget"]
    # With two stored there is room for more, and each bench may have seen that.
    assert 3 <= len(journal.read(folder.path).attempts) <= 4
