"""The power switch, exchange by exchange."""

import pytest

from instruments.drivers.scpi_switch import ScpiSwitch
from instruments.errors import BadData, Rejected
from instruments.protocols import PowerSwitch

OK = (":SYSTem:ERRor?", '0,"No error"')


def test_is_a_power_switch(dialogue):
    assert isinstance(ScpiSwitch(dialogue()), PowerSwitch)


def test_identify(dialogue):
    with dialogue(("*IDN?", "Some Maker, Switch 1 ,007,1.0")) as link:
        assert ScpiSwitch(link).identify().model == "Switch 1"


@pytest.mark.parametrize(("on", "word", "reply"), [(True, "ON", "1"), (False, "OFF", "0"), (True, "ON", "ON")])
def test_switches_and_confirms(dialogue, on, word, reply):
    with dialogue((f"OUTPut {word}", None), OK, ("OUTPut?", reply)) as link:
        ScpiSwitch(link).set_output(on)


@pytest.mark.parametrize("reply", ["1", "2", "", "TRUE"])
def test_an_output_that_did_not_switch_is_refused(dialogue, reply):
    steps = [("OUTPut OFF", None), OK, ("OUTPut?", reply)]
    with dialogue(*steps) as link, pytest.raises(Rejected, match="OUTPut was set to OFF but reads back"):
        ScpiSwitch(link).set_output(False)


def test_a_complaint_carries_the_queue(dialogue):
    steps = [("OUTPut ON", None), (":SYSTem:ERRor?", '-221,"Settings conflict"'), OK]
    with dialogue(*steps) as link, pytest.raises(Rejected, match=r'OUTPut ON: -221,"Settings conflict"'):
        ScpiSwitch(link).set_output(True)


def test_a_queue_entry_without_a_code_is_refused(dialogue):
    with dialogue(("OUTPut ON", None), (":SYSTem:ERRor?", "fine")) as link, pytest.raises(BadData, match="'fine'"):
        ScpiSwitch(link).set_output(True)


@pytest.mark.parametrize("value", ["on", 1, None])
def test_anything_but_a_switch_position_never_reaches_the_wire(dialogue, value):
    with dialogue() as link, pytest.raises(TypeError, match="on \\(True\\) or off \\(False\\)"):
        ScpiSwitch(link).set_output(value)


def test_a_tainted_link_is_reopened_before_power_is_switched(dialogue):
    with dialogue(("OUTPut OFF", None), OK, ("OUTPut?", "0")) as link:
        link.tainted = True
        ScpiSwitch(link).set_output(False)
    assert link.n_reopened == 1


def test_close_leaves_the_output_alone(dialogue):
    with dialogue() as link:
        ScpiSwitch(link).close()
    assert link.n_closed == 1
