"""The world against closed forms: exponential pole, truth of windows, cycles to seconds, bounded memory."""

import math
import threading

import numpy as np
import pytest
from scipy import stats

from instruments.sim import world as world_module
from instruments.sim.circuit import Circuit, draw
from instruments.sim.world import World

CLOCK_HZ = 24e6
R_OHM, C_F, V_V = 1.3, 4.7e-6, 3.3
TAU_S = R_OHM * C_F


def make_world(decoupling_f=C_F, crystal_ratio=0.0):
    return World(Circuit(R_OHM, V_V, decoupling_f, crystal_ratio, CLOCK_HZ, 3.3))


def feed(world, pieces, start_cycle=0):
    """Hand over (number of cycles, current) pieces in one call; return the last cycle."""
    ends = start_cycle + np.cumsum([n for n, _ in pieces])
    world.current(ends.astype(np.uint64), np.array([i for _, i in pieces], dtype=np.float32))
    return int(ends[-1])


def test_current_through_the_shunt_is_ohms_law():
    world = make_world()
    feed(world, [(2_400_000, 10e-3)])
    assert world.sample(50e-3, 1e-6, 100) == pytest.approx(np.full(100, 13e-3), rel=1e-6)


def test_step_goes_through_the_pole_of_shunt_and_decoupling():
    world = make_world()
    viewer, _ = world.view()
    cycle = feed(world, [(2400, 0.0), (2400, 10e-3)])
    feed(world, [(24000, 10e-3)], cycle)
    t = np.arange(200) * 0.37e-6
    expected = 13e-3 * (1 - np.exp(-t / TAU_S))
    assert world.sample(100e-6, 0.37e-6, 200) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    viewer.close()


def test_without_decoupling_the_shunt_follows_at_once():
    world = make_world(decoupling_f=0.0)
    viewer, _ = world.view()
    feed(world, [(24, 1e-3), (24, 2e-3)])
    assert world.sample(0.5e-6, 1e-6, 2) == pytest.approx([R_OHM * 1e-3, R_OHM * 2e-3], rel=1e-6)
    viewer.close()


def test_many_pieces_in_many_chunks_equal_the_convolution():
    """Superposition of the pole's step responses, at times that fall anywhere in the pieces."""
    rng = np.random.default_rng(3)
    world = make_world()
    viewer, _ = world.view()
    lengths, values, cycle = rng.integers(5, 300, 400), rng.uniform(1e-3, 20e-3, 400).astype(np.float32), 0
    for part in np.array_split(np.arange(400), 17):
        cycle = feed(world, [(int(lengths[k]), float(values[k])) for k in part], cycle)
    ends_s = np.cumsum(lengths) / CLOCK_HZ
    starts_s = np.concatenate(([0.0], ends_s[:-1]))
    t = 0.123e-6 + np.arange(3000) * 0.61e-6
    t = t[t < ends_s[-1]]

    def response(after_s):
        return np.where(after_s > 0, -np.expm1(-np.maximum(after_s, 0) / TAU_S), 0.0)

    expected = R_OHM * sum(
        float(v) * (response(t - a) - response(t - b)) for v, a, b in zip(values, starts_s, ends_s, strict=True)
    )
    assert world.sample(t[0], 0.61e-6, len(t)) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    viewer.close()


@pytest.mark.parametrize("beyond_cycles", [0, 777])
def test_truth_of_a_rectangular_pulse(beyond_cycles):
    """The decoupling transient is inside the window: integral of i_shunt = I d + (I0 - I) tau (1 - exp(-d/tau))."""
    world = make_world(crystal_ratio=40e-6)
    low_a, high_a, n = 2e-3, 10e-3, 480
    cycle = feed(world, [(240_000, low_a)])
    world.pin(cycle, 1)
    if beyond_cycles:  # the edge lies inside what was handed over
        feed(world, [(n, high_a), (beyond_cycles, low_a)], cycle)
    else:
        feed(world, [(n, high_a)], cycle)
    world.pin(cycle + n, 0)
    (window,) = world.windows()
    d = n / (CLOCK_HZ * (1 + 40e-6))
    shunt_charge = high_a * d + (low_a - high_a) * TAU_S * (1 - math.exp(-d / TAU_S))
    assert window["duration_s"] == pytest.approx(d, rel=1e-9)
    assert window["start_s"] == pytest.approx(0.01 / (1 + 40e-6), rel=1e-9)
    assert window["cycles"] == n
    assert window["charge_c"] == pytest.approx(high_a * d, rel=1e-6)
    assert window["energy_supply_j"] == pytest.approx(V_V * high_a * d, rel=1e-6)
    assert window["energy_dut_j"] == pytest.approx(V_V * high_a * d - R_OHM * high_a * shunt_charge, rel=1e-6)
    assert world.windows() == []


