"""What the exclusions of a plan leave out."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from labctl.boards import clock_text
from labctl.campaign.plan import Plan
from labctl.campaign.planfaults import Problem
from labctl.campaign.planfile import ExcludeSection
from labctl.model import Operation
from labctl.tomlsource import nearest

# A board and an operation on it.
Coordinates = tuple[str, Operation]
_ValueOf = Callable[[Coordinates], Any]
_Fits = Callable[[Any, Any], bool]
_Tests = dict[str, tuple[tuple[Any, ...], _ValueOf, _Fits]]


def excluded_by(
    plan: Plan, combinations: Sequence[Coordinates]
) -> tuple[dict[Coordinates, str], list[Problem]]:
    """Tell which combinations the plan's exclusions leave out, and why.

    And what is wrong: a value that nothing has, an exclusion that matches nothing.
    """
    found: dict[Coordinates, str] = {}
    problems: list[Problem] = []
    for number, exclude in enumerate(plan.exclude):
        tests = _tests(exclude)
        unknown = list(_unknown(number, tests, combinations))
        matching = [
            one for one in combinations
            if tests and all(any(fits(of(one), value) for value in values) for values, of, fits in tests.values())
        ]
        if tests and not matching and not unknown:
            text = f"matches no item: nothing has {' and '.join(tests)} as it says at once"
            unknown.append((("exclude", number), text))
        problems += unknown
        line = plan.source.line(("exclude", number))
        reason = f"[[exclude]]{'' if line is None else f' of line {line}'} leaves it out"
        found |= {one: reason for one in matching if one not in found}
    return found, problems


def _unknown(number: int, tests: _Tests, combinations: Sequence[Coordinates]) -> Iterator[Problem]:
    for name, (values, value_of, fits) in tests.items():
        there = list(dict.fromkeys(map(value_of, combinations)))
        for index, value in enumerate(values):
            if not any(fits(one, value) for one in there):
                hint = nearest(_shown(value), map(_shown, there), "it has")
                yield ("exclude", number, name, index), f"= {_shown(value)!r} matches nothing in this plan; {hint}"


def _tests(exclude: ExcludeSection) -> _Tests:
    """Give for each key that an exclusion has: its values, what of a combination they are held to, and how."""

    def same(one: Any, value: Any) -> bool:
        return one == value

    clocks = None if exclude.clocks_hz is None else tuple(clock_text(one) for one in exclude.clocks_hz)
    tests: dict[str, tuple[tuple[Any, ...] | None, _ValueOf, _Fits]] = {
        "board": (exclude.board, lambda one: one[0], fnmatch.fnmatchcase),
        "operation": (exclude.operation, lambda one: one[1].name, fnmatch.fnmatchcase),
        "bytes": (exclude.sizes, lambda one: one[1].bytes, same),
        "implementation": (exclude.implementation, lambda one: one[1].implementation, fnmatch.fnmatchcase),
        "profile": (exclude.profile, lambda one: one[1].profile, fnmatch.fnmatchcase),
        "clock": (clocks, lambda one: clock_text(one[1].clock_hz or 0), same),
        "variant": (exclude.variant, lambda one: one[1].variant, same),
    }
    return {name: (values, value_of, fits) for name, (values, value_of, fits) in tests.items() if values is not None}


def _shown(value: Any) -> str:
    return "plain" if value == "" else str(value)
