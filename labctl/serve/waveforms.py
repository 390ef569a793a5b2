"""What is drawn of one capture: its waveform in columns, by the pyramid, its windows, and its runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from instruments.record import Identity
from labctl.analysis.result import analyze
from labctl.errors import CaptureError, ConfigError
from labctl.model import Capture, Result
from labctl.report.waveform import Waveform, headline_energies, waveform_of
from labctl.store import envelope, open_capture

# As many captures are kept analysed.
_N_KEPT = 32


def outline(
    path: Path, segment: int = 0, start: float = 0.0, stop: float | None = None, n_columns: int = 1000
) -> dict[str, Any]:
    """Outline a span of one segment of the series: `low`, `high` and `mean` of each column, in `unit`.

    `start` and `stop` are in seconds from the segment's begin, in samples where no rate is known; whole samples in
    between are shown, two at least. `first` and `last` are these samples, `x` the middles of the columns. Raises
    IndexError for a segment that there is not, FileFault where the capture is damaged.
    """
    with open_capture(path) as capture:
        record = capture.records["series"]
        if not 0 <= segment < record.n_segments:
            raise IndexError(f"the capture has {record.n_segments} segments, and no {segment}")
        step = record.dt_s or 1.0
        n_samples = record.n_samples
        first = min(max(0, math.floor(start / step)), max(0, n_samples - 2))
        last = n_samples if stop is None else min(n_samples, max(first + 2, math.ceil(stop / step) + 1))
        drawn = waveform_of(capture)
        middle, low, mean, high = _columns(capture, drawn, segment, first, last, n_columns)
        return {
            "unit": drawn.unit, "title": drawn.label, "x_unit": "s" if record.dt_s else "samples",
            "segment": segment, "n_segments": record.n_segments, "n_samples": n_samples, "step": step,
            "first": first, "last": last, "x": _numbers(middle * step),
            "low": _numbers(low), "high": _numbers(high), "mean": _numbers(mean),
        }


def instrument(path: Path) -> Identity | None:
    """Tell which instrument took a capture. Raises FileFault where it is damaged."""
    with open_capture(path) as capture:
        return capture.records["series"].instrument


def runs(path: Path, power: str = "dut") -> dict[str, Any]:
    """Give windows and energies of a capture's runs; where it gives no number, `reason` says why.

    Each window has its `segment`, and `start` and `stop` in seconds from that one's begin. Energies are per operation,
    null removed; the mean of the runs is the result's.
    """
    about = path.stat()
    return dict(_runs(path, power, (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)))


@lru_cache(maxsize=_N_KEPT)
def _runs(path: Path, power: str, _version: tuple[int, ...]) -> dict[str, Any]:
    with open_capture(path) as capture:
        try:
            result = analyze(capture, power)
        except (CaptureError, ConfigError) as error:
            return {"reason": str(error).replace(str(path), path.name), "windows": [], "energies_j": []}
        starts_s = capture.records["series"].segment_start_s
        return {
            "reason": "",
            "windows": [
                {"segment": run.segment, "start": run.start_s - float(starts_s[run.segment]),
                 "stop": run.stop_s - float(starts_s[run.segment])}
                for run in result.runs
            ],
            "energies_j": _energies(result), "energy_mean_j": result.energy_mean_j,
            "energy_expanded_j": result.energy_expanded_j,
        }


def _energies(result: Result) -> list[float]:
    """Give the energy of each run: null, which is the same for all, moves them without spreading them."""
    gross = np.array(headline_energies(result)) / result.n_iterations
    return _numbers(result.energy_mean_j + gross - gross.mean())


def _columns(
    capture: Capture, drawn: Waveform, segment: int, first: int, last: int, n_columns: int
) -> tuple[np.ndarray, ...]:
    """Give middles, minima, means and maxima of the columns.

    One channel is taken from the pyramid; of several the codes themselves, for their extremes do not add up.
    """
    if len(drawn.channels) > 1:
        return drawn.envelope(segment, first, last, n_columns)
    channel = drawn.channels[0]
    found = envelope(capture, "series", channel.name, segment, first, last, n_columns)
    low, mean, high = (
        (values - channel.offset) / channel.scale * drawn.slopes[0] + drawn.offset
        for values in (found.minimum, found.mean, found.maximum)
    )
    return (found.position[:-1] + found.position[1:] - 1) / 2, np.fmin(low, high), mean, np.fmax(low, high)


def _numbers(values: Iterable[float]) -> list[Any]:
    """Give numbers for JSON: what was not recorded is null."""
    return [float(value) if math.isfinite(value) else None for value in values]
