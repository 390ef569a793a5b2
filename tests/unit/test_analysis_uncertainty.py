"""Budgets against the GUM's own numbers and closed forms; sensitivities against measuring again."""

import math
from dataclasses import replace

import numpy as np
import pytest

from instruments.record import Accuracy, Channel, Identity, Record
from labctl.analysis import uncertainty
from labctl.analysis.chain import Deviation, zero_applies
from labctl.analysis.distribution import half_width
from labctl.analysis.power import measure_windows
from labctl.analysis.statistics import student_factor
from labctl.analysis.uncertainty import Input, deviated, expanded, interval, propagate, rectangular, shared_inputs
from labctl.errors import CaptureError
from labctl.model import Contribution, Shunt, Supply, Window, Wiring


def part(effect, distribution="normal", degrees=math.inf):
    evaluation = "A" if math.isfinite(degrees) else "B"
    return Contribution("x", evaluation, distribution, abs(effect), "1", effect, degrees)


def test_rectangular_and_edge_resolution_by_integration():
    # Variance of a rectangle of half-width a: a^2/3. Two edges, each uniform over one interval: 2 dt^2/12.
    assert rectangular(3.0) == pytest.approx(math.sqrt(3))
    assert uncertainty.edge_resolution(1e-6) == pytest.approx(math.sqrt(2 / 12) * 1e-6)


def test_normal_inputs_have_the_normal_factor():
    half, factor = expanded([part(3.0), part(-4.0)])
    assert factor == pytest.approx(1.95996, abs=1e-4)
    assert half == pytest.approx(1.95996 * 5, abs=1e-3)


def test_effective_degrees_of_freedom_as_in_the_guides_example():
    # JCGM 100:2008, H.1.6, end gauge: 25 nm (18), 9.7 nm (25.6), 2.9 nm (50) and 16.6 nm (2) give 16.7.
    parts = [part(25, degrees=18), part(9.7, degrees=25.6), part(2.9, degrees=50), part(16.6, degrees=2)]
    assert uncertainty.effective_degrees_of_freedom(parts) == pytest.approx(16.7, abs=0.1)
    assert uncertainty.effective_degrees_of_freedom([part(1.0)]) == math.inf


def test_a_few_runs_alone_have_students_factor():
    half, factor = expanded([part(2.0, degrees=19)])
    assert factor == pytest.approx(2.093, abs=5e-4)
    assert half == pytest.approx(2 * 2.093, abs=1e-3)


def test_one_rectangle_alone_is_covered_by_95_percent_of_its_half_width():
    half, factor = expanded([part(rectangular(1.0), "rectangular")])
    assert half == pytest.approx(0.95, abs=1e-3)
    assert factor == pytest.approx(0.95 * math.sqrt(3), abs=2e-3)


def test_two_equal_rectangles_make_a_triangle():
    # P(|s| < q) = 1 - (1 - q/2)^2 for two of half-width 1: q = 2 (1 - sqrt(0.05)).
    half, _ = expanded([part(rectangular(1.0), "rectangular")] * 2)
    assert half == pytest.approx(2 * (1 - math.sqrt(0.05)), abs=1e-4)


def test_trapezoid_of_two_unequal_rectangles():
    # Half-widths 2 and 1: beyond 1 the density falls linearly from 1/4 to 0 at 3; tails (3 - q)^2 / 8 = 0.05.
    half, _ = expanded([part(rectangular(2.0), "rectangular"), part(rectangular(1.0), "rectangular")])
    assert half == pytest.approx(3 - math.sqrt(8 * 0.05), abs=1e-4)


