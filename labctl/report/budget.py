"""Uncertainty budgets line by line, of captures and of calibrations, and results set beside each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from labctl.analysis import keys
from labctl.analysis.comparison import correlation, ratio, value_of
from labctl.analysis.montecarlo import Validation, run_trials, validate
from labctl.analysis.result import examine
from labctl.analysis.uncertainty import QUANTITIES, UNITS, interval
from labctl.errors import CaptureError
from labctl.model import Calibration, Capture, Contribution, Interval, Result
from labctl.report.calibration import MEANINGS
from labctl.report.text import N_COLUMNS, Sentences, wrap
from labctl.units import NOT_KNOWN, percent, quantity, short, with_uncertainty

# What the provenance of a calibration's file says under "what".
_CALIBRATION = "calibration"
# Trials that judge an interval are finer than those that make one (JCGM 101, 8.2).
_FINER = 5.0
_PPM_BELOW = 1e-4
_MANY_DEGREES = 1000
# Contributions of less than this part of the variance are in the table alone.
_TOLD_RATIO = 0.005
_N_IN_MATRIX = 3
_WORD_MAX = 24
# Errors of one name, by what makes another of them: a reading is itself, a channel's error that of its range.
_OF_READING, _OF_RANGE = ("zero", "null"), ("gain CH", "offset")
_DISTRIBUTIONS = {"rectangular": "rect.", "normal": "normal"}
_POWERS = {"dut": "power and energy are the DUT's", "supply": "power and energy are the supply's, shunt included"}
_DIGITS = {
    2: "they agree to two digits of the standard uncertainty",
    1: "they agree to one digit of the standard uncertainty, not to two",
    0: "they do not agree, not even to one digit of the standard uncertainty",
}
_WIDER = ", the stated interval is the wider one at both ends"


@dataclass(frozen=True)
class Line:
    """One quantity with its interval and all that makes it uncertain; `validation` is what trials say of it."""

    quantity: str
    unit: str
    value: float
    interval: Interval
    contributions: tuple[Contribution, ...]
    validation: Validation | None = None


@dataclass(frozen=True)
class Subject:
    """A file with its budgets: of a result, or of a calibration.

    `place` is equal for captures of one bench, `bench_key` for those of one board on it; both are empty where the bench
    is not known.
    """

    path: str
    bench: Mapping[str, Any]
    bench_key: str
    place: str
    lines: tuple[Line, ...]
    result: Result | None = None
    calibration: Calibration | None = None
    warnings: tuple[str, ...] = field(default=())


def subject_of(
    capture: Capture, power: str = "dut", quantities: Sequence[str] = QUANTITIES, *, monte_carlo: bool = False
) -> Subject:
    """Make the budgets of a capture, or of the calibration that its file is of.

    With `monte_carlo` the intervals of a result are set against trials of its whole model. Raises CaptureError,
    naming the file, where the capture gives no number, ConfigError for wiring that cannot be.
    """
    facts = capture.provenance.get("bench", {})
    record = next(iter(capture.records.values()))
    key, place = (keys.bench(facts, record.instrument), keys.place(facts, record.instrument)) if facts else ("", "")
    if capture.provenance.get("what") == _CALIBRATION and len(capture.calibrations) == 1:
        (calibration,) = capture.calibrations
        return Subject(capture.path, facts, key, place, (_line_of(calibration),), calibration=calibration)
    try:
        result, (terms, model) = examine(capture, power)
    except CaptureError as error:
        raise CaptureError(f"{capture.path}: {error}") from error
    trials = run_trials(terms, model, finer=_FINER) if monte_carlo else [None] * len(QUANTITIES)
    lines = []
    for name, unit, tried in zip(QUANTITIES, UNITS, trials, strict=True):
        found = result.intervals[name]
        checked = None if tried is None else validate(found.expanded, tried)
        lines.append(Line(name, unit, value_of(result, name), found, result.budget[name], checked))
    kept = tuple(line for line in lines if line.quantity in quantities)
    return Subject(capture.path, facts, key, place, kept, result=result, warnings=result.warnings)


def _line_of(calibration: Calibration) -> Line:
    """Make the budget of a calibration's value; the contributions of a gain are ratios of it."""
    scale = abs(calibration.value) if calibration.kind == "gain" else 1.0
    parts = tuple(replace(c, effect=scale * c.effect) for c in calibration.contributions)
    return Line(calibration.kind, calibration.unit, calibration.value, interval(parts), parts)


