"""What readings say of the wiring: trigger, shunt and supply judged, each fault named with what to do about it.

A fault is said only where no error inside the stated limits could have made the reading: limits are added up, not
their squares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instruments.record import Channel
from labctl.analysis.finding import FAULT, LEFT_OUT, OK, WARNING, Finding
from labctl.analysis.line import Line
from labctl.model import Wiring
from labctl.units import percent, quantity, with_uncertainty

# How far a swing may be off what the pin's level is before the probe's ratio is doubted.
_SWING_RATIO = (0.6, 1.5)
# A pulse shorter than this part of a window is a piece of one.
_WHOLE_RATIO = 0.8
# A mean current this many times below or above the board's typical one is not the board's, whatever it does.
_FAR_RATIO = 4.0
# A change is seen where it exceeds its standard uncertainty so many times, and this part of a code.
_SEEN = 5.0
_SEEN_CODES = 0.25
_95 = 1.96


@dataclass(frozen=True)
class Series:
    """What the DUT does during a look: `n` windows of `window_s` each, one every `period_s`."""

    operation: str
    window_s: float
    period_s: float


def expected_swing(board: Mapping[str, Any]) -> float:
    """Give what the trigger pin's two levels differ by."""
    return float(board["pins"]["level_v"])


def moves(line: Line, board: Mapping[str, Any]) -> bool:
    """Tell whether a line switches by something that could be the trigger pin through a wrong probe."""
    return line.switches and line.swing > 0.02 * expected_swing(board)


def find_swap(trigger: Line, shunt: Sequence[Line], board: Mapping[str, Any]) -> Finding | None:
    """Name the fault where the pin is seen by a shunt's channel, and not by the trigger's."""
    level_v = expected_swing(board)
    if moves(trigger, board):
        return None
    for line in shunt:
        if moves(line, board) and line.swing > _SWING_RATIO[0] * level_v:
            return Finding(
                "wires", FAULT,
                f"the wires of shunt and trigger are swapped: {line.name}, the shunt's, switches by "
                f"{quantity(line.swing, 'V')} as the trigger pin does, and {trigger.name}, the trigger's, stays at "
                f"{quantity(trigger.low, 'V')}: swap the two probes, or the channels in [scope] of the bench file",
                line.swing, None, "V",
            )
    return None


def judge_trigger(
    line: Line, others: Sequence[Line], wiring: Wiring, board: Mapping[str, Any], series: Series, dt_s: float,
    probe_ratio: float,
) -> Finding:
    """Judge the trigger's channel while a series runs; `others` are the scope's further channels, where looked at."""
    level_v = expected_swing(board)
    pin, name = board["pins"]["trigger"], line.name

    def fault(text: str, value: float | None = None, unit: str = "V") -> Finding:
        return Finding("trigger", FAULT, text, value, None, unit if value is not None else "")

    if not moves(line, board):
        seen = next((o for o in others if moves(o, board)), None)
        where = f" ({seen.name} switches by {quantity(seen.swing, 'V')}: is it there?)" if seen else ""
        if line.high > level_v / 2:
            return fault(
                f"the trigger is stuck high: {name} stays at {quantity(line.high, 'V')} while the DUT runs "
                f"{series.operation}: wrong pin, or a short to the supply; it belongs on {pin}{where}", line.high,
            )
        return fault(
            f"the trigger never moves: wrong pin, cable or channel. {name} stays at {quantity(line.low, 'V')} while "
            f"the DUT runs {series.operation}; it belongs on {pin}{where}", line.low,
        )
    ratio = line.swing / level_v
    if not _SWING_RATIO[0] < ratio < _SWING_RATIO[1]:
        what = "small" if ratio < 1 else "large"
        return fault(
            f"the trigger's swing is too {what}: {name} switches by {quantity(line.swing, 'V')}, pin {pin} by "
            f"{quantity(level_v, 'V')}: check trigger_probe_ratio in [scope] ({probe_ratio:g} now; "
            f"{probe_ratio / ratio:.2g} would fit) and the probe's own switch", line.swing,
        )
    active = line.high_ratio if wiring.trigger_edge == "rising" else 1 - line.high_ratio
    duty = series.window_s / series.period_s
    if abs(active - (1 - duty)) < abs(active - duty):
        idle, other = ("high", "falling") if wiring.trigger_edge == "rising" else ("low", "rising")
        return fault(
            f"the trigger is inverted: {name} idles {idle} and is active {percent(active)} of the time, where "
            f'{percent(duty)} was expected: set trigger_edge = "{other}" in [scope], or look at the wiring',
            active, "1",
        )
    pulses_s = line.stretches(wiring.trigger_edge == "rising") * dt_s
    window = quantity(series.window_s, "s")
    n_short = int(np.sum(pulses_s < _WHOLE_RATIO * series.window_s))
    if n_short:
        shortest_s = float(pulses_s.min())
        return fault(
            f"extra edges on the trigger: {n_short} of {len(pulses_s)} pulses on {name} are shorter than the {window} "
            f"that the DUT is busy (the shortest {quantity(shortest_s, 's')}): look for ringing, a loose contact or a "
            "floating ground, or use a bandwidth limit",
            shortest_s, "s",
        )
    levels = f"{name} switches between {quantity(line.low, 'V')} and {quantity(line.high, 'V')}"
    if len(pulses_s) == 0 or np.median(pulses_s) > series.window_s / _WHOLE_RATIO:
        pulses = f"pulses of {quantity(float(np.median(pulses_s)), 's')}" if len(pulses_s) else "no whole pulse"
        return fault(
            f"{levels}, but not with the DUT: {pulses}, where it is busy for {window} every "
            f"{quantity(series.period_s, 's')}: wrong pin; the trigger belongs on {pin}", line.swing,
        )
    return Finding(
        "trigger", OK, f"{levels}, {len(pulses_s)} pulses of {quantity(float(np.median(pulses_s)), 's')}",
        line.swing, None, "V",
    )


