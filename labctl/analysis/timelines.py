"""Join the time lines of two instruments by edges that both have seen. No wall clock enters.

Each instrument counts on a clock of its own: t_there = t_here (1 + rate) + offset, where rate is the difference of two
crystals, some parts per million, and the offset is anything. One common edge gives the offset; edges that lie far
enough apart give the rate as well. A capture that holds its own common edges needs nothing of the hours before it.

An edge is known to half a sample of the slower instrument. The line through n pairs is that of least squares; its
standard uncertainty at a distance x from the pairs' middle is s sqrt(1/n + x^2/S_xx), S_xx being the sum of squared
distances (any text on regression; JCGM 100:2008, H.3). What the line cannot know, where one pair leaves the rate open,
is taken as rectangular within the largest rate that two crystals can differ by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from labctl.errors import CaptureError

# Two crystals of 50 ppm each.
RATE_LIMIT_RATIO = 100e-6
# A pair is taken where no other edge could be meant: the next one lies at least twice as far as the doubt.
_CLEAR = 2.0
# Pairings that explain as many edges as the best one does, but for one in ten, are as good.
_AS_GOOD = 0.9
_ROUNDS_MAX = 64
# Edges here from which a pairing is tried, how many on either side are compared, and pairings that are followed up.
_N_TRIED = 5
_N_NEIGHBOURS = 8
_N_GROWN = 32


@dataclass(frozen=True)
class Joint:
    """How one instrument's time becomes another's: t_there = t_here (1 + rate_ratio) + offset_s.

    `middle_s` is the middle of the pairs on the time line here, `n_pairs` their number, `resolution_s` the half-width
    within which an edge is known, `spread_s2` the pairs' S_xx, `rate_known` whether the rate comes from the pairs.
    """

    offset_s: float
    rate_ratio: float
    middle_s: float
    n_pairs: int
    resolution_s: float
    spread_s2: float
    rate_known: bool
    rate_limit_ratio: float

    def there_s(self, here_s: np.ndarray | float) -> np.ndarray:
        """Convert times, of any shape, to the other time line."""
        here_s = np.asarray(here_s, dtype=np.float64)
        return here_s + (here_s * self.rate_ratio + self.offset_s)

    def standard_s(self, here_s: np.ndarray) -> np.ndarray:
        """Give the standard uncertainty of converted times, of the same shape."""
        distance_s = np.abs(np.asarray(here_s) - self.middle_s)
        edge_s = self.resolution_s / math.sqrt(3)
        if not self.rate_known:
            return np.hypot(edge_s / math.sqrt(self.n_pairs), distance_s * self.rate_limit_ratio / math.sqrt(3))
        return edge_s * np.sqrt(1 / self.n_pairs + distance_s**2 / self.spread_s2)


def join(
    here_s: np.ndarray, there_s: np.ndarray, resolution_s: float, rate_limit_ratio: float = RATE_LIMIT_RATIO
) -> Joint:
    """Join two time lines by the edges seen on each, ascending, of shape (n,) and (m,); some may be seen by one alone.

    `resolution_s` is half a sample of the slower instrument. Raises CaptureError where nothing fits, or more than one
    pairing fits as well.
    """
    here_s, there_s = np.asarray(here_s, dtype=np.float64), np.asarray(there_s, dtype=np.float64)
    for name, edges_s in (("one", here_s), ("the other", there_s)):
        if len(edges_s) == 0:
            raise CaptureError(f"{name} instrument saw no edge, so the two time lines cannot be joined: check that its "
                               "input is on the trigger pin")
        if not np.all(np.diff(edges_s) > 0):
            raise CaptureError(f"{name} instrument's edges are not in ascending order: its time line is broken")
    found = [_grow(here_s, there_s, i, j, resolution_s, rate_limit_ratio)
             for i, j in _anchors(here_s, there_s, resolution_s, rate_limit_ratio)]
    best = max(found, key=lambda pairs: len(pairs[0]))
    if 2 * len(best[0]) <= min(len(here_s), len(there_s)):
        raise CaptureError(
            f"of {len(here_s)} and {len(there_s)} edges only {len(best[0])} can be one and the same: the two "
            "instruments did not see the same signal, or one lost part of it"
        )
    joint = _fit(here_s[best[0]], there_s[best[1]], resolution_s, rate_limit_ratio)
    for pairs in found:
        if len(pairs[0]) >= _AS_GOOD * len(best[0]):
            other = _fit(here_s[pairs[0]], there_s[pairs[1]], resolution_s, rate_limit_ratio)
            apart_s = abs(float(other.there_s(joint.middle_s) - joint.there_s(joint.middle_s)))
            if apart_s > 2 * (resolution_s + rate_limit_ratio * abs(other.middle_s - joint.middle_s)):
                raise CaptureError(
                    f"the edges fit each other in two ways, {apart_s:.6g} s apart: the windows follow each other too "
                    "evenly; record the quiet time before the first one, or vary the pauses"
                )
    return joint


def join_pairs(
    here_s: np.ndarray, there_s: np.ndarray, resolution_s: float, rate_limit_ratio: float = RATE_LIMIT_RATIO
) -> Joint:
    """Join two time lines by edges that are known to be one and the same, both of shape (n,)."""
    return _fit(np.asarray(here_s, np.float64), np.asarray(there_s, np.float64), resolution_s, rate_limit_ratio)


def _anchors(
    here_s: np.ndarray, there_s: np.ndarray, resolution_s: float, rate_limit_ratio: float
) -> list[tuple[int, int]]:
    """Name the pairs from which a pairing may begin: those whose neighbours fit each other best.

    Some edges here are tried with every edge there, so that one that a side has not seen does no harm.
    """
    tried = np.unique(np.linspace(0, len(here_s) - 1, _N_TRIED).round().astype(int))
    candidates = []
    for i in tried:
        near_s = here_s[max(0, i - _N_NEIGHBOURS) : i + _N_NEIGHBOURS + 1] - here_s[i]
        expected_s = there_s[:, None] + near_s
        miss_s = _nearest(there_s, expected_s)[1]
        fits = np.count_nonzero(miss_s <= 2 * resolution_s + rate_limit_ratio * np.abs(near_s), axis=1)
        candidates += [(int(fits[j]), int(i), int(j)) for j in np.flatnonzero(fits >= _AS_GOOD * fits.max())]
    candidates.sort(key=lambda one: -one[0])
    return [(i, j) for n, i, j in candidates[:_N_GROWN] if n >= _AS_GOOD * candidates[0][0]]


def _nearest(edges_s: np.ndarray, times_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give for each time the index of the nearest edge and its distance."""
    right = np.clip(np.searchsorted(edges_s, times_s), 0, len(edges_s) - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(edges_s[left] - times_s) < np.abs(edges_s[right] - times_s), left, right)
    return nearest, np.abs(edges_s[nearest] - times_s)


