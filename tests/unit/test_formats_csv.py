"""Scope .csv in every shape, written here by hand from the documented layouts; and every way to break one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.errors import ConfigError, FileFault
from labctl.formats import describe, read_file

KEYSIGHT = """x-axis,1,2
second,Volt,Ampere
-1.0E-03,+1.5E-03,-2.0E-01
+0.0E-03,+2.5E-03,-3.0E-01
+1.0E-03,+3.5E-03,-4.0E-01
"""
COUNTED = """X,CH1,CH3,Start,Increment,\r
Sequence,Volt,Amp,-1.2e-03,4.0e-08\r
0,1.5e+00,3.0e+00,\r
1,2.5e+00,4.0e+00,\r
"""
TIMED = """X,CH1,CH2,
Second,Volt,Volt,
-6.0e-04,1.0e+00,5.0e+00,
-5.8e-04,2.0e+00,6.0e+00,
-5.6e-04,3.0e+00,7.0e+00,
"""
UNCOUNTED = """CH1,CH2,CH3,Start,Increment,
Volt,Volt,Volt,-5.0e-03,1.0e-06,
1.0,2.0,3.0,
4.0,5.0,6.0,
"""
NAMED = """"Number of Data points =",3
"Sampling Period =",2.0e-06
"Start Time =",-4.0e-06
"Time","CH1"
-4.0e-06,1.5
-2.0e-06,2.5
0.0e-06,3.5
"""
SHAPES = {"keysight": KEYSIGHT, "counted": COUNTED, "timed": TIMED, "uncounted": UNCOUNTED, "named": NAMED}


def written(folder, text, name="scope.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(folder, text, **options):
    return read_file(written(folder, text), **options)


def values(foreign, name):
    channel = foreign.record.channels[name]
    return (np.asarray(channel.codes[0], np.float64) * channel.scale + channel.offset).tolist()


def test_keysight(tmp_path):
    foreign = read(tmp_path, KEYSIGHT)
    assert foreign.format == "keysight-csv"
    assert foreign.record.dt_s == 1e-3
    assert foreign.record.segment_start_s.tolist() == pytest.approx([-1e-3])
    assert values(foreign, "CH1") == pytest.approx([1.5e-3, 2.5e-3, 3.5e-3], rel=1e-7)
    assert values(foreign, "CH2") == pytest.approx([-0.2, -0.3, -0.4], rel=1e-7)
    assert [(c.label, c.unit) for c in foreign.record.channels.values()] == [("1", "V"), ("2", "A")]
    assert foreign.warnings == ()


def test_rows_without_values_at_the_end_are_left_out_and_counted(tmp_path):
    foreign = read(tmp_path, KEYSIGHT + "+2.0E-03,,\n+3.0E-03,,\n\n")
    assert foreign.record.n_samples == 3
    assert foreign.warnings == ("2 incomplete row(s) at the end left out",)
    assert min(values(foreign, "CH1")) > 0  # no empty value became 0 V


def test_rigol_with_counted_samples(tmp_path):
    foreign = read(tmp_path, COUNTED)
    assert foreign.format == "rigol-csv"
    assert (foreign.record.dt_s, foreign.record.segment_start_s.tolist()) == (4e-8, [-1.2e-3])
    assert (values(foreign, "CH1"), values(foreign, "CH3")) == ([1.5, 2.5], [3.0, 4.0])
    assert [c.unit for c in foreign.record.channels.values()] == ["V", "A"]


def test_rigol_counted_samples_may_begin_later(tmp_path):
    foreign = read(tmp_path, COUNTED.replace("\n0,", "\n22,").replace("\n1,", "\n23,"))
    assert foreign.record.segment_start_s[0] == pytest.approx(-1.2e-3 + 22 * 4e-8, rel=1e-12)


def test_rigol_without_an_increment_needs_a_rate(tmp_path):
    text = COUNTED.replace("4.0e-08", "Inf")
    foreign = read(tmp_path, text)
    assert foreign.record.dt_s is None
    assert "--rate" in foreign.warnings[0]
    assert describe(foreign)["channels"][0]["dt_s"] is None
    assert read(tmp_path, text, rate_hz=1e6).record.dt_s == 1e-6


def test_rigol_with_times(tmp_path):
    foreign = read(tmp_path, TIMED)
    assert foreign.record.dt_s == 2e-5
    assert foreign.record.segment_start_s[0] == pytest.approx(-6e-4)
    assert values(foreign, "CH2") == [5.0, 6.0, 7.0]


@pytest.mark.parametrize("header", [",CH1,CH2\nSecond,Volt,Volt\n", "Time,X(CH1),X(CH2)\nSecond,Volt,Volt\n"])
def test_rigol_with_times_under_other_names(tmp_path, header):
    rows = "-3.2768e-02,3.04e+00,9.4e+00, \n-3.2760e-02,3.00e+00,9.2e+00, \n-3.2752e-02,3.08e+00,9.6e+00, \n"
    foreign = read(tmp_path, header + rows)
    assert foreign.record.dt_s == 8e-6
    assert list(foreign.record.channels) == ["CH1", "CH2"]
    assert values(foreign, "CH1") == pytest.approx([3.04, 3.0, 3.08])


@pytest.mark.parametrize(
    ("dt_s", "start_s", "n", "form"),
    [
        (2e-6, -6e-4, 600, "{:.7e}"),  # float32 stamps as a DS1102E prints them
        (2e-9, -8.192e-6, 8192, "{:.2E}"),  # three digits, several rows with one stamp, as a DS1052E prints them
        (1 / 3e6, 0.0, 5000, "{:.7e}"),
        (4e-10, -1.4e-3, 14_000, "{:.9e}"),
    ],
)
def test_rounded_time_stamps_give_the_interval(tmp_path, dt_s, start_s, n, form):
    times_s = (start_s + np.arange(n) * dt_s).astype(np.float32)
    if np.ptp(times_s) < 1e-3 * abs(start_s):
        times_s = start_s + np.arange(n) * dt_s  # float32 would not resolve these; such firmware prints more digits
    rows = "".join(f"{form.format(t)},{i % 5},\n" for i, t in enumerate(times_s))
    foreign = read(tmp_path, "X,CH1,\nSecond,Volt,\n" + rows)
    assert foreign.record.n_samples == n
    assert foreign.record.dt_s == pytest.approx(dt_s, rel=1e-6)
    assert foreign.record.segment_start_s[0] == pytest.approx(start_s, abs=dt_s / 2)


def test_rigol_without_x(tmp_path):
    foreign = read(tmp_path, UNCOUNTED)
    assert (foreign.record.dt_s, foreign.record.segment_start_s.tolist()) == (1e-6, [-5e-3])
    assert [values(foreign, f"CH{k}") for k in (1, 2, 3)] == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]


def test_rigol_without_x_and_without_units(tmp_path):
    foreign = read(tmp_path, "CH1,Start,Increment,\n1.0,-5.0e-03,1.0e-06,\n1.5,\n2.5,\n")
    assert (foreign.record.dt_s, foreign.record.segment_start_s.tolist()) == (1e-6, [-5e-3])
    assert values(foreign, "CH1") == [1.0, 1.5, 2.5]


def test_units_may_stand_behind_the_names(tmp_path):
    foreign = read(tmp_path, "CH1(V),CH2(A),Start,Increment,\n1.0,2.0,-5.0e-03,1.0e-06,\n1.5,3.0,\n")
    assert [(c.name, c.label, c.unit) for c in foreign.record.channels.values()] == [
        ("CH1", "CH1(V)", "V"),
        ("CH2", "CH2(A)", "A"),
    ]


def test_rigol_with_named_values(tmp_path):
    foreign = read(tmp_path, NAMED)
    assert (foreign.record.dt_s, foreign.record.segment_start_s[0]) == (2e-6, pytest.approx(-4e-6))
    assert values(foreign, "CH1") == [1.5, 2.5, 3.5]
    assert foreign.warnings == ()


@pytest.mark.parametrize(
    ("line", "dt_s"),
    [
        ('"Sample Interval =",0.5,"us"', 5e-7),
        ('"Sampling Rate =",500.0E3', 2e-6),
        ('"Sampling Rate =","1.0 MSa/s"', 1e-6),
        ('"Increment =",4e-9', 4e-9),
    ],
)
def test_named_values_may_stand_for_the_interval_in_several_ways(tmp_path, line, dt_s):
    foreign = read(tmp_path, f'"Number of Data points =",2\n{line}\n1.5\n2.5\n')
    assert foreign.record.dt_s == pytest.approx(dt_s, rel=1e-12)
    assert values(foreign, "CH1") == [1.5, 2.5]


def test_named_values_that_promise_more_samples_are_reported(tmp_path):
    foreign = read(tmp_path, NAMED.replace('points =",3', 'points =",8192'))
    assert "the header promises 8192 samples, the file holds 3" in foreign.warnings
    foreign = read(tmp_path, '"Number of Data points =",2\n1.5\n2.5\n')
    assert foreign.record.dt_s is None
    assert "--rate" in foreign.warnings[0]


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("shape", SHAPES)
def test_decimal_commas_with_another_separator_read_the_same(tmp_path, shape, separator):
    plain = read(tmp_path, SHAPES[shape])
    foreign = read(tmp_path, SHAPES[shape].replace(",", separator).replace(".", ","))
    assert describe(foreign)["channels"] == describe(plain)["channels"]


@pytest.mark.parametrize("shape", SHAPES)
def test_decimal_commas_between_commas_are_refused(tmp_path, shape):
    head, _, rows = SHAPES[shape].partition('CH1"\n' if shape == "named" else "\n")
    text = head + ('CH1"\n' if shape == "named" else "\n") + rows.replace(".", ",")
    with pytest.raises(FileFault, match=r"decimals|columns|fields"):
        read(tmp_path, text)


def test_thousands_marks_are_refused(tmp_path):
    with pytest.raises(FileFault, match="thousands"):
        read(tmp_path, "x-axis;1\nsecond;Volt\n0;1.000,5\n1;2.000,5\n")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1.0E-03,nan,2.0", "line 5: 'nan' is not a number"),
        ("1.0E-03,,2.0", "line 5: '' is not a number"),
        ("1.0E-03,OFL,2.0", "line 5: 'OFL' is not a number"),
        ("1.0E-03,1.0", "line 5: it has 2 fields, not 3"),
        ("1.0E-03,1.0,2.0,3.0", "line 5: it has 4 fields, not 3"),
        ("1.0E-03,1e999,2.0", "too large"),
        ("9.0E-03,1.0,2.0", "not evenly spaced"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path, row, words):
    with pytest.raises(FileFault, match=words):
        read(tmp_path, KEYSIGHT.replace("+1.0E-03,+3.5E-03,-4.0E-01", row) + "+2.0E-03,+3.5E-03,-4.0E-01\n")


def test_missing_rows_are_refused(tmp_path):
    with pytest.raises(FileFault, match="line 4: the sample numbers jump"):
        read(tmp_path, COUNTED.replace("\n1,", "\n2,"))


@pytest.mark.parametrize("text", [KEYSIGHT.splitlines()[0] + "\n", "X,CH1,\nSecond,Volt,\n", "\n\n", "words only\n"])
def test_headers_without_numbers_are_refused(tmp_path, text):
    with pytest.raises(FileFault, match="text without a table"):
        read(tmp_path, text)


def test_a_small_signal_on_a_large_level_keeps_its_digits(tmp_path):
    rows = "".join(f"{i},{3.3 + 1e-6 * (i % 4):.9f},\n" for i in range(8))
    foreign = read(tmp_path, "X,CH1,Start,Increment,\nSequence,Volt,0,1e-6\n" + rows)
    channel = foreign.record.channels["CH1"]
    assert channel.codes.dtype == np.float32
    assert values(foreign, "CH1") == pytest.approx([3.3 + 1e-6 * (i % 4) for i in range(8)], abs=3e-6 * 1e-6)


def test_line_ends_and_marks_of_other_systems(tmp_path):
    plain = describe(read(tmp_path, TIMED))["channels"]
    for text in (TIMED.replace("\n", "\r\n"), TIMED.replace("\n", "\r"), "\ufeff" + TIMED):
        assert describe(read(tmp_path, text))["channels"] == plain


@pytest.mark.parametrize("shape", SHAPES)
def test_every_cut_is_refused_or_gives_only_true_samples(tmp_path, shape):
    """A cut may cost samples; it may never change one, and a cut row must be told."""
    text = SHAPES[shape]
    whole = read(tmp_path, text)
    n_header_lines = len(text.splitlines()) - whole.record.n_samples
    for length in range(len(text)):
        try:
            foreign = read(tmp_path, text[:length])
        except FileFault:
            continue
        n = foreign.record.n_samples
        for name in foreign.record.channels:
            assert values(foreign, name) == pytest.approx(values(whole, name)[:n], rel=1e-6, abs=1e-9)
        n_begun = sum(1 for line in text[:length].splitlines() if line.strip()) - n_header_lines
        assert n == n_begun or foreign.warnings


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_damage_is_refused_or_read_as_numbers(tmp_path_factory, data):
    text = bytearray(SHAPES[data.draw(st.sampled_from(sorted(SHAPES)))].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    path = written(tmp_path_factory.getbasetemp(), bytes(text), "damaged.csv")
    try:
        described = describe(read_file(path))
    except FileFault:
        return
    for channel in described["channels"]:
        assert channel["min"] <= channel["mean"] <= channel["max"] or channel["min"] == pytest.approx(channel["max"])


def test_a_rate_goes_before_the_files_own_and_says_so(tmp_path):
    foreign = read(tmp_path, TIMED, rate_hz=1e6)
    assert foreign.record.dt_s == 1e-6
    assert any("50000 Hz" in warning for warning in foreign.warnings)
    for rate_hz in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="sample rate"):
            read(tmp_path, TIMED, rate_hz=rate_hz)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5 file that is no capture"),
        (b"jlsfmt\r\n \n \x1a  \xb2\x1c" + bytes(100), "Joulescope .jls"),
        ("x-axis,1\n".encode("utf-16"), "UTF-16"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        (b"PK\x03\x04 and no more", "damaged zip"),
        (bytes(range(256)), "no kind known"),
        (b"hello\n", "without a table"),
    ],
)
def test_files_of_other_kinds_are_named(tmp_path, content, words):
    with pytest.raises(FileFault, match=words):
        read(tmp_path, content)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(FileFault, match="No such file"):
        read_file(tmp_path / "absent.csv")
    with pytest.raises(FileFault, match="a folder"):
        read_file(tmp_path)
