"""From a capture to a result: null removed, net of idle, checked against the DUT's own count, with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence

from instruments.record import Record
from labctl.analysis import averaged
from labctl.analysis.alike import clock_energy, judge_runs, shape_of
from labctl.analysis.benefit import warn_of_calibrations
from labctl.analysis.calibration import check_calibration
from labctl.analysis.checks import (
    Series,
    check_current,
    check_sign,
    compare_with_dut,
    warn_of_chain,
    warn_of_far_current,
    warn_of_peaks,
    warn_of_refusals,
)
from labctl.analysis.keys import Keys
from labctl.analysis.operation import PerOperation, Trialled
from labctl.analysis.power import measure_windows
from labctl.analysis.spread import cycles_expanded, std_expanded
from labctl.analysis.statistics import summarize
from labctl.analysis.trigger import check_complete, find_windows
from labctl.errors import CaptureError, ConfigError
from labctl.model import Capture, DutReport, Operation, Result, Run

_IDLE_DRIFT_RATIO = 0.05
_MIB = 2**20


def analyze(capture: Capture, power: str = "dut") -> Result:
    """Compute everything that a capture says of its operation.

    Durations, energies and charges are per iteration with the null windows' mean taken off; the mean power is energy
    over duration. `power`, "dut" or "supply", chooses the headline. Raises CaptureError where no honest number
    comes out, a shunt that reads negative for instance, ConfigError for wiring that cannot be.
    """
    return examine(capture, power)[0]


def examine(capture: Capture, power: str = "dut") -> tuple[Result, Trialled]:
    """Compute what `analyze` does, and give the whole measurement model beside it, for trials."""
    if power not in ("dut", "supply"):
        raise ConfigError(f'power is {power!r}; it is "dut" or "supply"')
    if "series" not in capture.records:
        raise CaptureError(f"{capture.path or 'the capture'} holds no series of runs; measure again")
    operation = capture.operation or Operation("unknown", n_runs=capture.records["series"].n_segments)
    if capture.dut_report is not None and not capture.dut_report.output_ok:
        raise CaptureError(f"the DUT found the output of {operation.name} wrong; a wrong result is not measured")
    for calibration in capture.calibrations:
        check_calibration(calibration, capture.records["series"].instrument, capture.provenance.get("utc"))
    if averaged.is_averaged(capture.records["series"]):
        return averaged.examine(capture)
    warnings: list[str] = []
    warn_of_calibrations(warnings, capture)
    zero = capture.records.get("zero")
    series = _measure(capture, "series", operation.n_runs, capture.dut_report, zero, power)
    null, null_s = None, 0.0
    if operation.name != "null":
        if "null" in capture.records:
            null = _measure(capture, "null", None, capture.null_report, zero, power)
        elif (null_s := _counted_null_s(capture)) == 0:
            warnings.append("no null windows: the trigger's own cost is still in every number")
    warn_of_chain(warnings, series.measurement, zero)
    warn_of_peaks(warnings, series.measurement)
    warn_of_refusals(warnings, series, null)
    if len(series.runs) == 1:
        warnings.append("one run only: how much runs scatter is not known, and not in the uncertainty")
    compare_with_dut(warnings, capture, series, null)
    numbers = PerOperation(series, null, operation.n_iterations, power, capture.wiring, _keys(capture), null_s)
    intervals = numbers.intervals(warnings)
    duration, energy, power_runs = numbers.duration, numbers.energy, numbers.power
    idle_w = _idle_power(warnings, series.runs)
    supply_energy = numbers.supply_energy.mean
    mean_w, mean_a = energy.mean / duration.mean, numbers.charge.mean / duration.mean
    runs = series.runs
    check_sign(runs, mean_w, intervals["power"].expanded)
    clock_j = clock_energy([r.duration_s for r in runs], series.measurement.chain.dt_s, mean_w) / operation.n_iterations
    outliers = judge_runs(warnings, numbers.energies_j, energy, clock_j)
    check_current(warnings, capture.board, mean_a, operation.name)
    warn_of_far_current(warnings, capture.board, operation.name, mean_a)
    cycles = _cycles_per_operation(capture, operation.n_iterations)
    result = Result(
        board=str(capture.board.get("name", "")),
        operation=operation.name,
        bytes=operation.bytes,
        implementation=operation.implementation,
        n_runs=len(runs),
        n_iterations=operation.n_iterations,
        n_refused=len(series.refusals),
        n_clipped=series.measurement.n_clipped,
        duration_mean_s=duration.mean,
        duration_std_s=duration.std,
        duration_se_s=duration.se,
        duration_max_s=duration.greatest,
        duration_expanded_s=intervals["duration"].expanded,
        current_mean_a=mean_a,
        current_max_a=max(mean_a, *(r.current_max_a for r in runs)),
        power_mean_w=mean_w,
        power_supply_mean_w=supply_energy / duration.mean,
        power_std_w=power_runs.std,
        power_ripple_w=series.measurement.ripple_w,
        # Windows that the trigger's cost dilutes may nowhere reach the operation's own mean; its extremes do.
        power_min_w=min(mean_w, *(r.power_min_w for r in runs)),
        power_max_w=max(mean_w, *(r.power_max_w for r in runs)),
        power_expanded_w=intervals["power"].expanded,
        energy_mean_j=energy.mean,
        energy_net_idle_j=None if idle_w is None else energy.mean - idle_w * duration.mean,
        energy_std_j=energy.std,
        energy_se_j=energy.se,
        energy_expanded_j=intervals["energy"].expanded,
        coverage_factor=intervals["energy"].coverage_factor,
        charge_mean_c=numbers.charge.mean,
        cycles_mean=cycles,
        runs=runs,
        budget={quantity: tuple(parts) for quantity, parts in numbers.budget.items()},
        warnings=tuple(warnings),
        power_noise_w=series.measurement.noise_w,
        energy_median_j=energy.median,
        energy_quartile_low_j=energy.quartile_low,
        energy_quartile_high_j=energy.quartile_high,
        energy_lag1_ratio=energy.lag1,
        energy_drift_j=energy.drift * (energy.n - 1),
        energy_outliers=outliers,
        energy_shape=shape_of(numbers.energies_j, energy, clock_j),
        profile=operation.profile,
        clock_hz=operation.clock_hz or capture.board.get("clock_hz"),
        variant=operation.variant,
        throughput_mib_s=operation.bytes / duration.mean / _MIB if operation.bytes else None,
        cycles_per_byte=cycles / operation.bytes if operation.bytes and cycles is not None else None,
        intervals=intervals,
        current_expanded_a=numbers.current_interval(intervals["power"]).expanded,
        cycles_expanded=cycles_expanded(capture.dut_report, capture.null_report, operation.n_iterations),
        energy_std_expanded_j=std_expanded(energy.std, energy.n),
    )
    return result, numbers.trialled()


def _measure(
    capture: Capture, name: str, n_runs: int | None, report: DutReport | None, zero: Record | None, power: str
) -> Series:
    record = capture.records[name]
    check_complete(record, name, n_runs)
    clock_hz = capture.board.get("clock_hz")
    expected_s = None
    if report is not None and report.cycles and clock_hz:
        expected_s = max(report.cycles) / clock_hz
    windows, refusals = find_windows(
        record,
        capture.wiring,
        expected=n_runs,
        expected_duration_s=expected_s,
        swing=capture.board.get("pins", {}).get("level_v"),
    )
    busy = [r.window for r in refusals if r.window is not None]
    measured = measure_windows(
        record, capture.wiring, windows, zero=zero, power=power, busy=busy, calibrations=capture.calibrations
    )
    return Series(measured, (*refusals, *measured.refusals), record)


def _keys(capture: Capture) -> Keys:
    return Keys.of(capture.provenance.get("bench"), capture.records["series"].instrument)


def _idle_power(warnings: list[str], runs: Sequence[Run]) -> float | None:
    """Average the quiet spans before and after, and warn where they drift apart."""
    sides = [[p for p in (r.power_before_w, r.power_after_w) if p is not None] for r in runs]
    means = [math.fsum(s) / len(s) for s in sides if s]
    if not means:
        warnings.append("no quiet span beside the windows: no energy net of idle")
        return None
    idle = summarize(means)
    pairs = [s[1] - s[0] for s in sides if len(s) == 2]
    if len(pairs) > 1:
        step = summarize(pairs)
        if abs(step.mean) > max(_IDLE_DRIFT_RATIO * abs(idle.mean), 3 * step.se):
            warnings.append(
                f"the idle power differs by {step.mean:.3g} W between before and after the windows (mean "
                f"{idle.mean:.3g} W): the energy net of idle is uncertain by as much times the duration"
            )
    return idle.mean


def _counted_null_s(capture: Capture) -> float:
    """Give what null windows last by the DUT's own count, 0 where it did not count any."""
    report, clock_hz = capture.null_report, capture.board.get("clock_hz")
    return summarize(report.cycles).mean / clock_hz if report is not None and report.cycles and clock_hz else 0.0


def _cycles_per_operation(capture: Capture, n: int) -> float | None:
    report, null = capture.dut_report, capture.null_report
    if report is None or not report.cycles:
        return None
    base = summarize(null.cycles).mean if null is not None and null.cycles else 0.0
    return (summarize(report.cycles).mean - base) / n
