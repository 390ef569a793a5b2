"""What somebody is shown who watches a campaign, as plain data. The folder is only read, and the run not disturbed.

Of the journal no more is read than what was added since the last look.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from labctl.campaign import journal
from labctl.campaign.folder import CAMPAIGN, Holder, Now, holder, open_campaign, read_now
from labctl.campaign.journal import Journal
from labctl.campaign.model import Attempt, Campaign, Event
from labctl.campaign.state import ItemStatus, State, state_of
from labctl.errors import FileFault

# As much of the journal's end is kept to see whether it is still the same that was read.
_N_KNOWN = 256
# What stands at the end of a campaign whose process is there no more.
_BROKEN_OFF = "broken off: its process is gone"


@dataclass(frozen=True)
class Cell:
    """What became of the items of one operation on one board; `n_running` of them are in work."""

    n_items: int
    n_done: int
    n_failed: int
    n_running: int

    @property
    def state(self) -> str:
        """Give "failed" where any item failed, else "running", "done", "part" or "pending"."""
        if self.n_failed:
            return "failed"
        if self.n_running:
            return "running"
        if self.n_done == self.n_items:
            return "done"
        return "part" if self.n_done else "pending"

    @property
    def text(self) -> str:
        """Say it in a few words."""
        done = f"{self.n_done}/{self.n_items}"
        words = [f"{self.n_failed} failed"] if self.n_failed else []
        words += ["in work"] if self.n_running else []
        words += [f"{done} done" if self.n_done or not words else done]
        return ", ".join(words)


@dataclass(frozen=True)
class Matrix:
    """Operations, in the order of the plan, by boards; `cells` has those of which there are items."""

    boards: tuple[str, ...]
    operations: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]


@dataclass(frozen=True)
class Sight:
    """A campaign at one moment: `number` goes up whenever something changed."""

    number: int
    campaign: Campaign
    state: State
    attempts: tuple[Attempt, ...]
    events: tuple[Event, ...]

    @property
    def is_at_work(self) -> bool:
        """Tell whether a process works on it."""
        return self.state.held_by is not None

    @cached_property
    def matrix(self) -> Matrix:
        """Count the items by board and operation."""
        running = {one.item for one in self.state.running}
        held: dict[tuple[str, str], list[ItemStatus]] = {}
        for one in self.state.items:
            held.setdefault((one.item.board, one.item.operation.name), []).append(one)
        cells = {place: _cell(items, running) for place, items in held.items()}
        return Matrix(_distinct(board for board, _ in held), _distinct(name for _, name in held), cells)

    @property
    def phase(self) -> str:
        """Say how it stands: "in work", "waiting: …", "finished", "ended early: …", "not begun" or "broken off: …"."""
        last: dict[str, Event] = {one.bench: one for one in self.events if one.kind in _PHASES}
        if self.is_at_work:
            waits = [one.text for one in last.values() if one.kind == "pause"]
            return f"waiting: {'; '.join(waits)}" if waits else "in work"
        if not self.state.n_pending:
            failed = self.state.n_failed
            return f"finished, {failed} failed" if failed else "finished"
        if not last:
            return "not begun"
        ends = [one for one in last.values() if one.kind == "end" and one.facts.get("ended") != "complete"]
        if any(one.kind != "end" for one in last.values()) or not ends:
            return _BROKEN_OFF
        return f"ended early: {'; '.join(_distinct(one.text or str(one.facts.get('ended')) for one in ends))}"

    @property
    def emulated(self) -> str:
        """Name the emulated benches, "" where there are none."""
        return ", ".join(str(one.get("name")) for one in self.campaign.benches if one.get("emulated"))

    def latest(self, n: int) -> list[Attempt]:
        """Give the last attempts that are done, the latest first."""
        return [one for one in reversed(self.attempts) if one.state == "done"][:n]


_PHASES = ("begin", "pause", "go-on", "end")


class Watcher:
    """Looks at a campaign's folder again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal = _Tail(path / journal.NAME)
        self._campaign: Campaign | None = None
        self._campaign_file: tuple[int, ...] = ()
        self._seen: tuple[object, ...] = ()
        self._sight: Sight | None = None

    def look(self) -> Sight:
        """See how the campaign stands now. Raises FileFault where the folder is none, or is gone."""
        campaign_file = _signature(self.path / CAMPAIGN)
        if self._campaign is None or campaign_file != self._campaign_file:
            self._campaign, self._campaign_file = open_campaign(self.path).campaign, campaign_file
        found = self._journal.read()
        held_by = holder(self.path)
        running = read_now(self.path) if held_by is not None else ()
        seen = (campaign_file, self._journal.number, held_by, running)
        if self._sight is None or seen != self._seen:
            number = 1 if self._sight is None else self._sight.number + 1
            self._seen, self._sight = seen, _sight(number, self._campaign, found, running, held_by)
        return self._sight


