"""Read the map that GNU ld writes with -Map: which object file each byte of the program comes from."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from labctl.errors import ConfigError, FileFault
from labctl.memory.elf import Program
from labctl.memory.footprint import RESERVATIONS, Footprint
from labctl.userfile import open_regular

_N_FILE_BYTES_MAX = 64 << 20
_BEGIN = "Linker script and memory map"
_OUTPUT = re.compile(r"(\S+)?\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)(?:\s+load address 0x[0-9a-f]+)?\s*$")
_INPUT = re.compile(r" (\S+)?\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+(\S.*)$")
FILL = "(filled in by the linker)"


@dataclass(frozen=True)
class Object:
    """What one object file brings: an archive's member is called archive(member)."""

    name: str
    flash_bytes: int
    ram_bytes: int


@dataclass(frozen=True)
class LinkMap:
    """Output sections with their addresses and sizes, and what each got from which file, in the map's order."""

    path: str
    sections: dict[str, tuple[int, int]]
    inputs: tuple[tuple[str, str, int], ...]
    objects: tuple[str, ...]


def read_map(path: Path | str) -> LinkMap:
    """Read a map of GNU ld. Raises FileFault for anything else."""
    try:
        with io.TextIOWrapper(open_regular(path, _N_FILE_BYTES_MAX), encoding="utf-8", errors="replace") as stream:
            return _parse(str(path), stream)
    except OSError as error:
        raise FileFault(f"{path} cannot be read: {error.strerror or error}") from error


def _parse(path: str, lines: Iterable[str]) -> LinkMap:
    sections: dict[str, tuple[int, int]] = {}
    inputs: list[tuple[str, str, int]] = []
    loaded: list[str] = []
    begun = False
    current = pending = ""
    for raw in lines:
        line = raw.rstrip("\n")
        if not begun:
            begun = line.startswith(_BEGIN)
            continue
        if line.startswith("LOAD "):
            loaded.append(line.removeprefix("LOAD ").strip())
            continue
        # A long name has a line of its own, and its numbers are on the next.
        name_alone = re.fullmatch(r"( ?)(\S+)", line)
        if name_alone and not line.startswith(" *"):
            pending = name_alone[2]
            if not name_alone[1]:
                current = ""
            continue
        if (match := _INPUT.match(line)) and not line.startswith(" *fill*"):
            if current and (match[1] or pending):
                inputs.append((current, match[4].strip(), int(match[3], 16)))
        elif (match := _OUTPUT.match(line)) and not line.startswith(" *") and (match[1] or pending):
            name = match[1] or pending
            if not line.startswith(" ") or not current:
                current = name
                sections[current] = (int(match[2], 16), int(match[3], 16))
        pending = ""
    if not begun or not sections:
        raise FileFault(f"{path} is no map of GNU ld: link with -Wl,-Map=FILE (other linkers write other maps)")
    return LinkMap(path, sections, tuple(inputs), tuple(loaded))


def by_object(program: Program, totals: Footprint, link_map: LinkMap) -> tuple[Object, ...]:
    """Sum flash and RAM by object file, the greatest first; together they are the program's totals.

    Room for stack and heap belongs to no file and is left out. Raises ConfigError where map and program are of two
    different links.
    """
    flash: dict[str, int] = {}
    ram: dict[str, int] = {}
    for part in totals.parts:
        section = part.section
        told = link_map.sections.get(section.name)
        if told != (section.address, section.size_bytes):
            there = f"{told[1]} bytes at {told[0]:#x}" if told else "not there"
            raise ConfigError(
                f"{link_map.path} is not the map of {program.path}: section {section.name} is {there} in the map, "
                f"{section.size_bytes} bytes at {section.address:#x} in the program. Link again and name both files"
            )
        shares: dict[str, int] = {}
        for output, name, size in link_map.inputs:
            if output == section.name:
                shares[name] = shares.get(name, 0) + size
        rest = section.size_bytes - sum(shares.values())
        if part.kind in RESERVATIONS:
            rest = 0
        if rest < 0:
            raise FileFault(f"{link_map.path}: the files in {section.name} have {-rest} bytes more than the section")
        for name, size in (*shares.items(), (FILL, rest)):
            flash[name] = flash.get(name, 0) + (size if part.flash_bytes else 0)
            ram[name] = ram.get(name, 0) + (size if part.ram_bytes else 0)
    objects = [Object(name, flash[name], ram[name]) for name in flash if flash[name] or ram[name]]
    return tuple(sorted(objects, key=lambda one: (-one.flash_bytes, -one.ram_bytes, one.name)))
