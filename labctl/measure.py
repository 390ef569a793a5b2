"""One measurement: try, choose range and rate, take the zero, the null and each series, check, store."""

from __future__ import annotations

import contextlib
import datetime
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from instruments.protocols import AcquisitionSettings, ChannelSettings, TriggerSettings
from instruments.record import Channel, Record
from labctl import __version__
from labctl.bench import Bench
from labctl.errors import CaptureError, ConfigError
from labctl.model import Capture, DutReport, Operation
from labctl.simulation import truth_per_iteration
from labctl.store import capture_name, open_capture, write_capture

N_NULL_WINDOWS = 100
# Windows shorter than this fraction of the record would waste memory on silence.
MARGIN_RATIO = 0.15
MARGIN_MIN_S = 20e-6
# Room for 1 - exp(-10) of the decoupling's settling on either side of a window.
MARGIN_TAUS = 10
# The firmware starts each window after up to 255 idle loop turns, so that sampling phases differ.
DITHER_S = 50e-6
N_DIVISIONS = 8
MAX_RANGE_TRIES = 4
POWER_SETTLE_TAUS = 20
ANSWER_TIMEOUT_S = 30.0
# How long the scope may take to finish after the last edge.
SCOPE_SETTLE_S = 5.0
# An emulated DUT may run slower than the board would.
EMULATION_SLOWDOWN = 20

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """What to measure: operations in order, where captures go, and a dated zero reading to apply instead of one."""

    operations: tuple[Operation, ...]
    out: Path
    zero: Path | None = None


@dataclass(frozen=True)
class Trial:
    """What a first look at an operation told: its length, each shunt channel's extremes, the room an offset needs."""

    duration_s: float
    low_v: dict[str, float]
    high_v: dict[str, float]
    margin_v: float


def measure(bench: Bench, plan: Plan, progress: Progress = lambda *_: None) -> Iterator[Path]:
    """Measure every operation of the plan; yield the path of each capture once it is safely stored.

    Raises LabctlError or InstrumentError; the scope is stopped on the way out, whatever happens.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(_quietly, bench.scope.stop)
        manifest = _meet_dut(bench)
        null = Operation("null", n_runs=N_NULL_WINDOWS, n_iterations=plan.operations[0].n_iterations)
        n_steps = len(plan.operations) + 2
        shunt, zero, null_duration_s = _prepare_front_end(bench, plan, null, progress, n_steps)
        null_series: dict[int, _Series] = {}
        for step, operation in enumerate(plan.operations):
            progress(f"{operation.name}: {operation.n_runs} runs", step + 2, n_steps)
            n = operation.n_iterations
            if n not in null_series:
                null_series[n] = _series(bench, replace(null, n_iterations=n), shunt, null_duration_s)
            baseline = null_series[n]
            series = _series(bench, operation, shunt, _expected_duration_s(bench, operation))
            yield _store(bench, plan, step + 1, series, baseline, zero, manifest)
        progress("done", n_steps, n_steps)


def _quietly(action: Callable[[], None]) -> None:
    """Make safe without hiding the error that brought us here."""
    from instruments.errors import InstrumentError

    with contextlib.suppress(InstrumentError):
        action()


def _meet_dut(bench: Bench) -> dict[str, Any]:
    hello = bench.dut.hello()
    manifest = bench.dut.manifest()
    return {**manifest, "build": hello["build"]}


@dataclass(frozen=True)
class _Series:
    record: Record
    report: DutReport
    truth: list[dict[str, float]]


def _prepare_front_end(
    bench: Bench, plan: Plan, null: Operation, progress: Progress, n_steps: int
) -> tuple[tuple[ChannelSettings, ...], Record, float]:
    """Choose the shunt channels' range and offset, and take (or apply) the zero reading at exactly these."""
    progress("trial runs", 0, n_steps)
    if plan.zero is not None:
        zero, shunt = _dated_zero(bench, plan.zero)
        return shunt, zero, _expected_duration_s(bench, null)
    trials = [_trial(bench, operation) for operation in (null, *plan.operations)]
    extremes = {
        name: (min(t.low_v[name] for t in trials), max(t.high_v[name] for t in trials)) for name in trials[0].low_v
    }
    shunt = _choose_range(bench, extremes, max(t.margin_v for t in trials))
    progress("zero reading, DUT unpowered", 1, n_steps)
    zero = _take_zero(bench, shunt)
    return shunt, zero, trials[0].duration_s


def _shunt_channels(bench: Bench) -> tuple[str, ...]:
    wiring = bench.wiring
    names = (wiring.shunt_channel, wiring.shunt_high_channel, wiring.shunt_low_channel)
    supply = wiring.supply.channel if wiring.supply else None
    return tuple(dict.fromkeys(name for name in (*names, supply) if name))


def _shunt_settings(bench: Bench, name: str, range_v: float, offset_v: float) -> ChannelSettings:
    scope = bench.file.scope
    return ChannelSettings(
        name,
        range_v=range_v,
        offset_v=offset_v,
        probe_ratio=scope.shunt_probe_ratio,
        bandwidth_limit=scope.shunt_bandwidth_limit,
    )


