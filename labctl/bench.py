"""From a bench file to opened instruments and DUT: the only place that knows both sides."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruments.errors import InstrumentError
from instruments.protocols import PowerSwitch, Recorder, Source
from labctl import benchlock, boards
from labctl.benchfile import BenchFile, parse_bench
from labctl.benchwiring import overvoltage, wiring_of
from labctl.errors import ConfigError, DeviceTransient, FileFault, NobodyThere
from labctl.fixture import FIXTURES, Fixture, connection_sentence, sim_command
from labctl.model import Wiring
from labctl.simulation import USUAL, Emulation, Simulation
from labctl.units import parse
from labctl.userfile import read_regular

if TYPE_CHECKING:
    from labctl.dut import Dut

__all__ = ["FIXTURES", "Bench", "Fixture", "find_bench_file", "locate_bench_file", "open_bench"]

OPEN_TIMEOUT_S = 10.0
# Room for the charging of the board's capacitors when it is switched on.
CURRENT_LIMIT_RATIO = 3.0
DUT_TIMEOUT_S = 5.0
# What the emulated oscilloscope gives as its serial number begins with this.
EMULATED_SERIAL = "EMULATED"
EMULATION_SLOWDOWN = 20.0
_N_FILE_BYTES_MAX = 1_000_000
# Where this variable of the environment is set, it is the control address of the emulated bench of `labctl sim start`.
CONTROL_VARIABLE = "LABCTL_CONTROL"


@dataclass
class Bench:
    """Opened instruments and DUT with the wiring between them.

    `switch` is None where a person switches the supply: `ask` then shows a sentence and returns when it is done, with
    what the person typed; it raises NobodyThere where nobody is asked.
    `simulation` is None on a real bench.
    """

    file: BenchFile
    board: dict[str, Any]
    wiring: Wiring
    scope: Recorder
    dut: Dut
    switch: PowerSwitch | None
    ask: Callable[[str], object]
    simulation: Simulation | None = None
    _told_control: bool = False

    @property
    def emulated(self) -> bool:
        """Tell whether the instruments are simulated: started here, or reached through a bench file."""
        return self.simulation is not None or self.scope.identify().serial.startswith(EMULATED_SERIAL)

    @property
    def name(self) -> str:
        """Return the bench's name."""
        return self.file.bench.name

    @property
    def slowdown(self) -> float:
        """Return how much longer than the board itself the DUT may take."""
        return EMULATION_SLOWDOWN if self.emulated else 1.0

    def set_power(self, on: bool) -> None:
        """Switch the DUT's supply, or ask the person to."""
        if self.switch is not None:
            self.switch.set_output(on)
            return
        try:
            self.ask(f"Switch the supply of the DUT {'on' if on else 'off'}")
        except NobodyThere as error:
            raise NobodyThere(f"{error}, or name the supply's switch in [dut] power of the bench file") from error

    def connect(self, what: str, fixture: Fixture) -> None:
        """Put a fixture in the DUT's place (`FIXTURES`), or the DUT back ("dut"), the supply off meanwhile.

        The supply then is on, for a pulse alone it stays off; a DUT that is back has answered. With a pulse the
        shunt's channel sees the trigger pin's level, which its range must hold. Raises ValueError for another word,
        NobodyThere, with all as it was, where nobody is asked, and what the DUT, the switch and whoever is asked raise.
        """
        if what not in ("dut", *FIXTURES):
            raise ValueError(f"what {what!r} is not one of dut, {', '.join(FIXTURES)}")
        self.set_power(False)
        if self.simulation is not None:
            self.simulation.connect(what, asdict(fixture))
        else:
            by_hand = connection_sentence(what, fixture, self.board)
            try:
                self.ask(self._sim_sentence(what, fixture) if self.emulated else by_hand)
            except NobodyThere:
                if self.switch is not None:
                    self.switch.set_output(True)
                raise
        if what != "pulse":
            self.set_power(True)
        if what == "dut":
            self.dut.hello()

    def read_meter(self) -> float:
        """Return what the reference meter in series with the load reads, in ampere; a person is asked for it.

        An answer that is no current is asked for again.
        """
        if self.simulation is not None:
            return self.simulation.read_meter()
        sentence = "Type what the reference meter in series with the load reads, such as 9.957mA"
        request = sentence
        while True:
            try:
                return parse(str(self.ask(request)), "A", what="meter", positive=True)
            except NobodyThere:
                raise
            except ConfigError as error:
                request = f"{error}. {sentence}"

    def _sim_sentence(self, what: str, fixture: Fixture) -> str:
        """Say, with the command, what a person has to connect at an emulated bench that somebody else started."""
        address = os.environ.get(CONTROL_VARIABLE, "")
        sentence = f"In another terminal, run `{sim_command(what, fixture, address or 'HOST:PORT')}`"
        if address or self._told_control:
            return sentence
        self._told_control = True
        return f"{sentence}, where HOST:PORT is the control address that `labctl sim start` printed"

    def fire(self, n: int) -> None:
        """Let the emulated generator give n pulses; a real one runs by itself."""
        if self.simulation is not None:
            self.simulation.fire(n)

    def describe(self) -> dict[str, Any]:
        """Return the facts about the bench that every capture and every JSON output carries."""
        assert self.wiring.supply is not None
        shunt = self.wiring.shunt
        across = {"meter": self.file.recorder.driver} if shunt is None else {
            "shunt_ohm": shunt.resistance_ohm,
            "shunt_tolerance_ratio": shunt.tolerance_ratio,
            "wiring": shunt.wiring,
        }
        facts = {
            "name": self.name,
            "emulated": self.emulated,
            "board": self.board["name"],
            **across,
            "supply_v": self.wiring.supply.voltage_v,
            "supply_tolerance_ratio": self.wiring.supply.tolerance_ratio,
            "node": self.wiring.supply.node,
            "sensed": self.wiring.supply.sensed,
        }
        if self.simulation is not None:
            facts["seed"] = self.simulation.seed
            facts["stream"] = self.simulation.stream
            facts["world_supply_v"] = self.board["supply"]["node_mcu_v"]
        return facts


