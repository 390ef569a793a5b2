"""HiSLIP: messages with an end, and a second connection for what must not wait (IVI-6.1, synchronized mode).

A message is a header of 16 bytes, "HS", type, control code, 32-bit parameter and 64-bit length, most significant byte
first, and as many bytes. Answers carry the MessageID of the message that they answer, so that a client tells stale
ones; a new message before the last answer was taken whole interrupts that (-410). Not here: overlap mode, TLS,
descriptors. Written from memory of the specification and of its public clients, not verified against its text.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Sequence

from instruments.sim.linkfaults import Line
from instruments.sim.locks import Locks
from instruments.sim.scpi import Instrument, Reply
from instruments.sim.server import HOST, MESSAGE_MAX_BYTES, InstrumentServer, gathered, is_gone

HEADER = struct.Struct("!2sBBIQ")
PROTOCOL_VERSION = 0x0100  # 1.0
VENDOR_ID = 0x454D  # "EM"
SUB_ADDRESS = b"hislip0"
# The longest message sent, so that a device clear need not wait for a whole record.
SEND_MAX_BYTES = 1 << 20

(INITIALIZE, INITIALIZE_RESPONSE, FATAL_ERROR, ERROR, ASYNC_LOCK, ASYNC_LOCK_RESPONSE, DATA, DATA_END,
 DEVICE_CLEAR_COMPLETE, DEVICE_CLEAR_ACKNOWLEDGE, ASYNC_REMOTE_LOCAL, ASYNC_REMOTE_LOCAL_RESPONSE, TRIGGER, INTERRUPTED,
 ASYNC_INTERRUPTED, ASYNC_MAXIMUM_MESSAGE_SIZE, ASYNC_MAXIMUM_MESSAGE_SIZE_RESPONSE, ASYNC_INITIALIZE,
 ASYNC_INITIALIZE_RESPONSE, ASYNC_DEVICE_CLEAR, ASYNC_SERVICE_REQUEST, ASYNC_STATUS_QUERY, ASYNC_STATUS_RESPONSE,
 ASYNC_DEVICE_CLEAR_ACKNOWLEDGE, ASYNC_LOCK_INFO, ASYNC_LOCK_INFO_RESPONSE) = range(26)  # fmt: skip

# Control codes of FatalError and Error.
POORLY_FORMED, NOT_BOTH_CHANNELS, INVALID_INITIALIZATION = 1, 2, 3
UNRECOGNIZED_TYPE = 1
MESSAGE_AVAILABLE = 16  # of the status byte (IEEE 488.2, 11.2.1.2)


class _Fatal(Exception):
    """A breach of the protocol that ends the session: (control code, text)."""


class _Session:
    """Two connections of one client."""

    def __init__(self, number: int, connection: socket.socket, line: Line) -> None:
        self.number, self.connection, self.line = number, connection, line
        self.asynchronous: socket.socket | None = None
        self.clearing = threading.Event()
        self.answer_pending = False
        self.payload_max_bytes = SEND_MAX_BYTES
        self.program = bytearray()

    def is_gone(self) -> bool:
        """Tell a command that takes its time whether the client waits no longer."""
        return self.clearing.is_set() or self.asynchronous is None or is_gone(self.asynchronous)


class HislipServer(InstrumentServer):
    """Let clients talk to an instrument by HiSLIP."""

    def __init__(self, name: str, instrument: Instrument) -> None:
        self._locks = Locks()
        self._sessions: dict[int, _Session] = {}
        self._numbers = itertools.count(1)
        super().__init__(name, instrument)

    @property
    def resource(self) -> str:
        """Name the address as VISA writes it."""
        return f"TCPIP::{HOST}::{SUB_ADDRESS.decode()},{self.port}::INSTR"

    def _talk(self, connection: socket.socket) -> None:
        try:
            kind, _, parameter, payload = _receive(connection)
            if kind == INITIALIZE and payload == SUB_ADDRESS:
                self._synchronous(connection, parameter >> 16)
            elif kind == ASYNC_INITIALIZE and parameter in self._sessions:
                self._asynchronous(connection, self._sessions[parameter])
            else:
                raise _Fatal(INVALID_INITIALIZATION, "this is no way to begin a session")
        except _Fatal as fatal:
            code, text = fatal.args
            connection.sendall(_message(FATAL_ERROR, code, 0, text.encode()))

    # --- the synchronous channel --------------------------------------------------------------------------------

    def _synchronous(self, connection: socket.socket, client_version: int) -> None:
        session = _Session(next(self._numbers) & 0xFFFF, connection, Line(self.fault, self.instrument, connection))
        self._sessions[session.number] = session
        version = min(client_version, PROTOCOL_VERSION)
        connection.sendall(_message(INITIALIZE_RESPONSE, 0, version << 16 | session.number))
        try:
            while True:
                self._take(session, *_receive(connection))
        finally:
            del self._sessions[session.number]
            self._locks.forget(session.number)
            if session.asynchronous is not None:
                with contextlib.suppress(OSError):
                    session.asynchronous.shutdown(socket.SHUT_RDWR)

    def _take(self, session: _Session, kind: int, control: int, parameter: int, payload: bytes) -> None:
        if session.asynchronous is None:
            raise _Fatal(NOT_BOTH_CHANNELS, "the asynchronous channel is not there")
        if kind == DEVICE_CLEAR_COMPLETE:
            session.program.clear()
            session.answer_pending = False
            session.clearing.clear()
            session.line.sendall(memoryview(_message(DEVICE_CLEAR_ACKNOWLEDGE, 0, 0)))
        elif session.clearing.is_set():
            return  # what was on its way is dropped
        elif kind in (DATA, DATA_END, TRIGGER):
            self._locks.wait_for_turn(session.number)
            self._interrupt(session, bool(control & 1), parameter)
            if kind == TRIGGER:
                self._execute(session, "*TRG", parameter)
                return
            session.program += payload
            if kind == DATA_END:
                text, session.program = session.program.decode("latin-1"), bytearray()
                for message in text.split("\n"):
                    self._execute(session, message.rstrip("\r"), parameter)
        else:
            session.line.sendall(memoryview(_message(ERROR, UNRECOGNIZED_TYPE, 0, b"unrecognized message type")))

    def _interrupt(self, session: _Session, taken: bool, message_id: int) -> None:
        """Tell a client that did not take the last answer that it is lost."""
        if session.answer_pending and not taken:
            assert session.asynchronous is not None
            self.instrument.errors.push(-410)
            session.line.sendall(memoryview(_message(INTERRUPTED, 0, message_id)))
            session.asynchronous.sendall(_message(ASYNC_INTERRUPTED, 0, message_id))
        session.answer_pending = False

    def _execute(self, session: _Session, message: str, message_id: int) -> None:
        if len(message) > MESSAGE_MAX_BYTES:
            self.instrument.errors.push(-363)
        elif message.strip() and (answer := session.line.ask(message, session.is_gone)):
            self._send(session, answer, message_id)

    def _send(self, session: _Session, answer: Sequence[Reply], message_id: int) -> None:
        session.answer_pending = True
        views = gathered(answer)
        for k, view in enumerate(views):
            for start in range(0, len(view), session.payload_max_bytes):
                if session.clearing.is_set():
                    return
                part = view[start : start + session.payload_max_bytes]
                last = k == len(views) - 1 and start + len(part) == len(view)
                session.line.sendall(
                    memoryview(HEADER.pack(b"HS", DATA_END if last else DATA, 0, message_id, len(part)))
                )
                session.line.sendall(part)

    # --- the asynchronous channel -------------------------------------------------------------------------------

    def _asynchronous(self, connection: socket.socket, session: _Session) -> None:
        session.asynchronous = connection
        connection.sendall(_message(ASYNC_INITIALIZE_RESPONSE, 0, VENDOR_ID))
        while True:
            connection.sendall(self._answer(session, *_receive(connection)))

    def _answer(self, session: _Session, kind: int, control: int, parameter: int, payload: bytes) -> bytes:
        if kind == ASYNC_MAXIMUM_MESSAGE_SIZE:
            (theirs,) = struct.unpack("!Q", payload)
            session.payload_max_bytes = max(1, min(SEND_MAX_BYTES, theirs - HEADER.size))
            return _message(ASYNC_MAXIMUM_MESSAGE_SIZE_RESPONSE, 0, 0, struct.pack("!Q", MESSAGE_MAX_BYTES))
        if kind == ASYNC_DEVICE_CLEAR:
            session.clearing.set()
            return _message(ASYNC_DEVICE_CLEAR_ACKNOWLEDGE, 0, 0)
        if kind == ASYNC_STATUS_QUERY:
            session.answer_pending &= not control & 1
            available = MESSAGE_AVAILABLE if session.answer_pending else 0
            return _message(ASYNC_STATUS_RESPONSE, self.instrument.status_byte() | available, 0)
        if kind == ASYNC_LOCK and control == 1:
            granted = self._locks.request(session.number, payload.decode("latin-1"), parameter / 1000)
            return _message(ASYNC_LOCK_RESPONSE, int(granted), 0)
        if kind == ASYNC_LOCK:
            released = {"exclusive": 1, "shared": 2, "": 3}[self._locks.release(session.number)]
            return _message(ASYNC_LOCK_RESPONSE, released, 0)
        if kind == ASYNC_LOCK_INFO:
            exclusive, n_holders = self._locks.holders()
            return _message(ASYNC_LOCK_INFO_RESPONSE, int(exclusive), n_holders)
        if kind == ASYNC_REMOTE_LOCAL:
            return _message(ASYNC_REMOTE_LOCAL_RESPONSE, 0, 0)
        return _message(ERROR, UNRECOGNIZED_TYPE, 0, b"unrecognized message type")


def _message(kind: int, control: int, parameter: int, payload: bytes = b"") -> bytes:
    return HEADER.pack(b"HS", kind, control, parameter, len(payload)) + payload


def _receive(connection: socket.socket) -> tuple[int, int, int, bytes]:
    """Return type, control code, parameter and payload of the next message. Raises OSError at the end, _Fatal."""
    prologue, kind, control, parameter, n_bytes = HEADER.unpack(received(connection, HEADER.size))
    if prologue != b"HS" or n_bytes > 2 * MESSAGE_MAX_BYTES:
        raise _Fatal(POORLY_FORMED, "poorly formed message header")
    return kind, control, parameter, received(connection, n_bytes)


def received(connection: socket.socket, n_bytes: int) -> bytes:
    """Return exactly so many bytes. Raises ConnectionError where the client leaves before."""
    data = bytearray()
    while len(data) < n_bytes:
        chunk = connection.recv(n_bytes - len(data))
        if not chunk:
            raise ConnectionError("the client is gone")
        data += chunk
    return bytes(data)
