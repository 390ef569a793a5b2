"""One pass over codes as the instrument gave them: sums, extremes, clipping and edges, block by block.

Nothing here makes a floating-point copy of a record. Integer codes are summed exactly in int64: with 16-bit codes a
span may hold 2**31 samples before a sum of squares or a cross sum (each term at most 2**30) could pass 2**63, and
`sum_spans` refuses longer ones. Floating-point codes are summed in float64 over pieces that end at multiples of
4096 samples of the segment, so that the bits of a result do not depend on how the record was read.
"""

# `if y < low` leaves NaN out and vectorises; min() would do neither.
# ruff: noqa: PLR1730

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numba
import numpy as np

from instruments.levels import Levels

BLOCK_SAMPLES = 1 << 20
SPAN_MAX_SAMPLES = 1 << 31
_PIECE = 4096  # fits the first-level cache; loops over it vectorise


@dataclass(frozen=True)
class Sums:
    """Sums over spans of one channel's codes; every array has shape (spans,).

    `n` counts the samples summed and `n_nan` those left out because they are no number; `first` and `last` are the
    codes at both ends of the span. `total`, `squares`, `low`, `high`, `first` and `last` are int64, or float64 where
    the codes are floats.
    """

    n: np.ndarray
    total: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_clipped: np.ndarray
    n_nan: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def part(self, begin: int, end: int) -> Sums:
        """Give the sums of the spans [begin, end)."""
        return Sums(*(getattr(self, field.name)[begin:end] for field in fields(self)))


@numba.njit(cache=True, nogil=True)
def _add(v, position, k, top, bottom, clip_low, clip_high, sums, part, counts):
    """Add the codes v, which start at `position` of their segment, to the sums of span k.

    sums is (4, spans): total, squares, low, high; part is (2, spans), the piece under way; counts is (3, spans):
    numbers, clipped, NaN.
    """
    zero = part[0, k] * 0
    done = 0
    while done < v.size:
        length = min(_PIECE - (position + done) % _PIECE, v.size - done)
        piece = v[done : done + length]
        s = part[0, k]
        q = part[1, k]
        n = 0
        for i in range(piece.size):
            x = piece[i] + zero
            if x == x:  # noqa: PLR0124 - false for NaN only
                s += x
                q += x * x
                n += 1
        low = top
        high = bottom
        for i in range(piece.size):
            y = piece[i]
            if y < low:
                low = y
            if y > high:
                high = y
        if low <= clip_low or high >= clip_high:
            for i in range(piece.size):
                counts[1, k] += (piece[i] <= clip_low) | (piece[i] >= clip_high)
        counts[0, k] += n
        counts[2, k] += piece.size - n
        sums[2, k] = min(sums[2, k], low + zero)
        sums[3, k] = max(sums[3, k], high + zero)
        done += length
        if (position + done) % _PIECE == 0:
            sums[0, k] += s
            sums[1, k] += q
            s = zero
            q = zero
        part[0, k] = s
        part[1, k] = q


@numba.njit(cache=True, nogil=True)
def _add_cross(v, w, position, k, total, part):
    """Add the products of the codes v and w, which start at `position`, to total[k], by pieces as `_add` does."""
    zero = part[k] * 0
    done = 0
    while done < v.size:
        length = min(_PIECE - (position + done) % _PIECE, v.size - done)
        a = v[done : done + length]
        b = w[done : done + length]
        s = part[k]
        for i in range(a.size):
            x = (a[i] + zero) * (b[i] + zero)
            if x == x:  # noqa: PLR0124 - false for NaN only
                s += x
        done += length
        if (position + done) % _PIECE == 0:
            total[k] += s
            s = zero
        part[k] = s


@numba.njit(cache=True, nogil=True)
def _extremes(v):
    k = 0
    while k < v.size - 1 and v[k] != v[k]:
        k += 1
    low = v[k]
    high = v[k]
    for i in range(v.size):
        x = v[i]
        if x < low:
            low = x
        if x > high:
            high = x
    return low, high


