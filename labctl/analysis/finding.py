"""What a check of a bench found: one sentence with numbers, and whether it is well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OK, FAULT, WARNING, LEFT_OUT = "ok", "fault", "warning", "left out"


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `status` is "ok", "fault", "warning" or "left out".

    `text` says what was seen, with numbers, and what to do where it is not well. `value` with its `expanded`
    uncertainty (95 %) in `unit` is the number behind it, None where there is none.
    """

    name: str
    status: str
    text: str
    value: float | None = None
    expanded: float | None = None
    unit: str = ""


def any_fault(findings: Iterable[Finding]) -> bool:
    """Tell whether something is wrong."""
    return any(f.status == FAULT for f in findings)
