"""TCP servers of the emulated bench, on ephemeral ports of the loopback interface: SCPI, serial port, control."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from instruments.sim.scpi import Instrument, Reply

HOST = "127.0.0.1"
MESSAGE_MAX_BYTES = 1 << 16
# Pause before another connection is accepted where the system had no room for the last one.
ACCEPT_PAUSE_S = 0.05


class Server:
    """Accept connections and serve each in a thread of its own by `serve(connection)`."""

    def __init__(self, name: str, serve: Callable[[socket.socket], None], *, one_client: bool = False) -> None:
        self._serve = serve
        self._one_client = one_client
        self._listener = socket.create_server((HOST, 0))
        self._connections: set[socket.socket] = set()
        self._changing = threading.Lock()
        self._closed = False
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name=name, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:  # closed, or a client that was gone at once, or no file descriptor left
                time.sleep(ACCEPT_PAUSE_S)
                continue
            if self._one_client:
                self._run(connection)
            else:
                threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        with self._changing:
            self._connections.add(connection)
        try:
            with connection, contextlib.suppress(OSError):
                self._serve(connection)
        finally:
            with self._changing:
                self._connections.discard(connection)

    def close(self) -> None:
        """Stop listening and drop every connection."""
        self._closed = True
        with self._changing:
            ends = (self._listener, *self._connections)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def lines(connection: socket.socket) -> Any:
    """Yield the lines that a client sends, without their ends; None, once, for a line that is too long."""
    buffer = bytearray()
    overrun = False
    while chunk := connection.recv(65536):
        buffer += chunk
        *whole, buffer = buffer.split(b"\n")
        for text in whole:
            if not overrun:
                yield text.decode("latin-1").rstrip("\r") if len(text) <= MESSAGE_MAX_BYTES else None
            overrun = False
        if len(buffer) > MESSAGE_MAX_BYTES:
            buffer.clear()
            if not overrun:
                yield None
            overrun = True


def is_gone(connection: socket.socket) -> bool:
    """Tell whether the client has closed, without taking anything of what it sent."""
    try:
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
    except (OSError, ValueError):
        return True


class OutputFault:
    """Break what an instrument sends: `silent`, `stall_after_bytes` or `close_after_bytes` since it was set."""

    def __init__(self) -> None:
        self._limit_bytes: int | None = None
        self._closes = False

    def set(self, fault: Mapping[str, Any]) -> None:
        """Replace the fault; an empty one repairs."""
        self._closes = "close_after_bytes" in fault
        limit = 0 if fault.get("silent") else fault.get("close_after_bytes", fault.get("stall_after_bytes"))
        self._limit_bytes = None if limit is None else int(limit)

    def send(self, connection: socket.socket, data: memoryview) -> None:
        """Send as much as the fault lets through."""
        if self._limit_bytes is not None:
            data = data[: self._limit_bytes]
            self._limit_bytes -= len(data)
        connection.sendall(data)
        if self._limit_bytes == 0 and self._closes:
            connection.shutdown(socket.SHUT_RDWR)


class ScpiServer(Server):
    """Let clients talk to an instrument: messages end in LF, and so do answers."""

    def __init__(self, name: str, instrument: Instrument) -> None:
        self.fault = OutputFault()
        self._instrument = instrument
        super().__init__(name, self._talk)

    def _talk(self, connection: socket.socket) -> None:
        for message in lines(connection):
            if message is None:
                self._instrument.errors.push(-363)
                continue
            self._send(connection, self._instrument.execute(message, lambda: is_gone(connection)))

    def _send(self, connection: socket.socket, answer: Sequence[Reply]) -> None:
        small = bytearray()
        for part in answer:
            if isinstance(part, memoryview):
                self._flush(connection, small)
                self.fault.send(connection, part)
            else:
                small += part.encode("latin-1") if isinstance(part, str) else part
        self._flush(connection, small)

    def _flush(self, connection: socket.socket, small: bytearray) -> None:
        if small:
            self.fault.send(connection, memoryview(bytes(small)))
            small.clear()


class SerialServer(Server):
    """The DUT's serial port: bytes both ways, one client at a time; what nobody listens to is lost."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._client: socket.socket | None = None
        super().__init__("serial", self._listen, one_client=True)

    def _listen(self, connection: socket.socket) -> None:
        self._client = connection
        try:
            while chunk := connection.recv(4096):
                self._write(chunk)
        finally:
            self._client = None

    def send(self, data: bytes) -> None:
        """Pass on what the DUT sends. It never waits: what a client does not take in time is lost, as on a wire."""
        client = self._client
        if client is not None:
            with contextlib.suppress(OSError):
                client.send(data, socket.MSG_DONTWAIT)
