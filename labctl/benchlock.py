"""One user of a bench at a time: a lock on each address that a bench file names, for all users of this machine.

A lock is a `flock` on a small file in a shared folder; the system drops it when the process that holds it ends, however
it ends, so nothing has to be cleaned up and no dead process holds a bench. The file says who holds it.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import functools
import getpass
import hashlib
import ipaddress
import json
import os
import re
import shlex
import socket
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
# The words at the end of a VISA resource that are no part of an address.
_CLASSES = ("INSTR", "SOCKET", "RAW", "INTFC")


@contextlib.contextmanager
def hold(file: BenchFile) -> Iterator[None]:
    """Hold every instrument and DUT that a bench file names, for the length of the block.

    Raises BusyFault, naming the holder, where another process has one of them; EnvironmentFault where no lock can be
    made.
    """
    with hold_addresses(*addresses(file)):
        yield


@contextlib.contextmanager
def hold_addresses(*parts: str) -> Iterator[None]:
    """Hold what lies at these addresses, for the length of the block. Raises as `hold` does."""
    with contextlib.ExitStack() as stack:
        # In the same order for everybody: of two who start at once, one gets all.
        of_parts = {spelling: address for address in parts for spelling in spellings(address)}
        for spelling in sorted(of_parts):
            stack.enter_context(_held(spelling, of_parts[spelling]))
        yield


def addresses(file: BenchFile) -> tuple[str, ...]:
    """List the addresses of a bench's parts: oscilloscope or meter, and port and supply's switch of each board."""
    of_boards = (address for dut in file.duts for address in (dut.port, dut.power))
    return tuple(dict.fromkeys((file.recorder.resource, *(one for one in of_boards if one not in ("manual", "meter")))))


def spellings(address: str) -> tuple[str, ...]:
    """Give the names of a part that are the same for whoever spells its address otherwise, of which one is enough.

    A serial port goes by its device, an instrument by its VISA resource in full, a host by its name and by each of its
    numbers: where one finds a name and another does not, they still meet.
    """
    device = device_of(address)
    if device is not None:
        return (os.path.realpath(device),)
    if url := re.fullmatch(r"([a-z0-9+.-]+)://(?:[^/@]*@)?(\[[^\]]*\]|[^:/?#]*):(\d+)(?:[/?#].*)?", address.lower()):
        return tuple(f"{url[1]}://{host} {int(url[3])}" for host in _names_of(url[2]))
    resource = in_full(address)
    if net := re.fullmatch(r"(tcpip\d+|vicp\d*)::(\[[^\]]*\]|[^:]+)(::.+)?", resource):
        return tuple(f"{net[1]} {host} {net[3] or ''}" for host in _names_of(net[2]))
    return (resource,)


def device_of(address: str) -> str | None:
    """Give the device that a port, or the VISA resource of one, is; None for any other address."""
    found = re.fullmatch(r"(?:asrl)?(/.+?)(?:::instr)?", address, re.IGNORECASE)
    return found[1] if found else None


def in_full(address: str) -> str:
    """Give a VISA resource in small letters, with the numbers and names that may be left out."""
    from pyvisa.rname import InvalidResourceName, to_canonical_name

    words = address.split("::")
    words = [word.upper() if word.upper() in _CLASSES else word for word in words]
    words[0] = words[0].upper()
    if words[0].startswith("USB"):  # PyVISA takes the maker's and the model's number in both systems
        words[1:3] = [str(int(word, 0)) if re.fullmatch("0[xX][0-9A-Fa-f]+", word) else word for word in words[1:3]]
    with contextlib.suppress(InvalidResourceName):
        return to_canonical_name("::".join(words)).lower()
    # Not an address that PyVISA knows; a number of 0 may be left out of most.
    return re.sub(r"^([a-z]+)(?=::)", r"\g<1>0", address.lower())


@functools.cache
def _names_of(host: str) -> tuple[str, ...]:
    """Give a host's name without the brackets of an IPv6 number, and its numbers; one name for this machine's own."""
    host = host.strip("[]")
    found = {host.rstrip(".")}
    with contextlib.suppress(OSError, UnicodeError):
        found |= {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    own = [name for name in found if name == "localhost" or _is_loopback(name)]
    return ("localhost",) if own else tuple(sorted(found))


def _is_loopback(number: str) -> bool:
    try:
        return ipaddress.ip_address(number.partition("%")[0]).is_loopback
    except ValueError:
        return False


@contextlib.contextmanager
def _held(spelling: str, address: str) -> Iterator[None]:
    path = _folder() / f"{hashlib.sha256(spelling.encode()).hexdigest()[:24]}.lock"
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
