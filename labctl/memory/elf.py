"""Read any ELF file: its sections, with the addresses where they run and where they are stored, and its symbols.

Format: Tool Interface Standard (TIS), Executable and Linking Format 1.2; ELF for the Arm Architecture (IHI 0044).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from labctl.errors import FileFault
from labctl.userfile import open_regular

ARM = "EM_ARM"
_N_FILE_BYTES_MAX = 1 << 30
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_MACHINES = {"EM_ARM": "ARM", "EM_RISCV": "RISC-V", "EM_MSP430": "MSP430", "EM_AVR": "AVR", "EM_X86_64": "x86-64",
             "EM_386": "x86", "EM_AARCH64": "AArch64", "EM_XTENSA": "Xtensa"}
# What pyelftools lets through where a file's own numbers are wild.
_DAMAGE = (ELFError, DWARFError, ConstructError, ValueError, KeyError, IndexError, AttributeError, TypeError,
           OverflowError, MemoryError, AssertionError, struct.error)


@dataclass(frozen=True)
class Section:
    """A part of the program in memory. `stored` says that the file holds its bytes, which then lie at `load_address`.

    `address` is where it is when the program runs. `from_segment` marks a part of a file without sections.
    """

    name: str
    address: int
    load_address: int
    size_bytes: int
    stored: bool
    writable: bool
    executable: bool
    from_segment: bool = False

    @property
    def end(self) -> int:
        """Return the first address behind it."""
        return self.address + self.size_bytes


@dataclass(frozen=True)
class Symbol:
    """A function ("FUNC") or an object ("OBJECT"), without the bit that marks Thumb code; `file` is "" for globals."""

    name: str
    kind: str
    address: int
    size_bytes: int
    section: str
    file: str = ""


@dataclass(frozen=True)
class Program:
    """An ELF file in memory. `n_segment_bytes` is what its loadable segments store in all, sections or not.

    `marks` tells, by rising address, where code ("t", "a") and constants between code ("d") begin (IHI 0044, mapping
    symbols).
    """

    path: str
    machine: str
    linked: bool
    n_bits: int
    little_endian: bool
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    n_segment_bytes: int
    contents: tuple[bytes, ...]
    marks: tuple[tuple[int, str], ...] = ()

    @property
    def machine_name(self) -> str:
        """Name the processor as people do."""
        return _MACHINES.get(self.machine, self.machine.removeprefix("EM_") if self.machine else "an unknown machine")

    @property
    def stripped(self) -> bool:
        """Tell whether the names of functions and objects are gone."""
        return not self.symbols

    def bytes_at(self, address: int, n: int) -> bytes | None:
        """Return n bytes as they are when the program starts; None where no stored section holds them."""
        for section, content in zip(self.sections, self.contents, strict=True):
            if section.stored and section.address <= address and address + n <= section.end:
                return content[address - section.address : address - section.address + n]
        return None

    def word_at(self, address: int) -> int | None:
        """Return the 32-bit word at an address; None where there is none."""
        content = self.bytes_at(address, 4)
        return None if content is None else int.from_bytes(content, "little" if self.little_endian else "big")

    def find(self, name: str, kind: str = "FUNC") -> Symbol | None:
        """Find a symbol by its name, a global one first; None where there is none, or several local ones."""
        found = [symbol for symbol in self.symbols if symbol.name == name and symbol.kind == kind]
        found = [symbol for symbol in found if not symbol.file] or found
        return found[0] if len({symbol.address for symbol in found}) == 1 else None

    def at(self, address: int, kind: str = "FUNC") -> tuple[Symbol, ...]:
        """Return the symbols at an address, global ones first."""
        found = [symbol for symbol in self.symbols if symbol.address == address and symbol.kind == kind]
        return tuple(sorted(found, key=lambda symbol: symbol.file != ""))


def read_program(path: Path | str) -> Program:
    """Read an ELF file. Raises FileFault for what is none, is cut short or contradicts itself."""
    try:
        with open_regular(path, _N_FILE_BYTES_MAX) as stream:
            n_file_bytes = stream.seek(0, 2)
            stream.seek(0)
            if stream.read(4) != b"\x7fELF":
                raise FileFault(f"{path} is no ELF file: name the linker's output, not a .bin or .hex")
            stream.seek(0)
            return _program(str(path), ELFFile(stream), n_file_bytes)
    except OSError as error:
        raise FileFault(f"{path} cannot be read: {error.strerror or error}") from error
    except _DAMAGE as error:
        what = f"{type(error).__name__}: {error}"
        raise FileFault(f"{path} is a damaged ELF file ({what}): build or copy it anew") from error


def _program(path: str, elf: ELFFile, n_file_bytes: int) -> Program:
    _check_tables(path, elf, n_file_bytes)
    segments = [segment.header for segment in elf.iter_segments("PT_LOAD")]
    for number, header in enumerate(segments):
        _check_inside(path, f"segment {number}", header["p_offset"], header["p_filesz"], n_file_bytes)
        if header["p_filesz"] > header["p_memsz"]:
            raise FileFault(
                f"{path}: segment {number} stores {header['p_filesz']} bytes but has {header['p_memsz']} in memory: "
                "the file is damaged"
            )
    sections: list[Section] = []
    contents: list[bytes] = []
    for section in elf.iter_sections():
        header = section.header
        if not header["sh_flags"] & _ALLOC or not header["sh_size"]:
            continue
        stored = header["sh_type"] != "SHT_NOBITS"
        if stored:
            _check_inside(path, f"section {section.name}", header["sh_offset"], header["sh_size"], n_file_bytes)
        flags = header["sh_flags"]
        sections.append(
            Section(
                section.name, header["sh_addr"], _load_address(header, stored, segments), header["sh_size"], stored,
                bool(flags & _WRITE), bool(flags & _EXECUTE),
            )
        )
        contents.append(section.data() if stored else b"")
    if not sections:
        sections, contents = _from_segments(elf, segments)
    if not sections:
        raise FileFault(f"{path} is an ELF file that puts nothing in memory: name the linker's output")
    symbols, marks = _symbols(elf)
    return Program(
        path, elf["e_machine"] if isinstance(elf["e_machine"], str) else f"machine {elf['e_machine']}",
        elf["e_type"] == "ET_EXEC", elf.elfclass, elf.little_endian, tuple(sections), symbols,
        sum(header["p_filesz"] for header in segments), tuple(contents), marks,
    )


def _check_tables(path: str, elf: ELFFile, n_file_bytes: int) -> None:
    for what, offset, n, size in (
        ("table of segments", elf["e_phoff"], elf["e_phnum"], elf["e_phentsize"]),
        ("table of sections", elf["e_shoff"], elf["e_shnum"], elf["e_shentsize"]),
    ):
        if offset and n:
            _check_inside(path, what, offset, n * size, n_file_bytes)


def _check_inside(path: str, what: str, offset: int, size: int, n_file_bytes: int) -> None:
    if offset + size > n_file_bytes:
        raise FileFault(
            f"{path} is cut short: its {what} ends at byte {offset + size}, the file has {n_file_bytes}: "
            "build or copy it anew"
        )


def _load_address(header: Any, stored: bool, segments: Sequence[Any]) -> int:
    """Find where a section is stored: as far from its segment's physical address as it runs from the virtual one."""
    address, size = header["sh_addr"], header["sh_size"]
    for segment in segments:
        begin, n = segment["p_vaddr"], segment["p_filesz"] if stored else segment["p_memsz"]
        offset = header["sh_offset"] - segment["p_offset"]
        if begin <= address and address + size <= begin + n and (not stored or offset == address - begin):
            return segment["p_paddr"] + address - begin
    return address


