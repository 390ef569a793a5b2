"""The emulated bench put together: world, DUT, oscilloscope, switch, and the sockets that they answer on."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from instruments.sim.circuit import Circuit
from instruments.sim.control import Control
from instruments.sim.infiniivision import InfiniiVision
from instruments.sim.server import HOST, ScpiServer, SerialServer, Server
from instruments.sim.switch import Switch
from instruments.sim.world import World

BOOT_TIMEOUT_S = 60.0
TRIGGER_FAULTS = ("disconnected", "inverted", "stuck-high", "extra-edge")
SCOPE_FAULTS = ("silent", "stall_after_bytes", "close_after_bytes")


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
    from instruments.sim.engine import Engine

    return Engine(config["board"], Path(config["elf"]), world, on_uart)


class Bench:
    """Start every server at once and boot the DUT beside them; what needs the DUT waits for it.

    Raises ValueError, KeyError or TypeError for a configuration that does not fit.
    """

    def __init__(self, config: Mapping[str, Any], make_dut: DutFactory = real_firmware) -> None:
        self.config = config
        self.seed = int(config["seed"])
        self.circuit = Circuit.drawn(config)
        self.world = World(self.circuit)
        wiring = config["wiring"]
        signals = {int(wiring["shunt_channel"]): "shunt", int(wiring["trigger_channel"]): "trigger"}
        if len(signals) != 2 or not set(signals) <= {1, 2, 3, 4}:
            raise ValueError("wiring: shunt_channel and trigger_channel must be two different channels of 1 to 4")
        check_faults(config.get("faults", {}))
        self.boot_error = ""
        self.stopped = threading.Event()
        self._make_dut = make_dut
        self._dut: Dut | None = None
        self._booted = threading.Event()
        self._faults: Mapping[str, Any] = {}
        self.scope = InfiniiVision(
            lambda: self.world,
            self.seed,
            signals,
            has_bulk_segments=config.get("scope", {}).get("bulk_segments", True),
        )
        self.switch = Switch(self._power, self._has_power)
        self._scope_server = ScpiServer("scope", self.scope)
        self._switch_server = ScpiServer("power", self.switch)
        self._serial = SerialServer(lambda data: self._ready().uart_write(data))
        self._control = Server("control", Control(self).serve)
        self._servers = (self._scope_server, self._switch_server, self._serial, self._control)
        threading.Thread(target=self._boot, name="boot", daemon=True).start()

    def addresses(self) -> dict[str, Any]:
        """Return where everything answers."""
        return {
            "scope": f"TCPIP::{HOST}::{self._scope_server.port}::SOCKET",
            "dut": f"socket://{HOST}:{self._serial.port}",
            "power": f"TCPIP::{HOST}::{self._switch_server.port}::SOCKET",
            "control": f"{HOST}:{self._control.port}",
            "pid": os.getpid(),
        }

    def set_faults(self, faults: Mapping[str, Any]) -> None:
        """Replace the set of faults. Raises ValueError or TypeError for one that is not known."""
        check_faults(faults)
        self._ready().set_faults(faults.get("dut", {}))
        self._apply(faults)

    def _apply(self, faults: Mapping[str, Any]) -> None:
        self.world.trigger_fault = faults.get("trigger")
        self._scope_server.fault.set(faults.get("scope", {}))

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
        self.world.close()
        if self._dut is not None:
            self._dut.close()

    def _boot(self) -> None:
        try:
            self._apply(self.config.get("faults", {}))
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
        self._ready().power(on)

    def _has_power(self) -> bool:
        """Tell whether the DUT has its supply: a DUT that boots or failed has, and the bench begins with it on."""
        return self.status()["engine"] != "off"


def check_faults(faults: Mapping[str, Any]) -> None:
    """Raise ValueError or TypeError for a fault that nothing here can have; the DUT's own are checked by it."""
    if not isinstance(faults, Mapping):
        raise TypeError(f"faults: {faults!r} is not one JSON object")
    for name in ("scope", "dut"):
        if not isinstance(faults.get(name, {}), Mapping):
            raise TypeError(f"faults: {name} {faults[name]!r} is not one JSON object")
    unknown = set(faults) - {"trigger", "scope", "dut"}
    if unknown:
        raise ValueError(f"faults: {min(unknown)!r} is not one of trigger, scope, dut")
    if faults.get("trigger") not in (None, *TRIGGER_FAULTS):
        raise ValueError(f"faults: trigger {faults['trigger']!r} is not one of {', '.join(TRIGGER_FAULTS)}")
    unknown = set(faults.get("scope", {})) - set(SCOPE_FAULTS)
    if unknown:
        raise ValueError(f"faults: scope {min(unknown)!r} is not one of {', '.join(SCOPE_FAULTS)}")
    for name, value in faults.get("scope", {}).items():
        if name != "silent" and not (isinstance(value, int) and value >= 0):
            raise ValueError(f"faults: scope {name} must be a number of bytes, not {value!r}")
