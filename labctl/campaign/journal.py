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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labctl.campaign.model import Attempt, Event
from labctl.errors import DiskFull, FileFault
from labctl.store.atomic import explained

NAME = "journal.jsonl"
TORN = b" #torn"

_CRC = re.compile(rb', "crc32": "([0-9a-f]{8})"\}', re.DOTALL)
_N_CRC = len(', "crc32": "00000000"}')
_KINDS: dict[str, type[Attempt] | type[Event]] = {"attempt": Attempt, "event": Event}


@dataclass(frozen=True)
class Journal:
    """What was read: attempts and events in the order they were written, and what was not readable.

    `n_dropped` lines were not readable. Of these, those that are no remains of a crash have their numbers, from 1, in
    `broken`.
    """

    attempts: tuple[Attempt, ...]
    events: tuple[Event, ...]
    n_dropped: int = 0
    broken: tuple[int, ...] = ()


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
    path = folder / NAME
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileFault(f"cannot read {path}: {error.strerror}; give the folder of a campaign") from error
    return parse(data, str(path))


def parse(data: bytes, where: str) -> Journal:
    """Read the bytes of a journal; `where` names it in errors. Raises FileFault where a newer labctl wrote it."""
    attempts: list[Attempt] = []
    events: list[Event] = []
    n_dropped, broken = 0, []
    for number, line, ended in _lines(data):
        body = _body(line)
        if body is None:
            n_dropped += 1
            if ended and not line.endswith(TORN):
                broken.append(number)
            continue
        entry = _entry(json.loads(body), f"{where}, line {number}")
        if isinstance(entry, Attempt):
            attempts.append(entry)
        else:
            events.append(entry)
    return Journal(tuple(attempts), tuple(events), n_dropped, tuple(broken))


def to_line(entry: Attempt | Event) -> bytes:
    """Spell an entry as its line, newline included. Raises ValueError for nan and infinity, which JSON has not."""
    kind = "attempt" if isinstance(entry, Attempt) else "event"
    document: dict[str, Any] = {"entry": kind, **dataclasses.asdict(entry)}
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False)
    body = text.encode("utf-8", "backslashreplace")  # half a character becomes its escape in JSON
    return body[:-1] + b', "crc32": "%08x"}\n' % zlib.crc32(body)


def acknowledged(journal: Journal) -> dict[str, Attempt]:
    """Give the last attempt that speaks of each capture file, by the file's path in the folder."""
    return {attempt.capture: attempt for attempt in journal.attempts if attempt.capture}


def size_and_crc32(path: Path) -> tuple[int, str]:
    """Give a file's size and the CRC-32 of all its bytes in eight hex digits, as an attempt notes of its capture."""
    size, crc = 0, 0
    with path.open("rb") as stream:
        while part := stream.read(1 << 20):
            size, crc = size + len(part), zlib.crc32(part, crc)
    return size, f"{crc:08x}"


def _lines(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Give number, bytes and whether it has its newline, of each line that is not empty."""
    *whole, tail = data.split(b"\n")
    for number, line in enumerate(whole, 1):
        if line:
            yield number, line, True
    if tail:
        yield len(whole) + 1, tail, False


def _body(line: bytes) -> bytes | None:
    """Give a line without its CRC, None where that fails."""
    mark = _CRC.fullmatch(line[-_N_CRC:])
    body = line[:-_N_CRC] + b"}"
    return body if mark and int(mark[1], 16) == zlib.crc32(body) else None


def _entry(document: dict[str, Any], where: str) -> Attempt | Event:
    cls = _KINDS.get(document.pop("entry", None))
    if cls is None or document.keys() - {field.name for field in dataclasses.fields(cls)}:
        raise FileFault(f"{where} was written by a newer labctl: read it with that one")
    return cls(**document)
