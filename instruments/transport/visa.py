"""A link through PyVISA and its pure-Python back end (``@py``), with the defaults that lose data taken out.

On a raw socket (``TCPIP::host::port::SOCKET``) there is no end of message. PyVISA-py opens, configures, writes and
closes; bytes are taken from the session's own socket straight into the caller's buffer, because its read call stops at
terminator bytes inside data, reports a closed connection as a time-out, spins while it waits and drops what it
has read when it times out (seen with pyvisa-py 0.8.1). The same holds of HiSLIP and VXI-11,
whose messages end (`hislip`, `vxi11`). On USB its read call is used, with the terminator off.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyvisa
from pyvisa.constants import StatusCode
from pyvisa_py.protocols import hislip as pyvisa_hislip
from pyvisa_py.tcpip import Vxi11CoreClient

from instruments.errors import InstrumentError, InstrumentTimeout, LinkLost, OutOfRange
from instruments.transport.framing import CHUNK_BYTES, LINE_ENDS, Source, read_block, read_line
from instruments.transport.hislip import HislipSource
from instruments.transport.link import QUERY_TIMEOUT_S, Deadline
from instruments.transport.vxi11 import Vxi11Source

CLEAR_QUIET_S = 0.1
CLEAR_MAX_S = 2.0
REMEDY = "check the address, that the instrument is switched on, and that nothing else holds the connection"


class VisaLink:
    """Carry commands and replies over one VISA resource; a lock is held from a command to the end of its reply."""

    def __init__(self, resource: str, open_timeout_s: float = 5.0) -> None:
        """Open the resource. Raises LinkLost where nobody answers, OutOfRange where the name is no VISA resource."""
        self._resource = resource
        self._open_timeout_s = open_timeout_s
        self._lock = threading.RLock()
        self._taint = ""
        self._handle: Any = None
        self._source: _SocketSource | HislipSource | Vxi11Source | _MessageSource | None = None
        self.reopen()

    @property
    def resource(self) -> str:
        """Name the address."""
        return self._resource

    @property
    def tainted(self) -> bool:
        """Tell whether an earlier failure left the link out of step."""
        return bool(self._taint)

    def write(self, command: str) -> None:
        """Send one command line that has no reply. Raises LinkLost."""
        with self._exchange(command) as source:
            self._send(source, command, Deadline(min(QUERY_TIMEOUT_S, self._open_timeout_s)))

    def query(self, command: str, timeout_s: float = QUERY_TIMEOUT_S) -> str:
        """Send one command line and return its one reply line. Raises InstrumentTimeout, LinkLost, BadData."""
        deadline = Deadline(timeout_s)
        with self._exchange(command) as source:
            self._send(source, command, deadline)
            return read_line(source, deadline)

    def query_block(
        self, command: str, timeout_s: float = QUERY_TIMEOUT_S, into: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """Send one command line and return the payload of its definite-length block, uint8 of shape (n_bytes,).

        The bytes go straight into `into` (contiguous uint8, at least as long; the result is then a view of it).
        `timeout_s` covers the whole exchange. Raises InstrumentTimeout, LinkLost, BadData.
        """
        deadline = Deadline(timeout_s)
        with self._exchange(command) as source:
            self._send(source, command, deadline)
            return read_block(source, deadline, into)

    def taint(self, reason: str) -> None:
        """Refuse further use until `clear` or `reopen`."""
        self._taint = reason

    def clear(self) -> None:
        """Throw away what was on its way and bring the link back into step. Raises LinkLost where it is gone."""
        with self._lock:
            if self._source is None:
                raise LinkLost(f"{self._resource} is closed: reopen it")
            self._taint = "a clear that did not end"
            self._source.clear()
            self._taint = ""

    def reopen(self) -> None:
        """Close the link and open it anew. Raises LinkLost where nobody answers."""
        with self._lock:
            self.close()
            self._handle = _open_resource(self._resource, self._open_timeout_s)
            try:
                self._source = _source_of(self._handle, self._resource)
            except InstrumentError:
                self.close()
                raise
            self._taint = ""

    def close(self) -> None:
        """Release the link. May be called twice."""
        with self._lock:
            handle, source, self._handle, self._source = self._handle, self._source, None, None
            if isinstance(source, Vxi11Source):
                source.leave()
            if handle is not None:
                handle.close()

    @contextmanager
    def _exchange(self, command: str) -> Iterator[Source]:
        """Hold the lock; taint the link where the exchange does not come to its proper end, Ctrl-C included."""
        with self._lock:
            if self._source is None:
                raise LinkLost(f"{self._resource} is closed: reopen it")
            if self._taint:
                raise LinkLost(
                    f"{self._resource} is out of step since {self._taint}; {command} was not sent: clear or reopen it"
                )
            try:
                yield self._source
            except InstrumentError as error:
                self._taint = f"{command} failed ({error})"
                raise type(error)(f"{self._resource}: {command}: {error}") from error
            except BaseException as error:
                self._taint = f"{command} was cut short ({type(error).__name__})"
                raise

    def _send(self, source: Source, command: str, deadline: Deadline) -> None:
        _require_silence(source)
        try:
            line = command.encode("ascii") + b"\n"
            if isinstance(source, HislipSource | Vxi11Source):
                source.send(line, deadline)
                return
            if isinstance(source, _SocketSource):
                source.allow(deadline)
            self._handle.write_raw(line)
        except InstrumentError:
            raise
        except (OSError, RuntimeError, pyvisa.errors.VisaIOError) as error:
            raise LinkLost(f"the command could not be sent ({error}): {REMEDY}, then reopen") from error


def _require_silence(source: Source) -> None:
    """Skip late line ends; refuse to go on where an earlier reply is still coming."""
    scratch = bytearray(64)
    while n := source.receive_now(memoryview(scratch)):
        if scratch[:n].strip(LINE_ENDS):
            raise LinkLost(f"the link is out of step: {bytes(scratch[:n])!r} was never asked for; clear or reopen it")


def _open_resource(resource: str, timeout_s: float) -> Any:
    try:
        return pyvisa.ResourceManager("@py").open_resource(
            resource, open_timeout=int(timeout_s * 1000), read_termination=None, write_termination=None
        )
    except (pyvisa.errors.VisaIOError, ValueError) as error:
        if getattr(error, "error_code", None) not in (None, StatusCode.error_invalid_resource_name):
            raise LinkLost(f"{resource} cannot be opened ({error}): {REMEDY}") from error
        raise OutOfRange(
            f"{resource!r} is not a VISA resource that can be opened here ({error}); "
            "a socket is written TCPIP::host::port::SOCKET"
        ) from error
    except Exception as error:  # pyvisa-py raises bare Exception where it cannot connect
        raise LinkLost(f"{resource} cannot be opened ({error}): {REMEDY}") from error


def _source_of(handle: Any, resource: str) -> _SocketSource | HislipSource | Vxi11Source | _MessageSource:
    """Choose how bytes are taken: from the session's own socket, or message by message."""
    peer = getattr(handle.visalib.sessions[handle.session], "interface", None)
    if isinstance(peer, pyvisa_hislip.Instrument):
        return HislipSource(peer)
    if isinstance(peer, Vxi11CoreClient):
        return Vxi11Source(handle.visalib.sessions[handle.session])
    if handle.resource_class != "SOCKET" or not isinstance(peer, socket.socket):
        return _MessageSource(handle)
    # pyvisa-py takes a refused connection for an open one (pyvisa-py PR 637), so the socket itself is asked.
    try:
        code = peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, "connection refused" if code == 111 else "connection failed")
        peer.getpeername()
        # Two commands in a row would otherwise wait for a delayed acknowledgement, 40 ms each.
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise LinkLost(f"nobody answers at {resource} ({error}): {REMEDY}") from error
    return _SocketSource(peer)


