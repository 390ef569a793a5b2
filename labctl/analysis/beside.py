"""Windows that a logic analyser timed, on the time line of a meter that recorded beside it without a trigger.

The two share edges, in this very capture: either an input of both is on the trigger pin, or the meter's own current
steps where the pin does, from the first window's rise on. Each such step is placed where the charge about it says: a
current that goes from i0 to i1 at x has the mean q = (i0 (x - p + g) + i1 (p + g - x)) / 2g over p - g to p + g, so

    x = p + g - 2g (q - i0) / (i1 - i0)

with i0 and i1 read farther out and g made smaller step by step. Samples that scatter by s about those levels move x by
s sqrt(2g) / |i1 - i0|, and how far the steps are off the joint is seen as well: the larger of both counts. As much of
that scatter as is the operation's own shape moves every step alike, by up to s g / |i1 - i0|. What the supply's
decoupling delays the current by is in x: the windows lie where the meter sees their current.

The durations are the analyser's; what the joint leaves uncertain is where on the meter's time line a window lies. One
that is laid late by d loses d of the operation's power and gains d of the waiting's, and so does one that is laid
early: the energy is uncertain by d times the step of power.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter1d

from instruments.record import Record
from labctl.analysis.timelines import RATE_LIMIT_RATIO, Joint, join, join_pairs
from labctl.analysis.trigger import Refusal, channel_of, find_edges, find_windows, in_gap, nothing_left
from labctl.analysis.uncertainty import rectangular
from labctl.errors import CaptureError
from labctl.model import Contribution, Window, Wiring

# Levels are read over this part of the shortest window or pause on either side of a step, the step itself within that.
_REACH_RATIO = 0.4
_GUARD_RATIO = 0.5
_REACH_MIN = 4.0
# A step is placed within this at last: a sample with the edge in it and one to spare.
_GUARD_MIN = 2.0
# The steps of one series are at least half as large as their median, and noise steps by less than half of that.
_ALIKE_RATIO = 0.5
_N_SCATTER = 200


@dataclass(frozen=True)
class Joined:
    """Windows of the analyser as positions in the meter's samples, and what the joint leaves uncertain.

    `duration_s` is by the analyser's clock and `standard_s` the standard uncertainty of where a window lies on the
    meter's time line, both of shape (windows,).
    """

    windows: list[Window]
    refusals: list[Refusal]
    duration_s: np.ndarray
    standard_s: np.ndarray
    joint: Joint

    def contribution(self, step_w: float, n_iterations: int = 1) -> Contribution:
        """Give what the joint contributes to the energy of an iteration; `step_w` is by how much a window's power
        differs from that of the waiting about it."""
        standard_s = float(np.sqrt(np.mean(self.standard_s**2)))
        return Contribution(
            "joint of the time lines", "B", "normal", standard_s, "s", standard_s * abs(step_w) / n_iterations,
            source=f"{self.joint.n_pairs} common edges, each to ±{self.joint.resolution_s:.3g} s",
        )


def join_windows(
    series: Record,
    timing: Record,
    wiring: Wiring,
    *,
    common: str | None = None,
    current: str = "I1",
    draws_more: bool = True,
    expected: int | None = None,
) -> Joined:
    """Find the windows in the analyser's record `timing` and place them on that of the meter, `series`.

    `wiring` names the analyser's trigger channel; `common` the meter's channel on the same pin. Without one the steps
    of `current` are the common edges: an operation draws more than the waiting before it, or less. Raises CaptureError
    where the records cannot be joined, or no window lies within both.
    """
    if series.n_segments != 1 or timing.n_segments != 1 or not series.dt_s or not timing.dt_s:
        raise CaptureError("time lines can be joined of records of one segment that tell their sample rate")
    windows, refusals = find_windows(timing, wiring, expected=expected)
    windows, lost = _without_gaps(windows, timing)
    refusals = [*refusals, *lost]
    if not windows:
        raise nothing_left(refusals, f"{wiring.trigger_channel} of the analyser")
    edges_s = _times(timing, np.array([[w.start, w.stop] for w in windows]))
    if common is not None:
        joint, shape_s = _by_input(series, timing, wiring, common), 0.0
    else:
        fit = _by_current(series, timing, edges_s, current, draws_more)
        joint, shape_s = fit.joint, fit.shape_s
    return _placed(series, joint, shape_s, edges_s, refusals)


def _without_gaps(windows: list[Window], record: Record) -> tuple[list[Window], list[Refusal]]:
    lost = [Refusal(w.segment, "gap", f"{n} samples lost", w) for w in windows if (n := in_gap(w, record.gaps))]
    left_out = {id(refusal.window) for refusal in lost}
    return [w for w in windows if id(w) not in left_out], lost


def _times(record: Record, positions: np.ndarray) -> np.ndarray:
    assert record.dt_s is not None
    return record.segment_start_s[0] + positions * record.dt_s


def _placed(
    series: Record, joint: Joint, shape_s: float, edges_s: np.ndarray, refusals: list[Refusal]
) -> Joined:
    """Convert windows, and leave out those that the meter did not see whole."""
    assert series.dt_s is not None
    positions = (joint.there_s(edges_s) - series.segment_start_s[0]) / series.dt_s
    windows, kept = list[Window](), list[int]()
    for number, (start, stop) in enumerate(positions):
        window = Window(0, float(start), float(stop))
        if start < 0 or stop > series.n_samples - 1:
            side = "start" if start < 0 else "end"
            refusals.append(Refusal(0, f"one edge, window cut by the {side} of the record", "of the meter", window))
        elif n_lost := in_gap(window, series.gaps):
            refusals.append(Refusal(0, "gap", f"{n_lost} samples lost", window))
        else:
            windows.append(window)
            kept.append(number)
    if not windows:
        raise nothing_left(refusals, "the meter's time line")
    edges_s = edges_s[kept]
    standard_s = np.hypot(joint.standard_s(edges_s.mean(axis=1)), rectangular(shape_s))
    return Joined(windows, refusals, edges_s[:, 1] - edges_s[:, 0], standard_s, joint)


def _by_input(series: Record, timing: Record, wiring: Wiring, common: str) -> Joint:
    """Join by all edges of the pin that both see."""
    assert series.dt_s is not None and timing.dt_s is not None and wiring.trigger_channel is not None
    channel = channel_of(series, common)
    theirs = find_edges(channel)[0].position
    if series.granted.get("averages") and channel.kind != "digital":
        theirs = theirs - 0.5  # a sample is of the interval that ends with it
    mine = find_edges(channel_of(timing, wiring.trigger_channel), wiring.threshold, wiring.hysteresis)[0].position
    return join(_times(timing, mine), _times(series, theirs), (series.dt_s + timing.dt_s) / 2)


class _Current:
    """The meter's current, of which means over any stretch are asked; positions are in samples."""

    def __init__(self, series: Record, name: str) -> None:
        channel = channel_of(series, name)
        values = np.asarray(channel.codes[0], dtype=np.float64) * (channel.scale or 1.0)
        known = np.isfinite(values)
        if not known.any():
            raise CaptureError(f"{name} holds no sample that is a number; record again")
        self.n = len(values)
        self.values = np.where(known, values - np.median(values[known]), 0.0)
        self.total = np.concatenate([[0.0], np.cumsum(self.values)])
        # A sample is of the interval that ends with it, or of that about it.
        self.begin = -1.0 if series.granted.get("averages") else -0.5

    def mean(self, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """Give the mean from `start` to `stop`, both of any one shape."""
        return (self._integral(stop) - self._integral(start)) / (stop - start)

    def step(self, position: np.ndarray, reach: float) -> np.ndarray:
        """Give by how much more flows after than before."""
        return self.mean(position, position + reach) - self.mean(position - reach, position)

    def refined(self, position: np.ndarray, reach: float) -> np.ndarray:
        """Move positions of steps to where the charge about them says; no farther than `reach` holds."""
        guard = _GUARD_RATIO * reach
        while True:
            before = self.mean(position - reach, position - guard)
            after = self.mean(position + guard, position + reach)
            about = self.mean(position - guard, position + guard)
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = guard - 2 * guard * (about - before) / (after - before)
            position = position + np.where(np.isfinite(moved), np.clip(moved, -guard, guard), 0.0)
            if guard <= _GUARD_MIN:
                return position
            guard = max(guard / 2, _GUARD_MIN)

    def scatter(self, position: np.ndarray, reach: float) -> float:
        """Give the standard deviation of single samples about the level on either side of steps."""
        some = position[np.unique(np.linspace(0, len(position) - 1, _N_SCATTER).astype(int))].round().astype(int)
        after = np.arange(int(_GUARD_MIN), max(int(reach), int(_GUARD_MIN) + 2))
        index = np.clip(some[:, None, None] + np.stack([-after, after]), 0, self.n - 1)
        around = self.values[index]
        return float(np.sqrt(np.mean(around.var(axis=2, ddof=1))))

    def _integral(self, position: np.ndarray) -> np.ndarray:
        x = np.clip(position - self.begin, 0, self.n)
        k = np.minimum(x.astype(np.int64), self.n - 1)
        return self.total[k] + (x - k) * (self.total[k + 1] - self.total[k])


@dataclass(frozen=True)
class _Fit:
    """One way in which the current fits the windows: how large its steps are, and how far off, in seconds rms.

    `shape_s` is the half-width within which all steps may be moved alike.
    """

    joint: Joint
    step: float
    off_s: float
    shape_s: float


def _by_current(series: Record, timing: Record, edges_s: np.ndarray, name: str, draws_more: bool) -> _Fit:
    """Join by the steps of the current, from the first window's rise on."""
    assert series.dt_s is not None and timing.dt_s is not None
    flow = _Current(series, name)
    if not draws_more:
        flow.total = -flow.total
    since = (edges_s - edges_s[0, 0]) / series.dt_s
    shortest = float(np.diff(since.ravel()).min())
    reach = _REACH_RATIO * shortest
    if reach < _REACH_MIN:
        raise CaptureError(
            f"the shortest window or pause lasts {shortest:.1f} samples of the meter, too few to see its current step; "
            f"repeat the operation in each window (--iterations), and wait longer between windows"
        )
    found = [fit for first in _rises(flow, reach) if (fit := _fitted(flow, series, timing, edges_s, first, reach))]
    if not found:
        raise CaptureError(
            f"{name} does not step where the analyser sees the windows begin and end: check that both see one board, "
            "that the meter records before the first window, and whether the operation draws more than waiting"
        )
    largest = max(fit.step for fit in found)
    found = sorted((fit for fit in found if fit.step >= _ALIKE_RATIO * largest), key=lambda fit: fit.off_s)
    if len(found) > 1 and found[1].off_s < 2 * found[0].off_s + (series.dt_s + timing.dt_s) / 4:
        apart_s = abs(found[1].joint.offset_s - found[0].joint.offset_s)
        raise CaptureError(
            f"{name} fits the windows in two ways, {apart_s:.6g} s apart: they follow each other too evenly; record "
            "the quiet time before the first one, or vary the pauses"
        )
    return found[0]


def _rises(flow: _Current, reach: float) -> np.ndarray:
    """Name the positions at which the current rises as it may at a window's begin, ascending."""
    positions = np.arange(math.ceil(reach), flow.n - math.ceil(reach), dtype=np.float64)
    if not len(positions):
        return positions
    steps = flow.step(positions, reach)
    peaks = (steps == maximum_filter1d(steps, 2 * int(reach) + 1)) & (steps > 0)
    found = flow.refined(positions[peaks], reach)
    return found[np.diff(found, prepend=-np.inf) > 1]  # neighbours that are equally high are one


def _fitted(
    flow: _Current, series: Record, timing: Record, edges_s: np.ndarray, first: float, reach: float
) -> _Fit | None:
    """Follow the windows from a first rise on; None where one of them is not seen."""
    assert series.dt_s is not None and timing.dt_s is not None
    resolution_s = (series.dt_s + timing.dt_s) / 2
    flat, rising = edges_s.ravel(), np.tile([1.0, -1.0], len(edges_s))
    joint = join_pairs(flat[:1], _times(series, np.array([first])), resolution_s)
    n = 0
    while n < len(flat):
        # What the rate leaves open must not be more than a step may be moved.
        open_ratio = RATE_LIMIT_RATIO if not joint.rate_known else 2 * resolution_s / max(flat[n - 1] - flat[0], 1e-300)
        room_s = _GUARD_RATIO * reach * series.dt_s / 2
        n = max(n + 1, int(np.searchsorted(flat, flat[max(n - 1, 0)] + room_s / open_ratio)))
        here_s = flat[:n]
        expected = (joint.there_s(here_s) - series.segment_start_s[0]) / series.dt_s
        if expected[0] < reach or expected[-1] > flow.n - reach:
            return None
        steps = rising[:n] * flow.step(expected, reach)
        step = float(np.median(steps))
        if steps.min() < _ALIKE_RATIO * step or step <= 0:
            return None
        there_s = _times(series, flow.refined(expected, reach))
        joint = join_pairs(here_s, there_s, resolution_s)
    off_s = float(np.sqrt(np.mean((there_s - joint.there_s(flat)) ** 2)))
    scatter_s = flow.scatter(expected, reach) / step * series.dt_s
    # As a half-width, as that of the samples.
    half_s = math.sqrt(3) * max(off_s, scatter_s * math.sqrt(2 * _GUARD_MIN))
    return _Fit(join_pairs(flat, there_s, max(resolution_s, half_s)), step, off_s, _GUARD_MIN * scatter_s)
