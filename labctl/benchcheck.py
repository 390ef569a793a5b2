"""Check a bench against what is connected: the file, each connection by itself, then whatever these allow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instruments.errors import DriverUnavailable, InstrumentError
from instruments.protocols import PowerSwitch, Recorder
from instruments.record import Identity
from instruments.registry import load_driver, open_driver
from labctl import benchlock, boards, interrupts
from labctl.analysis.finding import FAULT, LEFT_OUT, OK, WARNING, Finding
from labctl.bench import DUT_TIMEOUT_S, EMULATED_SERIAL, OPEN_TIMEOUT_S, Bench, switch_off_others
from labctl.benchfile import BenchFile
from labctl.benchwiring import overvoltage, wiring_of
from labctl.checkup import check_bench
from labctl.checkup.parts import about_dut, about_scope
from labctl.dut import Dut
from labctl.errors import ConfigError, LabctlError
from labctl.model import Wiring
from labctl.simulation import Simulation
from labctl.units import percent, quantity

Progress = Callable[[str, int, int], None]
DEFAULT_BOARD = "stm32vldiscovery"


@dataclass(frozen=True)
class Subject:
    """What is to be checked: a bench file and where it lies, or the emulated bench (`file` None) of a seed."""

    file: BenchFile | None
    path: Path | None
    board_name: str | None = None
    seed: int = 1


def subjects(file: BenchFile | None, path: Path | None, board_name: str | None, seed: int) -> list[Subject]:
    """List what is to be checked: each board of a bench that lists several, unless one is named."""
    if board_name is not None or file is None or len(file.duts) == 1:
        return [Subject(file, path, board_name, seed)]
    return [Subject(file, path, dut.board, seed) for dut in file.duts]


@dataclass
class Links:
    """What answers on a bench, None where a connection failed, and a finding on each."""

    file: BenchFile
    board: dict[str, Any]
    wiring: Wiring
    simulation: Simulation | None
    scope: Recorder | None = None
    switch: PowerSwitch | None = None
    dut: Dut | None = None
    findings: list[Finding] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)

    @property
    def emulated(self) -> bool:
        """Tell whether anything that answers is simulated."""
        return self.simulation is not None or any(
            field.startswith(EMULATED_SERIAL) for who in self.identities for field in (who.vendor, who.serial)
        )


@contextlib.contextmanager
def open_links(subject: Subject, progress: Progress = lambda *_: None) -> Iterator[Links]:
    """Open what the bench names, each by itself: one that fails is a finding, and does not hide the others.

    Raises ConfigError, before anything is opened, where the file cannot be right: board, driver, shunt or supply; what
    starting the emulated bench raises. Closes all on the way out.
    """
    with contextlib.ExitStack() as stack:
        try:
            links = _planned(subject, stack)
            _check_driver(links.file)
        except ConfigError as error:
            raise ConfigError(f"{subject.path}: {error}" if subject.path else str(error)) from error
        # The switch before the DUT, which needs its supply to answer.
        connections = (
            ("scope", "[scope] resource", _open_scope),
            ("switch", "[dut] power", _open_switch),
            ("DUT", "[dut] port", _open_dut),
        )
        for step, (name, key, connect) in enumerate(connections):
            interrupts.check()
            progress(f"opening the {name}", step, len(connections))
            try:
                found = connect(links, stack)
            except (LabctlError, InstrumentError) as error:
                found = Finding(name, FAULT, f"{key}: {error}")
            links.findings.append(found)
        # What the board typically draws hangs on the clock that the DUT has told.
        links.findings.insert(0, _about_file(subject, links))
        yield links


def check_links(
    links: Links, ask: Callable[[str], object], progress: Progress = lambda *_: None
) -> Generator[Finding, None, None]:
    """Look at the signals, where oscilloscope and DUT both answer; `ask` asks the person to switch the supply."""
    if links.scope is None or links.dut is None:
        absent = [name for name, part in (("scope", links.scope), ("DUT", links.dut)) if part is None]
        yield Finding("signals", LEFT_OUT, f"wiring and voltages are not judged without the {' and the '.join(absent)}")
        return
    bench = Bench(links.file, links.board, links.wiring, links.scope, links.dut, links.switch, ask, links.simulation)
    try:
        yield from check_bench(bench, progress, parts=False)
    except (LabctlError, InstrumentError) as error:
        fault = links.simulation.fault() if links.simulation is not None else ""
        yield Finding("signals", FAULT, f"the emulated board stopped: {fault}" if fault else str(error))


def _planned(subject: Subject, stack: contextlib.ExitStack) -> Links:
    """Work out file, board and wiring; without a file start the emulated bench."""
    if subject.file is not None:
        file = subject.file.for_board(subject.board_name)
        board = boards.load(subject.board_name or file.dut.board)
        wiring = wiring_of(file, board)
        stack.enter_context(benchlock.hold(file))
        return Links(file, board, wiring, None)
    simulation = Simulation(boards.load(subject.board_name or DEFAULT_BOARD), subject.seed)
    stack.callback(simulation.stop)
    simulation.start(simulation.bench_file())
    file = simulation.addressed(simulation.bench_file())
    return Links(file, simulation.board, wiring_of(file, simulation.board), simulation)


def _check_driver(file: BenchFile) -> None:
    """Raise ConfigError where the scope's driver is not there, or is none of a recorder."""
    where = f"[scope] driver = {file.oscilloscope.driver!r}"
    try:
        driver = load_driver(file.oscilloscope.driver)
    except DriverUnavailable as error:
        raise ConfigError(f"{where}: {error}") from error
    if not issubclass(driver, Recorder):
        raise ConfigError(f"{where} records nothing: name an oscilloscope's driver")


