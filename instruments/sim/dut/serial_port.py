"""What every serial port shares: a queue of bytes, a wire that may be cut, a rate that may be wrong, an idle poll."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from instruments.sim.dut.registers import Registers

# The one rate that the bench speaks, and how far off a receiver still reads ten bits right: half a bit in ten, shared
# by both ends.
BAUD = 115_200
BAUD_TOLERANCE_RATIO = 0.025
# Reads of the status register that find nothing to do, after which the firmware counts as waiting for input.
N_EMPTY_POLLS = 50


@dataclass(frozen=True)
class Wires:
    """What a port is wired to.

    `sends`, `receives`: the pin is switched to the port. `clock_hz`: the port's clock. `received` holds bytes from
    outside, `sent` takes each that reaches the wire, `waiting` the number of polls in a row that found nothing.
    """

    sends: Callable[[], bool]
    receives: Callable[[], bool]
    clock_hz: Callable[[], float]
    received: deque[int]
    sent: Callable[[int], None]
    waiting: Callable[[int], None]


class SerialPort(Registers, ABC):
    """A port; sending takes no emulated time, and what is received is never overrun."""

    def __init__(self, wires: Wires, reset: dict[int, int], clocked: Callable[[], bool]) -> None:
        super().__init__(reset, clocked)
        self.wires = wires
        self._n_empty_polls = 0

    @abstractmethod
    def baud(self) -> float:
        """Give the rate that the registers and the clock select, 0 where none."""

    def poll(self, listening: bool) -> bool:
        """Tell whether a byte can be read; firmware that only asks is told to wait."""
        if self.wires.received and listening and self.wires.receives():
            self._n_empty_polls = 0
            return True
        self._n_empty_polls += 1
        self.wires.waiting(self._n_empty_polls)
        return False

    def take(self) -> int:
        """Take a byte from the queue, 0 where there is none."""
        return self._through(self.wires.received.popleft()) if self.wires.received else 0

    def send(self, byte: int, talking: bool) -> None:
        """Send a byte where transmitter and pin are set up."""
        self._n_empty_polls = 0
        if talking and self.wires.sends():
            self.wires.sent(self._through(byte & 0xFF))

    def _through(self, byte: int) -> int:
        # At a wrong rate something comes, and it is not what was sent.
        return byte if abs(self.baud() / BAUD - 1.0) <= BAUD_TOLERANCE_RATIO else (byte * 73 + 151) & 0xFF | 0x80
