"""Words of a PPK2: the published conversion by hand, and what is made of lost, repeated and shifted bytes."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruments.drivers.ppk2_framing import Framer
from instruments.drivers.ppk2_words import (
    RESISTORS_OHM,
    current_table,
    currents,
    find_gaps,
    levels,
    lost_words,
    parse_metadata,
    ranges_used,
    voltage_bytes,
)
from instruments.errors import BadData

PLAIN = b"R0: 1000\nEND"


def word(adc, number=0, counter=0, logic=0):
    """Put a word together, from the places of its fields: 14, 3, 1 unused, 6 and 8 bits."""
    return adc + number * 2**14 + counter * 2**18 + logic * 2**24


def stream(n, first=0, logic=0):
    """Give `n` words that count on from `first`, each with a converter's result of its own."""
    return [word((37 * k) % 9973, 1, (first + k) % 64, logic) for k in range(n)]


def packed(words):
    return struct.pack(f"<{len(words)}I", *words)


def framed(data, piece=1 << 16):
    """Frame bytes that come `piece` by piece; return framer and words."""
    framer, found = Framer("ppk"), []
    for start in range(0, len(data), piece):
        part = data[start : start + piece]
        framer.room[: len(part)] = part
        found += [word for words in framer.take(len(part)) for word in words.tolist()]
    return framer, found


# --- metadata --------------------------------------------------------------------------------------------------------


def test_metadata_of_a_unit():
    text = (
        b"Calibrated: 1\nR0: 1003.5062\nR1: 101.5865\nR2: 10.3027\nR3: 0.9636\nR4: 0.0564\nGS0: 0.0000\nGS1: 112.789\n"
        b"GI1: 0.9695\nO0: 112.942\nS4: 0.000207\nI0: -0.000000104\nUG2: 1.02\nVDD: 2915\nHW: 9173\n"
        b"mode: 2\nIA: 56\nEND"
    )
    found = parse_metadata(text, "ppk")
    assert found.constants["R"] == (1003.5062, 101.5865, 10.3027, 0.9636, 0.0564)
    assert found.constants["GS"] == (0.0, 112.789, 1.0, 1.0, 1.0)
    assert found.constants["GI"] == (1.0, 0.9695, 1.0, 1.0, 1.0)
    assert found.constants["O"] == (112.942, 0.0, 0.0, 0.0, 0.0)
    assert found.constants["S"] == (0.0, 0.0, 0.0, 0.0, 0.000207)
    assert found.constants["I"] == (-0.000000104, 0.0, 0.0, 0.0, 0.0)
    assert found.constants["UG"] == (1.0, 1.0, 1.02, 1.0, 1.0)
    assert (found.vdd_v, found.mode, found.calibrated, found.hardware) == (2.915, 2, True, "9173")
    assert found.others == {"IA": "56"}


def test_metadata_without_numbers_leave_the_published_defaults():
    text = b"R0: 0.0000\nR1: -nan\nR2: inf\nGS0: -nan\nGI0: 0\nUG0: 0\nO0: -nan\nVDD: -nan\nmode: x\nEND"
    found = parse_metadata(text, "ppk")
    assert found.constants["R"] == RESISTORS_OHM == (1031.64, 101.65, 10.15, 0.94, 0.043)
    assert [found.constants[name][0] for name in ("GS", "GI", "UG", "O")] == [1, 1, 1, 0]
    assert (found.vdd_v, found.mode, found.calibrated) == (None, None, None)


def test_what_is_no_metadata_is_refused_by_name():
    with pytest.raises(BadData, match=r"/dev/x: the metadata hold no constant .*b'OK\\nEND'"):
        parse_metadata(b"OK\nEND", "/dev/x")


