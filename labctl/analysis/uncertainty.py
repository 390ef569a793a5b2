"""Uncertainty budgets: JCGM 100 (GUM) for the contributions, JCGM 101 for the interval where limits dominate.

Every input error that runs share enters once, with the sensitivity that the measurement model itself gives: central
differences of a model that is at most quadratic in gains, offsets and capacitance are exact, and off by 1e-8 of the
sensitivity in the shunt. Effects carry their sign, so that results which share an input can be compared.

Where one or two rectangular terms dominate, the distribution of the sum gives the interval; else Student's factor does.
Three comparable limits, gain 2 %, shunt and supply 1 % for instance, make a sum a little narrower than normal: the
interval then holds 96 % rather than 95 %, 4 % wider than it need be. That is room for what no budget lists, and such
intervals are what a calibration laboratory states (EA-4/02). The widest are those of one limit that just fails to
dominate, 13 % wider than need be.

Of few values beside other terms, Welch and Satterthwaite's degrees of freedom make the interval too narrow: a long tail
is not that of a Student's distribution with more of them. Where half the variance is of few values, which is the worst,
it lacks 70 % of the distribution's at one degree of freedom, 30 % at 2, 16 % at 3, 8 % at 5, 3 % at 10 and 1.5 % at 19.
So the larger of the two is taken.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labctl.analysis.chain import Amount, Deviation, same_errors
from labctl.analysis.distribution import half_width
from labctl.analysis.keys import Keys
from labctl.analysis.power import Measurement
from labctl.analysis.statistics import student_factor
from labctl.model import Contribution, Interval, Wiring

QUANTITIES = ("duration", "power", "energy")
UNITS = ("s", "W", "J")
STUDENT = "Student's t, Welch and Satterthwaite's degrees of freedom (JCGM 100, G.4)"
DISTRIBUTION = "propagation of distributions, a rectangular term dominates (JCGM 101, 5.4)"
FEW_VALUES = "propagation of distributions, few values beside other terms (JCGM 101, 5.4 and 6.4.9)"
# One or two rectangular terms dominate where all others together have at most this part of their standard uncertainty
# (EA-4/02, Evaluation of the Uncertainty of Measurement in Calibration, S9.14 and S10.13).
_REST_RATIO_MAX = 0.3
# The distribution of the sum takes the place of Student's factor where it is wider by more than no printed digit shows.
_WIDER_MIN = 1.001
_STEP = 1e-4
# How far the shunt's channel may lag or lead the trigger's: a 20 MHz limit delays by 8 ns (one pole), a metre of cable
# by 5 ns; twice that is assumed.
SKEW_LIMIT_S = 20e-9
_PHASE_MODULATION = 0.3
# Noise of half a code rms spreads quantisation evenly: the mean's error from it is below 1 % of a code
# (Widrow and Kollar, Quantization Noise, 2008, ch. 11).
DITHER_CODES = 0.5


@dataclass(frozen=True)
class Input:
    """One input of the model that all runs of a series share.

    `deviate(h)` gives the deviations of series and null for an error h; `standard` is its standard uncertainty.
    """

    name: str
    deviate: Callable[[Amount], tuple[Deviation, Deviation]]
    standard: float
    distribution: str = "rectangular"
    evaluation: str = "B"
    unit: str = "1"
    degrees_of_freedom: float = math.inf
    source: str = ""
    key: str = ""


def rectangular(half_width: float) -> float:
    """Give the standard deviation of a rectangular distribution (JCGM 100, 4.3.7)."""
    return half_width / math.sqrt(3)


def edge_resolution(dt_s: float) -> float:
    """Give the standard deviation of a duration between two edges, each known to within one sample: dt / sqrt(6)."""
    return dt_s / math.sqrt(6)


def edge_phase(dt_s: float) -> float:
    """Give the standard deviation of a mean duration whose two edges fall at phases that are only about uniform.

    A density of the phase that is modulated by m shifts the mean position of an edge by at most m dt / (2 pi); m is
    assumed to lie within 0.3 (the waits of the firmware are pseudo-random, the two clocks independent), rectangular
    for each edge.
    """
    return math.sqrt(2) * rectangular(_PHASE_MODULATION) * dt_s / (2 * math.pi)


def propagate(
    inputs: Sequence[Input],
    model: Callable[[Deviation, Deviation], np.ndarray],
    quantities: Sequence[str] = QUANTITIES,
) -> list[dict[str, list[Contribution]]]:
    """Turn inputs into contributions to the quantities of each window, one budget a window.

    `model` gives the quantities as an array of shape (quantities, windows).
    """
    centre = np.abs(model(Deviation(), Deviation()))
    budgets: list[dict[str, list[Contribution]]] = [{q: [] for q in quantities} for _ in range(centre.shape[1])]
    for item in inputs:
        if item.standard <= 0:
            continue
        step = item.standard if item.unit != "1" else _STEP
        change = (model(*item.deviate(step)) - model(*item.deviate(-step))) / 2
        # What rounding leaves of a sensitivity that is zero is no contribution.
        matters = np.abs(change) > 1e-12 * centre
        effect = change / step * item.standard
        for quantity, row, used in zip(quantities, effect, matters, strict=True):
            for k in np.flatnonzero(used):
                budgets[k][quantity].append(Contribution(
                    item.name, item.evaluation, item.distribution, item.standard, item.unit, float(row[k]),
                    item.degrees_of_freedom, item.source, item.key,
                ))
    return budgets


def interval(contributions: Sequence[Contribution]) -> Interval:
    """Give the interval for 95 % that a budget makes.

    Where one or two rectangular terms dominate, it is read off the distribution of the sum itself, with Student's for
    what few values were averaged for. Else the factor is Student's at the effective degrees of freedom, unless few
    values make the distribution of the sum wider. Contributions of one key are one error: their effects add with their
    signs.
    """
    parts = independent(contributions)
    effects = [c.effect for c in parts]
    u = math.sqrt(math.fsum(e * e for e in effects))
    degrees = effective_degrees_of_freedom(parts)
    if _limits_dominate(parts):
        half = half_width(parts, effects)
        return Interval(half, half / u, degrees, u, DISTRIBUTION)
    factor = student_factor(degrees)
    if math.isfinite(degrees):
        half = half_width(parts, effects)
        if half > _WIDER_MIN * factor * u:
            return Interval(half, half / u, degrees, u, FEW_VALUES)
    return Interval(factor * u, factor, degrees, u, STUDENT)


def _limits_dominate(parts: Sequence[Contribution]) -> bool:
    """Tell whether one or two rectangular terms dominate all others together."""
    limits = sorted((c.effect**2 for c in parts if c.distribution == "rectangular"), reverse=True)
    others = [c.effect**2 for c in parts if c.distribution != "rectangular"]
    largest = math.fsum(limits[:2])
    return largest > 0 and math.fsum(limits[2:] + others) <= _REST_RATIO_MAX**2 * largest


def expanded(contributions: Sequence[Contribution]) -> tuple[float, float]:
    """Give the expanded uncertainty for 95 % and the coverage factor of `interval`."""
    found = interval(contributions)
    return found.expanded, found.coverage_factor


def independent(contributions: Iterable[Contribution]) -> list[Contribution]:
    """Join contributions of one key, which are one error, so that all that is left is independent.

    The shorter name stays: an error by itself rather than as part of a calibration.
    """
    found: dict[str, Contribution] = {}
    for number, c in enumerate(contributions):
        key = c.key or f"#{number}"
        first = found.get(key)
        if first is None:
            found[key] = c
        else:
            found[key] = replace(min(first, c, key=lambda x: len(x.name)), effect=first.effect + c.effect)
    return list(found.values())


def effective_degrees_of_freedom(contributions: Sequence[Contribution]) -> float:
    """Give Welch and Satterthwaite's effective degrees of freedom (JCGM 100, G.2b)."""
    u = math.fsum(c.effect**2 for c in contributions)
    parts = math.fsum(c.effect**4 / c.degrees_of_freedom for c in contributions)
    return u * u / parts if parts > 0 else math.inf


