"""``labctl campaign plan``: what a plan file comes to, before anything is switched on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labctl.cli.options import json_option
from labctl.cli.terminal import page_console

if TYPE_CHECKING:
    from rich.console import Console

    from labctl.campaign.estimate import Estimate
    from labctl.campaign.items import Expansion, LeftOut
    from labctl.campaign.model import Item
    from labctl.campaign.plan import Plan
    from labctl.model import Operation

SCHEMA = "labctl.plan/1"
# More than this is shown by its two ends, unless all are asked for.
_N_SHOWN = 200
_N_ENDS = 20


@click.command("plan")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--all", "whole", is_flag=True, help=f"Print every item, also of more than {_N_SHOWN}.")
@json_option
def plan(file: Path, whole: bool, as_json: bool) -> int:
    """Print what a plan comes to: the items in the order they will be taken, what is left out and why, and how
    much time and disk all that may take.

    FILE may be the folder of a campaign that has begun, too: its items have the numbers that they have there. Nothing
    is measured, written or switched on. docs/campaign-plan.md explains every key of the file.
    """
    from labctl.campaign.estimate import estimate
    from labctl.campaign.items import planned, schedule
    from labctl.report.tables.row import FAILED, PENDING

    folder = _folder_of(file)
    states: Mapping[int, str] = {}
    if folder is None:
        made, expanded = planned(file)
        numbers: Sequence[int] = schedule(made, expanded.items)
    else:
        made, expanded, numbers = _begun(folder)
        states = _states(folder, expanded.items)
    by_number = {item.number: item for item in expanded.items}
    order = [by_number[number] for number in numbers]
    cost = estimate(made, [item for item in expanded.items if states.get(item.number, PENDING) == PENDING])
    if as_json:
        click.echo(json.dumps(_document(made, expanded, order, cost, states), allow_nan=False))
    else:
        place, became = shlex.quote(str(folder or file)), set(states.values())
        after = f"Begin it: labctl campaign run {place}"
        if folder is not None:
            after = f"Go on with it: labctl campaign resume {place}"
            if PENDING not in became:
                again = f"; failed items again: labctl campaign resume {place} --retry-failed" * (FAILED in became)
                after = f"It is finished{again}"
        console = page_console()
        with console.capture() as page:
            _print(console, made, expanded, order, cost, after, states, whole=whole)
        click.echo("\n".join(line.rstrip() for line in page.get().splitlines()))
    return 0


def _folder_of(place: Path) -> Path | None:
    """Give the folder of the campaign that is asked for, by itself or by the plan in it; None for any other plan."""
    from labctl.campaign.folder import CAMPAIGN, PLAN

    if place.is_dir():
        return place
    return place.parent if place.name == PLAN and (place.parent / CAMPAIGN).is_file() else None


def _begun(folder: Path) -> tuple[Plan, Expansion, Sequence[int]]:
    """Read a campaign's own plan, its items with the numbers that they have, and behind them what an edit adds."""
    from dataclasses import replace

    from labctl.campaign.changes import compare, refuse
    from labctl.campaign.folder import PLAN, open_campaign
    from labctl.campaign.items import planned, schedule

    campaign = open_campaign(folder).campaign
    made, expanded = planned(folder / PLAN)
    changes = compare(campaign.items, expanded.items)
    refuse(changes)
    items = (*campaign.items, *changes.added)
    numbers = tuple(schedule(made, items)) if changes.added else campaign.schedule
    return made, replace(expanded, items=items), numbers


def _states(folder: Path, items: Sequence[Item]) -> Mapping[int, str]:
    """Say by number what became of the items of a campaign that has begun; those that an edit adds are pending."""
    from labctl.campaign.source import open_source

    with open_source(folder) as source:
        known = {one.item.number: one.state for one in source.state().items}
    return {item.number: known.get(item.number, "pending") for item in items}


def _document(
    made: Plan, expanded: Expansion, order: Sequence[Item], cost: Estimate, states: Mapping[int, str]
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "name": made.campaign.name,
        "seed": made.campaign.seed,
        "order": made.campaign.order,
        "benches": [
            {"name": bench.name, "emulated": bench.emulated, "boards": list(bench.boards),
             "time_estimated_s": round(cost.bench_s[bench.name], 1)}
            for bench in made.benches
        ],
        "items": [
            {"number": item.number, "key": item.key, "role": item.role, "repeat": item.repeat, "board": item.board,
             "bench": item.bench, **_operation(item.operation), "n_warmup": item.n_warmup,
             "state": states.get(item.number, "pending")}
            for item in order
        ],
        "left_out": [
            {"board": one.board, **_operation(one.operation), "reason": one.reason} for one in expanded.left_out
        ],
        "n_faults": len(made.faults),
        "time_estimated_s": round(cost.time_s, 1),
        "disk_estimated_bytes": cost.disk_bytes,
    }


