"""The memory of operations as tables of 80 columns, and as JSON rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from labctl.memory.callgraph import Unresolved
from labctl.memory.row import ImageRow, MemoryRow
from labctl.report.labels import N_NAMED, Labels, Subject
from labctl.report.text import Sentences, wrap
from labctl.units import NOT_KNOWN, percent

_N_COLUMNS_LABEL = 24
_WORDS = {"pointer": "through a pointer", "recursion": "in a circle, taken once", "unknown function": "not known",
          "variable frame": "frame depends on data"}


def to_json_rows(rows: Sequence[MemoryRow]) -> list[dict[str, Any]]:
    """Turn rows into objects for JSON; ratios are of the board's flash and RAM."""
    return [_to_json(row) for row in rows]


def _to_json(row: MemoryRow) -> dict[str, Any]:
    bound = row.bound
    return {
        **asdict(Subject.of(row.board, row.operation)),
        "image": row.image,
        "flash_bytes": row.flash_bytes,
        "flash_ratio": row.flash_bytes / row.board_flash_bytes,
        "ram_bytes": row.ram_bytes,
        "ram_ratio": row.ram_bytes / row.board_ram_bytes,
        "stack_bytes": row.stack_bytes,
        "stack_ratio": row.stack_bytes / row.board_ram_bytes,
        "stack_null_bytes": row.null_marks["stack_peak_bytes"],
        "stack_bound_bytes": None if bound is None else bound.whole_bytes,
        "stack_step_bound_bytes": None if bound is None else bound.step_bytes,
        "stack_unresolved_calls": None if bound is None else len(bound.unresolved),
        "stack_followed_calls": None if bound is None else bound.n_followed,
        "stack_unresolved": [] if bound is None else [_unresolved_to_json(one) for one in bound.unresolved],
        "stack_path": [] if bound is None else [_short(title) for title in bound.path],
        "heap_bytes": row.heap_bytes,
        "heap_ratio": row.heap_bytes / row.board_ram_bytes,
        **{key: row.marks[key] for key in ("heap_peak_bytes", "heap_held_bytes", "state_bytes", "buffer_bytes")},
        "image_flash_bytes": row.image_flash_bytes,
        "image_ram_bytes": row.image_ram_bytes,
        "null_flash_bytes": row.null_flash_bytes,
        "null_ram_bytes": row.null_ram_bytes,
        "stack_reserved_bytes": row.stack_reserved_bytes,
        "heap_reserved_bytes": row.heap_reserved_bytes,
        "board_flash_bytes": row.board_flash_bytes,
        "board_ram_bytes": row.board_ram_bytes,
    }


def _unresolved_to_json(one: Unresolved) -> dict[str, str]:
    return {"what": one.what, "function": _short(one.function), "place": _short(one.place)}


def images_to_json(rows: Sequence[ImageRow]) -> list[dict[str, Any]]:
    """Turn images into objects for JSON."""
    return [
        {
            **asdict(row),
            "flash_ratio": row.flash_bytes / row.board_flash_bytes,
            "ram_ratio": row.ram_bytes / row.board_ram_bytes,
        }
        for row in rows
    ]


def render(rows: Sequence[MemoryRow], images: Sequence[ImageRow], n_runs: int) -> Group:
    """Lay out rows and images for a terminal of 80 columns."""
    subjects = [Subject.of(row.board, row.operation) for row in rows]
    labels = Labels(subjects)
    sizes = {row.board: f"{row.board} ({_kib(row.board_flash_bytes)} flash, {_kib(row.board_ram_bytes)} RAM)"
             for row in rows}
    parts: list[Any] = [
        Text("\n".join(wrap(f"Memory in bytes; emulated board{'s' * (len(sizes) > 1)} {', '.join(sizes.values())}")),
             style="bold"),
    ]
    if labels.common:
        parts.append(Sentences([f"All rows: {', '.join(labels.common)}."]))
    parts += ["", _table(rows, subjects, labels), "", Sentences(_explanation(rows, n_runs))]
    parts += ["", _image_table(images), "", Sentences([
        "The images above hold many operations, which share code: less than the sum of each alone. Stack and heap are "
        "what is set aside for them, and in no other figure."
    ])] if images else []
    return Group(*parts)


