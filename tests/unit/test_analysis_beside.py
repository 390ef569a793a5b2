"""Windows of a logic analyser on the time line of a meter without a trigger; all currents are exact integrals."""

from dataclasses import replace

import numpy as np
import pytest

from instruments.levels import Levels
from instruments.record import Channel, Identity, Record
from labctl.analysis.beside import Joined, join_windows
from labctl.analysis.timelines import join_pairs
from labctl.errors import CaptureError
from labctl.model import Capture, Window, Wiring
from labctl.store import read_capture, write_capture

WIRING = Wiring(shunt=None, supply=None, trigger_channel="D0")
NOBODY = Identity("", "", "", "")
FAST_S = 1 / 24e6
WAIT_A, WORK_A = 8e-3, 9.5e-3


def windows_of(n, length_s=2e-3, pause_s=3e-3, dither_s=50e-6, first_s=0.02, seed=1):
    """Rises and falls in true time, of shape (n, 2): pauses vary as the firmware's do."""
    pauses_s = pause_s + dither_s * np.random.default_rng(seed).random(n)
    rises_s = first_s + np.cumsum(pauses_s + length_s) - pauses_s[0] - length_s
    return np.stack([rises_s, rises_s + length_s], axis=1)


def meter(edges_s, dt_s, span_s, *, rate=0.0, start_s=0.0, high_a=WORK_A, noise_a=0.0, more=()):
    """Means over the interval that ends with each sample; the meter's clock is fast by `rate`, 0 s is its start."""
    n = round(span_s / dt_s)
    times_s = np.arange(-1, n) * dt_s
    spans = sorted([*((a, b, high_a) for a, b in edges_s), *more])
    bounds_s = (np.array([t for a, b, _ in spans for t in (a, b)]) - start_s) * (1 + rate)
    knots_s = np.concatenate([[times_s[0]], bounds_s, [max(times_s[-1], bounds_s[-1] + 1)]])
    levels_a = np.append(np.array([[WAIT_A, level_a] for *_, level_a in spans]).ravel(), WAIT_A)
    charge = np.interp(times_s, knots_s, np.concatenate([[0], np.cumsum(levels_a * np.diff(knots_s))]))
    current = np.diff(charge) / dt_s + noise_a * np.random.default_rng(9).standard_normal(n)
    pin = np.searchsorted((edges_s.ravel() - start_s) * (1 + rate), times_s[1:]).astype(np.uint8) & 1
    channels = {
        "I1": Channel("I1", current.astype(np.float32)[None], 1.0, 0.0, unit="A"),
        "D1": Channel("D1", pin[None], 1.0, 0.0, unit="", kind="digital"),
    }
    return Record(channels, dt_s, np.zeros(1), NOBODY, granted={"averages": True})


def analyser(edges_s, start_s, span_s, dt_s=FAST_S):
    changes = np.ceil((edges_s.ravel() - start_s) / dt_s).astype(np.int64)
    levels = Levels(round(span_s / dt_s), 0, changes)
    channel = Channel("D0", levels, 1.0, 0.0, unit="", kind="digital")
    return Record({"D0": channel}, dt_s, np.zeros(1), NOBODY)


def off_samples(joined, edges_s, dt_s, rate=0.0, start_s=0.0):
    """By how many of the meter's samples each window's two ends are off."""
    found = np.array([[w.start, w.stop] for w in joined.windows])
    return found - (edges_s - start_s) * (1 + rate) / dt_s


@pytest.mark.parametrize("rate", [-50e-6, 50e-6])
@pytest.mark.parametrize("common", [None, "D1"])
def test_no_window_is_off_by_more_than_a_sample_of_the_meter(rate, common):
    edges_s, dt_s = windows_of(400), 10e-6
    series = meter(edges_s, dt_s, 2.1, rate=rate)
    timing = analyser(edges_s, 0.004, 2.09)
    joined = join_windows(series, timing, WIRING, common=common, expected=400)
    assert len(joined.windows) == 400
    assert np.abs(off_samples(joined, edges_s, dt_s, rate)).max() < 1.0
    np.testing.assert_allclose(joined.duration_s, 2e-3, atol=1.01 * FAST_S)
    assert joined.joint.rate_ratio == pytest.approx(rate, abs=5e-6)
    assert joined.refusals == []


def test_steps_of_an_averaged_current_are_placed_by_their_charge():
    """One window between flat levels: no noise, so the rise is found to a hundredth of a sample, wherever it falls."""
    for phase in np.linspace(0, 1, 7):
        edges_s = np.array([[0.02, 0.022]]) + phase * 10e-6
        joined = join_windows(meter(edges_s, 10e-6, 0.05), analyser(edges_s, 0.0, 0.04), WIRING)
        assert np.abs(off_samples(joined, edges_s, 10e-6)).max() < 0.01
        # Still it is stated as half a sample of each, rectangular: what is inside a window is not always flat.
        assert joined.joint.resolution_s == pytest.approx((10e-6 + FAST_S) / 2)


