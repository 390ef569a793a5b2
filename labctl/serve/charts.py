"""What charts of a whole campaign show: results with their intervals, spread of the runs, drift. From the journal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labctl.campaign.model import Attempt, Item
from labctl.campaign.watch import Sight
from labctl.report.labels import Labels, Subject

# A chart has no more items than somebody can tell apart; boards and operations are chosen from more.
N_SHOWN = 200


@dataclass(frozen=True)
class Quantity:
    """A quantity of a result: keys of its row in the journal, "" for what it has not, and its unit."""

    title: str
    unit: str
    mean: str
    expanded: str = ""
    standard_error: str = ""
    deviation: str = ""


QUANTITIES = {
    "energy": Quantity("energy", "J", "energy_mean_j", "energy_expanded_j", "energy_se_j"),
    "power": Quantity("mean power", "W", "power_mean_w", "power_expanded_w", "", "power_std_w"),
    "duration": Quantity("duration", "s", "duration_mean_s", "duration_expanded_s", "duration_se_s"),
    "current": Quantity("mean current", "A", "current_mean_a"),
}


def statistics(sight: Sight, quantity: str, board: str = "", operation: str = "") -> dict[str, Any]:
    """Give each item that is done, of one board and operation where these are named, with mean and interval.

    `spread` is of the energy of its runs over their mean: median and quartiles less one, and the standard deviation.
    `n_more` items are left out, beyond `N_SHOWN`.
    """
    asked = QUANTITIES[quantity]
    done = [
        (item, attempt) for item, attempt in _done(sight, ("item",))
        if board in ("", item.board) and operation in ("", item.operation.name)
    ]
    shown = done[:N_SHOWN]
    names = _names([item for item, _ in shown])
    return {
        "title": asked.title, "unit": asked.unit, "n_more": len(done) - len(shown),
        "items": [
            {
                "item": item.number, "name": name, "board": item.board, "operation": item.operation.name,
                "n_runs": attempt.row.get("n_runs"), "mean": attempt.row.get(asked.mean),
                "expanded": attempt.row.get(asked.expanded), "spread": _spread(attempt.row),
            }
            for (item, attempt), name in zip(shown, names, strict=True)
        ],
    }


def drift(sight: Sight, quantity: str) -> dict[str, Any]:
    """Give baselines and references in the order they were taken, each series over its own mean, less one.

    `error` is the standard error of the mean of the runs over that same mean: what is common to all of a bench cancels.
    """
    asked = QUANTITIES[quantity]
    place = {id(attempt): number for number, attempt in enumerate(sight.attempts, 1)}
    groups: dict[tuple[Any, ...], list[tuple[Item, Attempt]]] = {}
    for item, attempt in sorted(_done(sight, ("baseline", "reference")), key=lambda pair: place[id(pair[1])]):
        if attempt.row.get(asked.mean) is not None:
            groups.setdefault((item.role, item.bench, item.board, item.operation), []).append((item, attempt))
    benches = {bench for _, bench, _, _ in groups}
    names = _names([pairs[0][0] for pairs in groups.values()])
    found = []
    for (role, bench, _, _), pairs, name in zip(groups, groups.values(), names, strict=True):
        values = [attempt.row[asked.mean] for _, attempt in pairs]
        mean = math.fsum(values) / len(values)
        found.append({
            "name": f"{name}, {role}" + (f", bench {bench}" if len(benches) > 1 else ""), "role": role, "mean": mean,
            "points": [
                {
                    "item": item.number, "order": place[id(attempt)], "utc": attempt.ended_utc, "value": value,
                    "ratio": value / mean - 1 if mean else None, "error": _standard_error(attempt.row, asked, mean),
                }
                for (item, attempt), value in zip(pairs, values, strict=True)
            ],
        })
    return {"title": asked.title, "unit": asked.unit, "series": found}


def _done(sight: Sight, roles: Sequence[str]) -> list[tuple[Item, Attempt]]:
    return [(one.item, one.last) for one in sight.state.items
            if one.state == "done" and one.last is not None and one.item.role in roles]


def _names(items: Sequence[Item]) -> list[str]:
    """Name items on one line each, with what tells them apart."""
    subjects = [Subject.of(item.board, item.operation) for item in items]
    labels = Labels(subjects)
    return [labels.name(subject) for subject in subjects]


def _spread(row: Mapping[str, Any]) -> dict[str, float] | None:
    mean, std = row.get("energy_mean_j"), row.get("energy_std_j")
    quartiles = [row.get(f"energy_{name}_j") for name in ("quartile_low", "median", "quartile_high")]
    if not mean or std is None or None in quartiles or (row.get("n_runs") or 0) < 2:
        return None
    low, median, high = (value / mean - 1 for value in quartiles if value is not None)
    return {"low": low, "median": median, "high": high, "std": std / abs(mean)}


def _standard_error(row: Mapping[str, Any], asked: Quantity, mean: float) -> float | None:
    error, std, n_runs = row.get(asked.standard_error), row.get(asked.deviation), row.get("n_runs") or 0
    if error is None and std is not None and n_runs > 1:
        error = std / math.sqrt(n_runs)
    return None if error is None or not mean else error / abs(mean)