def locate_bench_file(path: Path | None) -> Path | None:
    """Say which bench file holds: the one named, else ./bench.toml, else the user's, else None for the emulated bench.

    Raises ConfigError where the named file is missing, or what has the name is no file.
    """
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    candidates = [path] if path is not None else [Path("bench.toml"), home / "labctl" / "bench.toml"]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
        if os.path.lexists(candidate):
            raise ConfigError(f"{candidate} is no file that can be read: a folder, a broken link, or a pipe")
    if path is not None:
        raise ConfigError(f"bench file {path} does not exist; leave --bench out to use the emulated bench")
    return None


def find_bench_file(path: Path | None) -> BenchFile | None:
    """Read the bench file that holds, None for the emulated bench.

    Raises ConfigError as `locate_bench_file` does, and where the file holds a wrong key or value.
    """
    found = locate_bench_file(path)
    return None if found is None else parse_bench(_read_toml(found), str(found))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_regular(path, _N_FILE_BYTES_MAX).decode("utf-8-sig"))
    except FileFault as error:
        raise ConfigError(str(error)) from error
    except (ValueError, RecursionError) as error:  # TOML, encoding, numbers of thousands of digits, deep nesting
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def switch_off_others(file: BenchFile) -> None:
    """Switch off every board of the bench but the one that is measured, as far as they have switches of their own.

    Raises InstrumentError where one does not obey.
    """
    for power in dict.fromkeys(dut.power for dut in file.duts):
        if power not in ("meter", file.dut.power):
            switch_off(file, power)


def switch_off(file: BenchFile, power: str) -> None:
    """Switch off what `power` of a board names; nothing where a person does it. Raises InstrumentError."""
    if power == "manual":
        return
    from instruments.registry import open_driver

    recorder = file.recorder
    name, resource = (recorder.driver, recorder.resource) if power == "meter" else ("scpi-switch", power)
    with contextlib.closing(open_driver(name, resource, timeout_s=OPEN_TIMEOUT_S)) as switch:
        (supplying(switch, file) if power == "meter" else switch).set_output(False)


def supplying(recorder: Recorder, file: BenchFile) -> PowerSwitch:
    """Return the meter as the supply of the DUT. Raises ConfigError where it supplies nothing."""
    if not isinstance(recorder, PowerSwitch):
        raise ConfigError(f"[meter] driver = {file.recorder.driver!r} supplies nothing: name what does in [dut] power")
    return recorder