def test_eight_hours_in_one_recording():
    """A window of 2 s each minute, a meter of 100 samples a second 50 ppm off: 1.4 s, 144 samples, at the end."""
    edges_s = windows_of(480, 2.0, 57.5, 1.0, 5.0)
    series = meter(edges_s, 10e-3, 28_900.0, rate=50e-6)
    joined = join_windows(series, analyser(edges_s, 1.0, 28_899.0, 1e-4), WIRING)
    assert len(joined.windows) == 480
    assert np.abs(off_samples(joined, edges_s, 10e-3, 50e-6)).max() < 1.0


def test_noise_and_work_that_is_no_window_do_no_harm():
    """Noise of a third of the step; before the first window the DUT works for longer and harder, after the last too."""
    edges_s, dt_s = windows_of(100), 10e-6
    more = [(0.003, 0.009, 2 * WORK_A), (0.012, 0.0135, WORK_A), (0.53, 0.56, 3 * WORK_A)]
    series = meter(edges_s, dt_s, 0.6, noise_a=0.5e-3, more=more)
    joined = join_windows(series, analyser(edges_s, 0.001, 0.59), WIRING)
    assert np.abs(off_samples(joined, edges_s, dt_s)).max() < 1.0
    # What is stated covers it: twice the standard uncertainty, in all windows at once as the joint is one.
    assert np.abs(off_samples(joined, edges_s, dt_s).mean()) * dt_s < 2 * joined.standard_s.max()


def test_what_is_stated_covers_noise_and_a_current_that_is_not_flat():
    """Ripple of a quarter of the step, at another frequency each time, and noise of up to two thirds of it."""
    n_within = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        edges_s = windows_of((5, 30)[seed % 2], seed=seed, first_s=0.02 + rng.uniform(0, 1e-3))
        rate = rng.uniform(-90e-6, 90e-6)
        series = meter(edges_s, 10e-6, 0.25, rate=rate)
        channel = series.channels["I1"]
        times_s = np.arange(series.n_samples) * 10e-6
        ripple = 0.4e-3 * np.sin(2 * np.pi * times_s * rng.uniform(900, 7000) + rng.uniform(0, 6))
        added = ripple + rng.choice([0, 0.2e-3, 1e-3]) * rng.standard_normal(series.n_samples)
        codes = (channel.codes + added).astype(np.float32)
        joined = join_windows(replace(series, channels={"I1": replace(channel, codes=codes)}),
                              analyser(edges_s, 0.003, 0.24), WIRING)
        middle = len(edges_s) // 2
        off_s = off_samples(joined, edges_s, 10e-6, rate)[middle].mean() * 10e-6
        n_within += abs(off_s) < 2 * joined.standard_s[middle]
    assert n_within >= 54


def test_noise_alone_is_no_step():
    edges_s = windows_of(1)
    timing = analyser(edges_s, 0.0, 0.19)
    for noise_a in (0.1e-3, 1e-3):
        with pytest.raises(CaptureError, match=r"does not step|two ways"):
            join_windows(meter(edges_s, 10e-6, 0.2, high_a=WAIT_A, noise_a=noise_a), timing, WIRING)


def test_operations_that_draw_less_than_waiting():
    edges_s = windows_of(20)
    series = meter(edges_s, 10e-6, 0.2, high_a=5e-3)
    timing = analyser(edges_s, 0.0, 0.19)
    joined = join_windows(series, timing, WIRING, draws_more=False)
    assert np.abs(off_samples(joined, edges_s, 10e-6)).max() < 1.0
    with pytest.raises(CaptureError, match=r"does not step|two ways"):
        join_windows(series, timing, WIRING)


def test_a_first_window_that_the_analyser_missed_shifts_nothing():
    """Every window fits the one before it too, but for the pauses, which vary by 5 samples."""
    edges_s = windows_of(60)
    joined = join_windows(meter(edges_s, 10e-6, 0.4), analyser(edges_s[1:], 0.021, 0.37), WIRING)
    assert np.abs(off_samples(joined, edges_s[1:], 10e-6)).max() < 1.0


def test_even_windows_of_which_one_instrument_saw_more_are_refused():
    edges_s = windows_of(60, dither_s=0.0)
    with pytest.raises(CaptureError, match=r"two ways, 0\.005 s apart"):
        join_windows(meter(edges_s, 10e-6, 0.4), analyser(edges_s[1:], 0.0215, 0.37), WIRING)


def test_even_windows_that_both_saw_whole_are_joined():
    edges_s = windows_of(60, dither_s=0.0)
    joined = join_windows(meter(edges_s, 10e-6, 0.4), analyser(edges_s, 0.0, 0.39), WIRING)
    assert np.abs(off_samples(joined, edges_s, 10e-6)).max() < 1.0


