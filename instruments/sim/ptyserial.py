"""A pseudo-terminal in the place of an instrument's serial port: bytes both ways, and a plug that can be pulled."""

from __future__ import annotations

import contextlib
import os
import select
import tempfile
import threading
import tty
from collections.abc import Callable

CHUNK_BYTES = 65536
# How often a side that waits for the other looks whether there is one.
POLL_S = 0.01


class PtySerial:
    """Let `receive` take what the client sends, and pass on what `send` is given; one client at a time.

    `path` is a link to the terminal: it stays the same when the plug is pulled and put in again, as the names below
    /dev/serial/by-id do. Baud rate and parity mean nothing here.
    """

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self._receive = receive
        self._folder = tempfile.TemporaryDirectory(prefix="emulated-serial-")
        self.path = os.path.join(self._folder.name, "port")
        self._changing = threading.RLock()
        self._closed = False
        self._master: int | None = None
        self._sending = threading.Lock()
        self.replug()

    def send(self, data: bytes) -> None:
        """Pass bytes on, as fast as the client takes them. Raises OSError where nobody has the port open."""
        with self._sending:
            left = memoryview(data)
            while left:
                with self._changing:
                    if self._master is None:
                        raise OSError("the port is unplugged")
                    events = self._events(select.POLLOUT, 0)
                    if events & select.POLLHUP:
                        raise OSError("nobody has the port open")
                    if events & select.POLLOUT:
                        left = left[os.write(self._master, left) :]
                        continue
                threading.Event().wait(POLL_S / 10)

    def unplug(self, for_s: float | None = None) -> None:
        """Pull the plug: the client's next call fails, and there is no such port; for ever, or for so long."""
        with self._changing:
            if self._master is None:
                return
            os.unlink(self.path)
            os.close(self._master)
            self._master = None
        if for_s is not None:
            timer = threading.Timer(for_s, self.replug)
            timer.daemon = True
            timer.start()

    def replug(self) -> None:
        """Put the plug in again; harmless where it is in."""
        with self._changing:
            if self._closed or self._master is not None:
                return
            master, slave = os.openpty()
            tty.setraw(slave)
            os.set_blocking(master, False)
            os.symlink(os.ttyname(slave), self.path)
            # Where nobody holds the slave's end, the master tells whether a client does.
            os.close(slave)
            self._master = master
            threading.Thread(target=self._listen, args=(master,), name="serial", daemon=True).start()

    def close(self) -> None:
        """Pull the plug for good."""
        self._closed = True
        with self._changing:
            self.unplug()
            self._folder.cleanup()

    def _listen(self, master: int) -> None:
        while True:
            data = b""
            with self._changing:
                if self._master != master:
                    return
                if self._events(select.POLLIN, 0) & select.POLLIN:
                    with contextlib.suppress(OSError):  # the client left in this moment
                        data = os.read(master, CHUNK_BYTES)
            if data:
                self._receive(data)
            else:
                threading.Event().wait(POLL_S / 10)

    def _events(self, wanted: int, milliseconds: int) -> int:
        assert self._master is not None
        poll = select.poll()
        poll.register(self._master, wanted)
        return sum(event for _, event in poll.poll(milliseconds))
