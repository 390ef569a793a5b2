"""Noise floor, effective bits and the shortest operation, against closed forms."""

import math

import numpy as np
import pytest

from labctl.analysis.noise import Noise, converter_bits, effective_bits, find_noise
from labctl.analysis.resolution import edges_limit, noise_limit, samples_limit, tau_limit

DT_S = 4e-9
# Some 400 degrees of freedom: a standard deviation is off by 3.5 %, rms.
DENSITY_RATIO = 0.035


def white(sigma, shape, seed=1):
    return np.random.default_rng(seed).normal(0.0, sigma, shape)


def test_an_ideal_converter_has_all_its_bits():
    """Signals that sweep all codes evenly leave an error of 1/sqrt(12) codes rms: N bits."""
    signal = np.random.default_rng(1).uniform(20, 230, 200_000)
    error = np.rint(signal) - signal
    assert effective_bits(8, float(error.std())) == pytest.approx(8.0, abs=0.01)


@pytest.mark.parametrize(("ratio", "lost"), [(1.0, 0.0), (2.0, 1.0), (4.0, 2.0), (10.0, math.log2(10))])
def test_bits_that_noise_takes(ratio, lost):
    assert effective_bits(8, ratio / math.sqrt(12)) == pytest.approx(8 - lost)


def test_a_steady_code_is_not_better_than_ideal():
    assert effective_bits(12, 0.0) == 12


@pytest.mark.parametrize("sigma", [0.6, 1.8, 5.0])
def test_bits_of_quantised_noise(sigma):
    """Noise and quantisation add in squares: N - log2(sqrt(1 + 12 sigma^2)) (Widrow and Kollar, ch. 11)."""
    codes = np.rint(128 + white(sigma, 400_000)).astype(np.uint8)
    expected = 8 - math.log2(math.sqrt(1 + 12 * sigma**2))
    assert effective_bits(8, float(codes.std())) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("low", "high", "bits"), [(0, 255, 8), (-128, 127, 8), (-32768, 32767, 16), (0, 4095, 12)])
def test_bits_of_a_converter(low, high, bits):
    assert converter_bits(low, high) == bits


@pytest.mark.parametrize(("low", "high"), [(None, 255), (0, None), (5, 5)])
def test_bits_that_nobody_told(low, high):
    assert converter_bits(low, high) is None


@pytest.mark.parametrize("n_segments", [1, 8])
def test_white_noise(n_segments):
    """Independent samples: the density is the variance of a sample times its length in time."""
    found = find_noise([white(3.0, (n_segments, 64_000))], np.array([2e-3]), DT_S)
    assert found.rms == pytest.approx(6e-3, rel=0.01)
    assert math.sqrt(found.density) == pytest.approx(6e-3 * math.sqrt(DT_S), rel=4 * DENSITY_RATIO)


def test_a_limited_bandwidth_does_not_lower_the_density():
    """A mean of m white samples has 1/m of the variance, and the spectrum's beginning unchanged."""
    m, n = 25, 640_000
    raw = white(5.0, n + m)
    smooth = np.convolve(raw, np.ones(m) / m, "valid")[None, :n]
    found = find_noise([smooth], np.array([1.0]), DT_S)
    assert found.rms == pytest.approx(5.0 / math.sqrt(m), rel=0.02)
    assert math.sqrt(found.density) == pytest.approx(5.0 * math.sqrt(DT_S), rel=4 * DENSITY_RATIO)


def test_two_channels_add_in_squares():
    codes = [np.rint(white(s, (1, 64_000), seed)).astype(np.int16) for s, seed in ((30.0, 1), (40.0, 2))]
    found = find_noise(codes, np.array([1.0, -1.0]), DT_S)
    assert found.rms == pytest.approx(50.0, rel=0.01)


def test_a_step_between_segments_is_no_noise():
    """What changes from one segment to the next may be minutes old."""
    segments = white(1.0, (8, 8000)) + 100 * np.arange(8)[:, None]
    found = find_noise([segments], np.array([1.0]), DT_S)
    assert found.rms == pytest.approx(1.0, rel=0.02)
    assert math.sqrt(found.density) == pytest.approx(math.sqrt(DT_S), rel=4 * DENSITY_RATIO)


def test_noise_of_a_mean_and_of_an_integral():
    """White noise over n samples: sigma/sqrt(n) in the mean, sigma dt sqrt(n) in the integral."""
    noise = Noise(rms=2.0, density=4.0 * DT_S, dt_s=DT_S, n_stretches=64)
    assert noise.of_mean(100 * DT_S) == pytest.approx(2.0 / 10)
    assert noise.of_integral(100 * DT_S) == pytest.approx(2.0 * DT_S * 10)


def test_one_sample_has_no_noise():
    with pytest.raises(ValueError, match="two samples"):
        find_noise([np.zeros((3, 1))], np.array([1.0]), DT_S)


def test_each_limit_of_the_shortest_operation():
    assert samples_limit(DT_S).duration_s == pytest.approx(80e-9)
    # Two edges, each anywhere within a sample: dt/sqrt(6) is 1 % of the window.
    assert edges_limit(DT_S).duration_s == pytest.approx(DT_S / math.sqrt(6) / 0.01)
    noise = Noise(rms=1e-4, density=1e-8 * DT_S, dt_s=DT_S, n_stretches=64)
    limit = noise_limit(noise, current_a=10e-3)
    assert noise.of_mean(limit.duration_s) == pytest.approx(1e-4)
    assert limit.duration_s == pytest.approx(DT_S)
    assert tau_limit(6.11e-6).duration_s == pytest.approx(30.55e-6)
