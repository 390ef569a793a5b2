"""The socket behind the scenes: truth, draws, faults and status of the emulated bench, as lines of JSON.

An analysis never comes here; what prints results beside the truth does, and so do tests.
"""

from __future__ import annotations

import dataclasses
import json
import socket
from typing import TYPE_CHECKING, Any

from instruments.sim.fixture import Nominal
from instruments.sim.frontend import ChannelSetup, FrontEnd, SampleClock, skew_s
from instruments.sim.server import lines

if TYPE_CHECKING:
    from instruments.sim.bench import Bench


COMMANDS = ("windows", "draws", "faults", "connect", "fire", "meter", "status", "quit")


class Control:
    """Answer {"cmd": one of `COMMANDS`}, one object a line each way.

    connect: `what` takes the DUT's place ("load", "pulsed-load", "pulse"; "dut" comes back), with the fields of
    fixture.Nominal, and `runs` for a generator that needs no firing. fire: the generator gives `n` pulses now.
    meter: what the reference meter in series with the load reads, now (`current_a`) and with the supply on
    (`powered_a`).
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def serve(self, connection: socket.socket) -> None:
        """Answer one client until it leaves."""
        for text in lines(connection):
            answer = {"error": "the line is too long"} if text is None else self._answer(text)
            connection.sendall(json.dumps(answer).encode() + b"\n")
            if answer.get("quit"):
                self._bench.stopped.set()

    def _answer(self, text: str) -> dict[str, Any]:
        try:
            request = json.loads(text)
            command = request["cmd"]
            if command not in COMMANDS:
                return {"error": f"cmd {command!r} is not one of {', '.join(COMMANDS)}"}
            return getattr(self, f"_do_{command}")(request)
        except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
            missing = isinstance(error, KeyError)
            return {"error": f"{error} is missing" if missing else str(error) or type(error).__name__}

    def _do_windows(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {"windows": self._bench.world.windows()}

    def _do_draws(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Tell the true values; those of a channel hold for the settings in force."""
        bench = self._bench
        channels = {}
        for setup in bench.scope.channel_setups():
            front_end = FrontEnd(bench.seed, "open", setup, bench.scope.family)
            channels[str(setup.number)] = _channel_draws(setup, front_end)
        return {
            "draws": {
                **dataclasses.asdict(bench.world.circuit),
                "tau_s": bench.world.circuit.tau_s,
                "timebase_ratio": SampleClock(bench.seed, family=bench.scope.family).error_ratio,
                "load_ohm": bench.nominal.true_load_ohm(bench.seed),
                "pulse_ratio": bench.nominal.pulse_ratio(bench.seed),
                "meter_ratio": bench.nominal.meter_ratio(bench.seed),
                "skew_s": skew_s(bench.seed),
                "channels": channels,
            }
        }

    def _do_faults(self, request: dict[str, Any]) -> dict[str, Any]:
        self._bench.set_faults(request["faults"])
        return {"faults": request["faults"]}

    def _do_connect(self, request: dict[str, Any]) -> dict[str, Any]:
        self._bench.connect(request["what"], Nominal.of(request), bool(request.get("runs", False)))
        return {"connected": request["what"]}

    def _do_fire(self, request: dict[str, Any]) -> dict[str, Any]:
        self._bench.fire(request["n"])
        return {"fired": request["n"]}

    def _do_meter(self, _request: dict[str, Any]) -> dict[str, Any]:
        now_a, powered_a = self._bench.read_meter()
        return {"current_a": now_a, "powered_a": powered_a}

    def _do_status(self, _request: dict[str, Any]) -> dict[str, Any]:
        return self._bench.status()

    def _do_quit(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {"quit": True}  # and the bench stops once this is sent


def _channel_draws(setup: ChannelSetup, front_end: FrontEnd) -> dict[str, float]:
    return {
        "range_v": setup.range_v,
        "offset_v": setup.offset_v,
        "gain_ratio": front_end.gain_ratio,
        "offset_error_v": front_end.offset_error_v,
        "noise_rms_v": front_end.noise_rms_v,
    }
