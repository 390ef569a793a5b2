"""From the trigger line to windows: where each operation begins and ends, and what is refused, with the remedy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from instruments.record import Channel, Record
from labctl.analysis import kernels
from labctl.errors import CaptureError, ConfigError
from labctl.model import Window, Wiring

MIN_SAMPLES = 20
# Of normal noise, a band of a tenth of its range about the middle holds a fifth of the samples or more; a line that
# switches at most one sample in twenty is there for a moment.
_MIDDLE_RATIO_MAX = 0.15
_HYSTERESIS_RATIO = 0.1
# A line that moves by less than this part of the pin's swing has not switched.
_SWING_RATIO_MIN = 0.4

REMEDIES = {
    "no trigger edge": "check that the trigger channel sees the board's trigger pin, its probe, and the threshold",
    "trigger stuck": "check the trigger pin, its probe and the threshold: the line is active from start to end",
    "trigger inverted": "in the bench file, or --edge for a file of another tool",
    "one edge, window cut by the start of the record": "record more time before the trigger",
    "one edge, window cut by the end of the record": "lengthen the record, or lower the sample rate",
    "extra trigger edge": "look for glitches or ringing on the trigger line: more hysteresis, a bandwidth limit, or a "
    "better ground",
    "too few samples": "raise the sample rate, or repeat the operation in each window (--iterations 10)",
    "clipped samples": "take a larger range, or another offset",
    "gap": "record again: samples were lost inside the window",
}


@dataclass(frozen=True)
class Refusal:
    """A window, or a segment, from which no honest number comes: why, in words that REMEDIES knows, and where."""

    segment: int
    reason: str
    detail: str
    window: Window | None = None


@dataclass(frozen=True)
class Threshold:
    """Where a trigger channel is cut, in its unit; `hysteresis` is the full width."""

    level: float
    hysteresis: float
    low: float
    high: float


def check_edge(edge: str) -> None:
    """Raise ConfigError unless `edge` is "rising" or "falling"."""
    if edge not in ("rising", "falling"):
        raise ConfigError(f'trigger_edge is {edge!r}; it is "rising" (active high) or "falling" (active low)')


def find_edges(
    channel: Channel,
    threshold: float | None = None,
    hysteresis: float | None = None,
    swing: float | None = None,
    block_samples: int = kernels.BLOCK_SAMPLES,
) -> tuple[kernels.Edges, Threshold]:
    """Find every edge of a channel, interpolated at the threshold.

    `threshold` and `hysteresis` are in the channel's unit, by default the middle and a tenth of what the line does;
    `swing` is what the pin's two levels differ by, where known. Codes that carry the answer for these in an attribute
    `trigger` (`asked`, `edges`, `cut`), as those from a capture file do, are not searched again. Raises CaptureError
    where the line does not switch, ConfigError for a threshold or hysteresis that cannot be.
    """
    codes = channel.codes
    if channel.kind == "digital":
        swing = None  # the pin's levels are in volt, those of a logic input are not
    stored = getattr(codes, "trigger", None)
    if stored is not None and stored.asked == (threshold, hysteresis):
        _check_swing(channel, stored.cut.low, stored.cut.high, swing)
        return stored.edges, stored.cut
    chosen = threshold is None and channel.kind != "digital"
    if channel.kind == "digital":
        threshold = channel.offset + channel.scale / 2 if threshold is None else threshold
        hysteresis = 0.0 if hysteresis is None else hysteresis
    if threshold is None or hysteresis is None:
        low, high = _values(channel, *kernels.code_extremes(codes, block_samples))
        threshold = (low + high) / 2 if threshold is None else threshold
        hysteresis = _HYSTERESIS_RATIO * (high - low) if hysteresis is None else hysteresis
    if not math.isfinite(threshold) or not 0 <= hysteresis < math.inf:
        raise ConfigError(f"threshold {threshold} and hysteresis {hysteresis} must be numbers, hysteresis not negative")
    edges = kernels.edges_from_codes(
        codes, (threshold - channel.offset) / channel.scale, abs(hysteresis / channel.scale), block_samples
    )
    low, high = _values(channel, edges.low, edges.high)
    _check_swing(channel, low, high, swing)
    if len(edges.position) == 0:
        raise _no_edge(channel, f"{_levels(channel, low, high)}; the threshold is {threshold:.4g} {channel.unit}")
    n_total = codes.shape[0] * codes.shape[1]
    if chosen and edges.n_middle > _MIDDLE_RATIO_MAX * n_total:
        raise _no_edge(channel, f"{_levels(channel, low, high)} without two distinct levels")
    turned = channel.scale < 0
    edges = replace(edges, rising=edges.rising ^ turned, level=edges.level ^ turned, low=low, high=high)
    return edges, Threshold(threshold, hysteresis, low, high)


def _values(channel: Channel, least: float, most: float) -> tuple[float, float]:
    """Turn the extreme codes into the channel's unit. Raises CaptureError where no code is a number."""
    if least > most:
        raise _no_edge(channel, "holds no sample that is a number")
    low, high = sorted((least * channel.scale + channel.offset, most * channel.scale + channel.offset))
    return low, high


