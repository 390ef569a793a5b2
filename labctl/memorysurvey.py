"""Find what operations take of a board's memory: build an image for each, read it, and run it on the emulated bench.

The emulated core runs the same instructions as the board's, so the marks of stack and heap are those of the board.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from labctl import boards, interrupts
from labctl.bench import EMULATION_SLOWDOWN, open_bench
from labctl.combinations import Choice, combine
from labctl.dut import Dut, unknown_operation
from labctl.errors import ConfigError, EnvironmentFault, LabctlError, Unsupported
from labctl.firmware import SOURCES, Image, Progress, ensure, image_of, names
from labctl.fitting import prepare
from labctl.memory.calltree import CallTree
from labctl.memory.elf import read_program
from labctl.memory.footprint import Footprint, footprint
from labctl.memory.mapfile import read_map
from labctl.memory.operation import operation_stack
from labctl.memory.row import ImageRow, MemoryRow, StackBound
from labctl.model import MissingRow, Operation
from labctl.operations import EVERYWHERE, NAMES, lacking, spelled

# Windows whose memory is watched: what is blinded or makes keys differs from one to the next.
N_RUNS = 5
_PAUSE_S = 100e-6
_SILENCE_S = 30.0

Missing = Callable[[MissingRow], None]


@dataclass(frozen=True)
class MemorySurvey:
    """Rows of operations and of the images that hold many."""

    rows: tuple[MemoryRow, ...]
    images: tuple[ImageRow, ...]


def survey_memory(
    choice: Choice, progress: Progress = lambda *_: None, missing: Missing = lambda _: None
) -> MemorySurvey:
    """Find the memory of every combination of a choice, and of the boards' usual images with many operations.

    `missing` is told of what a board has not or cannot hold; where only one is asked for, that error is raised. Raises
    ConfigError as `combine` does, EnvironmentFault where an image is missing and cannot be built.
    """
    builds = _Builds()
    groups, absent = combine(replace(choice, n_runs=N_RUNS, n_iterations=1))
    for row in absent:
        missing(row)
    wanted = [(group.image, operation) for group in groups for operation in group.operations]
    for image, operation in list(wanted):
        if reason := _impossible(image.board, operation):
            missing(MissingRow(image.board, operation, Unsupported(reason)))
            wanted.remove((image, operation))
    rows: list[MemoryRow] = []
    for number, (image, operation) in enumerate(wanted):
        interrupts.check()
        progress(f"{image.board} {operation.name}", number, len(wanted))
        try:
            builds.progress = lambda text, *_, n=number: progress(text, n, len(wanted))
            rows.append(_row(builds, image, operation))
        except EnvironmentFault:
            raise  # the next image could not be built either
        except LabctlError as error:
            if len(wanted) == 1:
                raise
            missing(MissingRow(image.board, operation, error))
    return MemorySurvey(tuple(rows), tuple(_image_rows(builds, [image for image, _ in wanted])))


def _impossible(board: str, operation: Operation) -> str:
    """Say what is wrong with an operation as far as that is known before anything is built; "" where nothing."""
    ram_bytes = boards.load(board)["memory"]["ram"]["size_bytes"]
    if (operation.bytes or 0) > ram_bytes:
        return f"a message of {operation.bytes} B is more than all the RAM of {board}, {ram_bytes} B"
    return lacking(operation.name, operation.bytes, operation.variant) if operation.name in NAMES else ""


class _Builds:
    """Images brought up to date, each once, so that their objects' call graphs are those of their ELF files."""

    def __init__(self) -> None:
        self.progress: Progress = lambda *_: None
        self._paths: dict[Image, Path] = {}
        self._totals: dict[Image, Footprint] = {}

    def path(self, image: Image) -> Path:
        """Have an image; raises what `ensure` does."""
        if image not in self._paths:
            self._paths[image] = ensure(image, self.progress)
        return self._paths[image]

    def totals(self, image: Image) -> Footprint:
        """Sort an image's sections by what they take."""
        if image not in self._totals:
            self._totals[image] = footprint(read_program(self.path(image)))
        return self._totals[image]


