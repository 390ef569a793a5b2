"""Power domains and clock gates (PRCM) of the CC26x2, and the oscillator interface (AUX_DDI0_OSC) that its clock has.

Source: TI SWCU185 (CC13x2, CC26x2 technical reference manual), PRCM and the AUX domain; the oscillator interface as in
TI's driverlib header hw_ddi_0_osc.h. A domain is up as soon as it is asked for; clock gates take effect when they are
loaded (CLKLOADCTL). Access to a module without power or clock is a bus fault.
"""

from __future__ import annotations

from collections.abc import Callable

from instruments.sim.dut.registers import ALL_LANES, EngineFault, Registers

_CLKLOADCTL, _LOAD, _LOAD_DONE = 0x28, 1 << 0, 1 << 1
_CPUCLKDIV = 0xB8
# UART0 lies in the domain SERIAL; GPIO and UART1 in PERIPH.
_UARTCLKGR = 0x6C
_GATES = range(0x2C, 0x90)
_SERIAL, _PERIPH = 1 << 1, 1 << 2
_PDCTL0, _PDSTAT0 = 0x12C, 0x140
# One domain each: 0x130 RFC, 0x134 SERIAL, 0x138 PERIPH; their status 0x144 and so on.
_SINGLE = {0x130: 1 << 0, 0x134: 1 << 1, 0x138: 1 << 2}
_SINGLE_STATUS = {0x144: 1 << 0, 0x148: 1 << 1, 0x14C: 1 << 2}


class Oscillator(Registers):
    """CTL0 and STAT0, and the ways to write to them: whole, set, clear, 16 bits with a mask.

    Any oscillator that is asked for is ready at once; with `hse_dead` the crystal never is. The switch itself is made
    by code in ROM, which tells so at `SWITCH`, an offset of this model alone.
    """

    size_bytes = 0x1000
    SWITCH = 0x7FC
    _CTL0, _STAT0 = 0x00, 0x3C
    _SET, _CLEAR, _CLEAR_END, _MASKED, _MASKED_END = 0x80, 0x100, 0x180, 0x400, 0x480
    _SCLK_HF_SRC = 28
    _PENDING = 1

    def __init__(self, rcosc_hz: float, xosc_hz: float, hse_dead: bool) -> None:
        super().__init__()
        self._hz = (rcosc_hz, xosc_hz)
        self._ready = (True, not hse_dead)
        self._source = 0

    def get(self, offset: int) -> int:
        """Read one word."""
        if offset == self._STAT0:
            wanted = self.words.get(self._CTL0, 0) & 1
            pending = wanted != self._source and self._ready[wanted]
            return self._source << self._SCLK_HF_SRC | (self._PENDING if pending else 0)
        return super().get(offset)

    def write(self, offset: int, value: int, lanes: int = ALL_LANES) -> None:
        """Write one word, or a part of it."""
        value &= lanes
        if offset == self.SWITCH:
            if self.get(self._STAT0) & self._PENDING:
                self._source = self.words[self._CTL0] & 1
        elif self._MASKED <= offset < self._MASKED_END:
            # Two words for each register, for its lower and its upper half: the mask above, the data below.
            target, shift = (offset - self._MASKED) // 8 * 4, 16 if offset & 4 else 0
            mask = value >> 16
            self.words[target] = self.words.get(target, 0) & ~(mask << shift) | (value & mask) << shift
        elif self._SET <= offset < self._CLEAR:
            self.words[offset - self._SET] = self.words.get(offset - self._SET, 0) | value
        elif self._CLEAR <= offset < self._CLEAR_END:
            self.words[offset - self._CLEAR] = self.words.get(offset - self._CLEAR, 0) & ~value
        elif offset != self._STAT0:
            super().write(offset, value, lanes)

    def hf_hz(self) -> float:
        """Give SCLK_HF."""
        return self._hz[self._source]


class Prcm(Registers):
    """Power, clock and reset management."""

    size_bytes = 0x1000

    def __init__(self, oscillator: Oscillator) -> None:
        super().__init__({_CLKLOADCTL: _LOAD_DONE})
        self._oscillator = oscillator
        self._loaded: dict[int, int] = {}

    def get(self, offset: int) -> int:
        """Read one word; status follows control."""
        domains = self.words.get(_PDCTL0, 0)
        if offset == _PDSTAT0:
            return domains
        if offset in _SINGLE or offset in _SINGLE_STATUS:
            return int(bool(domains & (_SINGLE.get(offset) or _SINGLE_STATUS[offset])))
        return super().get(offset)

    def put(self, offset: int, value: int) -> None:
        """Write one word."""
        if offset == _CLKLOADCTL:
            if value & _LOAD:
                self._loaded = {gate: word for gate, word in self.words.items() if gate in _GATES}
            return
        if offset in _SINGLE:
            domains = self.words.get(_PDCTL0, 0)
            self.words[_PDCTL0] = domains | _SINGLE[offset] if value & 1 else domains & ~_SINGLE[offset]
        elif offset != _PDSTAT0 and offset not in _SINGLE_STATUS:
            super().put(offset, value)

    def gate(self, offset: int, bit: int) -> Callable[[], bool]:
        """Give a question that is a bus fault where the answer is no: has this module power and clock?"""
        domain = _SERIAL if offset == _UARTCLKGR and bit == 0 else _PERIPH

        def reachable() -> bool:
            if not self.words.get(_PDCTL0, 0) & domain:
                name = "SERIAL" if domain == _SERIAL else "PERIPH"
                raise EngineFault(f"access to a module whose power domain {name} is off (PRCM.PDCTL0)")
            if not self._loaded.get(offset, 0) >> bit & 1:
                raise EngineFault(f"access to a module without clock (PRCM offset {offset:#x}, bit {bit}; load it)")
            return True

        return reachable

    def core_hz(self) -> float:
        """Give the CPU's clock: SCLK_HF, or half of it."""
        return self._oscillator.hf_hz() / (1 + (self.words.get(_CPUCLKDIV, 0) & 1))

    def serial_hz(self, _enable_offset: int) -> float:
        """Give the UART's clock, which is SCLK_HF."""
        return self._oscillator.hf_hz()

    def objection(self) -> str:
        """Say why the chip fails at its present clocks: it does not."""
        return ""


class AuxSystemInterface(Registers):
    """AUX_SYSIF: a new operating mode is acknowledged at once."""

    size_bytes = 0x1000
    _OPMODEREQ, _OPMODEACK = 0x00, 0x04

    def get(self, offset: int) -> int:
        """Read one word."""
        return self.words.get(self._OPMODEREQ, 0) & 3 if offset == self._OPMODEACK else super().get(offset)