@dataclass
class _Tail:
    """A journal that grows: `number` goes up whenever there is something new."""

    path: Path
    number: int = 0
    _file: tuple[int, int] = (0, 0)
    _n_read: int = 0
    _end: bytes = b""
    _rest: bytes = b""
    _attempts: list[Attempt] = field(default_factory=list)
    _events: list[Event] = field(default_factory=list)
    _n_lines: int = 0
    _n_torn: int = 0
    _broken: list[int] = field(default_factory=list)
    _found: Journal | None = None

    def read(self) -> Journal:
        """Give all that the journal holds now. Raises FileFault where it cannot be read."""
        try:
            with journal.opened(self.path.parent) as stream:
                about = os.fstat(stream.fileno())
                if not self._goes_on(stream.fileno(), (about.st_dev, about.st_ino), about.st_size):
                    self._begin_anew((about.st_dev, about.st_ino))
                stream.seek(self._n_read)
                data = stream.read()
        except OSError as error:
            raise FileFault(f"cannot read {self.path}: {error.strerror}; give the folder of a campaign") from error
        if self._found is not None and data == self._rest:
            return self._found
        whole, newline, self._rest = data.rpartition(b"\n")
        whole += newline
        if whole:
            self._add(journal.parse(whole, str(self.path), self._n_lines + 1))
            self._n_lines += whole.count(b"\n")
            self._n_read += len(whole)
            self._end = (self._end + whole)[-_N_KNOWN:]
        # A line whose writer is at it, or has died: what is sound of it counts, and it is read again.
        tail = journal.parse(self._rest, str(self.path), self._n_lines + 1)
        self.number += 1
        self._found = Journal(
            (*self._attempts, *tail.attempts), (*self._events, *tail.events), self._n_torn + tail.n_torn,
            (*self._broken, *tail.broken),
        )
        return self._found

    def _goes_on(self, descriptor: int, file: tuple[int, int], size: int) -> bool:
        """Tell whether what was read is still there: what could not be brought to the disk is taken back."""
        if file != self._file or size < self._n_read:
            return False
        return os.pread(descriptor, len(self._end), self._n_read - len(self._end)) == self._end

    def _begin_anew(self, file: tuple[int, int]) -> None:
        self._file, self._n_read, self._end, self._rest, self._found = file, 0, b"", b"", None
        self._attempts, self._events, self._n_lines, self._n_torn, self._broken = [], [], 0, 0, []

    def _add(self, found: Journal) -> None:
        self._attempts += found.attempts
        self._events += found.events
        self._n_torn += found.n_torn
        self._broken += found.broken


def _sight(
    number: int, campaign: Campaign, found: Journal, running: tuple[Now, ...], held_by: Holder | None
) -> Sight:
    return Sight(number, campaign, state_of(campaign, found, running, held_by), found.attempts, found.events)


def _signature(path: Path) -> tuple[int, ...]:
    with suppress(OSError):
        about = path.stat()
        return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
    return ()


def _cell(items: list[ItemStatus], running: set[int]) -> Cell:
    return Cell(
        len(items),
        sum(one.state == "done" for one in items),
        sum(one.state == "failed" for one in items),
        sum(one.item.number in running for one in items),
    )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