def _row(builds: _Builds, usual: Image, operation: Operation) -> MemoryRow:
    board = boards.at_clock(usual.board, usual.clock_hz)
    known = (*NAMES, *(f"idle.{mode}" for mode in board.get("idle_modes", ())))
    if operation.name not in known:
        raise unknown_operation(board["name"], operation.name, known)
    alone = image_of(board, operation, "null" if operation.name in EVERYWHERE else f"op-{operation.name}")
    elf = builds.path(alone)
    totals, null = builds.totals(alone), builds.totals(replace(alone, name="null"))
    marks, null_marks = _watch(alone, elf, operation)
    reserved = totals.reserved_bytes
    return MemoryRow(
        board=alone.board,
        operation=operation,
        image=alone.name,
        flash_bytes=totals.flash_bytes - null.flash_bytes,
        ram_bytes=totals.ram_bytes - null.ram_bytes,
        image_flash_bytes=totals.flash_bytes,
        image_ram_bytes=totals.ram_bytes,
        null_flash_bytes=null.flash_bytes,
        null_ram_bytes=null.ram_bytes,
        stack_reserved_bytes=reserved.get("stack", 0),
        heap_reserved_bytes=reserved.get("heap", 0),
        marks=marks,
        null_marks=null_marks,
        bound=_bound(elf, operation.name),
        workspace_on_heap=alone.workspace == "heap",
        board_flash_bytes=board["memory"]["flash"]["size_bytes"],
        board_ram_bytes=board["memory"]["ram"]["size_bytes"],
    )


def _bound(elf: Path, operation: str) -> StackBound | None:
    """Bound the stack; None for an image that came without its map or its objects."""
    link_map = elf.with_suffix(".map")
    if not link_map.is_file():
        return None
    found = operation_stack(CallTree.of(read_program(elf), read_map(link_map), SOURCES), operation)
    whole = found.whole
    return StackBound(whole.stack_bytes, found.step.stack_bytes, whole.unresolved, found.n_followed, whole.path)


def _watch(image: Image, elf: Path, operation: Operation) -> tuple[dict[str, int], dict[str, int]]:
    """Run an operation and `null` on the emulated board; give the marks of both."""
    with open_bench(
        None, board_name=image.board, overrides=lambda file: file, ask=_nobody, clock_hz=image.clock_hz, elf=elf
    ) as bench:
        bench.dut.hello()
        null = Operation("null", n_runs=operation.n_runs, profile=operation.profile, clock_hz=operation.clock_hz)
        null_marks = _marks(bench.dut, null)
        return _marks(bench.dut, operation), null_marks


def _marks(dut: Dut, operation: Operation) -> dict[str, int]:
    dut.self_test(operation)
    ready = prepare(dut, operation, _PAUSE_S)
    dut.go(ready.series_s * EMULATION_SLOWDOWN + _SILENCE_S)
    return dut.stack()


def _nobody(sentence: str) -> None:
    raise ConfigError(f"{sentence}: but the emulated bench needs nobody")


def _image_rows(builds: _Builds, wanted: list[Image]) -> Iterator[ImageRow]:
    """Give the images of each board and setting that hold many operations, as far as they fit."""
    for setting in dict.fromkeys(replace(image, name="") for image in wanted):
        data = boards.load(setting.board)
        null = builds.totals(replace(setting, name="null"))
        for name in names(data):
            image = replace(setting, name=name)
            with contextlib.suppress(Unsupported):  # with these settings it does not fit
                yield _image_row(image, builds.totals(image), null, _n_operations(builds.path(image)))


def _image_row(image: Image, totals: Footprint, null: Footprint, n_operations: int) -> ImageRow:
    memory = boards.load(image.board)["memory"]
    return ImageRow(
        board=image.board,
        image=image.name,
        profile=image.profile,
        clock_hz=image.clock_hz,
        variant=spelled(image.variant),
        n_operations=n_operations,
        flash_bytes=totals.flash_bytes,
        ram_bytes=totals.ram_bytes,
        null_flash_bytes=null.flash_bytes,
        null_ram_bytes=null.ram_bytes,
        stack_reserved_bytes=totals.reserved_bytes.get("stack", 0),
        heap_reserved_bytes=totals.reserved_bytes.get("heap", 0),
        board_flash_bytes=memory["flash"]["size_bytes"],
        board_ram_bytes=memory["ram"]["size_bytes"],
    )


def _n_operations(elf: Path) -> int:
    """Read how many operations an image holds, besides those that every image does."""
    program = read_program(elf)
    symbol = program.find("n_operations", "OBJECT")
    n = None if symbol is None else program.word_at(symbol.address)
    return (n or len(EVERYWHERE)) - len(EVERYWHERE)
