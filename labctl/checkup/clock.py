"""Series of the busy loop as a measurement takes them: whole windows, and their length by both clocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from instruments.protocols import ChannelSettings
from labctl.analysis import wiring as judge
from labctl.analysis.finding import FAULT, LEFT_OUT, OK, Finding
from labctl.analysis.pin import expected_swing
from labctl.analysis.power import measure_windows
from labctl.analysis.statistics import summarize
from labctl.analysis.trigger import REMEDIES, find_windows
from labctl.bench import Bench
from labctl.checkup.stages import Clock, Seen
from labctl.frontend import channel_settings, shunt_channels
from labctl.model import Operation, Window
from labctl.series import Series, expected_duration_s, take_series
from labctl.units import quantity

# Windows of some milliseconds, so that a few cycles at the edges matter little to the clock's comparison.
BUSY = Operation("busy", n_runs=20, n_iterations=20)


def look_at_clock(bench: Bench, seen: Seen) -> Iterator[Finding]:
    """Take null and busy windows; compare what the oscilloscope and the DUT's own counter make of them."""
    settings = seen.wide or tuple(channel_settings(bench, name, 1.0, 0.0) for name in shunt_channels(bench))
    operation = replace(BUSY, n_runs=min(BUSY.n_runs, bench.scope.capabilities().segments_max))
    taken: list[tuple[Series, list[Window], float]] = []
    for one in (replace(operation, name="null"), operation):
        series = _take(bench, one, settings)
        windows, refusals = find_windows(series.record, bench.wiring, swing=expected_swing(bench.board))
        if refusals:
            reason = refusals[0].reason
            yield Finding(
                "windows", FAULT,
                f"{len(refusals)} of {one.n_runs} windows of {one.name} are refused: {reason}; {REMEDIES[reason]}",
            )
            return
        assert series.record.dt_s is not None
        mean_s = summarize([w.stop - w.start for w in windows]).mean * series.record.dt_s
        taken.append((series, windows, mean_s))
    (null, _, null_s), (busy, windows, busy_s) = taken
    yield Finding("windows", OK, f"{len(windows)} windows of {quantity(busy_s, 's')}, all whole", busy_s, None, "s")
    current_a = None
    if seen.zero is not None:
        measured = measure_windows(busy.record, bench.wiring, windows, zero=seen.zero)
        current_a = summarize([r.current_mean_a for r in measured.runs]).mean
    assert null.record.dt_s is not None and busy.record.dt_s is not None
    seen.clock = Clock(current_a, busy_s, min(null.record.dt_s, busy.record.dt_s))
    if not busy.report.cycles or not null.report.cycles:
        yield Finding("timer", LEFT_OUT, "the DUT counts no cycles")
        return
    cycles = summarize(busy.report.cycles).mean - summarize(null.report.cycles).mean
    yield judge.judge_timer(
        busy_s - null_s, cycles / bench.board["clock_hz"], busy.record.dt_s, busy.record.timebase_ratio, bench.board
    )


def _take(bench: Bench, operation: Operation, settings: tuple[ChannelSettings, ...]) -> Series:
    return take_series(bench, operation, settings, expected_duration_s(bench, operation))
