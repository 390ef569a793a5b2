"""The scope's front end for a measurement: range and offset from a trial run, and the zero reading at exactly these."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from instruments.protocols import AcquisitionSettings, ChannelSettings
from instruments.record import Channel, Record
from labctl import interrupts
from labctl.analysis.pulses import Level, steady
from labctl.bench import Bench
from labctl.errors import CaptureError
from labctl.model import Operation, Wiring
from labctl.series import ANSWER_TIMEOUT_S, expected_duration_s, take_series, tau_s, trigger_settings

N_DIVISIONS = 8
TRIAL_WIDENINGS = (1, 2, 4, 8)
ZERO_SPAN_S = 1e-3
ZERO_SPAN_TAUS = 20
# A supply's output capacitor may feed the DUT for seconds: readings are taken until two in a row agree this well.
ZERO_STEADY_CODES = 0.25
ZERO_TRIES = 20
ZERO_PAUSE_S = 0.5
# What the noise of two means explains: more than four standard errors of their difference it does once in 16,000 times.
STEADY_ERRORS = 4.0


@dataclass(frozen=True)
class Trial:
    """What a first look at an operation told: its length, each shunt channel's extremes, the room an offset needs."""

    duration_s: float
    low_v: dict[str, float]
    high_v: dict[str, float]
    margin_v: float


def trial_runs(bench: Bench, operations: Sequence[Operation]) -> list[Trial]:
    """Take a first look at each operation, in order. Raises what `look` raises."""
    trials = []
    for operation in operations:
        interrupts.check()
        trials.append(look(bench, operation))
    return trials


def look(bench: Bench, operation: Operation) -> Trial:
    """Take one run with a range wide enough for the board's largest current.

    Raises CaptureError where the signal leaves the screen all the same.
    """
    duration_s = expected_duration_s(bench, operation)
    assert bench.wiring.shunt is not None
    assert bench.wiring.supply is not None
    top_v = bench.wiring.shunt.resistance_ohm * bench.board["supply"]["current_max_a"]
    two_channel = bench.wiring.shunt.wiring == "two-channel"
    low_limit_v, high_limit_v = _range_limits_v(bench)
    for widening in TRIAL_WIDENINGS:  # a small range may be less than the scope's own offset error
        settings = []
        for name in shunt_channels(bench):
            at_supply = two_channel or name == bench.wiring.supply.channel
            reach_v = 1.1 * (bench.wiring.supply.voltage_v or 0.0) if at_supply else top_v
            range_v = min(max(1.2 * reach_v, low_limit_v) * widening, high_limit_v)
            settings.append(channel_settings(bench, name, range_v, 0.4 * range_v))
        series = take_series(bench, replace(operation, n_runs=1), tuple(settings), duration_s)
        off_screen = [name for name in shunt_channels(bench) if not on_screen(series.record.channels[name])]
        if not off_screen:
            break
    else:
        raise CaptureError(
            f"{', '.join(off_screen)} is off the screen although its range holds far more than "
            f"{bench.board['name']} can draw, and a little below zero: check the shunt's value, its polarity, the "
            "probe ratio and the wiring"
        )
    low_v, high_v, margin_v = {}, {}, 0.0
    for name in shunt_channels(bench):
        channel = series.record.channels[name]
        low_v[name], high_v[name] = _extremes(channel)
        if channel.accuracy is not None:  # the extremes hold the trial's noise, which exceeds that of the series
            margin_v = max(margin_v, channel.accuracy.offset_limit)
    return Trial(duration_s, low_v, high_v, margin_v)


def choose_range(bench: Bench, trials: list[Trial]) -> tuple[ChannelSettings, ...]:
    """Fit the smallest usual range that holds zero, the signal of every trial, and the scope's own offset error."""
    margin_v = max(t.margin_v for t in trials)
    low_limit_v, high_limit_v = _range_limits_v(bench)
    chosen = []
    for name in shunt_channels(bench):
        bottom_v = min(0.0, *(t.low_v[name] for t in trials)) - margin_v
        top_v = max(0.0, *(t.high_v[name] for t in trials)) + margin_v
        range_v = range_on_ladder_v(min(max(top_v - bottom_v, low_limit_v), high_limit_v))
        chosen.append(channel_settings(bench, name, range_v, (top_v + bottom_v) / 2))
    return tuple(chosen)


def range_on_ladder_v(least_v: float) -> float:
    """Round a full-scale range up to 8 divisions of 1, 2 or 5 times a power of ten.

    On coarse steps the same bench takes the same range each time, and with it the same gain error.
    """
    division_v = least_v / N_DIVISIONS
    decade_v = 10.0 ** math.floor(math.log10(division_v) + 1e-9)
    return N_DIVISIONS * next(step * decade_v for step in (1, 2, 5, 10) if division_v <= step * decade_v * (1 + 1e-9))