def render(subjects: Sequence[Subject], power: str = "dut") -> Group:
    """Lay budgets out for a terminal of 80 columns; several results are compared at the end."""
    parts: list[Any] = []
    for subject in subjects:
        parts += [Text("\n".join(wrap(_heading(subject))), style="bold"), Text("\n".join(wrap(_about(subject, power))))]
        # A path stays in one piece, so that it can be copied.
        parts.append(Text(subject.path, overflow="ignore", no_wrap=True))
        for line in subject.lines:
            parts += ["", *_budget(line)]
        parts += [Sentences([f"Note: {w}." for w in subject.warnings]), ""]
    results = [s for s in subjects if s.result is not None]
    if len(results) > 1:
        for line in results[0].lines:
            parts += [*_comparison(results, line.quantity), ""]
    return Group(*parts[:-1])


def label(subject: Subject) -> str:
    """Name what a subject is of: "sha256, 64 B", or the kind of a calibration."""
    if subject.calibration is not None:
        return f"{subject.calibration.kind} calibration"
    assert subject.result is not None
    size = "" if subject.result.bytes is None else f", {subject.result.bytes} B"
    return f"{subject.result.operation}{size}"


def _heading(subject: Subject) -> str:
    bench = subject.bench.get("name", "unknown")
    if subject.bench.get("emulated"):
        model = "currents are a model, not silicon"
        bench = f"emulated ({model})" if bench == "emulated" else f"{bench}, emulated: its {model}"
    board = f"; board {subject.result.board}" if subject.result is not None and subject.result.board else ""
    return f"Budget of {label(subject)}: bench {bench}{board}"


def _about(subject: Subject, power: str) -> str:
    if subject.calibration is not None:
        c = subject.calibration
        meaning = MEANINGS.get(c.kind, "its value")
        return f"{meaning[:1].upper()}{meaning[1:]}; {c.method}, taken {c.utc}."
    assert subject.result is not None
    result = subject.result
    runs = f"{result.n_runs} run{'s' if result.n_runs != 1 else ''}"
    each = f" of {result.n_iterations} iterations" if result.n_iterations > 1 else ""
    return f"Per operation, out of {runs}{each}; {_POWERS[power]}."


def _budget(line: Line) -> list[Any]:
    title = Text(f"{line.quantity[:1].upper()}{line.quantity[1:]}", style="bold")
    if not line.contributions:
        return [title, Text("  nothing is known of its uncertainty: it has no contributions"), *_values(line)]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("contribution", overflow="fold")
    for heading in ("type", "distri-\nbution"):
        table.add_column(heading, no_wrap=True)
    for heading in ("standard\nuncert.", "sensitivity", "in the\nresult", "share", "degrees\nof fr."):
        table.add_column(heading, justify="right", no_wrap=True)
    total = math.fsum(c.effect**2 for c in line.contributions)
    for c in sorted(line.contributions, key=lambda c: -abs(c.effect)):
        finite = math.isfinite(c.degrees_of_freedom)
        table.add_row(
            Text(c.name),
            c.evaluation,
            "Student" if finite and c.distribution == "normal" else _DISTRIBUTIONS.get(c.distribution, c.distribution),
            _input(c.standard, c.unit),
            _sensitivity(c, line.unit),
            _output(abs(c.effect), line),
            _share(c.effect**2 / total) if total else "",
            _degrees(c.degrees_of_freedom) if finite else "",
        )
    return [title, table, Sentences(_sources(line, total)), "", *_values(line)]


def _sources(line: Line, total: float) -> list[str]:
    """Say where the contributions come from that matter, a rectangular one with its limit."""
    said: dict[str, str] = {}
    for c in sorted(line.contributions, key=lambda c: -abs(c.effect)):
        if c.source and total and c.effect**2 >= _TOLD_RATIO * total:
            limit = f"± {_input(math.sqrt(3) * c.standard, c.unit)}, " if c.distribution == "rectangular" else ""
            said.setdefault(c.name, f"{limit}{c.source}")
    return [f"{name}: {text}." for name, text in said.items()]


