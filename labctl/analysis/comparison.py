"""Results beside each other: errors that they share stay one error, so that in a ratio they cancel.

The `uncertainties` package tracks them. Each error is one of its variables, of unit standard uncertainty, which a
result takes by the effect in its budget: contributions of equal keys, in whatever result, take the same variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from uncertainties import UFloat, ufloat
from uncertainties import covariance_matrix as _covariance_matrix

from labctl.analysis.montecarlo import SECOND_ORDER_MAX, Term, interval_of, run_trials, second_order
from labctl.analysis.uncertainty import independent, interval
from labctl.errors import ConfigError
from labctl.model import Contribution, Interval, Result

# What rounding leaves of an error that cancels is no contribution.
_CANCELLED_RATIO = 1e-12


@dataclass(frozen=True)
class Comparison:
    """The ratio of two results: its value, the interval, and the contributions that do not cancel.

    `shared_keys` names the errors that both results have, whatever is left of them.
    """

    quantity: str
    value: float
    interval: Interval
    contributions: tuple[Contribution, ...]
    shared_keys: tuple[str, ...]

    @property
    def expanded(self) -> float:
        """Give the expanded uncertainty for 95 %."""
        return self.interval.expanded

    @property
    def coverage_factor(self) -> float:
        """Give the coverage factor."""
        return self.interval.coverage_factor


def value_of(result: Result, quantity: str) -> float:
    """Give the value of "duration", "power" or "energy". Raises ConfigError for another quantity."""
    values = {"duration": result.duration_mean_s, "power": result.power_mean_w, "energy": result.energy_mean_j}
    if quantity not in values:
        raise ConfigError(f"there is no {quantity!r} to compare; take duration, power or energy")
    return values[quantity]


def tracked(results: Sequence[Result], quantity: str) -> list[UFloat]:
    """Turn a quantity of results into numbers that know their errors, those of equal keys as the same one."""
    return _Tracker().track(results, quantity)


def ratio(a: Result, b: Result, quantity: str = "energy") -> Comparison:
    """Give a over b, with the uncertainty that is left where errors of both cancel.

    Where b is so uncertain that the ratio is far from linear, the interval comes from Monte Carlo trials. Raises
    ConfigError for a denominator of zero.
    """
    tracker = _Tracker()
    above, below = tracker.track([a, b], quantity)
    if value_of(b, quantity) == 0:
        raise ConfigError(f"the {quantity} of {b.operation} is zero: there is no ratio to it")
    quotient = above / below
    value, floor = quotient.nominal_value, _CANCELLED_RATIO * abs(quotient.nominal_value)
    left = [
        replace(tracker.variables[variable], effect=float(quotient.derivatives[variable]))
        for variable, size in quotient.error_components().items()
        if size > floor
    ]
    left.sort(key=lambda c: -abs(c.effect))
    shared = {c.key for c in a.budget[quantity]} & {c.key for c in b.budget[quantity]} - {""}
    found = _interval(interval(left), [above, below], tracker)
    return Comparison(quantity, value, found, tuple(left), tuple(sorted(shared)))


def correlation(results: Sequence[Result], quantity: str) -> np.ndarray:
    """Give the correlation of the errors of results, (results, results); a result without errors has none to share."""
    covariance = np.array(_covariance_matrix(tracked(results, quantity)), float)
    std = np.sqrt(np.diagonal(covariance))
    size = np.outer(std, std)
    found = np.divide(covariance, size, out=np.zeros_like(covariance), where=size > 0)
    np.fill_diagonal(found, 1.0)
    return np.clip(found, -1.0, 1.0)


def _interval(linear: Interval, both: list[UFloat], tracker: _Tracker) -> Interval:
    """Take the linear interval of a ratio, or that of trials where the ratio is far from linear."""
    above, below = both
    slopes = np.array([[float(x.derivatives.get(v, 0.0)) for v in tracker.variables] for x in both])
    terms = [Term(1.0, c.distribution, c.degrees_of_freedom) for c in tracker.variables.values()]

    def model(errors: np.ndarray) -> np.ndarray:
        numbers = np.array([[above.nominal_value], [below.nominal_value]]) + slopes @ errors
        return numbers[:1] / numbers[1:]

    if not terms or second_order(terms, model)[0] <= SECOND_ORDER_MAX:
        return linear
    return interval_of(run_trials(terms, model)[0], linear.degrees_of_freedom)


class _Tracker:
    """Variables by key; `variables` tells, in the order they were made, the contribution that each stands for."""

    def __init__(self) -> None:
        self.variables: dict[UFloat, Contribution] = {}
        self._by_key: dict[str, UFloat] = {}
        self._nothing = ufloat(0.0, 1.0)

    def track(self, results: Sequence[Result], quantity: str) -> list[UFloat]:
        found = []
        for result in results:
            total = value_of(result, quantity) + 0.0 * self._nothing  # with errors or without, a number of one type
            for c in independent(result.budget[quantity]):
                total = total + c.effect * self._variable(c)
            found.append(total)
        return found

    def _variable(self, c: Contribution) -> UFloat:
        if c.key in self._by_key:
            return self._by_key[c.key]
        variable = ufloat(0.0, 1.0, tag=c.name)
        self.variables[variable] = c
        if c.key:
            self._by_key[c.key] = variable
        return variable
