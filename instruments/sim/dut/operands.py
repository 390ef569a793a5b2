"""What the cost functions read from an instruction as capstone prints it."""

from __future__ import annotations

_REGISTERS = {"sb": 9, "sl": 10, "fp": 11, "ip": 12, "sp": 13, "lr": 14, "pc": 15} | {f"r{i}": i for i in range(16)}
_CONDITIONS = ["eq", "ne", "cs", "hs", "cc", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"]


def conditional(*names: str) -> set[str]:
    """Return each name with each condition, and without."""
    return {name + condition for name in names for condition in ("", *_CONDITIONS)}


def n_registers(operands: str) -> int:
    """Count the registers of a list in braces."""
    n = 0
    for part in operands[operands.find("{") + 1 : operands.find("}")].split(","):
        ends = [_REGISTERS[name.strip()] for name in part.split("-")]
        n += ends[-1] - ends[0] + 1
    return n


def loads_pc(operands: str) -> bool:
    """Tell whether a list in braces holds the program counter."""
    return "pc" in operands.split("{")[1]
