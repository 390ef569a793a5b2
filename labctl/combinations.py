"""What to measure, spread out: every combination of boards, operations and their settings, grouped by image.

What shares board, clock and image is one measurement: one range, one zero reading, one null series
(docs/decisions/0004).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from labctl import boards
from labctl.errors import ConfigError, Unsupported
from labctl.firmware import Image, image_for, image_of
from labctl.model import MissingRow, Operation
from labctl.operations import (
    BYTES_DEFAULT,
    EVERYWHERE,
    canonical,
    families,
    implementations,
    select,
    takes_message,
)


@dataclass(frozen=True)
class Choice:
    """What a person asks for; of what is left empty, the usual one.

    `names` may be patterns, `clocks_hz` are of any board, `variants` as a person types them.
    """

    boards: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    implementations: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    clocks_hz: tuple[float, ...] = ()
    variants: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    n_runs: int = 20
    n_iterations: int = 1


@dataclass(frozen=True)
class Group:
    """Operations that one image holds, on one board at one clock."""

    image: Image
    operations: tuple[Operation, ...]


def combine(choice: Choice) -> tuple[list[Group], list[MissingRow]]:
    """Spread a choice out into groups, in the order of first appearance, and the rows that no board or image has.

    Raises ConfigError for a board, a pattern or a variant that nothing knows, and for sizes where nothing has any.
    """
    missing: list[MissingRow] = []
    found: list[tuple[str, Operation]] = []
    for name in dict.fromkeys(choice.boards or (boards.DEFAULT,)):
        for operation in _operations(choice, name):
            try:
                boards.at_clock(name, operation.clock_hz)
                _check_implementation(operation)
                image_for(boards.load(name), operation)
            except Unsupported as error:
                missing.append(MissingRow(name, operation, error))
            else:
                found.append((name, operation))
    return _grouped(found), missing


def regroup(group: Group, unfit: Collection[Image]) -> tuple[list[Group], list[Operation]]:
    """Spread a group whose image does not fit its board out over others; tell the operations that no other holds."""
    board = boards.load(group.image.board)
    found: list[tuple[str, Operation]] = []
    left: list[Operation] = []
    for operation in group.operations:
        try:
            image_for(board, operation, unfit)
        except Unsupported:
            left.append(operation)
        else:
            found.append((group.image.board, operation))
    return _grouped(found, unfit), left


def operations_of(
    names: Sequence[str], n_bytes: int | None, *, n_runs: int, n_iterations: int = 1
) -> tuple[Operation, ...]:
    """Make plain operations of names and patterns, by default the usual ones. Raises ConfigError as `combine` does."""
    sizes = () if n_bytes is None else (n_bytes,)
    choice = Choice(names=tuple(names), sizes=sizes, n_runs=n_runs, n_iterations=n_iterations)
    return tuple(_operations(choice, boards.DEFAULT))


def _operations(choice: Choice, board: str) -> list[Operation]:
    """Spread out what concerns one board; clocks of it or not. What is asked twice is there once."""
    data = boards.load(board)
    names = tuple(dict.fromkeys(select(choice.names, (f"idle.{mode}" for mode in data.get("idle_modes", ())))))
    if choice.sizes and not any(map(takes_message, names)):
        raise ConfigError(f"--bytes is for operations with a message: none of {families(names)} has one")
    variants = dict.fromkeys(map(canonical, choice.variants or ("",)))
    settings = itertools.product(
        dict.fromkeys(choice.profiles or ("Os",)), dict.fromkeys(choice.clocks_hz or (data["clock_hz"],)), names
    )
    return [
        Operation(name, size, implementation, choice.n_iterations, choice.n_runs, profile, int(clock_hz), variant)
        for profile, clock_hz, name in settings
        for implementation in dict.fromkeys(choice.implementations or implementations(name)[:1])
        for size in _sizes(choice, name)
        for variant in variants
    ]


def _sizes(choice: Choice, name: str) -> tuple[int | None, ...]:
    if not takes_message(name):
        return (None,)
    return tuple(dict.fromkeys(choice.sizes)) or (BYTES_DEFAULT,)


def _check_implementation(operation: Operation) -> None:
    known = implementations(operation.name)
    if operation.implementation not in known:
        raise Unsupported(
            f"{operation.name} is computed by {' or '.join(known)} here, not by {operation.implementation!r}"
        )


def _grouped(found: Sequence[tuple[str, Operation]], unfit: Collection[Image] = ()) -> list[Group]:
    """Group by image; what every image holds goes where others need an image of the same settings anyway."""
    needed: dict[Image, Image] = {}
    for board, operation in found:
        if operation.name not in EVERYWHERE:
            image = image_for(boards.load(board), operation, unfit)
            needed.setdefault(image_of(boards.load(board), operation, ""), image)
    groups: dict[Image, list[Operation]] = {}
    for board, operation in found:
        image = image_for(boards.load(board), operation, unfit)
        if operation.name in EVERYWHERE:
            image = needed.get(image_of(boards.load(board), operation, ""), image)
        groups.setdefault(image, []).append(operation)
    return [Group(image, tuple(operations)) for image, operations in groups.items()]
