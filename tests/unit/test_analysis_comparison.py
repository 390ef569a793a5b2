"""Ratios of results: what benches share cancels, what they do not adds up; closed forms, then whole captures."""

import dataclasses
import math

import numpy as np
import pytest
from uncertainties import ufloat

from instruments.record import Accuracy, Channel, Identity, Record
from labctl.analysis.comparison import correlation, ratio, tracked
from labctl.analysis.result import analyze
from labctl.errors import ConfigError
from labctl.model import Capture, Contribution, Operation, Result, Shunt, Supply, Wiring

NOT_OF_INTEREST = {
    f.name: 0 for f in dataclasses.fields(Result) if f.default is dataclasses.MISSING
    and f.default_factory is dataclasses.MISSING
}


def made_result(energy_j, **parts):
    """Make a result whose energy has these relative standard uncertainties; "shunt_1" has the key "shunt_1"."""
    budget = tuple(
        Contribution(name, "B", "normal", abs(size), "1", size * energy_j, key="" if name == "repeatability" else name)
        for name, size in parts.items()
    )
    return Result(**{**NOT_OF_INTEREST, "operation": "made", "energy_mean_j": energy_j}, budget={"energy": budget})


# Gain 2 %, shunt and supply 1 %, rectangular, in percent of the energy; 0.3 % and 0.4 % of scatter.
GAIN, SHUNT, SUPPLY = 0.02 / math.sqrt(3), -0.01 / math.sqrt(3), 0.01 / math.sqrt(3)


def relative(comparison):
    return comparison.interval.standard / comparison.value


def test_on_one_bench_gain_shunt_and_supply_cancel():
    a = made_result(10e-6, gain_1=GAIN, shunt_1=SHUNT, supply_1=SUPPLY, repeatability=0.003)
    b = made_result(4e-6, gain_1=GAIN, shunt_1=SHUNT, supply_1=SUPPLY, repeatability=0.004)
    found = ratio(a, b, "energy")
    assert found.value == pytest.approx(2.5)
    # Only the scatter of both is left: sqrt(0.3^2 + 0.4^2) = 0.5 %.
    assert relative(found) == pytest.approx(0.005, rel=1e-9)
    assert found.expanded == pytest.approx(1.959964 * 0.005 * 2.5, rel=1e-6)
    assert found.coverage_factor == pytest.approx(1.959964, rel=1e-6)
    either = [math.sqrt(GAIN**2 + SHUNT**2 + SUPPLY**2 + own**2) for own in (0.003, 0.004)]
    assert relative(found) < min(either)
    assert sorted(c.name for c in found.contributions) == ["repeatability", "repeatability"]
    assert found.shared_keys == ("gain_1", "shunt_1", "supply_1")


def test_on_two_benches_everything_adds_up():
    a = made_result(10e-6, gain_1=GAIN, shunt_1=SHUNT, supply_1=SUPPLY, repeatability=0.003)
    b = made_result(4e-6, gain_2=GAIN, shunt_2=SHUNT, supply_2=SUPPLY, repeatability=0.004)
    found = ratio(a, b, "energy")
    either = [math.sqrt(GAIN**2 + SHUNT**2 + SUPPLY**2 + own**2) for own in (0.003, 0.004)]
    assert relative(found) == pytest.approx(math.hypot(*either), rel=1e-9)
    assert relative(found) > max(either)
    assert found.shared_keys == ()
    assert correlation([a, b], "energy") == pytest.approx(np.eye(2))


def test_one_scope_and_two_shunts_share_the_gain_alone():
    a = made_result(10e-6, gain_1=GAIN, shunt_1=SHUNT, supply_1=SUPPLY, repeatability=0.003)
    b = made_result(4e-6, gain_1=GAIN, shunt_2=SHUNT, supply_2=SUPPLY, repeatability=0.004)
    found = ratio(a, b, "energy")
    assert relative(found) == pytest.approx(math.sqrt(2 * SHUNT**2 + 2 * SUPPLY**2 + 0.005**2), rel=1e-9)
    assert found.shared_keys == ("gain_1",)


