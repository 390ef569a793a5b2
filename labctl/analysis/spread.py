"""How well a spread and a count of cycles are known."""

from __future__ import annotations

import math

from scipy import special

from labctl.analysis import uncertainty
from labctl.analysis.statistics import summarize
from labctl.model import Contribution, DutReport

_TAIL = 0.025
# A count is whole, what it counts is not: half a cycle on either side (JCGM 100, F.2.2.1).
_HALF_CYCLE = 0.5


def std_expanded(std: float, n: int) -> float | None:
    """Give how far the true standard deviation may lie above that of n independent normal values, for 95 %.

    It is the longer side of the chi-square interval (NIST/SEMATECH e-Handbook of Statistical Methods, 7.2.3.1), which
    is not symmetric. None for fewer than two values.
    """
    if n < 2:
        return None
    return std * (math.sqrt((n - 1) / float(special.chdtri(n - 1, 1 - _TAIL))) - 1)


def cycles_expanded(report: DutReport | None, null: DutReport | None, n_iterations: int) -> float | None:
    """Give the expanded uncertainty of the DUT's own cycles per operation: their scatter, null's, and whole counts.

    None where nothing counts cycles.
    """
    if report is None or not report.cycles:
        return None
    parts = []
    for counts in (report.cycles, null.cycles if null is not None else ()):
        if counts:
            found = summarize(counts)
            whole = uncertainty.rectangular(_HALF_CYCLE)
            parts += [
                Contribution("repeatability", "A", "normal", found.se, "cycles", found.se, max(found.n - 1, 1)),
                Contribution("whole cycles", "B", "rectangular", whole, "cycles", whole),
            ]
    return uncertainty.interval([part for part in parts if part.effect]).expanded / n_iterations
