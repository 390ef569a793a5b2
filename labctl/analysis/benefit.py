"""Whether a calibration leaves a number better known than no calibration would, and what else to know about one."""

from __future__ import annotations

import math

from instruments.record import Record
from labctl.analysis.uncertainty import SKEW_LIMIT_S, expanded, rectangular
from labctl.model import Calibration, Capture, Wiring
from labctl.units import percent, quantity

# Gain and offset of an oscilloscope are specified for some degrees about the temperature of its own adjustment, often
# 10 degC; half of that is taken here (an assumption, like the limits themselves: docs/error-terms.md).
TEMPERATURE_ROOM_DEGC = 5.0
# The name of a gain calibration's contribution that the measurement's supply repeats.
SUPPLY = "supply"


def value_expanded(calibration: Calibration) -> tuple[float, float]:
    """Give the expanded uncertainty (95 %) of a calibration's value, in its unit, and the coverage factor.

    The contributions of a gain are ratios of its value.
    """
    half, factor = expanded(calibration.contributions)
    return half * (abs(calibration.value) if calibration.kind == "gain" else 1.0), factor


def drawback(calibration: Calibration, wiring: Wiring, record: Record) -> str:
    """Say, in a sentence, where a calibration leaves its number no better known than none would; empty where it does.

    A gain against a load is judged by the energy, in which the supply then stands twice: E = V i, and i = V / R_load.
    `record` tells the limits of the instrument. What is not known is not judged.
    """
    if calibration.kind == "gain":
        return _of_gain(calibration, wiring, record)
    mine = math.sqrt(math.fsum(c.effect**2 for c in calibration.contributions))
    if calibration.kind == "timebase" and record.timebase_ratio is not None:
        limit = rectangular(record.timebase_ratio)
        if mine >= limit:
            return (
                f"times are known to {1e6 * mine:.2g} ppm (standard uncertainty) with it, and to {1e6 * limit:.2g} ppm "
                "by the instrument's own limit"
            )
    elif calibration.kind == "deskew" and mine >= rectangular(SKEW_LIMIT_S):
        return (
            f"the delay is known to {quantity(mine, 's')} (standard uncertainty) with it, and to "
            f"{quantity(rectangular(SKEW_LIMIT_S), 's')} by what is assumed without"
        )
    return ""


def warn_of_calibrations(warnings: list[str], capture: Capture) -> None:
    """Warn of calibrations that make a result worse, and of those taken at another temperature."""
    now_degc = capture.provenance.get("temperature_degc")
    for calibration in capture.calibrations:
        what = f"the {calibration.kind} calibration of {calibration.utc}"
        sentence = drawback(calibration, capture.wiring, capture.records["series"])
        if sentence:
            warnings.append(f"{what}, applied all the same, does harm: {sentence}")
        then_degc = calibration.temperature_degc
        if now_degc is not None and then_degc is not None and abs(now_degc - then_degc) > TEMPERATURE_ROOM_DEGC:
            warnings.append(
                f"{what} was taken at {then_degc:g} °C and the runs at {now_degc:g} °C, more than "
                f"{TEMPERATURE_ROOM_DEGC:g} °C apart: what has drifted between is in no uncertainty; calibrate again"
            )


def _of_gain(gain: Calibration, wiring: Wiring, record: Record) -> str:
    accuracy = record.channels[next(iter(gain.channels))].accuracy
    if accuracy is None or wiring.shunt is None or wiring.supply is None or wiring.supply.channel is not None:
        return ""
    supply = rectangular(wiring.supply.tolerance_ratio)
    shared = math.fsum(c.effect for c in gain.contributions if c.name == SUPPLY)
    rest = math.fsum(c.effect**2 for c in gain.contributions if c.name != SUPPLY)
    mine = math.sqrt(rest + (supply + shared) ** 2)
    without = math.hypot(supply, rectangular(accuracy.gain_ratio), rectangular(wiring.shunt.tolerance_ratio))
    if mine < without:
        return ""
    twice = ", the supply counting twice," if shared else ""
    return (
        f"the energy's standard uncertainty is {percent(mine)} with it{twice} "
        f"and {percent(without)} by the limits of shunt and instrument"
    )
