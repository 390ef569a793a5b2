"""Sums of blocks are exact, and what is answered from them equals what numpy says of the samples."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from instruments.record import Channel, Identity, Record
from labctl.model import Capture, Wiring
from labctl.store import envelope, open_capture, range_statistics, write_capture
from labctl.store.pyramid import BLOCKS, block_sums, coarser, sum_range

SCOPE = Identity("a", "b", "c", "d")


def capture(codes, scale=0.25, offset=-3.0, gaps=(), kind="analog"):
    line = Channel("CH1", codes, scale, offset, "A", kind)
    starts = np.arange(codes.shape[0]) * 1.0
    return Capture({"series": Record({"CH1": line}, 1e-6, starts, SCOPE, gaps=tuple(gaps))}, Wiring())


def noise(dtype, shape, seed=0):
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16])
@pytest.mark.parametrize("n_samples", [1023, 1024, 1025, 5 * 1024 + 7, 33 * 1024 - 1])
def test_block_sums_equal_sums_of_python_integers(dtype, n_samples):
    codes = noise(dtype, (2, n_samples))
    sums = block_sums(codes, 1024)
    assert sums["sum"].shape == (2, n_samples // 1024)
    for row in range(2):
        for k in range(n_samples // 1024):
            block = codes[row, 1024 * k : 1024 * (k + 1)].tolist()
            assert sums["sum"][row, k] == sum(block)
            assert sums["sum_squares"][row, k] == sum(v * v for v in block)
            assert sums["minimum"][row, k] == min(block)
            assert sums["maximum"][row, k] == max(block)


@pytest.mark.parametrize("code", [-32768, 32767])
def test_the_largest_codes_do_not_overflow(tmp_path, code):
    n_samples = BLOCKS[2] + 3 * BLOCKS[1] + 5
    path = write_capture(tmp_path / "a.h5", capture(np.full((1, n_samples), code, np.int16), 1.0, 0.0))
    with open_capture(path) as read:
        codes = read.records["series"].channels["CH1"].codes
        assert sorted(codes.pyramid) == list(BLOCKS)
        sums = sum_range(codes, codes.pyramid, 0, 0, n_samples)
        assert (sums.n_samples, sums.total) == (n_samples, n_samples * code)
        assert sums.total_squares == n_samples * code**2
        assert (sums.minimum, sums.maximum) == (code, code)
        said = range_statistics(read, "series", "CH1")
        assert (said.mean, said.std, said.minimum, said.maximum) == (code, 0.0, code, code)


def test_more_squares_than_an_int64_holds():
    n_blocks = 5000
    level = {
        "sum": np.full((1, n_blocks), -(2**15) * 2**20, np.int64),
        "sum_squares": np.full((1, n_blocks), 2**30 * 2**20, np.int64),
        "minimum": np.full((1, n_blocks), -(2**15), np.int16),
        "maximum": np.full((1, n_blocks), -(2**15), np.int16),
    }
    many = {2**20: {name: np.tile(one, 4) for name, one in level.items()}}
    sums = sum_range(None, many, 0, 0, 4 * n_blocks * 2**20)
    assert sums.total_squares == 4 * n_blocks * 2**50 > 2**63


def test_coarser_levels_are_sums_of_finer_ones():
    codes = noise(np.int16, (3, 70 * 1024 + 9))
    fine = block_sums(codes, 1024)
    for name, values in coarser(fine, 32).items():
        assert values.tolist() == block_sums(codes, 32 * 1024)[name].tolist()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
@pytest.mark.parametrize("shape", [(1, 2_200_001), (3, 70_000), (500, 1500), (4, 100)])
def test_any_range_is_summarised_exactly(tmp_path, dtype, shape):
    codes = noise(dtype, shape, 1)
    path = write_capture(tmp_path / "a.h5", capture(codes))
    rng = np.random.default_rng(2)
    ranges = [(0, shape[1]), (0, 1), (shape[1] - 1, shape[1])]
    ranges += [tuple(sorted(rng.choice(shape[1] + 1, 2, replace=False).tolist())) for _ in range(25)]
    with open_capture(path) as read:
        held = read.records["series"].channels["CH1"].codes
        for start, stop in ranges:
            segment = int(rng.integers(shape[0]))
            part = codes[segment, start:stop].astype(np.int64)
            sums = sum_range(held, held.pyramid, segment, start, stop)
            assert sums.total == int(part.sum())
            assert sums.total_squares == int((part * part).sum())
            said = range_statistics(read, "series", "CH1", segment, start, stop)
            assert said.n_samples == stop - start
            assert said.mean == pytest.approx(part.mean() * 0.25 - 3, rel=1e-14, abs=1e-14 * 2**14)
            assert said.std == pytest.approx(part.std() * 0.25, rel=1e-12)
            assert (said.minimum, said.maximum) == (part.min() * 0.25 - 3, part.max() * 0.25 - 3)
            assert said.unit == "A"


def test_mean_and_deviation_are_rounded_once():
    codes = np.array([[1, 2, 2]], np.uint8)
    said = range_statistics(capture(codes, 1.0, 0.0), "series", "CH1")
    assert said.mean == float(Fraction(5, 3))
    assert said.std == math.sqrt(Fraction(2, 9))


def test_a_negative_scale_turns_the_extremes_round(tmp_path):
    path = write_capture(tmp_path / "a.h5", capture(np.array([[10, 20, 40]], np.int8), scale=-2.0, offset=1.0))
    said = range_statistics(path, "series", "CH1")
    assert (said.minimum, said.maximum) == (-79.0, -19.0)
    assert said.std > 0
    outline = envelope(path, "series", "CH1", n_columns=1)
    assert (outline.minimum.tolist(), outline.maximum.tolist()) == ([-79.0], [-19.0])


def test_numbers_that_are_none_are_counted_and_left_out(tmp_path):
    codes = np.array([[1.0, np.nan, 3.0, np.inf, -np.inf]], np.float32)
    path = write_capture(tmp_path / "a.h5", capture(codes, 1.0, 0.0))
    said = range_statistics(path, "series", "CH1")
    assert (said.n_samples, said.n_invalid, said.mean, said.std) == (2, 3, 2.0, 1.0)
    nothing = range_statistics(path, "series", "CH1", 0, 3, 5)
    assert (nothing.n_samples, nothing.n_invalid) == (0, 2)
    assert math.isnan(nothing.mean)


def test_codes_of_four_bytes_are_summed_exactly_too():
    codes = np.array([[2**31 - 1, 2**31 - 1, -(2**31)]], np.int32)
    said = range_statistics(capture(codes, 1.0, 0.0), "series", "CH1")
    assert said.mean == float(Fraction(2**31 - 2, 3))


def test_a_gap_is_left_out(tmp_path):
    codes = np.full((2, 200_000), 5, np.uint8)
    codes[1, 50_000:120_000] = 0
    gaps = [(0, 0, 10), (1, 50_000, 40_000), (1, 80_000, 40_000)]
    path = write_capture(tmp_path / "a.h5", capture(codes, 1.0, 0.0, gaps))
    said = range_statistics(path, "series", "CH1", 1)
    assert (said.n_samples, said.n_gap, said.minimum, said.maximum) == (130_000, 70_000, 5.0, 5.0)
    inside = range_statistics(path, "series", "CH1", 1, 60_000, 61_000)
    assert (inside.n_samples, inside.n_gap) == (0, 1000)
    outline = envelope(path, "series", "CH1", 1, n_columns=20)
    middle = (outline.position[:-1] >= 50_000) & (outline.position[1:] <= 120_000)
    assert middle.sum() >= 5
    assert np.isnan(outline.mean[middle]).all()
    assert outline.mean[~middle].tolist() == [5.0] * int((~middle).sum())


@pytest.mark.parametrize("held", ["file", "memory"])
@pytest.mark.parametrize(("start", "stop", "n_columns"), [
    (0, 2_200_001, 1), (0, 2_200_001, 2), (0, 2_200_001, 50), (0, 2_200_001, 1000), (777, 1_500_123, 300),
    (777, 1_500_123, 3), (5, 4000, 100), (5, 25, 100), (9, 10, 7), (9, 9, 7),
])
def test_an_outline_covers_its_range(tmp_path, held, start, stop, n_columns):
    codes = noise(np.int16, (1, 2_200_001), 3)
    given = capture(codes)
    source = write_capture(tmp_path / "a.h5", given) if held == "file" else given
    outline = envelope(source, "series", "CH1", 0, start, stop, n_columns)
    position = outline.position
    assert (position[0], position[-1]) == (start, stop)
    assert (np.diff(position) > 0).all()
    assert len(position) - 1 == len(outline.mean) <= n_columns
    assert len(outline.mean) >= min(n_columns, stop - start) // 2
    for k, (first, last) in enumerate(pairwise(position)):
        part = codes[0, first:last] * 0.25 - 3
        assert (outline.minimum[k], outline.maximum[k]) == (part.min(), part.max())
        assert outline.mean[k] == pytest.approx(part.mean(), rel=1e-12, abs=1e-9)


def test_digital_lines_have_no_pyramid(tmp_path):
    path = write_capture(tmp_path / "a.h5", capture(np.ones((1, 5000), np.uint8), 1.0, 0.0, kind="digital"))
    with open_capture(path) as read:
        assert read.records["series"].channels["CH1"].codes.pyramid == {}
    assert range_statistics(path, "series", "CH1").mean == 1.0


@pytest.mark.parametrize(("segment", "start", "stop"), [(2, 0, 1), (-1, 0, 1), (0, -1, 1), (0, 0, 11), (0, 5, 4)])
def test_a_range_that_is_not_there_is_refused(segment, start, stop):
    given = capture(np.zeros((2, 10), np.int8))
    for function in (range_statistics, envelope):
        with pytest.raises(IndexError, match="outside the record: 2 segments of 10 samples"):
            function(given, "series", "CH1", segment, start, stop)


def test_names_that_are_not_there_are_answered_with_those_that_are():
    given = capture(np.zeros((2, 10), np.int8))
    with pytest.raises(KeyError, match="no null/CH1; it has series/CH1"):
        range_statistics(given, "null", "CH1")
    with pytest.raises(KeyError, match="no series/CH9"):
        envelope(given, "series", "CH9")
    with pytest.raises(IndexError, match="at least one column"):
        envelope(given, "series", "CH1", n_columns=0)
