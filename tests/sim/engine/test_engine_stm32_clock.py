"""Clocks, voltage and flash interface of the STM32 families against their manuals.

ST RM0041 (F1), RM0091 (F0), RM0090 (F4), RM0410 (F7).
"""

from __future__ import annotations

import pytest

from instruments.sim.dut.cores import find_core
from instruments.sim.dut.cortexm import CoreRegisters
from instruments.sim.dut.registers import always
from instruments.sim.dut.stm32.flash import Flash, waits_needed
from instruments.sim.dut.stm32.pwr import PwrF4, PwrF7
from instruments.sim.dut.stm32.rcc import Oscillators, Rcc, RccF0, RccF4

HSEON, HSERDY, HSEBYP, PLLON, PLLRDY = 1 << 16, 1 << 17, 1 << 18, 1 << 24, 1 << 25
PLL = 2


def rcc_f0(family: str = "stm32f0", **oscillators) -> RccF0:
    return RccF0(Oscillators(8e6, 8e6, **oscillators), family)


def rcc_f4(family: str = "stm32f4", hse_hz: float = 8e6, **oscillators) -> RccF4:
    return RccF4(Oscillators(16e6, hse_hz, **oscillators), family)


def pll_settings(m: int, n: int, p: int, hse: bool = True) -> int:
    return 4 << 24 | hse << 22 | (p // 2 - 1) << 16 | n << 6 | m


def start_pll(rcc: RccF4, settings: int, cfgr: int = 0) -> None:
    rcc.write(0x00, rcc.read(0x00) | HSEON)
    rcc.write(0x04, settings)
    rcc.write(0x00, rcc.read(0x00) | PLLON)
    rcc.write(0x08, cfgr | PLL)


@pytest.mark.parametrize(
    ("cfgr", "cfgr2", "clock_hz"),
    [
        pytest.param(0x0, 0, 8e6, id="internal"),
        pytest.param(0x1, 0, 8e6, id="crystal"),
        pytest.param(1 << 18 | 1 << 16 | 2, 0, 24e6, id="crystal-times-3"),
        pytest.param(4 << 18 | 2, 0, 24e6, id="half-internal-times-6"),
        pytest.param(4 << 18 | 1 << 16 | 2, 0, 8e6 * 6, id="crystal-times-6"),
        pytest.param(4 << 18 | 1 << 17 | 1 << 16 | 2, 1, 24e6, id="half-crystal-times-6"),
        pytest.param(15 << 18 | 1 << 16 | 2, 3, 8e6 / 4 * 16, id="quarter-crystal-times-16"),
        pytest.param(1 << 18 | 1 << 16 | 0x80 | 2, 0, 12e6, id="ahb-half"),
    ],
)
@pytest.mark.parametrize("family", ["stm32f0", "stm32f1"])
def test_core_clock_follows_the_registers(family, cfgr, cfgr2, clock_hz):
    rcc = rcc_f0(family)
    rcc.write(0x00, 0x83 | HSEON)
    rcc.write(0x04, cfgr & ~3)
    rcc.write(0x2C, cfgr2)
    rcc.write(0x00, 0x83 | HSEON | PLLON)
    # The lowest bit of PREDIV is in both registers: CFGR keeps what CFGR2 was given.
    rcc.write(0x04, rcc.read(0x04) | cfgr)
    assert rcc.read(0x04) >> 2 & 3 == cfgr & 3
    assert rcc.core_hz() == clock_hz


@pytest.mark.parametrize(("family", "reset"), [("stm32f0", {0x14: 0x14, 0x34: 0x80}), ("stm32f1", {0x14: 0x14})])
def test_reset_values_of_f0_and_f1(family, reset):
    rcc = rcc_f0(family)
    assert rcc.read(0x00) & 0xFF == 0x83
    assert {offset: rcc.read(offset) for offset in reset} == reset
    assert rcc.core_hz() == 8e6


def test_reset_values_of_f4_and_f7():
    for family in ("stm32f4", "stm32f7"):
        rcc = rcc_f4(family)
        assert (rcc.read(0x00) & 0xFF, rcc.read(0x04), rcc.read(0x08)) == (0x83, 0x2400_3010, 0)
        assert (rcc.read(0x30), rcc.read(0x74)) == (0x0010_0000, 0x0E00_0000)
        assert rcc.core_hz() == 16e6


@pytest.mark.parametrize("make", [rcc_f0, rcc_f4])
def test_dead_crystal_is_never_ready_nor_is_the_pll_on_it(make):
    rcc: Rcc = make(hse_dead=True)
    cfgr = rcc.CFGR
    internal_hz = rcc.core_hz()
    rcc.write(0x04, 1 << 18 | 1 << 16 if cfgr == 0x04 else pll_settings(8, 336, 2))
    rcc.write(0x00, 0x83 | HSEON | PLLON)
    assert rcc.read(0x00) & (HSERDY | PLLRDY) == 0
    for source in (1, PLL):
        rcc.write(cfgr, rcc.read(cfgr) & ~3 | source)
        assert rcc.read(cfgr) >> 2 & 3 == 0
        assert rcc.core_hz() == internal_hz


@pytest.mark.parametrize("make", [rcc_f0, rcc_f4])
def test_a_clock_from_outside_needs_the_bypass_and_a_crystal_must_not_have_it(make):
    for is_clock in (False, True):
        rcc: Rcc = make(hse_is_clock=is_clock)
        for bypass in (0, HSEBYP):
            rcc.write(0x00, 0x83)
            rcc.write(0x00, 0x83 | bypass)
            rcc.write(0x00, 0x83 | bypass | HSEON)
            assert bool(rcc.read(0x00) & HSERDY) == (bool(bypass) == is_clock)
            # The mode is fixed while the oscillator is on.
            rcc.write(0x00, 0x83 | (HSEBYP & ~bypass) | HSEON)
            assert rcc.read(0x00) & HSEBYP == bypass


def test_what_drives_the_core_stays_on_and_a_running_pll_keeps_its_settings():
    rcc = rcc_f4()
    start_pll(rcc, pll_settings(8, 336, 2), 5 << 10 | 4 << 13)
    rcc.write(0x04, pll_settings(8, 100, 8))
    rcc.write(0x00, 0)
    assert rcc.read(0x00) & (HSEON | PLLON) == HSEON | PLLON
    assert rcc.core_hz() == 168e6
    # Back to the internal oscillator, which has to run first; then the PLL may go off.
    rcc.write(0x00, 1)
    rcc.write(0x08, 0)
    rcc.write(0x00, 1)
    assert rcc.core_hz() == 16e6
    rcc.write(0x04, pll_settings(8, 100, 8))
    assert rcc.read(0x04) == pll_settings(8, 100, 8)
    other = rcc_f0()
    other.write(0x00, 0x83 | HSEON)
    other.write(0x04, 4 << 18 | 1 << 16)
    other.write(0x00, 0x83 | HSEON | PLLON)
    other.write(0x04, 0 << 18 | PLL)
    other.write(0x2C, 3)
    assert other.core_hz() == 48e6


@pytest.mark.parametrize(
    ("family", "hse_hz", "settings", "core_hz"),
    [
        ("stm32f4", 8e6, pll_settings(8, 336, 2), 168e6),
        ("stm32f4", 8e6, pll_settings(8, 336, 4), 84e6),
        ("stm32f4", 8e6, pll_settings(16, 336, 2, hse=False), 168e6),
        ("stm32f7", 25e6, pll_settings(25, 432, 2), 216e6),
        ("stm32f7", 25e6, pll_settings(25, 432, 8), 54e6),
    ],
)
def test_pll_of_f4_and_f7(family, hse_hz, settings, core_hz):
    rcc = rcc_f4(family, hse_hz)
    start_pll(rcc, settings)
    assert rcc.core_hz() == core_hz


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(pll_settings(2, 100, 2), id="4-MHz-into-the-vco"),
        pytest.param(pll_settings(16, 100, 2), id="half-a-MHz-into-the-vco"),
        pytest.param(pll_settings(8, 80, 2), id="vco-at-80-MHz"),
        pytest.param(pll_settings(4, 320, 2), id="vco-at-640-MHz"),
        pytest.param(pll_settings(0, 336, 2), id="m-is-0"),
        pytest.param(pll_settings(8, 433, 4), id="n-is-433"),
    ],
)
def test_pll_beyond_its_limits_never_locks(settings):
    rcc = rcc_f4()
    start_pll(rcc, settings)
    assert not rcc.read(0x00) & PLLRDY
    assert rcc.core_hz() == 16e6


