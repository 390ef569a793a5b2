"""Reset and clock control of the STM32 families: oscillators, PLL, system clock, prescalers, clock enables.

Sources: register descriptions of RCC in ST RM0041 (F1), RM0091 (F0), RM0090 (F4), RM0410 (F7). Crystal and PLL are
ready so long after they are enabled as the board's data say, the RC oscillators at once; what drives the core cannot be
switched off, and a PLL takes no settings while it is on. Stop mode ends on the internal oscillator, with the others
off. BDCR takes writes only while PWR lets it; its clock of the RTC is chosen once, until the backup domain is reset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from instruments.sim.dut.registers import Registers

_HSI_ON, _HSI_READY = 1 << 0, 1 << 1
_HSE_ON, _HSE_READY, _HSE_BYPASS = 1 << 16, 1 << 17, 1 << 18
_PLL_ON, _PLL_READY = 1 << 24, 1 << 25
_READY_BITS = _HSI_READY | _HSE_READY | _PLL_READY
_HSI, _HSE, _PLL = range(3)
_LSI_ON = 1 << 0
_RTC_SOURCE, _RTC_FROM_LSI, _RTC_ON, _BACKUP_RESET = 3 << 8, 2 << 8, 1 << 15, 1 << 16
_AHB_DIVISORS = (2, 4, 8, 16, 64, 128, 256, 512)


@dataclass(frozen=True)
class Oscillators:
    """What feeds a chip. `hse_is_clock`: a clock from outside, which needs HSEBYP; `hse_dead`: nothing comes.

    `hse_start_s`, `pll_start_s`: how long each takes from being enabled to ready.
    """

    hsi_hz: float
    hse_hz: float
    hse_is_clock: bool = False
    hse_dead: bool = False
    hse_start_s: float = 0.0
    pll_start_s: float = 0.0


class Rcc(Registers, ABC):
    """What the families share: CR at 0x00, a CFGR with SW, SWS and HPRE in the same bits.

    `time_s` gives the time. Whoever is wired to it sets `changed`, told when the core's clock has changed,
    `rtc_changes`, told before that of the RTC does, and `backup_open`, asked whether BDCR may be written.
    """

    CFGR = 0x04
    BDCR, CSR = 0x20, 0x24

    def __init__(self, oscillators: Oscillators, reset: Mapping[int, int], time_s: Callable[[], float]) -> None:
        super().__init__({0x00: 0x83, self.CFGR: 0, **reset})
        self._oscillators, self._time_s = oscillators, time_s
        # When what is on was switched on, by its bit in CR.
        self._on_s = {_HSE_ON: 0.0, _PLL_ON: 0.0}
        self._told_hz = oscillators.hsi_hz
        self.changed: Callable[[], None] = lambda: None
        self.rtc_changes: Callable[[bool], None] = lambda _: None
        self.backup_open: Callable[[], bool] = lambda: False

    @abstractmethod
    def pll_hz(self) -> float:
        """Give what the PLL would put out with its present settings, 0 where it cannot lock."""

    @abstractmethod
    def pll_source(self) -> int:
        """Give the oscillator that the PLL's settings name: 0 internal, 1 external."""

    def guard(self, offset: int, value: int) -> int:
        """Give the value that a register takes while the PLL is on."""
        return value

    def put(self, offset: int, value: int) -> None:
        """Write one word; ready flags and SWS follow."""
        if offset == 0x00:
            self.words[0x00] = self._control(value)
        elif offset == self.BDCR:
            if self.backup_open():
                self.rtc_changes(bool(value & _BACKUP_RESET))
                self.words[offset] = self._backup(value)
        elif offset == self.CSR:
            self.rtc_changes(False)
            # LSI is ready as soon as it is on.
            self.words[offset] = value & ~2 | (value & _LSI_ON) << 1
        else:
            if self.words[0x00] & _PLL_ON:
                value = self.guard(offset, value)
            if offset == self.CFGR:
                value = value & ~0xC | self.words[self.CFGR] & 0xC
            self.words[offset] = value
        self._settle()

    def get(self, offset: int) -> int:
        """Read one word."""
        self._settle()
        return super().get(offset)

    def leave_stop(self) -> None:
        """Come out of stop mode: on the internal oscillator, the crystal and the PLL off."""
        self.words[self.CFGR] &= ~0xF
        self.words[0x00] = self.words[0x00] & ~(_HSE_ON | _PLL_ON) | _HSI_ON
        self._settle()

    def rtc_runs(self) -> bool:
        """Tell whether the LSI drives the RTC; no other source is modelled."""
        chosen = self.words.get(self.BDCR, 0) & (_RTC_ON | _RTC_SOURCE) == _RTC_ON | _RTC_FROM_LSI
        return chosen and bool(self.words.get(self.CSR, 0) & _LSI_ON)

    def gate(self, offset: int, bit: int) -> Callable[[], bool]:
        """Give a question: is the clock with this enable bit on?"""
        return lambda: bool(self.words.get(offset, 0) >> bit & 1)

    @property
    def source(self) -> int:
        """Tell what drives the core: 0 the internal oscillator, 1 the external one, 2 the PLL."""
        return self.words[self.CFGR] >> 2 & 3

    @property
    def pll_on(self) -> bool:
        """Tell whether the PLL is switched on."""
        return bool(self.words[0x00] & _PLL_ON)

    def system_hz(self) -> float:
        """Give SYSCLK."""
        if self.source == _PLL:
            return self.pll_hz()
        return self._oscillators.hse_hz if self.source == _HSE else self._oscillators.hsi_hz

    def core_hz(self) -> float:
        """Give HCLK, the core's clock."""
        prescaler = self.words[self.CFGR] >> 4 & 0xF
        return self.system_hz() / (_AHB_DIVISORS[prescaler & 7] if prescaler & 8 else 1)

    def bus_hz(self, prescaler: int) -> float:
        """Give the clock of an APB bus from its three bits of prescaler."""
        return self.core_hz() / (2 << (prescaler & 3) if prescaler & 4 else 1)

    @abstractmethod
    def serial_hz(self, enable_offset: int) -> float:
        """Give the clock of the serial port whose clock enable lies at this offset."""

    def objection(self) -> str:
        """Say why the chip fails at its present clocks; empty where it does not."""
        return ""

    def input_hz(self) -> float:
        """Give the oscillator that the PLL's settings name, 0 while it is not ready."""
        if self.pll_source() == _HSE:
            return self._oscillators.hse_hz if self.words[0x00] & _HSE_READY else 0.0
        return self._oscillators.hsi_hz if self.words[0x00] & _HSI_READY else 0.0

    def _control(self, value: int) -> int:
        now = self.words[0x00]
        # What drives the core, directly or through the PLL, stays on.
        driver = self.pll_source() if self.source == _PLL else self.source
        value |= (_HSI_ON, _HSE_ON)[driver] if driver < _PLL else 0
        value |= _PLL_ON if self.source == _PLL else 0
        if now & _HSE_ON:
            value = value & ~_HSE_BYPASS | now & _HSE_BYPASS
        self._on_s |= {bit: self._time_s() for bit in self._on_s if value & bit and not now & bit}
        return value & ~_READY_BITS

    def _backup(self, value: int) -> int:
        if value & _BACKUP_RESET:
            return _BACKUP_RESET
        chosen = self.words.get(self.BDCR, 0) & _RTC_SOURCE
        return value & ~_RTC_SOURCE | chosen if chosen else value

    def _settle(self) -> None:
        # A PLL whose source has gone or whose settings changed while it was off; what has started by now.
        self.words[0x00] = self._with_flags(self.words[0x00])
        self._switch()
        if self.core_hz() != self._told_hz:
            self._told_hz = self.core_hz()
            self.changed()

    def _started(self, bit: int, start_s: float) -> bool:
        return self._time_s() >= self._on_s[bit] + start_s

    def _with_flags(self, value: int) -> int:
        value &= ~_READY_BITS
        value |= (value & _HSI_ON) << 1
        bypassed = bool(value & _HSE_BYPASS)
        alive = not self._oscillators.hse_dead and bypassed == self._oscillators.hse_is_clock
        if value & _HSE_ON and alive and self._started(_HSE_ON, self._oscillators.hse_start_s):
            value |= _HSE_READY
        self.words[0x00] = value
        if value & _PLL_ON and self.pll_hz() > 0.0 and self._started(_PLL_ON, self._oscillators.pll_start_s):
            value |= _PLL_READY
        return value

    def _switch(self) -> None:
        cfgr = self.words[self.CFGR]
        wanted = cfgr & 3
        if wanted <= _PLL and self.words[0x00] >> (1, 17, 25)[wanted] & 1:
            self.words[self.CFGR] = cfgr & ~0xC | wanted << 2


