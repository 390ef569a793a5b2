"""A firmware image: what the ELF file puts where, which bytes are instructions, which function is at an address."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

SHF_EXECINSTR = 0x4


@dataclass(frozen=True)
class Image:
    """One ELF file, read.

    `segments` holds (load address, content), `code` spans of Thumb instructions as (address, content), `functions`
    (address, size in bytes, name) in order of address.
    """

    path: Path
    segments: tuple[tuple[int, bytes], ...]
    code: tuple[tuple[int, bytes], ...]
    functions: tuple[tuple[int, int, str], ...]

    def locate(self, address: int) -> str:
        """Name the function that holds an address, with the offset into it."""
        address &= ~1
        index = bisect.bisect_right(self.functions, (address, 1 << 32, "")) - 1
        if index >= 0:
            start, size_bytes, name = self.functions[index]
            if address < start + max(size_bytes, 2):
                return f"{name}+{address - start:#x}"
        return "no function"


def read_image(path: Path, flash: Mapping[str, int]) -> Image:
    """Read an ELF file and check that it fits the board's flash.

    `flash` has keys address and size_bytes. Instructions are told from data by the mapping symbols $t and $d (ARM
    IHI 0044, ELF for the ARM Architecture, section 4.5.5). Raises ValueError for a file that is no ARM ELF, has no
    mapping symbols, or loads anything outside the flash.
    """
    with open(path, "rb") as file:
        try:
            elf = ELFFile(file)
            if elf["e_machine"] != "EM_ARM":
                raise ValueError(f"{path}: an ELF file for {elf['e_machine']}, not for ARM; build it for this board")
            segments = tuple(
                (segment["p_paddr"], segment.data())
                for segment in elf.iter_segments()
                if segment["p_type"] == "PT_LOAD" and segment["p_filesz"]
            )
            code, functions = _symbols(elf, path)
        except ELFError as error:
            raise ValueError(f"{path}: no ELF file ({error}); give the firmware.elf that the build wrote") from error
    stop = flash["address"] + flash["size_bytes"]
    for address, content in segments:
        if address < flash["address"] or address + len(content) > stop:
            raise ValueError(
                f"{path}: loads {len(content)} bytes at {address:#010x}, but the flash of this board is"
                f" {flash['address']:#010x} to {stop:#010x}; link with the board's memory sizes"
            )
    return Image(path, segments, code, functions)


def _symbols(elf: Any, path: Path) -> tuple[tuple[tuple[int, bytes], ...], tuple[tuple[int, int, str], ...]]:
    table = elf.get_section_by_name(".symtab")
    symbols = list(table.iter_symbols()) if table is not None else []
    marks: dict[int, list[tuple[int, str]]] = {}
    functions = []
    for symbol in symbols:
        if symbol.name[:2] in ("$t", "$d") and symbol["st_shndx"] not in ("SHN_UNDEF", "SHN_ABS"):
            marks.setdefault(symbol["st_shndx"], []).append((symbol["st_value"] & ~1, symbol.name[:2]))
        elif symbol["st_info"]["type"] == "STT_FUNC":
            functions.append((symbol["st_value"] & ~1, symbol["st_size"], symbol.name))
    code = []
    for index, found in marks.items():
        section = elf.get_section(index)
        if not section["sh_flags"] & SHF_EXECINSTR:
            continue
        base, content = section["sh_addr"], section.data()
        found.sort()
        stops = [address for address, _ in found[1:]] + [base + len(content)]
        for (start, kind), stop in zip(found, stops, strict=True):
            if kind == "$t" and stop > start:
                code.append((start, content[start - base : stop - base]))
    if not code:
        raise ValueError(f"{path}: no $t symbols tell where its instructions are; do not strip the ELF file")
    return tuple(sorted(code)), tuple(sorted(functions))
