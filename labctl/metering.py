"""Take a series by a meter: a window repeats its operation until the meter sees enough of it, in one recording.

A meter's samples lie tens of microseconds apart, and mean that time: a hash of 160 us is 16 of them. So a window holds
as many iterations as it takes to be `N_SAMPLES` samples long, and a recording all windows of a series. Null windows are
shorter than a sample: what the trigger costs is what the DUT counts of them. A meter without a trigger counts the
energy of long logs, one a run (`analysis.averaged`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from instruments.protocols import (
    AcquisitionSettings,
    AnyChannelSettings,
    ChannelSettings,
    CurrentSettings,
    DigitalSettings,
    TriggerSettings,
)
from instruments.record import Record
from labctl import interrupts
from labctl.bench import Bench
from labctl.benchfile import MeterSection
from labctl.errors import CaptureError, ConfigError
from labctl.fitting import prepare
from labctl.model import DutReport, Operation
from labctl.series import ANSWER_TIMEOUT_S, DITHER_S, MARGIN_MIN_S, MARGIN_RATIO, PAUSE_RATIO, SCOPE_SETTLE_S, Series

# Two edges, each known to half a sample, then let the duration of a single run scatter by 0.2 %.
N_SAMPLES = 200
# Of a meter that only counts energy: 1 s is a thousand of its samples. Beside the window, what the DUT and the meter
# may be late by.
LOG_WINDOW_S = 1.0
LOG_MARGIN_S = 1.0
# Quiet samples beside each window.
_N_QUIET = 20
# What the DUT does between two windows beside what it foretells: it paints its stack, looks at it, and sums the output.
_UNTOLD_CYCLES = 60_000
# What a series may last longer than the DUT foretells, and rounds until meter and iterations fit each other.
_SPARE_RATIO = 1.1
_ROUNDS_MAX = 4
_N_ITERATIONS_MAX = 1_000_000


@dataclass(frozen=True)
class Stretch:
    """How a series is recorded: the operation with its iterations, the length of its window, the meter's interval."""

    operation: Operation
    window_s: float
    dt_s: float
    settings: AcquisitionSettings
    pause_s: float

    @property
    def n_samples(self) -> float:
        """Count the samples of a window."""
        return self.window_s / self.dt_s


def section_of(bench: Bench) -> MeterSection:
    """Return what the bench file says of the meter. Raises ConfigError where there is none."""
    if bench.file.meter is None:
        raise ConfigError(f"bench {bench.name!r} has no meter: name a bench file with [meter]")
    return bench.file.meter


def plan_stretch(bench: Bench, operation: Operation, duration_s: float) -> Stretch:
    """Choose the iterations in a window, unless some are asked for, and configure the meter for the whole series.

    `duration_s` is that of one window of `operation` as it is. Raises ConfigError for a series that the meter cannot
    hold, and what the meter raises.
    """
    one_s = duration_s / operation.n_iterations
    automatic = operation.n_iterations == 1
    found = None
    for _ in range(_ROUNDS_MAX):
        window_s = operation.n_iterations * one_s
        dt_s = found.dt_s if found is not None else 1 / bench.scope.capabilities().rate_max_hz
        found = _configured(bench, operation, window_s, dt_s)
        n = min(max(1, math.ceil(N_SAMPLES * found.dt_s / one_s)), _N_ITERATIONS_MAX)
        if not automatic or n <= operation.n_iterations:
            return found
        operation = replace(operation, n_iterations=n)
    raise ConfigError(
        f"{operation.name}: windows of {N_SAMPLES} samples and {operation.n_runs} runs do not fit a recording of "
        f"{bench.scope.identify().model}, whose samples grow with its length: use fewer --runs, or say --iterations"
    )


def _configured(bench: Bench, operation: Operation, window_s: float, dt_s: float) -> Stretch:
    pause_s = max(PAUSE_RATIO * MARGIN_RATIO * window_s, _N_QUIET * dt_s, MARGIN_MIN_S) + DITHER_S
    ready = prepare(bench.dut, operation, pause_s)
    # The DUT foretells from a warm-up of one iteration, in which the trigger's cost is counted each time.
    untold_s = operation.n_runs * _UNTOLD_CYCLES / bench.board["clock_hz"]
    series_s = max(ready.series_s, operation.n_runs * (window_s + 2 * pause_s)) + untold_s
    before_s = _N_QUIET * dt_s
    channels, trigger = _channels(bench)
    span_s = _SPARE_RATIO * series_s + before_s
    limits = bench.scope.capabilities()
    if span_s * limits.rate_max_hz > limits.memory_samples:
        n_fitting = int(operation.n_runs * limits.memory_samples / (span_s * limits.rate_max_hz))
        remedy = f"use --runs {n_fitting} or fewer" if n_fitting else "measure something shorter, or fewer --iterations"
        raise ConfigError(
            f"{operation.name}: {operation.n_runs} runs last {span_s:.3g} s, and {bench.scope.identify().model} holds "
            f"{limits.memory_samples / limits.rate_max_hz:.3g} s: {remedy}"
        )
    granted = bench.scope.configure(AcquisitionSettings(channels, trigger, span_s, before_s))
    return Stretch(operation, window_s, 1 / granted.rate_hz, granted, pause_s)