def test_three_rectangles_none_of_which_dominates_have_the_normal_factor_and_hold_96_percent():
    parts = [part(rectangular(a), "rectangular") for a in (2.0, 1.0, 1.0)]
    found = interval(parts)
    assert found.standard == pytest.approx(math.sqrt(6 / 3), rel=1e-12)
    assert found.coverage_factor == pytest.approx(1.959964, rel=1e-6)
    assert found.expanded == pytest.approx(found.coverage_factor * found.standard, rel=1e-12)
    assert "JCGM 100" in found.method
    # From 2 on the density is a parabola that ends at 4: both tails beyond q are (4 - q)^3 / 48.
    assert half_width(parts, [p.effect for p in parts]) == pytest.approx(4 - (48 * 0.05) ** (1 / 3), rel=1e-6)
    assert 1 - (4 - found.expanded) ** 3 / 48 == pytest.approx(0.9614, abs=1e-4)


def within(q, a, scale, integral):
    """Give P(|sum| < q) of a rectangle of half-width a and an error whose cumulative distribution has this integral."""
    return scale / a * (integral((q + a) / scale) - integral((q - a) / scale)) - 1


def normal_integral(z):
    return z * (1 + math.erf(z / math.sqrt(2))) / 2 + math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def cauchy_integral(z):
    """Integrate 1/2 + arctan(z)/pi: Student's distribution of one degree of freedom is Cauchy's."""
    return z / 2 + (z * math.atan(z) - math.log1p(z * z) / 2) / math.pi


@pytest.mark.parametrize("rest", [0.29, 0.3])
def test_a_rectangle_dominates_a_rest_of_three_tenths(rest):
    found = interval([part(1.0, "rectangular"), part(rest)])
    assert "JCGM 101" in found.method
    assert within(found.expanded, math.sqrt(3), rest, normal_integral) == pytest.approx(0.95, abs=1e-5)


def test_beyond_three_tenths_the_factor_is_the_normal_one():
    found = interval([part(1.0, "rectangular"), part(0.31)])
    assert "JCGM 100" in found.method
    assert found.coverage_factor == pytest.approx(1.959964, rel=1e-6)
    assert within(found.expanded, math.sqrt(3), 0.31, normal_integral) > 0.95


def test_two_rectangles_dominate_together():
    found = interval([part(rectangular(1.0), "rectangular")] * 2 + [part(rectangular(0.1), "rectangular")])
    assert "JCGM 101" in found.method
    # The triangle of two, 2 (1 - sqrt(0.05)) = 1.553, and a little of the third: 0.5 % of the variance.
    triangle = 2 * (1 - math.sqrt(0.05))
    assert triangle < found.expanded < 1.005 * triangle


def test_the_method_is_told_and_effective_degrees_of_freedom_with_it():
    normal = interval([part(3.0, degrees=400), part(4.0)])
    assert "Welch" in normal.method
    assert "JCGM 100" in normal.method
    # (9 + 16)^2 / (81 / 400).
    assert normal.degrees_of_freedom == pytest.approx(625 / (81 / 400), rel=1e-12)
    assert normal.expanded == pytest.approx(5 * student_factor(625 / (81 / 400)), rel=1e-9)
    mixed = interval([part(3.0, degrees=4), part(4.0, "rectangular")])
    assert mixed.degrees_of_freedom == pytest.approx(625 / (81 / 4), rel=1e-12)
    assert "few values" in mixed.method
    assert "a rectangular term dominates" in interval([part(1.0, degrees=4), part(4.0, "rectangular")]).method


def test_contributions_of_one_key_are_one_error():
    one = replace(part(rectangular(3.0), "rectangular"), key="shunt")
    other = replace(part(-rectangular(1.0), "rectangular"), key="shunt")
    assert interval([one, other]).expanded == pytest.approx(0.95 * 2.0, rel=1e-5)
    assert interval([one, replace(other, key="other")]).expanded > 0.95 * 3.0
    assert interval([one, replace(one, effect=-one.effect)]).expanded == 0.0


def test_rectangles_with_type_a_agree_with_a_simulation():
    parts = [part(rectangular(2.0), "rectangular"), part(0.25, degrees=5), part(0.1)]
    generator = np.random.default_rng(7)
    n = 2_000_000
    drawn = generator.uniform(-2, 2, n) + 0.25 * generator.standard_t(5, n) + 0.1 * generator.standard_normal(n)
    half, _ = expanded(parts)
    assert half == pytest.approx(np.quantile(np.abs(drawn), 0.95), rel=3e-3)


