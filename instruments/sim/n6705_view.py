"""What the N6705C records: fill the part before the trigger, wait for it, take readings as the line goes on.

Keysight N6705C Programmer's Reference p. 213: a trigger that comes before the part before it is full is ignored. N6705
User's Guide p. 66: the BNC input is low-true and wants 2 us; the same is assumed of the digital pins, and that both
have the threshold of TTL, 1.4 V. N6705A User's Guide p. 109: a reading is the mean over its interval; that it carries
the time of the interval's end is assumed.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from instruments.sim.circuit import of_stream
from instruments.sim.follow import POLL_S, Follower, MeterClock
from instruments.sim.n6705_module import TIMEBASE_LIMIT_RATIO, Module
from instruments.sim.n6705_rules import TICK_S
from instruments.sim.world import World

PULSE_MIN_S = 2e-6
THRESHOLD_V = 1.4


@dataclass(frozen=True)
class Wiring:
    """How the DUT's trigger pin is led to the inputs: which digital pin, and an inverter before the BNC."""

    pin: int = 1
    bnc_inverted: bool = False


@dataclass(frozen=True)
class Trigger:
    """One trigger: `source` as SCPI names it; `level` and `rising` for a level, `rising` for a pin's polarity too."""

    source: str
    level: float = 0.0
    rising: bool = True

    def time_s(self, world: World, wiring: Wiring, after_s: float) -> float:
        """Return when it comes beyond `after_s`, or NaN as long as it does not."""
        fault = world.trigger_fault
        if self.source == "EXT":
            return _pulse(world, after_s, wiring.bnc_inverted)
        if self.source == f"PIN{wiring.pin}":
            return _pulse(world, after_s, self.rising)
        if self.source == "VOLT2":
            return world.pin_crossing(after_s, self.level, self.rising, 0.0, fault)
        if self.source == "CURR1":
            return world.current_crossing(after_s, self.level, self.rising)
        return math.nan


def _pulse(world: World, after_s: float, rising: bool) -> float:
    """Return when the pin takes a level, up or down, for at least `PULSE_MIN_S`; NaN as long as it does not."""
    fault, end_s = world.trigger_fault, world.end_s
    while not math.isnan(start_s := world.pin_crossing(after_s, THRESHOLD_V, rising, 0.0, fault)):
        over_s = world.pin_crossing(start_s, THRESHOLD_V, not rising, 0.0, fault)
        still = math.isnan(over_s)
        if (end_s if still else over_s) >= start_s + PULSE_MIN_S * (1 - 1e-9):
            return start_s
        if still:
            return math.nan  # nobody knows yet how long it stays
        after_s = over_s
    return math.nan


@dataclass(frozen=True)
class Quantity:
    """One thing to record: output, "CURR" or "VOLT", full scale (None: by itself), mean alone or with its extremes."""

    output: int
    kind: str
    full: float | None
    extremes: bool = False

    @property
    def n_values(self) -> int:
        """Return how many numbers it makes a record."""
        return 3 if self.extremes else 1


@dataclass(frozen=True)
class Plan:
    """What to record: `offset` records relative to the trigger, `n_records` None for one that is stopped."""

    quantities: tuple[Quantity, ...]
    trigger: Trigger
    dt_s: float
    offset: int
    n_records: int | None


@dataclass(frozen=True)
class Frame:
    """What a run needs of the mainframe: the world, the modules and what they do, how the leads go."""

    world: Callable[[], World]
    seed: int
    stream: int
    pace: float
    wiring: Wiring
    modules: Mapping[int, Module]
    is_on: Callable[[int], bool]
    is_voltmeter: Callable[[int], bool]

    def true(self, output: int, kind: str, t0_s: float, step_s: float, n: int, n_before: int) -> np.ndarray:
        """Return true means over n intervals: output 1 supplies the DUT, output 2 as a voltmeter sees its pin."""
        world = self.world()
        if output == 1 and kind == "CURR":
            return world.mean_current(t0_s, step_s, n, n_before)
        if output == 1:
            return np.full(n, world.circuit.supply_v if self.is_on(1) else 0.0)
        if kind == "VOLT" and self.is_voltmeter(output):
            return world.mean_level(t0_s, step_s, n, world.trigger_fault, n_before)
        return np.zeros(n)


