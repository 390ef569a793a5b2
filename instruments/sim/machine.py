"""One power-up of an emulated microcontroller: core, memory, peripherals, from the board's data.

Memory is exactly the board's; any other address, a write to flash and an undefined instruction are faults that name
the place. Registers in the peripheral space that have no model read back what was written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from unicorn import (
    UC_ARCH_ARM,
    UC_HOOK_MEM_INVALID,
    UC_MEM_FETCH_PROT,
    UC_MEM_FETCH_UNMAPPED,
    UC_MEM_WRITE_PROT,
    UC_MEM_WRITE_UNMAPPED,
    UC_MODE_MCLASS,
    UC_MODE_THUMB,
    UC_PROT_EXEC,
    UC_PROT_READ,
    Uc,
    UcError,
)
from unicorn.arm_const import (
    UC_ARM_REG_LR,
    UC_ARM_REG_PC,
    UC_ARM_REG_PRIMASK,
    UC_ARM_REG_SP,
    UC_CPU_ARM_CORTEX_M3,
)

from instruments.sim import cortexm
from instruments.sim import peripherals_stm32f1 as stm32f1
from instruments.sim.hook import BlockHook
from instruments.sim.image import Image

# Unicorn's CPU models by the board's `core`.
_CPU_MODELS = {"cortex-m3": UC_CPU_ARM_CORTEX_M3}
_VERBS = {
    UC_MEM_WRITE_UNMAPPED: "write to",
    UC_MEM_WRITE_PROT: "write to",
    UC_MEM_FETCH_UNMAPPED: "jump to",
    UC_MEM_FETCH_PROT: "jump to",
}
# A loop that polls a register is slow to emulate; stop now and then, so that its time line is handed over.
_READS_PER_STOP = 16384
# Where a run would end by itself: an address that no code is at.
_NEVER = 0xFFFF_FFFE


class EngineFault(Exception):
    """The firmware did what the chip cannot do, or what is not modelled: what, where, in which function."""


class Events(Protocol):
    """What a machine tells its owner, from inside a run."""

    asleep_cycles: int

    def pin_changed(self, level: int) -> None:
        """Take a new level of the trigger pin."""

    def byte_sent(self, byte: int) -> None:
        """Take a byte from the serial port."""

    def polling(self, n_empty_polls: int) -> None:
        """Note that the firmware has found the serial port empty that many times in a row."""


class Machine:
    """A freshly reset microcontroller with an image in flash and RAM all zero.

    `hook` counts its cycles, `received` queues bytes for its serial port. With `hse_dead` the crystal is dead.
    Raises ValueError for a core or a kind of peripheral without a model.
    """

    def __init__(
        self,
        board: Mapping[str, Any],
        image: Image,
        hook: BlockHook,
        received: deque[int],
        events: Events,
        hse_dead: bool = False,
    ) -> None:
        self._image, self._hook, self._events = image, hook, events
        self._memory = board["memory"]
        self._clock_hz = board["clock_hz"]
        self._level = 0
        self._n_reads = 0
        self._invalid: tuple[int, int, int] | None = None
        self._uc = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
        self._uc.ctl_set_cpu_model(_CPU_MODELS[board["core"]])
        emulation = board["emulation"]
        self.core = cortexm.CoreRegisters(
            lambda: hook.cycles, self._cyccnt_missed(emulation), emulation["systick_divider"]
        )
        self._add_peripherals(board, received, hse_dead)
        self._map(emulation["peripheral_space"])
        # Vector table: initial stack pointer, then the reset handler (ARM DDI 0403, B1.5.5).
        vectors = bytes(self._uc.mem_read(self._memory["flash"]["address"], 8))
        self._uc.reg_write(UC_ARM_REG_SP, int.from_bytes(vectors[:4], "little"))
        self._pc = int.from_bytes(vectors[4:], "little")

    def run(self) -> bool:
        """Run until the hook stops it (False) or it halts in WFI (True). Raises EngineFault."""
        self._invalid = None
        try:
            self._uc.emu_start(self._pc | 1, _NEVER)
        except UcError as error:
            raise EngineFault(self._describe(error)) from error
        self._pc = self._uc.reg_read(UC_ARM_REG_PC)
        return not self._hook.stopped

    def wake_cycle(self) -> int | None:
        """Give the cycle at which a halted core goes on, None if never. Raises EngineFault if it would interrupt."""
        systick = self.core.systick
        systick.update()
        cycle = self._hook.cycles if systick.pending else systick.wake_cycle()
        if cycle is not None and not self._uc.reg_read(UC_ARM_REG_PRIMASK):
            raise EngineFault(
                f"SysTick would interrupt, and interrupts are not modelled, {self._where()}; set PRIMASK before WFI"
            )
        return cycle

    def _cyccnt_missed(self, emulation: Mapping[str, Any]) -> Callable[[], int]:
        if emulation["cyccnt_counts_in_sleep"]:
            return lambda: 0
        return lambda: self._events.asleep_cycles

    def _add_peripherals(self, board: Mapping[str, Any], received: deque[int], hse_dead: bool) -> None:
        tables = board["emulation"]["peripherals"]
        pins = board["pins"]
        self._plain: dict[int, int] = {}
        self._peripherals: dict[int, stm32f1.Peripheral] = {}
        rccs = [t for t in tables.values() if t["kind"] == "stm32f1-rcc"]
        if len(rccs) != 1:
            raise ValueError(f"[emulation.peripherals] has {len(rccs)} tables of kind stm32f1-rcc; it needs one")
        self._rcc = stm32f1.Rcc(rccs[0]["hsi_hz"], rccs[0]["hse_hz"], hse_dead)
        self._ports: dict[str, stm32f1.Gpio] = {}
        for name, table in tables.items():
            peripheral: stm32f1.Peripheral
            if table["kind"] == "stm32f1-rcc":
                peripheral = self._rcc
            elif table["kind"] == "stm32f1-gpio":
                gpio = stm32f1.Gpio(stm32f1.clock_gate(self._rcc, table), self._port_changed)
                peripheral = self._ports[table["port"]] = gpio
            elif table["kind"] == "stm32f1-usart":
                if (table["tx_pin"], table["rx_pin"]) != (pins["serial_tx"], pins["serial_rx"]):
                    continue
                peripheral = stm32f1.Usart(
                    stm32f1.clock_gate(self._rcc, table),
                    self._serial_wired,
                    received,
                    self._events.byte_sent,
                    self._events.polling,
                )
            else:
                raise ValueError(f"[emulation.peripherals.{name}]: no model of kind {table['kind']!r}")
            self._peripherals[table["address"]] = peripheral
        self._trigger, self._serial_tx = pins["trigger"], pins["serial_tx"]
        for pin in (pins["trigger"], pins["serial_tx"]):
            if pin[1] not in self._ports:
                raise ValueError(f"pin {pin}: [emulation.peripherals] has no GPIO port {pin[1]!r}")

    def _map(self, space: Mapping[str, int]) -> None:
        flash, ram = self._memory["flash"], self._memory["ram"]
        uc = self._uc
        uc.mem_map(flash["address"], flash["size_bytes"], UC_PROT_READ | UC_PROT_EXEC)
        uc.mem_map(ram["address"], ram["size_bytes"])
        for address, content in self._image.segments:
            uc.mem_write(address, content)
        for base, size_bytes in (
            (space["address"], space["size_bytes"]),
            (cortexm.ADDRESS, cortexm.SIZE_BYTES),
        ):
            uc.mmio_map(base, size_bytes, self._read, base, self._write, base)
        uc.hook_add(UC_HOOK_MEM_INVALID, self._note_invalid)
        self._hook.attach(uc)

    def _find(self, address: int) -> tuple[stm32f1.Peripheral | None, int]:
        if address >= cortexm.ADDRESS:
            return self.core, address - cortexm.ADDRESS
        base = address & ~(stm32f1.SIZE_BYTES - 1)
        return self._peripherals.get(base), address - base

    def _read(self, _uc: Uc, offset: int, size_bytes: int, base: int) -> int:
        address = base + offset
        self._n_reads += 1
        if self._n_reads % _READS_PER_STOP == 0:
            self._hook.request_stop()
        peripheral, register = self._find(address & ~3)
        word = self._plain.get(address & ~3, 0) if peripheral is None else peripheral.read(register)
        return word >> 8 * (address & 3) & (1 << 8 * size_bytes) - 1

    def _write(self, _uc: Uc, offset: int, size_bytes: int, value: int, base: int) -> None:
        address = base + offset
        peripheral, register = self._find(address & ~3)
        shift, mask = 8 * (address & 3), (1 << 8 * size_bytes) - 1
        if peripheral is not None:
            peripheral.write(register, (value & mask) << shift)
        else:
            self._plain[address & ~3] = self._plain.get(address & ~3, 0) & ~(mask << shift) | (value & mask) << shift

    def _serial_wired(self) -> bool:
        return self._ports[self._serial_tx[1]].is_alternate(int(self._serial_tx[2:]))

    def _port_changed(self) -> None:
        level = self._ports[self._trigger[1]].level(int(self._trigger[2:]))
        if level == self._level:
            return
        self._level = level
        if level and self._rcc.clock_hz() != self._clock_hz:
            raise EngineFault(
                f"trigger pin {self._trigger} rises while the core runs at {self._rcc.clock_hz():.0f} Hz, not at the"
                f" {self._clock_hz} Hz of the board, {self._where()}; set up RCC first"
            )
        self._events.pin_changed(level)

    def _note_invalid(self, _uc: Uc, access: int, address: int, size_bytes: int, _value: int, _data: Any) -> bool:
        self._invalid = access, address, size_bytes
        return False

    def _describe(self, error: UcError) -> str:
        sp, ram = self._uc.reg_read(UC_ARM_REG_SP), self._memory["ram"]
        if self._invalid is None:
            what = f"the core stopped ({error})"
        else:
            access, address, size_bytes = self._invalid
            verb = _VERBS.get(access, "read of")
            flash = self._memory["flash"]
            inside = 0 <= address - flash["address"] < flash["size_bytes"]
            what = f"{verb} {address:#010x} ({size_bytes} bytes), " + (
                "which is flash" if inside else "where the board has nothing"
            )
        if sp < ram["address"]:
            what += f"; stack overflow: sp {sp:#010x} is below the RAM at {ram['address']:#010x}"
        return f"firmware fault: {what}, {self._where()}; correct the firmware, then switch the power off and on"

    def _where(self) -> str:
        pc, lr = self._uc.reg_read(UC_ARM_REG_PC), self._uc.reg_read(UC_ARM_REG_LR)
        return f"at pc {pc:#010x} ({self._image.locate(pc)}), lr {lr:#010x} ({self._image.locate(lr)})"
