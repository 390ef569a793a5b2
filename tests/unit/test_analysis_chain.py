"""The chain with calibrations in force: values and budgets in closed form, and intervals that hold drawn errors."""

import dataclasses
import math

import numpy as np
import pytest

from instruments.record import Accuracy, Channel, Identity, Record
from labctl.analysis import keys
from labctl.analysis.comparison import ratio
from labctl.analysis.montecarlo import run_trials, validate
from labctl.analysis.result import analyze, examine
from labctl.analysis.uncertainty import SKEW_LIMIT_S, rectangular
from labctl.model import Calibration, Capture, Contribution, Operation, Shunt, Supply, Wiring

IDENTITY = Identity("maker", "scope", "1", "1.0")
BENCH = {"name": "desk"}
KEYS = keys.Keys.of(BENCH, IDENTITY)
DT_S, N, N_SAMPLES = 1e-6, 300, 700
OHM, SUPPLY_V, LOAD_OHM = 1.3, 3.3, 330.0
RUN_V = 13e-3
U_SUPPLY, U_SHUNT, U_LOAD, U_GAIN = (rectangular(a) for a in (0.01, 0.01, 0.001, 0.02))
SHEET = Accuracy(0.02, 5e-3, 1e-6, "data sheet")
WIRING = Wiring(Shunt(OHM, decoupling_f=0.0), Supply(SUPPLY_V), shunt_channel="CH1", trigger_channel="CH2")
# A load in the DUT's place draws V / (R_load + R): of 1 % of its resistance the current feels this share.
SHARE = LOAD_OHM / (LOAD_OHM + OHM)


def shunt_channel(drop_v):
    """Show a drop, (samples,), in each of twenty runs, in steps of 1 µV."""
    codes = np.rint(np.tile(drop_v, (20, 1)) / 1e-6).astype(np.int16)
    return Channel("CH1", codes, 1e-6, 0.0, accuracy=SHEET)


def record_of(drop_v, *, late=0, **more):
    line = np.zeros((20, N_SAMPLES), np.uint8)
    line[:, 200 : 200 + N] = 200
    channels = {"CH1": shunt_channel(np.roll(drop_v, late)), "CH2": Channel("CH2", line, 3.3 / 200, 0.0), **more}
    return Record(channels, DT_S, np.arange(20.0), IDENTITY, timebase_ratio=1e-5)


def flat(inside_v=RUN_V, idle_v=4e-3):
    drop = np.full(N_SAMPLES, idle_v)
    drop[200 : 200 + N] = inside_v
    return drop


def capture_of(record, calibrations=(), wiring=WIRING):
    zero = Record({"CH1": shunt_channel(np.zeros(N_SAMPLES))}, DT_S, np.zeros(20), IDENTITY)
    return Capture({"series": record, "zero": zero}, wiring, Operation("made", n_runs=20), {"pins": {"level_v": 3.3}},
                   provenance={"bench": BENCH}, calibrations=tuple(calibrations))


def calibration_of(kind, value, unit, parts, **more):
    return Calibration(kind, value, unit, tuple(parts), IDENTITY, KEYS.bench, "made up", "2026-11-01T00:00:00Z",
                       "2027-11-01T00:00:00Z", **more)


def gain_of(value, parts=None):
    """Make a gain calibration by a load that the bench's own supply feeds."""
    if parts is None:
        parts = [
            Contribution("load", "B", "rectangular", U_LOAD, "1", -SHARE * U_LOAD, key="load"),
            Contribution("supply", "B", "rectangular", U_SUPPLY, "1", U_SUPPLY, key=KEYS.supply(WIRING.supply)),
            Contribution("shunt", "B", "rectangular", U_SHUNT, "1", -(1 - SHARE) * U_SHUNT,
                         key=KEYS.shunt(WIRING.shunt)),
        ]
    return calibration_of("gain", value, "1", parts, channels={"CH1": keys.settings(shunt_channel(flat()))},
                          shunt_ohm=OHM)


