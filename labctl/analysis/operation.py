"""One operation out of a series: null removed, shared among iterations, with its budget and its whole model."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from labctl.analysis import uncertainty
from labctl.analysis.chain import Deviation, Flow
from labctl.analysis.checks import Series
from labctl.analysis.keys import Keys
from labctl.analysis.montecarlo import SECOND_ORDER_MAX, Model, Term, interval_of, run_trials, second_order
from labctl.analysis.statistics import Summary, summarize
from labctl.errors import CaptureError
from labctl.model import Contribution, Interval, Run, Wiring
from labctl.units import percent

# The ends of a normal distribution are then known to 0.4 % of the standard uncertainty, in half a second.
_N_TRIALS_MAX = 400_000
_EDGES, _NULL_EDGES = "edge resolution", "edge resolution of null"
COUNTED_NULL = "trigger's cost by the DUT's count"
# Windows longer than null's by no more than this part of it are no longer: a difference of rounding.
_LEAST_RATIO = 1e-6


class Trialled(NamedTuple):
    """A whole measurement model and the errors it takes: what Monte Carlo trials need.

    `model` gives duration, power and energy, the rows of `uncertainty.QUANTITIES`.
    """

    terms: list[Term]
    model: Model


class PerOperation:
    """Per-iteration numbers of a series: (window - mean null) / n, on duration, charge and energies alike.

    `budget` maps "duration", "power" and "energy" to their contributions. `null_s` is what a null window lasts by the
    DUT's own count, where there is no `null` because the instrument's samples are longer; it is taken off at the power
    of the operation, which leaves the power as it is, and what it really was is open between nothing and twice as much.
    """

    def __init__(
        self,
        series: Series,
        null: Series | None,
        n_iterations: int,
        power: str,
        wiring: Wiring,
        keys: Keys,
        null_s: float = 0.0,
    ) -> None:
        self.series, self.null, self.n, self.kind = series, null, n_iterations, power
        base = [0.0] * 4
        if null is not None:
            base = [summarize(column).mean for column in _columns(null.runs, power)]
        elif null_s:
            means = [summarize(column).mean for column in _columns(series.runs, power)]
            base = [null_s / means[0] * mean for mean in means]
        self._null_s = null_s if null is None else 0.0
        columns = [(np.array(c) - b) / n_iterations for c, b in zip(_columns(series.runs, power), base, strict=True)]
        self.duration, self.charge, self.energy, self.supply_energy = (summarize(c) for c in columns)
        if self.duration.mean * n_iterations <= _LEAST_RATIO * base[0] or self.duration.mean <= 0:
            raise CaptureError(
                f"the windows last no longer than the null windows ({self.duration.mean:.3g} s per operation is left); "
                "repeat the operation in each window (--iterations 10, or more)"
            )
        self.energies_j = columns[2]
        self.current = summarize(columns[1] / columns[0])
        self.power = summarize(columns[2] / columns[0])
        measured = None if null is None else null.measurement
        self._windows = [(m.chain, m.moments.mean()) for m in (series.measurement, measured) if m is not None]
        self._inputs = uncertainty.shared_inputs(
            series.measurement, measured, wiring, series.record.timebase_ratio, keys
        )
        self.budget = self._make_budget(keys)

    def intervals(self, warnings: list[str]) -> dict[str, Interval]:
        """Give the interval of each quantity: its budget's, or by trials and with a warning, far from linear."""
        found = {quantity: uncertainty.interval(parts) for quantity, parts in self.budget.items()}
        terms, model = self.trialled()
        ratios = second_order(terms, model)
        if (ratios <= SECOND_ORDER_MAX).all():
            return found
        trials = run_trials(terms, model, n_trials_max=_N_TRIALS_MAX)
        for quantity, ratio, tried in zip(uncertainty.QUANTITIES, ratios, trials, strict=True):
            if ratio > SECOND_ORDER_MAX:
                found[quantity] = interval_of(tried, found[quantity].degrees_of_freedom)
                size = f"{percent(ratio)} of the linear one" if math.isfinite(ratio) else "all there is"
                warnings.append(
                    f"the {quantity} is far from linear in its errors (second-order part {size}): its interval comes "
                    f"from {tried.n_trials} Monte Carlo trials"
                )
        return found

    def current_interval(self, power: Interval) -> Interval:
        """Give the interval of the mean current, charge over duration, by a budget of its own.

        Where that of the power, `power`, is by trials, it is as much wider than its budget's as that one is.
        """
        def model(of_series: Deviation, of_null: Deviation) -> np.ndarray:
            flows = self._flows(of_series, of_null)
            charge, time = (reduce(operator.sub, column) for column in
                            zip(*((f.charge_c, f.duration_s) for f in flows), strict=True))
            return np.stack([charge / time])

        (budget,) = uncertainty.propagate(self._inputs, model, ("current",))
        parts = budget["current"]
        _add_scatter(parts, "repeatability", "A", self.current, 1.0)
        if self.null is not None:
            times, charges, _, _ = (np.array(c) for c in _columns(self.null.runs, self.kind))
            mean_a = self.charge.mean / self.duration.mean
            _add_scatter(parts, "null", "C", summarize(charges - mean_a * times), -1 / (self.n * self.duration.mean))
        found, linear = uncertainty.interval(parts), uncertainty.interval(self.budget["power"])
        if power.method == linear.method or not linear.expanded:
            return found
        return replace(found, expanded=found.expanded * power.expanded / linear.expanded, method=power.method)

    def trialled(self) -> Trialled:
        """Give the whole model: of shared errors as it is, with scatter and edges.

        Scatter of time and energy is drawn correlated as the runs are. What the edges add to the time, they add to the
        energy at the operation's own power, as in the budget.
        """
        # Inputs of one key are one error, drawn once.
        by_key = {item.key or f"#{k}": item for k, item in enumerate(self._inputs)}
        places = [list(by_key).index(item.key or f"#{k}") for k, item in enumerate(self._inputs)]
        shared = [Term(1.0, item.distribution, item.degrees_of_freedom) for item in by_key.values()]
        standards = np.array([[item.standard] for item in self._inputs]).reshape(-1, 1)
        scatter = _joint_scatter(self.series.runs, self.kind, 1 / self.n)
        if self.null is not None:
            scatter += _joint_scatter(self.null.runs, self.kind, -1 / self.n)
        in_time, in_energy = np.array([t for _, t, _ in scatter]), np.array([e for _, _, e in scatter])
        edges = [c for c in self.budget["duration"] if c.name in (_EDGES, _NULL_EDGES, COUNTED_NULL)]
        of_edges = np.array([c.effect / c.standard for c in edges])

        def model(errors: np.ndarray) -> np.ndarray:
            common, own, ends = np.split(errors, [len(shared), len(shared) + len(scatter)])
            time, energy = self._time_and_energy(
                *uncertainty.deviated(self._inputs, list(standards * common[places]))
            )
            time, energy = time + in_time @ own, energy + in_energy @ own
            power, time = energy / time, time + of_edges @ ends
            return np.stack([time, power, power * time])

        ends = [Term(c.standard, c.distribution) for c in edges]
        return Trialled([*shared, *(t for t, _, _ in scatter), *ends], model)

    def _make_budget(self, keys: Keys) -> dict[str, list[Contribution]]:
        def model(of_series: Deviation, of_null: Deviation) -> np.ndarray:
            time, energy = self._time_and_energy(of_series, of_null)
            return np.stack([time, energy / time, energy])

        (budget,) = uncertainty.propagate(self._inputs, model)
        values = (self.duration, self.power, self.energy)
        for quantity, unit, scattered in zip(uncertainty.QUANTITIES, uncertainty.UNITS, values, strict=True):
            _add_scatter(budget[quantity], "repeatability", unit, scattered, 1.0)
        power_w = self.energy.mean / self.duration.mean
        dt_s = self.series.measurement.chain.dt_s
        _add_edges(budget, _EDGES, self.duration.std * self.n, dt_s, self.n, power_w)
        if self.null is not None:
            null = self.null.measurement
            times, _, energies, _ = (np.array(c) for c in _columns(self.null.runs, self.kind))
            key = keys.reading("null", null.moments.weight, null.moments.first)
            _add_scatter(budget["duration"], "null", "s", summarize(times), -1 / self.n, key and f"{key}, time")
            _add_scatter(budget["energy"], "null", "J", summarize(energies), -1 / self.n, key and f"{key}, energy")
            # Its share of time and energy depends on the operation's power: no other result has the same.
            _add_scatter(budget["power"], "null", "J", summarize(energies - power_w * times),
                         -1 / (self.n * self.duration.mean))
            _add_edges(budget, _NULL_EDGES, summarize(times).std, null.chain.dt_s, self.n, power_w,
                       key and f"{key}, edges")
        if self._null_s:
            for quantity, factor in (("duration", 1.0), ("energy", power_w)):
                standard_s = uncertainty.rectangular(self._null_s)
                budget[quantity].append(Contribution(
                    COUNTED_NULL, "B", "rectangular", standard_s, "s", -factor * standard_s / self.n,
                    source="the DUT's own count of null windows, which are shorter than a sample",
                ))
        return {quantity: uncertainty.independent(parts) for quantity, parts in budget.items()}

    def _time_and_energy(self, of_series: Deviation, of_null: Deviation) -> tuple[np.ndarray, np.ndarray]:
        """Give time and energy of one operation under deviations: (1,) each, or (trials,)."""
        flows = self._flows(of_series, of_null)
        pairs = [(f.duration_s, f.energy_j if self.kind == "dut" else f.energy_supply_j) for f in flows]
        (time, energy), *null = pairs
        for null_time, null_energy in null:
            time, energy = time - null_time, energy - null_energy
        return time / self.n, energy / self.n

    def _flows(self, of_series: Deviation, of_null: Deviation) -> list[Flow]:
        """Give what passes in the mean window of the series and, where there is one, of null."""
        return [chain.flow(mean, d) for (chain, mean), d in zip(self._windows, (of_series, of_null), strict=False)]


