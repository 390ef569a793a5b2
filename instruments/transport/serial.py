"""A link to an instrument that speaks bytes over a serial port (USB CDC, pseudo-terminal): every wait ends in time.

pyserial opens and configures the port. Its own read and write are not used for waiting: with a time-out they give back
fewer bytes without a word, and without one they never return; a port that is pulled out is "ready to read" and empty
(pyserial issues 341, 86).
"""

from __future__ import annotations

import functools
import os
import select
from collections.abc import Callable

import serial

from instruments.errors import InstrumentTimeout, LinkLost, OutOfRange
from instruments.transport.link import QUERY_TIMEOUT_S, Deadline

CHUNK_BYTES = 65536
REMEDY = "check the cable, and that no other program holds the port"
QUIET_S = 0.05
DRAIN_MAX_S = 2.0


class SerialLink:
    """Carry bytes over one serial port, which nobody else can open meanwhile.

    There are no messages on this link; what frames them is the instrument's protocol. `receive_into` and `receive_now`
    are those of `framing.Source`, so that its lines and blocks can be read here too. POSIX systems only.
    """

    def __init__(self, port: str, baud_hz: int = 115200) -> None:
        """Open the port. Raises LinkLost where it is absent or held by another program, OutOfRange for a bad rate."""
        self._port = port
        self._baud_hz = baud_hz
        self._serial: serial.Serial | None = None
        self.reopen()

    @property
    def resource(self) -> str:
        """Name the port."""
        return self._port

    def write(self, data: bytes, timeout_s: float = QUERY_TIMEOUT_S) -> None:
        """Send all bytes. Raises InstrumentTimeout where the other side does not take them, LinkLost."""
        deadline = Deadline(timeout_s)
        left = memoryview(data)
        while left:
            self._await(deadline, f"{len(data) - len(left)} of {len(data)} bytes could be sent", writing=True)
            left = left[self._call(functools.partial(_write, left)) :]

    def receive_into(self, view: memoryview, deadline: Deadline) -> tuple[int, bool]:
        """Wait for at least one byte and put what is there into `view`; return how many, and False: nothing ends here.

        Raises InstrumentTimeout once the deadline has passed, LinkLost where the port is gone.
        """
        self._await(deadline, "no byte came", writing=False)
        return self._take(view), False

    def receive_now(self, view: memoryview) -> int:
        """Put what is there into `view` and return how many bytes, 0 where none is waiting. Raises LinkLost."""
        if not self._ready(0.0, writing=False):
            return 0
        return self._take(view)

    def read(self, n_bytes: int, timeout_s: float = QUERY_TIMEOUT_S) -> bytes:
        """Return exactly so many bytes. Raises InstrumentTimeout with how many had come, LinkLost."""
        deadline = Deadline(timeout_s)
        data = bytearray(n_bytes)
        done = 0
        while done < n_bytes:
            try:
                done += self.receive_into(memoryview(data)[done:], deadline)[0]
            except (InstrumentTimeout, LinkLost) as error:
                raise type(error)(f"{error} ({done} of {n_bytes} bytes had come)") from error
        return bytes(data)

    def read_until(self, mark: bytes, timeout_s: float = QUERY_TIMEOUT_S, max_bytes: int = CHUNK_BYTES) -> bytes:
        """Return all bytes up to and with `mark`, which must be the last that comes.

        Raises InstrumentTimeout with what had come, also where `max_bytes` hold no mark; LinkLost.
        """
        deadline = Deadline(timeout_s)
        data = bytearray()
        scratch = memoryview(bytearray(4096))
        while not data.endswith(mark):
            if len(data) > max_bytes:
                raise InstrumentTimeout(f"{self._port}: {len(data)} bytes without {mark!r}, beginning {_shown(data)}")
            try:
                n, _ = self.receive_into(scratch, deadline)
            except InstrumentTimeout as error:
                raise InstrumentTimeout(f"{error}; {mark!r} was awaited, {_shown(data)} had come") from error
            data += scratch[:n]
        return bytes(data)

    def drain(self, quiet_s: float = QUIET_S) -> int:
        """Throw away what comes until nothing has for `quiet_s`; return how many bytes. Raises LinkLost."""
        end = Deadline(DRAIN_MAX_S)
        scratch = memoryview(bytearray(CHUNK_BYTES))
        n_dropped = 0
        while end.remaining_s > 0:
            if not self._ready(quiet_s, writing=False):
                return n_dropped
            n_dropped += self._take(scratch)
        raise LinkLost(f"{self._port}: bytes keep coming after {DRAIN_MAX_S:g} s: stop the instrument, then reopen")

    def reopen(self) -> None:
        """Close the port and open it anew. Raises LinkLost where it is absent or held by another program."""
        self.close()
        try:
            self._serial = serial.Serial(self._port, self._baud_hz, timeout=0, write_timeout=0, exclusive=True)
        except ValueError as error:
            raise OutOfRange(f"{self._port} cannot be opened at {self._baud_hz} baud ({error})") from error
        except (serial.SerialException, OSError) as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            if "exclusive" in str(error).lower():
                why = "another program holds it"
            raise LinkLost(f"{self._port} cannot be opened ({why}): {REMEDY}") from error

    def close(self) -> None:
        """Let go of the port. May be called twice."""
        port, self._serial = self._serial, None
        if port is not None:
            port.close()

    def _await(self, deadline: Deadline, what: str, *, writing: bool) -> None:
        remaining_s = deadline.remaining_s
        if remaining_s <= 0 or not self._ready(remaining_s, writing=writing):
            raise InstrumentTimeout(f"{self._port}: {what} within {deadline.timeout_s:g} s")

    def _ready(self, wait_s: float, *, writing: bool) -> bool:
        def wait(fd: int) -> int:
            return len(select.select([] if writing else [fd], [fd] if writing else [], [], wait_s)[writing])

        return self._call(wait) > 0

    def _put(self, view: memoryview) -> int:
        return self._call(lambda fd: os.write(fd, view))

    def _take(self, view: memoryview) -> int:
        n = self._call(lambda fd: os.readv(fd, [view]))
        if n == 0:
            raise LinkLost(f"{self._port} was unplugged: {REMEDY}, then reopen")
        return n

    def _call(self, call: Callable[[int], int]) -> int:
        """Use the open port. Raises LinkLost where it is closed or gone."""
        if self._serial is None:
            raise LinkLost(f"{self._port} is closed: reopen it")
        try:
            return call(self._serial.fileno())
        except (OSError, ValueError, serial.SerialException) as error:
            raise LinkLost(f"{self._port} is gone ({error}): {REMEDY}, then reopen") from error


def _write(data: memoryview, fd: int) -> int:
    return os.write(fd, data)


def _shown(data: bytes | bytearray) -> str:
    return repr(bytes(data[:32]))