def energy_j(volts, current_a, ohm=OHM):
    return (volts - ohm * current_a) * current_a * N * DT_S


def effects(result, quantity="energy"):
    """Give the relative effect of each contribution over its relative standard uncertainty."""
    value = {"energy": result.energy_mean_j, "power": result.power_mean_w, "duration": result.duration_mean_s}[quantity]
    return {c.name: c.effect / c.standard / value for c in result.budget[quantity]}


def test_a_gain_calibration_scales_the_current_and_the_true_drop_is_that_of_the_shunt():
    # Read 2 % too much: 13 mV where 13 / 1.02 mV are. The drop of that current is taken off the DUT's voltage.
    result = analyze(capture_of(record_of(flat()), [gain_of(1 / 1.02)]))
    current_a = RUN_V / OHM / 1.02
    assert result.current_mean_a == pytest.approx(current_a, rel=1e-12)
    assert result.energy_mean_j == pytest.approx(energy_j(SUPPLY_V, current_a), rel=1e-12)
    assert result.power_supply_mean_w == pytest.approx(SUPPLY_V * current_a, rel=1e-12)
    assert result.runs[0].current_before_a == pytest.approx(4e-3 / OHM / 1.02, rel=1e-12)
    assert result.power_max_w == pytest.approx((SUPPLY_V - OHM * current_a) * current_a, rel=1e-12)


def test_with_a_load_on_the_same_supply_the_energy_goes_with_its_square_and_hardly_with_the_shunt():
    k = 0.99
    result = analyze(capture_of(record_of(flat()), [gain_of(k)]))
    found = effects(result)
    assert "gain CH1" not in found
    # i = c V with c = k x / (R V_nominal): E = T (c - R c^2) V^2.
    assert found["supply"] == pytest.approx(2, rel=1e-7)
    # With r of the shunt, i goes by 1 - a r, a = R / (R_load + R), the drop by (1 + r)(1 - a r).
    a, drop_v = 1 - SHARE, k * RUN_V
    below_v = SUPPLY_V - drop_v
    assert found["shunt"] == pytest.approx(-(a * SUPPLY_V + drop_v * (1 - 2 * a)) / below_v, rel=1e-4)
    assert abs(found["shunt"]) < 0.01
    # The load, and whatever else the factor is uncertain by: (V - 2 x)/(V - x).
    load = next(c for c in result.budget["energy"] if c.name == "gain calibration: load")
    expected = -SHARE * U_LOAD * (SUPPLY_V - 2 * drop_v) / below_v
    assert load.effect / result.energy_mean_j == pytest.approx(expected, rel=1e-9)
    assert load.key == "load"
    # 95 % of twice the supply's 1 %; load, shunt and edges add little to that.
    assert 0.95 * 0.02 < result.energy_expanded_j / result.energy_mean_j < 1.02 * 0.95 * 0.02


def test_a_better_supply_at_the_measurement_does_not_better_what_the_calibration_rests_on():
    # The load's current came from the supply of 1 % of then; the one of 0.01 % is another.
    wiring = dataclasses.replace(WIRING, supply=dataclasses.replace(WIRING.supply, tolerance_ratio=1e-4))
    result = analyze(capture_of(record_of(flat()), [gain_of(0.99)], wiring))
    # 95 % of a rectangle of 1 %, the load's 0.1 % beside it.
    assert 0.95 * 0.01 < result.energy_expanded_j / result.energy_mean_j < 1.1 * 0.95 * 0.01
    shares = effects(result)
    assert shares["supply"] == pytest.approx(1, rel=0.02)
    assert shares["gain calibration: supply"] == pytest.approx(1, rel=0.02)


def test_trials_confirm_the_budget_of_a_calibrated_capture():
    result, (terms, model) = examine(capture_of(record_of(flat()), [gain_of(0.99)]))
    energy = run_trials(terms, model, finer=5)[2]
    assert validate(result.energy_expanded_j, energy).n_digits >= 1
    assert energy.half_width == pytest.approx(result.energy_expanded_j, rel=5e-3)


