"""A clock that is set during a campaign on the emulated bench: durations, `until`, and what is on record."""

import datetime
import time

import pytest

from labctl.campaign import journal
from labctl.campaign.budget import Clocks
from labctl.campaign.drive import Options, begin, resume
from labctl.campaign.plan import parse_plan
from labctl.campaign.work import Show

PLAN = """
[campaign]
name = "night"
seed = 3
runs = 2
order = "listed"
[factors]
boards = ["stm32vldiscovery"]
operations = ["sha256"]
bytes = [16, 32, 48]
"""
HOUR_S = 3600.0


class Setter(Show):
    """Sets the clock on the wall, once, while the second item is measured."""

    def __init__(self, jump_s):
        self.ahead_s, self._jump_s, self._item, self.notes = 0.0, jump_s, 0, []
        self.clocks = Clocks(time.monotonic, lambda: time.time() + self.ahead_s, time.sleep)

    def began(self, item, attempt):
        self._item = item.number

    def stage(self, text):
        if self._item == 2:
            self.ahead_s = self._jump_s

    def note(self, text):
        self.notes.append(text)


def night(tmp_path, show):
    half_an_hour_on = datetime.datetime.now() + datetime.timedelta(seconds=HOUR_S / 2)
    options = Options(until=half_an_hour_on.time(), clocks=show.clocks)
    return begin(parse_plan(PLAN, "plan.toml"), tmp_path / "night", options, show)


def utc(text):
    return datetime.datetime.fromisoformat(text)


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S], ids=["forward", "back"])
def test_a_clock_that_is_set_is_noted_and_changes_no_duration(elf, tmp_path, jump_s):
    show = Setter(jump_s)
    summary = night(tmp_path, show)
    found = journal.read(tmp_path / "night")
    (event,) = [event for event in found.events if event.kind == "clock"]
    assert event.facts["jump_s"] == pytest.approx(jump_s, abs=5.0)
    assert any("jumped" in note for note in show.notes)
    # The entry of the second item spans the jump by its dates, and not by its duration.
    second = found.attempts[1]
    by_dates_s = (utc(second.ended_utc) - utc(second.begun_utc)).total_seconds()
    assert by_dates_s == pytest.approx(jump_s + second.elapsed_s, abs=5.0)
    assert all(0 < attempt.elapsed_s < HOUR_S / 2 for attempt in found.attempts)
    assert 0 < summary.state.elapsed_s < HOUR_S / 2
    # Entries stay in the order in which they were written, and the jump stands right behind the entry that spans it.
    lines = (tmp_path / "night" / journal.NAME).read_bytes().splitlines()
    kinds = [b"attempt" if b'"entry": "attempt"' in line else line for line in lines]
    at = next(number for number, line in enumerate(kinds) if b'"kind": "clock"' in line)
    assert kinds[:at].count(b"attempt") == 2


def test_until_is_heard_after_the_item_in_which_the_clock_passed_it_and_a_resume_goes_on(elf, tmp_path):
    show = Setter(HOUR_S)
    summary = night(tmp_path, show)
    assert (summary.ending.kind, summary.exit_status, summary.state.n_done) == ("budget", 4, 2)
    summary = resume(tmp_path / "night", None, Options(clocks=show.clocks), Show())
    assert (summary.exit_status, summary.state.n_done) == (0, 3)


def test_until_is_not_reached_by_a_clock_that_is_set_back(elf, tmp_path):
    summary = night(tmp_path, Setter(-HOUR_S))
    assert (summary.ending.kind, summary.exit_status, summary.state.n_done) == ("complete", 0, 3)