def test_buses_faster_than_allowed_are_named():
    """RM0090: APB1 42 MHz, APB2 84 MHz; RM0410: 54 and 108 MHz."""
    rcc = rcc_f4()
    start_pll(rcc, pll_settings(8, 336, 2))
    assert "APB1 runs at 168000000 Hz, above its 42000000 Hz" in rcc.objection()
    rcc.write(0x08, 5 << 10 | PLL)
    assert "APB2 runs at 168000000 Hz, above its 84000000 Hz" in rcc.objection()
    rcc.write(0x08, 4 << 13 | 5 << 10 | PLL)
    assert rcc.objection() == ""
    seven = rcc_f4("stm32f7", 25e6)
    start_pll(seven, pll_settings(25, 432, 2), 4 << 13 | 5 << 10)
    assert seven.objection() == ""


def test_voltage_scale_of_the_f4_must_fit_the_clock():
    rcc = rcc_f4()
    pwr = PwrF4(rcc, always)
    assert pwr.read(0x00) == 1 << 14
    assert pwr.read(0x04) & 1 << 14
    pwr.write(0x00, 0)
    start_pll(rcc, pll_settings(8, 336, 2))
    assert "144000000 Hz" in pwr.objection(168e6)
    assert pwr.objection(144e6) == ""
    pwr.write(0x00, 1 << 14)  # too late: the PLL is on
    assert pwr.objection(168e6)