def _columns(runs: Sequence[Run], power: str) -> tuple[list[float], list[float], list[float], list[float]]:
    """Give duration, charge, headline energy and supply energy of each run."""
    return (
        [r.duration_s for r in runs],
        [r.charge_c for r in runs],
        [r.energy_j if power == "dut" else r.energy_supply_j for r in runs],
        [r.energy_supply_j for r in runs],
    )


def _joint_scatter(runs: Sequence[Run], power: str, factor: float) -> list[tuple[Term, float, float]]:
    """Split the scatter of mean time and mean energy into two independent terms, the first of which is the time's."""
    times, _, energies, _ = (np.array(c) for c in _columns(runs, power))
    time, energy = summarize(times), summarize(energies)
    together = 0.0
    if time.std > 0 and energy.std > 0:
        covariance = math.fsum((times - time.mean) * (energies - energy.mean)) / (len(runs) - 1)
        together = min(max(covariance / (time.std * energy.std), -1.0), 1.0)
    alone = math.sqrt(1 - together**2)
    parts = [(time, time.se, together * energy.se), (energy, 0.0, alone * energy.se)]
    return [
        (Term(1.0, "normal", _degrees(values)), factor * in_time, factor * in_energy)
        for values, in_time, in_energy in parts
        if in_time or in_energy
    ]


def _degrees(values: Summary) -> float:
    return max(values.degrees_of_freedom, 1)


def _add_scatter(
    parts: list[Contribution], name: str, unit: str, values: Summary, factor: float, key: str = ""
) -> None:
    """Add the standard error of a mean, which knows the autocorrelation."""
    if values.std == 0:
        return
    worth = f"{values.n} windows"
    if values.n_effective < values.n:
        worth += f", worth {values.n_effective:.1f} independent ones since neighbours correlate"
    parts.append(Contribution(
        name, "A", "normal", values.se, unit, values.se * factor, _degrees(values), worth, key,
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
