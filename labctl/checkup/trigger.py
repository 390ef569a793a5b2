"""The trigger pin while the DUT runs: on its channel as it should be, or else on which, and how large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from instruments.errors import InstrumentTimeout
from instruments.protocols import AcquisitionSettings, ChannelSettings, TriggerSettings
from instruments.record import Record
from labctl.analysis import pin as judge
from labctl.analysis.finding import Finding
from labctl.analysis.line import Line, read_line
from labctl.analysis.wiring import judge_rail
from labctl.bench import Bench
from labctl.checkup.stages import Seen
from labctl.frontend import ZERO_SPAN_S, channel_settings, shunt_channels
from labctl.model import Operation
from labctl.series import ANSWER_TIMEOUT_S, trigger_settings

WATCHED = Operation("busy", n_runs=30)
PAUSE_S = 0.5e-3
# Records of one window each: the first is complete soon, which is all that "nothing triggers" needs to be refuted.
N_WINDOWS = 12
# How long after the series' end an oscilloscope may take to say that it has seen a trigger.
WAIT_S = 1.0
# Ranges, as parts of the usual one, that are tried until the line is on the screen.
WIDENINGS = (1, 4, 16, 64)
# A probe that divides by ten where the bench file says one leaves a tenth of the swing: seen at this part of the range.
FINE = 0.15


@dataclass(frozen=True)
class Place:
    """Where the trigger pin is looked for: a channel, and its range as part of the usual one."""

    name: str
    part: float = 1.0


def look_at_trigger(bench: Bench, _seen: Seen) -> Iterator[Finding]:
    """See whether the trigger's channel shows the pin as it should; where nothing moves there, find where it does.

    The oscilloscope is armed before the series starts: where it sees nothing, nothing was there.
    """
    board, name, shunt = bench.board, str(bench.wiring.trigger_channel), shunt_channels(bench)
    record, series = _widened(bench, name)
    others: list[Line] = []
    if record is None:
        record, series = _watch(bench, Place(name, FINE))
    if record is None:
        for other in (*shunt, *(n for n in bench.scope.capabilities().channels if n not in (name, *shunt))):
            elsewhere, _ = _watch(bench, Place(other))
            if elsewhere is not None:
                others = [read_line(elsewhere.channels[other])]
                break
        record = _still(bench, name)
    channel = record.channels[name]
    line = read_line(channel)
    assert record.dt_s is not None
    swap = judge.find_swap(line, [o for o in others if o.name in shunt], board)
    if swap is not None:
        yield swap
        return
    yield judge.judge_trigger(
        line, others, bench.wiring, board, series, record.dt_s, bench.file.oscilloscope.trigger_probe_ratio
    )
    supply = bench.wiring.supply
    # An inverted line, or one with too many edges, tells the rail all the same.
    if supply is not None and supply.channel is None and judge.shows_pin(line, board):
        yield judge_rail(line, channel, bench.wiring, board)


def _widened(bench: Bench, name: str) -> tuple[Record | None, judge.Series]:
    """Watch a channel, at wider ranges until its line is on the screen; None where it never triggers."""
    for part in WIDENINGS:
        found = _watch(bench, Place(name, part))
        record = found[0]
        widest = _settings(bench, Place(name, WIDENINGS[-1])).range_v == _settings(bench, Place(name, part)).range_v
        if record is None or widest or read_line(record.channels[name]).clipped_ratio <= judge.CLIPPED_RATIO:
            break
    return found


def _watch(bench: Bench, place: Place) -> tuple[Record | None, judge.Series]:
    """Record one channel about its edges, while the DUT runs a series; None where it never triggers."""
    bench.dut.hello()
    bench.dut.self_test(WATCHED)
    ready = bench.dut.prepare(WATCHED, PAUSE_S)
    series = judge.Series(WATCHED.name, ready.window_s, ready.series_s / WATCHED.n_runs)
    channel = _settings(bench, place)
    pin = bench.board["pins"]["level_v"]
    trigger = TriggerSettings(place.name, level_v=min(place.part, 1.0) * pin / 2, edge="rising")
    n_windows = min(N_WINDOWS, bench.scope.capabilities().segments_max)
    bench.scope.configure(AcquisitionSettings((channel,), trigger, series.period_s, series.period_s / 2, n_windows))
    bench.scope.arm()
    bench.dut.release()
    bench.dut.finish(ANSWER_TIMEOUT_S + bench.slowdown * ready.series_s)
    try:
        bench.scope.wait(WAIT_S)
    except InstrumentTimeout:  # a link that is dead says so again at the next command
        return None, series
    return bench.scope.fetch(), series


def _still(bench: Bench, name: str) -> Record:
    """Record a channel on which nothing moves."""
    bench.scope.configure(AcquisitionSettings((_settings(bench, Place(name)),), None, ZERO_SPAN_S, 0.0))
    bench.scope.arm()
    bench.scope.wait(ANSWER_TIMEOUT_S)
    return bench.scope.fetch()


def _settings(bench: Bench, place: Place) -> ChannelSettings:
    """Set a channel so that it shows the trigger pin, with the probe that the bench file gives it."""
    limits = bench.scope.capabilities()
    pin, _ = trigger_settings(bench)
    if place.name in shunt_channels(bench):
        pin = replace(channel_settings(bench, place.name, pin.range_v, pin.offset_v), bandwidth_limit=False)
    least_v, most_v = limits.range_min_v * pin.probe_ratio, limits.range_max_v * pin.probe_ratio
    return replace(
        pin, name=place.name, range_v=min(max(pin.range_v * place.part, least_v), most_v),
        offset_v=pin.offset_v * min(place.part, 1.0),
    )
