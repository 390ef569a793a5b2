"""What an edited plan does to a campaign that has begun: it may add, and neither change nor take away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labctl.boards import clock_text
from labctl.campaign.folder import PLAN
from labctl.campaign.items import expansion
from labctl.campaign.model import Item
from labctl.campaign.plan import parse_plan
from labctl.campaign.source import Source
from labctl.errors import ConfigError, FileFault

_N_NAMED = 5


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


def n_to_add(source: Source) -> int:
    """Count the items that the plan in a campaign's folder has more than its list, 0 where it cannot be read."""
    try:
        plan = parse_plan(source.read(PLAN).decode(), PLAN)
        return len(compare(source.campaign.items, expansion(plan).items).added)
    except (FileFault, ConfigError, UnicodeDecodeError):
        return 0


def refuse(changes: Changes, settings: Sequence[str] = ()) -> None:
    """Raise ConfigError where an edited plan does more than add, with every reason and what to do."""
    reasons = [*settings, *changes.reasons]
    if reasons:
        raise ConfigError(
            "\n".join(["the plan does not fit the campaign that it began:", *(f"  {reason}" for reason in reasons)])
            + "\nput it back, or begin a new campaign with it: labctl campaign run"
        )


def _difference(before: Item, now: Item) -> str:
    """Say what of an item with the same key is another now; "" where nothing."""
    table = "[baselines]" if before.role == "baseline" else "[campaign]"
    pairs = [
        ("[campaign] runs", before.operation.n_runs, now.operation.n_runs),
        (f"{table} iterations", before.operation.n_iterations, now.operation.n_iterations),
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
