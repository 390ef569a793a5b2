"""Budgets as pages of 80 columns and as JSON: closed forms in, the same numbers out."""

import dataclasses
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from instruments.record import Accuracy, Channel, Identity, Record
from labctl.errors import CaptureError
from labctl.model import Calibration, Capture, Contribution, Operation, Shunt, Supply, Wiring
from labctl.report.budget import render, subject_of
from labctl.report.budgetjson import to_json

SHEET = Accuracy(0.02, 5e-3, 1e-6, "data sheet")
WIRING = Wiring(Shunt(1.3, decoupling_f=0.0), Supply(3.3), shunt_channel="CH1", trigger_channel="CH2")
DT_S = 1e-6


def capture_of(n=300, run_v=13e-3, bench="desk", serial="1", emulated=False, name="sha256"):
    """Make twenty flat windows of n samples, equal but for a step of 0.1 % from run to run."""
    identity = Identity("maker", "scope", serial, "1.0")
    drop, line = np.full((20, 600), 4000, np.int16), np.zeros((20, 600), np.uint8)
    for row in range(20):
        drop[row, 200 : 200 + n] = round(run_v * (1 + 1e-3 * (row % 2)) / 1e-6)
        line[row, 200 : 200 + n] = 200
    channels = {"CH1": Channel("CH1", drop, 1e-6, 0.0, accuracy=SHEET), "CH2": Channel("CH2", line, 3.3 / 200, 0.0)}
    series = Record(channels, DT_S, np.arange(20.0), identity, timebase_ratio=1e-5)
    zero = Record({"CH1": Channel("CH1", np.zeros((1, 1000), np.int16), 1e-6, 0.0)}, DT_S, np.zeros(1), identity)
    return Capture({"series": series, "zero": zero}, WIRING, Operation(name, 64, n_runs=20),
                   {"name": "made-up", "pins": {"level_v": 3.3}}, path=f"{name}.h5",
                   provenance={"bench": {"name": bench, "emulated": emulated}})


def calibration_of(kind="gain", value=0.98, unit="1", parts=None, emulated=True):
    parts = parts if parts is not None else (
        Contribution("supply", "B", "rectangular", 0.01 / math.sqrt(3), "1", 0.01 / math.sqrt(3), key="supply"),
        Contribution("reading", "A", "normal", 2e-7, "V", -1.5e-5, 29, "30 samples"),
    )
    found = Calibration(kind, value, unit, parts, Identity("maker", "scope", "1", "1.0"), "desk, scope 1",
                        "330 ohm in the DUT's place", "2026-11-30T12:00:00Z", "2026-12-30T12:00:00Z")
    record = Record({"CH1": Channel("CH1", np.zeros((1, 100), np.int16), 1e-6, 0.0)}, DT_S, np.zeros(1),
                    found.instrument)
    return Capture({"load": record}, WIRING, path="gain.h5", calibrations=(found,),
                   provenance={"what": "calibration", "bench": {"name": "desk", "emulated": emulated}})


def page_of(*subjects, **options):
    file = io.StringIO()
    Console(file=file, width=80, highlight=False).print(render(subjects, **options))
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    return text


def words(text):
    return " ".join(text.split())


