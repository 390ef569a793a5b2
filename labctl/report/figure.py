"""One picture a series: the waveform with its windows, one segment in detail, and every run's energy and duration."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from instruments.record import Record
from labctl.model import Capture, Result, Run
from labctl.report.waveform import Waveform, headline_energies, waveform_of
from labctl.store.atomic import new_file
from labctl.units import with_uncertainty

_N_STRETCHES = 1600
_N_SEGMENTS = 40
_N_TITLE = 51  # as many characters of nine points fit over the small axes
_INK, _BAND, _WINDOW, _EDGE = "#111111", "#a0a0a0", "#f7e9d3", "#a05a00"
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def waveform_figure(capture: Capture, result: Result, path: str | Path) -> None:
    """Write a PNG of the series in `capture` and of `result.runs`; the bench's name is taken from its provenance.

    A long waveform is drawn as the band between the least and greatest value of each stretch, so that no peak is
    lost, with the stretch's mean as a line. The runs' energies are those of the result's headline. The file appears
    whole or not at all; raises EnvironmentFault, with its path, where it cannot be written.
    """
    record, runs = capture.records["series"], result.runs
    waveform = waveform_of(capture)
    figure = Figure(figsize=(9.6, 6.8), dpi=110)
    canvas = FigureCanvasAgg(figure)
    # Fixed places: half the drawing time of a layout that measures its labels first.
    overview = figure.add_axes((0.085, 0.72, 0.885, 0.16))
    detail = figure.add_axes((0.085, 0.34, 0.885, 0.27))
    energy = figure.add_axes((0.085, 0.08, 0.37, 0.14))
    duration = figure.add_axes((0.60, 0.08, 0.37, 0.14))
    figure.suptitle(_title(result, capture.provenance.get("bench", {})), fontsize=12, y=0.985)
    _draw_legend(figure, with_mean=waveform.unit == "A" and bool(runs))
    _draw_overview(overview, waveform, record, runs)
    energies = [energy_j / result.n_iterations for energy_j in headline_energies(result)]
    _draw_detail(detail, waveform, record, runs, energies)
    _draw_strip(energy, energies, "J", "energy", (result.energy_mean_j, result.energy_expanded_j))
    durations = [run.duration_s / result.n_iterations for run in runs]
    _draw_strip(duration, durations, "s", "duration", (result.duration_mean_s, result.duration_expanded_s))
    image = io.BytesIO()
    canvas.print_png(image)
    with new_file(Path(path), overwrite=True) as file:
        file.write(image.getbuffer())


def _title(result: Result, bench: Mapping[str, Any]) -> str:
    name = result.operation if result.bytes is None else f"{result.operation}, {result.bytes} bytes"
    if result.n_iterations > 1:
        name += f", {result.n_iterations} in each run"
    bench_name = str(bench.get("name", ""))
    origin = [result.board, f"bench {bench_name}" if bench_name not in ("", "emulated") else ""]
    origin.append("emulated: a model, not silicon" if bench.get("emulated") else "")
    known = ", ".join(part for part in origin if part)
    return f"{name}  ({known})" if known else name


def _prefix(largest: float, unit: str) -> tuple[float, str]:
    """Choose a scale and its unit for an axis that reaches `largest`."""
    scale, symbol = next((p for p in _PREFIXES if largest >= p[0]), _PREFIXES[-1])
    return (scale, symbol + unit) if unit else (1.0, "")


def _axis(waveform: Waveform, values: Sequence[np.ndarray]) -> tuple[float, str]:
    if waveform.unit == "A":
        scale, unit = 1e-3, "mA"  # one unit for every figure, so that they can be laid side by side
    else:
        scale, unit = _prefix(max(float(np.abs(value).max()) for value in values), waveform.unit)
    return scale, f"{waveform.label} ({unit})" if unit else f"{waveform.label} (as recorded)"


def _draw_legend(figure: Figure, with_mean: bool) -> None:
    handles: list[Any] = [
        Patch(color=_BAND, label="least to most"),
        Line2D([], [], color=_INK, linewidth=1.2, label="mean"),
        Patch(color=_WINDOW, label="window, the trigger's own time included"),
    ]
    if with_mean:
        dashed = Line2D([], [], color=_EDGE, linestyle="dashed", linewidth=1.2, label="the window's mean current")
        handles.append(dashed)
    figure.legend(handles=handles, loc="center", bbox_to_anchor=(0.5275, 0.935), ncols=4, fontsize=8, frameon=False)


def _draw_overview(axes: Axes, waveform: Waveform, record: Record, runs: Sequence[Run]) -> None:
    """Draw the whole series: one segment over its time, or several side by side with the time between left out."""
    n_shown, n_samples = min(record.n_segments, _N_SEGMENTS), record.n_samples
    lines = [waveform.envelope(s, 0, n_samples, max(20, _N_STRETCHES // n_shown)) for s in range(n_shown)]
    scale, label = _axis(waveform, [line[k] for line in lines for k in (1, 3)])
    dt_s = record.dt_s or 1.0
    if n_shown == 1:
        factor, unit = _prefix(n_samples * dt_s, "s") if record.dt_s else (1.0, "sample")
        start = float(record.segment_start_s[0]) / factor if record.dt_s else 0.0
        step, xlabel = dt_s / factor, f"time ({unit})" if record.dt_s else "sample"
    else:
        start, step = 0.5, 1 / n_samples
        left_out = f"; first {n_shown} of {record.n_segments}" if n_shown < record.n_segments else ""
        xlabel = f"segment (time between segments not shown{left_out})"
    spans = []
    for segment, (positions, low, mean, high) in enumerate(lines):
        _draw_band(axes, start + segment + positions * step, low / scale, mean / scale, high / scale)
        if segment:
            axes.axvline(start + segment, color="#cccccc", linewidth=0.5)
        for run in runs:
            if run.segment == segment:
                first = (run.start_s - float(record.segment_start_s[segment])) / dt_s
                spans.append((start + segment + first * step, run.duration_s / dt_s * step))
    _mark_windows(axes, spans)
    axes.set_xlim(start, start + n_shown - 1 + n_samples * step)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(label)
    if n_shown > 1:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    shaded = f"{len(runs)} windows shaded" if len(runs) != 1 else "its window shaded"
    axes.set_title(f"the whole series, {shaded}", fontsize=9)


def _draw_detail(
    axes: Axes, waveform: Waveform, record: Record, runs: Sequence[Run], energies: Sequence[float]
) -> None:
    """Draw the run of median energy with a tenth of its length on either side."""
    dt_s = record.dt_s or 1.0
    segment, first, stop, title = 0, 0, record.n_samples, "first segment"
    middle = None
    if runs and record.dt_s:
        order = sorted(range(len(runs)), key=lambda k: energies[k])
        number = order[len(order) // 2]
        middle = runs[number]
        segment = middle.segment
        position = (middle.start_s - float(record.segment_start_s[segment])) / dt_s
        length = middle.duration_s / dt_s
        margin = max(5.0, 0.1 * length)
        first = max(0, math.floor(position - margin))
        stop = min(record.n_samples, math.ceil(position + length + margin))
        title = f"run {number + 1} of {len(runs)}" + (", that of median energy" if len(runs) > 1 else "")
    positions, low, mean, high = waveform.envelope(segment, first, stop, _N_STRETCHES)
    scale, label = _axis(waveform, [low, high])
    origin_s = middle.start_s if middle else float(record.segment_start_s[segment])
    factor, unit = _prefix((stop - first) * dt_s, "s") if record.dt_s else (1.0, "")
    times = (float(record.segment_start_s[segment]) + positions * dt_s - origin_s) / factor
    _draw_band(axes, times, low / scale, mean / scale, high / scale)
    if middle is not None:
        length = middle.duration_s / factor
        _mark_windows(axes, [(0.0, length)])
        for edge in (0.0, length):
            axes.axvline(edge, color=_EDGE, linewidth=0.8)
        if waveform.unit == "A":
            axes.hlines(middle.current_mean_a / scale, 0, length, color=_EDGE, linestyle="dashed", linewidth=1.2)
    axes.set_xlim(times[0], times[-1] if len(times) > 1 else times[0] + 1)
    axes.set_xlabel(f"time from the window's start ({unit})" if middle else "sample")
    axes.set_ylabel(label)
    axes.set_title(title, fontsize=9)


def _draw_band(axes: Axes, x: np.ndarray, low: np.ndarray, mean: np.ndarray, high: np.ndarray) -> None:
    axes.fill_between(x, low, high, color=_BAND, linewidth=0, zorder=2)
    axes.plot(x, mean, color=_INK, linewidth=0.7, zorder=3)
    axes.grid(axis="y", color="#e2e2e2", linewidth=0.5)
    axes.margins(y=0.08)


def _mark_windows(axes: Axes, spans: list[tuple[float, float]]) -> None:
    axes.broken_barh(spans, (0, 1), transform=axes.get_xaxis_transform(), color=_WINDOW, linewidth=0, zorder=1)


def _draw_strip(axes: Axes, values: list[float], unit: str, name: str, mean: tuple[float, float]) -> None:
    """Draw one mark a run, as the deviation from the runs' mean: what is left to see once the mean is printed."""
    title = f"{name} per operation: {with_uncertainty(*mean, unit)}"
    axes.set_title(title, fontsize=min(9.0, 9.0 * _N_TITLE / len(title)))
    axes.set_xlabel("run")
    if len(values) < 2:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "fewer than two runs: no spread to show", ha="center", transform=axes.transAxes)
        return
    centre = float(np.mean(values))
    deviations = np.asarray(values) - centre
    largest = float(np.abs(deviations).max())
    factor, symbol = _prefix(largest, unit)
    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.plot(np.arange(1, len(values) + 1), deviations / factor, "o", color=_INK, markersize=3.5)
    limit = 1.25 * largest / factor if largest > 0 else 1.0
    axes.set_ylim(-limit, limit)
    axes.set_xlim(0.4, len(values) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(f"deviation ({symbol})")
    axes.grid(axis="y", color="#e2e2e2", linewidth=0.5)
