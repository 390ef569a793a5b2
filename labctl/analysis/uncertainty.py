"""Uncertainty budgets: JCGM 100 (GUM) for the contributions, JCGM 101 for the interval where a limit dominates.

Every input error that runs share enters once, with the sensitivity that the measurement model itself gives: central
differences of a model that is at most quadratic in gains, offsets and capacitance are exact, and off by 1e-8 of the
sensitivity in the shunt. Effects carry their sign, so that results which share an input can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from instruments.record import Channel, Record
from labctl.analysis.chain import Chain, Deviation, zero_channel, zero_statistics
from labctl.analysis.statistics import student_factor
from labctl.model import Contribution, Wiring

QUANTITIES = ("duration", "power", "energy")
UNITS = ("s", "W", "J")
# One or two rectangular terms dominate where all others together have at most this part of their standard uncertainty
# (EA-4/02, Evaluation of the Uncertainty of Measurement in Calibration, S9.14 and S10.13).
_REST_RATIO_MAX = 0.3
_STEP = 1e-4
_LN2 = math.log(2)
_TERMS = 1024
_PERIOD = 20.0
# Student's distribution with more degrees of freedom than this is taken as normal: its factor differs by 1 %.
_NORMAL_DEGREES = 100
# Noise of half a code rms spreads quantisation evenly: the mean's error from it is below 1 % of a code
# (Widrow and Kollar, Quantization Noise, 2008, ch. 11).
DITHER_CODES = 0.5


@dataclass(frozen=True)
class Input:
    """One input of the model that all runs of a series share.

    `deviate(h)` gives the deviations of series and null for an error h; `standard` is its standard uncertainty.
    """

    name: str
    deviate: Callable[[float], tuple[Deviation, Deviation]]
    standard: float
    distribution: str = "rectangular"
    evaluation: str = "B"
    unit: str = "1"
    degrees_of_freedom: float = math.inf
    source: str = ""


def rectangular(half_width: float) -> float:
    """Give the standard deviation of a rectangular distribution (JCGM 100, 4.3.7)."""
    return half_width / math.sqrt(3)


def edge_resolution(dt_s: float) -> float:
    """Give the standard deviation of a duration between two edges, each known to within one sample: dt / sqrt(6)."""
    return dt_s / math.sqrt(6)


def propagate(
    inputs: Sequence[Input], model: Callable[[Deviation, Deviation], np.ndarray]
) -> list[dict[str, list[Contribution]]]:
    """Turn inputs into contributions to duration, power and energy of each window, one budget a window.

    `model` gives the three quantities as an array of shape (3, windows).
    """
    centre = np.abs(model(Deviation(), Deviation()))
    budgets: list[dict[str, list[Contribution]]] = [{q: [] for q in QUANTITIES} for _ in range(centre.shape[1])]
    for item in inputs:
        if item.standard <= 0:
            continue
        step = item.standard if item.unit != "1" else _STEP
        change = (model(*item.deviate(step)) - model(*item.deviate(-step))) / 2
        # What rounding leaves of a sensitivity that is zero is no contribution.
        matters = np.abs(change) > 1e-12 * centre
        effect = change / step * item.standard
        for quantity, row, used in zip(QUANTITIES, effect, matters, strict=True):
            for k in np.flatnonzero(used):
                budgets[k][quantity].append(Contribution(
                    item.name, item.evaluation, item.distribution, item.standard, item.unit, float(row[k]),
                    item.degrees_of_freedom, item.source,
                ))
    return budgets


def expanded(contributions: Sequence[Contribution]) -> tuple[float, float]:
    """Give the expanded uncertainty for 95 % and the coverage factor.

    The factor is Student's at the effective degrees of freedom (JCGM 100, G.4.1, Welch-Satterthwaite). Where one or
    two rectangular terms dominate, the sum is not normal: its distribution itself is computed and its 95 % read off
    (JCGM 101, 5.2: numerical integration is an alternative to its Monte Carlo).
    """
    u = math.sqrt(math.fsum(c.effect**2 for c in contributions))
    if u == 0:
        return 0.0, student_factor(math.inf)
    rectangles = sorted((c.effect**2 for c in contributions if c.distribution == "rectangular"), reverse=True)
    largest = math.fsum(rectangles[:2])
    if largest and u**2 - largest <= _REST_RATIO_MAX**2 * largest:
        half = _half_width([replace(c, effect=c.effect / u) for c in contributions])
        return half * u, half
    factor = student_factor(effective_degrees_of_freedom(contributions))
    return factor * u, factor


def effective_degrees_of_freedom(contributions: Sequence[Contribution]) -> float:
    """Give Welch and Satterthwaite's effective degrees of freedom (JCGM 100, G.2b)."""
    u = math.fsum(c.effect**2 for c in contributions)
    parts = math.fsum(c.effect**4 / c.degrees_of_freedom for c in contributions)
    return u * u / parts if parts > 0 else math.inf


def _half_width(contributions: Sequence[Contribution], level: float = 0.95) -> float:
    """Find q with P(|sum| < q) = level for contributions scaled to a standard uncertainty of one.

    With phi the product of the characteristic functions, all even, and the sum all but inside +-L, Fourier's series
    of its distribution gives P(|sum| < q) = q/L + sum over m of 2/(m pi) phi(m pi/L) sin(m pi q/L).
    """
    m = np.arange(1, _TERMS + 1)
    t = m * math.pi / _PERIOD
    phi = np.ones(_TERMS)
    for c in contributions:
        phi *= _characteristic(c, abs(c.effect) * t)
    weights = 2 / (m * math.pi) * phi
    low, high = 0.0, _PERIOD
    for _ in range(50):
        q = (low + high) / 2
        if q / _PERIOD + weights @ np.sin(t * q) < level:
            low = q
        else:
            high = q
    return (low + high) / 2


