"""What an N6781A module measures, with the errors its data sheet allows.

Ranges and accuracy: Keysight N6781A, 0.03 % + 250 uA (3 A), 0.025 % + 10 uA (100 mA), + 100 nA (1 mA), + 8 nA (10 uA);
0.025 % + 1.2 mV (20 V), + 75 uV (1 V), + 50 uV (100 mV): not verified against its data sheet. Noise of one 5.12 us
sample: Specifications Guide for N6731B-N6792A p. 52: 2.3 mV and 186.6 uV of the N6781A; 13.5 uA and 1.4 uA of the
N6785A, taken for the N6781A; the 3 A and 10 uA ranges are an assumption. Over longer intervals it falls as the table
there does, about as the 0.4th power of the interval. Beyond 2 % over its range a reading is 9.91E37 (SCPI's not a
number). Seamless ranging takes for each sample the range that holds it. The clock's limit is an assumption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instruments.sim.circuit import draw
from instruments.sim.n6705_rules import TICK_S

MODEL = "N6781A"
TIMEBASE_LIMIT_RATIO = 50e-6
OVER_RATIO = 1.02
NOT_A_NUMBER = 9.91e37
NOISE_POWER = -0.4


@dataclass(frozen=True)
class Range:
    """One range: full scale, gain and offset limit, rms noise of one 5.12 us sample."""

    full: float
    gain_ratio: float
    offset: float
    noise_rms: float


CURRENT = (
    Range(10e-6, 0.25e-3, 8e-9, 100e-9),
    Range(1e-3, 0.25e-3, 100e-9, 1.4e-6),
    Range(0.1, 0.25e-3, 10e-6, 13.5e-6),
    Range(3.0, 0.3e-3, 250e-6, 450e-6),
)
VOLTAGE = (
    Range(0.1, 0.25e-3, 50e-6, 38.9e-6),
    Range(1.0, 0.25e-3, 75e-6, 186.6e-6),
    Range(20.0, 0.25e-3, 1.2e-3, 2.3e-3),
)
RANGES = {"CURR": CURRENT, "VOLT": VOLTAGE}


def range_for(kind: str, largest: float) -> float:
    """Return the smallest full scale that holds a value."""
    return next(r.full for r in RANGES[kind] if largest <= r.full * (1 + 1e-9))


class Module:
    """One module: its draws for every range, made from seed and output number."""

    def __init__(self, seed: int, output: int) -> None:
        self.gain = {k: self._draws(seed, output, k, "gain", [r.gain_ratio for r in RANGES[k]]) for k in RANGES}
        self.offset = {k: self._draws(seed, output, k, "offset", [r.offset for r in RANGES[k]]) for k in RANGES}

    @staticmethod
    def _draws(seed: int, output: int, kind: str, what: str, limits: Sequence[float]) -> np.ndarray:
        return np.array([limit * draw(seed, "n6781a", output, kind, what, k) for k, limit in enumerate(limits)])

    def read(
        self, kind: str, true: np.ndarray, dt_s: float, full: float | None, noise: np.random.Generator
    ) -> np.ndarray:
        """Return the readings, float64, for true means over intervals of `dt_s`; `full` None ranges by itself."""
        ranges = RANGES[kind]
        limits = np.array([r.full for r in ranges])
        if full is None:
            k = np.minimum(np.searchsorted(limits, np.abs(true)), len(ranges) - 1)
        else:
            k = np.full(true.shape, int(np.searchsorted(limits, full * (1 - 1e-9))))
        rms = np.array([r.noise_rms for r in ranges]) * max(dt_s / TICK_S, 1.0) ** NOISE_POWER
        read = true * (1.0 + self.gain[kind][k]) + self.offset[kind][k] + rms[k] * noise.standard_normal(true.shape)
        return np.where(np.abs(true) > OVER_RATIO * limits[k], NOT_A_NUMBER, read)
