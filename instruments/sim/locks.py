"""Who may use an instrument: the exclusive and shared locks that HiSLIP and VXI-11 clients ask for."""

from __future__ import annotations

import threading
from collections.abc import Hashable


class Locks:
    """Hold one instrument's locks. An exclusive one keeps all others out, a shared one all who do not have its key."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._exclusive: Hashable | None = None
        self._shared: set[Hashable] = set()
        self._key = ""

    def request(self, who: Hashable, key: str, timeout_s: float) -> bool:
        """Wait for a lock, shared where there is a key; return whether it was granted."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_free(who, key), timeout_s):
                return False
            if key:
                self._shared.add(who)
                self._key = key
            else:
                self._exclusive = who
            return True

    def release(self, who: Hashable) -> str:
        """Give up a lock, the exclusive one first; return its kind, "" where there was none."""
        with self._changed:
            kind = ""
            if self._exclusive == who:
                self._exclusive, kind = None, "exclusive"
            elif who in self._shared:
                self._shared.discard(who)
                kind = "shared"
            self._changed.notify_all()
            return kind

    def forget(self, who: Hashable) -> None:
        """Give up everything: the client is gone."""
        while self.release(who):
            pass

    def wait_for_turn(self, who: Hashable, timeout_s: float | None = None) -> bool:
        """Wait until nobody else's lock is in the way; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._may(who), timeout_s)

    def holders(self) -> tuple[bool, int]:
        """Tell whether the exclusive lock is held, and how many clients hold one."""
        with self._changed:
            everybody = self._shared | ({self._exclusive} - {None})
            return self._exclusive is not None, len(everybody)

    def _may(self, who: Hashable) -> bool:
        return self._exclusive in (None, who) and (not self._shared or who in self._shared or self._exclusive == who)

    def _is_free(self, who: Hashable, key: str) -> bool:
        if self._exclusive is not None and (self._exclusive != who or not key):
            return False  # a client that holds it cannot have it twice
        if key:
            return not self._shared or key == self._key
        return not self._shared or who in self._shared
