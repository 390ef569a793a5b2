"""Zero and gain: what the shunt's channel reads of no current, and of a known one."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from instruments.protocols import ChannelSettings
from instruments.record import Channel, Record
from labctl.analysis import keys
from labctl.analysis.chain import zero_applies
from labctl.analysis.pulses import Level, steady
from labctl.analysis.trigger import find_windows
from labctl.bench import Bench, Fixture
from labctl.calibrate.common import Found, Progress, Request, check_benefit, fixture_in_place, keys_of, store
from labctl.calibrate.reference import (
    MeterReading,
    Reference,
    at_the_dut,
    in_series,
    of_level,
    reference_current,
    with_measured_supply,
    with_meter_read,
)
from labctl.dated import LOAD
from labctl.errors import CaptureError, ConfigError
from labctl.frontend import choose_range, read_zero, steady_reading, take_zero, trial_runs
from labctl.measure import null_of, session
from labctl.model import Contribution, Operation
from labctl.series import expected_duration_s, take_series
from labctl.units import percent, quantity

# Whole periods of both 50 Hz and 60 Hz, so that hum averages out; the memory fills whatever the span.
READING_SPAN_S = 0.1
# What a reading may still drift by, as part of what the load is expected to read: a tenth of a usual load's 0.1 %.
DRIFT_RATIO = 1e-4
# How far the load's current may lie from the DUT's: beyond, the converter's non-linearity and the supply's internal
# resistance, which are in no budget, need not be the same for both.
CURRENT_RATIO_MAX = 2.0
# How far the load's reading may lie from what is expected of it, before something is wrong that no calibration mends.
READING_RATIO_MAX = 2.0
# Room for the noise of single samples at the top of the screen, in standard deviations: one in 1e9 lies beyond.
NOISE_ROOM = 6.0


def calibrate_zero(bench: Bench, request: Request, progress: Progress = lambda *_: None) -> Path:
    """Read the shunt's channels without current, at the range and offset that a measurement would choose.

    Returns the path of the stored calibration. Raises LabctlError or InstrumentError.
    """
    with session(bench, request.out):
        bench.dut.hello()
        progress("trial runs", 0, 2)
        shunt = choose_range(bench, trial_runs(bench, (null_of(request.operations), *request.operations)))
        progress("zero reading, DUT unpowered", 1, 2)
        zero = take_zero(bench, shunt)
        names, wiring = keys_of(bench), bench.wiring
        signs = {wiring.shunt_channel: 1.0, wiring.shunt_high_channel: 1.0, wiring.shunt_low_channel: -1.0}
        value, contributions, unit = 0.0, [], "V"
        for name, channel in zero.channels.items():
            sign = signs.get(name)
            if sign is not None:
                level, unit = steady(channel), channel.unit
                value += sign * level.mean
                contributions += of_level("reading", channel, level, sign, names)
        channels = {name: keys.settings(channel) for name, channel in zero.channels.items() if name in signs}
        found = Found("zero", value, unit, tuple(contributions), "DUT unpowered", channels)
        path = store(bench, request, found, {"zero": zero})
        progress("done", 2, 2)
        return path


def calibrate_gain(
    bench: Bench, request: Request, reference: Fixture | MeterReading, progress: Progress = lambda *_: None
) -> Path:
    """Compare the current read with that of a known load, or of a reference meter in series with it.

    Range and offset are those that a measurement of the request's operations would choose, and hold for it. Returns
    the path of the stored calibration. Raises ConfigError for a wiring that cannot be calibrated so and for a load
    that does not suit, CaptureError where the reading makes no sense.
    """
    name = _shunt_channel(bench, reference)
    known = reference_current(bench, reference)
    with session(bench, request.out):
        bench.dut.hello()
        operations = (null_of(request.operations), *request.operations)
        progress("trial runs", 0, 4)
        trials = trial_runs(bench, operations)
        shunt = choose_range(bench, trials)
        shortest = min(zip(trials[1:], request.operations, strict=True), key=lambda pair: pair[0].duration_s)[1]
        own = _own_reading(bench, shortest, shunt, name)
        progress("zero reading, DUT unpowered", 1, 4)
        drift_v = DRIFT_RATIO * known.current_a * _shunt_ohm(bench)
        bench.set_power(False)
        try:
            zero = read_zero(bench, shunt, READING_SPAN_S, drift_v)
            at_zero = steady(zero.channels[name])
            own_a = (own - at_zero.mean) / _shunt_ohm(bench)
            _check_load(bench, known, own_a, zero.channels[name], at_zero)
            known = at_the_dut(bench, known, own_a)
            check_benefit(bench, request, _found(bench, known, 1.0, (), zero.channels[name]), zero)
        except ConfigError:
            bench.set_power(True)
            raise
        progress("known load", 2, 4)
        with fixture_in_place(bench, "load", known.fixture):
            if isinstance(reference, MeterReading) and reference.current_a is not None:
                bench.ask(f"See that the reference meter in series with the load reads "
                          f"{quantity(known.current_a, 'A', 6)}")
            load = steady_reading(bench, shunt, READING_SPAN_S, drift_v)
            if load is None:
                raise CaptureError(
                    "the load's current does not settle: check that the load is cool enough for its power "
                    f"({quantity(known.current_a**2 * known.fixture.load_ohm, 'W')}) and the supply regulated"
                )
            known = with_measured_supply(bench, known, load, reference)
            known = with_meter_read(bench, known, reference)
            _check_load(bench, known, own_a, zero.channels[name], at_zero)
            at_load = steady(load.channels[name])
            found = _evaluate(bench, known, load, zero, (at_load, at_zero))
        progress("storing", 3, 4)
        path = store(bench, request, found, {LOAD: load, "zero": zero})
        progress("done", 4, 4)
        return path


def _shunt_channel(bench: Bench, reference: Fixture | MeterReading) -> str:
    name = bench.wiring.shunt_channel
    if name is None:
        raise ConfigError(
            "a gain calibration gives one factor for one channel, but in two-channel wiring the gains of two channels "
            "at full supply enter, each times some hundred drops: use low-side or high-side-differential wiring"
        )
    supply = bench.wiring.supply
    assert supply is not None
    if isinstance(reference, Fixture) and supply.voltage_v is None and supply.channel is None:
        raise ConfigError("the supply's voltage is not known, so the load's current is not: give it (--supply 3.3)")
    return name


def _shunt_ohm(bench: Bench) -> float:
    assert bench.wiring.shunt is not None
    return bench.wiring.shunt.resistance_ohm


def _own_reading(bench: Bench, operation: Operation, shunt: tuple[ChannelSettings, ...], name: str) -> float:
    """Read the mean voltage of the shunt's channel inside a window of an operation, at the settings chosen."""
    operation = replace(operation, n_runs=1)
    record = take_series(bench, operation, shunt, expected_duration_s(bench, operation)).record
    (window,), _ = find_windows(record, bench.wiring, expected=1, swing=bench.board["pins"]["level_v"])
    channel = record.channels[name]
    codes = np.asarray(channel.codes[0, math.ceil(window.start) : math.floor(window.stop) + 1])
    return float(codes.mean()) * channel.scale + channel.offset


