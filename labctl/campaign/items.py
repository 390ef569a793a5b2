"""What a plan comes to: every item with its number and key, what is left out and why, and the order of the night."""

from __future__ import annotations

import fnmatch
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labctl import boards
from labctl.campaign.exclusions import Coordinates, excluded_by
from labctl.campaign.model import Item
from labctl.campaign.plan import Plan, load_plan
from labctl.campaign.planfaults import PlanFault, Problem, others
from labctl.combinations import Choice, combine
from labctl.errors import Unsupported
from labctl.firmware import image_for
from labctl.model import Operation
from labctl.operations import BYTES_DEFAULT, implementations, lacking, select, takes_message
from labctl.tomlsource import nearest

N_ITEMS_MAX = 100_000
_N_NAMED = 5


@dataclass(frozen=True)
class LeftOut:
    """A combination that the plan spells and the campaign does not take; `reason` is a sentence."""

    board: str
    operation: Operation
    reason: str


@dataclass(frozen=True)
class Expansion:
    """All that a plan comes to: items in the order of their numbers, and what is left out."""

    items: tuple[Item, ...]
    left_out: tuple[LeftOut, ...]


def planned(path: Path) -> tuple[Plan, Expansion]:
    """Read a plan file and spread it out. Raises ConfigError with all that is wrong with it, by line."""
    told: list[Problem] = []
    try:
        plan = load_plan(path)
    except PlanFault as fault:
        if fault.rest is None:
            raise
        plan, told = fault.rest, list(fault.problems)
    try:
        expanded = expansion(plan)
    except PlanFault as fault:
        told += others(fault.problems, told)
    if told:
        raise PlanFault(plan.source, told)
    return plan, expanded


def expand(plan: Plan) -> list[Item]:
    """List the items of a plan, numbered from 1: what is measured, then references, then baselines.

    Raises ConfigError as `expansion` does.
    """
    return list(expansion(plan).items)


def expansion(plan: Plan) -> Expansion:
    """Spread a plan out.

    Raises ConfigError, with the plan's line, for more than 100 000 items, for an exclusion or a rehearsed fault that
    fits none, and where nothing is left.
    """
    _check_number(plan)
    factors, campaign = plan.factors, plan.campaign
    groups, missing = combine(
        Choice(
            factors.boards, factors.operations, factors.implementations, factors.profiles, factors.clocks_hz,
            factors.variants, factors.sizes, campaign.n_runs, campaign.n_iterations,
        )
    )
    found = dict.fromkeys((group.image.board, one) for group in groups for one in group.operations)
    absent = {(row.board, row.operation): str(row.error) for row in missing}
    absent |= {one: reason for one in found if (reason := _lacking(*one))}
    excluded, problems = excluded_by(plan, list({**found, **absent}))
    left_out = [LeftOut(*one, reason) for one, reason in {**absent, **excluded}.items()]
    kept = [one for one in found if one not in excluded and one not in absent]
    if not kept:
        reasons = list(dict.fromkeys(one.reason for one in left_out))
        nothing = f"leaves nothing to measure: {'; '.join(reasons[:_N_NAMED])}"
        raise PlanFault(plan.source, [*problems, (("factors",), nothing)])
    coordinates = [(*one, "item", 0) for one in kept]
    for row in _in_between(plan, kept):
        if isinstance(row, LeftOut):
            left_out.append(row)
        else:
            coordinates.append(row)
    if len(coordinates) > N_ITEMS_MAX:
        raise PlanFault(plan.source, [(("factors",), _too_many(len(coordinates)))])
    items = tuple(
        Item(number, key_of(board, operation, role, repeat), board, operation, plan.bench_of(board).name, role, repeat,
             campaign.n_warmup)
        for number, (board, operation, role, repeat) in enumerate(coordinates, 1)
    )
    problems += _faulty_faults(plan, items)
    if problems:
        raise PlanFault(plan.source, problems)
    return Expansion(items, tuple(left_out))


def key_of(board: str, operation: Operation, role: str = "item", repeat: int = 0) -> str:
    """Spell an item's coordinates, the same whatever else the plan holds: the clock in Hz, nothing left at a default.

    Runs, iterations and warm-up are no coordinates: a campaign has one of each, and its baselines one.
    """
    words = [
        board, operation.name, "-" if operation.bytes is None else f"{operation.bytes}B", operation.implementation,
        operation.profile, f"{operation.clock_hz}Hz", operation.variant or "plain",
    ]
    return " ".join(words if role == "item" else [*words, f"{role}#{repeat}"])


def schedule(plan: Plan, items: Sequence[Item]) -> list[int]:
    """Put items into the order in which they are taken and return their numbers.

    "random" sorts by a hash of seed and key, so that an item added later moves no other; "blocked" keeps together
    what one image holds, at random within; "listed" is the order of the numbers. A board's baselines and references
    come before its first item and after every so many.
    """

    def by_chance(item: Item) -> bytes:
        return hashlib.sha256(f"{plan.campaign.seed} {item.key}".encode()).digest()

    measured = [item for item in items if item.role == "item"]
    if plan.campaign.order == "random":
        measured.sort(key=by_chance)
    elif plan.campaign.order == "blocked":
        blocks: dict[Any, int] = {}
        for item in measured:
            blocks.setdefault(_image(item), len(blocks))
        measured.sort(key=lambda item: (blocks[_image(item)], by_chance(item)))
    return [item.number for item in _interleaved(plan, items, measured)]