def deviated(inputs: Sequence[Input], errors: Sequence[Amount]) -> tuple[Deviation, Deviation]:
    """Give the deviations of series and null for one error of each input together; errors may be arrays of trials."""
    pairs = [item.deviate(error) for item, error in zip(inputs, errors, strict=True)]
    return _sum([series for series, _ in pairs]), _sum([null for _, null in pairs])


def _sum(deviations: Sequence[Deviation]) -> Deviation:
    total: dict[str, Any] = {f.name: getattr(Deviation(), f.name) for f in dataclasses.fields(Deviation)}
    for deviation in deviations:
        for name, before in total.items():
            more = getattr(deviation, name)
            if isinstance(more, Mapping):
                total[name] = {k: before.get(k, 0.0) + more.get(k, 0.0) for k in {**before, **more}}
            else:
                total[name] = before + more
    return Deviation(**total)


Spread = Callable[[Deviation], tuple[Deviation, Deviation]]


def shared_inputs(
    series: Measurement,
    null: Measurement | None,
    wiring: Wiring,
    timebase_ratio: float | None,
    keys: Keys | None = None,
) -> list[Input]:
    """List what all runs share: shunt, gain, zero or offset, quantisation, supply, time base, skew, decoupling.

    A channel that null windows saw at other settings has errors of its own there. A gain calibration takes the place
    of shunt and gain; what it shares with the measurement, the supply that fed its load for instance, stays one error.
    `keys` name the errors for comparison with other results.
    """
    def both(deviation: Deviation) -> tuple[Deviation, Deviation]:
        return deviation, deviation

    keys = keys or Keys()
    inputs = []
    chain, shunt, supply = series.chain, wiring.shunt, wiring.supply
    found = {kind: list(c.contributions) for kind, c in chain.calibrations.items()}
    gain = found.get("gain", [])
    if chain.resistance_ohm is not None and shunt is not None:
        key = keys.shunt(shunt)
        current = _claim(gain, key)
        inputs.append(Input("shunt", lambda h: both(Deviation(resistance=h, current=current * h)),
                            rectangular(shunt.tolerance_ratio), source="shunt tolerance", key=key))
    if chain.voltage_v is not None and supply is not None:
        key = keys.supply(supply)
        current_of_supply = _claim(gain, key)
        inputs.append(Input("supply", lambda h: both(Deviation(supply=h, current=current_of_supply * h)),
                            rectangular(supply.tolerance_ratio), source="supply tolerance", key=key))
    if "timebase" not in found and timebase_ratio is not None:
        inputs.append(Input("time base", lambda h: both(Deviation(timebase=h)), rectangular(timebase_ratio),
                            source="data sheet", key=keys.timebase()))
    if chain.tau_s and shunt is not None:
        inputs.append(Input("decoupling", lambda h: both(Deviation(decoupling=h)),
                            rectangular(shunt.decoupling_tolerance_ratio), source="decoupling tolerance",
                            key=keys.decoupling(shunt)))
    if "deskew" not in found and wiring.trigger_channel is not None:
        inputs.append(Input("skew", lambda h: both(Deviation(skew_s=h)), rectangular(SKEW_LIMIT_S), unit="s",
                            source="limiter and cables, assumed", key=keys.skew(chain.channels[0].name)))
    inputs += [_of_calibration("gain calibration", c, lambda h: both(Deviation(current=h))) for c in gain]
    inputs += [_of_calibration("time base calibration", c, lambda h: both(Deviation(timebase=h)))
               for c in found.get("timebase", [])]
    inputs += [_of_calibration("deskew calibration", c, lambda h: both(Deviation(skew_s=h)))
               for c in found.get("deskew", [])]
    for k, channel in enumerate(chain.channels):
        if null is None or same_errors(channel, null.chain.channels[k]):
            inputs += _channel_inputs(series, k, "", both, keys)
        else:
            inputs += _channel_inputs(series, k, "", lambda d: (d, Deviation()), keys)
            inputs += _channel_inputs(null, k, " of null", lambda d: (Deviation(), d), keys)
    return inputs


