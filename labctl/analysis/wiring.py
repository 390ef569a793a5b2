"""What readings say of shunt, supply and clock: each fault named, and what to do about it.

A fault is said only where no error inside the stated limits could have made the reading: limits are added up, not
their squares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instruments.record import Channel
from labctl.analysis.checks import FAR_RATIO
from labctl.analysis.finding import FAULT, LEFT_OUT, OK, WARNING, Finding
from labctl.analysis.line import Line
from labctl.analysis.uncertainty import expanded, rectangular
from labctl.model import Contribution, Wiring
from labctl.units import percent, quantity, with_uncertainty

# A change is seen where it exceeds its standard uncertainty so many times, and this part of a code.
_SEEN = 5.0
_SEEN_CODES = 0.25
# What two clocks' readings of a window may differ by: one count, and the stores and reads around it.
_EDGE_CYCLES = 9
# What a reading of a volt is off by at most where no data sheet tells: assumed.
_UNKNOWN_RATIO = 0.05


def _expanded(noise: float, *limits: float) -> float:
    """Give the expanded uncertainty (95 %) of a standard uncertainty from noise and of rectangular half-widths."""
    parts = [Contribution("noise", "A", "normal", noise, "", noise)]
    parts += [Contribution("limit", "B", "rectangular", rectangular(x), "", rectangular(x)) for x in limits]
    return expanded(parts)[0]


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
    expanded_a = _expanded(drop.standard_v, shunt.tolerance_ratio * abs(drop.change_v)) / shunt.resistance_ohm
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
    low_a = max(supply["current_min_a"], supply["current_typical_a"] / FAR_RATIO)
    high_a = min(supply["current_max_a"], supply["current_typical_a"] * FAR_RATIO)
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


def judge_zero(name: str, channel: Channel, zero_v: float, standard_v: float) -> Finding:
    """Judge a reading of no current by the data-sheet limit of the channel's offset; `name` is the finding's.

    About mid-screen a slope error moves zero by its part of the offset setting.
    """
    expanded_v = _expanded(standard_v)
    seen = f"{channel.name} reads {with_uncertainty(zero_v, expanded_v, 'V')} with the DUT unpowered"
    if channel.accuracy is None:
        return Finding(name, OK, f"{seen}; the instrument's limit is not known", zero_v, expanded_v, "V")
    accuracy = channel.accuracy
    limit_v = accuracy.offset_limit + accuracy.gain_ratio * abs(float(channel.settings.get("offset_v") or 0.0))
    limit = f"the limit is {quantity(limit_v, 'V')}"
    if abs(zero_v) <= limit_v + _SEEN * standard_v:
        return Finding(name, OK, f"{seen}; {limit}", zero_v, expanded_v, "V")
    return Finding(
        name, FAULT,
        f"{seen}, but {limit}: current flows although the supply is off (serial adapter, debugger: unplug them), or "
        "the oscilloscope needs its self-calibration",
        zero_v, expanded_v, "V",
    )


def judge_switch(drop: Drop, lost: bool, *, by_hand: bool) -> Finding:
    """Judge the supply's switch; `lost` tells whether the DUT forgot, while it was off, what had been prepared."""
    change = f"the shunt's reading moves by {quantity(-drop.change_v, 'V')}"
    who = "switched by hand" if by_hand else "switched"
    if lost:
        text = f"{change}, and the DUT starts anew" if drop.seen else "the DUT starts anew"
        return Finding("supply switch", OK, f"{who} off and on: {text}")
    remedy = "its serial or trigger pin may feed it: unplug them, or isolate the adapter"
    text = (
        f"{who} off, {change}, but the DUT kept its memory: {remedy}" if drop.seen else
        f"{who} off, and neither the DUT nor the shunt took notice ({quantity(drop.change_v, 'V')} of change): check "
        f"that [dut] power switches this DUT's supply; {remedy}"
    )
    return Finding("supply switch", FAULT, text, drop.change_v, None, "V")


def judge_timer(
    seen_s: float, counted_s: float, dt_s: float, timebase_ratio: float | None, board: Mapping[str, Any]
) -> Finding:
    """Compare a duration by the oscilloscope with the DUT's own count of it, both without the null window's.

    They may differ by the limits of both clocks, a sample at either edge, and a few cycles.
    """
    ratio = seen_s / counted_s - 1
    limits = (
        board.get("crystal_tolerance_ratio", 0.0), timebase_ratio or 0.0, 2 * dt_s / counted_s,
        _EDGE_CYCLES / board["clock_hz"] / counted_s,
    )
    expanded_ratio = _expanded(0.0, *limits)
    limit = math.fsum(limits)
    text = (
        f"{quantity(seen_s, 's', 6)} by the oscilloscope, {quantity(counted_s, 's', 6)} by the DUT's count: "
        f"{percent(abs(ratio))} apart, {percent(limit)} allowed"
    )
    if abs(ratio) <= limit:
        return Finding("timer", OK, text, ratio, expanded_ratio, "1")
    return Finding(
        "timer", FAULT,
        f"{text}: the clock is not what the board's data say, or edges are missed; check the crystal, and the board "
        "in [dut]", ratio, expanded_ratio, "1",
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
    limits = _reading_limits(channel, line.high)
    return _compare_supply(
        f"the trigger pin's high level on {line.name}, which is the MCU's rail,", line.high, _expanded(0.0, *limits),
        stated_v, math.fsum(limits) + supply.tolerance_ratio * supply.voltage_v + drop_v, supply.voltage_v,
        "whether the shunt is in the MCU's rail ([supply] node), and trigger_probe_ratio in [scope]",
    )


def judge_supply_channel(channel: Channel, level_v: float, wiring: Wiring) -> Finding:
    """Compare a measured supply with the stated one."""
    supply = wiring.supply
    assert supply is not None and supply.voltage_v is not None
    limits = _reading_limits(channel, level_v)
    return _compare_supply(
        f"the supply measured on {channel.name}", level_v, _expanded(0.0, *limits), supply.voltage_v,
        math.fsum(limits) + supply.tolerance_ratio * supply.voltage_v, supply.voltage_v,
        "the supply's channel in [scope], its probe and its ground",
    )


def _reading_limits(channel: Channel, level_v: float) -> tuple[float, float]:
    """Give what a reading may be off at most: by gain about mid-screen, and by offset."""
    accuracy = channel.accuracy
    if accuracy is None:
        return _UNKNOWN_RATIO * abs(level_v), 0.0
    middle_v = float(channel.settings.get("offset_v") or 0.0)
    return accuracy.gain_ratio * abs(level_v - middle_v), accuracy.offset_limit


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
