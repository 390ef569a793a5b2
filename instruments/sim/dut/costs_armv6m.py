"""What each instruction costs on a Cortex-M0. Source: ARM DDI 0432 (Cortex-M0 Technical Reference Manual), section 3.3,
table 3-1, zero wait states, with the fast multiplier, which the STM32F0 has (RM0091, and ST PM0215, MULS: one cycle).

The manual gives one number for each instruction but branches, so nothing is averaged. Whole numbers of the table, split
here into what always passes and what a taken branch adds: B 3 taken, 1 not; BL 4; BX, BLX, MOV PC and ADD PC 3;
POP with the program counter 4 + N.
"""

from __future__ import annotations

from instruments.sim.dut.costs import Cost
from instruments.sim.dut.operands import conditional, loads_pc, n_registers

_BRANCHES = conditional("b") | {"bx", "blx"}
_FOUR_CYCLES = {"mrs", "msr", "dmb", "dsb", "isb"}
_OTHERS = {"cpsid": 1, "cpsie": 1, "wfi": 2, "wfe": 2, "sev": 1, "svc": 1, "bkpt": 1, "udf": 1} | dict.fromkeys(
    _FOUR_CYCLES, 4
)


def cost(mnemonic: str, operands: str) -> Cost:
    """Give (cycles, kind, refill cycles if taken) of one instruction."""
    name = mnemonic.split(".", maxsplit=1)[0]
    if name in _BRANCHES:
        return 1, "branch", 2
    if name == "bl":
        return 1, "branch", 3
    if name in _OTHERS:
        return _OTHERS[name], "other", 0
    if name in ("nop", "yield"):
        return 1, "nop", 0
    if name.startswith(("ldm", "pop")):
        return 1 + n_registers(operands), "load", 3 if loads_pc(operands) else 0
    if name.startswith(("stm", "push")):
        return 1 + n_registers(operands), "store", 0
    if name.startswith(("ldr", "str")):
        return 2, "load" if name.startswith("l") else "store", 0
    if name.startswith("mul"):
        return 1, "multiply", 0
    to_pc = operands.startswith("pc")
    return 1, "branch" if to_pc else "alu", 2 if to_pc else 0
