"""Models of the cores' own registers against their manuals, and costs of single instructions."""

from __future__ import annotations

from pathlib import Path

import pytest

from instruments.sim.dut import costs_armv6m, costs_armv7m
from instruments.sim.dut.cores import CORES, find_core
from instruments.sim.dut.cortexm import CoreRegisters, SysTick
from labctl import boards

CSR, RVR, CVR = 0xE010, 0xE014, 0xE018
COUNTFLAG = 1 << 16


class Clock:
    """A cycle counter that a test sets."""

    cycles = 0

    def __call__(self) -> int:
        return self.cycles


@pytest.mark.parametrize("reload", [1, 4, 9])
@pytest.mark.parametrize("step", [1, 3, 7, 25])
def test_systick_counts_as_a_counter_stepped_tick_by_tick(reload, step):
    clock = Clock()
    systick = SysTick(clock, 8)
    systick.write(RVR, reload)
    systick.write(CVR, 0)
    systick.write(CSR, 7)
    value, reached_zero = 0, False
    for _ in range(40):
        for _ in range(step):
            value = reload if value == 0 else value - 1
            reached_zero |= value == 0
        clock.cycles += step
        assert systick.read(CVR) == value
        assert bool(systick.read(CSR) & COUNTFLAG) == reached_zero
        reached_zero = False


def test_systick_wakes_after_reload_plus_one_and_on_the_reference_clock_eight_times_later():
    clock = Clock()
    for csr, divider in ((7, 1), (3, 8)):
        systick = SysTick(clock, 8)
        systick.write(RVR, 99)
        systick.write(CSR, csr)
        assert systick.wake_cycle() == clock.cycles + 100 * divider
        clock.cycles += 100 * divider - 1
        systick.update()
        assert not systick.pending
        clock.cycles += 1
        systick.update()
        assert systick.pending


def test_systick_without_interrupt_or_reload_never_wakes():
    systick = SysTick(Clock(), 8)
    systick.write(CSR, 7)
    assert systick.wake_cycle() is None
    systick.write(RVR, 5)
    systick.write(CSR, 5)
    assert systick.wake_cycle() is None


DWT_CTRL, CYCCNT, LAR, LSR = 0x1000, 0x1004, 0x1FB0, 0x1FB4
CPUID, SCR, CCR, DEMCR = 0xED00, 0xED10, 0xED14, 0xEDFC
CSSELR, CCSIDR, CLIDR = 0xED84, 0xED80, 0xED78


def registers(core: str, clock: Clock, changed=lambda: None) -> CoreRegisters:
    return CoreRegisters(find_core(core), clock, lambda: 0, 8, changed)


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
def test_cycle_counter_runs_while_trace_and_counter_are_on(core):
    clock = Clock()
    one = registers(core, clock)
    clock.cycles = 100
    one.write(CYCCNT, 5)
    one.write(DWT_CTRL, 1)
    clock.cycles = 200
    assert one.read(CYCCNT) == 5
    one.write(DEMCR, 1 << 24)
    clock.cycles = 250
    assert one.read(CYCCNT) == 55
    one.write(DWT_CTRL, 0)
    clock.cycles = 300
    assert one.read(CYCCNT) == 55


def test_cycle_counter_of_the_m7_is_locked_until_it_is_unlocked():
    """ARM DDI 0489: software must write C5ACCE55 to the lock access register first; LSR bit 1 says locked."""
    clock = Clock()
    one = registers("cortex-m7", clock)
    assert one.read(LSR) == 3
    one.write(DEMCR, 1 << 24)
    one.write(DWT_CTRL, 1)
    clock.cycles = 10
    assert one.read(CYCCNT) == 0
    one.write(LAR, 0xC5AC_CE55)
    assert one.read(LSR) == 1
    one.write(DWT_CTRL, 1)
    clock.cycles = 30
    assert one.read(CYCCNT) == 20


def test_the_m0_has_no_cycle_counter_and_no_debug_register():
    clock = Clock()
    one = registers("cortex-m0", clock)
    one.write(DEMCR, 1 << 24)
    one.write(DWT_CTRL, 1)
    one.write(CYCCNT, 7)
    clock.cycles = 50
    assert [one.read(offset) for offset in (DEMCR, DWT_CTRL, CYCCNT)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("core", "cpuid"),
    [
        ("cortex-m0", 0x410C_C200),
        ("cortex-m3", 0x411F_C231),
        ("cortex-m4", 0x410F_C241),
        ("cortex-m7", 0x411F_C270),
    ],
)
def test_cpuid_is_read_only(core, cpuid):
    """Implementer 41, part number C20, C23, C24, C27 (each core's manual, CPUID)."""
    one = registers(core, Clock())
    one.write(CPUID, 0)
    assert one.read(CPUID) == cpuid