def _claim(contributions: list[Contribution], key: str) -> float:
    """Take the contributions with this key out of a calibration's; return its sensitivity to that error."""
    mine = [c for c in contributions if key and c.key == key]
    contributions[:] = [c for c in contributions if c not in mine]
    return math.fsum(c.effect / c.standard for c in mine)


def _of_calibration(name: str, c: Contribution, deviate: Callable[[Amount], tuple[Deviation, Deviation]]) -> Input:
    """Make an input of what a calibration is uncertain by; its unit is that of the calibration's value."""
    unit = "s" if name.startswith("deskew") else "1"
    sign = math.copysign(1.0, c.effect)
    return Input(f"{name}: {c.name}", lambda h: deviate(sign * h), abs(c.effect), c.distribution, c.evaluation, unit,
                 c.degrees_of_freedom, c.source, c.key)


def _channel_inputs(measured: Measurement, k: int, suffix: str, spread: Spread, keys: Keys) -> list[Input]:
    """List gain, offset or zero, and quantisation of one channel.

    One offset moves all that a channel tells, the shunt's drop and the supply; a zero reading takes it off the drop.
    """
    chain = measured.chain
    channel, has_zero = chain.channels[k], bool(chain.has_zero[k])
    name, unit, accuracy = channel.name, channel.unit, channel.accuracy
    drops, supplies = bool(chain.sign[k]), bool(chain.supply[k])

    def gain(h: Amount) -> tuple[Deviation, Deviation]:
        return spread(Deviation(gain={name: h}))

    def drop(h: Amount) -> tuple[Deviation, Deviation]:
        return spread(Deviation(offset={name: h}))

    def supply(h: Amount) -> tuple[Deviation, Deviation]:
        return spread(Deviation(supply_offset_v=h))

    def reading(h: Amount) -> tuple[Deviation, Deviation]:
        return spread(Deviation(offset={name: h} if drops else {}, supply_offset_v=h if supplies else 0.0))

    inputs = []
    if accuracy is not None:
        limit = rectangular(accuracy.offset_limit)
        if not (drops and "gain" in chain.calibrations):
            inputs.append(Input(f"gain {name}{suffix}", gain, rectangular(accuracy.gain_ratio), source=accuracy.source,
                                key=keys.gain(channel)))
        if drops and not has_zero:
            inputs.append(Input(f"offset {name}{suffix}", reading, limit, unit=unit, source=accuracy.source,
                                key=keys.offset(channel)))
        elif supplies:
            inputs.append(Input(f"supply offset {name}{suffix}", supply, limit, unit=unit, source=accuracy.source,
                                key=keys.offset(channel)))
    step = float(chain.code_step[k])
    rounding = step * abs(channel.scale) / math.sqrt(12)
    if has_zero:
        n, std = int(chain.zero_n[k]), math.sqrt(chain.zero_covariance[k, k])
        inputs.append(Input(f"zero {name}{suffix}", drop, std / math.sqrt(n) * abs(channel.scale), "normal", "A", unit,
                            n - 1, "zero reading", keys.reading(f"zero {name}", chain.zero, chain.zero_covariance)))
        if std < DITHER_CODES * step:
            inputs.append(Input(f"zero quantisation {name}{suffix}", drop, rounding, unit=unit, source="one code",
                                key=keys.reading(f"zero quantisation {name}", chain.zero)))
    if measured.code_std[k] < DITHER_CODES * step:
        inputs.append(Input(f"quantisation {name}{suffix}", reading, rounding, unit=unit, source="one code"))
    return inputs
