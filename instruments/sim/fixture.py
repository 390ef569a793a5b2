"""What takes the DUT's place at the emulated bench: a known load, the same switched by a pulse generator, or a pulse.

The load is modelled as a current of V/(load + shunt), with true values, that is switched on and off and reaches the
shunt through the pole of shunt and decoupling, tau = R C, like the core's; the load's own part in that pole (the shunt
in parallel with it, 0.4 % for 1.3 and 330 ohm) is left out. A reference meter in series with the load reads the true
current, within the meter's own tolerance, and has no resistance. The generator gives the level of the board's trigger
pin and starts low. Each pulse comes after its period and up to a hundredth of it more, at random, so that pulses fall
at any phase of whatever samples them.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from instruments.sim.circuit import draw, of_stream
from instruments.sim.pin import SETTLED_TAUS
from instruments.sim.world import World

KINDS = ("load", "pulsed-load", "pulse")
# Pulses that one command may ask for.
PULSES_MAX = 10_000
_WANDER_RATIO = 0.01
# Between one handful of a free-running generator's pulses and the next.
_TICK_S = 0.02


@dataclass(frozen=True)
class Nominal:
    """What a fixture is said to be: load, pulse and meter, each with its tolerance."""

    load_ohm: float = 330.0
    load_tolerance_ratio: float = 1e-3
    width_s: float = 1e-3
    period_s: float = 2e-3
    pulse_tolerance_ratio: float = 1e-6
    meter_tolerance_ratio: float = 1e-3

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Nominal:
        """Take what a command says, the rest as usual. Raises ValueError or TypeError for values that do not fit."""
        values = {name: request[name] for name in cls.__dataclass_fields__ if name in request}
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise TypeError(f"{name} {value!r} is no number")
            if not (0 <= value < 1 if name.endswith("ratio") else value > 0):
                raise ValueError(f"{name} {value!r} is out of range")
        nominal = cls(**values)
        if nominal.width_s >= nominal.period_s:
            raise ValueError(f"width_s {nominal.width_s!r} must be less than period_s {nominal.period_s!r}")
        return nominal

    def true_load_ohm(self, seed: int) -> float:
        """Draw the load's resistance."""
        return self.load_ohm * (1.0 + self.load_tolerance_ratio * draw(seed, "load"))

    def pulse_ratio(self, seed: int) -> float:
        """Draw by how much the generator's times are longer than it says."""
        return self.pulse_tolerance_ratio * draw(seed, "pulse")

    def meter_ratio(self, seed: int) -> float:
        """Draw by how much the reference meter reads more than what flows."""
        return self.meter_tolerance_ratio * draw(seed, "meter")


class Fixture:
    """Act on the world in the place of a DUT that is off; `what` is one of `KINDS`.

    With `runs` the generator gives pulses by itself, about as many as real time asks for, while an instrument looks;
    else only when fired.
    """

    def __init__(
        self, world: World, seed: int, what: str, nominal: Nominal, on: bool, runs: bool = False, stream: int = 0
    ) -> None:
        circuit = world.circuit
        self._world, self._what = world, what
        self._stretch = 1.0 + nominal.pulse_ratio(seed)
        self._nominal = nominal
        self._meter = 1.0 + nominal.meter_ratio(seed)
        self._load_a = circuit.supply_v / (nominal.true_load_ohm(seed) + circuit.shunt_ohm)
        self._wander = np.random.default_rng([seed, zlib.crc32(b"fixture"), *of_stream(stream)])
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self.power(on)
        self._thread = threading.Thread(target=self._run, name="generator", daemon=True)
        if runs and what != "load":
            self._thread.start()

    def power(self, on: bool) -> None:
        """Switch the supply of the load, and give all the time to settle; the generator has a supply of its own."""
        with self._lock:
            self.on = on
            current_a = self._load_a if on and self._what == "load" else 0.0
            settled_s = SETTLED_TAUS * self._world.circuit.tau_s + 1e-6
            self._world.play(np.array([settled_s]), np.array([current_a]), np.array([0]))

    def close(self) -> None:
        """Take the fixture away: no more pulses, no current."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        self.power(False)

    def read_meter(self) -> tuple[float, float]:
        """Read the meter in series with the load, in ampere: what it shows now, and what it shows with the supply on.

        Raises ValueError where no steady load is connected: a meter would read some mean of pulses.
        """
        if self._what != "load":
            raise ValueError(f'the meter needs a steady current, and "{self._what}" is connected: connect "load"')
        with self._lock:
            powered_a = self._load_a * self._meter
            return powered_a if self.on else 0.0, powered_a

    def fire(self, n: int) -> None:
        """Give n pulses now, a period of quiet before the first and after the last.

        Raises ValueError for a load that nothing switches, and for a number of pulses out of range.
        """
        if self._what == "load":
            raise ValueError('a "load" gives no pulses: connect "pulsed-load" or "pulse"')
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= PULSES_MAX:
            raise ValueError(f"n {n!r} must be a number of pulses, 1 to {PULSES_MAX}")
        with self._lock:
            self._play(n, self._nominal.width_s)

    def _play(self, n: int, more_s: float) -> None:
        """Append n pulses, quiet before and after each; `more_s` longer before the first and after the last."""
        nominal = self._nominal
        low_s = nominal.period_s - nominal.width_s
        length_s = np.full(2 * n + 1, nominal.width_s)
        length_s[0::2] = low_s
        length_s[0:-1:2] += nominal.period_s * _WANDER_RATIO * self._wander.random(n)
        length_s[[0, -1]] += more_s
        level = np.arange(2 * n + 1) % 2
        high_a = self._load_a if self.on and self._what == "pulsed-load" else 0.0
        self._world.play(length_s * self._stretch, level * high_a, level)

    def _run(self) -> None:
        n = max(1, round(_TICK_S / self._nominal.period_s))
        while not self._closed.wait(n * self._nominal.period_s):
            if self._world.viewed:
                with self._lock:
                    self._play(n, 0.0)