def _trigger(bench: Bench) -> tuple[ChannelSettings, TriggerSettings]:
    """See the pin's whole swing, and trigger at its middle."""
    level_v = bench.board["pins"]["level_v"]
    name = bench.wiring.trigger_channel
    assert name is not None
    channel = ChannelSettings(
        name, range_v=2 * level_v, offset_v=level_v / 2, probe_ratio=bench.file.scope.trigger_probe_ratio
    )
    return channel, TriggerSettings(name, level_v=level_v / 2, edge=bench.wiring.trigger_edge)


def _tau_s(bench: Bench) -> float:
    shunt = bench.wiring.shunt
    assert shunt is not None
    return shunt.resistance_ohm * (shunt.decoupling_f or 0.0)


def _margin_s(bench: Bench, duration_s: float) -> float:
    return max(MARGIN_RATIO * duration_s, MARGIN_TAUS * _tau_s(bench) + DITHER_S, MARGIN_MIN_S)


def _expected_duration_s(bench: Bench, operation: Operation) -> float:
    """Let the DUT check its known answers and foretell, from a warm-up, the length of a window."""
    if operation.name not in bench.dut.list_operations():
        raise ConfigError(
            f"{bench.board['name']} does not know the operation {operation.name!r}; "
            f"it knows {', '.join(bench.dut.list_operations())}"
        )
    bench.dut.self_test(operation)
    return bench.dut.prepare(replace(operation, n_runs=1), pause_s=MARGIN_MIN_S).window_s


def _trial(bench: Bench, operation: Operation) -> Trial:
    """Look at one run with a range wide enough for the board's largest current."""
    duration_s = _expected_duration_s(bench, operation)
    assert bench.wiring.shunt is not None
    node_v = bench.wiring.supply.voltage_v if bench.wiring.supply else 0.0
    top_v = bench.wiring.shunt.resistance_ohm * bench.board["supply"]["current_max_a"]
    two_channel = bench.wiring.shunt.wiring == "two-channel"
    supply = bench.wiring.supply.channel if bench.wiring.supply else None
    limits = bench.scope.capabilities()
    settings = []
    for name in _shunt_channels(bench):
        reach_v = (node_v or 0.0) * 1.1 if two_channel or name == supply else top_v
        range_v = min(max(1.2 * reach_v, limits.range_min_v), limits.range_max_v)
        settings.append(_shunt_settings(bench, name, range_v, 0.4 * range_v))
    series = _series(bench, replace(operation, n_runs=1), tuple(settings), duration_s)
    low_v, high_v, margin_v = {}, {}, 0.0
    for name in _shunt_channels(bench):
        channel = series.record.channels[name]
        low_v[name], high_v[name] = _extremes(channel)
        if channel.code_max is not None and channel.codes.max() >= channel.code_max:
            raise CaptureError(
                f"{name} is off the screen although its range holds more than {bench.board['name']} can draw: "
                "check the shunt's value, the probe ratio and the wiring"
            )
        if channel.accuracy is not None:  # the extremes hold the trial's noise, which exceeds that of the series
            margin_v = max(margin_v, channel.accuracy.offset_limit)
    return Trial(duration_s, low_v, high_v, margin_v)


def _extremes(channel: Channel) -> tuple[float, float]:
    low, high = float(channel.codes.min()), float(channel.codes.max())
    values = (low * channel.scale + channel.offset, high * channel.scale + channel.offset)
    return min(values), max(values)


def _choose_range(
    bench: Bench, extremes: Mapping[str, tuple[float, float]], margin_v: float
) -> tuple[ChannelSettings, ...]:
    """Fit the smallest range that holds zero, the signal, and the scope's own offset error and noise."""
    limits = bench.scope.capabilities()
    chosen = []
    for name, (low_v, high_v) in extremes.items():
        bottom_v = min(0.0, low_v) - margin_v
        top_v = max(high_v, 0.0) + margin_v
        range_v = min(max(top_v - bottom_v, limits.range_min_v), limits.range_max_v)
        settings = _shunt_settings(bench, name, range_on_ladder_v(range_v), (top_v + bottom_v) / 2)
        chosen.append(settings)
    return tuple(chosen)


def range_on_ladder_v(least_v: float) -> float:
    """Round a full-scale range up to 8 divisions of 1, 2 or 5 times a power of ten.

    On coarse steps the same bench takes the same range each time, and with it the same gain error.
    """
    division_v = least_v / N_DIVISIONS
    decade_v = 10.0 ** math.floor(math.log10(division_v) + 1e-9)
    return N_DIVISIONS * next(step * decade_v for step in (1, 2, 5, 10) if division_v <= step * decade_v * (1 + 1e-9))


