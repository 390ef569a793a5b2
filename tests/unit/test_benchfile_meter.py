"""A bench that measures by a meter instead of an oscilloscope at a shunt."""

import pytest

from labctl import benchlock, boards
from labctl.benchfile import parse_bench
from labctl.benchwiring import wiring_of
from labctl.errors import ConfigError

METER = {"driver": "nordic-ppk2", "resource": "/dev/ttyACM0", "trigger": "D0"}
DUT = {"board": "stm32vldiscovery", "port": "/dev/ttyUSB0", "power": "meter"}
SCOPE = {"driver": "keysight-infiniivision", "resource": "TCPIP::scope.lab::5025::SOCKET"}


def bench(**tables):
    return parse_bench({"dut": DUT, **tables}, "bench.toml")


def test_a_meter_sees_the_current_and_the_windows():
    file = bench(meter=METER)
    wiring = wiring_of(file, boards.load("stm32vldiscovery"))
    assert (wiring.shunt, wiring.shunt_channel, wiring.trigger_channel) == (None, "I1", "D0")
    assert (wiring.threshold, wiring.hysteresis) == (0.5, 0.5)  # a logic level is 0 or 1
    assert wiring.supply.channel is None
    assert file.recorder.driver == "nordic-ppk2"


def test_a_voltmeter_on_the_pin_shows_windows_by_their_level():
    meter = {**METER, "trigger": "BNC", "window_channel": "V2", "voltage_channel": "V1"}
    wiring = wiring_of(bench(meter=meter), boards.load("stm32vldiscovery"))
    assert wiring.trigger_channel == "V2"
    assert wiring.threshold == boards.load("stm32vldiscovery")["pins"]["level_v"] / 2
    assert wiring.supply.channel == "V1"


def test_an_input_is_no_channel_that_shows_windows():
    assert wiring_of(bench(meter={**METER, "trigger": "BNC"}), boards.load("stm32vldiscovery")).trigger_channel is None


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"meter": METER, "scope": SCOPE}, r"\[scope\] has no place beside it"),
        ({"meter": METER, "shunt": {"resistance_ohm": 1.3}}, r"\[shunt\] has no place beside it"),
        ({"scope": SCOPE}, r"\[shunt\] is missing"),
        ({"shunt": {"resistance_ohm": 1.3}}, r"\[scope\] is missing"),
        ({}, r"\[scope\] is missing; a bench has \[scope\] and \[shunt\], or \[meter\] alone"),
        ({"scope": SCOPE, "shunt": {"resistance_ohm": 1.3}}, r"\[dut\] power = \"meter\", and this bench has no"),
        ({"meter": {**METER, "triger": "D0"}}, "did you mean 'trigger'"),
    ],
)
def test_what_cannot_be_is_said(tables, words):
    with pytest.raises(ConfigError, match=words):
        bench(**tables)


def test_what_takes_an_oscilloscope_says_that_there_is_none():
    file = bench(meter=METER)
    for part in ("oscilloscope", "resistor"):
        with pytest.raises(ConfigError, match=r"measures by a meter"):
            getattr(file, part)
    with pytest.raises(ConfigError, match=r"measures by a meter"):
        file.with_values(shunt_ohm=1.3)


def test_the_meter_is_locked_once_and_the_word_for_it_is_no_address():
    assert benchlock.addresses(bench(meter=METER)) == ("/dev/ttyACM0", "/dev/ttyUSB0")