def test_an_error_that_acts_differently_leaves_its_difference():
    # A square in the one, linear in the other: 2 x 1 % less 1 %.
    found = ratio(made_result(2.0, supply=0.02), made_result(1.0, supply=0.01), "energy")
    (part,) = found.contributions
    assert part.effect / found.value == pytest.approx(0.01, rel=1e-9)
    assert relative(found) == pytest.approx(0.01, rel=1e-9)
    # Of opposite sign they add.
    assert relative(ratio(made_result(2.0, supply=0.02), made_result(1.0, supply=-0.01))) == pytest.approx(0.03)


def test_correlation_is_the_shared_part_of_the_variance():
    a = made_result(10e-6, gain_1=0.03, repeatability=0.04)
    b = made_result(4e-6, gain_1=0.03, repeatability=0.04)
    c = made_result(1e-6, gain_1=-0.03)
    found = correlation([a, b, c, made_result(1.0)], "energy")
    shared = 0.03**2 / (0.03**2 + 0.04**2)
    assert found == pytest.approx(np.array([
        [1, shared, -0.6, 0], [shared, 1, -0.6, 0], [-0.6, -0.6, 1, 0], [0, 0, 0, 1],
    ]), abs=1e-12)


def test_tracked_numbers_go_on_to_be_computed_with():
    a, b = tracked([made_result(10.0, gain=0.01, repeatability=0.02), made_result(4.0, gain=0.01)], "energy")
    assert (a - 2.5 * b).std_dev == pytest.approx(0.2)
    assert (a + b).std_dev == pytest.approx(math.hypot(0.14, 0.2))
    # As the package itself does it.
    gain = ufloat(1, 0.01)
    assert (a / b).std_dev == pytest.approx((10.0 * gain * ufloat(1, 0.02) / (4.0 * gain)).std_dev)


def test_contributions_of_one_key_within_a_result_are_one_error():
    twice = Contribution("supply", "B", "normal", 0.01, "1", 0.01, key="supply")
    result = dataclasses.replace(made_result(1.0), budget={"energy": (twice, dataclasses.replace(twice, effect=0.02))})
    assert tracked([result], "energy")[0].std_dev == pytest.approx(0.03)


def test_a_ratio_to_something_barely_known_comes_from_trials():
    # 1 / B with B = 1 +- 0.2, normal: |1/B - 1| < q where B lies between 1/(1 + q) and 1/(1 - q).
    found = ratio(made_result(1.0), made_result(1.0, repeatability=0.2), "energy")
    assert "Monte Carlo" in found.interval.method
    q = found.expanded
    high, low = (1 / (1 - q) - 1) / 0.2, (1 - 1 / (1 + q)) / 0.2
    inside = 0.5 * (math.erf(high / math.sqrt(2)) + math.erf(low / math.sqrt(2)))
    assert inside == pytest.approx(0.95, abs=2e-3)


def test_what_cannot_be_compared_is_said():
    with pytest.raises(ConfigError, match="no 'charge' to compare"):
        ratio(made_result(1.0), made_result(1.0), "charge")
    with pytest.raises(ConfigError, match="is zero"):
        ratio(made_result(1.0), made_result(0.0), "energy")


# ---- whole captures

SHEET = Accuracy(0.02, 5e-3, 1e-6, "data sheet")
WIRING = Wiring(Shunt(1.3, decoupling_f=0.0), Supply(3.3), shunt_channel="CH1", trigger_channel="CH2")