def judge_rail(line: Line, channel: Channel, wiring: Wiring, board: Mapping[str, Any]) -> Finding:
    """Compare the trigger pin's high level with the stated supply: a pin's high level is the MCU's rail.

    The pin's own drop into a probe is taken for nothing; where the shunt lies below the DUT, its drop adds.
    """
    supply, shunt = wiring.supply, wiring.shunt
    assert supply is not None and shunt is not None
    if supply.node != "mcu" or supply.voltage_v is None:
        return Finding(
            "supply", LEFT_OUT,
            "no channel measures the supply, and the trigger pin tells the MCU's rail only: name a supply_channel in "
            "[scope] to have it checked",
        )
    drop_v = shunt.resistance_ohm * board["supply"]["current_typical_a"]
    burden_v = 0.0 if shunt.wiring == "low-side" or supply.sensed == "dut" else drop_v
    stated_v = supply.voltage_v - burden_v
    reading, standard = _reading_limits(channel, line.high)
    limit_v = reading + supply.tolerance_ratio * supply.voltage_v + drop_v
    return _compare_supply(
        f"the trigger pin's high level on {line.name}, which is the MCU's rail,", line.high, _95 * standard, stated_v,
        limit_v, supply.voltage_v, "as the MCU's rail ([supply] node), or the trigger's probe ratio",
    )


def judge_supply_channel(channel: Channel, level_v: float, wiring: Wiring) -> Finding:
    """Compare a measured supply with the stated one."""
    supply = wiring.supply
    assert supply is not None and supply.voltage_v is not None
    reading, standard = _reading_limits(channel, level_v)
    limit_v = reading + supply.tolerance_ratio * supply.voltage_v
    return _compare_supply(
        f"the supply measured on {channel.name}", level_v, _95 * standard, supply.voltage_v, limit_v,
        supply.voltage_v, "the supply's channel in [scope], its probe and its ground",
    )


def _reading_limits(channel: Channel, level_v: float) -> tuple[float, float]:
    """Give what a reading may be off at most by the instrument's accuracy, and its standard uncertainty."""
    accuracy = channel.accuracy
    if accuracy is None:
        return 0.02 * abs(level_v), 0.02 * abs(level_v) / math.sqrt(3)
    gain = accuracy.gain_ratio * abs(level_v - float(channel.settings.get("offset_v") or 0.0))
    return gain + accuracy.offset_limit, math.hypot(gain, accuracy.offset_limit) / math.sqrt(3)


def _compare_supply(
    what: str, level_v: float, expanded_v: float, stated_v: float, limit_v: float, file_v: float, check: str
) -> Finding:
    seen = f"{what} is {with_uncertainty(level_v, expanded_v, 'V')}"
    if abs(level_v - stated_v) <= limit_v:
        return Finding("supply", OK, f"{seen}; {quantity(file_v, 'V')} is stated", level_v, expanded_v, "V")
    return Finding(
        "supply", FAULT,
        f"{seen}, but {quantity(file_v, 'V')} is stated: every energy would be {percent(abs(file_v / level_v - 1))} "
        f"too {'large' if file_v > level_v else 'small'}: correct voltage_v in [supply], or check {check}"
        if level_v > limit_v else
        f"{seen}, but {quantity(file_v, 'V')} is stated: check {check}",
        level_v, expanded_v, "V",
    )


