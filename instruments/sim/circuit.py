"""What the emulated DUT is wired to, with true values drawn inside their tolerances."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


def draw(seed: int, *key: object) -> float:
    """Draw from the rectangular distribution on [-1, 1]; the same seed and key always give the same value."""
    words = [zlib.crc32(repr(part).encode()) for part in key]
    return float(np.random.default_rng([seed, *words]).uniform(-1.0, 1.0))


def of_stream(stream: int) -> tuple[int, ...]:
    """Return what a stream adds to the key of what is random in time: nothing for 0, the usual one."""
    return (stream,) if stream else ()


@dataclass(frozen=True)
class Circuit:
    """True values of what the DUT is wired to, drawn inside their tolerances."""

    shunt_ohm: float
    supply_v: float
    decoupling_f: float
    crystal_ratio: float
    clock_hz: float
    pin_level_v: float

    @property
    def tau_s(self) -> float:
        """Return the time constant of shunt and decoupling."""
        return self.shunt_ohm * self.decoupling_f

    @property
    def true_clock_hz(self) -> float:
        """Return the frequency at which the core really runs."""
        return self.clock_hz * (1.0 + self.crystal_ratio)

    @classmethod
    def drawn(cls, config: Mapping[str, Any]) -> Circuit:
        """Draw the circuit for a simulator configuration."""
        seed, board = config["seed"], config["board"]

        def true(part: str, key: str) -> float:
            return config[part][key] * (1.0 + config[part]["tolerance_ratio"] * draw(seed, part))

        return cls(
            shunt_ohm=true("shunt", "resistance_ohm"),
            supply_v=true("supply", "voltage_v"),
            decoupling_f=true("decoupling", "capacitance_f"),
            crystal_ratio=config["crystal"]["tolerance_ratio"] * draw(seed, "crystal"),
            clock_hz=float(board["clock_hz"]),
            pin_level_v=float(board["pins"]["level_v"]),
        )