class RccF0(Rcc):
    """Clocks of the STM32F0x1 and F100: PLL = source / PREDIV x PLLMUL."""

    _CFGR2, _CFGR3, _CR2 = 0x2C, 0x30, 0x34
    _PLL_FIELDS = 0x003F_0000

    def __init__(self, oscillators: Oscillators, family: str, time_s: Callable[[], float] = lambda: 0.0) -> None:
        # The flash interface and the SRAM clocked in sleep (AHBENR 0x14); on the F0 HSI14's trim (CR2 0x80).
        super().__init__(oscillators, {0x14: 0x14} | ({self._CR2: 0x80} if family == "stm32f0" else {}), time_s)
        self._is_f0 = family == "stm32f0"

    def pll_source(self) -> int:
        """Give the oscillator that PLLSRC names."""
        return self.words[self.CFGR] >> 16 & 1

    def pll_hz(self) -> float:
        """Give PLLMUL x the divided source: HSI / 2, or HSE / PREDIV."""
        cfgr = self.words[self.CFGR]
        # PREDIV divides by 1 to 16; its lowest bit is also CFGR bit 17.
        prediv = (self.words.get(self._CFGR2, 0) & 0xE | cfgr >> 17 & 1) + 1 if self.pll_source() == _HSE else 2
        return self.input_hz() / prediv * min((cfgr >> 18 & 0xF) + 2, 16)

    def serial_hz(self, enable_offset: int) -> float:
        """Give PCLK (F0), or PCLK2 or PCLK1 (F1); on the F0 as CFGR3 selects for USART1."""
        cfgr = self.words[self.CFGR]
        if not self._is_f0:
            return self.bus_hz(cfgr >> 11 & 7 if enable_offset == 0x18 else cfgr >> 8 & 7)
        choice = self.words.get(self._CFGR3, 0) & 3 if enable_offset == 0x18 else 0
        # LSE (2) is not modelled.
        return (self.bus_hz(cfgr >> 8 & 7), self.system_hz(), 0.0, self._oscillators.hsi_hz)[choice]

    def timer_ratio(self) -> float:
        """Give the timers' clock / the core's: PCLK, or twice PCLK where the APB prescaler divides."""
        prescaler = self.words[self.CFGR] >> 8 & 7
        return self.bus_hz(prescaler) * (2 if prescaler & 4 else 1) / self.core_hz()

    def guard(self, offset: int, value: int) -> int:
        """Keep the PLL's fields of CFGR, and CFGR2, as they are."""
        if offset == self.CFGR:
            return value & ~self._PLL_FIELDS | self.words[self.CFGR] & self._PLL_FIELDS
        return self.words.get(offset, 0) if offset == self._CFGR2 else value

    def put(self, offset: int, value: int) -> None:
        """Write one word; on the F0 HSI14 is ready as soon as it is on."""
        if offset == self._CR2 and self._is_f0:
            value = value & ~2 | (value & 1) << 1
        elif offset == self._CFGR2:
            # The lowest bit of PREDIV is one bit at two places.
            value = value & 0xF
            cfgr = self.words[self.CFGR]
            super().put(self.CFGR, cfgr & ~(1 << 17) | (value & 1) << 17)
        super().put(offset, value)
        self.words[self._CFGR2] = self.words.get(self._CFGR2, 0) & ~1 | self.words[self.CFGR] >> 17 & 1