@numba.njit(cache=True, nogil=True)
def _edges_codes(v, position, threshold, low, high, state, positions, rising):
    """Find the edges in codes v that start at `position`; return how many were written, and of middling codes.

    state holds level (-1 unknown, 0, 1), the code before, the last crossing of the threshold, and the least and
    greatest code so far. A rise counts when a code reaches `high`, a fall when one goes down to `low`; either lies
    where the line between two samples crosses the threshold.
    """
    n = 0
    n_middle = 0
    done = 0
    while done < v.size:
        piece = v[done : done + 1024]
        least, most = _extremes(piece)
        if least < state[3]:
            state[3] = least
        if most > state[4]:
            state[4] = most
        last = piece[piece.size - 1]
        # A piece on one side holds no edge; a NaN at its end must not become the code before.
        one_sided = (state[0] == 0 and most < low) or (state[0] == 1 and least > high)
        if one_sided and last == last:  # noqa: PLR0124 - false for NaN only
            state[1] = last
            done += piece.size
            continue
        for i in range(piece.size):
            x = float(piece[i])
            if x != x:  # noqa: PLR0124 - true for NaN only
                continue
            if state[0] < 0:
                state[0] = 1 if x >= threshold else 0
                state[1] = x
                continue
            n_middle += low < x < high
            if (state[1] < threshold) != (x < threshold):
                state[2] = position + done + i - 1 + (threshold - state[1]) / (x - state[1])
            if state[0] == 0 and x >= high:
                state[0] = 1
                positions[n] = state[2]
                rising[n] = True
                n += 1
            elif state[0] == 1 and x < threshold and x <= low:
                state[0] = 0
                positions[n] = state[2]
                rising[n] = False
                n += 1
            state[1] = x
        done += piece.size
    return n, n_middle


