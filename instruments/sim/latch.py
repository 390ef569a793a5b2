"""A bit of an instrument's event register that an acquisition sets."""

from __future__ import annotations

import threading


class Latch:
    """A bit of an event register: set by an acquisition, once; stays, over further acquisitions too, until read."""

    def __init__(self) -> None:
        self._event: threading.Event | None = None
        self._kept = False

    def follow(self, event: threading.Event) -> None:
        """Wait for the event of another acquisition."""
        self._kept = self.is_set()
        self._event = event

    def is_set(self) -> bool:
        """Tell the bit."""
        return self._kept or (self._event is not None and self._event.is_set())

    def read(self) -> bool:
        """Tell the bit and clear it."""
        value = self.is_set()
        self._kept = False
        if self._event is not None and self._event.is_set():
            self._event = None
        return value
