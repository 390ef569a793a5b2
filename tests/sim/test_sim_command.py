"""``labctl sim start``: any VISA program can talk to the bench, and Ctrl-C ends it without leftovers."""

import json
import os
import signal
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


def test_ctrl_c_ends_it(bench):
    process, addresses = bench
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=15) == 0
    assert gone(addresses["pid"])


def test_a_killed_parent_leaves_no_simulator(bench):
    process, addresses = bench
    process.kill()
    assert gone(addresses["pid"])
