"""Propagation of distributions through the whole measurement model by Monte Carlo (JCGM 101, clauses 7 and 8).

The interval of a budget takes the model for linear. Whether it is, second-order differences tell. Where it is not, and
where somebody wants the budget confirmed, the model itself is evaluated at errors drawn from their distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labctl.model import Interval

MONTE_CARLO = "Monte Carlo trials, the model is far from linear (JCGM 101, 7)"
LEVEL = 0.95
# The quadratic part of a model may have this part of the standard uncertainty. A linear interval then still holds 95 %
# to half a percent, since what one tail gains the other loses: a single rectangular error, whose shorter tail is then
# all but used up, is the hardest case.
SECOND_ORDER_MAX = 0.05
N_DIGITS = 2
# JCGM 101, 7.9.4 b: the smallest number of trials from which a 95 % interval is worth reading.
_BLOCK_TRIALS = 10_000
# Endpoints of a normal distribution are then known to 0.002 standard deviations: two digits, but not a fifth of them.
N_TRIALS_MAX = 2_000_000
# Student's distribution with no more degrees of freedom than this has no standard deviation to settle at; below this
# share of the variance that of a million trials does not show it.
_HEAVY_DEGREES = 2
_HEAVY_SHARE_MIN = 0.01
_NORMAL_FACTOR = 1.959964

# Takes errors of the terms, (terms, trials), and gives what is measured, (quantities, trials).
Model = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Term:
    """One independent error that the model takes, "normal" or "rectangular", of this standard uncertainty."""

    standard: float
    distribution: str = "normal"
    degrees_of_freedom: float = math.inf


@dataclass(frozen=True)
class Trials:
    """What trials say of one quantity.

    `mean` and `standard` are theirs; `low` and `high` end the probabilistically symmetric interval, which leaves 2.5 %
    on either side; `half_width` is that of the interval about `value`, the model without errors. `tolerance` is the
    numerical tolerance that was asked for; `stable` tells whether the trials reached it. Where a term that matters has
    no standard deviation (two degrees of freedom or fewer), `standard` is that of a normal distribution so wide.
    """

    value: float
    mean: float
    standard: float
    low: float
    high: float
    half_width: float
    n_trials: int
    tolerance: float
    stable: bool


@dataclass(frozen=True)
class Validation:
    """Whether trials confirm a stated interval (JCGM 101, 8.1).

    `low_difference` and `high_difference` are between its ends and the trials'; `n_digits` is the number of digits of
    the standard uncertainty, 2 or 1, to which both agree, 0 where they do not. Student's factor for three comparable
    limits makes the stated interval the wider one by 0.08 standard uncertainties on either side, more than half a unit
    of one digit where that digit is large.
    """

    trials: Trials
    low_difference: float
    high_difference: float
    n_digits: int

    @property
    def wider(self) -> bool:
        """Tell whether the stated interval holds the whole of the trials'."""
        return self.low_difference <= 0 <= self.high_difference


def second_order(terms: Sequence[Term], model: Model) -> np.ndarray:
    """Give the part of each quantity's standard uncertainty that is of second order, (quantities,).

    With q_ij the mixed second-order differences of the model at plus and minus one standard uncertainty, the quadratic
    form that they make has a mean of sum q_ii / 2 and, for normal errors, a variance of sum q_ij^2 / 2; the root of
    both squared is set against the linear part. Infinite where there is no linear part.
    """
    n = len(terms)
    size = np.array([t.standard for t in terms])
    i, j = np.triu_indices(n, 1)
    one = np.eye(n)
    corners = [one[i] + one[j], one[i] - one[j], one[j] - one[i], -one[i] - one[j]]
    points = np.concatenate([np.zeros((1, n)), one, -one, *corners]) * size
    with np.errstate(all="ignore"):
        centre, plus, minus, *mixed = np.split(model(points.T), np.cumsum([1, n, n, *[len(i)] * 3]), axis=1)
        linear = np.sum(((plus - minus) / 2) ** 2, axis=1)
        own = plus + minus - 2 * centre
        cross = (mixed[0] - mixed[1] - mixed[2] + mixed[3]) / 4
        quadratic = np.sum(own / 2, axis=1) ** 2 + np.sum(own**2, axis=1) / 2 + np.sum(cross**2, axis=1)
        ratio = np.sqrt(quadratic / linear)
    return np.where(quadratic > 0, np.nan_to_num(ratio, nan=np.inf, posinf=np.inf), 0.0)


