"""What readings of a reference tell, against closed forms of the lines that were put in."""

import math

import numpy as np
import pytest

from instruments.record import Channel, Identity, Record
from labctl.analysis.pulses import delay, steady, stretch
from labctl.errors import CaptureError

WHO = Identity("V", "M", "S1", "1")


def channel(codes, name="CH1", scale=1.0, offset=0.0, **more):
    return Channel(name, np.atleast_2d(codes), scale, offset, **more)


def record(dt_s=1e-9, **channels):
    n = next(iter(channels.values())).codes.shape[0]
    return Record(channels, dt_s, np.arange(n) * 1.0, WHO)


class TestSteady:
    def test_equal_codes_leave_quantisation_alone(self):
        level = steady(channel(np.full((1, 1000), 100, np.uint8), scale=2e-3, offset=-0.1))
        assert level.mean == pytest.approx(100 * 2e-3 - 0.1, rel=1e-15)
        assert (level.std, level.standard, level.n) == (0.0, 0.0, 1000)
        assert level.rounding == pytest.approx(2e-3 / math.sqrt(12))

    def test_two_codes_in_turn(self):
        level = steady(channel(np.tile(np.array([10, 12], np.uint8), 3000), scale=-1e-3))
        assert level.mean == pytest.approx(-11e-3)
        assert level.std == pytest.approx(1e-3 * math.sqrt(6000 / 5999))
        assert level.rounding == 0.0  # a code of noise spreads the rounding
        assert level.standard == 0.0  # every stretch holds as many of both

    def test_white_noise(self):
        rng = np.random.default_rng(1)
        n, sigma = 300_000, 3.0
        codes = np.rint(rng.normal(100, sigma, (1, n))).astype(np.uint8)
        level = steady(channel(codes))
        # Rounding adds 1/12 to the variance (Sheppard).
        assert level.std == pytest.approx(math.sqrt(sigma**2 + 1 / 12), rel=0.01)
        # Chi-square with 29 degrees of freedom: the root lies within 0.62 and 1.42 in 99.9 %.
        assert 0.62 < level.standard / (sigma / math.sqrt(n)) < 1.42
        assert level.degrees_of_freedom == 29
        assert abs(level.mean - 100) < 4 * sigma / math.sqrt(n)

    def test_correlated_noise_is_not_taken_for_white(self):
        rng = np.random.default_rng(2)
        n, r = 300_000, 0.95
        noise = np.empty(n)
        noise[0] = 0.0
        pushes = rng.normal(0, 3 * math.sqrt(1 - r * r), n)
        for k in range(1, n):
            noise[k] = r * noise[k - 1] + pushes[k]
        level = steady(channel(np.rint(100 + noise).astype(np.uint8)))
        # An autoregression of first order: the mean's variance is (1 + r)/(1 - r) times that of white noise.
        true = 3 / math.sqrt(n) * math.sqrt((1 + r) / (1 - r))
        assert 0.6 < level.standard / true < 1.45

    def test_segments_are_stretches_of_their_own(self):
        codes = np.repeat(np.array([[10], [12]], np.uint8), 64, axis=1)
        level = steady(channel(codes))
        assert level.mean == 11.0
        # 15 stretches of each level: the spread of 30 values of +-1, over the root of 30.
        assert level.standard == pytest.approx(math.sqrt(30 / 29) / math.sqrt(30))

    def test_clipped_samples_are_refused(self):
        codes = np.full((1, 100), 7, np.uint8)
        codes[0, 50] = 255
        with pytest.raises(CaptureError, match="1 of 100 samples of CH1 are clipped or lost: take a larger range"):
            steady(channel(codes, code_min=0, code_max=255))

    def test_a_sample_that_is_no_number_is_refused(self):
        codes = np.zeros((1, 100), np.float32)
        codes[0, 3] = np.nan
        with pytest.raises(CaptureError, match="clipped or lost"):
            steady(channel(codes))


def pole(t, at, tau):
    """Give the response of one exponential pole to a unit step at `at`."""
    return np.where(t < at, 0.0, -np.expm1(-np.maximum(t - at, 0.0) / tau))