class Run:
    """One acquisition or log, in a thread of its own; `number` tells it from others of its instrument.

    `take` is called with arrays of shape (records, values), float32, in their order.
    """

    def __init__(self, frame: Frame, plan: Plan, number: int, take: Callable[[np.ndarray], None]) -> None:
        self.plan = plan
        self.done = threading.Event()
        self.triggered = threading.Event()
        self.n_taken = 0
        self._frame, self._take = frame, take
        self._clock = MeterClock(TIMEBASE_LIMIT_RATIO, frame.seed, frame.stream, number)
        # One for each quantity, so that it does not matter in which portions they are taken.
        self._noise = [self._generator(number, q) for q in plan.quantities]
        self._stop = threading.Event()
        self._forced_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="n6705", daemon=True)
        self._follower = Follower(frame.world(), frame.pace, self._stop)
        self._thread.start()

    def _generator(self, number: int, quantity: Quantity) -> np.random.Generator:
        key = zlib.crc32(f"{quantity.kind}{quantity.output}".encode())
        words = [self._frame.seed, zlib.crc32(b"n6705"), key, number, *of_stream(self._frame.stream)]
        return np.random.Generator(np.random.SFC64(words))

    @property
    def waits(self) -> bool:
        """Tell whether it has begun and was not triggered yet."""
        return not self.done.is_set() and not self.triggered.is_set()

    def force(self) -> None:
        """Trigger now; ignored before the part before the trigger is full."""
        world = self._frame.world()
        self._forced_s = world.end_s
        world.wake()

    def stop(self) -> None:
        """End; what was taken stays."""
        self._stop.set()
        self._frame.world().wake()
        self._thread.join(timeout=10.0)

    def _run(self) -> None:
        try:
            trigger_s = self._wait()
            if not math.isnan(trigger_s):
                self.triggered.set()
                self._record(trigger_s)
        finally:
            self._follower.close()
            self.done.set()

    def _wait(self) -> float:
        """Return the time of the trigger; NaN where it is stopped before."""
        plan, follower, world = self.plan, self._follower, self._frame.world()
        step_s = self._clock.true_s(plan.dt_s)
        pre_s = max(1 - plan.offset, 1) * step_s
        start_s = follower.start_s
        scan_s = start_s + pre_s
        while follower.seen_s < scan_s:
            if self._stop.is_set():
                return math.nan
            follower.follow(min(scan_s, follower.seen_s + follower.step_s), start_s)
        self._forced_s = None
        if plan.trigger.source == "IMM":
            return scan_s
        while not self._stop.is_set():
            news = world.news
            follower.hold(scan_s - pre_s - step_s)
            end_s, _ = world.reach(scan_s, POLL_S)
            if self._forced_s is not None:
                return max(self._forced_s, start_s + pre_s)
            trigger_s = plan.trigger.time_s(world, self._frame.wiring, scan_s)
            if not math.isnan(trigger_s):
                return trigger_s
            scan_s = max(scan_s, end_s - PULSE_MIN_S)
            world.wait_news(news, POLL_S)
        return math.nan

    def _record(self, trigger_s: float) -> None:
        plan, follower = self.plan, self._follower
        step_s = self._clock.true_s(plan.dt_s)
        # Record 0 ends with the first tick at or after the trigger.
        first_s = self._clock.first_tick_s(trigger_s, plan.dt_s) + (plan.offset - 1) * step_s
        while self.n_taken != plan.n_records and not self._stop.is_set():
            next_s = first_s + self.n_taken * step_s
            wanted_s = next_s + max(follower.step_s, 1.001 * step_s)
            if plan.n_records is not None:
                # A little past the end of the last, so that rounding cannot leave it out of reach.
                wanted_s = min(wanted_s, first_s + (plan.n_records + 1e-3) * step_s)
            n = int((follower.follow(wanted_s, next_s) - first_s) / step_s)
            n = (n if plan.n_records is None else min(n, plan.n_records)) - self.n_taken
            if n > 0:
                columns = [
                    self._values(q, noise, first_s, step_s, n)
                    for q, noise in zip(plan.quantities, self._noise, strict=True)
                ]
                self._take(np.column_stack(columns))
                self.n_taken += n

    def _values(
        self, quantity: Quantity, noise: np.random.Generator, first_s: float, step_s: float, n: int
    ) -> np.ndarray:
        frame, kind = self._frame, quantity.kind
        module = frame.modules[quantity.output]
        m = round(self.plan.dt_s / TICK_S) if quantity.extremes else 1
        true = frame.true(quantity.output, kind, first_s, step_s / m, n * m, self.n_taken * m)
        read = module.read(kind, true, self.plan.dt_s / m, quantity.full, noise).astype(np.float32)
        if not quantity.extremes:
            return read.reshape(n, 1)
        read = read.reshape(n, m)
        return np.column_stack([read.mean(axis=1), read.min(axis=1), read.max(axis=1)])
