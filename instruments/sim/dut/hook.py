"""The native hooks that Unicorn calls: at every block, and at every read from flash where reads wait.

They add up cycles and charge and keep a current time line. Compiled by numba, so that no C compiler is needed; they run
without Python's lock. All their state is one int64 array. A block is charged whole on entry, so what happens inside a
block is seen at the block's end; what a read waits is charged at the read.

Cycles of the time line are those of the board's clock, whatever clock the core is on: a core at a third of it makes
three of each of its own. `core_cycles` counts its own.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding
import numpy as np
from numba import cfunc, njit, types
from unicorn import UC_HOOK_BLOCK, UC_HOOK_MEM_READ, Uc, UcError
from unicorn.arm_const import UC_ARM_REG_XPSR
from unicorn.unicorn_py3.unicorn import uclib

from instruments.sim.dut.costs import QUANTUM_A, CostTable
from instruments.sim.dut.waits import NO_WAITS, Waits

# Where things lie in the state array.
_BASE, _N, _CYCLES, _CHARGE, _PREVIOUS, _MARK, _SPAN, _COUNT, _STOP, _STOPPED, _BLOCKS, _BUFFER = range(12)
_INSTRUCTIONS, _HALVINGS, _BRANCH, _DEFAULT, _LOAD = range(12, 17)
_LINE_SHIFT, _WAIT_TAKEN, _WAIT_LINE, _WAIT_DATA, _DATA_LINES, _XPSR, _XPSR_ADDRESS = range(17, 24)
# Cycles of the time line for so many of the core's, and the part of one that is owed; charge of so many 65536ths;
# cycles of the time line that were none of the core's.
_LENGTH, _PER, _OWED, _DRAW, _MISSED = range(24, 29)
_DRAW_BITS = 16
_LINES = 32  # tags of the data cache, the one used last first
DATA_LINES_MAX = 32
_TABLE = _LINES + DATA_LINES_MAX
_COLUMNS = 4  # units, charge, refill, instructions
# Entries of the time line: 16 cycles at first; a full buffer joins them two by two until each spans 128 cycles
# (5 us at 24 MHz, below the time constant of the decoupling), then the engine must fetch them.
SPAN_MIN_CYCLES = 16
SPAN_MAX_CYCLES = 128
CAPACITY = 1 << 18

# The hook stops the engine itself, before it charges the block: only then is a stopped run the same as one that was
# never stopped. (Unicorn looks at its stop flag after the hook, so a stop from elsewhere may charge a block twice.)
_REGISTER = types.int32(types.voidptr, types.int32, types.intp)


def _native(name: str, signature: Any) -> Any:
    llvmlite.binding.add_symbol(name, ctypes.cast(getattr(uclib, name), ctypes.c_void_p).value or 0)
    return types.ExternalFunction(name, signature)


_emu_stop = _native("uc_emu_stop", types.int32(types.voidptr))
_reg_read = _native("uc_reg_read", _REGISTER)
_reg_write = _native("uc_reg_write", _REGISTER)
# The bits of xPSR that hold the state of an IT block (ARM DDI 0403, B1.4.2).
_IT_BITS = 0x0600_FC00


@njit(types.void(types.CPointer(types.int64), types.int64, types.int64), cache=True)
def _spend(s, cycles, charge):
    if s[_LENGTH] != s[_PER]:
        owed = cycles * s[_LENGTH] + s[_OWED]
        length = owed // s[_PER]
        s[_OWED] = owed - length * s[_PER]
        s[_MISSED] += length - cycles
        cycles = length
        charge = charge * s[_DRAW] >> _DRAW_BITS
    s[_CYCLES] += cycles
    s[_CHARGE] += charge


@cfunc(types.void(types.voidptr, types.int64, types.uint32, types.CPointer(types.int64)), cache=True)
def _on_block(uc, address, size, s):
    if s[_STOP] != 0:
        s[_STOPPED] = 1
        _emu_stop(uc)
        return
    s[_BLOCKS] += 1
    start = (address - s[_BASE]) >> 1
    stop = start + (size >> 1)
    if start >= 0 and stop <= s[_N]:
        i = _TABLE + _COLUMNS * start
        j = _TABLE + _COLUMNS * stop
        units = s[j] - s[i]
        charge = s[j + 1] - s[i + 1]
        s[_INSTRUCTIONS] += s[j + 3] - s[i + 3]
        waits = 0
        if start != s[_PREVIOUS]:
            refill = s[_TABLE + _COLUMNS * s[_PREVIOUS] + 2]
            units += refill
            charge += refill * s[_BRANCH]
            waits = s[_WAIT_TAKEN]
        if s[_WAIT_LINE] != 0:
            # Lines that are entered: one for each boundary inside the block, and the first where it begins at one or
            # was jumped to.
            shift = s[_LINE_SHIFT]
            n_lines = ((address + size - 1) >> shift) - (address >> shift)
            if start != s[_PREVIOUS] or address & ((1 << shift) - 1) == 0:
                n_lines += 1
            waits += n_lines * s[_WAIT_LINE]
        s[_PREVIOUS] = stop
        # Whole cycles: a block that ends in the middle of one takes it all.
        halvings = s[_HALVINGS]
        rest = -units & ((1 << halvings) - 1)
        cycles = ((units + rest) >> halvings) + waits
        charge = ((charge + rest * s[_DEFAULT]) >> halvings) + waits * s[_BRANCH]
    else:
        # Code outside the table (run from RAM, or a chip's own ROM): a cycle a halfword.
        cycles = size >> 1
        charge = cycles * s[_DEFAULT]
        s[_PREVIOUS] = 0
    _spend(s, cycles, charge)
    if s[_CYCLES] - s[_MARK] < s[_SPAN]:
        return
    buffer = s[_BUFFER]
    entry = buffer + 2 * s[_COUNT]
    s[entry] = s[_CYCLES]
    s[entry + 1] = s[_CHARGE]
    s[_MARK] = s[_CYCLES]
    s[_COUNT] += 1
    if s[_COUNT] == CAPACITY:
        if s[_SPAN] >= SPAN_MAX_CYCLES:
            s[_STOP] = 1
            return
        # Entries hold running sums: to join two, drop the first.
        for k in range(CAPACITY // 2):
            s[buffer + 2 * k] = s[buffer + 4 * k + 2]
            s[buffer + 2 * k + 1] = s[buffer + 4 * k + 3]
        s[_COUNT] = CAPACITY // 2
        s[_SPAN] *= 2


@cfunc(
    types.void(types.voidptr, types.int32, types.int64, types.int32, types.int64, types.CPointer(types.int64)),
    cache=True,
)
def _on_read(uc, _kind, address, _size, _value, s):
    # For this call Unicorn brings the core's state up to date, IT bits included, and does not take them back: code that
    # follows would be skipped or executed as if it lay in the IT block. Translated code keeps them at 0.
    s[_XPSR] = 0
    _reg_read(uc, UC_ARM_REG_XPSR, s[_XPSR_ADDRESS])
    if s[_XPSR] & _IT_BITS:
        s[_XPSR] &= ~_IT_BITS
        _reg_write(uc, UC_ARM_REG_XPSR, s[_XPSR_ADDRESS])
    wait = s[_WAIT_DATA]
    if wait == 0:
        return
    n_lines = s[_DATA_LINES]
    if n_lines > 0:
        # Least recently used: move the line to the front; a line that is not there pushes the last one out.
        line = (address >> s[_LINE_SHIFT]) + 1
        carried = line
        for k in range(n_lines):
            found = s[_LINES + k]
            s[_LINES + k] = carried
            if found == line:
                return
            carried = found
    _spend(s, wait, wait * s[_LOAD])


class BlockHook:
    """Cycle counter and current time line of one emulated core, over all its power cycles.

    `flash` is the span of addresses whose reads may wait, as (first, last).
    """

    def __init__(self, table: CostTable, flash: tuple[int, int]) -> None:
        n = len(table.units) - 1
        buffer = _TABLE + _COLUMNS * (n + 1)
        # Two entries of room beyond the capacity: the part below one span, and one stretch of sleep.
        self._state = np.zeros(buffer + 2 * (CAPACITY + 2), dtype=np.int64)
        self._entries = self._state[buffer:].reshape(-1, 2)
        costs = self._state[_TABLE:buffer].reshape(-1, _COLUMNS)
        costs[:, 0], costs[:, 1], costs[:, 2], costs[:, 3] = table.units, table.charge, table.refill, table.count
        for index, value in (
            (_BASE, table.base),
            (_N, n),
            (_SPAN, SPAN_MIN_CYCLES),
            (_HALVINGS, table.halvings),
            (_BRANCH, table.quanta["branch"]),
            (_DEFAULT, table.quanta["alu"]),
            (_LOAD, table.quanta["load"]),
            (_BUFFER, buffer),
            (_XPSR_ADDRESS, self._state.ctypes.data + self._state.itemsize * _XPSR),
        ):
            self._state[index] = value
        self._flash = flash
        self._uc: Uc | None = None
        self._sees_reads = False
        self._fetched = np.zeros((1, 2), dtype=np.int64)

    def attach(self, uc: Uc) -> None:
        """Add the hook to an engine. Must come before its first start: blocks translated earlier would not be seen."""
        self._uc, self._sees_reads = uc, False
        self._add(UC_HOOK_BLOCK, _on_block.address, 1, 0)
        self._state[_PREVIOUS] = 0
        self.set_waits(NO_WAITS)
        self.set_clock(1, 1, 1.0)

    def set_clock(self, length: int, per: int, current_ratio: float) -> None:
        """Let `per` cycles of the core last `length` of the time line from the next block on, and draw this much less.

        `current_ratio` is to what the cost table says. May be called from inside a run.
        """
        s = self._state
        s[_LENGTH], s[_PER], s[_OWED] = length, per, 0
        s[_DRAW] = round(length / per * current_ratio * (1 << _DRAW_BITS))

    def set_waits(self, waits: Waits) -> None:
        """Let flash accesses add cycles from the next block on; the data cache is empty then.

        May be called from inside a run. Raises ValueError for a data cache that is too large for this model.
        """
        if waits.data_lines > DATA_LINES_MAX:
            raise ValueError(f"a data cache of {waits.data_lines} lines: at most {DATA_LINES_MAX} are modelled")
        s = self._state
        s[_LINE_SHIFT] = waits.line_bytes.bit_length() - 1
        s[_WAIT_TAKEN], s[_WAIT_LINE], s[_WAIT_DATA] = waits.taken, waits.line, waits.data
        s[_DATA_LINES] = waits.data_lines
        s[_LINES:_TABLE] = 0
        if waits.data and not self._sees_reads:
            self.request_stop()  # the hook for reads is added between two runs

    def arm(self) -> None:
        """Forget earlier stops, before a new run."""
        s = self._state
        s[_STOP] = 0
        s[_STOPPED] = 0
        if s[_WAIT_DATA] and not self._sees_reads and self._uc is not None:
            # Only where reads wait: with this hook Unicorn's loads take the slow path, so code is translated anew.
            self._add(UC_HOOK_MEM_READ, _on_read.address, *self._flash)
            self._uc.ctl_flush_tb()  # type: ignore[attr-defined]
            self._sees_reads = True

    def _add(self, kind: int, function: int | None, first: int, last: int) -> None:
        handle = ctypes.c_size_t()
        assert self._uc is not None
        status = uclib.uc_hook_add(
            self._uc._uch,
            ctypes.byref(handle),
            kind,
            ctypes.c_void_p(function),
            ctypes.c_void_p(self._state.ctypes.data),
            ctypes.c_uint64(first),
            ctypes.c_uint64(last),
        )
        if status:
            raise UcError(status)

    @property
    def cycles(self) -> int:
        """Count the cycles of the time line since the beginning, sleep included."""
        return int(self._state[_CYCLES])

    @property
    def core_cycles(self) -> int:
        """Count the cycles that the core's clock has made since the beginning, sleep included and stops not."""
        return int(self._state[_CYCLES] - self._state[_MISSED])

    @property
    def n_blocks(self) -> int:
        """Count the blocks that were entered."""
        return int(self._state[_BLOCKS])

    @property
    def n_instructions(self) -> int:
        """Count the instructions that were executed; those that an IT block skips count too."""
        return int(self._state[_INSTRUCTIONS])

    @property
    def stopped(self) -> bool:
        """Tell whether the hook has ended the run since `arm`."""
        return bool(self._state[_STOPPED])

    def request_stop(self) -> None:
        """Stop the run before its next block. Callable from any thread."""
        self._state[_STOP] = 1

    def mean_current_a(self, since: tuple[int, int]) -> float:
        """Give the mean current since a `mark`."""
        cycles, charge = self.mark()
        return (charge - since[1]) / max(cycles - since[0], 1) * QUANTUM_A

    def mark(self) -> tuple[int, int]:
        """Note the present cycle count and charge."""
        return int(self._state[_CYCLES]), int(self._state[_CHARGE])

    def rest(self, n_cycles: int, current_a: float, clocked: bool = True) -> None:
        """Let cycles of the time line pass at a constant current, nothing executing; `clocked`: the core's clock runs.

        Fetch the time line before and after.
        """
        s = self._state
        self._close_entry()
        s[_CYCLES] += n_cycles
        s[_CHARGE] += n_cycles * round(current_a / QUANTUM_A)
        s[_MISSED] += n_cycles - (n_cycles * s[_PER] // s[_LENGTH] if clocked else 0)
        self._close_entry()

    def length(self, core_cycles: int) -> int:
        """Tell how many cycles of the time line so many of the core's last, rounded up."""
        return -(-core_cycles * int(self._state[_LENGTH]) // int(self._state[_PER]))

    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        """Take the time line so far: end cycles (uint64) and mean currents in ampere (float32), both of shape (n,)."""
        self._close_entry()
        rows = np.concatenate((self._fetched, self._entries[: self._state[_COUNT]]))
        self._fetched = rows[-1:].copy()
        self._state[_COUNT] = 0
        self._state[_SPAN] = SPAN_MIN_CYCLES
        steps = np.diff(rows, axis=0)
        return rows[1:, 0].astype(np.uint64), (steps[:, 1] / steps[:, 0] * QUANTUM_A).astype(np.float32)

    def _close_entry(self) -> None:
        s: Any = self._state
        if s[_CYCLES] > s[_MARK]:
            self._entries[s[_COUNT]] = s[_CYCLES], s[_CHARGE]
            s[_COUNT] += 1
            s[_MARK] = s[_CYCLES]
