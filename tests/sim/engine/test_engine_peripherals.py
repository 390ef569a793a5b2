"""Register models against their manuals: SysTick (ARM DDI 0403, B3.3), RCC and GPIO (ST RM0041)."""

from __future__ import annotations

import pytest

from instruments.sim.dut.cortexm import SysTick
from instruments.sim.dut.costs_armv7m import cost_m3 as cost
from instruments.sim.dut.stm32.gpio import GpioF1 as Gpio
from instruments.sim.dut.stm32.rcc import Oscillators, RccF0

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


@pytest.mark.parametrize(
    ("cfgr", "cfgr2", "clock_hz"),
    [
        pytest.param(0x0, 0, 8e6, id="internal"),
        pytest.param(0x1, 0, 8e6, id="crystal"),
        pytest.param(1 << 18 | 1 << 16 | 2, 0, 24e6, id="crystal-times-3"),
        pytest.param(4 << 18 | 2, 0, 24e6, id="half-internal-times-6"),
        pytest.param(4 << 18 | 1 << 16 | 2, 1, 8e6 * 6, id="prediv-bit-0-is-in-cfgr"),
        pytest.param(4 << 18 | 1 << 17 | 1 << 16 | 2, 1, 24e6, id="half-crystal-times-6"),
        pytest.param(1 << 18 | 1 << 16 | 0x80 | 2, 0, 12e6, id="ahb-half"),
    ],
)
def test_core_clock_follows_the_registers(cfgr, cfgr2, clock_hz):
    rcc = RccF0(Oscillators(8e6, 8e6), "stm32f1")
    rcc.write(0x2C, cfgr2)
    rcc.write(0x00, 0x83 | 1 << 16)
    rcc.write(0x04, cfgr & ~3)
    rcc.write(0x00, 0x83 | 1 << 16 | 1 << 24)
    rcc.write(0x04, cfgr)
    assert rcc.read(0x04) >> 2 & 3 == cfgr & 3
    assert rcc.clock_hz() == clock_hz


def test_dead_crystal_is_never_ready_nor_is_the_pll_on_it():
    rcc = RccF0(Oscillators(8e6, 8e6, hse_dead=True), "stm32f1")
    rcc.write(0x04, 1 << 18 | 1 << 16)
    rcc.write(0x00, 0x83 | 1 << 16 | 1 << 24)
    assert rcc.read(0x00) & (1 << 17 | 1 << 25) == 0
    rcc.write(0x04, 1 << 18 | 1 << 16 | 2)
    assert rcc.clock_hz() == 8e6


def test_port_sets_before_it_resets_and_ignores_writes_without_clock():
    on = True
    gpio = Gpio(lambda: on, lambda: None)
    gpio.write(0x00, 0x4244_4444)
    gpio.write(0x10, 1 << 6 | 1 << 22)
    assert gpio.level(6) == 1
    on = False
    gpio.write(0x14, 1 << 6)
    on = True
    assert gpio.level(6) == 1
    gpio.write(0x14, 1 << 6)
    assert gpio.level(6) == 0
    gpio.write(0x0C, 0xFFFF)
    assert [gpio.level(pin) for pin in range(16)] == [0] * 6 + [1] + [0] * 9


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
    mnemonic, _, operands = instruction.partition(" ")
    assert cost(mnemonic, operands) == expected
