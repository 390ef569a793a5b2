"""The emulated bench put together: world, DUT, oscilloscope, switch, and the sockets that they answer on."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from instruments.sim import linkfaults, scopes
from instruments.sim.circuit import Circuit
from instruments.sim.control import Control
from instruments.sim.fixture import KINDS, Fixture, Nominal
from instruments.sim.frontend import SHUNT_FAULTS
from instruments.sim.meters import Meter, Supply, build
from instruments.sim.server import HOST, ScpiServer, SerialServer, Server
from instruments.sim.switch import Switch
from instruments.sim.world import World

BOOT_TIMEOUT_S = 60.0
TRIGGER_FAULTS = ("disconnected", "inverted", "stuck-high", "extra-edge")
WIRES_FAULTS = ("swapped",)
KILL_FAULTS = ("simulator",)
# The window at whose end the fault `kill` strikes: in the middle of a series.
_KILLED_AT_WINDOW = 3


class Dut(Protocol):
    """What the bench needs of an emulated DUT; it reports to the world and to the serial port it was given."""

    def power(self, on: bool) -> None: ...
    def uart_write(self, data: bytes) -> None: ...
    def set_faults(self, faults: Mapping[str, bool]) -> None: ...
    def status(self) -> dict[str, Any]: ...
    def close(self) -> None: ...


DutFactory = Callable[[Mapping[str, Any], World, Callable[[bytes], None]], Dut]


def real_firmware(config: Mapping[str, Any], world: World, on_uart: Callable[[bytes], None]) -> Dut:
    """Return the board's firmware in its emulator."""
    from instruments.sim.dut.engine import Engine

    return Engine(config["board"], Path(config["elf"]), world, on_uart)


