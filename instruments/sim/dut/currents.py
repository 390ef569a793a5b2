"""What a board draws at a clock, from its data: each kind of instruction, sleep, stop modes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from instruments.sim.dut.costs import KINDS


def currents_at_clock(board: Mapping[str, Any]) -> dict[str, float]:
    """Return the currents by kind at the board's `clock_hz`.

    `currents_a` holds at the first of `clocks_hz`; `currents_by_clock_a` gives `run` and `sleep` at each, and the kinds
    of instruction follow `run`. Raises ValueError for a clock that the board's data do not list.
    """
    emulation = board["emulation"]
    currents_a = dict(emulation["currents_a"])
    clocks_hz, by_clock = board.get("clocks_hz", [board["clock_hz"]]), emulation.get("currents_by_clock_a")
    if board["clock_hz"] not in clocks_hz:
        raise ValueError(f"clock_hz {board['clock_hz']}: the board runs at {', '.join(map(str, clocks_hz))} Hz")
    if by_clock is None:
        return currents_a
    index = clocks_hz.index(board["clock_hz"])
    ratio = by_clock["run"][index] / by_clock["run"][0]
    currents_a |= {kind: currents_a[kind] * ratio for kind in ("run", *KINDS)}
    return currents_a | {"sleep": by_clock["sleep"][index]}


def current_ratio(board: Mapping[str, Any], core_hz: float) -> float:
    """Return what the core draws at any clock over what it draws at the board's `clock_hz`.

    Between the listed clocks `run` is taken as a straight line, outside as constant: an assumption.
    """
    by_clock = board["emulation"].get("currents_by_clock_a")
    if by_clock is None:
        return 1.0
    hz, run_a = zip(*sorted(zip(board["clocks_hz"], by_clock["run"], strict=True)), strict=True)
    return float(np.interp(core_hz, hz, run_a) / np.interp(board["clock_hz"], hz, run_a))