def _values(line: Line) -> list[Any]:
    """Print what the budget comes to, and the value in the forms of JCGM 100, 7.2."""
    found, value = line.interval, line.value

    def sized(u: float) -> str:
        return _output(u, line) + (f" ({percent(u / abs(value))})" if value and line.unit != "1" else "")

    rows = [
        ("combined standard uncertainty", sized(found.standard)),
        ("effective degrees of freedom", _degrees(found.degrees_of_freedom)),
        ("coverage factor for 95 %", f"{found.coverage_factor:.2f}: {found.method}"),
        ("expanded uncertainty, 95 %", sized(found.expanded)),
        ("value, expanded uncertainty", f"{_stated(line, found.expanded)}, or {_short(line, found.expanded)}"),
        ("value, standard uncertainty", f"{_short(line, found.standard)}, as JCGM 100 (7.2.2) writes it"),
    ]
    if line.validation is not None:
        tried = line.validation.trials
        ends = [_rounded(x, tried.standard, line.unit) for x in
                (tried.low, tried.high, tried.value - found.expanded, tried.value + found.expanded)]
        rows.append((
            f"{tried.n_trials} Monte Carlo trials",
            f"95 % from {ends[0]} to {ends[1]}, stated {ends[2]} to {ends[3]}: {_DIGITS[line.validation.n_digits]} "
            f"(JCGM 101, 8.1){_WIDER if line.validation.wider and line.validation.n_digits < 2 else ''}",
        ))
    return [Text(_aligned(rows))]


def _aligned(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows) + 2
    lines = []
    for name, text in rows:
        first, *more = wrap(text, N_COLUMNS - width) or [""]
        lines += [f"{name:<{width}}{first}", *(" " * width + line for line in more)]
    return "\n".join(lines)


def _comparison(subjects: Sequence[Subject], name: str) -> list[Any]:
    results = [s.result for s in subjects if s.result is not None]
    unit = UNITS[QUANTITIES.index(name)]
    found = correlation(results, name)
    shown = list(range(len(results))) if len(results) <= _N_IN_MATRIX else [0]
    benches = list(dict.fromkeys(s.place for s in subjects))
    boards = list(dict.fromkeys(r.board for r in results))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", justify="right", no_wrap=True)
    named = [f"{label(s)}, {r.board}" if len(boards) > 1 else label(s) for s, r in zip(subjects, results, strict=True)]
    longest = max(len(word) for text in named for word in text.split())
    table.add_column("result", overflow="fold", min_width=min(longest, _WORD_MAX))
    table.add_column("bench", no_wrap=True)
    table.add_column(name, justify="right", overflow="fold")
    table.add_column("over result 1", justify="right", overflow="fold")
    for k in shown:
        table.add_column(f"{'corr. with' if k == 0 else ''}\n{k + 1}", justify="right", no_wrap=True)
    shared: list[str] = []
    for k, (subject, result) in enumerate(zip(subjects, results, strict=True)):
        over = ""
        if k and value_of(results[0], name):
            compared = ratio(result, results[0], name)
            over = _over(compared.value, compared.expanded)
            shared += [c.name for c in result.budget[name] if c.key in compared.shared_keys and c.name not in shared]
        table.add_row(
            str(k + 1), Text(named[k]), _bench_letter(benches, subject.place),
            Text("\n± ".join(with_uncertainty(value_of(result, name), result.intervals[name].expanded, unit)
                             .split(" ± "))),
            Text(over), *(f"{found[k, i]:.2f}" for i in shown),
        )
    return [Text(f"The {name} of {len(results)} results beside each other", style="bold"), table,
            Sentences([*_of_benches(benches, len(boards)), *_of_errors(shared, _apart(subjects, name))])]


def _over(value: float, expanded: float) -> str:
    text = "\n± ".join(with_uncertainty(value, expanded, "").split(" ± "))
    return text + (f"\n({percent(expanded / abs(value))})" if value else "")


def _bench_letter(benches: Sequence[str], key: str) -> str:
    """Name a bench by a letter, or a number where there are more benches than letters."""
    if not key:
        return "?"
    place = benches.index(key)
    return chr(ord("A") + place) if len(benches) <= 26 else str(place + 1)


