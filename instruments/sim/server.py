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


class OutputFault:
    """Break what an instrument sends: `silent`, or `stall_after_bytes` or `close_after_bytes` since it was set.

    With `vanish_after_bytes` the instrument is gone after so many, from the start after 0, and comes back after
    `return_after_s` where that is given, else with the next set of faults. `vanish` and `come_back` do it.
    """

    def __init__(self, vanish: Callable[[float | None], None], come_back: Callable[[], None]) -> None:
        self._limit_bytes: int | None = None
        self._closes = self._vanishes = False
        self._return_after_s: float | None = None
        self._vanish, self._come_back = vanish, come_back

    def set(self, fault: Mapping[str, Any]) -> None:
        """Replace the fault; an empty one repairs."""
        self._come_back()
        self._closes = "close_after_bytes" in fault
        self._vanishes = "vanish_after_bytes" in fault
        self._return_after_s = fault.get("return_after_s")
        names = ("vanish_after_bytes", "close_after_bytes", "stall_after_bytes")
        limit = 0 if fault.get("silent") else next((fault[name] for name in names if name in fault), None)
        self._limit_bytes = None if limit is None else int(limit)
        self._vanish_if_due()

    def send(self, connection: socket.socket, data: memoryview) -> None:
        """Send as much as the fault lets through."""
        if self._limit_bytes is not None:
            data = data[: self._limit_bytes]
            self._limit_bytes -= len(data)
        connection.sendall(data)
        if self._limit_bytes == 0 and self._closes:
            connection.shutdown(socket.SHUT_RDWR)
        self._vanish_if_due()

    def _vanish_if_due(self) -> None:
        if self._vanishes and self._limit_bytes == 0:
            self._vanishes, self._limit_bytes = False, None
            self._vanish(self._return_after_s)


class ScpiServer(Server):
    """Let clients talk to an instrument: messages end in LF, and so do answers."""

    def __init__(self, name: str, instrument: Instrument) -> None:
        self.fault = OutputFault(self.vanish, self.come_back)
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
