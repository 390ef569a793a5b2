"""Many measurements one after the other: each group of combinations on its bench, with its firmware.

What one group lacks or one row has not costs those rows and not the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labctl import boards
from labctl.bench import Bench, open_bench
from labctl.benchfile import BenchFile
from labctl.combinations import Choice, Group, combine, regroup
from labctl.errors import EnvironmentFault, LabctlError, Unsupported
from labctl.firmware import Image, ensure, mismatch
from labctl.firmware_source import stale_sentence
from labctl.measure import Plan, Progress, measure
from labctl.model import MissingRow, Operation
from labctl.operations import NAMES, OF_IMAGE, parts, spelled
from labctl.simulation import USUAL, Emulation

N_STEPS_BESIDE = 2  # of a measurement, besides its operations


@dataclass(frozen=True)
class Survey:
    """What to measure, and on which bench: `file` None is the emulated one, drawn from `seed`, with `emulation` in it.

    `plan` holds what is the same for every group; its operations are not looked at. `note` is told what to know of the
    firmware that is measured.
    """

    choice: Choice
    plan: Plan
    file: BenchFile | None
    overrides: Callable[[BenchFile], BenchFile]
    ask: Callable[[str], object]
    seed: int = 1
    note: Callable[[str], object] = lambda _: None
    emulation: Emulation = USUAL


def refuse_row(row: MissingRow) -> None:
    """Let a row that there will not be end the survey."""
    raise row.error


def survey(
    wanted: Survey, progress: Progress = lambda *_: None, missing: Callable[[MissingRow], None] = refuse_row
) -> Iterator[Path]:
    """Measure all combinations; yield the path of each capture, and tell `missing` each row that there will not be.

    Images that are missing are built first. A fault that ends one of several groups costs the rest of this group; one
    that ends the only one is raised. Raises ConfigError for what cannot be combined, and what a measurement raises.
    """
    from instruments.errors import InstrumentError

    choice = wanted.choice
    if not choice.boards and wanted.file is not None:
        choice = replace(choice, boards=tuple(dut.board for dut in wanted.file.duts))
    groups, absent = combine(choice)
    for row in absent:
        missing(row)
    if wanted.file is None:
        groups = _built(groups, progress, missing, wanted.note)
    n_steps = sum(len(group.operations) + N_STEPS_BESIDE for group in groups)
    n_done = 0
    for before, group in zip([None, *groups], groups, strict=False):
        left = list(group.operations)
        title = f"{group.image.board} {group.image.folder}: " if len(groups) > 1 else ""
        try:
            if before is not None and _takes_its_place(wanted.file, group.image.board, before.image.board):
                wanted.ask(f"Put {group.image.board} in the place of {before.image.board}")
            yield from _measure(wanted, choice, group, left, _part(progress, title, n_done, n_steps), missing)
        except (LabctlError, InstrumentError) as error:
            if len(groups) == 1:
                raise
            for operation in left:
                missing(MissingRow(group.image.board, operation, error))
        n_done += len(group.operations) + N_STEPS_BESIDE


def _takes_its_place(file: BenchFile | None, board: str, before: str) -> bool:
    """Tell whether a board has to be put by hand where another was: there is room for one only."""
    return file is not None and len(file.duts) == 1 and board != before


def _built(
    groups: list[Group], progress: Progress, missing: Callable[[MissingRow], None], note: Callable[[str], object]
) -> list[Group]:
    """Have the image of each group; where one does not fit its board, smaller ones in its place.

    Operations that no image is left for are told to `missing`, images that are out of date to `note`.
    """
    queue, built, unfit = list(groups), list[Group](), set[Image]()
    while queue:
        group = queue.pop(0)
        left: Sequence[Operation] = group.operations
        try:
            ensure(group.image, progress)
            if sentence := stale_sentence(group.image):
                note(sentence)
            built.append(group)
        except (EnvironmentFault, Unsupported) as error:
            if isinstance(error, Unsupported):
                unfit.add(group.image)
                smaller, left = regroup(group, unfit)
                queue[:0] = smaller
            for operation in left:
                missing(MissingRow(group.image.board, operation, error))
    return built


def _part(progress: Progress, title: str, n_before: int, n_steps: int) -> Progress:
    """Tell the progress of one group as a part of the whole."""
    return lambda text, done, _: progress(f"{title}{text}", n_before + done, n_steps)


def _measure(
    wanted: Survey,
    choice: Choice,
    group: Group,
    left: list[Operation],
    progress: Progress,
    missing: Callable[[MissingRow], None],
) -> Iterator[Path]:
    """Measure one group, on a bench that is opened for it; `left` keeps what is still to come."""

    def lack(operation: Operation, error: LabctlError) -> None:
        left.remove(operation)
        missing(MissingRow(group.image.board, operation, error))

    with open_bench(
        wanted.file,
        board_name=group.image.board,
        overrides=wanted.overrides,
        ask=wanted.ask,
        seed=wanted.seed,
        clock_hz=group.image.clock_hz,
        elf=group.image.path if wanted.file is None else None,
        emulation=wanted.emulation,
    ) as bench:
        if bench.simulation is None:
            left[:] = _flashed(wanted, choice, group, bench)
        for path in measure(bench, replace(wanted.plan, operations=tuple(left)), progress, lack):
            left.pop(0)  # captures come in the order of the operations
            yield path


def _flashed(wanted: Survey, choice: Choice, group: Group, bench: Bench) -> tuple[Operation, ...]:
    """Give the operations as the firmware on a DUT has them; where it is another than asked, ask for the right one.

    Settings that nobody chose are those of the firmware that is there.
    """
    bench.dut.hello()
    operations = _adopted(choice, group, bench)
    other = mismatch(bench.board, bench.dut.manifest(), operations[0])
    held = bench.dut.list_operations()
    lacking = [operation.name for operation in operations if operation.name in NAMES and operation.name not in held]
    if other or lacking:
        why = f"built with {other}" if other else f"without {', '.join(dict.fromkeys(lacking))}"
        wanted.ask(
            f"The firmware of {bench.board['name']} is {why}: flash another "
            f"(labctl firmware flash {group.image.options})"
        )
        bench.dut.hello()
        operations = _adopted(choice, group, bench)
    return operations


def _adopted(choice: Choice, group: Group, bench: Bench) -> tuple[Operation, ...]:
    """Take from the DUT's firmware the profile, the clock and the image's variants that the choice leaves open."""
    manifest = bench.dut.manifest()
    taken: dict[str, str | int] = {}
    if not choice.profiles and "profile" in manifest:
        taken["profile"] = manifest["profile"]
    if not choice.clocks_hz and manifest.get("clock_hz") in bench.board["clocks_hz"]:
        bench.board = boards.at_clock(bench.board["name"], manifest["clock_hz"])
        taken["clock_hz"] = manifest["clock_hz"]
    of_image = {} if choice.variants else {
        key: manifest[key] for key, values in OF_IMAGE.items() if manifest.get(key, values[0]) != values[0]
    }
    return tuple(
        replace(operation, **taken, variant=spelled(parts(operation.variant) | of_image))  # type: ignore[arg-type]
        for operation in group.operations
    )
