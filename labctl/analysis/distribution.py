"""The distribution of a sum of independent errors, from their characteristic functions (JCGM 101, 5.4).

For a linear model this is the propagation of distributions itself, by numerical integration in place of Monte Carlo.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy import optimize, special

# Student's distribution with more degrees of freedom than this is taken as normal: its factor differs by 1 %.
_NORMAL_DEGREES = 100
_LN2 = math.log(2)
# What is left out of the integral changes the probability by no more than this.
_TRUNCATION = 1e-6
_NODES_PER_PANEL = 16
_N_PANELS_MAX = 4096


class Error(Protocol):
    """One independent error of known distribution: a `labctl.model.Contribution`, or an input of the model.

    "normal" with finite degrees of freedom is Student's, scaled by the standard uncertainty (JCGM 101, 6.4.9).
    """

    @property
    def distribution(self) -> str:
        """Give "normal" or "rectangular"."""

    @property
    def degrees_of_freedom(self) -> float:
        """Give the degrees of freedom of the standard uncertainty."""


def half_width(errors: Sequence[Error], effects: Sequence[float], level: float = 0.95) -> float:
    """Find q with P(|sum| < q) = level, for errors of these standard uncertainties.

    With phi the product of the characteristic functions, which are all even, P(|sum| < q) is 2/pi times the integral
    of phi(t) sin(q t) / t over t > 0 (Gil-Pelaez, Note on the inversion theorem, Biometrika 38, 1951).
    """
    scale = math.sqrt(math.fsum(e * e for e in effects))
    if scale == 0:
        return 0.0
    parts = [(error, abs(effect) / scale) for error, effect in zip(errors, effects, strict=True) if effect]
    t, weights = _nodes(parts)
    for error, effect in parts:
        weights = weights * characteristic(error, effect * t)

    def excess(q: float) -> float:
        return float(weights @ np.sin(q * t)) - level

    high = 4.0
    while excess(high) < 0 and high < 1e3:
        high *= 2
    return scale * float(optimize.brentq(excess, 0.0, high, xtol=1e-9))


def characteristic(error: Error, t: np.ndarray) -> np.ndarray:
    """Give the characteristic function of one error of unit standard uncertainty.

    Student's: Hurst, The characteristic function of the Student t distribution, ANU 1995.
    """
    if error.distribution == "rectangular":
        return np.sinc(t * math.sqrt(3) / math.pi)
    nu = error.degrees_of_freedom
    if nu > _NORMAL_DEGREES:
        return np.exp(-t * t / 2)
    z = math.sqrt(nu) * t
    # In logarithms, since the Bessel function leaves the range of numbers at either end.
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = special.gammaln(nu / 2) + (nu / 2 - 1) * _LN2
        log_phi = np.log(special.kve(nu / 2, z)) - z + nu / 2 * np.log(z) - scale
    near_zero = -(z**2) / (2 * max(nu - 2, 1.0))  # the first term of its series, where the Bessel function overflows
    return np.exp(np.where(np.isfinite(log_phi), log_phi, np.where(z < 1, near_zero, -np.inf)))


def _nodes(parts: Sequence[tuple[Error, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Give nodes t and weights 2/(pi t) dt of Gauss and Legendre's rule on panels of unit length.

    They reach as far as a bound of phi tells: a rectangle of half-width a falls as 1/(a t), a normal faster.
    """
    ends = 2.0 ** np.arange(2, int(math.log2(_N_PANELS_MAX)) + 1)
    bound = np.ones_like(ends)
    for error, effect in parts:
        if error.distribution == "rectangular":
            bound *= np.minimum(1.0, 1 / (math.sqrt(3) * effect * ends))
        else:
            bound *= characteristic(error, effect * ends)
    enough = np.flatnonzero(bound / ends < _TRUNCATION)
    n_panels = int(ends[enough[0]] if len(enough) else ends[-1])
    x, w = np.polynomial.legendre.leggauss(_NODES_PER_PANEL)
    t = (np.arange(n_panels)[:, None] + (x + 1) / 2).ravel()
    return t, np.tile(w / 2, n_panels) * 2 / (math.pi * t)
