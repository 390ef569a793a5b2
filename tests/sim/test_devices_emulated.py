"""``labctl devices`` at the emulated bench: each instrument says who it is, and that it is emulated."""

import json

import pytest

from labctl import boards
from labctl.simulation import Simulation

BOARD = "stm32vldiscovery"


@pytest.fixture(scope="module")
def addresses(elf):
    simulation = Simulation(boards.load(BOARD), 1, elf=elf)
    try:
        simulation.start(simulation.bench_file())
        yield simulation.addresses
    finally:
        simulation.stop()


def test_the_emulated_instruments_are_told_with_their_drivers(addresses, labctl, tmp_path):
    named = [option for key in ("scope", "power") for option in ("--resource", addresses[key])]
    done = labctl("devices", *named, "--json", cwd=tmp_path, LABCTL_LOCKS=str(tmp_path / "locks"))
    scope, power = json.loads(done.stdout)["devices"]
    assert [one["resource"] for one in (scope, power)] == [addresses["scope"], addresses["power"]]
    assert [one["status"] for one in (scope, power)] == ["answers", "answers"]
    assert [one["drivers"] for one in (scope, power)] == [["keysight-infiniivision"], ["scpi-switch"]]
    assert scope["emulated"]
    assert power["emulated"]
    page = labctl("devices", *named, cwd=tmp_path, LABCTL_LOCKS=str(tmp_path / "locks")).stdout
    assert all(len(line) <= 80 for line in page.splitlines())
    assert " ".join(page.split()).count("It is emulated (currents are a model, not silicon)") == 2


def test_the_emulated_bench_answers_as_before_once_it_was_asked(addresses, labctl, tmp_path):
    """A question leaves no session behind that the next would meet."""
    for _ in range(2):
        done = labctl("devices", "--resource", addresses["scope"], cwd=tmp_path, LABCTL_LOCKS=str(tmp_path / "locks"))
        assert "driver keysight-infiniivision" in " ".join(done.stdout.split())
