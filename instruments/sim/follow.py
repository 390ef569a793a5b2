"""What instruments have in common that record as time goes by: how far they may look, and on which clock.

A DUT at work leads: what follows it sees the line as it grows. While the line is steady nothing happens on it, and it
is followed at `pace` times real time.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from typing import Any

from instruments.sim.circuit import draw
from instruments.sim.world import World

PACE = 20.0
# How long a thread waits at most before it looks for a stop.
POLL_S = 0.2
# What is looked at in one go, in real time.
STEP_S = 5e-3


def pace_of(options: Mapping[str, Any]) -> float:
    """Return the pace that a meter's options ask for. Raises ValueError or TypeError."""
    pace = options.get("pace", PACE)
    if isinstance(pace, bool) or not isinstance(pace, int | float):
        raise TypeError(f"meter: pace {pace!r} is no number")
    if not 0.01 <= pace <= 1000:
        raise ValueError(f"meter: pace {pace!r} must be 0.01 to 1000 times real time")
    return float(pace)


class Follower:
    """Follow the line from its present end on. `seen_s` is how far it got, in true seconds."""

    def __init__(self, world: World, pace: float, stop: threading.Event) -> None:
        self._world, self._pace, self._stop = world, pace, stop
        self._viewer, self.start_s = world.view()
        self.seen_s = self.start_s
        self._restart()

    def close(self) -> None:
        """Let go of the line."""
        self._viewer.close()

    @property
    def step_s(self) -> float:
        """Return a stretch that is worth looking at in one go."""
        return STEP_S * self._pace

    def hold(self, keep_from_s: float) -> None:
        """Stay where the line ends now, and keep what follows `keep_from_s`."""
        self._viewer.look(keep_from_s)
        self.seen_s = max(self.seen_s, self._world.end_s)
        self._restart()

    def follow(self, wanted_s: float, keep_from_s: float) -> float:
        """Wait a moment for the line to get to `wanted_s`; return how far it may be looked at, at most that far.

        Nothing before `keep_from_s` will be asked for again.
        """
        self._viewer.look(keep_from_s)
        end_s, steady = self._world.reach(self.seen_s, 0.0)
        if end_s < wanted_s and steady:
            due_s = self._from_s + (time.monotonic() - self._since_s) * self._pace
            if due_s < wanted_s:
                self._stop.wait(min((wanted_s - due_s) / self._pace, POLL_S))
                due_s = self._from_s + (time.monotonic() - self._since_s) * self._pace
            # What was running meanwhile may have gone further by itself.
            end_s, _ = self._world.reach(min(wanted_s, due_s), 0.0)
            self.seen_s = max(self.seen_s, min(end_s, wanted_s))
            return self.seen_s
        if end_s < wanted_s:
            end_s, _ = self._world.reach(end_s + 1e-9, POLL_S)
        self.seen_s = max(self.seen_s, min(end_s, wanted_s))
        self._restart()
        return self.seen_s

    def _restart(self) -> None:
        self._from_s, self._since_s = self.seen_s, time.monotonic()


class MeterClock:
    """A meter's own clock, off by at most `limit_ratio`, at a phase nobody chose."""

    def __init__(self, limit_ratio: float, seed: int, stream: int, number: int) -> None:
        self.error_ratio = limit_ratio * draw(seed, "meter-timebase")
        self._phase = 0.5 + 0.5 * draw(seed, "meter-phase", stream, number)

    def true_s(self, believed_s: float) -> float:
        """Return how long a stretch really lasts that the meter takes for `believed_s`."""
        return believed_s * (1.0 + self.error_ratio)

    def first_tick_s(self, from_s: float, dt_s: float) -> float:
        """Return the true time of the first tick at or after `from_s`, for a believed interval `dt_s`."""
        step_s = self.true_s(dt_s)
        return (math.ceil(from_s / step_s - self._phase) + self._phase) * step_s
