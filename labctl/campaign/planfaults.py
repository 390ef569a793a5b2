"""What is wrong with a plan, told all at once: each with its file, line and key, in the order of the lines."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from inspect import isclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel

from labctl.campaign.planfile import PlanFile
from labctl.errors import ConfigError
from labctl.tomlsource import Place, Source, nearest, shown

if TYPE_CHECKING:
    from labctl.campaign.plan import Plan

# Where, and what is wrong there.
Problem = tuple[Place, str]

_MINIMAL = {
    "campaign": 'it names the campaign, for example name = "night-1"',
    "factors": 'it says what is measured, for example boards = ["stm32vldiscovery"] and operations = ["sha256"]',
}
_N_PROBLEMS = 20
_VERY_NEAR = 0.8


class PlanFault(ConfigError):
    """A plan with problems. `rest` is what of the plan can still be looked at, None where that would mislead."""

    def __init__(self, source: Source, problems: Iterable[Problem], rest: Plan | None = None) -> None:
        self.problems = tuple(problems)
        self.rest = rest
        ordered = sorted(self.problems, key=lambda problem: source.line(problem[0]) or math.inf)
        sentences = list(dict.fromkeys(source.sentence(*problem) for problem in ordered))
        more = [f"and {len(sentences) - _N_PROBLEMS} more"] if len(sentences) > _N_PROBLEMS else []
        super().__init__("\n".join(sentences[:_N_PROBLEMS] + more))


def entry(place: Place) -> Place:
    """Give the table that a place is in, one of several with its number; of the factors, the key."""
    return place[:2] if len(place) > 1 and (isinstance(place[1], int) or place[0] == "factors") else place[:1]


def others(problems: Iterable[Problem], told: Iterable[Problem]) -> list[Problem]:
    """Keep the problems of tables of which nothing is told yet: what comes of a fault is not told beside it."""
    entries = {entry(place) for place, _ in told}
    return [problem for problem in problems if entry(problem[0]) not in entries]


def explained(problem: Mapping[str, Any]) -> Problem:
    """Turn a problem that pydantic found into one of ours."""
    place: Place = problem["loc"]
    kind, value = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        return place, _unknown(place)
    if kind == "missing":
        hint = _MINIMAL.get(str(place[0]), "") if len(place) == 1 else ""
        return place, f"is missing{': ' if hint else ''}{hint}"
    if kind in ("model_type", "model_attributes_type", "tuple_type"):
        return place, _no_table(place, kind, value)
    if kind == "value_error":
        return place, problem["msg"].removeprefix("Value error, ")
    return place, f"= {shown(value)}: {problem['msg']}"


def _unknown(place: Place) -> str:
    """Say what a key that nobody knows may be meant to be: first one of the same table."""
    key, table = str(place[-1]), _table_of(place[:-1])
    known = _names(table)
    if key in known:
        return "has no table inside"
    if len(place) == 1:
        return f"is no table of the plan; {nearest(key, known)}"
    if key in PlanFile.model_fields:
        return f"is a table of its own: write {_head(key)} on a line by itself"
    homes = [_head(name) for name, other in _tables().items() if key in _names(other)]
    if homes and not difflib.get_close_matches(key, known, n=1, cutoff=_VERY_NEAR):
        return f"is not a key of this table, but of {' and of '.join(homes)}"
    return f"is not a key of this table; {nearest(key, known, 'its keys')}"


def _head(table: str) -> str:
    """Spell the head of a table."""
    return f"[[{table}]]" if get_origin(PlanFile.model_fields[table].annotation) is tuple else f"[{table}]"


def _no_table(place: Place, kind: str, value: Any) -> str:
    name = place[0]
    if kind == "tuple_type":
        return f"is a list of tables: write each as [[{name}]]"
    if isinstance(value, list):
        return f"is there once: write [{name}] with single brackets"
    return f"= {shown(value)} must be a table: write [{name}] on a line of its own"


def _tables() -> dict[str, type[BaseModel]]:
    return {name: _table_of((name,)) for name in PlanFile.model_fields}


def _table_of(place: Place) -> type[BaseModel]:
    if not place:
        return PlanFile
    annotation: Any = PlanFile.model_fields[str(place[0])].annotation
    return next(one for one in (annotation, *get_args(annotation)) if isclass(one) and issubclass(one, BaseModel))


def _names(table: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in table.model_fields.items()]
