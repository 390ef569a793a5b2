"""The oscilloscope of the emulated bench, as the configuration's `scope` asks for it, and what it answers on.

{"model": "infiniivision", "bulk_segments": true}, the usual one, or {"model": "dho800", "slowness": 0.01, "ready_s": 0,
"frame_trap": false}: how slow it is beside a real one, for how long after the last trigger there are no data yet, and
whether a frame must be loaded before it is read, see `dho800` and `dho800_frames`. {"transport": "socket", "hislip" or
"vxi11"} holds for each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from instruments.sim.dho800 import Dho800
from instruments.sim.hislip import HislipServer
from instruments.sim.infiniivision import InfiniiVision
from instruments.sim.oscilloscope import Oscilloscope
from instruments.sim.server import InstrumentServer, ScpiServer
from instruments.sim.vxi11 import Vxi11Server
from instruments.sim.world import World

MODELS = ("infiniivision", "dho800")
TRANSPORTS: dict[str, type[InstrumentServer]] = {"socket": ScpiServer, "hislip": HislipServer, "vxi11": Vxi11Server}


def build(options: Mapping[str, Any], world: World, seed: int, stream: int, signals: dict[int, str]) -> Oscilloscope:
    """Return the oscilloscope. Raises ValueError or TypeError for options that do not fit."""
    model = options.get("model", "infiniivision")
    if model not in MODELS:
        raise ValueError(f"scope: model {model!r} is not one of {', '.join(MODELS)}")
    if model == "infiniivision":
        bulk = options.get("bulk_segments", True)
        return InfiniiVision(lambda: world, seed, signals, stream=stream, has_bulk_segments=bulk)
    times = {name: options[name] for name in ("slowness", "ready_s") if name in options}
    for name, value in times.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ValueError(f"scope: {name} {value!r} is not a number of at least 0")
    trap = options.get("frame_trap", False)
    if not isinstance(trap, bool):
        raise TypeError(f"scope: frame_trap {trap!r} is neither true nor false")
    return Dho800(lambda: world, seed, signals, stream=stream, frame_trap=trap, **times)


def serve(options: Mapping[str, Any], scope: Oscilloscope) -> InstrumentServer:
    """Let clients talk to it; the raw socket of a DHO800 takes one at a time. Raises ValueError."""
    name = options.get("transport", "socket")
    if name not in TRANSPORTS:
        raise ValueError(f"scope: transport {name!r} is not one of {', '.join(TRANSPORTS)}")
    if name == "socket":
        return ScpiServer("scope", scope, one_client=isinstance(scope, Dho800))
    return TRANSPORTS[name]("scope", scope)
