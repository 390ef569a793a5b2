"""How well stated intervals held, as a page of 80 columns and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from labctl.analysis.judgement import LEVEL, Judgement, expected_shares, share_interval
from labctl.model import Operation
from labctl.report.text import Sentences, wrap
from labctl.units import NOT_KNOWN, percent

SCHEMA = "labctl.coverage/1"
# Percents below this would have more zeros than a column holds.
_PPM_BELOW_RATIO = 1e-4
FIGURES = ("coverage", "bias", "spread", "tightness", "expanded")


@dataclass(frozen=True)
class Failure:
    """A bench that gave no result: its seed, and why."""

    seed: int
    message: str


@dataclass(frozen=True)
class Account:
    """What is told of a study: what was asked, what came of it by kind of interval, and what failed.

    `n_complete` benches gave a result.
    """

    n_benches: int
    n_complete: int
    seed: int
    operations: Sequence[Operation]
    calibrated: Sequence[str]
    judgements: Mapping[str, Judgement]
    failures: Sequence[Failure]

    @property
    def n_tried(self) -> int:
        """Count the benches that were tried."""
        return self.n_complete + len(self.failures)


def to_json(account: Account) -> dict[str, Any]:
    """Turn an account into the object of the JSON contract; what is not known is null."""
    judged = account.judgements
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "benches": account.n_benches,
        "complete": account.n_complete,
        "seed": account.seed,
        "emulated": True,
        "calibrated": list(account.calibrated),
        "n": {kind: j.n for kind, j in judged.items()},
    }
    for figure in FIGURES:
        document[figure] = {kind: _strict(getattr(j, f"{figure}_ratio")) for kind, j in judged.items()}
    document["failures"] = [asdict(failure) for failure in account.failures]
    return document


def render(account: Account) -> Group:
    """Lay out an account for a terminal of 80 columns."""
    heading = "\n".join(wrap(
        f"Emulated benches (currents are a model, not silicon): {account.n_complete} of {account.n_benches}, "
        f"seed {account.seed}"
    ))
    parts: list[Any] = [Text(heading, style="bold"), Sentences([_what(account)])]
    if account.n_complete:
        parts += ["", _table(account), ""]
        parts.append(Sentences(_explanation(account.n_complete)))
    unfinished = account.n_benches - account.n_tried
    if unfinished:
        parts.append(Sentences([f"Not finished: {unfinished} of {account.n_benches} benches were not tried."]))
    parts.append(Sentences([f"Bench of seed {f.seed} failed: {f.message}" for f in account.failures]))
    return Group(*parts)


def _what(account: Account) -> str:
    operations = " and ".join(
        f"{o.name} ({f'{o.bytes} B, ' if o.bytes else ''}{o.n_runs} runs)" for o in account.operations
    )
    calibrated = f"calibrated first: {', '.join(account.calibrated)}" if account.calibrated else "not calibrated"
    return f"Each measures {operations}; {calibrated}."


def _table(account: Account) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for heading in ("n", "hold the\ntruth", "may be,\n%", "bias", "spread", "mean ±", "tight-\nness"):
        table.add_column(heading, justify="right", no_wrap=True)
    for kind, j in account.judgements.items():
        low, high = share_interval(j.coverage_ratio, account.n_complete)
        table.add_row(
            kind.replace("_", " "),
            str(j.n),
            _share(j.coverage_ratio),
            f"{_number(low)} to {_number(high)}",
            _signed(j.bias_ratio),
            _short(j.spread_ratio),
            _short(j.expanded_ratio),
            f"{j.tightness_ratio:.2f}" if math.isfinite(j.tightness_ratio) else NOT_KNOWN,
        )
    return table


def _explanation(n: int) -> list[str]:
    low, high = expected_shares(n)
    return [
        f"{percent(LEVEL)} of the intervals should hold the truth; were it exactly so, {n} "
        f"{'bench' if n == 1 else 'benches'} would show between {_number(low)} and {_share(high)} in 95 of 100 "
        f"studies. May be: what the share may really be, by Clopper and Pearson. Operations of one bench share their "
        f"errors, so benches, not intervals, count as independent trials.",
        "Bias: mean of measured/true - 1; spread: its standard deviation; mean ±: mean expanded uncertainty over "
        "truth; tightness: mean expanded uncertainty over the 95th percentile of the absolute error (1: just wide "
        "enough; more: padded).",
    ]


def _share(ratio: float) -> str:
    return f"{_number(ratio)} %"


def _number(ratio: float) -> str:
    return f"{100 * ratio:.1f}"


def _signed(ratio: float) -> str:
    return f"{'+' if ratio > 0 else ''}{_short(ratio)}"


def _short(ratio: float) -> str:
    """Print a ratio in few columns however small it is."""
    return f"{1e6 * ratio:.2g} ppm" if 0 < abs(ratio) < _PPM_BELOW_RATIO else percent(ratio)


def _strict(value: float) -> float | None:
    return value if math.isfinite(value) else None
