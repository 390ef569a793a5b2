"""The line that a terminal shows while benches work: what each is at, no longer than the terminal, and harmless."""

import io
import os
from dataclasses import replace
from pathlib import Path

from labctl.campaign.drive import Summary
from labctl.campaign.journal import Journal
from labctl.campaign.model import Attempt, Campaign, Item
from labctl.campaign.state import state_of
from labctl.campaign.work import Ending
from labctl.cli.campaignrun import _sentence
from labctl.cli.campaignshow import Progress
from labctl.model import Operation


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal_of(monkeypatch):
    """Make stderr a terminal for the rest of a test."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    return terminal


def item(number, bench, board="stm32vldiscovery"):
    return Item(number, f"{board} {number}", board, Operation("sha256", 16 * number), bench)


def last_line(terminal):
    return terminal.getvalue().rpartition("\x1b[2K")[2]


def test_one_bench_shows_its_board_and_its_stage(monkeypatch):
    terminal = terminal_of(monkeypatch)
    progress = Progress()
    progress.counted(3, 0, 0)
    progress.began(item(1, "bench"), 2)
    progress.stage("null, 100 runs")
    assert last_line(terminal) == "0/3 done, 0 failed | stm32vldiscovery sha256 16 B, attempt 2: null, 100 runs"


def test_several_benches_show_what_each_is_at_and_no_stage_of_another(monkeypatch):
    terminal = terminal_of(monkeypatch)
    progress = Progress()
    progress.counted(12, 0, 0)
    progress.began(item(1, "left"), 1)
    progress.began(item(2, "right", "stm32f4discovery"), 1)
    progress.stage("null, 100 runs")
    assert last_line(terminal) == "0/12 done, 0 failed | left sha256 16 B; right sha256 32 B"
    row = {"energy_mean_j": 4e-6}
    progress.ended(item(1, "left"), Attempt(1, "k", 1, "done", True, "", "", 1.0, row=row))
    assert last_line(terminal).endswith("left | right sha256 32 B")


def test_without_a_terminal_a_line_says_all_of_an_item(monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    progress = Progress()
    progress.counted(3, 0, 0)
    operation = Operation("sha256", 64, "mbedtls", "Os", clock_hz=24_000_000)
    third = Item(3, "k", "stm32vldiscovery", operation, "bench", "reference", 1)
    row = {"energy_mean_j": 4e-6, "energy_expanded_j": 1e-7}
    progress.ended(third, Attempt(3, "k", 1, "done", True, "", "", 1.0, row=row))
    assert stderr.getvalue() == (
        "1/3 item 3, stm32vldiscovery sha256 64 B mbedtls Os 24 MHz, reference 2: 4.00 µJ ± 0.10 µJ\n"
    )


def test_the_rate_is_an_hour_everywhere(monkeypatch):
    terminal = terminal_of(monkeypatch)
    progress = Progress()
    times = iter([100.0, 102.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    progress.counted(3, 0, 0)
    progress.began(item(1, "bench"), 1)
    progress.ended(item(1, "bench"), Attempt(1, "k", 1, "done", True, "", "", 2.0, row={"energy_mean_j": 4e-6}))
    assert "1/3 done, 0 failed, 1800 items an hour, 4 s left" in last_line(terminal)


def test_the_last_word_on_a_failure_is_what_was_told_and_names_the_item(monkeypatch):
    operation = Operation("sha256", 64, "mbedtls", "Os", clock_hz=24_000_000)
    lost = Item(2, "k", "stm32vldiscovery", operation, "bench")
    kept = Attempt(2, "k", 1, "failed", True, "", "", 1.0, failure="stable", error="<address>: no answer")
    monkeypatch.setattr("sys.stderr", io.StringIO())
    progress = Progress()
    progress.ended(lost, replace(kept, error="socket://127.0.0.1:4000: no answer"))
    campaign = Campaign("night", 1, (lost,), (2,), ({"name": "bench"},), "", "")
    summary = Summary(Path("night"), Ending("complete"), state_of(campaign, Journal((kept,), ())))
    named = "Failed: item 2, stm32vldiscovery sha256 64 B mbedtls Os 24 MHz: "
    page = " ".join(_sentence(summary, "again", progress.errors).split())
    assert f"{named}socket://127.0.0.1:4000: no answer" in page
    assert f"{named}<address>: no answer" in " ".join(_sentence(summary, "again", {}).split())


def test_a_line_that_is_too_long_says_that_it_is_cut(monkeypatch):
    terminal = terminal_of(monkeypatch)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((40, 24)))
    monkeypatch.setattr(terminal, "fileno", lambda: 2)
    progress = Progress()
    progress.began(item(1, "bench"), 1)
    progress.stage("as long as it takes to come to the end")
    assert last_line(terminal) == "stm32vldiscovery sha256 16 B: as long …"


def test_what_an_instrument_says_does_not_steer_the_terminal(monkeypatch):
    terminal = terminal_of(monkeypatch)
    Progress().note("answered \x1b]0;title\x07")
    assert "answered \ufffd]0;title\ufffd" in terminal.getvalue()