# --- conversion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "vdd_v", "bits", "current_a"),
    [
        # 4 x 250 x 1.8 / 163840 / 1000, all else neutral but for the quadratic term of the default GS = 1.
        (PLAIN, 3.0, word(250), 1.0986328125e-5 * (1 + 1.0986328125e-5)),
        # Largest result, 16383 x 4 - 65 = 65536 - 69; 65536 x 1.8 / 163840 = 0.72, less 69 x 1.0986328125e-5; / 100.
        (b"R1: 100\nGS1: 0\nO1: 65\nEND", 3.0, word(16383, 1), 7.19241943359375e-3),
        # r = 2^13 x 4 x 1.8 / 163840 / 9 = 0.04; 0.5 r^2 + 2 r = 0.0808; + 1e-3 x 5 - 2e-3 = 0.0838; x 1.5.
        (b"R2: 9\nGS2: 0.5\nGI2: 2\nS2: 0.001\nI2: -0.002\nUG2: 1.5\nEND", 5.0, word(8192, 2), 0.1257),
        # The same word at another supply: the term S x Vdd alone changes, by 1e-3 x (5 - 3) x 1.5.
        (b"R2: 9\nGS2: 0.5\nGI2: 2\nS2: 0.001\nI2: -0.002\nUG2: 1.5\nEND", 3.0, word(8192, 2), 0.1227),
        # Neither counter nor levels touch it; below the offset the current is negative: -1 x 1.8/163840 / 0.9.
        (b"R3: 0.9\nGS3: 0\nO3: 5\nEND", 3.0, word(1, 3, 63, 255), -1.220703125e-5),
        (b"R4: 0.05\nGS4: 0\nEND", 3.0, word(1000, 4, 1, 1), 0.87890625),
    ],
)
def test_the_published_conversion_by_hand(metadata, vdd_v, bits, current_a):
    table = current_table(parse_metadata(metadata, "ppk").constants, vdd_v)
    assert currents(np.array([bits], np.uint32), table)[0] == pytest.approx(current_a, rel=2e-7)


def test_a_range_that_no_unit_has_is_no_number():
    table = current_table(parse_metadata(PLAIN, "ppk").constants, 3.0)
    words = np.array([word(1, number) for number in range(8)], np.uint32)
    assert np.isnan(currents(words, table)).tolist() == [False] * 5 + [True] * 3
    assert ranges_used(words) == (0, 1, 2, 3, 4)
    assert find_gaps(words) == ((5, 3),)


def test_every_level_has_its_bit():
    words = np.array([word(0, logic=1 << k) for k in range(8)] + [word(16383, 7, 63, 0)], np.uint32)
    for k in range(8):
        assert levels(words, k).tolist() == [int(i == k) for i in range(8)] + [0]


def test_what_stands_for_lost_words():
    made = lost_words(3, word(55, 2, 62, 0b10000001))
    assert find_gaps(made) == ((0, 3),)
    assert levels(made, 0).tolist() == levels(made, 7).tolist() == [1, 1, 1]
    assert levels(made, 1).tolist() == [0, 0, 0]
    assert [(w >> 18) & 63 for w in made.tolist()] == [63, 0, 1]


def test_gaps_across_blocks_are_one():
    words = np.zeros(1 << 17, np.uint32)
    words[(1 << 16) - 2 : (1 << 16) + 3] = word(0, 7)
    words[-1] = word(0, 5)
    assert find_gaps(words) == (((1 << 16) - 2, 5), ((1 << 17) - 1, 1))


