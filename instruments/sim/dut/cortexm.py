"""The private peripherals of a Cortex-M core that measuring firmware uses: SysTick, DWT cycle counter, system control.

Source: ARM DDI 0403 (ARMv7-M Architecture Reference Manual), sections B3.2 (SCB), B3.3 (SysTick), C1.8 (DWT), C1.6.5
(DEMCR), B3.4 (NVIC); ARM DDI 0419 (ARMv6-M), B3.2 to B3.4; ARM DDI 0489 (Cortex-M7) for caches and the lock of the
DWT. Registers without a model read back what was written. No exception is ever taken: firmware keeps PRIMASK set and
sleeps until SysTick or an enabled interrupt is pending.

ARMv6-M has no cycle counter, and its debug registers are the debugger's alone: on a Cortex-M0 all below the system
control space, and DHCSR to DEMCR in it, read 0 and take nothing. (DDI 0419 leaves open what the core's own accesses
do.)
"""

from __future__ import annotations

from collections.abc import Callable

from instruments.sim.dut.cores import CCR, CCSIDR, CPUID, CSSELR, Core
from instruments.sim.dut.registers import ALL_LANES, Registers

ADDRESS = 0xE000_0000
SIZE_BYTES = 0x0010_0000

_DWT_CTRL, _DWT_CYCCNT, _DWT_LAR, _DWT_LSR = 0x1000, 0x1004, 0x1FB0, 0x1FB4
_DWT = range(0x1000, 0x2000)
_UNLOCK = 0xC5AC_CE55
_LOCK_IMPLEMENTED, _LOCKED = 1, 2
_SYST_CSR, _SYST_RVR, _SYST_CVR = 0xE010, 0xE014, 0xE018
_SYSTICK = (_SYST_CSR, _SYST_RVR, _SYST_CVR)
_ISER, _ICER, _ISPR, _ICPR = range(0xE100, 0xE120), range(0xE180, 0xE1A0), range(0xE200, 0xE220), range(0xE280, 0xE2A0)
_NVIC = range(0xE100, 0xE2A0)
_SCS = 0xE000
_ICSR, _SCR, _DEMCR = 0xED04, 0xED10, 0xEDFC
_DEBUG_OF_SCS = range(0xEDF0, 0xEE00)
_SLEEPDEEP = 1 << 2
_READ_ONLY = (CPUID, CCSIDR)
_PENDSTSET, _PENDSTCLR = 1 << 26, 1 << 25
_TRCENA = 1 << 24
_MASK_24 = 0x00FF_FFFF


class SysTick:
    """Count 24 bits down, from RVR over 0 to RVR again; each arrival at 0 sets COUNTFLAG and, with TICKINT, pends."""

    def __init__(self, cycles: Callable[[], int], divider: int) -> None:
        self._cycles = cycles
        self._divider = divider
        self._csr = 0
        self._reload = 0
        self._value = 0
        self._since = 0
        self._flag = False
        self.pending = False

    def read(self, offset: int) -> int:
        """Read CSR, RVR or CVR. Reading CSR clears COUNTFLAG."""
        self.update()
        if offset == _SYST_CSR:
            value = self._csr | self._flag << 16
            self._flag = False
            return value
        return self._reload if offset == _SYST_RVR else self._value

    def write(self, offset: int, value: int) -> None:
        """Write CSR, RVR or CVR. Writing CVR clears counter and COUNTFLAG."""
        self.update()
        if offset == _SYST_CSR:
            self._csr = value & 7
        elif offset == _SYST_RVR:
            self._reload = value & _MASK_24
        else:
            self._value = 0
            self._flag = False

    def update(self) -> None:
        """Bring the counter to the present cycle."""
        n_cycles = self._cycles() - self._since
        step = self._step_cycles
        if not self._csr & 1 or not (self._value or self._reload):
            self._since += n_cycles
            return
        ticks = n_cycles // step
        self._since += ticks * step
        first = self._value or self._reload + 1
        if ticks < first:
            # From 0 the next tick loads RVR; from elsewhere it counts down.
            self._value = self._value - ticks if self._value else (self._reload + 1 - ticks) % (self._reload + 1)
            return
        self._flag = True
        self.pending = self.pending or bool(self._csr & 2)
        self._value = -(ticks - first) % (self._reload + 1)

    def wake_cycle(self) -> int | None:
        """Give the cycle at which SysTick becomes pending next, None if never."""
        self.update()
        if self._csr & 3 != 3 or not (self._value or self._reload):
            return None
        return self._since + (self._value or self._reload + 1) * self._step_cycles

    @property
    def _step_cycles(self) -> int:
        return 1 if self._csr & 4 else self._divider


