"""A general-purpose timer of the STM32F0 that counts up, as a stopwatch: CR1, EGR, CNT, PSC, ARR.

Source: ST RM0091, TIM2 (32 bits). A new prescaler takes effect at an update event: EGR.UG, or the counter's overflow.
"""

from __future__ import annotations

from collections.abc import Callable

from instruments.sim.dut.registers import ALL_LANES, Registers

_CR1, _EGR, _CNT, _PSC, _ARR = 0x00, 0x14, 0x24, 0x28, 0x2C
_ENABLE, _UPDATE = 1, 1


class Timer(Registers):
    """Count the timer's clock, which is the core's times `ratio()` (the APB prescaler's doing)."""

    def __init__(self, cycles: Callable[[], int], ratio: Callable[[], float], clocked: Callable[[], bool]) -> None:
        super().__init__({_ARR: ALL_LANES}, clocked)
        self._cycles, self._ratio = cycles, ratio
        self._since = 0
        self._prescaler = 0

    def get(self, offset: int) -> int:
        """Read one word."""
        if offset == _CNT:
            return self._count()
        return 0 if offset == _EGR else super().get(offset)

    def put(self, offset: int, value: int) -> None:
        """Write one word."""
        count = self._count()
        if offset == _EGR:
            if not value & _UPDATE:
                return
            count, self._prescaler = 0, self.words.get(_PSC, 0) & 0xFFFF
        elif offset == _CNT:
            count = value
        else:
            super().put(offset, value)
        self.words[_CNT] = count
        self._since = self._cycles()

    def _count(self) -> int:
        ticks = 0
        if self.words.get(_CR1, 0) & _ENABLE:
            ticks = int((self._cycles() - self._since) * self._ratio()) // (self._prescaler + 1)
        return (self.words.get(_CNT, 0) + ticks) % (self.words[_ARR] + 1)
