"""From codes to joules, against closed forms and a slow reference in float64."""

import math

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruments.record import Channel, Identity, Record
from labctl.analysis.checks import warn_of_chain
from labctl.analysis.power import measure_windows
from labctl.errors import CaptureError, ConfigError
from labctl.model import Shunt, Supply, Window, Wiring

IDENTITY = Identity("a", "b", "c", "d")
DT_S = 1e-6
WIRING = Wiring(Shunt(1.3, decoupling_f=0.0), Supply(3.3), shunt_channel="CH1")


def record_of(gaps=(), dt_s=DT_S, **channels):
    n = next(iter(channels.values())).codes.shape[0]
    return Record(channels, dt_s, np.arange(n) * 1.0, IDENTITY, gaps=gaps)


def channel(codes, scale=1e-3, offset=0.0, name="CH1", **more):
    return Channel(name, np.atleast_2d(codes), scale, offset, **more)


def flat(code, n=1000, dtype=np.int16):
    return np.full((1, n), code, dtype)


def only_run(record, wiring=WIRING, window=None, **options):
    window = window or Window(0, 99.5, 899.5)
    (run,) = measure_windows(record, wiring, [window], **options).runs
    return run


def test_sensed_at_the_dut_the_drop_comes_on_top():
    wiring = Wiring(Shunt(1.3), Supply(3.3, sensed="dut"), shunt_channel="CH1")
    run = only_run(record_of(CH1=channel(flat(13))), wiring)
    assert run.power_w == pytest.approx(33.000e-3, rel=1e-12)
    assert run.power_supply_w == pytest.approx(33.130e-3, rel=1e-12)


def test_a_channel_in_ampere_needs_no_shunt():
    wiring = Wiring(None, Supply(3.3), shunt_channel="CH1")
    run = only_run(record_of(CH1=channel(flat(10), unit="A")), wiring)
    assert run.current_mean_a == pytest.approx(10e-3, rel=1e-12)
    assert run.power_w == run.power_supply_w == pytest.approx(33e-3, rel=1e-12)


def test_both_ends_of_the_shunt_and_the_supply_read_at_its_low_end():
    # 3.300 V above, 3.287 V below: 13 mV, and the DUT sees 3.287 V.
    wiring = Wiring(Shunt(1.3, wiring="two-channel"), Supply(None, channel="CH3"), shunt_high_channel="CH2",
                    shunt_low_channel="CH3")
    record = record_of(CH2=channel(flat(3300), name="CH2"), CH3=channel(flat(3287), name="CH3"))
    run = only_run(record, wiring)
    assert run.current_mean_a == pytest.approx(10e-3, rel=1e-9)
    assert run.power_w == pytest.approx(32.870e-3, rel=1e-9)
    assert run.power_supply_w == pytest.approx(33.000e-3, rel=1e-9)
    assert run.power_ripple_w == pytest.approx(0.0, abs=1e-12)


def test_the_zero_readings_mean_is_taken_off():
    zero = record_of(CH1=channel(np.tile(np.array([4, 6], np.int16), 50)))
    run = only_run(record_of(CH1=channel(flat(18))), zero=zero)
    assert run.current_mean_a == pytest.approx(10e-3, rel=1e-12)


def test_a_zero_reading_at_another_range_is_left_alone():
    zero = record_of(CH1=channel(flat(5), scale=2e-3))
    measured = measure_windows(record_of(CH1=channel(flat(13))), WIRING, [Window(0, 99.5, 899.5)], zero=zero)
    assert not measured.chain.zeroed
    assert measured.runs[0].current_mean_a == pytest.approx(10e-3, rel=1e-12)


def test_a_clipped_zero_reading_is_refused():
    zero = record_of(CH1=channel(flat(127), code_max=127))
    with pytest.raises(CaptureError, match="zero reading of CH1 has 1000 clipped"):
        only_run(record_of(CH1=channel(flat(13))), zero=zero)


def test_first_and_last_sample_weigh_by_their_part_inside():
    # Samples 10, 20, 30 ... at whole positions; sample i covers [i - 1/2, i + 1/2). From 2.25 to 5.0 lie a quarter of
    # sample 2, samples 3 and 4, and half of sample 5: (0.25 x 30 + 40 + 50 + 0.5 x 60) / 2.75.
    codes = np.concatenate([np.arange(10, 1010, 10), np.zeros(100)]).astype(np.int16)
    run = only_run(record_of(CH1=channel(codes), dt_s=1.0), window=Window(0, 2.25, 25.0))
    inside = 0.25 * 30 + sum(range(40, 260, 10)) + 0.5 * 260
    assert run.duration_s == 22.75
    assert run.charge_c == pytest.approx(inside * 1e-3 / 1.3, rel=1e-12)


