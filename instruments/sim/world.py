"""The one world that every emulated instrument looks at: what the core draws, what its trigger pin does, when.

Time is true seconds. The DUT tells cycles; one cycle lasts 1/(clock_hz (1 + crystal error)). While the DUT is parked
or off its line stays at a steady current and may be continued as far as an instrument wants to look; while it runs,
instruments wait for it.

The shunt sits in the ground return and the supply is sensed before it; the decoupling lies behind it, at the core:
i_shunt is i_core through the pole tau = R C, and v_dut = V - R i_shunt. All of it exact for piecewise-constant i_core.

Truth of a window (between the pin's own edges): charge = integral of i_core, energy_supply = V * charge,
energy_dut = integral of v_dut * i_core = V * charge - R * integral of i_shunt * i_core.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from instruments.sim import chunks
from instruments.sim.chunks import Chunk
from instruments.sim.circuit import Circuit
from instruments.sim.pin import SETTLED_TAUS, Pin

# The line keeps at least this much while nobody is armed, so that a late question can still be answered.
HISTORY_S = 1e-3
# Pieces that an armed instrument may be behind before the DUT is made to wait for it, and how long at most.
BEHIND_MAX = 4_000_000
DUT_WAIT_S = 30.0


class Viewer:
    """One instrument's hold on the line: nothing after `keep_from_s` is dropped while it is open."""

    def __init__(self, world: World, keep_from_s: float) -> None:
        self._world = world
        self.keep_from_s = keep_from_s
        self.n_behind = 0

    def look(self, keep_from_s: float) -> None:
        """Tell that everything up to now was seen and nothing before `keep_from_s` is needed any more."""
        self.keep_from_s = keep_from_s
        self.n_behind = 0

    def close(self) -> None:
        """Let go of the line. May be called twice."""
        self._world.release(self)


