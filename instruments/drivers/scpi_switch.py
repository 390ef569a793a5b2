"""Driver of anything that switches a supply by SCPI: a bench supply's output, or the emulated bench's power switch.

Source: SCPI-1999, volume 2, section 15 (OUTPut[:STATe]). Nothing ran on silicon: tried on dialogues and on the
emulated bench only.
"""

from __future__ import annotations

from typing import Self

from instruments.errors import InstrumentError
from instruments.record import Identity
from instruments.transport.link import QUERY_TIMEOUT_S, Link
from instruments.transport.scpi import Scpi


class ScpiSwitch:
    """Switch the supply of the device under test."""

    DRIVER_API = 1
    KIND = "switch"
    SUMMARY = "supplies that know OUTPut, the emulated bench's switch among them; never tried on a real one"

    def __init__(self, link: Link, timeout_s: float = QUERY_TIMEOUT_S) -> None:
        self._link = link
        self._scpi = Scpi(link, timeout_s)

    @classmethod
    def open(cls, resource: str, timeout_s: float = QUERY_TIMEOUT_S) -> Self:
        """Open the link and ask who answers. Raises LinkLost, InstrumentTimeout, BadData."""
        from instruments.transport.visa import VisaLink

        switch = cls(VisaLink(resource, timeout_s), timeout_s)
        try:
            switch.identify()
            switch._link.write("*CLS")
        except InstrumentError:
            switch.close()
            raise
        return switch

    @staticmethod
    def fits(identity: Identity) -> bool:
        """Tell whether it is the emulated switch: no identity tells of a supply whether it knows OUTPut alone."""
        return identity.model == "SUPPLY-SWITCH"

    def identify(self) -> Identity:
        """Return who answers."""
        return self._scpi.identity()

    def set_output(self, on: bool) -> None:
        """Switch the output and confirm by reading back that it switched. Raises Rejected."""
        if not isinstance(on, bool):
            raise TypeError(f"the output is either on (True) or off (False), not {on!r}")
        if self._link.tainted:
            self._link.reopen()
        self._scpi.set("OUTPut", on)

    def close(self) -> None:
        """Release the link; leave the output as it is. May be called twice."""
        self._link.close()
