"""Who answers: the oscilloscope with its channels, the DUT with its firmware."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from instruments.protocols import Recorder
from labctl import boards
from labctl.analysis.finding import FAULT, OK, Finding
from labctl.bench import Bench
from labctl.checkup.stages import Seen
from labctl.dut import Dut
from labctl.frontend import channels_of
from labctl.model import Wiring
from labctl.units import quantity

_NEEDED = {"null", "busy"}


def look_at_scope(bench: Bench, _: Seen) -> Iterator[Finding]:
    """See whether the oscilloscope has the channels that the bench file names."""
    yield about_scope(bench.scope, bench.file.oscilloscope.driver, bench.wiring)


def look_at_dut(bench: Bench, _: Seen) -> Iterator[Finding]:
    """See whether the DUT runs firmware that fits board and labctl, and go by its clock from here on."""
    finding, bench.board = about_dut(bench.dut, bench.board)
    yield finding


def about_scope(scope: Recorder, driver: str, wiring: Wiring) -> Finding:
    """Ask an oscilloscope who it is, and judge whether it has the channels of a wiring."""
    who, limits = scope.identify(), scope.capabilities()
    wanted = [*channels_of(wiring), str(wiring.trigger_channel)]
    absent = [name for name in wanted if name not in limits.channels]
    what = f"{who.vendor} {who.model}, serial {who.serial}, driver {driver}"
    if absent:
        return Finding(
            "scope", FAULT,
            f"{what}: it has {', '.join(limits.channels)} but not {', '.join(absent)}: correct the channels in [scope]",
        )
    return Finding("scope", OK, f"{what}: shunt on {' and '.join(wanted[:-1])}, trigger on {wanted[-1]}")


def about_dut(dut: Dut, board: Mapping[str, Any]) -> tuple[Finding, dict[str, Any]]:
    """Ask a DUT who it is, and judge whether its firmware fits board and labctl.

    Gives the board's data at the clock that the DUT says as well: that of its firmware, one of those that it has.
    """
    said = dut.hello()
    clock_hz, clocks_hz = float(said["clock_hz"]), board["clocks_hz"]
    lacking = sorted(_NEEDED - set(dut.list_operations()))
    compiler = dut.manifest().get("compiler", "unknown compiler")
    what = f"{said['board']}, {quantity(clock_hz, 'Hz')} from its {said['clock']}, firmware {said['build']}, {compiler}"
    wrong = ""
    if lacking:
        wrong = f"it does not know {', '.join(lacking)}: flash labctl's firmware"
    elif clock_hz not in clocks_hz:
        known = " or ".join(quantity(float(hz), "Hz") for hz in clocks_hz)
        wrong = f"the board's data say {known}: flash the firmware of this labctl"
    if wrong:
        return Finding("DUT", FAULT, f"{what}: {wrong}"), {**board}
    return Finding("DUT", OK, what), boards.at_clock(board["name"], clock_hz)
