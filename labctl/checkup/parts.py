"""Who answers: the oscilloscope with its channels, the DUT with its firmware."""

from __future__ import annotations

from collections.abc import Iterator

from labctl.analysis.finding import FAULT, OK, Finding
from labctl.bench import Bench
from labctl.checkup.stages import Seen
from labctl.frontend import shunt_channels
from labctl.units import quantity

_NEEDED = {"null", "busy"}


def look_at_scope(bench: Bench, _: Seen) -> Iterator[Finding]:
    """See whether the oscilloscope has the channels that the bench file names."""
    who, limits = bench.scope.identify(), bench.scope.capabilities()
    wanted = [*shunt_channels(bench), str(bench.wiring.trigger_channel)]
    absent = [name for name in wanted if name not in limits.channels]
    what = f"{who.vendor} {who.model}, serial {who.serial}, driver {bench.file.scope.driver}"
    if absent:
        yield Finding(
            "scope", FAULT,
            f"{what}: it has {', '.join(limits.channels)} but not {', '.join(absent)}: correct the channels in [scope]",
        )
        return
    yield Finding("scope", OK, f"{what}: shunt on {' and '.join(wanted[:-1])}, trigger on {wanted[-1]}")


def look_at_dut(bench: Bench, _: Seen) -> Iterator[Finding]:
    """See whether the DUT runs firmware that fits board and labctl."""
    dut, board = bench.dut, bench.board
    said = dut.hello()
    clock_hz, stated_hz = float(said["clock_hz"]), float(board["clock_hz"])
    lacking = sorted(_NEEDED - set(dut.list_operations()))
    compiler = dut.manifest().get("compiler", "unknown compiler")
    what = f"{said['board']}, {quantity(clock_hz, 'Hz')} from its {said['clock']}, firmware {said['build']}, {compiler}"
    if lacking:
        yield Finding("DUT", FAULT, f"{what}: it does not know {', '.join(lacking)}: flash labctl's firmware")
    elif clock_hz != stated_hz:
        yield Finding(
            "DUT", FAULT, f"{what}: the board's data say {quantity(stated_hz, 'Hz')}: flash the firmware of this labctl"
        )
    else:
        yield Finding("DUT", OK, what)
