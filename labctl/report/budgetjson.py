"""Uncertainty budgets as JSON: docs/budget-json.md is the contract."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from labctl.analysis.comparison import correlation, ratio, value_of
from labctl.model import Contribution, Interval
from labctl.report.budget import Line, Subject
from labctl.units import short, with_uncertainty

SCHEMA = "labctl.budget/1"


def to_json(subjects: Sequence[Subject], power: str) -> dict[str, Any]:
    """Turn budgets into the object of the contract; numbers that are not finite become null."""
    results = [s for s in subjects if s.result is not None]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "power": power,
        "results": [_result(s) for s in results],
        "calibrations": [_calibration(s) for s in subjects if s.calibration is not None],
    }
    if len(results) > 1:
        document["comparison"] = {line.quantity: _comparison(results, line.quantity) for line in results[0].lines}
    return _strict(document)


def _result(subject: Subject) -> dict[str, Any]:
    assert subject.result is not None
    result = subject.result
    return {
        "capture": subject.path,
        "bench": dict(subject.bench),
        "bench_key": subject.bench_key or None,
        "board": result.board,
        "operation": result.operation,
        "bytes": result.bytes,
        "implementation": result.implementation,
        "n_runs": result.n_runs,
        "n_iterations": result.n_iterations,
        "budgets": {line.quantity: _line(line) for line in subject.lines},
        "warnings": list(result.warnings),
    }


def _calibration(subject: Subject) -> dict[str, Any]:
    assert subject.calibration is not None
    c = subject.calibration
    return {
        "capture": subject.path,
        "bench": dict(subject.bench),
        "bench_key": c.bench or None,
        "kind": c.kind,
        "method": c.method,
        "utc": c.utc,
        "valid_until_utc": c.valid_until_utc,
        "instrument": asdict(c.instrument),
        "budget": _line(subject.lines[0]),
    }


def _line(line: Line) -> dict[str, Any]:
    total = math.fsum(c.effect**2 for c in line.contributions)
    unit = "" if line.unit == "1" else line.unit
    found = {
        "unit": line.unit,
        "value": line.value,
        **_interval(line.interval),
        "text": {
            "expanded": with_uncertainty(line.value, line.interval.expanded, unit),
            "expanded_short": short(line.value, line.interval.expanded, unit),
            "standard_short": short(line.value, line.interval.standard, unit),
        },
        "contributions": [_contribution(c, total) for c in line.contributions],
    }
    if line.validation is not None:
        tried = line.validation.trials
        found["monte_carlo"] = {
            "n_trials": tried.n_trials,
            "mean": tried.mean,
            "standard": tried.standard,
            "low": tried.low,
            "high": tried.high,
            "low_difference": line.validation.low_difference,
            "high_difference": line.validation.high_difference,
            "tolerance": tried.tolerance,
            "stable": tried.stable,
            "n_digits": line.validation.n_digits,
        }
    return found


def _interval(found: Interval) -> dict[str, Any]:
    return {**asdict(found), "level": 0.95}


def _contribution(c: Contribution, total: float) -> dict[str, Any]:
    return {
        "name": c.name,
        "evaluation": c.evaluation,
        "distribution": c.distribution,
        "standard": c.standard,
        "unit": c.unit,
        "sensitivity": c.effect / c.standard if c.standard else None,
        "effect": c.effect,
        "share_ratio": c.effect**2 / total if total else None,
        "degrees_of_freedom": c.degrees_of_freedom,
        "source": c.source,
        "key": c.key or None,
    }


def _comparison(subjects: Sequence[Subject], quantity: str) -> dict[str, Any]:
    results = [s.result for s in subjects if s.result is not None]
    ratios = []
    for k, result in enumerate(results[1:], 1):
        if value_of(results[0], quantity) == 0:
            continue
        found = ratio(result, results[0], quantity)
        total = math.fsum(c.effect**2 for c in found.contributions)
        ratios.append({
            "numerator": k,
            "denominator": 0,
            "value": found.value,
            **_interval(found.interval),
            "same_bench": bool(subjects[0].place) and subjects[0].place == subjects[k].place,
            "shared_keys": list(found.shared_keys),
            "contributions": [_contribution(c, total) for c in found.contributions],
        })
    return {"correlation": correlation(results, quantity).tolist(), "ratios": ratios}


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value
