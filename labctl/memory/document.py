"""Read back what `labctl memory --json` printed about operations, and refuse whatever it never prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labctl import boards
from labctl.errors import FileFault
from labctl.memory.row import SCHEMA
from labctl.userfile import read_regular

_N_FILE_BYTES_MAX = 64 << 20
_TEXTS = ("implementation", "profile", "variant")
_NEEDED = ("flash_bytes", "ram_bytes", "stack_bytes")
_MAY_BE_NULL = ("bytes", "clock_hz", "heap_bytes")
# More than any address space of these boards: 32 bits.
_N_BYTES_MAX = 1 << 32


def read_rows(path: Path) -> tuple[list[Mapping[str, Any]], bool]:
    """Read the rows of a file, and whether they are of the emulated bench.

    Raises FileFault for another file, one without rows, and a row with an unknown board or a figure that is no whole
    number of bytes.
    """
    try:
        document = json.loads(read_regular(path, _N_FILE_BYTES_MAX))
        schema, rows, emulated = document["schema"], document.get("results"), document.get("emulated", False)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FileFault(f"{path} is nothing that labctl memory --json printed") from error
    if schema != SCHEMA:
        raise FileFault(f"{path} is {str(schema)[:80]!r}, not {SCHEMA!r} of labctl memory --json")
    if not isinstance(rows, list) or not isinstance(emulated, bool):
        raise FileFault(f"{path} is nothing that labctl memory --json printed")
    if not rows:
        raise FileFault(
            f"{path} is of one program and holds no operations: take what labctl memory --op NAME --json prints"
        )
    for number, row in enumerate(rows, 1):
        if fault := _fault(row):
            raise FileFault(f"{path}: row {number}: {fault}: print it anew with labctl memory --json")
    return rows, emulated


def _fault(row: Any) -> str:
    """Say what a row of operations cannot be; "" where it is sound."""
    if not isinstance(row, dict):
        return "it is no object"
    if row.get("board") not in boards.names():
        return f"board {str(row.get('board'))[:40]!r} is none of {', '.join(boards.names())}"
    if not isinstance(row.get("operation"), str):
        return "it names no operation"
    for key in _TEXTS:
        if not isinstance(row.get(key, ""), str):
            return f"{key} is no text"
    for key in (*_NEEDED, *_MAY_BE_NULL):
        value = row.get(key)
        if value is None and key in _MAY_BE_NULL:
            continue
        if type(value) is not int or not 0 <= value < _N_BYTES_MAX:
            return f"{key} {str(value)[:40]} is no whole number from 0 to {_N_BYTES_MAX - 1}"
    return ""