def measured(run_v, n, bench="desk", serial="1", shunt_ohm=1.3):
    """Analyse a capture of twenty flat windows of n samples, whose drop differs by up to 0.1 % between runs."""
    identity = Identity("maker", "scope", serial, "1.0")
    drop, line = np.full((20, 600), 4000, np.int16), np.zeros((20, 600), np.uint8)
    for row in range(20):
        drop[row, 200 : 200 + n] = round(run_v * (1 + 1e-3 * (row % 2)) / 1e-6)
        line[row, 200 : 200 + n] = 200
    channels = {"CH1": Channel("CH1", drop, 1e-6, 0.0, accuracy=SHEET), "CH2": Channel("CH2", line, 3.3 / 200, 0.0)}
    series = Record(channels, 1e-6, np.arange(20.0), identity, timebase_ratio=1e-5)
    zero = Record({"CH1": Channel("CH1", np.zeros((1, 1000), np.int16), 1e-6, 0.0)}, 1e-6, np.zeros(1), identity)
    wiring = dataclasses.replace(WIRING, shunt=Shunt(shunt_ohm, decoupling_f=0.0))
    return analyze(Capture({"series": series, "zero": zero}, wiring, Operation("made", n_runs=20),
                           {"pins": {"level_v": 3.3}}, provenance={"bench": {"name": bench}}))


@pytest.mark.parametrize("quantity", ["power", "energy"])
def test_captures_of_one_bench_compare_better_than_either_is_known(quantity):
    a, b = measured(13e-3, 300), measured(20e-3, 380)
    either = [r.intervals[quantity].standard / getattr(r, f"{quantity}_mean_{u}")
              for r in (a, b) for u in ("w" if quantity == "power" else "j",)]
    one = ratio(a, b, quantity)
    assert relative(one) < 0.2 * min(either)
    # The gain acts by (V - 2 v)/(V - v), the supply by V/(V - v): their differences are left, beside scatter and edges.
    gain, supply = ((3.3 - k * 13e-3) / 3.287 - (3.3 - k * 20e-3) / 3.28 for k in (2, 0))
    parts = {c.name: c.effect / one.value for c in one.contributions if c.key}
    assert parts["gain CH1"] == pytest.approx(gain * GAIN, rel=1e-3)
    assert parts["supply"] == pytest.approx(supply * SUPPLY, rel=1e-3)
    assert abs(parts.get("shunt", 0.0)) < 1e-9
    assert correlation([a, b], quantity)[0, 1] > 0.99

    other = measured(20e-3, 380, bench="window", serial="2")
    assert relative(ratio(a, other, quantity)) == pytest.approx(math.hypot(*either), rel=1e-3)
    assert relative(ratio(a, other, quantity)) > max(either)
    assert correlation([a, other], quantity)[0, 1] == pytest.approx(0, abs=1e-12)


def test_one_scope_carried_to_another_bench_shares_gain_and_time_base():
    a, carried = measured(13e-3, 300), measured(20e-3, 380, bench="window")
    found = ratio(a, carried, "energy")
    assert {key.split(",")[0].split(" {")[0] for key in found.shared_keys} == {"gain CH1", "time base"}
    limits = 2 * SHUNT**2 + SUPPLY**2 * ((3.3 / 3.287) ** 2 + (3.3 / 3.28) ** 2)
    edges = (1 / 300**2 + 1 / 380**2) / 6
    assert relative(found) == pytest.approx(math.sqrt(limits + edges), rel=2e-3)
    another_shunt = measured(20e-3, 380, shunt_ohm=2.0)
    assert not any(key.startswith("shunt") for key in ratio(a, another_shunt, "energy").shared_keys)
    assert any(key.startswith("supply") for key in ratio(a, another_shunt, "energy").shared_keys)


def test_a_result_over_itself_measured_again_differs_by_its_own_errors_only():
    a = measured(13e-3, 300)
    found = ratio(a, measured(13e-3, 300), "duration")
    assert found.value == pytest.approx(1.0, rel=1e-12)
    # Edges alone: two resolutions of dt/sqrt(6).
    assert found.interval.standard == pytest.approx(math.sqrt(2 / 6) / 300, rel=1e-6)
