"""The switch of the DUT's supply, as the smallest SCPI instrument: SCPI 1999, volume 2, OUTPut[:STATe]."""

from __future__ import annotations

from collections.abc import Callable

from instruments.sim.scpi import Instrument, boolean

IDENTITY = "EMULATED,SUPPLY-SWITCH,0,1.0"


class Switch(Instrument):
    """Switch the supply on and off; it starts with the supply on."""

    def __init__(self, power: Callable[[bool], None]) -> None:
        super().__init__()
        self._power = power
        self._is_on = True
        self.on("*IDN?", lambda: IDENTITY)
        self.do("*RST", lambda: self._set(False))
        self.on(":OUTPut[:STATe]", lambda p: self._set(boolean(p)))
        self.on(":OUTPut[:STATe]?", lambda: "1" if self._is_on else "0")

    def _set(self, on: bool) -> None:
        if on != self._is_on:
            self._power(on)
        self._is_on = on