def _characteristic(c: Contribution, t: np.ndarray) -> np.ndarray:
    """Give the characteristic function of one contribution of unit standard uncertainty.

    Student's: Hurst, The characteristic function of the Student t distribution, ANU 1995.
    """
    if c.distribution == "rectangular":
        return np.sinc(t * math.sqrt(3) / math.pi)
    nu = c.degrees_of_freedom
    if nu > _NORMAL_DEGREES:
        return np.exp(-t * t / 2)
    z = math.sqrt(nu) * t
    # In logarithms, since the Bessel function leaves the range of numbers at either end.
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = special.gammaln(nu / 2) + (nu / 2 - 1) * _LN2
        log_phi = np.log(special.kve(nu / 2, z)) - z + nu / 2 * np.log(z) - scale
    near_zero = -(z**2) / (2 * max(nu - 2, 1.0))  # the first term of its series, where the Bessel function overflows
    return np.exp(np.where(np.isfinite(log_phi), log_phi, np.where(z < 1, near_zero, -np.inf)))


def shared_inputs(
    series: Chain, null: Chain | None, wiring: Wiring, code_std: np.ndarray, timebase_ratio: float | None,
    zero: Record | None,
) -> list[Input]:
    """List what all runs share: shunt, gain, zero or offset, quantisation, supply, time base, decoupling."""
    def both(deviate: Callable[[float], Deviation]) -> Callable[[float], tuple[Deviation, Deviation]]:
        return lambda h: (deviate(h), deviate(h))

    inputs = []
    shunt, supply = wiring.shunt, wiring.supply
    if series.resistance_ohm is not None and shunt is not None:
        inputs.append(Input("shunt", both(lambda h: Deviation(resistance=h)), rectangular(shunt.tolerance_ratio),
                            source="shunt tolerance"))
    if series.voltage_v is not None and supply is not None:
        inputs.append(Input("supply", both(lambda h: Deviation(supply=h)), rectangular(supply.tolerance_ratio),
                            source="supply tolerance"))
    if timebase_ratio is not None:
        inputs.append(Input("time base", both(lambda h: Deviation(timebase=h)), rectangular(timebase_ratio),
                            source="data sheet"))
    if series.tau_s and shunt is not None:
        inputs.append(Input("decoupling", both(lambda h: Deviation(decoupling=h)),
                            rectangular(shunt.decoupling_tolerance_ratio), source="decoupling tolerance"))
    for k, channel in enumerate(series.channels):
        inputs += _channel_inputs(series, null, k, channel, float(code_std[k]), zero)
    return inputs


def _channel_inputs(
    series: Chain, null: Chain | None, k: int, channel: Channel, code_std: float, zero: Record | None
) -> list[Input]:
    """List gain, offset or zero, and quantisation of one channel. Null at another range has errors of its own."""
    name = channel.name
    twin = None if null is None else null.channels[k]
    alike = twin is None or (twin.scale, twin.offset) == (channel.scale, channel.offset)

    def gain(h: float) -> Deviation:
        return Deviation(gain={name: h})

    def offset(h: float) -> Deviation:
        return Deviation(offset={name: h})

    def supply(h: float) -> Deviation:
        return Deviation(supply_offset_v=h)

    def spread(make: Callable[[float], Deviation]) -> Callable[[float], tuple[Deviation, Deviation]]:
        return lambda h: (make(h), make(h) if alike else Deviation())

    inputs = []
    accuracy = channel.accuracy
    if accuracy is not None:
        inputs.append(Input(f"gain {name}", spread(gain), rectangular(accuracy.gain_ratio), source=accuracy.source))
        if series.supply[k]:
            inputs.append(Input(f"supply offset {name}", spread(supply), rectangular(accuracy.offset_limit),
                                unit=channel.unit, source=accuracy.source))
    if not series.sign[k]:
        return inputs
    lsb = abs(channel.scale)
    whole = np.dtype(channel.codes.dtype).kind in "iu"
    reading = zero_channel(channel, zero)
    if reading is not None:
        _, std, n = zero_statistics(reading)
        inputs.append(Input(f"zero {name}", spread(offset), std / math.sqrt(n) * lsb, "normal", "A", channel.unit,
                            n - 1, "zero reading"))
        if whole and std < DITHER_CODES:
            inputs.append(Input(f"zero quantisation {name}", spread(offset), lsb / math.sqrt(12), unit=channel.unit,
                                source="one code"))
    elif accuracy is not None:
        inputs.append(Input(f"offset {name}", spread(offset), rectangular(accuracy.offset_limit), unit=channel.unit,
                            source=accuracy.source))
    if whole and code_std < DITHER_CODES:
        inputs.append(Input(f"quantisation {name}", spread(offset), lsb / math.sqrt(12), unit=channel.unit,
                            source="one code"))
    if twin is not None and not alike and twin.accuracy is not None:
        inputs.append(Input(f"gain {name} of null", lambda h: (Deviation(), gain(h)),
                            rectangular(twin.accuracy.gain_ratio), source=twin.accuracy.source))
        if zero_channel(twin, zero) is None:
            inputs.append(Input(f"offset {name} of null", lambda h: (Deviation(), offset(h)),
                                rectangular(twin.accuracy.offset_limit), unit=twin.unit, source=twin.accuracy.source))
    return inputs
