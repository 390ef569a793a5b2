"""Energy of an operation from a meter that only counts energy and has no trigger.

Each run is one long log, E_log joule in T_log seconds, with one window of n iterations somewhere in it and the DUT
waiting for the rest. A log of the waiting DUT alone gives the power P_wait. So

    E_window = E_log - P_wait (T_log - T_window)        per operation = (E_window - E_null) / n

where T_window is the DUT's own count of cycles over its clock. What the DUT does beside the window without waiting
(pauses, the check of its output: `beside_s`) is taken to draw as much as waiting, give or take as much as the window
differs from that: rectangular, half-width |P_window - P_wait| T_beside. The trigger's own cost is taken off as the DUT
counts it, at the operation's power.
"""

from __future__ import annotations

import math

import numpy as np

from instruments.record import Channel, Record
from labctl.analysis import uncertainty
from labctl.analysis.montecarlo import Term
from labctl.analysis.operation import COUNTED_NULL, Trialled
from labctl.analysis.spread import cycles_expanded, std_expanded
from labctl.analysis.statistics import Summary, summarize
from labctl.errors import CaptureError
from labctl.model import Capture, Contribution, Result, Run

_MIB = 2**20
# Blocks of the waiting DUT's log whose scatter tells how well its power is known.
_N_BLOCKS = 10


def is_averaged(record: Record) -> bool:
    """Tell whether a record is of a meter that counts energy and has no trigger."""
    return energy_channel(record) is not None and not any(c.kind == "digital" for c in record.channels.values())


def energy_channel(record: Record) -> Channel | None:
    """Return the channel of counted energy, in joule, None where there is none."""
    return next((channel for channel in record.channels.values() if channel.unit == "J"), None)


class Averaged:
    """Numbers of the runs of one capture, per window; arrays of shape (runs,)."""

    def __init__(self, capture: Capture) -> None:
        record, waiting, report = capture.records["series"], capture.records.get("waiting"), capture.dut_report
        clock_hz = capture.board.get("clock_hz")
        if waiting is None:
            raise CaptureError("there is no log of the waiting DUT, so the energy of a window cannot be told from that "
                               "of waiting for it; measure again")
        if report is None or not report.cycles or not clock_hz:
            raise CaptureError("the DUT counts no cycles and the meter sees no window, so nothing tells how long an "
                               "operation lasts: use a meter with a trigger, or put a logic analyser beside this one")
        energy = energy_channel(record)
        assert energy is not None and record.dt_s is not None
        self.record, self.n_runs, self.voltage_v = record, record.n_segments, _voltage(capture)
        if len(report.cycles) != self.n_runs:
            raise CaptureError(f"the DUT counted {len(report.cycles)} runs and there are {self.n_runs} logs")
        self.wait_w, self.wait_standard_w = _power(waiting)
        self.duration_s = np.array(report.cycles, dtype=np.float64) / clock_hz
        self.log_s = (record.n_samples - 1) * record.dt_s
        self.log_j = _taken(energy)
        self.rest_s = self.log_s - self.duration_s
        if (self.rest_s <= 0).any():
            raise CaptureError(f"a log of {self.log_s:.3g} s does not hold a window of {self.duration_s.max():.3g} s")
        self.energy_j = self.log_j - self.wait_w * self.rest_s
        if not (self.energy_j > 0).all():
            raise CaptureError(
                "the logs hold less energy than the waiting DUT takes: the DUT did not run inside them, or what it "
                "draws while it waits has changed; measure again"
            )
        self.beside_s = float(record.granted.get("beside_s") or 0.0)


def _taken(energy: Channel) -> np.ndarray:
    """Give the energy from the first to the last sample of each segment, in joule. Raises CaptureError for a gap."""
    ends = np.asarray(energy.codes)[:, [0, -1]].astype(np.float64) * energy.scale
    if not np.isfinite(ends).all():
        raise CaptureError("a log begins or ends in a gap of the meter; measure again")
    return ends[:, 1] - ends[:, 0]


def _power(record: Record) -> tuple[float, float]:
    """Give the mean power of a log and its standard uncertainty, from the scatter of its parts."""
    energy = energy_channel(record)
    assert energy is not None and record.dt_s is not None
    counted = np.asarray(energy.codes)[0].astype(np.float64) * energy.scale
    n_blocks = min(_N_BLOCKS, len(counted) - 1)
    if n_blocks < 2:
        raise CaptureError("the log of the waiting DUT has fewer than three samples; measure again")
    ends = np.linspace(0, len(counted) - 1, n_blocks + 1).round().astype(int)
    powers_w = np.diff(counted[ends]) / (np.diff(ends) * record.dt_s)
    if not np.isfinite(powers_w).all():
        raise CaptureError("the log of the waiting DUT has a gap; measure again")
    whole_w = float((counted[-1] - counted[0]) / ((len(counted) - 1) * record.dt_s))
    return whole_w, float(powers_w.std(ddof=1)) / math.sqrt(n_blocks)


