"""Windows from the trigger line, and each refusal with what is wrong and what to do."""

from types import SimpleNamespace

import numpy as np
import pytest

from instruments.record import Channel, Identity, Record
from labctl.analysis import kernels
from labctl.analysis.trigger import check_complete, find_edges, find_windows, in_gap
from labctl.errors import CaptureError, ConfigError
from labctl.model import Window, Wiring

WIRING = Wiring(trigger_channel="CH2")
DT_S = 1e-6


def record_of(*segments, scale=3.3 / 200, offset=0.0, noise=0.0, dtype=np.uint8):
    """Make a record whose CH2 runs through the given (level, samples) pairs, one list a segment; 1 is 200 codes."""
    rows = [np.concatenate([np.full(n, 200.0 * level) for level, n in segment]) for segment in segments]
    codes = np.stack(rows) + np.random.default_rng(1).normal(0, noise, (len(rows), len(rows[0])))
    if np.dtype(dtype).kind in "iu":
        codes = np.clip(codes, 0, 255).round()
    channel = Channel("CH2", codes.astype(dtype), scale, offset)
    return Record({"CH2": channel}, DT_S, np.arange(len(rows)) * 1.0, Identity("a", "b", "c", "d"))


GOOD = [(0, 100), (1, 300), (0, 100)]


def windows(record, wiring=WIRING, **options):
    return find_windows(record, wiring, **options)


def test_a_pulse_is_a_window_from_crossing_to_crossing():
    found, refused = windows(record_of(GOOD, GOOD))
    assert found == [Window(0, 99.5, 399.5), Window(1, 99.5, 399.5)]
    assert refused == []


def test_without_trigger_channel_each_segment_is_one_window():
    found, refused = windows(record_of(GOOD, GOOD), Wiring())
    assert found == [Window(0, -0.5, 499.5), Window(1, -0.5, 499.5)]
    assert refused == []


def test_noise_moves_an_edge_by_less_than_a_sample():
    found, _ = windows(record_of(GOOD, noise=3.0))
    assert abs(found[0].start - 99.5) < 0.1
    assert abs(found[0].stop - 399.5) < 0.1


def test_an_active_low_trigger_gives_the_same_windows():
    low = [(1, 100), (0, 300), (1, 100)]
    falling = Wiring(trigger_channel="CH2", trigger_edge="falling")
    assert windows(record_of(low), falling)[0] == windows(record_of(GOOD))[0]


def test_a_channel_with_negative_scale_rises_when_its_codes_fall():
    low = [(1, 100), (0, 300), (1, 100)]
    assert windows(record_of(low, scale=-3.3 / 200, offset=3.3))[0] == windows(record_of(GOOD))[0]


def test_threshold_in_volts_moves_the_crossing():
    record = record_of([(0, 100), (0.25, 1), (1, 300), (0, 100)])
    # From 0.25 to 1 of 3.3 V, 2.475 V lies two thirds up; the default, half, one third.
    assert find_edges(record.channels["CH2"], 2.475, 0.1)[0].position[0] == pytest.approx(100 + 2 / 3)
    assert find_edges(record.channels["CH2"])[0].position[0] == pytest.approx(100 + 1 / 3)


def test_a_digital_line_needs_no_threshold():
    bits = np.repeat([0, 1, 0], [50, 60, 70]).astype(np.uint8)[None, :]
    edges, cut = find_edges(Channel("D0", bits, 1.0, 0.0, unit="", kind="digital"))
    assert list(edges.position) == [49.5, 109.5]
    assert (cut.level, cut.hysteresis) == (0.5, 0.0)


def test_edges_that_a_capture_file_brings_are_taken_for_the_same_threshold_only():
    channel = record_of(GOOD).channels["CH2"]
    edges, cut = find_edges(channel)
    marked = kernels.Edges(edges.segment, edges.position + 5, edges.rising, edges.level, edges.low, edges.high)

    class Stored(np.ndarray):
        trigger = SimpleNamespace(asked=(None, None), edges=marked, cut=cut)

    stored = Channel("CH2", channel.codes.view(Stored), channel.scale, channel.offset)
    assert list(find_edges(stored)[0].position) == [104.5, 404.5]
    assert list(find_edges(stored, 1.0)[0].position) == list(find_edges(channel, 1.0)[0].position)