def test_results_under_one_gain_calibration_share_its_errors():
    calibrated = [gain_of(0.99)]
    a = analyze(capture_of(record_of(flat()), calibrated))
    b = analyze(capture_of(record_of(flat(20e-3)), calibrated))
    found = ratio(a, b, "energy")
    assert {"load", KEYS.supply(WIRING.supply), KEYS.shunt(WIRING.shunt)} <= set(found.shared_keys)
    limits = [c for c in found.contributions if c.name in ("supply", "shunt", "gain calibration: load")]
    assert math.hypot(*(c.effect for c in limits)) < 1e-4 * found.value


def test_the_stated_interval_holds_what_drawn_errors_do():
    # The world: a load calibrates, then 10 mA flow; everything off its nominal value inside its limit, rectangular.
    generator = np.random.default_rng(17)
    n = 4000
    shunt, supply, gain = (1 + generator.uniform(-a, a, n) for a in (0.01, 0.01, 0.02))
    load, clock = (1 + generator.uniform(-a, a, n) for a in (0.001, 1e-5))
    current_a = RUN_V / OHM
    ohm, volts = OHM * shunt, SUPPLY_V * supply
    truth_j = energy_j(volts, current_a, ohm)
    # What is read, and what is made of it with nominal values.
    read_v = gain * ohm * volts / (LOAD_OHM * load + ohm)
    k = SUPPLY_V / (LOAD_OHM + OHM) / (read_v / OHM)
    found_a = k * gain * ohm * current_a / OHM
    calibrated_j = energy_j(SUPPLY_V, found_a) * clock
    plain_j = energy_j(SUPPLY_V, gain * ohm * current_a / OHM) * clock
    # Calibrated, the supply dominates, which enters twice: its distribution. Else three limits, of half-widths 2, 1 and
    # 1 %, have the normal factor, q = 1.96 sqrt(6/3); beyond q lie (4 - q)^3 / 48, beyond 4 - 2.4^(1/3) five percent.
    q = 1.96 * math.sqrt(2)
    dominated, normal = (0.95, 1.0), (1 - (4 - q) ** 3 / 48, q / (4 - 2.4 ** (1 / 3)))
    for measured_j, calibrations, (share, wide) in (
        (calibrated_j, [gain_of(1.0)], dominated), (plain_j, [], normal),
    ):
        result = analyze(capture_of(record_of(flat()), calibrations))
        half_j = result.energy_expanded_j / result.energy_mean_j * measured_j
        held = np.mean(np.abs(measured_j - truth_j) <= half_j)
        # Four standard deviations of a share of 95 %.
        assert held == pytest.approx(share, abs=4 * math.sqrt(0.95 * 0.05 / n))
        tightness = np.mean(half_j) / np.quantile(np.abs(measured_j - truth_j), 0.95)
        assert tightness == pytest.approx(wide, abs=0.03)


def test_a_supply_that_one_channel_measures_both_times_is_one_error():
    supply = Channel("CH4", np.full((20, N_SAMPLES), 3300, np.int16), 1e-3, 0.0, accuracy=SHEET)
    wiring = dataclasses.replace(WIRING, supply=Supply(None, channel="CH4"))
    parts = [Contribution("gain CH4", "B", "rectangular", U_GAIN, "1", U_GAIN, key=KEYS.gain(supply))]
    capture = capture_of(record_of(flat(), CH4=supply), [gain_of(1.0, parts)], wiring)
    result, (terms, model) = examine(capture)
    assert effects(result)["gain CH4"] == pytest.approx(2, rel=1e-7)
    assert "gain calibration: gain CH4" not in effects(result)
    # Trials draw it once as well; drawn twice it would come to sqrt(2).
    power = run_trials(terms, model)[1]
    assert power.half_width == pytest.approx(result.power_expanded_w, rel=0.01)


