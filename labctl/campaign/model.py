"""The nouns of a campaign, as plain data: item, attempt, event. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labctl.model import Operation

SCHEMA_CAMPAIGN = "labctl.campaign/1"

# What an item is there for: to be measured, to show the bench's quiet (idle, null, busy), or its drift.
ROLES = ("item", "baseline", "reference")
# How a failed attempt is taken (docs/decisions/0006): again after a power cycle, never again, or the end of all.
FAILURES = ("transient", "stable", "safety")
# What is known of an item.
STATES = ("pending", "done", "failed")


@dataclass(frozen=True)
class Item:
    """One series of runs that a campaign is to take: one capture.

    `number` is its place in the list of the plan, from 1, and never changes once the campaign began; `key` spells its
    coordinates in the plan, so that the emulated bench draws from seed and key alone. `repeat` counts the items of one
    key that come again (baselines, references), from 0, and is part of the key. `operation.clock_hz` is set.
    """

    number: int
    key: str
    board: str
    operation: Operation
    bench: str
    role: str = "item"
    repeat: int = 0
    n_warmup: int = 0


@dataclass(frozen=True)
class Attempt:
    """One try at an item, as the journal keeps it.

    `state` is "done" or "failed"; with `final` no further attempt follows. `failure` is one of `FAILURES` or "", and
    `error` says what happened, without addresses and paths. `capture` is the file's path in the campaign's folder with
    its size and the CRC-32 of all its bytes; a failed attempt that took a capture has one too. `row` holds the result
    as `report.table.to_json_rows` spells it, without captures. Times are UTC; `elapsed_s` is by a clock nobody sets.
    """

    item: int
    key: str
    number: int
    state: str
    final: bool
    begun_utc: str
    ended_utc: str
    elapsed_s: float
    failure: str = ""
    error: str = ""
    capture: str = ""
    capture_bytes: int = 0
    capture_crc32: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """What happened beside the attempts: `kind` is begin, end, pause, go-on, clock or hook; `text` tells a person."""

    kind: str
    utc: str
    text: str = ""
    bench: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Campaign:
    """What a campaign is to take, in which order, and on what.

    `schedule` holds the numbers of all items in the order they are worked through. `benches` are facts of each bench:
    plain values, or one level of tables of them, with a unique "name"; without resources, ports and the like.
    """

    name: str
    seed: int
    items: tuple[Item, ...]
    schedule: tuple[int, ...]
    benches: tuple[Mapping[str, Any], ...]
    created_utc: str
    software: str

    def bench_facts(self, name: str) -> Mapping[str, Any]:
        """Give the facts of a bench; of one that there are none of, its name."""
        return next((bench for bench in self.benches if bench.get("name") == name), {"name": name})
