"""One pass over codes: exact sums whatever the block, NaN and clipping counted, edges where the line crosses."""

import math

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.analysis import kernels
from labctl.analysis.kernels import Spans

TYPES = (np.uint8, np.int8, np.int16, np.float32)


def codes_of(dtype, shape, seed=0):
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return generator.normal(1e-3, 1.0, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def spans_of(*rows):
    return Spans(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def test_sums_of_integers_equal_those_of_unbounded_integers():
    for dtype in TYPES[:3]:
        codes = codes_of(dtype, (2, 20_000))
        spans = spans_of((1, 3, 19_999), (0, 0, 20_000), (1, 4095, 4097), (0, 17, 18))
        (sums,), _ = kernels.sum_spans([codes], spans)
        for k, (segment, start, stop) in enumerate(zip(spans.segment, spans.start, spans.stop, strict=True)):
            values = [int(c) for c in codes[segment, start:stop]]
            assert sums.n[k] == len(values)
            assert sums.total[k] == sum(values)
            assert sums.squares[k] == sum(v * v for v in values)
            assert (sums.low[k], sums.high[k]) == (min(values), max(values))
            assert (sums.first[k], sums.last[k]) == (values[0], values[-1])


def test_two_to_the_31_samples_of_the_largest_square_do_not_overflow():
    codes = np.broadcast_to(np.int16(-32768), (1, kernels.SPAN_MAX_SAMPLES + 1))
    (sums,), _ = kernels.sum_spans([codes], spans_of((0, 1, kernels.SPAN_MAX_SAMPLES + 1)))
    assert sums.total[0] == -(2**46)
    assert sums.squares[0] == 2**61
    with pytest.raises(ValueError, match="too long"):
        kernels.sum_spans([codes], spans_of((0, 0, kernels.SPAN_MAX_SAMPLES + 1)))


def test_a_span_outside_the_record_is_refused():
    with pytest.raises(ValueError, match="outside the record's 1 x 100 samples"):
        kernels.sum_spans([codes_of(np.int8, (1, 100))], spans_of((0, 50, 101)))


@settings(deadline=None, max_examples=30)
@given(
    dtype=st.sampled_from(TYPES),
    block=st.integers(4096, 40_000),
    bounds=st.lists(st.integers(0, 30_000), min_size=2, max_size=2, unique=True).map(sorted),
    seed=st.integers(0, 99),
)
def test_the_block_length_changes_no_bit(dtype, block, bounds, seed):
    codes = codes_of(dtype, (2, 30_000), seed)
    other = codes_of(np.int16, (2, 30_000), seed + 1)
    spans = spans_of((1, *bounds))
    whole, cross = kernels.sum_spans([codes, other], spans, block_samples=1 << 20)
    parts, cross_parts = kernels.sum_spans([codes, other], spans, block_samples=block)
    for a, b in zip(whole, parts, strict=True):
        for name, values in vars(a).items():
            np.testing.assert_array_equal(values, getattr(b, name))
    np.testing.assert_array_equal(cross[0, 1], cross_parts[0, 1])


@pytest.mark.parametrize("chunks", [None, (1, 5000), (7, 30_000), (3, 11_111)])
def test_a_file_gives_the_same_bits_as_memory(tmp_path, chunks):
    codes = codes_of(np.float32, (7, 30_000))
    second = codes_of(np.int16, (7, 30_000))
    spans = spans_of(*((s, 100 * s, 29_000 + s) for s in (0, 2, 3, 6)))
    with h5py.File(tmp_path / "codes.h5", "w") as file:
        stored = file.create_dataset("a", data=codes, chunks=chunks)
        plain = file.create_dataset("b", data=second)
        for block in (4096, 12_000, 1 << 20):
            there, cross_there = kernels.sum_spans([stored, plain], spans, block_samples=block)
            here, cross_here = kernels.sum_spans([codes, second], spans)
            np.testing.assert_array_equal(there[0].total, here[0].total)
            np.testing.assert_array_equal(there[1].squares, here[1].squares)
            np.testing.assert_array_equal(cross_there[0, 1], cross_here[0, 1])


def test_cross_sums_are_exact():
    a, b = codes_of(np.int16, (1, 9000)), codes_of(np.uint8, (1, 9000))
    _, cross = kernels.sum_spans([a, b], spans_of((0, 5, 8999)))
    assert cross[0, 1][0] == sum(int(x) * int(y) for x, y in zip(a[0, 5:8999], b[0, 5:8999], strict=True))


def test_what_is_no_number_is_counted_and_never_summed():
    codes = np.ones((1, 10_000), np.float32)
    codes[0, [0, 4096, 9999]] = np.nan
    (sums,), _ = kernels.sum_spans([codes], spans_of((0, 0, 10_000), (0, 1, 4096)))
    assert list(sums.n_nan) == [3, 0]
    assert list(sums.n) == [9997, 4095]
    assert list(sums.total) == [9997.0, 4095.0]
    assert (sums.low[0], sums.high[0]) == (1.0, 1.0)


def test_codes_at_or_beyond_the_limits_are_clipped():
    codes = np.array([[0, 1, 100, 254, 255, 255]], np.uint8)
    (sums,), _ = kernels.sum_spans([codes], spans_of((0, 0, 6), (0, 1, 4)), clip_limits=[(0, 255)])
    assert list(sums.n_clipped) == [3, 0]
    (sums,), _ = kernels.sum_spans([codes], spans_of((0, 0, 6)), clip_limits=[(None, 254)])
    assert list(sums.n_clipped) == [3]


def test_wide_integers_are_refused():
    with pytest.raises(ValueError, match="codes of type int32"):
        kernels.sum_spans([np.zeros((1, 30), np.int32)], spans_of((0, 0, 30)))


def test_edges_lie_where_the_line_between_samples_crosses():
    line = np.array([[0, 0, 1, 3, 3, 1, 0, 0, 3, 3]], np.int16)
    edges = kernels.edges_from_codes(line, 1.5, 0.4)
    # 1 to 3 passes 1.5 after a quarter of the step; 3 to 1 after three quarters; 0 to 3 after half.
    assert list(edges.position) == [2.25, 4.75, 7.5]
    assert list(edges.rising) == [True, False, True]
    assert list(edges.level) == [False]
    assert (edges.low, edges.high) == (0, 3)


def test_hysteresis_swallows_what_does_not_pass_it():
    # Up to 60 and back is no edge at 50 +- 20; the fall counts from the last crossing before 30 was reached.
    line = np.array([[0, 60, 0, 100, 45, 55, 100, 45, 55, 20]], np.int16)
    edges = kernels.edges_from_codes(line, 50.0, 40.0)
    assert list(edges.rising) == [True, False]
    assert edges.position[0] == 2.5
    assert edges.position[1] == pytest.approx(8 + 5 / 35)


def test_a_slow_edge_is_dated_by_its_crossing_not_by_its_confirmation():
    line = np.arange(0, 101, 10, dtype=np.int16)[None, :]
    edges = kernels.edges_from_codes(line, 55.0, 60.0)
    assert list(edges.position) == [5.5]


def test_nan_in_the_trigger_line_moves_nothing():
    line = np.zeros((1, 4000), np.float32)
    line[0, 1500:2500] = 1.0
    line[0, [0, 700, 1023, 2000]] = np.nan
    edges = kernels.edges_from_codes(line, 0.5, 0.1)
    assert list(edges.position) == [1499.5, 2499.5]
    assert (edges.low, edges.high) == (0, 1)


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 3000), min_size=1, max_size=12),
    first=st.booleans(),
    block=st.integers(4096, 9000),
)
def test_codes_give_the_edges_that_were_made(lengths, first, block):
    levels = np.repeat([bool(k % 2) ^ first for k in range(len(lengths))], lengths)
    made = np.cumsum(lengths)[:-1] - 0.5
    edges = kernels.edges_from_codes(levels[None, :].astype(np.uint8), 0.5, 0.0, block)
    np.testing.assert_array_equal(edges.position, made)
    np.testing.assert_array_equal(edges.rising, [bool(k % 2) ^ first for k in range(1, len(lengths))])
    assert list(edges.level) == [first]


def test_each_segment_has_edges_of_its_own():
    line = np.zeros((3, 5000), np.uint8)
    line[0, 100:200] = line[2, 4999:] = 1
    edges = kernels.edges_from_codes(line, 0.5, 0.0)
    assert list(zip(edges.segment, edges.position, strict=True)) == [(0, 99.5), (0, 199.5), (2, 4998.5)]


def test_extremes_leave_nan_out():
    codes = np.array([[np.nan, np.nan, 2.0, -3.0, np.nan]], np.float32)
    assert kernels.code_extremes(codes) == (-3.0, 2.0)
    assert kernels.code_extremes(np.full((1, 5), np.nan, np.float32)) == (math.inf, -math.inf)
