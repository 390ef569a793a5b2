"""What an image's instructions cost on a core, as prefix sums: cycles, kind, refill after a taken branch. Static.

What one instruction costs is the core's to say: costs_armv6m.py, costs_armv7m.py. Left out on every core: what
depends on neighbouring instructions, on data or on other bus masters; docs/cycle-model.md lists it. Never compared
with silicon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from capstone import CS_ARCH_ARM, CS_MODE_MCLASS, CS_MODE_THUMB, Cs

from instruments.sim.dut.image import Image

KINDS = ("alu", "branch", "load", "store", "multiply", "divide", "nop", "other")
# Currents are integers of this size in the tables, so that charge adds up exactly and in any order.
QUANTUM_A = 1e-9

# (units, kind, refill units if taken) of an instruction as capstone prints it: mnemonic, operands.
Cost = tuple[int, str, int]
CostFunction = Callable[[str, str], Cost]


@dataclass(frozen=True)
class CostTable:
    """Costs of a span of code as prefix sums, indexed by (address - base) / 2.

    Code between indices i and j costs ``units[j] - units[i]`` units, 2^`halvings` of which are a cycle, and
    ``charge[j] - charge[i]`` quanta of QUANTUM_A x 1 unit; it has ``count[j] - count[i]`` instructions. ``refill[j]``
    is what is added when control leaves the straight path after an instruction that ends at j. All int64, shape
    (n + 1,).
    """

    base: int
    units: np.ndarray
    charge: np.ndarray
    refill: np.ndarray
    count: np.ndarray
    halvings: int
    quanta: Mapping[str, int]


def cost_table(image: Image, cost: CostFunction, halvings: int, currents_a: Mapping[str, float]) -> CostTable:
    """Disassemble an image once into prefix sums."""
    quanta = {kind: round(currents_a[kind] / QUANTUM_A) for kind in KINDS}
    base = image.code[0][0]
    n = (max(start + len(content) for start, content in image.code) - base) // 2
    units, charge, refill, count = np.zeros((4, n + 1), dtype=np.int64)
    decoder = Cs(CS_ARCH_ARM, CS_MODE_THUMB | CS_MODE_MCLASS)
    decoder.skipdata = True
    for start, content in image.code:
        for address, size_bytes, mnemonic, operands in decoder.disasm_lite(content, start):
            stop = (address + size_bytes - base) // 2
            units[stop], kind, refill[stop] = cost(mnemonic, operands)
            charge[stop] = units[stop] * quanta[kind]
            count[stop] = 1
    return CostTable(base, units.cumsum(), charge.cumsum(), refill, count.cumsum(), halvings, quanta)