def examine(capture: Capture) -> tuple[Result, Trialled]:
    """Compute what a capture of such a meter says of its operation, and give the model beside it.

    A meter sits before the DUT and has no burden that it does not tell: both powers are the same. Raises CaptureError
    where no honest number comes out.
    """
    operation, report, null = capture.operation, capture.dut_report, capture.null_report
    assert operation is not None and report is not None
    found = Averaged(capture)
    n, clock_hz = operation.n_iterations, float(capture.board["clock_hz"])
    null_s = summarize(null.cycles).mean / clock_hz if null is not None and null.cycles else 0.0
    durations = summarize((found.duration_s - null_s) / n)
    powers = summarize(found.energy_j / found.duration_s)
    energies = summarize((found.energy_j - powers.mean * null_s) / n)
    budget = _budget(capture, found, durations, powers, energies, null_s, n)
    intervals = {quantity: uncertainty.interval(parts) for quantity, parts in budget.items()}
    runs = _runs(found)
    warnings = ["the meter has no trigger: duration and throughput are the DUT's own count of its cycles"]
    if found.n_runs == 1:
        warnings.append("one run only: how much runs scatter is not known, and not in the uncertainty")
    cycles = (summarize(report.cycles).mean - null_s * clock_hz) / n
    size = operation.bytes
    result = Result(
        board=str(capture.board.get("name", "")), operation=operation.name, bytes=size,
        implementation=operation.implementation, n_runs=found.n_runs, n_iterations=n, n_refused=0, n_clipped=0,
        duration_mean_s=durations.mean, duration_std_s=durations.std, duration_se_s=durations.se,
        duration_max_s=durations.greatest, duration_expanded_s=intervals["duration"].expanded,
        current_mean_a=energies.mean / durations.mean / found.voltage_v,
        current_max_a=max(run.current_max_a for run in runs),
        power_mean_w=energies.mean / durations.mean, power_supply_mean_w=energies.mean / durations.mean,
        power_std_w=powers.std, power_ripple_w=None, power_min_w=min(run.power_min_w for run in runs),
        power_max_w=max(run.power_max_w for run in runs), power_expanded_w=intervals["power"].expanded,
        energy_mean_j=energies.mean, energy_net_idle_j=energies.mean - found.wait_w * durations.mean,
        energy_std_j=energies.std, energy_se_j=energies.se, energy_expanded_j=intervals["energy"].expanded,
        coverage_factor=intervals["energy"].coverage_factor,
        charge_mean_c=energies.mean / found.voltage_v,
        cycles_mean=cycles, runs=tuple(runs),
        budget={quantity: tuple(parts) for quantity, parts in budget.items()}, warnings=tuple(warnings),
        energy_median_j=energies.median, energy_quartile_low_j=energies.quartile_low,
        energy_quartile_high_j=energies.quartile_high, energy_lag1_ratio=energies.lag1,
        energy_drift_j=energies.drift * (energies.n - 1), profile=operation.profile,
        clock_hz=operation.clock_hz or capture.board.get("clock_hz"), variant=operation.variant,
        throughput_mib_s=size / durations.mean / _MIB if size else None,
        cycles_per_byte=cycles / size if size else None, intervals=intervals,
        current_expanded_a=intervals["power"].expanded / found.voltage_v,
        cycles_expanded=cycles_expanded(report, null, n), energy_std_expanded_j=std_expanded(energies.std, energies.n),
    )
    return result, _trialled(result, budget)


def _voltage(capture: Capture) -> float:
    """Give the supply's voltage: as measured beside the current, else as the bench says. Raises CaptureError."""
    supply = capture.wiring.supply
    measured = capture.records["series"].channels.get(supply.channel or "V1") if supply is not None else None
    if measured is not None:
        return float(np.nanmean(measured.codes)) * measured.scale + measured.offset
    if supply is None or supply.voltage_v is None:
        raise CaptureError("the supply's voltage is not known, so there is no current; give it (--supply 3.3)")
    return supply.voltage_v


def _runs(found: Averaged) -> list[Run]:
    """Describe each log: only means are known, and where in it the window lies is not."""
    runs = []
    for segment, (duration_s, energy_j) in enumerate(zip(found.duration_s, found.energy_j, strict=True)):
        power_w = float(energy_j / duration_s)
        start_s = float(found.record.segment_start_s[segment])
        current_a = power_w / found.voltage_v
        runs.append(Run(
            segment=segment, start_s=start_s, stop_s=start_s + float(duration_s), duration_s=float(duration_s),
            n_samples=float(duration_s / (found.record.dt_s or math.inf)), n_clipped=0,
            current_mean_a=current_a, current_min_a=current_a, current_max_a=current_a,
            power_w=power_w, power_supply_w=power_w, power_min_w=power_w, power_max_w=power_w, power_ripple_w=None,
            energy_j=float(energy_j), energy_supply_j=float(energy_j), charge_c=float(energy_j / found.voltage_v),
            power_before_w=found.wait_w, power_after_w=found.wait_w,
            current_before_a=found.wait_w / found.voltage_v, current_after_a=found.wait_w / found.voltage_v,
        ))
    return runs