def test_over_drive_of_the_f7_takes_its_order_of_steps():
    rcc = rcc_f4("stm32f7", 25e6)
    pwr = PwrF7(rcc, always)
    oden, odswen, vosrdy = 1 << 16, 1 << 17, 1 << 14
    assert (pwr.read(0x00), pwr.read(0x04)) == (0xC000, 0)
    assert "voltage scale 3" in pwr.objection(216e6)
    pwr.write(0x00, 0xC000 | odswen)
    assert pwr.read(0x04) == 0
    rcc.write(0x00, rcc.read(0x00) | HSEON)
    rcc.write(0x04, pll_settings(25, 432, 2))
    rcc.write(0x00, rcc.read(0x00) | PLLON)
    assert pwr.read(0x04) == vosrdy
    pwr.write(0x00, 0xC000 | oden)
    pwr.write(0x00, 0xC000 | oden | odswen)
    assert pwr.read(0x04) == vosrdy | oden | odswen
    assert pwr.objection(216e6) == ""
    rcc.write(0x08, PLL)
    pwr.write(0x00, 0xC000 | oden)  # not while the PLL drives the core
    assert pwr.read(0x04) & odswen
    without = PwrF7(rcc, always)
    assert without.objection(180e6) == ""
    assert "180000000 Hz" in without.objection(216e6)


@pytest.mark.parametrize(
    ("family", "supply_v", "steps"),
    [
        ("stm32f0", 3.0, {8e6: 0, 24e6: 0, 24.1e6: 1, 48e6: 1}),
        # RM0090, table 10: rows of 2.7 to 3.6 V and 1.8 to 2.1 V.
        ("stm32f4", 3.0, {30e6: 0, 31e6: 1, 60e6: 1, 90e6: 2, 120e6: 3, 150e6: 4, 151e6: 5, 168e6: 5}),
        ("stm32f4", 1.8, {20e6: 0, 40e6: 1, 160e6: 7}),
        # RM0410, table 7: 2.7 to 3.6 V.
        ("stm32f7", 3.3, {30e6: 0, 180e6: 5, 181e6: 6, 210e6: 6, 216e6: 7}),
    ],
)
def test_wait_states_that_the_manual_asks_for(family, supply_v, steps):
    assert {hz: waits_needed(family, hz, supply_v) for hz in steps} == steps


@pytest.mark.parametrize(("family", "reset"), [("stm32f0", 0x30), ("stm32f4", 0), ("stm32f7", 0)])
def test_flash_tells_too_few_wait_states(family, reset):
    changes = []
    core = CoreRegisters(find_core("cortex-m4"), lambda: 0, lambda: 0, 8)
    fetch = {"line_bytes": 16, "data_lines": 8}
    flash = Flash(family, fetch, core, 3.0, lambda: changes.append(1))
    assert flash.read(0x00) == reset
    assert "has 0 wait states and needs 1 at 48000000 Hz" in flash.objection(48e6)
    flash.write(0x00, 1)
    assert flash.objection(48e6) == ""
    assert changes == [1]
    if family == "stm32f0":
        assert flash.read(0x00) == 1  # PRFTBS follows PRFTBE
        flash.write(0x00, 0x11)
        assert flash.read(0x00) == 0x31


def test_clock_of_a_port_follows_its_bus_and_its_selection():
    four = rcc_f4()
    start_pll(four, pll_settings(8, 336, 2), 5 << 10 | 4 << 13)
    assert (four.serial_hz(0x40), four.serial_hz(0x44)) == (42e6, 84e6)
    seven = rcc_f4("stm32f7", 25e6)
    start_pll(seven, pll_settings(25, 432, 2), 5 << 10 | 4 << 13)
    assert seven.serial_hz(0x44) == 108e6
    seven.write(0x90, 1)
    assert seven.serial_hz(0x44) == 216e6
    seven.write(0x90, 2)
    assert seven.serial_hz(0x44) == 16e6
    zero = rcc_f0()
    zero.write(0x04, 4 << 8)
    assert zero.serial_hz(0x18) == 4e6
    zero.write(0x30, 1)
    assert zero.serial_hz(0x18) == 8e6


def test_timer_clock_doubles_behind_a_prescaler():
    rcc = rcc_f0()
    assert rcc.timer_ratio() == 1.0
    rcc.write(0x04, 4 << 8)
    assert rcc.timer_ratio() == 1.0
    rcc.write(0x04, 5 << 8)
    assert rcc.timer_ratio() == 0.5
