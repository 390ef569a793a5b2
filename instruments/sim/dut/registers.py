"""What every peripheral is: words at offsets, with reset values, that a clock gate may put out of reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

ALL_LANES = 0xFFFF_FFFF


class EngineFault(Exception):
    """The firmware did what the chip cannot do, or what is not modelled: what, where, in which function."""


class Peripheral(Protocol):
    """A block of registers, addressed by offset in whole words."""

    # How much of the address space it takes, from its address on.
    size_bytes: int

    def read(self, offset: int) -> int:
        """Read one word."""

    def write(self, offset: int, value: int, lanes: int = ALL_LANES) -> None:
        """Write the bits of one word that `lanes` holds; those of `value` lie in their place."""


def always() -> bool:
    """Stand for the clock of a peripheral without a clock gate."""
    return True


class Registers:
    """Words that read back what was written, over their reset values; `changed` is told after each write.

    Without its clock a block takes no writes and reads 0. Families override `get` and `put`.
    """

    size_bytes = 0x400

    def __init__(self, reset: Mapping[int, int] | None = None, clocked: Callable[[], bool] = always) -> None:
        self.words: dict[int, int] = dict(reset or {})
        self._clocked = clocked

    def read(self, offset: int) -> int:
        """Read one word."""
        return self.get(offset) if self._clocked() else 0

    def write(self, offset: int, value: int, lanes: int = ALL_LANES) -> None:
        """Write one word, or the part of it that `lanes` holds."""
        if self._clocked():
            self.put(offset, value & lanes | self.words.get(offset, 0) & ~lanes)

    def get(self, offset: int) -> int:
        """Give a word as the core reads it."""
        return self.words.get(offset, 0)

    def put(self, offset: int, value: int) -> None:
        """Take a whole word."""
        self.words[offset] = value


class ClockTree(Protocol):
    """What a chip's clock control tells the rest of the chip."""

    def core_hz(self) -> float:
        """Give the clock of the core."""

    def serial_hz(self, enable_offset: int) -> float:
        """Give the clock of the serial port whose clock enable lies at this offset."""

    def gate(self, offset: int, bit: int) -> Callable[[], bool]:
        """Give a question: is the clock with this enable bit on?"""

    def objection(self) -> str:
        """Say why the chip fails at its present clocks; empty where it does not."""
