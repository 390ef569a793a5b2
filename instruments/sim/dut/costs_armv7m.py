"""What each instruction costs on a Cortex-M3, M4 and M7, zero wait states.

M3: ARM DDI 0337 (Cortex-M3 Technical Reference Manual, r2p1), table 3-1 and section 3.3.2. M4: ARM DDI 0439 (Cortex-M4
Technical Reference Manual), table 3-1 and section 3.3.2; its multiplications with accumulation and with 64-bit results
take one cycle, the rest is the M3's. Where a manual gives a range the middle is taken, rounded down: refill P 2 (1 to
3), on the M3 UMULL and SMULL 4 (3 to 5), UMLAL and SMLAL 5 (4 to 7), SDIV and UDIV 7 (2 to 12).

M7: ARM DDI 0489 (Cortex-M7 Technical Reference Manual) has no such table. It says that the core issues two instructions
a cycle and predicts branches. CRUDE ASSUMPTION: everything takes half of the M4's cycles, as if every two instructions
paired, but divisions, barriers and special registers, which take the M4's; a taken branch adds one cycle.

An instruction that its IT block skips costs as if it ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from instruments.sim.dut.costs import Cost
from instruments.sim.dut.operands import conditional, loads_pc, n_registers

REFILL_CYCLES = 2
# On the M7 a unit is half a cycle.
M7_HALVINGS = 1
_M7_REFILL_UNITS = 2
_M7_UNPAIRED = {"divide", "other"}

_BRANCHES = {"cbz", "cbnz"} | conditional("b", "bx", "bl", "blx")
_OTHERS = {"mrs", "msr", "cpsid", "cpsie", "dmb", "dsb", "isb", "wfi", "wfe", "sev", "svc", "bkpt", "udf", "clrex"}


@dataclass(frozen=True)
class _Multiplier:
    """Cycles by the start of the name; the first that fits holds."""

    cycles: Mapping[str, int] = field(default_factory=dict)

    def find(self, name: str) -> int | None:
        return next((cycles for start, cycles in self.cycles.items() if name.startswith(start)), None)


_M3 = _Multiplier({"umull": 4, "smull": 4, "umlal": 5, "smlal": 5, "mla": 2, "mls": 2, "mul": 1})
# All of the M4's, the DSP extension's too, take one cycle.
_M4 = _Multiplier(dict.fromkeys(("umull", "umlal", "umaal", "smu", "sml", "smm", "mla", "mls", "mul", "usad"), 1))


def cost_m3(mnemonic: str, operands: str) -> Cost:
    """Give (cycles, kind, refill cycles if taken) of one instruction."""
    return _cost(mnemonic, operands, _M3)


def cost_m4(mnemonic: str, operands: str) -> Cost:
    """Give (cycles, kind, refill cycles if taken) of one instruction."""
    return _cost(mnemonic, operands, _M4)


def cost_m7(mnemonic: str, operands: str) -> Cost:
    """Give (half cycles, kind, refill half cycles if taken) of one instruction."""
    cycles, kind, refill = _cost(mnemonic, operands, _M4)
    return cycles * (2 if kind in _M7_UNPAIRED else 1), kind, _M7_REFILL_UNITS if refill else 0


def _cost(mnemonic: str, operands: str, multiplier: _Multiplier) -> Cost:
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
    if name.startswith(("udiv", "sdiv")):
        return 7, "divide", 0
    n_cycles = multiplier.find(name)
    if n_cycles is not None:
        return n_cycles, "multiply", 0
    to_pc = operands.startswith("pc")
    return 1, "branch" if to_pc else "alu", REFILL_CYCLES if to_pc else 0


def _memory(name: str, operands: str) -> Cost:
    kind = "load" if name.startswith(("ld", "pop")) else "store"
    if "{" in operands:
        return 1 + n_registers(operands), kind, REFILL_CYCLES if kind == "load" and loads_pc(operands) else 0
    if name.startswith(("ldrd", "strd")):
        return 3, kind, 0
    if kind == "load":
        return 2, kind, REFILL_CYCLES if operands.startswith("pc") else 0
    # A store with an immediate offset is one cycle: the write buffer takes it (section 3.3.2). STREX goes as a load.
    inside = operands[operands.find("[") + 1 :].rstrip("]!").split(",")
    by_register = len(inside) > 1 and "#" not in inside[1]
    return 2 if by_register or name.startswith("strex") else 1, kind, 0
