"""The cores that boards have: which model of the emulator, what is in their private space, what instructions cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unicorn.arm_const import (
    UC_CPU_ARM_CORTEX_M0,
    UC_CPU_ARM_CORTEX_M3,
    UC_CPU_ARM_CORTEX_M4,
    UC_CPU_ARM_CORTEX_M7,
)

from instruments.sim.dut import costs_armv6m, costs_armv7m
from instruments.sim.dut.costs import CostFunction

CPUID, CCR = 0xED00, 0xED14
CLIDR, CCSIDR, CSSELR = 0xED78, 0xED80, 0xED84


@dataclass(frozen=True)
class Core:
    """One kind of core.

    A unit of `cost` is a cycle / 2^`halvings`. `reset` holds words of the private space by offset from 0xE000_0000.
    `has_cycle_counter`: DWT_CYCCNT is there. `dwt_locks`: firmware must unlock the DWT (LAR) before it writes to it.
    `caches`: CCSIDR of the data cache and of the instruction cache, empty where there is none.
    """

    emulator_model: int
    cost: CostFunction
    reset: Mapping[int, int]
    halvings: int = 0
    has_cycle_counter: bool = True
    dwt_locks: bool = False
    caches: tuple[int, ...] = field(default=())


# CPUID: the revisions in the chips of the boards. CCR: STKALIGN set on ARMv6-M and on the M4, M7 (DDI 0419, B3.2.8; DDI
# 0403, B3.2.8), and BP on the M7. CCSIDR of 16 KiB: ARM DDI 0489, table 4-3 (cache size encodings).
CORES: Mapping[str, Core] = {
    "cortex-m0": Core(
        UC_CPU_ARM_CORTEX_M0, costs_armv6m.cost, {CPUID: 0x410C_C200, CCR: 0x208}, has_cycle_counter=False
    ),
    "cortex-m3": Core(UC_CPU_ARM_CORTEX_M3, costs_armv7m.cost_m3, {CPUID: 0x411F_C231}),
    "cortex-m4": Core(UC_CPU_ARM_CORTEX_M4, costs_armv7m.cost_m4, {CPUID: 0x410F_C241, CCR: 0x200}),
    "cortex-m7": Core(
        UC_CPU_ARM_CORTEX_M7,
        costs_armv7m.cost_m7,
        {CPUID: 0x411F_C270, CCR: 0x4_0200, CLIDR: 0x0900_0003},
        halvings=costs_armv7m.M7_HALVINGS,
        dwt_locks=True,
        caches=(0xF00F_E019, 0xF01F_E009),
    ),
}


def find_core(name: str) -> Core:
    """Return the core that a board's `core` names. Raises ValueError for one without a model."""
    if name not in CORES:
        raise ValueError(f"no model of core {name!r}; there is one of {', '.join(CORES)}")
    return CORES[name]