def reference(volts, dt_s, start, stop, supply_v, ohm):
    """Slow float64: a weight for every sample of the record."""
    index = np.arange(len(volts))
    weight = np.clip(np.minimum(index + 0.5, stop) - np.maximum(index - 0.5, start), 0, 1)
    current = volts / ohm
    seen = current[weight > 0]
    source = (weight * supply_v * current).sum() * dt_s
    dut = (weight * (supply_v - volts) * current).sum() * dt_s
    return source, dut, (weight * current).sum() * dt_s, seen.min(), seen.max()


@settings(deadline=None, max_examples=40)
@given(
    dtype=st.sampled_from([np.int8, np.uint8, np.int16, np.float32]),
    edges=st.lists(st.floats(0, 5999), min_size=2, max_size=2, unique=True).map(sorted).filter(
        lambda e: e[1] - e[0] > 20),
    seed=st.integers(0, 1000),
    scale=st.sampled_from([1e-4, -1e-4]),
)
def test_any_window_agrees_with_a_slow_reference_and_keeps_its_identities(dtype, edges, seed, scale):
    generator = np.random.default_rng(seed)
    codes = generator.normal(60, 15, 6000).clip(0, 120).astype(dtype)
    offset = 0.0 if scale > 0 else 0.013
    record = record_of(CH1=channel(codes, scale=scale, offset=offset))
    run = only_run(record, window=Window(0, *edges))
    source, dut, charge, low, high = reference(
        codes.astype(np.float64) * scale + offset, DT_S, *edges, 3.3, 1.3)
    assert run.energy_supply_j == pytest.approx(source, rel=1e-9)
    assert run.energy_j == pytest.approx(dut, rel=1e-9)
    assert run.charge_c == pytest.approx(charge, rel=1e-9)
    assert (run.current_min_a, run.current_max_a) == pytest.approx((low, high), rel=1e-9)
    assert run.current_min_a <= run.current_mean_a <= run.current_max_a
    assert run.power_min_w <= run.power_w <= run.power_max_w
    assert run.energy_j == pytest.approx(run.power_w * run.duration_s, rel=1e-12)


def test_ripple_is_the_spread_of_power_inside_the_window():
    # Codes 12 and 14 in turn: the current swings by 1 mV/1.3 ohm about its mean; power by (V - 2 v) times that.
    codes = np.tile(np.array([12, 14], np.int16), 500)
    supply = only_run(record_of(CH1=channel(codes)), power="supply")
    assert supply.power_ripple_w == pytest.approx(3.3 * 1e-3 / 1.3, rel=1e-9)
    dut = only_run(record_of(CH1=channel(codes)))
    assert dut.power_ripple_w == pytest.approx((3.3 - 2 * 13e-3) * 1e-3 / 1.3, rel=1e-9)
    assert dut.power_max_w == pytest.approx((3.3 - 14e-3) * 14e-3 / 1.3, rel=1e-12)
    assert dut.power_min_w == pytest.approx((3.3 - 12e-3) * 12e-3 / 1.3, rel=1e-12)


def charged(n_windows=1, jitter_codes=2, window_samples=900, dt_s=1e-6):
    """Give windows that begin with a step from 100 to 1100 codes through a time constant of 13 us, and then swing by
    `jitter_codes` either way from sample to sample."""
    since = np.clip(np.arange(1000) - 50, 0, None) * dt_s
    codes = np.rint(1100 - 1000 * np.exp(-since / 13e-6)) + jitter_codes * (-1) ** np.arange(1000)
    record = record_of(CH1=channel(np.tile(codes, (n_windows, 1)).astype(np.int16), scale=1e-5), dt_s=dt_s)
    return record, [Window(k, 49.5, 49.5 + window_samples) for k in range(n_windows)]


@pytest.mark.parametrize(("farad", "spread_v"), [(10e-6, None), (None, None), (0.0, 1.0)])
def test_the_charging_of_the_decoupling_is_no_fluctuation_within_a_run(farad, spread_v):
    # 5 time constants of 1.3 ohm and 10 uF are 65 samples; so many are left out too where the capacitance is not known.
    record, windows = charged()
    wiring = Wiring(Shunt(1.3, decoupling_f=farad), Supply(3.3), shunt_channel="CH1")
    measured = measure_windows(record, wiring, windows, power="supply")
    (run,) = measured.runs
    assert run.power_ripple_w == measured.ripple_w
    if spread_v is None:
        # The jitter of 2 codes, and what exp(-5) leaves of the step: 7 codes, over a small part of the window.
        volts = record.channels["CH1"].codes[0, 50 + 65 : 950] * 1e-5
        assert run.power_ripple_w == pytest.approx(3.3 / 1.3 * volts.std(), rel=1e-9)
        assert run.power_ripple_w == pytest.approx(3.3 / 1.3 * 2e-5, rel=0.05)
    else:
        assert run.power_ripple_w > 30 * 3.3 / 1.3 * 2e-5


