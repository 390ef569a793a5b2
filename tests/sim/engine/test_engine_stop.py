"""Stop mode and what wakes from it, against the manuals: ST RM0041 (F1), RM0091 (F0), RM0090 (F4), RM0410 (F7)."""

from __future__ import annotations

from typing import Any

import pytest

from instruments.sim.dut.cortexm import Nvic
from instruments.sim.dut.currents import current_ratio
from instruments.sim.dut.registers import EngineFault, always
from instruments.sim.dut.stm32 import rtc
from instruments.sim.dut.stm32.exti import Exti
from instruments.sim.dut.stm32.pwr import Pwr, PwrF7
from instruments.sim.dut.stm32.rcc import Oscillators, RccF0, RccF4
from labctl import boards

HSEON, HSERDY, PLLON, PLLRDY = 1 << 16, 1 << 17, 1 << 24, 1 << 25
CLOCK_HZ, LSI_HZ = 24_000_000, 40_000
TICK = CLOCK_HZ // LSI_HZ
IMR, RTSR, PR = 0x00, 0x08, 0x14
ISER, ICER, ICPR = 0xE100, 0xE180, 0xE280


class Time:
    """Cycles and seconds that a test sets."""

    def __init__(self) -> None:
        self.cycles = 0
        self.s = 0.0


@pytest.fixture
def time() -> Time:
    return Time()


def make(kind: type[rtc.Rtc], time: Time, lines: dict[str, int], rising: list[int]) -> Any:
    return kind(
        rtc.Surroundings(lambda: time.cycles, CLOCK_HZ, LSI_HZ, always, always, always, rising.append, lines)
    )


def wait(time: Time, n_ticks: int) -> None:
    time.cycles += n_ticks * TICK


# The counter of the STM32F1.


@pytest.fixture
def rising() -> list[int]:
    return []


@pytest.fixture
def counter(time: Time, rising: list[int]) -> Any:
    return make(rtc.RtcF1, time, {"alarm": 17}, rising)


def configure(counter: Any, time: Time, values: dict[int, int]) -> None:
    counter.write(0x04, 0x10)
    for offset, value in values.items():
        counter.write(offset, value)
    counter.write(0x04, 0)
    wait(time, 3)


def test_the_counter_divides_by_one_more_than_prl(counter, time):
    configure(counter, time, {0x08: 0, 0x0C: 4})
    before = counter.read(0x1C)
    wait(time, 5 * 100)
    assert counter.read(0x1C) - before == 100


def test_the_alarm_rises_one_period_before_the_counter_passes_it(counter, time, rising):
    configure(counter, time, {0x08: 0, 0x0C: 1, 0x18: 0, 0x1C: 0, 0x20: 0, 0x24: 20})
    counter.write(0x00, 2)
    # The write of the divider cleared it at tick 0; the counter leaves 20 at tick 2 x 21.
    assert counter.wake_cycle(lambda line: line == 17) == (2 * 21 - 1) * TICK
    assert counter.wake_cycle(lambda line: line == 22) is None
    wait(time, 2 * 21 - 1 - 3 - 1)
    assert counter.read(0x04) & 2 == 0
    assert rising == []
    wait(time, 1)
    assert counter.read(0x04) & 2
    assert rising == [17]
    # A pending alarm wakes nobody again; writing 0 clears it.
    assert counter.wake_cycle(always_wakes) is None
    counter.write(0x04, 0)
    assert counter.read(0x04) & 2 == 0


def always_wakes(_line: int) -> bool:
    return True


def test_a_write_takes_three_periods_and_the_next_must_wait(counter, time):
    counter.write(0x04, 0x10)
    counter.write(0x24, 7)
    counter.write(0x04, 0)
    wait(time, 2)
    assert counter.read(0x04) & 0x20 == 0
    with pytest.raises(EngineFault, match="RTOFF"):
        counter.write(0x04, 0x10)
    wait(time, 1)
    assert counter.read(0x04) & 0x20
    counter.write(0x04, 0x10)


def test_outside_the_configuration_mode_nothing_is_taken(counter, time):
    configure(counter, time, {0x08: 0, 0x0C: 1})
    counter.write(0x1C, 500)
    assert counter.read(0x1C) < 10


# The calendar of the others.


@pytest.fixture
def calendar(time: Time, rising: list[int]) -> Any:
    made = make(rtc.RtcCalendar, time, {"alarm": 17, "timer": 22}, rising)
    for key in (0xCA, 0x53):
        made.write(0x24, key)
    return made


