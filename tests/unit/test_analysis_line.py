"""A line's two levels and edges, and what the trigger pin's look like when it is wired wrongly."""

from dataclasses import replace

import numpy as np
import pytest

from instruments.record import Channel
from labctl.analysis.finding import FAULT, OK
from labctl.analysis.line import read_line
from labctl.analysis.pin import Series, find_swap, judge_trigger
from labctl.model import Wiring

BOARD = {"name": "board", "pins": {"trigger": "PC6", "level_v": 3.3}}
RISING, FALLING = Wiring(trigger_edge="rising"), Wiring(trigger_edge="falling")
SCALE_V = 6.6 / 256
DT_S = 1e-6
# 160 us of every 1 ms.
SERIES = Series("busy", 160e-6, 1e-3)
NOISE_CODES = 2.0


def channel(volts, name="CH2", *, scale=SCALE_V, noise=NOISE_CODES, seed=1):
    """Digitise about mid-screen, with noise, as an oscilloscope does."""
    volts = np.atleast_2d(volts)
    codes = (volts - 1.65) / scale + 128 + np.random.default_rng(seed).normal(0.0, noise, volts.shape)
    return Channel(name, np.clip(np.rint(codes), 0, 255).astype(np.uint8), scale, 1.65 - 128 * scale,
                   code_min=0, code_max=255)


def pulses(high_v=3.3, low_v=0.0, *, n=12, width=160, period=1000):
    volts = np.full(n * period, low_v)
    for k in range(n):
        volts[k * period + period // 2 : k * period + period // 2 + width] = high_v
    return volts


def judge(volts, wiring=RISING, others=(), **more):
    return judge_trigger(read_line(channel(volts, **more)), others, wiring, BOARD, SERIES, DT_S, 1.0)


def test_levels_and_lengths():
    line = read_line(channel(pulses()))
    assert line.switches
    assert (line.low, line.high) == (pytest.approx(0.0, abs=0.01), pytest.approx(3.3, abs=0.01))
    assert line.noise == pytest.approx(NOISE_CODES * SCALE_V, rel=0.1)
    assert line.high_ratio == pytest.approx(0.16, abs=0.001)
    assert line.stretches(high=True) == pytest.approx(160, abs=1)
    # The stretches at both ends are cut, so they do not count.
    assert line.stretches(high=False) == pytest.approx([840] * 11, abs=1)


def test_a_channel_that_counts_downwards():
    upright = read_line(channel(pulses(), noise=0.5))
    codes = 255 - channel(pulses(), noise=0.5).codes
    turned = read_line(Channel("CH2", codes.astype(np.uint8), -SCALE_V, 1.65 + 127 * SCALE_V))
    assert (turned.low, turned.high) == (pytest.approx(upright.low), pytest.approx(upright.high))
    assert turned.high_ratio == pytest.approx(upright.high_ratio)
    assert len(turned.stretches(high=True)) == 12


def test_values_that_are_floats():
    line = read_line(Channel("CH2", pulses()[None, :].astype(np.float32), 1.0, 0.0))
    assert (line.low, line.high) == (pytest.approx(0.0, abs=0.001), pytest.approx(3.3, abs=0.001))


@pytest.mark.parametrize("noise", [0.0, 0.3, 2.0, 20.0])
def test_noise_is_not_two_levels(noise):
    line = read_line(channel(np.full(100_000, 1.2), noise=noise))
    assert not line.switches and line.edges is None
    assert line.low == line.high == pytest.approx(1.2, abs=SCALE_V)
    assert len(line.stretches(high=True)) == 0


def test_even_noise_is_not_two_levels():
    codes = np.random.default_rng(2).integers(90, 170, (1, 100_000)).astype(np.uint8)
    assert not read_line(Channel("CH2", codes, SCALE_V, 0.0)).switches


def test_what_leaves_the_screen_is_counted():
    assert read_line(channel(pulses(high_v=9.9))).clipped_ratio == pytest.approx(0.16, abs=0.001)


def test_a_good_trigger():
    found = judge(pulses())
    assert found.status == OK
    assert found.value == pytest.approx(3.3, abs=0.02)
    assert judge(3.3 - pulses(), FALLING).status == OK


@pytest.mark.parametrize(
    ("volts", "wiring", "words"),
    [
        (np.zeros(12_000), RISING, ["never moves: wrong pin, cable or channel", "PC6"]),
        (np.full(12_000, 3.3), RISING, ["stuck high", "3.30 V"]),
        (pulses(high_v=0.33), RISING, ["too small", "trigger_probe_ratio", "10 would fit"]),
        (3.3 - pulses(), RISING, ["inverted", "idles high", 'trigger_edge = "falling"']),
        (pulses(), FALLING, ["inverted", "idles low", 'trigger_edge = "rising"']),
        (np.where(np.arange(12_000) % 1000 == 580, 0.0, pulses()), RISING, ["extra edges", "24 of 24"]),
        (pulses(width=320), RISING, ["not with the DUT", "wrong pin"]),
    ],
    ids=["never", "stuck", "small", "inverted", "inverted-falling", "extra", "another-signal"],
)
def test_each_fault_of_the_trigger_is_named(volts, wiring, words):
    found = judge(volts, wiring)
    assert (found.name, found.status) == ("trigger", FAULT)
    for word in words:
        assert word in found.text


def test_a_swing_that_is_too_large():
    found = judge_trigger(
        read_line(channel(10 * pulses() - 15, scale=66 / 256)), (), RISING, BOARD, SERIES, DT_S, 10.0
    )
    assert found.status == FAULT
    assert "too large" in found.text and "1 would fit" in found.text


def test_one_glitch_among_good_pulses():
    volts = pulses()
    volts[3100:3103] = 3.3
    found = judge(volts)
    assert found.status == FAULT
    assert "1 of 13 pulses" in found.text


def test_another_channel_that_moves_is_told():
    other = read_line(channel(pulses(), "CH4"))
    found = judge(np.zeros(12_000), others=(other,))
    assert "CH4 switches by 3.30 V" in found.text


def test_swapped_wires():
    shunt, trigger = read_line(channel(pulses(), "CH1")), read_line(channel(pulses(high_v=0.013)))
    found = find_swap(trigger, [shunt], BOARD)
    assert found is not None and found.name == "wires" and "swapped" in found.text
    assert find_swap(read_line(channel(pulses())), [shunt], BOARD) is None
    # Noise and a small drop on the shunt's channel are no pin.
    assert find_swap(trigger, [replace(trigger, name="CH1")], BOARD) is None
