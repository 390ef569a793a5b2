"""What readings of a reference tell: a steady level, the delay between two channels, the length of known pulses.

A linear front end delays the integral of what passes through it by the centroid of its impulse response, whatever the
waveform: v = h * u gives the integral of v up to T as that of u up to T - t0 for a u that is constant about T, with t0
the integral of t h(t) dt, which is the centroid of the derivative of its step response, and the area between a step
and that response. A charge is such an integral, so the centroid of an edge is what the shunt's channel is late by. The
windows' edges are crossings of a threshold, so the crossing is what the trigger's channel is late by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instruments.record import Channel, Record
from labctl.analysis import kernels
from labctl.analysis.grid import code_step
from labctl.analysis.statistics import summarize
from labctl.analysis.trigger import channel_of
from labctl.analysis.uncertainty import DITHER_CODES, edge_phase, edge_resolution
from labctl.errors import CaptureError

# Means of so many stretches tell how uncertain the mean of all is, however neighbouring samples are correlated: 10 to
# 30 of them (Schmeiser, Batch size effects in the analysis of simulation output, Operations Research 30, 1982).
N_BATCHES = 30
_HYSTERESIS_RATIO = 0.1
# Both levels of a pulse are read over these outer parts of a record whose edge lies in its middle.
_PLATEAU_RATIO = 0.25


@dataclass(frozen=True)
class Level:
    """A steady level in its channel's unit.

    `standard` is the standard error of the mean, with `degrees_of_freedom`; `rounding` the standard uncertainty from
    quantisation, 0 where noise spreads it evenly. `std` is the spread of single samples and `n` their number.
    """

    mean: float
    standard: float
    degrees_of_freedom: float
    rounding: float
    std: float
    n: int


@dataclass(frozen=True)
class Delay:
    """How much later one channel shows an edge than another, over `n` edges, in seconds.

    `standard_s` is the standard error of the mean, `resolution_s` what the sample clock leaves uncertain, `shape_s`
    the distance of the centroid from the crossing of the early channel's edge: how far apart two instants lie that
    both may be called that of the edge.
    """

    value_s: float
    standard_s: float
    resolution_s: float
    shape_s: float
    n: int


@dataclass(frozen=True)
class Stretch:
    """True time over the instrument's time, less one; standard uncertainties as ratios, over `n` pulses."""

    value_ratio: float
    standard_ratio: float
    resolution_ratio: float
    n: int


