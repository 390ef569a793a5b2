"""Files that a person names: regular ones only, and no larger than what is read of them may be."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from labctl.errors import FileFault


def open_regular(path: Path | str, n_bytes_max: int) -> BinaryIO:
    """Open a file to read its bytes.

    Raises FileFault for a folder, a pipe or a device, which could be waited for or read for ever, for a file larger
    than `n_bytes_max`, and for one that cannot be opened.
    """
    try:
        # Without O_NONBLOCK a pipe would be waited for here, before it can be told from a file.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise FileFault(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    status = os.fstat(descriptor)
    if fault := _fault(status, n_bytes_max):
        os.close(descriptor)
        raise FileFault(f"{path} {fault}")
    return os.fdopen(descriptor, "rb")


def _fault(status: os.stat_result, n_bytes_max: int) -> str:
    if stat.S_ISDIR(status.st_mode):
        return "is a folder: name a file in it"
    if not stat.S_ISREG(status.st_mode):
        return "is a pipe or a device and no file: save what comes out of it as a file, and name that"
    if status.st_size > n_bytes_max:
        return f"has {status.st_size} bytes, more than the {n_bytes_max} that are read of such a file: name another"
    return ""


def read_regular(path: Path | str, n_bytes_max: int) -> bytes:
    """Read a whole file. Raises FileFault as above, and where reading fails."""
    with open_regular(path, n_bytes_max) as stream:
        try:
            return stream.read(n_bytes_max)
        except OSError as error:
            raise FileFault(f"{path} cannot be read: {error.strerror or error}") from error