def _channels(bench: Bench) -> tuple[tuple[AnyChannelSettings, ...], TriggerSettings | None]:
    """Ask for current, for the supply's voltage where it is measured, and for what shows the windows."""
    meter, level_v = section_of(bench), bench.board["pins"]["level_v"]
    channels: list[AnyChannelSettings] = [CurrentSettings(meter.current_channel)]
    if meter.voltage_channel is not None:
        channels.append(ChannelSettings(meter.voltage_channel, range_v=2 * bench.board["supply"]["node_mcu_v"]))
    windows = bench.wiring.trigger_channel
    if windows is not None:
        logic = windows.startswith("D")
        channels.append(DigitalSettings(windows) if logic else ChannelSettings(windows, 2 * level_v, level_v / 2))
    trigger = None if meter.trigger is None else TriggerSettings(meter.trigger, level_v / 2, meter.trigger_edge)
    return tuple(channels), trigger


def take_stretch(bench: Bench, stretch: Stretch) -> Series:
    """Take a series as planned: arm, release the DUT, wait for both, fetch.

    Raises CaptureError where the meter was not triggered, and what the meter and the DUT raise.
    """
    operation = stretch.operation
    ready = prepare(bench.dut, operation, stretch.pause_s)
    if bench.simulation is not None:
        bench.simulation.windows()  # those of the warm-up are not of the series
    bench.scope.arm()
    bench.dut.release()
    report = bench.dut.finish(ANSWER_TIMEOUT_S + bench.slowdown * ready.series_s)
    n_taken = bench.scope.wait(SCOPE_SETTLE_S + bench.slowdown * stretch.settings.span_s)
    if n_taken < 1:
        raise CaptureError(f"{operation.name}: the meter was not triggered: check the trigger's cable and its polarity")
    record = bench.scope.fetch()
    return Series(record, report, bench.simulation.windows() if bench.simulation is not None else [])


def count_null(bench: Bench, null: Operation) -> tuple[DutReport, list[dict[str, float]]]:
    """Let the DUT count null windows that nobody records; return its report, and the world's where it is emulated."""
    ready = prepare(bench.dut, null, MARGIN_MIN_S)
    if bench.simulation is not None:
        bench.simulation.windows()
    report = bench.dut.go(ANSWER_TIMEOUT_S + bench.slowdown * ready.series_s)
    return report, bench.simulation.windows() if bench.simulation is not None else []


def has_trigger(bench: Bench) -> bool:
    """Tell whether the meter shows windows, or counts energy alone."""
    return section_of(bench).trigger is not None or bench.wiring.trigger_channel is not None


def take_logs(bench: Bench, operation: Operation, duration_s: float) -> tuple[Operation, Record, Series]:
    """Take each run as one long log of a meter without a trigger, after a log of the DUT while it waits.

    Return the operation with its iterations, that log, and the series: a segment a run, all of one length. Raises what
    the meter and the DUT raise.
    """
    one_s = duration_s / operation.n_iterations
    if operation.n_iterations == 1:
        operation = replace(operation, n_iterations=min(max(1, math.ceil(LOG_WINDOW_S / one_s)), _N_ITERATIONS_MAX))
    single = replace(operation, n_runs=1)
    window_s = one_s * operation.n_iterations
    bench.dut.hello()
    _begin_log(bench, LOG_WINDOW_S)
    waiting = _end_log(bench, LOG_WINDOW_S)
    records, cycles, truth, beside_s = [], list[int](), list[dict[str, float]](), 0.0
    for _ in range(operation.n_runs):
        interrupts.check()
        ready = prepare(bench.dut, single, MARGIN_MIN_S)
        if bench.simulation is not None:
            bench.simulation.windows()
        series_s = max(ready.series_s, window_s) + _UNTOLD_CYCLES / bench.board["clock_hz"]
        beside_s = max(beside_s, series_s - window_s)
        span_s = _SPARE_RATIO * series_s + LOG_MARGIN_S
        _begin_log(bench, span_s)
        report = bench.dut.go(ANSWER_TIMEOUT_S + bench.slowdown * series_s)
        records.append(_end_log(bench, span_s))
        cycles += report.cycles
        if bench.simulation is not None:
            truth += bench.simulation.windows()
    return operation, waiting, Series(_joined(records, beside_s), replace(report, cycles=tuple(cycles)), truth)


def _begin_log(bench: Bench, span_s: float) -> None:
    """Start to record for `span_s`. Raises what the meter raises."""
    channels = (CurrentSettings(section_of(bench).current_channel),)
    bench.scope.configure(AcquisitionSettings(channels, None, span_s, 0.0))
    bench.scope.arm()


def _end_log(bench: Bench, span_s: float) -> Record:
    bench.scope.wait(SCOPE_SETTLE_S + bench.slowdown * span_s)
    return bench.scope.fetch()


def _joined(records: list[Record], beside_s: float) -> Record:
    """Put logs one below the other, cut to the shortest: what follows the window in them is waiting."""
    n, first = min(record.n_samples for record in records), records[0]
    channels = {
        name: replace(channel, codes=np.concatenate([record.channels[name].codes[:, :n] for record in records]))
        for name, channel in first.channels.items()
    }
    gaps = tuple(
        (number, start, min(length, n - start))
        for number, record in enumerate(records)
        for _, start, length in record.gaps
        if start < n
    )
    starts_s = np.arange(len(records)) * (n * (first.dt_s or 0.0))
    return replace(first, channels=channels, segment_start_s=starts_s, gaps=gaps,
                   granted={**first.granted, "beside_s": beside_s})
