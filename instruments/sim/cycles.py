"""What each instruction costs on a Cortex-M3: cycles, kind, refill after a taken branch. A static model.

Source: ARM DDI 0337 (Cortex-M3 Technical Reference Manual, r2p1), table 3-1 and section 3.3.2, zero wait states (the
STM32F100 has none at its 24 MHz).
Where the manual gives a range the middle is taken, rounded down: refill P 2 (1 to 3), UMULL and SMULL 4 (3 to 5),
UMLAL and SMLAL 5 (4 to 7), SDIV and UDIV 7 (2 to 12).
Left out: pipelining of neighbouring loads and stores, address stalls after data processing, contention of literal
loads with the fetch, folding of IT, early ends of multiplication and division, alignment of wide branch targets. An
instruction that its IT block skips costs as if it ran. Never compared with silicon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from capstone import CS_ARCH_ARM, CS_MODE_MCLASS, CS_MODE_THUMB, Cs

from instruments.sim.image import Image

KINDS = ("alu", "branch", "load", "store", "multiply", "divide", "nop", "other")
# Currents are integers of this size in the tables, so that charge adds up exactly and in any order.
QUANTUM_A = 1e-9
REFILL_CYCLES = 2

_CONDITIONS = ["eq", "ne", "cs", "hs", "cc", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"]
_BRANCHES = {"cbz", "cbnz"} | {name + c for name in ("b", "bx", "bl", "blx") for c in ("", *_CONDITIONS)}
_OTHERS = {"mrs", "msr", "cpsid", "cpsie", "dmb", "dsb", "isb", "wfi", "wfe", "sev", "svc", "bkpt", "udf", "clrex"}
_REGISTERS = {"sb": 9, "sl": 10, "fp": 11, "ip": 12, "sp": 13, "lr": 14, "pc": 15} | {f"r{i}": i for i in range(16)}


@dataclass(frozen=True)
class CostTable:
    """Costs of a span of code as prefix sums, indexed by (address - base) / 2.

    Code between indices i and j costs ``cycles[j] - cycles[i]`` cycles and ``charge[j] - charge[i]`` quanta of
    QUANTUM_A x 1 cycle. ``refill[j]`` is what is added when control leaves the straight path after an instruction
    that ends at j. All int64, shape (n + 1,).
    """

    base: int
    cycles: np.ndarray
    charge: np.ndarray
    refill: np.ndarray
    branch_quanta: int
    default_quanta: int


def cost_table(image: Image, core: str, currents_a: Mapping[str, float]) -> CostTable:
    """Disassemble an image once into prefix sums. Raises ValueError for a core without a model."""
    if core != "cortex-m3":
        raise ValueError(f"no cycle model for core {core!r}; there is one for cortex-m3")
    quanta = {kind: round(currents_a[kind] / QUANTUM_A) for kind in KINDS}
    base = image.code[0][0]
    n = (max(start + len(content) for start, content in image.code) - base) // 2
    cycles = np.zeros(n + 1, dtype=np.int64)
    charge = np.zeros(n + 1, dtype=np.int64)
    refill = np.zeros(n + 1, dtype=np.int64)
    decoder = Cs(CS_ARCH_ARM, CS_MODE_THUMB | CS_MODE_MCLASS)
    decoder.skipdata = True
    for start, content in image.code:
        for address, size_bytes, mnemonic, operands in decoder.disasm_lite(content, start):
            stop = (address + size_bytes - base) // 2
            cycles[stop], kind, refill[stop] = cost(mnemonic, operands)
            charge[stop] = cycles[stop] * quanta[kind]
    return CostTable(base, cycles.cumsum(), charge.cumsum(), refill, quanta["branch"], quanta["alu"])


def cost(mnemonic: str, operands: str) -> tuple[int, str, int]:
    """Give (cycles, kind, refill cycles if taken) of one instruction as capstone prints it."""
    name = mnemonic.split(".", maxsplit=1)[0]
    if name in _BRANCHES:
        return 1, "branch", REFILL_CYCLES
    if name in ("tbb", "tbh"):
        # Two for the load, one for the sum, at least three to reload: six in all (section 3.3.2).
        return 6 - REFILL_CYCLES, "branch", REFILL_CYCLES
    if name in _OTHERS:
        return 1, "other", 0
    if name == "nop" or (name.startswith("it") and set(name[2:]) <= {"t", "e"}):
        return 1, "nop", 0
    if name.startswith(("ldm", "pop", "stm", "push", "ldr", "str")):
        return _memory(name, operands)
    to_pc = operands.startswith("pc")
    for prefixes, n_cycles, kind in (
        (("umull", "smull"), 4, "multiply"),
        (("umlal", "smlal"), 5, "multiply"),
        (("mla", "mls"), 2, "multiply"),
        (("mul",), 1, "multiply"),
        (("udiv", "sdiv"), 7, "divide"),
    ):
        if name.startswith(prefixes):
            return n_cycles, kind, 0
    return 1, "branch" if to_pc else "alu", REFILL_CYCLES if to_pc else 0


def _memory(name: str, operands: str) -> tuple[int, str, int]:
    kind = "load" if name.startswith(("ld", "pop")) else "store"
    if "{" in operands:
        refill = REFILL_CYCLES if kind == "load" and "pc" in operands.split("{")[1] else 0
        return 1 + _n_registers(operands), kind, refill
    if name.startswith(("ldrd", "strd")):
        return 3, kind, 0
    if kind == "load":
        return 2, kind, REFILL_CYCLES if operands.startswith("pc") else 0
    # A store with an immediate offset is one cycle: the write buffer takes it (section 3.3.2). STREX goes as a load.
    inside = operands[operands.find("[") + 1 :].rstrip("]!").split(",")
    by_register = len(inside) > 1 and "#" not in inside[1]
    return 2 if by_register or name.startswith("strex") else 1, kind, 0


def _n_registers(operands: str) -> int:
    n = 0
    for part in operands[operands.find("{") + 1 : operands.find("}")].split(","):
        ends = [_REGISTERS[name.strip()] for name in part.split("-")]
        n += ends[-1] - ends[0] + 1
    return n
