"""Findings of a check, for a terminal of 80 columns and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from labctl.analysis.finding import FAULT, LEFT_OUT, OK, WARNING, Finding
from labctl.report.text import N_COLUMNS, bench_label, wrap

_SHOWN = {
    OK: ("ok", "green"),
    FAULT: ("FAULT", "bold red"),
    WARNING: ("warning", "yellow"),
    LEFT_OUT: ("left out", "dim"),
}
_COLUMN = 10


def heading(what: str, bench_name: str, emulated: bool, details: str = "") -> Text:
    """Say what was done on which bench."""
    name = bench_label(bench_name, emulated)
    named = f"the {name}" if bench_name == "bench" else f"bench {name}"  # the name that a bench has by default
    text = f"{what} of {named}" + (f", {details}" if details else "")
    return Text("\n".join(wrap(text)), style="bold")


def render(finding: Finding) -> Text:
    """Lay out one finding: status, name and sentence, wrapped behind the status."""
    word, style = _SHOWN[finding.status]
    lines = wrap(f"{finding.name}: {finding.text}", N_COLUMNS - _COLUMN)
    text = Text(word.ljust(_COLUMN), style=style, no_wrap=True, overflow="ignore")
    return text.append(f"\n{'':{_COLUMN}}".join(lines), style="dim" if finding.status == LEFT_OUT else "default")


def lay_out(findings: Iterable[Finding]) -> Iterator[Text]:
    """Lay out findings as they come; those left out for one cause, one after the other, share a sentence."""
    waiting: list[Finding] = []
    for finding in findings:
        if waiting and (finding.status != LEFT_OUT or finding.text != waiting[0].text):
            yield _together(waiting)
            waiting = []
        if finding.status == LEFT_OUT:
            waiting.append(finding)
        else:
            yield render(finding)
    if waiting:
        yield _together(waiting)


def _together(findings: Sequence[Finding]) -> Text:
    return render(replace(findings[0], name=", ".join(f.name for f in findings)))


def summarize(findings: Sequence[Finding]) -> Text:
    """Sum up: how many are well, and the names of those that are not."""
    counts = Counter(f.status for f in findings)
    parts = []
    for status, word in ((FAULT, "fault"), (WARNING, "warning"), (LEFT_OUT, "left out")):
        names = [f.name for f in findings if f.status == status]
        if names:
            counted = f"{len(names)} {word}" + ("s" if status != LEFT_OUT and len(names) > 1 else "")
            parts.append(f"{counted} ({', '.join(names)})")
    text = f"{counts[OK]} ok" + "".join(f", {part}" for part in parts)
    if not counts[FAULT]:
        text += ". No fault found."
    return Text("\n".join(wrap(text)), style="bold red" if counts[FAULT] else "bold")


def to_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Turn findings into objects for strict JSON: a number that is none becomes null."""
    return [
        {
            "name": f.name,
            "status": f.status,
            "text": f.text,
            "value": strict(f.value),
            "expanded": strict(f.expanded),
            "unit": f.unit,
        }
        for f in findings
    ]


def strict(value: float | None) -> float | None:
    """Return a number that JSON can hold, else None."""
    return float(value) if value is not None and math.isfinite(value) else None
