"""What a driver may ask of a link to an instrument."""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np

QUERY_TIMEOUT_S = 5.0


class Deadline:
    """One point in time that every wait of an exchange shares, so that a trickle of bytes cannot extend it."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end_s = time.monotonic() + timeout_s

    @property
    def remaining_s(self) -> float:
        """Return the time left; zero or less once it has passed."""
        return self._end_s - time.monotonic()


class Link(Protocol):
    """Carry commands and replies. The framing of the reply is declared by the method, never guessed from content.

    After any failed exchange the link is tainted: every further use raises LinkLost until `clear` or `reopen`.
    """

    @property
    def resource(self) -> str:
        """Name the address."""
        ...

    @property
    def tainted(self) -> bool:
        """Tell whether an earlier failure left the link out of step."""
        ...

    def write(self, command: str) -> None:
        """Send one command line that has no reply."""
        ...

    def query(self, command: str, timeout_s: float = QUERY_TIMEOUT_S) -> str:
        """Send one command line and return its one reply line, without the line end."""
        ...

    def query_block(
        self, command: str, timeout_s: float = QUERY_TIMEOUT_S, into: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """Send one command line and return the payload of its definite-length block, uint8 of shape (n_bytes,)."""
        ...

    def taint(self, reason: str) -> None:
        """Refuse further use until `clear` or `reopen`."""
        ...

    def clear(self) -> None:
        """Throw away what was on its way and bring the link back into step."""
        ...

    def reopen(self) -> None:
        """Close the link and open it anew."""
        ...

    def close(self) -> None:
        """Release the link. May be called twice."""
        ...
