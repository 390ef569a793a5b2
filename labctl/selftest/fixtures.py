"""What stands in the DUT's place: a known load, the same switched by pulses, and the pulses alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from instruments.protocols import AcquisitionSettings, TriggerSettings
from instruments.record import Record
from labctl.analysis.finding import LEFT_OUT, Finding
from labctl.analysis.line import Line, read_line
from labctl.analysis.pulses import Level, steady, stretch
from labctl.analysis.reference import judge_gain, judge_latency, judge_tau, judge_timebase
from labctl.analysis.response import Step, fit_step, rough_tau_s, superpose
from labctl.bench import Bench, Fixture
from labctl.calibrate.reference import reference_current, with_measured_supply
from labctl.errors import CaptureError
from labctl.frontend import ZERO_SPAN_S, steady_reading
from labctl.selftest.known import Known
from labctl.series import ANSWER_TIMEOUT_S, trigger_settings

N_STEPS = 20
# Before and behind the edge of a step, in time constants of a first guess, and in seconds at least.
BEFORE_TAUS, BEHIND_TAUS = 2, 14
BEFORE_MIN_S, BEHIND_MIN_S = 2e-6, 6e-6
# Of a pulse: what is recorded before it, and up to where its step may be looked at.
BEFORE_RATIO, WHOLE_RATIO = 0.05, 0.9
# Few long records: each has the whole memory, and so the finest sample clock.
N_WIDTHS = 4


def compare_load(bench: Bench, known: Known, fixture: Fixture) -> Iterator[Finding]:
    """Read the current of the known load, at the range and offset of the zero reading."""
    name = bench.wiring.shunt_channel
    if name is None:
        yield Finding(
            "gain", LEFT_OUT,
            "two channels see the shunt: their gains at full supply would have to be known, each times some hundred "
            "drops; use a differential probe",
        )
        return
    assert known.zero is not None
    record = steady_reading(bench, known.settings, ZERO_SPAN_S)
    if record is None:
        raise CaptureError("the load's current does not settle: check the load, and that the supply is regulated")
    reference = with_measured_supply(bench, reference_current(bench, fixture), record, fixture)
    known.current_a = reference.current_a
    channel = record.channels[name]
    load, zero = steady(channel), steady(known.zero.channels[name])
    drop = Level(
        load.mean - zero.mean,
        math.hypot(load.standard, zero.standard),
        min(load.degrees_of_freedom, zero.degrees_of_freedom),
        math.hypot(load.rounding, zero.rounding),
        load.std,
        load.n,
    )
    found = judge_gain(drop, reference.current_a, reference.contributions, bench.wiring, channel.accuracy)
    known.numbers["gain_ratio"], known.numbers["gain_expanded_ratio"] = found.value, found.expanded
    yield found


def compare_step(bench: Bench, known: Known, fixture: Fixture) -> Iterator[Finding]:
    """Fit the step of the current that follows the generator's edge, coarsely first, to choose the span."""
    record = _pulses(bench, known, fixture, (1 + 2 * BEFORE_RATIO) * fixture.pulse_s, BEFORE_RATIO * fixture.pulse_s)
    t_s, values, _ = _step(bench, known, record)
    within = t_s < WHOLE_RATIO * fixture.pulse_s
    tau_s = rough_tau_s(t_s[within], values[within])
    before_s = max(BEFORE_TAUS * tau_s, BEFORE_MIN_S)
    behind_s = min(max(BEHIND_TAUS * tau_s, BEHIND_MIN_S), WHOLE_RATIO * fixture.pulse_s)
    n_steps = min(N_STEPS, bench.scope.capabilities().segments_max)
    record = _pulses(bench, known, fixture, before_s + behind_s, before_s, n_steps)
    t_s, values, edge_standard_s = _step(bench, known, record)
    step = fit_step(t_s, values)
    _keep(bench, known, step)
    tau = judge_tau(step, record.timebase_ratio or 0.0, fixture.load_ohm, bench.wiring)
    if step.tau_s is not None:
        known.numbers["tau_expanded_s"] = tau.expanded
    yield tau
    latency = judge_latency(step, edge_standard_s)
    known.numbers["latency_s"], known.numbers["latency_expanded_s"] = latency.value, latency.expanded
    yield latency


