"""Results as a table of 80 columns, and as JSON rows. Numbers are printed with their expanded uncertainty."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from labctl.boards import clock_text
from labctl.model import Contribution, Result
from labctl.operations import has_two_passes
from labctl.report.footnotes import footnotes
from labctl.report.labels import N_NAMED, Labels
from labctl.report.text import N_COLUMNS, NO_BREAK, TWO_PASSES, Sentences, two_passes, wrap
from labctl.units import NOT_KNOWN, percent, quantity, with_uncertainty

Truth = Mapping[str, float]

# The contract of `--json`: these fields of a Result, then `captures`, `warnings`, and the truth where known.
ROW_KEYS = (
    *("board", "operation", "bytes", "implementation", "n_runs", "n_iterations", "n_refused", "n_clipped"),
    *("duration_mean_s", "duration_std_s", "duration_se_s", "duration_max_s", "duration_expanded_s"),
    *("current_mean_a", "current_max_a"),
    *("power_mean_w", "power_supply_mean_w", "power_std_w", "power_ripple_w", "power_min_w", "power_max_w"),
    *("power_expanded_w",),
    *("energy_mean_j", "energy_net_idle_j", "energy_std_j", "energy_se_j", "energy_expanded_j"),
    *("coverage_factor", "charge_mean_c", "cycles_mean"),
)
TRUTH_KEYS = ("duration_s", "power_w", "energy_j")
# What else a row is of, and what a message's size makes of it.
SETTING_KEYS = ("profile", "clock_hz", "variant", "throughput_mib_s", "cycles_per_byte")
# Beside the contract: how the energies of the runs lie, and what of the ripple was the scope's own.
SPREAD_KEYS = (
    *("energy_median_j", "energy_quartile_low_j", "energy_quartile_high_j", "energy_lag1_ratio", "energy_drift_j"),
    *("energy_shape", "energy_outliers", "power_noise_w"),
)
_POWER_NAMES = {"dut": "the DUT's, behind the shunt", "supply": "the supply's, shunt included"}
# Between two columns of a table.
_GAP = "  "
# Throughputs of less, in MiB/s, are printed in KiB/s.
_MIB_FROM = 0.1
_N_SHARES = 4
_SHARE_MIN_RATIO = 0.005  # less rounds to 0 %


def to_json_rows(
    results: Sequence[Result],
    captures: Sequence[Sequence[str]] | None = None,
    truths: Sequence[Truth | None] | None = None,
) -> list[dict[str, Any]]:
    """Turn results into rows for strict JSON: nan and inf become null.

    `captures` holds the paths behind each result and `truths` the emulated world's account of each, both in the
    order of `results`.
    """
    captures = captures if captures is not None else [()] * len(results)
    truths = truths if truths is not None else [None] * len(results)
    rows = []
    for result, paths, truth in zip(results, captures, truths, strict=True):
        row = {key: _strict(getattr(result, key)) for key in (*ROW_KEYS, *SETTING_KEYS, *SPREAD_KEYS)}
        row["captures"] = [str(path) for path in paths]
        row["warnings"] = list(result.warnings)
        if truth is not None:
            row |= {f"truth_{key}": _strict(truth.get(key)) for key in TRUTH_KEYS}
        rows.append(row)
    return rows


def headline(truth: Truth | None, power: str) -> Truth | None:
    """Choose, of the emulated world's account, what belongs to the headline power ("dut" or "supply")."""
    if truth is None or power == "dut":
        return truth
    return {**truth, "power_w": truth["power_supply_w"], "energy_j": truth["energy_supply_j"]}


def render(
    results: Sequence[Result],
    bench_name: str,
    emulated: bool,
    power: str = "dut",
    truths: Sequence[Truth | None] | None = None,
) -> Group:
    """Lay out results for a terminal of 80 columns: heading, results, runs that are not alike, shares, warnings.

    `power` is "dut" or "supply"; `truths` as for `to_json_rows`.
    """
    truths = truths if truths is not None else [None] * len(results)
    order = _side_by_side(results)
    results, truths = [results[k] for k in order], [truths[k] for k in order]
    labels = Labels(results)
    heading = "\n".join(wrap(_heading(results, bench_name, emulated)))
    parts: list[Any] = [Text(heading, style="bold"), Text(_explanation(results, power))]
    if labels.common:
        parts.append(Sentences([f"All rows: {', '.join(labels.common)}."]))
    if results:
        parts += ["", _results_table(results, truths, labels), "", _sizing_table(results, labels), ""]
    if any(result.throughput_mib_s is not None for result in results):
        parts += [_message_table(results, labels), Sentences(_of_two_passes(results)), ""]
    if any(result.energy_shape for result in results):
        parts += [_spread_table(results, labels), ""]
    if any(result.budget.get("energy") for result in results):
        parts += [_budget_table(results, labels), ""]
    parts.append(Sentences(footnotes(results, labels)))
    return Group(*parts)


