"""What an emulated DUT tells of itself."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Sink(Protocol):
    """What the emulated DUT reports to."""

    def current(self, end_cycle: np.ndarray, mean_current_a: np.ndarray) -> None:
        """Take core current; entry k spans (previous end, end_cycle[k]]."""
        ...

    def pin(self, cycle: int, level: int) -> None:
        """Take an edge of the trigger pin; all current up to `cycle` was handed over before."""
        ...

    def parked(self, cycle: int, current_a: float) -> None:
        """Learn that the line stays at this current from `cycle` until the DUT is woken."""
        ...

    def woken(self) -> None:
        """Learn that the DUT goes on: nobody knows its current until it is handed over."""
        ...
