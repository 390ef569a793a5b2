"""The floor of what can be read: offset, noise and effective bits, at a range that DUT and load both fit."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from labctl.analysis.chain import Deviation, resolve
from labctl.analysis.finding import Finding
from labctl.analysis.noise import Noise, find_noise
from labctl.analysis.pulses import steady
from labctl.analysis.reference import judge_bits, judge_noise, run_noise_j
from labctl.analysis.wiring import judge_zero
from labctl.bench import Bench, Fixture
from labctl.calibrate.reference import reference_current
from labctl.checkup.shunt import at_range
from labctl.checkup.stages import Seen
from labctl.frontend import Trial, choose_range, shunt_channels, take_zero
from labctl.selftest.known import Known

# The window that the noise of an energy is told for.
RUN_S = 1e-3
# What an operation may draw beyond a DUT that waits, and a sample beyond the mean by noise.
_ROOM_RATIO = 1.25


def look_at_floor(bench: Bench, seen: Seen, known: Known, fixture: Fixture) -> Iterator[Finding]:
    """Choose the range, take a zero reading at it, and judge offset, noise and effective bits."""
    shunt, supply = bench.wiring.shunt, bench.wiring.supply
    assert shunt is not None and supply is not None
    load_v = reference_current(bench, fixture).current_a * shunt.resistance_ohm
    top_v = {name: _ROOM_RATIO * max(seen.waiting_v.get(name, 0.0), 0.0) for name in shunt_channels(bench)}
    if bench.wiring.shunt_channel:
        top_v[bench.wiring.shunt_channel] = max(top_v[bench.wiring.shunt_channel], _ROOM_RATIO * load_v)
    trial = Trial(0.0, dict.fromkeys(top_v, 0.0), top_v, seen.margin_v)
    known.settings = choose_range(bench, [trial])
    known.zero = zero = take_zero(bench, known.settings)
    chain = resolve(zero, bench.wiring, zero)
    seeing = np.flatnonzero(chain.sign)
    channels = [chain.channels[k] for k in seeing]
    a, constant, _, _ = chain.forms(np.zeros(len(chain.channels)), Deviation())
    known.names, known.factors, known.constant = tuple(c.name for c in channels), a[seeing], float(constant)
    numbers = known.numbers
    for channel in channels:
        level = steady(channel)
        found = judge_zero("offset", channel, level.mean, math.hypot(level.standard, level.rounding))
        numbers["offset_v"], numbers["offset_expanded_v"] = found.value, found.expanded
        yield at_range(found, channel)
    assert zero.dt_s is not None
    noise = find_noise([np.asarray(c.codes) for c in channels], known.factors, zero.dt_s)
    per_amp_v = 1 / chain.current_per_unit
    supply_v = supply.voltage_v or float(bench.board["supply"][f"node_{supply.node}_v"])
    known.noise_a = Noise(noise.rms / per_amp_v, noise.density / per_amp_v**2, noise.dt_s, noise.n_stretches)
    numbers["noise_rms_v"], numbers["noise_rms_a"] = noise.rms, known.noise_a.rms
    numbers["noise_energy_j"], numbers["noise_run_s"] = run_noise_j(noise, per_amp_v, supply_v, RUN_S), RUN_S
    yield judge_noise(noise, per_amp_v, supply_v, RUN_S, channels)
    worst = max(range(len(channels)), key=lambda k: chain.zero_covariance[seeing[k], seeing[k]])
    bits = judge_bits(channels[worst], math.sqrt(chain.zero_covariance[seeing[worst], seeing[worst]]))
    numbers["effective_bits"] = bits.value
    yield bits
