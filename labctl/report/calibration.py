"""Calibrations as a short page, as one sentence each, and as JSON."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from labctl.analysis.benefit import value_expanded
from labctl.model import Calibration
from labctl.report.table import shares
from labctl.report.text import N_COLUMNS, bench_label, wrap
from labctl.units import quantity, with_uncertainty

SCHEMA = "labctl.calibration/1"
MEANINGS = {
    "zero": "the shunt's channel without current",
    "gain": "current that flows over current that is read",
    "deskew": "the shunt's channel is later than the trigger's by",
    "timebase": "true time over the instrument's time, less one",
}


@dataclass(frozen=True)
class Stored:
    """A calibration with its file, the facts of its bench, and what there is to remark.

    `settings` are those of each channel as the instrument granted them, range and offset in volts.
    """

    path: str
    calibration: Calibration
    bench: Mapping[str, Any]
    remarks: Sequence[str] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def value_text(calibration: Calibration) -> str:
    """Print the value with its expanded uncertainty; a time base in ppm."""
    half, _ = value_expanded(calibration)
    if calibration.kind == "timebase":
        return with_uncertainty(1e6 * calibration.value, 1e6 * half, "") .replace(" ±", " ppm ±") + " ppm"
    return with_uncertainty(calibration.value, half, "" if calibration.unit == "1" else calibration.unit)


def sentence(calibration: Calibration) -> str:
    """Say that a calibration is in force."""
    return (
        f"Calibrated {calibration.kind}: {value_text(calibration)} ({calibration.method}), {calibration.utc}, valid "
        f"until {calibration.valid_until_utc}."
    )


def render(stored: Stored) -> str:
    """Lay out one calibration for 80 columns: bench, what was found, how, until when it holds, where it is."""
    c, bench = stored.calibration, stored.bench
    _, factor = value_expanded(c)
    facts = wrap(
        f"Bench {bench_label(str(bench.get('name')), bool(bench.get('emulated')))}; {c.instrument.model} "
        f"{c.instrument.serial}"
    )
    facts += ["", f"{c.kind}: {MEANINGS.get(c.kind, 'value')}", f"  {value_text(c)}   (95 %, k = {factor:.2f})"]
    if c.kind == "gain":
        facts.append(f"  for a shunt of nominally {c.shunt_ohm:g} ohm")
    facts += _indented(f"against {c.method}" if c.kind in ("gain", "timebase") else c.method)
    for channel, settings in c.channels.items():
        facts += _indented(f"{channel}: {_settings_text(settings, stored.settings.get(channel, {}))}")
    facts += _indented(f"shares of its variance: {shares(c.contributions)}")
    temperature = "" if c.temperature_degc is None else f", at {c.temperature_degc:g} °C"
    facts += [f"  taken {c.utc}{temperature}; valid until {c.valid_until_utc}"]
    for remark in stored.remarks:
        facts += wrap(f"Note: {remark}.")
    return "\n".join([*facts, "", f"Stored in {stored.path}"])


def apply_text(path: str, options: Sequence[tuple[str, str]]) -> str:
    """Give the command that applies a calibration, to be copied; `options` are those that the bench was opened with."""
    pairs = [f"{option} {shlex.quote(value)}" for option, value in (("--calibration", path), *options)]
    lines, line = [], "  "
    for word in ("labctl measure", *pairs):
        if len(line) > 4 and len(line) + len(word) > N_COLUMNS - 2:  # room for the mark that the line goes on
            lines.append(f"{line}\\")
            line = "    "
        line += f"{word} "
    return "\n".join(["Apply it with:", *lines, line.rstrip()])


def _settings_text(held: Mapping[str, Any], granted: Mapping[str, Any]) -> str:
    """Say the settings that a calibration holds for as a person sets them; `held` is what is compared."""
    unit, parts = str(held.get("unit", "V")), []
    if "scale" in held and "range_v" in granted:
        range_v, offset_v = float(granted["range_v"]), float(granted.get("offset_v", 0.0))
        parts.append(f"full scale {quantity(range_v, 'V')} about {quantity(offset_v, 'V')}")
    elif "scale" in held:
        parts.append(f"{quantity(held['scale'], unit)} per code, code 0 at {quantity(held['offset'], unit)}")
    if "probe_ratio" in held:
        parts.append(f"probe {held['probe_ratio']:g}:1")
    if "bandwidth_limit" in held:
        parts.append(f"bandwidth limit {'on' if held['bandwidth_limit'] else 'off'}")
    return ", ".join(parts)


def to_json(c: Calibration) -> dict[str, Any]:
    """Give one calibration as an object for strict JSON: infinity becomes null."""
    half, factor = value_expanded(c)
    facts = {key: value for key, value in asdict(c).items() if key not in ("contributions", "instrument", "bench")}
    return _strict({
        **facts,
        "expanded": half,
        "coverage_factor": factor,
        "instrument": asdict(c.instrument),
        "bench_key": c.bench,
        "contributions": [asdict(part) for part in c.contributions],
    })


def to_json_document(found: Sequence[Stored]) -> dict[str, Any]:
    """Give calibrations, of one bench or several, as the one object that is printed."""
    return {
        "schema": SCHEMA,
        "calibrations": [
            {"file": s.path, **to_json(s.calibration), "bench": dict(s.bench), "remarks": list(s.remarks)}
            for s in found
        ],
    }


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in wrap(text, 78)]


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