def _levels(channel: Channel, low: float, high: float) -> str:
    return f"stays between {low:.4g} {channel.unit} and {high:.4g} {channel.unit}"


def _check_swing(channel: Channel, low: float, high: float, swing: float | None) -> None:
    if high == low or (swing is not None and high - low < _SWING_RATIO_MIN * swing):
        raise _no_edge(channel, _levels(channel, low, high))


def _no_edge(channel: Channel, what: str) -> CaptureError:
    return CaptureError(f"no trigger edge on {channel.name}: it {what}; {REMEDIES['no trigger edge']}")


def find_windows(
    record: Record,
    wiring: Wiring,
    *,
    expected: int | None = None,
    expected_duration_s: float | None = None,
    swing: float | None = None,
    block_samples: int = kernels.BLOCK_SAMPLES,
) -> tuple[list[Window], list[Refusal]]:
    """Find the windows of a record, in order; without a trigger channel each whole segment is one.

    A record of several segments holds one window in each. In a single segment their number is `expected`, or whatever
    there is. `expected_duration_s` is how long the DUT says that an operation takes: it tells a cut window from an
    inverted trigger. Raises CaptureError where no window is left, or their number is not the one expected.
    """
    check_edge(wiring.trigger_edge)
    n_segments, n_samples = record.n_segments, record.n_samples
    if wiring.trigger_channel is None:
        return [Window(s, -0.5, n_samples - 0.5) for s in range(n_segments)], []
    channel = channel_of(record, wiring.trigger_channel)
    edges, cut = find_edges(channel, wiring.threshold, wiring.hysteresis, swing, block_samples)
    active = edges.rising == (wiring.trigger_edge == "rising")
    start_active = edges.level == (wiring.trigger_edge == "rising")
    single = n_segments > 1 or expected == 1
    windows: list[Window] = []
    refusals: list[Refusal] = []
    limits = np.searchsorted(edges.segment, np.arange(n_segments + 1))
    expected_samples = None
    if expected_duration_s is not None and record.dt_s is not None:
        expected_samples = expected_duration_s / record.dt_s
    for segment in range(n_segments):
        part = slice(limits[segment], limits[segment + 1])
        found, refused = _pair(
            segment, edges.position[part], active[part], bool(start_active[segment]), n_samples, wiring.trigger_edge,
            single, expected_samples,
        )
        windows += found
        refusals += refused
    if not single and expected is not None and len(windows) != expected:
        raise CaptureError(_wrong_number(channel.name, len(windows), expected, refusals))
    short = [w for w in windows if w.stop - w.start < MIN_SAMPLES]
    refusals += [
        Refusal(w.segment, "too few samples", f"{w.stop - w.start:.1f} samples in the window, {MIN_SAMPLES} needed", w)
        for w in short
    ]
    windows = [w for w in windows if w.stop - w.start >= MIN_SAMPLES]
    if not windows:
        raise nothing_left(refusals, f"{channel.name} (threshold {cut.level:.4g} {channel.unit}, line between "
                           f"{cut.low:.4g} {channel.unit} and {cut.high:.4g} {channel.unit})")
    return windows, refusals


