"""Find the words of a PPK2 in its bytes, by their counter, and tell which were lost.

Each word counts one further, modulo 64. Where one does not, the next stretch of bytes that counts is looked for, from
any byte on; what lies between counts as lost, by the difference of the counters. So a loss of exactly 64 words, or
multiples, cannot be seen. A counter that steps back to words that are the same as those before is a repetition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from instruments.drivers.ppk2_words import COUNTER_MODULUS, WORD_BYTES, WORD_TYPE, counters, lost_words
from instruments.errors import BadData

READ_BYTES = 1 << 16
# Words that must count on before their place is believed; the last ones of a read wait for the next.
N_SURE = 6
N_HELD = 8
# A byte too few or too many can leave the counter of its word, and by chance of the next, as they should be.
N_DOUBTFUL = 2
N_COMPARED = 32
_SEARCH_BYTES = 4096
_STRETCH = 2048  # words that are looked at together
_N_PLAIN = 64  # words that count on without a doubt
_COUNTER_BYTE = 2  # of a word; the counter is its upper six bits


class Framer:
    """Turn bytes into words, one for each tick of the meter's clock, lost ones included (`ppk2_words.lost_words`).

    `n_lost` counts these, `n_repeated` words that came twice, `n_resyncs` how often words began at another byte.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._buffer = np.empty(READ_BYTES + 2 * _SEARCH_BYTES, np.uint8)
        self._n, self._position = 0, 0  # bytes there are, and the first that is not given out: history lies before it
        self._tail = np.empty(0, np.uint32)  # the last words that were given out
        self.n_lost = self.n_repeated = self.n_resyncs = 0

    @property
    def room(self) -> memoryview:
        """Give the place for the next bytes, `READ_BYTES` at most."""
        return self._buffer[self._n : self._n + READ_BYTES].data

    def take(self, n_bytes: int) -> Iterator[np.ndarray[Any, Any]]:
        """Give, piece by piece, the words that `n_bytes` new ones in the room make sure; each is valid until the next.

        Raises BadData where no words are found in thousands of bytes.
        """
        self._n += n_bytes
        while True:
            words = self._words(self._position)
            n_good = self._n_counting(words[:_STRETCH])
            if n_good == _STRETCH and len(words) > _STRETCH + N_HELD:
                yield from self._give(words[:_STRETCH])
                continue
            whole = n_good == len(words[:_STRETCH])
            broken = self._position + WORD_BYTES * n_good
            found = None if whole else self._find(broken)
            n_back = self._n_back(broken) if found == broken else 0
            if found is None or self._n < broken + WORD_BYTES * (n_back + 1):
                yield from self._give(words[: max(0, n_good - (N_HELD if whole else N_DOUBTFUL))])
                break
            if n_back and self._drop_repetition(broken, n_back):
                continue
            misframed = (found - broken) % WORD_BYTES != 0
            yield from self._give(words[: max(0, n_good - N_DOUBTFUL)] if misframed else words[:n_good])
            # At another byte the first word may begin with bytes of one that was cut.
            self._position = found + WORD_BYTES * misframed
            after = self._words(self._position)
            if not len(self._tail):
                yield from self._give(after[:1])
                continue
            n_missing = _steps(self._tail[-1], after[0]) - 1
            n_back = -n_missing % COUNTER_MODULUS
            if 0 < n_back <= len(self._tail):
                if len(after) < n_back:
                    break  # whether this is a repetition is seen once more has come
                if np.array_equal(after[:n_back], self._tail[-n_back:]):
                    self.n_repeated += n_back
                    self._position += WORD_BYTES * n_back
                    continue
            self.n_resyncs += misframed
            self.n_lost += n_missing
            yield from self._give(lost_words(n_missing, int(self._tail[-1])), taken=False)
        first = max(0, self._position - WORD_BYTES * (N_COMPARED + 1))
        self._buffer[: self._n - first] = self._buffer[first : self._n]
        self._position -= first
        self._n -= first

    def _words(self, position: int) -> np.ndarray[Any, Any]:
        n_words = max(0, (self._n - position) // WORD_BYTES)
        return self._buffer[position : position + WORD_BYTES * n_words].view(WORD_TYPE)

    def _n_back(self, broken: int) -> int:
        """Count the words by which the counter steps back at byte `broken`; 0 where so many are never repeated."""
        if broken < WORD_BYTES * (N_COMPARED + 1):
            return 0
        before, here = self._words(broken - WORD_BYTES)[:2]
        n_back = (1 - _steps(before, here)) % COUNTER_MODULUS
        return n_back if n_back <= N_COMPARED else 0

    def _drop_repetition(self, broken: int, n_back: int) -> bool:
        """Take out as many words' bytes near byte `broken` as are the same as those before them; False for none.

        They may begin inside the word there, or with the last byte of the one before it.
        """
        n_bytes = WORD_BYTES * n_back
        for start in range(broken - 1, broken + WORD_BYTES - 1):
            if np.array_equal(self._buffer[start - n_bytes : start], self._buffer[start : start + n_bytes]):
                self._buffer[start : self._n - n_bytes] = self._buffer[start + n_bytes : self._n]
                self._n -= n_bytes
                self.n_repeated += n_back
                return True
        return False

    def _n_counting(self, words: np.ndarray[Any, Any]) -> int:
        """Count the first words that each count one further than the word before; none before the first is found."""
        if not len(self._tail):
            return 0
        counted = counters(np.concatenate((self._tail[-1:], words)))
        steps = np.diff(counted) % COUNTER_MODULUS != 1
        return int(steps.argmax()) if steps.any() else len(words)

    def _give(self, words: np.ndarray[Any, Any], taken: bool = True) -> Iterator[np.ndarray[Any, Any]]:
        """Give words out; those that are `taken` from the buffer are done with there."""
        if taken:
            self._position += WORD_BYTES * len(words)
        if len(words):
            self._tail = np.concatenate((self._tail, words[-N_COMPARED:]))[-N_COMPARED:]
            yield words

    def _find(self, start: int) -> int | None:
        """Find where words count on, from byte `start` or just before it; None where that cannot be seen yet.

        The word that ends before `start` may hold the first bytes of the one that is looked for.
        """
        broken = start
        ahead = counters(self._words(broken)[:_N_PLAIN])
        if len(ahead) == _N_PLAIN and (np.diff(ahead) % COUNTER_MODULUS == 1).all():
            return broken
        start = max(self._position, start - WORD_BYTES + 1)
        data = self._buffer[start : min(self._n, start + _SEARCH_BYTES)]
        counted = data[_COUNTER_BYTE:] >> 2
        steps = (counted[WORD_BYTES:] - counted[:-WORD_BYTES]) % COUNTER_MODULUS == 1
        n_places = len(steps) - WORD_BYTES * (N_SURE - 2)
        if n_places > 0:
            sure = np.logical_and.reduce(
                [steps[WORD_BYTES * k : WORD_BYTES * k + n_places] for k in range(N_SURE - 1)]
            )
            places = np.flatnonzero(sure)
            if len(places):
                # A ramp in other bits counts for a while, too: of the places in one word the longest run holds.
                close = start + places[places < places[0] + WORD_BYTES]
                runs = {int(place): _run_length(steps[place - start :: WORD_BYTES]) for place in close}
                return max(runs, key=lambda place: (runs[place], place == broken))
        if len(data) == _SEARCH_BYTES:
            raise BadData(
                f"{self._where}: {_SEARCH_BYTES} bytes without words that count on, beginning {bytes(data[:16])!r}: "
                "is this a PPK2, and its firmware current?"
            )
        return None


def _run_length(steps: np.ndarray[Any, Any]) -> int:
    """Count the first true values."""
    return len(steps) if steps.all() else int(steps.argmin())


def _steps(before: np.uint32, after: np.uint32) -> int:
    """Count how far the counter steps from one word to another, 1 to 64."""
    first, second = counters(np.array([before, after])).tolist()
    return (second - first - 1) % COUNTER_MODULUS + 1
