"""Register models of the CC26x2 against TI SWCU185: power domains, clock gates, oscillator, pins, UART, what boots."""

from __future__ import annotations

from collections import deque

import pytest

from instruments.sim.dut.cc26x2.pins import Gpio, Ioc
from instruments.sim.dut.cc26x2.pl011 import Pl011
from instruments.sim.dut.cc26x2.prcm import AuxSystemInterface, Oscillator, Prcm
from instruments.sim.dut.cc26x2.rom import check_image, rom_content
from instruments.sim.dut.registers import EngineFault, always
from instruments.sim.dut.serial_port import Wires

CLKLOADCTL, GPIOCLKGR, UARTCLKGR, CPUCLKDIV = 0x28, 0x48, 0x6C, 0xB8
PDCTL0, PDCTL0SERIAL, PDCTL0PERIPH, PDSTAT0, PDSTAT0SERIAL, PDSTAT0PERIPH = 0x12C, 0x134, 0x138, 0x140, 0x148, 0x14C
CTL0, STAT0, MASKED = 0x00, 0x3C, 0x400
DOUT, DOUTSET, DOUTCLR, DOUTTGL, DIN, DOE = 0x80, 0x90, 0xA0, 0xB0, 0xC0, 0xD0


def prcm(hse_dead: bool = False) -> Prcm:
    return Prcm(Oscillator(48e6, 48e6, hse_dead))


def test_a_module_needs_its_power_domain_and_its_loaded_clock():
    one = prcm()
    uart, gpio = one.gate(UARTCLKGR, 0), one.gate(GPIOCLKGR, 0)
    with pytest.raises(EngineFault, match="power domain SERIAL is off"):
        uart()
    one.write(PDCTL0SERIAL, 1)
    assert (one.read(PDSTAT0SERIAL), one.read(PDSTAT0PERIPH), one.read(PDSTAT0)) == (1, 0, 2)
    with pytest.raises(EngineFault, match="without clock"):
        uart()
    one.write(UARTCLKGR, 1)
    with pytest.raises(EngineFault, match="without clock"):
        uart()
    one.write(CLKLOADCTL, 1)
    assert one.read(CLKLOADCTL) & 2
    assert uart()
    with pytest.raises(EngineFault, match="power domain PERIPH is off"):
        gpio()
    one.write(PDCTL0, 6)
    one.write(GPIOCLKGR, 1)
    one.write(CLKLOADCTL, 1)
    assert gpio()
    assert one.read(PDCTL0PERIPH) == 1
    one.write(PDCTL0SERIAL, 0)
    with pytest.raises(EngineFault, match="SERIAL"):
        uart()
    assert gpio()


def test_core_clock_is_that_of_the_source_and_its_divider():
    one = prcm()
    assert one.core_hz() == one.serial_hz(UARTCLKGR) == 48e6
    one.write(CPUCLKDIV, 1)
    assert one.core_hz() == 24e6


def test_switch_to_the_crystal_is_asked_for_then_pending_then_made():
    osc = Oscillator(48e6, 47.9e6, hse_dead=False)
    osc.write(Oscillator.SWITCH, 1)
    assert osc.hf_hz() == 48e6
    osc.write(MASKED, 1 << 16 | 1)
    assert osc.read(CTL0) & 1
    assert osc.read(STAT0) & (1 << 28 | 1) == 1
    osc.write(Oscillator.SWITCH, 1)
    assert osc.read(STAT0) & (1 << 28 | 1) == 1 << 28
    assert osc.hf_hz() == 47.9e6


def test_a_dead_crystal_is_never_pending():
    osc = Oscillator(48e6, 48e6, hse_dead=True)
    osc.write(CTL0, 1)
    assert osc.read(STAT0) == 0


def test_oscillator_registers_are_written_whole_by_bits_and_by_masked_halves():
    osc = Oscillator(48e6, 48e6, hse_dead=False)
    osc.write(0x08, 0x1234_5678)
    osc.write(0x80 + 0x08, 0x8000_0001)
    assert osc.read(0x08) == 0x9234_5679
    osc.write(0x100 + 0x08, 0x0234_0000)
    assert osc.read(0x08) == 0x9000_5679
    osc.write(MASKED + 2 * 0x08, 0x00FF_FF00)
    assert osc.read(0x08) == 0x9000_5600
    osc.write(MASKED + 2 * 0x08 + 4, 0xFF00_7777)
    assert osc.read(0x08) == 0x7700_5600


def test_auxiliary_domain_acknowledges_its_mode():
    aux = AuxSystemInterface()
    assert aux.read(4) == 0
    aux.write(0, 2)
    assert aux.read(4) == 2


