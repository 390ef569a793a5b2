"""``labctl devices`` at the emulated bench: each instrument says who it is, and that it is emulated."""

import json

import pytest

from labctl import boards
from labctl.simulation import Emulation, Simulation

BOARD = "stm32vldiscovery"


@pytest.fixture
def emulated(elf):
    simulations = []

    def start(emulation):
        simulation = Simulation(boards.load(BOARD), 1, elf=elf, emulation=emulation)
        simulations.append(simulation)
        simulation.start(simulation.bench_file())
        return simulation.addresses

    yield start
    for simulation in simulations:
        simulation.stop()


@pytest.mark.parametrize(
    ("emulation", "key", "driver"),
    [
        (Emulation(), "scope", "keysight-infiniivision"),
        (Emulation(transport="hislip"), "scope", "keysight-infiniivision"),
        (Emulation(transport="vxi11"), "scope", "keysight-infiniivision"),
        (Emulation(meter="n6705"), "meter", "keysight-n6705"),
    ],
    ids=["socket", "hislip", "vxi11", "n6705"],
)
def test_an_emulated_instrument_is_told_with_its_driver(emulated, labctl, tmp_path, emulation, key, driver):
    """Twice: a question leaves no session behind that the next would meet."""
    resource = emulated(emulation)[key]
    for _ in range(2):
        done = labctl("devices", "--resource", resource, "--json", cwd=tmp_path, LABCTL_LOCKS=str(tmp_path / "locks"))
        (device,) = json.loads(done.stdout)["devices"]
        assert (device["resource"], device["status"], device["drivers"]) == (resource, "answers", [driver])
        assert device["emulated"]


def test_the_page_says_of_each_that_it_is_emulated(emulated, labctl, tmp_path):
    addresses = emulated(Emulation())
    named = [option for key in ("scope", "power") for option in ("--resource", addresses[key])]
    page = labctl("devices", *named, cwd=tmp_path, LABCTL_LOCKS=str(tmp_path / "locks")).stdout
    assert all(len(line) <= 80 for line in page.splitlines())
    text = " ".join(page.split())
    assert text.count("It is emulated (currents are a model, not silicon)") == 2
    assert "driver keysight-infiniivision." in text
    assert "driver scpi-switch." in text
