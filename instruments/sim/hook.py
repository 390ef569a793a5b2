"""The native hook that Unicorn calls at every block: adds up cycles and charge and keeps a current time line.

Compiled by numba, so that no C compiler is needed; it runs without Python's lock. All its state is one int64 array.
A block is charged whole on entry, so what happens inside a block is seen at the block's end.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding
import numpy as np
from numba import cfunc, types
from unicorn import UC_HOOK_BLOCK, Uc, UcError
from unicorn.unicorn_py3.unicorn import uclib

from instruments.sim.cycles import QUANTUM_A, CostTable

# Where things lie in the state array.
_BASE, _N, _CYCLES, _CHARGE, _PREVIOUS, _MARK, _SPAN, _COUNT, _STOP, _STOPPED, _BLOCKS, _BRANCH, _DEFAULT, _BUFFER = (
    range(14)
)
_TABLE = 16
# Entries of the time line: 16 cycles at first; a full buffer joins them two by two until each spans 128 cycles
# (5 us at 24 MHz, below the time constant of the decoupling), then the engine must fetch them.
SPAN_MIN_CYCLES = 16
SPAN_MAX_CYCLES = 128
CAPACITY = 1 << 18

# The hook stops the engine itself, before it charges the block: only then is a stopped run the same as one that was
# never stopped. (Unicorn looks at its stop flag after the hook, so a stop from elsewhere may charge a block twice.)
llvmlite.binding.add_symbol("uc_emu_stop", ctypes.cast(uclib.uc_emu_stop, ctypes.c_void_p).value or 0)
_emu_stop = types.ExternalFunction("uc_emu_stop", types.int32(types.voidptr))


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
        i = _TABLE + 3 * start
        j = _TABLE + 3 * stop
        cycles = s[j] - s[i]
        charge = s[j + 1] - s[i + 1]
        if start != s[_PREVIOUS]:
            refill = s[_TABLE + 3 * s[_PREVIOUS] + 2]
            cycles += refill
            charge += refill * s[_BRANCH]
        s[_PREVIOUS] = stop
    else:
        # Code outside the table (run from RAM): a cycle a halfword.
        cycles = size >> 1
        charge = cycles * s[_DEFAULT]
        s[_PREVIOUS] = 0
    s[_CYCLES] += cycles
    s[_CHARGE] += charge
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


class BlockHook:
    """Cycle counter and current time line of one emulated core, over all its power cycles."""

    def __init__(self, table: CostTable) -> None:
        n = len(table.cycles) - 1
        buffer = _TABLE + 3 * (n + 1)
        # Two entries of room beyond the capacity: the part below one span, and one stretch of sleep.
        self._state = np.zeros(buffer + 2 * (CAPACITY + 2), dtype=np.int64)
        self._entries = self._state[buffer:].reshape(-1, 2)
        costs = self._state[_TABLE:buffer].reshape(-1, 3)
        costs[:, 0], costs[:, 1], costs[:, 2] = table.cycles, table.charge, table.refill
        for index, value in (
            (_BASE, table.base),
            (_N, n),
            (_SPAN, SPAN_MIN_CYCLES),
            (_BRANCH, table.branch_quanta),
            (_DEFAULT, table.default_quanta),
            (_BUFFER, buffer),
        ):
            self._state[index] = value
        self._fetched = np.zeros((1, 2), dtype=np.int64)

    def attach(self, uc: Uc) -> None:
        """Add the hook to an engine. Must come before its first start: blocks translated earlier would not be seen."""
        handle = ctypes.c_size_t()
        status = uclib.uc_hook_add(
            uc._uch,
            ctypes.byref(handle),
            UC_HOOK_BLOCK,
            ctypes.c_void_p(_on_block.address),
            ctypes.c_void_p(self._state.ctypes.data),
            ctypes.c_uint64(1),
            ctypes.c_uint64(0),
        )
        if status:
            raise UcError(status)
        self._state[_PREVIOUS] = 0

    @property
    def cycles(self) -> int:
        """Count the cycles since the beginning, sleep included."""
        return int(self._state[_CYCLES])

    @property
    def n_blocks(self) -> int:
        """Count the blocks that were entered."""
        return int(self._state[_BLOCKS])

    @property
    def stopped(self) -> bool:
        """Tell whether the hook has ended the run since `arm`."""
        return bool(self._state[_STOPPED])

    def arm(self) -> None:
        """Forget earlier stops, before a new run."""
        self._state[_STOP] = 0
        self._state[_STOPPED] = 0

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

    def rest(self, n_cycles: int, current_a: float) -> None:
        """Let cycles pass at a constant current, nothing executing. Fetch the time line before and after."""
        self._close_entry()
        self._state[_CYCLES] += n_cycles
        self._state[_CHARGE] += n_cycles * round(current_a / QUANTUM_A)
        self._close_entry()

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
