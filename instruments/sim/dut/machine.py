"""One power-up of an emulated microcontroller: core, memory, peripherals, from the board's data.

Memory is exactly the board's; any other address, a write to flash and an undefined instruction are faults that name
the place. Registers in the peripheral space that have no model read back what was written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
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
)

from instruments.sim.dut import cortexm
from instruments.sim.dut.cc26x2.rom import check_image
from instruments.sim.dut.chip import Chip, Surroundings
from instruments.sim.dut.cores import find_core
from instruments.sim.dut.currents import current_ratio
from instruments.sim.dut.hook import BlockHook
from instruments.sim.dut.image import Image
from instruments.sim.dut.registers import EngineFault
from instruments.sim.dut.spoil import spoil_next_output

_VERBS = {
    UC_MEM_WRITE_UNMAPPED: "write to",
    UC_MEM_WRITE_PROT: "write to",
    UC_MEM_FETCH_UNMAPPED: "jump to",
    UC_MEM_FETCH_PROT: "jump to",
}
# A loop that polls a register is slow to emulate; stop now and then, so that its time line is handed over.
_READS_PER_STOP = 16384
_PAGE = 0x1000
# How far below the RAM an access is taken for the stack's: some pushes, and short of the option bytes of an STM32F1.
_STACK_REACH_BYTES = 1024
# Erased flash reads so.
_ERASED = b"\xff"
# Where a run would end by itself: an address that no code is at.
_NEVER = 0xFFFF_FFFE


class Events(Protocol):
    """What a machine tells its owner, from inside a run."""

    asleep_cycles: int

    def pin_changed(self, level: int) -> None:
        """Take a new level of the trigger pin."""

    def byte_sent(self, byte: int) -> None:
        """Take a byte from the serial port."""

    def polling(self, n_empty_polls: int) -> None:
        """Note that the firmware has found the serial port empty that many times in a row."""


@dataclass(frozen=True)
class Halt:
    """How a core waits in WFI, and until which cycle (None: for ever): "sleep", or without clock "stop" or "lpstop"."""

    mode: str
    wake_cycle: int | None


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
        self._board, self._memory = board, board["memory"]
        self._clock_hz = board["clock_hz"]
        self._trigger = board["pins"]["trigger"]
        self._level = 0
        self._n_reads = 0
        self._invalid: tuple[int, int, int] | None = None
        core = find_core(board["core"])
        self._uc = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
        self._uc.ctl_set_cpu_model(core.emulator_model)
        around = Surroundings(
            lambda: hook.cycles,
            lambda: hook.core_cycles,
            lambda: events.asleep_cycles,
            received,
            events.byte_sent,
            events.polling,
            self._pins_changed,
            hook.set_waits,
            self._clock_changed,
        )
        hook.attach(self._uc)
        self._chip = Chip(board, core, around, hse_dead)
        # Registers in the peripheral space that have no model.
        self._plain: dict[int, int] = {}
        self._map(board["emulation"]["peripheral_spaces"])
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

    def halt(self) -> Halt:
        """Tell how a core that met WFI waits. Raises EngineFault if it would interrupt, and for standby."""
        chip, now = self._chip, self._hook.cycles
        chip.update()
        systick = chip.core.systick
        systick.update()
        mode = chip.deep_mode if chip.core.sleeps_deeply else ""
        if mode == "standby":
            raise EngineFault(f"standby ends in a reset, which is not modelled, {self._where()}")
        if systick.pending or chip.awake:
            halt = Halt("sleep", now)
        else:
            wakes = [chip.rtc_wake_cycle()]
            # In deep sleep SysTick stands still.
            if not chip.core.sleeps_deeply and (tick := systick.wake_cycle()) is not None:
                wakes.append(now + self._hook.length(tick - self._hook.core_cycles))
            halt = Halt(mode or "sleep", min((cycle for cycle in wakes if cycle is not None), default=None))
        if halt.wake_cycle is not None and not self._uc.reg_read(UC_ARM_REG_PRIMASK):
            raise EngineFault(
                f"an interrupt would be taken, and interrupts are not modelled, {self._where()}; set PRIMASK before WFI"
            )
        return halt

    def wake(self, mode: str) -> None:
        """Go on after a halt, at its cycle of waking."""
        self._chip.update()
        if mode != "sleep":
            self._chip.leave_stop()

    def _clock_changed(self, core_hz: float) -> None:
        ratio = Fraction(self._clock_hz / core_hz).limit_denominator(1000) if core_hz > 0.0 else Fraction(1)
        self._hook.set_clock(ratio.numerator, ratio.denominator, current_ratio(self._board, core_hz))

    def spoil_next_output(self, function: int) -> None:
        """Flip a bit of the next output that `function` sums up. Call between two runs."""
        spoil_next_output(self._uc, function)

    def _map(self, spaces: Sequence[Mapping[str, int]]) -> None:
        flash, ram = self._memory["flash"], self._memory["ram"]
        uc = self._uc
        uc.mem_map(flash["address"], flash["size_bytes"], UC_PROT_READ | UC_PROT_EXEC)
        uc.mem_write(flash["address"], _ERASED * flash["size_bytes"])
        uc.mem_map(ram["address"], ram["size_bytes"])
        for address, content in self._image.segments:
            uc.mem_write(address, content)
        if self._chip.rom is not None:
            address, content = self._chip.rom
            uc.mem_map(address, len(content), UC_PROT_READ | UC_PROT_EXEC)
            uc.mem_write(address, content)
            check_image(bytes(uc.mem_read(flash["address"], flash["size_bytes"])), flash["address"])
        for space in (*spaces, {"address": cortexm.ADDRESS, "size_bytes": cortexm.SIZE_BYTES}):
            base = space["address"]
            # The emulator maps whole pages.
            size_bytes = -(-space["size_bytes"] // _PAGE) * _PAGE
            uc.mmio_map(base, size_bytes, self._read, base, self._write, base)
        uc.hook_add(UC_HOOK_MEM_INVALID, self._note_invalid)

    def _read(self, _uc: Uc, offset: int, size_bytes: int, base: int) -> int:
        address = base + offset
        self._n_reads += 1
        if self._n_reads % _READS_PER_STOP == 0:
            self._hook.request_stop()
        peripheral, register = self._chip.find(address & ~3)
        try:
            word = self._plain.get(address & ~3, 0) if peripheral is None else peripheral.read(register)
        except EngineFault as fault:
            raise self._placed(fault, address) from fault
        return word >> 8 * (address & 3) & (1 << 8 * size_bytes) - 1

    def _write(self, _uc: Uc, offset: int, size_bytes: int, value: int, base: int) -> None:
        address = base + offset
        shift = 8 * (address & 3)
        lanes = (1 << 8 * size_bytes) - 1 << shift
        value = value << shift & lanes
        peripheral, register = self._chip.find(address & ~3)
        try:
            if peripheral is not None:
                peripheral.write(register, value, lanes)
            else:
                self._plain[address & ~3] = self._plain.get(address & ~3, 0) & ~lanes | value
        except EngineFault as fault:
            raise self._placed(fault, address) from fault

    def _placed(self, fault: EngineFault, address: int) -> EngineFault:
        return EngineFault(f"firmware fault: {fault}, register {address:#010x}, {self._where()}")

    def _pins_changed(self) -> None:
        level = self._chip.trigger_level()
        if level == self._level:
            return
        self._level = level
        self._check_clock("rises" if level else "falls")
        self._events.pin_changed(level)

    def _check_clock(self, verb: str) -> None:
        core_hz = self._chip.clock.core_hz()
        if core_hz != self._clock_hz:
            raise EngineFault(
                f"trigger pin {self._trigger} {verb} while the core runs at {core_hz:.0f} Hz, not at the"
                f" {self._clock_hz} Hz of the board; set up the clock first"
            )
        objection = self._chip.objection()
        if objection:
            raise EngineFault(
                f"trigger pin {self._trigger} {verb}, and {objection}: a real chip would fail; correct the set-up"
            )

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
        if sp < ram["address"] or self._just_below(ram["address"]):
            what += f"; stack overflow: below the RAM at {ram['address']:#010x}, sp {sp:#010x}"
        return f"firmware fault: {what}, {self._where()}; correct the firmware, then switch the power off and on"

    def _just_below(self, begin: int) -> bool:
        """Tell whether an access to what lies just below an address failed: a push that faults leaves sp as it was."""
        if self._invalid is None or self._invalid[0] in (UC_MEM_FETCH_UNMAPPED, UC_MEM_FETCH_PROT):
            return False
        return begin - _STACK_REACH_BYTES <= self._invalid[1] < begin

    def _where(self) -> str:
        pc, lr = self._uc.reg_read(UC_ARM_REG_PC), self._uc.reg_read(UC_ARM_REG_LR)
        return f"at pc {pc:#010x} ({self._image.locate(pc)}), lr {lr:#010x} ({self._image.locate(lr)})"