def _keep(bench: Bench, known: Known, step: Step) -> None:
    assert bench.wiring.shunt is not None
    known.tau_s = step.tau_s if step.tau_s is not None else step.tau_below_s
    known.numbers["tau_s"] = step.tau_s
    known.numbers["tau_below_s"] = step.tau_below_s if step.tau_s is None else None
    if step.tau_s is not None:
        known.numbers["decoupling_f"] = step.tau_s / bench.wiring.shunt.resistance_ohm


def _pulses(
    bench: Bench, known: Known, fixture: Fixture, span_s: float, before_s: float, n: int = 1, *, shunt: bool = True
) -> Record:
    """Record the generator's pulses from a little before their rising edges on."""
    channel, trigger = trigger_settings(bench)
    channels = (*known.settings, channel) if shunt else (channel,)
    rising = TriggerSettings(trigger.source, trigger.level_v, "rising")
    bench.scope.configure(AcquisitionSettings(channels, rising, span_s, before_s, n))
    bench.scope.arm()
    bench.fire(n)
    n_taken = bench.scope.wait(ANSWER_TIMEOUT_S + n * (fixture.period_s + span_s))
    if n_taken < n:
        raise CaptureError(f"the scope took {n_taken} of {n} pulses: check the generator, its period and its cable")
    return bench.scope.fetch()


def _step(bench: Bench, known: Known, record: Record) -> tuple[np.ndarray, np.ndarray, float]:
    """Put the steps of a record on one another; give also how well the mean of their edges is known."""
    line = read_line(record.channels[str(bench.wiring.trigger_channel)])
    edges = _first_rises(line, record.n_segments)
    assert record.dt_s is not None
    codes = [np.asarray(record.channels[name].codes) for name in known.names]
    t_s, values = superpose(codes, known.factors, known.constant, edges, record.dt_s)
    # An edge lies anywhere between two samples where it is steeper than their distance.
    return t_s, values, record.dt_s / math.sqrt(12 * record.n_segments)


def _first_rises(line: Line, n_segments: int) -> np.ndarray:
    """Give the first rising edge of each segment, in samples."""
    if line.edges is None:
        raise CaptureError(f"{line.name} shows no pulse: put the trigger's probe on the generator's output")
    segment, position = line.edges.segment[line.edges.rising], line.edges.position[line.edges.rising]
    found, first = np.unique(segment, return_index=True)
    if len(found) < n_segments:
        raise CaptureError(f"{line.name} shows a rising edge in {len(found)} of {n_segments} records: check the pulses")
    return position[first]


def compare_pulse(bench: Bench, known: Known, fixture: Fixture) -> Iterator[Finding]:
    """Measure known pulses by the oscilloscope's time base."""
    margin_s = BEFORE_RATIO * fixture.pulse_s
    seen_s: list[float] = []
    dt_s = 0.0
    for _ in range(N_WIDTHS):
        record = _pulses(bench, known, fixture, fixture.pulse_s + 2 * margin_s, margin_s, shunt=False)
        assert record.dt_s is not None
        dt_s = record.dt_s
        lengths = read_line(record.channels[str(bench.wiring.trigger_channel)]).stretches(high=True)
        if len(lengths) != 1:
            raise CaptureError(
                f"{len(lengths)} whole pulses where one was expected: check the generator's pulse length (--pulse)"
            )
        seen_s.append(float(lengths[0]) * dt_s)
    found = stretch([fixture.pulse_s] * N_WIDTHS, seen_s, dt_s)
    verdict = judge_timebase(found, fixture.pulse_s, fixture.pulse_tolerance_ratio, record.timebase_ratio)
    known.numbers["timebase_ratio"], known.numbers["timebase_expanded_ratio"] = verdict.value, verdict.expanded
    yield verdict
