"""A bench of one's own from nothing: `sim start`, `bench new` with its addresses, `bench check`, `measure`."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from labctl import boards, cli
from labctl.benchcheck import Subject, check_links, open_links
from labctl.benchfile import parse_bench
from labctl.checkup.parts import about_dut
from labctl.errors import EnvironmentFault, NobodyThere
from labctl.firmware import Image, check_toolchain, ensure
from labctl.simulation import Simulation
from labctl.units import quantity

BOARD = "stm32vldiscovery"


@pytest.fixture(scope="module")
def addresses(elf, tmp_path_factory):
    process = subprocess.Popen(
        [sys.executable, "-c", "from labctl.cli import main; main()", "sim", "start", "--json"],
        cwd=tmp_path_factory.mktemp("sim"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())
    process.terminate()
    process.communicate(timeout=30)


@pytest.fixture(scope="module")
def nobody():
    """Give a port of this machine where nobody listens: it is bound, so that nobody else can take it either."""
    with contextlib.closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def table(addresses, **changes):
    """Describe the emulated bench as a file; `changes` are keys of [scope] and [dut]."""
    file = {
        "bench": {"name": "desk-3"},
        "shunt": {"resistance_ohm": 1.3, "decoupling_f": 4.7e-6},
        "scope": {"driver": "keysight-infiniivision", "resource": addresses["scope"]},
        "dut": {"board": BOARD, "port": addresses["dut"], "power": addresses["power"]},
    }
    for key, value in changes.items():
        section = next(s for s in ("scope", "dut") if key in file[s] or (s == "scope" and key.endswith("_channel")))
        file[section][key] = value
    return file


def found(file, ask=lambda sentence: pytest.fail(f"asked: {sentence}"), **subject):
    """Check a bench; give status and text of each finding by its name."""
    with open_links(Subject(parse_bench(file, "desk.toml"), None, **subject)) as links:
        findings = [*links.findings, *check_links(links, ask)]
    assert len({f.name for f in findings}) == len(findings)
    return {f.name: (f.status, f.text) for f in findings}


def nobody_there(sentence):
    raise NobodyThere(f"{sentence}: but nobody is at the keyboard")


# --- from nothing to a measurement -----------------------------------------------------------------------------------


def test_new_then_check_then_measure(addresses, labctl, tmp_path):
    labctl(
        "bench", "new", "--name", "desk-3", "--shunt", "1.3 ohm", "--decoupling", "4.7 uF",
        "--resource", addresses["scope"], "--port", addresses["dut"], "--power", addresses["power"], cwd=tmp_path,
    )  # fmt: skip
    checked = labctl("bench", "check", cwd=tmp_path).stdout
    first, *rest = checked.splitlines()
    assert "desk-3" in first
    assert "emulated" in first
    assert "bench.toml" in first
    assert "FAULT" not in checked
    assert max(map(len, [first, *rest])) <= 80
    done = labctl(
        "measure", "--bench", "bench.toml", "--op", "sha256", "--runs", "5", "--json", "--out", "out", cwd=tmp_path
    )
    document = json.loads(done.stdout)
    assert (document["bench"]["name"], document["bench"]["emulated"]) == ("desk-3", True)
    assert [row["operation"] for row in document["results"]] == ["sha256"]


def test_without_a_file_the_emulated_bench_is_checked(elf, labctl, tmp_path):
    done = labctl("bench", "check", "--json", "--seed", "3", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert document["schema"] == "labctl.bench-check/1"
    assert document["bench"] == {"name": "emulated", "emulated": True, "file": None}
    assert {f["status"] for f in document["findings"]} == {"ok"}
    names = [f["name"] for f in document["findings"]]
    assert names[:4] == ["bench file", "scope", "switch", "DUT"]
    assert {"trigger", "shunt", "zero", "supply"} <= set(names)
    assert done.stderr == ""


@pytest.fixture(scope="module")
def slow(elf):
    """A board that was flashed for 8 MHz, which draws less and takes three times as long."""
    image = Image(BOARD, "all", "Os", 8_000_000)
    try:
        check_toolchain()
        path = ensure(image)
    except EnvironmentFault as fault:
        pytest.skip(str(fault))
    simulation = Simulation(boards.at_clock(BOARD, 8e6), seed=1, elf=path)
    try:
        simulation.start(simulation.bench_file())
        yield simulation
    finally:
        simulation.stop()


def test_a_board_flashed_for_a_lower_clock_is_judged_by_that_clock(slow):
    seen = found(table(slow.addresses))
    assert {status for status, _ in seen.values()} == {"ok"}, seen
    assert "8.00 MHz" in seen["DUT"][1]
    typical_a = boards.at_clock(BOARD, 8e6)["supply"]["current_typical_a"]
    assert typical_a != boards.load(BOARD)["supply"]["current_typical_a"]
    assert f"{quantity(typical_a, 'A')} that {BOARD} typically draws" in seen["bench file"][1]


def test_a_clock_that_the_board_has_not_is_a_fault():
    dut = SimpleNamespace(
        hello=lambda: {"board": BOARD, "clock_hz": "7000000", "clock": "hse", "build": "1"},
        list_operations=lambda: ["null", "busy"],
        manifest=dict,
    )
    finding, board = about_dut(dut, boards.load(BOARD))
    assert (finding.status, board["clock_hz"]) == ("fault", 24_000_000)
    assert "7.00 MHz" in finding.text
    assert "the board's data say 24.0 MHz or 8.00 MHz" in finding.text


# --- a connection that fails is named, and hides no other ------------------------------------------------------------


def test_a_supply_beyond_the_mcu_is_warned_of_and_can_be_measured_with(addresses, elf, labctl, tmp_path):
    """The published method multiplies the MCU's current by the board's 5 V: measure goes on taking that."""
    seen = found({**table(addresses), "supply": {"voltage_v": 5.0}})
    assert seen["bench file"][0] == "warning"
    assert "5.00 V at the MCU's supply pin is more than the 3.60 V" in seen["bench file"][1]
    assert found({**table(addresses), "supply": {"voltage_v": 3.6}})["bench file"][0] == "ok"
    labctl("measure", "--supply", "5.0", "--op", "sha256", "--runs", "3", "--out", "out", cwd=tmp_path)


def test_a_wrong_resource(addresses, nobody):
    seen = found(table(addresses, resource=f"TCPIP::127.0.0.1::{nobody}::SOCKET"))
    assert seen["scope"][0] == "fault"
    assert f"[scope] resource: nobody answers at TCPIP::127.0.0.1::{nobody}::SOCKET" in seen["scope"][1]
    assert (seen["switch"][0], seen["DUT"][0], seen["signals"][0]) == ("ok", "ok", "left out")
    assert "scope" in seen["signals"][1]


def test_another_instrument_at_the_resource(addresses):
    seen = found(table(addresses, resource=addresses["power"]))
    assert seen["scope"][0] == "fault"
    assert "SUPPLY-SWITCH" in seen["scope"][1]


def test_what_is_no_resource(addresses):
    status, text = found(table(addresses, resource="scope.lab:5025"))["scope"]
    assert status == "fault"
    assert "TCPIP::host::port::SOCKET" in text


def test_a_wrong_port(addresses, nobody):
    seen = found(table(addresses, port=f"socket://127.0.0.1:{nobody}"))
    assert seen["DUT"][0] == "fault"
    assert f"[dut] port: socket://127.0.0.1:{nobody} cannot be opened" in seen["DUT"][1]
    assert (seen["scope"][0], seen["switch"][0], seen["signals"][0]) == ("ok", "ok", "left out")
    assert "DUT" in seen["signals"][1]


def test_the_port_of_something_else(addresses):
    host, port = addresses["power"].split("::")[1:3]
    status, text = found(table(addresses, port=f"socket://{host}:{port}"))["DUT"]
    assert status == "fault"
    assert "right port" in text or "DUT's port" in text


def test_a_wrong_switch(addresses, nobody):
    seen = found(table(addresses, power=f"TCPIP::127.0.0.1::{nobody}::SOCKET"), ask=nobody_there)
    assert seen["switch"][0] == "fault"
    assert "[dut] power" in seen["switch"][1]
    assert (seen["scope"][0], seen["DUT"][0], seen["trigger"][0]) == ("ok", "ok", "ok")
    assert seen["shunt"][0] == "left out"  # the supply cannot be switched, and nobody is asked


def test_everything_wrong_is_three_faults(addresses, nobody):
    dead = f"TCPIP::127.0.0.1::{nobody}::SOCKET"
    seen = found(table(addresses, resource=dead, port="/dev/no-such-port", power=dead))
    assert [seen[name][0] for name in ("bench file", "scope", "switch", "DUT")] == ["ok", "fault", "fault", "fault"]
    assert "/dev/no-such-port" in seen["DUT"][1]


def test_another_board_than_the_bench_names(addresses, monkeypatch):
    """A board that differs from the emulated one in nothing but its name."""
    other = {**boards.load(BOARD), "name": "other-board"}
    monkeypatch.setattr(boards, "load", lambda name: other)
    seen = found(table(addresses))
    assert seen["DUT"][0] == "fault"
    assert f"firmware for {BOARD}, but the bench names other-board" in seen["DUT"][1]
    assert seen["scope"][0] == "ok"


def test_a_channel_that_the_scope_has_not(addresses):
    seen = found(table(addresses, trigger_channel=7))
    assert seen["scope"][0] == "fault"
    assert "CH7" in seen["scope"][1]
    assert "[scope]" in seen["scope"][1]
    assert seen["DUT"][0] == "ok"


def test_a_switch_by_hand_asks_the_person(addresses):
    asked = []
    seen = found(table(addresses, power="manual"), ask=asked.append)
    assert [("off" in sentence, "on" in sentence.split()) for sentence in asked] == [(True, False), (False, True)]
    assert seen["switch"][0] == "left out"
    # Nobody did switch it, and that is seen.
    assert seen["supply switch"][0] == "fault"


def test_a_switch_by_hand_with_nobody_there(addresses):
    seen = found(table(addresses, power="manual"), ask=nobody_there)
    assert seen["trigger"][0] == "ok"
    status, text = seen["shunt"]
    assert status == "left out"
    assert text.startswith("Switch the supply of the DUT off: but nobody is at the keyboard")
    assert (seen["windows"][0], seen["timer"][0]) == ("ok", "ok")  # what needs no switch


# --- the command's exit status ---------------------------------------------------------------------------------------


def test_a_fault_exits_1_and_json_is_nothing_but_json(addresses, nobody, labctl, tmp_path):
    labctl(
        "bench", "new", "--shunt", "1.3", "--resource", addresses["scope"], "--port", f"socket://127.0.0.1:{nobody}",
        "--power", addresses["power"], "--out", "desk.toml", cwd=tmp_path,
    )  # fmt: skip
    done = labctl("bench", "check", "--bench", "desk.toml", "--json", cwd=tmp_path, status=1)
    document = json.loads(done.stdout)
    assert document["bench"] == {"name": "bench", "emulated": True, "file": "desk.toml"}
    assert [f["name"] for f in document["findings"] if f["status"] == "fault"] == ["DUT"]
    shown = labctl("bench", "check", "--bench", "desk.toml", cwd=tmp_path, status=1).stdout
    assert str(nobody) in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[shunt]\nresistence_ohm = 1.3\n", ["resistence_ohm", "did you mean 'resistance_ohm'"]),
        ("[shunt\n", ["not valid TOML"]),
        ('{}[dut]\nboard = "stm32vldiscover"\nport = "p"\n', ["stm32vldiscover", "known boards"]),
        ('{}[dut]\nboard = "stm32vldiscovery"\nport = "p"\n[supply]\nvoltage_v = 33\n', ["33.0 V", "runs on"]),
        ('{}[dut]\nboard = "stm32vldiscovery"\nport = "p"\n'.replace("{}", "{driver}"), ["keysight-infinivision"]),
    ],
)
def test_a_file_that_cannot_be_right_exits_2_and_nothing_is_opened(capsys, tmp_path, monkeypatch, text, words):
    monkeypatch.chdir(tmp_path)
    rest = '[shunt]\nresistance_ohm = 1.3\n[scope]\nresource = "r"\ndriver = "{}"\n'
    text = text.replace("{driver}", rest.format("keysight-infinivision"))
    (tmp_path / "bench.toml").write_text(text.replace("{}", rest.format("keysight-infiniivision")))
    monkeypatch.setattr("labctl.benchcheck.open_driver", lambda *_, **__: pytest.fail("something was opened"))
    assert cli.run(["bench", "check"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "bench.toml" in captured.err
    for word in words:
        assert word in captured.err


def test_a_file_that_is_not_there_exits_2(labctl, tmp_path):
    assert "does not exist" in labctl("bench", "check", "--bench", "none.toml", cwd=tmp_path, status=2).stderr
    assert os.listdir(tmp_path) == []