def edges(taus, shifts, n=40, n_samples=2000, noise=0.0, seed=3):
    """Give a record in which both channels show steps through poles, at phases that differ; times in samples."""
    rng = np.random.default_rng(seed)
    t = np.arange(n_samples, dtype=float)
    channels = {}
    at = n_samples / 2 + rng.uniform(-0.5, 0.5, n)
    for name, tau, shift, level in zip(("CH1", "CH2"), taus, shifts, (150.0, 180.0), strict=True):
        clean = np.stack([20 + level * pole(t, a + shift, tau) for a in at])
        codes = np.rint(clean + noise * rng.standard_normal(clean.shape)).astype(np.uint8)
        channels[name] = channel(codes, name, 0.02, -0.4, code_min=0, code_max=255)
    return record(1e-9, **channels)


class TestDelay:
    def test_two_poles_and_a_shift(self):
        # CH1, the late one, by its centroid: shift + tau; CH2, the early one, by its crossing: tau ln 2.
        found = delay(edges((20.0, 6.0), (3.25, 0.0), noise=2.0), "CH2", "CH1")
        assert found.n == 40
        assert found.value_s == pytest.approx((3.25 + 20.0 - 6.0 * math.log(2)) * 1e-9, abs=4 * found.standard_s)
        assert found.standard_s < 0.3e-9
        assert found.shape_s == pytest.approx(6.0 * (1 - math.log(2)) * 1e-9, abs=0.2e-9)

    def test_the_same_line_twice(self):
        found = delay(edges((8.0, 8.0), (0.0, 0.0), noise=1.0), "CH2", "CH1")
        assert found.value_s == pytest.approx(8.0 * (1 - math.log(2)) * 1e-9, abs=0.1e-9)
        assert found.value_s == pytest.approx(found.shape_s, abs=0.1e-9)

    def test_a_negative_delay(self):
        found = delay(edges((5.0, 5.0), (-40.0, 0.0), noise=1.0), "CH2", "CH1")
        assert found.value_s == pytest.approx((-40.0 + 5.0 * (1 - math.log(2))) * 1e-9, abs=0.1e-9)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda codes: np.full_like(codes, 20), "shows no rising edge"),
            (lambda codes: codes[:, ::-1], "shows no rising edge"),
            (lambda codes: np.roll(codes, 700, axis=1), "edge"),
            (lambda codes: np.where(codes > 100, 255, codes), "leaves the screen of CH1"),
        ],
    )
    def test_what_is_no_pulse_is_refused(self, change, message):
        good = edges((5.0, 5.0), (0.0, 0.0), noise=1.0)
        one = good.channels["CH1"]
        bad = channel(change(one.codes), "CH1", one.scale, one.offset, code_min=0, code_max=255)
        with pytest.raises(CaptureError, match=message):
            delay(record(1e-9, CH1=bad, CH2=good.channels["CH2"]), "CH2", "CH1")

    def test_two_edges_in_a_record_are_refused(self):
        good = edges((2.0, 2.0), (0.0, 0.0))
        codes = np.array(good.channels["CH1"].codes)
        codes[:, 1100:1150] = 20
        bad = channel(codes, "CH1", 0.02, -0.4, code_min=0, code_max=255)
        with pytest.raises(CaptureError, match="120 edges in 40 records of one pulse each"):
            delay(record(1e-9, CH1=bad, CH2=good.channels["CH2"]), "CH2", "CH1")


class TestStretch:
    def test_a_clock_that_runs_fast_sees_pulses_longer(self):
        seen = stretch([1e-3] * 4, [1e-3 * (1 + 9e-6)] * 4, 1e-9)
        assert seen.value_ratio == pytest.approx(-9e-6, rel=1e-4)
        assert (seen.standard_ratio, seen.n) == (0.0, 4)
        # Equal to the last digit: nothing dithers the sample clock, which leaves dt / sqrt(6) between two edges.
        assert seen.resolution_ratio == pytest.approx(1e-9 / math.sqrt(6) / 1e-3)

    def test_scatter_dithers_the_sample_clock(self):
        seen_s = 1e-3 + 1e-9 * np.array([0.5, -0.5, 0.5, -0.5])
        seen = stretch([1e-3] * 4, seen_s, 1e-9)
        # Standard deviation of +-0.5 ns with n - 1: 0.577 ns; four of them.
        assert seen.standard_ratio == pytest.approx(math.sqrt(4 * 0.25 / 3) * 1e-9 / 2 / 1e-3)
        assert seen.resolution_ratio < 1e-9 / math.sqrt(6) / 1e-3 / 5

    def test_true_lengths_may_differ(self):
        true_s = np.array([50e-3, 50.1e-3, 49.9e-3])
        assert stretch(true_s, true_s / (1 + 5e-6), 1e-9).value_ratio == pytest.approx(5e-6, rel=1e-6)