def _check_number(plan: Plan) -> None:
    """Refuse a plan that is too large before it is spread out."""
    factors = plan.factors
    modes = {f"idle.{mode}" for board in factors.boards for mode in boards.load(board).get("idle_modes", ())}
    names = select(factors.operations, modes)
    n_of_each = sum(max(1, len(factors.sizes)) if takes_message(name) else 1 for name in names)
    others = (factors.boards, factors.implementations, factors.profiles, factors.clocks_hz, factors.variants)
    number = n_of_each * math.prod(max(1, len(one)) for one in others)
    if number > N_ITEMS_MAX:
        raise PlanFault(plan.source, [(("factors",), _too_many(number))])


def _too_many(number: int) -> str:
    return (
        f"comes to {number} combinations, and a campaign takes {N_ITEMS_MAX} at most, excluded ones counted: "
        "split it into several plans"
    )


def _lacking(board: str, operation: Operation) -> str:
    """Say what a board's firmware has not, "" where it has all."""
    modes = [f"idle.{mode}" for mode in boards.load(board).get("idle_modes", ())]
    if operation.name.startswith("idle.") and operation.name not in modes:
        return f"{board} sleeps as {', '.join(['idle', *modes])}, not as {operation.name}"
    return lacking(operation.name, operation.bytes, operation.variant)


def _in_between(plan: Plan, kept: Sequence[Coordinates]) -> Iterator[tuple[str, Operation, str, int] | LeftOut]:
    """Yield references and baselines of every board, at profile and clock of its first item."""
    first: dict[str, Operation] = {}
    for board, operation in kept:
        first.setdefault(board, operation)
    for board, like in first.items():
        n_items = sum(1 for name, _ in kept if name == board)
        for role, names, n_bytes, every, n_iterations in _repeated(plan):
            for name in names:
                size = (n_bytes or BYTES_DEFAULT) if takes_message(name) else None
                operation = replace(
                    like, name=name, bytes=size, implementation=implementations(name)[0], variant="",
                    n_iterations=n_iterations,
                )
                reason = _lacking(board, operation)
                try:
                    image_for(boards.load(board), operation)
                except Unsupported as error:
                    reason = str(error)
                if reason:
                    yield LeftOut(board, operation, f"as {role}: {reason}")
                    continue
                for repeat in range(1 + n_items // every):
                    yield board, operation, role, repeat


def _repeated(plan: Plan) -> Iterator[tuple[str, tuple[str, ...], int | None, int, int]]:
    """Yield of each kind: role, operations, size, after how many items, iterations of a window."""
    reference, baselines = plan.reference, plan.baselines
    if reference is not None:
        yield "reference", (reference.operation,), reference.bytes, reference.every, plan.campaign.n_iterations
    if baselines is not None:
        yield "baseline", baselines.operations, None, baselines.every, baselines.n_iterations


def _interleaved(plan: Plan, items: Sequence[Item], measured: Sequence[Item]) -> Iterator[Item]:
    """Yield what is measured, with the repeated items of each board in between."""
    every = {role: n for role, _, _, n, _ in _repeated(plan)}
    waiting: dict[str, dict[str, dict[int, list[Item]]]] = {}
    for item in items:
        if item.role != "item":
            waiting.setdefault(item.board, {}).setdefault(item.role, {}).setdefault(item.repeat, []).append(item)
    left = {board: sum(1 for item in measured if item.board == board) for board in {item.board for item in items}}
    n_taken = dict.fromkeys(left, 0)
    for item in measured:
        groups = waiting.get(item.board, {})
        for role, by_repeat in groups.items():
            if by_repeat and n_taken[item.board] % every.get(role, 1) == 0:
                yield from by_repeat.pop(min(by_repeat))
        yield item
        n_taken[item.board] += 1
        left[item.board] -= 1
        if not left[item.board]:
            yield from _rest(groups)
    for board in dict.fromkeys(item.board for item in items):
        yield from _rest(waiting.get(board, {}))


def _rest(groups: dict[str, dict[int, list[Item]]]) -> Iterator[Item]:
    for by_repeat in groups.values():
        for repeat in sorted(by_repeat):
            yield from by_repeat.pop(repeat)


def _image(item: Item) -> Any:
    return image_for(boards.load(item.board), item.operation)


def _faulty_faults(plan: Plan, items: Sequence[Item]) -> Iterator[Problem]:
    """Yield the rehearsed faults that concern nothing."""
    emulated = {bench.name for bench in plan.benches if bench.emulated}
    for number, fault in enumerate(plan.faults):
        key, value = ("item", fault.item) if fault.item is not None else ("operation", fault.operation)
        if value is None:
            continue  # an entry that cannot be read, of which that is told
        fitting = [item for item in items if fits_fault(fault, item)]
        if not fitting:
            known = f"items are 1 to {len(items)}" if key == "item" else nearest(
                str(value), (item.operation.name for item in items), "it has"
            )
            yield ("faults", number, key), f"= {value!r} is no item of this plan; {known}"
        elif not any(item.bench in emulated for item in fitting):
            yield ("faults", number, key), f"= {value!r} is measured on a real bench: faults are for emulated ones"


def fits_fault(fault: Any, item: Item) -> bool:
    """Tell whether a rehearsed fault concerns an item."""
    if fault.item is not None:
        return item.number == fault.item
    return fnmatch.fnmatchcase(item.operation.name, fault.operation)
