"""The mean current in the supply's lead against closed forms and against numeric integration."""

import math

import numpy as np
import pytest

from instruments.sim.circuit import Circuit
from instruments.sim.world import World

CLOCK_HZ = 24e6
V_V = 3.3


def make_world(shunt_ohm, decoupling_f=4.7e-6):
    return World(Circuit(shunt_ohm, V_V, decoupling_f, 0.0, CLOCK_HZ, 3.3))


def feed(world, pieces, start_cycle=0):
    ends = start_cycle + np.cumsum([n for n, _ in pieces])
    world.current(ends.astype(np.uint64), np.array([i for _, i in pieces], dtype=np.float32))
    return int(ends[-1])


def pieces(rng, n):
    return [
        (int(k), float(i)) for k, i in zip(rng.integers(5, 900, n), rng.uniform(1e-3, 20e-3, n), strict=True)
    ]


def test_a_rectangle_that_fills_a_part_of_an_interval():
    """12 mA for 30 us from 105 us on, seen in intervals of 10 us: 6, 12, 12, 6 mA and nothing beside them."""
    world = make_world(0.0)
    viewer, _ = world.view()
    feed(world, [(2520, 0.0), (720, 12e-3), (2400, 0.0)])
    means = world.mean_current(90e-6, 10e-6, 7)
    assert means == pytest.approx([0.0, 6e-3, 12e-3, 12e-3, 6e-3, 0.0, 0.0], rel=1e-6, abs=1e-12)
    viewer.close()


def test_without_a_shunt_the_charge_is_the_cores():
    rng = np.random.default_rng(5)
    world = make_world(0.0)
    viewer, _ = world.view()
    drawn = pieces(rng, 500)
    feed(world, drawn)
    charge_c = sum(n / CLOCK_HZ * float(np.float32(i)) for n, i in drawn)
    n = 333
    dt_s = world.end_s / n
    assert world.mean_current(0.0, dt_s, n).sum() * dt_s == pytest.approx(charge_c, rel=1e-12)
    viewer.close()


def test_a_step_through_the_pole():
    """The mean of 1 - exp(-t/tau) over [a, b] is 1 - tau (exp(-a/tau) - exp(-b/tau)) / (b - a)."""
    world = make_world(1.3)
    tau_s = 1.3 * 4.7e-6
    viewer, _ = world.view()
    feed(world, [(2400, 0.0), (24000, 10e-3)])
    a = np.arange(40) * 2e-6
    expected = 10e-3 * (1 - tau_s * (np.exp(-a / tau_s) - np.exp(-(a + 2e-6) / tau_s)) / 2e-6)
    assert world.mean_current(100e-6, 2e-6, 40) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    viewer.close()


@pytest.mark.parametrize("shunt_ohm", [1.3, 30.0])
def test_any_intervals_equal_the_sum_of_many_samples(shunt_ohm):
    rng = np.random.default_rng(7)
    world = make_world(shunt_ohm)
    viewer, _ = world.view()
    cycle = 0
    for _ in range(9):
        cycle = feed(world, pieces(rng, 40), cycle)
    dt_s, n, parts = 7.3e-6, 400, 1000
    fine = world.sample(11e-6 + dt_s / parts / 2, dt_s / parts, n * parts).reshape(n, parts).mean(axis=1) / shunt_ohm
    # The midpoint rule misses at most the jump in slope at the ends of pieces: far below a part in 1e5 here.
    assert world.mean_current(11e-6, dt_s, n) == pytest.approx(fine, rel=1e-5)
    viewer.close()


def test_in_parts_it_is_the_same_to_the_last_bit():
    rng = np.random.default_rng(11)
    world = make_world(1.3)
    viewer, _ = world.view()
    cycle = 0
    for _ in range(9):
        cycle = feed(world, pieces(rng, 40), cycle)
    whole = world.mean_current(3e-6, 5.12e-6, 500)
    parts = [world.mean_current(3e-6, 5.12e-6, n, before) for before, n in ((0, 1), (1, 7), (8, 300), (308, 192))]
    assert np.array_equal(np.concatenate(parts), whole)
    viewer.close()


def test_a_steady_line_that_is_continued_keeps_its_means():
    world = make_world(0.0)
    world.parked(24_000, 4e-3)
    viewer, start_s = world.view()
    world.reach(start_s + 1.0, 0.0)
    first = world.mean_current(start_s, 1e-3, 1000)
    world.reach(start_s + 2.0, 0.0)
    assert first == pytest.approx(np.full(1000, 4e-3), rel=1e-7)
    assert np.array_equal(world.mean_current(start_s, 1e-3, 1000), first)
    viewer.close()


def test_before_what_is_kept_and_after_the_end_the_line_stays_as_it_was():
    """Half an interval before the line begins at 4 mA, and half after its end at 10 mA."""
    world = make_world(0.0)
    world.parked(0, 4e-3)
    viewer, start_s = world.view()
    world.woken()
    feed(world, [(240, 4e-3), (240, 10e-3)])
    assert world.mean_current(start_s - 5e-6, 10e-6, 1) == pytest.approx([4e-3], rel=1e-6)
    assert world.mean_current(start_s + 15e-6, 10e-6, 1) == pytest.approx([10e-3], rel=1e-6)
    assert world.mean_current(start_s + 1.0, 1e-6, 2) == pytest.approx([10e-3, 10e-3], rel=1e-6)
    viewer.close()


def test_without_a_shunt_nothing_crosses_and_the_energies_are_the_same():
    world = make_world(0.0)
    viewer, _ = world.view()
    cycle = feed(world, [(2400, 1e-3)])
    world.pin(cycle, 1)
    cycle = feed(world, [(2400, 10e-3)], cycle)
    world.pin(cycle, 0)
    assert math.isnan(world.shunt_crossing(0.0, 1e-3, True))
    assert np.array_equal(world.sample(0.0, 1e-6, 100), np.zeros(100))
    (window,) = world.windows()
    assert window["energy_dut_j"] == window["energy_supply_j"] == pytest.approx(V_V * 10e-3 * 100e-6, rel=1e-6)
    viewer.close()


def test_another_supply_voltage_holds_for_the_windows_that_follow():
    world = make_world(0.0)
    world.supply(1.8)
    world.pin(0, 1)
    feed(world, [(2400, 10e-3)])
    world.pin(2400, 0)
    (window,) = world.windows()
    assert window["energy_dut_j"] == pytest.approx(1.8 * 10e-3 * 100e-6, rel=1e-6)
