"""Follow calls through pointers that are fields of constant tables: `mode->crypt(…)` can only reach what a table holds.

The debugging information (DWARF 5, 5.7) tells which constant objects the program has and which fields of them are
pointers to functions, their bytes tell to which. A call of a field is taken to reach every function that any constant
of the program holds in a field of that name. Where a variable that can be written has such a field too, nothing is
said. Fields are called ".name" here, constant pointers that are no field "name".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from labctl.memory.elf import Program

_QUALIFIERS = ("DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_typedef")
_ADDRESS = 0x03  # DW_OP_addr
_N_SOURCE_LINES = 3
# `a->b->name(`, `a.b[i].name(` or `name(`.
_CALLED = re.compile(r"((?:[A-Za-z_]\w*(?:\[[^\]]*\])?\s*(?:->|\.)\s*)*)([A-Za-z_]\w*)\s*\(")
_DEPTH_MAX = 8


def field_targets(program: Program) -> dict[str, frozenset[int]]:
    """Map fields, and constant pointers, to the addresses of the functions that they may hold.

    Empty for a program without debugging information.
    """
    found: dict[str, set[int]] = {}
    open_to_change: set[str] = set()
    objects = {(symbol.name, symbol.address) for symbol in program.symbols if symbol.kind == "OBJECT"}
    try:
        with Path(program.path).open("rb") as stream:
            elf = ELFFile(stream)
            for die in _variables(elf):
                address = _address(die, program.little_endian)
                if address is None or (_name(die), address) not in objects:
                    continue
                constant = _is_constant(die)
                for name, offset in _pointers(die, _name(die)):
                    target = program.word_at(address + offset) if constant else None
                    if target is None:
                        open_to_change.add(name)
                    elif target:
                        found.setdefault(name, set()).add(target & ~1)
    except (DWARFError, ELFError, KeyError, ValueError, AttributeError, OSError):
        return {}
    return {name: frozenset(targets) for name, targets in found.items() if name not in open_to_change}


def called_field(place: str, folder: Path) -> str | None:
    """Read in the source, at file:line:column, which field or variable is called; None where that is not plain to see.

    Names of files are taken from `folder` on.
    """
    path, _, rest = place.rpartition(":")
    path, _, line_text = path.rpartition(":")
    if not (path and line_text.isdecimal() and rest.isdecimal()):
        return None
    lines = _source(folder / path)
    begin = int(line_text) - 1
    if begin >= len(lines):
        return None
    text = "\n".join([lines[begin][int(rest) - 1 :], *lines[begin + 1 : begin + _N_SOURCE_LINES]])
    match = _CALLED.match(text)
    return None if match is None else ("." if match[1] else "") + match[2]


@cache
def _source(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text(encoding="utf-8", errors="replace").split("\n"))
    except OSError:
        return ()


def _variables(elf: ELFFile) -> Iterator[DIE]:
    if not elf.has_dwarf_info():
        return
    for unit in elf.get_dwarf_info().iter_CUs():
        for die in unit.get_top_DIE().iter_children():
            if die.tag == "DW_TAG_variable" and "DW_AT_location" in die.attributes:
                yield die


def _name(die: DIE) -> str:
    for key in ("DW_AT_specification", "DW_AT_abstract_origin"):
        if key in die.attributes:
            return _name(die.get_DIE_from_attribute(key))
    return die.attributes["DW_AT_name"].value.decode(errors="replace") if "DW_AT_name" in die.attributes else ""


def _type(die: DIE) -> DIE | None:
    if "DW_AT_type" in die.attributes:
        return die.get_DIE_from_attribute("DW_AT_type")
    if "DW_AT_specification" in die.attributes:
        return _type(die.get_DIE_from_attribute("DW_AT_specification"))
    return None


def _address(die: DIE, little_endian: bool) -> int | None:
    location = die.attributes["DW_AT_location"].value
    if not isinstance(location, list) or len(location) < 5 or location[0] != _ADDRESS:
        return None
    return int.from_bytes(bytes(location[1:5]), "little" if little_endian else "big")


def _is_constant(die: DIE) -> bool:
    one = _type(die)
    while one is not None and one.tag in (*_QUALIFIERS, "DW_TAG_array_type"):
        if one.tag == "DW_TAG_const_type":
            return True
        one = _type(one)
    return False


def _pointers(die: DIE, name: str, offset: int = 0, depth: int = 0) -> Iterator[tuple[str, int]]:
    """Give the fields of a variable or member that point to functions, with their offsets."""
    one = _type(die)
    while one is not None and one.tag in _QUALIFIERS:
        one = _type(one)
    if one is None or depth > _DEPTH_MAX:
        return
    if one.tag == "DW_TAG_pointer_type":
        if _points_to_function(one):
            yield name, offset
    elif one.tag == "DW_TAG_array_type":
        size = _size(_type(one))
        for index in range(_n_elements(one) if size else 0):
            yield from _pointers(one, name, offset + index * size, depth + 1)
    elif one.tag in ("DW_TAG_structure_type", "DW_TAG_union_type"):
        for member in one.iter_children():
            if member.tag == "DW_TAG_member":
                at = member.attributes.get("DW_AT_data_member_location")
                yield from _pointers(member, f".{_name(member)}", offset + (at.value if at else 0), depth + 1)


def _points_to_function(pointer: DIE) -> bool:
    one = _type(pointer)
    while one is not None and one.tag in _QUALIFIERS:
        one = _type(one)
    return one is not None and one.tag == "DW_TAG_subroutine_type"


def _size(die: DIE | None) -> int:
    while die is not None:
        if "DW_AT_byte_size" in die.attributes:
            return die.attributes["DW_AT_byte_size"].value
        die = _type(die)
    return 0


def _n_elements(array: DIE) -> int:
    n = 1
    for child in array.iter_children():
        attributes: Mapping[str, Any] = child.attributes
        if child.tag == "DW_TAG_subrange_type" and "DW_AT_upper_bound" in attributes:
            n *= attributes["DW_AT_upper_bound"].value + 1
        elif child.tag == "DW_TAG_subrange_type":
            n *= attributes["DW_AT_count"].value if "DW_AT_count" in attributes else 0
    return n