@pytest.mark.parametrize("late", [5, -3])
def test_a_deskew_calibration_moves_the_windows_to_where_the_shunt_shows_them(late):
    settings = {"CH1": keys.settings(shunt_channel(flat())), "CH2": {}}
    deskew = calibration_of("deskew", late * DT_S, "s", [
        Contribution("repeatability", "A", "normal", 2e-9, "s", 2e-9, 19, key="deskew")], channels=settings)
    record = record_of(flat(), late=late)
    moved = analyze(capture_of(record, [deskew]))
    assert moved.energy_mean_j == pytest.approx(energy_j(SUPPLY_V, RUN_V / OHM), rel=1e-9)
    assert moved.duration_mean_s == pytest.approx(N * DT_S, rel=1e-12)
    assert moved.runs[0].start_s == pytest.approx(199.5 * DT_S, rel=1e-9)
    # Without, as many samples at the idle level come in.
    left = analyze(capture_of(record))
    part = abs(late) * (energy_j(SUPPLY_V, RUN_V / OHM) - energy_j(SUPPLY_V, 4e-3 / OHM)) / N
    assert moved.energy_mean_j - left.energy_mean_j == pytest.approx(part, rel=1e-6)


def rising(tau_s, late_s=0.0):
    """Rise from 4 to 13 mV at the start of the window, first order, and stay there."""
    t = (np.arange(N_SAMPLES) - 199.5) * DT_S - late_s
    return RUN_V - 9e-3 * np.exp(-np.clip(t, 0, None) / tau_s)


def test_what_is_left_of_the_skew_weighs_the_change_of_current_over_the_window():
    wiring = dataclasses.replace(WIRING, shunt=Shunt(OHM, decoupling_f=10e-6), supply=Supply(SUPPLY_V, sensed="dut"))
    settings = {"CH1": keys.settings(shunt_channel(flat())), "CH2": {}}
    deskew = calibration_of("deskew", 0.0, "s", [
        Contribution("repeatability", "A", "normal", 2e-9, "s", 2e-9, 19, key="deskew")], channels=settings)
    record = record_of(rising(OHM * 10e-6))
    plain = {c.name: c for c in analyze(capture_of(record, wiring=wiring)).budget["energy"]}
    known = {c.name: c for c in analyze(capture_of(record, [deskew], wiring)).budget["energy"]}
    # E changes by V (i_stop - i_start) for each second that the window moves.
    slope_w = SUPPLY_V * 9e-3 / OHM
    assert plain["skew"].standard == pytest.approx(rectangular(SKEW_LIMIT_S), rel=1e-12)
    assert plain["skew"].effect == pytest.approx(slope_w * rectangular(SKEW_LIMIT_S), rel=1e-3)
    assert "skew" not in known
    left = known["deskew calibration: repeatability"]
    assert left.effect == pytest.approx(slope_w * 2e-9, rel=1e-3)
    assert (left.evaluation, left.degrees_of_freedom, left.key) == ("A", 19, "deskew")


def test_a_time_base_calibration_scales_time_and_energy_and_takes_the_limits_place():
    u = rectangular(1e-6)
    pulse = Contribution("pulse", "B", "rectangular", u, "1", u, key="pulse")
    timebase = calibration_of("timebase", 8e-6, "1", [pulse])
    plain, found = analyze(capture_of(record_of(flat()))), analyze(capture_of(record_of(flat()), [timebase]))
    assert found.duration_mean_s == pytest.approx(plain.duration_mean_s * (1 + 8e-6), rel=1e-12)
    assert found.energy_mean_j == pytest.approx(plain.energy_mean_j * (1 + 8e-6), rel=1e-12)
    assert found.power_mean_w == pytest.approx(plain.power_mean_w, rel=1e-12)
    names = {c.name: c for c in found.budget["duration"]}
    assert "time base" not in names
    assert names["time base calibration: pulse"].effect == pytest.approx(u * found.duration_mean_s, rel=1e-6)
    assert next(c for c in plain.budget["duration"] if c.name == "time base").standard == pytest.approx(10 * u)