@pytest.mark.parametrize(
    ("voltage_v", "data"), [(0.8, b"\x03\x20"), (3.3, b"\x0c\xe4"), (1.8, b"\x07\x08"), (5.0, b"\x13\x88")]
)
def test_voltage_of_the_regulator(voltage_v, data):
    # The published form: 3 + (mV - 800 + 32) div 256, then the remainder.
    lower = round(voltage_v * 1000) - 800 + 32
    assert voltage_bytes(voltage_v) == data == bytes([3 + lower // 256, lower % 256])


# --- framing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [1, 3, 4, 7, 64, 1000])
def test_words_come_whole_however_the_bytes_come(piece):
    words = stream(1000)
    framer, found = framed(packed(words), piece)
    assert found == words[:-8]
    assert (framer.n_lost, framer.n_repeated, framer.n_resyncs) == (0, 0, 0)


@pytest.mark.parametrize("piece", [5, 64, 1 << 16])
@pytest.mark.parametrize("n_lost", [1, 16, 31, 62])
def test_lost_words_leave_their_place(n_lost, piece):
    words = stream(500, logic=0b100)
    framer, found = framed(packed(words[:100] + words[100 + n_lost :]), piece)
    assert found[:100] == words[:100]
    assert found[100 + n_lost :] == words[100 + n_lost : -8]
    assert find_gaps(np.array(found, np.uint32)) == ((100, n_lost),)
    assert levels(np.array(found, np.uint32), 2).all()
    assert framer.n_lost == n_lost


def test_a_loss_of_a_whole_turn_of_the_counter_cannot_be_seen():
    words = stream(500)
    framer, found = framed(packed(words[:100] + words[164:]))
    assert framer.n_lost == 0
    assert len(found) == 500 - 64 - 8


@pytest.mark.parametrize("piece", [6, 1 << 16])
@pytest.mark.parametrize("n_bytes", [1, 2, 3, 5, 6, 61])
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_after_lost_bytes_words_are_found_again_in_their_place(at, n_bytes, piece):
    words = stream(400, logic=0xA5)
    data = packed(words)
    cut = 4 * 100 + at
    framer, found = framed(data[:cut] + data[cut + n_bytes :], piece)
    lost = find_gaps(np.array(found, np.uint32))
    assert len(lost) == 1
    first, n = lost[0]
    # What the missing bytes touch is lost, with two words before it and one behind it at most.
    assert 100 - 2 <= first <= 101
    assert 0 <= first + n - -(-(cut + n_bytes) // 4) <= 1
    assert found[:first] == words[:first]
    assert found[first + n :] == words[first + n : -8]
    assert framer.n_resyncs == 1
    assert framer.n_lost == n


@pytest.mark.parametrize("piece", [6, 1 << 16])
@pytest.mark.parametrize("n_bytes", [1, 2, 3, 5, 62, 64, 4, 128])
@pytest.mark.parametrize("at", [0, 1, 3])
def test_repeated_bytes_shift_nothing(at, n_bytes, piece):
    words = stream(400, logic=0xA5)
    data = packed(words)
    cut = 4 * 100 + at
    framer, found = framed(data[:cut] + data[cut - n_bytes :], piece)
    table = np.array(found, np.uint32)
    good = (table >> np.uint32(14)) & np.uint32(7) < 5
    assert table[good].tolist() == np.array(words)[: len(found)][good].tolist()
    assert framer.n_lost == (~good).sum() <= 5
    assert len(found) == 400 - 8


def test_a_stream_may_begin_inside_a_word():
    words = stream(200, first=60)
    _, found = framed(packed(words)[3:])
    assert found == words[2:-8]


def test_a_ramp_of_the_current_is_not_taken_for_the_counter():
    # The low byte of the converter counts by four, the step that the counter's byte makes.
    words = stream(100) + [word(4 * k, 2, (100 + k) % 64) for k in range(30)] + stream(170, first=130 % 64)
    data = packed(words)
    _, found = framed(data[:421] + data[422:])
    table = np.array(found, np.uint32)
    good = (table >> np.uint32(14)) & np.uint32(7) < 5
    assert table[good].tolist() == np.array(words)[: len(found)][good].tolist()
    assert len(found) == 300 - 8


def test_bytes_that_are_no_words_are_refused():
    with pytest.raises(BadData, match=r"ppk: 4096 bytes without words that count on, beginning b'\\x00\\x00"):
        framed(bytes(5000))


@settings(max_examples=50, deadline=None)
@given(
    first=st.integers(0, 63),
    losses=st.lists(st.tuples(st.integers(20, 60), st.integers(1, 40)), max_size=6),
    piece=st.integers(30, 3000),
)
def test_any_losses_leave_every_other_word_in_its_place(first, losses, piece):
    words = stream(2000, first)
    kept, position, lost = [], 0, set()
    for n_kept, n_lost in losses:
        kept += words[position : position + n_kept]
        lost |= set(range(position + n_kept, position + n_kept + n_lost))
        position += n_kept + n_lost
    framer, found = framed(packed(kept + words[position:]), piece)
    assert len(found) == 2000 - 8
    good = [k for k, w in enumerate(found) if (w >> 14) & 7 < 5]
    assert set(range(len(found))) - set(good) == lost
    assert all(found[k] == words[k] for k in good)
    assert framer.n_lost == len(lost)
