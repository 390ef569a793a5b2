"""One series: configure the scope, arm it, release the DUT, wait for both, fetch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from instruments.protocols import AcquisitionSettings, ChannelSettings, TriggerSettings
from instruments.record import Record
from labctl.bench import Bench
from labctl.dut import IDLE_MODE, PAUSE_MAX_S, unknown_operation
from labctl.errors import CaptureError, ConfigError
from labctl.fitting import prepare
from labctl.model import DutReport, Operation

# Silence recorded on either side of a window, as part of its length, and that of the DUT as part of what is recorded.
MARGIN_RATIO = 0.15
# Beside a board's own sleep modes, whose length the DUT foretells by a coarse clock, and which vary with that clock and
# with the start of the crystal.
MARGIN_RATIO_IDLE = 0.4
PAUSE_RATIO = 1.5
MARGIN_MIN_S = 20e-6
# Room for 1 - exp(-10) of the decoupling's settling on either side of a window.
MARGIN_TAUS = 10
# Room for the pauses, random and awake, before each window (firmware/PROTOCOL.md): some hundred cycles, at 8 MHz and
# above.
DITHER_S = 50e-6
ANSWER_TIMEOUT_S = 10.0
# How long the scope may take to finish after the last edge.
SCOPE_SETTLE_S = 5.0


@dataclass(frozen=True)
class Series:
    """What one series gave: the scope's record, the DUT's report, and the world's account where it is emulated."""

    record: Record
    report: DutReport
    truth: list[dict[str, float]]


def take_series(
    bench: Bench, operation: Operation, shunt: tuple[ChannelSettings, ...], duration_s: float
) -> Series:
    """Take one series of windows of about `duration_s` with the shunt channels set as given.

    Raises ConfigError for more runs than the scope holds, CaptureError where it missed some, and what the scope and
    the DUT raise.
    """
    limits = bench.scope.capabilities()
    if operation.n_runs > limits.segments_max:
        raise ConfigError(
            f"{operation.n_runs} runs asked, but {bench.scope.identify().model} holds {limits.segments_max} segments: "
            f"use --runs {limits.segments_max} or fewer"
        )
    margin_s = MARGIN_MIN_S if operation.name == "null" else _margin_s(bench, operation, duration_s)
    trigger_channel, trigger = trigger_settings(bench)
    span_s = duration_s + 2 * margin_s
    granted = bench.scope.configure(
        AcquisitionSettings((*shunt, trigger_channel), trigger, span_s, margin_s, operation.n_runs)
    )
    # A segment that is longer than asked, by the steps of the scope's memory or rate, must end before the next window.
    longer_s = max(0.0, granted.span_s - span_s)
    ready = prepare(bench.dut, operation, min(PAUSE_RATIO * margin_s + DITHER_S + longer_s / 2, PAUSE_MAX_S))
    if bench.simulation is not None:
        bench.simulation.windows()  # those of the warm-up are not of the series
    bench.scope.arm()
    bench.dut.release()
    # The DUT says when the series is over; whatever the scope has not seen by then, it will not see.
    report = bench.dut.finish(ANSWER_TIMEOUT_S + bench.slowdown * ready.series_s)
    n_taken = bench.scope.wait(SCOPE_SETTLE_S + span_s)
    record = bench.scope.fetch()
    if n_taken < operation.n_runs:
        raise CaptureError(
            f"{operation.name}: the scope took {n_taken} of {operation.n_runs} runs; the trigger edge of the others "
            "was missed: check the trigger's cable and level"
        )
    return Series(record, report, bench.simulation.windows() if bench.simulation is not None else [])


def expected_duration_s(bench: Bench, operation: Operation) -> float:
    """Let the DUT check its known answers and foretell, from a warm-up, the length of a window.

    Raises Unsupported for an operation, size or variant that the firmware does not know.
    """
    known = bench.dut.list_operations()
    if operation.name not in known:
        raise unknown_operation(bench.board["name"], operation.name, known)
    bench.dut.self_test(operation)
    ready = prepare(bench.dut, replace(operation, n_runs=1), MARGIN_MIN_S)
    if operation.n_iterations == 1:
        return ready.window_s
    # The warm-up is one iteration, with the window's fixed cost in it: many are better counted.
    report = bench.dut.go(ANSWER_TIMEOUT_S + bench.slowdown * ready.series_s)
    return max(report.cycles) / bench.board["clock_hz"] if report.cycles else ready.window_s


def warm_up(bench: Bench, operation: Operation, n_runs: int) -> None:
    """Let the DUT run `n_runs` windows of an operation that nobody records. Raises what the DUT raises."""
    if n_runs:
        ready = bench.dut.prepare(replace(operation, n_runs=n_runs), pause_s=MARGIN_MIN_S)
        bench.dut.go(ANSWER_TIMEOUT_S + bench.slowdown * ready.series_s)


def trigger_settings(bench: Bench) -> tuple[ChannelSettings, TriggerSettings]:
    """Set the trigger's channel so that it sees the pin's whole swing, and the trigger to its middle."""
    level_v = bench.board["pins"]["level_v"]
    name = bench.wiring.trigger_channel
    assert name is not None
    channel = ChannelSettings(
        name, range_v=2 * level_v, offset_v=level_v / 2, probe_ratio=bench.file.oscilloscope.trigger_probe_ratio
    )
    return channel, TriggerSettings(name, level_v=level_v / 2, edge=bench.wiring.trigger_edge)


def _margin_s(bench: Bench, operation: Operation, duration_s: float) -> float:
    ratio = MARGIN_RATIO_IDLE if operation.name.startswith(IDLE_MODE) else MARGIN_RATIO
    # Beside the longest windows, as much as the DUT can pause.
    share_s = min(ratio * duration_s, (PAUSE_MAX_S - DITHER_S) / PAUSE_RATIO)
    return max(share_s, MARGIN_TAUS * tau_s(bench) + DITHER_S, MARGIN_MIN_S)


def tau_s(bench: Bench) -> float:
    """Return the time constant of shunt and decoupling, 0 where that is not known."""
    shunt = bench.wiring.shunt
    assert shunt is not None
    return shunt.resistance_ohm * (shunt.decoupling_f or 0.0)