def _side_by_side(results: Sequence[Result]) -> list[int]:
    """Order the rows of several boards so that one operation on all of them stands together; else as they come."""
    boards = list(dict.fromkeys(result.board for result in results))
    if len(boards) < 2:
        return list(range(len(results)))
    names = list(dict.fromkeys(result.operation for result in results))
    settings = list(dict.fromkeys(map(_settings, results)))
    return sorted(range(len(results)), key=lambda k: (
        names.index(results[k].operation), settings.index(_settings(results[k])), boards.index(results[k].board)))


def _settings(result: Result) -> tuple[str | int | None, ...]:
    return result.operation, result.bytes, result.implementation, result.profile, result.variant


def _heading(results: Sequence[Result], bench_name: str, emulated: bool) -> str:
    clocks: dict[str, set[int | None]] = {}
    for result in results:
        clocks.setdefault(result.board, set()).add(result.clock_hz)
    one_each = len(clocks) > 1 and all(len(values) == 1 and None not in values for values in clocks.values())
    boards = ", ".join(
        f"{board} ({clock_text(min(values))})" if one_each else board for board, values in clocks.items()  # type: ignore
    )
    model = ", emulated: its currents are a model, not silicon" if emulated and bench_name != "emulated" else ""
    name = f"{bench_name}{model}"
    if emulated and not model:
        name = "emulated (currents are a model, not silicon)"
    return f"Bench {name}" + (f"; board {boards}" if boards else "")


def _explanation(results: Sequence[Result], power: str) -> str:
    factors = [result.coverage_factor for result in results if math.isfinite(result.coverage_factor)]
    known = f"; k = {_span(factors)} for the energy" if factors else ""
    return (
        f"Per operation, trigger's cost removed; power is {_POWER_NAMES[power]}.\n"
        f"± is the expanded uncertainty (95 %{known})."
    )


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _results_table(results: Sequence[Result], truths: Sequence[Truth | None], labels: Labels) -> Table:
    table = _plain_table("operation")
    for heading in ("duration", "mean\ncurrent", "mean\npower", "energy", "std between,\nwithin runs"):
        table.add_column(heading, justify="right", overflow="fold")
    for result, truth in zip(results, truths, strict=True):
        columns = [
            [result.operation, *_particulars(result, labels)],
            with_uncertainty(result.duration_mean_s, result.duration_expanded_s, "s").split(" ± "),
            [quantity(result.current_mean_a, "A")],
            with_uncertainty(result.power_mean_w, result.power_expanded_w, "W").split(" ± "),
            with_uncertainty(result.energy_mean_j, result.energy_expanded_j, "J").split(" ± "),
            [_between(result), _ratio(result.power_ripple_w, result.power_mean_w, result.power_expanded_w)],
        ]
        for column in (1, 3, 4):
            columns[column][1:] = [f"± {part}" for part in columns[column][1:]]
        if truth is not None:
            depth = max(len(column) for column in columns)
            true_values = {0: "  true value", 1: quantity(truth.get("duration_s"), "s", 7)}
            true_values |= {3: quantity(truth.get("power_w"), "W", 4), 4: quantity(truth.get("energy_j"), "J", 4)}
            for column, text in true_values.items():
                columns[column] += [""] * (depth - len(columns[column])) + [text]
        table.add_row(*(Text("\n".join(column)) for column in columns))
    return table


def _plain_table(first_heading: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first_heading, overflow="fold")
    return table


def _particulars(result: Result, labels: Labels) -> list[str]:
    size = "" if result.bytes is None else f"{result.bytes} B, "
    lines = [f"  {size}{result.n_runs} run{'s' if result.n_runs != 1 else ''}"]
    if result.n_iterations > 1:
        lines.append(f"  {result.n_iterations} in each run")
    return lines + labels.lines(result, but=("bytes",))


def _between(result: Result) -> str:
    if result.n_runs < 2:
        return "one run"
    return _ratio(result.energy_std_j, result.energy_mean_j, result.energy_expanded_j)


def _ratio(part: float | None, whole: float, expanded: float) -> str:
    """Print a spread in percent of the size of what it spreads about, unless that may as well be nothing."""
    if part is None or whole == 0 or abs(whole) <= expanded:
        return NOT_KNOWN
    return percent(part / abs(whole))


def _labelled(
    results: Sequence[Result], labels: Labels, headings: Sequence[str], rows: Sequence[Sequence[str]],
    marks: Sequence[str] = (),
) -> Table:
    """Lay out a row of values for each result beside its name, which has the columns that they leave."""
    columns = zip(headings, *rows, strict=True)
    widths = [max(len(line) for text in column for line in text.split("\n")) for column in columns]
    room = N_COLUMNS - sum(width + len(_GAP) for width in widths) - max(map(len, marks), default=0)
    table = _plain_table("operation")
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold")
    for result, values, mark in zip(results, rows, marks or [""] * len(rows), strict=True):
        table.add_row(Text(labels.label(result, room) + mark), *(Text(value) for value in values))
    return table