def read_blocks(
    codes: Any,
    segments: Sequence[int] | None = None,
    block_samples: int = BLOCK_SAMPLES,
    chunks: tuple[int, int] | None = None,
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Read codes of shape (segments, samples) as (segment, first sample, codes) in order, one buffer reused.

    Arrays in memory are handed out as views. What has `read_direct` (an HDF5 data set) is read in whole `chunks`, its
    own unless given, many short segments at a time. A block is valid until the next is asked for.
    """
    n_segments, n_samples = codes.shape
    wanted = range(n_segments) if segments is None else segments
    block = max(_PIECE, block_samples)
    chunks = chunks or getattr(codes, "chunks", None)
    if chunks and chunks[1] <= block:
        block -= block % chunks[1]
    if isinstance(codes, np.ndarray):
        for segment in wanted:
            for start in range(0, n_samples, block):
                yield segment, start, np.ascontiguousarray(codes[segment, start : start + block])
        return
    yield from _read_batches(codes, list(wanted), block, chunks)


def _read_batches(
    codes: Any, wanted: list[int], block: int, chunks: tuple[int, int] | None
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Read what is no array in memory: segments that fit a block many at a time, longer ones one by one."""
    n_segments, n_samples = codes.shape
    rows = 1
    if 0 < n_samples <= block:
        rows = max(1, block // n_samples)
        if chunks:
            rows = max(chunks[0], rows - rows % chunks[0])
    buffer = np.empty((min(rows, n_segments), min(block, n_samples)), dtype=codes.dtype)
    for top in range(0, n_segments, rows):
        here = [s for s in wanted if top <= s < top + rows]
        if not here:
            continue
        first, last = here[0], here[-1] + 1
        for start in range(0, n_samples, block):
            stop = min(start + block, n_samples)
            shape = (last - first, stop - start)
            view = buffer.reshape(-1)[: shape[0] * shape[1]].reshape(shape)
            if hasattr(codes, "read_direct"):
                codes.read_direct(view, np.s_[first:last, start:stop])
            else:
                view[...] = codes[first:last, start:stop]
            for segment in here:
                yield segment, start, view[segment - first]


@dataclass(frozen=True)
class Spans:
    """Stretches [start, stop) of whole samples, one a row: int64 arrays of shape (spans,), in any order."""

    segment: np.ndarray
    start: np.ndarray
    stop: np.ndarray


def sum_spans(
    channels: Sequence[Any],
    spans: Spans,
    *,
    clip_limits: Sequence[tuple[float | None, float | None]] | None = None,
    visit: Callable[[int, list[np.ndarray]], None] | None = None,
    block_samples: int = BLOCK_SAMPLES,
) -> tuple[list[Sums], dict[tuple[int, int], np.ndarray]]:
    """Sum the codes of each span in one pass over each channel.

    `channels` are arrays of codes, all of shape (segments, samples). Returns the sums of each channel and, for each
    pair (i, j) with i < j, the sums of products of their codes, shape (spans,). A code at or beyond its channel's
    limits counts as clipped. `visit(span, blocks)` sees each stretch of each span, one array a channel.
    Raises ValueError for a span outside the record or longer than `SPAN_MAX_SAMPLES`.
    """
    n_spans = len(spans.segment)
    n_segments, n_samples = channels[0].shape
    if n_spans and (
        spans.segment.min() < 0 or spans.segment.max() >= n_segments or spans.start.min() < 0
        or spans.stop.max() > n_samples or (spans.stop - spans.start).max() > SPAN_MAX_SAMPLES
    ):
        raise ValueError(f"a span lies outside the record's {n_segments} x {n_samples} samples, or is too long")
    accumulators = [_Accumulator(c.dtype, n_spans, limit) for c, limit in zip(
        channels, clip_limits or [(None, None)] * len(channels), strict=True)]
    pairs = [(i, j) for i in range(len(channels)) for j in range(i + 1, len(channels))]
    cross = {p: np.zeros((2, n_spans), np.result_type(*(accumulators[i].kind for i in p))) for p in pairs}
    order = np.lexsort((spans.start, spans.segment))
    order = order[spans.stop[order] > spans.start[order]]
    by_segment = {int(s): order[spans.segment[order] == s] for s in np.unique(spans.segment[order])}
    chunks = next((c.chunks for c in channels if getattr(c, "chunks", None)), None)
    readers = [read_blocks(c, sorted(by_segment), block_samples, chunks) for c in channels]
    for parts in zip(*readers, strict=True):
        segment, begin = parts[0][:2]
        blocks = [p[2] for p in parts]
        end = begin + blocks[0].size
        here = by_segment[segment]
        for k in here[(spans.start[here] < end) & (spans.stop[here] > begin)]:
            low = max(int(spans.start[k]), begin)
            high = min(int(spans.stop[k]), end)
            pieces = [b[low - begin : high - begin] for b in blocks]
            for accumulator, piece in zip(accumulators, pieces, strict=True):
                accumulator.add(piece, low, k, low == spans.start[k])
            for (i, j), sums in cross.items():
                _add_cross(pieces[i], pieces[j], low, k, sums[0], sums[1])
            if visit is not None:
                visit(int(k), pieces)
    return [a.sums() for a in accumulators], {p: c[0] + c[1] for p, c in cross.items()}


class _Accumulator:
    """The running sums of one channel over all spans."""

    def __init__(self, dtype: np.dtype, n_spans: int, limits: tuple[float | None, float | None]) -> None:
        if dtype.kind in "iu" and dtype.itemsize <= 2:
            self.kind: np.dtype = np.dtype(np.int64)
            self.top, self.bottom = dtype.type(np.iinfo(dtype).max), dtype.type(np.iinfo(dtype).min)
        elif dtype.kind == "f":
            self.kind = np.dtype(np.float64)
            self.top, self.bottom = dtype.type(np.inf), dtype.type(-np.inf)
        else:
            raise ValueError(f"codes of type {dtype} are not summed: 8- or 16-bit integers, or floats")
        self.clip_low = -math.inf if limits[0] is None else float(limits[0])
        self.clip_high = math.inf if limits[1] is None else float(limits[1])
        self.running = np.zeros((4, n_spans), self.kind)
        self.running[2] = np.iinfo(np.int64).max if self.kind.kind == "i" else np.inf
        self.running[3] = np.iinfo(np.int64).min if self.kind.kind == "i" else -np.inf
        self.part = np.zeros((2, n_spans), self.kind)
        self.counts = np.zeros((3, n_spans), np.int64)
        self.first = np.zeros(n_spans, self.kind)
        self.last = np.zeros(n_spans, self.kind)

    def add(self, piece: np.ndarray, position: int, k: int, opens: bool) -> None:
        _add(piece, position, k, self.top, self.bottom, self.clip_low, self.clip_high,
             self.running, self.part, self.counts)
        if opens:
            self.first[k] = piece[0]
        self.last[k] = piece[-1]

    def sums(self) -> Sums:
        return Sums(self.counts[0], self.running[0] + self.part[0], self.running[1] + self.part[1], self.running[2],
                    self.running[3], self.counts[1], self.counts[2], self.first, self.last)


@dataclass(frozen=True)
class Edges:
    """The edges of a digital line: `segment` and `position` (in samples, with a fraction) and `rising`, (edges,).

    `level` is the line's level at the start of each segment, shape (segments,); `low` and `high` are the extreme
    values seen; `n_middle` counts samples between the hysteresis limits.
    """

    segment: np.ndarray
    position: np.ndarray
    rising: np.ndarray
    level: np.ndarray
    low: float
    high: float
    n_middle: int = 0


def code_extremes(codes: Any, block_samples: int = BLOCK_SAMPLES) -> tuple[float, float]:
    """Find the least and greatest code, NaN left out; (inf, -inf) where there is none."""
    low, high = math.inf, -math.inf
    for _, _, v in read_blocks(codes, None, block_samples):
        least, most = _extremes(v)
        if least == least:  # noqa: PLR0124 - false for NaN only
            low, high = min(low, float(least)), max(high, float(most))
    return low, high


def edges_from_codes(
    codes: Any, threshold: float, hysteresis: float, block_samples: int = BLOCK_SAMPLES
) -> Edges:
    """Find edges in codes of shape (segments, samples); threshold and hysteresis (full width) are in codes.

    `low` and `high` of the answer are codes too, and a rise is one of codes: whoever reads a channel with negative
    scale turns it round.
    """
    found: list[tuple[int, np.ndarray, np.ndarray]] = []
    if isinstance(codes, Levels) and 0 < threshold - hysteresis / 2 <= threshold + hysteresis / 2 < 1:
        return _edges_of_levels(codes, threshold)
    level = np.zeros(codes.shape[0], bool)
    state = np.array([-1, 0, 0, math.inf, -math.inf])
    n_middle = 0
    size = min(max(block_samples, _PIECE), codes.shape[1])
    positions, rising = np.empty(size), np.empty(size, bool)
    low, high = threshold - hysteresis / 2, threshold + hysteresis / 2
    for segment, start, v in read_blocks(codes, None, block_samples):
        if start == 0:
            state[:3] = (-1, 0, 0)
        unknown = state[0] < 0
        n, middle = _edges_codes(v, start, threshold, low, high, state, positions, rising)
        if unknown:
            level[segment] = not rising[0] if n else state[0] > 0
        n_middle += middle
        if n:
            found.append((segment, positions[:n].copy(), rising[:n].copy()))
    return _gather(found, level, n_middle, float(state[3]), float(state[4]))


def _edges_of_levels(levels: Levels, threshold: float) -> Edges:
    """Take the edges from changes as they are, where interpolation at the threshold would put them."""
    n = len(levels.changes)
    rising = (np.arange(n) + levels.first_level) % 2 == 0
    position = levels.changes - np.where(rising, 1 - threshold, threshold)
    low, high = (0.0, 1.0) if n else (float(levels.first_level),) * 2
    return Edges(np.zeros(n, np.int64), position, rising, np.array([bool(levels.first_level)]), low, high)


def _gather(
    found: list[tuple[int, np.ndarray, np.ndarray]],
    level: np.ndarray,
    n_middle: int,
    low: float,
    high: float,
) -> Edges:
    if not found:
        return Edges(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, bool), level, low, high, n_middle)
    segment = np.concatenate([np.full(len(p), s, np.int64) for s, p, _ in found])
    return Edges(segment, np.concatenate([p for _, p, _ in found]), np.concatenate([r for _, _, r in found]), level,
                 low, high, n_middle)
