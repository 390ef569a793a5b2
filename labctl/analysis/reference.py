"""What known references tell of a bench: a load's current, a pulse's length, the step of a load that is switched.

A fault is said only where no error inside the stated limits could have made the reading: limits are added up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from instruments.record import Accuracy, Channel
from labctl.analysis.finding import FAULT, OK, WARNING, Finding
from labctl.analysis.noise import Noise, converter_bits, effective_bits
from labctl.analysis.pulses import Level, Stretch
from labctl.analysis.resolution import Limit
from labctl.analysis.response import Step
from labctl.analysis.uncertainty import SKEW_LIMIT_S, expanded, rectangular
from labctl.model import Contribution, Wiring
from labctl.units import percent, quantity, with_uncertainty

# Noise reaches so many standard errors once in two million times.
_REACH = 5.0
# A converter's step adds to the noise that a data sheet states; more than this beyond both is another source.
_NOISY_RATIO = 1.3


def _part(name: str, limit: float, *, evaluation: str = "B", degrees_of_freedom: float = math.inf) -> Contribution:
    """Make a contribution to a ratio: of a limit, or (type A) of a standard deviation."""
    distribution = "rectangular" if evaluation == "B" else "normal"
    standard = rectangular(limit) if evaluation == "B" else limit
    return Contribution(name, evaluation, distribution, standard, "1", standard, degrees_of_freedom)


def _reach(contributions: Sequence[Contribution]) -> float:
    """Give the most that these can make together: rectangular ones to their ends, others to where noise may reach."""
    factors = {"rectangular": math.sqrt(3)}
    return math.fsum(abs(c.effect) * factors.get(c.distribution, _REACH) for c in contributions)


def judge_gain(
    drop: Level, flows_a: float, reference: Sequence[Contribution], wiring: Wiring, accuracy: Accuracy | None
) -> Finding:
    """Compare the current read of a known load with the one that flows, whose relative budget is `reference`.

    `drop` is the reading less its zero. The value is the current that flows over the current read, channel and shunt
    together, as that of a gain calibration.
    """
    shunt = wiring.shunt
    assert shunt is not None
    read_a = drop.mean / shunt.resistance_ohm
    value = flows_a / read_a if read_a else math.inf
    noise = math.hypot(drop.standard, drop.rounding) / max(abs(drop.mean), 1e-12)
    parts = [*reference, _part("noise", noise, evaluation="A", degrees_of_freedom=drop.degrees_of_freedom)]
    expanded_ratio = expanded(parts)[0] * abs(value)
    own = (accuracy.gain_ratio if accuracy is not None else 0.0) + shunt.tolerance_ratio
    text = (
        f"the {quantity(flows_a, 'A')} through the known load are read as {quantity(read_a, 'A')}: current that flows "
        f"over current that is read {with_uncertainty(value, expanded_ratio, '')}"
    )
    allowed = f"channel and shunt may be off by {percent(own)}"
    if abs(read_a / flows_a - 1) <= own + _reach(parts):
        return Finding("gain", OK, f"{text}; {allowed}", value, expanded_ratio, "1")
    return Finding(
        "gain", FAULT,
        f"{text}, where {allowed}: check resistance_ohm and its unit, shunt_probe_ratio, the supply's voltage, the "
        "load's value, and for another ground beside the shunt",
        value, expanded_ratio, "1",
    )


def run_noise_j(noise: Noise, volts_per_amp: float, supply_v: float, run_s: float) -> float:
    """Give the standard deviation that noise of the drop makes in the energy of one run."""
    return noise.of_integral(run_s) / volts_per_amp * supply_v


def judge_noise(
    noise: Noise, volts_per_amp: float, supply_v: float, run_s: float, channels: Sequence[Channel]
) -> Finding:
    """Judge the noise of the shunt's drop by the data sheet's; `run_s` is the window that its energy is given for."""
    text = (
        f"{quantity(noise.rms, 'V', 2)} rms, as current {quantity(noise.rms / volts_per_amp, 'A', 2)}; by the "
        f"oscilloscope's noise alone the energy of a run of {quantity(run_s, 's', 1)} scatters by "
        f"{quantity(run_noise_j(noise, volts_per_amp, supply_v, run_s), 'J', 2)} (in a measurement, edges and "
        "decoupling add more)"
    )
    stated = [math.hypot(c.accuracy.noise_rms, c.scale / math.sqrt(12)) for c in channels if c.accuracy is not None]
    limit_v = math.hypot(*stated) if stated else math.inf
    if noise.rms <= _NOISY_RATIO * limit_v:
        return Finding("noise", OK, text, noise.rms, None, "V")
    return Finding(
        "noise", WARNING,
        f"{text}: more than the {quantity(limit_v, 'V')} of the data sheet: shorten the probe's ground, look for hum "
        "or a switching supply, and set shunt_bandwidth_limit", noise.rms, None, "V",
    )


def judge_bits(channel: Channel, noise_codes: float) -> Finding:
    """Tell the effective bits of a channel; fewer than half of its bits are worth a warning."""
    bits = converter_bits(channel.code_min, channel.code_max)
    if bits is None:
        return Finding("effective bits", "left out", f"the codes of {channel.name} do not tell the converter's bits")
    found = effective_bits(bits, noise_codes)
    text = (
        f"{found:.1f} of {bits:.0f} on {channel.name} at this range, from noise alone (IEEE 1241, without a sine: "
        "distortion and jitter do not show)"
    )
    if found < bits / 2:
        return Finding("effective bits", WARNING, f"{text}: few; average more runs, or take a larger shunt", found)
    return Finding("effective bits", OK, text, found)


def judge_tau(step: Step, timebase_ratio: float, load_ohm: float, wiring: Wiring) -> Finding:
    """Compare the time constant of a switched load with what the bench file says of the decoupling.

    A resistor as load lies in parallel with the shunt for the capacitors, a current sink does not: which of the two
    moves tau by at most shunt over load.
    """
    shunt = wiring.shunt
    assert shunt is not None
    stated_f, tolerance = shunt.decoupling_f, shunt.decoupling_tolerance_ratio + shunt.tolerance_ratio
    if step.tau_s is None or step.tau_standard_s is None:
        text = f"below {quantity(step.tau_below_s, 's', 2)}: the current's step is not slowed"
        if not stated_f or stated_f * (1 - tolerance) * shunt.resistance_ohm < step.tau_below_s:
            return Finding("time constant", OK, text)
        return Finding(
            "time constant", FAULT,
            f"{text}, but decoupling_f in [shunt] is {quantity(stated_f, 'F')}: the capacitors are not behind the "
            "shunt; write decoupling_f = 0", step.tau_below_s, None, "s",
        )
    u, _ = expanded([
        _part("fit", step.tau_standard_s / step.tau_s, evaluation="A", degrees_of_freedom=step.degrees_of_freedom),
        _part("time base", timebase_ratio), _part("load", shunt.resistance_ohm / load_ohm),
    ])
    expanded_s = u * step.tau_s
    found_f = step.tau_s / shunt.resistance_ohm
    found_ratio = u + shunt.tolerance_ratio
    text = f"{with_uncertainty(step.tau_s, expanded_s, 's')}, so {quantity(found_f, 'F')} behind the shunt"
    write = (
        f"write decoupling_f = {found_f:.3g} and decoupling_tolerance_ratio = {_rounded_up(found_ratio)} in [shunt]"
    )
    status, says = OK, ""
    if stated_f is None:
        status, says = WARNING, f", of which the bench file says nothing: {write}"
    else:
        stated = f"{quantity(stated_f, 'F')} ± {percent(shunt.decoupling_tolerance_ratio)}"
        says = f"; stated are {stated}"
        if abs(found_f - stated_f) > tolerance * stated_f + u * found_f:
            status, says = FAULT, f", which contradicts the stated {stated}: {write}"
    return Finding("time constant", status, text + says, step.tau_s, expanded_s, "s")


def _rounded_up(ratio: float) -> str:
    """Write a ratio with one digit, rounded up."""
    place = 10.0 ** math.floor(math.log10(ratio))
    return f"{math.ceil(ratio / place - 1e-9) * place:g}"


def judge_latency(step: Step, edge_standard_s: float) -> Finding:
    """Judge the delay from the trigger's edge to the current's step by what the budget allows for."""
    u, _ = expanded([
        _part("fit", step.delay_standard_s, evaluation="A", degrees_of_freedom=step.degrees_of_freedom),
        _part("edge", edge_standard_s, evaluation="A"),
    ])
    text = f"the current's step shows {with_uncertainty(step.delay_s, u, 's')} after the trigger's edge"
    allowed = f"the {quantity(SKEW_LIMIT_S, 's', 2)} that budgets allow for either way"
    if abs(step.delay_s) <= SKEW_LIMIT_S + u:
        return Finding("latency", OK, f"{text}, within {allowed}", step.delay_s, u, "s")
    return Finding(
        "latency", WARNING,
        f"{text}, more than {allowed}: use cables of one length, or calibrate it (labctl calibrate deskew)",
        step.delay_s, u, "s",
    )


def judge_timebase(
    found: Stretch, pulse_s: float, tolerance_ratio: float, limit_ratio: float | None
) -> Finding:
    """Judge the oscilloscope's time base by the known pulse: true time over its own, less one."""
    noise = math.hypot(found.standard_ratio, found.resolution_ratio)
    u, _ = expanded([
        _part("pulse", tolerance_ratio),
        _part("edges", noise, evaluation="A", degrees_of_freedom=found.n - 1),
    ])
    text = f"off by {_ppm(found.value_ratio, u)}, says the mean of {found.n} pulses of {quantity(pulse_s, 's')}"
    if limit_ratio is None:
        return Finding("time base", OK, f"{text}; the data sheet's limit is not known", found.value_ratio, u, "1")
    limit = f"the limit is {_ppm(limit_ratio)}"
    if abs(found.value_ratio) <= limit_ratio + tolerance_ratio + _REACH * noise:
        return Finding("time base", OK, f"{text}; {limit}", found.value_ratio, u, "1")
    return Finding(
        "time base", FAULT, f"{text}, but {limit}: check the pulse's length and tolerance, or have the oscilloscope "
        "adjusted (labctl calibrate timebase corrects it)", found.value_ratio, u, "1",
    )


