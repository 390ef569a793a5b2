"""USARTs of the STM32 families: with SR and DR (F1, F4), with ISR, RDR and TDR (F0, F7).

Sources: ST RM0041 and RM0090, USART; RM0091 and RM0410, USART. TXE and TC are always set: sending takes no time.
"""

from __future__ import annotations

from collections.abc import Callable

from instruments.sim.dut.registers import ALL_LANES
from instruments.sim.dut.serial_port import SerialPort, Wires

_RXNE, _TC, _TXE = 1 << 5, 1 << 6, 1 << 7
_TE, _RE = 1 << 3, 1 << 2
_OVER8 = 1 << 15


class UsartV1(SerialPort):
    """USART of F1 and F4. The F1 has no OVER8 and its bit stays 0."""

    _SR, _DR, _BRR, _CR1 = 0x00, 0x04, 0x08, 0x0C
    _UE = 1 << 13

    def __init__(self, wires: Wires, clocked: Callable[[], bool]) -> None:
        super().__init__(wires, {}, clocked)

    def baud(self) -> float:
        """Give the rate: BRR holds sixteenths in its lowest four bits, with OVER8 eighths in three of them."""
        brr = self.words.get(self._BRR, 0)
        if self.words.get(self._CR1, 0) & _OVER8:
            brr = (brr >> 4) * 8 + (brr & 7)
        return self.wires.clock_hz() / brr if brr else 0.0

    def get(self, offset: int) -> int:
        """Read one word. DR takes a byte from the queue."""
        if offset == self._SR:
            return _TXE | _TC | (_RXNE if self.poll(self._enabled(_RE)) else 0)
        return self.take() if offset == self._DR else super().get(offset)

    def put(self, offset: int, value: int) -> None:
        """Write one word. DR sends a byte."""
        if offset == self._DR:
            self.send(value, self._enabled(_TE))
        elif offset != self._SR:
            super().put(offset, value)

    def _enabled(self, direction: int) -> bool:
        needed = self._UE | direction
        return self.words.get(self._CR1, 0) & needed == needed


class UsartV2(SerialPort):
    """USART of F0 and F7. BRR takes no writes while the port is on (UE)."""

    _CR1, _BRR, _RQR, _ISR, _ICR, _RDR, _TDR = 0x00, 0x0C, 0x18, 0x1C, 0x20, 0x24, 0x28
    _UE = 1 << 0
    _TEACK, _REACK = 1 << 21, 1 << 22

    def __init__(self, wires: Wires, clocked: Callable[[], bool]) -> None:
        super().__init__(wires, {}, clocked)

    def baud(self) -> float:
        """Give the rate: clock / BRR, or with OVER8 2 clock / BRR where BRR[2:0] is shifted right by one."""
        brr = self.words.get(self._BRR, 0)
        if self.words.get(self._CR1, 0) & _OVER8:
            brr = brr & 0xFFF0 | (brr & 7) << 1
            return 2 * self.wires.clock_hz() / brr if brr else 0.0
        return self.wires.clock_hz() / brr if brr else 0.0

    def get(self, offset: int) -> int:
        """Read one word. RDR takes a byte from the queue."""
        if offset == self._ISR:
            flags = _TXE | _TC | (self._TEACK if self._enabled(_TE) else 0) | (self._REACK if self._enabled(_RE) else 0)
            return flags | (_RXNE if self.poll(self._enabled(_RE)) else 0)
        if offset == self._RDR:
            return self.take()
        return 0 if offset in (self._TDR, self._RQR, self._ICR) else super().get(offset)

    def write(self, offset: int, value: int, lanes: int = ALL_LANES) -> None:
        """Write one word. TDR sends a byte, RQR may drop the one received."""
        if not self._clocked():
            return
        if offset == self._TDR:
            self.send(value, self._enabled(_TE))
        elif offset == self._RQR:
            if value & 1 << 3 and self.wires.received:  # RXFRQ
                self.wires.received.popleft()
        elif offset == self._BRR and self.words.get(self._CR1, 0) & self._UE:
            return
        elif offset not in (self._ISR, self._ICR, self._RDR):
            super().write(offset, value, lanes)

    def _enabled(self, direction: int) -> bool:
        needed = self._UE | direction
        return self.words.get(self._CR1, 0) & needed == needed
