"""From a record of somebody else's to windows with power and energy, each with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from instruments.record import Record
from labctl.analysis import uncertainty
from labctl.analysis.chain import Deviation
from labctl.analysis.checks import check_current, warn_of_chain, warn_of_peaks
from labctl.analysis.power import Measurement, measure_windows
from labctl.analysis.statistics import summarize
from labctl.analysis.trigger import Refusal, check_complete, find_windows
from labctl.errors import CaptureError
from labctl.model import Contribution, Run, Window, Wiring


@dataclass(frozen=True)
class RecordWindow:
    """One window of a foreign record; power and energy are None where no shunt is given.

    `energy_expanded_j` and `power_expanded_w` are for 95 %.
    """

    window: Window
    start_s: float
    stop_s: float
    duration_s: float
    duration_expanded_s: float
    run: Run | None = None
    power_mean_w: float | None = None
    power_expanded_w: float | None = None
    energy_j: float | None = None
    energy_expanded_j: float | None = None
    coverage_factor: float | None = None


@dataclass(frozen=True)
class RecordResult:
    """What a foreign record says: its windows, what was refused, and warnings."""

    windows: tuple[RecordWindow, ...]
    refusals: tuple[Refusal, ...]
    warnings: tuple[str, ...]


def analyze_record(
    record: Record,
    wiring: Wiring,
    *,
    zero: Record | None = None,
    board: Mapping[str, Any] | None = None,
    expected: int | None = None,
    power: str = "dut",
) -> RecordResult:
    """Find the windows of a record and, where wiring has a shunt or current channel and a supply, measure each.

    Without a trigger channel each segment is one window. Raises CaptureError where no window is left, the sample rate
    is not known, or the implied current is outside the board's range.
    """
    if record.dt_s is None:
        raise CaptureError("the sample rate is not known, so there is no duration and no energy; give it (--rate)")
    check_complete(record, "given")
    windows, refusals = find_windows(record, wiring, expected=expected)
    edges_s = 0.0 if wiring.trigger_channel is None else uncertainty.edge_resolution(record.dt_s)
    if wiring.shunt is None and not (wiring.shunt_channel or wiring.shunt_high_channel):
        found = [_timed(record, w, edges_s) for w in windows]
        return RecordResult(tuple(found), tuple(refusals), ())
    busy = [r.window for r in refusals if r.window is not None]
    measured = measure_windows(record, wiring, windows, zero=zero, power=power, busy=busy)
    warnings: list[str] = []
    warn_of_chain(warnings, measured, zero)
    warn_of_peaks(warnings, measured)
    mean = summarize([r.current_mean_a for r in measured.runs]).mean
    if board is not None:
        check_current(None, board, mean)
    refused = {id(r.window) for r in measured.refusals}
    kept = [w for w in windows if id(w) not in refused]
    found = [
        _measured(w, run, budget, power)
        for w, run, budget in zip(kept, measured.runs, _budgets(record, wiring, measured, edges_s, power),
                                  strict=True)
    ]
    return RecordResult(tuple(found), (*refusals, *measured.refusals), tuple(warnings))


def _timed(record: Record, window: Window, edges_s: float) -> RecordWindow:
    assert record.dt_s is not None
    start_s = float(record.segment_start_s[window.segment]) + window.start * record.dt_s
    duration_s = (window.stop - window.start) * record.dt_s
    timebase_s = uncertainty.rectangular(record.timebase_ratio or 0.0) * duration_s
    parts = [
        Contribution("edge resolution", "B", "normal", edges_s, "s", edges_s, source="sample clock"),
        Contribution("time base", "B", "rectangular", timebase_s, "s", timebase_s, source="data sheet"),
    ]
    return RecordWindow(window, start_s, start_s + duration_s, duration_s, uncertainty.expanded(parts)[0])


def _budgets(
    record: Record, wiring: Wiring, measured: Measurement, edges_s: float, power: str
) -> list[dict[str, list[Contribution]]]:
    """Make a budget for each window by itself: what windows share, its edges, and its noise."""
    chain, moments = measured.chain, measured.moments

    def model(deviation: Deviation, _: Deviation) -> np.ndarray:
        flow = chain.flow(moments, deviation)
        energy = flow.energy_j if power == "dut" else flow.energy_supply_j
        return np.stack([flow.duration_s, energy / flow.duration_s, energy])

    inputs = uncertainty.shared_inputs(measured, None, wiring, record.timebase_ratio)
    budgets = uncertainty.propagate(inputs, model)
    noise = math.sqrt(math.fsum(
        c.accuracy.noise_rms**2 for c, s in zip(chain.channels, chain.sign, strict=True) if s and c.accuracy
    ))
    x, voltage_v = chain.means(moments)
    watts_per_unit = np.abs(voltage_v + 2 * chain.drop_sign(power) * x) * chain.current_per_unit
    for k, (budget, run) in enumerate(zip(budgets, measured.runs, strict=True)):
        if edges_s:
            power_w = run.power_w if power == "dut" else run.power_supply_w
            for quantity, effect in (("duration", edges_s), ("energy", power_w * edges_s)):
                budget[quantity].append(
                    Contribution("edge resolution", "B", "normal", edges_s, "s", effect, source="sample clock")
                )
        if noise:
            standard = noise / math.sqrt(run.n_samples)
            watts = standard * float(watts_per_unit[k])
            for quantity, effect in (("power", watts), ("energy", watts * run.duration_s)):
                budget[quantity].append(
                    Contribution("noise", "B", "normal", standard, chain.channels[0].unit, effect, source="data sheet")
                )
    return budgets


def _measured(window: Window, run: Run, budget: dict[str, list[Contribution]], power: str) -> RecordWindow:
    energy_j, factor = uncertainty.expanded(budget["energy"])
    return RecordWindow(
        window=window,
        start_s=run.start_s,
        stop_s=run.stop_s,
        duration_s=run.duration_s,
        duration_expanded_s=uncertainty.expanded(budget["duration"])[0],
        run=run,
        power_mean_w=run.power_w if power == "dut" else run.power_supply_w,
        power_expanded_w=uncertainty.expanded(budget["power"])[0],
        energy_j=run.energy_j if power == "dut" else run.energy_supply_j,
        energy_expanded_j=energy_j,
        coverage_factor=factor,
    )
