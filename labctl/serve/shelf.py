"""The campaigns that are served: folders, folders of folders, and packs, which are unpacked for as long as it lasts."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from labctl.campaign.folder import CAMPAIGN
from labctl.campaign.source import check_sound, place_of
from labctl.campaign.watch import Sight, Watcher
from labctl.errors import FileFault
from labctl.serve.tables import Tables
from labctl.store.schema import file_part


class Book:
    """One campaign: `key` names it in addresses, `path` is its folder."""

    def __init__(self, key: str, path: Path) -> None:
        self.key = key
        self.path = path
        self.tables = Tables(path)
        self._watcher = Watcher(path)
        self._lock = threading.Lock()

    def look(self) -> Sight:
        """See how it stands. Raises FileFault where its folder is gone."""
        with self._lock:
            return self._watcher.look()

    def capture(self, sight: Sight, number: int) -> Path | None:
        """Give the file of the last capture that an item has, None where it has none.

        Raises FileFault where that is not the file which the journal acknowledges.
        """
        taken = [one for one in sight.attempts if one.item == number and one.capture]
        done = [one for one in taken if one.state == "done"]
        for attempt in (done or taken)[-1:]:
            # A folder that somebody sent may say anything in its journal.
            path = place_of(self.path, attempt.capture)
            check_sound(path, attempt)
            return path
        return None


class Shelf:
    """All campaigns at some places, for the length of a `with` block. Those that come later are found too.

    A place is the folder of a campaign, a folder of such folders, or a file that `labctl campaign pack` wrote.
    """

    def __init__(self, places: Sequence[Path]) -> None:
        self._places = places
        self._books: dict[Path, Book] = {}
        self._unpacked = tempfile.TemporaryDirectory(prefix="labctl-serve-")
        self._lock = threading.Lock()

    def __enter__(self) -> Shelf:
        """Unpack what is packed. Raises FileFault for a place where there is no campaign."""
        try:
            self._places = [self._opened(place) for place in self._places]
            for place in self._places:
                if not _folders(place):
                    raise FileFault(f"{place} holds no campaign: name the folder of one, or a folder of such folders")
        except BaseException:
            self._unpacked.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._unpacked.cleanup()

    def books(self) -> list[Book]:
        """List the campaigns that are there now."""
        with self._lock:
            for folder in (folder for place in self._places for folder in _folders(place)):
                if folder not in self._books:
                    self._books[folder] = Book(self._key(folder), folder)
            return [book for book in self._books.values() if os.path.isfile(book.path / CAMPAIGN)]

    def book(self, key: str) -> Book | None:
        """Find a campaign by its key."""
        return next((book for book in self.books() if book.key == key), None)

    def _key(self, folder: Path) -> str:
        taken = {book.key for book in self._books.values()}
        name = file_part(folder.name)
        return next(key for n in range(1, len(taken) + 2) if (key := name if n == 1 else f"{name}-{n}") not in taken)

    def _opened(self, place: Path) -> Path:
        if not place.is_file():
            return place.resolve()
        from labctl.campaign.pack import unpack

        return unpack(place, Path(self._unpacked.name) / place.stem)


def _folders(place: Path) -> list[Path]:
    if os.path.isfile(place / CAMPAIGN):  # and not Path.is_file, which raises for a folder that may not be read
        return [place]
    return sorted(
        path.parent for path in place.glob(f"*/{CAMPAIGN}")
        if os.path.isfile(path) and not path.parent.name.startswith(".")
    )
