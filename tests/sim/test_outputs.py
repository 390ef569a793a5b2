"""Every operation of the emulated board puts out what the host computes with other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from labctl import boards
from labctl.dut import Dut
from labctl.errors import DeviceStable, Unsupported
from labctl.expected import expected_output
from labctl.model import Operation
from labctl.operations import NAMES, implementations, takes_message
from labctl.simulation import Simulation

BOARD = "stm32vldiscovery"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def dut(elf) -> Iterator[Dut]:
    simulation = Simulation(boards.load(BOARD), 1, elf=elf)
    try:
        simulation.start(simulation.bench_file())
        from instruments.registry import open_driver

        switch = open_driver("scpi-switch", simulation.addresses["power"])
        switch.set_output(True)
        dut = Dut(simulation.addresses["dut"], 30.0, BOARD)
        dut.hello()
        yield dut
        dut.close()
        switch.close()
    finally:
        simulation.stop()


def run(dut: Dut, operation: Operation) -> int:
    """Let the DUT do it; the checksum of its output is compared as in every measurement."""
    operation = replace(operation, implementation=implementations(operation.name)[0])
    dut.self_test(operation)
    dut.prepare(operation, 0.0)
    report = dut.go(120.0)
    assert len(report.cycles) == operation.n_runs
    assert report.output_crc32 is not None
    return report.output_crc32


def test_the_image_holds_every_operation(dut):
    modes = {f"idle.{mode}" for mode in boards.load(BOARD)["idle_modes"]}
    assert set(dut.list_operations()) == {*NAMES, *modes}


@pytest.mark.parametrize("name", NAMES)
def test_every_operation(dut, name):
    run(dut, Operation(name, bytes=48 if takes_message(name) else None, n_runs=2, n_iterations=2))


@pytest.mark.parametrize(
    "operation",
    [
        Operation("aes-192-gcm.encrypt", bytes=77, n_runs=2, variant="key=inside,piece=16,offset=3"),
        Operation("aes-256-ctr.encrypt", bytes=500, n_runs=2, variant="piece=33,offset=1"),
        Operation("aes-128-ccm.encrypt", bytes=1000, n_runs=1, variant="key=inside"),
        Operation("sm4-cbc.encrypt", bytes=64, n_runs=2, variant="key=inside,piece=32,offset=15"),
        Operation("sha512", bytes=1000, n_runs=2, variant="piece=127"),
        Operation("drbg", bytes=1300, n_runs=2, n_iterations=3),
        Operation("drbg", bytes=100, n_runs=2, n_iterations=3, variant="piece=33"),
        Operation("drbg", bytes=100, n_runs=2, n_iterations=3, variant="key=inside"),
    ],
    ids=lambda o: f"{o.name} {o.bytes} {o.variant}",
)
def test_sizes_and_variants(dut, operation):
    run(dut, operation)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Operation("aes-128-ecb", bytes=17), "whole blocks of 16"),
        (Operation("aes-128-ccm", bytes=64, variant="piece=16"), "takes its message whole"),
        (Operation("sha256", bytes=64, variant="key=inside"), "no key set-up of its own"),
        (Operation("ecdh-p256", variant="offset=1"), "no message buffer"),
        (Operation("sha256", bytes=15), "16 to 16384"),
        (Operation("sha256", bytes=16384), "bytes are missing"),
        (Operation("null", bytes=64), "takes no message"),
        (Operation("null", n_runs=1001), "1 to 1000"),
        (Operation("idle", n_iterations=100_000), "2.31 cycles"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.name} {value.variant}",
)
def test_what_it_has_not(dut, operation, reason):
    dut.self_test(operation)
    with pytest.raises(Unsupported, match=reason):
        dut.prepare(operation, 0.0)
    assert dut.hello()["board"] == BOARD


def test_an_output_of_another_size_would_be_noticed(dut, monkeypatch):
    """Break one side: the host expects one byte less."""
    monkeypatch.setattr("labctl.dut.expected_output", lambda operation: (expected_output(operation) or b"")[:-1])
    with pytest.raises(DeviceStable, match="not the one computed here"):
        run(dut, Operation("sm3", bytes=48, n_runs=1))
