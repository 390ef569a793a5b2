"""GPIO ports of the STM32 families, in both of their layouts.

Sources: ST RM0041, GPIO (F1: two bits of mode and two of configuration a pin); RM0091, RM0090, RM0410, GPIO (F0, F4,
F7: MODER and alternate function numbers).
"""

from __future__ import annotations

from collections.abc import Callable

from instruments.sim.dut.registers import ALL_LANES, Registers

_OUTPUT, _ALTERNATE = 1, 2


class GpioF1(Registers):
    """One port of an STM32F1: levels of its output pins. `changed` is called after every write that was taken."""

    _CRL, _CRH, _IDR, _ODR, _BSRR, _BRR = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x14

    def __init__(self, clocked: Callable[[], bool], changed: Callable[[], None]) -> None:
        super().__init__({self._CRL: 0x4444_4444, self._CRH: 0x4444_4444, self._ODR: 0}, clocked)
        self._changed = changed

    def get(self, offset: int) -> int:
        """Read one word. BSRR and BRR read 0; inputs (IDR) show the outputs only."""
        if offset in (self._BSRR, self._BRR):
            return 0
        if offset == self._IDR:
            return sum(self.level(pin) << pin for pin in range(16))
        return super().get(offset)

    def put(self, offset: int, value: int) -> None:
        """Write one word. In BSRR the set bit wins over the reset bit."""
        if offset == self._BSRR:
            self.words[self._ODR] = self.words[self._ODR] & ~(value >> 16) | value & 0xFFFF
        elif offset == self._BRR:
            self.words[self._ODR] &= ~(value & 0xFFFF)
        elif offset != self._IDR:
            self.words[offset] = value & 0xFFFF if offset == self._ODR else value
        self._changed()

    def level(self, pin: int) -> int:
        """Give the level of a general-purpose output, 0 where the pin is none."""
        mode = self._mode(pin)
        return self.words[self._ODR] >> pin & 1 if mode & 3 and not mode & 8 else 0

    def sends(self, pin: int, _function: int) -> bool:
        """Tell whether a pin is an output of a peripheral."""
        mode = self._mode(pin)
        return bool(mode & 3 and mode & 8)

    def receives(self, pin: int, _function: int) -> bool:
        """Tell whether a pin is a digital input."""
        mode = self._mode(pin)
        return not mode & 3 and mode >> 2 in (1, 2)

    def _mode(self, pin: int) -> int:
        return self.words[self._CRL if pin < 8 else self._CRH] >> 4 * (pin & 7) & 0xF


# MODER, OSPEEDR and PUPDR of the ports that carry the debugger's pins; all others are 0 at reset.
_RESET_F0 = {"A": (0x2800_0000, 0x0C00_0000, 0x2400_0000)}
_RESET_F4 = {"A": (0xA800_0000, 0x0C00_0000, 0x6400_0000), "B": (0x0000_0280, 0x0000_00C0, 0x0000_0100)}


class GpioModer(Registers):
    """One port of an STM32F0, F4 or F7: levels of its output pins. `changed` is told every write that was taken.

    Only the F0 has the register BRR.
    """

    _MODER, _OSPEEDR, _PUPDR, _IDR, _ODR, _BSRR, _BRR = 0x00, 0x08, 0x0C, 0x10, 0x14, 0x18, 0x28
    _AFRL = 0x20

    def __init__(self, family: str, port: str, clocked: Callable[[], bool], changed: Callable[[], None]) -> None:
        moder, ospeedr, pupdr = (_RESET_F0 if family == "stm32f0" else _RESET_F4).get(port, (0, 0, 0))
        super().__init__({self._MODER: moder, self._OSPEEDR: ospeedr, self._PUPDR: pupdr, self._ODR: 0}, clocked)
        self._changed = changed
        self._has_brr = family == "stm32f0"

    def get(self, offset: int) -> int:
        """Read one word. BSRR and BRR read 0; inputs (IDR) show the outputs only."""
        if offset in (self._BSRR, self._BRR):
            return 0
        if offset == self._IDR:
            return sum(self.level(pin) << pin for pin in range(16))
        return super().get(offset)

    def write(self, offset: int, value: int, lanes: int = ALL_LANES) -> None:
        """Write one word, or a part of it. In BSRR the set bit wins over the reset bit."""
        if not self._clocked():
            return
        value &= lanes
        if offset == self._BSRR:
            self.words[self._ODR] = self.words[self._ODR] & ~(value >> 16) | value & 0xFFFF
        elif offset == self._BRR:
            self.words[self._ODR] &= ~(value & 0xFFFF) if self._has_brr else ALL_LANES
        elif offset != self._IDR:
            word = value | self.words.get(offset, 0) & ~lanes
            self.words[offset] = word & 0xFFFF if offset == self._ODR else word
        self._changed()

    def level(self, pin: int) -> int:
        """Give the level of a general-purpose output, 0 where the pin is none."""
        return self.words[self._ODR] >> pin & 1 if self._mode(pin) == _OUTPUT else 0

    def sends(self, pin: int, function: int) -> bool:
        """Tell whether a pin is switched to this alternate function."""
        number = self.words.get(self._AFRL + 4 * (pin >> 3), 0) >> 4 * (pin & 7) & 0xF
        return self._mode(pin) == _ALTERNATE and number == function

    # A pin of a peripheral is switched the same way in both directions.
    receives = sends

    def _mode(self, pin: int) -> int:
        return self.words[self._MODER] >> 2 * pin & 3
