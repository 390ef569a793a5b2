"""From windows to energy: one pass over the codes, then what each run drew and what the line did around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instruments.record import Record
from labctl.analysis import kernels, statistics
from labctl.analysis.chain import Chain, Deviation, Moments, resolve
from labctl.analysis.trigger import MIN_SAMPLES, Refusal, check_complete, in_gap, nothing_left
from labctl.errors import CaptureError, ConfigError
from labctl.model import Run, Window, Wiring

# A quiet span keeps this many time constants away from the edges: exp(-5) is below 1 % of a step.
QUIET_MARGIN_TAUS = 5
_QUIET_MARGIN_SAMPLES = 5
_QUIET_SAMPLES_MIN = 10
# The current at an edge is fitted over this many time constants on each side. Longer averages more noise away, but
# reaches further into what the core does before and after: its instructions change within microseconds.
EDGE_SPAN_TAUS = 0.25
_EDGE_SAMPLES_MIN = 3
_VISIT_SAMPLES = 1 << 16


@dataclass(frozen=True)
class Measurement:
    """The runs of one record, what was refused, and the sums behind them (for budgets).

    `code_std` is the spread of each channel's codes inside the windows, in codes.
    """

    runs: tuple[Run, ...]
    refusals: tuple[Refusal, ...]
    n_clipped: int
    moments: Moments
    chain: Chain
    code_std: np.ndarray


def measure_windows(
    record: Record,
    wiring: Wiring,
    windows: Sequence[Window],
    *,
    zero: Record | None = None,
    power: str = "dut",
    busy: Sequence[Window] = (),
    block_samples: int = kernels.BLOCK_SAMPLES,
) -> Measurement:
    """Measure each window in one pass over the codes.

    `zero` is a reading with no current at the same range and offset; its mean is taken off the shunt's channels.
    `power`, "dut" or "supply", chooses whose extremes and ripple the runs carry. `busy` are further stretches, cut
    windows for instance, that quiet spans must not touch. A window with clipped codes, lost samples or too few of
    them is refused. Raises CaptureError where none is left.
    """
    if power not in ("dut", "supply"):
        raise ConfigError(f'power is {power!r}; it is "dut" or "supply"')
    check_complete(record, "window")
    chain = resolve(record, wiring, zero)
    windows = list(windows)
    n = len(windows)
    n_samples = record.n_samples
    segment = np.array([w.segment for w in windows], np.int64)
    start = np.array([w.start for w in windows])
    stop = np.array([w.stop for w in windows])
    begin = np.floor(start + 0.5).astype(np.int64)
    end = np.minimum(np.ceil(stop + 0.5).astype(np.int64), n_samples)
    quiet_begin, quiet_end = _quiet_spans(windows, busy, record, chain)
    edges = _EdgeFits(chain, windows, n_samples)
    spans = kernels.Spans(
        np.concatenate([segment, segment, segment, edges.segment]),
        np.concatenate([begin, quiet_begin[0], quiet_begin[1], edges.begin]),
        np.concatenate([end, quiet_end[0], quiet_end[1], edges.end]),
    )
    extremes = _Extremes(chain, n, power) if len(chain.channels) > 1 else None

    def visit(k: int, pieces: list[np.ndarray]) -> None:
        if k >= 3 * n:
            edges.keep(k - 3 * n, pieces)
        elif k < n and extremes is not None:
            extremes.see(k, pieces)

    sums, cross = kernels.sum_spans(
        [c.codes for c in chain.channels],
        spans,
        clip_limits=[(c.code_min, c.code_max) for c in chain.channels],
        visit=visit,
        block_samples=block_samples,
    )
    moments = _weigh(sums, cross, (start, stop, begin, end), edges)
    n_clipped = np.sum([s.n_clipped[:n] for s in sums], axis=0)
    n_nan = np.sum([s.n_nan[:n] for s in sums], axis=0)
    refusals = []
    for k, window in enumerate(windows):
        lost = in_gap(window, record.gaps) + int(n_nan[k]) + int(edges.lost[k])
        if n_clipped[k]:
            refusals.append(Refusal(window.segment, "clipped samples", f"{n_clipped[k]} inside the window", window))
        elif lost:
            refusals.append(Refusal(window.segment, "gap", f"{lost} samples lost inside the window", window))
        elif window.stop - window.start < MIN_SAMPLES:
            detail = f"{window.stop - window.start:.1f} samples in the window, {MIN_SAMPLES} needed"
            refusals.append(Refusal(window.segment, "too few samples", detail, window))
    bad = {id(r.window) for r in refusals}
    keep = np.array([id(w) not in bad for w in windows], bool)
    if not keep.any():
        raise nothing_left(refusals, "/".join(c.name for c in chain.channels))
    quiet = [_quiet(chain, sums, slice((1 + j) * n, (2 + j) * n), power) for j in (0, 1)]
    bounds = _affine_bounds(chain, sums[0], n, power) if extremes is None else extremes.bounds()
    runs = _runs(chain, record, windows, moments, n_clipped, bounds, quiet, power)
    kept = Moments(moments.shift, *(a[keep] for a in
                                    (moments.weight, moments.first, moments.second, moments.start, moments.stop)))
    variance = np.diagonal(_covariance(kept), axis1=1, axis2=2).mean(axis=0)
    return Measurement(
        tuple(r for r, ok in zip(runs, keep, strict=True) if ok),
        tuple(refusals),
        int(np.sum(n_clipped)),
        kept,
        chain,
        np.sqrt(np.maximum(variance, 0.0)),
    )


def current_percentiles(
    record: Record,
    wiring: Wiring,
    windows: Sequence[Window],
    ratios: Sequence[float],
    *,
    zero: Record | None = None,
) -> np.ndarray:
    """Give percentiles of the current over the samples of each window, exact: shape (windows, ratios), in ampere.

    Raises ConfigError unless a single channel of 8-bit codes carries the drop: only that has a histogram.
    """
    chain = resolve(record, wiring, zero)
    dtype = np.dtype(chain.channels[0].codes.dtype)
    if np.count_nonzero(chain.sign) != 1 or dtype.kind not in "iu" or dtype.itemsize != 1:
        raise ConfigError(f"percentiles need one channel of 8-bit codes, and {chain.channels[0].name} holds {dtype}")
    least = int(np.iinfo(dtype).min)
    counts = np.zeros((len(windows), 256), np.int64)
    spans = kernels.Spans(
        np.array([w.segment for w in windows], np.int64),
        np.array([int(np.ceil(w.start)) for w in windows], np.int64),
        np.array([int(np.floor(w.stop)) + 1 for w in windows], np.int64),
    )
    kernels.sum_spans(
        [chain.channels[0].codes], spans, visit=lambda k, pieces: kernels.histogram(pieces[0], least, counts[k])
    )
    a, a0, _, _ = chain.forms(np.zeros(len(chain.channels)), Deviation())
    rising = a[0] > 0
    # Where the current falls with the code, the order of samples turns round.
    codes = np.array([
        statistics.percentiles(row, ratios) + least if rising else
        least + 255 - statistics.percentiles(row[::-1], ratios) for row in counts
    ])
    return (a[0] * codes + a0) * chain.current_per_unit


def _quiet_spans(
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


class _EdgeFits:
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
        half = max(EDGE_SPAN_TAUS * tau, _EDGE_SAMPLES_MIN)
        self.segment = np.array([e[0] for e in edges], np.int64)
        self.edge = np.array([e[1] for e in edges])
        before = np.array([min(half, e[3]) if e[2] else half for e in edges])
        after = np.array([half if e[2] else min(half, e[3]) for e in edges])
        self.begin = np.maximum(np.ceil(self.edge - before), 0).astype(np.int64)
        self.end = np.minimum(np.floor(self.edge + after) + 1, n_samples).astype(np.int64)
        self.codes: list[list[np.ndarray]] = [[] for _ in edges]

    def keep(self, k: int, pieces: list[np.ndarray]) -> None:
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


def _weigh(
    sums: list[kernels.Sums],
    cross: dict[tuple[int, int], np.ndarray],
    windows: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    edges: _EdgeFits,
) -> Moments:
    """Turn sums over whole samples into integrals over exactly the windows (start, stop, begin, end)."""
    start, stop, begin, end = windows
    n = len(start)
    outside_first = 1 - (begin + 0.5 - start)
    outside_last = 1 - (stop - (end - 1) + 0.5)
    # Subtracting a whole mean keeps the second moments exact integers, and small.
    shift = np.array([
        0 if s.total.dtype.kind == "f" else round(int(s.total[:n].sum()) / max(int(s.n[:n].sum()), 1)) for s in sums
    ])
    first = np.empty((n, len(sums)))
    second = np.empty((n, len(sums), len(sums)))
    for i, s in enumerate(sums):
        a, b = s.first[:n] - shift[i], s.last[:n] - shift[i]
        first[:, i] = (s.total[:n] - shift[i] * s.n[:n]) - outside_first * a - outside_last * b
        for j in range(i, len(sums)):
            t = sums[j]
            products = s.squares[:n] if i == j else cross[i, j][:n]
            whole = products - shift[i] * t.total[:n] - shift[j] * s.total[:n] + shift[i] * shift[j] * s.n[:n]
            part = outside_first * a * (t.first[:n] - shift[j]) + outside_last * b * (t.last[:n] - shift[j])
            second[:, i, j] = second[:, j, i] = whole - part
    return Moments(shift, stop - start, first, second, *edges.at_edges(shift))


def _covariance(m: Moments) -> np.ndarray:
    """Give the covariance of the channels' codes inside each window, (windows, channels, channels)."""
    mean = m.first / m.weight[:, None]
    return m.second / m.weight[:, None, None] - mean[:, :, None] * mean[:, None, :]


