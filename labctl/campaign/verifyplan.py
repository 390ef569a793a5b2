"""Check a campaign's plan, list and benches against each other: what was to be taken is known, and on what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from labctl import __version__
from labctl.campaign import folder
from labctl.campaign.changes import compare
from labctl.campaign.items import expansion
from labctl.campaign.model import Campaign, Item
from labctl.campaign.plan import Plan, parse_plan
from labctl.campaign.source import Source
from labctl.errors import ConfigError, FileFault
from labctl.model import Capture

_N_NAMED = 5
# What of an operation makes a capture another item's.
_COORDINATES = ("name", "bytes", "implementation", "profile", "clock_hz", "variant", "n_runs", "n_iterations")
# What a bench's facts and a capture both tell of the wiring.
_SHUNT = ("resistance_ohm", "tolerance_ratio", "wiring")
_SUPPLY = ("voltage_v", "tolerance_ratio", "node", "sensed")


@dataclass(frozen=True)
class Finding:
    """A sentence, and whether it tells of a fault."""

    text: str
    is_fault: bool = True


def plan_findings(source: Source, names: list[str]) -> Iterator[Finding]:
    """Check the plan, the benches' files and the order of a campaign, of which `names` lie there."""
    campaign = source.campaign
    yield from map(Finding, _schedule_faults(campaign))
    benches = {str(bench["name"]) for bench in campaign.benches}
    for item in campaign.items:
        if item.bench not in benches:
            yield Finding(f"item {item.number} is on bench {item.bench}, of which {folder.CAMPAIGN} has no facts")
    for name, data in folder.bench_files(campaign).items():
        if name in names:
            try:
                if source.read(name) != data:
                    yield Finding(f"{name} does not hold the facts that {folder.CAMPAIGN} has of this bench")
            except FileFault as fault:
                yield Finding(f"{name}: {fault}")
    if folder.PLAN in names:
        yield from _plan_findings(source)


def capture_faults(capture: Capture, item: Item, bench: dict[str, Any]) -> list[str]:
    """Say what a capture holds that is not its item's, or not of its bench, whose facts are given."""
    operation, wiring = capture.operation, capture.wiring
    pairs: list[tuple[str, Any, Any]] = [("board", item.board, str(capture.board.get("name", "")))]
    pairs += [(key, getattr(item.operation, key), getattr(operation, key, None)) for key in _COORDINATES]
    for table, keys, found in (("shunt", _SHUNT, wiring.shunt), ("supply", _SUPPLY, wiring.supply)):
        facts = bench.get(table)
        if isinstance(facts, dict) and found is not None:
            pairs += [(f"{table} {key}", facts[key], getattr(found, key)) for key in keys if facts.get(key) is not None]
    about = capture.provenance.get("bench", {})
    if "seed" in bench and "seed" in about:
        pairs.append(("seed", bench["seed"], about["seed"]))
    return [f"{what} {found!r} instead of {wanted!r}" for what, wanted, found in pairs if found != wanted]


def _schedule_faults(campaign: Campaign) -> Iterator[str]:
    counts = Counter(campaign.schedule)
    missing = [item.number for item in campaign.items if not counts[item.number]]
    if missing:
        yield f"the schedule of {folder.CAMPAIGN} lacks {_listed(missing)}: nothing takes them"
    if several := [number for number, n in sorted(counts.items()) if n > 1]:
        yield f"the schedule of {folder.CAMPAIGN} has {_listed(several)} more than once"


def _listed(numbers: list[int]) -> str:
    more = f" and {len(numbers) - _N_NAMED} more" if len(numbers) > _N_NAMED else ""
    return f"item{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:_N_NAMED]))}{more}"


def _plan_findings(source: Source) -> Iterator[Finding]:
    campaign = source.campaign
    # Another labctl may know other operations and images, and come to other items by the same plan.
    is_same = campaign.software == f"labctl {__version__}"
    by = "" if is_same else f" (it was made by {campaign.software}, and this is labctl {__version__})"
    try:
        plan = parse_plan(source.read(folder.PLAN).decode(), folder.PLAN)
    except (FileFault, ConfigError, UnicodeDecodeError) as error:
        yield Finding(f"{folder.PLAN} cannot be read: {error}{by}", is_same)
        return
    for key in ("name", "seed"):
        ours, theirs = getattr(campaign, key), getattr(plan.campaign, key)
        if ours != theirs:
            yield Finding(f"{folder.PLAN} has the {key} {theirs!r}, and {folder.CAMPAIGN} {ours!r}")
    try:
        yield from (Finding(text + by, is_same and is_fault) for text, is_fault in _differences(campaign, plan))
    except ConfigError as error:
        yield Finding(f"{folder.PLAN} comes to no list: {error}{by}", is_same)


def _differences(campaign: Campaign, plan: Plan) -> Iterator[tuple[str, bool]]:
    items = expansion(plan).items
    changes = compare(campaign.items, items)
    if changes.added:
        # The plan is put in its place before the list: killed in between, the next resume adds them.
        n, s = len(changes.added), "s" * (len(changes.added) > 1)
        yield f"{folder.PLAN} has {n} item{s} more than {folder.CAMPAIGN}, to be added by the next `resume`", False
    for reason in changes.reasons:
        yield f"{folder.PLAN} and {folder.CAMPAIGN} differ: {reason}", True
    wanted = {item.key: item for item in items}
    told = {item.number for item, _ in changes.changed}
    for item in campaign.items:
        if item.key in wanted and item.number not in told and replace(wanted[item.key], number=item.number) != item:
            yield f"item {item.number} of {folder.CAMPAIGN} is not what its key says and {folder.PLAN} comes to", True
