"""``labctl sim start``: any VISA program can talk to the bench, and Ctrl-C ends it without leftovers."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
import pyvisa


@pytest.fixture
def bench(elf, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", "from labctl.cli import main; main()", "sim", "start", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    yield process, json.loads(line)
    if process.poll() is None:
        process.kill()
    process.communicate()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


def test_any_visa_program_can_ask_who_is_there(bench):
    _, addresses = bench
    manager = pyvisa.ResourceManager("@py")
    try:
        assert len(addresses["control"].split(":")) == 2
        for key, fields in (("scope", 4), ("power", 4)):
            instrument = manager.open_resource(
                addresses[key], read_termination="\n", write_termination="\n", timeout=5000
            )
            try:
                assert len(instrument.query("*IDN?").split(",")) == fields
            finally:
                instrument.close()
    finally:
        manager.close()


def ask(address, **command):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=15) as link, link.makefile("rwb") as stream:
        stream.write(json.dumps(command).encode() + b"\n")
        stream.flush()
        return json.loads(stream.readline())


def test_a_load_is_connected_and_faults_are_tried_from_another_terminal(bench, labctl, tmp_path):
    _, addresses = bench
    control = ("--control", addresses["control"])
    done = labctl("sim", "connect", "load", "--load", "220ohm", "--load-tolerance", "1%", *control, cwd=tmp_path)
    first, second = done.stdout.splitlines()
    assert first == "emulated bench: load connected"
    assert ask(addresses["control"], cmd="status")["engine"] == "off"
    draws = ask(addresses["control"], cmd="draws")["draws"]
    read_a = float(re.fullmatch(r"the meter in series with it reads (\S+) mA while the supply is on", second)[1]) / 1e3
    true_a = draws["supply_v"] / (draws["load_ohm"] + draws["shunt_ohm"])
    assert read_a == pytest.approx(true_a * (1 + draws["meter_ratio"]), rel=1e-4)
    assert abs(draws["meter_ratio"]) <= 1e-3
    assert ask(addresses["control"], cmd="meter")["current_a"] == pytest.approx(read_a, rel=1e-4)
    assert 0.001 < abs(draws["load_ohm"] / 220.0 - 1) <= 0.01
    done = labctl("sim", "fault", "--shunt", "reversed", "--wires", "swapped", *control, cwd=tmp_path)
    assert "shunt reversed, wires swapped" in done.stdout
    assert "no fault" in labctl("sim", "fault", "--clear", *control, cwd=tmp_path).stdout
    labctl("sim", "connect", "pulse", "--pulse", "1 ms", "--period", "3 ms", *control, cwd=tmp_path)
    labctl("sim", "connect", "dut", *control, cwd=tmp_path)
    assert ask(addresses["control"], cmd="status")["engine"] != "off"
    for arguments, word in (
        (("fault", "--shunt", "lost"), "bypassed"),
        (("fault",), "--clear"),
        (("fault", "--clear", "--wires", "swapped"), "--clear"),
        (("connect", "pulse", "--period", "1 ms"), "period_s"),
        (("connect", "pulse", "--period", "1 ohm"), "10 ms"),
        (("connect", "tea"), "pulsed-load"),
    ):
        done = labctl("sim", *arguments, *control, cwd=tmp_path, status=2)
        assert word in done.stderr
        assert "Traceback" not in done.stderr


def test_a_control_address_that_is_none_or_where_nobody_answers(labctl, tmp_path):
    for address in ("nonsense", "localhost:http", ":1", "localhost:70000"):
        done = labctl("sim", "fault", "--clear", "--control", address, cwd=tmp_path, status=2)
        assert "HOST:PORT" in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    done = labctl("sim", "connect", "load", "--control", address, cwd=tmp_path, status=3)
    assert "labctl sim start" in done.stderr


def test_what_can_be_connected_is_one_list():
    from instruments.sim.fixture import KINDS
    from labctl.bench import FIXTURES
    from labctl.cli.sim import connect

    (what,) = (p for p in connect.params if p.name == "what")
    assert KINDS == FIXTURES
    assert tuple(what.type.choices) == ("dut", *FIXTURES)


def test_ctrl_c_ends_it(bench):
    process, addresses = bench
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=15) == 0
    assert gone(addresses["pid"])


def test_a_killed_parent_leaves_no_simulator(bench):
    process, addresses = bench
    process.kill()
    assert gone(addresses["pid"])
