"""Logic levels held as changes read as the samples would."""

import numpy as np
import pytest

from instruments.levels import Levels, from_samples
from instruments.record import Channel
from labctl.analysis.trigger import find_edges

SAMPLES = np.array([1, 1, 0, 0, 0, 1, 0, 1, 1, 1], np.uint8)
KEYS = [
    0, -1, slice(None), (0, slice(None)), (0, slice(2, 7)), (slice(0, 1), slice(1, 9, 3)), (0, slice(5, 5)),
    (0, slice(-4, None)), (0, slice(None, None, -1)), (0, 5), (0, -1), (slice(None), [2, 5, 9]), (0, slice(3, 100)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=map(str, KEYS))
def test_they_slice_as_an_array_does(key):
    levels = Levels(10, 1, [2, 5, 6, 7])
    expected = SAMPLES[np.newaxis][key]
    found = levels[key]
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


def test_they_are_an_array_where_one_is_wanted():
    levels = from_samples(SAMPLES)
    assert (levels.first_level, levels.changes.tolist(), levels.shape) == (1, [2, 5, 6, 7], (1, 10))
    assert np.array_equal(np.asarray(levels), SAMPLES[np.newaxis])
    assert levels.statistics() == (0.0, 1.0, 0.6)
    assert from_samples(1 - SAMPLES).statistics() == (0.0, 1.0, 0.4)
    assert [Levels(10, level, []).statistics() for level in (0, 1)] == [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0)]


@pytest.mark.parametrize("changes", [[0], [10], [3, 3], [5, 4]])
def test_changes_that_cannot_be_are_refused(changes):
    with pytest.raises(ValueError, match="ascend"):
        Levels(10, 0, changes)


def test_a_sample_that_is_not_there():
    with pytest.raises(IndexError, match="10"):
        Levels(10, 0, [])[0, 10]


@pytest.mark.parametrize("first", [0, 1])
def test_edges_are_found_without_looking_at_the_samples(first):
    """An hour at 500 MS/s: 1.8e12 samples, four edges, each half a sample before the first of its level."""
    levels = Levels(1_800_000_000_000, first, [10, 1_000_000_000, 5_000_000_000, 1_799_999_999_999])
    edges, cut = find_edges(Channel("D0", levels, 1.0, 0.0, unit="", kind="digital"))
    assert edges.position.tolist() == [9.5, 999_999_999.5, 4_999_999_999.5, 1_799_999_999_998.5]
    assert edges.rising.tolist() == [first == 0, first == 1] * 2
    assert edges.level.tolist() == [first == 1]
    assert (cut.level, cut.low, cut.high) == (0.5, 0.0, 1.0)
