"""Spans of time, times of day and sizes as a person types and reads them."""

import datetime

import pytest

from labctl.errors import ConfigError
from labctl.units import parse_size, parse_time, parse_time_of_day, size_text, time_text


@pytest.mark.parametrize(
    ("text", "time_s"),
    [("8 h", 28800), ("90 min", 5400), ("1 h 30 min", 5400), ("1h30min", 5400), ("500 ms", 0.5), ("2 s", 2),
     ("0.5 h", 1800), ("2 days", 172800), ("1 minute", 60), (" 3 s ", 3), ("1 d 2 h 3 min 4 s", 93784)],
)
def test_spans_of_time(text, time_s):
    assert parse_time(text) == time_s


@pytest.mark.parametrize("text", ["8", "8 hrs", "", "h", "-1 h", "0 s", "1 h x", "x 1 h", "1e9 d", "1,5 h", "3 m", 8,
                                  None, True, [1], "nan s", "inf h"])
def test_no_spans_of_time(text):
    with pytest.raises(ConfigError, match=r"8 h|point"):
        parse_time(text, what="max_time")


def test_times_of_day():
    assert parse_time_of_day("07:00") == datetime.time(7)
    assert parse_time_of_day("7:05") == datetime.time(7, 5)
    assert parse_time_of_day(" 23:59 ") == datetime.time(23, 59)


@pytest.mark.parametrize("text", ["24:00", "7", "7:5", "07:60", "7 am", "", None, 7, "07:00:00", "٠٧:٠٠"])
def test_no_times_of_day(text):
    with pytest.raises(ConfigError, match="07:00"):
        parse_time_of_day(text)


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("20 GB", 20_000_000_000), ("512 MiB", 512 * 1024**2), ("1kB", 1000), ("1.5 TB", 1_500_000_000_000), ("7 B", 7)],
)
def test_sizes(text, n_bytes):
    assert parse_size(text) == n_bytes


@pytest.mark.parametrize("text", ["20", "20 gb", "-1 GB", "0 B", "0.1 B", "1e30 B", "", 20, None, "1,5 GB"])
def test_no_sizes(text):
    with pytest.raises(ConfigError, match=r"20 GB|point"):
        parse_size(text)


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(0, "0 s"), (45, "45 s"), (99, "99 s"), (120, "2 min"), (3600, "60 min"), (7200, "2 h"), (12_000, "3 h 20 min"),
     (172_799, "2 d"), (187_200, "2 d 4 h")],
)
def test_spans_are_printed_in_two_units_at_most(time_s, text):
    assert time_text(time_s) == text


def test_sizes_are_printed_with_their_prefix():
    assert size_text(5_200_000) == "5.2 MB"
    assert size_text(20e9) == "20 GB"
    assert size_text(0) == "0 B"