def take_zero(bench: Bench, shunt: tuple[ChannelSettings, ...]) -> Record:
    """Read the shunt channels with the DUT unpowered, until the reading is steady; then bring the DUT back.

    Raises CaptureError where the reading does not settle.
    """
    bench.set_power(False)
    zero = read_zero(bench, shunt)
    bench.set_power(True)
    bench.dut.hello()
    return zero


def read_zero(
    bench: Bench,
    shunt: tuple[ChannelSettings, ...],
    span_s: float = ZERO_SPAN_S,
    steady_v: float | None = None,
) -> Record:
    """Read the shunt channels, the supply being off, until two readings agree within `steady_v` (a quarter of a code).

    Raises CaptureError where they do not.
    """
    span_s = max(span_s, ZERO_SPAN_TAUS * tau_s(bench))
    record = steady_reading(bench, shunt, span_s, steady_v)
    if record is None:
        raise CaptureError(
            f"the shunt still shows a changing current {ZERO_TRIES * ZERO_PAUSE_S:g} s after the DUT's supply was "
            "switched off: check that [dut] power switches this supply, and that nothing feeds the DUT by its serial "
            "or trigger pin"
        )
    return replace(record, granted={**record.granted, "utc": utc_text(), "method": "DUT unpowered"})


def steady_reading(
    bench: Bench, shunt: tuple[ChannelSettings, ...], span_s: float, steady_v: float | None = None
) -> Record | None:
    """Read the shunt channels until two readings in a row agree within `steady_v`; None where they never do.

    None for `steady_v` stands for a quarter of a code. What noise moves the means by is always allowed. Raises
    CaptureError for clipped samples.
    """
    trigger_channel, _ = trigger_settings(bench)
    bench.scope.configure(AcquisitionSettings((*shunt, trigger_channel), None, span_s, 0.0))
    previous: dict[str, Level] = {}
    for attempt in range(ZERO_TRIES):
        interrupts.check()
        if attempt > 1:
            time.sleep(ZERO_PAUSE_S)
        bench.scope.arm()
        bench.scope.wait(ANSWER_TIMEOUT_S + span_s)
        record = bench.scope.fetch()
        keep = {s.name: record.channels[s.name] for s in shunt}
        levels = {name: steady(channel) for name, channel in keep.items()}
        if previous and all(
            abs(levels[name].mean - previous[name].mean)
            <= max(
                ZERO_STEADY_CODES * abs(channel.scale) if steady_v is None else steady_v,
                STEADY_ERRORS * math.hypot(levels[name].standard, previous[name].standard),
            )
            for name, channel in keep.items()
        ):
            return replace(record, channels=keep)
        previous = levels
    return None


def utc_text(moment: datetime.datetime | None = None) -> str:
    """Write a time (default: now) as captures tell it: 2026-11-30T12:00:00Z."""
    return (moment or datetime.datetime.now(datetime.UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def shunt_channels(bench: Bench) -> tuple[str, ...]:
    """Name the channels that carry current or supply, each once."""
    return channels_of(bench.wiring)


def channels_of(wiring: Wiring) -> tuple[str, ...]:
    """Name the channels of a wiring that carry current or supply, each once."""
    names = (wiring.shunt_channel, wiring.shunt_high_channel, wiring.shunt_low_channel)
    supply = wiring.supply.channel if wiring.supply else None
    return tuple(dict.fromkeys(name for name in (*names, supply) if name))


def channel_settings(bench: Bench, name: str, range_v: float, offset_v: float) -> ChannelSettings:
    """Ask for a channel of the shunt at a range and offset, with the bench's probe and bandwidth limit."""
    scope = bench.file.oscilloscope
    return ChannelSettings(
        name,
        range_v=range_v,
        offset_v=offset_v,
        probe_ratio=scope.shunt_probe_ratio,
        bandwidth_limit=scope.shunt_bandwidth_limit,
    )


def _range_limits_v(bench: Bench) -> tuple[float, float]:
    """Return the scope's limits at the probe's tip."""
    limits, ratio = bench.scope.capabilities(), bench.file.oscilloscope.shunt_probe_ratio
    return limits.range_min_v * ratio, limits.range_max_v * ratio


def on_screen(channel: Channel) -> bool:
    """Tell whether no sample of a channel is clipped."""
    low, high = channel.codes.min(), channel.codes.max()
    below_top = channel.code_max is None or high < channel.code_max
    return bool(below_top and (channel.code_min is None or low > channel.code_min))


def _extremes(channel: Channel) -> tuple[float, float]:
    low, high = float(channel.codes.min()), float(channel.codes.max())
    values = (low * channel.scale + channel.offset, high * channel.scale + channel.offset)
    return min(values), max(values)
