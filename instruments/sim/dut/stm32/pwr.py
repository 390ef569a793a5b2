"""Power control: stop modes and the lock of the backup domain; voltage scaling and over-drive.

Sources: ST RM0041 and RM0091, PWR (LPDS, PDDS, DBP: the same bits in all families); RM0090, PWR (one bit VOS: scale 2
up to 144 MHz, scale 1 up to 168 MHz); RM0410, PWR (scale 3 up to 144 MHz, scale 2 up to 168 or with over-drive 180 MHz,
scale 1 up to 180 or with over-drive 216 MHz; stop mode ends without over-drive). VOS takes writes only while the PLL is
off and holds while it is on; without PLL the F7 is in scale 3. Ready as soon as asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from instruments.sim.dut.registers import Registers
from instruments.sim.dut.stm32.rcc import Rcc

_CR, _CSR = 0x00, 0x04
_VOS_READY = 1 << 14
_PLL = 2


class Pwr(Registers):
    """What the families share, and all that matters of the STM32F0 and F1: the lowest bits of CR."""

    _LOW_POWER_REGULATOR, _STANDBY, _CLEAR_FLAGS, _BACKUP_OPEN = 1 << 0, 1 << 1, 3 << 2, 1 << 8

    def __init__(self, reset: int, clocked: Callable[[], bool]) -> None:
        super().__init__({_CR: reset}, clocked)

    def put(self, offset: int, value: int) -> None:
        """Write one word; the bits that clear flags read 0."""
        super().put(offset, value & ~self._CLEAR_FLAGS if offset == _CR else value)

    @property
    def backup_open(self) -> bool:
        """Tell whether the backup domain takes writes (DBP)."""
        return bool(self.words[_CR] & self._BACKUP_OPEN)

    @property
    def mode(self) -> str:
        """Tell what deep sleep is: "stop", "lpstop" with the regulator in low-power mode, or "standby"."""
        if self.words[_CR] & self._STANDBY:
            return "standby"
        return "lpstop" if self.words[_CR] & self._LOW_POWER_REGULATOR else "stop"

    def leave_stop(self) -> None:
        """Change what stop mode does not keep."""

    def objection(self, _core_hz: float) -> str:
        """Say that the regulator's output is too low for the core's clock; empty where it is not."""
        return ""


class PwrF4(Pwr):
    """CR and CSR of the STM32F405/407."""

    _VOS = 1 << 14

    def __init__(self, rcc: Rcc, clocked: Callable[[], bool]) -> None:
        super().__init__(self._VOS, clocked)
        self._rcc = rcc

    def get(self, offset: int) -> int:
        """Read one word."""
        return self.words.get(_CSR, 0) | _VOS_READY if offset == _CSR else super().get(offset)

    def put(self, offset: int, value: int) -> None:
        """Write one word."""
        if offset == _CR and self._rcc.pll_on:
            value = value & ~self._VOS | self.words[_CR] & self._VOS
        super().put(offset, value)

    def objection(self, core_hz: float) -> str:
        """Say that the regulator's output is too low for the core's clock; empty where it is not."""
        most_hz = 168e6 if self.words[_CR] & self._VOS else 144e6
        return f"PWR_CR.VOS allows {most_hz:.0f} Hz, not {core_hz:.0f} Hz" if core_hz > most_hz else ""


class PwrF7(Pwr):
    """CR1 and CSR1 of the STM32F76x."""

    _VOS = 3 << 14
    _OVER_DRIVE, _OVER_DRIVE_SWITCH = 1 << 16, 1 << 17
    # Highest clock by scale, without and with over-drive.
    _MOST_HZ = ((), (180e6, 216e6), (168e6, 180e6), (144e6, 144e6))

    def __init__(self, rcc: Rcc, clocked: Callable[[], bool]) -> None:
        super().__init__(self._VOS, clocked)
        self._rcc = rcc

    def leave_stop(self) -> None:
        """Switch over-drive off."""
        self.words[_CR] &= ~(self._OVER_DRIVE | self._OVER_DRIVE_SWITCH)

    def get(self, offset: int) -> int:
        """Read one word."""
        if offset != _CSR:
            return super().get(offset)
        over_drive = self.words[_CR] & (self._OVER_DRIVE | self._OVER_DRIVE_SWITCH)
        return over_drive | (_VOS_READY if self._rcc.pll_on else 0)

    def put(self, offset: int, value: int) -> None:
        """Write one word. Over-drive switches only while HSI or HSE drive the core, and only when it is on."""
        if offset == _CR:
            now = self.words[_CR]
            if self._rcc.pll_on:
                value = value & ~self._VOS | now & self._VOS
            if self._rcc.source == _PLL:
                value = value & ~self._OVER_DRIVE_SWITCH | now & self._OVER_DRIVE_SWITCH
            if not value & self._OVER_DRIVE:
                value &= ~self._OVER_DRIVE_SWITCH
        super().put(offset, value)

    def objection(self, core_hz: float) -> str:
        """Say that the regulator's output is too low for the core's clock; empty where it is not."""
        cr = self.words[_CR]
        # VOS 3: scale 1, 2: scale 2, 1: scale 3; 0 is reserved and taken as scale 3.
        scale = min(4 - (cr >> 14 & 3), 3) if self._rcc.pll_on else 3
        most_hz = self._MOST_HZ[scale][bool(cr & self._OVER_DRIVE_SWITCH)]
        if core_hz <= most_hz:
            return ""
        return f"voltage scale {scale} and over-drive allow {most_hz:.0f} Hz, not {core_hz:.0f} Hz"
