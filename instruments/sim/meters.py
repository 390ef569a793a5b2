"""The meter of the emulated bench, as the configuration's `meter` asks for it, with what it answers on.

{"kind": "n6705", "pin": 1, "bnc_inverted": false}: SCPI over a socket; the digital pin that the DUT's trigger is led
to, and whether an inverter lies before the BNC input. {"kind": "ppk2"}: a pseudo-terminal.
{"kind": "energytrace", ...}: lines over a socket, see `energytrace.EnergyTrace`. `pace` holds for each, see `follow`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from instruments.sim.energytrace import EnergyTrace
from instruments.sim.follow import pace_of
from instruments.sim.n6705 import N6705
from instruments.sim.n6705_rules import N_PINS
from instruments.sim.n6705_view import Wiring
from instruments.sim.ppk2 import Ppk2
from instruments.sim.ptyserial import PtySerial
from instruments.sim.server import HOST, ScpiServer, Server
from instruments.sim.world import World


@dataclass(frozen=True)
class Supply:
    """The DUT's supply, which a meter may be: switch it, tell whether it is on, set its level, which is `level_v`."""

    power: Callable[[bool], None]
    is_on: Callable[[], bool]
    regulate: Callable[[float], None]
    level_v: float


class Meter(Protocol):
    """What the bench needs of a meter: where it answers, its faults, its end."""

    address: str

    def set_faults(self, faults: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


class _Analyzer:
    """The N6705C on a socket."""

    def __init__(self, options: Mapping[str, Any], world: World, seed: int, stream: int, supply: Supply) -> None:
        pin, inverted = options.get("pin", 1), options.get("bnc_inverted", False)
        if isinstance(pin, bool) or pin not in range(1, N_PINS + 1):
            raise ValueError(f"meter: pin {pin!r} is not one of 1 to {N_PINS}")
        if not isinstance(inverted, bool):
            raise TypeError(f"meter: bnc_inverted {inverted!r} is neither true nor false")
        self._analyzer = N6705(
            lambda: world, seed, power=supply.power, is_on=supply.is_on, regulate=supply.regulate,
            level_v=supply.level_v, pace=pace_of(options), wiring=Wiring(pin, inverted), stream=stream,
        )  # fmt: skip
        self._server = ScpiServer("meter", self._analyzer)
        self.address = f"TCPIP::{HOST}::{self._server.port}::SOCKET"

    def set_faults(self, faults: Mapping[str, Any]) -> None:
        self._server.fault.set(faults)

    def close(self) -> None:
        self._server.close()
        self._analyzer.close()


class _Profiler:
    """The PPK2 on a pseudo-terminal."""

    def __init__(self, options: Mapping[str, Any], world: World, seed: int, stream: int, supply: Supply) -> None:
        pace = pace_of(options)
        self._port = PtySerial(self._receive)
        self._profiler = Ppk2(
            lambda: world, seed, self._port.send, power=supply.power, is_on=supply.is_on, regulate=supply.regulate,
            level_v=supply.level_v, pace=pace, stream=stream, unplug=self._port.unplug,
        )  # fmt: skip
        self.address = self._port.path

    def _receive(self, data: bytes) -> None:
        self._profiler.receive(data)

    def set_faults(self, faults: Mapping[str, Any]) -> None:
        self._port.replug()
        self._profiler.set_faults(faults)

    def close(self) -> None:
        self._port.close()
        self._profiler.close()


class _Recorder:
    """The EnergyTrace recorder on a socket."""

    def __init__(self, options: Mapping[str, Any], world: World, seed: int, stream: int, supply: Supply) -> None:
        self._trace = EnergyTrace(lambda: world, seed, options, stream=stream)
        self._server = Server("meter", self._trace.serve)
        self.address = f"{HOST}:{self._server.port}"

    def set_faults(self, faults: Mapping[str, Any]) -> None:
        if faults:
            raise ValueError(f"faults: meter {min(faults)!r}: the EnergyTrace recorder has none")

    def close(self) -> None:
        self._trace.close()
        self._server.close()


_KINDS: dict[str, Callable[..., Meter]] = {"n6705": _Analyzer, "ppk2": _Profiler, "energytrace": _Recorder}


def build(options: Mapping[str, Any], world: World, seed: int, stream: int, supply: Supply) -> Meter:
    """Return the meter, which answers at once. Raises ValueError or TypeError for options that do not fit."""
    if not isinstance(options, Mapping):
        raise TypeError(f"meter: {options!r} is not one JSON object")
    kind = options.get("kind")
    if kind not in _KINDS:
        raise ValueError(f"meter: kind {kind!r} is not one of {', '.join(_KINDS)}")
    return _KINDS[kind](options, world, seed, stream, supply)
