"""Check a campaign, in its folder or packed: every capture that the journal speaks of, and what else lies there."""

from __future__ import annotations

import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labctl.campaign import folder, journal
from labctl.campaign.model import Attempt, Campaign, Item
from labctl.errors import FileFault
from labctl.store import open_capture, verify_capture

if TYPE_CHECKING:
    from labctl.campaign.pack import Pack

Progress = Callable[[str, int, int], None]

# What is kept in a campaign's folder for no longer than a runner works, or can be made again.
_PASSING = re.compile(r"\.lock|\.now-.*|tables(/.*)?", re.DOTALL)
# What of an operation makes a capture another item's.
_COORDINATES = ("name", "bytes", "implementation", "profile", "clock_hz", "variant")


@dataclass(frozen=True)
class Report:
    """What was found: `n_captures` checked, of `n_bytes`; faults, which no campaign should have; and other findings."""

    n_captures: int
    n_bytes: int
    faults: tuple[str, ...]
    notes: tuple[str, ...]


def verify(path: Path, progress: Progress = lambda *_: None) -> Report:
    """Check a campaign's folder, or the file that `pack` made of one, and change nothing.

    Of each capture that the journal acknowledges: that it is there, the CRC-32 of its file, the CRC of every dataset,
    and that it belongs to its item. What a crash leaves is no fault: the end of a line, a capture without its line.
    Raises FileFault where `path` is no campaign at all.
    """
    with ExitStack() as stack:
        place: _Place
        if path.is_file():
            from labctl.campaign.pack import Pack

            place = _Packed(stack.enter_context(Pack(path)))
        else:
            place = _Folder(path)
        return _Check(place, progress).run()