@dataclass(frozen=True)
class Drop:
    """The change of the shunt's drop between supply off and on, in volts, as the wiring has its sign.

    `standard_v` is its standard uncertainty from noise, and for two channels their gains; `code_v` a converter's step.
    """

    change_v: float
    standard_v: float
    code_v: float

    @property
    def seen(self) -> bool:
        """Tell whether there is a change at all."""
        return abs(self.change_v) > max(_SEEN * self.standard_v, _SEEN_CODES * self.code_v)


def judge_shunt(drop: Drop, wiring: Wiring, board: Mapping[str, Any], probe_ratio: float) -> Finding:
    """Judge the shunt by what it reads of a DUT that waits, its core running, for a command."""
    shunt, supply = wiring.shunt, board["supply"]
    assert shunt is not None
    current_a = drop.change_v / shunt.resistance_ohm
    expanded_a = _95 * math.hypot(drop.standard_v, shunt.tolerance_ratio / math.sqrt(3) * drop.change_v)
    expanded_a /= shunt.resistance_ohm
    typical = quantity(supply["current_typical_a"], "A")
    read = f"{quantity(current_a, 'A')} ({quantity(drop.change_v, 'V')} across {quantity(shunt.resistance_ohm, 'ohm')})"
    board_name = board["name"]

    def found(status: str, text: str) -> Finding:
        return Finding("shunt", status, text, current_a, expanded_a, "A")

    if not drop.seen:
        if shunt.wiring == "two-channel":
            return found(WARNING, (
                f"the drop across the shunt, {quantity(drop.change_v, 'V')}, is less than what the gains of its two "
                "channels may differ by: no judgement; use a differential probe, or a larger shunt"
            ))
        return found(FAULT, (
            f"the shunt reads nothing: {quantity(drop.change_v, 'V')} between supply off and on, where {board_name} "
            f"typically draws {typical}: check that its probe is on the shunt and on this channel, that the shunt is "
            "in the DUT's supply, and that no jumper bridges it"
        ))
    if current_a < 0:
        ends = "or shunt_high_channel and shunt_low_channel in [scope]" if shunt.wiring == "two-channel" else (
            "or invert the probe"
        )
        return found(FAULT, f"the shunt reads negative: swap the leads at the shunt ({ends}). It reads {read}")
    low_a = max(supply["current_min_a"], supply["current_typical_a"] / _FAR_RATIO)
    high_a = min(supply["current_max_a"], supply["current_typical_a"] * _FAR_RATIO)
    if current_a < low_a:
        return found(FAULT, (
            f"the shunt reads far less than {board_name} can draw: {read}, typical is {typical}. Another ground or "
            "supply bypasses the shunt (debugger, USB, serial adapter: unplug or isolate them), or resistance_ohm "
            f"in [shunt] or shunt_probe_ratio ({probe_ratio:g}) is wrong"
        ))
    if current_a > high_a:
        return found(FAULT, (
            f"the shunt reads far more than {board_name} can draw: {read}, typical is {typical}. Check resistance_ohm "
            f"in [shunt] and its unit, shunt_probe_ratio ({probe_ratio:g} now), and for a short behind the shunt"
        ))
    return found(OK, f"{read} flow while the DUT waits, its core running; typical is {typical}")


def judge_zero(channel: Channel, zero_v: float, standard_v: float) -> Finding:
    """Judge a reading of no current by the data-sheet limit of the channel's offset.

    About mid-screen a slope error moves zero by its part of the offset setting.
    """
    expanded_v = _95 * standard_v
    seen = f"{channel.name} reads {with_uncertainty(zero_v, expanded_v, 'V')} with the DUT unpowered"
    if channel.accuracy is None:
        return Finding("offset", OK, f"{seen}; the instrument's limit is not known", zero_v, expanded_v, "V")
    accuracy = channel.accuracy
    limit_v = accuracy.offset_limit + accuracy.gain_ratio * abs(float(channel.settings.get("offset_v") or 0.0))
    limit = f"the limit is {quantity(limit_v, 'V')}"
    if abs(zero_v) <= limit_v + _SEEN * standard_v:
        return Finding("offset", OK, f"{seen}; {limit}", zero_v, expanded_v, "V")
    return Finding(
        "offset", FAULT,
        f"{seen}, but {limit}: current flows although the supply is off (serial adapter, debugger: unplug them), or "
        "the oscilloscope needs its self-calibration",
        zero_v, expanded_v, "V",
    )
