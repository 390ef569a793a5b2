"""One user of a bench at a time: a lock on each address that a bench file names, for all users of this machine.

A lock is a `flock` on a small file in a shared folder; the system drops it when the process that holds it ends, however
it ends, so nothing has to be cleaned up and no dead process holds a bench. The file says who holds it.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import getpass
import hashlib
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labctl.benchfile import BenchFile
from labctl.errors import BusyFault, EnvironmentFault

# Names another folder for the locks; all users of a bench must name the same.
FOLDER_VARIABLE = "LABCTL_LOCKS"
# Not the TMPDIR of each user: it must be one place for all.
_FOLDER = Path("/tmp/labctl-locks")
_SHOWN_MAX = 80
# The holder writes its name right after it has the lock; whoever asks in between looks again.
_READS = 20
_READ_PAUSE_S = 0.01


@contextlib.contextmanager
def hold(file: BenchFile) -> Iterator[None]:
    """Hold every instrument and DUT that a bench file names, for the length of the block.

    Raises BusyFault, naming the holder, where another process has one of them; EnvironmentFault where no lock can be
    made.
    """
    with contextlib.ExitStack() as stack:
        # In the same order for everybody: of two who start at once, one gets all.
        for address in sorted({_one_spelling(address) for address in addresses(file)}):
            stack.enter_context(_held(address))
        yield


def addresses(file: BenchFile) -> tuple[str, ...]:
    """List the addresses of a bench's parts: oscilloscope, and port and supply's switch of each board."""
    of_boards = (address for dut in file.duts for address in (dut.port, dut.power))
    return tuple(dict.fromkeys((file.scope.resource, *(address for address in of_boards if address != "manual"))))


def _one_spelling(address: str) -> str:
    """Give an address as all its spellings have it: a port by its device, a VISA resource with its board's number."""
    if address.startswith("/"):
        return os.path.realpath(address)
    visa = re.fullmatch(r"([a-z]+)(\d*)(::.+)", address.lower())
    return f"{visa[1]}{visa[2] or 0}{visa[3]}" if visa else address.lower()


@contextlib.contextmanager
def _held(address: str) -> Iterator[None]:
    path = _folder() / f"{hashlib.sha256(address.encode()).hexdigest()[:24]}.lock"
    try:
        descriptor = _open(path)
    except OSError as error:
        raise EnvironmentFault(
            f"the lock of {address} cannot be opened at {path} ({error.strerror or error}): correct its permissions, "
            f"or name another folder for locks in the environment's {FOLDER_VARIABLE}"
        ) from error
    with open(descriptor, "r+b", buffering=0) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyFault(f"{address} is in use{_by_whom(path)}: wait for its end, or end it") from error
        lock.truncate()
        lock.write(json.dumps(_self()).encode())
        yield
        lock.seek(0)
        lock.truncate()


def _open(path: Path) -> int:
    # Without O_CREAT first: a system may refuse it for a file of another user in a folder that everybody may write to.
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    with contextlib.suppress(PermissionError):  # another user was first
        os.fchmod(descriptor, 0o666)  # whatever the umask: the next user must be able to lock it
    return descriptor


def _folder() -> Path:
    folder = Path(os.environ.get(FOLDER_VARIABLE) or _FOLDER)
    try:
        folder.mkdir(exist_ok=True)
        if folder.stat().st_uid == os.getuid():
            folder.chmod(0o1777)
    except OSError as error:
        raise EnvironmentFault(
            f"there is no folder for the locks of benches at {folder} ({error.strerror or error}): name another in the "
            f"environment's {FOLDER_VARIABLE}"
        ) from error
    return folder


def _self() -> dict[str, Any]:
    command = shlex.join([Path(sys.argv[0]).name or "python", *sys.argv[1:]])
    since = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"pid": os.getpid(), "user": _user(), "command": command[:_SHOWN_MAX], "since_utc": since}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        return str(os.getuid())


def _by_whom(path: Path) -> str:
    """Say who holds a lock, as far as its file tells."""
    for _ in range(_READS):
        with contextlib.suppress(ValueError, KeyError, TypeError, OSError):
            holder = json.loads(path.read_bytes())
            command = "".join(sign if sign.isprintable() else "?" for sign in str(holder["command"]))
            return (
                f" by process {int(holder['pid'])} of user {str(holder['user'])[:_SHOWN_MAX]!r}, "
                f"`{command[:_SHOWN_MAX]}`, since {str(holder['since_utc'])[:_SHOWN_MAX]}"
            )
        time.sleep(_READ_PAUSE_S)
    return " by another process"
