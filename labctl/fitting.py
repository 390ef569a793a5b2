"""Make a series ready, and where the DUT's memory is too small for it, find out on the DUT what would fit."""

from __future__ import annotations

import re
from dataclasses import replace

from labctl.dut import Dut, NoMemory, Ready
from labctl.model import Operation

_STEP_BYTES = 16  # the shortest message, and what every mode takes multiples of
_RUN_BYTES = 4  # a run's count of cycles, on the heap too (firmware/bench/series.c)


def prepare(dut: Dut, operation: Operation, pause_s: float) -> Ready:
    """Make a series ready as `Dut.prepare` does.

    Raises NoMemory with what the heap holds, and how many runs or how long a message would fit, as far as one does.
    """
    try:
        return dut.prepare(operation, pause_s)
    except NoMemory as error:
        heap_bytes = dut.manifest().get("heap_bytes")
        held = f", which holds {heap_bytes}" if heap_bytes is not None and "in the heap" in str(error) else ""
        raise NoMemory(f"{error}{held}{_remedy(dut, operation, str(error))}") from error


def _remedy(dut: Dut, operation: Operation, refusal: str) -> str:
    missing = re.search("[0-9]+", refusal)
    n_runs = max(1, operation.n_runs - (int(missing[0]) // _RUN_BYTES if missing else 0) - 2)
    while operation.n_runs > 1:  # the block's size is rounded, and what else is free may lie apart
        if _fits(dut, replace(operation, n_runs=n_runs)):
            return f"; {n_runs} runs fit (--runs {n_runs})"
        if n_runs == 1:
            break
        n_runs //= 2
    if operation.bytes is None:
        return ": this image has no room for it"
    fitting, too_long = 0, -(-operation.bytes // _STEP_BYTES)
    while too_long - fitting > 1:
        middle = (fitting + too_long) // 2
        if _fits(dut, replace(operation, n_runs=1, bytes=middle * _STEP_BYTES)):
            fitting = middle
        else:
            too_long = middle
    n_bytes = fitting * _STEP_BYTES
    return f"; messages of up to {n_bytes} B fit (--bytes {n_bytes})" if n_bytes else ": this image has no room for it"


def _fits(dut: Dut, operation: Operation) -> bool:
    try:
        dut.prepare(operation, 0.0)
    except NoMemory:
        return False
    return True
