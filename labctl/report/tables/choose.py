"""Which rows a table has, and in which order: by patterns, roles and states; sorted; in groups."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

from labctl.errors import ConfigError
from labctl.operations import has_two_passes
from labctl.report.tables.columns import QUANTITIES
from labctl.report.tables.row import COORDINATES, Row, coordinate_text, place_of
from labctl.report.text import TWO_PASSES
from labctl.tomlsource import nearest

_TESTED = (*COORDINATES, "state")


def chosen(rows: Sequence[Row], where: Sequence[str], roles: Sequence[str]) -> list[Row]:
    """Give the rows of these roles (none given: of all) that fit every pattern such as "board=stm32*".

    Patterns of one name are alternatives. Raises ConfigError for a name that no row has.
    """
    tests: dict[str, list[str]] = {}
    for text in where:
        name, equals, pattern = text.partition("=")
        if not equals:
            raise ConfigError(f"--where {text!r}: write NAME=PATTERN, for example board=stm32*; names are "
                              f"{', '.join(_TESTED)}")
        if name not in _TESTED:
            raise ConfigError(f"--where {text!r}: there is no {name}; {near(name, _TESTED, 'names are')}")
        tests.setdefault(name, []).append(pattern)
    return [
        row for row in rows
        if (not roles or row.role in roles)
        and all(any(_fits(row, name, pattern) for pattern in patterns) for name, patterns in tests.items())
    ]


def near(name: str, known: Sequence[str], kind: str) -> str:
    """Say which name is meant: one that begins alike, else the nearest."""
    begun = [one for one in known if one.startswith(name)]
    return f"did you mean {begun[0]!r}?" if name and begun else nearest(name, known, kind)


def unfitting(rows: Sequence[Row], where: Sequence[str]) -> str:
    """Say which pattern fits no row at all, and what is near it; "" where each fits some."""
    for text in where:
        name, _, pattern = text.partition("=")
        if not any(_fits(row, name, pattern) for row in rows):
            there = [row.state if name == "state" else coordinate_text(row, name) for row in rows]
            return f"--where {text!r} fits none of {len(rows)} rows; {near(pattern.strip('*?'), there, 'there are')}"
    return ""


def ordered(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """Sort rows that are in their order by coordinates or quantities, "-energy" from the greatest down.

    What a row has not comes last. Raises ConfigError for a name that is none of these.
    """
    found = list(rows)
    for key in reversed(keys):
        name = key.removeprefix("-")
        if name in COORDINATES:
            found.sort(key=lambda row: place_of(row, name), reverse=key != name)
        elif name in QUANTITIES:
            sign = 1 if key == name else -1
            found.sort(key=lambda row: (name not in row.values, sign * row.values[name].number if name in row.values
                                        else 0.0))
        else:
            hint = near(name, (*COORDINATES, *QUANTITIES), "sort by")
            raise ConfigError(f"--sort {key}: there is no {name}; {hint}; -NAME sorts downwards")
    return found


def grouped(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[str, list[Row]]]:
    """Split rows into groups that are alike in some coordinates, each with its title; without names all are one.

    Raises ConfigError for a name that is no coordinate.
    """
    for name in names:
        if name not in COORDINATES:
            raise ConfigError(f"--group-by {name}: there is no such coordinate; {near(name, COORDINATES, 'group by')}")
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(coordinate_text(row, name) for name in names), []).append(row)
    places = [{text: n for n, text in enumerate(_distinct(rows, name))} for name in names]
    keys = sorted(groups, key=lambda key: [place[text] for place, text in zip(places, key, strict=True)])
    return [(title(names, key), groups[key]) for key in keys]


def title(names: Sequence[str], texts: Sequence[str]) -> str:
    """Name some coordinates in a heading: "stm32f4discovery, 64 B, profile Os"."""
    return ", ".join(titled(name, text) for name, text in zip(names, texts, strict=True))


def titled(name: str, text: str) -> str:
    """Name one coordinate so that a heading says what it is; an operation of two passes has its mark."""
    if name == "operation":
        return marked(text) or "no operation"
    if name in ("board", "clock", "implementation"):
        return text or f"no {name}"
    if name == "bytes":
        return f"{text} B" if text else "no message"
    return f"{name} {text}"


def marked(operation: str) -> str:
    """Give an operation's name as people read it: with the mark of those that make two passes."""
    return operation + TWO_PASSES if has_two_passes(operation) else operation


def _fits(row: Row, name: str, pattern: str) -> bool:
    texts = [row.state] if name == "state" else [coordinate_text(row, name)]
    texts += [str(row.clock_hz)] if name == "clock" else []
    texts += [texts[0].replace(" ", "")]
    if name == "bench":  # as the table names it, without its seed, and as a plan names its only one
        texts += [texts[0].partition(", seed ")[0]]
        texts += ["bench"] if texts[-1] == "emulated" else []
    return any(fnmatch.fnmatchcase(text, pattern) for text in texts)


def _distinct(rows: Sequence[Row], name: str) -> list[str]:
    values: dict[str, Any] = {coordinate_text(row, name): place_of(row, name) for row in rows}
    return sorted(values, key=lambda text: values[text])