class _SocketSource:
    """Bytes of a raw socket; messages have no end here."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer

    def allow(self, deadline: Deadline) -> None:
        """Let the next call on the socket wait until the deadline."""
        remaining_s = deadline.remaining_s
        if remaining_s <= 0:
            raise InstrumentTimeout(f"no complete answer within {deadline.timeout_s:g} s")
        self._peer.settimeout(remaining_s)

    def receive_into(self, view: memoryview, deadline: Deadline) -> tuple[int, bool]:
        self.allow(deadline)
        try:
            n = self._peer.recv_into(view)
        except TimeoutError as error:
            raise InstrumentTimeout(f"no complete answer within {deadline.timeout_s:g} s") from error
        except OSError as error:
            raise LinkLost(f"the connection broke ({error}): {REMEDY}, then reopen") from error
        if n == 0:
            raise LinkLost(f"the instrument closed the connection: {REMEDY}, then reopen")
        return n, False

    def receive_now(self, view: memoryview) -> int:
        self._peer.settimeout(0.0)
        try:
            n = self._peer.recv_into(view)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise LinkLost(f"the connection broke ({error}): {REMEDY}, then reopen") from error
        if n == 0:
            raise LinkLost(f"the instrument closed the connection: {REMEDY}, then reopen")
        return n

    def clear(self) -> None:
        """Read until nothing has come for a moment. Raises LinkLost where it never falls silent."""
        end = Deadline(CLEAR_MAX_S)
        scratch = memoryview(bytearray(CHUNK_BYTES))
        while end.remaining_s > 0:
            try:
                self.receive_into(scratch, Deadline(CLEAR_QUIET_S))
            except InstrumentTimeout:
                return
        raise LinkLost(f"bytes keep coming after {CLEAR_MAX_S:g} s of clearing: reopen the link")


class _MessageSource:
    """Bytes of a link that marks the end of each message: USB.

    Reads are large whatever is asked for, because some instruments lose data when read in small pieces.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._pending = memoryview(b"")
        self._ended = False

    def receive_into(self, view: memoryview, deadline: Deadline) -> tuple[int, bool]:
        while not self._pending:
            self._read(deadline)
        n = self.receive_now(view)
        return n, self._ended and not self._pending

    def receive_now(self, view: memoryview) -> int:
        n = min(len(view), len(self._pending))
        view[:n] = self._pending[:n]
        self._pending = self._pending[n:]
        return n

    def clear(self) -> None:
        """Send a device clear. Raises LinkLost where the session cannot be saved."""
        self._pending = memoryview(b"")
        try:
            self._handle.clear()
        except (OSError, RuntimeError, pyvisa.errors.VisaIOError) as error:
            raise LinkLost(f"the link cannot be cleared ({error}): reopen it") from error

    def _read(self, deadline: Deadline) -> None:
        remaining_s = deadline.remaining_s
        if remaining_s <= 0:
            raise InstrumentTimeout(f"no complete answer within {deadline.timeout_s:g} s")
        self._handle.timeout = max(1, int(remaining_s * 1000))
        try:
            data, status = self._handle.visalib.read(self._handle.session, CHUNK_BYTES)
        except pyvisa.errors.VisaIOError as error:
            if error.error_code == StatusCode.error_timeout:
                raise InstrumentTimeout(f"no complete answer within {deadline.timeout_s:g} s") from error
            raise LinkLost(f"the connection broke ({error}): {REMEDY}, then reopen") from error
        except (OSError, RuntimeError) as error:
            raise LinkLost(f"the connection broke ({error}): {REMEDY}, then reopen") from error
        self._pending, self._ended = memoryview(data), status == StatusCode.success
