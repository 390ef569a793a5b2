"""Real-time clocks of the STM32 families on the LSI: the counter of the F1, the calendar of the others.

Sources: ST RM0041, RTC (F1: divider, counter, alarm); RM0091, RM0090, RM0410, RTC (sub-seconds with alarm A, wake-up
timer; the F0x1 has no timer). Ticks are periods of the LSI; they pass in stop mode too. Where the manual gives a number
of ticks until a write has taken effect, it takes that many. Left out: date and time, the other alarm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from instruments.sim.dut.registers import EngineFault, Registers


@dataclass(frozen=True)
class Surroundings:
    """What an RTC is wired to.

    `cycles` is the time in periods of `clock_hz`. `runs`: the LSI drives it; `open`: the backup domain takes writes;
    `rise` takes the rising edge of one of its `lines`, by name.
    """

    cycles: Callable[[], int]
    clock_hz: int
    lsi_hz: int
    runs: Callable[[], bool]
    open: Callable[[], bool]
    clocked: Callable[[], bool]
    rise: Callable[[int], None]
    lines: Mapping[str, int]


class Rtc(Registers, ABC):
    """Ticks, and flags that raise lines."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__({}, around.clocked)
        self.around = around
        self.tick = 0
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Go back to the values after a reset of the backup domain."""

    @abstractmethod
    def advance(self, n_ticks: int) -> None:
        """Let ticks pass."""

    @abstractmethod
    def due(self) -> Iterator[tuple[str, int]]:
        """Tell which lines rise next and in how many ticks, each at least 1."""

    def read(self, offset: int) -> int:
        """Read one word."""
        self.update()
        return super().read(offset)

    def write(self, offset: int, value: int, lanes: int = 0xFFFF_FFFF) -> None:
        """Write one word; lost while the backup domain is closed."""
        self.update()
        if self.around.open():
            super().write(offset, value, lanes)

    def update(self) -> None:
        """Bring everything to the present cycle."""
        around = self.around
        tick = around.cycles() * around.lsi_hz // around.clock_hz
        n_ticks, self.tick = tick - self.tick, tick
        if n_ticks and around.runs():
            rising = [name for name, n in self.due() if n <= n_ticks]
            self.advance(n_ticks)
            for name in rising:
                around.rise(around.lines[name])

    def clock_changes(self, reset: bool) -> None:
        """Note that the clock is about to change; `reset`: with the whole backup domain."""
        self.update()
        if reset:
            self.reset()

    def wake_cycle(self, wakes: Callable[[int], bool]) -> int | None:
        """Give the cycle at which a line rises next that `wakes`, None if none does."""
        self.update()
        around = self.around
        ticks = [n for name, n in self.due() if wakes(around.lines[name])] if around.runs() else []
        return -(-(self.tick + min(ticks)) * around.clock_hz // around.lsi_hz) if ticks else None


class RtcF1(Rtc):
    """A counter of 32 bits behind a divider, with an alarm. PRL, CNT and ALR take writes in configuration mode only."""

    _CRH, _CRL, _PRLH, _PRLL, _CNTH, _CNTL, _ALRH, _ALRL = 0x00, 0x04, 0x08, 0x0C, 0x18, 0x1C, 0x20, 0x24
    _ALARM, _SYNCHRONISED, _CONFIGURE, _FINISHED = 1 << 1, 1 << 3, 1 << 4, 1 << 5
    # Ticks until a write has taken effect (RM0041, RTC, "Configuring RTC registers": at least three).
    _WRITE_TICKS = 3
    _SPAN = 1 << 32

    def reset(self) -> None:
        """Divide by 32768, the counter at 0, no alarm."""
        self.words = {self._CRH: 0, self._CRL: 0}
        self._last, self._count, self._alarm = 0x7FFF, 0, self._SPAN - 1
        self._phase = 0
        self._finished_tick = self._synchronised_tick = 0

    def advance(self, n_ticks: int) -> None:
        """Count, and set ALRF in the last tick before the counter passes the alarm."""
        if n_ticks >= self._ticks_to_alarm():
            self.words[self._CRL] |= self._ALARM
        steps, self._phase = divmod(self._phase + n_ticks, self._last + 1)
        self._count = (self._count + steps) % self._SPAN

    def due(self) -> Iterator[tuple[str, int]]:
        """Tell when the alarm comes."""
        if self.words[self._CRH] & self._ALARM and not self.words[self._CRL] & self._ALARM:
            yield "alarm", self._ticks_to_alarm()

    def get(self, offset: int) -> int:
        """Read one word. PRL and ALR cannot be read; DIV is not modelled."""
        if offset == self._CRL:
            finished = self._FINISHED if self.tick >= self._finished_tick else 0
            synchronised = self._SYNCHRONISED if self.tick >= self._synchronised_tick else 0
            return self.words[offset] | finished | synchronised
        if offset in (self._CNTH, self._CNTL):
            return self._count >> (16 if offset == self._CNTH else 0) & 0xFFFF
        return self.words[offset] if offset == self._CRH else 0

    def put(self, offset: int, value: int) -> None:
        """Write one word. Raises EngineFault for one that comes before the last has taken effect."""
        if offset == self._CRL:
            if not value & self._SYNCHRONISED:
                self._synchronised_tick = self.tick + 1
            now = self.words[offset]
            if value & self._CONFIGURE and not now & self._CONFIGURE:
                self._check_finished()
            if now & self._CONFIGURE and not value & self._CONFIGURE:
                self._finished_tick = self.tick + self._WRITE_TICKS
            self.words[offset] = value & self._CONFIGURE | value & now & 7
        elif offset == self._CRH:
            self._check_finished()
            self.words[offset] = value & 7
        elif self.words[self._CRL] & self._CONFIGURE:
            self._configure(offset, value & 0xFFFF)

    def _configure(self, offset: int, value: int) -> None:
        if offset in (self._PRLH, self._PRLL):
            self._last = _half(self._last, offset == self._PRLH, value & 0xF if offset == self._PRLH else value)
            self._phase = 0
        elif offset in (self._CNTH, self._CNTL):
            self._count = _half(self._count, offset == self._CNTH, value)
            self._phase = 0
        elif offset in (self._ALRH, self._ALRL):
            self._alarm = _half(self._alarm, offset == self._ALRH, value)

    def _check_finished(self) -> None:
        if self.tick < self._finished_tick:
            raise EngineFault("the RTC is written while its last write goes on (RTOFF = 0)")

    def _ticks_to_alarm(self) -> int:
        steps = (self._alarm - self._count) % self._SPAN
        ticks = steps * (self._last + 1) + self._last - self._phase
        return ticks if ticks > 0 else self._SPAN * (self._last + 1)


def _half(word: int, high: bool, value: int) -> int:
    return word & 0xFFFF | value << 16 if high else word & 0xFFFF_0000 | value


class RtcCalendar(Rtc):
    """Sub-seconds that count down, alarm A on them, and the wake-up timer where there is one (a line "timer")."""

    _CR, _ISR, _PRER, _WUTR, _ALRMAR = 0x08, 0x0C, 0x10, 0x14, 0x1C
    _WPR, _SSR, _ALRMASSR = 0x24, 0x28, 0x44
    _ALARM_ON, _TIMER_ON, _ALARM_INTERRUPT, _TIMER_INTERRUPT = 1 << 8, 1 << 10, 1 << 12, 1 << 14
    _ALARM_WRITABLE, _TIMER_WRITABLE, _INIT_READY, _INIT = 1 << 0, 1 << 2, 1 << 6, 1 << 7
    _ALARM_FLAG, _TIMER_FLAG = 1 << 8, 1 << 10
    _FLAGS = 0x3F00
    _KEYS = (0xCA, 0x53)
    # Ticks until ALRAWF, WUTWF and INITF follow (RM0090 26.3.5, 26.3.6: about two).
    _FOLLOW_TICKS = 2

    def reset(self) -> None:
        """Divide by 128 and 256, nothing set up, registers locked."""
        self.words = {self._CR: 0, self._ISR: 0, self._PRER: 0x007F_00FF, self._WUTR: 0xFFFF}
        self._keys: tuple[int, ...] = ()
        self._sub, self._phase = 0, 0
        self._init_tick = self._alarm_off_tick = self._timer_off_tick = 0
        self._timer_ticks = 0

    def advance(self, n_ticks: int) -> None:
        """Count down, and set the flags of what is due."""
        for name, n in tuple(self._flags_due()):
            if n <= n_ticks:
                self.words[self._ISR] |= self._ALARM_FLAG if name == "alarm" else self._TIMER_FLAG
        if not self.words[self._ISR] & self._INIT:
            steps, self._phase = divmod(self._phase + n_ticks, self._asynchronous)
            self._sub = (self._sub - steps) % self._synchronous
        if self.words[self._CR] & self._TIMER_ON:
            self._timer_ticks = (self._timer_ticks + n_ticks) % self._timer_period

    def due(self) -> Iterator[tuple[str, int]]:
        """Tell when the lines rise: the flag comes, is not up yet, and its interrupt is on."""
        cr, isr = self.words[self._CR], self.words[self._ISR]
        for name, n in self._flags_due():
            is_alarm = name == "alarm"
            on = cr & (self._ALARM_INTERRUPT if is_alarm else self._TIMER_INTERRUPT)
            if on and not isr & (self._ALARM_FLAG if is_alarm else self._TIMER_FLAG):
                yield name, n

    def get(self, offset: int) -> int:
        """Read one word."""
        if offset == self._SSR:
            return self._sub
        if offset != self._ISR:
            return super().get(offset)
        cr, isr = self.words[self._CR], self.words[offset]
        ready = isr & self._INIT and self.tick >= self._init_tick
        alarm = not cr & self._ALARM_ON and self.tick >= self._alarm_off_tick
        timer = not cr & self._TIMER_ON and self.tick >= self._timer_off_tick
        return (
            isr
            | (self._INIT_READY if ready else 0)
            | (self._ALARM_WRITABLE if alarm else 0)
            | (self._TIMER_WRITABLE if timer and "timer" in self.around.lines else 0)
        )

    def put(self, offset: int, value: int) -> None:
        """Write one word; all but flags and WPR only behind the two keys. Raises EngineFault for an alarm by date."""
        if offset == self._WPR:
            self._keys = (*self._keys, value & 0xFF)[-len(self._KEYS) :]
            return
        isr = self.words[self._ISR]
        if offset == self._ISR:
            self.words[offset] = isr & ~self._FLAGS | isr & value & self._FLAGS
        if self._keys != self._KEYS or offset == self._SSR:
            return
        status = self.get(self._ISR)
        if offset == self._ISR:
            self._initialise(value)
        elif offset == self._CR:
            self._control(value)
        elif offset == self._PRER:
            if status & self._INIT_READY:
                self.words[offset] = value & 0x007F_7FFF
        elif offset == self._WUTR:
            if status & self._TIMER_WRITABLE:
                self.words[offset] = value & 0xFFFF
        elif offset not in (self._ALRMAR, self._ALRMASSR) or status & self._ALARM_WRITABLE:
            super().put(offset, value)

    def _initialise(self, value: int) -> None:
        isr = self.words[self._ISR]
        if value & self._INIT and not isr & self._INIT:
            self._init_tick = self.tick + self._FOLLOW_TICKS
        if isr & self._INIT and not value & self._INIT:
            self._sub, self._phase = self._synchronous - 1, 0
        self.words[self._ISR] = isr & ~self._INIT | value & self._INIT

    def _control(self, value: int) -> None:
        now = self.words[self._CR]
        if "timer" not in self.around.lines:
            value &= ~(self._TIMER_ON | self._TIMER_INTERRUPT)
        if now & ~value & self._ALARM_ON:
            self._alarm_off_tick = self.tick + self._FOLLOW_TICKS
        if now & ~value & self._TIMER_ON:
            self._timer_off_tick = self.tick + self._FOLLOW_TICKS
        if value & ~now & self._TIMER_ON:
            self._timer_ticks = 0
            if value & 4:
                raise EngineFault("the RTC's wake-up timer on whole seconds has no model")
        if value & ~now & self._ALARM_ON:
            by_date = self.words.get(self._ALRMAR, 0) & 0x8080_8080 != 0x8080_8080
            if by_date or self.words.get(self._ALRMASSR, 0) >> 24 & 15 != 15:
                raise EngineFault("an alarm of the RTC on anything but all sub-seconds has no model")
        self.words[self._CR] = value

    def _flags_due(self) -> Iterator[tuple[str, int]]:
        cr = self.words[self._CR]
        target = self.words.get(self._ALRMASSR, 0) & 0x7FFF
        if cr & self._ALARM_ON and target < self._synchronous and not self.words[self._ISR] & self._INIT:
            steps = (self._sub - target) % self._synchronous or self._synchronous
            yield "alarm", steps * self._asynchronous - self._phase
        if cr & self._TIMER_ON:
            yield "timer", self._timer_period - self._timer_ticks

    @property
    def _asynchronous(self) -> int:
        return (self.words[self._PRER] >> 16 & 0x7F) + 1

    @property
    def _synchronous(self) -> int:
        return (self.words[self._PRER] & 0x7FFF) + 1

    @property
    def _timer_period(self) -> int:
        """In ticks: WUCKSEL divides by 16, 8, 4 or 2."""
        return (self.words[self._WUTR] + 1) * (16 >> (self.words[self._CR] & 3))
