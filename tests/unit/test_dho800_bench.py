"""A bench file needs nothing but the driver's name: what labctl asks for are steps that the DHO800 has."""

import pytest

from instruments.drivers.dho_facts import on_step
from instruments.drivers.rigol_dho800 import RigolDho800
from instruments.protocols import ChannelSettings
from instruments.registry import load_driver
from labctl.benchfile import parse_bench
from labctl.frontend import range_on_ladder_v


def test_the_bench_file_names_the_driver():
    file = parse_bench(
        {
            "bench": {"name": "desk"},
            "shunt": {"resistance_ohm": 1.3},
            "scope": {"driver": "rigol-dho800", "resource": "TCPIP::scope.lab::5555::SOCKET"},
            "dut": {"board": "stm32vldiscovery", "port": "/dev/ttyUSB0", "power": "manual"},
        },
        "desk.toml",
    )
    assert load_driver(file.oscilloscope.driver) is RigolDho800


@pytest.mark.parametrize("probe_ratio", [1.0, 10.0])
@pytest.mark.parametrize("least_v", [0.004, 0.0041, 0.03, 0.08, 0.3, 1.7, 9.0, 41.0, 80.0])
def test_ranges_of_labctl_are_granted_as_they_are(least_v, probe_ratio):
    range_v = range_on_ladder_v(least_v * probe_ratio)
    granted = on_step(ChannelSettings("CH1", range_v, probe_ratio=probe_ratio), "DHO804")
    assert granted.range_v == pytest.approx(range_v, rel=1e-9)
