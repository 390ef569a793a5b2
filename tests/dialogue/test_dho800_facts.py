"""What the manuals of the DHO800 and DHO900 say, against the driver's arithmetic."""

from dataclasses import replace

import numpy as np
import pytest

from instruments.drivers.dho_facts import (
    check_settings,
    choose_depth,
    gain_ratio,
    make_channel,
    noise_rms_v,
    offset_limit_v,
    on_step,
    parse_preamble,
    parse_stamp,
)
from instruments.drivers.rigol_dho800 import RigolDho800
from instruments.errors import BadData, OutOfRange
from instruments.protocols import AcquisitionSettings, ChannelSettings, TriggerSettings
from instruments.record import Identity, volts

CH1 = ChannelSettings("CH1", range_v=0.4)
NAMES = ("CH1", "CH2", "CH3", "CH4")


def plan(n_channels=1, n_segments=1, span_s=1e-3, rate_hz=0.0):
    channels = tuple(replace(CH1, name=name) for name in NAMES[:n_channels])
    return AcquisitionSettings(channels, TriggerSettings("CH1", 0.0), span_s, 0.0, n_segments, rate_hz)


def test_voltage_as_the_guide_computes_it():
    """Guide 3.28: V = (0x8E - YORigin - YREFerence) x YINCrement; with its example preamble 4E-3, 0 and 128: 56 mV."""
    preamble = parse_preamble("1,2,1000,1,1.000000E-8,-5.000000E-6,0.000000E-12,4.000000E-03,0,128", "guide")
    assert 0x8E * preamble.scale_v + preamble.offset_v == pytest.approx(14 * 4e-3)
    assert (preamble.dt_s, preamble.start_s) == (1e-8, -5e-6)


def test_voltage_of_a_recorded_dho824():
    """A public capture: 50 mV/div, 2.5 MSa/s, 10 000 points about the trigger, a 0.15 V level of the probe's output."""
    preamble = parse_preamble("1,2,10000,1,4.000000E-7,-2.000000E-3,0,6.666700E-06,0,32768", "DHO824")
    channel = make_channel(CH1, np.array([[26308, 55237, 32852]], np.uint16), preamble)
    assert volts(channel, 0, 0, 3) == pytest.approx([-6460 * 6.6667e-6, 22469 * 6.6667e-6, 84 * 6.6667e-6])
    assert preamble.start_s + 5000 * preamble.dt_s == pytest.approx(0.0)  # the trigger is mid-memory
    assert channel.scale == pytest.approx(0.05 / 7500, rel=1e-5)  # guide 3.28.9
    # Four divisions of 7500 codes on either side of 32768.
    assert (channel.code_min, channel.code_max) == (pytest.approx(2768, abs=0.2), pytest.approx(62768, abs=0.2))


def test_an_offset_moves_origin_and_clipping_alike():
    """Guide 3.28.10: YORigin = offset / YINCrement; with +1 V the trace lies higher, and mid-screen is -1 V."""
    settings = ChannelSettings("CH2", range_v=4.0, offset_v=-1.0)
    preamble = parse_preamble("1,2,1000,1,1E-6,0,0,6.666667E-05,15000,32768", "offset")
    channel = make_channel(settings, np.array([[32768]], np.uint16), preamble)
    assert volts(channel, 0, 0, 1)[0] == pytest.approx(-1.0)
    assert channel.code_min == pytest.approx(32768 - 30000, abs=0.2)
    assert channel.code_max == pytest.approx(32768 + 30000, abs=0.2)


@pytest.mark.parametrize(
    "reply",
    [
        "1,2,1000,1,1E-8,0,0,4E-3,0",
        "1,2,1000,1,1E-8,0,0,4E-3,0,32768,0",
        "1,2,1000,1,1E-8,0,0,four,0,32768",
        "1,2,1000,1,nan,0,0,4E-3,0,32768",
        "0,2,1000,1,1E-8,0,0,4E-3,0,128",
        "1,0,1000,1,1E-8,0,0,4E-3,0,32768",
        "1,2,0,1,0.000000E+00,0,0,4E-3,0,32768",
        "1,2,1000,1,1E-8,0,0,0,0,32768",
        "1,2,1000,1,1E-8,0,7,4E-3,0,32768",
    ],
)
def test_a_preamble_of_another_form_is_refused(reply):
    with pytest.raises(BadData, match=r"CH1: .*preamble"):
        parse_preamble(reply, "CH1")


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        ("0.0000s", 0.0),
        ("109.48ms", 0.10948),
        ("1.28217ks", 1282.17),
        ('"72.993us"', 72.993e-6),
        ("500ns", 5e-7),
        ("20ps", 2e-11),
        ("2.5 Ms", 2.5e6),
        ("1.5e-3", 1.5e-3),
    ],
)
def test_time_stamps_carry_their_unit(reply, seconds):
    assert parse_stamp(reply, "frame") == pytest.approx(seconds)


@pytest.mark.parametrize("reply", ["", "ms", "12:00:01", "1.5min", "109,48ms"])
def test_a_time_stamp_of_another_form_is_refused(reply):
    with pytest.raises(BadData, match="frame: expected a time"):
        parse_stamp(reply, "frame")


