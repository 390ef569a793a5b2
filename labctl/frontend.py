"""The scope's front end for a measurement: range and offset from a trial run, and the zero reading at exactly these."""

from __future__ import annotations

import datetime
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from instruments.protocols import AcquisitionSettings, ChannelSettings
from instruments.record import Channel, Record
from labctl.analysis.chain import zero_applies
from labctl.bench import Bench
from labctl.errors import CaptureError, ConfigError
from labctl.model import Operation
from labctl.series import ANSWER_TIMEOUT_S, expected_duration_s, take_series, tau_s, trigger_settings
from labctl.store import open_capture

N_DIVISIONS = 8
TRIAL_WIDENINGS = (1, 2, 4, 8)
ZERO_SPAN_S = 1e-3
ZERO_SPAN_TAUS = 20
# A supply's output capacitor may feed the DUT for seconds: readings are taken until two in a row agree this well.
ZERO_STEADY_CODES = 0.25
ZERO_TRIES = 20
ZERO_PAUSE_S = 0.5


@dataclass(frozen=True)
class Trial:
    """What a first look at an operation told: its length, each shunt channel's extremes, the room an offset needs."""

    duration_s: float
    low_v: dict[str, float]
    high_v: dict[str, float]
    margin_v: float


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
            settings.append(_channel_settings(bench, name, range_v, 0.4 * range_v))
        series = take_series(bench, replace(operation, n_runs=1), tuple(settings), duration_s)
        off_screen = [name for name in shunt_channels(bench) if not _on_screen(series.record.channels[name])]
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
        chosen.append(_channel_settings(bench, name, range_v, (top_v + bottom_v) / 2))
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
    trigger_channel, _ = trigger_settings(bench)
    span_s = max(ZERO_SPAN_S, ZERO_SPAN_TAUS * tau_s(bench))
    bench.set_power(False)
    bench.scope.configure(AcquisitionSettings((*shunt, trigger_channel), None, span_s, 0.0))
    record = _steady_reading(bench, [s.name for s in shunt])
    bench.set_power(True)
    bench.dut.hello()
    utc = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    keep = {s.name: record.channels[s.name] for s in shunt}
    return replace(record, channels=keep, granted={**record.granted, "utc": utc, "method": "DUT unpowered"})


def _steady_reading(bench: Bench, names: list[str]) -> Record:
    previous: dict[str, float] = {}
    for attempt in range(ZERO_TRIES):
        if attempt > 1:
            time.sleep(ZERO_PAUSE_S)
        bench.scope.arm()
        bench.scope.wait(ANSWER_TIMEOUT_S)
        record = bench.scope.fetch()
        means = {name: float(np.mean(record.channels[name].codes)) for name in names}
        if previous and all(abs(means[name] - previous[name]) <= ZERO_STEADY_CODES for name in names):
            return record
        previous = means
    raise CaptureError(
        f"the shunt still shows a changing current {ZERO_TRIES * ZERO_PAUSE_S:g} s after the DUT's supply was switched "
        "off: check that [dut] power switches this supply, and that nothing feeds the DUT by its serial or trigger pin"
    )


def dated_zero(bench: Bench, path: Path) -> tuple[Record, tuple[ChannelSettings, ...]]:
    """Take the zero reading out of an earlier capture, with the settings that were asked for it.

    Raises ConfigError where it has none, or one of another oscilloscope or of other channels.
    """
    with open_capture(path) as capture:
        stored = capture.records.get("zero")
        if stored is None:
            raise ConfigError(f"{path} holds no zero reading; leave --zero out to take a new one")
        channels = {name: replace(c, codes=np.asarray(c.codes)) for name, c in stored.channels.items()}
        zero = replace(stored, channels=channels)
    identity = bench.scope.identify()
    if (zero.instrument.model, zero.instrument.serial) != (identity.model, identity.serial):
        raise ConfigError(
            f"the zero reading in {path} was taken on {zero.instrument.model} {zero.instrument.serial}, "
            f"but {identity.model} {identity.serial} is connected; leave --zero out to take a new one"
        )
    asked = {channel["name"]: channel for channel in zero.asked.get("channels", ())}
    missing = [name for name in shunt_channels(bench) if name not in asked or name not in zero.channels]
    if missing:
        raise ConfigError(f"the zero reading in {path} does not cover {', '.join(missing)}")
    settings = tuple(ChannelSettings(**asked[name]) for name in shunt_channels(bench))
    for one in settings:
        wanted = _channel_settings(bench, one.name, one.range_v, one.offset_v)
        if one != wanted:
            raise ConfigError(
                f"the zero reading in {path} was taken with a probe of {one.probe_ratio:g}:1 and the bandwidth limit "
                f"{'on' if one.bandwidth_limit else 'off'}, the bench has {wanted.probe_ratio:g}:1 and "
                f"{'on' if wanted.bandwidth_limit else 'off'}: leave --zero out to take a new one"
            )
    return zero, settings


def check_zero(bench: Bench, record: Record, zero: Record) -> None:
    """Raise ConfigError where a dated zero reading does not hold for a record: other settings, or a range too small."""
    off_screen = [name for name in shunt_channels(bench) if not _on_screen(record.channels[name])]
    if off_screen:
        raise ConfigError(
            f"{', '.join(off_screen)} leaves the screen at the range of the dated zero reading: leave --zero out, so "
            "that a range is chosen and a new reading taken at it"
        )
    if not zero_applies(record, bench.wiring, zero):
        raise ConfigError(
            "the zero reading was taken at another range or offset than the scope granted now: "
            "leave --zero out to take a new one"
        )


def shunt_channels(bench: Bench) -> tuple[str, ...]:
    """Name the channels that carry current or supply, each once."""
    wiring = bench.wiring
    names = (wiring.shunt_channel, wiring.shunt_high_channel, wiring.shunt_low_channel)
    supply = wiring.supply.channel if wiring.supply else None
    return tuple(dict.fromkeys(name for name in (*names, supply) if name))


def _channel_settings(bench: Bench, name: str, range_v: float, offset_v: float) -> ChannelSettings:
    scope = bench.file.scope
    return ChannelSettings(
        name,
        range_v=range_v,
        offset_v=offset_v,
        probe_ratio=scope.shunt_probe_ratio,
        bandwidth_limit=scope.shunt_bandwidth_limit,
    )


def _range_limits_v(bench: Bench) -> tuple[float, float]:
    """Return the scope's limits at the probe's tip."""
    limits, ratio = bench.scope.capabilities(), bench.file.scope.shunt_probe_ratio
    return limits.range_min_v * ratio, limits.range_max_v * ratio


def _on_screen(channel: Channel) -> bool:
    low, high = channel.codes.min(), channel.codes.max()
    below_top = channel.code_max is None or high < channel.code_max
    return bool(below_top and (channel.code_min is None or low > channel.code_min))


def _extremes(channel: Channel) -> tuple[float, float]:
    low, high = float(channel.codes.min()), float(channel.codes.max())
    values = (low * channel.scale + channel.offset, high * channel.scale + channel.offset)
    return min(values), max(values)
