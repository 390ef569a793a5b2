"""One acquisition of an emulated oscilloscope: fill the pre-trigger part, wait for the trigger, take segments.

Sources and assumptions: a segment's trigger is accepted only once its pre-trigger part is filled and at least
`REARM_S` after the end of the segment before (1 us between triggers: not verified against the 3000 X-Series data sheet,
segmented memory). Sweep AUTO triggers by itself after `AUTO_S`: assumed, not verified against any manual. Trigger
instants are known to the instrument to 10 ps (assumed) by its interpolator, on its own clock.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

import numpy as np

from instruments.sim.frontend import FrontEnd, SampleClock, noise_generator
from instruments.sim.world import HISTORY_S, Viewer, World

REARM_S = 1e-6
AUTO_S = 40e-3
TRIGGER_RESOLUTION_S = 10e-12
# How long a thread sleeps at most before it looks for a stop.
POLL_S = 0.2
# How long, of the host's time, an acquisition waits for a DUT at work to come to rest before it starts. The emulator is
# busy for a while after the DUT has said its last word; on a bench nothing of this is seen.
REST_S = 3.0
# What a steady line is continued by before the pre-trigger part, so that nothing of its past is still settling.
SETTLE_S = HISTORY_S


@dataclass(frozen=True)
class Plan:
    """What to take: `left_s` is where the record starts as seen from the trigger, on the instrument's clock."""

    front_ends: dict[int, FrontEnd]
    trigger: FrontEnd
    level_v: float
    rising: bool
    auto: bool
    holdoff_s: float
    left_s: float
    dt_s: float
    n_points: int
    n_segments: int
    staging_s: float = 0.0  # of the host's time, before anything is looked at


class Acquisition:
    """Take the segments of a plan in a thread of its own."""

    def __init__(
        self, world: World, clock: SampleClock, plan: Plan, seed: int, number: int, stream: int = 0
    ) -> None:
        self.plan = plan
        shape = (plan.n_segments, plan.n_points)
        self.codes = {c: np.empty(shape, front_end.family.code_type) for c, front_end in plan.front_ends.items()}
        self.trigger_s: list[float] = []  # after the first trigger, as the instrument believes
        self.x_origin_s: list[float] = []  # first sample after its segment's trigger, as the instrument believes
        self.n_triggered = 0
        self.done_s = math.inf  # when it ended, by the host's monotonic clock
        self.started = threading.Event()
        self.staged = threading.Event()
        self.armed = threading.Event()
        self.triggered = threading.Event()
        self.done = threading.Event()
        self._world = world
        self._clock = clock
        self._noise = {c: noise_generator(seed, c, number, stream) for c in plan.front_ends}
        self._force = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acquisition", daemon=True)

    @property
    def n_taken(self) -> int:
        """Return how many segments are complete."""
        return len(self.x_origin_s)

    def start(self) -> None:
        """Start to fill and to wait for the trigger."""
        self.started.set()
        self._thread.start()

    def force(self) -> None:
        """Trigger as soon as the pre-trigger part is full."""
        self._force.set()
        self._world.wake()

    def stop(self) -> None:
        """End; segments that are complete stay."""
        self._stop.set()
        self._world.wake()
        self._thread.join(timeout=10.0)

    def _run(self) -> None:
        self._stop.wait(self.plan.staging_s)
        self.staged.set()
        self._world.rest(REST_S, self._stop.is_set)
        viewer, start_s = self._world.view()
        try:
            self._take(viewer, start_s)
        finally:
            viewer.close()
            self.done_s = time.monotonic()
            self.done.set()

    def _take(self, viewer: Viewer, start_s: float) -> None:
        plan, true_s = self.plan, self._clock.true_s
        pre_s = max(0.0, true_s(-plan.left_s))
        if self._world.reach(start_s, 0.0)[1]:
            start_s += SETTLE_S
        ready_s = start_s + pre_s
        first_trigger_s = math.nan
        for segment in range(plan.n_segments):
            trigger_s = self._wait_trigger(viewer, ready_s, pre_s)
            if math.isnan(trigger_s):
                return
            self.n_triggered += 1
            self.triggered.set()
            if segment == 0:
                first_trigger_s = trigger_s
            first_s = self._clock.first_tick_s(trigger_s + true_s(plan.left_s), plan.dt_s)
            if not self._fill(viewer, segment, first_s):
                return
            self.trigger_s.append(self._believed(trigger_s - first_trigger_s))
            self.x_origin_s.append(self._believed(first_s - trigger_s))
            end_s = first_s + true_s(plan.n_points * plan.dt_s)
            ready_s = max(end_s + REARM_S + pre_s, trigger_s + true_s(plan.holdoff_s))

    def _believed(self, true_s: float) -> float:
        return round(self._clock.believed_s(true_s) / TRIGGER_RESOLUTION_S) * TRIGGER_RESOLUTION_S

    def _wait_trigger(self, viewer: Viewer, ready_s: float, pre_s: float) -> float:
        """Return the true time of the trigger; NaN where the acquisition is stopped before."""
        plan, world = self.plan, self._world
        scan_s, auto_s = ready_s, ready_s + AUTO_S
        while not self._stop.is_set():
            news = world.news
            viewer.look(scan_s - pre_s)
            end_s, steady = world.reach(ready_s, POLL_S)
            if end_s < ready_s:
                continue
            self.armed.set()
            trigger_s = plan.trigger.crossing(world, scan_s, plan.level_v, plan.rising)
            if plan.auto and trigger_s > auto_s:
                return auto_s
            if not math.isnan(trigger_s):
                return trigger_s
            if self._force.is_set():
                self._force.clear()
                return end_s
            if plan.auto and (steady or end_s >= auto_s) and world.reach(auto_s, 0.0)[0] >= auto_s:
                return auto_s
            scan_s = max(scan_s, end_s)
            world.wait_news(news, POLL_S)
        return math.nan

    def _fill(self, viewer: Viewer, segment: int, first_s: float) -> bool:
        """Sample one segment as the line grows; return False where the acquisition is stopped before its end."""
        plan, world = self.plan, self._world
        step_s = self._clock.true_s(plan.dt_s)
        shunt = {c: f for c, f in plan.front_ends.items() if f.signal == "shunt"}
        volts = {c: np.empty(plan.n_points) for c in shunt}
        # What arrives earlier by a shorter cable must have happened.
        lead_s = max(0.0, *(-f.skew_s for f in shunt.values())) if shunt else 0.0
        # One step past the last sample, so that rounding cannot leave it for ever out of reach.
        last_s = first_s + plan.n_points * step_s + lead_s
        n_done = 0
        while n_done < plan.n_points:
            if self._stop.is_set():
                return False
            next_s = first_s + n_done * step_s
            viewer.look(next_s)
            world.reach(next_s + step_s + lead_s, POLL_S)
            end_s, _ = world.reach(last_s, 0.0)
            n = min(plan.n_points, math.floor((end_s - lead_s - first_s) / step_s) + 1)
            if n > n_done:
                for channel, front_end in shunt.items():
                    volts[channel][n_done:n] = front_end.volts(world, first_s, step_s, n - n_done, n_done)
                n_done = n
        for channel, front_end in plan.front_ends.items():
            if channel not in volts:  # needs no piece of the current's line, only edges, which are kept
                volts[channel] = front_end.volts(world, first_s, step_s, plan.n_points)
            self.codes[channel][segment] = front_end.digitize(volts.pop(channel), self._noise[channel])
        return True
