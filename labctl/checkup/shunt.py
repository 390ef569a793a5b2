"""The shunt with the supply on and off: what the switch does, what the shunt reads of the DUT, and of no current."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from instruments.protocols import AcquisitionSettings, ChannelSettings
from instruments.record import Channel, Record
from labctl.analysis import wiring as judge
from labctl.analysis.finding import FAULT, OK, Finding
from labctl.analysis.pulses import steady
from labctl.bench import Bench
from labctl.checkup.stages import Seen
from labctl.errors import DeviceStable
from labctl.frontend import ZERO_SPAN_S, channel_settings, on_screen, read_zero, shunt_channels
from labctl.model import Operation
from labctl.series import ANSWER_TIMEOUT_S, trigger_settings
from labctl.units import quantity

# The range holds the board's largest current in either direction, and these multiples of it where the screen is left.
WIDENINGS = (1, 4, 16, 64, 256, 1024)
_FORGOTTEN = Operation("busy", n_runs=1)
_PAUSE_S = 0.5e-3


def look_at_shunt(bench: Bench, seen: Seen) -> Iterator[Finding]:
    """Read the shunt while the DUT waits for a command, its core running, and with its supply off."""
    bench.dut.hello()
    bench.dut.self_test(_FORGOTTEN)
    bench.dut.prepare(_FORGOTTEN, _PAUSE_S)
    on, seen.wide = _read_waiting(bench)
    probe_ratio = bench.file.oscilloscope.shunt_probe_ratio
    off_screen = [name for name in shunt_channels(bench) if not on_screen(on.channels[name])]
    if off_screen:
        yield Finding(
            "shunt", FAULT,
            f"{', '.join(off_screen)} is off the screen in every range: check that it is on the shunt, its ground, and "
            f"shunt_probe_ratio in [scope] ({probe_ratio:g})",
        )
        return
    for name in shunt_channels(bench):
        channel = on.channels[name]
        seen.waiting_v[name] = steady(channel).mean
        seen.margin_v = max(seen.margin_v, channel.accuracy.offset_limit if channel.accuracy else 0.0)
    bench.set_power(False)
    off = read_zero(bench, seen.wide)
    bench.set_power(True)
    bench.dut.hello()
    lost = _has_forgotten(bench)
    drop = _drop(bench, on, off)
    seen.reads = drop.seen and drop.change_v > 0
    yield judge.judge_switch(drop, lost, by_hand=bench.switch is None)
    if lost or drop.seen:
        found = judge.judge_shunt(drop, bench.wiring, bench.board, probe_ratio)
        seen.zero = off if found.status == OK else None
        yield found
    supply = bench.wiring.supply
    assert supply is not None
    for name in shunt_channels(bench) if lost else ():
        level = steady(off.channels[name])
        if name != supply.channel:
            standard_v = math.hypot(level.standard, level.rounding)
            yield at_range(judge.judge_zero("zero", off.channels[name], level.mean, standard_v), off.channels[name])
    if supply.channel is not None and supply.voltage_v is not None:
        channel = on.channels[supply.channel]
        yield judge.judge_supply_channel(channel, steady(channel).mean, bench.wiring)


def at_range(found: Finding, channel: Channel) -> Finding:
    """Say of a finding at which range of its channel it was made; an offset is another at each."""
    range_v = channel.settings.get("range_v")
    return found if not range_v else replace(found, text=f"at {quantity(float(range_v), 'V')} full scale {found.text}")


def _read_waiting(bench: Bench) -> tuple[Record, tuple[ChannelSettings, ...]]:
    """Read the shunt's channels at ranges that show either sign; give the settings as well."""
    limits, ratio = bench.scope.capabilities(), bench.file.oscilloscope.shunt_probe_ratio
    shunt, supply = bench.wiring.shunt, bench.wiring.supply
    assert shunt is not None and supply is not None
    drop_v = shunt.resistance_ohm * bench.board["supply"]["current_max_a"]
    trigger, _ = trigger_settings(bench)
    for widening in WIDENINGS:
        settings = []
        for name in shunt_channels(bench):
            at_supply = shunt.wiring == "two-channel" or name == supply.channel
            reach_v = 1.3 * (supply.voltage_v or 0.0) if at_supply else 1.2 * drop_v * widening
            range_v = min(max(2 * reach_v, limits.range_min_v * ratio), limits.range_max_v * ratio)
            settings.append(channel_settings(bench, name, range_v, 0.0))
        bench.scope.configure(AcquisitionSettings((*settings, trigger), None, ZERO_SPAN_S, 0.0))
        bench.scope.arm()
        bench.scope.wait(ANSWER_TIMEOUT_S)
        record = bench.scope.fetch()
        if all(on_screen(record.channels[s.name]) for s in settings):
            break
    return record, tuple(settings)


def _drop(bench: Bench, on: Record, off: Record) -> judge.Drop:
    """Compare the shunt's drop with the supply on and off; the gains of two channels enter its uncertainty."""
    wiring = bench.wiring
    signs = (
        {wiring.shunt_channel: 1.0} if wiring.shunt_channel
        else {str(wiring.shunt_high_channel): 1.0, str(wiring.shunt_low_channel): -1.0}
    )
    change_v, variance, code_v = 0.0, 0.0, 0.0
    for name, sign in signs.items():
        powered, unpowered = steady(on.channels[name]), steady(off.channels[name])
        moved_v = powered.mean - unpowered.mean
        change_v += sign * moved_v
        variance += powered.standard**2 + unpowered.standard**2
        code_v = max(code_v, abs(on.channels[name].scale))
        accuracy = on.channels[name].accuracy
        if len(signs) > 1 and accuracy is not None:
            variance += (accuracy.gain_ratio * moved_v) ** 2 / 3
    return judge.Drop(change_v, math.sqrt(variance), code_v)


def _has_forgotten(bench: Bench) -> bool:
    """Tell whether the DUT has lost what was prepared before its supply was off."""
    try:
        bench.dut.go(ANSWER_TIMEOUT_S)
    except DeviceStable:
        return True
    return False
