"""What is drawn of a series: its waveform, in amperes where the analysis finds a current, and each run's energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from instruments.record import Channel
from labctl.analysis.chain import Deviation, resolve
from labctl.errors import CaptureError, ConfigError
from labctl.model import Capture, Result

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Waveform:
    """What is drawn: the sum of `slopes[k]` times the codes of `channels[k]`, plus `offset`, in `unit`."""

    channels: tuple[Channel, ...]
    slopes: tuple[float, ...]
    offset: float
    unit: str
    label: str

    def parts(self, segment: int, start: int, stop: int) -> tuple[np.ndarray, float]:
        """Return samples [start, stop) of one segment, shape (stop - start,), and what to multiply them with.

        Those of one channel stay codes; several are added in float32, which resolves a ten-millionth of them.
        """
        codes = [np.asarray(channel.codes[segment, start:stop]) for channel in self.channels]
        if len(codes) == 1:
            return codes[0], self.slopes[0]
        total = np.zeros(stop - start, np.float32)
        for one, slope in zip(codes, self.slopes, strict=True):
            total += one * np.float32(slope)
        return total, 1.0

    def envelope(self, segment: int, start: int, stop: int, n_stretches: int) -> tuple[np.ndarray, ...]:
        """Reduce samples [start, stop) to (positions, minima, means, maxima) of at most `n_stretches` stretches.

        Positions are the middles of the stretches, in samples; the rest is in `unit`. Works block by block on the
        codes, so that memory does not grow with the record.
        """
        edges = np.unique(np.linspace(start, stop, min(n_stretches, stop - start) + 1).astype(np.int64))
        n_at_once = max(1, _BLOCK * (len(edges) - 1) // (stop - start))
        low, mean, high = [], [], []
        for first in range(0, len(edges) - 1, n_at_once):
            part = edges[first : first + n_at_once + 1]
            (codes, slope), starts = self.parts(segment, int(part[0]), int(part[-1])), part[:-1] - part[0]
            low.append(np.minimum.reduceat(codes, starts).astype(np.float64) * slope)
            mean.append(np.add.reduceat(codes, starts, dtype=np.float64) / np.diff(part) * slope)
            high.append(np.maximum.reduceat(codes, starts).astype(np.float64) * slope)
        if len(self.channels) == 1 and self.slopes[0] < 0:
            low, high = high, low
        lines = (np.concatenate(pieces) + self.offset for pieces in (low, mean, high))
        return ((edges[:-1] + edges[1:] - 1) / 2, *lines)


def headline_energies(result: Result) -> list[float]:
    """Give each run's energy, shape (runs,), of the power that the result's headline is: the DUT's or the supply's.

    Where the headline is the supply's, both of the result's powers are the same number.
    """
    if result.power_mean_w == result.power_supply_mean_w:
        return [run.energy_supply_j for run in result.runs]
    return [run.energy_j for run in result.runs]


def waveform_of(capture: Capture) -> Waveform:
    """Choose what to draw: the current where the analysis finds one, less its zero, else the first channel as it is."""
    record = capture.records["series"]
    try:
        chain = resolve(record, capture.wiring, capture.records.get("zero"), capture.calibrations)
    except (CaptureError, ConfigError):  # no result comes of such a capture, but its picture shows why
        channel = next(iter(record.channels.values()))
        return Waveform((channel,), (channel.scale,), channel.offset, channel.unit, channel.name)
    slopes, offset, _, _ = chain.forms(np.zeros(len(chain.channels)), Deviation())
    drawn = [k for k, sign in enumerate(chain.sign) if sign]
    return Waveform(
        tuple(chain.channels[k] for k in drawn),
        tuple(float(slopes[k]) * chain.current_per_unit for k in drawn),
        offset * chain.current_per_unit,
        "A",
        "current",
    )