def _table(rows: Sequence[MemoryRow], subjects: Sequence[Subject], labels: Labels) -> Table:
    table = plain_table("operation")
    for heading in ("flash", "data\nand bss", "stack,\nmark", "stack,\nbound", "heap"):
        table.add_column(heading, justify="right", overflow="fold")
    for row, subject in zip(rows, subjects, strict=True):
        label = labels.label(subject, _N_COLUMNS_LABEL)
        flash = _of(row.flash_bytes, row.board_flash_bytes)
        others = [_of(n, row.board_ram_bytes) for n in (row.ram_bytes, row.stack_bytes)]
        table.add_row(Text(label), flash, *others, _bound(row), _of(row.heap_bytes, row.board_ram_bytes))
    return table


def _of(n_bytes: int, whole_bytes: int) -> str:
    return f"{grouped(n_bytes)}\n{share(n_bytes, whole_bytes)}"


def _bound(row: MemoryRow) -> str:
    if row.bound is None:
        return NOT_KNOWN
    n = len(row.bound.unresolved)
    return f"{grouped(row.bound.whole_bytes)}\n" + (f"+ {n} call{'s' * (n > 1)}" if n else "")


def _explanation(rows: Sequence[MemoryRow], n_runs: int) -> list[str]:
    nulls = sorted({row.null_marks["stack_peak_bytes"] for row in rows})
    span = str(nulls[0]) if len(nulls) == 1 else f"{nulls[0]} to {nulls[-1]}"
    sentences = [
        "Flash, data and bss: what an image with the operation alone has more than one with none. Data count in both.",
        f"Stack, mark: the deepest in {n_runs} windows and the warm-up, with all that called the operation; of these "
        f"the empty operation needs {span} bytes. Heap: the most at a time, contexts and messages included.",
        "Stack, bound: the longest path of calls by the compiler's own account, from the reset on.",
    ]
    unresolved = list(dict.fromkeys(one for row in rows if row.bound for one in row.bound.unresolved))
    if unresolved:
        sentences.append(
            "Where \"+ N calls\" stands the bound is not complete: what is behind these calls is not in it, and may "
            f"go deeper. They are in {_named(unresolved)}."
        )
    if any(row.bound is None for row in rows):
        sentences.append("Some images came without map and call graphs: their bound is not known.")
    return sentences


def _named(unresolved: Sequence[Unresolved]) -> str:
    texts = [f"{_short(one.function)} ({_WORDS[one.what]}, {_short(one.place) or 'no place told'})"
             for one in unresolved]
    if len(texts) > N_NAMED:
        return f"{', '.join(texts[: N_NAMED - 1])} and {len(texts) - N_NAMED + 1} others (--json names all)"
    return ", ".join(texts)


def _short(title: str) -> str:
    """Drop the folders before a file's name."""
    file, colon, rest = title.partition(":")
    return f"{PurePath(file).name}{colon}{rest}"


def _image_table(images: Sequence[ImageRow]) -> Table:
    table = plain_table("image")
    for heading in ("opera-\ntions", "flash", "more\nthan null", "data\nand bss", "stack\nroom", "heap\nroom"):
        table.add_column(heading, justify="right", overflow="fold")
    several = {key: len({getattr(row, key) for row in images}) > 1
               for key in ("board", "profile", "clock_hz", "variant")}
    for row in images:
        lines = [row.image]
        lines += [f"  {row.board}"] if several["board"] else []
        settings = [row.profile] if several["profile"] else []
        settings += [f"{row.clock_hz / 1e6:.9g} MHz"] if several["clock_hz"] and not several["board"] else []
        settings += [row.variant or "plain"] if several["variant"] else []
        lines += [f"  {text}" for text in settings]
        table.add_row(
            Text("\n".join(lines)), str(row.n_operations), _of(row.flash_bytes, row.board_flash_bytes),
            grouped(row.flash_bytes - row.null_flash_bytes), _of(row.ram_bytes, row.board_ram_bytes),
            grouped(row.stack_reserved_bytes), grouped(row.heap_reserved_bytes),
        )
    return table


def plain_table(first_heading: str) -> Table:
    """Begin a table without frame."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first_heading, overflow="fold")
    return table


def grouped(n: int) -> str:
    """Print a number of bytes with its thousands apart: 131 072."""
    return f"{n:,}".replace(",", " ")


def share(n_bytes: int, whole_bytes: int) -> str:
    """Print a part in percent of the whole: "100 %" where it is all of it, and neither a byte less nor more."""
    for n_digits in range(2 if n_bytes < whole_bytes else 3, 12):
        text = percent(n_bytes / whole_bytes, n_digits)
        if n_bytes == whole_bytes or Decimal(text.removesuffix(" %")) != 100:
            break
    return text


def _kib(n_bytes: int) -> str:
    return f"{n_bytes / 1024:.4g} KiB"
