"""VXI-11 (TCP/IP Instrument Protocol, Revision 1.0): calls over an opened session's own socket, into a given buffer.

PyVISA-py opens the session and finds the port. Its calls take a closed connection for a time-out, report a time-out of
a write as an I/O error, wait a second and more past the time given, and copy every byte several times (seen with
pyvisa-py 0.8.1). Records and calls are those of ONC RPC version 2 (RFC 5531).
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any

from instruments.errors import InstrumentError, InstrumentTimeout, LinkLost
from instruments.transport.framing import CHUNK_BYTES
from instruments.transport.link import Deadline

CORE_PROGRAM, VERSION = 0x0607AF, 1
WRITE, READ, CLEAR, DESTROY = 11, 12, 15, 23
END_FLAG, END_REASON = 8, 4
IO_TIMEOUT = 15
ERRORS = {4: "invalid link", 11: "the device is locked by another link", 15: "input/output time-out",
          17: "input/output error", 23: "aborted"}  # fmt: skip
CLEAR_MAX_S = 2.0
CLOSE_MAX_S = 0.5
# The instrument is given less time than there is, so that its own word of a time-out still comes in time.
TIMEOUT_RATIO = 0.9
REPLY_WORDS = 6
REMEDY = "check that the instrument is switched on and that nothing else holds it, then reopen"


class Vxi11Source:
    """Bytes of a VXI-11 link, whose messages end; a `framing.Source`."""

    def __init__(self, session: Any) -> None:
        """Take over what pyvisa-py has opened: its socket and its link."""
        self._peer: socket.socket = session.interface.sock
        self._link: int = session.link
        self._write_max_bytes: int = session.max_recv_size
        self._xid: int = session.interface.lastxid
        self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._fragment_bytes = 0  # what is left of the record's fragment under way
        self._last_fragment = True
        self._data_bytes = 0  # what is left of the answer's piece under way
        self._ends = False
        self._cut = False

    def send(self, command: bytes, deadline: Deadline) -> None:
        """Send one message. Raises InstrumentTimeout, LinkLost."""
        for start in range(0, len(command), self._write_max_bytes):
            part = command[start : start + self._write_max_bytes]
            flags = END_FLAG if start + len(part) == len(command) else 0
            milliseconds = self._milliseconds(deadline)
            arguments = struct.pack("!5I", self._link, milliseconds, milliseconds, flags, len(part))
            self._call(WRITE, arguments + part + bytes(-len(part) % 4), deadline)
            error, _ = self._words(2, deadline)
            self._finish(deadline)
            self._check(error, deadline)

    def receive_into(self, view: memoryview, deadline: Deadline) -> tuple[int, bool]:
        """Put what comes next into `view`; return how much, and whether it ends the message.

        Raises InstrumentTimeout, LinkLost.
        """
        while self._data_bytes == 0:
            milliseconds = self._milliseconds(deadline)
            arguments = struct.pack("!6I", self._link, CHUNK_BYTES, milliseconds, milliseconds, 0, 0)
            self._call(READ, arguments, deadline)
            error, reason, self._data_bytes = self._words(3, deadline)
            self._ends = bool(reason & END_REASON)
            if self._data_bytes == 0:
                self._finish(deadline)
                self._check(error, deadline)
                if self._ends:
                    return 0, True
        return self._take(view, self._allowed_s(deadline), deadline)

    def receive_now(self, view: memoryview) -> int:
        """Take what is there of the piece under way; nothing comes that was not asked for."""
        if self._data_bytes == 0:
            return 0
        try:
            return self._take(view, 0.0, Deadline(CLOSE_MAX_S))[0]
        except InstrumentTimeout:
            return 0

    def clear(self) -> None:
        """Clear the device. Raises LinkLost where only reopening helps."""
        deadline = Deadline(CLEAR_MAX_S)
        try:
            self._data_bytes = 0
            if self._fragment_bytes or not self._last_fragment:
                self._finish(deadline)
            self._call(CLEAR, struct.pack("!4I", self._link, 0, 0, int(CLEAR_MAX_S * 1000)), deadline)
            (error,) = self._words(1, deadline)
            self._finish(deadline)
            self._check(error, deadline)
        except InstrumentTimeout as error:
            raise LinkLost(f"the link cannot be cleared ({error}): reopen it") from error

    def leave(self) -> None:
        """Give up the link, and the connection, so that pyvisa-py does not wait for a dead instrument."""
        with contextlib.suppress(InstrumentError):
            if not self._cut and not self._data_bytes:
                deadline = Deadline(CLOSE_MAX_S)
                self._call(DESTROY, struct.pack("!I", self._link), deadline)
                self._words(1, deadline)
        with contextlib.suppress(OSError):
            self._peer.shutdown(socket.SHUT_RDWR)

    def _take(self, view: memoryview, wait_s: float, deadline: Deadline) -> tuple[int, bool]:
        while not self._fragment_bytes:
            self._next_fragment(deadline)
        n = self._receive(view[: min(self._data_bytes, self._fragment_bytes)], wait_s, deadline)
        self._data_bytes -= n
        self._fragment_bytes -= n
        if self._data_bytes == 0:
            self._finish(deadline)
        return n, self._ends and self._data_bytes == 0

    def _call(self, procedure: int, arguments: bytes, deadline: Deadline) -> None:
        """Send a call and read up to the result of its reply; replies to earlier calls are skipped."""
        if self._cut:
            raise LinkLost(f"the link is out of step: {REMEDY}")
        self._xid = (self._xid + 1) & 0xFFFFFFFF
        record = struct.pack("!10I", self._xid, 0, 2, CORE_PROGRAM, VERSION, procedure, 0, 0, 0, 0) + arguments
        self._peer.settimeout(self._allowed_s(deadline))
        try:
            self._peer.sendall(struct.pack("!I", 1 << 31 | len(record)) + record)
        except TimeoutError as error:
            self._cut = True
            raise InstrumentTimeout(f"the command was not taken within {deadline.timeout_s:g} s") from error
        except OSError as error:
            raise LinkLost(f"the connection broke ({error}): {REMEDY}") from error
        while True:
            self._next_fragment(deadline)
            xid, kind, denied, _, n_verifier, status = self._words(REPLY_WORDS, deadline)
            if xid == self._xid:
                break
            self._finish(deadline)
        if (kind, denied, n_verifier, status) != (1, 0, 0, 0):
            self._cut = True
            raise LinkLost(f"the instrument refused call {procedure} (RPC status {denied}, {status}): {REMEDY}")

    def _check(self, error: int, deadline: Deadline) -> None:
        if error == IO_TIMEOUT:
            raise InstrumentTimeout(f"no complete answer within {deadline.timeout_s:g} s")
        if error:
            raise LinkLost(f"the instrument reports VXI-11 error {error} ({ERRORS.get(error, 'unknown')}): {REMEDY}")

    def _words(self, n_words: int, deadline: Deadline) -> tuple[int, ...]:
        data = bytearray(4 * n_words)
        done = 0
        while done < len(data):
            while not self._fragment_bytes:
                self._next_fragment(deadline)
            done += self._exactly(memoryview(data)[done : done + self._fragment_bytes], deadline)
        return struct.unpack(f"!{n_words}I", data)

    def _next_fragment(self, deadline: Deadline) -> None:
        head = bytearray(4)
        self._exactly(memoryview(head), deadline, counts=False)
        (word,) = struct.unpack("!I", head)
        self._fragment_bytes, self._last_fragment = word & 0x7FFFFFFF, bool(word >> 31)

    def _finish(self, deadline: Deadline) -> None:
        """Skip the rest of the record: padding, and what some instruments add to it."""
        scratch = memoryview(bytearray(CHUNK_BYTES))
        while self._fragment_bytes or not self._last_fragment:
            if not self._fragment_bytes:
                self._next_fragment(deadline)
            self._exactly(scratch[: min(len(scratch), self._fragment_bytes)], deadline)

    def _exactly(self, view: memoryview, deadline: Deadline, counts: bool = True) -> int:
        done = 0
        while done < len(view):
            try:
                done += self._receive(view[done:], self._allowed_s(deadline), deadline)
            except InstrumentTimeout:
                self._cut = self._cut or done > 0 or counts
                raise
        if counts:
            self._fragment_bytes -= done
        return done

    def _receive(self, view: memoryview, wait_s: float, deadline: Deadline) -> int:
        self._peer.settimeout(wait_s)
        try:
            n = self._peer.recv_into(view)
        except (TimeoutError, BlockingIOError) as error:
            raise InstrumentTimeout(f"no complete answer within {deadline.timeout_s:g} s") from error
        except OSError as error:
            raise LinkLost(f"the connection broke ({error}): {REMEDY}") from error
        if n == 0:
            raise LinkLost(f"the instrument closed the connection: {REMEDY}")
        return n

    def _allowed_s(self, deadline: Deadline) -> float:
        remaining_s = deadline.remaining_s
        if remaining_s <= 0:
            self._cut = self._cut or self._fragment_bytes > 0
            raise InstrumentTimeout(f"no complete answer within {deadline.timeout_s:g} s")
        return remaining_s

    def _milliseconds(self, deadline: Deadline) -> int:
        return max(1, int(TIMEOUT_RATIO * self._allowed_s(deadline) * 1000))