def _set_level(supply: PowerSwitch, file: BenchFile, board: dict[str, Any], *, emulated: bool) -> None:
    """Let a meter supply the node's voltage, before it is switched on, and no more current than the board could draw.

    The emulated world keeps its voltage, whatever is computed with. Raises ConfigError where the MCU would not bear it.
    """
    if isinstance(supply, Source):
        if not emulated and (harm := overvoltage(file, board)):
            raise ConfigError(harm)
        own_v = board["supply"][f"node_{file.supply.node}_v"]
        voltage_v = own_v if emulated else file.supply.voltage_v or own_v
        supply.set_supply(voltage_v, CURRENT_LIMIT_RATIO * board["supply"]["current_max_a"])


@contextlib.contextmanager
def open_bench(
    file: BenchFile | None,
    *,
    board_name: str | None,
    overrides: Callable[[BenchFile], BenchFile],
    ask: Callable[[str], object],
    seed: int = 1,
    stream: int = 0,
    clock_hz: float | None = None,
    elf: Path | None = None,
    faults: Mapping[str, Any] | None = None,
    lock: bool = True,
    emulation: Emulation = USUAL,
) -> Iterator[Bench]:
    """Open every instrument and the DUT; without a file start the emulated bench. Closes all on the way out.

    What a file names is locked meanwhile, unless the caller holds it already (`lock` false). `board_name` is one of the
    file's boards where it lists several; the supplies of the others are off, as far as they have a switch.
    `seed` draws the emulated bench's fixed errors, seed and `stream` what is random in time there; one seed with
    several streams is one bench at several times. `clock_hz` is one of the board's clocks, by default its first; `elf`
    is the image that the emulated DUT runs, by default the board's usual one; `faults` are what is wrong in its world
    from the start (docs/emulated-faults.md), `emulation` says which instruments are in it. Raises Unsupported for a
    clock that the board has not, BusyFault where another process has the bench.
    """
    with contextlib.ExitStack() as stack:
        simulation = None
        if file is None:
            board = boards.at_clock(board_name or boards.DEFAULT, clock_hz)
            simulation = Simulation(board, seed, stream=stream, elf=elf, emulation=emulation)
            simulation.faults = dict(faults or {})
            file = overrides(simulation.bench_file())
            wiring = wiring_of(file, board)
            stack.callback(simulation.stop)
            simulation.start(file)
            file = simulation.addressed(file)
        else:
            file = overrides(file.for_board(board_name))
            board = boards.at_clock(board_name or file.dut.board, clock_hz)
            wiring = wiring_of(file, board)
            if lock:
                stack.enter_context(benchlock.hold(file))
        try:
            yield _open_all(stack, file, board, wiring, ask, simulation)
        except (DeviceTransient, InstrumentError) as error:  # the simulator's own word comes first, its end included
            if simulation is not None:
                simulation.check(error)
            raise


def _open_all(
    stack: contextlib.ExitStack,
    file: BenchFile,
    board: dict[str, Any],
    wiring: Wiring,
    ask: Callable[[str], object],
    simulation: Simulation | None,
) -> Bench:
    from instruments.errors import DriverUnavailable
    from instruments.registry import open_driver
    from labctl.dut import Dut

    table, section = ("meter" if file.meter else "scope"), file.recorder
    try:
        scope = open_driver(section.driver, section.resource, timeout_s=OPEN_TIMEOUT_S)
    except DriverUnavailable as error:
        raise ConfigError(f"[{table}] driver = {section.driver!r}: {error}") from error
    if not isinstance(scope, Recorder):
        scope.close()
        raise ConfigError(f"[{table}] driver = {section.driver!r} records nothing: name the driver of what does")
    stack.callback(scope.close)
    switch_off_others(file)
    switch: PowerSwitch | None = None
    if file.dut.power == "meter":
        switch = supplying(scope, file)
        _set_level(switch, file, board, emulated=simulation is not None)
    elif file.dut.power != "manual":
        switch = open_driver("scpi-switch", file.dut.power, timeout_s=OPEN_TIMEOUT_S)
        stack.callback(switch.close)
    if switch is not None:
        switch.set_output(True)
    watch = simulation.check if simulation is not None else lambda: None
    dut = Dut(file.dut.port, timeout_s=DUT_TIMEOUT_S, board=board["name"], watch=watch)
    stack.callback(dut.close)
    return Bench(file, board, wiring, scope, dut, switch, ask, simulation)
