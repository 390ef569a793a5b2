"""What a scope says to settings that are none of its own."""

import pytest

from instruments.errors import OutOfRange
from instruments.protocols import AcquisitionSettings, ChannelSettings, CurrentSettings, DigitalSettings


def test_a_scope_sees_voltages_alone():
    volts = (ChannelSettings("CH1", 0.1), ChannelSettings("CH2", 6.6))
    assert AcquisitionSettings(volts, None, 1e-3, 0.0).voltages == volts
    for other in (CurrentSettings("I1"), DigitalSettings("D0")):
        with pytest.raises(OutOfRange, match=other.name):
            _ = AcquisitionSettings((*volts, other), None, 1e-3, 0.0).voltages
