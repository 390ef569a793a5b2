"""Names of errors, so that results which share an error can be told: equal keys, one and the same error.

The shunt's error belongs to a bench, whichever of its boards it feeds, that of the supply to the bench and the board,
a gain error to one instrument, channel and range, a zero reading's to itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from instruments.record import Channel, Identity
from labctl.model import Shunt, Supply

# What of a channel's settings its gain and offset errors depend on.
_SETTINGS = ("probe_ratio", "bandwidth_limit")


def instrument(identity: Identity) -> str:
    """Name an instrument."""
    return f"{identity.model} {identity.serial}"


def bench(facts: Mapping[str, Any], identity: Identity) -> str:
    """Name a bench with one of its boards: what is the board's own, or wired to it, is another for each.

    That is supply, decoupling and cables; what is the bench's goes by `place`.
    """
    board = f" with {facts['board']}" if "board" in facts else ""
    return f"{_name(facts)}{board}, {instrument(identity)}"


def place(facts: Mapping[str, Any], identity: Identity) -> str:
    """Name a bench by the facts of it that a capture carries, and by its instrument; each emulated seed is a bench."""
    return f"{_name(facts)}, {instrument(identity)}"


def _name(facts: Mapping[str, Any]) -> str:
    seed = f" seed {facts['seed']}" if "seed" in facts else ""
    return f"{facts.get('name', 'bench')}{seed}"


def settings(channel: Channel) -> dict[str, Any]:
    """Tell what of a channel a calibration holds for: scale and offset, unit, probe and bandwidth limit."""
    known = {key: channel.settings[key] for key in _SETTINGS if key in channel.settings}
    return {"scale": channel.scale, "offset": channel.offset, "unit": channel.unit, **known}


@dataclass(frozen=True)
class Keys:
    """Keys of the errors of one capture; all are empty where its bench is not known."""

    bench: str = ""
    instrument: str = ""
    place: str = ""

    @classmethod
    def of(cls, facts: Mapping[str, Any] | None, identity: Identity) -> Keys:
        """Make the keys for a capture with these facts of its bench; without facts nothing is shared."""
        return cls(bench(facts, identity), instrument(identity), place(facts, identity)) if facts else cls()

    def shunt(self, shunt: Shunt) -> str:
        """Name the error of the shunt, which a bench has one of; another tolerance is another resistor."""
        text = f"shunt {shunt.resistance_ohm:g} ohm +-{shunt.tolerance_ratio:g}"
        return f"{text}, {self.place}" if self.place else ""

    def supply(self, supply: Supply) -> str:
        """Name the error of the supply's voltage; another tolerance is another supply, or another reading of it."""
        if supply.voltage_v is None:
            return self._of_bench("supply")
        return self._of_bench(f"supply {supply.voltage_v:g} V +-{supply.tolerance_ratio:g}")

    def decoupling(self, shunt: Shunt) -> str:
        """Name the error of the capacitance behind the shunt."""
        return self._of_bench(f"decoupling {shunt.decoupling_f or 0.0:g} F +-{shunt.decoupling_tolerance_ratio:g}")

    def timebase(self) -> str:
        """Name the error of the instrument's clock."""
        return f"time base, {self.instrument}" if self.instrument else ""

    def skew(self, channel: str) -> str:
        """Name the delay between a channel and the trigger's."""
        return self._of_bench(f"skew {channel}")

    def gain(self, channel: Channel) -> str:
        """Name the gain error of a channel at its range."""
        return self._of_channel("gain", channel, offset=False)

    def offset(self, channel: Channel) -> str:
        """Name the offset error of a channel at its range and offset."""
        return self._of_channel("offset", channel, offset=True)

    def reading(self, what: str, *arrays: np.ndarray) -> str:
        """Name the error of one reading, a zero reading or a null series, by what was read."""
        crc = 0
        for array in arrays:
            crc = zlib.crc32(np.ascontiguousarray(array).tobytes(), crc)
        return self._of_bench(f"{what} {crc:08x}")

    def _of_bench(self, text: str) -> str:
        return f"{text}, {self.bench}" if self.bench else ""

    def _of_channel(self, what: str, channel: Channel, *, offset: bool) -> str:
        if not self.instrument:
            return ""
        parts = {k: v for k, v in settings(channel).items() if offset or k != "offset"}
        return f"{what} {channel.name} {parts}, {self.instrument}"