def _ppm(ratio: float, expanded_ratio: float | None = None) -> str:
    """Write a ratio in ppm, rounded by its uncertainty where that is told."""
    if not expanded_ratio:
        return f"{ratio * 1e6:.3g} ppm"
    n_decimals = max(0, 1 - math.floor(math.log10(expanded_ratio * 1e6)))
    return f"{ratio * 1e6:.{n_decimals}f} ppm ± {expanded_ratio * 1e6:.{n_decimals}f} ppm"


def tell_shortest(limits: Sequence[Limit], lacking: Sequence[str]) -> Finding:
    """Tell the shortest operation that a single run resolves: the largest of the limits, and each of them.

    Each limit is that of one cause alone: what two of them do together is not told.
    """
    longest = max(limits, key=lambda limit: limit.duration_s)
    each = "; ".join(f"{limit.name} {quantity(limit.duration_s, 's', 2)} ({limit.text})" for limit in limits)
    unknown = f"; not known: {', '.join(lacking)}" if lacking else ""
    return Finding(
        "shortest operation", WARNING if lacking else OK,
        f"{quantity(longest.duration_s, 's', 2)}, set by {longest.name}. Each cause by itself: {each}{unknown}. "
        "Shorter ones need several iterations in each window", longest.duration_s, None, "s",
    )
