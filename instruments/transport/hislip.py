"""HiSLIP (IVI-6.1, synchronized mode): bytes go from an opened session's own socket straight into the caller's buffer.

PyVISA-py opens the session; its read call loses what it has read when it times out, takes a half-read header for the
next one ever after, and copies every byte (seen with pyvisa-py 0.8.1). Here the place inside a message is kept, so that
a device clear finds the end of what was on its way.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from instruments.errors import InstrumentTimeout, LinkLost
from instruments.transport.link import Deadline

HEADER = struct.Struct("!2sBBIQ")
FATAL_ERROR, ERROR, DATA, DATA_END, CLEAR_COMPLETE, CLEAR_ACKNOWLEDGE, INTERRUPTED = 2, 3, 6, 7, 8, 9, 13
ASYNC_INTERRUPTED, ASYNC_DEVICE_CLEAR, ASYNC_CLEAR_ACKNOWLEDGE = 14, 19, 23
ANY_MESSAGE_ID = 0xFFFFFFFF
FIRST_MESSAGE_ID = 0xFFFFFF00
CLEAR_MAX_S = 2.0
SKIP_BYTES = 65536
REMEDY = "check that the instrument is switched on and that nothing else holds the connection, then reopen"


class HislipSource:
    """Bytes of a HiSLIP session, whose messages end; a `framing.Source`."""

    def __init__(self, session: Any) -> None:
        """Take over what pyvisa-py has opened: its synchronous and its asynchronous connection."""
        self._sync: socket.socket = session._sync
        self._async: socket.socket = session._async
        self._message_id = FIRST_MESSAGE_ID
        self._header = bytearray()
        self._left_bytes = 0
        self._is_last = False
        self._is_ours = True
        self._delivered = False

    def send(self, command: bytes, deadline: Deadline) -> None:
        """Send one message. Raises OSError."""
        self._message_id = (self._message_id + 2) & 0xFFFFFFFF
        header = HEADER.pack(b"HS", DATA_END, int(self._delivered), self._message_id, len(command))
        self._delivered = False
        self._sync.settimeout(max(deadline.remaining_s, 1e-3))
        self._sync.sendall(header + command)

    def receive_into(self, view: memoryview, deadline: Deadline) -> tuple[int, bool]:
        """Put what comes next into `view`; return how much, and whether it ends the message.

        Raises InstrumentTimeout, LinkLost.
        """
        while True:
            if self._left_bytes == 0:
                self._next(deadline)
                if self._left_bytes == 0 and self._is_last and self._is_ours:
                    return self._done(0)
                continue
            if not self._is_ours:
                self._skip(deadline)
                continue
            n = self._receive(view[: self._left_bytes], deadline)
            self._left_bytes -= n
            return self._done(n)

    def receive_now(self, view: memoryview) -> int:
        """Take what is there of the message under way; others have another MessageID, and are skipped in their turn."""
        if not (self._left_bytes and self._is_ours):
            return 0
        try:
            n = self._receive_by(0.0, view[: self._left_bytes], self._sync)
        except BlockingIOError:
            return 0
        self._left_bytes -= n
        return self._done(n)[0]

    def clear(self) -> None:
        """Clear the device (IVI-6.1, device clear transaction). Raises LinkLost where only reopening helps."""
        deadline = Deadline(CLEAR_MAX_S)
        try:
            self._async.settimeout(CLEAR_MAX_S)
            self._async.sendall(HEADER.pack(b"HS", ASYNC_DEVICE_CLEAR, 0, 0, 0))
            while self._next_async(deadline) != ASYNC_CLEAR_ACKNOWLEDGE:
                pass
            self._sync.settimeout(CLEAR_MAX_S)
            self._sync.sendall(HEADER.pack(b"HS", CLEAR_COMPLETE, 0, 0, 0))
            self._is_ours = False
            while self._left_bytes or self._next(deadline, clearing=True) != CLEAR_ACKNOWLEDGE:
                self._skip(deadline)
        except (InstrumentTimeout, OSError) as error:
            raise LinkLost(f"the link cannot be cleared ({error}): reopen it") from error
        self._message_id, self._delivered = FIRST_MESSAGE_ID, False

    def _done(self, n_bytes: int) -> tuple[int, bool]:
        ended = self._is_last and self._left_bytes == 0
        self._delivered = self._delivered or ended
        return n_bytes, ended

    def _next(self, deadline: Deadline, clearing: bool = False) -> int:
        """Read the next header and return its type; what is no answer to the last message is to be skipped."""
        kind, control, parameter, self._left_bytes = self._read_header(self._sync, self._header, deadline)
        self._is_last = kind == DATA_END
        self._is_ours = (
            not clearing and kind in (DATA, DATA_END) and parameter in (ANY_MESSAGE_ID, self._message_id)
        )
        if kind in (FATAL_ERROR, ERROR) and not clearing:
            text = bytearray(min(self._left_bytes, SKIP_BYTES))
            n = self._receive(memoryview(text), deadline) if text else 0
            self._left_bytes -= n
            name = "fatal error" if kind == FATAL_ERROR else "error"
            raise LinkLost(f"the instrument reports a HiSLIP {name} {control} ({bytes(text[:n])!r}): {REMEDY}")
        return kind

    def _next_async(self, deadline: Deadline) -> int:
        kind, _, _, n_bytes = self._read_header(self._async, bytearray(), deadline)
        if n_bytes:
            raise LinkLost(f"{n_bytes} bytes came where none belong: {REMEDY}")
        return kind

    def _read_header(self, peer: socket.socket, got: bytearray, deadline: Deadline) -> tuple[int, int, int, int]:
        """Read one header, of which `got` has come already; a time-out leaves there what has."""
        scratch = memoryview(bytearray(HEADER.size))
        while len(got) < HEADER.size:
            got += scratch[: self._receive(scratch[: HEADER.size - len(got)], deadline, peer)]
        prologue, kind, control, parameter, n_bytes = HEADER.unpack(got)
        if prologue != b"HS":
            raise LinkLost(f"the link is out of step: {bytes(got)!r} is no HiSLIP header; {REMEDY}")
        got.clear()
        return kind, control, parameter, n_bytes

    def _skip(self, deadline: Deadline) -> None:
        if self._left_bytes:
            scratch = memoryview(bytearray(min(self._left_bytes, SKIP_BYTES)))
            self._left_bytes -= self._receive(scratch, deadline)

    def _receive(self, view: memoryview, deadline: Deadline, peer: socket.socket | None = None) -> int:
        peer = peer or self._sync
        remaining_s = deadline.remaining_s
        if remaining_s <= 0:
            raise InstrumentTimeout(f"no complete answer within {deadline.timeout_s:g} s")
        try:
            return self._receive_by(remaining_s, view, peer)
        except TimeoutError as error:
            raise InstrumentTimeout(f"no complete answer within {deadline.timeout_s:g} s") from error

    def _receive_by(self, wait_s: float, view: memoryview, peer: socket.socket) -> int:
        peer.settimeout(wait_s)
        try:
            n = peer.recv_into(view)
        except (TimeoutError, BlockingIOError):
            raise
        except OSError as error:
            raise LinkLost(f"the connection broke ({error}): {REMEDY}") from error
        if n == 0:
            raise LinkLost(f"the instrument closed the connection: {REMEDY}")
        return n
