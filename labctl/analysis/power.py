"""From windows to energy: one pass over the codes, then what each run drew and what the line did around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from instruments.record import Record
from labctl.analysis import kernels
from labctl.analysis.chain import Chain, Deviation, Moments, resolve
from labctl.analysis.moments import SpanSums, Stretches, covariance, lengthened, mean_codes, weigh, whole_inside
from labctl.analysis.ripple import Ripple
from labctl.analysis.spans import EdgeFits, quiet_spans
from labctl.analysis.trigger import MIN_SAMPLES, Refusal, check_complete, in_gap, nothing_left
from labctl.errors import CaptureError, ConfigError
from labctl.model import Calibration, Run, Window, Wiring

_VISIT_SAMPLES = 1 << 16
# What rounding may take off the length of a window of exactly so many samples.
_ROUNDING_RATIO = 1e-9


@dataclass(frozen=True)
class Measurement:
    """The runs of one record, what was refused, and the sums behind them (for budgets).

    `code_std` is the spread of each channel's codes inside the windows, in codes. `ripple_w` is the power's standard
    deviation inside the windows once the decoupling has settled (`ripple`), over all of them, less the instrument's
    noise `noise_w` that the zero reading shows (None without one: the noise is still in the ripple); None where no
    window is long enough.
    """

    runs: tuple[Run, ...]
    refusals: tuple[Refusal, ...]
    n_clipped: int
    moments: Moments
    chain: Chain
    code_std: np.ndarray
    ripple_w: float | None
    noise_w: float | None


def measure_windows(
    record: Record,
    wiring: Wiring,
    windows: Sequence[Window],
    *,
    zero: Record | None = None,
    power: str = "dut",
    busy: Sequence[Window] = (),
    calibrations: Sequence[Calibration] = (),
    block_samples: int = kernels.BLOCK_SAMPLES,
) -> Measurement:
    """Measure each window in one pass over the codes.

    `zero` is a reading with no current at the same range and offset; its mean is taken off the shunt's channels.
    `power`, "dut" or "supply", chooses whose extremes and ripple the runs carry. `busy` are further stretches, cut
    windows for instance, that quiet spans must not touch. `calibrations` are those in force. A
    window with clipped codes, lost samples or too few of them is refused. Raises CaptureError where none is left.
    """
    if power not in ("dut", "supply"):
        raise ConfigError(f'power is {power!r}; it is "dut" or "supply"')
    check_complete(record, "window")
    chain = resolve(record, wiring, zero, calibrations)
    windows, busy = _deskewed(windows, chain), _deskewed(busy, chain)
    n = len(windows)
    n_samples = record.n_samples
    segment = np.array([w.segment for w in windows], np.int64)
    start = np.array([w.start for w in windows])
    stop = np.array([w.stop for w in windows])
    first, last = whole_inside(start, stop) if record.granted.get("averages") else (start, stop)
    begin = np.floor(first + 0.5).astype(np.int64)
    end = np.minimum(np.ceil(last + 0.5).astype(np.int64), n_samples)
    whole = Stretches(first, last, begin, end)
    quiet_begin, quiet_end = quiet_spans(windows, busy, record, chain)
    ripples = Ripple(chain, segment, whole)
    edges = EdgeFits(chain, windows, n_samples)
    spans = kernels.Spans(
        np.concatenate([segment, segment, segment, ripples.heads.segment, edges.segment]),
        np.concatenate([begin, quiet_begin[0], quiet_begin[1], ripples.heads.start, edges.begin]),
        np.concatenate([end, quiet_end[0], quiet_end[1], ripples.heads.stop, edges.end]),
    )
    extremes = _Extremes(chain, n, power) if len(chain.channels) > 1 else None

    def visit(k: int, pieces: list[np.ndarray]) -> None:
        if k >= 4 * n:
            edges.keep(k - 4 * n, pieces)
        elif k < n and extremes is not None:
            extremes.see(k, pieces)

    sums, cross = kernels.sum_spans(
        [c.codes for c in chain.channels],
        spans,
        clip_limits=[(c.code_min, c.code_max) for c in chain.channels],
        visit=visit,
        block_samples=block_samples,
    )
    shift = mean_codes(sums, n)
    moments = lengthened(weigh((sums, cross), whole, shift, edges.at_edges(shift)), stop - start)
    n_clipped = np.sum([s.n_clipped[:n] for s in sums], axis=0)
    n_nan = np.sum([s.n_nan[:n] for s in sums], axis=0)
    refusals = []
    for k, window in enumerate(windows):
        lost = in_gap(window, record.gaps) + int(n_nan[k]) + int(edges.lost[k])
        if n_clipped[k]:
            refusals.append(Refusal(window.segment, "clipped samples", f"{n_clipped[k]} inside the window", window))
        elif lost:
            refusals.append(Refusal(window.segment, "gap", f"{lost} samples lost inside the window", window))
        elif window.stop - window.start < MIN_SAMPLES * (1 - _ROUNDING_RATIO):
            detail = f"{window.stop - window.start:.1f} samples in the window, {MIN_SAMPLES} needed"
            refusals.append(Refusal(window.segment, "too few samples", detail, window))
    bad = {id(r.window) for r in refusals}
    keep = np.array([id(w) not in bad for w in windows], bool)
    if not keep.any():
        raise nothing_left(refusals, "/".join(c.name for c in chain.channels))
    quiet = [_quiet(chain, sums, slice((1 + j) * n, (2 + j) * n), power) for j in (0, 1)]
    bounds = _affine_bounds(chain, sums[0], n, power) if extremes is None else extremes.bounds()
    ripple, noise = ripples.variance(_part((sums, cross), 0, n), _part((sums, cross), 3 * n, 4 * n), shift, power)
    runs = _runs(chain, record, windows, moments, n_clipped, bounds, quiet, ripple - noise, power)
    kept = Moments(moments.shift, *(a[keep] for a in
                                    (moments.weight, moments.first, moments.second, moments.start, moments.stop)))
    variance = np.diagonal(covariance(kept), axis1=1, axis2=2).mean(axis=0)
    return Measurement(
        tuple(r for r, ok in zip(runs, keep, strict=True) if ok),
        tuple(refusals),
        int(np.sum(n_clipped)),
        kept,
        chain,
        np.sqrt(np.maximum(variance, 0.0)),
        _root_mean((ripple - noise)[keep & ripples.told]),
        math.sqrt(float(np.mean(noise[keep]))) if chain.zeroed else None,
    )


def _deskewed(windows: Sequence[Window], chain: Chain) -> list[Window]:
    """Move windows of the trigger's channel to where the shunt's channel shows the same instants."""
    shift = chain.skew_s / chain.dt_s
    return [replace(w, start=w.start + shift, stop=w.stop + shift) for w in windows] if shift else list(windows)


def _part(found: SpanSums, begin: int, end: int) -> SpanSums:
    """Give the sums of some of the spans."""
    sums, cross = found
    return [s.part(begin, end) for s in sums], {pair: values[begin:end] for pair, values in cross.items()}


def _root_mean(variances: np.ndarray) -> float | None:
    """Give the standard deviation of a mean variance, None where there is none."""
    return math.sqrt(max(float(np.mean(variances)), 0.0)) if len(variances) else None


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
    ripple_variance: np.ndarray,
    power: str,
) -> list[Run]:
    """Put the numbers of each window together.

    Extremes are those of single samples, the instrument's noise in them. The shunt sees the current blunted by the
    decoupling, so they are bounds: the core's own maximum is no less, its minimum no more, than its mean, which the
    decoupling's charge has corrected.
    """
    flow = chain.flow(moments)
    x, voltage_v = chain.means(moments)
    ripple = np.sqrt(np.maximum(ripple_variance, 0.0))  # of NaN it is NaN
    if chain.resistance_ohm is not None and chain.sensed == "source" and np.median(x) > np.median(voltage_v):
        raise CaptureError(
            f"a drop of {np.median(x):.3g} V across the shunt exceeds the supply of {np.median(voltage_v):.3g} V: "
            "check the shunt's channel, the probe ratio and the supply"
        )
    current = flow.charge_c / flow.duration_s
    power_dut = flow.energy_j / flow.duration_s
    power_supply = flow.energy_supply_j / flow.duration_s
    headline = power_dut if power == "dut" else power_supply
    start_s = [float(record.segment_start_s[w.segment]) + w.start * chain.dt_s - chain.skew_s for w in windows]

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
            power_ripple_w=known(ripple, k),
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
