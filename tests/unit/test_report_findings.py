"""Findings as a page of 80 columns and as JSON."""

import json
import math

import pytest

from labctl.analysis.finding import FAULT, LEFT_OUT, OK, WARNING, Finding, any_fault
from labctl.report.findings import heading, lay_out, render, summarize, to_json

GOOD = Finding("shunt", OK, "9.30 mA flow", 9.3e-3, 1e-4, "A")
BAD = Finding("trigger", FAULT, "the trigger never moves: " + "check the cable, " * 10, math.nan, None, "V")
SAME = "not judged, because of the fault above: trigger"


def test_a_finding_is_wrapped_behind_its_status():
    lines = str(render(BAD)).splitlines()
    assert lines[0].startswith("FAULT     trigger: the trigger never moves")
    assert len(lines) > 1
    assert all(line.startswith(" " * 10) for line in lines[1:])
    assert max(map(len, lines)) <= 80


def test_what_one_cause_leaves_out_is_one_sentence():
    findings = [BAD, Finding("windows", LEFT_OUT, SAME), Finding("timer", LEFT_OUT, SAME), GOOD]
    texts = [str(text) for text in lay_out(findings)]
    assert len(texts) == 3
    assert texts[1] == f"left out  windows, timer: {SAME}"
    assert str(list(lay_out(findings[:3]))[-1]) == texts[1]
    assert len(list(lay_out([*findings[1:2], Finding("gain", LEFT_OUT, "another cause")]))) == 2


def test_findings_are_laid_out_as_they_come():
    """A person who is asked to put something in place has read all that was found before."""
    def coming():
        yield GOOD
        raise KeyboardInterrupt

    laid_out = lay_out(coming())
    assert "shunt" in str(next(laid_out))
    with pytest.raises(KeyboardInterrupt):
        next(laid_out)


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        ([GOOD], "1 ok. No fault found."),
        ([GOOD, BAD, BAD], "1 ok, 2 faults (trigger, trigger)"),
        ([Finding("noise", WARNING, "much"), Finding("gain", LEFT_OUT, "")],
         "0 ok, 1 warning (noise), 1 left out (gain). No fault found."),
    ],
)
def test_the_sum(findings, words):
    assert str(summarize(findings)) == words
    assert any_fault(findings) == ("No fault" not in words)


def test_what_is_emulated_says_so():
    model = "emulated (currents are a model, not silicon)"
    assert str(heading("Check", "emulated", True, "seed 1")) == f"Check of bench {model}, seed 1"
    assert str(heading("Check", "desk-3", True)) == f"Check of bench desk-3, {model}"
    assert str(heading("Check", "desk-3", False)) == "Check of bench desk-3"


def test_a_bench_with_the_usual_name():
    assert str(heading("Check", "bench", False, "bench.toml")) == "Check of the bench, bench.toml"


def test_strict_json():
    rows = json.loads(json.dumps(to_json([GOOD, BAD]), allow_nan=False))
    assert rows[0] == {
        "name": "shunt", "status": "ok", "text": "9.30 mA flow", "value": 9.3e-3, "expanded": 1e-4, "unit": "A"
    }
    assert rows[1]["value"] is None
