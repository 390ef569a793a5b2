"""Logic levels held as their changes: what a logic analyser saw, however long it looked.

A line that changes a thousand times in a minute of 24 million samples a second is a thousand numbers, and is read as
if it were the samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Levels:
    """Codes 0 and 1 of shape (1, samples), as uint8, made when they are read.

    `first_level` is that of sample 0, and `changes` are the samples that differ from the one before, ascending, from 1
    on, of shape (changes,).
    """

    dtype = np.dtype(np.uint8)
    ndim = 2

    def __init__(self, n_samples: int, first_level: int, changes: np.ndarray) -> None:
        changes = np.asarray(changes, dtype=np.int64)
        if len(changes) and not (changes[0] > 0 and changes[-1] < n_samples and (np.diff(changes) > 0).all()):
            raise ValueError("changes must ascend, within the samples and after the first")
        self.first_level = int(bool(first_level))
        self.changes = changes
        self.shape = (1, int(n_samples))

    def __len__(self) -> int:
        return 1

    def __getitem__(self, key: Any) -> Any:
        row, column = key if isinstance(key, tuple) else (key, slice(None))
        values = self._slice(column) if isinstance(column, slice) else self._at(np.asarray(column))
        return values[np.newaxis][row]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._slice(slice(None))[np.newaxis].astype(dtype or self.dtype, copy=False)

    def statistics(self) -> tuple[float, float, float]:
        """Give the least and the highest level, and the mean of all samples."""
        bounds = np.concatenate([[0], self.changes, [self.shape[1]]])
        n_high = int(np.diff(bounds)[1 - self.first_level :: 2].sum())
        low = float(self.first_level and not len(self.changes))
        return low, float(self.first_level or len(self.changes) > 0), n_high / self.shape[1]

    def _slice(self, column: slice) -> np.ndarray:
        start, stop, step = column.indices(self.shape[1])
        if step < 0 or stop <= start:
            return self._at(np.arange(start, stop, step))
        low, high = np.searchsorted(self.changes, [start + 1, stop])
        bounds = np.concatenate([[start], self.changes[low:high], [stop]])
        levels = (self.first_level + low + np.arange(len(bounds) - 1)) & 1
        return np.repeat(levels.astype(np.uint8), np.diff(bounds))[::step]

    def _at(self, samples: np.ndarray) -> np.ndarray:
        samples = np.where(samples < 0, samples + self.shape[1], samples)
        if samples.size and not (samples.min() >= 0 and samples.max() < self.shape[1]):
            raise IndexError(f"no such sample among {self.shape[1]}")
        return ((self.first_level + np.searchsorted(self.changes, samples, side="right")) & 1).astype(np.uint8)


def from_samples(samples: np.ndarray) -> Levels:
    """Hold samples of shape (n,), of which every other value than 0 is high. Raises ValueError for none at all."""
    if not len(samples):
        raise ValueError("no samples")
    high = samples != 0
    return Levels(len(samples), int(high[0]), np.flatnonzero(high[1:] != high[:-1]) + 1)
