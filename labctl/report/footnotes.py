"""What is to be known of results, each thing said once for all rows that it is of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from labctl.model import Result
from labctl.report.labels import Labels

_EXPONENTS = {symbol: 3 * place for place, symbol in enumerate(("a", "f", "p", "n", "µ", "m", "", *"kMGT"), -6)}
_QUANTITY = re.compile(
    r"(?<![\w.-])(?P<number>-?\d+(?:\.\d+)?) (?P<unit>(?P<prefix>[afpnµmkMGT]?)(?:[AVWJsCFΩ]|Hz)|codes)(?![\w/])"
)


def footnotes(results: Sequence[Result], labels: Labels) -> list[str]:
    """Give the sentences below the tables of a page: warnings, and what was refused or clipped.

    Warnings that differ in their quantities alone are one sentence, with the least and the greatest of them.
    """
    rows: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        for sentence in dict.fromkeys((*result.warnings, *_counts(result))):
            rows.setdefault(_QUANTITY.sub("#", sentence), {}).setdefault(sentence, []).append(result)
    found = []
    for by_sentence in rows.values():
        concerned = [result for result in results if any(result in same for same in by_sentence.values())]
        found.append(f"{labels.names(concerned)}: {_spanned(list(by_sentence))}")
    return found


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
