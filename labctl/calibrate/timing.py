"""Delay between the channels, and the time base: what the scope says of pulses that are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from instruments.protocols import AcquisitionSettings
from instruments.record import Record
from labctl import interrupts
from labctl.analysis import keys
from labctl.analysis.pulses import Stretch, delay, stretch
from labctl.analysis.statistics import summarize
from labctl.analysis.trigger import find_windows
from labctl.analysis.uncertainty import rectangular
from labctl.bench import Bench, Fixture
from labctl.calibrate.common import Found, Progress, Request, fixture_in_place, keys_of, store
from labctl.errors import CaptureError, ConfigError
from labctl.frontend import channel_settings
from labctl.measure import session
from labctl.model import Contribution, Operation, Wiring
from labctl.series import ANSWER_TIMEOUT_S, expected_duration_s, take_series, trigger_settings
from labctl.units import quantity

N_EDGES = 50
# Quiet on either side of an edge: the slowest front end expected, with its 20 MHz limit, settles to 1e-6 in 0.1 us, and
# a limit of 2 MHz would still do.
EDGE_SPAN_S = 2e-6
# Few long records beat many short ones: each has the whole memory, and so the finest sample clock.
N_WIDTHS = 4
WIDTH_MARGIN_RATIO = 0.1
# Windows long enough that the sample clock's resolution is a tenth of a ppm, and what the null leaves is less.
BUSY_S = 50e-3
N_WINDOWS = 5
# How far a pulse may be from what it is said to be, in limits of reference and instrument together, before it is
# another pulse.
WIDTH_LIMITS_MAX = 5.0


def calibrate_deskew(
    bench: Bench, request: Request, fixture: Fixture, progress: Progress = lambda *_: None
) -> Path:
    """Measure how much later the shunt's channel shows an edge than the trigger's does.

    Both see one pulse, at the pin's level; probes and bandwidth limit are those of a measurement, the shunt's range is
    larger. Returns the path of the stored calibration. Raises LabctlError or InstrumentError.
    """
    wiring, names = bench.wiring, keys_of(bench)
    shunt_name, trigger_name = wiring.shunt_channel, wiring.trigger_channel
    if shunt_name is None or trigger_name is None:
        raise ConfigError(
            "a delay is between one channel of the shunt and the trigger's, and two-channel wiring has two of the "
            "former: use low-side or high-side-differential wiring"
        )
    trigger_channel, trigger = trigger_settings(bench)
    shunt = channel_settings(bench, shunt_name, trigger_channel.range_v, trigger_channel.offset_v)
    settings = AcquisitionSettings(
        (shunt, trigger_channel), replace(trigger, edge="rising"), EDGE_SPAN_S, EDGE_SPAN_S / 2, N_EDGES
    )
    with session(bench, request.out):
        bench.dut.hello()
        progress(f"{N_EDGES} pulses", 0, 2)
        with fixture_in_place(bench, "pulse", fixture):
            (record,) = _pulses(bench, settings, 1, fixture)
            found = delay(record, trigger_name, shunt_name)
        key = names.reading("deskew", record.channels[shunt_name].codes, record.channels[trigger_name].codes)
        parts = [
            Contribution("repeatability", "A", "normal", found.standard_s, "s", found.standard_s, found.n - 1,
                         f"{found.n} edges", key),
            Contribution("edge resolution", "B", "normal", found.resolution_s, "s", found.resolution_s,
                         source="sample clock", key=key and f"{key}, clock"),
            Contribution("edge shape", "B", "rectangular", rectangular(found.shape_s), "s",
                         rectangular(found.shape_s), source="centroid less crossing of the trigger's edge",
                         key=key and f"{key}, shape"),
        ]
        channels = {name: _front_end(record, name) for name in (shunt_name, trigger_name)}
        method = f"centroid on {shunt_name} less crossing on {trigger_name}, {found.n} edges of one generator"
        path = store(bench, request, Found("deskew", found.value_s, "s", _present(parts), method, channels),
                     {"pulse": record})
        progress("done", 2, 2)
        return path


def calibrate_timebase(
    bench: Bench, request: Request, fixture: Fixture | None, progress: Progress = lambda *_: None
) -> Path:
    """Compare the scope's time with that of a known pulse, or (without a fixture) of the DUT's crystal.

    Returns the path of the stored calibration. Raises ConfigError where the reference is no better than the scope's own
    limit, unless the request forces it; else LabctlError or InstrumentError.
    """
    if bench.wiring.trigger_channel is None:
        raise ConfigError("the time base is seen on the trigger's channel, and the bench has none")
    with session(bench, request.out):
        bench.dut.hello()
        found, records = (_of_pulse(bench, fixture, progress) if fixture is not None
                          else _of_crystal(bench, progress))
        path = store(bench, request, found, records)
        progress("done", 2, 2)
        return path


def _of_pulse(bench: Bench, fixture: Fixture, progress: Progress) -> tuple[Found, dict[str, Record]]:
    channel, trigger = trigger_settings(bench)
    margin_s = WIDTH_MARGIN_RATIO * fixture.pulse_s
    settings = AcquisitionSettings(
        (channel,), replace(trigger, edge="rising"), fixture.pulse_s + 2 * margin_s, margin_s
    )
    progress(f"{N_WIDTHS} pulses of {quantity(fixture.pulse_s, 's')}", 0, 2)
    with fixture_in_place(bench, "pulse", fixture):
        records = _pulses(bench, settings, N_WIDTHS, fixture)
        # Cut at the middle between the levels seen, so that neither gain nor offset of the channel moves an edge.
        wiring = replace(bench.wiring, trigger_edge="rising", threshold=None, hysteresis=None)
        seen_s = [_durations_s(record, wiring, 1, bench)[0] for record in records]
    record, tolerance = records[0], fixture.pulse_tolerance_ratio
    assert record.dt_s is not None
    seen = stretch([fixture.pulse_s] * N_WIDTHS, seen_s, record.dt_s)
    reference = Contribution("pulse", "B", "rectangular", rectangular(tolerance), "1", rectangular(tolerance),
                             source="generator's tolerance", key=f"pulse generator, {keys_of(bench).bench}")
    method = (
        f"{seen.n} pulses of {quantity(fixture.pulse_s, 's', 6)} ± {1e6 * tolerance:g} ppm on "
        f"{bench.wiring.trigger_channel}"
    )
    _check(seen, fixture.pulse_s, record, tolerance, "tell the generator's pulse (--pulse), or its tolerance")
    return _timebase(bench, seen, reference, method, seen_s), {"pulse": _joined(records)}


def _of_crystal(bench: Bench, progress: Progress) -> tuple[Found, dict[str, Record]]:
    """Compare cycles with durations, of long busy windows less the null windows' mean."""
    if bench.dut.hello()["counter"] == "none":
        raise ConfigError(
            f"{bench.board['name']} has no cycle counter, so its crystal is no reference: use a pulse (--against pulse)"
        )
    progress("empty windows", 0, 2)
    clock_hz, tolerance = float(bench.board["clock_hz"]), float(bench.board["crystal_tolerance_ratio"])
    one_s = expected_duration_s(bench, Operation("busy"))
    busy = Operation("busy", n_runs=1, n_iterations=max(1, math.ceil(BUSY_S / one_s)))
    null_cycles, null_s, null_record = _windows(bench, Operation("null", n_runs=1))
    progress(f"{N_WINDOWS} windows of {quantity(BUSY_S, 's')}", 1, 2)
    cycles, busy_s, record = _windows(bench, busy)
    empty = summarize(null_s)
    seen_s, true_s = busy_s - empty.mean, (cycles - float(np.mean(null_cycles))) / clock_hz
    assert record.dt_s is not None
    seen = stretch(true_s, seen_s, record.dt_s)
    seen = replace(seen, standard_ratio=math.hypot(seen.standard_ratio, empty.se / float(true_s.mean())))
    reference = Contribution("crystal", "B", "rectangular", rectangular(tolerance), "1", rectangular(tolerance),
                             source="crystal's tolerance", key=f"crystal, {keys_of(bench).bench}")
    method = f"cycles of the DUT, whose crystal is within {1e6 * tolerance:g} ppm, in {seen.n} windows of " \
             f"{quantity(float(true_s.mean()), 's')}"
    _check(seen, float(true_s.mean()), record, tolerance, "check the DUT's crystal and the clock of its board")
    return _timebase(bench, seen, reference, method, seen_s), {"busy": record, "null": null_record}


