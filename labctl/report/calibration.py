"""Calibrations as a short page, as one sentence each, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from labctl.analysis.benefit import value_expanded
from labctl.model import Calibration
from labctl.report.table import shares
from labctl.report.text import wrap
from labctl.units import with_uncertainty

SCHEMA = "labctl.calibration/1"
MEANINGS = {
    "zero": "the shunt's channel without current",
    "gain": "current that flows over current that is read",
    "deskew": "the shunt's channel is later than the trigger's by",
    "timebase": "true time over the instrument's time, less one",
}


@dataclass(frozen=True)
class Stored:
    """A calibration with its file, the facts of its bench, and what there is to remark."""

    path: str
    calibration: Calibration
    bench: Mapping[str, Any]
    remarks: Sequence[str] = ()


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
    """Lay out one calibration for 80 columns: bench, what was found, how, until when it holds, how to apply it."""
    c, bench = stored.calibration, stored.bench
    emulated = ", emulated: nothing here was measured on silicon" if bench.get("emulated") else ""
    name = "emulated" if bench.get("name") == "emulated" else f"{bench.get('name')}"
    if name == "emulated":
        emulated = " (nothing here was measured on silicon)"
    _, factor = value_expanded(c)
    facts = [f"Bench {name}{emulated}; {c.instrument.model} {c.instrument.serial}", ""]
    facts += [f"{c.kind}: {MEANINGS.get(c.kind, 'value')}", f"  {value_text(c)}   (95 %, k = {factor:.2f})"]
    if c.kind == "gain":
        facts.append(f"  for a shunt of nominally {c.shunt_ohm:g} ohm")
    facts += _indented(f"against {c.method}" if c.kind in ("gain", "timebase") else c.method)
    for channel, settings in c.channels.items():
        facts += _indented(f"{channel}: " + ", ".join(f"{key} {_plain(value)}" for key, value in settings.items()))
    facts += _indented(f"shares of its variance: {shares(c.contributions)}")
    temperature = "" if c.temperature_degc is None else f", at {c.temperature_degc:g} °C"
    facts += [f"  taken {c.utc}{temperature}; valid until {c.valid_until_utc}"]
    for remark in stored.remarks:
        facts += wrap(f"Note: {remark}.")
    facts += ["", f"Stored in {stored.path}", "Apply it with:", f"  labctl measure --calibration {stored.path}"]
    return "\n".join(facts)


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


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
