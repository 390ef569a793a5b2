"""UART of the CC26x2, an Arm PL011. Sources: TI SWCU185, UART; ARM DDI 0183 (PL011 technical reference manual)."""

from __future__ import annotations

from collections.abc import Callable

from instruments.sim.dut.serial_port import SerialPort, Wires

_DR, _FR, _IBRD, _FBRD, _LCRH, _CTL, _IFLS = 0x00, 0x18, 0x24, 0x28, 0x2C, 0x30, 0x34
_RXFE, _TXFE = 1 << 4, 1 << 7
_UARTEN, _TXE, _RXE = 1 << 0, 1 << 8, 1 << 9
_WLEN_8 = 3 << 5


class Pl011(SerialPort):
    """The transmit FIFO is always empty. The divisor takes effect when LCRH is written; other than 8 bits garbles."""

    size_bytes = 0x1000

    def __init__(self, wires: Wires, clocked: Callable[[], bool]) -> None:
        super().__init__(wires, {_CTL: _TXE | _RXE, _IFLS: 0x12}, clocked)
        self._divisor_64ths = 0

    def baud(self) -> float:
        """Give clock / (16 x divisor), the divisor in 64ths; 0 unless characters have 8 bits."""
        if not self._divisor_64ths or self.words.get(_LCRH, 0) & _WLEN_8 != _WLEN_8:
            return 0.0
        return self.wires.clock_hz() * 4 / self._divisor_64ths

    def get(self, offset: int) -> int:
        """Read one word. DR takes a byte from the queue."""
        if offset == _FR:
            return _TXFE | (0 if self.poll(self._enabled(_RXE)) else _RXFE)
        return self.take() if offset == _DR else super().get(offset)

    def put(self, offset: int, value: int) -> None:
        """Write one word. DR sends a byte."""
        if offset == _DR:
            self.send(value, self._enabled(_TXE))
        elif offset != _FR:
            super().put(offset, value)
            if offset == _LCRH:
                self._divisor_64ths = (self.words.get(_IBRD, 0) & 0xFFFF) * 64 + (self.words.get(_FBRD, 0) & 0x3F)

    def _enabled(self, direction: int) -> bool:
        needed = _UARTEN | direction
        return self.words[_CTL] & needed == needed
