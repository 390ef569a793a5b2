"""The step response of shunt and decoupling: many steps put on one another, and a first order fitted to them.

A current that is switched on at t0 behind a capacitance C shows across the shunt R as

    y = base + change (1 - exp(-(t - t0) / tau)),  tau = R C.

A pole tau_p in the front end, far faster, moves the start of such a tail to t0 + tau_p + tau_p^2 / (2 tau) and leaves
tau as it is (the two poles' exact response, without its fast term). So samples about the start, where that fast term
and the skew of the channels show, are left out, and the tail is followed back to where it starts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from labctl.analysis.uncertainty import SKEW_LIMIT_S
from labctl.errors import CaptureError

# Samples nearer to the step than this are left out of the fit: the skew, and five times the pole of a 20 MHz limit.
GUARD_S = SKEW_LIMIT_S + 5 * 8e-9
# The change must exceed what is left of the noise in a mean of so many samples by this factor.
_SIGNIFICANT = 10.0
_PLATEAU_RATIO = 0.25
# A tail that has faded to this part of the change by the end of the guard says nothing of tau.
_FADED_RATIO = 0.05
_SETTLED_TAUS = 5.0
_BLOCKS = 64


@dataclass(frozen=True)
class Step:
    """A first-order step. `base` and `change` are in the unit of the samples; `_standard` ones are from the noise.

    `tau_s` and its standard uncertainty are None where the tail is too short to be seen: it is below `tau_below_s`.
    `delay_s` is how long after the trigger's edge the step begins.
    """

    base: float
    change: float
    tau_s: float | None
    tau_standard_s: float | None
    tau_below_s: float
    delay_s: float
    delay_standard_s: float
    degrees_of_freedom: float


def superpose(
    codes: Sequence[np.ndarray], factors: np.ndarray, constant: float, edges: np.ndarray, dt_s: float
) -> tuple[np.ndarray, np.ndarray]:
    """Average segments after shifting each by its edge: times from the edge in seconds, and values.

    `codes` are of shape (segments, samples), one array a channel; value = sum of factor x code + constant; `edges`,
    (segments,), in samples with a fraction. Shifts are by whole samples; the mean of the rest is in the times.
    """
    n_samples = codes[0].shape[1]
    nearest = np.rint(edges).astype(np.int64)
    before, after = int(nearest.min()), int(n_samples - nearest.max())
    values = np.full(before + after, constant)
    for channel, factor in zip(codes, factors, strict=True):
        total = np.zeros(before + after, np.int64 if channel.dtype.kind in "iu" else np.float64)
        for segment, centre in enumerate(nearest):
            total += channel[segment, centre - before : centre + after]
        values += factor * total / len(nearest)
    return (np.arange(-before, after) - float(np.mean(edges - nearest))) * dt_s, values


def fit_step(t_s: np.ndarray, values: np.ndarray) -> Step:
    """Fit a first-order step to an averaged response; `t_s` counts from the trigger's edge.

    Raises CaptureError where there is no step, or where it does not settle before the record ends.
    """
    base, change, noise = _levels(t_s, values)
    base_part, tail = values[t_s < -GUARD_S], t_s > GUARD_S
    t, y = t_s[tail], values[tail]
    tau_s, faded = _guess(t, (y - base) / change)
    if faded:
        return _fast_step(t_s, values, base, change, noise)
    return _fit(t, y, base, base_part, change, tau_s)


def rough_tau_s(t_s: np.ndarray, values: np.ndarray) -> float:
    """Estimate the time constant of a step to within a few per cent of the record, and no less than the guard.

    Raises CaptureError where there is no step.
    """
    base, change, _ = _levels(t_s, values)
    tail = t_s > GUARD_S
    return _guess(t_s[tail], (values[tail] - base) / change)[0]


def _levels(t_s: np.ndarray, values: np.ndarray) -> tuple[float, float, float]:
    """Find the level before a step, the change to its plateau, and the noise. Raises CaptureError for none."""
    base_part, y = values[t_s < -GUARD_S], values[t_s > GUARD_S]
    if len(base_part) < _BLOCKS or len(y) < 4 * _BLOCKS:
        raise CaptureError("the record is too short about the step: record more samples before and after it")
    base, noise = float(base_part.mean()), float(base_part.std())
    plateau = y[-int(_PLATEAU_RATIO * len(y)) :]
    change = float(plateau.mean()) - base
    if abs(change) <= _SIGNIFICANT * noise / math.sqrt(min(len(base_part), len(plateau))):
        raise CaptureError(
            f"no step of the current follows the trigger's edge: {change:.3g} of the channel's unit in noise of "
            f"{noise:.3g}: check that the load is switched by the generator, and that the supply is on"
        )
    return base, change, noise


def _guess(t: np.ndarray, part: np.ndarray) -> tuple[float, bool]:
    """Guess tau from when the response passes 1 - 1/e; tell whether it had settled as soon as the guard ends."""
    length = max(1, len(t) // (16 * _BLOCKS))
    n = len(t) // length
    smooth = part[: n * length].reshape(n, length).mean(axis=1)
    when = t[: n * length].reshape(n, length).mean(axis=1)
    passed = np.flatnonzero(smooth >= 1 - 1 / math.e)
    first = int(passed[0]) if len(passed) else n - 1
    return max(float(when[first]), GUARD_S), bool(first == 0 and smooth[0] > 1 - _FADED_RATIO)


def _fit(
    t: np.ndarray, y: np.ndarray, base: float, base_part: np.ndarray, change: float, guess_s: float
) -> Step:
    """Fit plateau, tail and tau; time is in units of the guess and values in units of the change, to be well scaled."""
    u, z = t / guess_s, (y - base) / change

    def model(u: np.ndarray, settled: float, tau: float, log_tail: float) -> np.ndarray:
        return settled - np.exp(log_tail - u / tau)

    def jacobian(u: np.ndarray, _settled: float, tau: float, log_tail: float) -> np.ndarray:
        tail = np.exp(log_tail - u / tau)
        return np.stack([np.ones_like(u), -tail * u / tau**2, -tail], axis=1)

    try:
        found, covariance = optimize.curve_fit(model, u, z, p0=(1.0, 1.0, 0.0), jac=jacobian)
    except (RuntimeError, optimize.OptimizeWarning) as error:
        raise CaptureError("the step response is not that of one time constant: look at the waveform") from error
    settled, tau, log_tail = (float(x) for x in found)
    if not (np.isfinite(covariance).all() and tau > 0 and tau * _SETTLED_TAUS < u[-1]):
        raise CaptureError(
            f"the step does not settle within {t[-1]:.3g} s: use a longer pulse, or less capacitance behind the shunt"
        )
    residual = z - model(u, settled, tau, log_tail)
    inflation = max(correlation(residual), 1.0)
    covariance = covariance * inflation
    base_variance = float(np.var(base_part)) / len(base_part) * max(correlation(base_part), 1.0) / change**2
    # The tail starts where it meets the base: settled = exp(log_tail - u0/tau).
    start = tau * (log_tail - math.log(settled))
    gradient = np.array([-tau / settled, log_tail - math.log(settled), tau])
    # A base that is off by e moves the start by tau e / settled.
    start_variance = float(gradient @ covariance @ gradient) + (tau / settled) ** 2 * base_variance
    return Step(
        base=base,
        change=change * settled,
        tau_s=tau * guess_s,
        tau_standard_s=math.sqrt(covariance[1, 1]) * guess_s,
        tau_below_s=tau * guess_s,
        delay_s=start * guess_s,
        delay_standard_s=math.sqrt(start_variance) * guess_s,
        degrees_of_freedom=len(u) / inflation - 3,
    )


def _fast_step(t_s: np.ndarray, values: np.ndarray, base: float, change: float, noise: float) -> Step:
    """Describe a step whose tail is over within the guard: where it passes its middle, and a bound for tau."""
    part = (values - base) / change
    passed = np.flatnonzero((part >= 1 / 2) & (t_s > -GUARD_S))
    k = int(passed[0])
    a, b = part[k - 1], part[k]
    delay_s = float(t_s[k - 1] + (0.5 - a) / (b - a) * (t_s[k] - t_s[k - 1])) if b > a else float(t_s[k])
    dt_s = float(t_s[1] - t_s[0])
    return Step(
        base=base,
        change=change,
        tau_s=None,
        tau_standard_s=None,
        tau_below_s=GUARD_S / -math.log(_FADED_RATIO),
        delay_s=delay_s,
        # Within the sample's interval, and the noise over the slope there, of which an interval is the least run.
        delay_standard_s=math.hypot(dt_s / math.sqrt(12), noise / abs(change) * dt_s / max(b - a, 1e-9)),
        degrees_of_freedom=math.inf,
    )


def correlation(values: np.ndarray) -> float:
    """Give by how much the variance of a mean exceeds that of independent values: 1 where they are."""
    length = len(values) // _BLOCKS
    if length < 2:
        return 1.0
    cut = values[: length * _BLOCKS].reshape(_BLOCKS, length)
    variance = float(values.var())
    return length * float(cut.mean(axis=1).var(ddof=1)) / variance if variance > 0 else 1.0
