"""A campaign to read, in its folder or packed: its list, its journal, and captures as they were acknowledged.

Whoever reads a capture of a campaign reads it through here: what is not the file that the journal speaks of, or lies
elsewhere, is refused.
"""

from __future__ import annotations

import os
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from labctl.campaign import folder, journal
from labctl.campaign.journal import Journal
from labctl.campaign.model import Attempt, Campaign
from labctl.campaign.state import State, state_of
from labctl.errors import FileFault
from labctl.model import Capture
from labctl.store import open_capture
from labctl.userfile import read_regular

if TYPE_CHECKING:
    from labctl.campaign.pack import Pack

# So many files are known to be what they were when they were last read.
_N_KNOWN = 1 << 16
_PLACE = re.compile(rf"{folder.CAPTURES}/(failed/)?[^/\0]+\.h5")
TAKE_AGAIN = "`labctl campaign resume DIR --retry-failed` takes its item again"


class Source(ABC):
    """A campaign that is only read. Names are paths in its folder; `where` names the folder or the pack."""

    def __init__(self, path: Path, campaign: Campaign, noted: Journal) -> None:
        self.path = path
        self.where = str(path)
        self.campaign = campaign
        self.journal = noted

    @abstractmethod
    def state(self) -> State:
        """Work out how far the campaign is."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Read a file that is no capture. Raises FileFault."""

    @abstractmethod
    def names(self) -> list[str]:
        """Name everything that lies there."""

    @abstractmethod
    def place(self, name: str) -> AbstractContextManager[Path]:
        """Have a capture as a file for the length of a block, whatever it holds. Raises FileFault."""

    def problems(self, name: str) -> list[str]:
        """Find what is wrong with a capture beside what its file shows."""
        return []

    def strays(self) -> list[str]:
        """Name what lies there beside files and captures."""
        return []

    def changed(self) -> list[str]:
        """Name captures that are gone or of another size than was stored, which a look at the folder tells."""
        return []

    @contextmanager
    def capture(self, attempt: Attempt) -> Iterator[Capture]:
        """Open the capture that an attempt acknowledges. Raises FileFault, which names it, where it is not that."""
        with self.place(attempt.capture) as path:
            check_sound(path, attempt)
            try:
                with open_capture(path) as capture:
                    yield capture
            except FileFault as fault:
                raise FileFault(f"{str(fault).replace(str(path), attempt.capture)} ({TAKE_AGAIN})") from fault


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open a campaign's folder, or the file that `pack` made of one. Raises FileFault where it is neither."""
    if not path.is_file():
        yield _Folder(path)
        return
    from labctl.campaign.pack import Pack

    with Pack(path) as pack:
        yield _Packed(pack)


def place_of(root: Path, name: str) -> Path:
    """Give the file of a capture in a campaign's folder. Raises FileFault for a name that leads anywhere else."""
    path = root / name
    if not _PLACE.fullmatch(name) or not path.resolve().is_relative_to(root.resolve()):
        raise FileFault(f"{name!a} is no place of a capture in the campaign's folder, though the journal names it: it "
                        "is not opened")
    return path


def check_sound(path: Path, attempt: Attempt, *, again: bool = False) -> None:
    """Raise FileFault where a file is not the one that an attempt acknowledges, by its size and its CRC-32.

    A file that did not change since it was last read is read again only where `again` is asked for.
    """
    try:
        about = path.stat()
        signature = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        found = journal.size_and_crc32(path) if again else _size_and_crc32(path, signature)
    except OSError as error:
        raise unreadable(attempt, error) from error
    check_same(found, attempt)


def unreadable(attempt: Attempt, error: OSError) -> FileFault:
    """Say that the capture of an attempt cannot be read."""
    if isinstance(error, FileNotFoundError):
        return FileFault(f"{attempt.capture} is missing, which the journal says was stored: {TAKE_AGAIN}")
    return FileFault(f"{attempt.capture} cannot be read ({error.strerror or error}): {TAKE_AGAIN}")


def check_same(found: tuple[int, str], attempt: Attempt) -> None:
    """Raise FileFault where size and CRC-32 of a file are others than those that an attempt acknowledges."""
    if found != (attempt.capture_bytes, attempt.capture_crc32):
        raise FileFault(f"{attempt.capture} is not the file that was stored, its size or CRC-32 differs: {TAKE_AGAIN}")


def _n_bytes(root: Path, name: str) -> int | None:
    """Give the size of a capture, None where there is none."""
    try:
        return place_of(root, name).stat().st_size
    except (OSError, FileFault):
        return None


@lru_cache(maxsize=_N_KNOWN)
def _size_and_crc32(path: Path, _signature: tuple[int, ...]) -> tuple[int, str]:
    return journal.size_and_crc32(path)


class _Folder(Source):
    def changed(self) -> list[str]:
        acknowledged = journal.acknowledged(self.journal)
        return [name for name, one in acknowledged.items() if _n_bytes(self.path, name) != one.capture_bytes]

    def __init__(self, path: Path) -> None:
        super().__init__(path, folder.open_campaign(path).campaign, journal.read(path))

    def state(self) -> State:
        held_by = folder.holder(self.path)
        running = folder.read_now(self.path) if held_by is not None else ()
        return state_of(self.campaign, self.journal, running, held_by)

    def read(self, name: str) -> bytes:
        return read_regular(self.path / name, folder.N_BYTES_MAX)

    def names(self) -> list[str]:
        found = (Path(root) / name for root, _, names in os.walk(self.path) for name in names)
        return sorted(one.relative_to(self.path).as_posix() for one in found)

    @contextmanager
    def place(self, name: str) -> Iterator[Path]:
        yield place_of(self.path, name)


class _Packed(Source):
    def __init__(self, pack: Pack) -> None:
        campaign = folder.from_text(pack.file(folder.CAMPAIGN), f"{pack.path}, {folder.CAMPAIGN}")
        noted = journal.parse(pack.file(journal.NAME), f"{pack.path}, {journal.NAME}")
        super().__init__(pack.path, campaign, noted)
        self._pack = pack

    def state(self) -> State:
        return state_of(self.campaign, self.journal)

    def read(self, name: str) -> bytes:
        return self._pack.file(name)

    def names(self) -> list[str]:
        return [*self._pack.file_names(), *self._pack.capture_names()]

    @contextmanager
    def place(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="labctl-") as temporary:
            path = Path(temporary) / "capture.h5"
            self._pack.rebuild(name, path)
            yield path

    def problems(self, name: str) -> list[str]:
        return self._pack.problems(name)

    def strays(self) -> list[str]:
        return self._pack.strays()