def _of_benches(benches: Sequence[str], n_boards: int) -> list[str]:
    known = [b for b in benches if b]
    on_boards = f", on {n_boards} boards" if n_boards > 1 else ""
    sentences = []
    if len(benches) == 1 and known:
        sentences.append(f"All were taken on one bench ({known[0]}){on_boards}.")
    elif known:
        named = "; ".join(f"{_bench_letter(benches, b)}: {b}" for b in known)
        sentences.append(f"They were taken on {len(benches)} benches ({named}){on_boards}.")
    if "" in benches:
        sentences.append("A capture whose bench is not known (?) shares nothing that is known.")
    return sentences


def _of_errors(shared: Sequence[str], apart: Mapping[str, Sequence[str]]) -> list[str]:
    """Say which errors are one and the same in the first result and another, and why others are not."""
    sentences = []
    if shared:
        sentences.append(
            "One and the same error in both, which cancels in a ratio but for what it does differently to them: "
            f"{', '.join(shared)}."
        )
    else:
        sentences.append("No error is the same in result 1 and another: in a ratio all of them add up.")
    if apart:
        named = "; ".join(f"{', '.join(names)} ({why})" for why, names in apart.items())
        sentences.append(f"Separate errors, which add up in a ratio: {named}.")
    sentences.append("± is the expanded uncertainty (95 %).")
    return sentences


def _apart(subjects: Sequence[Subject], name: str) -> dict[str, list[str]]:
    """Name the errors of one name that are not the same in the first result and another, by what makes them two."""
    first, *others = subjects
    found: dict[str, list[str]] = {}
    for subject in others:
        assert first.result is not None and subject.result is not None
        known = {c.name: c.key for c in first.result.budget[name] if c.key}
        for c in subject.result.budget[name]:
            if c.key and known.get(c.name, c.key) != c.key:
                names = found.setdefault(_why_apart(c, first, subject), [])
                names += [c.name] if c.name not in names else []
    return found


def _why_apart(c: Contribution, first: Subject, other: Subject) -> str:
    if c.name.startswith(_OF_READING):
        return "another reading"
    if c.name.startswith(_OF_RANGE):
        return "another range, or another scope" if first.place != other.place else "another range"
    if first.place != other.place:
        return "another bench"
    return "another board" if first.bench_key != other.bench_key else "stated otherwise"


def _input(value: float, unit: str) -> str:
    if unit != "1":
        return quantity(value, unit, 2)
    return percent(value) if value >= _PPM_BELOW or value == 0 else f"{1e6 * value:.2g} ppm"


def _output(value: float, line: Line) -> str:
    if line.quantity == "timebase":
        return f"{1e6 * value:.2g} ppm"
    return quantity(value, "" if line.unit == "1" else line.unit, 2)


def _sensitivity(c: Contribution, unit: str) -> str:
    """Print what a unit of the input does to the result, with its sign."""
    if c.standard == 0:
        return NOT_KNOWN
    slope = c.effect / c.standard
    if unit == c.unit:
        return f"{slope:.3g}"
    if c.unit == "1":
        return quantity(slope, unit)
    if unit == "1":
        return f"{slope:.3g} 1/{c.unit}"
    return quantity(slope, {("J", "s"): "W"}.get((unit, c.unit), f"{unit}/{c.unit}"))


def _stated(line: Line, expanded: float) -> str:
    if line.quantity == "timebase":
        return f"({with_uncertainty(1e6 * line.value, 1e6 * expanded, '')}) ppm"
    return with_uncertainty(line.value, expanded, "" if line.unit == "1" else line.unit)


def _short(line: Line, uncertainty: float) -> str:
    if line.quantity == "timebase":
        return f"{short(1e6 * line.value, 1e6 * uncertainty, '')} ppm"
    return short(line.value, uncertainty, "" if line.unit == "1" else line.unit)


def _rounded(value: float, standard: float, unit: str) -> str:
    return with_uncertainty(value, standard, unit).partition(" ± ")[0]


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else "< 1 %"


def _degrees(degrees: float) -> str:
    if degrees > _MANY_DEGREES:
        return f"> {_MANY_DEGREES}" if math.isfinite(degrees) else "infinite"
    return f"{degrees:.0f}" if degrees >= 10 else f"{degrees:.2g}"
