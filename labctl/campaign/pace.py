"""The pace of the work on a bench: when it waits, when it ends, and what is written meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from labctl.campaign import journal, scrub
from labctl.campaign.budget import Budget, Clocks, JumpWatch, Tally
from labctl.campaign.failures import text_of
from labctl.campaign.folder import CampaignFolder
from labctl.campaign.model import Attempt, Event
from labctl.campaign.work import Ending, Show
from labctl.errors import DiskFull, EnvironmentFault
from labctl.interrupts import Wish
from labctl.model import Capture
from labctl.store import write_capture
from labctl.units import time_text

# How often a full disk is looked at.
DISK_POLL_S = 5.0
# How soon a wish to end is heard while waiting.
_HEAR_S = 0.2

T = TypeVar("T")


class End(Exception):
    """The work on a bench ends here."""

    def __init__(self, kind: str, text: str = "") -> None:
        super().__init__(text)
        self.ending = Ending(kind, text)


class Pace:
    """Writes into the campaign's folder, waits where the disk is full, and looks whether the work is to end.

    `paused_s` is the time that was spent waiting for room.
    """

    def __init__(
        self,
        folder: CampaignFolder,
        bench: str,
        secrets: Mapping[str, str],
        budget: Budget,
        tally: Tally,
        show: Show,
        wish: Wish,
        clocks: Clocks,
    ) -> None:
        self._folder = folder
        self._bench = bench
        self._secrets = secrets
        self._budget = budget
        self._tally = tally
        self._show = show
        self._wish = wish
        self._clocks = clocks
        self._jumps = JumpWatch(clocks)
        self.paused_s = 0.0

    def store(self, path: Path, capture: Capture) -> tuple[int, str]:
        """Store a capture; return its file's size and CRC-32. An unacknowledged one of a crash is replaced."""
        self.with_room(lambda: write_capture(path, capture, overwrite=True))
        # HDF5 writes its parts in no order, so there is no CRC before the file is whole.
        size, crc32 = journal.size_and_crc32(path)
        self._tally.add(self._bench, size)
        return size, crc32

    def note(self, attempt: Attempt) -> None:
        """Acknowledge an attempt in the journal."""
        kept = dataclasses.replace(attempt, error=self.scrubbed(attempt.error))
        self.with_room(lambda: journal.append(self._folder.path, kept))

    def event(self, kind: str, text: str, **facts: Any) -> None:
        """Note in the journal what happened; where there is no room for it, it goes unsaid there."""
        event = Event(kind, self._clocks.utc_text(), self.scrubbed(text), self._bench, facts)
        try:
            with self._still_there():
                journal.append(self._folder.path, event)
        except DiskFull:
            self._show.note(f"no room in the journal to note: {text or kind}")

    def scrubbed(self, text: str) -> str:
        """Take out of a text what must not be kept in the folder, nor be sent anywhere."""
        return scrub.scrub(scrub.within(text, self._folder.path), self._secrets)

    def with_room(self, work: Callable[[], T]) -> T:
        """Do something; where the disk is full pause, look every few seconds, and do it again.

        Raises End where the work is to end meanwhile.
        """
        paused = False
        while True:
            try:
                with self._still_there():
                    done = work()
                break
            except DiskFull as error:
                if not paused:
                    text = text_of(error)
                    self._show.note(f"{text}. The campaign waits for room, and looks every {DISK_POLL_S:g} s")
                    self.event("pause", text)
                    paused = True
            begun_s = self._clocks.monotonic_s()
            self.wait(DISK_POLL_S)
            self.paused_s += self._clocks.monotonic_s() - begun_s
        if paused:
            self.event("go-on", "there is room on the disk again")
        return done

    @contextmanager
    def _still_there(self) -> Iterator[None]:
        """Say so where what cannot be written is a folder that somebody took away."""
        try:
            yield
        except EnvironmentFault as error:
            if (self._folder.path / journal.NAME).exists():
                raise
            raise EnvironmentFault(
                f"{self._folder.path} was moved or removed, or its {journal.NAME}, while the campaign worked: put it "
                "back, and go on with labctl campaign resume"
            ) from error

    def go_on(self) -> None:
        """Raise End where the work is to end here; note a clock that jumped."""
        if jump_s := self._jumps.jump_s():
            text = f"the clock jumped {'forward' if jump_s > 0 else 'back'} by {time_text(abs(jump_s))}"
            self._show.note(text)
            self.event("clock", text, jump_s=round(jump_s, 3))
        if self._wish.asked:
            raise End("interrupted", "stopped on request")
        if used_up := self._budget.used_up(self._clocks, self._tally.n_bytes):
            raise End("budget", used_up)

    def wait(self, span_s: float) -> None:
        """Wait, unless the work is to end: then raise End."""
        end_s = self._clocks.monotonic_s() + span_s
        self.go_on()
        while (left_s := end_s - self._clocks.monotonic_s()) > 0:
            self._clocks.sleep(min(left_s, _HEAR_S))
            self.go_on()