def count_periods(calendar: Any, time: Time) -> None:
    """Let the sub-seconds count each period, from 0x7FFF down."""
    calendar.write(0x0C, 0x80)
    assert calendar.read(0x0C) & 0x40 == 0
    wait(time, 2)
    assert calendar.read(0x0C) & 0x40
    calendar.write(0x10, 0x7FFF)
    calendar.write(0x0C, 0)


def test_registers_are_locked_without_the_two_keys(time, rising):
    made = make(rtc.RtcCalendar, time, {"alarm": 17}, rising)
    made.write(0x08, 0x20)
    assert made.read(0x08) == 0
    made.write(0x24, 0xCA)
    made.write(0x08, 0x20)
    assert made.read(0x08) == 0
    made.write(0x24, 0x53)
    made.write(0x08, 0x20)
    assert made.read(0x08) == 0x20
    made.write(0x24, 0xFF)
    made.write(0x08, 0)
    assert made.read(0x08) == 0x20


def test_sub_seconds_count_down_and_begin_anew(calendar, time):
    count_periods(calendar, time)
    assert calendar.read(0x28) == 0x7FFF
    wait(time, 5)
    assert calendar.read(0x28) == 0x7FFF - 5
    wait(time, 0x8000)
    assert calendar.read(0x28) == 0x7FFF - 5
    # 128 periods each, 256 of them, after a reset of the backup domain.
    calendar.clock_changes(True)
    wait(time, 128 * 10)
    assert calendar.read(0x28) == 256 - 10


def test_the_alarm_rises_where_all_sub_seconds_match(calendar, time, rising):
    count_periods(calendar, time)
    calendar.write(0x1C, 0x8080_8080)
    calendar.write(0x44, 15 << 24 | (0x7FFF - 40))
    start = time.cycles
    calendar.write(0x08, 1 << 8 | 1 << 12)
    assert calendar.wake_cycle(always_wakes) == start + 40 * TICK
    # It cannot be changed while it is on, and for two periods after.
    calendar.write(0x44, 0)
    assert calendar.wake_cycle(always_wakes) == start + 40 * TICK
    wait(time, 40)
    assert calendar.read(0x0C) & 1 << 8
    assert rising == [17]
    calendar.write(0x08, 0)
    assert calendar.read(0x0C) & 1 == 0
    wait(time, 2)
    assert calendar.read(0x0C) & 1


def test_an_alarm_by_date_has_no_model(calendar):
    with pytest.raises(EngineFault, match="sub-seconds"):
        calendar.write(0x08, 1 << 8)


@pytest.mark.parametrize(("selection", "divisor"), [(0, 16), (1, 8), (2, 4), (3, 2)])
def test_the_wake_up_timer_rises_every_wutr_plus_one_of_its_periods(calendar, time, rising, selection, divisor):
    calendar.write(0x14, 15)
    calendar.write(0x08, selection)
    calendar.write(0x08, selection | 1 << 10 | 1 << 14)
    assert calendar.wake_cycle(always_wakes) == time.cycles + 16 * divisor * TICK
    wait(time, 16 * divisor - 1)
    assert calendar.read(0x0C) & 1 << 10 == 0
    wait(time, 1)
    assert calendar.read(0x0C) & 1 << 10
    assert rising == [22]
    calendar.write(0x0C, 0)
    assert calendar.wake_cycle(always_wakes) == time.cycles + 16 * divisor * TICK


def test_the_f0_has_no_wake_up_timer(time, rising):
    made = make(rtc.RtcCalendar, time, {"alarm": 17}, rising)
    for key in (0xCA, 0x53):
        made.write(0x24, key)
    made.write(0x08, 1 << 10 | 1 << 14)
    assert made.read(0x08) == 0
    assert made.read(0x0C) & 4 == 0


# Lines, interrupts, power, clocks.


def test_an_edge_pends_where_it_is_selected_and_passes():
    nvic = Nvic()
    exti = Exti(nvic, {17: 41}, lambda: None)
    exti.rise(17)
    assert exti.read(PR) == 0
    exti.write(RTSR, 1 << 17)
    exti.rise(17)
    assert exti.read(PR) == 1 << 17
    assert not exti.pending
    assert nvic.pending == 0
    exti.write(PR, 1 << 17)
    exti.write(IMR, 1 << 17)
    assert not exti.wakes(17)
    nvic.write(ISER + 4, 1 << 41 - 32)
    assert exti.wakes(17)
    exti.rise(17)
    assert exti.pending
    assert nvic.wakes
    # Writing 1 clears, here and there.
    exti.write(PR, 1 << 17)
    nvic.write(ICPR + 4, 1 << 41 - 32)
    assert not exti.pending
    assert not nvic.wakes
    nvic.write(ICER + 4, 1 << 41 - 32)
    assert nvic.read(ISER + 4) == 0