@pytest.mark.parametrize(("n_samples", "told"), [(84, False), (85, True)])
def test_of_a_window_with_too_little_behind_the_charging_no_fluctuation_is_told_and_why(n_samples, told):
    record, windows = charged(n_windows=2, window_samples=n_samples)
    wiring = Wiring(Shunt(1.3, decoupling_f=10e-6), Supply(3.3), shunt_channel="CH1")
    measured = measure_windows(record, wiring, windows)
    warnings = []
    warn_of_chain(warnings, measured, None)
    assert (measured.ripple_w is not None) == told
    assert all((run.power_ripple_w is not None) == told for run in measured.runs)
    assert any("no std within runs" in text and "65.0 µs" in text for text in warnings) != told


def test_a_large_pedestal_costs_no_digits_of_the_ripple():
    codes = (30_000 + np.tile([0, 1], 500)).astype(np.int16)
    run = only_run(record_of(CH1=channel(codes, scale=1e-6, offset=-0.03)), power="supply")
    assert run.power_ripple_w == pytest.approx(3.3 * 0.5e-6 / 1.3, rel=1e-9)


def test_a_measured_supply_is_multiplied_sample_by_sample():
    # Drop 10 and 20 mV in turn while the supply sags from 3.3 V to 3.2 V: the mean of products is not the product.
    drop = np.tile(np.array([10, 20], np.int16), 500)
    supply = np.tile(np.array([3300, 3200], np.int16), 500)
    wiring = Wiring(Shunt(1.3, decoupling_f=0.0), Supply(None, channel="CH4"), shunt_channel="CH1")
    run = only_run(record_of(CH1=channel(drop), CH4=channel(supply, name="CH4")), wiring)
    p_supply = [3.3 * 10e-3 / 1.3, 3.2 * 20e-3 / 1.3]
    p_dut = [(3.3 - 10e-3) * 10e-3 / 1.3, (3.2 - 20e-3) * 20e-3 / 1.3]
    assert run.power_supply_w == pytest.approx(sum(p_supply) / 2, rel=1e-12)
    assert run.power_w == pytest.approx(sum(p_dut) / 2, rel=1e-12)
    assert (run.power_min_w, run.power_max_w) == pytest.approx((p_dut[0], p_dut[1]), rel=1e-12)
    # First order about the means 15 mV and 3.25 V: (u - 2 v) dv/R + v du/R with dv = 5 mV, du = -50 mV.
    slope = ((3.25 - 0.03) * 5e-3 - 15e-3 * 50e-3) / 1.3
    assert run.power_ripple_w == pytest.approx(slope, rel=1e-9)


def stepped(spans, tau_s, ohm, dt_s=50e-9, scale=1e-6):
    """Sample a shunt behind which the core draws constant currents, (duration_s, ampere) in turn; windows skip both
    ends: first-order response, exact. Return the channel, the window, and the drop at its two edges in volts."""
    ends_s = np.cumsum([d for d, _ in spans])
    t = np.arange(round(ends_s[-1] / dt_s)) * dt_s
    seen, shunt_a, edges = np.empty(len(t)), spans[0][1], []
    for (duration_s, core_a), end_s in zip(spans, ends_s, strict=True):
        since = t - (end_s - duration_s)
        inside = (since >= 0) & (t < end_s)
        seen[inside] = core_a + (shunt_a - core_a) * np.exp(-since[inside] / tau_s)
        edges.append(shunt_a * ohm)
        shunt_a = core_a + (shunt_a - core_a) * math.exp(-duration_s / tau_s)
    codes = np.rint(seen * ohm / scale).astype(np.int16)
    return channel(codes, scale=scale), Window(0, ends_s[0] / dt_s, ends_s[-2] / dt_s), (edges[1], edges[-1])


