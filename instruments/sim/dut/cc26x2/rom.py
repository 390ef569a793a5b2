"""What firmware calls in the ROM of the CC26x2, and what its boot code demands.

The tables are TI's, as in driverlib's rom.h: of hard functions at 0x48, word 14 switches the high-frequency clock; of
the API at 0x180, word 24 leads to the oscillator's (word 1: source(clocks, oscillator)) and word 28 to the set-up's.
The functions here are of this model: those that trim analogue parts return at once. A word without a function leads to
an address that faults.
"""

from __future__ import annotations

import struct

from instruments.sim.dut.cc26x2.prcm import Oscillator
from instruments.sim.dut.registers import EngineFault

# Customer configuration: the word that tells where the vector table of a valid image lies, from the end of the flash
# (SWCU185, CCFG, IMAGE_VALID_CONF).
_IMAGE_VALID_FROM_END = 0x14

_HAPI, _HAPI_SWITCH = 0x48, 14
_API, _API_OSCILLATOR, _API_SETUP = 0x180, 24, 28
_OSCILLATOR_TABLE, _OSCILLATOR_SOURCE = 0x400, 1
_SETUP_TABLE, _SETUP_WORDS = 0x500, range(20)
_RETURN, _SWITCH, _SOURCE = 0x600, 0x610, 0x620
_NOTHING = 0x0FFF_FFFD


def rom_content(address: int, size_bytes: int, oscillator_address: int) -> bytes:
    """Return the ROM's bytes: tables, and Thumb code behind them."""
    rom = bytearray(size_bytes)

    def put(offset: int, *words: int) -> None:
        struct.pack_into(f"<{len(words)}I", rom, offset, *words)

    def code(offset: int, *halfwords: int) -> None:
        struct.pack_into(f"<{len(halfwords)}H", rom, offset, *halfwords)

    put(_HAPI, *[_NOTHING] * 30)
    put(_API, *[_NOTHING] * 40)
    put(_OSCILLATOR_TABLE, *[_NOTHING] * 20)
    put(_SETUP_TABLE, *[address + _RETURN | 1 for _ in _SETUP_WORDS])
    put(_HAPI + 4 * _HAPI_SWITCH, address + _SWITCH | 1)
    put(_API + 4 * _API_OSCILLATOR, address + _OSCILLATOR_TABLE)
    put(_API + 4 * _API_SETUP, address + _SETUP_TABLE)
    put(_OSCILLATOR_TABLE + 4 * _OSCILLATOR_SOURCE, address + _SOURCE | 1)
    code(_RETURN, 0x4770)  # bx lr
    # ldr r0, [pc, #4]; str r0, [r0]; bx lr; nop
    code(_SWITCH, 0x4801, 0x6000, 0x4770, 0xBF00)
    put(_SWITCH + 8, oscillator_address + Oscillator.SWITCH)
    # lsls r0, #31; beq to the end; r1 |= 1 << 16; ldr r2, [pc, #4]; str r1, [r2]; bx lr: CTL0 bit 0, masked
    code(_SOURCE, 0x07C0, 0xD004, 0x2201, 0x0412, 0x4311, 0x4A01, 0x6011, 0x4770)
    put(_SOURCE + 16, oscillator_address + 0x400)
    return bytes(rom)


def check_image(flash: bytes, flash_address: int) -> None:
    """Raise EngineFault where the boot code would not start what is in flash."""
    at = len(flash) - _IMAGE_VALID_FROM_END
    vectors = int.from_bytes(flash[at : at + 4], "little")
    if vectors != flash_address:
        raise EngineFault(
            f"the ROM starts no program: IMAGE_VALID_CONF at {flash_address + at:#x} is {vectors:#010x} and not the"
            f" address of the vector table, {flash_address:#x}; link the customer configuration"
        )
