"""The shortest operation that a bench can resolve in a single run, and what sets the limit."""

from __future__ import annotations

from dataclasses import dataclass

from labctl.analysis.noise import Noise
from labctl.analysis.trigger import MIN_SAMPLES
from labctl.analysis.uncertainty import edge_resolution

# What a single run may scatter by, in duration and in mean current.
SCATTER_RATIO = 0.01
# Below this many time constants the waveform is blunt.
BLUNT_TAUS = 5


@dataclass(frozen=True)
class Limit:
    """One limit: its name, the shortest window that keeps it, and what it says."""

    name: str
    duration_s: float
    text: str


def samples_limit(dt_s: float) -> Limit:
    """Give the window that holds the least number of samples that is measured at all."""
    return Limit("samples", MIN_SAMPLES * dt_s, f"{MIN_SAMPLES} samples in the window")


def edges_limit(dt_s: float) -> Limit:
    """Give the window whose two edges, each known to within a sample, let its duration scatter by 1 %."""
    return Limit("edges", edge_resolution(dt_s) / SCATTER_RATIO, "duration to 1 % in one run, at the finest sampling")


def noise_limit(noise: Noise, current_a: float) -> Limit:
    """Give the window over which a current's mean scatters by 1 % of `current_a`; `noise` in ampere."""
    duration_s = noise.density / (SCATTER_RATIO * current_a) ** 2
    return Limit("noise", duration_s, "mean current to 1 % in one run, by the oscilloscope's noise alone")


def tau_limit(tau_s: float) -> Limit:
    """Give the window below which shunt and decoupling blunt the waveform."""
    return Limit("decoupling", BLUNT_TAUS * tau_s, f"{BLUNT_TAUS} time constants of shunt and decoupling")
