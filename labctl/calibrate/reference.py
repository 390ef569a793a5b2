"""The known current of a gain calibration: a load of known resistance, or a reference meter. No instrument is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from instruments.record import Channel, Record
from labctl.analysis import keys
from labctl.analysis.benefit import SUPPLY
from labctl.analysis.pulses import Level, steady
from labctl.analysis.uncertainty import rectangular
from labctl.bench import Bench, Fixture
from labctl.calibrate.common import keys_of
from labctl.errors import ConfigError
from labctl.model import Contribution
from labctl.units import percent, quantity

_E12 = (1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2, 10.0)


@dataclass(frozen=True)
class MeterReading:
    """What a reference meter in series with the load reads.

    `current_a` is None where the meter is to be read once the load is connected, which on labctl's own emulated bench
    is the only way. `load_ohm` is the load, None where nobody told.
    """

    current_a: float | None = None
    tolerance_ratio: float = 1e-3
    load_ohm: float | None = None


@dataclass(frozen=True)
class Reference:
    """A known current: the fixture that draws it, its value, and what it is uncertain by (relative effects)."""

    fixture: Fixture
    current_a: float
    contributions: tuple[Contribution, ...]
    method: str


def reference_current(bench: Bench, reference: Fixture | MeterReading) -> Reference:
    """Work out the known current; of a meter that is not read yet, the current that its load should draw.

    A load draws V/(R_load + R_shunt) where V is sensed at the source, V/R_load else. Raises ConfigError for a meter's
    reading that cannot be.
    """
    shunt, supply = bench.wiring.shunt, bench.wiring.supply
    assert shunt is not None and supply is not None and supply.voltage_v is not None
    behind_ohm = shunt.resistance_ohm if supply.sensed == "source" else 0.0
    names = keys_of(bench)
    if isinstance(reference, MeterReading):
        _check_meter(bench, reference)
        load_ohm = reference.load_ohm or Fixture().load_ohm
        if reference.load_ohm is None and reference.current_a is not None:
            load_ohm = in_series(max(supply.voltage_v / reference.current_a - behind_ohm, 1.0))
        fixture = Fixture(load_ohm=load_ohm, meter_tolerance_ratio=reference.tolerance_ratio)
        expected = Reference(fixture, supply.voltage_v / (load_ohm + behind_ohm), (), "")
        return _metered(bench, expected, reference, reference.current_a or expected.current_a)
    load_ohm = reference.load_ohm
    share = load_ohm / (load_ohm + behind_ohm)
    u_load, u_shunt = rectangular(reference.load_tolerance_ratio), rectangular(shunt.tolerance_ratio)
    u_supply = rectangular(supply.tolerance_ratio)
    parts = [
        Contribution("load", "B", "rectangular", u_load, "1", -share * u_load, source="load tolerance",
                     key=f"load {load_ohm:g} ohm, {names.bench}"),
        Contribution(SUPPLY, "B", "rectangular", u_supply, "1", u_supply, source="supply tolerance",
                     key=names.supply(supply)),
    ]
    if behind_ohm:
        parts.append(Contribution("shunt", "B", "rectangular", u_shunt, "1", -(1 - share) * u_shunt,
                                  source="shunt tolerance", key=names.shunt(shunt)))
    method = (
        f"{quantity(load_ohm, 'ohm', 4)} ± {percent(reference.load_tolerance_ratio)} in the DUT's place, supply "
        f"{quantity(supply.voltage_v, 'V', 4)} ± {percent(supply.tolerance_ratio)}"
    )
    return Reference(reference, supply.voltage_v / (load_ohm + behind_ohm), tuple(c for c in parts if c.standard),
                      method)


def with_meter_read(bench: Bench, known: Reference, reference: Fixture | MeterReading) -> Reference:
    """Take the current from the meter, where it is to be read now that the load is connected.

    Raises ConfigError for a reading that cannot be.
    """
    if not isinstance(reference, MeterReading) or reference.current_a is not None:
        return known
    current_a = bench.read_meter()
    _check_range(bench, current_a)
    return _metered(bench, known, reference, current_a)


def in_series(resistance_ohm: float, *, above: bool = False) -> float:
    """Choose the nearest resistance of the E12 series (IEC 60063), or the next above."""
    decade = 10.0 ** math.floor(math.log10(resistance_ohm))
    values = [step * decade for step in _E12 if not above or step * decade >= resistance_ohm]
    return min(values, key=lambda value: abs(math.log(value / resistance_ohm)))


def _metered(bench: Bench, known: Reference, reference: MeterReading, current_a: float) -> Reference:
    """Make the known current the meter's, with the meter's tolerance alone."""
    u = rectangular(reference.tolerance_ratio)
    part = Contribution("meter", "B", "rectangular", u, "1", u, source="reference meter",
                        key=f"meter {current_a:g} A, {keys_of(bench).bench}")
    method = f"reference meter in series, {quantity(current_a, 'A', 5)} ± {percent(reference.tolerance_ratio)}"
    return replace(known, current_a=current_a, contributions=(part,) if u else (), method=method)


def _check_meter(bench: Bench, reference: MeterReading) -> None:
    if reference.current_a is None:
        return
    if bench.simulation is not None:
        raise ConfigError(
            "on the emulated bench the meter is emulated too, and reads what flows there: leave the value out (--meter "
            "alone)"
        )
    _check_range(bench, reference.current_a)


def _check_range(bench: Bench, current_a: float) -> None:
    low_a, high_a = bench.board["supply"]["current_min_a"], bench.board["supply"]["current_max_a"]
    if not low_a <= current_a <= high_a:
        raise ConfigError(
            f"a meter that reads {quantity(current_a, 'A')} tells of no current that {bench.board['name']} draws "
            f"({quantity(low_a, 'A')} to {quantity(high_a, 'A')}): check the value and its unit, for example "
            "--meter 9.957mA"
        )


def at_the_dut(bench: Bench, known: Reference, own_a: float) -> Reference:
    """Allow for a supply that was told for its value at the DUT, which draws `own_a`, and not at the load.

    Where the source does not follow that point, its voltage there changes by the shunt's drop of the difference;
    whether it does is not known: rectangular. A reference meter, or a channel on the supply, sees what is there.
    """
    shunt, supply = bench.wiring.shunt, bench.wiring.supply
    assert shunt is not None and supply is not None and supply.voltage_v is not None
    if supply.sensed == "source" or supply.channel is not None or SUPPLY not in {c.name for c in known.contributions}:
        return known
    u = rectangular(abs(known.current_a - own_a) * shunt.resistance_ohm / supply.voltage_v)
    part = Contribution("supply at the load", "B", "rectangular", u, "1", u, source="shunt's drop",
                        key=f"supply at the load, {keys_of(bench).bench}")
    return replace(known, contributions=(*known.contributions, part))


def with_measured_supply(
    bench: Bench, known: Reference, load: Record, reference: Fixture | MeterReading
) -> Reference:
    """Take the supply from the channel that measures it, where one does: its gain and offset then are the errors."""
    supply = bench.wiring.supply
    assert supply is not None and supply.voltage_v is not None
    if supply.channel is None or isinstance(reference, MeterReading):
        return known
    channel, names = load.channels[supply.channel], keys_of(bench)
    level = steady(channel)
    parts = [c for c in known.contributions if c.name != SUPPLY]
    if channel.accuracy is not None:
        middle_v = float(channel.settings.get("offset_v") or 0.0)
        u_gain, u_offset = rectangular(channel.accuracy.gain_ratio), rectangular(channel.accuracy.offset_limit)
        parts += [
            Contribution(f"gain {channel.name}", "B", "rectangular", u_gain, "1",
                         u_gain * (level.mean - middle_v) / level.mean, source=channel.accuracy.source,
                         key=names.gain(channel)),
            Contribution(f"supply offset {channel.name}", "B", "rectangular", u_offset, "V", u_offset / level.mean,
                         source=channel.accuracy.source, key=names.offset(channel)),
        ]
    parts += of_level("supply reading", channel, level, 1 / level.mean, names)
    method = f"{quantity(known.fixture.load_ohm, 'ohm', 4)} in the DUT's place, supply measured by {channel.name}"
    return replace(known, current_a=known.current_a * level.mean / supply.voltage_v, contributions=tuple(parts),
                   method=method)


def of_level(what: str, channel: Channel, level: Level, sensitivity: float, names: keys.Keys) -> list[Contribution]:
    """List what a level is uncertain by: its noise, and quantisation where noise does not spread it."""
    key = names.reading(f"{what} {channel.name}", np.array([level.mean, level.std]))
    parts = []
    if level.standard:
        parts.append(Contribution(what, "A", "normal", level.standard, channel.unit, sensitivity * level.standard,
                                  level.degrees_of_freedom, f"{level.n} samples", key))
    if level.rounding:
        parts.append(Contribution(f"{what} quantisation", "B", "rectangular", level.rounding, channel.unit,
                                  sensitivity * level.rounding, source="one code", key=key and f"{key}, one code"))
    return parts