@pytest.mark.parametrize("degrees", [1, 2.5, 3, 19, 99, 100, 1000, 1e7])
def test_students_part_is_accepted_at_any_degrees_of_freedom(degrees):
    half, factor = expanded([part(1.0, "rectangular"), part(0.3, degrees=degrees)])
    # Wider than the rectangle alone, never wider than Student's distribution alone.
    assert 0.95 * math.sqrt(3) < factor < student_factor(degrees)
    assert half == pytest.approx(factor * math.sqrt(1.09))


def test_no_contribution_at_all_gives_zero():
    half, factor = expanded([])
    assert half == 0.0
    assert factor == pytest.approx(1.96, abs=1e-3)


@pytest.mark.parametrize("degrees", [1, 2, 4])
def test_few_values_beside_a_rectangle_have_the_distribution_of_both(degrees):
    found = interval([part(1.0, "rectangular"), part(1.0, degrees=degrees)])
    generator = np.random.default_rng(11)
    n = 1_000_000
    drawn = generator.uniform(-math.sqrt(3), math.sqrt(3), n) + generator.standard_t(degrees, n)
    assert np.mean(np.abs(drawn) < found.expanded) == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / n))


def test_two_values_beside_other_terms_need_more_than_welch_and_satterthwaite_give():
    # Cauchy's distributions of scales 1 and 2 make one of scale 3; effective degrees of freedom are 25/17.
    found = interval([part(1.0, degrees=1), part(2.0, degrees=1)])
    assert found.degrees_of_freedom == pytest.approx(25 / 17)
    assert found.expanded == pytest.approx(3 * student_factor(1), rel=1e-4)
    for scale in (0.35, 1.0, 3.0):
        beside = interval([part(1.0, "rectangular"), part(scale, degrees=1)])
        assert within(beside.expanded, math.sqrt(3), scale, cauchy_integral) == pytest.approx(0.95, abs=1e-4)
        assert "few values" in beside.method


@pytest.mark.parametrize("others", [
    [(1.0, "rectangular")], [(1.0, "rectangular"), (1.0, "rectangular")],
    [(2.0, "rectangular"), (1.0, "rectangular"), (1.0, "rectangular")], [(1.0, "rectangular"), (1.0, "normal")],
])
@pytest.mark.parametrize("degrees", [1, 2, 3, 5, 8, 10, 14, 19, 30])
def test_no_interval_is_narrower_than_the_distribution_of_its_sum(others, degrees):
    size = math.hypot(*(e for e, _ in others))
    for share in (0.002, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 0.99):
        parts = [part(e / size * math.sqrt(1 - share), d) for e, d in others]
        parts.append(part(math.sqrt(share), degrees=degrees))
        found = interval(parts)
        assert found.expanded > 0.998 * half_width(parts, [p.effect for p in parts]), share
        if "a rectangular term dominates" not in found.method:
            assert found.coverage_factor > 0.998 * student_factor(found.degrees_of_freedom), share


@pytest.mark.parametrize("degrees", [1, 2, 19, 50])
def test_few_values_alone_are_students_whatever_vanishes_beside_them(degrees):
    for more in ([], [part(1e-6, "rectangular")]):
        found = interval([part(1.0, degrees=degrees), *more])
        assert found.method == uncertainty.STUDENT
        assert found.coverage_factor == pytest.approx(student_factor(degrees), rel=1e-6)


