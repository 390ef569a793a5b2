"""What readings say of shunt, supply and clocks, at and just beyond the limits that are allowed."""

import math
from dataclasses import replace

import numpy as np
import pytest

from instruments.record import Accuracy, Channel
from labctl.analysis.finding import FAULT, LEFT_OUT, OK, WARNING
from labctl.analysis.line import Line
from labctl.analysis.noise import Noise
from labctl.analysis.pulses import Level, Stretch
from labctl.analysis.reference import (
    judge_bits,
    judge_gain,
    judge_latency,
    judge_noise,
    judge_tau,
    judge_timebase,
    tell_shortest,
)
from labctl.analysis.resolution import Limit
from labctl.analysis.response import Step
from labctl.analysis.uncertainty import rectangular
from labctl.analysis.wiring import (
    Drop,
    judge_rail,
    judge_shunt,
    judge_supply_channel,
    judge_switch,
    judge_timer,
    judge_zero,
)
from labctl.model import Contribution, Shunt, Supply, Wiring

BOARD = {
    "name": "board",
    "clock_hz": 24e6,
    "crystal_tolerance_ratio": 50e-6,
    "supply": {"current_min_a": 1e-4, "current_max_a": 0.1, "current_typical_a": 15e-3, "node_mcu_v": 3.3},
    "pins": {"trigger": "PC6", "level_v": 3.3},
}
WIRING = Wiring(Shunt(1.3, 0.01, decoupling_f=4.7e-6), Supply(3.3, 0.01), "CH1", trigger_channel="CH2")
ACCURACY = Accuracy(0.02, 3e-3, 280e-6, "assumed")
SETTINGS = {"offset_v": 8e-3}
CHANNEL = Channel("CH1", np.zeros((1, 10), np.uint8), 156.25e-6, 0.0, code_min=0, code_max=255, settings=SETTINGS,
                  accuracy=ACCURACY)
MICRO_V = 1e-6


def drop(current_a, standard_v=MICRO_V):
    return Drop(current_a * 1.3, standard_v, 1.2e-3)


def wired(**shunt):
    return replace(WIRING, shunt=replace(WIRING.shunt, **shunt))


@pytest.mark.parametrize(
    ("current_a", "status", "words"),
    [
        (9.3e-3, OK, "9.30 mA"),
        (15e-3 / 2.9, OK, ""),
        (15e-3 / 3.1, FAULT, "far less than board can draw"),
        (1e-3, FAULT, "bypasses the shunt"),
        (44e-3, OK, ""),
        (46e-3, FAULT, "far more than board can draw"),
        (9.0, FAULT, "unit"),
        (-9.3e-3, FAULT, "the shunt reads negative: swap the leads"),
        (0.0, FAULT, "the shunt reads nothing"),
        (2e-4, FAULT, "the shunt reads nothing"),  # 0.26 mV, less than a quarter of a code
    ],
)
def test_what_the_shunt_reads(current_a, status, words):
    found = judge_shunt(drop(current_a), WIRING, BOARD, 1.0)
    assert (found.name, found.status) == ("shunt", status)
    assert words in found.text
    assert found.value == pytest.approx(current_a)


def test_the_current_carries_the_shunts_tolerance():
    found = judge_shunt(drop(10e-3, 0.0), WIRING, BOARD, 1.0)
    # 95 % of the width of one rectangular distribution.
    assert found.expanded == pytest.approx(0.95 * 0.01 * 10e-3, rel=1e-3)


def test_two_channels_that_cannot_tell():
    found = judge_shunt(drop(9e-3, standard_v=0.05), wired(wiring="two-channel"), BOARD, 1.0)
    assert found.status == WARNING
    assert "differential probe" in found.text