def _windows(bench: Bench, operation: Operation) -> tuple[np.ndarray, np.ndarray, Record]:
    """Take windows of an operation, each with the whole memory for it: cycles and durations, (windows,) each."""
    duration_s = expected_duration_s(bench, operation)
    cycles: list[int] = []
    lengths_s: list[float] = []
    records: list[Record] = []
    for _ in range(N_WINDOWS):
        interrupts.check()
        series = take_series(bench, operation, (), duration_s)
        cycles += series.report.cycles
        lengths_s += _durations_s(series.record, bench.wiring, 1, bench)
        records.append(series.record)
    return np.array(cycles), np.array(lengths_s), _joined(records)


def _check(seen: Stretch, true_s: float, record: Record, tolerance: float, remedy: str) -> None:
    """Raise CaptureError for pulses that are further from what they are said to be than both limits can explain."""
    limit = record.timebase_ratio
    if limit is not None and abs(seen.value_ratio) > WIDTH_LIMITS_MAX * (limit + tolerance + seen.resolution_ratio):
        raise CaptureError(
            f"the pulses are {quantity(true_s / (1 + seen.value_ratio), 's', 7)} long by the scope, and not "
            f"{quantity(true_s, 's', 7)}, more than {WIDTH_LIMITS_MAX:g} times the limits of both: {remedy}"
        )


