"""Results of a campaign as CSV for other programs: a row a run, or the samples of one capture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from instruments.record import volts
from labctl.analysis.result import analyze
from labctl.campaign.model import Item
from labctl.campaign.source import Source, open_source
from labctl.errors import CaptureError, ConfigError, FileFault
from labctl.model import Run
from labctl.report.tables.row import bench_text, variant_text

Progress = Callable[[str, int, int], None]

_ITEM_COLUMNS = ("item", "role", "repeat", "bench", "board", "operation", "bytes", "implementation", "profile",
                 "clock_hz", "variant", "n_iterations")
_RUN_COLUMNS = ("duration_s", "current_mean_a", "current_min_a", "current_max_a", "power_w", "power_supply_w",
                "power_min_w", "power_max_w", "power_ripple_w", "energy_j", "energy_supply_j", "charge_c", "n_clipped",
                "start_s")
COLUMNS = (*_ITEM_COLUMNS, "run", *_RUN_COLUMNS)
# So many samples are in memory at once.
_BLOCK_SAMPLES = 1 << 16


def runs_csv(
    path: Path, power: str = "dut", progress: Progress = lambda *_: None, failed: Callable[[str], None] | None = None
) -> Iterator[str]:
    """Give the lines of a CSV with a row for each run of each item that is done, the heading first.

    Items are in the order of their numbers, runs and repeats counted from 1; bench and variant are spelled as in a
    table. The unit of a column ends its name; numbers are in SI
    units with a point, and read back to the same double; what is not known is empty. A run is a window as it was: all
    its iterations, the trigger's cost in it. `path` is a campaign's folder or its pack, `power` as for `analyze`.
    `failed` is told of an item whose capture is damaged or gives no number, which is left out; without it FileFault or
    CaptureError is raised.
    """
    with open_source(path) as source:
        benches = {item.bench: bench_text(source.campaign.bench_facts(item.bench)) for item in source.campaign.items}
        done = [one for one in source.state().items if one.state == "done" and one.last is not None]
        yield _line(COLUMNS)
        for number, status in enumerate(done):
            progress(status.item.key, number, len(done))
            assert status.last is not None
            try:
                with source.capture(status.last) as capture:
                    runs = analyze(capture, power).runs
            except (FileFault, CaptureError, ConfigError) as error:
                if failed is None:
                    raise
                failed(f"item {status.item.number} is left out: {error}")
                continue
            for run_number, run in enumerate(runs, 1):
                values = (getattr(run, column) for column in _RUN_COLUMNS)
                yield _line((*_coordinates(status.item, benches[status.item.bench]), run_number, *values))


def waveform_csv(path: Path, number: int) -> Iterator[str]:
    """Give the lines of a CSV with every sample inside the windows of an item's capture, the heading first.

    Columns are the run, counted from 1, the time in s since that window's beginning, and each channel in its unit.
    Raises ConfigError where the item is not done, FileFault for a damaged capture, CaptureError.
    """
    with open_source(path) as source:
        yield from _waveform(source, number)


def _waveform(source: Source, number: int) -> Iterator[str]:
    status = next((one for one in source.state().items if one.item.number == number), None)
    if status is None:
        raise ConfigError(f"the campaign in {source.where} has no item {number}: it has {len(source.campaign.items)}")
    if status.state != "done" or status.last is None:
        raise ConfigError(f"item {number} is {status.state} and has no capture: name one that is done")
    with source.capture(status.last) as capture:
        runs = analyze(capture).runs
        record = capture.records["series"]
        channels = list(record.channels.values())
        if record.dt_s is None:
            raise ConfigError(f"the capture of item {number} does not tell the time between its samples")
        yield _line(("run", "time_s", *(f"{channel.name}_{channel.unit.lower()}" for channel in channels)))
        for run_number, run in enumerate(runs, 1):
            first_s = float(record.segment_start_s[run.segment])
            for start, stop in _pieces(run, first_s, record.dt_s, record.n_samples):
                times = first_s + np.arange(start, stop) * record.dt_s - run.start_s
                values = [volts(channel, run.segment, start, stop) for channel in channels]
                for row in zip(times.tolist(), *(column.tolist() for column in values), strict=True):
                    yield _line((run_number, *row))


def _coordinates(item: Item, bench: str) -> tuple[Any, ...]:
    operation = item.operation
    return (item.number, item.role, item.repeat + 1, bench, item.board, operation.name, operation.bytes,
            operation.implementation, operation.profile, operation.clock_hz, variant_text(operation.variant),
            operation.n_iterations)


def _pieces(run: Run, first_s: float, dt_s: float, n_samples: int) -> Iterator[tuple[int, int]]:
    """Cut the samples inside a window into pieces."""
    start = max(0, math.ceil((run.start_s - first_s) / dt_s))
    stop = min(n_samples, math.floor((run.stop_s - first_s) / dt_s) + 1)
    for low in range(start, stop, _BLOCK_SAMPLES):
        yield low, min(low + _BLOCK_SAMPLES, stop)


def _line(values: tuple[Any, ...]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(["" if value is None else value for value in values])
    return text.getvalue()