def test_deviations_of_several_inputs_add_and_may_be_arrays():
    def both(deviation):
        return deviation, deviation

    inputs = [
        Input("a", lambda h: both(Deviation(gain={"CH1": h}, current=2 * h)), 0.01),
        Input("b", lambda h: (Deviation(gain={"CH1": h, "CH2": -h}), Deviation()), 0.01),
        Input("c", lambda h: (Deviation(), Deviation(timebase=h)), 0.01),
    ]
    errors = np.array([[0.1, 0.2], [0.01, 0.02], [3.0, 4.0]])
    series, null = deviated(inputs, list(errors))
    assert series.gain["CH1"] == pytest.approx([0.11, 0.22])
    assert series.gain["CH2"] == pytest.approx([-0.01, -0.02])
    assert series.current == pytest.approx([0.2, 0.4])
    assert (series.timebase, null.timebase) == (0.0, pytest.approx([3.0, 4.0]))
    assert null.gain["CH1"] == pytest.approx([0.1, 0.2])


def test_propagation_is_exact_for_a_quadratic_model():
    # energy = 5 (1 + g) - 2 (1 + g)^2: slope 1 at g = 0.
    def model(series, null):
        g = 1 + series.gain.get("CH1", 0.0)
        return np.array([[1.0], [5 * g - 2 * g * g], [5 * g - 2 * g * g]])

    gain = Input("gain", lambda h: (Deviation(gain={"CH1": h}), Deviation()), 0.01)
    (budget,) = propagate([gain], model)
    assert budget["duration"] == []
    assert budget["energy"][0].effect == pytest.approx(0.01, rel=1e-10)


WIRING = Wiring(Shunt(1.3, decoupling_f=4.7e-6), Supply(3.3), shunt_channel="CH1")
DT_S = 1e-6


def test_trials_of_a_window_are_what_each_deviation_by_itself_gives():
    measurement, _ = measured()
    mean = measurement.moments.mean()
    inputs = shared_inputs(measurement, None, WIRING, 1e-5)
    errors = np.random.default_rng(2).normal(0, 1, (len(inputs), 5)) * np.array([[i.standard] for i in inputs])
    together = measurement.chain.flow(mean, deviated(inputs, list(errors))[0])
    for k in range(5):
        alone = measurement.chain.flow(mean, deviated(inputs, [float(e) for e in errors[:, k]])[0])
        for name, value in alone._asdict().items():
            assert np.broadcast_to(getattr(together, name), 5)[k] == pytest.approx(value[0], rel=1e-12), name


def step_record(gain=1.0, add=0.0, dt_s=DT_S):
    """Make a record of float codes: 4 mV, then 13 mV for 300 samples settling with the decoupling, then back."""
    t = (np.arange(700) - 200) * dt_s
    tau_s = 1.3 * 4.7e-6
    rise = 1 - np.exp(-np.clip(t, 0, None) / tau_s)
    fall = np.exp(-np.clip(t - 300 * dt_s, 0, None) / tau_s)
    volts = 4e-3 + 9e-3 * np.where(t < 300 * dt_s, rise, fall)
    codes = (volts * gain + add).astype(np.float64)[None, :]
    channel = Channel("CH1", codes, 1.0, 0.0, accuracy=Accuracy(0.02, 5e-3, 0.0, "sheet"))
    return Record({"CH1": channel}, dt_s, np.zeros(1), Identity("a", "b", "c", "d"), timebase_ratio=1e-5)


def measured(wiring=WIRING, power="dut", **made):
    measurement = measure_windows(step_record(**made), wiring, [Window(0, 200.0, 500.0)], power=power)
    return measurement, measurement.runs[0]