def test_caches_of_the_m7_are_told_by_size_and_switched_by_ccr():
    """16 KiB each, lines of 32 bytes (RM0410 2.1): 4 ways of 128 sets for data, 2 of 256 for instructions."""
    seen = []
    one = registers("cortex-m7", Clock(), lambda: seen.append((one.instruction_cache, one.data_cache)))

    def size_bytes(word: int) -> int:
        return (1 << (word & 7) + 4) * ((word >> 3 & 0x3FF) + 1) * ((word >> 13 & 0x7FFF) + 1)

    data = one.read(CCSIDR)
    one.write(CSSELR, 1)
    instructions = one.read(CCSIDR)
    assert size_bytes(data) == size_bytes(instructions) == 16 * 1024
    assert (data >> 3 & 0x3FF, instructions >> 3 & 0x3FF) == (3, 1)
    one.write(CCR, one.read(CCR) | 1 << 17)
    one.write(CCR, one.read(CCR) | 1 << 16)
    assert seen == [(True, False), (True, True)]
    other = registers("cortex-m4", Clock())
    other.write(CCR, 3 << 16)
    assert not other.instruction_cache


def test_deep_sleep_is_seen():
    one = registers("cortex-m0", Clock())
    assert not one.sleeps_deeply
    one.write(SCR, 1 << 2)
    assert one.sleeps_deeply


# From the tables of ARM DDI 0337 (M3), DDI 0439 (M4), DDI 0432 (M0): cycles, kind, what a taken branch adds.
@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("pop {r4, r5, r6, pc}", (5, "load", 2)),
        ("push.w {r4-r7, sb, lr}", (7, "store", 0)),
        ("ldr.w pc, [r3, r2, lsl #2]", (2, "load", 2)),
        ("strd r0, r1, [sp, #8]", (3, "store", 0)),
        ("tbb [pc, r3]", (4, "branch", 2)),
        ("bxeq lr", (1, "branch", 2)),
        ("blo #0x8000010", (1, "branch", 2)),
        ("bic r0, r1, #1", (1, "alu", 0)),
        ("itte ne", (1, "nop", 0)),
        ("mov pc, lr", (1, "branch", 2)),
        ("smull r0, r1, r2, r3", (4, "multiply", 0)),
        ("wfi", (1, "other", 0)),
    ],
)
def test_cost_of_an_instruction(instruction, expected):
    assert costs_armv7m.cost_m3(*split(instruction)) == expected


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("mla r0, r1, r2, r3", (1, "multiply", 0)),
        ("umull r0, r1, r2, r3", (1, "multiply", 0)),
        ("smlal r0, r1, r2, r3", (1, "multiply", 0)),
        ("umaal r0, r1, r2, r3", (1, "multiply", 0)),
        ("smuad r0, r1, r2", (1, "multiply", 0)),
        ("udiv r0, r1, r2", (7, "divide", 0)),
        ("ldrd r0, r1, [r2]", (3, "load", 0)),
        ("str.w r0, [r1, r2, lsl #2]", (2, "store", 0)),
        ("str r0, [r1, #4]", (1, "store", 0)),
        ("cbnz r0, #0x8000010", (1, "branch", 2)),
    ],
)
def test_cost_on_a_cortex_m4_and_half_of_it_on_an_m7(instruction, expected):
    assert costs_armv7m.cost_m4(*split(instruction)) == expected
    cycles, kind, refill = expected
    # In half cycles: the same number is half the time; a division is not halved, a taken branch adds one cycle.
    halves = cycles * 2 if kind == "divide" else cycles
    assert costs_armv7m.cost_m7(*split(instruction)) == (halves, kind, 2 if refill else 0)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("adds r0, r1, r2", (1, "alu", 0)),
        ("muls r0, r1, r0", (1, "multiply", 0)),
        ("ldr r0, [r1, #4]", (2, "load", 0)),
        ("strb r0, [r1, r2]", (2, "store", 0)),
        ("ldm r0!, {r1, r2, r3}", (4, "load", 0)),
        ("push {r4-r7, lr}", (6, "store", 0)),
        ("pop {r4-r7}", (5, "load", 0)),
        ("pop {r4-r7, pc}", (6, "load", 3)),
        ("bne #0x8000010", (1, "branch", 2)),
        ("b #0x8000010", (1, "branch", 2)),
        ("bl #0x8000010", (1, "branch", 3)),
        ("bx lr", (1, "branch", 2)),
        ("blx r3", (1, "branch", 2)),
        ("mov pc, lr", (1, "branch", 2)),
        ("mrs r0, primask", (4, "other", 0)),
        ("dsb sy", (4, "other", 0)),
        ("cpsid i", (1, "other", 0)),
        ("wfi", (2, "other", 0)),
        ("nop", (1, "nop", 0)),
        ("uxtb r0, r1", (1, "alu", 0)),
        ("rev r0, r1", (1, "alu", 0)),
    ],
)
def test_cost_on_a_cortex_m0(instruction, expected):
    assert costs_armv6m.cost(*split(instruction)) == expected


def split(instruction: str) -> tuple[str, str]:
    mnemonic, _, operands = instruction.partition(" ")
    return mnemonic, operands


def test_the_page_on_cycles_has_a_row_for_each_core_and_family():
    page = (Path(__file__).resolve().parents[3] / "docs" / "cycle-model.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    assert rows >= set(CORES)
    for name in boards.names():
        board = boards.load(name)
        assert any(board["family"].lower() in row.lower() for row in rows)
        assert any(row.startswith(f"| {board['core']} |") and name in row for row in page.splitlines())
