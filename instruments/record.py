"""What an instrument delivers: raw codes with what is needed to read them. Knows nothing of crypto.

Times are positions on the instrument's sample clock: sample i of segment s was taken at
``segment_start_s[s] + i * dt_s``, and 0 s is the trigger of the first segment. No wall clock enters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Identity:
    """Name one instrument: the four fields of ``*IDN?`` (IEEE 488.2) or what stands for them."""

    vendor: str
    model: str
    serial: str
    firmware: str
    resource: str = ""


@dataclass(frozen=True)
class Accuracy:
    """Data-sheet limits of a channel at the settings in force, as half-widths.

    `gain_ratio` is a slope error; `offset_limit` and `noise_rms` are in the channel's unit; `source` names the
    data sheet. `offset_limit` speaks of readings without a zero reading at the same range and offset.
    """

    gain_ratio: float
    offset_limit: float
    noise_rms: float
    source: str


@dataclass(frozen=True)
class Channel:
    """One channel of a record.

    `codes` has shape (segments, samples) and stays as the instrument gave it (int8, uint8, int16 or float32); it
    may be any array that slices like one and reads lazily. Value = codes * scale + offset, in `unit`. A code at
    or beyond `code_min` or `code_max` is clipped (None: the format cannot tell).
    """

    name: str
    codes: Any
    scale: float
    offset: float
    unit: str = "V"
    kind: str = "analog"
    label: str = ""
    code_min: float | None = None
    code_max: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    accuracy: Accuracy | None = None


@dataclass(frozen=True)
class Record:
    """Channels taken together on one sample clock, with what was asked and what was granted.

    `dt_s` is None where the source does not tell its rate. `segment_start_s` has shape (segments,).
    `gaps` holds (segment, first sample, number of samples) of stretches that were lost.
    """

    channels: Mapping[str, Channel]
    dt_s: float | None
    segment_start_s: np.ndarray
    instrument: Identity
    timebase_ratio: float | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    granted: Mapping[str, Any] = field(default_factory=dict)
    gaps: tuple[tuple[int, int, int], ...] = ()

    @property
    def n_segments(self) -> int:
        """Count the segments."""
        return len(self.segment_start_s)

    @property
    def n_samples(self) -> int:
        """Count the samples of one segment."""
        return int(next(iter(self.channels.values())).codes.shape[1])


def volts(channel: Channel, segment: int, start: int, stop: int) -> np.ndarray:
    """Convert samples [start, stop) of one segment to the channel's unit, as float64 of shape (stop - start,)."""
    return np.asarray(channel.codes[segment, start:stop], dtype=np.float64) * channel.scale + channel.offset
