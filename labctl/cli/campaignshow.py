"""What `campaign run` and `resume` show while they work: one line that is rewritten, or a line an item."""

from __future__ import annotations

import os
import sys
import time

from labctl.campaign.model import Attempt, Item
from labctl.campaign.statuspage import named, rate_text
from labctl.campaign.work import Show
from labctl.report.text import N_COLUMNS, printable, wrap
from labctl.units import quantity, time_text, with_uncertainty

_ERASE = "\r\x1b[2K"


class Progress(Show):
    """Shows on stderr how far a campaign is; `quiet` shows nothing. What reads our output may leave at any time."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._n_items = self._n_done = self._n_failed = self._n_now = 0
        self._begun_s: float | None = None
        self._each_s: float | None = None  # an item, so far
        self._now: dict[str, tuple[Item, int] | None] = {}  # of each bench that has worked, None between items
        self._stage = self._last = ""
        # Of items that failed for good, as it was told: the folder keeps less.
        self.errors: dict[int, str] = {}

    def counted(self, n_items: int, n_done: int, n_failed: int) -> None:
        """Take note of how far the campaign is already."""
        self._n_items, self._n_done, self._n_failed = n_items, n_done, n_failed

    def began(self, item: Item, attempt: int) -> None:
        """Show which item is in work."""
        self._begun_s = self._begun_s or time.monotonic()
        self._now[item.bench], self._stage = (item, attempt), ""
        self._draw()

    def stage(self, text: str) -> None:
        """Show what is being done."""
        self._stage = text
        self._draw()

    def ended(self, item: Item, attempt: Attempt) -> None:
        """Show what came of an attempt: a line of its own where it failed, or nothing is rewritten."""
        self._now[item.bench], self._stage = None, ""
        if attempt.final:
            self._n_now += 1
            self._n_done += attempt.state == "done"
            self._n_failed += attempt.state == "failed"
            self.errors[item.number] = attempt.error
            self._each_s = (time.monotonic() - (self._begun_s or 0.0)) / self._n_now
        self._last = f"{_title(item, '')} {_shortly(attempt)}"
        if attempt.state == "failed":
            self.note(f"{named(item, item.number)}: {_failure(attempt)}")
        elif not self._live:
            energy = with_uncertainty(attempt.row.get("energy_mean_j"), attempt.row.get("energy_expanded_j"), "J")
            self._print(f"{self._n_done + self._n_failed}/{self._n_items} {named(item, item.number)}: {energy}")
        self._draw()

    def note(self, text: str) -> None:
        """Print a line that stays."""
        text = printable(text)
        self._print("\n".join(wrap(f"labctl: {text}", self._width())) if self._live else f"labctl: {text}")

    def close(self) -> None:
        """Take the line away."""
        if self._live:
            self._write(_ERASE)

    def hush(self) -> None:
        """Go on without showing anything: the terminal is gone."""
        null = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(null, descriptor)
        os.close(null)
        self._quiet, self._live = True, False

    def _draw(self) -> None:
        if self._live:
            line, n_max = printable(self._line()), self._width() - 1
            self._write(_ERASE + (line if len(line) <= n_max else line[: n_max - 1] + "…"))

    def _width(self) -> int:
        try:
            return os.get_terminal_size(sys.stderr.fileno()).columns or N_COLUMNS
        except (OSError, ValueError):
            return N_COLUMNS

    def _line(self) -> str:
        several = len(self._now) > 1  # then there is no room for more than what each is at
        now = "; ".join(_now(item, attempt, several) for item, attempt in filter(None, self._now.values()))
        doing = now if several else ": ".join(filter(None, (now, self._stage)))
        if not self._n_items:
            return doing
        n_left = self._n_items - self._n_done - self._n_failed
        parts = [f"{self._n_done}/{self._n_items} done", f"{self._n_failed} failed"]
        if self._each_s:
            parts.append(rate_text(3600 / self._each_s))
            parts.append(f"{time_text(n_left * self._each_s)} left")
        return " | ".join([", ".join(parts), *filter(None, ("" if several else self._last, doing))])

    def _print(self, text: str) -> None:
        if self._quiet:
            return
        if self._live:
            self._write(_ERASE)
        self._write(f"{text}\n")
        self._draw()

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            self.hush()


def _title(item: Item, board: str | None = None) -> str:
    size = "" if item.operation.bytes is None else f" {item.operation.bytes} B"
    return f"{item.board if board is None else board} {item.operation.name}{size}".strip()


def _now(item: Item, attempt: int, several: bool) -> str:
    """Say what is in work: on which board, or, beside others, on which bench."""
    again = f", attempt {attempt}" if attempt > 1 else ""
    return f"{_title(item, item.bench if several else None)}{again}"


def _shortly(attempt: Attempt) -> str:
    return "failed" if attempt.state == "failed" else quantity(attempt.row.get("energy_mean_j"), "J")


def _failure(attempt: Attempt) -> str:
    after = "" if attempt.final else ", to be tried again"
    return f"{attempt.failure} failure in attempt {attempt.number}{after}: {attempt.error}"