def test_the_drops_own_part_of_the_decoupling_correction():
    # 100 ohm and 0.13 uF: the drop goes from 0.3 V to 0.8 V, and C (x2^2 - x1^2)/2 is 1 % of the DUT's energy.
    # The core takes 8 mA throughout: E = 8 mA x (V T - the integral of the drop that the shunt shows).
    ohm, farad, duration_s = 100.0, 0.13e-6, 164e-6
    tau_s = ohm * farad
    line, window, (x1, x2) = stepped([(200e-6, 3e-3), (duration_s, 8e-3), (200e-6, 3e-3)], tau_s, ohm, scale=50e-6)
    wiring = Wiring(Shunt(ohm, decoupling_f=farad), Supply(3.3), shunt_channel="CH1")
    run = only_run(record_of(CH1=line, dt_s=50e-9), wiring, window)
    drop_vs = ohm * (3e-3 * duration_s + 5e-3 * (duration_s - tau_s * (1 - math.exp(-duration_s / tau_s))))
    energy_j = 8e-3 * (3.3 * duration_s - drop_vs)
    assert farad * (x2**2 - x1**2) / 2 == pytest.approx(0.011 * energy_j, rel=0.05)
    assert run.energy_j == pytest.approx(energy_j, rel=5e-4)


def test_what_the_core_does_half_a_time_constant_after_an_edge_does_not_bend_the_current_there():
    tau_s, duration_s = 13e-6, 164e-6
    spans = [(200e-6, 3e-3), (tau_s / 2, 8e-3), (duration_s - tau_s / 2, 12e-3), (200e-6, 3e-3)]
    line, window, _ = stepped(spans, tau_s, 1.3)
    wiring = Wiring(Shunt(1.3, decoupling_f=10e-6), Supply(3.3), shunt_channel="CH1")
    run = only_run(record_of(CH1=line, dt_s=50e-9), wiring, window)
    charge_c = 8e-3 * tau_s / 2 + 12e-3 * (duration_s - tau_s / 2)
    assert run.charge_c == pytest.approx(charge_c, rel=5e-4)


def test_a_core_that_wakes_just_before_a_short_window_and_sleeps_just_after_does_not_bend_the_current_there():
    # A thirtieth of the time constant: nearly all of the charge comes out of the capacitance.
    farad, awake_s, duration_s = 4.7e-6, 250e-9, 220e-9
    tau_s = 1.3 * farad
    spans = [(20e-6, 10e-3), (awake_s, 40e-3), (duration_s, 60e-3), (awake_s, 40e-3), (20e-6, 10e-3)]
    line, _, _ = stepped(spans, tau_s, 1.3, dt_s=1e-9, scale=3e-6)
    start = (20e-6 + awake_s) / 1e-9
    window = Window(0, start, start + duration_s / 1e-9)
    wiring = Wiring(Shunt(1.3, decoupling_f=farad), Supply(3.3), shunt_channel="CH1")
    run = only_run(record_of(CH1=line, dt_s=1e-9), wiring, window)
    assert run.charge_c == pytest.approx(60e-3 * duration_s, rel=5e-3)


def test_quiet_spans_are_read_on_both_sides_and_stay_clear_of_neighbours():
    codes = np.repeat([4, 13, 6, 13, 8], [400, 200, 400, 200, 400]).astype(np.int16)
    windows = [Window(0, 399.5, 599.5), Window(0, 999.5, 1199.5)]
    first, second = measure_windows(record_of(CH1=channel(codes)), WIRING, windows).runs
    assert (first.current_before_a, first.current_after_a) == pytest.approx((4e-3 / 1.3, 6e-3 / 1.3), rel=1e-12)
    assert (second.current_before_a, second.current_after_a) == pytest.approx((6e-3 / 1.3, 8e-3 / 1.3), rel=1e-12)
    assert first.power_before_w == pytest.approx((3.3 - 4e-3) * 4e-3 / 1.3, rel=1e-12)


def test_a_busy_stretch_bounds_the_quiet_span():
    codes = np.repeat([13, 4, 13, 4], [300, 100, 200, 300]).astype(np.int16)
    measured = measure_windows(
        record_of(CH1=channel(codes)), WIRING, [Window(0, 399.5, 599.5)], busy=[Window(0, -0.5, 299.5)])
    assert measured.runs[0].current_before_a == pytest.approx(4e-3 / 1.3, rel=1e-12)


def test_no_room_beside_the_window_leaves_no_quiet_span():
    run = only_run(record_of(CH1=channel(flat(13))), window=Window(0, -0.5, 999.5))
    assert run.current_before_a is None
    assert run.current_after_a is None
    assert run.n_samples == 1000


