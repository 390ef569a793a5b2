"""Pins (IOC) and GPIO of the CC26x2. Source: TI SWCU185, chapters IOC and GPIO."""

from __future__ import annotations

from collections.abc import Callable

from instruments.sim.dut.registers import ALL_LANES, Registers

N_PINS = 32
_PORT_ID = 0x3F
_PORT_GPIO = 0x00
_INPUT_ENABLE = 1 << 29
_IOCFG_RESET = 0x6000


class Ioc(Registers):
    """IOCFG0 to IOCFG31: to which port a pin belongs, and whether it is an input. `changed` is told each write."""

    size_bytes = 0x1000

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__({4 * pin: _IOCFG_RESET for pin in range(N_PINS)})
        self._changed = changed

    def put(self, offset: int, value: int) -> None:
        """Write one word."""
        super().put(offset, value)
        self._changed()

    def is_gpio(self, pin: int) -> bool:
        """Tell whether the GPIO module drives a pin."""
        return self.words[4 * pin] & _PORT_ID == _PORT_GPIO

    def sends(self, pin: int, port: int) -> bool:
        """Tell whether a pin is switched to this port."""
        return self.words[4 * pin] & _PORT_ID == port

    def receives(self, pin: int, port: int) -> bool:
        """Tell whether a pin is switched to this port and its input is on."""
        return self.sends(pin, port) and bool(self.words[4 * pin] & _INPUT_ENABLE)


class Gpio(Registers):
    """Outputs, one bit a pin, or one byte a pin below 0x20. `changed` is called after every write."""

    size_bytes = 0x1000
    _DOUT, _DOUTSET, _DOUTCLR, _DOUTTGL, _DIN, _DOE = 0x80, 0x90, 0xA0, 0xB0, 0xC0, 0xD0
    _BYTES = range(N_PINS)

    def __init__(self, ioc: Ioc, clocked: Callable[[], bool], changed: Callable[[], None]) -> None:
        super().__init__({self._DOUT: 0, self._DOE: 0}, clocked)
        self._ioc, self._changed = ioc, changed

    def get(self, offset: int) -> int:
        """Read one word. Inputs (DIN) show the outputs only."""
        if offset in self._BYTES:
            return sum((self.words[self._DOUT] >> offset + k & 1) << 8 * k for k in range(4))
        if offset == self._DIN:
            return sum(self.level(pin) << pin for pin in range(N_PINS))
        return 0 if offset in (self._DOUTSET, self._DOUTCLR) else super().get(offset)

    def write(self, offset: int, value: int, lanes: int = ALL_LANES) -> None:
        """Write one word, or a part of it."""
        if not self._clocked():
            return
        value &= lanes
        out = self.words[self._DOUT]
        if offset == self._DOUTSET:
            out |= value
        elif offset == self._DOUTCLR:
            out &= ~value
        elif offset == self._DOUTTGL:
            out ^= value
        elif offset in self._BYTES:
            for k in range(4):
                if lanes >> 8 * k & 1:
                    out = out & ~(1 << offset + k) | (value >> 8 * k & 1) << offset + k
        elif offset != self._DIN:
            super().write(offset, value, lanes)
            out = self.words[self._DOUT]
        self.words[self._DOUT] = out
        self._changed()

    def level(self, pin: int) -> int:
        """Give the level of an output, 0 where the pin is none."""
        drives = self._ioc.is_gpio(pin) and self.words[self._DOE] >> pin & 1
        return self.words[self._DOUT] >> pin & 1 if drives else 0

    def sends(self, pin: int, port: int) -> bool:
        """Tell whether a pin is switched to this port."""
        return self._ioc.sends(pin, port)

    def receives(self, pin: int, port: int) -> bool:
        """Tell whether a pin is switched to this port and its input is on."""
        return self._ioc.receives(pin, port)
