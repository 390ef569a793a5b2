"""Quantities as text: rules of the SI brochure (9th edition, 3 and 5.4) and of JCGM 100:2008, 7.2."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.errors import ConfigError
from labctl.units import (
    parse,
    parse_ratio,
    percent,
    quantity,
    short,
    with_uncertainty,
)


@pytest.mark.parametrize(
    ("text", "value_ohm"),
    [
        ("1.3", 1.3),
        ("1.3 ohm", 1.3),
        ("1.3Ω", 1.3),
        ("1.3 \u2126", 1.3),
        (" 1.3  Ohm ", 1.3),
        ("50 mohm", 0.05),
        ("50mΩ", 0.05),
        ("1.3 kohm", 1300.0),
        ("2 MOhm", 2e6),
        (".5ohm", 0.5),
        ("1.3e0 ohm", 1.3),
        ("\u22121.3", -1.3),
        (1.3, 1.3),
        (2, 2.0),
    ],
)
def test_resistances_as_people_type_them(text, value_ohm):
    assert parse(text, "ohm") == value_ohm


def test_each_unit_with_its_prefixes():
    assert parse("5v", "V") == 5.0
    assert parse("50 mV", "V") == 0.05
    assert parse("10ms", "s") == 0.01
    assert parse("500 us", "s") == parse("500 \u00b5s", "s") == parse("500 \u03bcs", "s") == 5e-4
    assert parse("24 MHz", "Hz") == 24e6
    assert parse("24khz", "Hz") == 24e3
    assert parse("2.5 GSa/s", "Hz") == 2.5e9
    assert parse("4.7uF", "F") == 4.7e-6
    assert parse("100 nF", "F") == 1e-7
    assert parse("12 mA", "A") == 0.012
    assert parse("40 mW", "W") == 0.04


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "", " ", "many", "1.3 kilo", "1.3.1", "1e", "0x10", "٣", "1 3"])
def test_words_and_strange_numbers_are_refused_with_an_example(text):
    with pytest.raises(ConfigError, match=r"for example '1\.3 ohm'"):
        parse(text, "ohm", what="shunt")


@pytest.mark.parametrize("text", ["1,3", "1,3 ohm", "1.000,5", "1,300.5"])
def test_a_comma_is_refused_never_misread(text):
    with pytest.raises(ConfigError, match="comma"):
        parse(text, "ohm")


@pytest.mark.parametrize(
    ("text", "unit"), [("5 V", "ohm"), ("24 mhz", "Hz"), ("1 Ms", "s"), ("10 MS", "s"), ("4.7 f", "F"), ("5 k", "V")]
)
def test_another_unit_or_an_ambiguous_one_is_refused(text, unit):
    with pytest.raises(ConfigError, match=r"is no unit of this|is not a unit known here"):
        parse(text, unit)


@pytest.mark.parametrize("value", [math.nan, math.inf, True, None, [1.3]])
def test_values_that_are_no_numbers_are_refused(value):
    with pytest.raises(ConfigError, match="is not a number"):
        parse(value, "ohm")


@pytest.mark.parametrize("text", ["0", "-1.3 ohm", "0 mohm"])
def test_positive_values_only_where_asked(text):
    with pytest.raises(ConfigError, match=r"shunt .* must be greater than 0 ohm"):
        parse(text, "ohm", what="shunt", positive=True)


def test_beyond_a_double_is_refused():
    with pytest.raises(ConfigError, match="beyond"):
        parse("1e400", "V")
    with pytest.raises(ConfigError, match="beyond"):
        parse("1e-400", "V")


def test_ratios():
    assert parse_ratio("1 %") == parse_ratio("0.01") == parse_ratio(0.01) == 0.01
    assert parse_ratio("50ppm") == 5e-5
    with pytest.raises(ConfigError, match="1 %"):
        parse_ratio("1 percent")


def test_the_prefix_follows_the_value():
    assert quantity(5.93e-5, "J") == "59.3 \u00b5J"
    assert quantity(5.93e-5, "J", ascii_only=True) == "59.3 uJ"
    assert quantity(0.0009999, "s") == "1.00 ms"
    assert quantity(24e6, "Hz", 2) == "24 MHz"
    assert quantity(1.3, "ohm", 2) == "1.3 Ω"
    assert quantity(1.3, "ohm", 2, ascii_only=True) == "1.3 ohm"
    assert quantity(-0.0402, "W") == "-40.2 mW"
    assert quantity(0.0, "A") == "0 A"
    assert quantity(12345.0, "cycles", 5) == "12345 cycles"
    assert quantity(math.nan, "J") == quantity(None, "J") == "n/a"
    assert percent(0.0123) == "1.2 %"
    assert percent(0.0) == "0 %"


def test_the_mass_of_the_guide():
    # JCGM 100:2008, 7.2.2 and 7.2.4: m = 100.021 47 g, u = 0.35 mg, U = 0.79 mg.
    assert short(100.02147, 0.35e-3, "g") == "100.02147(35) g"
    assert with_uncertainty(100.02147, 0.79e-3, "g") == "100.02147 g ± 0.00079 g"


def test_the_roundings_of_the_guide():
    # JCGM 100:2008, 7.2.6: 10.057 62 ohm with u = 27 mohm is to be rounded to 10.058 ohm.
    assert short(10.05762, 0.027, "ohm") == "10.058(27) Ω"
    # NIST SP 961, CODATA 2018: m_u = 1.660 539 066 60(50)e-27 kg; alpha^-1 = 137.035 999 084(21).
    assert short(137.035999084, 0.000000021, "") == "137.035999084(21)"


def test_value_and_uncertainty_share_one_unit():
    assert with_uncertainty(59.34e-6, 2.14e-6, "J") == "59.3 \u00b5J ± 2.1 \u00b5J"
    assert short(59.34e-6, 2.14e-6, "J") == "59.3(21) \u00b5J"
    assert with_uncertainty(59.34e-6, 2.14e-6, "J", ascii_only=True) == "59.3 uJ +/- 2.1 uJ"
    assert with_uncertainty(59.34e-6, 9.96e-6, "J") == "59 \u00b5J ± 10 \u00b5J"
    assert with_uncertainty(593.4, 123.0, "J") == "590 J ± 120 J"
    assert short(593.4, 123.0, "J") == "590(120) J"
    assert with_uncertainty(0.9996, 0.0123, "V") == "1.000 V ± 0.012 V"


def test_an_uncertainty_larger_than_the_value():
    assert with_uncertainty(0.4e-6, 2.14e-6, "J") == "0.4 \u00b5J ± 2.1 \u00b5J"
    assert with_uncertainty(0.0, 2.14e-6, "J") == "0.0 \u00b5J ± 2.1 \u00b5J"
    assert with_uncertainty(-1e-9, 2.14e-6, "J") == "0.0 \u00b5J ± 2.1 \u00b5J"


def test_uncertainties_that_are_no_number_zero_or_tiny():
    assert with_uncertainty(59.3e-6, math.nan, "J") == "59.3 \u00b5J ± n/a"
    assert short(59.3e-6, None, "J") == "59.3(n/a) \u00b5J"
    assert with_uncertainty(math.nan, 1.0, "J") == short(math.inf, 1.0, "J") == "n/a"
    assert with_uncertainty(59.3e-6, 0.0, "J") == "59.3 \u00b5J ± 0 \u00b5J"
    assert short(59.3e-6, 0.0, "J") == "59.3(0) \u00b5J"
    assert with_uncertainty(0.0, 0.0, "J") == "0 J ± 0 J"
    # 15 significant digits are what a double holds; the uncertainty is rounded up to the last of them.
    assert short(1.0, 1e-30, "V") == "1.00000000000000(1) V"


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["ohm", "V", "A", "s", "Hz", "F", "W", "J"]))
def test_a_number_reads_back_exactly(value, unit):
    assert parse(repr(value), unit) == value


@given(st.text(max_size=12))
def test_any_text_gives_a_finite_number_or_a_refusal(text):
    try:
        value = parse(text, "ohm")
    except ConfigError:
        return
    assert math.isfinite(value)


@given(
    st.floats(-1e15, 1e15).filter(lambda v: v == 0 or abs(v) > 1e-15),
    st.floats(1e-15, 1e15),
)
def test_what_is_printed_lies_within_a_twentieth_of_the_uncertainty(value, expanded):
    number, unit, _, uncertainty, _ = with_uncertainty(value, expanded, "J", ascii_only=True).split()
    factor = {"J": 1, "kJ": 1e3, "MJ": 1e6, "GJ": 1e9, "TJ": 1e12, "mJ": 1e-3, "uJ": 1e-6, "nJ": 1e-9, "pJ": 1e-12}.get(
        unit, 1e-15
    )
    assert abs(float(number) * factor - value) <= 0.051 * expanded + 1e-14 * abs(value)
    assert abs(float(uncertainty) * factor - expanded) <= 0.051 * expanded + 1e-14 * abs(value)
