"""What the manuals say of N6705 DC power analysers with N678xA modules: intervals, limits, accuracy.

The short names in brackets are explained in `keysight_n6705`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf, isfinite
from typing import Any

import numpy as np

from instruments.errors import OutOfRange
from instruments.protocols import AcquisitionSettings, ChannelSettings, CurrentSettings
from instruments.record import Accuracy, Channel

SCOPE_VIEW, DATA_LOG, EXTERNAL_LOG = "scope view", "data log", "external log"

# Shortest interval by the number of quantities that are acquired, for N678xA [OG] p. 213; above the last, 40.96 us.
SCOPE_INTERVALS_S = {1: 5.12e-6, 2: 10.24e-6, 3: 20.48e-6, 4: 20.48e-6}
SCOPE_INTERVAL_MANY_S = 40.96e-6
COARSE_FROM = 5  # quantities that need the resolution of 40.96 us [OG] p. 213
STEP_S = 20.48e-6
# A quantity in a data log takes this much: 20.48 us for one [UG] p. 168, more of them stretch it (energyrunner 24).
LOG_INTERVAL_S = 20.48e-6
ELOG_INTERVAL_S = 102.4e-6  # for each quantity [N67] p. 146
ELOG_FIFO_S = 20.0  # [UG] p. 168
POINTS_MAX = 512 * 1024  # of all quantities together: not verified
FILE_BYTES_MAX = 2_000_000_000  # a longer log would quietly be given a longer interval [UG] p. 66
SPAN_MAX_S = 3600.0  # of this driver: a log is read into memory
TRANSFER_MIN_BYTES_PER_S = 100e3  # what the interface of a mainframe is assumed to reach
PULSE_MIN_S = 2e-6  # at the BNC input [UG] p. 66

VOLTAGE_MAX_V, CURRENT_MAX_A = 20.0, 3.0
# An N6781A gives 3 A up to 6 V and 1 A above [DS], not verified.
HIGH_CURRENT_UP_TO_V, HIGH_VOLTAGE_MAX_A = 6.0, 1.0


@dataclass(frozen=True)
class Limits:
    """Half-widths on one measuring range [DS], not verified, and noise against that of the tables below."""

    range: float
    gain_ratio: float
    offset: float
    noise_ratio: float


# Noise: [SG] p. 52 but for 3 A (by full scale from the 8 A range there) and 10 uA, which are assumed.
CURRENT_LIMITS = (
    Limits(10e-6, 0.25e-3, 8e-9, 0.0074),
    Limits(1e-3, 0.25e-3, 100e-9, 0.104),
    Limits(100e-3, 0.25e-3, 10e-6, 1.0),
    Limits(CURRENT_MAX_A, 0.3e-3, 250e-6, 33.3),
)
VOLTAGE_LIMITS = (
    Limits(0.1, 0.25e-3, 50e-6, 0.0169),
    Limits(1.0, 0.25e-3, 75e-6, 0.0811),
    Limits(VOLTAGE_MAX_V, 0.25e-3, 1.2e-3, 1.0),
)
OVERRANGE_RATIO = 1.02  # a range holds somewhat more than its name: 3.06 A, assumed for all
# rms noise by averaging time [SG] p. 52: N6781A on 20 V; N6785A on 100 mA, since that page's columns of an N6781A's
# current were not at hand.
NOISE_TIMES_S = (5.12e-6, 51.2e-6, 102.4e-6, 169e-6, 512e-6, 998.4e-6, 1.7e-3, 10e-3, 16.7e-3)
NOISE_20V_V = (2.3e-3, 1.2e-3, 993.7e-6, 894.8e-6, 533.4e-6, 297.5e-6, 276.6e-6, 87.4e-6, 69.6e-6)
NOISE_100MA_A = (13.5e-6, 7.1e-6, 5.4e-6, 4.1e-6, 2.5e-6, 1.7e-6, 1.3e-6, 644.2e-9, 471.5e-9)
TIMEBASE_RATIO = 50e-6  # assumed
ACCURACY_SOURCE = (
    "not verified: N6780 Series data sheet 5990-5829EN, N6781A; noise: N6700 Specifications Guide N6700-90001 p. 52, "
    "of current that of an N6785A"
)

TRIGGER_SOURCES = ("BNC", *(f"PIN{number}" for number in range(1, 8)), "VOLT2")


@dataclass(frozen=True)
class Quantity:
    """One that can be recorded: its channel's name, output, function in commands, and unit."""

    name: str
    output: int
    function: str
    unit: str


QUANTITIES = {
    "I1": Quantity("I1", 1, "CURR", "A"),
    "V1": Quantity("V1", 1, "VOLT", "V"),
    "V2": Quantity("V2", 2, "VOLT", "V"),
}


@dataclass(frozen=True)
class Plan:
    """How a recording is made: by what, at which interval, of how many samples, how many of them before the trigger.

    `waits` tells whether it begins with its trigger, or as soon as it is armed.
    """

    mode: str
    dt_s: float
    n_samples: int
    n_before: int
    waits: bool

    def at(self, dt_s: float, settings: AcquisitionSettings) -> Plan:
        """Return the plan at another interval, for the same span."""
        return _planned(self.mode, dt_s, settings, self.waits)


