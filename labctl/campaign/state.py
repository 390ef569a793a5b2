"""What is known of a campaign at one moment: how far each item is, how fast it goes, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labctl.campaign.folder import Holder, Now
from labctl.campaign.journal import Journal
from labctl.campaign.model import Attempt, Campaign, Item

_S_PER_HOUR = 3600.0


@dataclass(frozen=True)
class ItemStatus:
    """An item, what became of it ("pending", "done" or "failed"), after how many attempts, and the last of these."""

    item: Item
    state: str
    n_attempts: int
    last: Attempt | None


@dataclass(frozen=True)
class State:
    """A campaign at one moment.

    `items` are in the order of their numbers. `running` are the items in work, `held_by` the process that works, None
    where none does. `elapsed_s` is the time at work so far (of the bench that worked longest), without pauses between
    runs. `rate_per_hour` counts items that came to their end; `left_s` is until the last bench is done. Both are None
    where nothing is known yet. `n_torn` lines of the journal were cut off by a crash, those in `broken` are damaged.
    """

    name: str
    n_items: int
    n_done: int
    n_failed: int
    n_pending: int
    items: tuple[ItemStatus, ...]
    running: tuple[Now, ...]
    held_by: Holder | None
    elapsed_s: float
    rate_per_hour: float | None
    left_s: float | None
    last: Attempt | None
    n_torn: int
    broken: tuple[int, ...]

    @property
    def n_dropped(self) -> int:
        """Count the lines of the journal that were not readable."""
        return self.n_torn + len(self.broken)

    @property
    def failures(self) -> tuple[ItemStatus, ...]:
        """Give the items that failed for good."""
        return tuple(one for one in self.items if one.state == "failed")

    @property
    def pending(self) -> tuple[ItemStatus, ...]:
        """Give the items that are not at their end."""
        return tuple(one for one in self.items if one.state == "pending")


def state_of(
    campaign: Campaign, journal: Journal, running: Sequence[Now] = (), held_by: Holder | None = None
) -> State:
    """Work out a campaign's state from its list and its journal; `running` and `held_by` as its folder tells."""
    attempts: dict[int, list[Attempt]] = {item.number: [] for item in campaign.items}
    for attempt in journal.attempts:
        attempts.setdefault(attempt.item, []).append(attempt)
    items = tuple(_status(item, attempts[item.number]) for item in campaign.items)
    counts = {state: sum(one.state == state for one in items) for state in ("done", "failed", "pending")}
    benches = _by_bench(items, attempts)
    return State(
        name=campaign.name,
        n_items=len(items),
        n_done=counts["done"],
        n_failed=counts["failed"],
        n_pending=counts["pending"],
        items=items,
        running=tuple(running),
        held_by=held_by,
        elapsed_s=max((busy_s for busy_s, _, _ in benches), default=0.0),
        rate_per_hour=_rate(benches),
        left_s=_left(benches),
        last=journal.attempts[-1] if journal.attempts else None,
        n_torn=journal.n_torn,
        broken=journal.broken,
    )


def _status(item: Item, attempts: list[Attempt]) -> ItemStatus:
    """Judge by the last attempt: a failed item may be tried again, and one that is done where its capture is gone."""
    last = attempts[-1] if attempts else None
    state = "pending" if last is None or not last.final else last.state
    return ItemStatus(item, state, len(attempts), last)


def _by_bench(items: Sequence[ItemStatus], attempts: dict[int, list[Attempt]]) -> list[tuple[float, int, int]]:
    """Give of each bench: time at work, items at their end, items still to do."""
    benches: dict[str, tuple[float, int, int]] = {}
    for one in items:
        busy_s, n_ended, n_pending = benches.get(one.item.bench, (0.0, 0, 0))
        busy_s += sum(attempt.elapsed_s for attempt in attempts[one.item.number])
        pending = one.state == "pending"
        benches[one.item.bench] = (busy_s, n_ended + (not pending), n_pending + pending)
    return list(benches.values())


def _rate(benches: Sequence[tuple[float, int, int]]) -> float | None:
    """Add up the rates of the benches, which work at the same time."""
    rates = [n_ended / busy_s * _S_PER_HOUR for busy_s, n_ended, _ in benches if n_ended and busy_s > 0]
    return sum(rates) if rates else None


def _left(benches: Sequence[tuple[float, int, int]]) -> float | None:
    """Take for each item that is left the mean of those its bench has ended; of all benches, where it ended none."""
    n_all = sum(n_ended for _, n_ended, _ in benches)
    if not any(n_pending for _, _, n_pending in benches):
        return 0.0
    if not n_all:
        return None
    mean_s = sum(busy_s for busy_s, _, _ in benches) / n_all
    return max(n_pending * (busy_s / n_ended if n_ended else mean_s) for busy_s, n_ended, n_pending in benches)