class World:
    """Hold the line of core current and the trigger pin; thread-safe. Implements `sink.Sink`."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        # What is wired wrong (bench.py), and whether the shunt's probe sits on the trigger pin instead.
        self.trigger_fault: str | None = None
        self.shunt_fault: str | None = None
        self.shunt_at_pin = False
        # Called after each window that the DUT ends (bench.py).
        self.on_window: Callable[[], None] | None = None
        self._lock = threading.Condition()
        self._chunks: list[Chunk] = []
        self._totals = np.zeros(2)  # integrals of i_core and of i_core * i_shunt since the start
        self._n_pieces = 0
        self._end_s = 0.0
        self._y_end_a = 0.0
        # The DUT's cycle that the line's end stands for; the line may have been continued past it while parked.
        self._cycle = 0
        self._cycle_s = 0.0
        self._steady_a: float | None = 0.0
        self._tail: Chunk | None = None  # what a steady line was continued by
        self._pin = Pin(circuit.pin_level_v)
        self._rise: tuple[float, int, np.ndarray] | None = None
        self._windows: list[dict[str, float]] = []
        self._viewers: set[Viewer] = set()
        self._closed = False
        self._news = 0

    # --- the DUT's side -----------------------------------------------------------------------------------------

    def current(self, end_cycle: np.ndarray, mean_current_a: np.ndarray) -> None:
        """Append core current; see Sink. Waits, within bounds, for armed instruments that lag far behind."""
        if len(end_cycle) == 0:
            return
        with self._lock:
            self._lock.wait_for(
                lambda: self._closed or all(v.n_behind < BEHIND_MAX for v in self._viewers), timeout=DUT_WAIT_S
            )
            for viewer in self._viewers:
                viewer.n_behind += len(end_cycle)
            self._follow_cycles(int(end_cycle[0]))
            elapsed = (np.asarray(end_cycle, dtype=np.int64) - self._cycle) / self.circuit.true_clock_hz
            self._append(self._cycle_s + elapsed, np.asarray(mean_current_a, dtype=np.float32))
            self._cycle, self._cycle_s = int(end_cycle[-1]), self._end_s
            self._steady_a = None
            self._drop()
            self._tell()

    def pin(self, cycle: int, level: int) -> None:
        """Take an edge of the trigger pin; see Sink. A falling edge closes a window and settles its truth."""
        with self._lock:
            t = self._cycle_s + (cycle - self._cycle) / self.circuit.true_clock_hz
            if self._steady_a is not None:  # the line may have been continued since
                t = self._end_s
            if not self._pin.edge(t, level):
                return
            if level:
                self._rise = (t, cycle, self._totals_at(t))
            elif self._rise is not None:
                start_s, start_cycle, before = self._rise
                charge, product = self._totals_at(t) - before
                circuit = self.circuit
                self._windows.append(
                    {
                        "start_s": start_s,
                        "duration_s": t - start_s,
                        "charge_c": float(charge),
                        "energy_dut_j": float(circuit.supply_v * charge - circuit.shunt_ohm * product),
                        "energy_supply_j": float(circuit.supply_v * charge),
                        "cycles": cycle - start_cycle,
                    }
                )
                self._rise = None
                if self.on_window is not None:
                    self.on_window()
            self._tell()

    def parked(self, cycle: int, current_a: float) -> None:
        """Let the line stay at `current_a` from `cycle` on; see Sink."""
        with self._lock:
            if cycle > self._cycle:
                end_s = self._cycle_s + (cycle - self._cycle) / self.circuit.true_clock_hz
                self._append(np.array([max(end_s, self._end_s)]), np.array([current_a], dtype=np.float32))
                self._cycle_s = self._end_s
            self._cycle = cycle
            self._steady_a = current_a
            self._tell()

    def woken(self) -> None:
        """Let the line end here until more is handed over; see Sink."""
        with self._lock:
            self._steady_a = None
            self._cycle_s = self._end_s

    def _follow_cycles(self, first_end_cycle: int) -> None:
        """Let the DUT's next cycle start where the line ends now; its counter starts again after a reset."""
        if first_end_cycle <= self._cycle:
            self._cycle = 0
        self._cycle_s = self._end_s

    def supply(self, voltage_v: float) -> None:
        """Let the supply have this true voltage from now on; what the core draws does not hang on it."""
        with self._lock:
            self.circuit = replace(self.circuit, supply_v=voltage_v)

    # --- in the DUT's place, which is off: true seconds instead of its cycles ------------------------------------

    def play(self, length_s: np.ndarray, current_a: np.ndarray, level: np.ndarray) -> None:
        """Append pieces of these lengths, each with its current and its level of the pin; the last one stays."""
        with self._lock:
            end_s = self._end_s + np.cumsum(length_s)
            for start_s, one in zip([self._end_s, *end_s[:-1]], level, strict=True):
                self._pin.edge(float(start_s), int(one))
            self._append(end_s, np.asarray(current_a, dtype=np.float32))
            self._steady_a = float(current_a[-1])
            self._drop()
            self._tell()

    # --- the instruments' side ----------------------------------------------------------------------------------

    def rest(self, timeout_s: float, given_up: Callable[[], bool]) -> None:
        """Wait until the line is steady, at most `timeout_s`, or until `given_up` (see `wake`)."""
        with self._lock:
            self._lock.wait_for(lambda: self._closed or self._steady_a is not None or given_up(), timeout_s)

    def view(self) -> tuple[Viewer, float]:
        """Open a hold on the line from its present end; return it with that time.

        Where the line is steady and nobody else holds it, time starts over: what is then seen is the same, to the last
        bit, whatever was before and however long ago.
        """
        with self._lock:
            if self._steady_a is not None and not self._viewers:
                self._start_over(self._steady_a)
            viewer = Viewer(self, self._end_s)
            self._viewers.add(viewer)
            return viewer, self._end_s

    def release(self, viewer: Viewer) -> None:
        """Close a hold on the line."""
        with self._lock:
            self._viewers.discard(viewer)
            self._drop()
            self._tell()

    @property
    def viewed(self) -> bool:
        """Tell whether an instrument holds the line, armed or filling."""
        with self._lock:
            return bool(self._viewers)

    def reach(self, wanted_s: float, timeout_s: float) -> tuple[float, bool]:
        """Wait at most `timeout_s` for the line to get to `wanted_s`; return (its end, whether it is steady).

        A steady line is continued to `wanted_s` at once.
        """
        with self._lock:
            self._lock.wait_for(
                lambda: self._closed or self._end_s >= wanted_s or self._steady_a is not None, timeout=timeout_s
            )
            self._continue_to(wanted_s)
            self._lock.notify_all()  # a DUT that waits may go on: whoever asks has looked
            return self._end_s, self._steady_a is not None

    @property
    def news(self) -> int:
        """Return a number that changes whenever something happened."""
        return self._news

    def wait_news(self, seen: int, timeout_s: float) -> None:
        """Wait until `news` is no longer `seen`, at most `timeout_s`."""
        with self._lock:
            self._lock.wait_for(lambda: self._closed or self._news != seen, timeout_s)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        with self._lock:
            self._tell()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._lock:
            self._closed = True
            self._tell()

    @property
    def end_s(self) -> float:
        """Return how far the line is known."""
        with self._lock:
            return self._end_s

    @property
    def n_pieces(self) -> int:
        """Return how many pieces of the line are kept."""
        with self._lock:
            return self._n_pieces

    def sample(self, t0_s: float, dt_s: float, n: int, n_before: int = 0) -> np.ndarray:
        """Return the voltage across the shunt at ``t0_s + (n_before + k)*dt_s``, float64 of shape (n,).

        The line must reach the last sample (`reach`); times before what is kept read the oldest value.
        """
        with self._lock:
            found = chunks.overlapping(self._chunks, t0_s + n_before * dt_s, t0_s + (n_before + n - 1) * dt_s)
            beyond_a = self._y_end_a
        return chunks.sample(found, self.circuit.tau_s, t0_s, dt_s, n, n_before, beyond_a) * self.circuit.shunt_ohm

    def mean_current(self, t0_s: float, dt_s: float, n: int, n_before: int = 0) -> np.ndarray:
        """Return the mean current in the supply's lead over n consecutive intervals, float64 of shape (n,), in ampere.

        Interval k starts at ``t0_s + (n_before + k)*dt_s`` and lasts `dt_s`. Exact: the integral of the filtered line
        in closed form; without a shunt the core's own current. The line must reach the end of the last interval
        (`reach`); times before what is kept have the oldest value.
        """
        with self._lock:
            found = chunks.overlapping(self._chunks, t0_s + n_before * dt_s, t0_s + (n_before + n) * dt_s)
            beyond_a = self._y_end_a
        return chunks.mean(found, self.circuit.tau_s, t0_s, dt_s, n, n_before, beyond_a)

    def level(
        self, t0_s: float, dt_s: float, n: int, tau_s: float, fault: str | None = None, n_before: int = 0
    ) -> np.ndarray:
        """Return the trigger pin's voltage through a pole of `tau_s`, float64 of shape (n,), at times as of `sample`.

        `fault` is what its lead makes of it, one of bench.TRIGGER_FAULTS.
        """
        from instruments.sim import line

        start_s, y0, end_s, x, y_end = self._pin_pieces(
            t0_s + n_before * dt_s, t0_s + (n_before + n) * dt_s, tau_s, fault
        )
        out = np.empty(n)
        k = line.sample_pieces(start_s, y0, end_s, x, y_end, tau_s, t0_s, dt_s, out, 0, n_before)
        out[k:] = y_end[-1]
        return out

    def mean_level(self, t0_s: float, dt_s: float, n: int, fault: str | None = None, n_before: int = 0) -> np.ndarray:
        """Return the trigger pin's mean voltage over n intervals as of `mean_current`, float64 of shape (n,)."""
        from instruments.sim import line

        first_s, last_s = t0_s + n_before * dt_s, t0_s + (n_before + n + 1) * dt_s
        out = np.zeros(n)
        line.mean_pieces(*self._pin_pieces(first_s, last_s, 0.0, fault), 0.0, t0_s, dt_s, out, 0, n_before)
        return out / dt_s

    def shunt_crossing(self, after_s: float, level_v: float, rising: bool) -> float:
        """Return when the shunt voltage first passes `level_v` beyond `after_s`; NaN where it does not."""
        if self.circuit.shunt_ohm == 0.0:
            return math.nan
        return self.current_crossing(after_s, level_v / self.circuit.shunt_ohm, rising)

    def current_crossing(self, after_s: float, level_a: float, rising: bool) -> float:
        """Return when the current in the supply's lead first passes `level_a` beyond `after_s`; or NaN."""
        with self._lock:
            found = chunks.overlapping(self._chunks, after_s, self._end_s)
        return chunks.crossing(found, self.circuit.tau_s, after_s, level_a, rising)

    def pin_crossing(
        self, after_s: float, level_v: float, rising: bool, tau_s: float, fault: str | None = None
    ) -> float:
        """Return when the pin's voltage, through a pole of `tau_s`, first passes `level_v`; NaN where it does not."""
        from instruments.sim import line

        pieces = self._pin_pieces(after_s, self.end_s + SETTLED_TAUS * tau_s, tau_s, fault)
        return line.first_crossing(*pieces, tau_s, after_s, level_v, rising)

    def windows(self) -> list[dict[str, float]]:
        """Return the truth of each window closed since the last call."""
        with self._lock:
            windows, self._windows = self._windows, []
            return windows

    # --- inside -------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        self._news += 1
        self._lock.notify_all()

    def _append(self, end_s: np.ndarray, x: np.ndarray) -> None:
        from instruments.sim import line

        y_end = np.empty(len(end_s))
        chunk = Chunk(self._end_s, self._y_end_a, end_s, x, y_end, self._totals.copy())
        line.append_pieces(self._end_s, self._y_end_a, end_s, x, self.circuit.tau_s, y_end, self._totals)
        self._chunks.append(chunk)
        self._n_pieces += len(end_s)
        self._end_s, self._y_end_a = float(end_s[-1]), float(y_end[-1])

    def _continue_to(self, wanted_s: float) -> None:
        """Let a steady line go on; in one piece, however often it was asked for a bit more."""
        if self._steady_a is not None and wanted_s > self._end_s:
            tail = self._tail
            if tail is not None and self._chunks[-1] is tail:
                del self._chunks[-1]
                self._n_pieces -= 1
                self._end_s, self._y_end_a, self._totals = tail.start_s, tail.y0, tail.totals_before
            self._append(np.array([wanted_s]), np.array([self._steady_a], dtype=np.float32))
            self._tail = self._chunks[-1]
            self._drop()

    def _start_over(self, steady_a: float) -> None:
        """Let time and integrals begin now, with the line and the pin as if they had always been as they are."""
        if self._rise is not None:
            start_s, cycle, before = self._rise
            self._rise = start_s - self._end_s, cycle, before - self._totals
        self._chunks.clear()
        self._tail = None
        self._n_pieces = 0
        self._totals = np.zeros(2)
        self._end_s = self._cycle_s = 0.0
        self._y_end_a = float(np.float32(steady_a))
        self._pin.start_over()

    def _drop(self) -> None:
        """Forget what no open viewer needs."""
        keep_from_s = min((v.keep_from_s for v in self._viewers), default=self._end_s) - HISTORY_S
        n = 0
        while n < len(self._chunks) - 1 and self._chunks[n].end_s[-1] < keep_from_s:
            self._n_pieces -= len(self._chunks[n].end_s)
            n += 1
        del self._chunks[:n]
        self._pin.drop()

    def _totals_at(self, t: float) -> np.ndarray:
        """Return the integrals from the start to `t`, with the state of the pole inside the piece that holds `t`."""
        from instruments.sim import line

        if t >= self._end_s or not self._chunks:
            return self._totals.copy()
        chunk = self._chunks[max(0, bisect_right(self._chunks, t, key=lambda c: c.start_s) - 1)]
        n = int(np.searchsorted(chunk.end_s, t)) + 1
        end_s = np.minimum(chunk.end_s[:n], t)
        totals = chunk.totals_before.copy()
        line.append_pieces(chunk.start_s, chunk.y0, end_s, chunk.x[:n], self.circuit.tau_s, np.empty(n), totals)
        return totals

    def _pin_pieces(
        self, from_s: float, to_s: float, tau_s: float, fault: str | None
    ) -> tuple[float, float, np.ndarray, np.ndarray, np.ndarray]:
        with self._lock:
            return self._pin.pieces(from_s, to_s, tau_s, fault)
