"""Boards and images of the firmware as tables of 80 columns, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Group
from rich.text import Text

from labctl.boards import clock_text
from labctl.operations import BYTES_MAX, BYTES_MIN, families
from labctl.report.memory import grouped, plain_table, share
from labctl.report.text import Sentences

SCHEMA = "labctl.firmware/1"
_ALONE = "op-"


@dataclass(frozen=True)
class FirmwareRow:
    """One image: its settings, where it lies, and what the file says where it is built.

    `ram_bytes` are data and bss; stack and heap are set aside besides. `remark` says what is wrong with the file;
    `out_of_date` that the sources have changed since it was built.
    """

    board: str
    image: str
    profile: str
    clock_hz: int
    variant: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    built: bool = False
    build: str | None = None
    flash_bytes: int | None = None
    ram_bytes: int | None = None
    stack_bytes: int | None = None
    heap_bytes: int | None = None
    board_flash_bytes: int = 0
    board_ram_bytes: int = 0
    remark: str = ""
    out_of_date: bool = False


@dataclass(frozen=True)
class OperationRow:
    """One operation: `step_bytes` is what its message is a multiple of (0: none), `images` are by board."""

    operation: str
    meaning: str
    step_bytes: int
    variants: tuple[str, ...]
    implementations: tuple[str, ...]
    images: Mapping[str, tuple[str, ...]]


def operations_to_json(rows: Sequence[OperationRow]) -> list[dict[str, Any]]:
    """Turn operations into objects for JSON; `bytes` is null for one without a message."""
    return [
        {
            "operation": row.operation,
            "meaning": row.meaning,
            "bytes": {"min": BYTES_MIN, "max": BYTES_MAX, "step": row.step_bytes} if row.step_bytes else None,
            "variants": list(row.variants),
            "implementations": list(row.implementations),
            "images": {board: list(names) for board, names in row.images.items()},
        }
        for row in rows
    ]


def render_operations(rows: Sequence[OperationRow]) -> Group:
    """Lay out operations, and which image of each board holds which."""
    table = plain_table("operation")
    for heading in ("message", "variants", "in the window"):
        table.add_column(heading, overflow="fold")
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for row in rows:
        message = {0: "", 1: "any"}.get(row.step_bytes, f"× {row.step_bytes} B")
        table.add_row(row.operation, message, " ".join(row.variants), row.meaning)
    held: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for board, images in row.images.items():
            for image in images:
                held.setdefault((board, image), []).append(row.operation)
    where = plain_table("board")
    where.add_column("image")
    where.add_column("holds", overflow="fold")
    for (board, image), names in sorted(held.items(), key=lambda one: one[0][0]):
        where.add_row(board, image, families(names))
    return Group(table, Sentences([
        f"A message has {BYTES_MIN} to {BYTES_MAX} bytes, as far as the board's RAM holds it; × 16 B: whole blocks.",
        "Variants: key=inside, piece=N, offset=N; tables, workspace and ecp are the image's and go with every "
        "operation.",
    ]), "", where)


def boards_to_json(boards: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turn boards into objects for JSON."""
    return [
        {
            "board": board["name"],
            "mcu": board["mcu"],
            "core": board["core"],
            "clocks_hz": list(board["clocks_hz"]),
            "flash_bytes": board["memory"]["flash"]["size_bytes"],
            "ram_bytes": board["memory"]["ram"]["size_bytes"],
            "images": {name: list(patterns) for name, patterns in board["images"].items()},
            "tools": list(board["flash"]["commands"]),
        }
        for board in boards
    ]


def to_json(rows: Sequence[FirmwareRow]) -> list[dict[str, Any]]:
    """Turn images into objects for JSON; what is not known of one that is not built is null."""
    return [asdict(row) for row in rows]


def render_boards(boards: Sequence[Mapping[str, Any]], profiles: Sequence[str]) -> Group:
    """Lay out boards, their clocks and the images that hold their operations."""
    table = plain_table("board")
    table.columns[0].no_wrap = True
    table.add_column("MCU", no_wrap=True)
    for heading in ("clocks\nin MHz", "images"):
        table.add_column(heading, overflow="fold")
    table.add_column("flashed by", overflow="fold")
    for board in boards:
        table.add_row(
            board["name"], board["mcu"], ", ".join(clock_text(hz).split()[0] for hz in board["clocks_hz"]),
            ", ".join(board["images"]), ", ".join(board["flash"]["commands"]),
        )
    return Group(table, Sentences([f"Profiles: {', '.join(profiles)}. The first clock and profile are the usual."]))


def render(rows: Sequence[FirmwareRow], *, whole: bool) -> Group:
    """Lay out images; unless `whole`, those of one operation alone are counted only."""
    shown = [row for row in rows if whole or not row.image.startswith(_ALONE)]
    table = plain_table("board, image, settings")
    for heading in ("flash", "data\nand bss", "build"):
        table.add_column(heading, justify="right", overflow="fold")
    before = None
    for row in shown:
        if row.board != before:
            table.add_row(Text(row.board))
        before = row.board
        table.add_row(Text(f"  {_label(row)}"), *map(Text, _facts(row)))
    sentences = []
    if len(shown) < len(rows):
        n = len(rows) - len(shown)
        sentences.append(f"And {n} image{'s' * (n > 1)} of one operation alone (--all lists them).")
    if any(row.out_of_date for row in shown):
        sentences.append("Out of date: built from other sources than those there are now; building it anew helps.")
    sentences += [row.remark for row in shown if row.remark]
    return Group(table, Sentences(sentences))


def _label(row: FirmwareRow) -> str:
    variant = "".join(f", {key}={value}" for key, value in row.variant.items())
    return f"{row.image}, {row.profile}, {clock_text(row.clock_hz)}{variant}"


def _facts(row: FirmwareRow) -> tuple[str, str, str]:
    if row.build is None or row.flash_bytes is None or row.ram_bytes is None:
        return "", "", "unreadable" if row.built else "not built"
    return (
        f"{grouped(row.flash_bytes)} ({share(row.flash_bytes, row.board_flash_bytes)})",
        f"{grouped(row.ram_bytes)} ({share(row.ram_bytes, row.board_ram_bytes)})",
        f"{row.build}\nout of date" if row.out_of_date else row.build,
    )
