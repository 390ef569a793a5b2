"""Bad nights rehearsed on the emulated bench: what happened is said, by the right class, and within seconds."""

import contextlib
import time

import pytest

from instruments.errors import LinkLost
from labctl.bench import open_bench
from labctl.errors import ConfigError, DeviceTransient, LabctlError, WrongOutput
from labctl.frontend import choose_range, look
from labctl.model import Operation
from labctl.series import take_series

SHA256 = Operation("sha256", bytes=64, n_runs=5)
SIGN = Operation("ecdsa-p256.sign", n_runs=3)


def nobody(sentence):
    raise AssertionError(sentence)


@contextlib.contextmanager
def bench_with(**faults):
    with open_bench(None, board_name=None, overrides=lambda f: f, ask=nobody, faults=faults) as bench:
        yield bench


def measure(bench, operation=SHA256):
    """Take one series as a measurement does, front end included."""
    bench.dut.hello()
    trial = look(bench, operation)
    return take_series(bench, operation, choose_range(bench, [trial]), trial.duration_s)


def wait_for_the_scope(bench):
    for _ in range(100):
        with contextlib.suppress(LinkLost):
            return bench.scope._link.reopen()
        time.sleep(0.1)
    raise AssertionError("the scope did not come back")


@pytest.fixture
def impatient(monkeypatch):
    """Wait less for the DUT."""
    monkeypatch.setattr("labctl.bench.DUT_TIMEOUT_S", 2.0)


def test_a_dut_that_hangs_is_told_in_seconds_and_back_after_a_power_cycle(elf, impatient):
    with bench_with() as bench:
        bench.dut.hello()
        bench.simulation.set_faults({"dut": {"hang": True}})
        with pytest.raises(DeviceTransient, match=r"no answer to 'hello' within 2 s.*power it off and on"):
            bench.dut.self_test()
        assert bench.simulation.ask(cmd="status")["engine"] == "hung"
        with pytest.raises(DeviceTransient, match="silence"):
            bench.dut.hello()
        bench.set_power(False)
        bench.set_power(True)
        assert measure(bench).report.output_ok


def test_a_dut_that_hangs_in_a_series_is_told_once_the_series_should_be_over(elf, monkeypatch):
    with bench_with(dut={"hang_during_series": True}) as bench:
        with monkeypatch.context() as patch:
            patch.setattr("labctl.series.ANSWER_TIMEOUT_S", 3.0)
            with pytest.raises(DeviceTransient, match=r"no answer to 'go' within 3\.\d+ s"):
                measure(bench)
        bench.set_power(False)
        bench.set_power(True)
        assert measure(bench).report.output_ok


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (SHA256, r"wrong result on the DUT \(run 2\)"),  # the firmware's own check; the third run, counted from 0
        (SIGN, "its checksum [0-9A-F]{8} is not the one computed here"),  # the host's
    ],
    ids=["sha256", "sign"],
)
def test_a_wrong_result_is_found_and_the_next_series_is_right(elf, operation, words):
    with bench_with(dut={"wrong_result": True}) as bench:
        with pytest.raises(WrongOutput, match=words):
            measure(bench, operation)
        assert measure(bench, operation).report.output_ok


def test_garbage_from_the_start_is_told_in_seconds(elf, impatient):
    with bench_with(dut={"garbage": True}) as bench, pytest.raises(DeviceTransient, match="garbage"):
        bench.dut.hello()


def test_a_scope_that_vanishes_in_a_read_out_and_returns(elf):
    with bench_with() as bench:
        bench.dut.hello()
        trial = look(bench, SHA256)
        bench.simulation.set_faults({"scope": {"vanish_after_bytes": 50_000, "return_after_s": 0.5}})
        with pytest.raises(LinkLost, match=r"closed|broke"):
            [look(bench, SHA256) for _ in range(5)]
        wait_for_the_scope(bench)
        assert look(bench, SHA256).duration_s == trial.duration_s


def test_a_scope_that_is_gone_refuses_connections_until_the_fault_is_taken_away(elf):
    with bench_with() as bench:
        measure(bench)
        bench.simulation.set_faults({"scope": {"vanish_after_bytes": 0}})
        with pytest.raises(LinkLost, match=r"closed|broke"):
            bench.scope.arm()
        with pytest.raises(LinkLost, match="nobody answers"):
            bench.scope._link.reopen()
        bench.simulation.set_faults({})
        bench.scope._link.reopen()
        assert measure(bench).report.output_ok


def test_a_scope_that_is_gone_from_the_start_is_named(elf):
    with pytest.raises(LinkLost, match="nobody answers"), bench_with(scope={"vanish_after_bytes": 0}):
        pass


def test_a_simulator_killed_in_a_series_is_a_lost_link(elf):
    with pytest.raises(LinkLost, match=r"killed \(SIGKILL\)"), bench_with(kill="simulator") as bench:
        [measure(bench) for _ in range(3)]


def test_a_simulator_killed_from_outside_is_a_lost_link(elf):
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(LinkLost, match=r"killed \(SIGKILL\)"))
        bench = stack.enter_context(bench_with())
        bench.simulation.kill()
        measure(bench)


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"kill": "me"}, "simulator"),
        ({"scope": {"return_after_s": -1}}, "time in seconds"),
        ({"scope": {"vanish_after_bytes": -1}}, "number of bytes"),
        ({"dut": {"sleepy": True}}, "unknown DUT fault"),
    ],
    ids=str,
)
def test_a_fault_that_the_world_cannot_have_is_refused(elf, faults, words):
    with bench_with() as bench, pytest.raises(ConfigError, match=words):
        bench.simulation.set_faults(faults)
    with pytest.raises(LabctlError, match=words), bench_with(**faults) as bench:
        bench.dut.hello()
