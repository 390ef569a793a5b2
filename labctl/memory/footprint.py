"""What of a program lies in flash and what in RAM: what is copied from one to the other at the start counts in both."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labctl.memory.elf import ARM, Program, Section

# Names that linker scripts give to room for stack and heap, e.g. .stack, .heap, ._user_heap_stack, .co_stack.
_RESERVED = re.compile(r"(?:^|[._])(stack|heap)(?=$|[._0-9])")
_BY_FUNCTION = re.compile(r"\.(?:text|rodata|data|bss)\.")
# ARM DDI 0403, B3.1: the SRAM region of the system address map of every Cortex-M.
_SRAM = range(0x2000_0000, 0x4000_0000)
_ADDRESSES_32_BIT = 1 << 32
_N_NAMED = 3


@dataclass(frozen=True)
class Part:
    """A section and what it counts for: `kind` is code, constants, data, bss, stack, heap, or "heap and stack"."""

    section: Section
    kind: str
    flash_bytes: int
    ram_bytes: int


@dataclass(frozen=True)
class Footprint:
    """A program's totals. `ram_bytes` is what it holds by itself: data and bss.

    Room set aside for stack and heap is apart, in `reserved_bytes` by kind; a kind that no section names is not in it,
    which does not mean that there is none. `notes` say what is strange, `beyond` what leaves the board's memory.
    """

    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()

    @property
    def flash_bytes(self) -> int:
        """Sum what is programmed: code, constants, and the first values of data."""
        return sum(part.flash_bytes for part in self.parts)

    @property
    def ram_bytes(self) -> int:
        """Sum data and bss."""
        return sum(part.ram_bytes for part in self.parts if part.kind not in RESERVATIONS)

    @property
    def reserved_bytes(self) -> dict[str, int]:
        """Sum the room set aside, by kind."""
        sums: dict[str, int] = {}
        for part in self.parts:
            if part.kind in RESERVATIONS:
                sums[part.kind] = sums.get(part.kind, 0) + part.ram_bytes
        return sums

    def kind_bytes(self, kind: str) -> int:
        """Sum the sections of one kind, each once."""
        return sum(part.section.size_bytes for part in self.parts if part.kind == kind)


RESERVATIONS = ("stack", "heap", "heap and stack")


def footprint(program: Program, memory: Mapping[str, Any] | None = None) -> Footprint:
    """Sort a program's sections by what they take; `memory` is [memory] of a board that it is for.

    Without a board, RAM is what can be written, what runs elsewhere than it is stored, and the Cortex-M's SRAM region.
    What is strange (another machine, sections that overlap) is told in the notes.
    """
    ram = _SRAM if program.machine == ARM else range(0)
    if memory is not None:
        ram = _region(memory["ram"])
    parts = tuple(_part(section, ram) for section in program.sections)
    beyond = tuple(_beyond(parts, memory)) if memory is not None else ()
    return Footprint(parts, tuple(_notes(program, parts)), beyond)


def fits(totals: Footprint, memory: Mapping[str, Any]) -> bool:
    """Tell whether a program is inside a board's flash and RAM, with the room it sets aside."""
    ram_bytes = totals.ram_bytes + sum(totals.reserved_bytes.values())
    return not totals.beyond and totals.flash_bytes <= memory["flash"]["size_bytes"] and (
        ram_bytes <= memory["ram"]["size_bytes"]
    )


def _region(region: Mapping[str, int]) -> range:
    return range(region["address"], region["address"] + region["size_bytes"])


def _part(section: Section, ram: range) -> Part:
    kind = _kind(section)
    moved = section.load_address != section.address
    in_ram = section.writable or moved or section.address in ram or kind in ("bss", *RESERVATIONS)
    in_flash = section.stored and section.load_address not in ram
    return Part(section, kind, section.size_bytes if in_flash else 0, section.size_bytes if in_ram else 0)


def _kind(section: Section) -> str:
    if not section.executable and not _BY_FUNCTION.match(section.name) and (section.writable or not section.stored):
        words = sorted(set(_RESERVED.findall(section.name)))
        if words:
            return " and ".join(words)
    if not section.stored:
        return "bss"
    if section.executable:
        return "code"
    return "data" if section.writable else "constants"


def _notes(program: Program, parts: tuple[Part, ...]) -> list[str]:
    notes = []
    if program.machine != ARM:
        notes.append(f"The file is for {program.machine_name}, not for ARM: its sections are counted all the same.")
    if not program.linked:
        notes.append("The file is not linked to fixed addresses: what is stored where cannot be told from it.")
    if any(section.from_segment for section in program.sections):
        notes.append("The file has no sections: the totals are those of its segments, gaps between sections included.")
    elif program.linked:
        n_beside = program.n_segment_bytes - sum(s.size_bytes for s in program.sections if s.stored)
        if n_beside > 0:
            notes.append(f"The segments store {n_beside} bytes beside the sections (alignment, or the file's headers): "
                         "they are not counted.")
    if program.stripped:
        notes.append("The file is stripped: it names no functions and objects.")
    return notes + _out_of_place(program, parts)


def _out_of_place(program: Program, parts: tuple[Part, ...]) -> list[str]:
    notes = []
    if program.n_bits == 32:
        notes += [
            f"Section {part.section.name} of {part.section.size_bytes} bytes at {part.section.address:#x} would end "
            "beyond the 32-bit address space: its size cannot be right."
            for part in parts if part.section.end > _ADDRESSES_32_BIT
        ]
    if program.linked:
        ordered = sorted((part.section for part in parts), key=lambda section: section.address)
        notes += [
            f"Sections {below.name} and {above.name} overlap by {below.end - above.address} bytes."
            for below, above in itertools.pairwise(ordered) if below.end > above.address
        ]
    return notes


def _beyond(parts: tuple[Part, ...], memory: Mapping[str, Any]) -> list[str]:
    """Name what leaves the board's flash or RAM, where it runs or where it is stored: a sentence a region."""
    regions = {name: _region(memory[region]) for name, region in (("flash", "flash"), ("RAM", "ram"))}
    outside: dict[str, dict[str, int]] = {}
    for part in parts:
        section = part.section
        for begin in {section.address} | ({section.load_address} if section.stored else set()):
            end = begin + section.size_bytes
            if not any(region.start <= begin and end <= region.stop for region in regions.values()):
                below = [name for name, region in regions.items() if region.start <= begin]
                name = max(below, key=lambda name: regions[name].start, default="")
                outside.setdefault(name, {})[section.name] = max(end, outside.get(name, {}).get(section.name, 0))
    return [_beyond_sentence(regions.get(name), name, ends) for name, ends in sorted(outside.items())]


def _beyond_sentence(region: range | None, name: str, ends: Mapping[str, int]) -> str:
    sections = list(ends)
    shown = ", ".join(sections[:_N_NAMED])
    more = f" and {len(sections) - _N_NAMED} more" if len(sections) > _N_NAMED else ""
    what = f"section{'s' * (len(sections) > 1)} {shown}{more}"
    if region is None:
        return f"Outside the board's flash and RAM: {what}."
    return (f"Beyond the board's {name}, {region.start:#010x} to {region.stop - 1:#010x}: {what}, up to "
            f"{max(ends.values()) - 1:#010x}.")