def test_from_rest_to_rest_the_shunt_carries_the_charge_that_the_core_drew():
    world = make_world()
    viewer, _ = world.view()
    cycle = feed(world, [(24_000, 0.0)])
    feed(world, [(4800, 10e-3), (24_000, 0.0)], cycle)
    end_s = world.end_s
    dt_s = 1e-8
    volts = world.sample(dt_s / 2, dt_s, int(end_s / dt_s))
    assert volts.sum() * dt_s / R_OHM == pytest.approx(10e-3 * 4800 / CLOCK_HZ, rel=1e-4)
    viewer.close()


def test_a_parked_line_goes_on_as_far_as_somebody_looks_and_no_energy_is_added_to_windows():
    world = make_world()
    cycle = feed(world, [(24_000, 5e-3)])
    world.parked(cycle, 3e-3)
    end_s, steady = world.reach(2.0, timeout_s=0.0)
    assert steady
    assert end_s == 2.0
    assert world.sample(1.5, 1e-3, 10) == pytest.approx(np.full(10, R_OHM * 3e-3), rel=1e-6)
    cycle = feed(world, [(2400, 5e-3)], cycle)
    assert world.end_s == pytest.approx(2.0 + 100e-6, rel=1e-12)
    world.pin(cycle, 1)
    cycle = feed(world, [(2400, 5e-3)], cycle)
    world.pin(cycle, 0)
    (window,) = world.windows()
    assert window["start_s"] == pytest.approx(2.0 + 100e-6, rel=1e-12)
    assert window["charge_c"] == pytest.approx(5e-3 * 100e-6, rel=1e-6)


def test_a_running_line_is_waited_for_but_not_for_ever():
    world = make_world()
    cycle = feed(world, [(24_000, 5e-3)])
    end_s, steady = world.reach(1.5e-3, timeout_s=0.01)
    assert not steady
    assert end_s == pytest.approx(1e-3)
    timer = threading.Timer(0.05, feed, (world, [(24_000, 5e-3)], cycle))
    timer.start()
    assert world.reach(1.5e-3, timeout_s=10.0)[0] == pytest.approx(2e-3)
    timer.join()


def test_power_off_is_a_steady_zero_and_a_counter_that_starts_again_goes_on_from_there():
    world = make_world()
    cycle = feed(world, [(24_000, 5e-3)])
    world.parked(cycle, 0.0)
    world.reach(1.0, timeout_s=0.0)
    assert world.sample(0.9, 1e-6, 3) == pytest.approx(np.zeros(3), abs=1e-15)
    feed(world, [(2400, 5e-3)])  # cycles start at zero after the reset
    assert world.end_s == pytest.approx(1.0 + 100e-6, rel=1e-12)


def test_memory_stays_bounded_while_nobody_looks():
    world = make_world()
    n = 100_000
    for k in range(20):
        ends = (np.arange(1, n + 1, dtype=np.uint64) + np.uint64(k * n)) * np.uint64(24)
        world.current(ends, np.full(n, 5e-3, dtype=np.float32))
    # One chunk lasts 0.1 s, far more than the history kept.
    assert world.n_pieces <= 2 * n


def test_a_viewer_keeps_what_it_needs_and_no_more():
    world = make_world()
    cycle = feed(world, [(24, 5e-3)] * 1000)
    viewer, start_s = world.view()
    for _ in range(50):
        cycle = feed(world, [(24, 5e-3)] * 1000, cycle)
    assert world.n_pieces >= 50_000
    viewer.look(start_s + 40e-3)
    feed(world, [(24, 5e-3)] * 1000, cycle)
    assert world.n_pieces <= 14_000
    assert world.sample(start_s + 40e-3, 1e-6, 10) == pytest.approx(np.full(10, R_OHM * 5e-3), rel=1e-6)
    viewer.close()


def test_the_dut_waits_for_an_instrument_that_is_far_behind(monkeypatch):
    monkeypatch.setattr(world_module, "BEHIND_MAX", 10)
    world = make_world()
    viewer, _ = world.view()
    cycle = feed(world, [(24, 5e-3)] * 10)
    thread = threading.Thread(target=feed, args=(world, [(24, 5e-3)] * 10, cycle))
    thread.start()
    thread.join(timeout=0.2)
    assert thread.is_alive()
    viewer.look(world.end_s)
    world.reach(world.end_s, timeout_s=0.0)
    thread.join(timeout=10.0)
    assert not thread.is_alive()
    assert world.end_s == pytest.approx(20e-6)
    viewer.close()


