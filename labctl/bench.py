"""From a bench file to opened instruments and DUT: the only place that knows both sides."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruments.errors import InstrumentError
from instruments.protocols import PowerSwitch, Recorder
from labctl import benchlock, boards
from labctl.benchfile import BenchFile, MeterSection, parse_bench
from labctl.errors import ConfigError, DeviceTransient, FileFault, NobodyThere
from labctl.fixture import FIXTURES, Fixture, connection_sentence, sim_command
from labctl.model import Shunt, Supply, Wiring
from labctl.simulation import USUAL, Emulation, Simulation
from labctl.units import parse, quantity
from labctl.userfile import read_regular

if TYPE_CHECKING:
    from labctl.dut import Dut

__all__ = ["FIXTURES", "Bench", "Fixture", "find_bench_file", "locate_bench_file", "open_bench", "wiring_of"]

OPEN_TIMEOUT_S = 10.0
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


def wiring_of(file: BenchFile, board: dict[str, Any]) -> Wiring:
    """Build the wiring from the bench file, the board's data filling what the file leaves open.

    Raises ConfigError where the shunt would starve the board at its typical current.
    """
    node = file.supply.node
    voltage_v = file.supply.voltage_v or board["supply"][f"node_{node}_v"]
    _check_supply(voltage_v, board)
    supply = Supply(
        voltage_v=voltage_v, tolerance_ratio=file.supply.tolerance_ratio, node=node, sensed=file.supply.sensed
    )
    threshold, hysteresis = board["pins"]["level_v"] / 2, board["pins"]["level_v"] / 10
    if file.meter is not None:
        return _metered(file.meter, supply, threshold, hysteresis)
    shunt = Shunt(
        resistance_ohm=file.resistor.resistance_ohm,
        tolerance_ratio=file.resistor.tolerance_ratio,
        wiring=file.resistor.wiring,
        decoupling_f=file.resistor.decoupling_f,
        decoupling_tolerance_ratio=file.resistor.decoupling_tolerance_ratio,
    )
    check_burden(shunt.resistance_ohm, board["supply"][f"node_{node}_v"], board)
    scope = file.oscilloscope
    two = shunt.wiring == "two-channel"
    return Wiring(
        shunt=shunt,
        supply=replace(supply, channel=f"CH{scope.supply_channel}" if scope.supply_channel else None),
        shunt_channel=None if two else f"CH{scope.shunt_channel}",
        shunt_high_channel=f"CH{scope.shunt_high_channel}" if two else None,
        shunt_low_channel=f"CH{scope.shunt_low_channel}" if two else None,
        trigger_channel=f"CH{scope.trigger_channel}",
        trigger_edge=scope.trigger_edge,
        threshold=threshold,
        hysteresis=hysteresis,
    )


def _metered(meter: MeterSection, supply: Supply, threshold: float, hysteresis: float) -> Wiring:
    """Build the wiring of a meter: it sees the current itself, and the windows by a level or as logic."""
    windows = meter.window_channel or (meter.trigger if meter.trigger != "BNC" else None)
    is_logic = windows is not None and windows.startswith("D")
    return Wiring(
        supply=replace(supply, channel=meter.voltage_channel),
        shunt_channel=meter.current_channel,
        trigger_channel=windows,
        trigger_edge=meter.trigger_edge,
        threshold=0.5 if is_logic else threshold,
        hysteresis=0.5 if is_logic else hysteresis,
    )


def _check_supply(voltage_v: float, board: dict[str, Any]) -> None:
    """Raise ConfigError for a supply that the board could not live on."""
    low_v, high_v = board["supply"]["voltage_min_v"], 2 * board["supply"]["node_board_v"]
    if not low_v <= voltage_v <= high_v:
        raise ConfigError(
            f"a supply of {quantity(voltage_v, 'V')} is nothing that {board['name']} runs on "
            f"({quantity(low_v, 'V')} to {quantity(high_v, 'V')}): check the value and its unit"
        )


def overvoltage(file: BenchFile, board: dict[str, Any]) -> str:
    """Say, in a sentence, where the voltage stated for the MCU's own node is more than the MCU takes; else empty.

    `labctl measure` takes such a voltage all the same, since published tables multiply by the board's 5 V input.
    """
    voltage_v, most_v = file.supply.voltage_v, board["supply"]["voltage_max_v"]
    if file.supply.node != "mcu" or voltage_v is None or voltage_v <= most_v:
        return ""
    return (
        f"a supply of {quantity(voltage_v, 'V')} at the MCU's supply pin is more than the {quantity(most_v, 'V')} that "
        f"{board['mcu']} takes: give the voltage at that pin ({quantity(board['supply']['node_mcu_v'], 'V')} on "
        f"{board['name']}), or, where the shunt sits in the board's input, that node (board)"
    )


def check_burden(resistance_ohm: float, node_v: float, board: dict[str, Any]) -> None:
    """Raise ConfigError where the shunt's burden at the board's typical current leaves too little for the MCU."""
    current_a = board["supply"]["current_typical_a"]
    drop_v = resistance_ohm * current_a
    if drop_v >= node_v:
        raise ConfigError(
            f"a shunt of {quantity(resistance_ohm, 'ohm')} would drop {quantity(drop_v, 'V')} at the "
            f"{quantity(current_a, 'A')} that {board['name']} typically draws: more than its "
            f"{quantity(node_v, 'V')} supply. Check the value and its unit (1.3 ohm is usual)."
        )
    if node_v - drop_v < board["supply"]["voltage_min_v"]:
        raise ConfigError(
            f"a shunt of {quantity(resistance_ohm, 'ohm')} would leave {board['name']} only "
            f"{quantity(node_v - drop_v, 'V')} of its {quantity(node_v, 'V')}, and it needs "
            f"{quantity(board['supply']['voltage_min_v'], 'V')}. Use a smaller shunt."
        )


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
    elif file.dut.power != "manual":
        switch = open_driver("scpi-switch", file.dut.power, timeout_s=OPEN_TIMEOUT_S)
        stack.callback(switch.close)
    if switch is not None:
        switch.set_output(True)
    watch = simulation.check if simulation is not None else lambda: None
    dut = Dut(file.dut.port, timeout_s=DUT_TIMEOUT_S, board=board["name"], watch=watch)
    stack.callback(dut.close)
    return Bench(file, board, wiring, scope, dut, switch, ask, simulation)