def test_a_page_tells_every_line_of_the_budget_and_what_it_comes_to():
    subject = subject_of(capture_of(), quantities=("energy",))
    page = page_of(subject)
    rows = {line.split()[0]: line for line in page.splitlines() if "rect." in line}
    # E = (V - x) x T / R: slopes -1, V/(V - x), (V - 2 x)/(V - x), 1 of an energy of 9.87 µJ.
    energy_j = subject.lines[0].value
    assert energy_j == pytest.approx((3.3 - 13.0065e-3) * 13.0065e-3 / 1.3 * 300 * DT_S, rel=1e-6)
    assert re.search(r"B +rect\. +0\.58 % +-9\.87 µJ +57 nJ +\d+ %", rows["shunt"])
    assert re.search(r"B +rect\. +0\.58 % +9\.90 µJ +57 nJ", rows["supply"])
    assert re.search(r"CH1 +B +rect\. +1\.2 % +9\.83 µJ +110 nJ", rows["gain"])
    assert re.search(r"base +B +rect\. +5\.8 ppm +9\.87 µJ +57 pJ +< 1 %", rows["time"])
    # Runs alternate, which makes neighbours unlike: twenty of them, nineteen degrees of freedom.
    assert re.search(r"repeatability +A +Student .* 19$", page, re.MULTILINE)
    # The root of the squares: sqrt(57.0^2 + 57.2^2 + 113.5^2 + edges' 13.4^2) nJ.
    assert "combined standard uncertainty 140 nJ (1.4 %)" in words(page)
    # None of the three limits dominates: 1.96 x 139.9 nJ = 274 nJ, of 9.87 µJ.
    assert "expanded uncertainty, 95 % 270 nJ (2.8 %)" in words(page)
    assert "9.87 µJ ± 0.27 µJ, or 9.87(27) µJ" in words(page)
    assert "9.87(14) µJ, as JCGM 100 (7.2.2) writes it" in words(page)
    assert "coverage factor for 95 % 1.96: Student's t, Welch" in words(page)
    assert "effective degrees of freedom" in page
    assert "emulated" not in page


def test_shares_add_up_and_effects_are_sensitivity_times_standard():
    document = to_json([subject_of(capture_of())], "dut")
    assert document["schema"] == "labctl.budget/1"
    (result,) = document["results"]
    assert set(result["budgets"]) == {"duration", "power", "energy"}
    for budget in result["budgets"].values():
        parts = budget["contributions"]
        assert sum(c["share_ratio"] for c in parts) == pytest.approx(1.0)
        assert math.sqrt(sum(c["effect"] ** 2 for c in parts)) == pytest.approx(budget["standard"])
        assert all(c["sensitivity"] * c["standard"] == pytest.approx(c["effect"]) for c in parts)
        assert budget["expanded"] == pytest.approx(budget["coverage_factor"] * budget["standard"])
        assert all(c["degrees_of_freedom"] is None or c["degrees_of_freedom"] > 0 for c in parts)
    assert "comparison" not in document
    json.dumps(document, allow_nan=False)


def test_everything_from_an_emulated_bench_says_so():
    page = page_of(subject_of(capture_of(emulated=True, bench="desk")))
    assert "desk, emulated: its currents are a model, not silicon" in words(page)
    assert "bench emulated (currents are a model, not silicon)" in words(
        page_of(subject_of(capture_of(emulated=True, bench="emulated"))))
    assert "emulated" in page_of(subject_of(calibration_of()))


def test_the_supplys_power_is_named():
    subject = subject_of(capture_of(), "supply", ("power",))
    assert subject.lines[0].value == pytest.approx(3.3 * 13.0065e-3 / 1.3, rel=1e-9)
    assert "the supply's, shunt included" in words(page_of(subject, power="supply"))


def test_a_calibration_has_a_budget_of_its_own():
    page = page_of(subject_of(calibration_of()))
    # 1 % rectangular of 0.98: 0.0098 / sqrt(3) = 0.00566; 95 % of its half-width is 0.0093.
    assert re.search(r"supply +B +rect\. +0\.58 % +0\.98 +0\.0057 +100 %", page)
    assert re.search(r"reading +A +Student +200 nV +-73\.5 1/V +0\.000015 +< 1 % +29", page)
    assert "0.9800 ± 0.0093, or 0.9800(93)" in page
    assert "Gain" in page
    (found,) = to_json([subject_of(calibration_of())], "dut")["calibrations"]
    assert found["kind"] == "gain"
    assert found["budget"]["standard"] == pytest.approx(0.0098 / math.sqrt(3), rel=1e-4)
    assert found["budget"]["expanded"] == pytest.approx(0.95 * 0.0098, rel=1e-4)


def test_a_time_base_is_told_in_ppm_and_a_zero_without_contributions_by_itself():
    crystal = Contribution("crystal", "B", "rectangular", 60e-6 / math.sqrt(3), "1", 60e-6 / math.sqrt(3))
    page = page_of(subject_of(calibration_of("timebase", 3.2e-6, parts=(crystal,))))
    assert "(3 ± 57) ppm, or 3(57) ppm" in words(page)
    assert re.search(r"crystal +B +rect\. +35 ppm +1 +35 ppm +100 %", page)
    assert "no contributions" in page_of(subject_of(calibration_of("zero", 1e-3, "V", parts=())))