def test_edges_pass_a_level_after_tau_times_the_logarithm():
    world = make_world()
    cycle = feed(world, [(2400, 5e-3)])
    world.pin(cycle, 1)
    cycle = feed(world, [(2400, 5e-3)], cycle)
    world.pin(cycle, 0)
    feed(world, [(2400, 5e-3)], cycle)
    tau_s = 5e-9
    up_s = world.pin_crossing(0.0, 1.1, True, tau_s)
    down_s = world.pin_crossing(0.0, 1.1, False, tau_s)
    assert up_s - 100e-6 == pytest.approx(tau_s * math.log(3 / 2), rel=1e-4)  # 1.1 V is a third of 3.3 V
    assert down_s - 200e-6 == pytest.approx(tau_s * math.log(3), rel=1e-4)
    assert math.isnan(world.pin_crossing(0.0, 3.4, True, tau_s))
    assert math.isnan(world.pin_crossing(150e-6, 1.1, True, tau_s))


def test_shunt_voltage_passes_a_level_where_the_exponential_does():
    world = make_world()
    viewer, _ = world.view()
    feed(world, [(24_000, 0.0), (24_000, 10e-3), (24_000, 0.0)])
    assert world.shunt_crossing(0.0, 6.5e-3, True) == pytest.approx(1e-3 + TAU_S * math.log(2), rel=1e-6)
    assert world.shunt_crossing(0.0, 6.5e-3, False) == pytest.approx(2e-3 + TAU_S * math.log(2), rel=1e-6)
    assert math.isnan(world.shunt_crossing(0.0, 13.1e-3, True))
    viewer.close()


@pytest.mark.parametrize(
    ("fault", "levels"),
    [
        (None, [0, 1, 1, 1, 0]),
        ("disconnected", [0, 0, 0, 0, 0]),
        ("stuck-high", [1, 1, 1, 1, 1]),
        ("inverted", [1, 0, 0, 0, 1]),
        ("extra-edge", [0, 1, 0, 1, 0]),
    ],
)
def test_what_the_scope_sees_of_the_pin_when_it_is_wired_wrong(fault, levels):
    """Looked at before the window, at 20 %, 50 % and 80 % of it, and after; the truth does not change."""
    world = make_world()
    cycle = feed(world, [(24_000, 5e-3)])
    world.pin(cycle, 1)
    cycle = feed(world, [(24_000, 5e-3)], cycle)
    world.pin(cycle, 0)
    feed(world, [(24_000, 5e-3)], cycle)
    seen = [world.level(t, 1e-6, 1, 5e-9, fault)[0] for t in (0.5e-3, 1.2e-3, 1.5e-3, 1.8e-3, 2.5e-3)]
    assert seen == pytest.approx([3.3 * lv for lv in levels], abs=1e-6)
    assert len(world.windows()) == 1


def test_draws_are_rectangular_and_depend_on_seed_and_key_alone():
    first = draw(7, "gain", 1, 40_000)
    assert draw(7, "gain", 2, 40_000) != first
    assert draw(8, "gain", 1, 40_000) != first
    assert draw(7, "gain", 1, 40_000) == first
    values = np.array([draw(seed, "gain", 1, 40_000) for seed in range(1000)])
    assert np.abs(values).max() <= 1.0
    assert stats.kstest(values, stats.uniform(-1, 2).cdf).pvalue > 0.01


def test_the_circuit_lies_inside_its_tolerances():
    config = {
        "board": {"clock_hz": 24_000_000, "pins": {"level_v": 3.3}},
        "shunt": {"resistance_ohm": 1.3, "tolerance_ratio": 0.01},
        "supply": {"voltage_v": 3.3, "tolerance_ratio": 0.02},
        "decoupling": {"capacitance_f": 4.7e-6, "tolerance_ratio": 0.2},
        "crystal": {"tolerance_ratio": 50e-6},
    }
    circuits = [Circuit.drawn({**config, "seed": seed}) for seed in range(500)]
    for values, nominal, tolerance in (
        ([c.shunt_ohm for c in circuits], 1.3, 0.01),
        ([c.supply_v for c in circuits], 3.3, 0.02),
        ([c.decoupling_f for c in circuits], 4.7e-6, 0.2),
        ([c.true_clock_hz for c in circuits], 24e6, 50e-6),
    ):
        errors = (np.array(values) / nominal - 1) / tolerance
        assert np.abs(errors).max() <= 1 + 1e-6
        # A rectangular distribution on [-1, 1] has a standard deviation of 1/sqrt(3).
        assert errors.std() == pytest.approx(1 / math.sqrt(3), rel=0.1)
