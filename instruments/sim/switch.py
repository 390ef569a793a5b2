"""The switch of the DUT's supply, as the smallest SCPI instrument: SCPI 1999, volume 2, OUTPut[:STATe].

A supply that does not switch is -200, Execution error (SCPI 1999, volume 2, 21.8.10); OUTPut? tells what really holds.
"""

from __future__ import annotations

from collections.abc import Callable

from instruments.sim.scpi import Instrument, ScpiError, boolean

IDENTITY = "EMULATED,SUPPLY-SWITCH,0,1.0"


class Switch(Instrument):
    """Switch the supply by `power`, which raises OSError where it cannot; `is_on` tells whether the DUT has it."""

    def __init__(self, power: Callable[[bool], None], is_on: Callable[[], bool]) -> None:
        super().__init__()
        self._power = power
        self._is_on = is_on
        self.on("*IDN?", lambda: IDENTITY)
        self.do("*RST", lambda: self._set(False))
        self.on(":OUTPut[:STATe]", lambda p: self._set(boolean(p)))
        self.on(":OUTPut[:STATe]?", lambda: "1" if self._is_on() else "0")

    def _set(self, on: bool) -> None:
        if on == self._is_on():
            return
        try:
            self._power(on)
        except OSError as error:
            raise ScpiError(-200) from error
