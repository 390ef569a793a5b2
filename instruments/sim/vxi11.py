"""VXI-11, the TCP/IP Instrument Protocol (Revision 1.0, 1995): remote procedure calls on a port of its own.

Records, calls and replies are those of ONC RPC version 2 (RFC 5531) in XDR (RFC 4506): 32-bit words, most significant
byte first, opaque bytes padded to four. A record's fragments begin with their length, bit 31 set on the last. There is
no port mapper: clients name the port. The abort channel has a port too, which create_link tells. Not here: interrupt
channel, service requests, docmd.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable

from instruments.sim.hislip import received
from instruments.sim.linkfaults import Line
from instruments.sim.locks import Locks
from instruments.sim.scpi import Instrument
from instruments.sim.server import HOST, MESSAGE_MAX_BYTES, InstrumentServer, Server, gathered, is_gone

CORE_PROGRAM, ABORT_PROGRAM, VERSION = 0x0607AF, 0x0607B0, 1
DEVICE = b"inst0"
CALL, REPLY, RPC_VERSION = 0, 1, 2
PROGRAM_UNAVAILABLE, VERSION_MISMATCH, PROCEDURE_UNAVAILABLE, GARBAGE = 1, 2, 3, 4
# Device_ErrorCode (VXI-11 table B.2), flags of an operation (B.5.3) and reasons why a read ends (B.6.4).
NOT_ACCESSIBLE, INVALID_LINK, NOT_SUPPORTED, LOCKED, NO_LOCK, IO_TIMEOUT, ABORTED = 3, 4, 8, 11, 12, 15, 23
WAIT_LOCK, END, TERM_CHAR_SET = 1, 8, 128
REQUEST_COUNT, CHARACTER, END_REASON = 1, 2, 4
POLL_S = 0.002


class _Garbage(Exception):
    """Arguments that cannot be decoded."""


class _Arguments:
    """The words and opaque bytes of a call."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def word(self) -> int:
        if len(self._data) < 4:
            raise _Garbage
        (value,) = struct.unpack_from("!I", self._data)
        self._data = self._data[4:]
        return value

    def opaque(self) -> bytes:
        n_bytes = self.word()
        if len(self._data) < n_bytes:
            raise _Garbage
        data, self._data = self._data[:n_bytes], self._data[n_bytes + -n_bytes % 4 :]
        return data


