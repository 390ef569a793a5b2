"""The trigger pin as a channel shows it: what is wrong with it, named, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labctl.analysis.finding import FAULT, OK, Finding
from labctl.analysis.line import Line
from labctl.model import Wiring
from labctl.units import percent, quantity

# How far a swing may be off what the pin's level is before the probe's ratio is doubted.
_SWING_RATIO = (0.6, 1.5)
# Less of the pin's level than this is no trigger through whatever probe.
_MOVES_RATIO = 0.02
# More samples than this at the ends of the range: the line leaves the screen.
CLIPPED_RATIO = 1e-3
# A pulse shorter than this part of a window is a piece of one.
_WHOLE_RATIO = 0.8


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
    return line.switches and line.swing > _MOVES_RATIO * expected_swing(board)


def shows_pin(line: Line, board: Mapping[str, Any]) -> bool:
    """Tell whether a line's swing is that of the trigger pin."""
    return line.switches and _SWING_RATIO[0] < line.swing / expected_swing(board) < _SWING_RATIO[1]


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
    if not shows_pin(line, board):
        what, switches = ("small" if ratio < 1 else "large"), f"{name} switches by {quantity(line.swing, 'V')}"
        fits = f"{probe_ratio / ratio:.2g} would fit"
        if line.clipped_ratio > CLIPPED_RATIO:
            switches, fits = f"{switches} or more", "far less would fit"
        return fault(
            f"the trigger's swing is too {what}: {switches}, pin {pin} by {quantity(level_v, 'V')}: check "
            f"trigger_probe_ratio in [scope] ({probe_ratio:g} now; {fits}) and the probe's own switch", line.swing,
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