class _Place(ABC):
    """Where a campaign lies. Names are paths in its folder."""

    where: str

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Read a file that is no capture. Raises FileFault."""

    @abstractmethod
    def names(self) -> list[str]:
        """Name everything that lies there."""

    @abstractmethod
    def capture(self, name: str) -> AbstractContextManager[Path]:
        """Have a capture as a file for the length of a block. Raises FileFault."""

    def problems(self, name: str) -> list[str]:
        """Find what else is wrong with a capture."""
        return []


class _Folder(_Place):
    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path

    def read(self, name: str) -> bytes:
        try:
            return (self._path / name).read_bytes()
        except OSError as error:
            missing = f"{self.where} is no campaign" if name == folder.CAMPAIGN else f"{self.where} is damaged"
            raise FileFault(f"{missing}: {name} cannot be read ({error.strerror}); give a campaign's folder, or what "
                            "`labctl campaign pack` wrote") from error

    def names(self) -> list[str]:
        return sorted(one.relative_to(self._path).as_posix() for one in self._path.rglob("*") if not one.is_dir())

    @contextmanager
    def capture(self, name: str) -> Iterator[Path]:
        yield self._path / name


class _Packed(_Place):
    def __init__(self, pack: Pack) -> None:
        self.where = str(pack.path)
        self._pack = pack

    def read(self, name: str) -> bytes:
        return self._pack.file(name)

    def names(self) -> list[str]:
        return [*self._pack.file_names(), *self._pack.capture_names()]

    @contextmanager
    def capture(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "capture.h5"
            self._pack.rebuild(name, path)
            yield path

    def problems(self, name: str) -> list[str]:
        return self._pack.problems(name)


class _Check:
    def __init__(self, place: _Place, progress: Progress) -> None:
        self._place = place
        self._progress = progress
        self._faults: list[str] = []
        self._notes: list[str] = []

    def run(self) -> Report:
        where = self._place.where
        campaign = folder.from_text(self._place.read(folder.CAMPAIGN), f"{where}, {folder.CAMPAIGN}")
        noted = journal.parse(self._place.read(journal.NAME), f"{where}, {journal.NAME}")
        self._check_journal(noted)
        self._check_attempts(campaign, noted.attempts)
        acknowledged = journal.acknowledged(noted)
        items = {item.number: item for item in campaign.items}
        names = self._place.names()
        self._check_names(names, acknowledged, campaign)
        present, n_bytes = set(names), 0
        for done, (name, attempt) in enumerate(acknowledged.items()):
            self._progress(name, done, len(acknowledged))
            if name not in present:
                self._faults.append(f"{name} is missing, which the journal says was stored")
            elif attempt.item in items:
                n_bytes += attempt.capture_bytes
                self._check_capture(name, attempt, items[attempt.item])
        return Report(len(acknowledged), n_bytes, tuple(self._faults), tuple(self._notes))

    def _check_journal(self, noted: journal.Journal) -> None:
        for number in noted.broken:
            self._faults.append(f"{journal.NAME}, line {number} is damaged: what it spoke of is not known")
        n_torn = noted.n_dropped - len(noted.broken)
        if n_torn:
            lines = "line was" if n_torn == 1 else "lines were"
            self._notes.append(f"{n_torn} {lines} cut off in {journal.NAME} by a crash; nothing that was done is lost")

    def _check_attempts(self, campaign: Campaign, attempts: Sequence[Attempt]) -> None:
        items = {item.number: item for item in campaign.items}
        for attempt in attempts:
            item = items.get(attempt.item)
            what = f"the journal's attempt {attempt.number} at item {attempt.item}"
            if item is None:
                self._faults.append(f"{what} is at no item of {folder.CAMPAIGN}")
                continue
            if item.key != attempt.key:
                self._faults.append(f"{what} is of {attempt.key}, but that item is {item.key}")
            done = attempt.state == "done"
            place = folder.capture_name(item, None if done else attempt.number)
            if attempt.capture != place and (done or attempt.capture):
                self._faults.append(f"{what} names the capture {attempt.capture or 'none'}, but its place is {place}")

    def _check_names(self, names: Sequence[str], acknowledged: dict[str, Attempt], campaign: Campaign) -> None:
        wanted = {folder.PLAN, *folder.bench_files(campaign)}
        for name in sorted(wanted - set(names)):
            self._faults.append(f"{name} is missing")
        for name in names:
            if name in acknowledged or folder.is_ours(name) or _PASSING.fullmatch(name):
                continue
            if name.endswith(".tmp"):
                self._notes.append(f"{name} is being written, or left over from a crash: the next capture removes it")
            elif name.startswith(f"{folder.CAPTURES}/") and name.endswith(".h5"):
                self._notes.append(f"{name} has no line in the journal: its item is in work, or is taken again")
            else:
                self._notes.append(f"{name} is no part of the campaign")

    def _check_capture(self, name: str, attempt: Attempt, item: Item) -> None:
        try:
            with self._place.capture(name) as path:
                size, crc32 = journal.size_and_crc32(path)
                if (size, crc32) != (attempt.capture_bytes, attempt.capture_crc32):
                    self._faults.append(f"{name} is not the file that was stored: its size or CRC-32 differs")
                problems = [problem.replace(str(path), name) for problem in verify_capture(path)]
                problems += self._place.problems(name)
                self._faults += [f"{name}: {problem}".replace(f"{name}: {name}", name) for problem in problems]
                if not problems:
                    self._check_coordinates(name, path, item)
        except FileFault as fault:
            self._faults.append(str(fault))
        except OSError as error:
            self._faults.append(f"{name} cannot be read ({error.strerror})")

    def _check_coordinates(self, name: str, path: Path, item: Item) -> None:
        with open_capture(path) as capture:
            board, operation = str(capture.board.get("name", "")), capture.operation
        taken = [board, *(getattr(operation, key, None) for key in _COORDINATES)]
        asked = [item.board, *(getattr(item.operation, key) for key in _COORDINATES)]
        others = [f"{one!r} instead of {other!r}" for one, other in zip(taken, asked, strict=True) if one != other]
        if others:
            self._faults.append(f"{name} does not belong to item {item.number}: it holds {', '.join(others)}")
