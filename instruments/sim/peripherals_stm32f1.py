"""Reset and clock control, GPIO ports and USART of the STM32F100, as far as firmware can tell.

Source: ST RM0041 (STM32F100xx reference manual), register descriptions of RCC, GPIO and USART. A peripheral whose
clock is off takes no writes and reads 0. Sending takes no emulated time: TXE and TC are always set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

SIZE_BYTES = 0x400
# Reads of the status register that find nothing to do, after which the firmware counts as waiting for input.
N_EMPTY_POLLS = 50


class Peripheral(Protocol):
    """A block of registers, addressed by offset in whole words."""

    def read(self, offset: int) -> int:
        """Read one word."""

    def write(self, offset: int, value: int) -> None:
        """Write one word."""


class Rcc:
    """Switch clocks: an oscillator is ready as soon as it is enabled, the system clock follows SW when that is ready.

    With `hse_dead` the crystal never starts.
    """

    _CR, _CFGR, _CFGR2 = 0x00, 0x04, 0x2C

    def __init__(self, hsi_hz: float, hse_hz: float, hse_dead: bool = False) -> None:
        self._hsi_hz, self._hse_hz, self._hse_dead = hsi_hz, hse_hz, hse_dead
        # Reset: HSI on (CR 0x83), the flash interface clocked in sleep (AHBENR 0x14).
        self._words = {self._CR: 0x83, self._CFGR: 0, 0x14: 0x14}

    def read(self, offset: int) -> int:
        """Read one word."""
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Write one word; ready flags and SWS follow."""
        if offset == self._CR:
            value &= ~(1 << 1 | 1 << 17 | 1 << 25)
            value |= (value & 1) << 1 | (value & 1 << 24) << 1
            value |= 0 if self._hse_dead else (value & 1 << 16) << 1
            if self._pll_input_hz(value) == 0:
                value &= ~(1 << 25)
        elif offset == self._CFGR:
            value = value & ~0xC | self._words[self._CFGR] & 0xC
        self._words[offset] = value
        wanted, cfgr = self._words[self._CFGR] & 3, self._words[self._CFGR]
        if wanted < 3 and self._words[self._CR] >> (1, 17, 25)[wanted] & 1:
            self._words[self._CFGR] = cfgr & ~0xC | wanted << 2

    def enabled(self, offset: int, bit: int) -> bool:
        """Tell whether a clock enable bit is set."""
        return bool(self.read(offset) >> bit & 1)

    def clock_hz(self) -> float:
        """Give the core clock that the registers select."""
        cfgr = self._words[self._CFGR]
        source = cfgr >> 2 & 3
        hz = (self._hsi_hz, self._hse_hz, self._pll_input_hz(self._words[self._CR]) * self._pll_factor())[source]
        prescaler = cfgr >> 4 & 0xF
        return hz / (2, 4, 8, 16, 64, 128, 256, 512)[prescaler & 7] if prescaler & 8 else hz

    def _pll_input_hz(self, cr: int) -> float:
        cfgr = self._words[self._CFGR]
        if not cfgr & 1 << 16:
            return self._hsi_hz / 2
        if not cr & 1 << 17:
            return 0.0
        # PREDIV1 divides by 1 to 16; its lowest bit is also CFGR bit 17.
        return self._hse_hz / ((self._words.get(self._CFGR2, 0) & 0xE | cfgr >> 17 & 1) + 1)

    def _pll_factor(self) -> int:
        return min((self._words[self._CFGR] >> 18 & 0xF) + 2, 16)


class Gpio:
    """One port: levels of its output pins. `changed` is called after every write that was taken."""

    _CRL, _CRH, _ODR, _BSRR, _BRR = 0x00, 0x04, 0x0C, 0x10, 0x14

    def __init__(self, clocked: Callable[[], bool], changed: Callable[[], None]) -> None:
        self._clocked, self._changed = clocked, changed
        self._words = {self._CRL: 0x4444_4444, self._CRH: 0x4444_4444, self._ODR: 0}

    def read(self, offset: int) -> int:
        """Read one word. BSRR and BRR read 0; inputs (IDR) show the outputs only."""
        if not self._clocked() or offset in (self._BSRR, self._BRR):
            return 0
        if offset == 0x08:
            return sum(self.level(pin) << pin for pin in range(16))
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Write one word. In BSRR the set bit wins over the reset bit."""
        if not self._clocked():
            return
        if offset == self._BSRR:
            self._words[self._ODR] = self._words[self._ODR] & ~(value >> 16) | value & 0xFFFF
        elif offset == self._BRR:
            self._words[self._ODR] &= ~(value & 0xFFFF)
        else:
            self._words[offset] = value & 0xFFFF if offset == self._ODR else value
        self._changed()

    def level(self, pin: int) -> int:
        """Give the level of a general-purpose output, 0 where the pin is none."""
        mode = self._mode(pin)
        return self._words[self._ODR] >> pin & 1 if mode & 3 and not mode & 8 else 0

    def is_alternate(self, pin: int) -> bool:
        """Tell whether a pin is an output of a peripheral."""
        mode = self._mode(pin)
        return bool(mode & 3 and mode & 8)

    def _mode(self, pin: int) -> int:
        return self._words[self._CRL if pin < 8 else self._CRH] >> 4 * (pin & 7) & 0xF


class Usart:
    """A serial port. `sent` takes each byte that reaches the wire; `waiting` is called when the firmware only polls.

    `wired` tells whether the transmit pin is switched to the port. Received bytes wait in `received`; no overrun.
    """

    _SR, _DR, _CR1 = 0x00, 0x04, 0x0C

    def __init__(
        self,
        clocked: Callable[[], bool],
        wired: Callable[[], bool],
        received: deque[int],
        sent: Callable[[int], None],
        waiting: Callable[[int], None],
    ) -> None:
        self._clocked, self._wired = clocked, wired
        self._received, self._sent, self._waiting = received, sent, waiting
        self._words: dict[int, int] = {}
        self._n_empty_polls = 0

    def read(self, offset: int) -> int:
        """Read one word. DR takes a byte from the queue."""
        if not self._clocked():
            return 0
        if offset == self._SR:
            listening = self._enabled(1 << 2)
            if self._received and listening:
                self._n_empty_polls = 0
                return 0xE0
            self._n_empty_polls += 1
            self._waiting(self._n_empty_polls)
            return 0xC0
        if offset == self._DR:
            return self._received.popleft() if self._received else 0
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Write one word. DR sends a byte if transmitter and pin are set up."""
        if not self._clocked():
            return
        if offset == self._DR:
            self._n_empty_polls = 0
            if self._enabled(1 << 3) and self._wired():
                self._sent(value & 0xFF)
        else:
            self._words[offset] = value

    def _enabled(self, direction: int) -> bool:
        needed = 1 << 13 | direction
        return self._words.get(self._CR1, 0) & needed == needed


def clock_gate(rcc: Rcc, settings: Mapping[str, Any]) -> Callable[[], bool]:
    """Give a question to the RCC: is the clock of the peripheral with these board data on?"""
    enable = settings["clock_enable"]
    return lambda: rcc.enabled(enable["offset"], enable["bit"])