def _budget(
    capture: Capture, found: Averaged, durations: Summary, powers: Summary, energies: Summary, null_s: float, n: int
) -> dict[str, list[Contribution]]:
    """List what duration, power and energy are uncertain by."""
    crystal = uncertainty.rectangular(float(capture.board.get("crystal_tolerance_ratio") or 0.0))
    power_w, window_s = powers.mean, float(found.duration_s.mean())
    budget: dict[str, list[Contribution]] = {"duration": [], "power": [], "energy": []}

    def add(name: str, evaluation: str, distribution: str, standard: float, unit: str, per_window_j: float,
            per_window_s: float = 0.0, source: str = "", degrees: float = math.inf) -> None:
        """Add one error by what it makes of a window's energy and of its length."""
        changes = {
            "duration": per_window_s / n,
            "power": (per_window_j - power_w * per_window_s) / window_s,
            "energy": per_window_j / n,
        }
        for quantity, effect in changes.items():
            if effect:
                budget[quantity].append(
                    Contribution(name, evaluation, distribution, standard, unit, effect, degrees, source)
                )

    channel = energy_channel(found.record)
    assert channel is not None
    accuracy = channel.accuracy
    if accuracy is not None:
        gain = uncertainty.rectangular(accuracy.gain_ratio)
        add("gain", "B", "rectangular", gain, "1", gain * power_w * window_s, source=accuracy.source)
    current = next((c for c in found.record.channels.values() if c.unit == "A"), None)
    if current is not None and current.accuracy is not None:
        offset_a = uncertainty.rectangular(current.accuracy.offset_limit)
        add("offset", "B", "rectangular", offset_a, "A", offset_a * found.voltage_v * window_s,
            source=current.accuracy.source)
    # A longer window leaves less time for waiting: its energy grows by the power of waiting.
    add("crystal", "B", "rectangular", crystal, "1", found.wait_w * crystal * window_s, crystal * window_s,
        source="board data")
    rest_s = float(found.rest_s.mean())
    add("waiting", "A", "normal", found.wait_standard_w, "W", -found.wait_standard_w * rest_s, degrees=_N_BLOCKS - 1)
    step_j = _step(channel) / math.sqrt(6)  # of a difference of two counts, each known to within one
    if energies.std * n < step_j / 2:  # where runs do scatter, the steps are in that
        add("steps of the count", "B", "normal", step_j, "J", step_j, source="least increment in the logs")
    beside_s = uncertainty.rectangular(found.beside_s)
    add("beside the window", "B", "rectangular", beside_s, "s", abs(power_w - found.wait_w) * beside_s,
        source="pauses and the check of the output")
    null = uncertainty.rectangular(null_s)
    add(COUNTED_NULL, "B", "rectangular", null, "s", -power_w * null, -null,
        source="the DUT's own count of null windows")
    for quantity, unit, values in (("duration", "s", durations), ("power", "W", powers), ("energy", "J", energies)):
        if values.std > 0:
            budget[quantity].append(Contribution(
                "repeatability", "A", "normal", values.se, unit, values.se, max(values.degrees_of_freedom, 1),
                f"{values.n} logs",
            ))
    return budget


def _step(energy: Channel) -> float:
    """Give the least step in which the energy is counted, as far as the logs show it."""
    steps = np.diff(np.asarray(energy.codes, dtype=np.float64) * energy.scale, axis=1)
    counted = steps[steps > 0]
    return float(counted.min()) if len(counted) else 0.0


def _trialled(result: Result, budget: dict[str, list[Contribution]]) -> Trialled:
    """Give the linear model of the budget, error by error, for trials."""
    names = list(dict.fromkeys(part.name for parts in budget.values() for part in parts))
    rows = [{part.name: part for part in budget[quantity]} for quantity in uncertainty.QUANTITIES]
    any_of = [next(row[name] for row in rows if name in row) for name in names]
    effects = np.array([[row[name].effect if name in row else 0.0 for name in names] for row in rows])
    means = np.array([result.duration_mean_s, result.power_mean_w, result.energy_mean_j])
    terms = [Term(1.0, part.distribution, part.degrees_of_freedom) for part in any_of]

    def model(errors: np.ndarray) -> np.ndarray:
        return means[:, None] + effects @ errors

    return Trialled(terms, model)
