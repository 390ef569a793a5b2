"""Put a file in place whole or not at all, whatever happens while it is written."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labctl.errors import DiskFull, EnvironmentFault, FileFault

_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{8}\.tmp", re.DOTALL)


class Sink:
    """A file that HDF5 writes to, and that remembers the first error instead of raising it.

    HDF5 2.0 crashes the process when a callback fails while it closes a file. So it never sees an error, be it of the
    disk or an exception of Python: the sink drops what follows, and `check` raises.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self._position = 0
        self._error: BaseException | None = None

    def check(self) -> None:
        """Raise the first error that a call met: see `new_file` for one of the disk, any other as it is."""
        if self._error is not None:
            with explained(self._path):
                raise self._error

    def write(self, data: memoryview | bytes) -> int:
        """Write all of `data` at the position."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        place = self._position
        self._position += size
        if self._error is None:
            try:
                while len(rest):
                    n_written = os.pwrite(self._descriptor, rest, place)
                    rest, place = rest[n_written:], place + n_written
            except BaseException as error:  # noqa: BLE001  (kept, and raised by `check`)
                self._error = error
        return size

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer` from the position; after an error with zeros."""
        n_read = 0
        if self._error is None:
            try:
                n_read = os.preadv(self._descriptor, [buffer], self._position)
            except BaseException as error:  # noqa: BLE001
                self._error = error
        if self._error is not None:
            n_read = len(buffer)
            buffer[:] = bytes(n_read)
        self._position += n_read
        return n_read

    def read(self, size: int) -> bytes:
        """Read at the position; after an error zeros."""
        buffer = bytearray(size)
        return bytes(buffer[: self.readinto(memoryview(buffer))])

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        base = 0
        if whence == os.SEEK_CUR:
            base = self._position
        elif whence == os.SEEK_END:
            base = self._length()
        self._position = base + offset
        return self._position

    def _length(self) -> int:
        try:
            return os.fstat(self._descriptor).st_size
        except BaseException as error:  # noqa: BLE001
            self._error = self._error or error
            return 0

    def tell(self) -> int:
        """Tell the position."""
        return self._position

    def truncate(self, size: int) -> int:
        """Set the length of the file."""
        if self._error is None:
            try:
                os.ftruncate(self._descriptor, size)
            except BaseException as error:  # noqa: BLE001
                self._error = error
        return size

    def flush(self) -> None:
        """Do nothing: nothing is held back here, and the file is fsynced once, when complete."""


@contextmanager
def new_file(path: Path, overwrite: bool = False) -> Iterator[Sink]:
    """Give a sink for a temporary file beside `path`; at the end of the block it becomes `path`.

    The file is fsynced, linked or renamed into place, and the folder fsynced. When the block raises, or the process
    dies at any write, `path` is as before; what a dead writer left in the folder goes with the next one.
    Raises FileFault where `path` exists and `overwrite` is false, DiskFull where there is no room, EnvironmentFault
    where it cannot be written otherwise.
    """
    with explained(path):
        if not overwrite and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "exists", str(path))
        _remove_leftovers(path.parent)
        temporary, descriptor = _create_locked(path)
    try:
        sink = Sink(descriptor, path)
        try:
            yield sink
        except Exception:
            sink.check()  # what came first, not what followed from it
            raise
        sink.check()
        with explained(path):
            os.fsync(descriptor)
            _put_in_place(temporary, path, overwrite)
            sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _create_locked(path: Path) -> tuple[Path, int]:
    """Create a temporary file beside `path`; the lock tells other writers that this one is alive."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                return temporary, descriptor
        except BaseException:
            temporary.unlink(missing_ok=True)
            os.close(descriptor)
            raise
        os.close(descriptor)  # taken for a leftover in the instant before it was locked


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say of an OSError of the block what could not be written, why, and what to do: as `new_file` raises."""
    try:
        yield
    except FileExistsError as error:
        raise FileFault(f"{path} exists already and is kept; choose another name, or remove it first") from error
    except OSError as error:
        fault = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else EnvironmentFault
        raise fault(f"cannot write {path}: {_reason(error)}") from error


def _put_in_place(temporary: Path, path: Path, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, path)
        return
    try:
        # A link fails where the name is taken; a rename would replace a file that came up meanwhile.
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # FAT and some network file systems have no hard links
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "exists", str(path)) from None
        os.rename(temporary, path)
    else:
        os.unlink(temporary)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlast a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of writers that died: a living one holds a lock on its own."""
    for name in os.listdir(folder):
        if not _TEMPORARY.fullmatch(name):
            continue
        with suppress(OSError):
            descriptor = os.open(folder / name, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(folder / name)
            finally:
                os.close(descriptor)


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the disk is full; free some space"
    if error.errno == errno.EDQUOT:
        return "the disk quota is used up; free some space"
    if error.errno == errno.EFBIG:
        return "the file grew beyond the size allowed here; raise the limit (ulimit -f)"
    if error.errno == errno.ENOENT:
        return "its folder does not exist; create it"
    return f"{error.strerror or error}; check the folder and its permissions"