@dataclass(frozen=True)
class _BusLimits:
    apb1_hz: float
    apb2_hz: float
    source: str


_BUS_LIMITS = {
    # RM0090 7.3.2, CFGR PPRE1 and PPRE2.
    "stm32f4": _BusLimits(42e6, 84e6, "RM0090, RCC_CFGR"),
    # RM0410 5.3.3.
    "stm32f7": _BusLimits(54e6, 108e6, "RM0410, RCC_CFGR"),
}


class RccF4(Rcc):
    """Clocks of the STM32F405/407 and F76x: PLL = source / M x N / P."""

    CFGR = 0x08
    BDCR, CSR = 0x70, 0x74
    _PLLCFGR, _DCKCFGR2 = 0x04, 0x90
    _APB2ENR = 0x44
    _VCO_INPUT_HZ = (0.95e6, 2.1e6)
    _VCO_OUTPUT_HZ = (100e6, 432e6)

    def __init__(self, oscillators: Oscillators, family: str, time_s: Callable[[], float] = lambda: 0.0) -> None:
        # AHB1ENR at reset: the CCM RAM (F4) or the DTCM RAM (F7).
        reset = {self._PLLCFGR: 0x2400_3010, 0x30: 0x0010_0000, self.CSR: 0x0E00_0000}
        # RTCAPBEN (RM0410, RCC_APB1ENR).
        super().__init__(oscillators, reset | ({0x40: 0x400} if family == "stm32f7" else {}), time_s)
        self._family = family

    def pll_source(self) -> int:
        """Give the oscillator that PLLSRC names."""
        return self.words[self._PLLCFGR] >> 22 & 1

    def pll_hz(self) -> float:
        """Give source / M x N / P.

        0 where the manual's limits are broken: M from 2, N 50 to 432, 1 to 2 MHz into the VCO, 100 to 432 MHz out.
        """
        settings = self.words[self._PLLCFGR]
        m, n = settings & 0x3F, settings >> 6 & 0x1FF
        if m < 2 or not 50 <= n <= 432:
            return 0.0
        vco_in_hz = self.input_hz() / m
        if not self._VCO_INPUT_HZ[0] <= vco_in_hz <= self._VCO_INPUT_HZ[1]:
            return 0.0
        if not self._VCO_OUTPUT_HZ[0] <= vco_in_hz * n <= self._VCO_OUTPUT_HZ[1]:
            return 0.0
        return vco_in_hz * n / (2 * (settings >> 16 & 3) + 2)

    def serial_hz(self, enable_offset: int) -> float:
        """Give PCLK1 or PCLK2; on the F7 as DCKCFGR2 selects for USART1, the port on APB2."""
        cfgr = self.words[self.CFGR]
        if enable_offset != self._APB2ENR:
            return self.bus_hz(cfgr >> 10 & 7)
        choice = self.words.get(self._DCKCFGR2, 0) & 3 if self._family == "stm32f7" else 0
        # LSE (3) is not modelled.
        return (self.bus_hz(cfgr >> 13 & 7), self.system_hz(), self._oscillators.hsi_hz, 0.0)[choice]

    def guard(self, offset: int, value: int) -> int:
        """Keep PLLCFGR as it is."""
        return self.words[offset] if offset == self._PLLCFGR else value

    def objection(self) -> str:
        """Say which bus runs faster than the manual allows."""
        limits, cfgr = _BUS_LIMITS[self._family], self.words[self.CFGR]
        for name, hz, most_hz in (
            ("APB1", self.bus_hz(cfgr >> 10 & 7), limits.apb1_hz),
            ("APB2", self.bus_hz(cfgr >> 13 & 7), limits.apb2_hz),
        ):
            if hz > most_hz:
                return f"{name} runs at {hz:.0f} Hz, above its {most_hz:.0f} Hz ({limits.source})"
        return ""