def _take_zero(bench: Bench, shunt: tuple[ChannelSettings, ...]) -> Record:
    """Read the shunt channels with the DUT unpowered, then bring the DUT back."""
    bench.set_power(False)
    try:
        span_s = max(1e-3, POWER_SETTLE_TAUS * _tau_s(bench))
        trigger_channel, _ = _trigger(bench)
        bench.scope.configure(AcquisitionSettings((*shunt, trigger_channel), None, span_s, 0.0))
        bench.scope.arm()
        bench.scope.wait(ANSWER_TIMEOUT_S)
        record = bench.scope.fetch()
    finally:
        bench.set_power(True)
    bench.dut.hello()
    keep = {s.name: record.channels[s.name] for s in shunt}
    granted = {**record.granted, "utc": _text(datetime.datetime.now(datetime.UTC)), "method": "DUT unpowered"}
    return replace(record, channels=keep, granted=granted)


def _dated_zero(bench: Bench, path: Path) -> tuple[Record, tuple[ChannelSettings, ...]]:
    """Take the zero reading out of an earlier capture, with the range and offset it holds for."""
    with open_capture(path) as capture:
        stored = capture.records.get("zero")
        if stored is None:
            raise ConfigError(f"{path} holds no zero reading; leave --zero out to take a new one")
        channels = {name: replace(c, codes=np.asarray(c.codes)) for name, c in stored.channels.items()}
        zero = replace(stored, channels=channels)
    identity = bench.scope.identify()
    if (zero.instrument.model, zero.instrument.serial) != (identity.model, identity.serial):
        raise ConfigError(
            f"the zero reading in {path} was taken on {zero.instrument.model} {zero.instrument.serial}, "
            f"but {identity.model} {identity.serial} is connected; leave --zero out to take a new one"
        )
    missing = [name for name in _shunt_channels(bench) if name not in zero.channels]
    if missing:
        raise ConfigError(f"the zero reading in {path} does not cover {', '.join(missing)}")
    settings = []
    for name in _shunt_channels(bench):
        granted = zero.channels[name].settings
        settings.append(_shunt_settings(bench, name, granted["range_v"], granted["offset_v"]))
    return zero, tuple(settings)


def _series(bench: Bench, operation: Operation, shunt: tuple[ChannelSettings, ...], duration_s: float) -> _Series:
    """Take one series: configure, arm, release the DUT, wait, fetch, ask the DUT for its report."""
    limits = bench.scope.capabilities()
    if operation.n_runs > limits.segments_max:
        raise ConfigError(
            f"{operation.n_runs} runs asked, but {bench.scope.identify().model} holds {limits.segments_max} segments: "
            f"use --runs {limits.segments_max} or fewer"
        )
    margin_s = MARGIN_MIN_S if operation.name == "null" else _margin_s(bench, duration_s)
    trigger_channel, trigger = _trigger(bench)
    span_s = duration_s + 2 * margin_s
    bench.scope.configure(
        AcquisitionSettings((*shunt, trigger_channel), trigger, span_s, margin_s, operation.n_runs)
    )
    pause_s = 1.5 * margin_s + DITHER_S
    ready = bench.dut.prepare(operation, pause_s=pause_s)
    _discard_truth(bench)
    bench.scope.arm()
    bench.dut.release()
    # The DUT says when the series is over; whatever the scope has not seen by then, it will not see.
    report = bench.dut.finish(ANSWER_TIMEOUT_S + EMULATION_SLOWDOWN * ready.series_s)
    n_taken = bench.scope.wait(SCOPE_SETTLE_S + span_s)
    record = bench.scope.fetch()
    if n_taken < operation.n_runs:
        raise CaptureError(
            f"{operation.name}: the scope took {n_taken} of {operation.n_runs} runs; the trigger edge of the others "
            "was missed: check the trigger's cable and level"
        )
    truth = bench.simulation.windows() if bench.simulation is not None else []
    return _Series(record, report, truth)


def _discard_truth(bench: Bench) -> None:
    """Forget windows of warm-up runs, so that those of the series stand alone."""
    if bench.simulation is not None:
        bench.simulation.windows()


def _store(
    bench: Bench,
    plan: Plan,
    number: int,
    series: _Series,
    null: _Series,
    zero: Record,
    manifest: dict[str, Any],
) -> Path:
    operation = plan.operations[number - 1]
    truth = None
    if bench.simulation is not None:
        truth = truth_per_iteration(series.truth, null.truth, operation)
    taken = datetime.datetime.now(datetime.UTC)
    capture = Capture(
        records={"series": series.record, "null": null.record, "zero": zero},
        wiring=bench.wiring,
        operation=operation,
        board=bench.board,
        dut_report=series.report,
        null_report=null.report,
        manifest=manifest,
        provenance={"utc": _text(taken), "software": f"labctl {__version__}", "bench": bench.describe()},
        truth=truth,
    )
    plan.out.mkdir(parents=True, exist_ok=True)
    return write_capture(plan.out / capture_name(taken, bench.board["name"], operation, number), capture)


def _text(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