@pytest.mark.parametrize("sensed", ["source", "dut"])
def test_every_sensitivity_is_what_measuring_again_with_the_input_changed_gives(sensed):
    wiring = replace(WIRING, supply=Supply(3.3, sensed=sensed))
    h = 1e-5
    assert wiring.shunt is not None

    def energy(**changed):
        if "shunt" in changed:
            return measured(replace(wiring, shunt=changed["shunt"]))[1].energy_j
        if "supply" in changed:
            return measured(replace(wiring, supply=changed["supply"]))[1].energy_j
        return measured(wiring, **changed)[1].energy_j

    nominal = energy()
    expected = {
        "shunt": (energy(shunt=replace(wiring.shunt, resistance_ohm=1.3 * (1 + h), decoupling_f=4.7e-6)) - nominal) / h,
        "supply": (energy(supply=replace(wiring.supply, voltage_v=3.3 * (1 + h))) - nominal) / h,
        "gain CH1": (energy(gain=1 + h) - nominal) / h,
        "offset CH1": (energy(add=1e-6) - nominal) / 1e-6,
        "decoupling": (energy(shunt=replace(wiring.shunt, decoupling_f=4.7e-6 * (1 + h))) - nominal) / h,
        "time base": None,
    }
    measurement, _ = measured(wiring)
    mean = measurement.moments.mean()

    def model(series, null):
        flow = measurement.chain.flow(mean, series)
        return np.stack([flow.duration_s, flow.energy_j / flow.duration_s, flow.energy_j])

    inputs = shared_inputs(measurement, None, wiring, 1e-5)
    (budget,) = propagate(inputs, model)
    found = {c.name: c.effect / c.standard for c in budget["energy"]}
    assert set(found) == set(expected)
    for name, slope in expected.items():
        if slope is not None:
            # The fit of the currents at the edges uses tau as well: an effect on the correction's second order.
            assert found[name] == pytest.approx(slope, rel=0.02 if name == "decoupling" else 1e-3), name
    assert next(c for c in budget["duration"] if c.name == "time base").effect == pytest.approx(
        300e-6 * 1e-5 / math.sqrt(3), rel=1e-9)


def test_shunt_and_gain_act_on_the_dut_by_less_and_more_than_one_for_one():
    # Without decoupling E = (V x - x^2) T / R: relative slope -1 in R, (V - 2 x)/(V - x) in the gain.
    wiring = replace(WIRING, shunt=Shunt(1.3))
    record = Record({"CH1": Channel("CH1", np.full((1, 700), 13, np.int16), 1e-3, 0.0,
                                    accuracy=Accuracy(0.02, 0.0, 0.0, "sheet"))}, DT_S, np.zeros(1),
                    Identity("a", "b", "c", "d"))
    measurement = measure_windows(record, wiring, [Window(0, 199.5, 499.5)])
    energy = measurement.runs[0].energy_j

    def model(series, null):
        flow = measurement.chain.flow(measurement.moments, series)
        return np.stack([flow.duration_s, flow.energy_j / flow.duration_s, flow.energy_j])

    (budget,) = propagate(shared_inputs(measurement, None, wiring, None), model)
    slopes = {c.name: c.effect / c.standard / energy for c in budget["energy"]}
    assert slopes["shunt"] == pytest.approx(-1, rel=1e-7)
    assert slopes["supply"] == pytest.approx(3.3 / (3.3 - 0.013), rel=1e-9)
    assert slopes["gain CH1"] == pytest.approx((3.3 - 2 * 0.013) / (3.3 - 0.013), rel=1e-9)


def names(inputs):
    return [i.name for i in inputs]


def quantised(noise_codes, zero_codes=None, scale=1e-3, **more):
    generator = np.random.default_rng(5)
    codes = (60 + generator.normal(0, noise_codes, (1, 5000))).round().astype(np.uint8)
    channels = {"CH1": Channel("CH1", codes, scale, 0.0, accuracy=Accuracy(0.02, 5e-3, 0.0, "sheet"))}
    record = Record(channels, DT_S, np.zeros(1), Identity("a", "b", "c", "d"), **more)
    zero = None
    if zero_codes is not None:
        z = generator.normal(20, zero_codes, (1, 10_000)).round().astype(np.uint8)
        zero = Record({"CH1": Channel("CH1", z, scale, 0.0)}, DT_S, np.zeros(1), record.instrument)
    measurement = measure_windows(record, WIRING, [Window(0, 99.5, 4899.5)], zero=zero)
    return {i.name: i for i in shared_inputs(measurement, None, WIRING, None)}


