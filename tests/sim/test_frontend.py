"""The front end against its data sheet and closed forms: gain, offset, noise, converter, clock, bandwidth."""

import math

import numpy as np
import pytest

from instruments.sim.circuit import Circuit
from instruments.sim.frontend import ChannelSetup, FrontEnd, SampleClock, noise_generator
from instruments.sim.world import World


def front_end(seed=1, signal="shunt", *, channel=1, range_v=0.04, offset_v=0.0, probe=1.0, limit=False):
    return FrontEnd(seed, signal, ChannelSetup(channel, range_v, offset_v, probe, limit))


def steady_world(current_a):
    world = World(Circuit(1.3, 3.3, 4.7e-6, 0.0, 24e6, 3.3))
    world.parked(0, current_a)
    world.reach(1.0, 0.0)
    return world


def read_v(front, codes):
    """Convert as the preamble tells: (code - 128) * range/256 + offset."""
    return (codes.astype(float) - 128) * front.setup.range_v / 256 + front.setup.offset_v


def test_ten_milliamperes_through_the_shunt_read_thirteen_millivolts_within_the_drawn_errors():
    front = front_end(offset_v=0.01)
    volts = front.volts(steady_world(10e-3), 0.5, 1e-7, 200_000)
    assert volts == pytest.approx(np.full(200_000, 13e-3), rel=1e-6)
    reading_v = read_v(front, front.digitize(volts, noise_generator(1, 1, 0))).mean()
    expected_v = (13e-3 - 0.01) * (1 + front.gain_ratio) + 0.01 + front.offset_error_v
    # The noise, several codes wide, dithers the rounding: the mean is good to noise / sqrt(n).
    assert reading_v == pytest.approx(expected_v, abs=5 * front.noise_rms_v / math.sqrt(200_000))
    # 0.1 div + 2 mV + 1 % of the setting, and 2 %
    assert abs(reading_v - 13e-3) < 0.1 * 5e-3 + 2e-3 + 0.01 * 0.01 + 0.02 * 3e-3 + 1e-4


def test_gain_and_offset_errors_fill_the_limits_of_the_data_sheet():
    fronts = [front_end(seed, range_v=0.8, offset_v=-0.5) for seed in range(500)]
    gains = np.array([f.gain_ratio for f in fronts])
    offsets = np.array([f.offset_error_v for f in fronts])
    limit_v = 0.1 * 0.1 + 2e-3 + 0.01 * 0.5
    assert 0.019 < np.abs(gains).max() <= 0.02
    assert 0.95 * limit_v < np.abs(offsets).max() <= limit_v
    assert abs(np.corrcoef(gains, offsets)[0, 1]) < 0.15


def test_errors_belong_to_channel_and_range():
    assert front_end().gain_ratio == front_end(offset_v=0.01, limit=True).gain_ratio
    assert front_end().gain_ratio != front_end(channel=2).gain_ratio
    assert front_end().gain_ratio != front_end(range_v=0.08).gain_ratio
    assert front_end().gain_ratio == front_end(range_v=0.4, probe=10.0).gain_ratio


def test_a_probe_scales_the_errors_that_hold_at_the_input():
    plain, probed = front_end(), front_end(range_v=0.4, probe=10.0)
    assert probed.offset_error_v == pytest.approx(10 * plain.offset_error_v)
    assert probed.noise_rms_v == pytest.approx(10 * plain.noise_rms_v)


@pytest.mark.parametrize(
    ("limit", "rms_v"), [(False, 140e-6 + 0.06 * 5e-3), (True, 30e-6 + 0.05 * 5e-3)]
)
def test_noise_has_the_rms_of_the_source_named_and_rounding_on_top(limit, rms_v):
    front = front_end(limit=limit)
    codes = front.digitize(np.zeros(400_000), noise_generator(1, 1, 0))
    step_v = 0.04 / 256
    assert codes.std() * step_v == pytest.approx(math.hypot(rms_v, step_v / math.sqrt(12)), rel=0.01)


