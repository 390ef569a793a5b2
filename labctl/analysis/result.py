"""From a capture to a result: null removed, net of idle, checked against the DUT's own count, with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from instruments.record import Record
from labctl.analysis import uncertainty
from labctl.analysis.calibration import check_calibration
from labctl.analysis.chain import Chain, Deviation, Moments
from labctl.analysis.checks import (
    Series,
    check_current,
    check_sign,
    compare_with_dut,
    warn_of_chain,
    warn_of_order,
    warn_of_peaks,
    warn_of_refusals,
)
from labctl.analysis.keys import Keys
from labctl.analysis.power import measure_windows
from labctl.analysis.statistics import Summary, summarize
from labctl.analysis.trigger import check_complete, find_windows
from labctl.errors import CaptureError, ConfigError
from labctl.model import Capture, Contribution, DutReport, Operation, Result, Run, Wiring

_IDLE_DRIFT_RATIO = 0.05


def analyze(capture: Capture, power: str = "dut") -> Result:
    """Compute everything that a capture says of its operation.

    Durations, energies and charges are per iteration with the null windows' mean taken off; the mean power is energy
    over duration. `power`, "dut" or "supply", chooses the headline. Raises CaptureError where no honest number
    comes out, a shunt that reads negative for instance, ConfigError for wiring that cannot be.
    """
    if power not in ("dut", "supply"):
        raise ConfigError(f'power is {power!r}; it is "dut" or "supply"')
    if "series" not in capture.records:
        raise CaptureError(f"{capture.path or 'the capture'} holds no series of runs; measure again")
    operation = capture.operation or Operation("unknown", n_runs=capture.records["series"].n_segments)
    if capture.dut_report is not None and not capture.dut_report.output_ok:
        raise CaptureError(f"the DUT found the output of {operation.name} wrong; a wrong result is not measured")
    for calibration in capture.calibrations:
        check_calibration(calibration, capture.records["series"].instrument, capture.provenance.get("utc"))
    warnings: list[str] = []
    zero = capture.records.get("zero")
    series = _measure(capture, "series", operation.n_runs, capture.dut_report, zero, power)
    null = None
    if operation.name != "null":
        if "null" in capture.records:
            null = _measure(capture, "null", None, capture.null_report, zero, power)
        else:
            warnings.append("no null windows: the trigger's own cost is still in every number")
    warn_of_chain(warnings, series.measurement, zero)
    warn_of_peaks(warnings, series.measurement)
    warn_of_refusals(warnings, series, null)
    if len(series.runs) == 1:
        warnings.append("one run only: how much runs scatter is not known, and not in the uncertainty")
    compare_with_dut(warnings, capture, series, null)
    numbers = _PerOperation(series, null, operation.n_iterations, power)
    budget = numbers.budget(capture.wiring, _keys(capture))
    expanded = {quantity: uncertainty.expanded(parts) for quantity, parts in budget.items()}
    duration, energy, power_runs = numbers.duration, numbers.energy, numbers.power
    idle_w = _idle_power(warnings, series.runs)
    supply_energy = numbers.supply_energy.mean
    mean_w, mean_a = energy.mean / duration.mean, numbers.charge.mean / duration.mean
    runs = series.runs
    check_sign(runs, mean_w, expanded["power"][0])
    warn_of_order(warnings, energy)
    check_current(warnings, capture.board, mean_a)
    cycles = _cycles_per_operation(capture, operation.n_iterations)
    return Result(
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
        duration_expanded_s=expanded["duration"][0],
        current_mean_a=mean_a,
        current_max_a=max(mean_a, *(r.current_max_a for r in runs)),
        power_mean_w=mean_w,
        power_supply_mean_w=supply_energy / duration.mean,
        power_std_w=power_runs.std,
        power_ripple_w=series.measurement.ripple_w,
        # Windows that the trigger's cost dilutes may nowhere reach the operation's own mean; its extremes do.
        power_min_w=min(mean_w, *(r.power_min_w for r in runs)),
        power_max_w=max(mean_w, *(r.power_max_w for r in runs)),
        power_expanded_w=expanded["power"][0],
        energy_mean_j=energy.mean,
        energy_net_idle_j=None if idle_w is None else energy.mean - idle_w * duration.mean,
        energy_std_j=energy.std,
        energy_se_j=energy.se,
        energy_expanded_j=expanded["energy"][0],
        coverage_factor=expanded["energy"][1],
        charge_mean_c=numbers.charge.mean,
        cycles_mean=cycles,
        runs=runs,
        budget={quantity: tuple(parts) for quantity, parts in budget.items()},
        warnings=tuple(warnings),
        power_noise_w=series.measurement.noise_w,
        energy_median_j=energy.median,
        energy_quartile_low_j=energy.quartile_low,
        energy_quartile_high_j=energy.quartile_high,
        energy_lag1_ratio=energy.lag1,
        energy_drift_j=energy.drift * (energy.n - 1),
    )


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


class _PerOperation:
    """Per-iteration numbers of a series: (window - mean null) / n, on duration, charge and energies alike."""

    def __init__(self, series: Series, null: Series | None, n_iterations: int, power: str) -> None:
        self.series, self.null, self.n, self.kind = series, null, n_iterations, power
        base = [0.0] * 4
        if null is not None:
            base = [summarize(column).mean for column in _columns(null.runs, power)]
        columns = [(np.array(c) - b) / n_iterations for c, b in zip(_columns(series.runs, power), base, strict=True)]
        self.duration, self.charge, self.energy, self.supply_energy = (summarize(c) for c in columns)
        if self.duration.mean <= 0:
            raise CaptureError(
                f"the windows last no longer than the null windows ({self.duration.mean:.3g} s per operation is left); "
                "measure more iterations in each window"
            )
        self.power = summarize(columns[2] / columns[0])

    def budget(self, wiring: Wiring, keys: Keys) -> dict[str, list[Contribution]]:
        series, null = self.series.measurement, None if self.null is None else self.null.measurement
        mean = series.moments.mean()
        null_mean = None if null is None else null.moments.mean()

        def model(of_series: Deviation, of_null: Deviation) -> np.ndarray:
            time, energy = _time_and_energy(series.chain, mean, of_series, self.kind)
            if null is not None and null_mean is not None:
                null_time, null_energy = _time_and_energy(null.chain, null_mean, of_null, self.kind)
                time, energy = time - null_time, energy - null_energy
            return np.array([[time / self.n], [energy / time], [energy / self.n]])

        inputs = uncertainty.shared_inputs(series, null, wiring, self.series.record.timebase_ratio, keys)
        (budget,) = uncertainty.propagate(inputs, model)
        for quantity, values in zip(uncertainty.QUANTITIES, (self.duration, self.power, self.energy), strict=True):
            _add_scatter(budget[quantity], "repeatability", quantity, values, 1.0)
        power_w = self.energy.mean / self.duration.mean
        _add_edges(budget, "edge resolution", self.duration.std * self.n, series.chain.dt_s, self.n, power_w)
        if self.null is not None and null is not None:
            times, _, energies, _ = (np.array(c) for c in _columns(self.null.runs, self.kind))
            key = keys.reading("null", null.moments.weight, null.moments.first)
            _add_scatter(budget["duration"], "null", "duration", summarize(times), -1 / self.n, key and f"{key}, time")
            _add_scatter(budget["energy"], "null", "energy", summarize(energies), -1 / self.n, key and f"{key}, energy")
            # Its share of time and energy depends on the operation's power: no other result has the same.
            _add_scatter(budget["power"], "null", "power", summarize(energies - power_w * times),
                         -1 / (self.n * self.duration.mean))
            _add_edges(budget, "edge resolution of null", summarize(times).std, null.chain.dt_s, self.n, power_w,
                       key and f"{key}, edges")
        return budget


def _columns(runs: Sequence[Run], power: str) -> tuple[list[float], list[float], list[float], list[float]]:
    """Give duration, charge, headline energy and supply energy of each run."""
    return (
        [r.duration_s for r in runs],
        [r.charge_c for r in runs],
        [r.energy_j if power == "dut" else r.energy_supply_j for r in runs],
        [r.energy_supply_j for r in runs],
    )


def _time_and_energy(chain: Chain, mean: Moments, deviation: Deviation, power: str) -> tuple[float, float]:
    flow = chain.flow(mean, deviation)
    return float(flow.duration_s[0]), float((flow.energy_j if power == "dut" else flow.energy_supply_j)[0])


def _add_scatter(
    parts: list[Contribution], name: str, quantity: str, values: Summary, factor: float, key: str = ""
) -> None:
    """Add the standard error of a mean, which knows the autocorrelation."""
    if values.std == 0:
        return
    unit = uncertainty.UNITS[uncertainty.QUANTITIES.index(quantity)]
    parts.append(Contribution(
        name, "A", "normal", values.se, unit, values.se * factor, max(values.n_effective - 1, 1),
        f"{values.n} windows", key,
    ))


def _add_edges(
    budget: dict[str, list[Contribution]], name: str, std_s: float, dt_s: float, n: int, power_w: float, key: str = ""
) -> None:
    """Add the resolution of the edges: whole where windows agree so well that their phase does not dither it.

    A spread of half of what resolution alone would give is beyond chance with twenty dithered windows. Where the phase
    does dither it, what is left is that its distribution is only about uniform, which no number of runs averages out.
    """
    resolution_s = uncertainty.edge_resolution(dt_s)
    if std_s >= resolution_s / 2:
        resolution_s = uncertainty.edge_phase(dt_s)
    for quantity, effect in (("duration", resolution_s / n), ("energy", power_w * resolution_s / n)):
        budget[quantity].append(
            Contribution(name, "B", "normal", resolution_s, "s", effect, source="sample clock", key=key)
        )


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


def _cycles_per_operation(capture: Capture, n: int) -> float | None:
    report, null = capture.dut_report, capture.null_report
    if report is None or not report.cycles:
        return None
    base = summarize(null.cycles).mean if null is not None and null.cycles else 0.0
    return (summarize(report.cycles).mean - base) / n