def test_quantisation_counts_once_in_the_scatter_where_noise_dithers_it():
    assert "quantisation CH1" not in quantised(noise_codes=2.0)
    still = quantised(noise_codes=0.0)
    assert still["quantisation CH1"].standard == pytest.approx(1e-3 / math.sqrt(12))


def test_a_zero_reading_replaces_the_offset_limit_by_its_own_uncertainty():
    without = quantised(2.0)
    assert without["offset CH1"].standard == pytest.approx(5e-3 / math.sqrt(3))
    assert "zero CH1" not in without
    dithered = quantised(2.0, zero_codes=2.0)
    assert "offset CH1" not in dithered
    assert dithered["zero CH1"].evaluation == "A"
    # Two codes rms, widened by the quantisation's own 1/12, over 10 000 samples.
    assert dithered["zero CH1"].standard == pytest.approx(math.sqrt(4 + 1 / 12) * 1e-3 / 100, rel=0.03)
    assert "zero quantisation CH1" not in dithered
    assert quantised(2.0, zero_codes=0.0)["zero quantisation CH1"].standard == pytest.approx(1e-3 / math.sqrt(12))


def test_a_measured_supply_brings_its_channels_gain_and_offset_and_no_tolerance():
    sheet = Accuracy(0.02, 10e-3, 0.0, "sheet")
    channels = {
        "CH1": Channel("CH1", np.full((1, 500), 13, np.int16), 1e-3, 0.0, accuracy=sheet),
        "CH4": Channel("CH4", np.full((1, 500), 3300, np.int16), 1e-3, 0.0, accuracy=sheet),
    }
    wiring = replace(WIRING, supply=Supply(None, channel="CH4"))
    record = Record(channels, DT_S, np.zeros(1), Identity("a", "b", "c", "d"))
    measurement = measure_windows(record, wiring, [Window(0, 99.5, 399.5)])
    found = names(shared_inputs(measurement, None, wiring, None))
    assert "supply" not in found
    assert {"gain CH1", "gain CH4", "supply offset CH4", "offset CH1"} <= set(found)
    assert "offset CH4" not in found


# ---- gain about mid-screen, one offset a channel, and zero readings at nearly the same settings

SHEET = Accuracy(0.02, 10e-3, 0.0, "sheet")
WINDOW_S = 300e-6


def flat_record(scale=1e-3, offset=0.0, settings=None, n=700, **codes):
    channels = {
        name: Channel(name, np.full((1, n), code, np.int16), scale, offset, accuracy=SHEET,
                      settings=(settings or {}).get(name, {}))
        for name, code in codes.items()
    }
    return Record(channels, DT_S, np.zeros(1), Identity("a", "b", "c", "d"))


def energy_slopes(record, wiring, zero=None, supply=False):
    measurement = measure_windows(record, wiring, [Window(0, 199.5, 499.5)], zero=zero)

    def model(series, null):
        flow = measurement.chain.flow(measurement.moments, series)
        energy = flow.energy_supply_j if supply else flow.energy_j
        return np.stack([flow.duration_s, energy / flow.duration_s, energy])

    (budget,) = propagate(shared_inputs(measurement, None, wiring, None), model)
    return {c.name: c.effect / c.standard for c in budget["energy"]}


def test_a_gain_error_turns_about_mid_screen_or_about_the_zero_reading():
    wiring = replace(WIRING, shunt=Shunt(1.3))
    record = flat_record(CH1=13, settings={"CH1": {"offset_v": 10e-3}})
    per_volt = 3.3 * WINDOW_S / 1.3
    assert energy_slopes(record, wiring, supply=True)["gain CH1"] == pytest.approx(per_volt * 3e-3, rel=1e-9)
    unknown = flat_record(CH1=13)
    assert energy_slopes(unknown, wiring, supply=True)["gain CH1"] == pytest.approx(per_volt * 13e-3, rel=1e-9)
    zero = flat_record(CH1=-2)
    assert energy_slopes(record, wiring, zero, supply=True)["gain CH1"] == pytest.approx(per_volt * 15e-3, rel=1e-9)


