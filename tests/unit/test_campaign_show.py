"""The line that a terminal shows while benches work: what each is at, no longer than the terminal, and harmless."""

import io
import os

from labctl.campaign.model import Attempt, Item
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
