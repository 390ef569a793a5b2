"""Makes small ELF files whose every number is known."""

from __future__ import annotations

import struct
from dataclasses import dataclass

WRITE, ALLOC, EXECUTE = 1, 2, 4
PROGBITS, SYMTAB, STRTAB, NOBITS = 1, 2, 3, 8
ARM, X86 = 40, 3


@dataclass
class Part:
    """A section: `content` None is one without bytes in the file."""

    name: str
    address: int
    size: int
    flags: int = ALLOC
    content: bytes | None = b""
    load: int | None = None


def make_elf(
    parts: list[Part], symbols: list[tuple[str, int, int, int]] = (), machine: int = ARM, kind: int = 2,
    sections: bool = True,
) -> bytes:
    """Build a 32-bit little-endian ELF; one segment a section. Symbols: name, value, size, section's number from 1."""
    n = len(parts)
    body = bytearray(52 + 32 * n)
    names = bytearray(b"\0")
    headers = [bytes(40)]
    segments = b""

    def name_of(text: str) -> int:
        names.extend(text.encode() + b"\0")
        return len(names) - len(text) - 1

    for part in parts:
        stored = part.content is not None
        offset = len(body)
        if stored:
            body += part.content.ljust(part.size, b"\0")
        flags = (4 if part.flags & ALLOC else 0) | (2 if part.flags & WRITE else 0) | (1 if part.flags & EXECUTE else 0)
        load = part.address if part.load is None else part.load
        size = part.size if stored else 0
        segments += struct.pack("<8I", 1, offset, part.address, load, size, part.size, flags, 4)
        headers.append(struct.pack("<10I", name_of(part.name), PROGBITS if stored else NOBITS, part.flags, part.address,
                                   offset, part.size, 0, 0, 4, 0))
    if symbols:
        strings = bytearray(b"\0")
        table = bytes(16)
        for name, value, size, index in symbols:
            kind_of = 2 if parts[index - 1].flags & EXECUTE else 1
            table += struct.pack("<3IBBH", len(strings), value, size, 16 + kind_of, 0, index)
            strings += name.encode() + b"\0"
        headers.append(struct.pack("<10I", name_of(".symtab"), SYMTAB, 0, 0, len(body), len(table), n + 2, 1, 4, 16))
        body += table
        headers.append(struct.pack("<10I", name_of(".strtab"), STRTAB, 0, 0, len(body), len(strings), 0, 0, 1, 0))
        body += strings
    name = name_of(".shstrtab")
    headers.append(struct.pack("<10I", name, STRTAB, 0, 0, len(body), len(names), 0, 0, 1, 0))
    body += names
    at = len(body)
    body += b"".join(headers)
    identity = b"\x7fELF\x01\x01\x01" + bytes(9)
    count = len(headers) if sections else 0
    body[:52] = struct.pack("<16s2H5I6H", identity, kind, machine, 1, parts[0].address, 52, at if sections else 0, 0,
                            52, 32, n, 40, count, count - 1 if sections else 0)
    body[52 : 52 + 32 * n] = segments
    return bytes(body)
