"""What the stages of a self-test leave to one another."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from instruments.protocols import ChannelSettings
from instruments.record import Record
from labctl.analysis.noise import Noise

NUMBERS = (
    *("gain_ratio", "gain_expanded_ratio", "offset_v", "offset_expanded_v"),
    *("noise_rms_v", "noise_rms_a", "noise_energy_j", "noise_run_s", "effective_bits"),
    *("tau_s", "tau_expanded_s", "tau_below_s", "decoupling_f", "latency_s", "latency_expanded_s"),
    *("timebase_ratio", "timebase_expanded_ratio"),
    *("shortest_s", "shortest_samples_s", "shortest_edges_s", "shortest_noise_s", "shortest_decoupling_s"),
)


@dataclass
class Known:
    """What was found so far; `numbers` are all that is told at the end, None until it is known.

    `settings` are those of the shunt's channels from the noise floor on, and `zero` the reading of no current at them.
    A drop is ``factors @ codes + constant``, in volts. `noise_a` is that of the current, `current_a` a load's.
    """

    numbers: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(NUMBERS))
    settings: tuple[ChannelSettings, ...] = ()
    zero: Record | None = None
    names: tuple[str, ...] = ()
    factors: np.ndarray = field(default_factory=lambda: np.zeros(0))
    constant: float = 0.0
    noise_a: Noise | None = None
    current_a: float | None = None
    tau_s: float | None = None