def _sizing_table(results: Sequence[Result], labels: Labels) -> Table:
    """Lay out what sizes a supply, a battery and a deadline."""
    rows = [
        [
            quantity(result.energy_net_idle_j, "J"),
            quantity(result.current_max_a, "A"),
            quantity(result.charge_mean_c, "C"),
            with_uncertainty(result.duration_max_s, result.duration_expanded_s, "s").partition(" ± ")[0],
        ]
        for result in results
    ]
    return _labelled(results, labels, ("energy\nnet of idle", "peak\ncurrent", "charge", "longest\nduration"), rows)


def _message_table(results: Sequence[Result], labels: Labels) -> Table:
    """Lay out what a byte of the message costs."""
    shown = [result for result in results if result.throughput_mib_s is not None and result.bytes]
    rates = _rates([result.throughput_mib_s or 0.0 for result in shown])
    rows = [
        [
            rate,
            NOT_KNOWN if result.cycles_per_byte is None else f"{result.cycles_per_byte:.1f}",
            quantity(result.energy_mean_j / (result.bytes or 1), "J"),
        ]
        for result, rate in zip(shown, rates, strict=True)
    ]
    marks = [TWO_PASSES if has_two_passes(result.operation) else "" for result in shown]
    return _labelled(shown, labels, ("\nthroughput", "cycles\nper byte", "energy\nper byte"), rows, marks)


def _of_two_passes(results: Sequence[Result]) -> list[str]:
    with_message = (result.operation for result in results if result.throughput_mib_s is not None)
    name = next(filter(has_two_passes, with_message), None)
    return [] if name is None else [two_passes(name)]


def _rates(mib_s: Sequence[float]) -> list[str]:
    """Print throughputs in one unit, that which suits the least."""
    factor, unit = (1, "MiB/s") if min(mib_s) >= _MIB_FROM else (1024, "KiB/s")
    return [f"{_three_digits(factor * value)} {unit}" for value in mib_s]


def _three_digits(value: float) -> str:
    """Print a number without a prefix, with three significant digits or all before its point."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"


def _spread_table(results: Sequence[Result], labels: Labels) -> Table:
    """Lay out how the energies of the runs lie where their mean is no typical run."""
    shown = [result for result in results if result.energy_shape]
    rows = []
    for result in shown:
        median, low, high = result.energy_median_j, result.energy_quartile_low_j, result.energy_quartile_high_j
        digits = _digits_between(result.energy_mean_j, median, low, high)
        values = [quantity(value, "J", digits) for value in (result.energy_mean_j, median, low, high)]
        rows.append([*values, _awkward(result)])
    headings = ("mean\nenergy", "\nmedian", "lower\nquartile", "upper\nquartile", "runs")
    table = _labelled(shown, labels, headings, rows)
    table.columns[-1].justify = "left"
    return table


def _awkward(result: Result) -> str:
    n = len(result.energy_outliers)
    return f"{n} outlier{'s' if n > 1 else ''}" if n else result.energy_shape


def _digits_between(mean: float, median: float | None, low: float | None, high: float | None) -> int:
    """Choose so many digits that mean and median, or else the quartiles, differ by ten in the last; 3 to 6."""
    if median is None or low is None or high is None or mean == 0:
        return 3
    apart = max(abs(mean - median), high - low)
    return 3 if apart == 0 else min(max(3, 2 + math.ceil(math.log10(abs(mean) / apart))), 6)


def _budget_table(results: Sequence[Result], labels: Labels) -> Table:
    """Lay out the shares of each row; those of many rows that are all alike once."""
    texts = [shares(result.budget.get("energy", ())) for result in results]
    names = [labels.label(result, 30) for result in results]
    if len(results) > N_NAMED and len(set(texts)) == 1:
        names, texts = [f"all {len(results)} rows"], texts[:1]
    table = _plain_table("operation")
    table.add_column("shares of the energy's variance", overflow="fold")
    width = N_COLUMNS - 2 - max(len(line) for name in ("operation", *names) for line in name.split("\n"))
    for name, text in zip(names, texts, strict=True):
        # A share stays with its name.
        whole = ", ".join(share.replace(" ", NO_BREAK) for share in text.split(", "))
        table.add_row(Text(name), Text("\n".join(wrap(whole, width))))
    return table


def shares(contributions: Sequence[Contribution]) -> str:
    """Name the largest contributions with their share of the variance: "shunt 71 %, channel gain 20 %, others 9 %"."""
    variances: dict[str, float] = {}
    for contribution in contributions:
        variances[contribution.name] = variances.get(contribution.name, 0.0) + contribution.effect**2
    total = sum(variances.values())
    if not total > 0:
        return "n/a"
    ranked = sorted(variances.items(), key=lambda item: -item[1])
    shown = [(name, variance) for name, variance in ranked[:_N_SHARES] if variance >= _SHARE_MIN_RATIO * total]
    named = [f"{name} {100 * variance / total:.0f} %" for name, variance in shown]
    rest = total - sum(variance for _, variance in shown)
    return ", ".join(named + ([f"others {100 * rest / total:.0f} %"] if rest >= _SHARE_MIN_RATIO * total else []))


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, tuple):
        return list(value)
    return value.item() if hasattr(value, "item") else value
