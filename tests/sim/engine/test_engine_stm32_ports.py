"""Ports, serial ports and timer of the STM32 families against their manuals.

ST RM0041 (F1), RM0091 (F0), RM0090 (F4), RM0410 (F7).
"""

from __future__ import annotations

from collections import deque

import pytest

from instruments.sim.dut.registers import always
from instruments.sim.dut.serial_port import Wires
from instruments.sim.dut.stm32.gpio import GpioF1, GpioModer
from instruments.sim.dut.stm32.timer import Timer
from instruments.sim.dut.stm32.usart import UsartV1, UsartV2


def test_port_of_the_f1_sets_before_it_resets_and_ignores_writes_without_clock():
    on = True
    gpio = GpioF1(lambda: on, lambda: None)
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
    ("family", "port", "reset"),
    [
        ("stm32f0", "A", {0x00: 0x2800_0000, 0x08: 0x0C00_0000, 0x0C: 0x2400_0000}),
        ("stm32f0", "B", {0x00: 0, 0x08: 0, 0x0C: 0}),
        ("stm32f4", "A", {0x00: 0xA800_0000, 0x0C: 0x6400_0000}),
        ("stm32f7", "B", {0x00: 0x0000_0280, 0x08: 0x0000_00C0, 0x0C: 0x0000_0100}),
        ("stm32f7", "J", {0x00: 0, 0x08: 0, 0x0C: 0}),
    ],
)
def test_reset_values_of_a_port(family, port, reset):
    gpio = GpioModer(family, port, always, lambda: None)
    assert {offset: gpio.read(offset) for offset in reset} == reset


def test_port_with_moder_drives_only_outputs_and_knows_its_alternate_functions():
    changes = []
    gpio = GpioModer("stm32f4", "D", always, lambda: changes.append(1))
    gpio.write(0x18, 1 << 8)
    assert gpio.level(8) == 0
    gpio.write(0x00, 1 << 16)
    assert gpio.level(8) == 1
    assert gpio.read(0x10) == 1 << 8
    # BSRR by halves: the upper one resets; with both bits set, setting wins.
    gpio.write(0x18, 1 << 24, 0xFFFF_0000)
    assert gpio.level(8) == 0
    gpio.write(0x18, 1 << 24 | 1 << 8)
    assert gpio.level(8) == 1
    assert gpio.read(0x18) == 0
    # No BRR on the F4.
    gpio.write(0x28, 1 << 8)
    assert gpio.level(8) == 1
    # One byte of AFRH and of MODER at a time.
    gpio.write(0x00, 2 << 18, 0x00FF_0000)
    gpio.write(0x24, 7 << 4, 0x0000_00FF)
    assert gpio.sends(9, 7)
    assert not gpio.sends(9, 1)
    assert not gpio.sends(8, 7)
    assert len(changes) == 7


def test_port_of_the_f0_has_brr():
    gpio = GpioModer("stm32f0", "C", always, lambda: None)
    gpio.write(0x00, 1 << 12)
    gpio.write(0x18, 1 << 6)
    gpio.write(0x28, 1 << 6)
    assert gpio.level(6) == 0


class Line:
    """The world around a serial port."""

    def __init__(self, clock_hz: float, wired: bool = True) -> None:
        self.received: deque[int] = deque()
        self.sent: list[int] = []
        self.polls: list[int] = []
        self.wires = Wires(
            lambda: wired, lambda: wired, lambda: clock_hz, self.received, self.sent.append, self.polls.append
        )


def old_port(line: Line, brr: int, over8: bool = False) -> UsartV1:
    port = UsartV1(line.wires, always)
    port.write(0x08, brr)
    port.write(0x0C, 1 << 13 | 1 << 3 | 1 << 2 | over8 << 15)
    return port


def new_port(line: Line, brr: int, over8: bool = False) -> UsartV2:
    port = UsartV2(line.wires, always)
    port.write(0x0C, brr)
    port.write(0x00, 1 << 3 | 1 << 2 | 1 | over8 << 15)
    return port


@pytest.mark.parametrize(("make", "status", "data_in", "data_out"), [(old_port, 0, 4, 4), (new_port, 0x1C, 0x24, 0x28)])
def test_port_sends_and_receives_and_counts_idle_polls(make, status, data_in, data_out):
    line = Line(24e6)
    port = make(line, 208)  # 115385 baud
    assert port.read(status) & 0xE0 == 0xC0
    port.write(data_out, ord("a"))
    line.received.append(ord("b"))
    assert port.read(status) & 0xE0 == 0xE0
    assert port.read(data_in) == ord("b")
    assert [port.read(status) & 0x20 for _ in range(2)] == [0, 0]
    assert line.sent == [ord("a")]
    assert line.polls == [1, 1, 2]


@pytest.mark.parametrize("make", [old_port, new_port])
@pytest.mark.parametrize(
    ("clock_hz", "brr", "over8", "right"),
    [
        (24e6, 208, False, True),
        (42e6, 365, False, True),  # STM32F4, APB1
        (108e6, 938, False, True),  # STM32F7, APB2
        (8e6, 69, False, True),
        (24e6, 217, False, False),  # 4 % slow
        (24e6, 0, False, False),
    ],
)
def test_a_wrong_divisor_garbles(make, clock_hz, brr, over8, right):
    line = Line(clock_hz)
    port = make(line, brr, over8)
    port.write(4 if make is old_port else 0x28, ord("a"))
    assert (line.sent == [ord("a")]) == right
    assert len(line.sent) == 1


def test_divisors_with_oversampling_by_eight():
    """8 x USARTDIV = 24 MHz / 115200 = 208: mantissa 26, fraction 0 (old); BRR[15:4] of 2 x 208 = 416 (new)."""
    assert old_port(Line(24e6), 26 << 4, over8=True).baud() == pytest.approx(24e6 / 208)
    assert old_port(Line(24e6), 26 << 4 | 4, over8=True).baud() == pytest.approx(24e6 / 212)
    assert new_port(Line(24e6), 416, over8=True).baud() == pytest.approx(2 * 24e6 / 416)
    assert new_port(Line(24e6), 416 | 3, over8=True).baud() == pytest.approx(2 * 24e6 / (416 | 6))


def test_new_port_takes_no_divisor_while_it_is_on():
    port = new_port(Line(24e6), 208)
    port.write(0x0C, 100)
    assert port.read(0x0C) == 208


@pytest.mark.parametrize("make", [old_port, new_port])
def test_without_its_pin_nothing_goes_out_or_comes_in(make):
    line = Line(24e6, wired=False)
    port = make(line, 208)
    line.received.append(1)
    port.write(4 if make is old_port else 0x28, 1)
    assert not port.read(0 if make is old_port else 0x1C) & 0x20
    assert line.sent == []


def test_timer_counts_its_prescaled_clock_from_the_update_on():
    cycles = [0]
    timer = Timer(lambda: cycles[0], lambda: 1.0, always)
    timer.write(0x28, 47)
    timer.write(0x2C, 0xFFFF_FFFF)
    timer.write(0x14, 1)
    timer.write(0x00, 1)
    cycles[0] = 4800
    assert timer.read(0x24) == 100
    cycles[0] += 47
    assert timer.read(0x24) == 100
    timer.write(0x00, 0)
    cycles[0] += 4800
    assert timer.read(0x24) == 100
    # The prescaler is taken over by an update event only.
    timer.write(0x28, 0)
    timer.write(0x24, 0)
    timer.write(0x00, 1)
    cycles[0] += 480
    assert timer.read(0x24) == 10