class Nvic:
    """Which interrupts are enabled and which are pending, a bit each."""

    def __init__(self) -> None:
        self.enabled = self.pending = 0

    def read(self, offset: int) -> int:
        """Read a word of ISER, ICER, ISPR or ICPR."""
        bits = self.enabled if offset in _ISER or offset in _ICER else self.pending
        return bits >> 8 * (offset & 0x1C) & ALL_LANES

    def write(self, offset: int, value: int) -> None:
        """Write a word: every 1 sets or clears."""
        bits = value << 8 * (offset & 0x1C)
        if offset in _ISER:
            self.enabled |= bits
        elif offset in _ICER:
            self.enabled &= ~bits
        elif offset in _ISPR:
            self.pending |= bits
        elif offset in _ICPR:
            self.pending &= ~bits

    def pend(self, irq: int) -> None:
        """Take an interrupt's request."""
        self.pending |= 1 << irq

    @property
    def wakes(self) -> bool:
        """Tell whether an enabled interrupt is pending, which WFI does not wait for."""
        return bool(self.enabled & self.pending)


class CoreRegisters(Registers):
    """Serve the private peripheral bus from the cycle counter.

    `cycles` counts the core's cycles, `asleep_cycles` those that DWT_CYCCNT misses in sleep. `systick_divider` divides
    the core clock where SysTick runs on its reference clock (CLKSOURCE = 0). `changed` is called where CCR was written.
    """

    size_bytes = SIZE_BYTES

    def __init__(
        self,
        core: Core,
        cycles: Callable[[], int],
        asleep_cycles: Callable[[], int],
        systick_divider: int,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(core.reset)
        self._core, self._changed = core, changed
        self.systick = SysTick(cycles, systick_divider)
        self.nvic = Nvic()
        self._count = lambda: cycles() - asleep_cycles()
        self._cyccnt = 0
        self._cyccnt_since: int | None = None
        self._dwt_locked = core.dwt_locks

    @property
    def sleeps_deeply(self) -> bool:
        """Tell whether WFI stops all clocks (SCR.SLEEPDEEP): SysTick then wakes nobody."""
        return bool(self.words.get(_SCR, 0) & _SLEEPDEEP)

    @property
    def instruction_cache(self) -> bool:
        """Tell whether the core's own instruction cache is on (CCR.IC)."""
        return bool(self._core.caches and self.words[CCR] >> 17 & 1)

    @property
    def data_cache(self) -> bool:
        """Tell whether the core's own data cache is on (CCR.DC)."""
        return bool(self._core.caches and self.words[CCR] >> 16 & 1)

    def get(self, offset: int) -> int:
        """Read one word."""
        if offset in _SYSTICK:
            return self.systick.read(offset)
        if offset in _NVIC:
            return self.nvic.read(offset)
        if self._out_of_reach(offset):
            return 0
        if offset == _DWT_CYCCNT:
            return self._cyccnt_now()
        if offset == _DWT_LSR and self._core.dwt_locks:
            return _LOCK_IMPLEMENTED | (_LOCKED if self._dwt_locked else 0)
        if offset == _ICSR:
            self.systick.update()
            return _PENDSTSET if self.systick.pending else 0
        if offset == CCSIDR and self._core.caches:
            return self._core.caches[self.words.get(CSSELR, 0) & 1]
        return self.words.get(offset, 0)

    def write(self, offset: int, value: int, lanes: int = ALL_LANES) -> None:
        """Write one word."""
        value &= lanes
        if offset in _SYSTICK:
            self.systick.write(offset, value)
        elif offset in _NVIC:
            self.nvic.write(offset, value)
        elif offset == _ICSR:
            self.systick.update()
            if value & _PENDSTSET:
                self.systick.pending = True
            elif value & _PENDSTCLR:
                self.systick.pending = False
        elif offset == _DWT_LAR and self._core.dwt_locks:
            self._dwt_locked = value != _UNLOCK
        elif not (self._out_of_reach(offset) or offset in _READ_ONLY or (self._dwt_locked and offset in _DWT)):
            if offset == _DWT_CYCCNT:
                self._cyccnt = value
            else:
                self._cyccnt = self._cyccnt_now()
                self.put(offset, value | self.words.get(offset, 0) & ~lanes)
            self._restart_cyccnt()
            if offset == CCR:
                self._changed()

    def _out_of_reach(self, offset: int) -> bool:
        return not self._core.has_cycle_counter and (offset < _SCS or offset in _DEBUG_OF_SCS)

    def _cyccnt_now(self) -> int:
        passed = 0 if self._cyccnt_since is None else self._count() - self._cyccnt_since
        return (self._cyccnt + passed) & 0xFFFF_FFFF

    def _restart_cyccnt(self) -> None:
        # CYCCNT runs with DWT_CTRL.CYCCNTENA while DEMCR.TRCENA powers the unit.
        runs = self.words.get(_DWT_CTRL, 0) & 1 and self.words.get(_DEMCR, 0) & _TRCENA
        self._cyccnt_since = self._count() if runs else None
