"""What is told of the memory of operations and images: numbers without the files that they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labctl.memory.callgraph import Unresolved
from labctl.model import Operation

SCHEMA = "labctl.memory/1"


@dataclass(frozen=True)
class StackBound:
    """The static bounds of a stack: `whole_bytes` with all callers, `step_bytes` of the measured part alone.

    They bound nothing where a call is unresolved. `n_followed` calls through pointers were followed by constant tables.
    """

    whole_bytes: int
    step_bytes: int
    unresolved: tuple[Unresolved, ...]
    n_followed: int
    path: tuple[str, ...]


@dataclass(frozen=True)
class MemoryRow:
    """One operation on one board: what its image has more than the null image, and what it used while it ran.

    `flash_bytes` and `ram_bytes` (data and bss) are differences to the null image of the same settings; the totals of
    both images are beside them. `marks` are the DUT's own (firmware/PROTOCOL.md, `stack`), `null_marks` those of `null`
    in the same image. `bound` is None where no call graph was kept. Ratios are of the board's flash and RAM.
    """

    board: str
    operation: Operation
    image: str
    flash_bytes: int
    ram_bytes: int
    image_flash_bytes: int
    image_ram_bytes: int
    null_flash_bytes: int
    null_ram_bytes: int
    stack_reserved_bytes: int
    heap_reserved_bytes: int
    marks: Mapping[str, int]
    null_marks: Mapping[str, int]
    bound: StackBound | None
    workspace_on_heap: bool
    board_flash_bytes: int
    board_ram_bytes: int

    @property
    def stack_bytes(self) -> int:
        """Return the most of the stack in use in a window, all callers included."""
        return self.marks["stack_peak_bytes"]

    @property
    def heap_bytes(self) -> int:
        """Return the most of the heap that the operation had at a time, its contexts and messages included."""
        own = self.marks["heap_held_bytes"] + self.marks["heap_peak_bytes"]
        prepared = self.marks["state_bytes"] + self.marks["buffer_bytes"]
        return own + (prepared if self.workspace_on_heap else 0)


@dataclass(frozen=True)
class ImageRow:
    """One image with many operations, which share code: totals, and what it has more than the null image."""

    board: str
    image: str
    profile: str
    clock_hz: int
    variant: str
    n_operations: int
    flash_bytes: int
    ram_bytes: int
    null_flash_bytes: int
    null_ram_bytes: int
    stack_reserved_bytes: int
    heap_reserved_bytes: int
    board_flash_bytes: int
    board_ram_bytes: int
