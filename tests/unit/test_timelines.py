"""Two instruments' time lines joined by the edges that both have seen."""

import numpy as np
import pytest

from labctl.analysis.timelines import join
from labctl.errors import CaptureError


def edges_of(generator, n_windows, length_s, pause_s):
    """Rises and falls of windows whose pauses vary, as the firmware's dither makes them; exact times."""
    pauses_s = pause_s * (1 + 0.2 * generator.random(n_windows))
    rises_s = np.cumsum(pauses_s + length_s)
    return np.stack([rises_s, rises_s + length_s], axis=1).ravel()


def seen(edges_s, dt_s, phase):
    """Times as an instrument of one sample per `dt_s` gives them: half a sample before the first that differs."""
    ticks = np.ceil(edges_s / dt_s - phase)
    return (ticks + phase - 0.5) * dt_s


def test_one_common_edge_gives_the_offset_and_leaves_the_rate_open():
    joint = join(np.array([2.0]), np.array([7.5]), 0.5e-3)
    assert joint.there_s(np.array([2.0, 3.0])).tolist() == [7.5, 8.5]
    assert not joint.rate_known
    # At the edge: rectangular within half a sample; a second away, within 100 ppm as well.
    assert joint.standard_s(np.array([2.0]))[0] == pytest.approx(0.5e-3 / 3**0.5)
    assert joint.standard_s(np.array([3.0]))[0] == pytest.approx(np.hypot(0.5e-3, 100e-6) / 3**0.5)


def test_edges_without_error_give_rate_and_offset_exactly():
    here_s = np.array([0.0, 1.0, 3.0, 7.0, 15.0])
    joint = join(here_s, here_s * (1 + 40e-6) - 4.0, 1e-6)
    assert joint.n_pairs == 5
    assert joint.rate_ratio == pytest.approx(40e-6, rel=1e-6)
    assert joint.there_s(np.array([100.0]))[0] == pytest.approx(96.004, abs=1e-9)


@pytest.mark.parametrize("rate", [-50e-6, 50e-6])
def test_eight_hours_with_a_step_of_the_host_leave_no_window_off_by_more_than_a_sample(rate):
    """A capture every five minutes for 8 h; the meter's clock runs 50 ppm off, the host's clock steps by an hour.

    The meter (100 kS/s) and the analyser (24 MS/s) each count from their own start; the host's clock enters nothing.
    """
    generator = np.random.default_rng(1)
    slow_s, fast_s = 10e-6, 1 / 24e6
    worst_samples = 0.0
    for number in range(96):
        start_s = 300.0 * number  # true time since the evening
        true_s = start_s + edges_of(generator, 20, 2e-3, 3e-3)
        meter_s = seen(true_s * (1 + rate), slow_s, generator.random())
        analyser_start_s = generator.uniform(0, 0.1) + start_s  # started by the host, some time before
        analyser_s = seen(true_s - analyser_start_s, fast_s, generator.random())
        joint = join(analyser_s, meter_s, slow_s / 2)
        assert joint.n_pairs == len(true_s)
        off_s = joint.there_s(true_s - analyser_start_s) - true_s * (1 + rate)
        worst_samples = max(worst_samples, np.abs(off_s).max() / slow_s)
    assert worst_samples < 1.0


def test_long_captures_are_paired_although_the_clocks_drift_by_many_windows():
    """60 s of windows every 5 ms: 50 ppm make 3 ms, most of a period; pairing goes outwards from one edge."""
    generator = np.random.default_rng(2)
    true_s = edges_of(generator, 12_000, 1e-3, 4e-3)
    meter_s = seen(true_s * (1 + 50e-6) + 123.0, 10e-6, 0.3)
    joint = join(true_s, meter_s, 5e-6)
    assert joint.n_pairs == len(true_s)
    assert np.abs(joint.there_s(true_s) - (true_s * (1 + 50e-6) + 123.0)).max() < 5e-6


def test_edges_that_one_instrument_missed_are_left_out():
    generator = np.random.default_rng(3)
    true_s = edges_of(generator, 30, 1e-3, 4e-3)
    lost = np.ones(len(true_s), bool)
    lost[[0, 1, 17, 40]] = False
    joint = join(true_s[4:], true_s[lost] + 9.0, 1e-6)
    assert joint.n_pairs == len(true_s) - 4 - 2
    assert joint.offset_s + joint.rate_ratio * joint.middle_s == pytest.approx(9.0, abs=1e-6)


def test_even_windows_of_which_each_saw_some_are_refused():
    even_s = np.arange(20) * 5e-3
    with pytest.raises(CaptureError, match="two ways"):
        join(even_s[:-1], even_s[1:] + 3.0, 1e-6)


def test_another_signal_is_refused():
    generator = np.random.default_rng(4)
    with pytest.raises(CaptureError, match="did not see the same signal"):
        join(np.cumsum(1 + generator.random(20)), np.cumsum(1 + generator.random(20)), 1e-6)


@pytest.mark.parametrize(("here_s", "there_s", "what"), [([], [1.0], "no edge"), ([1.0], [], "no edge"),
                                                   ([2.0, 1.0], [1.0], "ascending")])
def test_what_is_no_list_of_edges_is_refused(here_s, there_s, what):
    with pytest.raises(CaptureError, match=what):
        join(np.array(here_s), np.array(there_s), 1e-6)