@dataclass(frozen=True)
class _Bounds:
    """Least and greatest current and power in each window."""

    current: tuple[np.ndarray, np.ndarray]
    power: tuple[np.ndarray, np.ndarray]


def _affine_bounds(chain: Chain, sums: kernels.Sums, n: int, power: str) -> _Bounds:
    """Read the extremes of current and power off those of a single channel's codes.

    The DUT's power rises with the drop as long as that is below half the supply, which any sane shunt keeps.
    """
    a, a0, _, voltage_v = chain.forms(np.zeros(1), Deviation())
    x = np.sort(np.stack([a[0] * sums.low[:n] + a0, a[0] * sums.high[:n] + a0]), axis=0)
    p = np.sort(chain.power_w(x, voltage_v, power), axis=0)
    return _Bounds((x[0] * chain.current_per_unit, x[1] * chain.current_per_unit), (p[0], p[1]))


class _Extremes:
    """Least and greatest current and power where several channels make them, seen sample by sample."""

    def __init__(self, chain: Chain, n: int, power: str) -> None:
        self.chain = chain
        self.kind = power
        self.low = np.full((2, n), np.inf)
        self.high = np.full((2, n), -np.inf)
        self.forms = chain.forms(np.zeros(len(chain.channels)), Deviation())

    def see(self, k: int, pieces: list[np.ndarray]) -> None:
        a, a0, b, b0 = self.forms
        for begin in range(0, len(pieces[0]), _VISIT_SAMPLES):
            codes = np.stack([p[begin : begin + _VISIT_SAMPLES] for p in pieces]).astype(np.float64)
            x = a @ codes + a0
            for row, values in enumerate((
                x * self.chain.current_per_unit, self.chain.power_w(x, b @ codes + b0, self.kind)
            )):
                self.low[row, k] = np.fmin(self.low[row, k], np.fmin.reduce(values))
                self.high[row, k] = np.fmax(self.high[row, k], np.fmax.reduce(values))

    def bounds(self) -> _Bounds:
        return _Bounds((self.low[0], self.high[0]), (self.low[1], self.high[1]))