def _timebase(
    bench: Bench, seen: Stretch, reference: Contribution, method: str, seen_s: Sequence[float] | np.ndarray
) -> Found:
    key = keys_of(bench).reading("time base", np.asarray(seen_s))
    parts = [
        reference,
        Contribution("repeatability", "A", "normal", seen.standard_ratio, "1", seen.standard_ratio, seen.n - 1,
                     f"{seen.n} pulses", key),
        Contribution("edge resolution", "B", "normal", seen.resolution_ratio, "1", seen.resolution_ratio,
                     source="sample clock", key=key and f"{key}, clock"),
    ]
    return Found("timebase", seen.value_ratio, "1", _present(parts), method)


def _pulses(bench: Bench, settings: AcquisitionSettings, n_records: int, fixture: Fixture) -> list[Record]:
    """Take records of the generator's pulses. Raises CaptureError where some are missed."""
    records = []
    bench.scope.configure(settings)
    for _ in range(n_records):
        interrupts.check()
        bench.scope.arm()
        bench.fire(settings.n_segments)
        n_taken = bench.scope.wait(ANSWER_TIMEOUT_S + settings.n_segments * (fixture.period_s + settings.span_s))
        if n_taken < settings.n_segments:
            raise CaptureError(
                f"the scope took {n_taken} of {settings.n_segments} pulses: check that the generator runs, with a "
                f"period of {quantity(fixture.period_s, 's')}"
            )
        records.append(bench.scope.fetch())
    return records


def _durations_s(record: Record, wiring: Wiring, n: int, bench: Bench) -> list[float]:
    """Measure the windows of a record; all must be there."""
    assert record.dt_s is not None
    windows, refusals = find_windows(record, wiring, expected=n, swing=bench.board["pins"]["level_v"])
    if refusals:
        raise CaptureError(f"{len(refusals)} of {n} pulses are no good: {refusals[0].reason}; {refusals[0].detail}")
    return [(window.stop - window.start) * record.dt_s for window in windows]


def _joined(records: list[Record]) -> Record:
    """Put single records one behind the other as segments; where each begins is told from its own trigger."""
    channels = {
        name: replace(channel, codes=np.concatenate([np.asarray(r.channels[name].codes) for r in records]))
        for name, channel in records[0].channels.items()
    }
    starts = np.concatenate([np.asarray(r.segment_start_s) for r in records])
    return replace(records[0], channels=channels, segment_start_s=starts)


def _front_end(record: Record, name: str) -> dict[str, object]:
    """Tell what of a channel its delay depends on: probe and bandwidth limit, not range and offset."""
    settings = keys.settings(record.channels[name])
    return {key: value for key, value in settings.items() if key not in ("scale", "offset", "unit")}


def _present(parts: list[Contribution]) -> tuple[Contribution, ...]:
    return tuple(c for c in parts if c.standard)
