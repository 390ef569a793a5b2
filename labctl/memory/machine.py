"""Read a function's frame and calls from its Thumb code: for libraries that come without the compiler's own account.

What an instruction does to the stack pointer: ARM DDI 0403 (ARMv7-M), A7.7. A frame is the sum of all that the code
takes from the stack pointer, wherever in the function: never less than what is in use at a time, unless in a loop.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

from labctl.memory.callgraph import INDIRECT, Call, Function
from labctl.memory.elf import Program

_REGISTER_BYTES = 4
_DOUBLE_BYTES = 8
_RANGE = re.compile(r"([rsd])(\d+)-[rsd](\d+)")
# With a condition or a width behind them.
_CALL = re.compile(r"bl(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?$")
_JUMP = re.compile(r"b(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?(?:\.w|\.n)?$")
_JUMP_REGISTER = re.compile(r"(blx|bx)(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?$")


def describe(program: Program, name: str) -> Function | None:
    """Describe a function of a program by its machine code; None where the program has no code by that name.

    A call through a register that cannot be followed is INDIRECT, and so is a jump; a stack pointer that is set in
    another way than by constants makes the frame unbounded.
    """
    symbol = program.find(name)
    size = 0 if symbol is None else symbol.size_bytes or _to_next(program, symbol.address)
    if symbol is None or program.bytes_at(symbol.address, size) is None:
        return None
    frame_bytes, bounded = 0, True
    calls: list[Call] = []
    regions = [range(symbol.address, symbol.address + size)]
    for region in regions:  # grows
        for address, mnemonic, operands in _instructions(program, region):
            taken = _taken_bytes(mnemonic, operands)
            bounded = bounded and taken is not None
            frame_bytes += taken or 0
            target = _target(mnemonic, operands)
            if target is None or (_is_jump(mnemonic) and any(target in known for known in regions)):
                continue
            title = INDIRECT if target < 0 else _name_at(program, target)
            if title is None and _is_jump(mnemonic) and (n := _to_next(program, target)):
                regions.append(range(target, target + n))  # a part that lies apart and has no name
            else:
                calls.append(Call(title or f"{target:#x}", f"{name}+{address - symbol.address:#x}"))
    return Function(name, frame_bytes, tuple(calls), f"{symbol.address:#x}", bounded)


def _to_next(program: Program, address: int) -> int:
    """Count the bytes of code up to the next function, or the end of the section; 0 where there is no code."""
    for section in program.sections:
        if section.stored and section.executable and section.address <= address < section.end:
            begins = [one.address for one in program.symbols if one.section == section.name and one.address > address]
            return min(begins, default=section.end) - address
    return 0


def _instructions(program: Program, region: range) -> Iterator[tuple[int, str, str]]:
    """Disassemble; what is no instruction is taken for constants and passed over."""
    import capstone

    mode = capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS
    if not program.little_endian:
        mode |= capstone.CS_MODE_BIG_ENDIAN
    engine = capstone.Cs(capstone.CS_ARCH_ARM, mode)
    begin = region.start
    code = program.bytes_at(begin, len(region)) or b""
    at = 0
    while at + 1 < len(code):
        mark = bisect.bisect_right(program.marks, (begin + at, "z")) - 1
        one = next(engine.disasm_lite(code[at : at + 4], begin + at, 1), None)
        if one is None or (mark >= 0 and program.marks[mark][1] == "d"):
            at += 2
            continue
        address, size, mnemonic, operands = one
        yield address, mnemonic, operands
        at += size


def _taken_bytes(mnemonic: str, operands: str) -> int | None:
    """Tell how much an instruction takes from the stack pointer: 0 where nothing, None where no constant says."""
    root = mnemonic.partition(".")[0]
    if root in ("push", "vpush"):
        return _list_bytes(operands)
    into, _, rest = operands.partition(",")
    if root == "stmdb" and into == "sp!":
        return _list_bytes(rest)
    if root.startswith("str") and operands.replace(" ", "").endswith("]!") and "[sp" in operands:
        match = re.search(r"#-(0x[0-9a-f]+|\d+)\]!", operands)
        return int(match[1], 0) if match else None
    if into != "sp":
        return 0
    if root in ("sub", "subw", "subs"):
        match = re.search(r"#(0x[0-9a-f]+|\d+)$", rest)
        return int(match[1], 0) if match else None
    if root in ("add", "addw", "adds") and re.search(r"#(0x[0-9a-f]+|\d+)$", rest):
        return 0
    return None if root in ("mov", "add", "addw", "adds", "ldr", "bic", "and", "msr") else 0


def _list_bytes(operands: str) -> int:
    """Size a list of registers such as "{r4, r5-r7, lr}"."""
    n = 0
    each = _DOUBLE_BYTES if re.search(r"\bd\d", operands) else _REGISTER_BYTES
    for word in operands.strip("{} ").split(","):
        match = _RANGE.fullmatch(word.strip())
        n += int(match[3]) - int(match[2]) + 1 if match else 1
    return n * each


def _is_jump(mnemonic: str) -> bool:
    return _JUMP.match(mnemonic) is not None


def _target(mnemonic: str, operands: str) -> int | None:
    """Tell where an instruction calls or jumps to: an address, -1 for one that a register holds, None for a return."""
    if match := _JUMP_REGISTER.match(mnemonic):
        return None if operands == "lr" and match[1] == "bx" else -1
    if mnemonic.partition(".")[0] == "ldr" and operands.startswith("pc,"):
        return None if operands.startswith("pc, [sp") else -1  # the return address that was pushed
    return int(operands.lstrip("#"), 0) if _CALL.match(mnemonic) or _is_jump(mnemonic) else None


def _name_at(program: Program, address: int) -> str | None:
    """Name the function at an address, or around it (assembler jumps into others); None where there is none."""
    found = program.at(address)
    if not found:
        around = (one for one in program.symbols if one.kind == "FUNC" and 0 < address - one.address < one.size_bytes)
        found = tuple(around)
    return found[0].name if found else None