def _about_file(subject: Subject, links: Links) -> Finding:
    shunt, supply, board = links.wiring.shunt, links.wiring.supply, links.board
    assert shunt is not None and supply is not None and supply.voltage_v is not None
    current_a = board["supply"]["current_typical_a"]
    place = {"mcu": "at the MCU's supply pin", "board": "in the board's input"}[links.file.supply.node]
    beyond = overvoltage(links.file, board)
    return Finding(
        "bench file",
        WARNING if beyond else OK,
        f"{subject.path or 'none, so this is the emulated bench'}: {quantity(shunt.resistance_ohm, 'ohm')} "
        f"± {percent(shunt.tolerance_ratio)}, {shunt.wiring}, {place} with {quantity(supply.voltage_v, 'V')} "
        f"± {percent(supply.tolerance_ratio)}; it drops {quantity(shunt.resistance_ohm * current_a, 'V')} at the "
        f"{quantity(current_a, 'A')} that {board['name']} typically draws" + (f"; but {beyond}" if beyond else ""),
    )


def _open_scope(links: Links, stack: contextlib.ExitStack) -> Finding:
    """Open the oscilloscope; it is of use where it has the channels that the file names."""
    scope = open_driver(links.file.oscilloscope.driver, links.file.oscilloscope.resource, timeout_s=OPEN_TIMEOUT_S)
    stack.callback(scope.close)
    links.identities.append(scope.identify())
    finding = about_scope(scope, links.file.oscilloscope.driver, links.wiring)
    links.scope = scope if finding.status == OK else None
    return finding


def _open_switch(links: Links, stack: contextlib.ExitStack) -> Finding:
    """Open the switch of the DUT's supply and switch it on, those of the bench's other boards off."""
    switch_off_others(links.file)
    resource = links.file.dut.power
    if resource == "manual":
        return Finding("switch", LEFT_OUT, "none, [dut] power is \"manual\": you switch the DUT's supply when asked")
    switch = open_driver("scpi-switch", resource, timeout_s=OPEN_TIMEOUT_S)
    stack.callback(switch.close)
    who = switch.identify()
    links.identities.append(who)
    switch.set_output(True)
    links.switch = switch
    return Finding("switch", OK, f"{who.vendor} {who.model}, serial {who.serial}: its output is on")


def _open_dut(links: Links, stack: contextlib.ExitStack) -> Finding:
    """Open the DUT's port and let it say who it is; it is of use where its firmware fits."""
    dut = Dut(links.file.dut.port, timeout_s=DUT_TIMEOUT_S, board=links.board["name"])
    stack.callback(dut.close)
    finding, links.board = about_dut(dut, links.board)
    links.dut = dut if finding.status == OK else None
    return finding