def check_settings(settings: AcquisitionSettings, names: tuple[str, ...]) -> None:
    """Raise OutOfRange for what the instrument cannot do. NaN fails every comparison and so is refused too."""
    if not settings.channels:
        raise OutOfRange("at least one channel must be recorded")
    used = [channel.name for channel in settings.channels]
    for channel in settings.channels:
        if channel.name not in names:
            raise OutOfRange(f"no channel {channel.name!r}; this instrument has {', '.join(names)}")
        if QUANTITIES[channel.name].unit == "A":
            _check_current(channel)
        else:
            _check_voltage(channel)
    if len(set(used)) != len(used):
        raise OutOfRange(f"a channel is asked for twice: {', '.join(used)}")
    if settings.n_segments != 1:
        raise OutOfRange(f"a meter records one segment that holds all windows, not {settings.n_segments!r}")
    within("span", settings.span_s, 0.0, SPAN_MAX_S, "s")
    within("pre-trigger time", settings.pre_s, 0.0, settings.span_s, "s")
    within("sample rate", settings.rate_hz, 0.0, 1 / SCOPE_INTERVALS_S[1], "Hz")
    _check_trigger(settings, used)


def _check_current(channel: Any) -> None:
    if not isinstance(channel, CurrentSettings):
        raise OutOfRange(f"channel {channel.name} measures current, so it takes a range in ampere, or none")
    if channel.range_a is not None:
        within(f"{channel.name} range", channel.range_a, 0.0, CURRENT_MAX_A, "A", exclusive=True)


def _check_voltage(channel: Any) -> None:
    if not isinstance(channel, ChannelSettings):
        raise OutOfRange(f"channel {channel.name} measures voltage, so it takes a range in volt")
    if (channel.probe_ratio, channel.coupling, channel.bandwidth_limit) != (1.0, "DC", False):
        raise OutOfRange(f"{channel.name} has neither probe nor coupling nor bandwidth limit: ask for 1:1, DC and none")
    within(f"{channel.name} range", channel.range_v, 0.0, 2 * VOLTAGE_MAX_V, "V", exclusive=True)
    within(f"{channel.name} range about its offset", peak_v(channel), 0.0, VOLTAGE_MAX_V, "V")


def _check_trigger(settings: AcquisitionSettings, used: list[str]) -> None:
    trigger = settings.trigger
    if trigger is None:
        return
    if trigger.source not in TRIGGER_SOURCES:
        raise OutOfRange(f"no trigger source {trigger.source!r}; this instrument has {', '.join(TRIGGER_SOURCES)}")
    if trigger.edge not in ("rising", "falling"):
        raise OutOfRange(f"trigger edge must be rising or falling, not {trigger.edge!r}")
    if trigger.source == "BNC" and trigger.edge != "falling":
        raise OutOfRange(
            "the BNC trigger input is low-true, so its edge is falling: invert the DUT's trigger, in pulses of at "
            f"least {PULSE_MIN_S * 1e6:g} µs, or use a pin of the digital port"
        )
    if trigger.source == "VOLT2":
        if "V2" not in used:
            raise OutOfRange("trigger source VOLT2 needs channel V2 among the recorded ones")
        channel = settings.channels[used.index("V2")]
        assert isinstance(channel, ChannelSettings)
        half_v = channel.range_v / 2
        within("trigger level", trigger.level_v, channel.offset_v - half_v, channel.offset_v + half_v, "V")


def within(what: str, value: float, low: float, high: float, unit: str, *, exclusive: bool = False) -> None:
    """Raise OutOfRange unless low <= value <= high; `exclusive` excludes `low` itself."""
    if not low <= value <= high or (exclusive and value == low):
        limits = f"above {low:g} {unit} and up to" if exclusive else f"from {low:g} {unit} to"
        raise OutOfRange(f"{what} must be {limits} {high:g} {unit}, not {value:g} {unit}")


def peak_v(channel: ChannelSettings) -> float:
    """Return the largest voltage that a channel is asked to hold."""
    return abs(channel.offset_v) + channel.range_v / 2


def scope_interval_s(n_quantities: int) -> float:
    """Return the shortest interval of the scope view for that many quantities [OG] p. 213."""
    return SCOPE_INTERVALS_S.get(n_quantities, SCOPE_INTERVAL_MANY_S)


def resolution(n_quantities: int) -> str:
    """Return the resolution of intervals that this many quantities need [OG] p. 213."""
    return "RES40" if n_quantities >= COARSE_FROM else "RES20"


def elog_interval_s(n_quantities: int) -> float:
    """Return the shortest interval of the external log for that many quantities [N67] p. 146."""
    return ELOG_INTERVAL_S * n_quantities