def test_pin_is_an_output_where_it_belongs_to_gpio_and_is_enabled():
    changes = []
    ioc = Ioc(lambda: changes.append(1))
    gpio = Gpio(ioc, always, lambda: changes.append(1))
    assert ioc.read(4 * 21) == 0x6000
    gpio.write(DOUTSET, 1 << 21)
    assert gpio.level(21) == 0
    gpio.write(DOE, 1 << 21)
    assert gpio.level(21) == 1
    assert gpio.read(DIN) == 1 << 21
    ioc.write(4 * 21, 0x10)
    assert gpio.level(21) == 0
    ioc.write(4 * 21, 0)
    gpio.write(DOUTCLR, 1 << 21)
    assert gpio.level(21) == 0
    gpio.write(DOUTTGL, 1 << 21 | 1 << 3)
    assert gpio.read(DOUT) == 1 << 21 | 1 << 3
    # One byte a pin: pin 21 is byte 1 of the word at 20.
    assert gpio.read(20) == 1 << 8
    gpio.write(20, 0, 0xFF00)
    assert gpio.read(DOUT) == 1 << 3
    assert gpio.read(DOUTSET) == 0
    assert len(changes) == 7


def test_serial_pins_need_their_port_and_the_input_its_enable():
    ioc = Ioc(lambda: None)
    ioc.write(4 * 3, 0x10)
    ioc.write(4 * 2, 0x0F)
    assert ioc.sends(3, 0x10)
    assert not ioc.receives(2, 0x0F)
    ioc.write(4 * 2, 0x0F | 1 << 29)
    assert ioc.receives(2, 0x0F)


def uart(ibrd: int, fbrd: int, lcrh: int = 0x60) -> tuple[Pl011, list[int], deque[int], list[int]]:
    sent: list[int] = []
    polls: list[int] = []
    received: deque[int] = deque()
    wires = Wires(always, always, lambda: 48e6, received, sent.append, polls.append)
    port = Pl011(wires, always)
    port.write(0x24, ibrd)
    port.write(0x28, fbrd)
    port.write(0x2C, lcrh)
    port.write(0x30, 0x301)
    return port, sent, received, polls


def test_uart_sends_and_receives_at_its_divisor():
    """48 MHz / (16 x 115200) = 26.04: 26 and 3 / 64."""
    port, sent, received, polls = uart(26, 3)
    assert port.baud() == pytest.approx(115_200, rel=1e-3)
    assert port.read(0x18) == 0x90  # reset value of FR: both FIFOs empty
    port.write(0x00, ord("a"))
    received.append(ord("b"))
    assert port.read(0x18) == 0x80
    assert port.read(0x00) == ord("b")
    assert port.read(0x18) == 0x90
    assert sent == [ord("a")]
    assert polls == [1, 1]


@pytest.mark.parametrize("settings", [(13, 0), (27, 0), (26, 3, 0x40)], ids=["twice", "slow", "seven-bits"])
def test_uart_garbles_at_a_wrong_rate_or_width(settings):
    port, sent, _, _ = uart(*settings)
    port.write(0x00, ord("a"))
    assert sent != [ord("a")]


def test_divisor_takes_effect_when_the_line_control_is_written():
    port, _, _, _ = uart(26, 3)
    port.write(0x24, 13)
    assert port.baud() == pytest.approx(115_200, rel=1e-3)
    port.write(0x2C, 0x60)
    assert port.baud() == pytest.approx(48e6 / (16 * (13 + 3 / 64)))


def test_uart_that_is_off_is_silent():
    port, sent, received, _ = uart(26, 3)
    port.write(0x30, 0x300)
    port.write(0x00, 1)
    received.append(1)
    assert port.read(0x18) & 0x10
    assert sent == []


def test_rom_has_its_tables_where_driverlib_looks():
    base = 0x1000_0000
    rom = rom_content(base, 0x4_0000, 0x400C_A000)

    def word(address: int) -> int:
        return int.from_bytes(rom[address - base : address - base + 4], "little")

    switch = word(base + 0x48 + 4 * 14)
    source = word(word(base + 0x180 + 4 * 24) + 4)
    setup = [word(word(base + 0x180 + 4 * 28) + 4 * k) for k in (0, 1, 2, 18)]
    for entry in (switch, source, *setup):
        assert entry & 1
        assert base <= entry < base + 0x4_0000


def test_boot_code_starts_only_an_image_that_says_it_is_valid():
    flash = bytearray(b"\xff" * 4096)
    with pytest.raises(EngineFault, match="IMAGE_VALID_CONF"):
        check_image(bytes(flash), 0)
    flash[-20:-16] = bytes(4)
    check_image(bytes(flash), 0)
