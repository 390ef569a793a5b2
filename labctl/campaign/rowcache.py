"""Rows of captures that were analysed before, kept beside the captures: derived, and made again where it is not sound.

`tables/rows-POWER.json` holds of each file its row with the size and CRC-32 of the file that it was made from, and the
time that file was changed, so that those that did not change need not be read again. It belongs to the labctl whose
code made it: another one begins it anew.
"""

from __future__ import annotations

import json
import os
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
from labctl.errors import EnvironmentFault, FileFault
from labctl.model import Capture
from labctl.report.tables.row import DONE, FAILED, Row, Value
from labctl.store import open_capture
from labctl.store.atomic import new_file

FOLDER = "tables"
SCHEMA = "labctl.rows/1"
# Whose code a row depends on.
_CODE = ("analysis/*.py", "store/read.py", "store/schema.py", "campaign/results.py", "model.py")
_BLOCK_BYTES = 1 << 20

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

    def get(self, name: str, analyse: Analyse, crc32: str = "") -> Row | None:
        """Give the row of a capture, analysed now or before; where it cannot be read, a failed row that says why.

        `crc32`, if any, is what the file's must be.
        """
        path = self._folder / name
        try:
            entry = self._entry(path, name)
        except OSError as error:
            return Row("", "", state=FAILED, reason=f"{name} cannot be read: {error.strerror or error}")
        if crc32 and entry["crc32"] != crc32:
            reason = f"{name} is not the file that the journal acknowledges: `labctl campaign verify` tells more"
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
        with path.open("rb") as stream:
            about = os.fstat(stream.fileno())
            found = {"bytes": about.st_size, "changed": about.st_mtime_ns}
            if known and all(known[key] == value for key, value in found.items()):
                return known
            crc = 0
            while block := stream.read(_BLOCK_BYTES):
                crc = zlib.crc32(block, crc)
        same = known and (known["bytes"], known["crc32"]) == (found["bytes"], f"{crc:08x}")
        self._entries[name] = {**(known if same else {}), **found, "crc32": f"{crc:08x}"}
        self._is_new = True
        return self._entries[name]

    def _read(self) -> None:
        """Take what is there, if it is sound and of this labctl."""
        try:
            outer = json.loads(self._path.read_bytes())
            body = outer["body"]
            if outer["schema"] == SCHEMA and outer["software"] == _software() and outer["crc32"] == _crc_text(body):
                self._entries = json.loads(body)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
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