def make_plan(settings: AcquisitionSettings) -> Plan:
    """Choose how to record: the scope view while its points suffice, else a log.

    The data log is the finer one, but no pin can trigger it [OG] p. 155. The external log can be, and then has
    nothing from before the trigger: where that is asked for, it begins when it is armed. Against a pin's trigger a
    scope view of longer intervals goes before it while its intervals are not longer. Raises OutOfRange.
    """
    n = len(settings.channels)
    source = settings.trigger.source if settings.trigger is not None else ""
    plan = _planned(SCOPE_VIEW, scope_interval_s(n), settings)
    if plan.n_samples * n > POINTS_MAX:
        if source.startswith("PIN"):
            coarse_s = STEP_S * ceil(settings.span_s * n / (POINTS_MAX - n) / STEP_S)
            plan = _planned(SCOPE_VIEW, coarse_s, settings)
            if coarse_s > elog_interval_s(n):
                plan = _planned(EXTERNAL_LOG, elog_interval_s(n), settings, waits=settings.pre_s == 0)
        else:
            plan = _planned(DATA_LOG, LOG_INTERVAL_S * n, settings)
    # Half a part in a million: a rate is told as 1 / interval.
    if settings.rate_hz * plan.dt_s > 1 + 5e-7:
        raise OutOfRange(
            f"{settings.span_s:g} s of {n} quantities are recorded by the {plan.mode} at {1 / plan.dt_s:.6g} Hz at "
            f"most, not at {settings.rate_hz:.6g} Hz: record fewer, or a shorter span"
        )
    if plan.mode == DATA_LOG and 4 * n * plan.n_samples > FILE_BYTES_MAX:
        raise OutOfRange(f"a data log of {settings.span_s:g} s is larger than {FILE_BYTES_MAX:.0e} bytes: log less")
    return plan


def _planned(mode: str, dt_s: float, settings: AcquisitionSettings, waits: bool = True) -> Plan:
    # A count that lies a rounding error above a whole number is that number.
    n_samples = max(1, ceil(settings.span_s / dt_s - 1e-6))
    waits = waits and settings.trigger is not None
    n_before = min(ceil(settings.pre_s / dt_s - 1e-6), n_samples) if waits else 0
    return Plan(mode, dt_s, n_samples, n_before, waits)


def check_supply(voltage_v: float | None, current_limit_a: float | None) -> None:
    """Raise OutOfRange for a voltage or current limit that an N6781A cannot give. None is left as it is."""
    if voltage_v is not None:
        within("supply voltage", voltage_v, 0.0, VOLTAGE_MAX_V, "V")
    if current_limit_a is not None:
        high = voltage_v is not None and voltage_v > HIGH_CURRENT_UP_TO_V
        most_a = HIGH_VOLTAGE_MAX_A if high else CURRENT_MAX_A
        within("supply current limit", current_limit_a, 0.0, most_a, "A", exclusive=True)


def make_channel(
    quantity: Quantity, settings: dict[str, Any], range_: float | None, codes: np.ndarray[Any, Any], dt_s: float
) -> Channel:
    """Join values of shape (1, samples) with what the data sheet says of them.

    `range_` None is the seamless range: each sample was taken on the one that holds it, so that the largest sample
    tells the widest that was used, whose offset no narrower one exceeds.
    """
    limits, noise = (CURRENT_LIMITS, NOISE_100MA_A) if quantity.unit == "A" else (VOLTAGE_LIMITS, NOISE_20V_V)
    reach = range_
    if reach is None:
        reach = float(np.nanmax(np.abs(codes))) if np.isfinite(codes).any() else inf
    used = next((limit for limit in limits if reach <= OVERRANGE_RATIO * limit.range), limits[-1])
    noise_rms = np.exp(np.interp(np.log(dt_s), np.log(NOISE_TIMES_S), np.log(noise))) * used.noise_ratio
    return Channel(
        quantity.name,
        codes,
        scale=1.0,
        offset=0.0,
        unit=quantity.unit,
        label=f"output {quantity.output}",
        settings={**settings, "range": "seamless" if range_ is None else range_},
        accuracy=Accuracy(used.gain_ratio, used.offset, float(noise_rms), ACCURACY_SOURCE),
    )


def granted_settings(
    settings: AcquisitionSettings, plan: Plan, ranges: dict[str, float | None], level_v: float | None
) -> AcquisitionSettings:
    """Return the settings with what was granted in the place of what was asked."""
    channels = tuple(
        replace(channel, range_a=ranges[channel.name])
        if isinstance(channel, CurrentSettings)
        else replace(channel, range_v=2 * (ranges[channel.name] or 0.0), offset_v=0.0)
        for channel in settings.channels
        if isinstance(channel, CurrentSettings | ChannelSettings)
    )
    trigger = settings.trigger if plan.waits else None
    if trigger is not None and level_v is not None and isfinite(level_v):
        trigger = replace(trigger, level_v=level_v)
    return replace(
        settings,
        channels=channels,
        trigger=trigger,
        span_s=plan.n_samples * plan.dt_s,
        pre_s=plan.n_before * plan.dt_s,
        rate_hz=1 / plan.dt_s,
    )
