"""Exact sums of codes by blocks, so that any range of a long record is summed from few numbers.

A level holds, for each full block of a segment, the integer sum, the sum of squares, the minimum and the maximum of
its codes. What does not fill a block is read from the codes themselves. All sums are integers and exact: a block of
2**20 codes of 16 bits has squares below 2**50, and whole ranges are summed as Python integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCKS = (1 << 10, 1 << 15, 1 << 20)
FIELDS = ("sum", "sum_squares", "minimum", "maximum")

# Squares of 16-bit codes summed over this many stay below 2**53, where float64 is exact (and fast in numpy).
_EXACT_SPAN = 1 << 20


@dataclass(frozen=True)
class Sums:
    """What is known of some codes: how many, exact integer sums (float for float codes), least and greatest."""

    n_samples: int = 0
    total: int | float = 0
    total_squares: int | float = 0
    minimum: int | float = 0
    maximum: int | float = 0
    n_invalid: int = 0

    def __add__(self, other: Sums) -> Sums:
        """Join the sums of two ranges."""
        if not self.n_samples or not other.n_samples:
            kept = other if other.n_samples else self
            low, high = kept.minimum, kept.maximum
        else:
            low, high = min(self.minimum, other.minimum), max(self.maximum, other.maximum)
        return Sums(
            self.n_samples + other.n_samples,
            self.total + other.total,
            self.total_squares + other.total_squares,
            low,
            high,
            self.n_invalid + other.n_invalid,
        )


def has_pyramid(dtype: np.dtype) -> bool:
    """Tell whether codes of this type are summed exactly by blocks: integers of one or two bytes."""
    return dtype.kind in "iu" and dtype.itemsize <= 2


def block_sums(codes: np.ndarray, block: int) -> dict[str, np.ndarray]:
    """Sum codes of shape (rows, samples) by full blocks; each array has shape (rows, samples // block)."""
    from labctl.store import blocksums  # brings the compiler, which only a writer needs

    size = (codes.shape[0], codes.shape[1] // block)
    types = (np.dtype(np.int64), np.dtype(np.int64), codes.dtype, codes.dtype)
    sums = {name: np.empty(size, dtype) for name, dtype in zip(FIELDS, types, strict=True)}
    blocksums.block_sums(np.ascontiguousarray(codes), block, *sums.values())
    return sums


def coarser(level: Mapping[str, np.ndarray], factor: int) -> dict[str, np.ndarray]:
    """Join each `factor` blocks of a level into one; a rest that fills none is left out."""
    if factor == 1:
        return dict(level)
    rows, n_blocks = level["sum"].shape[0], level["sum"].shape[1] // factor
    cut = {name: level[name][:, : n_blocks * factor].reshape(rows, n_blocks, factor) for name in FIELDS}
    return {
        "sum": cut["sum"].sum(axis=2),
        "sum_squares": cut["sum_squares"].sum(axis=2),
        "minimum": cut["minimum"].min(axis=2),
        "maximum": cut["maximum"].max(axis=2),
    }


def sum_codes(codes: np.ndarray) -> Sums:
    """Sum codes of shape (samples,), at most 2**20 of them: exact for integers of one or two bytes.

    NaNs and infinities of float codes are counted and left out; their sums are float64.
    """
    n_invalid = 0
    if codes.dtype.kind == "f":
        finite = codes[np.isfinite(codes)]
        n_invalid, codes = len(codes) - len(finite), finite
    if not len(codes):
        return Sums(n_invalid=n_invalid)
    if codes.dtype.kind == "f":
        wide = codes.astype(np.float64)
        return Sums(len(wide), float(wide.sum()), float(wide @ wide), float(wide.min()), float(wide.max()), n_invalid)
    low, high = int(codes.min()), int(codes.max())
    if has_pyramid(codes.dtype):
        wide = codes.astype(np.float64)
        return Sums(len(codes), int(wide.sum()), int(wide @ wide), low, high)
    big = codes.astype(object)
    return Sums(len(codes), int(big.sum()), int((big * big).sum()), low, high)


def sum_range(codes: Any, pyramid: Mapping[int, Mapping[str, Any]], segment: int, start: int, stop: int) -> Sums:
    """Sum codes [start, stop) of a segment from the coarsest blocks inside it and the codes at its ends.

    `pyramid` maps a block's length to its arrays of shape (segments, blocks); empty, all is read from `codes`.
    """
    total = Sums()
    for block, first, last in _pieces(sorted(pyramid, reverse=True), start, stop):
        if block:
            level = pyramid[block]
            total += _sum_blocks({name: np.asarray(level[name][segment, first:last]) for name in FIELDS}, block)
        else:
            for low in range(first, last, _EXACT_SPAN):
                total += sum_codes(np.asarray(codes[segment, low : min(low + _EXACT_SPAN, last)]))
    return total


def _sum_blocks(level: Mapping[str, np.ndarray], block: int) -> Sums:
    # Halves are summed apart, so that no sum of int64 overflows however long the range is.
    squares = level["sum_squares"]
    total_squares = (int((squares >> 32).sum()) << 32) + int((squares & 0xFFFFFFFF).sum())
    return Sums(
        block * len(squares),
        int(level["sum"].sum()),
        total_squares,
        int(level["minimum"].min()),
        int(level["maximum"].max()),
    )


def _pieces(blocks: list[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Cut [start, stop) into runs of blocks, coarsest first: (block, first, last); block 0 counts single samples."""
    if start >= stop:
        return
    if not blocks:
        yield 0, start, stop
        return
    block = blocks[0]
    first, last = -(-start // block), stop // block
    if first >= last:
        yield from _pieces(blocks[1:], start, stop)
        return
    yield from _pieces(blocks[1:], start, first * block)
    yield block, first, last
    yield from _pieces(blocks[1:], last * block, stop)
