"""What a file of somebody else's tool says, as JSON of the contract and as a page of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from labctl.analysis.foreign import RecordResult, RecordWindow
from labctl.report.text import Sentences
from labctl.units import quantity, with_uncertainty

N_WINDOWS_SHOWN = 20


def window_rows(result: RecordResult) -> list[dict[str, Any]]:
    """Turn windows into rows of the contract; power and energy appear only where a shunt or current channel is."""
    return [_row(window) for window in result.windows]


def to_json_object(
    description: dict[str, Any], result: RecordResult | None, warnings: Sequence[str]
) -> dict[str, Any]:
    """Join description, windows and warnings into the object of the contract."""
    return {**description, "windows": [] if result is None else window_rows(result), "warnings": list(warnings)}


def _row(window: RecordWindow) -> dict[str, Any]:
    row: dict[str, Any] = {
        "segment": window.window.segment,
        "start_s": window.start_s,
        "stop_s": window.stop_s,
        "duration_s": window.duration_s,
        "duration_expanded_s": window.duration_expanded_s or None,
    }
    if window.run is not None:
        row |= {
            "current_mean_a": window.run.current_mean_a,
            "current_max_a": window.run.current_max_a,
            "power_mean_w": window.power_mean_w,
            "power_expanded_w": window.power_expanded_w,
            "power_supply_mean_w": window.run.power_supply_w,
            "energy_j": window.energy_j,
            "energy_expanded_j": window.energy_expanded_j,
            "charge_c": window.run.charge_c,
            "n_clipped": window.run.n_clipped,
            "coverage_factor": window.coverage_factor,
        }
    return row


def render_file(
    description: dict[str, Any], result: RecordResult | None, warnings: Sequence[str], bench: str
) -> Group:
    """Lay out one file: what it is, its channels, its windows, and what a person should know.

    `result` is None where the sample rate is not known; `bench` names the wiring that was given.
    """
    parts: list[Any] = [Text(f"{description['file']} ({description['format']}); {bench}", style="bold"), ""]
    channels = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("channel", "as the file says", "samples", "interval", "min", "mean", "max"):
        channels.add_column(heading, justify="left" if heading in ("channel", "as the file says") else "right")
    for channel in description["channels"]:
        unit = channel["unit"] or ""
        count = str(channel["n"]) if channel["segments"] == 1 else f"{channel['segments']} x {channel['n']}"
        interval = "unknown" if channel["dt_s"] is None else quantity(channel["dt_s"], "s")
        values = [
            quantity(channel[key], unit) if unit else f"{channel[key]:.4g}" for key in ("min", "mean", "max")
        ]
        channels.add_row(channel["name"], channel["label"], count, interval, *values)
    parts += [channels, ""]
    if result is not None:
        parts += [_windows_table(result.windows), ""]
        if any(window.duration_expanded_s for window in result.windows):
            parts.append(Text("± is the expanded uncertainty (95 %)."))
    parts.append(Sentences(warnings))
    return Group(*parts)


def _windows_table(windows: Sequence[RecordWindow]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    powered = any(window.run is not None for window in windows)
    for heading in ("window", "start", "duration", *(("mean current", "mean power", "energy") if powered else ())):
        table.add_column(heading, justify="right")
    for number, window in enumerate(windows[:N_WINDOWS_SHOWN], 1):
        cells = [
            str(number),
            quantity(window.start_s, "s"),
            with_uncertainty(window.duration_s, window.duration_expanded_s, "s")
            if window.duration_expanded_s
            else quantity(window.duration_s, "s"),
        ]
        if window.run is not None:
            assert window.power_mean_w is not None
            assert window.energy_j is not None
            cells += [
                quantity(window.run.current_mean_a, "A"),
                quantity(window.power_mean_w, "W"),
                with_uncertainty(window.energy_j, window.energy_expanded_j or 0.0, "J"),
            ]
        table.add_row(*cells)
    if len(windows) > N_WINDOWS_SHOWN:
        table.add_row("…", f"{len(windows) - N_WINDOWS_SHOWN} more: --json")
    return table
