"""What the flash adds to the cycles that the core's manual counts: wait states that prefetch and cache do not hide.

The rule for each interface is stated where it is made (stm32/flash.py) and in docs/cycle-model.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Waits:
    """Cycles that flash accesses add.

    `taken`: each taken branch, for the line of its target. `line`: each further line of code entered in sequence, and
    that of a target too. `data`: each data read from flash, literals included, that the data cache of `data_lines`
    lines (least recently used goes) does not hold. A line has `line_bytes`, a power of two.
    """

    line_bytes: int = 4
    taken: int = 0
    line: int = 0
    data: int = 0
    data_lines: int = 0


NO_WAITS = Waits()
