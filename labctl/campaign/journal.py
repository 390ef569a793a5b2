"""The journal of a campaign: one line an attempt or event, appended, each with its CRC-32. A line is the receipt.

A line is an object of JSON with sorted keys and, last, "crc32": eight hex digits, the CRC-32 of the line as it would
be without that key. What a writer that died left of its line is closed by the next writer with `TORN`, so that the
end of a crash is told from damage.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from labctl.campaign import document
from labctl.campaign.model import Attempt, Event
from labctl.errors import DiskFull, FileFault
from labctl.store.atomic import explained
from labctl.userfile import open_regular

NAME = "journal.jsonl"
TORN = b" #torn"
# More than a million attempts come to.
N_BYTES_MAX = 1 << 31

_CRC = re.compile(rb', "crc32": "([0-9a-f]{8})"\}', re.DOTALL)
_N_CRC = len(', "crc32": "00000000"}')
_N_NAMED = 5


@dataclass(frozen=True)
class Journal:
    """What was read: attempts and events in the order they were written, and what was not readable.

    `n_torn` lines are what a crash leaves of one, and nothing that was done is lost with them. `broken` has the
    numbers, from 1, of lines that were damaged afterwards.
    """

    attempts: tuple[Attempt, ...]
    events: tuple[Event, ...]
    n_torn: int = 0
    broken: tuple[int, ...] = ()

    @property
    def n_dropped(self) -> int:
        """Count the lines that were not readable."""
        return self.n_torn + len(self.broken)


def append(folder: Path, entry: Attempt | Event) -> None:
    """Write one line at the journal's end and have it on the disk: what it speaks of must be there before.

    Several processes may append to one journal. Raises DiskFull where there is no room (what was written of the line
    is taken back), EnvironmentFault where the journal cannot be written otherwise.
    """
    line = to_line(entry)
    path = folder / NAME
    with explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _append_line(descriptor, path, line)
        finally:
            os.close(descriptor)


def _append_line(descriptor: int, path: Path, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    data = _closing(descriptor, size) + line
    try:
        n_written = os.write(descriptor, data)
        if n_written < len(data):  # a full disk takes a part, and says so at the next write
            raise DiskFull(f"cannot write {path}: the disk is full; free some space")
        os.fdatasync(descriptor)
    except BaseException:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _closing(descriptor: int, size: int) -> bytes:
    """Give what closes a line that a writer left without its end; nothing where all is well."""
    if not size or os.pread(descriptor, 1, size - 1) == b"\n":
        return b""
    start = max(0, size - (1 << 20))
    tail = os.pread(descriptor, size - start, start).rpartition(b"\n")[2]
    return b"\n" if _body(tail) is not None else TORN + b"\n"


def read(folder: Path) -> Journal:
    """Read the journal. Raises FileFault where there is none, or where a newer labctl wrote it."""
    return parse(read_bytes(folder), str(folder / NAME))


def read_bytes(folder: Path) -> bytes:
    """Read the bytes of a journal. Raises FileFault where there is none."""
    with opened(folder) as stream:
        return stream.read()


def opened(folder: Path) -> BinaryIO:
    """Open a journal to read it. Raises FileFault where there is none."""
    path = folder / NAME
    if not os.path.lexists(path):
        raise FileFault(f"{path} is missing, so that what was done is not known: put it back from a copy of the "
                        "folder, or look at single captures (labctl analyze)")
    return open_regular(path, N_BYTES_MAX)


def parse(data: bytes, where: str, first: int = 1) -> Journal:
    """Read the bytes of a journal, or of its end from line `first` on; `where` names it in errors.

    Raises FileFault for a line whose CRC is right and whose content is none of a journal's.
    """
    attempts: list[Attempt] = []
    events: list[Event] = []
    n_torn, broken = 0, []
    for number, line, ended in _lines(data, first):
        body = _body(line)
        if body is None:
            if ended and not line.endswith(TORN):
                broken.append(number)
            else:
                n_torn += 1
            continue
        entry = _entry(body, f"{where}, line {number}")
        if isinstance(entry, Attempt):
            attempts.append(entry)
        else:
            events.append(entry)
    return Journal(tuple(attempts), tuple(events), n_torn, tuple(broken))


def damage(broken: Sequence[int]) -> str:
    """Say that lines are damaged, and which; "" where none is."""
    if not broken:
        return ""
    numbers = ", ".join(map(str, broken[:_N_NAMED])) + (", …" if len(broken) > _N_NAMED else "")
    lines, are = ("line", "is") if len(broken) == 1 else ("lines", "are")
    return (f"{len(broken)} {lines} of {NAME} ({numbers}) {are} damaged: what was noted there is not known, and items "
            "that it said were done count as not taken")


def to_line(entry: Attempt | Event) -> bytes:
    """Spell an entry as its line, newline included. Raises ValueError for nan and infinity, which JSON has not."""
    kind = "attempt" if isinstance(entry, Attempt) else "event"
    fields: dict[str, Any] = {"entry": kind, **dataclasses.asdict(entry)}
    text = json.dumps(fields, sort_keys=True, ensure_ascii=False, allow_nan=False)
    body = text.encode("utf-8", "backslashreplace")  # half a character becomes its escape in JSON
    return body[:-1] + b', "crc32": "%08x"}\n' % zlib.crc32(body)


def acknowledged(journal: Journal) -> dict[str, Attempt]:
    """Give the last attempt that speaks of each capture file, by the file's path in the folder.

    The capture of an item that was done and is taken again counts no more.
    """
    found: dict[str, Attempt] = {}
    done: dict[int, str] = {}
    for attempt in journal.attempts:
        found.pop(done.pop(attempt.item, ""), None)
        if attempt.capture:
            found[attempt.capture] = attempt
        if attempt.state == "done":
            done[attempt.item] = attempt.capture
    return found


def size_and_crc32(path: Path) -> tuple[int, str]:
    """Give a file's size and the CRC-32 of all its bytes in eight hex digits, as an attempt notes of its capture."""
    size, crc = 0, 0
    with path.open("rb") as stream:
        while part := stream.read(1 << 20):
            size, crc = size + len(part), zlib.crc32(part, crc)
    return size, f"{crc:08x}"


def _lines(data: bytes, first: int) -> Iterator[tuple[int, bytes, bool]]:
    """Give number, bytes and whether it has its newline, of each line that is not empty."""
    *whole, tail = data.split(b"\n")
    for number, line in enumerate(whole, first):
        if line := line.removesuffix(b"\r"):
            yield number, line, True
    if tail:
        yield first + len(whole), tail, False


def _body(line: bytes) -> bytes | None:
    """Give a line without its CRC, None where that fails. A copy may have made CR LF of its newline."""
    line = line.removesuffix(b"\r")
    mark = _CRC.fullmatch(line[-_N_CRC:])
    body = line[:-_N_CRC] + b"}"
    return body if mark and int(mark[1], 16) == zlib.crc32(body) else None


def _entry(body: bytes, where: str) -> Attempt | Event:
    try:
        return document.entry_of(document.parse(body))
    except ValueError as error:
        raise FileFault(f"{where} is damaged, or of a newer labctl ({error}): read it with the labctl that wrote it, "
                        "or put the file back from a copy") from error
