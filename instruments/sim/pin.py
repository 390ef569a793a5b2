"""The trigger pin's line: its edges, what a wrong lead makes of them, and its voltage through a front end's pole."""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np

# Rise time of the trigger pin, 10 % to 90 %: assumed, of the order of a GPIO at its fastest setting into a probe.
PIN_RISE_S = 5e-9
# 10 % to 90 % of one exponential pole lasts ln(9) tau.
RISE_PER_TAU = math.log(9.0)
# Edges kept at least.
EDGES_KEPT = 100_000
# After so many tau an exponential is at its end, to the last bit of a double.
SETTLED_TAUS = 50.0


class Pin:
    """Hold the edges of a pin that is low at first. The world's lock guards it."""

    def __init__(self, level_v: float) -> None:
        self._level_v = level_v
        self._edge_s: list[float] = []
        self._edge_level: list[int] = []
        self._level_before = 0

    def edge(self, t_s: float, level: int) -> bool:
        """Take a level from `t_s` on; tell whether it is a new one."""
        if level == (self._edge_level[-1] if self._edge_level else self._level_before):
            return False
        self._edge_s.append(t_s)
        self._edge_level.append(level)
        return True

    def start_over(self) -> None:
        """Let time begin now, at the present level."""
        self._level_before = self._edge_level[-1] if self._edge_level else self._level_before
        self._edge_s.clear()
        self._edge_level.clear()

    def drop(self) -> None:
        """Forget the oldest edges once there are many."""
        if len(self._edge_s) > 2 * EDGES_KEPT:
            self._level_before = self._edge_level[EDGES_KEPT - 1]
            del self._edge_s[:EDGES_KEPT], self._edge_level[:EDGES_KEPT]

    def pieces(
        self, from_s: float, to_s: float, tau_s: float, fault: str | None
    ) -> tuple[float, float, np.ndarray, np.ndarray, np.ndarray]:
        """Return the pin as pieces that cover [from_s, to_s], settled `SETTLED_TAUS` before; see `line`."""
        from instruments.sim import line

        start_s = from_s - SETTLED_TAUS * tau_s
        edge_s, level, before = self._edge_s, self._edge_level, self._level_before
        if fault is not None:
            edge_s, level, before = _wired_wrong(fault, edge_s, level, before)
        first, last = bisect_left(edge_s, start_s), bisect_left(edge_s, to_s)
        before = level[first - 1] if first else before
        end_s = np.array([*edge_s[first:last], to_s])
        x = self._level_v * np.array([before, *level[first:last]], dtype=np.float32)
        y_end = np.empty(len(end_s))
        line.append_pieces(start_s, float(x[0]), end_s, x, tau_s, y_end, np.zeros(2))
        return start_s, float(x[0]), end_s, x, y_end


def _wired_wrong(fault: str, edge_s: list[float], level: list[int], before: int) -> tuple[list[float], list[int], int]:
    """Return what the scope's trigger input sees of the pin under a wiring fault."""
    if fault == "disconnected":
        return [], [], 0
    if fault == "stuck-high":
        return [], [], 1
    if fault == "inverted":
        return edge_s, [1 - lv for lv in level], 1 - before
    # "extra-edge": each window shows a dip in its middle, a tenth of it long.
    out_s: list[float] = []
    out_level: list[int] = []
    for t, lv in zip(edge_s, level, strict=True):
        if not lv and out_level and out_level[-1]:
            length = t - out_s[-1]
            dip_s = out_s[-1] + 0.45 * length
            out_s += [dip_s, dip_s + 0.1 * length]
            out_level += [0, 1]
        out_s.append(t)
        out_level.append(lv)
    return out_s, out_level, before
