"""Which samples beside and at the edges of the windows are looked at: quiet spans, and fits of the edges themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instruments.record import Record
from labctl.analysis.chain import Chain
from labctl.model import Window

# A quiet span keeps this many time constants away from the edges: exp(-5) is below 1 % of a step.
QUIET_MARGIN_TAUS = 5
_QUIET_MARGIN_SAMPLES = 5
_QUIET_SAMPLES_MIN = 10
# The current at an edge is fitted over this many time constants on each side, and no longer than this: further away the
# core does other things, at 216 MHz it wakes up 250 ns before. Longer would average more noise away, which the runs'
# scatter shows; what another current within the reach makes of a fit is the same in every run, and nothing shows it.
EDGE_SPAN_TAUS = 0.25
EDGE_SPAN_MAX_S = 150e-9
_EDGE_SAMPLES_MIN = 3


def quiet_spans(
    windows: Sequence[Window], busy: Sequence[Window], record: Record, chain: Chain
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Find the quiet stretch before and after each window: begins and ends, empty where there is none.

    The DUT is not yet idle right after a window, and wakes up before the next: of the silence at either end of a
    segment the far half is taken, of that between two windows the middle half.
    """
    n_samples = record.n_samples
    margin = max(QUIET_MARGIN_TAUS * (chain.tau_s or 0.0) / chain.dt_s, _QUIET_MARGIN_SAMPLES)
    by_segment: dict[int, list[Window]] = {}
    for window in (*windows, *busy):
        by_segment.setdefault(window.segment, []).append(window)
    neighbours = {}
    for segment, found in by_segment.items():
        found.sort(key=lambda w: w.start)
        previous = [None, *found[:-1]]
        following = [*found[1:], None]
        neighbours.update({(segment, w.start): (p, f) for w, p, f in zip(found, previous, following, strict=True)})
    lost = [(s, first, first + length) for s, first, length in record.gaps]
    begins: list[np.ndarray] = []
    ends: list[np.ndarray] = []
    for after in (False, True):
        begin = np.zeros(len(windows), np.int64)
        end = np.zeros(len(windows), np.int64)
        for k, window in enumerate(windows):
            neighbour = neighbours[window.segment, window.start][after]
            if after:
                low, high = window.stop, n_samples - 0.5 if neighbour is None else neighbour.start
                inner = max(margin, (high - low) * (0.5 if neighbour is None else 0.25))
                first, last = low + inner, high - (0 if neighbour is None else inner)
            else:
                low, high = -0.5 if neighbour is None else neighbour.stop, window.start
                inner = max(margin, (high - low) * (0.5 if neighbour is None else 0.25))
                first, last = low + (0 if neighbour is None else inner), high - inner
            a, b = int(np.ceil(first + 0.5)), int(np.floor(last - 0.5)) + 1
            broken = any(s == window.segment and a < stop and b > start for s, start, stop in lost)
            if b - a >= _QUIET_SAMPLES_MIN and not broken:
                begin[k], end[k] = max(a, 0), min(b, n_samples)
        begins.append(begin)
        ends.append(end)
    return begins, ends


class EdgeFits:
    """The codes at the edges of each window, fitted to what lies on both sides; none where tau is not known.

    A core current that is constant on either side of an edge gives i(t) = i_edge + slope (1 - exp(-t/tau)) there, with
    a slope of its own before and after: least squares over both sides yields i_edge.
    """

    def __init__(self, chain: Chain, windows: Sequence[Window], n_samples: int) -> None:
        self.n = len(windows)
        self.channels = len(chain.channels)
        self.lost = np.zeros(self.n, bool)
        tau = (chain.tau_s or 0.0) / chain.dt_s
        self.tau = max(tau, _EDGE_SAMPLES_MIN)
        windows = windows if tau > 0 else []
        edges = [(w.segment, w.start, False, w.stop - w.start) for w in windows]
        edges += [(w.segment, w.stop, True, w.stop - w.start) for w in windows]
        half = max(min(EDGE_SPAN_TAUS * tau, EDGE_SPAN_MAX_S / chain.dt_s), _EDGE_SAMPLES_MIN)
        self.segment = np.array([e[0] for e in edges], np.int64)
        self.edge = np.array([e[1] for e in edges])
        before = np.array([min(half, e[3]) if e[2] else half for e in edges])
        after = np.array([half if e[2] else min(half, e[3]) for e in edges])
        self.begin = np.maximum(np.ceil(self.edge - before), 0).astype(np.int64)
        self.end = np.minimum(np.floor(self.edge + after) + 1, n_samples).astype(np.int64)
        self.codes: list[list[np.ndarray]] = [[] for _ in edges]

    def keep(self, k: int, pieces: list[np.ndarray]) -> None:
        """Take a stretch of codes, one array a channel, at edge k: the starts first, then the stops."""
        self.codes[k].append(np.array(pieces, np.float64))

    def at_edges(self, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the codes, less shift, at the start and the stop of each window: (windows, channels) each."""
        if not self.codes:
            return np.zeros((self.n, self.channels)), np.zeros((self.n, self.channels))
        values = np.zeros((2 * self.n, self.channels))
        for k, parts in enumerate(self.codes):
            codes = np.concatenate(parts, axis=1) - shift[:, None]
            good = np.isfinite(codes).all(axis=0)
            if not good.any():
                self.lost[k % self.n] = True
                continue
            t = ((np.arange(self.begin[k], self.end[k]) - self.edge[k]) / self.tau)[good]
            bend = np.expm1(-t)
            design = np.stack([np.ones_like(t), bend * (t < 0), bend * (t >= 0)], axis=1)
            values[k] = codes[:, good] @ np.linalg.pinv(design)[0]
        return values[: self.n], values[self.n :]
