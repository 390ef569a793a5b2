"""Locks of a bench: one holder at a time over all processes, named to the next, gone with its process."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from labctl import benchlock
from labctl.benchfile import parse_bench
from labctl.errors import BusyFault, EnvironmentFault

SCOPE = "TCPIP::scope.invalid::5025::SOCKET"
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
        "dut": {"board": "stm32vldiscovery", "port": "/dev/ttyUSB0", "power": "TCPIP::supply.invalid::INSTR", **dut},
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
    other["scope"]["resource"] = "TCPIP::other.invalid::5025::SOCKET"
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
    second["scope"]["resource"] = "TCPIP::other.invalid::5025::SOCKET"
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


HOSTS = {
    "localhost": ["127.0.0.1", "::1"], "127.0.0.1": ["127.0.0.1"], "::1": ["::1"],
    "scope.invalid": ["192.0.2.7", "2001:db8::7"], "scope": ["192.0.2.7"], "192.0.2.7": ["192.0.2.7"],
    "2001:db8::7": ["2001:db8::7"], "192.0.2.8": ["192.0.2.8"],
}


@pytest.fixture
def hosts(monkeypatch):
    """Find the numbers of hosts without asking anybody."""

    def getaddrinfo(host, port):
        try:
            return [(None, None, None, "", (number, 0)) for number in HOSTS[host]]
        except KeyError:
            raise socket.gaierror from None

    benchlock._names_of.cache_clear()
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield
    benchlock._names_of.cache_clear()


def same(one, other):
    return bool(set(benchlock.spellings(one)) & set(benchlock.spellings(other)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/dev/ttyUSB0", "/dev/./ttyUSB0"),
        ("/dev/ttyUSB0", "ASRL/dev/ttyUSB0::INSTR"),
        ("/dev/ttyUSB0", "asrl/dev/ttyUSB0"),
        ("socket://127.0.0.1:5025", "socket://localhost:5025"),
        ("socket://127.0.0.1:5025", "SOCKET://[::1]:05025/?logging=debug"),
        ("TCPIP::127.0.0.1::5025::SOCKET", "tcpip0::LOCALHOST::5025::socket"),
        ("TCPIP::scope.invalid::INSTR", "tcpip0::Scope.INVALID::inst0::instr"),
        ("TCPIP::scope.invalid::INSTR", "TCPIP::192.0.2.7"),
        ("TCPIP::scope.invalid::INSTR", "TCPIP::scope::INSTR"),
        ("TCPIP::scope.invalid::5025::SOCKET", "TCPIP::[2001:db8::7]::5025::SOCKET"),
        ("TCPIP::nobody.knows.invalid::INSTR", "TCPIP0::nobody.knows.invalid::INSTR"),
        ("USB::0x0957::0x1797::MY5::INSTR", "USB0::2391::6039::MY5::0::INSTR"),
        ("GPIB::5", "GPIB0::5::INSTR"),
    ],
)
def test_another_spelling_is_the_same_part(one, other, hosts):
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/dev/ttyUSB0", "/dev/ttyUSB1"),
        ("/dev/ttyUSB0", "/dev/ttyusb0"),
        ("socket://127.0.0.1:5025", "socket://127.0.0.1:5026"),
        ("TCPIP::127.0.0.1::5025::SOCKET", "TCPIP::127.0.0.1::5026::SOCKET"),
        ("TCPIP::scope.invalid::INSTR", "TCPIP::192.0.2.8::INSTR"),
        ("GPIB0::5::INSTR", "GPIB1::5::INSTR"),
        ("GPIB0::5::INSTR", "GPIB0::6::INSTR"),
        ("USB::0x0957::0x1797::MY5::INSTR", "USB::0x0957::0x1797::MY6::INSTR"),
    ],
)
def test_another_part_is_not(one, other, hosts):
    assert not same(one, other)


def test_a_link_to_a_port_is_that_port(tmp_path):
    (tmp_path / "ttyUSB0").write_text("")
    (tmp_path / "by-id").symlink_to("ttyUSB0")
    assert same(str(tmp_path / "by-id"), str(tmp_path / "ttyUSB0"))


def test_a_part_that_is_spelled_otherwise_is_refused_as_the_bench_file_has_it():
    with (
        benchlock.hold(bench(port="socket://127.0.0.1:4711", power="manual")),
        pytest.raises(BusyFault, match=rf"^socket://localhost:4711 is in use by process {os.getpid()} "),
        benchlock.hold(bench(port="socket://localhost:4711", power="TCPIP::supply.invalid::INSTR")),
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
