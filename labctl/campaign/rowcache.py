"""Rows of captures that were analysed before, kept beside the captures: derived, and made again where it is not sound.

`tables/rows-POWER.json` holds of each file its row with the size and CRC-32 of the file that it was made from, and its
inode and the times of its last changes, so that those that did not change need not be read again. It belongs to the
labctl whose code made it: another one begins it anew.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import labctl
from labctl import __version__
from labctl.campaign.journal import size_and_crc32
from labctl.campaign.model import Attempt
from labctl.campaign.source import check_same, place_of, unreadable
from labctl.errors import EnvironmentFault, FileFault
from labctl.model import Capture
from labctl.report.tables.row import DONE, FAILED, Row, Value
from labctl.store import open_capture
from labctl.store.atomic import new_file
from labctl.userfile import read_regular

FOLDER = "tables"
SCHEMA = "labctl.rows/2"
_N_BYTES_MAX = 1 << 28
# Whose code a row depends on.
_CODE = ("analysis/*.py", "store/read.py", "store/schema.py", "campaign/results.py", "model.py")

Analyse = Callable[[Capture, str], Row | None]


class RowCache:
    """The rows of one folder's captures for one headline power, for the length of a `with` block.

    With `keep` they are kept for the next time, unless the folder cannot be written.
    """

    def __init__(self, folder: Path, power: str, *, keep: bool = True) -> None:
        self._folder = folder
        self._power = power
        self._keep = keep
        self._path = folder / FOLDER / f"rows-{power}.json"
        self._entries: dict[str, dict[str, Any]] = {}
        self._is_new = False

    def __enter__(self) -> Self:
        if self._keep:
            self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keep and self._is_new:
            with suppress(OSError, EnvironmentFault, FileFault):  # a folder that cannot be written does without
                self._write()

    def get(self, name: str, analyse: Analyse, attempt: Attempt | None = None) -> Row | None:
        """Give the row of a capture, analysed now or before; where it cannot be read, a failed row that says why.

        With `attempt` the file must be the one that this acknowledges.
        """
        try:
            path = self._folder / name if attempt is None else place_of(self._folder, name)
            entry = self._entry(path, name)
            if attempt is not None:
                check_same((entry["bytes"], entry["crc32"]), attempt)
        except FileFault as fault:
            return Row("", "", state=FAILED, reason=str(fault))
        except OSError as error:
            reason = str(unreadable(attempt, error)) if attempt else f"{name} cannot be read: {error.strerror or error}"
            return Row("", "", state=FAILED, reason=reason)
        if "row" in entry:
            return _row(entry["row"])
        try:
            with open_capture(path) as capture:
                row = analyse(capture, self._power)
        except FileFault as error:
            return Row("", "", state=FAILED, reason=str(error).replace(str(path), name))
        if row is not None and row.state != DONE:
            return replace(row, reason=row.reason.replace(str(path), name))
        if row is not None:
            entry["row"] = asdict(row)
            self._is_new = True
        return row

    def _entry(self, path: Path, name: str) -> dict[str, Any]:
        """Give what is known of a file, with its row if the file is still the same."""
        known = self._entries.get(name, {})
        about = path.stat()
        found = {"bytes": about.st_size, "changed": [about.st_ino, about.st_mtime_ns, about.st_ctime_ns]}
        if known and all(known[key] == value for key, value in found.items()):
            return known
        size, crc32 = size_and_crc32(path)
        same = known and (known["bytes"], known["crc32"]) == (size, crc32)
        self._entries[name] = {**(known if same else {}), **found, "bytes": size, "crc32": crc32}
        self._is_new = True
        return self._entries[name]

    def _read(self) -> None:
        """Take what is there, if it is sound and of this labctl."""
        try:
            outer = json.loads(read_regular(self._path, _N_BYTES_MAX))
            body = outer["body"]
            if outer["schema"] == SCHEMA and outer["software"] == _software() and outer["crc32"] == _crc_text(body):
                self._entries = json.loads(body)
        except (FileFault, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            self._entries = {}

    def _write(self) -> None:
        body = json.dumps(self._entries, sort_keys=True)
        document = {"schema": SCHEMA, "software": _software(), "crc32": _crc_text(body), "body": body}
        self._path.parent.mkdir(exist_ok=True)
        with new_file(self._path, overwrite=True) as sink:
            sink.write(json.dumps(document).encode())


def _row(stored: dict[str, Any]) -> Row:
    values = {key: Value(**value) for key, value in stored["values"].items()}
    return Row(**{**stored, "values": values, "captures": (), "warnings": tuple(stored["warnings"])})


def _crc_text(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"


@cache
def _software() -> str:
    """Name the labctl that analyses: its version, and a CRC of the code that a row depends on."""
    root = Path(labctl.__file__).parent
    crc = 0
    for path in sorted(path for pattern in _CODE for path in root.glob(pattern)):
        crc = zlib.crc32(path.read_bytes(), crc)
    return f"labctl {__version__} {crc:08x}"