@pytest.mark.parametrize(
    ("lost", "current_a", "status", "words"),
    [
        (True, 9e-3, OK, "starts anew"),
        (True, 0.0, OK, "starts anew"),
        (False, 9e-3, FAULT, "kept its memory"),
        (False, 0.0, FAULT, "[dut] power"),
    ],
)
def test_the_supply_switch(lost, current_a, status, words):
    found = judge_switch(drop(current_a), lost, by_hand=False)
    assert (found.status, words in found.text) == (status, True)
    assert "by hand" in judge_switch(drop(current_a), lost, by_hand=True).text


@pytest.mark.parametrize(
    ("zero_v", "status"),
    [
        # The limit: 3 mV, and 2 % of the 8 mV that zero lies below mid-screen.
        (3.15e-3, OK), (-3.15e-3, OK), (3.17e-3, FAULT), (-3.17e-3, FAULT),
    ],
)
def test_the_offset(zero_v, status):
    assert judge_zero("offset", CHANNEL, zero_v, 1e-7).status == status


def test_an_offset_without_a_limit():
    found = judge_zero("offset", replace(CHANNEL, accuracy=None), 0.5, 1e-6)
    assert found.status == OK and "not known" in found.text


def rail(high_v, wiring=WIRING):
    trigger = replace(CHANNEL, name="CH2", settings={"offset_v": 1.65}, accuracy=replace(ACCURACY, offset_limit=0.1))
    line = Line("CH2", 0.0, high_v, 0.05, 0.2, 0.0, None, 1000)
    return judge_rail(line, trigger, wiring, BOARD)


def test_the_pins_level_is_the_mcus_rail():
    """Limits: 2 % of what lies above mid-screen, 0.1 V of offset, 1 % of the supply, 20 mV across the shunt."""
    limit_v = 0.02 * 1.65 + 0.1 + 0.033 + 0.0195
    assert rail(3.3 + 0.99 * limit_v).status == OK
    assert rail(3.3 - 0.95 * limit_v).status == OK
    assert rail(3.3 + 1.05 * limit_v).status == FAULT
    found = rail(3.3, replace(WIRING, supply=Supply(5.0)))
    assert found.status == FAULT
    assert "52 % too large" in found.text and "voltage_v" in found.text
    assert rail(3.3, replace(WIRING, supply=Supply(5.0, node="board"))).status == LEFT_OUT


def test_a_measured_supply():
    channel = replace(CHANNEL, name="CH3", settings={"offset_v": 0.0}, accuracy=replace(ACCURACY, offset_limit=0.1))
    wiring = replace(WIRING, supply=Supply(3.3, channel="CH3"))
    assert judge_supply_channel(channel, 3.2, wiring).status == OK
    found = judge_supply_channel(channel, 0.001, wiring)
    assert found.status == FAULT and "supply's channel" in found.text


@pytest.mark.parametrize(
    ("ratio", "status"),
    # 50 ppm of crystal, 10 of time base, two samples of 50 ns and nine cycles in 3 ms: 218 ppm.
    [(0.0, OK), (215e-6, OK), (-215e-6, OK), (222e-6, FAULT), (0.333, FAULT)],
)
def test_two_clocks(ratio, status):
    found = judge_timer(3e-3 * (1 + ratio), 3e-3, 50e-9, 10e-6, BOARD)
    assert found.status == status
    assert found.value == pytest.approx(ratio, abs=1e-12)


def flows(*parts):
    return [Contribution(name, "B", "rectangular", rectangular(r), "1", rectangular(r)) for name, r in parts]


@pytest.mark.parametrize(
    ("ratio", "status"),
    # 2 % of the channel, 1 % of the shunt, 1 % of the supply and 0.1 % of the load.
    [(1.0, OK), (1.0405, OK), (0.9595, OK), (1.0425, FAULT), (0.9575, FAULT), (0.3, FAULT)],
)
def test_the_gain(ratio, status):
    level = Level(ratio * 13e-3, 1e-7, 29, 0.0, 280e-6, 1000)
    found = judge_gain(level, 10e-3, flows(("supply", 0.01), ("load", 0.001)), WIRING, ACCURACY)
    assert (found.status, found.value) == (status, pytest.approx(1 / ratio))
    # One rectangular term dominates: 95 % of it, and a little.
    assert found.expanded == pytest.approx(0.95 * 0.01 / ratio, rel=0.03)