def _quiet(chain: Chain, sums: list[kernels.Sums], part: slice, power: str) -> tuple[np.ndarray, np.ndarray]:
    """Give mean current and power of quiet spans, NaN where there is none."""
    a, a0, b, b0 = chain.forms(np.zeros(len(sums)), Deviation())
    n = np.stack([s.n[part] for s in sums], axis=1)
    total = np.stack([s.total[part] for s in sums], axis=1)
    mean = np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0)
    x = mean @ a + a0
    return x * chain.current_per_unit, chain.power_w(x, mean @ b + b0, power)


def _runs(
    chain: Chain,
    record: Record,
    windows: Sequence[Window],
    moments: Moments,
    n_clipped: np.ndarray,
    bounds: _Bounds,
    quiet: Sequence[tuple[np.ndarray, np.ndarray]],
    power: str,
) -> list[Run]:
    """Put the numbers of each window together.

    The shunt sees the current blunted by the decoupling, so its extremes are bounds: the core's own maximum is no
    less, its minimum no more, than its mean, which the decoupling's charge has corrected.
    """
    flow = chain.flow(moments)
    a, a0, b, b0 = chain.forms(moments.shift, Deviation())
    x = moments.first @ a / moments.weight + a0
    voltage_v = moments.first @ b / moments.weight + b0
    spread = _covariance(moments)
    # First order in the spread: exact for a power that is affine in the codes.
    slope = (
        np.outer(voltage_v + 2 * chain.drop_sign(power) * x, a) + np.outer(x, b)
    ) * chain.current_per_unit
    ripple = np.sqrt(np.maximum(np.einsum("ni,nij,nj->n", slope, spread, slope), 0.0))
    if chain.resistance_ohm is not None and chain.sensed == "source" and np.median(x) > np.median(voltage_v):
        raise CaptureError(
            f"a drop of {np.median(x):.3g} V across the shunt exceeds the supply of {np.median(voltage_v):.3g} V: "
            "check the shunt's channel, the probe ratio and the supply"
        )
    current = flow.charge_c / flow.duration_s
    power_dut = flow.energy_j / flow.duration_s
    power_supply = flow.energy_supply_j / flow.duration_s
    headline = power_dut if power == "dut" else power_supply
    start_s = [float(record.segment_start_s[w.segment]) + w.start * chain.dt_s for w in windows]

    def known(values: np.ndarray, k: int) -> float | None:
        return None if np.isnan(values[k]) else float(values[k])

    return [
        Run(
            segment=window.segment,
            start_s=start_s[k],
            stop_s=start_s[k] + float(flow.duration_s[k]),
            duration_s=float(flow.duration_s[k]),
            n_samples=float(moments.weight[k]),
            n_clipped=int(n_clipped[k]),
            current_mean_a=float(current[k]),
            current_min_a=float(min(bounds.current[0][k], current[k])),
            current_max_a=float(max(bounds.current[1][k], current[k])),
            power_w=float(power_dut[k]),
            power_supply_w=float(power_supply[k]),
            power_min_w=float(min(bounds.power[0][k], headline[k])),
            power_max_w=float(max(bounds.power[1][k], headline[k])),
            power_ripple_w=float(ripple[k]),
            energy_j=float(flow.energy_j[k]),
            energy_supply_j=float(flow.energy_supply_j[k]),
            charge_c=float(flow.charge_c[k]),
            current_before_a=known(quiet[0][0], k),
            current_after_a=known(quiet[1][0], k),
            power_before_w=known(quiet[0][1], k),
            power_after_w=known(quiet[1][1], k),
        )
        for k, window in enumerate(windows)
    ]
