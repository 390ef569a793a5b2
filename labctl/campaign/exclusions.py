"""What the exclusions of a plan leave out."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any

from labctl.boards import clock_text
from labctl.campaign.plan import Plan
from labctl.campaign.planfile import ExcludeSection
from labctl.model import Operation
from labctl.tomlsource import nearest

# A board and an operation on it.
Coordinates = tuple[str, Operation]
_ValueOf = Callable[[Coordinates], Any]
_Fits = Callable[[Any, Any], bool]


def excluded_by(plan: Plan, combinations: Sequence[Coordinates]) -> dict[Coordinates, str]:
    """Tell which combinations the plan's exclusions leave out, and why.

    Raises ConfigError, with the line, for a value that nothing has, and for an exclusion that matches nothing.
    """
    found: dict[Coordinates, str] = {}
    for number, exclude in enumerate(plan.exclude):
        tests = _tests(exclude)
        for name, (values, value_of, fits) in tests.items():
            there = list(dict.fromkeys(map(value_of, combinations)))
            for index, value in enumerate(values):
                if not any(fits(one, value) for one in there):
                    hint = nearest(_shown(value), map(_shown, there), "it has")
                    place = ("exclude", number, name, index)
                    raise plan.source.fault(place, f"= {_shown(value)!r} matches nothing in this plan; {hint}")
        matching = [
            one for one in combinations
            if all(any(fits(value_of(one), value) for value in values) for values, value_of, fits in tests.values())
        ]
        if not matching:
            raise plan.source.fault(
                ("exclude", number), f"matches no item: nothing has {' and '.join(tests)} as it says at once"
            )
        line = plan.source.line(("exclude", number))
        reason = f"[[exclude]]{'' if line is None else f' of line {line}'} leaves it out"
        found |= {one: reason for one in matching if one not in found}
    return found


def _tests(exclude: ExcludeSection) -> dict[str, tuple[tuple[Any, ...], _ValueOf, _Fits]]:
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