def _from_segments(elf: ELFFile, segments: Sequence[Any]) -> tuple[list[Section], list[bytes]]:
    """Make do with the segments of a file whose sections were cut off."""
    sections, contents = [], []
    for number, header in enumerate(segments):
        flags = header["p_flags"]
        n_stored, n_memory = header["p_filesz"], header["p_memsz"]
        for name, begin, n, stored in (
            (f"segment {number}", 0, n_stored, True),
            (f"segment {number}, cleared", n_stored, n_memory - n_stored, False),
        ):
            if n:
                sections.append(Section(name, header["p_vaddr"] + begin, header["p_paddr"] + begin, n, stored,
                                        bool(flags & 2), bool(flags & 1), from_segment=True))
                elf.stream.seek(header["p_offset"])
                contents.append(elf.stream.read(n) if stored else b"")
    return sections, contents


def _symbols(elf: ELFFile) -> tuple[tuple[Symbol, ...], tuple[tuple[int, str], ...]]:
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return (), ()
    names = [section.name for section in elf.iter_sections()]
    found, marks, file = [], [], ""
    for symbol in table.iter_symbols():
        kind, binding = symbol["st_info"]["type"], symbol["st_info"]["bind"]
        index = symbol["st_shndx"]
        if kind == "STT_FILE":
            file = symbol.name
        elif kind == "STT_NOTYPE" and symbol.name[:2] in ("$t", "$a", "$d"):
            marks.append((symbol["st_value"], symbol.name[1]))
        elif kind in ("STT_FUNC", "STT_OBJECT") and isinstance(index, int) and index < len(names):
            address = symbol["st_value"]
            if kind == "STT_FUNC" and elf["e_machine"] == ARM:
                address &= ~1
            found.append(Symbol(symbol.name, kind.removeprefix("STT_"), address, symbol["st_size"], names[index],
                                file if binding == "STB_LOCAL" else ""))
    return tuple(found), tuple(sorted(marks))
