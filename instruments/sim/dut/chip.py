"""The peripherals of one board, made from the tables of its data, and the wires between them.

Kinds: `<family>-rcc` (hsi_hz, hse_hz, hse = "crystal" or "clock", hse_start_s, pll_start_s), `<family>-flash`,
`<family>-pwr`, `<family>-exti` (irqs by line), `<family>-rtc` (lsi_hz, lines by name), `<family>-gpio` (port),
`<family>-usart` (tx_pin, rx_pin, alternate_function), `stm32f0-timer`; `cc26x2-prcm`, `-osc` (hsi_hz, hse_hz),
`-ioc` (uart0_tx_port, uart0_rx_port), `-gpio`, `-aux-sysif`, `-rom` (size_bytes), `pl011`. Each has `address`, most
`clock_enable` (offset in the clock control, bit).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from instruments.sim.dut.cc26x2.pins import Gpio, Ioc
from instruments.sim.dut.cc26x2.pl011 import Pl011
from instruments.sim.dut.cc26x2.prcm import AuxSystemInterface, Oscillator, Prcm
from instruments.sim.dut.cc26x2.rom import rom_content
from instruments.sim.dut.cores import Core
from instruments.sim.dut.cortexm import ADDRESS, CoreRegisters
from instruments.sim.dut.registers import ClockTree, Peripheral, always
from instruments.sim.dut.serial_port import Wires
from instruments.sim.dut.stm32 import rtc
from instruments.sim.dut.stm32.exti import Exti
from instruments.sim.dut.stm32.flash import Flash
from instruments.sim.dut.stm32.gpio import GpioF1, GpioModer
from instruments.sim.dut.stm32.pwr import Pwr, PwrF4, PwrF7
from instruments.sim.dut.stm32.rcc import Oscillators, Rcc, RccF0, RccF4
from instruments.sim.dut.stm32.timer import Timer
from instruments.sim.dut.stm32.usart import UsartV1, UsartV2
from instruments.sim.dut.waits import NO_WAITS, Waits

_PAGE = 0x400
_PIN = re.compile(r"(?:P([A-K])|DIO)(\d+)")
# What others are wired to is made first.
_FIRST = ("cc26x2-osc", "-rcc", "cc26x2-prcm", "cc26x2-ioc", "-pwr", "-exti")


class Port(Protocol):
    """What a GPIO port tells of its pins."""

    def level(self, pin: int) -> int:
        """Give the level of an output, 0 where the pin is none."""

    def sends(self, pin: int, function: int) -> bool:
        """Tell whether a peripheral with this function drives the pin."""

    def receives(self, pin: int, function: int) -> bool:
        """Tell whether a peripheral with this function hears the pin."""


@dataclass(frozen=True)
class Surroundings:
    """What a chip is connected to: cycles counted, bytes to and from outside, what is told of pins, waits and clock.

    `cycles` is the time in periods of the board's clock, `core_cycles` counts those that the core's clock has made.
    """

    cycles: Callable[[], int]
    core_cycles: Callable[[], int]
    asleep_cycles: Callable[[], int]
    received: deque[int]
    byte_sent: Callable[[int], None]
    polling: Callable[[int], None]
    pins_changed: Callable[[], None]
    waits_changed: Callable[[Waits], None]
    clock_changed: Callable[[float], None]


class Chip:
    """Every peripheral of a board, by address. Raises ValueError for a table that has no model."""

    def __init__(self, board: Mapping[str, Any], core: Core, around: Surroundings, hse_dead: bool) -> None:
        emulation = board["emulation"]
        self._board, self._around, self._hse_dead = board, around, hse_dead
        self._tables: Mapping[str, Mapping[str, Any]] = emulation["peripherals"]
        self.core = CoreRegisters(
            core,
            around.core_cycles,
            (lambda: 0) if emulation["cyccnt_counts_in_sleep"] else around.asleep_cycles,
            emulation["systick_divider"],
            self._tell_waits,
        )
        self._clock: ClockTree | None = None
        self._ports: dict[str, Port] = {}
        self._flash: Flash | None = None
        self._pwr: Pwr | None = None
        self._exti: Exti | None = None
        self._rtc: rtc.Rtc | None = None
        self._oscillator: Oscillator | None = None
        self._ioc: Ioc | None = None
        # Code in ROM that the chip brings: (address, content).
        self.rom: tuple[int, bytes] | None = None
        self._pages: dict[int, tuple[Peripheral, int]] = {}
        for name, table in sorted(self._tables.items(), key=self._turn):
            peripheral = self._make(name, table)
            if peripheral is not None:
                for base in range(table["address"], table["address"] + peripheral.size_bytes, _PAGE):
                    self._pages[base] = peripheral, table["address"]
        self.clock: ClockTree = self._the(self._clock, "clock control (kind <family>-rcc or cc26x2-prcm)")
        self._trigger = self._pin(board["pins"]["trigger"])
        self._pin(board["pins"]["serial_tx"])
        if isinstance(self._clock, Rcc):
            self._clock.changed = self._tell_clock
            self._tell_clock()

    def find(self, address: int) -> tuple[Peripheral | None, int]:
        """Give the peripheral at a word's address and the offset in it; None for an address without a model."""
        if address >= ADDRESS:
            return self.core, address - ADDRESS
        peripheral, base = self._pages.get(address & ~(_PAGE - 1), (None, address))
        return peripheral, address - base

    def trigger_level(self) -> int:
        """Give the level of the trigger pin."""
        port, pin = self._trigger
        return port.level(pin)

    def objection(self) -> str:
        """Say why a real chip would fail at its present clocks; empty where it would not."""
        core_hz = self.clock.core_hz()
        return (
            (self._flash.objection(core_hz) if self._flash else "")
            or (self._pwr.objection(core_hz) if self._pwr else "")
            or self.clock.objection()
        )

    def update(self) -> None:
        """Bring to the present what happens by itself: the real-time clock with its lines."""
        if self._rtc is not None:
            self._rtc.update()

    @property
    def awake(self) -> bool:
        """Tell whether WFI goes on at once, because of an interrupt or a line that is pending."""
        return self.core.nvic.wakes or (self._exti is not None and self._exti.pending)

    @property
    def deep_mode(self) -> str:
        """Tell what deep sleep is now: "stop", "lpstop", "standby", or "" where the chip's data do not say."""
        return self._pwr.mode if self._pwr else ""

    def rtc_wake_cycle(self) -> int | None:
        """Give the cycle at which the real-time clock wakes a halted core, None if it does not."""
        if self._rtc is None or self._exti is None:
            return None
        return self._rtc.wake_cycle(self._exti.wakes)

    def leave_stop(self) -> None:
        """Change clocks and regulator as the end of stop mode does."""
        if self._pwr is not None and isinstance(self._clock, Rcc):
            self._pwr.leave_stop()
            self._clock.leave_stop()

    def _turn(self, item: tuple[str, Mapping[str, Any]]) -> int:
        kind = item[1]["kind"]
        return next((k for k, end in enumerate(_FIRST) if kind.endswith(end)), len(_FIRST))

    def _make(self, name: str, table: Mapping[str, Any]) -> Peripheral | None:
        kind = table["kind"]
        family, _, part = kind.partition("-")
        makers = {"stm32": self._make_stm32, "cc26x": self._make_cc26x2, "pl011": self._make_cc26x2}
        maker = makers.get(family[:5])
        made = maker(family, part, table) if maker else None
        if made is None and kind != "cc26x2-rom" and not self._is_idle_port(table):
            raise ValueError(f"[emulation.peripherals.{name}]: no model of kind {kind!r}")
        return made

    def _is_idle_port(self, table: Mapping[str, Any]) -> bool:
        pins = self._board["pins"]
        return "tx_pin" in table and (table["tx_pin"], table["rx_pin"]) != (pins["serial_tx"], pins["serial_rx"])

    def _make_stm32(self, family: str, part: str, table: Mapping[str, Any]) -> Peripheral | None:
        around, old = self._around, family in ("stm32f0", "stm32f1")
        if part == "rcc":
            oscillators = Oscillators(
                table["hsi_hz"],
                table["hse_hz"],
                table.get("hse", "crystal") == "clock",
                self._hse_dead,
                table.get("hse_start_s", 0.0),
                table.get("pll_start_s", 0.0),
            )
            self._clock = rcc = (RccF0 if old else RccF4)(oscillators, family, self._time_s)
            return rcc
        gate = self._gate(table)
        if part == "gpio":
            port: GpioF1 | GpioModer = (
                GpioF1(gate, around.pins_changed)
                if family == "stm32f1"
                else GpioModer(family, table["port"], gate, around.pins_changed)
            )
            self._ports[table["port"]] = port
            return port
        if part == "usart" and not self._is_idle_port(table):
            wires = self._wires(table, table.get("alternate_function", 0), table.get("alternate_function", 0))
            return (UsartV1 if family in ("stm32f1", "stm32f4") else UsartV2)(wires, gate)
        if part == "flash":
            fetch = self._board["emulation"]["fetch"]
            supply_v = self._board["supply"]["node_mcu_v"]
            self._flash = Flash(family, fetch, self.core, supply_v, self._tell_waits)
            return self._flash
        if part == "pwr" and isinstance(self._clock, Rcc):
            if old:
                self._pwr = pwr = Pwr(0, gate)
            else:
                self._pwr = pwr = (PwrF7 if family == "stm32f7" else PwrF4)(self._clock, gate)
            self._clock.backup_open = lambda: pwr.backup_open
            return pwr
        if part == "exti":
            irqs = {int(line): irq for line, irq in table["irqs"].items()}
            self._exti = Exti(self.core.nvic, irqs, self.update)
            return self._exti
        if part == "rtc" and isinstance(self._clock, Rcc):
            self._rtc = self._make_rtc(family, table, self._clock)
            return self._rtc
        if part == "timer" and isinstance(self._clock, RccF0):
            return Timer(around.core_cycles, self._clock.timer_ratio, gate)
        return None

    def _make_rtc(self, family: str, table: Mapping[str, Any], rcc: Rcc) -> rtc.Rtc:
        pwr = self._the(self._pwr, "power control (kind <family>-pwr)")
        exti = self._the(self._exti, "EXTI (kind <family>-exti)")
        around = rtc.Surroundings(
            self._around.cycles,
            self._board["clock_hz"],
            table["lsi_hz"],
            rcc.rtc_runs,
            lambda: pwr.backup_open,
            self._gate(table),
            exti.rise,
            table["lines"],
        )
        made = (rtc.RtcF1 if family == "stm32f1" else rtc.RtcCalendar)(around)
        rcc.rtc_changes = made.clock_changes
        return made

    def _make_cc26x2(self, family: str, part: str, table: Mapping[str, Any]) -> Peripheral | None:
        around = self._around
        if part == "osc":
            self._oscillator = Oscillator(table["hsi_hz"], table["hse_hz"], self._hse_dead)
            return self._oscillator
        if part == "prcm":
            self._clock = prcm = Prcm(self._the(self._oscillator, "oscillator (kind cc26x2-osc)"))
            return prcm
        if part == "ioc":
            self._ioc = Ioc(around.pins_changed)
            return self._ioc
        if part == "gpio":
            port = Gpio(self._the(self._ioc, "pins (kind cc26x2-ioc)"), self._gate(table), around.pins_changed)
            self._ports["DIO"] = port
            return port
        if part == "aux-sysif":
            return AuxSystemInterface()
        if part == "rom":
            oscillator = self._table_of_kind("cc26x2-osc")["address"]
            self.rom = table["address"], rom_content(table["address"], table["size_bytes"], oscillator)
        if family == "pl011" and not self._is_idle_port(table):
            ioc = self._table_of_kind("cc26x2-ioc")
            return Pl011(self._wires(table, ioc["uart0_tx_port"], ioc["uart0_rx_port"]), self._gate(table))
        return None

    def _table_of_kind(self, kind: str) -> Mapping[str, Any]:
        return self._the(next((t for t in self._tables.values() if t["kind"] == kind), None), f"table of kind {kind}")

    def _wires(self, table: Mapping[str, Any], tx_function: int, rx_function: int) -> Wires:
        around = self._around

        def sends() -> bool:
            port, pin = self._pin(table["tx_pin"])
            return port.sends(pin, tx_function)

        def receives() -> bool:
            port, pin = self._pin(table["rx_pin"])
            return port.receives(pin, rx_function)

        return Wires(
            sends,
            receives,
            lambda: self.clock.serial_hz(table["clock_enable"]["offset"]),
            around.received,
            around.byte_sent,
            around.polling,
        )

    def _gate(self, table: Mapping[str, Any]) -> Callable[[], bool]:
        enable = table.get("clock_enable")
        if enable is None:
            return always
        return self._the(self._clock, "clock control").gate(enable["offset"], enable["bit"])

    def _tell_waits(self) -> None:
        self._around.waits_changed(self._flash.waits() if self._flash else NO_WAITS)

    def _tell_clock(self) -> None:
        self._around.clock_changed(self.clock.core_hz())

    def _time_s(self) -> float:
        return self._around.cycles() / self._board["clock_hz"]

    def _pin(self, name: str) -> tuple[Port, int]:
        match = _PIN.fullmatch(name)
        port = (match[1] or "DIO") if match else ""
        if match is None or port not in self._ports:
            raise ValueError(f"pin {name}: [emulation.peripherals] has no GPIO port for it")
        return self._ports[port], int(match[2])

    @staticmethod
    def _the(part: Any, what: str) -> Any:
        if part is None:
            raise ValueError(f"[emulation.peripherals] has no {what}; the chip needs one")
        return part