def test_results_of_one_bench_and_of_two_are_compared():
    first = subject_of(capture_of(), quantities=("energy",))
    same = subject_of(capture_of(380, 20e-3, name="aes-128-ctr"), quantities=("energy",))
    other = subject_of(capture_of(380, 20e-3, "window", "2", name="aes-128-ctr"), quantities=("energy",))
    page = words(page_of(first, same, calibration := subject_of(calibration_of())))
    assert "The energy of 2 results beside each other" in page
    assert "All were taken on one bench (desk, scope 1)." in page
    assert "One and the same error in both" in page
    page = words(page_of(first, same, other))
    assert "They were taken on 2 benches (A: desk, scope 1; B: window, scope 2)." in page

    document = to_json([first, same, calibration, other], "dut")
    compared = document["comparison"]["energy"]
    assert np.array(compared["correlation"]).shape == (3, 3)
    near, far = compared["ratios"]
    assert (near["numerator"], near["denominator"], near["same_bench"]) == (1, 0, True)
    assert (far["numerator"], far["same_bench"], far["shared_keys"]) == (2, False, [])
    either = [s.lines[0].interval.standard / s.lines[0].value for s in (first, same)]
    assert near["standard"] / near["value"] < 0.2 * min(either)
    assert far["standard"] / far["value"] == pytest.approx(math.hypot(*either), rel=1e-3)
    json.dumps(document, allow_nan=False)


def on_board(board, facts, *arguments, supply_v=3.3, **options):
    capture = capture_of(*arguments, **options)
    wiring = dataclasses.replace(WIRING, supply=Supply(supply_v))
    return dataclasses.replace(capture, wiring=wiring, board={**capture.board, "name": board},
                               provenance={"bench": {**facts, "board": board}})


@pytest.mark.parametrize(
    "facts", [{"name": "desk", "emulated": False}, {"name": "emulated", "emulated": True, "seed": 3}]
)
def test_two_boards_of_one_bench_share_its_shunt_and_have_rails_of_their_own(facts):
    drops_v, volts = (13e-3, 20e-3), (3.3, 3.0)
    first = subject_of(on_board("f1", facts, 300, drops_v[0], supply_v=volts[0]), quantities=("energy",))
    other = subject_of(on_board("f4", facts, 380, drops_v[1], supply_v=volts[1]), quantities=("energy",))
    (found,) = to_json([first, other], "dut")["comparison"]["energy"]["ratios"]
    # E = (V - x) x T / R: the shunt's 1 % cancels, each rail's 1 % counts by V/(V - x), and of the gain's 2 %, the
    # same for both, what (V - 2 x)/(V - x) differs by is left.
    x_v = [drop * 1.0005 for drop in drops_v]
    rails = [0.01 / math.sqrt(3) * v / (v - x) for v, x in zip(volts, x_v, strict=True)]
    gains = [0.02 / math.sqrt(3) * (v - 2 * x) / (v - x) for v, x in zip(volts, x_v, strict=True)]
    named = ("shunt", "supply", "gain CH1", "time base")
    own = [c.effect / s.lines[0].value for s in (first, other) for c in s.lines[0].contributions if c.name not in named]
    assert found["standard"] / found["value"] == pytest.approx(
        math.hypot(*rails, gains[0] - gains[1], *own), rel=1e-3)
    assert math.hypot(*own) < 0.25 * math.hypot(*rails)
    assert found["same_bench"] is True
    assert {key.split()[0] for key in found["shared_keys"]} == {"shunt", "gain", "time"}

    page = words(page_of(first, other))
    assert "All were taken on one bench" in page
    assert "on 2 boards." in page
    assert "supply (another board)" in page
    assert "sha256, 64 B, f4" in page


