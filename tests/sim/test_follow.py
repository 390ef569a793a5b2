"""How far a meter may look at a line that is steady, that grows, and on which clock."""

import threading

import numpy as np
import pytest

from instruments.sim import follow
from instruments.sim.circuit import Circuit
from instruments.sim.world import World


class Clock:
    """The host's clock, which stands until it is set on."""

    def __init__(self):
        self.now_s = 100.0

    def monotonic(self):
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(follow, "time", clock)
    return clock


def make(pace):
    world = World(Circuit(0.0, 3.3, 0.0, 0.0, 24e6, 3.3))
    world.parked(0, 1e-3)
    at_once = threading.Event()
    at_once.set()
    return world, follow.Follower(world, pace, at_once)


def test_a_steady_line_is_followed_at_the_pace(clock):
    _, follower = make(20.0)
    start_s = follower.start_s
    assert follower.follow(start_s + 1.0, start_s) == start_s
    clock.now_s += 0.01
    assert follower.follow(start_s + 1.0, start_s) == pytest.approx(start_s + 0.2)
    clock.now_s += 1.0
    assert follower.follow(start_s + 1.0, start_s) == start_s + 1.0
    follower.close()


def test_a_dut_at_work_leads_and_real_time_counts_from_its_rest_on(clock):
    world, follower = make(1.0)
    start_s = follower.start_s
    clock.now_s += 50.0  # time that passed before is not made up for
    world.woken()
    world.current(np.array([24_000_000], np.uint64), np.array([1e-3], np.float32))
    assert follower.follow(start_s + 0.4, start_s) == start_s + 0.4
    assert follower.follow(start_s + 1.0, start_s) == pytest.approx(start_s + 1.0)
    world.parked(24_000_000, 1e-3)
    assert follower.follow(start_s + 3.0, start_s) == pytest.approx(start_s + 1.0)
    clock.now_s += 0.5
    assert follower.follow(start_s + 3.0, start_s) == pytest.approx(start_s + 1.5)
    follower.close()


def test_pace_is_checked():
    assert follow.pace_of({}) == 20.0
    assert follow.pace_of({"pace": 1}) == 1.0
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="pace"):
            follow.pace_of({"pace": wrong})
    for wrong in ("fast", True):
        with pytest.raises(TypeError, match="pace"):
            follow.pace_of({"pace": wrong})


def test_a_meters_clock_ticks_at_its_own_rate_and_phase():
    clock = follow.MeterClock(50e-6, 3, 0, 0)
    assert abs(clock.error_ratio) <= 50e-6
    step_s = 10e-6 * (1 + clock.error_ratio)
    first_s = clock.first_tick_s(1.0, 10e-6)
    assert 0 <= first_s - 1.0 < step_s
    assert clock.first_tick_s(first_s + 1e-9, 10e-6) == pytest.approx(first_s + step_s, abs=1e-12)
    assert follow.MeterClock(50e-6, 3, 0, 1).first_tick_s(1.0, 10e-6) != first_s