@pytest.mark.parametrize(
    ("asked", "model", "depth"),
    [
        (plan(span_s=1e-3), "DHO804", 1_000_000),  # 1.25 MSa would fit at the highest rate: as deep as is usual
        (plan(span_s=10e-6), "DHO804", 100_000),  # 12 500 samples at 1.25 GSa/s
        (plan(span_s=0.1, rate_hz=100e6), "DHO804", 10_000_000),
        (plan(span_s=0.1, rate_hz=250e6), "DHO804", 25_000_000),
        (plan(span_s=0.1, rate_hz=1.25e9), "DHO804", 25_000_000),  # more does not fit
        (plan(span_s=0.1, rate_hz=1.25e9), "DHO914", 50_000_000),
        (plan(2, span_s=0.1, rate_hz=625e6), "DHO804", 10_000_000),
        (plan(2, span_s=0.1, rate_hz=625e6), "DHO802", 10_000_000),
        (plan(2, span_s=0.1, rate_hz=625e6), "DHO924S", 25_000_000),
        (plan(3, span_s=0.1, rate_hz=312e6), "DHO804", 5_000_000),
        (plan(4, span_s=0.1, rate_hz=312e6), "DHO924", 10_000_000),
        (plan(2, 100, span_s=1e-3), "DHO804", 100_000),  # 10 million samples hold 100 frames of these
        (plan(2, 1000, span_s=1e-3), "DHO804", 10_000),
        (plan(2, 1001, span_s=1e-3), "DHO804", 1_000),
        (plan(2, 50_000, span_s=1e-3), "DHO804", 1_000),
    ],
)
def test_depth_comes_from_the_list_for_that_many_channels(asked, model, depth):
    assert choose_depth(asked, model) == depth


@pytest.mark.parametrize(
    ("range_v", "probe", "model", "granted_v"),
    [
        (0.4, 1.0, "DHO804", 0.4),
        (0.41, 1.0, "DHO804", 0.8),
        (6.6, 1.0, "DHO804", 8.0),
        (6.6, 10.0, "DHO804", 8.0),
        (0.024, 1.0, "DHO804", 0.04),
        (8 * 0.1 * (1 + 1e-12), 1.0, "DHO804", 0.8),
        (80.0, 1.0, "DHO804", 80.0),
        (0.004, 1.0, "DHO804", 0.004),
        (0.0016, 1.0, "DHO924", 0.0016),
    ],
)
def test_ranges_are_rounded_up_to_a_step(range_v, probe, model, granted_v):
    channel = on_step(ChannelSettings("CH1", range_v, probe_ratio=probe), model)
    assert channel.range_v == pytest.approx(granted_v, rel=1e-9)


@pytest.mark.parametrize(
    ("scale_v", "limit_v"), [(0.0005, 1.0), (0.05, 1.0), (0.1, 8.0), (0.2, 8.0), (0.5, 20.0), (2.0, 20.0), (5.0, 100.0)]
)
def test_offset_limits_of_the_guide(scale_v, limit_v):
    channel = ChannelSettings("CH1", 8 * scale_v, offset_v=limit_v)
    untriggered = replace(plan(), trigger=None)
    check_settings(replace(untriggered, channels=(channel,)), NAMES, "DHO804")
    with pytest.raises(OutOfRange, match=f"offset must be from -{limit_v:g} V to {limit_v:g} V"):
        check_settings(replace(untriggered, channels=(replace(channel, offset_v=1.001 * limit_v),)), NAMES, "DHO804")


def test_below_500_uv_a_division_a_dho900_has_half_a_volt_of_offset():
    channel = ChannelSettings("CH1", 0.0016, offset_v=0.6)
    with pytest.raises(OutOfRange, match=r"from -0\.5 V to 0\.5 V"):
        check_settings(replace(plan(), channels=(channel,), trigger=None), NAMES, "DHO924")


def test_accuracy_of_the_data_sheet():
    """DSA36106-1110: 1 % above 5 mV/div, 2 % up to it; 500 uV/div counts as 8 mV of full scale; offset in two parts."""
    assert gain_ratio(ChannelSettings("CH1", 0.08)) == 0.01
    assert gain_ratio(ChannelSettings("CH1", 0.04)) == 0.02
    assert gain_ratio(ChannelSettings("CH1", 0.4, probe_ratio=10.0)) == 0.02
    assert gain_ratio(ChannelSettings("CH1", 0.004)) == pytest.approx(0.02 * 8e-3 / 4e-3)
    assert offset_limit_v(ChannelSettings("CH1", 1.6, 2.0)) == pytest.approx(0.02 + 0.002 + 0.03)
    assert offset_limit_v(ChannelSettings("CH1", 4.0, -2.0)) == pytest.approx(0.05 + 0.002 + 0.02)
    assert offset_limit_v(ChannelSettings("CH1", 16.0, 2.0, probe_ratio=10.0)) == pytest.approx(0.2 + 0.02 + 0.03)


def test_noise_allowed_for_exceeds_that_of_the_recorded_dho824():
    """Its settled 0.15 V at 50 mV/div, full bandwidth, scatters by some 60 codes of 6.67 uV."""
    assert noise_rms_v(CH1) > 60 * 6.667e-6
    assert noise_rms_v(replace(CH1, bandwidth_limit=True)) < noise_rms_v(CH1)
    assert noise_rms_v(ChannelSettings("CH1", 4.0, probe_ratio=10.0)) == pytest.approx(10 * noise_rms_v(CH1))


@pytest.mark.parametrize(
    ("vendor", "model", "fits"),
    [
        ("RIGOL TECHNOLOGIES", "DHO804", True),
        ("RIGOL TECHNOLOGIES", "DHO812", True),
        ("Rigol Technologies", "DHO924S", True),
        ("RIGOL TECHNOLOGIES", "DHO1074", False),
        ("RIGOL TECHNOLOGIES", "DS1104Z", False),
        ("KEYSIGHT TECHNOLOGIES", "DHO804", False),
    ],
)
def test_the_driver_knows_its_family(vendor, model, fits):
    assert RigolDho800.fits(Identity(vendor, model, "DHO8A000000000", "00.01.04")) is fits
