"""What goes wrong on a bench, each with the sentence that a person reads and nothing half-written."""

import contextlib
import json
from pathlib import Path

import pytest

from instruments.errors import InstrumentError, InstrumentTimeout, LinkLost
from labctl.analysis.result import analyze
from labctl.bench import open_bench
from labctl.errors import CaptureError, ConfigError, DeviceStable, DeviceTransient, EnvironmentFault, LabctlError
from labctl.measure import Plan, measure
from labctl.model import Operation
from labctl.simulation import Simulation
from labctl.store import open_capture

SHA256 = Operation("sha256", bytes=64, n_runs=5)


@contextlib.contextmanager
def bench_with(**faults):
    def nobody(sentence):
        raise AssertionError(sentence)

    with open_bench(None, board_name=None, overrides=lambda f: f.with_values(shunt_ohm=1.3), ask=nobody) as bench:
        bench.simulation.ask(cmd="faults", faults=faults)
        yield bench


def run(bench, folder: Path, operation: Operation = SHA256):
    for path in measure(bench, Plan((operation,), folder)):
        with open_capture(path) as capture:
            return analyze(capture)
    raise AssertionError("nothing was measured")


@pytest.mark.parametrize(
    ("faults", "error", "words"),
    [
        ({"trigger": "disconnected"}, InstrumentTimeout, ["no trigger", "cable"]),
        ({"trigger": "stuck-high"}, InstrumentTimeout, ["no trigger", "level"]),
        ({"trigger": "inverted"}, CaptureError, ["inverted", "falling"]),
        ({"trigger": "extra-edge"}, CaptureError, ["extra trigger edge", "hysteresis"]),
        ({"scope": {"silent": True}}, InstrumentTimeout, ["within"]),
        ({"scope": {"stall_after_bytes": 100_000}}, InstrumentTimeout, ["block"]),
        ({"scope": {"close_after_bytes": 100_000}}, LinkLost, ["closed"]),
        ({"dut": {"garbage": True}}, DeviceTransient, ["baud"]),
        ({"dut": {"corrupt_checksum": True}}, DeviceTransient, ["hello"]),
        ({"dut": {"silent": True}}, DeviceTransient, ["silence", "power"]),
        ({"dut": {"reset_during_series": True}}, DeviceTransient, ["reset", "supply"]),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
)
def test_each_fault_is_named_and_loses_nothing(elf, tmp_path, monkeypatch, faults, error, words):
    monkeypatch.setattr("labctl.bench.OPEN_TIMEOUT_S", 2.0)
    monkeypatch.setattr("labctl.series.SCOPE_SETTLE_S", 1.0)
    if "dut" in faults:
        monkeypatch.setattr("labctl.bench.DUT_TIMEOUT_S", 2.0)
    with bench_with(**faults) as bench, pytest.raises(error) as caught:
        run(bench, tmp_path)
    for word in words:
        assert word in str(caught.value)
    for path in tmp_path.iterdir():
        assert path.suffix == ".h5"
        with open_capture(path, verify=True):
            pass


def test_the_bench_works_again_after_the_fault(elf, tmp_path):
    with bench_with(trigger="inverted") as bench:
        with pytest.raises(CaptureError):
            run(bench, tmp_path / "bad")
        bench.simulation.ask(cmd="faults", faults={})
        assert run(bench, tmp_path / "good").n_runs == 5


def test_interrupted_while_armed_the_scope_is_stopped(elf, tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    with bench_with() as bench:
        bench.dut.release = interrupted
        with pytest.raises(KeyboardInterrupt):
            run(bench, tmp_path)
        # Bit 3 of the operation status condition register: running (InfiniiVision programmer's guide).
        assert int(bench.scope._link.query(":OPERegister:CONDition?")) & 8 == 0
    assert list(tmp_path.iterdir()) == []


def test_a_supply_that_keeps_feeding_the_dut_is_noticed(elf, tmp_path, monkeypatch):
    monkeypatch.setattr("labctl.frontend.ZERO_TRIES", 3)
    monkeypatch.setattr("labctl.frontend.ZERO_PAUSE_S", 0.0)
    with bench_with() as bench:
        fetch, shift = bench.scope.fetch, iter(range(0, 1000, 5))

        def drifting():
            record = fetch()
            for channel in record.channels.values():
                channel.codes[...] = 20 + next(shift)
            return record

        def unpowered(on, switch=bench.switch):
            switch.set_output(on)
            bench.scope.fetch = fetch if on else drifting

        bench.set_power = unpowered
        with pytest.raises(CaptureError, match="changing current"):
            run(bench, tmp_path)


def test_an_operation_the_board_does_not_know(elf, tmp_path):
    with bench_with() as bench, pytest.raises(ConfigError, match="sha256"):
        run(bench, tmp_path, Operation("sha265", bytes=64))


def test_a_message_that_does_not_fit(elf, tmp_path):
    with bench_with() as bench, pytest.raises(ConfigError, match="bytes"):
        run(bench, tmp_path, Operation("sha256", bytes=1 << 20))


def test_firmware_of_another_board(elf):
    from labctl.dut import Dut

    with bench_with() as bench:
        bench.dut.close()
        other = Dut(bench.file.dut.port, timeout_s=2.0, board="stm32f4discovery")
        try:
            with pytest.raises(DeviceStable, match=r"stm32vldiscovery.*stm32f4discovery"):
                other.hello()
        finally:
            other.close()


def test_a_scope_that_is_not_there(elf, tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with Running() as simulation:
        file = simulation.addressed(simulation.bench_file())
        file = file.model_copy(
            update={"scope": file.scope.model_copy(update={"resource": f"TCPIP::127.0.0.1::{port}::SOCKET"})}
        )
        with (
            pytest.raises(InstrumentError, match=str(port)),
            open_bench(file, board_name=None, overrides=lambda f: f, ask=print),
        ):
            pass


class Running:
    """A simulator of its own, for benches that a test describes itself."""

    def __enter__(self):
        from labctl import boards

        self.simulation = Simulation(boards.load("stm32vldiscovery"), seed=1)
        self.simulation.start(self.simulation.bench_file())
        return self.simulation

    def __exit__(self, *_):
        self.simulation.stop()


def test_nobody_at_the_keyboard(elf, labctl, tmp_path):
    """A bench file with a manual switch, run from a script: the remedy is named, nothing hangs."""
    with Running() as simulation:
        addresses = simulation.addresses
        simulation.ask(cmd="faults", faults={})
        from instruments.registry import open_driver

        switch = open_driver("scpi-switch", addresses["power"])
        switch.set_output(True)
        switch.close()
        (tmp_path / "bench.toml").write_text(
            '[bench]\nname = "desk"\n[shunt]\nresistance_ohm = "1.3 ohm"\ndecoupling_f = "4.7 uF"\n'
            f'[scope]\ndriver = "keysight-infiniivision"\nresource = "{addresses["scope"]}"\n'
            f'[dut]\nboard = "stm32vldiscovery"\nport = "{addresses["dut"]}"\n'
        )
        done = labctl("measure", "--op", "sha256", "--runs", "3", cwd=tmp_path, status=2)
        assert "--zero" in done.stderr
        assert "[dut] power" in done.stderr
        assert list(tmp_path.glob("captures/*")) == []


def test_a_bench_file_reaches_the_same_instruments(elf, labctl, tmp_path):
    """The emulated instruments through a bench file, as real ones would be: no truth, but still marked emulated."""
    with Running() as simulation:
        addresses = simulation.addresses
        (tmp_path / "desk.toml").write_text(
            '[bench]\nname = "desk-3"\n[shunt]\nresistance_ohm = 1.3\ndecoupling_f = 4.7e-6\n'
            f'[scope]\ndriver = "keysight-infiniivision"\nresource = "{addresses["scope"]}"\n'
            f'[dut]\nboard = "stm32vldiscovery"\nport = "{addresses["dut"]}"\npower = "{addresses["power"]}"\n'
        )
        done = labctl("measure", "--bench", "desk.toml", "--op", "sha256", "--runs", "3", "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert document["bench"]["name"] == "desk-3"
    assert document["bench"]["emulated"] is True
    assert "truth_energy_j" not in document["results"][0]


def test_no_firmware_built(tmp_path):
    from labctl import boards

    simulation = Simulation(boards.load("stm32vldiscovery"), seed=1, elf=tmp_path / "none.elf")
    with pytest.raises(EnvironmentFault, match="make firmware"):
        simulation.start(simulation.bench_file())


def test_firmware_that_is_none_is_said(tmp_path, monkeypatch):
    broken = tmp_path / "broken.elf"
    broken.write_bytes(b"not an ELF file")
    monkeypatch.setattr("labctl.simulation.default_elf", lambda board: broken)
    with pytest.raises(LabctlError, match="ELF"), bench_with() as bench:
        run(bench, tmp_path / "out")


def test_a_simulator_that_ended_before_its_scope_was_opened_says_why(elf, tmp_path, monkeypatch):
    from labctl import bench

    broken, open_all = tmp_path / "broken.elf", bench._open_all
    broken.write_bytes(b"not an ELF file")

    def late(*arguments):
        arguments[-1]._process.wait()
        return open_all(*arguments)

    monkeypatch.setattr("labctl.simulation.default_elf", lambda board: broken)
    monkeypatch.setattr("labctl.bench._open_all", late)
    with pytest.raises(EnvironmentFault, match="ELF"), bench_with():
        pass