def _operation(operation: Operation) -> dict[str, Any]:
    return {
        "operation": operation.name, "bytes": operation.bytes, "implementation": operation.implementation,
        "profile": operation.profile, "clock_hz": operation.clock_hz, "variant": operation.variant,
        "n_runs": operation.n_runs, "n_iterations": operation.n_iterations,
    }


def _print(
    console: Console, made: Plan, expanded: Expansion, order: Sequence[Item], cost: Estimate, after: str,
    states: Mapping[int, str], *, whole: bool,
) -> None:
    from labctl.campaign.planfile import BASELINES
    from labctl.operations import NAMES
    from labctl.report.text import EMULATED, counted

    for bench in made.benches:
        kind = EMULATED if bench.emulated else f"file {bench.file}" if bench.file else "file to be named"
        console.print(f"Bench {bench.name}: {kind}; {', '.join(bench.boards)}")
    counts = [(sum(1 for item in order if item.role == role), word) for role, word in _ROLES.items()]
    parts = ", ".join(f"{n} {word.removesuffix('s') if n == 1 else word}" for n, word in counts if n)
    console.print(
        f"Campaign {made.campaign.name}: {counted(len(order), 'item')} ({parts}), "
        f"{counted(made.campaign.n_runs, 'run')} each, "
        f"{_ORDERS[made.campaign.order].format(seed=made.campaign.seed)}"
    )
    if made.faults:
        console.print(f"Rehearsal: {counted(len(made.faults), 'fault')}")
    if states:
        became = list(states.values())
        console.print(f"So far: {', '.join(f'{became.count(name)} {name}' for name in ('done', 'failed', 'pending'))}")
    console.print()
    n_hidden = 0 if whole or len(order) <= _N_SHOWN else len(order) - 2 * _N_ENDS
    console.print(_table(order, n_hidden))
    if n_hidden:
        console.print(f"{n_hidden} more in between: --all prints them")
    _print_left_out(console, expanded.left_out)
    foreign = dict.fromkeys(item.operation.name for item in order if item.operation.name not in (*NAMES, *BASELINES))
    if foreign:
        console.print(f"\nNot of labctl's firmware, so the DUT must have it: {', '.join(foreign)}")
    console.print()
    _print_cost(console, made, cost, "What is left, estimated roughly" if states else "Estimated, roughly")
    console.print(after, soft_wrap=True)


_ROLES = {"item": "measured", "reference": "references", "baseline": "baselines"}
_ORDERS = {
    "random": "in random order of seed {seed}",
    "blocked": "what one firmware image holds together, in random order of seed {seed} within",
    "listed": "in the order of the plan",
}


def _table(order: Sequence[Item], n_hidden: int) -> Any:
    """Make the table of items; of the settings only those that are not the same everywhere."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="none")
    for name in ("item", "operation", "bytes", "board"):
        table.add_column(name, justify="right" if name in ("item", "bytes") else "left", no_wrap=True)
    table.add_column("settings")
    settings = {item.number: _settings(item.operation) for item in order}
    varying = [any(one[n] != settings[order[0].number][n] for one in settings.values()) for n in range(4)]
    for place, item in enumerate(order):
        if n_hidden and place == _N_ENDS:
            table.add_row("…", "…")
        if not n_hidden or not _N_ENDS <= place < _N_ENDS + n_hidden:
            mark = [] if item.role == "item" else [f"{item.role} {item.repeat + 1}"]
            shown = [text for text, varies in zip(settings[item.number], varying, strict=True) if varies]
            size = item.operation.bytes
            table.add_row(
                str(item.number), item.operation.name, "" if size is None else str(size), item.board,
                ", ".join(mark + shown),
            )
    return table


def _settings(operation: Operation) -> tuple[str, ...]:
    from labctl.boards import clock_text

    clock = clock_text(operation.clock_hz or 0)
    return operation.implementation, operation.profile, clock, operation.variant or "plain"


def _print_left_out(console: Any, left_out: Sequence[LeftOut]) -> None:
    """Say what is not taken, one line a reason."""
    from labctl.report.text import counted

    reasons: dict[str, list[LeftOut]] = {}
    for one in left_out:
        reasons.setdefault(one.reason, []).append(one)
    if reasons:
        console.print(f"\nLeft out: {counted(len(left_out), 'combination')}")
    for reason, same in reasons.items():
        console.print(f"  {len(same)}: {reason}")


def _print_cost(console: Any, made: Plan, cost: Estimate, what: str) -> None:
    from labctl.units import size_text, time_text

    console.print(f"{what}: {time_text(cost.time_s)}, {size_text(cost.disk_bytes)} of disk")
    budget = made.budget
    if budget.max_time_s is not None and cost.time_s > budget.max_time_s:
        console.print(f"The budget of {time_text(budget.max_time_s)} may end it earlier; it can then be resumed.")
    if budget.disk_bytes is not None and cost.disk_bytes > budget.disk_bytes:
        console.print(f"The budget of {size_text(budget.disk_bytes)} may end it earlier; it can then be resumed.")