def test_noise_repeats_with_the_seed_and_differs_between_acquisitions():
    front = front_end()
    first, again, other = (
        front.digitize(np.zeros(1000), noise_generator(1, 1, number)) for number in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_codes_clip_at_both_ends():
    front = front_end()
    codes = front.digitize(np.array([-1.0, 1.0]), noise_generator(1, 1, 0))
    assert codes.dtype == np.uint8
    assert codes.tolist() == [0, 255]


def test_sample_clock_is_off_by_at_most_ten_ppm_and_runs_on_one_grid():
    errors = np.array([SampleClock(seed).error_ratio for seed in range(500)])
    assert 9.5e-6 < np.abs(errors).max() <= 10e-6
    clock = SampleClock(3)
    step_s = clock.true_s(1e-6)
    assert step_s == pytest.approx(1e-6 * (1 + clock.error_ratio), rel=1e-15)
    assert clock.believed_s(step_s) == pytest.approx(1e-6, rel=1e-15)
    ticks = np.array([clock.first_tick_s(t, 1e-6) for t in (0.1, 0.2, 0.2000005, 0.7)])
    assert ((ticks - [0.1, 0.2, 0.2000005, 0.7]) >= 0).all()
    assert ((ticks - [0.1, 0.2, 0.2000005, 0.7]) <= step_s).all()
    steps = (ticks - ticks[0]) / step_s
    assert steps == pytest.approx(np.rint(steps), abs=1e-6)
    assert SampleClock(4).first_tick_s(0.1, 1e-6) != ticks[0]


@pytest.mark.parametrize(("limit", "own_s"), [(False, 0.35 / 200e6), (True, 0.35 / 20e6)])
def test_rise_time_of_the_trigger_edge(limit, own_s):
    """10 % to 90 %: 5 ns of the pin and 0.35/bandwidth of the channel, as a root sum of squares."""
    world = World(Circuit(1.3, 3.3, 0.0, 0.0, 24e6, 3.3))
    world.current(np.array([24_000], np.uint64), np.array([5e-3], np.float32))
    world.pin(24_000, 1)
    world.current(np.array([48_000], np.uint64), np.array([5e-3], np.float32))
    front = front_end(signal="trigger", range_v=8.0, limit=limit)
    dt_s = 0.01e-9
    volts = front.volts(world, 1e-3 - 1e-9, dt_s, 20_000)
    rise_s = (np.searchsorted(volts, 0.9 * 3.3) - np.searchsorted(volts, 0.1 * 3.3)) * dt_s
    assert rise_s == pytest.approx(math.hypot(5e-9, own_s), rel=0.01)
    # the level is compared with what the channel shows, its errors included
    level_v = 1.65 * (1 + front.gain_ratio) + front.offset_error_v
    crossing_s = front.crossing(world, 0.5e-3, level_v, True)
    tau_s = math.hypot(5e-9, own_s) / math.log(9)
    assert crossing_s - 1e-3 == pytest.approx(tau_s * math.log(2), rel=1e-3)


def test_an_open_input_shows_nothing_and_never_triggers():
    front = front_end(signal="open")
    world = steady_world(10e-3)
    assert not front.volts(world, 0.5, 1e-6, 10).any()
    assert math.isnan(front.crossing(world, 0.0, 0.0, True))


def test_a_stream_draws_what_is_random_in_time_and_nothing_that_is_fixed():
    silence = np.zeros(1000)
    front = front_end(signal="open")
    codes = [front.digitize(silence, noise_generator(1, 1, 0, stream)).tobytes() for stream in (0, 0, 1, 2)]
    assert codes[0] == codes[1]
    assert len(set(codes)) == 3
    clocks = [SampleClock(3, stream) for stream in (0, 1, 2)]
    assert len({clock.first_tick_s(0.1, 1e-6) for clock in clocks}) == 3
    assert len({clock.error_ratio for clock in clocks}) == 1