def test_windows_with_clipped_codes_gaps_or_nan_are_refused_and_the_rest_survives():
    codes = np.full((1, 1000), 13.0, np.float32)
    codes[0, 150], codes[0, 350] = 127, np.nan
    record = record_of(gaps=((0, 540, 30),), CH1=channel(codes, code_max=127))
    windows = [Window(0, float(a), a + 100.0) for a in (100, 300, 500, 700, 850)]
    windows.append(Window(0, 960.0, 970.0))
    measured = measure_windows(record, WIRING, windows)
    assert [r.start_s for r in measured.runs] == pytest.approx([700e-6, 850e-6])
    assert [(r.reason, r.detail) for r in measured.refusals] == [
        ("clipped samples", "1 inside the window"),
        ("gap", "1 samples lost inside the window"),
        ("gap", "30 samples lost inside the window"),
        ("too few samples", "10.0 samples in the window, 20 needed"),
    ]
    assert measured.n_clipped == 1
    assert all(math.isfinite(r.energy_j) for r in measured.runs)


def test_when_every_window_is_clipped_the_remedy_is_a_larger_range():
    with pytest.raises(CaptureError, match=r"clipped samples on CH1: 801 inside the window; take a larger range"):
        only_run(record_of(CH1=channel(flat(127), code_max=127)), window=Window(0, 99.0, 899.0))


def test_what_is_missing_is_named_with_its_option():
    record = record_of(CH1=channel(flat(13)))
    for wiring, words in (
        (Wiring(None, Supply(3.3), shunt_channel="CH1"), r"shunt's value is not known; give it \(--shunt"),
        (Wiring(Shunt(1.3), None, shunt_channel="CH1"), r"supply voltage is not known.*--supply"),
        (Wiring(Shunt(1.3), Supply(3.3)), r"no channel carries the shunt's drop.*--shunt-channel"),
    ):
        with pytest.raises(CaptureError, match=words):
            only_run(record, wiring)
    with pytest.raises(CaptureError, match=r"sample rate is not known.*--rate"):
        only_run(record_of(dt_s=None, CH1=channel(flat(13))))
    with pytest.raises(ConfigError, match="no channel 'CH7'; the record holds CH1"):
        only_run(record, Wiring(Shunt(1.3), Supply(3.3), shunt_channel="CH7"))


@pytest.mark.parametrize("ohm", [0.0, -1.3, math.nan, math.inf])
def test_a_shunt_that_cannot_be_is_refused(ohm):
    with pytest.raises(ConfigError, match="it must be a resistance above zero"):
        only_run(record_of(CH1=channel(flat(13))), Wiring(Shunt(ohm), Supply(3.3), shunt_channel="CH1"))


@pytest.mark.parametrize(
    ("wiring", "words"),
    [
        (Wiring(Shunt(1.3, wiring="sideways"), Supply(3.3), shunt_channel="CH1"), "low-side"),
        (Wiring(Shunt(1.3, tolerance_ratio=1.0), Supply(3.3), shunt_channel="CH1"), "tolerance_ratio is 1.0"),
        (Wiring(Shunt(1.3, decoupling_f=-1e-6), Supply(3.3), shunt_channel="CH1"), "must be a capacitance"),
        (Wiring(Shunt(1.3), Supply(-3.3), shunt_channel="CH1"), "voltage above zero"),
        (Wiring(Shunt(1.3), Supply(3.3, sensed="here"), shunt_channel="CH1"), "sensed at 'here'"),
    ],
)
def test_wiring_that_cannot_be_is_refused(wiring, words):
    with pytest.raises(ConfigError, match=words):
        only_run(record_of(CH1=channel(flat(13))), wiring)


def test_a_drop_above_the_supply_is_refused():
    with pytest.raises(CaptureError, match=r"a drop of 4 V across the shunt exceeds the supply of 3.3 V"):
        only_run(record_of(CH1=channel(flat(4000))))


def test_results_do_not_depend_on_where_codes_lie_or_how_they_are_read(tmp_path):
    generator = np.random.default_rng(3)
    codes = generator.normal(60, 10, (3, 30_000)).astype(np.float32)
    wiring = Wiring(Shunt(1.3, decoupling_f=4.7e-6), Supply(3.3), shunt_channel="CH1")
    windows = [Window(s, 1000.25 + s, 27_000.75) for s in range(3)]
    expected = measure_windows(record_of(CH1=channel(codes)), wiring, windows).runs
    with h5py.File(tmp_path / "codes.h5", "w") as file:
        stored = file.create_dataset("codes", data=codes, chunks=(1, 7000))
        lazy = record_of(CH1=Channel("CH1", stored, 1e-3, 0.0))
        for block in (4096, 10_000, 1 << 20):
            assert measure_windows(lazy, wiring, windows, block_samples=block).runs == expected