def test_several_pulses_in_one_segment_are_several_windows():
    found, refused = windows(record_of([(0, 50), (1, 40), (0, 50), (1, 60), (0, 50)]))
    assert [(w.start, w.stop) for w in found] == [(49.5, 89.5), (139.5, 199.5)]
    assert refused == []


def test_pulses_cut_by_either_end_of_a_single_segment_are_refused_and_the_others_stay():
    found, refused = windows(record_of([(1, 50), (0, 90), (1, 60), (0, 90), (1, 40)]))
    assert [(w.start, w.stop) for w in found] == [(139.5, 199.5)]
    assert [r.reason for r in refused] == [
        "one edge, window cut by the start of the record",
        "one edge, window cut by the end of the record",
    ]
    assert [(r.window.start, r.window.stop) for r in refused] == [(-0.5, 49.5), (289.5, 329.5)]


def refusal(record, wiring=WIRING, **options):
    with pytest.raises(CaptureError) as caught:
        windows(record, wiring, **options)
    return str(caught.value)


def test_no_edge_names_channel_levels_and_remedy():
    text = refusal(record_of([(0, 300)]))
    assert text.startswith("no trigger edge on CH2: it stays between 0 V and 0 V")
    assert "check that the trigger channel sees the board's trigger pin" in text


def test_noise_about_one_level_is_no_edge():
    text = refusal(record_of([(0.5, 20_000)], noise=4.0))
    assert "no trigger edge on CH2" in text
    assert "without two distinct levels" in text


def test_the_pins_swing_is_in_volt_and_says_nothing_of_a_logic_input():
    bits = np.repeat(np.array([[0, 1, 0]], np.uint8), 100, axis=1)
    pin = Channel("D0", bits, 1.0, 0.0, unit="", kind="digital")
    record = Record({"D0": pin}, DT_S, np.zeros(1), Identity(*"abcd"))
    wiring = Wiring(trigger_channel="D0", threshold=0.5, hysteresis=0.5)
    assert windows(record, wiring, swing=3.3)[0] == [Window(0, 99.5, 199.5)]


def test_less_than_the_pins_swing_is_no_edge():
    # A fifth of 3.3 V: crosstalk, not the pin.
    text = refusal(record_of([(0, 100), (0.2, 300), (0, 100)]), swing=3.3)
    assert "stays between 0 V and 0.66 V" in text


def test_a_threshold_outside_the_lines_range_is_no_edge():
    text = refusal(record_of(GOOD), Wiring(trigger_channel="CH2", threshold=5.0, hysteresis=0.1))
    assert "the threshold is 5 V" in text


def test_one_edge_is_a_window_cut_by_the_record():
    text = refusal(record_of([(0, 100), (1, 400)]))
    assert text.startswith("one edge, window cut by the end of the record on CH2")
    assert "lengthen the record" in text
    text = refusal(record_of([(1, 100), (0, 400)]))
    assert text.startswith("one edge, window cut by the start of the record")
    assert "more time before the trigger" in text


def test_an_idle_high_line_is_an_inverted_trigger():
    inverted = [(1, 100), (0, 300), (1, 100)]
    text = refusal(record_of(inverted, inverted))
    assert text.startswith("trigger inverted")
    assert 'the line idles high: set trigger_edge = "falling"' in text
    text = refusal(record_of(GOOD, GOOD), Wiring(trigger_channel="CH2", trigger_edge="falling"))
    assert 'the line idles low: set trigger_edge = "rising"' in text


def test_a_series_upside_down_in_one_segment_is_an_inverted_trigger_and_not_its_pauses():
    text = refusal(record_of([(1, 90), *[(0, 60), (1, 90)] * 5]))
    assert text.startswith("trigger inverted")
    assert 'set trigger_edge = "falling"' in text


