"""How far a campaign is, as a page of 80 columns and as JSON (docs/campaign-folder.md)."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.cells import chop_cells

from labctl.boards import clock_text
from labctl.campaign.folder import Now
from labctl.campaign.journal import damage
from labctl.campaign.model import Attempt, Campaign, Item
from labctl.campaign.state import ItemStatus, State
from labctl.report.text import N_COLUMNS, bench_label, counted, printable, wrap
from labctl.units import time_text, with_uncertainty

SCHEMA_STATUS = "labctl.campaign-status/1"
# So many of a list are named.
_N_LISTED = 20
_INDENT = "  "


def to_json_object(campaign: Campaign, state: State) -> dict[str, Any]:
    """Make the object of `labctl campaign status --json`."""
    return {
        "schema": SCHEMA_STATUS,
        "campaign": state.name,
        "benches": [{"name": one.get("name"), "emulated": bool(one.get("emulated"))} for one in campaign.benches],
        "n_items": state.n_items,
        "n_done": state.n_done,
        "n_failed": state.n_failed,
        "n_pending": state.n_pending,
        "held_by": None if state.held_by is None else dataclasses.asdict(state.held_by),
        "running": [dataclasses.asdict(one) for one in state.running],
        "elapsed_s": state.elapsed_s,
        "rate_per_hour": state.rate_per_hour,
        "left_s": state.left_s,
        "last": None if state.last is None else dataclasses.asdict(state.last),
        "items": [_item(one) for one in state.items],
        "n_dropped": state.n_dropped,
        "broken_lines": list(state.broken),
    }


def render(campaign: Campaign, state: State, n_listed: int = _N_LISTED) -> list[str]:
    """Lay out the page: how far, how fast, who works at what, the last result, and what failed and why.

    Of a list no more than `n_listed` are named. Control characters, of texts from instruments, are taken out.
    """
    items = {item.number: item for item in campaign.items}
    benches = "; ".join(bench_label(str(one.get("name")), bool(one.get("emulated"))) for one in campaign.benches)
    lines = _wrapped(f"Campaign {state.name}; bench: {benches}") + wrap(_counts(state))
    lines += wrap(pace(state)) + wrap(damage(state.broken))
    lines += _work(state, items)
    if state.last is not None:
        lines += _wrapped(f"Last: {named(items.get(state.last.item), state.last.item)}: {came_to(state.last)}")
    failed = [_failure(one) for one in state.failures]
    lines += listed("Failed", failed, n_listed)
    tried = [one for one in state.items if one.state == "pending" and one.last is not None]
    lines += listed("To be tried again", [_failure(one) for one in tried], n_listed)
    return lines


def _counts(state: State) -> str:
    failed = f", {state.n_failed} failed" if state.n_failed else ""
    return f"{state.n_done} of {state.n_items} items done{failed}, {state.n_pending} to do"


def pace(state: State) -> str:
    """Say how long the work took, how fast it goes and what is left; "" before the first attempt is done."""
    if not state.elapsed_s:
        return ""
    rate = "" if state.rate_per_hour is None else f", {rate_text(state.rate_per_hour)}"
    left = f", about {time_text(state.left_s)} left" if state.left_s else ""
    return f"{time_text(state.elapsed_s)} at work{rate}{left}"


def rate_text(rate_per_hour: float) -> str:
    """Say how fast it goes."""
    return f"{rate_per_hour:.3g} items an hour" if rate_per_hour < 1000 else f"{rate_per_hour:.0f} items an hour"


def _work(state: State, items: dict[int, Item]) -> list[str]:
    if state.held_by is None:
        return ["Nobody works on it" + ("" if state.n_pending else ": it is finished")]
    lines = _wrapped(f"Process {state.held_by.pid} works on it since {state.held_by.since_utc}")
    return lines + [part for one in state.running for part in _indented(_running(one, items))]


def _running(now: Now, items: dict[int, Item]) -> str:
    text = f", {now.text}" if now.text else ""
    return f"{now.bench}: {named(items.get(now.item), now.item)}, attempt {now.attempt} since {now.since_utc}{text}"


def to_add(n_more: int) -> list[str]:
    """Say that the plan in the folder has items that the campaign has not; nothing where it has none."""
    if not n_more:
        return []
    return wrap(f"plan.toml has {counted(n_more, 'item')} more, which the next `labctl campaign resume` takes")


def named(item: Item | None, number: int) -> str:
    """Name an item by its number and what it measures; which one of several references or baselines, from 1."""
    if item is None:
        return f"item {number}"
    operation = item.operation
    parts = [f"item {number}, {item.board} {operation.name}"]
    parts += [f"{operation.bytes} B"] if operation.bytes is not None else []
    parts += [operation.implementation, operation.profile]
    parts += [clock_text(operation.clock_hz)] if operation.clock_hz is not None else []
    which = "" if item.role == "item" else f", {item.role} {item.repeat + 1}"
    return " ".join([*parts, operation.variant]).rstrip() + which


def came_to(attempt: Attempt) -> str:
    """Say what an attempt came to: energy and duration, or the failure."""
    if attempt.state != "done":
        return f"failed ({attempt.failure}): {attempt.error}"
    row = attempt.row
    energy = with_uncertainty(row.get("energy_mean_j"), row.get("energy_expanded_j"), "J")
    return f"{energy}, {with_uncertainty(row.get('duration_mean_s'), row.get('duration_expanded_s'), 's')}"


def _failure(status: ItemStatus) -> str:
    assert status.last is not None
    attempts = "1 attempt" if status.n_attempts == 1 else f"{status.n_attempts} attempts"
    return f"{named(status.item, status.item.number)}, {attempts}, {status.last.failure}: {status.last.error}"


def listed(heading: str, texts: list[str], n_listed: int = _N_LISTED) -> list[str]:
    """List some texts under a heading, each on lines of its own; nothing where there are none."""
    if not texts:
        return []
    more = len(texts) - n_listed
    lines = [f"{heading}:", *(part for text in texts[:n_listed] for part in _indented(text))]
    return lines + ([f"{_INDENT}and {more} more: `labctl campaign status --json` lists all"] if more > 0 else [])


def _indented(text: str) -> list[str]:
    first, *rest = _wrapped(text, N_COLUMNS - 2 * len(_INDENT)) or [""]
    return [_INDENT + first, *(2 * _INDENT + part for part in rest)]


def _wrapped(text: str, width: int = N_COLUMNS) -> list[str]:
    """Wrap a text that may hold anything: no line is wider than `width`, however long or wide its words are."""
    plain = printable(" ".join(text.split()))
    return [part for line in wrap(plain, width) for part in chop_cells(line, width)]


def _item(status: ItemStatus) -> dict[str, Any]:
    last = None if status.last is None else dataclasses.asdict(status.last)
    return {**dataclasses.asdict(status.item), "state": status.state, "n_attempts": status.n_attempts, "last": last}