def _grow(
    here_s: np.ndarray, there_s: np.ndarray, i: int, j: int, resolution_s: float, rate_limit_ratio: float
) -> tuple[np.ndarray, np.ndarray]:
    """Pair edges outwards from one pair, as far as it is clear which belong together; return their indices."""
    mine, theirs, room_s = np.array([i]), np.array([j]), _room(there_s)
    for _ in range(_ROUNDS_MAX):
        joint = _fit(here_s[mine], there_s[theirs], resolution_s, rate_limit_ratio)
        expected_s = joint.there_s(here_s)
        # Half-width of where a paired edge must lie: both sides' resolution, and what the rate leaves open.
        distance_s = np.abs(here_s - joint.middle_s)
        open_ratio = min(rate_limit_ratio, 2 * resolution_s / max(np.ptp(here_s[mine]), 1e-300))
        doubt_s = 2 * resolution_s + open_ratio * distance_s
        nearest, miss_s = _nearest(there_s, expected_s)
        taken = np.flatnonzero((miss_s <= doubt_s) & (room_s[nearest] > _CLEAR * doubt_s))
        _, first = np.unique(nearest[taken], return_index=True)  # an edge belongs to one alone
        taken = taken[first]
        if i not in taken:
            taken = np.array([i])
        if len(taken) <= len(mine):
            break
        mine, theirs = taken, nearest[taken] if len(taken) > 1 else np.array([j])
    return mine, theirs


def _room(edges_s: np.ndarray) -> np.ndarray:
    """Give the distance of each edge to its nearest neighbour, infinite where there is none."""
    gaps_s = np.concatenate([[np.inf], np.diff(edges_s), [np.inf]])
    return np.minimum(gaps_s[:-1], gaps_s[1:])


def _fit(here_s: np.ndarray, there_s: np.ndarray, resolution_s: float, rate_limit_ratio: float) -> Joint:
    """Lay a line through pairs; the rate stays 0 where the pairs lie too close to tell it better than its limit."""
    middle_s = float(here_s.mean())
    x = here_s - middle_s
    spread_s2 = float(x @ x)
    known = len(x) > 1 and resolution_s / math.sqrt(3 * spread_s2) < rate_limit_ratio / math.sqrt(3)
    difference_s = there_s - here_s
    rate = float(x @ (difference_s - difference_s.mean())) / spread_s2 if known else 0.0
    if abs(rate) > rate_limit_ratio:  # more than two crystals differ by is the edges' doubt
        rate = math.copysign(rate_limit_ratio, rate)
    return Joint(
        offset_s=float(difference_s.mean()) - rate * middle_s,
        rate_ratio=rate,
        middle_s=middle_s,
        n_pairs=len(x),
        resolution_s=resolution_s,
        spread_s2=spread_s2,
        rate_known=known,
        rate_limit_ratio=rate_limit_ratio,
    )