def test_a_scope_that_triggered_at_the_wrong_end_shows_an_inverted_trigger():
    # Active for 400 us after its edge where the DUT says that the operation takes 300 us: that is idle, not a window.
    wrong = [(0, 100), (1, 400)]
    assert refusal(record_of(wrong, wrong), expected_duration_s=300e-6).startswith("trigger inverted")
    assert refusal(record_of(wrong, wrong), expected_duration_s=600e-6).startswith("one edge, window cut by the end")


def test_refused_segments_are_counted_and_the_others_survive():
    extra = [(0, 100), (1, 100), (0, 50), (1, 150), (0, 100)]
    still = [(0, 500)]
    stuck = [(1, 500)]
    cut = [(0, 300), (1, 200)]
    found, refused = windows(record_of(GOOD, extra, still, GOOD, stuck, cut))
    assert [w.segment for w in found] == [0, 3]
    assert [(r.segment, r.reason) for r in refused] == [
        (1, "extra trigger edge"),
        (2, "no trigger edge"),
        (4, "trigger stuck"),
        (5, "one edge, window cut by the end of the record"),
    ]
    assert refused[0].detail == "4 edges in segment 1, 2 expected"


def test_extra_edges_everywhere_leave_nothing():
    extra = [(0, 100), (1, 100), (0, 50), (1, 150), (0, 100)]
    text = refusal(record_of(extra, extra))
    assert text.startswith("extra trigger edge on CH2")
    assert "2 of 2 windows refused so; none is left" in text
    assert "glitches or ringing" in text


def test_a_single_segment_with_another_number_than_expected():
    three = [(0, 50), *[(1, 40), (0, 50)] * 3]
    assert len(windows(record_of(three), expected=3)[0]) == 3
    assert refusal(record_of(three), expected=2).startswith("extra trigger edge: 3 whole windows on CH2, 2 expected")
    text = refusal(record_of(three), expected=4)
    assert text.startswith("truncated or missed: 3 whole windows on CH2, 4 expected")


def test_nineteen_samples_are_too_few_and_twenty_are_enough():
    assert len(windows(record_of([(0, 50), (1, 20), (0, 50)]))[0]) == 1
    text = refusal(record_of([(0, 50), (1, 19), (0, 50)]))
    assert "too few samples" in text
    assert "19.0 samples in the window, 20 needed" in text
    assert "raise the sample rate, or repeat the operation in each window (--iterations 10)" in text


def test_unknown_channel_and_edge_are_configuration_errors():
    with pytest.raises(ConfigError, match="no channel 'CH9'; the record holds CH2"):
        windows(record_of(GOOD), Wiring(trigger_channel="CH9"))
    with pytest.raises(ConfigError, match='"rising"'):
        windows(record_of(GOOD), Wiring(trigger_channel="CH2", trigger_edge="up"))
    with pytest.raises(ConfigError, match="threshold nan"):
        windows(record_of(GOOD), Wiring(trigger_channel="CH2", threshold=float("nan")))


def test_a_gap_counts_where_it_overlaps():
    gaps = ((0, 100, 10), (1, 0, 1000), (0, 195, 10))
    assert in_gap(Window(0, 50.0, 200.0), gaps) == 15
    assert in_gap(Window(0, 120.0, 150.0), gaps) == 0


def test_a_truncated_record_says_what_is_missing():
    record = record_of(GOOD, GOOD)
    check_complete(record, "series", 2)
    with pytest.raises(CaptureError, match="series record is truncated: 2 of 20 segments"):
        check_complete(record, "series", 20)
    short = Channel("CH1", record.channels["CH2"].codes[:, :400], 1.0, 0.0)
    mixed = Record({**record.channels, "CH1": short}, DT_S, record.segment_start_s, record.instrument)
    with pytest.raises(CaptureError, match=r"truncated.*CH2 2 x 500, CH1 2 x 400"):
        check_complete(mixed, "series")
    missing = Record(record.channels, DT_S, np.arange(3.0), record.instrument)
    with pytest.raises(CaptureError, match="3 segments announced"):
        check_complete(missing, "series")
    with pytest.raises(CaptureError, match="no samples"):
        check_complete(Record({}, DT_S, np.arange(1.0), record.instrument), "zero")
