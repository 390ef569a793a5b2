"""The memory of any ELF file as tables of 80 columns, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from labctl.memory.elf import Program, Symbol
from labctl.memory.footprint import RESERVATIONS, Footprint, Part, fits
from labctl.memory.mapfile import Object
from labctl.report.memory import grouped, plain_table, share
from labctl.report.text import N_COLUMNS, Sentences, wrap

_N_COLUMNS_NAME = 44


def largest(program: Program) -> list[Symbol]:
    """List functions and objects by size, the greatest first; names of one and the same thing once."""
    seen: dict[tuple[int, str], Symbol] = {}
    for symbol in sorted(program.symbols, key=lambda one: (one.file != "", one.name)):
        if symbol.size_bytes:
            seen.setdefault((symbol.address, symbol.section), symbol)
    return sorted(seen.values(), key=lambda one: (-one.size_bytes, one.name))


def to_json(
    program: Program, totals: Footprint, objects: Sequence[Object], memory: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Turn a program into an object for JSON; ratios only where a board is known."""
    return {
        "path": program.path,
        "machine": program.machine_name,
        "flash_bytes": totals.flash_bytes,
        "flash_ratio": _ratio(totals.flash_bytes, memory, "flash"),
        "ram_bytes": totals.ram_bytes,
        "ram_ratio": _ratio(totals.ram_bytes, memory, "ram"),
        "reserved_bytes": {kind.replace(" ", "_"): n for kind, n in totals.reserved_bytes.items()},
        "sections": [_section_to_json(part) for part in totals.parts],
        "symbols": [
            {"name": one.name, "kind": one.kind.lower(), "bytes": one.size_bytes, "address": one.address,
             "section": one.section, "file": one.file or None}
            for one in largest(program)
        ],
        "objects": [{"name": one.name, "flash_bytes": one.flash_bytes, "ram_bytes": one.ram_bytes} for one in objects],
        "notes": [*totals.notes, *totals.beyond],
        "fits": None if memory is None else fits(totals, memory),
    }


def _ratio(n_bytes: int, memory: Mapping[str, Any] | None, region: str) -> float | None:
    return None if memory is None else n_bytes / memory[region]["size_bytes"]


def _section_to_json(part: Part) -> dict[str, Any]:
    section = part.section
    return {
        "name": section.name, "kind": part.kind, "bytes": section.size_bytes, "address": section.address,
        "load_address": section.load_address if section.stored else None,
        "flash_bytes": part.flash_bytes, "ram_bytes": part.ram_bytes,
    }


def render(
    program: Program,
    totals: Footprint,
    objects: Sequence[Object],
    board: Mapping[str, Any] | None,
    n_lines: int,
) -> Group:
    """Lay out a program for a terminal of 80 columns; of symbols and objects the `n_lines` largest."""
    memory = None if board is None else board["memory"]
    parts: list[Any] = [Text("\n".join(wrap(f"Memory of {program.path}, {program.machine_name}")), style="bold")]
    parts += [Sentences(_totals(totals, board, memory)), "", _sections(totals)]
    notes = [*totals.notes, *totals.beyond]
    parts += ["", Sentences(notes)] if notes else []
    symbols = largest(program)
    if symbols:
        parts += ["", _symbols(symbols[:n_lines])]
        parts += _more(len(symbols) - n_lines, sum(one.size_bytes for one in symbols[n_lines:]), "symbols")
    if objects:
        parts += ["", _objects(objects[:n_lines])]
        rest = objects[n_lines:]
        parts += _more(len(rest), sum(one.flash_bytes for one in rest), "objects, in flash")
    return Group(*parts)


def _totals(totals: Footprint, board: Mapping[str, Any] | None, memory: Mapping[str, Any] | None) -> list[str]:
    def told(n_bytes: int, region: str) -> str:
        if board is None or memory is None:
            return f"{_number(n_bytes)} bytes"
        whole_bytes = memory[region]["size_bytes"]
        fits = "" if n_bytes <= whole_bytes else f", {_number(n_bytes - whole_bytes)} bytes more than it has"
        return f"{_number(n_bytes)} bytes ({share(n_bytes, whole_bytes)} of {board['name']}{fits})"

    reserved = totals.reserved_bytes
    room = ", ".join(f"{_number(n)} bytes for {kind}" for kind, n in reserved.items())
    whole = f"; with it {told(totals.ram_bytes + sum(reserved.values()), 'ram')}" if reserved else ""
    lacking = [kind for kind in ("stack", "heap") if not any(kind in one.split(" and ") for one in reserved)]
    sentences = [
        f"Flash {told(totals.flash_bytes, 'flash')}: code, constants, first values of data.",
        f"RAM {told(totals.ram_bytes, 'ram')}: data and bss.",
    ]
    if room:
        sentences.append(f"Set aside besides: {room}{whole}.")
    if lacking:
        sentences.append(f"No section sets room aside for {' or '.join(lacking)}: what it needs comes on top.")
    return sentences


def _number(n_bytes: int) -> str:
    """Print a number that a sentence does not break."""
    return grouped(n_bytes).replace(" ", "\u00a0")


def _sections(totals: Footprint) -> Table:
    table = plain_table("section")
    table.add_column("kind")
    for heading in ("bytes", "runs at", "stored at", "flash", "RAM"):
        table.add_column(heading, justify="right")
    for part in totals.parts:
        section = part.section
        ram = f"({grouped(part.ram_bytes)})" if part.kind in RESERVATIONS else grouped(part.ram_bytes)
        table.add_row(
            _fit(section.name, 20), part.kind, grouped(section.size_bytes), f"{section.address:08x}",
            f"{section.load_address:08x}" if section.stored else "", grouped(part.flash_bytes), ram,
        )
    return table


def _symbols(symbols: Sequence[Symbol]) -> Table:
    table = plain_table("largest functions and objects")
    table.add_column("bytes", justify="right")
    table.add_column("section")
    for one in symbols:
        table.add_row(_fit(one.name, _N_COLUMNS_NAME), grouped(one.size_bytes), _fit(one.section, 20))
    return table


def _objects(objects: Sequence[Object]) -> Table:
    table = plain_table("object file")
    for heading in ("flash", "RAM"):
        table.add_column(heading, justify="right")
    for one in objects:
        table.add_row(_fit(one.name, _N_COLUMNS_NAME + 12), grouped(one.flash_bytes), grouped(one.ram_bytes))
    return table


def _more(n: int, n_bytes: int, what: str) -> list[Text]:
    return [Text(f"and {n} more {what}: {grouped(n_bytes)} bytes"[:N_COLUMNS])] if n > 0 else []


def _fit(name: str, n_columns: int) -> Text:
    """Shorten a name at its beginning, where paths are alike."""
    printable = "".join(sign if sign.isprintable() else "?" for sign in name)
    return Text(printable if len(printable) <= n_columns else "…" + printable[1 - n_columns :])