def test_why_an_error_is_counted_twice():
    facts = {"name": "desk", "emulated": False}
    first = subject_of(on_board("f1", facts), quantities=("energy",))
    capture = on_board("f1", facts, supply_v=5.0)
    drop = capture.records["series"].channels["CH1"]
    drop = dataclasses.replace(drop, scale=2e-6, codes=drop.codes // 2)
    zero = Record({"CH1": Channel("CH1", np.ones((1, 1000), np.int16), 2e-6, 0.0)}, DT_S, np.zeros(1),
                  capture.records["series"].instrument)
    series = capture.records["series"]
    records = {"series": dataclasses.replace(series, channels={**series.channels, "CH1": drop}), "zero": zero}
    other = subject_of(dataclasses.replace(capture, records=records), quantities=("energy",))
    page = words(page_of(first, other))
    assert "Separate errors, which add up in a ratio:" in page
    for said in ("supply (stated otherwise)", "gain CH1 (another range)", "zero quantisation CH1 (another reading)"):
        assert said in page
    assert "Separate errors" not in words(page_of(first, first))
    elsewhere = subject_of(on_board("f1", {"name": "window"}, serial="2"), quantities=("energy",))
    assert re.search(r"shunt, .*supply.* \(another bench\)", words(page_of(first, elsewhere)))


def test_many_results_still_fit_the_page():
    subjects = [subject_of(capture_of(name=f"ecdsa-p256.operation-{k}"), quantities=("energy",)) for k in range(12)]
    page = page_of(*subjects)
    assert "The energy of 12 results" in page


def test_a_capture_of_no_known_bench_shares_nothing():
    unknown = dataclasses.replace(capture_of(), provenance={})
    subjects = [subject_of(unknown, quantities=("energy",))] * 2
    page = words(page_of(*subjects))
    assert "bench unknown" in page
    assert "A capture whose bench is not known (?) shares nothing that is known." in page
    assert to_json(subjects, "dut")["comparison"]["energy"]["ratios"][0]["same_bench"] is False


def keys_in(value, inside=()):
    """Collect the keys of an object, but for those whose names are data."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in ("duration", "power", "energy", "bench", "instrument", *inside):
                yield key
            if key not in ("bench", "instrument"):
                yield from keys_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from keys_in(item)


def test_the_document_names_every_key():
    subjects = [subject_of(capture_of(), monte_carlo=True), subject_of(capture_of()), subject_of(calibration_of())]
    contract = (Path(__file__).parents[2] / "docs" / "budget-json.md").read_text(encoding="utf-8")
    missing = {key for key in keys_in(to_json(subjects, "dut")) if f"`{key}`" not in contract}
    assert missing == set()


def test_trials_confirm_a_budget_and_the_page_says_how_far():
    subject = subject_of(capture_of(), monte_carlo=True)
    for line in subject.lines:
        assert line.validation is not None
        assert line.validation.n_digits >= 1, line.quantity
    page = words(page_of(subject))
    assert "Monte Carlo trials 95 % from 9.6" in page
    assert "digits of the standard uncertainty (JCGM 101, 8.1)" in page
    checked = to_json([subject], "dut")["results"][0]["budgets"]["duration"]["monte_carlo"]
    assert checked["n_digits"] == 2
    assert checked["low"] < checked["mean"] < checked["high"]


def test_an_interval_that_trials_do_not_confirm_is_said():
    subject = subject_of(capture_of(), quantities=("energy",), monte_carlo=True)
    (line,) = subject.lines
    off = dataclasses.replace(line.validation, n_digits=0)
    page = words(page_of(dataclasses.replace(subject, lines=(dataclasses.replace(line, validation=off),))))
    assert "they do not agree, not even to one digit" in page
    # Three limits with the normal factor: the stated interval holds that of the trials, which is 4 % narrower.
    assert "(JCGM 101, 8.1), the stated interval is the wider one at both ends" in page
    narrow = dataclasses.replace(off, low_difference=1e-9)
    page = words(page_of(dataclasses.replace(subject, lines=(dataclasses.replace(line, validation=narrow),))))
    assert "(JCGM 101, 8.1)" in page
    assert "wider" not in page


def test_a_capture_that_gives_no_number_is_named():
    broken = dataclasses.replace(capture_of(), records={"zero": capture_of().records["zero"]})
    with pytest.raises(CaptureError, match=r"sha256\.h5: .*holds no series"):
        subject_of(broken)
