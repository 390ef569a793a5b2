"""What is to be known of results, each thing said once for all rows that it is of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

from labctl.model import Result
from labctl.report.labels import Labels

T = TypeVar("T")
_EXPONENTS = {symbol: 3 * place for place, symbol in enumerate(("a", "f", "p", "n", "µ", "m", "", *"kMGT"), -6)}
_QUANTITY = re.compile(
    r"(?<![\w.-])(?P<number>-?\d+(?:\.\d+)?) (?P<unit>(?P<prefix>[afpnµmkMGT]?)(?:[AVWJsCFΩ]|Hz)|codes)(?![\w/])"
)


def footnotes(results: Sequence[Result], labels: Labels) -> list[str]:
    """Give the sentences below the tables of a page: warnings, and what was refused or clipped.

    Warnings that differ in their quantities alone are one sentence, with the least and the greatest of them.
    """
    told = [(result, list(dict.fromkeys((*result.warnings, *_counts(result))))) for result in results]
    return [f"{labels.names(concerned)}: {sentence}" for concerned, sentence in together(told)]


def together(told: Iterable[tuple[T, Sequence[str]]]) -> list[tuple[list[T], str]]:
    """Put together what is told of several things in sentences that differ in their quantities alone."""
    found: dict[str, tuple[list[T], list[str]]] = {}
    for thing, sentences in told:
        for sentence in sentences:
            things, spelled = found.setdefault(_QUANTITY.sub("#", sentence), ([], []))
            if not any(thing is one for one in things):
                things.append(thing)
            if sentence not in spelled:
                spelled.append(sentence)
    return [(things, _spanned(spelled)) for things, spelled in found.values()]


def _counts(result: Result) -> Iterable[str]:
    for number, what in ((result.n_refused, "refused"), (result.n_clipped, "clipped")):
        if number:
            yield f"{number} of its windows were {what}"


def _spanned(sentences: Sequence[str]) -> str:
    """Make one of sentences that differ in their quantities alone: "2.9 to 7.6 mA"."""
    values = iter([list(column) for column in zip(*map(_QUANTITY.finditer, sentences), strict=True)])

    def span(first: re.Match[str]) -> str:
        ranked = sorted(next(values), key=_size)
        low, high = ranked[0], ranked[-1]
        if low[0] == high[0]:
            return first[0]
        return f"{low['number'] if low['unit'] == high['unit'] else low[0]} to {high[0]}"

    return _QUANTITY.sub(span, sentences[0])


def _size(found: re.Match[str]) -> float:
    return float(found["number"]) * 10.0 ** _EXPONENTS[found["prefix"] or ""]
