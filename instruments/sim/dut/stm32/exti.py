"""The external interrupt controller of the STM32 families, for its lines inside the chip.

Source: ST RM0041, RM0091, RM0090, RM0410, EXTI. A rising edge on a line whose bit in RTSR is set makes it pending in
PR, and where IMR lets it pass, its interrupt in the NVIC. Events (EMR, for WFE) are not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from instruments.sim.dut.cortexm import Nvic
from instruments.sim.dut.registers import Registers

_IMR, _RTSR, _PR = 0x00, 0x08, 0x14


class Exti(Registers):
    """IMR, RTSR and PR; `irqs` are the interrupts of lines. `before` is called first: edges that are due come then."""

    def __init__(self, nvic: Nvic, irqs: Mapping[int, int], before: Callable[[], None]) -> None:
        super().__init__()
        self._nvic, self._irqs, self._before = nvic, irqs, before

    def get(self, offset: int) -> int:
        """Read one word."""
        self._before()
        return super().get(offset)

    def put(self, offset: int, value: int) -> None:
        """Write one word; in PR every 1 clears."""
        self._before()
        super().put(offset, self.words.get(_PR, 0) & ~value if offset == _PR else value)

    def rise(self, line: int) -> None:
        """Take a rising edge."""
        if self.words.get(_RTSR, 0) >> line & 1:
            self.words[_PR] = self.words.get(_PR, 0) | 1 << line
            if self.words.get(_IMR, 0) >> line & 1:
                self._nvic.pend(self._irqs[line])

    def wakes(self, line: int) -> bool:
        """Tell whether an edge would wake the core from WFI."""
        passes = self.words.get(_RTSR, 0) & self.words.get(_IMR, 0)
        return bool(passes >> line & 1 and self._nvic.enabled >> self._irqs[line] & 1)

    @property
    def pending(self) -> bool:
        """Tell whether a line is pending and passes: stop mode is not entered then."""
        return bool(self.words.get(_PR, 0) & self.words.get(_IMR, 0))