class Bench:
    """Start every server at once and boot the DUT beside them; what needs the DUT waits for it.

    The configuration's `seed` draws what is fixed on a bench: shunt, supply, crystal, gain, offset, time base, skew.
    With `stream` (0 where it is left out) it draws what is random in time: noise, the phase of the samples, the wander
    of a generator's pulses. Raises ValueError, KeyError or TypeError for a configuration that does not fit.
    """

    def __init__(self, config: Mapping[str, Any], make_dut: DutFactory = real_firmware) -> None:
        self.config = config
        self.seed, self.stream = int(config["seed"]), int(config.get("stream", 0))
        if self.stream < 0:
            raise ValueError(f"stream: {self.stream} must not be less than 0")
        self.circuit = Circuit.drawn(config)
        self.world = World(self.circuit)
        wiring = config["wiring"]
        self._channels = int(wiring["shunt_channel"]), int(wiring["trigger_channel"])
        if len(set(self._channels)) != 2 or not set(self._channels) <= {1, 2, 3, 4}:
            raise ValueError("wiring: shunt_channel and trigger_channel must be two different channels of 1 to 4")
        check_faults(config.get("faults", {}))
        self.boot_error = ""
        self.stopped = threading.Event()
        self._make_dut = make_dut
        self._dut: Dut | None = None
        self._booted = threading.Event()
        self._fixture: Fixture | None = None
        self.nominal = Nominal()
        self._supply = threading.Lock()  # held while what is connected, or its supply, changes
        self._signals: dict[int, str] = {}
        self._wire(config.get("faults", {}))
        self.scope = scopes.build(config.get("scope", {}), self.world, self.seed, self.stream, self._signals)
        self.switch = Switch(self._power, self._has_power)
        self._meter: Meter | None = None
        if "meter" in config:
            self._meter = build(config["meter"], self.world, self.seed, self.stream, self._supplied())
        self._scope_server = scopes.serve(config.get("scope", {}), self.scope)
        self._switch_server = ScpiServer("power", self.switch)
        self._serial = SerialServer(lambda data: self._ready().uart_write(data))
        self._control = Server("control", Control(self).serve)
        self._servers = (self._scope_server, self._switch_server, self._serial, self._control)
        self._break(config.get("faults", {}))
        threading.Thread(target=self._boot, name="boot", daemon=True).start()

    def addresses(self) -> dict[str, Any]:
        """Return where everything answers."""
        return {
            "scope": self._scope_server.resource,
            "dut": f"socket://{HOST}:{self._serial.port}",
            "power": self._switch_server.resource,
            "control": f"{HOST}:{self._control.port}",
            "pid": os.getpid(),
            **({"meter": self._meter.address} if self._meter is not None else {}),
        }

    def set_faults(self, faults: Mapping[str, Any]) -> None:
        """Replace the set of faults. Raises ValueError or TypeError for one that is not known."""
        check_faults(faults)
        self._ready().set_faults(faults.get("dut", {}))
        self._wire(faults)
        self._break(faults)

    def _break(self, faults: Mapping[str, Any]) -> None:
        self._scope_server.fault.set(faults.get("scope", {}))
        if self._meter is not None:
            self._meter.set_faults(faults.get("meter", {}))

    def _supplied(self) -> Supply:
        """Return the supply that a meter is: its level is off by as much as the supply that was drawn."""
        nominal_v = float(self.config["supply"]["voltage_v"])
        ratio = self.circuit.supply_v / nominal_v
        return Supply(self._power, self._has_power, lambda level_v: self.world.supply(level_v * ratio), nominal_v)

    def _wire(self, faults: Mapping[str, Any]) -> None:
        self.world.trigger_fault = faults.get("trigger")
        self.world.shunt_fault = faults.get("shunt")
        self.world.on_window = _killer() if faults.get("kill") else None
        leads = ("trigger", "shunt") if faults.get("wires") == "swapped" else ("shunt", "trigger")
        self._signals.update(zip(self._channels, leads, strict=True))

    def connect(self, what: str, nominal: Nominal, runs: bool = False) -> None:
        """Put a fixture in the DUT's place, or the DUT back; the supply stays as it is. See Fixture for `runs`.

        Raises ValueError for what is not known, OSError where the DUT does not switch.
        """
        if what not in ("dut", *KINDS):
            raise ValueError(f"what {what!r} is not one of dut, {', '.join(KINDS)}")
        dut = self._ready()
        with self._supply:
            on = self._has_power()
            if self._fixture is not None:
                self._fixture.close()
            elif what == "dut":
                return
            elif on:
                dut.power(False)
            self.world.shunt_at_pin = what == "pulse"
            if what != "dut":
                self.nominal = nominal
                self._fixture = Fixture(self.world, self.seed, what, nominal, on, runs, self.stream)
                return
            self._fixture = None
            if on:
                dut.power(True)

    def fire(self, n: int) -> None:
        """Let the generator give n pulses now. Raises ValueError where none is connected, or for a wrong number."""
        with self._supply:
            if self._fixture is None:
                raise ValueError('the DUT is connected, and no generator: connect "pulsed-load" or "pulse"')
            self._fixture.fire(n)

    def read_meter(self) -> tuple[float, float]:
        """Read the reference meter in series with the load, in ampere: now, and with the supply on.

        Raises ValueError where no load is connected.
        """
        with self._supply:
            if self._fixture is None:
                raise ValueError('the meter is in series with a load, and the DUT is connected: connect "load"')
            return self._fixture.read_meter()

    def status(self) -> dict[str, Any]:
        """Tell how the DUT is."""
        if self.boot_error:
            return {"engine": "fault", "fault": self.boot_error}
        return self._dut.status() if self._booted.is_set() and self._dut else {"engine": "booting", "fault": ""}

    def close(self) -> None:
        """Stop everything."""
        self.stopped.set()
        for server in self._servers:
            server.close()
        if self._meter is not None:
            self._meter.close()
        self.world.close()
        if self._dut is not None:
            self._dut.close()

    def _boot(self) -> None:
        try:
            self._dut = self._make_dut(self.config, self.world, self._serial.send)
            self._dut.set_faults(self.config.get("faults", {}).get("dut", {}))
            self._dut.power(True)
        except Exception as error:  # noqa: BLE001 - told to whoever asks for the DUT, and on stderr
            self.boot_error = f"the DUT does not start: {error}"
            traceback.print_exc(file=sys.stderr)
            print(f"instruments.sim: {self.boot_error}", file=sys.stderr, flush=True)
            self.stopped.set()
        finally:
            self._booted.set()

    def _ready(self) -> Dut:
        """Return the DUT once it has booted."""
        self._booted.wait(BOOT_TIMEOUT_S)
        if self._dut is None:
            raise OSError(self.boot_error or "the DUT did not start in time")
        return self._dut

    def _power(self, on: bool) -> None:
        dut = self._ready()
        with self._supply:
            if self._fixture is None:
                dut.power(on)
            else:
                self._fixture.power(on)

    def _has_power(self) -> bool:
        """Tell whether the supply is on: a DUT that boots or failed has it, and the bench begins with it on."""
        fixture = self._fixture
        if fixture is not None:
            return fixture.on
        return self.status()["engine"] != "off"


def _killer() -> Callable[[], None]:
    """Return what kills this process, as nobody would expect it, when it is called the third time."""
    left = iter(range(_KILLED_AT_WINDOW - 1, -1, -1))

    def window() -> None:
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return window


def check_faults(faults: Mapping[str, Any]) -> None:
    """Raise ValueError or TypeError for a fault that nothing here can have; the DUT's own are checked by it."""
    if not isinstance(faults, Mapping):
        raise TypeError(f"faults: {faults!r} is not one JSON object")
    for name in ("scope", "dut", "meter"):
        if not isinstance(faults.get(name, {}), Mapping):
            raise TypeError(f"faults: {name} {faults[name]!r} is not one JSON object")
    wired = {
        "trigger": TRIGGER_FAULTS, "shunt": tuple(SHUNT_FAULTS), "wires": WIRES_FAULTS, "kill": KILL_FAULTS,
    }  # fmt: skip
    unknown = set(faults) - {*wired, "scope", "dut", "meter"}
    if unknown:
        raise ValueError(f"faults: {min(unknown)!r} is not one of {', '.join(wired)}, scope, dut, meter")
    for name, known in wired.items():
        if faults.get(name) not in (None, *known):
            raise ValueError(f"faults: {name} {faults[name]!r} is not one of {', '.join(known)}")
    linkfaults.check(faults.get("scope", {}), "scope")