class _Link:
    """One client's link to the instrument: what it has sent, and answers that wait to be read."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.program = bytearray()
        self.answer: deque[memoryview] = deque()
        self.aborted = threading.Event()


_Result = tuple[bytes, list[memoryview]]


class Vxi11Server(InstrumentServer):
    """Let clients talk to an instrument by VXI-11."""

    def __init__(self, name: str, instrument: Instrument) -> None:
        self._locks = Locks()
        self._links: dict[int, _Link] = {}
        self._numbers = itertools.count(1)
        self._abort = Server(f"{name} abort", self._serve_abort)
        self._procedures: dict[int, Callable[[socket.socket, set[int], _Arguments], _Result]] = {
            10: self._create, 11: self._write, 12: self._read, 13: self._status, 14: self._trigger, 15: self._clear,
            16: self._remote, 17: self._remote, 18: self._lock, 19: self._unlock, 23: self._destroy,
            20: self._unsupported, 22: self._unsupported, 25: self._unsupported, 26: self._unsupported,
        }  # fmt: skip
        super().__init__(name, instrument)

    @property
    def resource(self) -> str:
        """Name the address as VISA writes it."""
        return f"TCPIP::{HOST},{self.port}::{DEVICE.decode()}::INSTR"

    def close(self) -> None:
        """Stop listening and drop every connection."""
        self._abort.close()
        super().close()

    def _talk(self, connection: socket.socket) -> None:
        mine: set[int] = set()
        line = Line(self.fault, self.instrument, connection)
        try:
            while True:
                reply = self._reply(connection, mine, _record(connection), CORE_PROGRAM)
                head, views = reply
                n_data = sum(view.nbytes for view in views)
                padding = bytes(-n_data % 4)
                total = len(head) + n_data + len(padding)
                line.sendall(memoryview(struct.pack("!I", 1 << 31 | total) + head))
                for view in views:
                    line.sendall(view)
                line.sendall(memoryview(padding))
        finally:
            for number in mine:
                self._locks.forget(number)
                self._links.pop(number, None)

    def _serve_abort(self, connection: socket.socket) -> None:
        while True:
            head, _ = self._reply(connection, set(), _record(connection), ABORT_PROGRAM)
            connection.sendall(struct.pack("!I", 1 << 31 | len(head)) + head)

    def _reply(self, connection: socket.socket, mine: set[int], record: bytes, program: int) -> _Result:
        arguments = _Arguments(record)
        xid = 0
        try:
            xid = arguments.word()
            if arguments.word() != CALL or arguments.word() != RPC_VERSION:
                raise ConnectionError("this is no call of RPC version 2")
            asked, version, procedure = arguments.word(), arguments.word(), arguments.word()
            for _ in ("credentials", "verifier"):
                arguments.word()
                arguments.opaque()
            if asked != program:
                return _accepted(xid, PROGRAM_UNAVAILABLE), []
            if version != VERSION:
                return _accepted(xid, VERSION_MISMATCH) + _words(VERSION, VERSION), []
            if procedure == 0:
                return _accepted(xid), []
            if program == ABORT_PROGRAM:
                if procedure != 1:
                    return _accepted(xid, PROCEDURE_UNAVAILABLE), []
                return _accepted(xid) + self._abort_link(arguments), []
            if procedure not in self._procedures:
                return _accepted(xid, PROCEDURE_UNAVAILABLE), []
            result, views = self._procedures[procedure](connection, mine, arguments)
            return _accepted(xid) + result, views
        except _Garbage:
            return _accepted(xid, GARBAGE), []

    # --- procedures of the core channel -------------------------------------------------------------------------

    def _create(self, connection: socket.socket, mine: set[int], arguments: _Arguments) -> _Result:
        arguments.word()  # the client's number means nothing here
        wants_lock, milliseconds, device = arguments.word(), arguments.word(), arguments.opaque()
        if device != DEVICE:
            return _words(NOT_ACCESSIBLE, 0, 0, 0), []
        number = next(self._numbers)
        if wants_lock and not self._locks.request(number, "", milliseconds / 1000):
            return _words(LOCKED, 0, 0, 0), []
        mine.add(number)
        self._links[number] = _Link(Line(self.fault, self.instrument, connection))
        return _words(0, number, self._abort.port, MESSAGE_MAX_BYTES), []

    def _link(self, number: int, flags: int, lock_milliseconds: int) -> tuple[int, _Link | None]:
        """Return the error, or the link once nobody else's lock is in its way."""
        link = self._links.get(number)
        if link is None:
            return INVALID_LINK, None
        if not self._locks.wait_for_turn(number, lock_milliseconds / 1000 if flags & WAIT_LOCK else 0.0):
            return LOCKED, None
        link.aborted.clear()
        return 0, link

    def _write(self, connection: socket.socket, mine: set[int], arguments: _Arguments) -> _Result:
        number, _, lock_milliseconds, flags = (arguments.word() for _ in range(4))
        data = arguments.opaque()
        error, link = self._link(number, flags, lock_milliseconds)
        if link is None:
            return _words(error, 0), []
        if link.answer:
            link.answer.clear()
            self.instrument.errors.push(-410)
        link.program += data
        if flags & END:
            text, link.program = link.program.decode("latin-1"), bytearray()
            for message in text.split("\n"):
                if message.strip():
                    said = link.line.ask(message.rstrip("\r"), lambda: link.aborted.is_set() or is_gone(connection))
                    link.answer += gathered(said)
        return _words(ABORTED if link.aborted.is_set() else 0, len(data)), []

    def _read(self, connection: socket.socket, mine: set[int], arguments: _Arguments) -> _Result:
        number, wanted, milliseconds, lock_milliseconds, flags, char = (arguments.word() for _ in range(6))
        error, link = self._link(number, flags, lock_milliseconds)
        end_s = time.monotonic() + milliseconds / 1000
        while link is not None and not link.answer:
            # Messages are executed when they are written: what is not here now will not come.
            if link.aborted.is_set() or time.monotonic() >= end_s or is_gone(connection):
                return _words(ABORTED if link.aborted.is_set() else IO_TIMEOUT, 0, 0), []
            time.sleep(POLL_S)
        if link is None:
            return _words(error, 0, 0), []
        views, reason, left = [], 0, wanted
        while link.answer and left and not reason:
            view = link.answer.popleft()
            part = view[:left]
            if flags & TERM_CHAR_SET and (at := bytes(part).find(char & 0xFF)) >= 0:
                part, reason = part[: at + 1], CHARACTER
            views.append(part)
            left -= part.nbytes
            if part.nbytes < view.nbytes:
                link.answer.appendleft(view[part.nbytes :])
        reason |= (0 if left else REQUEST_COUNT) | (0 if link.answer else END_REASON)
        return _words(0, reason, wanted - left), views

    def _generic(self, arguments: _Arguments) -> tuple[int, _Link | None]:
        number, flags, lock_milliseconds, _ = (arguments.word() for _ in range(4))
        return self._link(number, flags, lock_milliseconds)

    def _status(self, connection: socket.socket, mine: set[int], arguments: _Arguments) -> _Result:
        error, link = self._generic(arguments)
        available = 16 if link is not None and link.answer else 0
        return _words(error, self.instrument.status_byte() | available if link is not None else 0), []

    def _trigger(self, connection: socket.socket, mine: set[int], arguments: _Arguments) -> _Result:
        error, link = self._generic(arguments)
        if link is not None:
            link.line.ask("*TRG", lambda: is_gone(connection))
        return _words(error), []

    def _clear(self, connection: socket.socket, mine: set[int], arguments: _Arguments) -> _Result:
        error, link = self._generic(arguments)
        if link is not None:
            link.program.clear()
            link.answer.clear()
        return _words(error), []

    def _remote(self, connection: socket.socket, mine: set[int], arguments: _Arguments) -> _Result:
        return _words(self._generic(arguments)[0]), []

    def _lock(self, connection: socket.socket, mine: set[int], arguments: _Arguments) -> _Result:
        number, flags, milliseconds = (arguments.word() for _ in range(3))
        if number not in self._links:
            return _words(INVALID_LINK), []
        granted = self._locks.request(number, "", milliseconds / 1000 if flags & WAIT_LOCK else 0.0)
        return _words(0 if granted else LOCKED), []

    def _unlock(self, connection: socket.socket, mine: set[int], arguments: _Arguments) -> _Result:
        number = arguments.word()
        if number not in self._links:
            return _words(INVALID_LINK), []
        return _words(0 if self._locks.release(number) else NO_LOCK), []

    def _destroy(self, connection: socket.socket, mine: set[int], arguments: _Arguments) -> _Result:
        number = arguments.word()
        self._locks.forget(number)
        mine.discard(number)
        return _words(INVALID_LINK if self._links.pop(number, None) is None else 0), []

    def _unsupported(self, connection: socket.socket, mine: set[int], arguments: _Arguments) -> _Result:
        return _words(NOT_SUPPORTED, 0), []

    def _abort_link(self, arguments: _Arguments) -> bytes:
        link = self._links.get(arguments.word())
        if link is None:
            return _words(INVALID_LINK)
        link.aborted.set()
        return _words(0)


def _words(*values: int) -> bytes:
    return struct.pack(f"!{len(values)}I", *values)


def _accepted(xid: int, status: int = 0) -> bytes:
    return _words(xid, REPLY, 0, 0, 0, status)


def _record(connection: socket.socket) -> bytes:
    """Return the next record. Raises OSError at the end of the connection, and for one that is too long."""
    record = b""
    while True:
        (head,) = struct.unpack("!I", received(connection, 4))
        n_bytes = head & 0x7FFFFFFF
        if len(record) + n_bytes > 2 * MESSAGE_MAX_BYTES:
            raise ConnectionError("the record is too long")
        record += received(connection, n_bytes)
        if head >> 31:
            return record