def run_trials(
    terms: Sequence[Term],
    model: Model,
    *,
    seed: int = 1,
    n_digits: int = N_DIGITS,
    finer: float = 1.0,
    n_trials_max: int = N_TRIALS_MAX,
) -> tuple[Trials, ...]:
    """Draw errors until mean, standard uncertainty and both ends have settled, or `n_trials_max` are drawn.

    The adaptive procedure of JCGM 101, 7.9.4: blocks of trials are added until twice the standard deviation of each
    average over the blocks is within the numerical tolerance, half a unit in the last of `n_digits` digits of the
    standard uncertainty (7.9.2), divided by `finer`. One `Trials` for each quantity.
    """
    generator = np.random.default_rng(seed)
    value = model(np.zeros((len(terms), 1)))[:, 0]
    heavy = _heavy(terms, model)
    blocks: list[np.ndarray] = []
    seen: list[np.ndarray] = []
    tolerance = np.full(len(value), math.inf)
    stable = np.zeros(len(value), bool)
    while not stable.all() and (len(blocks) + 1) * _BLOCK_TRIALS <= max(n_trials_max, 2 * _BLOCK_TRIALS):
        blocks.append(np.broadcast_to(model(_draw(generator, terms)), (len(value), _BLOCK_TRIALS)))
        seen.append(_summarize(blocks[-1], heavy))
        if len(seen) > 1:
            table = np.stack(seen)
            spread = 2 * table.std(axis=0, ddof=1) / math.sqrt(len(seen))
            tolerance = np.array([numerical_tolerance(u, n_digits) for u in table[:, 1].mean(axis=0)]) / finer
            # The mean of a heavy tail never settles; the ends of the interval do.
            stable = (spread[1 if heavy else 0 :] <= tolerance).all(axis=0)
    drawn = np.concatenate(blocks, axis=1)
    half = np.quantile(np.abs(drawn - value[:, None]), LEVEL, axis=1)
    numbers = zip(value, *_summarize(drawn, heavy), half, tolerance, stable, strict=True)
    return tuple(
        Trials(float(v), float(mean), float(u), float(low), float(high), float(q), drawn.shape[1], float(d), bool(ok))
        for v, mean, u, low, high, q, d, ok in numbers
    )


def interval_of(trials: Trials, degrees_of_freedom: float) -> Interval:
    """Give the interval about the value that holds 95 % of the trials."""
    factor = trials.half_width / trials.standard if trials.standard else math.nan
    return Interval(trials.half_width, factor, degrees_of_freedom, trials.standard, MONTE_CARLO)


def validate(stated: float, trials: Trials) -> Validation:
    """Compare an interval, the value plus and minus `stated`, with trials (JCGM 101, 8.1)."""
    low, high = trials.value - stated - trials.low, trials.value + stated - trials.high
    agreed = [n for n in (1, 2) if max(abs(low), abs(high)) <= numerical_tolerance(trials.standard, n)]
    return Validation(trials, low, high, max(agreed, default=0))


def numerical_tolerance(standard: float, n_digits: int) -> float:
    """Give half a unit in the last of the digits that a standard uncertainty is written with (JCGM 101, 7.9.2)."""
    if not 0 < standard < math.inf:
        return 0.0 if standard == 0 else math.inf
    # Rounded first: 0.0996 is written 0.10.
    exponent = int(f"{standard:.{n_digits - 1}e}".partition("e")[2])
    return 0.5 * 10.0 ** (exponent - n_digits + 1)


def _heavy(terms: Sequence[Term], model: Model) -> bool:
    """Tell whether terms without a standard deviation matter for any quantity."""
    size = np.diag([t.standard for t in terms])
    with np.errstate(all="ignore"):
        variance = ((model(size) - model(-size)) / 2) ** 2
    worst = np.array([t.distribution != "rectangular" and t.degrees_of_freedom <= _HEAVY_DEGREES for t in terms], bool)
    return bool((variance[:, worst].sum(axis=1) > _HEAVY_SHARE_MIN * variance.sum(axis=1)).any())


def _draw(generator: np.random.Generator, terms: Sequence[Term]) -> np.ndarray:
    """Draw one block of errors, (terms, trials); of few values the mean follows Student's (JCGM 101, 6.4.9)."""
    errors = np.empty((len(terms), _BLOCK_TRIALS))
    for k, term in enumerate(terms):
        if term.distribution == "rectangular":
            errors[k] = generator.uniform(-math.sqrt(3), math.sqrt(3), _BLOCK_TRIALS)
        elif math.isinf(term.degrees_of_freedom):
            errors[k] = generator.standard_normal(_BLOCK_TRIALS)
        else:
            errors[k] = generator.standard_t(term.degrees_of_freedom, _BLOCK_TRIALS)
    return errors * np.array([[term.standard] for term in terms]).reshape(-1, 1)


def _summarize(drawn: np.ndarray, heavy: bool) -> np.ndarray:
    """Give mean, standard uncertainty and both ends of each quantity: (4, quantities)."""
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    standard = (high - low) / (2 * _NORMAL_FACTOR) if heavy else drawn.std(axis=1, ddof=1)
    return np.stack([drawn.mean(axis=1), standard, low, high])