def test_a_measured_supply_is_never_zeroed():
    wiring = replace(WIRING, shunt=Shunt(1.3), supply=Supply(None, channel="CH4"))
    record = flat_record(CH1=13, CH4=3300, settings={"CH4": {"offset_v": 3.0}})
    slopes = energy_slopes(record, wiring, flat_record(CH1=0, CH4=5), supply=True)
    assert slopes["gain CH4"] == pytest.approx(0.3 * 13e-3 * WINDOW_S / 1.3, rel=1e-9)
    assert slopes["supply offset CH4"] == pytest.approx(13e-3 * WINDOW_S / 1.3, rel=1e-9)


def test_the_offset_of_a_channel_that_is_low_end_and_supply_enters_once():
    # x = H - L and V_s = L: E = L (H - L) T/R, so that L's offset acts by (H - 2 L) T/R; zeroed, by x T/R.
    wiring = Wiring(Shunt(1.3, wiring="two-channel"), Supply(None, channel="CH3"), shunt_high_channel="CH2",
                    shunt_low_channel="CH3")
    record = flat_record(CH2=3300, CH3=3287)
    slopes = energy_slopes(record, wiring)
    assert slopes["offset CH3"] == pytest.approx((3.3 - 2 * 3.287) * WINDOW_S / 1.3, rel=1e-9)
    assert not any(name.startswith("supply offset") for name in slopes)
    zeroed = energy_slopes(record, wiring, flat_record(CH2=0, CH3=0))
    assert zeroed["supply offset CH3"] == pytest.approx(0.013 * WINDOW_S / 1.3, rel=1e-9)
    assert not any(name.startswith("offset") for name in zeroed)


@pytest.mark.parametrize(("changed", "applies"), [
    ({}, True),
    ({"scale": 1e-3 * (1 + 5e-7)}, True),
    ({"scale": 1e-3 * (1 - 1e-5)}, False),
    ({"offset": 1e-6}, True),
    ({"offset": 1e-4}, False),
    ({"settings": {"CH1": {"probe_ratio": 1.0, "bandwidth_limit": True}}}, True),
    ({"settings": {"CH1": {"probe_ratio": 10.0}}}, False),
    ({"settings": {"CH1": {"bandwidth_limit": False}}}, False),
])
def test_a_zero_reading_holds_for_settings_that_differ_by_the_last_digit_only(changed, applies):
    record = flat_record(CH1=13, settings={"CH1": {"probe_ratio": 1.0, "bandwidth_limit": True}})
    zero = flat_record(CH1=1, **changed)
    assert zero_applies(record, WIRING, zero) is applies
    measurement = measure_windows(record, WIRING, [Window(0, 199.5, 499.5)], zero=zero)
    assert measurement.chain.zeroed is applies
    assert measurement.runs[0].current_mean_a == pytest.approx((12e-3 if applies else 13e-3) / 1.3, rel=2e-4)


def test_a_zero_reading_must_hold_for_both_ends_and_be_in_the_same_unit():
    wiring = Wiring(Shunt(1.3, wiring="two-channel"), Supply(3.3), shunt_high_channel="CH2", shunt_low_channel="CH3")
    record = flat_record(CH2=3300, CH3=3287)
    assert zero_applies(record, wiring, flat_record(CH2=0, CH3=0))
    assert not zero_applies(record, wiring, flat_record(CH2=0))
    amperes = flat_record(CH2=0, CH3=0)
    amperes.channels["CH3"] = replace(amperes.channels["CH3"], unit="A")
    assert not zero_applies(record, wiring, amperes)


def test_a_zero_reading_that_is_cut_short_is_refused():
    zero = replace(flat_record(CH1=0), segment_start_s=np.zeros(2))
    with pytest.raises(CaptureError, match="the zero record is truncated"):
        measure_windows(flat_record(CH1=13), WIRING, [Window(0, 199.5, 499.5)], zero=zero)