def _pair(
    segment: int,
    position: np.ndarray,
    active: np.ndarray,
    starts_active: bool,
    n_samples: int,
    edge: str,
    single: bool,
    expected_samples: float | None,
) -> tuple[list[Window], list[Refusal]]:
    """Pair the edges of one segment; `active` says of each edge whether a window begins there."""
    def refuse(reason: str, detail: str = "", window: Window | None = None) -> tuple[list[Window], list[Refusal]]:
        return [], [Refusal(segment, reason, detail, window)]

    idle = "high" if edge == "rising" else "low"
    inverted = f'the line idles {idle}: set trigger_edge = "{"falling" if edge == "rising" else "rising"}"'
    n = len(position)
    if n == 0:
        return refuse("trigger stuck" if starts_active else "no trigger edge")
    ends_active = bool(active[-1])
    if n == 2 and starts_active:
        return refuse("trigger inverted", inverted)
    begins = position[active]
    ends = position[~active]
    if starts_active and ends_active:
        # Cut at both ends, or upside down: a line that is active for most of the time is taken for the latter.
        n_idle = float(np.sum(begins - ends))
        if n_idle < n_samples / 2:
            return refuse("trigger inverted", inverted)
    if single and n == 1:
        if ends_active and expected_samples is not None and n_samples - position[0] > 1.1 * expected_samples + 2:
            return refuse("trigger inverted", f"the line stays active for longer than the operation lasts; {inverted}")
        side = "end" if ends_active else "start"
        return refuse(f"one edge, window cut by the {side} of the record", f"at sample {position[0]:.1f}")
    if single and n > 2:
        return refuse("extra trigger edge", f"{n} edges in segment {segment}, 2 expected")
    refused: list[Refusal] = []
    if starts_active:
        refused.append(Refusal(segment, "one edge, window cut by the start of the record", "",
                               Window(segment, -0.5, float(ends[0]))))
        ends = ends[1:]
    if ends_active:
        refused.append(Refusal(segment, "one edge, window cut by the end of the record", "",
                               Window(segment, float(begins[-1]), n_samples - 0.5)))
        begins = begins[:-1]
    return [Window(segment, float(a), float(b)) for a, b in zip(begins, ends, strict=True)], refused


def _wrong_number(name: str, n: int, expected: int, refusals: Sequence[Refusal]) -> str:
    text = f"{n} whole windows on {name}, {expected} expected"
    if refusals:
        text += f" ({'; '.join(sorted({r.reason for r in refusals}))})"
    if n > expected:
        return f"extra trigger edge: {text}; {REMEDIES['extra trigger edge']}"
    return f"truncated or missed: {text}; record the whole series, and check the trigger's level"


def nothing_left(refusals: Sequence[Refusal], where: str) -> CaptureError:
    """Say why no window of a series is left: the commonest reason with its remedy, and the others."""
    counts = Counter(r.reason for r in refusals)
    reason, n = counts.most_common(1)[0]
    detail = next((r.detail for r in refusals if r.reason == reason and r.detail), "")
    text = f"{reason} on {where}" + (f": {detail}" if detail else "")
    if len(refusals) > 1:
        text += f" ({n} of {len(refusals)} windows refused so; none is left)"
    others = [f"{r} ({m})" for r, m in counts.items() if r != reason]
    if others:
        text += f"; also {', '.join(others)}"
    return CaptureError(f"{text}; {REMEDIES[reason]}")


def channel_of(record: Record, name: str) -> Channel:
    """Get a channel by its name. Raises ConfigError that lists the channels there are."""
    try:
        return record.channels[name]
    except KeyError:
        raise ConfigError(f"no channel {name!r}; the record holds {', '.join(record.channels)}") from None


def in_gap(window: Window, gaps: Sequence[tuple[int, int, int]]) -> int:
    """Count the lost samples inside a window."""
    n = 0
    for segment, first, length in gaps:
        if segment == window.segment:
            n += max(0, min(math.ceil(window.stop), first + length) - max(math.floor(window.start), first))
    return n


def check_complete(record: Record, what: str, n_segments: int | None = None) -> None:
    """Raise CaptureError where a record holds less than it says, or less than `n_segments`."""
    shapes: dict[str, Any] = {name: tuple(c.codes.shape) for name, c in record.channels.items()}
    if not shapes or any(len(s) != 2 or 0 in s for s in shapes.values()):
        raise CaptureError(f"the {what} record holds no samples; record it again")
    if len(set(shapes.values())) > 1 or record.n_segments != next(iter(shapes.values()))[0]:
        held = ", ".join(f"{name} {s[0]} x {s[1]}" for name, s in shapes.items())
        raise CaptureError(
            f"the {what} record is truncated: {record.n_segments} segments announced, held are {held} (segments x "
            "samples); fetch it again"
        )
    if n_segments is not None and 1 < record.n_segments < n_segments:
        raise CaptureError(
            f"the {what} record is truncated: {record.n_segments} of {n_segments} segments are there; record it again"
        )
