"""The trigger's edges and bits in a capture say what its codes say."""

import numpy as np
import pytest

from instruments.record import Channel, Identity, Record
from labctl.analysis.trigger import find_edges, find_windows
from labctl.model import Capture, Window, Wiring
from labctl.store import open_capture, write_capture

SCOPE = Identity("a", "b", "c", "d")
RISE, FALL = 500, 1500


def square(n_segments, n_samples, dtype=np.uint8, low=10, high=210):
    """A pulse from sample 500 + s to 1500 + 2 s, one code halfway up: edges fall on samples exactly."""
    codes = np.full((n_segments, n_samples), low, dtype)
    for s in range(n_segments):
        codes[s, RISE + s : FALL + 2 * s] = high
    return codes


def capture(codes, wiring=None, kind="analog", scale=0.02):
    line = Channel("CH2", codes, scale, 0.0, kind=kind)
    record = Record({"CH2": line}, 1e-6, np.arange(codes.shape[0]) * 1.0, SCOPE)
    return Capture({"series": record}, wiring or Wiring(trigger_channel="CH2"))


def stored(path):
    with open_capture(path, verify=True) as read:
        held = read.records["series"].channels["CH2"].codes.trigger
        bits = None if held is None else np.unpackbits(held.bits[...], axis=1)
        return held, bits


@pytest.mark.parametrize("shape", [(20, 3001), (3, 2_100_003), (1, 1604)])
def test_edges_and_bits_of_a_square_wave(tmp_path, shape):
    codes = square(*shape)
    held, bits = stored(write_capture(tmp_path / "a.h5", capture(codes)))
    segments = np.arange(shape[0])
    # The line between codes 10 and 210 crosses their middle, 110, halfway between two samples.
    assert held.edges.position[0::2].tolist() == (RISE + segments - 0.5).tolist()
    assert held.edges.position[1::2].tolist() == (FALL + 2 * segments - 0.5).tolist()
    assert held.edges.segment.tolist() == np.repeat(segments, 2).tolist()
    assert held.edges.rising.tolist() == [True, False] * shape[0]
    assert held.edges.level.tolist() == [False] * shape[0]
    assert held.cut.level == pytest.approx(2.2)
    assert bits.shape == (shape[0], -(-shape[1] // 8) * 8)
    assert (bits[:, : shape[1]] == (codes > 110)).all()
    assert not bits[:, shape[1] :].any()


def test_a_falling_channel_and_a_digital_one(tmp_path):
    codes = square(4, 4000)
    held, bits = stored(write_capture(tmp_path / "a.h5", capture(codes, scale=-0.02)))
    assert held.edges.rising.tolist() == [False, True] * 4
    assert (bits == (codes < 110)).all()
    digital = (codes > 110).astype(np.uint8)
    held, bits = stored(write_capture(tmp_path / "b.h5", capture(digital, kind="digital", scale=1.0)))
    assert len(held.edges.position) == 8
    assert (bits == digital).all()


def test_the_analysis_gets_the_same_windows(tmp_path):
    given = capture(square(20, 3001))
    expected = [Window(s, RISE + s - 0.5, FALL + 2 * s - 0.5) for s in range(20)]
    assert find_windows(given.records["series"], given.wiring) == (expected, [])
    path = write_capture(tmp_path / "a.h5", given)
    with open_capture(path) as read:
        assert find_windows(read.records["series"], read.wiring) == (expected, [])


def test_another_threshold_is_answered_from_the_codes(tmp_path):
    codes = square(2, 3000)
    codes[:, 200:300] = 60
    path = write_capture(tmp_path / "a.h5", capture(codes))
    with open_capture(path) as read:
        line = read.records["series"].channels["CH2"]
        assert len(find_edges(line)[0].position) == 4
        assert len(find_edges(line, 0.6, 0.1)[0].position) == 8


def test_the_threshold_asked_for_is_the_one_kept(tmp_path):
    codes = square(2, 3000)
    codes[:, 200:300] = 60
    wiring = Wiring(trigger_channel="CH2", threshold=0.6, hysteresis=0.1)
    held, bits = stored(write_capture(tmp_path / "a.h5", capture(codes, wiring)))
    assert held.asked == (0.6, 0.1)
    assert (held.cut.level, held.cut.hysteresis) == (0.6, 0.1)
    assert (bits == (codes > 30)).all()


@pytest.mark.parametrize("codes", [
    np.full((2, 3000), 7, np.uint8),
    np.random.default_rng(0).normal(0, 3, (2, 3000)).round().astype(np.int8),
    np.random.default_rng(0).integers(0, 2, (2, 3000)).astype(np.uint8) * 200,
    np.full((1, 30), np.nan, np.float32),
    np.zeros((1, 0), np.uint8),
    np.zeros((0, 10), np.uint8),
])
def test_a_line_that_does_not_switch_or_only_rattles_has_none(tmp_path, codes):
    path = write_capture(tmp_path / "a.h5", capture(codes))
    held, _ = stored(path)
    assert held is None
    with open_capture(path) as read:
        assert np.asarray(read.records["series"].channels["CH2"].codes).tobytes() == codes.tobytes()


def test_other_channels_have_none(tmp_path):
    given = capture(square(2, 3000), Wiring(trigger_channel="CH1"))
    assert stored(write_capture(tmp_path / "a.h5", given))[0] is None
