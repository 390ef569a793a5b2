"""Record the stream of a PPK2: read it beside the caller, find the trigger in it, and keep the stretch about that."""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol

import numpy as np

from instruments.drivers.ppk2_framing import READ_BYTES, Framer
from instruments.drivers.ppk2_words import WORD_BYTES, levels
from instruments.errors import InstrumentError, InstrumentTimeout
from instruments.transport.link import Deadline

READ_TIMEOUT_S = 0.2
# What a PPK2 sends first can be far off (ppk2-api issue 46): left out before anything is kept.
N_SETTLING = 1000
_N_SPARE = 4 * READ_BYTES // WORD_BYTES


class ByteLink(Protocol):
    """What is asked of the serial link."""

    @property
    def resource(self) -> str:
        """Name the port."""
        ...

    def write(self, data: bytes, timeout_s: float = 5.0) -> None:
        """Send all bytes."""
        ...

    def receive_into(self, view: memoryview, deadline: Deadline) -> tuple[int, bool]:
        """Put what comes into `view`; return how many bytes."""
        ...

    def drain(self, quiet_s: float = 0.05) -> int:
        """Throw away what comes until nothing does."""
        ...

    def reopen(self) -> None:
        """Close and open anew."""
        ...

    def close(self) -> None:
        """Let go of the port."""
        ...


class Tape:
    """Keep `n_words` of a stream about the first edge of one input, `n_before` of them before it; all preallocated.

    Without a `trigger`, (number of the input, "rising" or "falling"), it keeps the first words. An edge is looked for
    once `n_before` words have passed.
    """

    def __init__(self, n_words: int, n_before: int, trigger: tuple[int, str] | None) -> None:
        self._buffer = np.empty(n_words + _N_SPARE, np.uint32)
        self._n_words, self._n_before, self._trigger = n_words, n_before, trigger
        self._n = 0
        self._n_skip = N_SETTLING
        self._start: int | None = 0 if trigger is None else None

    @property
    def armed(self) -> bool:
        """Tell whether an edge would be taken now."""
        return self._n_skip == 0 and (self._start is not None or self._n > self._n_before)

    @property
    def triggered(self) -> bool:
        """Tell whether the stretch has begun."""
        return self._start is not None

    @property
    def n_taken(self) -> int:
        """Count the words of the stretch that have come."""
        return 0 if self._start is None else min(self._n - self._start, self._n_words)

    @property
    def complete(self) -> bool:
        """Tell whether the whole stretch has come."""
        return self.n_taken == self._n_words

    def words(self) -> np.ndarray[Any, Any]:
        """Return the words of the complete stretch, uint32 of shape (n_words,)."""
        assert self._start is not None
        return self._buffer[self._start : self._start + self._n_words]

    def append(self, words: np.ndarray[Any, Any]) -> None:
        """Take in more of the stream; what is not needed any more goes."""
        n_skipped = min(self._n_skip, len(words))
        self._n_skip -= n_skipped
        words = words[n_skipped:]
        while len(words) and not self.complete:
            if self._n == len(self._buffer):
                # Only what a coming edge needs, and the word that it is an edge against.
                self._keep_from(self._n - self._n_before - 1)
            part = words[: len(self._buffer) - self._n]
            words = words[len(part) :]
            first = self._n
            self._buffer[first : first + len(part)] = part
            self._n += len(part)
            if self._start is None:
                self._look(first)

    def _look(self, first: int) -> None:
        """Look for the edge among the words from `first` on."""
        assert self._trigger is not None
        number, edge = self._trigger
        first = max(first, self._n_before, 1)
        found = levels(self._buffer[first - 1 : self._n], number)
        steps = np.flatnonzero(np.diff(found.view(np.int8)) == (1 if edge == "rising" else -1))
        if len(steps):
            self._keep_from(first + int(steps[0]) - self._n_before)
            self._start = 0

    def _keep_from(self, start: int) -> None:
        self._buffer[: self._n - start] = self._buffer[start : self._n]
        self._n -= start


class Recording:
    """Read a stream in a thread of its own until the tape is full, it is told to stop, or the link fails."""

    def __init__(self, link: ByteLink, tape: Tape) -> None:
        self.tape = tape
        self.framer = Framer(link.resource)
        self.error: InstrumentError | None = None
        self._link = link
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._read, name=f"stream of {link.resource}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def wait(self, state: str, timeout_s: float) -> bool:
        """Wait until the tape is `armed`, `triggered` or `complete`; False where it is not within `timeout_s`.

        Raises what the link or the stream failed with.
        """
        end_s = time.monotonic() + timeout_s
        with self._changed:
            while not getattr(self.tape, state):
                if self.error is not None:
                    raise self.error
                remaining_s = end_s - time.monotonic()
                if remaining_s <= 0:
                    return False
                self._changed.wait(remaining_s)
        return True

    def stop(self) -> None:
        """Read no more, and return once nothing is being read."""
        self._stopping = True
        if self._thread.is_alive():
            self._thread.join()

    def _read(self) -> None:
        try:
            while not (self._stopping or self.tape.complete):
                try:
                    n_bytes, _ = self._link.receive_into(self.framer.room, Deadline(READ_TIMEOUT_S))
                except InstrumentTimeout:
                    continue  # whoever waits has a deadline; a DUT that rests is no fault of the link
                for words in self.framer.take(n_bytes):
                    self.tape.append(words)
                with self._changed:
                    self._changed.notify_all()
        except InstrumentError as error:
            with self._changed:
                self.error = error
                self._changed.notify_all()
