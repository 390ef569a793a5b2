"""The emulated bench as a process: start it, learn its addresses, ask for the world's truth, stop it.

The simulator is reached by name and over sockets only, like an instrument.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruments.errors import InstrumentError, LinkLost
from labctl.benchfile import BenchFile, parse_bench
from labctl.errors import ConfigError, DeviceStable, EnvironmentFault, LabctlError
from labctl.firmware import default_image
from labctl.model import Operation

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0
CONTROL_TIMEOUT_S = 10.0
# Each answer of a simulator has one of these.
_ANSWERS = {"error", "connected", "current_a", "faults", "fired", "windows", "draws", "engine", "quit"}
# Windows of a long series are some 200 bytes each.
CONTROL_BYTES_MAX = 1 << 26

SHUNT_OHM = 1.3
DECOUPLING_F = 4.7e-6


# Drivers of the emulated oscilloscopes by their models.
SCOPES = {"infiniivision": "keysight-infiniivision", "dho800": "rigol-dho800"}
# The emulated meters: driver, and what [meter] of their bench says. All but EnergyTrace switch the DUT's supply too.
METERS: dict[str, dict[str, str]] = {
    "n6705": {"driver": "keysight-n6705", "trigger": "PIN1", "window_channel": "V2"},
    "ppk2": {"driver": "nordic-ppk2", "trigger": "D0"},
    "energytrace": {"driver": "ti-energytrace"},
}
TRANSPORTS = ("socket", "hislip", "vxi11")


@dataclass(frozen=True)
class Emulation:
    """Which instruments the emulated bench has: an oscilloscope by its transport, or a meter in its place."""

    scope: str = "infiniivision"
    transport: str = "socket"
    meter: str | None = None


USUAL = Emulation()


def default_elf(board: str) -> Path:
    """Return where `make firmware` leaves the usual image of a board."""
    return default_image(board).path


class _Ended(EnvironmentFault):
    """The simulator has left."""


class Control:
    """A connection to the control socket of a simulator; `address` is HOST:PORT.

    Raises ConfigError for what is no address, EnvironmentFault where no simulator answers there.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
            raise ConfigError(
                f"{address!r} is not the control address of an emulated bench: HOST:PORT, as `labctl sim start` prints"
            )
        try:
            self._socket = socket.create_connection((host, int(port)), timeout=CONTROL_TIMEOUT_S)
        except OSError as error:
            raise EnvironmentFault(
                f"no emulated bench answers at {address} ({error.strerror or error}): start one with `labctl sim start`"
            ) from error

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send one command and return its answer. Raises EnvironmentFault where none comes."""
        answer = bytearray()
        deadline_s = time.monotonic() + CONTROL_TIMEOUT_S
        try:
            self._socket.settimeout(CONTROL_TIMEOUT_S)
            self._socket.sendall(json.dumps(command).encode() + b"\n")
            while not answer.endswith(b"\n"):
                if len(answer) > CONTROL_BYTES_MAX:
                    raise ValueError("endless")
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError
                self._socket.settimeout(left_s)
                chunk = self._socket.recv(1 << 16)
                if not chunk:
                    raise _Ended("the simulator closed the connection")
                answer += chunk
            document = json.loads(answer)
        except TimeoutError as error:
            raise EnvironmentFault(f"the simulator did not answer within {CONTROL_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise _Ended(f"the simulator closed the connection: {error.strerror or error}") from error
        except ValueError as error:
            raise EnvironmentFault("what answers there is no simulator: it sends no JSON object") from error
        if not isinstance(document, dict):
            raise EnvironmentFault("what answers there is no simulator: it sends no JSON object")
        return document

    def tell(self, **command: Any) -> dict[str, Any]:
        """Send a command and return its answer. Raises ConfigError with the simulator's words where it refuses."""
        answer = self.ask(**command)
        if not answer.keys() & _ANSWERS:
            raise EnvironmentFault("what answers there is no simulator: its answer is none to what it was asked")
        if "error" in answer:
            raise ConfigError(f"the simulator refuses {command['cmd']!r}: {answer['error']}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class Simulation:
    """One run of the simulator for one board, at the clock that `elf` is built for.

    `seed` draws what is fixed in its world (shunt, supply, crystal, the scope's errors), seed and `stream` what is
    random in time (noise, the phase of the samples): runs of one seed are the same bench at other times.
    """

    def __init__(
        self,
        board: dict[str, Any],
        seed: int,
        *,
        stream: int = 0,
        elf: Path | None = None,
        emulation: Emulation = USUAL,
    ) -> None:
        self.board = board
        self.emulation = emulation
        self.seed = seed
        self.stream = stream
        self.elf = elf or default_elf(board["name"])
        self.faults: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Any = None
        self._control: Control | None = None
        self.addresses: dict[str, Any] = {}

    def bench_file(self) -> BenchFile:
        """Return the emulated bench as a bench file would describe it, addresses still open."""
        emulation = self.emulation
        power = "meter" if emulation.meter not in (None, "energytrace") else "emulated"
        dut = {"board": self.board["name"], "port": "emulated", "power": power}
        recorder: dict[str, Any] = {
            "shunt": {"resistance_ohm": SHUNT_OHM, "decoupling_f": DECOUPLING_F},
            "scope": {"driver": SCOPES[emulation.scope], "resource": "emulated"},
        }
        if emulation.meter is not None:
            recorder = {"meter": {**METERS[emulation.meter], "resource": "emulated"}}
        return parse_bench({"bench": {"name": "emulated"}, **recorder, "dut": dut}, "emulated bench")

    def start(self, file: BenchFile) -> None:
        """Start the simulator with the bench's nominal values and wait for its addresses.

        The world's supply is always the board's own rail: `--supply` changes the computation, never the world.
        Raises EnvironmentFault where the firmware is not built or the simulator does not come up.
        """
        if file.supply.node != "mcu":
            raise ConfigError("the emulated bench has its shunt in the MCU's rail: [supply] node must be \"mcu\"")
        if not self.elf.is_file():
            raise EnvironmentFault(
                f"there is no firmware for {self.board['name']} at {self.elf}: "
                "run `make firmware` in the project's folder"
            )
        config = {
            "board": self.board,
            "elf": str(self.elf),
            "seed": self.seed,
            "stream": self.stream,
            **self._instruments(file),
            "supply": {
                "voltage_v": self.board["supply"]["node_mcu_v"],
                "tolerance_ratio": file.supply.tolerance_ratio,
            },
            "crystal": {"tolerance_ratio": self.board["crystal_tolerance_ratio"]},
            "faults": self.faults,
        }
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in stop()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "instruments.sim"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C must first leave the instruments safe, then end the simulator
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(config).encode())
            self._process.stdin.close()
        self.addresses = self._read_addresses()
        try:
            self._control = Control(self.addresses["control"])
        except EnvironmentFault as error:  # it has ended since
            ended = self._ended()
            self.stop()
            raise ended from error

    def _instruments(self, file: BenchFile) -> dict[str, Any]:
        """Tell the simulator what records, and what it is connected to."""
        if self.emulation.meter is not None:
            return {
                "meter": {"kind": self.emulation.meter},
                "shunt": {"resistance_ohm": 0.0, "tolerance_ratio": 0.0},
                "decoupling": {"capacitance_f": DECOUPLING_F, "tolerance_ratio": 0.2},
                "wiring": {"shunt_channel": 1, "trigger_channel": 2},
            }
        shunt, scope = file.resistor, file.oscilloscope
        return {
            "scope": {"model": self.emulation.scope, "transport": self.emulation.transport},
            "shunt": {"resistance_ohm": shunt.resistance_ohm, "tolerance_ratio": shunt.tolerance_ratio},
            "decoupling": {
                "capacitance_f": shunt.decoupling_f or 0.0,
                "tolerance_ratio": shunt.decoupling_tolerance_ratio,
            },
            "wiring": {"shunt_channel": scope.shunt_channel, "trigger_channel": scope.trigger_channel},
        }

    def _read_addresses(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(timeout=max(0.0, deadline - time.monotonic())):
                    break
                chunk = self._process.stdout.read1(65536)  # type: ignore[attr-defined]
                if not chunk:
                    break
                line += chunk
        if not line.endswith(b"\n"):
            complaint = self._complaint()
            self.stop()
            raise EnvironmentFault(f"the simulator did not start: {complaint}")
        return json.loads(line)

    def _complaint(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert self._process is not None
            self._process.wait(timeout=1.0)
        self._log.seek(0)
        text = self._log.read().decode(errors="replace").strip()
        return text.splitlines()[-1] if text else "it ended, or stayed silent, without a word"

    def addressed(self, file: BenchFile) -> BenchFile:
        """Return the bench file with the simulator's addresses filled in."""
        name = "meter" if file.meter else "scope"
        resource = self.addresses[name]
        if self.emulation.meter == "energytrace":  # reached through its recorder, as a real one is
            resource = shlex.join([sys.executable, "-m", "instruments.sim.energytrace_recorder", resource])
        power = {} if file.dut.power == "meter" else {"power": self.addresses["power"]}
        return file.model_copy(
            update={
                name: file.recorder.model_copy(update={"resource": resource}),
                "dut": file.dut.model_copy(update={"port": self.addresses["dut"], **power}),
            }
        )

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send one command to the simulator's control socket and return its answer."""
        with self._running() as control:
            return control.ask(**command)

    @contextlib.contextmanager
    def _running(self) -> Iterator[Control]:
        if self._control is None:
            raise EnvironmentFault("the simulator is not running")
        try:
            yield self._control
        except _Ended as error:
            raise self._ended() from error

    def _ended(self) -> LabctlError | InstrumentError:
        """Say why the simulator is not there any more: killed, like an instrument without power, or for a reason."""
        complaint = self._complaint()
        assert self._process is not None
        status = self._process.poll()
        if status is not None and status < 0:
            return LinkLost(f"the emulated bench was killed ({signal.Signals(-status).name}): measure again")
        return EnvironmentFault(f"the simulator ended: {complaint}")

    def set_faults(self, faults: Mapping[str, Any]) -> None:
        """Replace what is wrong in the world (docs/emulated-faults.md). Raises ConfigError for what it cannot have."""
        with self._running() as control:
            control.tell(cmd="faults", faults=faults)

    def kill(self) -> None:
        """Kill the simulator, as if its power was cut."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def connect(self, what: str, fixture: Mapping[str, float | None]) -> None:
        """Let a fixture take the DUT's place in the world, or the DUT come back; the supply stays as it is.

        `fixture` holds fields of bench.Fixture. Raises ConfigError where the simulator refuses.
        """
        with self._running() as control:
            control.tell(**connecting(what, fixture))

    def fire(self, n: int) -> None:
        """Let the pulse generator give n pulses. Raises ConfigError where the simulator refuses."""
        with self._running() as control:
            control.tell(cmd="fire", n=n)

    def read_meter(self) -> float:
        """Return what the reference meter in series with the load reads, in ampere. Raises ConfigError without load."""
        with self._running() as control:
            return float(control.tell(cmd="meter")["current_a"])

    def fault(self) -> str:
        """Return what stopped the emulated core, empty where nothing did."""
        return self.ask(cmd="status")["fault"]

    def check(self, because: Exception | None = None) -> None:
        """Raise where the simulator, or its DUT, has ended: DeviceStable, LinkLost or EnvironmentFault."""
        fault = self.fault()
        if fault:
            raise DeviceStable(f"the emulated {self.board['name']} stopped: {fault}") from because

    def windows(self) -> list[dict[str, float]]:
        """Return the world's own account of each trigger window since the last call."""
        return self.ask(cmd="windows")["windows"]

    def wait(self) -> None:
        """Wait until the simulator ends. Raises EnvironmentFault where it ended by itself with a complaint."""
        assert self._process is not None
        if self._process.wait() != 0:
            raise self._ended()

    def stop(self) -> None:
        """End the simulator; harmless where it never started."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None


def connecting(what: str, fixture: Mapping[str, float | None]) -> dict[str, Any]:
    """Make the control command that connects `what`; `fixture` holds fields of bench.Fixture."""
    facts = {("width_s" if key == "pulse_s" else key): value for key, value in fixture.items() if value is not None}
    return {"cmd": "connect", "what": what, **facts}


def truth_per_iteration(
    windows: list[dict[str, float]], null_windows: list[dict[str, float]], operation: Operation
) -> dict[str, float]:
    """Compute the true duration, power and energy of one iteration, the mean null window removed.

    Same definition as the analysis uses for what it measures: (window - null) / n, and for `null` itself the window.
    """
    if operation.name == "null":
        null_windows = []

    def per_iteration(key: str) -> float:
        mean = sum(w[key] for w in windows) / len(windows)
        null = sum(w[key] for w in null_windows) / len(null_windows) if null_windows else 0.0
        return (mean - null) / operation.n_iterations

    duration_s = per_iteration("duration_s")
    energy_j = per_iteration("energy_dut_j")
    energy_supply_j = per_iteration("energy_supply_j")
    return {
        "duration_s": duration_s,
        "energy_j": energy_j,
        "energy_supply_j": energy_supply_j,
        "power_w": energy_j / duration_s,
        "power_supply_w": energy_supply_j / duration_s,
        "charge_c": per_iteration("charge_c"),
    }