def step(tau_s, delay_s=4e-9):
    standard_s = None if tau_s is None else 1e-4 * tau_s
    return Step(0.0, 13e-3, tau_s, standard_s, 30e-9 if tau_s is None else tau_s, delay_s, 0.5e-9, 1000)


@pytest.mark.parametrize(
    ("capacitance_f", "stated_f", "status", "words"),
    [
        (4.7e-6, 4.7e-6, OK, "4.70 µF ± 20 %"),
        (5.6e-6, 4.7e-6, OK, ""),
        (6.0e-6, 4.7e-6, FAULT, "write decoupling_f = 6e-06 and decoupling_tolerance_ratio = 0.02"),
        (100e-9, 4.7e-6, FAULT, "contradicts"),
        (4.7e-6, None, WARNING, "write decoupling_f = 4.7e-06"),
        (None, None, OK, "not slowed"),
        (None, 0.0, OK, "not slowed"),
        (None, 4.7e-6, FAULT, "decoupling_f = 0"),
    ],
)
def test_the_time_constant(capacitance_f, stated_f, status, words):
    found = judge_tau(
        step(None if capacitance_f is None else 1.3 * capacitance_f), 10e-6, 330.0, wired(decoupling_f=stated_f)
    )
    assert (found.name, found.status) == ("time constant", status)
    assert words in found.text


@pytest.mark.parametrize(("delay_s", "status"), [(4e-9, OK), (-19e-9, OK), (40e-9, WARNING), (-40e-9, WARNING)])
def test_the_latency(delay_s, status):
    found = judge_latency(step(6e-6, delay_s), 0.2e-9)
    assert (found.status, found.value) == (status, delay_s)
    assert found.expanded == pytest.approx(1.96 * math.hypot(0.5e-9, 0.2e-9), rel=0.01)
    assert ("deskew" in found.text) == (status == WARNING)


@pytest.mark.parametrize(("ratio", "status"), [(9e-6, OK), (-10.5e-6, OK), (13e-6, FAULT), (-0.01, FAULT)])
def test_the_time_base(ratio, status):
    found = judge_timebase(Stretch(ratio, 1e-7, 2e-7, 4), 1e-3, 1e-6, 10e-6)
    assert (found.status, found.value) == (status, ratio)


def test_the_noise_floor():
    noise = Noise(rms=290e-6, density=(290e-6) ** 2 * 1e-9, dt_s=1e-9, n_stretches=64)
    found = judge_noise(noise, 1.3, 3.3, 1e-3, [CHANNEL])
    assert (found.status, found.value) == (OK, 290e-6)
    # 290 uV / 1.3 ohm x 3.3 V x sqrt(1 ns x 1 ms)
    assert "noise alone" in found.text and "740 pJ" in found.text
    assert judge_noise(replace(noise, rms=1e-3), 1.3, 3.3, 1e-3, [CHANNEL]).status == WARNING


def test_the_effective_bits():
    found = judge_bits(CHANNEL, 2 / math.sqrt(12))
    assert (found.status, found.value) == (OK, pytest.approx(7.0))
    assert "without a sine" in found.text
    assert judge_bits(CHANNEL, 32 / math.sqrt(12)).status == WARNING
    assert judge_bits(replace(CHANNEL, code_min=None), 1.0).status == LEFT_OUT


def test_the_largest_limit_is_told():
    limits = [Limit("samples", 16e-9, "20 samples"), Limit("decoupling", 30e-6, "5 taus"), Limit("noise", 4e-9, "1 %")]
    found = tell_shortest(limits, [])
    assert (found.status, found.value) == (OK, 30e-6)
    for word in ("set by decoupling", "16 ns", "4.0 ns"):
        assert word in found.text
    assert tell_shortest(limits, ["noise"]).status == WARNING
