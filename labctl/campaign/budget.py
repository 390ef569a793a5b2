"""How far a campaign may go: until a time of day, for so long, with so much disk; and the clocks that tell.

Spans are told by a clock that nobody sets, the time of day by the one on the wall.
"""

from __future__ import annotations

import datetime
import mmap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labctl.campaign.journal import Journal
from labctl.units import size_text, time_text

# Wall and monotonic time drift apart by this much only where somebody set the clock, or the machine slept.
JUMP_S = 2.0
_N_COUNTER_BYTES = 8


@dataclass(frozen=True)
class Clocks:
    """The clocks of this machine, in seconds, and how to wait."""

    monotonic_s: Callable[[], float] = time.monotonic
    wall_s: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def utc_text(self) -> str:
        """Write the time on the wall as UTC, to the millisecond: two attempts of one second keep their order."""
        moment = datetime.datetime.fromtimestamp(self.wall_s(), datetime.UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JumpWatch:
    """Notices that the clock on the wall was set, or that the machine slept."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._ahead_s = self._now_s()

    def jump_s(self) -> float:
        """Return by how much the wall's time jumped since the last call, 0 where it did not."""
        ahead_s = self._now_s()
        jump_s = ahead_s - self._ahead_s
        if abs(jump_s) <= JUMP_S:  # a clock that is slewed never adds up to a jump
            jump_s = 0.0
        self._ahead_s = ahead_s
        return jump_s

    def _now_s(self) -> float:
        return self._clocks.wall_s() - self._clocks.monotonic_s()


class Tally:
    """Counts the bytes of captures in a campaign, over the processes of all its benches.

    `n_bytes` are there already. Made before the processes are forked, which share it; each bench has its own counter.
    """

    def __init__(self, benches: Sequence[str], n_bytes: int = 0) -> None:
        self._n_before_bytes = n_bytes
        self._places = {name: place for place, name in enumerate(benches)}
        self._added_bytes = memoryview(mmap.mmap(-1, _N_COUNTER_BYTES * max(1, len(benches)))).cast("q")

    def add(self, bench: str, n_bytes: int) -> None:
        """Count a capture of a bench."""
        self._added_bytes[self._places[bench]] += n_bytes

    @property
    def n_bytes(self) -> int:
        """Return how many bytes there are."""
        return self._n_before_bytes + sum(self._added_bytes)


@dataclass(frozen=True)
class Budget:
    """Where to stop: at a time on the wall, at a monotonic time, with so many bytes of captures; None for no limit."""

    until_s: float | None = None
    deadline_s: float | None = None
    disk_bytes: int | None = None

    def used_up(self, clocks: Clocks, n_bytes: int = 0) -> str:
        """Say what is used up, with `n_bytes` of captures there; "" where nothing is."""
        if self.until_s is not None and clocks.wall_s() >= self.until_s:
            return f"it is {datetime.datetime.fromtimestamp(self.until_s):%H:%M}, until when it was to run"
        if self.deadline_s is not None and clocks.monotonic_s() >= self.deadline_s:
            return "the time it was given is over"
        if self.disk_bytes is not None and n_bytes >= self.disk_bytes:
            return f"its captures take the {size_text(self.disk_bytes)} that it was given"
        return ""


def make(
    clocks: Clocks, until: datetime.time | None = None, max_time_s: float | None = None, disk_bytes: int | None = None
) -> Budget:
    """Make the budget of a run that begins now."""
    until_s = None if until is None else next_time(until, datetime.datetime.fromtimestamp(clocks.wall_s())).timestamp()
    return Budget(until_s, None if max_time_s is None else clocks.monotonic_s() + max_time_s, disk_bytes)


def left_bytes(disk_bytes: int | None, past: Journal) -> int | None:
    """Return what is left of a budget of disk, None for no limit."""
    return None if disk_bytes is None else max(0, disk_bytes - taken_bytes(past))


def taken_bytes(past: Journal) -> int:
    """Return how many bytes of captures a journal speaks of."""
    return sum(attempt.capture_bytes for attempt in past.attempts)


def next_time(of_day: datetime.time, now: datetime.datetime) -> datetime.datetime:
    """Return the next such time of day after `now`, both local."""
    moment = datetime.datetime.combine(now.date(), of_day)
    return moment if moment > now else datetime.datetime.combine(now.date() + datetime.timedelta(days=1), of_day)


def describe(budget: Budget, max_time_s: float | None = None) -> str:
    """Say the limits in a few words, "" where there are none."""
    parts = []
    if budget.until_s is not None:
        parts.append(f"until {datetime.datetime.fromtimestamp(budget.until_s):%a %H:%M}")
    if max_time_s is not None:
        parts.append(f"for {time_text(max_time_s)}")
    if budget.disk_bytes is not None:
        parts.append(f"with {size_text(budget.disk_bytes)} of disk")
    return ", ".join(parts)
