"""What a plan comes to: every item with its number and key, what is left out and why, and the order of the night."""

from __future__ import annotations

import fnmatch
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labctl import boards
from labctl.boards import clock_text
from labctl.campaign.exclusions import Coordinates, excluded_by
from labctl.campaign.model import Item
from labctl.campaign.plan import Plan
from labctl.combinations import Choice, combine
from labctl.errors import ConfigError, Unsupported
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


@dataclass(frozen=True)
class Changes:
    """What an edited plan does to a campaign that has begun.

    `added` have numbers behind the frozen ones. `changed` holds each frozen item with what is another now, `removed`
    those that the plan no longer spells; `reasons` says both for a person, one sentence a cause.
    """

    added: tuple[Item, ...]
    changed: tuple[tuple[Item, str], ...]
    removed: tuple[Item, ...]
    reasons: tuple[str, ...]


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
    excluded = excluded_by(plan, list({**found, **absent}))
    left_out = [LeftOut(*one, reason) for one, reason in {**absent, **excluded}.items()]
    kept = [one for one in found if one not in excluded and one not in absent]
    if not kept:
        reasons = list(dict.fromkeys(one.reason for one in left_out))
        raise plan.source.fault(("factors",), f"leaves nothing to measure: {'; '.join(reasons[:_N_NAMED])}")
    coordinates = [(*one, "item", 0) for one in kept]
    for row in _in_between(plan, kept):
        if isinstance(row, LeftOut):
            left_out.append(row)
        else:
            coordinates.append(row)
    if len(coordinates) > N_ITEMS_MAX:
        raise plan.source.fault(("factors",), _too_many(len(coordinates)))
    items = tuple(
        Item(number, key_of(board, operation, role, repeat), board, operation, plan.bench_of(board).name, role, repeat,
             campaign.n_warmup)
        for number, (board, operation, role, repeat) in enumerate(coordinates, 1)
    )
    _check_faults(plan, items)
    return Expansion(items, tuple(left_out))


