"""A wrong result: one bit of an output flipped in the DUT's memory, before the firmware looks at it."""

from __future__ import annotations

from typing import Any

from unicorn import UC_HOOK_CODE, Uc
from unicorn.arm_const import UC_ARM_REG_R1, UC_ARM_REG_R2

from instruments.sim.dut.image import Image

# crc32_add(crc, data, n) of firmware/bench/crc.c: every output goes through it before it is checked.
FUNCTION = "crc32_add"


def find_summing(image: Image) -> int:
    """Give the address of the function that sums up outputs. Raises ValueError for an image that has none."""
    for address, _, name in image.functions:
        if name == FUNCTION:
            return address
    raise ValueError(f"{image.path}: the fault wrong_result needs the function {FUNCTION}, and the image has none")


def spoil_next_output(uc: Uc, function: int) -> None:
    """Flip a bit of the next output that is not empty. Call between two runs."""
    hooks: list[Any] = []

    def strike(uc: Uc, _address: int, _size_bytes: int, _data: object) -> None:
        if not hooks or not uc.reg_read(UC_ARM_REG_R2):
            return
        uc.hook_del(hooks.pop())
        where = uc.reg_read(UC_ARM_REG_R1)
        uc.mem_write(where, bytes([uc.mem_read(where, 1)[0] ^ 1]))

    hooks.append(uc.hook_add(UC_HOOK_CODE, strike, begin=function, end=function))
    uc.ctl_flush_tb()  # type: ignore[attr-defined]