def test_deep_sleep_is_what_pwr_says():
    pwr = Pwr(0, always)
    assert pwr.mode == "stop"
    pwr.write(0x00, 1)
    assert pwr.mode == "lpstop"
    pwr.write(0x00, 3)
    assert pwr.mode == "standby"
    # The bits that clear flags read 0.
    pwr.write(0x00, 4 | 1 << 8)
    assert pwr.read(0x00) == 1 << 8


@pytest.mark.parametrize("make_rcc", [lambda o, t: RccF0(o, "stm32f1", t), lambda o, t: RccF4(o, "stm32f4", t)])
def test_crystal_and_pll_are_ready_when_they_have_started(time, make_rcc):
    rcc = make_rcc(Oscillators(8e6, 8e6, hse_start_s=2e-3, pll_start_s=200e-6), lambda: time.s)
    rcc.write(0x04, 1 << 18 | 1 << 16 if rcc.CFGR == 0x04 else 1 << 22 | 336 << 6 | 8)
    time.s = 1.0
    rcc.write(0x00, 0x83 | HSEON)
    time.s = 1.00199
    assert rcc.read(0x00) & HSERDY == 0
    time.s = 1.00201
    assert rcc.read(0x00) & HSERDY
    rcc.write(0x00, 0x83 | HSEON | PLLON)
    time.s = 1.0022
    assert rcc.read(0x00) & PLLRDY == 0
    # A switch to it is made as soon as it is ready.
    rcc.write(rcc.CFGR, rcc.read(rcc.CFGR) | 2)
    assert rcc.core_hz() == 8e6
    time.s = 1.00222
    assert rcc.read(rcc.CFGR) >> 2 & 3 == 2
    assert rcc.core_hz() > 8e6


def test_stop_ends_on_the_internal_oscillator_with_the_settings_kept():
    rcc = RccF4(Oscillators(16e6, 25e6), "stm32f7")
    pwr = PwrF7(rcc, always)
    rcc.write(0x00, 0x83 | HSEON)
    rcc.write(0x04, 1 << 22 | 432 << 6 | 25)
    rcc.write(0x00, 0x83 | HSEON | PLLON)
    pwr.write(0x00, 3 << 14 | 3 << 16)
    rcc.write(0x08, 5 << 10 | 4 << 13 | 2)
    assert (rcc.core_hz(), pwr.objection(216e6)) == (216e6, "")
    told: list[float] = []
    rcc.changed = lambda: told.append(rcc.core_hz())
    pwr.leave_stop()
    rcc.leave_stop()
    assert told == [16e6]
    assert rcc.read(0x00) & (HSEON | HSERDY | PLLON | PLLRDY | 3) == 3
    assert rcc.read(0x08) == 5 << 10 | 4 << 13
    assert rcc.read(0x04) == 1 << 22 | 432 << 6 | 25
    assert pwr.read(0x00) == 3 << 14


def test_the_backup_domain_is_locked_and_its_clock_chosen_once():
    rcc = RccF0(Oscillators(8e6, 8e6), "stm32f0")
    resets: list[bool] = []
    rcc.rtc_changes = resets.append
    rcc.write(0x20, 1 << 15 | 2 << 8)
    assert rcc.read(0x20) == 0
    rcc.backup_open = always
    rcc.write(0x20, 1 << 8)
    rcc.write(0x20, 1 << 15 | 2 << 8)
    rcc.write(0x24, 1)
    assert rcc.read(0x20) == 1 << 15 | 1 << 8
    assert rcc.read(0x24) & 3 == 3
    assert not rcc.rtc_runs()
    rcc.write(0x20, 1 << 16)
    rcc.write(0x20, 0)
    rcc.write(0x20, 1 << 15 | 2 << 8)
    assert rcc.rtc_runs()
    assert resets.count(True) == 1


def test_between_the_listed_clocks_the_current_is_a_straight_line():
    board = boards.load("stm32f4discovery")
    # 40 mA at 168 MHz, 20 mA at 84 MHz, 3 mA at 8 MHz.
    assert current_ratio(board, 168e6) == 1.0
    assert current_ratio(board, 16e6) == pytest.approx((3 + 17 * 8 / 76) / 40)
    assert current_ratio(board, 1e6) == pytest.approx(3 / 40)
    assert current_ratio({**board, "clock_hz": 84_000_000}, 126e6) == pytest.approx(1.5)