def steady(channel: Channel) -> Level:
    """Read a level that does not change. Raises CaptureError for clipped samples, and for those that are no number."""
    codes = channel.codes
    n_segments, n_samples = codes.shape
    n = n_segments * n_samples
    per_segment = max(1, min(n_samples, -(-N_BATCHES // n_segments)))
    cuts = np.linspace(0, n_samples, per_segment + 1).astype(np.int64)
    spans = kernels.Spans(
        np.repeat(np.arange(n_segments), per_segment), np.tile(cuts[:-1], n_segments), np.tile(cuts[1:], n_segments)
    )
    (sums,), _ = kernels.sum_spans([codes], spans, clip_limits=[(channel.code_min, channel.code_max)])
    n_bad = int(sums.n_clipped.sum() + sums.n_nan.sum())
    if n_bad:
        raise CaptureError(
            f"{n_bad} of {n} samples of {channel.name} are clipped or lost: take a larger range, or another offset"
        )
    # Python's integers: exact for any number of codes.
    total, squares = sum(sums.total.tolist()), sum(sums.squares.tolist())
    std = math.sqrt(max((n * squares - total * total) / (n * max(n - 1, 1)), 0.0))
    means = sums.total / sums.n
    batches = len(means)
    standard = float(np.std(means, ddof=1)) / math.sqrt(batches) if batches > 1 else std
    step = code_step(channel)
    rounding = step / math.sqrt(12) if std < DITHER_CODES * step else 0.0
    scale = abs(channel.scale)
    return Level(total / n * channel.scale + channel.offset, standard * scale, max(batches - 1, 1), rounding * scale,
                 std * scale, n)


def delay(record: Record, early: str, late: str) -> Delay:
    """Measure how much later `late` shows the rising edge in each segment than `early` does.

    The edge of `late` is its centroid, that of `early` its crossing of the middle between its two levels; see above.
    Both lie in the middle half of the segment, whose outer quarters are steady. Raises CaptureError where they do not.
    """
    assert record.dt_s is not None
    crossing, early_centroid = _edges(channel_of(record, early))
    _, centroid = _edges(channel_of(record, late))
    found = summarize(centroid - crossing)
    return Delay(
        found.mean * record.dt_s,
        found.se * record.dt_s,
        _resolution_s(found.std * record.dt_s, record.dt_s),
        float(np.mean(early_centroid - crossing)) * record.dt_s,
        found.n,
    )


def stretch(true_s: Sequence[float] | np.ndarray, seen_s: Sequence[float] | np.ndarray, dt_s: float) -> Stretch:
    """Compare known lengths with those seen between two edges on a sample clock of interval `dt_s`."""
    true, seen = np.asarray(true_s, np.float64), np.asarray(seen_s, np.float64)
    found = summarize(seen / true)
    resolution = _resolution_s(found.std * float(true.mean()), dt_s) / float(true.mean())
    return Stretch(1 / found.mean - 1, found.se, resolution, found.n)


def _resolution_s(std_s: float, dt_s: float) -> float:
    """Give what the sample clock leaves uncertain between two edges; a spread of half of it shows that it is dithered.

    Same rule as for windows: whole where the values agree so well that no phase can have dithered them.
    """
    whole_s = edge_resolution(dt_s)
    return whole_s if std_s < whole_s / 2 else edge_phase(dt_s)


def _edges(channel: Channel) -> tuple[np.ndarray, np.ndarray]:
    """Find crossing and centroid of the one rising edge in each segment, in samples; (segments,) each."""
    codes = np.asarray(channel.codes)
    n_segments, n_samples = codes.shape
    begin, end = int(_PLATEAU_RATIO * n_samples), int((1 - _PLATEAU_RATIO) * n_samples)
    if channel.code_min is not None and channel.code_max is not None:
        n_clipped = int(np.count_nonzero((codes <= channel.code_min) | (codes >= channel.code_max)))
        if n_clipped:
            raise CaptureError(
                f"the pulse leaves the screen of {channel.name} ({n_clipped} clipped samples): set the generator to "
                "the level of the board's trigger pin"
            )
    low = codes[:, :begin].mean(axis=1)
    high = codes[:, end:].mean(axis=1)
    swing = float((high - low).mean())
    noise = float(codes[:, :begin].std())
    if not swing * channel.scale > 0 or abs(swing) < 1 + 10 * noise:
        raise CaptureError(
            f"{channel.name} shows no rising edge ({swing * channel.scale:.3g} {channel.unit} between the ends of the "
            "record): connect the generator to this channel, with positive pulses"
        )
    threshold = float((low + high).mean()) / 2
    edges = kernels.edges_from_codes(codes, threshold, _HYSTERESIS_RATIO * abs(swing))
    alone = len(edges.position) == n_segments and np.array_equal(edges.segment, np.arange(n_segments))
    if not alone or not ((edges.position > begin) & (edges.position < end - 1)).all():
        raise CaptureError(
            f"{channel.name} shows {len(edges.position)} edges in {n_segments} records of one pulse each, or one too "
            "far from the trigger: check the generator, its cable and its termination"
        )
    # An ideal step at p has the samples from p on at one: their number is end - 1/2 - p on average over its phase.
    risen = (codes[:, begin:end].sum(axis=1, dtype=np.float64) - (end - begin) * low) / (high - low)
    return edges.position, end - 0.5 - risen