def key_of(board: str, operation: Operation, role: str = "item", repeat: int = 0) -> str:
    """Spell an item's coordinates, the same whatever else the plan holds: the clock in Hz, nothing left at a default.

    Runs, iterations and warm-up are no coordinates: a campaign has one of each.
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


def compare(frozen: Sequence[Item], plan_items: Sequence[Item]) -> Changes:
    """Tell what the items of an edited plan add to, change in and take from those of a campaign that has begun."""
    wanted = {item.key: item for item in plan_items}
    begun = {item.key: item for item in frozen}
    n_before = max((item.number for item in frozen), default=0)
    new = [item for item in plan_items if item.key not in begun]
    added = tuple(replace(item, number=number) for number, item in enumerate(new, n_before + 1))
    changed = tuple(
        (item, reason) for item in frozen if item.key in wanted and (reason := _difference(item, wanted[item.key]))
    )
    removed = tuple(item for item in frozen if item.key not in wanted)
    reasons = [f"{reason} ({_several(n)})" for reason, n in _counted(reason for _, reason in changed).items()]
    return Changes(added, changed, removed, (*reasons, *_removals(removed, plan_items)))


def settings_changed(frozen: Plan, edited: Plan) -> tuple[str, ...]:
    """Say which settings beside the items are another now and would make old and new results differ in kind."""
    pairs = [
        ("[campaign] name", frozen.campaign.name, edited.campaign.name),
        ("[campaign] seed", frozen.campaign.seed, edited.campaign.seed),
        ("[campaign] power", frozen.campaign.power, edited.campaign.power),
    ]
    after = {bench.name: bench for bench in edited.benches}
    for bench in frozen.benches:
        if bench.name not in after:
            continue  # its items are missing or on another bench, which `compare` says
        other = after[bench.name]
        pairs += [
            (f"bench {bench.name}: shunt", bench.shunt_ohm, other.shunt_ohm),
            (f"bench {bench.name}: supply", bench.supply_v, other.supply_v),
            (f"bench {bench.name}: emulated", bench.emulated, other.emulated),
        ]
    return tuple(_changed(what, before, now) for what, before, now in pairs if before != now)


def _check_number(plan: Plan) -> None:
    """Refuse a plan that is too large before it is spread out."""
    factors = plan.factors
    modes = {f"idle.{mode}" for board in factors.boards for mode in boards.load(board).get("idle_modes", ())}
    names = select(factors.operations, modes)
    n_of_each = sum(max(1, len(factors.sizes)) if takes_message(name) else 1 for name in names)
    others = (factors.boards, factors.implementations, factors.profiles, factors.clocks_hz, factors.variants)
    number = n_of_each * math.prod(max(1, len(one)) for one in others)
    if number > N_ITEMS_MAX:
        raise plan.source.fault(("factors",), _too_many(number))


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
        for role, names, n_bytes, every in _repeated(plan):
            for name in names:
                size = (n_bytes or BYTES_DEFAULT) if takes_message(name) else None
                operation = replace(like, name=name, bytes=size, implementation=implementations(name)[0], variant="")
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


def _repeated(plan: Plan) -> Iterator[tuple[str, tuple[str, ...], int | None, int]]:
    if plan.reference is not None:
        yield "reference", (plan.reference.operation,), plan.reference.bytes, plan.reference.every
    if plan.baselines is not None:
        yield "baseline", plan.baselines.operations, None, plan.baselines.every


def _interleaved(plan: Plan, items: Sequence[Item], measured: Sequence[Item]) -> Iterator[Item]:
    """Yield what is measured, with the repeated items of each board in between."""
    every = {role: n for role, _, _, n in _repeated(plan)}
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


def _check_faults(plan: Plan, items: Sequence[Item]) -> None:
    emulated = {bench.name for bench in plan.benches if bench.emulated}
    for number, fault in enumerate(plan.faults):
        key, value = ("item", fault.item) if fault.item is not None else ("operation", fault.operation)
        fitting = [item for item in items if fits_fault(fault, item)]
        if not fitting:
            known = f"items are 1 to {len(items)}" if key == "item" else nearest(
                str(value), (item.operation.name for item in items), "it has"
            )
            raise plan.source.fault(("faults", number, key), f"= {value!r} is no item of this plan; {known}")
        if not any(item.bench in emulated for item in fitting):
            raise plan.source.fault(
                ("faults", number, key), f"= {value!r} is measured on a real bench: faults are for emulated ones"
            )


def fits_fault(fault: Any, item: Item) -> bool:
    """Tell whether a rehearsed fault concerns an item."""
    if fault.item is not None:
        return item.number == fault.item
    return fnmatch.fnmatchcase(item.operation.name, fault.operation)


def _difference(before: Item, now: Item) -> str:
    """Say what of an item with the same key is another now; "" where nothing."""
    pairs = [
        ("[campaign] runs", before.operation.n_runs, now.operation.n_runs),
        ("[campaign] iterations", before.operation.n_iterations, now.operation.n_iterations),
        ("[campaign] warmup", before.n_warmup, now.n_warmup),
        ("bench", before.bench, now.bench),
    ]
    return "; ".join(_changed(what, old, new) for what, old, new in pairs if old != new)


def _changed(what: str, before: Any, now: Any) -> str:
    old, new = ("nothing" if value is None else value for value in (before, now))
    return f"{what} was {old} when the campaign began and is {new} now"


def _removals(removed: Sequence[Item], plan_items: Sequence[Item]) -> Iterator[str]:
    """Say what was taken out of the plan: by the values that are gone, else by the items themselves."""
    coordinates: Mapping[str, Callable[[Item], Any]] = {
        "boards": lambda item: item.board,
        "operations": lambda item: item.operation.name,
        "bytes": lambda item: item.operation.bytes,
        "implementations": lambda item: item.operation.implementation,
        "profiles": lambda item: item.operation.profile,
        "clocks": lambda item: clock_text(item.operation.clock_hz or 0),
        "variants": lambda item: item.operation.variant or "plain",
    }
    left = list(removed)
    for name, value_of in coordinates.items():
        there = {value_of(item) for item in plan_items if item.role == "item"}
        for value in dict.fromkeys(value_of(item) for item in left if item.role == "item"):
            if value not in there:
                n_gone = sum(1 for item in left if value_of(item) == value)
                left = [item for item in left if value_of(item) != value]
                yield f"[factors] {name} held {value} when the campaign began and does not now ({_several(n_gone)})"
    for role in ("baseline", "reference"):
        n_gone = sum(1 for item in left if item.role == role)
        if n_gone:
            left = [item for item in left if item.role != role]
            yield f"{n_gone} {role}{'s' * (n_gone != 1)} of when the campaign began are not in the plan now: every " \
                  "may get smaller, not larger, and operations may be added, not taken away"
    for item in left[:_N_NAMED]:
        yield f"item {item.number} ({item.key}) was in the plan when the campaign began and is not now"
    if len(left) > _N_NAMED:
        yield f"{len(left) - _N_NAMED} more items were in the plan when the campaign began and are not now"


def _several(number: int) -> str:
    return f"{number} item{'s' * (number != 1)}"


def _counted(values: Iterator[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def refuse(changes: Changes, settings: Sequence[str] = ()) -> None:
    """Raise ConfigError where an edited plan does more than add, with every reason and what to do."""
    reasons = [*settings, *changes.reasons]
    if reasons:
        raise ConfigError(
            "\n".join(["the plan does not fit the campaign that it began:", *(f"  {reason}" for reason in reasons)])
            + "\nput it back, or begin a new campaign with it: labctl campaign run"
        )