def test_a_current_without_steps_and_windows_too_short_for_the_meter():
    edges_s = windows_of(20)
    with pytest.raises(CaptureError, match="does not step"):
        join_windows(meter(edges_s, 10e-6, 0.2, high_a=WAIT_A), analyser(edges_s, 0.0, 0.19), WIRING)
    with pytest.raises(CaptureError, match=r"4\.0 samples of the meter, too few"):
        join_windows(meter(edges_s, 0.5e-3, 0.2), analyser(edges_s, 0.0, 0.19), WIRING)


def test_what_either_lost_or_did_not_see_is_refused_with_its_reason():
    edges_s, dt_s = windows_of(40), 10e-6
    # The meter ends inside window 39 and lost 5 samples inside window 10; the analyser lost some inside window 20.
    series = replace(meter(edges_s, dt_s, 1.0), gaps=((0, int(edges_s[10, 0] / dt_s) + 50, 5),))
    n = int((edges_s[39, 0] + 1e-3) / dt_s)
    cut = {name: replace(channel, codes=channel.codes[:, :n]) for name, channel in series.channels.items()}
    series = replace(series, channels=cut)
    timing = replace(analyser(edges_s, 0.0, 0.99), gaps=((0, int(edges_s[20, 0] / FAST_S) + 99, 1000),))
    joined = join_windows(series, timing, WIRING, common="D1")
    assert len(joined.windows) == len(joined.duration_s) == len(joined.standard_s) == 37
    assert sorted((refusal.reason, refusal.detail) for refusal in joined.refusals) == [
        ("gap", "1000 samples lost"), ("gap", "5 samples lost"),
        ("one edge, window cut by the end of the record", "of the meter"),
    ]  # fmt: skip
    kept = np.delete(edges_s, [10, 20, 39], axis=0)
    assert np.abs(off_samples(joined, kept, dt_s)).max() < 1.0


def test_records_that_cannot_be_joined():
    edges_s = windows_of(5)
    series, timing = meter(edges_s, 10e-6, 0.1), analyser(edges_s, 0.0, 0.09)
    with pytest.raises(CaptureError, match="sample rate"):
        join_windows(series, replace(timing, dt_s=None), WIRING)
    with pytest.raises(CaptureError, match="one segment"):
        join_windows(replace(series, segment_start_s=np.zeros(2)), timing, WIRING)
    with pytest.raises(CaptureError, match="gap on D0"):
        join_windows(series, replace(timing, gaps=((0, 0, timing.n_samples),)), WIRING)


def test_what_the_joint_adds_to_an_energy():
    """One edge, known to half a sample of 10 us and 0: 10 us / sqrt(12); times a step of 5 mW, over 10 iterations."""
    joint = join_pairs(np.zeros(1), np.zeros(1), 5e-6)
    joined = Joined([Window(0, 0.0, 1.0)], [], np.ones(1), joint.standard_s(np.zeros(1)), joint)
    part = joined.contribution(-5e-3, 10)
    assert part.standard == pytest.approx(10e-6 / 12**0.5)
    assert part.effect == pytest.approx(5e-4 * 10e-6 / 12**0.5)
    assert "1 common edges, each to ±5e-06 s" in part.source


@pytest.mark.parametrize("common", [None, "D1"])
def test_energy_between_the_joined_edges_is_right_within_what_is_stated(common):
    """At 1 V: the charge between the edges as placed, against 9.5 mA for 2 ms; the meter's sums are exact."""
    edges_s, dt_s = windows_of(50), 10e-6
    series = meter(edges_s, dt_s, 0.3)
    joined = join_windows(series, analyser(edges_s, 0.001, 0.29), WIRING, common=common)
    charge = np.concatenate([[0.0], np.cumsum(series.channels["I1"].codes[0].astype(float))]) * dt_s
    ends = np.array([[w.start, w.stop] for w in joined.windows])
    energy_j = np.diff(np.interp(ends, np.arange(-1, len(charge) - 1), charge), axis=1)[:, 0]
    off_j = np.abs(energy_j - WORK_A * 2e-3)
    # Interpolation inside the sample with an edge in it adds a quarter of that sample's step, twice.
    assert off_j.mean() < 2 * joined.contribution(WORK_A - WAIT_A).standard * (WORK_A - WAIT_A) + dt_s * 0.75e-3
    assert off_j.max() < dt_s * (WORK_A - WAIT_A)


def test_both_records_are_kept_in_one_capture(tmp_path):
    edges_s = windows_of(6)
    series, timing = meter(edges_s, 10e-6, 0.1), analyser(edges_s, 0.0, 0.05)
    path = tmp_path / "both.h5"
    write_capture(path, Capture({"series": series, "timing": timing}, WIRING))
    capture = read_capture(path)
    joined = join_windows(capture.records["series"], capture.records["timing"], WIRING)
    direct = join_windows(series, timing, WIRING)
    assert joined.windows == direct.windows
