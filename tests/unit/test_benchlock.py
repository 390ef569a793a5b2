"""Locks of a bench: one holder at a time over all processes, named to the next, gone with its process."""

import contextlib
import os
import re
import signal
import subprocess
import sys

import pytest

from labctl import benchlock
from labctl.benchfile import parse_bench
from labctl.errors import BusyFault, EnvironmentFault

SCOPE = "TCPIP::scope.lab::5025::SOCKET"
HOLDER = """
import json, sys
from labctl import benchlock
from labctl.benchfile import parse_bench
from labctl.errors import BusyFault
table = json.loads(sys.argv[1])
for _ in range(int(sys.argv[2])):
    try:
        with benchlock.hold(parse_bench(table, "bench.toml")):
            print("held", flush=True)
            sys.stdin.readline()
    except BusyFault:
        print("busy", flush=True)
"""


def table(**dut):
    return {
        "shunt": {"resistance_ohm": 1.3},
        "scope": {"driver": "keysight-infiniivision", "resource": SCOPE},
        "dut": {"board": "stm32vldiscovery", "port": "/dev/ttyUSB0", "power": "TCPIP::supply.lab::INSTR", **dut},
    }


def bench(**dut):
    return parse_bench(table(**dut), "bench.toml")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(benchlock.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


@contextlib.contextmanager
def another_process(what, n_times=1):
    import json

    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, json.dumps(what), str(n_times)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_second_is_told_who_holds_it_and_since_when():
    with another_process(table()) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BusyFault) as caught, benchlock.hold(bench()):
            pass
    text = str(caught.value)
    assert f"process {holder.pid} of user" in text
    assert "`-c " in text  # the command line, without the interpreter
    assert re.search(r"since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text)
    assert caught.value.exit_status == 3


@pytest.mark.parametrize(
    "other",
    [
        {"port": "/dev/ttyUSB1", "power": "manual"},  # the scope alone
        {"port": "/dev/ttyUSB1"},
        {"power": "manual"},
    ],
    ids=["scope", "scope-and-switch", "scope-and-port"],
)
def test_one_part_that_is_held_is_enough(other):
    with another_process(table(**other)) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BusyFault), benchlock.hold(bench()):
            pass


def test_other_benches_are_free():
    other = table(port="/dev/ttyUSB1", power="manual")
    other["scope"]["resource"] = "TCPIP::other.lab::5025::SOCKET"
    with another_process(other) as holder:
        assert holder.stdout.readline() == "held\n"
        with benchlock.hold(bench()):
            pass


def test_what_a_dead_process_held_is_free():
    with another_process(table()) as holder:
        assert holder.stdout.readline() == "held\n"
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        with benchlock.hold(bench()):
            pass


def test_it_is_free_after_the_block_and_after_an_error():
    with pytest.raises(RuntimeError), benchlock.hold(bench()):
        raise RuntimeError
    with benchlock.hold(bench()):
        pass
    with another_process(table()) as holder:
        assert holder.stdout.readline() == "held\n"


def test_a_part_that_is_refused_leaves_the_others_free():
    first, second = table(), table(port="/dev/ttyUSB1", power="manual")
    second["scope"]["resource"] = "TCPIP::other.lab::5025::SOCKET"
    both = parse_bench({**second, "dut": [second["dut"], {**first["dut"], "board": "stm32f4discovery"}]}, "bench.toml")
    with another_process(first) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BusyFault), benchlock.hold(both):
            pass
        with benchlock.hold(parse_bench(second, "bench.toml")):
            pass


def test_two_who_start_at_once_never_wait_for_each_other():
    """Each of 50 turns of both ends, held or refused: neither waits for what the other has."""
    back = table()
    back["scope"]["resource"], back["dut"]["power"] = back["dut"]["power"], back["scope"]["resource"]
    with another_process(table(), 50) as one, another_process(back, 50) as other:
        outputs = [process.communicate("\n" * 50, timeout=60)[0].split() for process in (one, other)]
    assert [len(output) for output in outputs] == [50, 50]
    assert {word for output in outputs for word in output} <= {"held", "busy"}
    assert "held" in outputs[0] + outputs[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"port": "/dev/ttyUSB0"}, {"port": "/dev/./ttyUSB0"}),
        ({"power": "TCPIP::supply.lab::INSTR"}, {"power": "tcpip0::SUPPLY.lab::instr"}),
    ],
    ids=["port", "visa"],
)
def test_another_spelling_is_the_same_part(one, other, monkeypatch):
    monkeypatch.setattr(benchlock, "addresses", lambda file: (file.dut.port, file.dut.power))
    (key,) = one
    rest = {"power": "manual"} if key == "port" else {"port": "socket://127.0.0.1:1"}
    monkeypatch.setattr(benchlock, "addresses", lambda file: (getattr(file.dut, key),))
    with (
        benchlock.hold(bench(**one, **rest)),
        pytest.raises(BusyFault, match=str(os.getpid())),
        benchlock.hold(bench(**other, **rest)),
    ):
        pass


def test_files_can_be_locked_by_every_user(folder):
    mask = os.umask(0o077)
    try:
        with benchlock.hold(bench()):
            files = list(folder.iterdir())
    finally:
        os.umask(mask)
    assert len(files) == 3
    assert {path.stat().st_mode & 0o777 for path in files} == {0o666}
    assert folder.stat().st_mode & 0o7777 == 0o1777


def test_a_folder_that_cannot_be_is_named(folder, monkeypatch):
    (folder / "file").write_text("")
    monkeypatch.setenv(benchlock.FOLDER_VARIABLE, str(folder / "file"))
    with pytest.raises(EnvironmentFault, match=benchlock.FOLDER_VARIABLE), benchlock.hold(bench()):
        pass


def test_rubbish_in_a_lock_file_is_nobodys_name(folder):
    with another_process(table()) as holder:
        assert holder.stdout.readline() == "held\n"
        for path in folder.iterdir():
            path.write_bytes(b"\xff{")
        with pytest.raises(BusyFault, match="another process"), benchlock.hold(bench()):
            pass
