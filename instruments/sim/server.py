"""TCP servers of the emulated bench, on ephemeral ports of the loopback interface: SCPI, serial port, control."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from instruments.sim.linkfaults import Line, LinkFault
from instruments.sim.scpi import Instrument, Reply

HOST = "127.0.0.1"
MESSAGE_MAX_BYTES = 1 << 16
# Smaller pieces of an answer are copied together rather than sent by themselves.
GATHER_MAX_BYTES = 4096
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

    def vanish(self, for_s: float | None = None) -> None:
        """Drop every connection and refuse new ones, as an instrument without power; for ever, or so long."""
        with self._changing:
            if self._closed:
                return
            self._shut(self._listener, *self._connections)
            # Bound and not listening: the port stays ours, and whoever calls is refused.
            self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((HOST, self.port))
        if for_s is not None:
            timer = threading.Timer(for_s, self.come_back)
            timer.daemon = True
            timer.start()

    def come_back(self) -> None:
        """Take connections again."""
        with self._changing:
            if not self._closed:
                self._listener.listen()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:  # closed or vanished, or a client that was gone at once, or no file descriptor left
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
            self._shut(self._listener, *self._connections)

    @staticmethod
    def _shut(*ends: socket.socket) -> None:
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


class InstrumentServer(Server):
    """Let clients talk to an instrument over some transport; `fault` is what is wrong with that."""

    def __init__(self, name: str, instrument: Instrument, *, one_client: bool = False) -> None:
        self.instrument = instrument
        self.fault = LinkFault(instrument.errors, self.vanish, self.come_back)
        super().__init__(name, self._talk, one_client=one_client)

    @property
    def resource(self) -> str:
        """Name the address as VISA writes it."""
        raise NotImplementedError

    def _talk(self, connection: socket.socket) -> None:
        """Serve one connection."""
        raise NotImplementedError


class ScpiServer(InstrumentServer):
    """Let clients talk over a raw socket: messages end in LF, and so do answers."""

    @property
    def resource(self) -> str:
        """Name the address as VISA writes it."""
        return f"TCPIP::{HOST}::{self.port}::SOCKET"

    def _talk(self, connection: socket.socket) -> None:
        line = Line(self.fault, self.instrument, connection)
        for message in lines(connection):
            if message is None:
                self.instrument.errors.push(-363)
                continue
            for part in gathered(line.ask(message, lambda: is_gone(connection))):
                line.sendall(part)


def gathered(answer: Sequence[Reply]) -> list[memoryview]:
    """Return the bytes of an answer: small pieces together in one, large ones as they lie in memory."""
    views: list[memoryview] = []
    small = bytearray()
    for part in answer:
        if isinstance(part, memoryview) and part.nbytes >= GATHER_MAX_BYTES:
            if small:
                views.append(memoryview(bytes(small)))
                small.clear()
            views.append(part.cast("B"))
        else:
            small += part.encode("latin-1") if isinstance(part, str) else part
    return [*views, memoryview(bytes(small))] if small else views


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
