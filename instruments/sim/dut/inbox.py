"""What was sent to the DUT and has not reached it yet.

The emulator's pace is the host's business, the DUT's is its own: a line is handed over only once the firmware waits for
one, so that what it does in between, such as how often it polls, never depends on when the host came to send it.
"""

from __future__ import annotations


class Inbox:
    """A queue of bytes, taken out line by line. Whoever shares it between threads guards it."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, data: bytes) -> None:
        """Add what was sent."""
        self._waiting += data

    def take(self) -> bytes:
        """Remove the first line with its end, or all there is where no line has ended."""
        n = self._waiting.find(b"\n") + 1 or len(self._waiting)
        line = bytes(self._waiting[:n])
        del self._waiting[:n]
        return line

    def clear(self) -> None:
        """Forget everything."""
        self._waiting.clear()