def _check_load(bench: Bench, known: Reference, own_a: float, channel: Channel, at_zero: Level) -> None:
    """Raise ConfigError for a load that would leave the screen, or draws another order of current than the DUT.

    Raises CaptureError for a DUT that reads as drawing none.
    """
    if own_a <= 0:
        raise CaptureError(
            f"the DUT reads {quantity(own_a, 'A')} on {channel.name}: swap the shunt's leads, or put its probe on"
        )
    shunt_ohm, supply = _shunt_ohm(bench), bench.wiring.supply
    assert supply is not None and supply.voltage_v is not None
    top_v = math.inf if channel.code_max is None else channel.code_max * channel.scale + channel.offset
    reach_v = top_v - NOISE_ROOM * at_zero.std - at_zero.mean
    fits = known.current_a * shunt_ohm < reach_v
    if fits and own_a / CURRENT_RATIO_MAX <= known.current_a <= own_a * CURRENT_RATIO_MAX:
        return
    what = f"a load of {quantity(known.fixture.load_ohm, 'ohm', 4)} draws {quantity(known.current_a, 'A')}"
    if known.fixture.meter_tolerance_ratio is not None:
        what = f"the meter's current is {quantity(known.current_a, 'A')}"
    better_ohm = max(supply.voltage_v / min(own_a, reach_v / shunt_ohm) - shunt_ohm, 1.0)
    advice = f"; use a load of about {quantity(in_series(better_ohm, above=not fits), 'ohm')} (--load)"
    why = "which is off the screen at the range and offset that a measurement takes"
    if fits:
        why = f"and the DUT draws {quantity(own_a, 'A')}: the load's current must be of the same order, within a " \
              f"factor of {CURRENT_RATIO_MAX:g}"
    raise ConfigError(f"{what}, {why}{advice}")


def _evaluate(
    bench: Bench, known: Reference, load: Record, zero: Record, levels: tuple[Level, Level]
) -> Found:
    """Compare the reading with the known current. Raises CaptureError where it makes no sense."""
    name = bench.wiring.shunt_channel
    assert name is not None and bench.wiring.shunt is not None
    if not zero_applies(load, bench.wiring, zero):
        raise CaptureError("the scope granted other settings for the load than for the zero reading: calibrate again")
    at_load, at_zero = levels
    drop_v = at_load.mean - at_zero.mean
    read_a = drop_v / _shunt_ohm(bench)
    if not known.current_a / READING_RATIO_MAX <= read_a <= known.current_a * READING_RATIO_MAX:
        told = "the meter's reading" if known.fixture.meter_tolerance_ratio is not None else "the load"
        hint = "its leads are swapped" if read_a < 0 else (
            f"check {told}, the shunt's value ({_shunt_ohm(bench):g} ohm), the probe ratio, the supply's voltage, "
            "and that no other ground bypasses the shunt"
        )
        raise CaptureError(
            f"the load reads {quantity(read_a, 'A')} on {name}, {quantity(known.current_a, 'A')} expected: {hint}"
        )
    channel, names = load.channels[name], keys_of(bench)
    noise = (*of_level("reading", channel, at_load, -1 / drop_v, names),
             *of_level("zero", zero.channels[name], at_zero, 1 / drop_v, names))
    return _found(bench, known, known.current_a / read_a, noise, channel)


def _found(
    bench: Bench, known: Reference, value: float, noise: tuple[Contribution, ...], channel: Channel
) -> Found:
    shunt = bench.wiring.shunt
    assert shunt is not None
    limits = math.fsum(abs(c.effect) * math.sqrt(3) for c in known.contributions) + shunt.tolerance_ratio
    doubt = ""
    if channel.accuracy is not None and abs(value - 1) > limits + channel.accuracy.gain_ratio:
        doubt = (
            f"the current that flows is {value:.4g} times the current read, further from 1 than all tolerances "
            f"together explain ({percent(limits + channel.accuracy.gain_ratio)}): check the values of shunt, load and "
            "supply; where contacts add to the shunt, tell its tolerance accordingly ([shunt] tolerance_ratio)"
        )
    return Found("gain", value, "1", (*known.contributions, *noise), known.method,
                 {channel.name: keys.settings(channel)}, shunt.resistance_ohm, doubt)
