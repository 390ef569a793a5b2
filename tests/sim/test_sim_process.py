"""The emulated bench as a process: addresses, sockets, faults, control, and how it ends."""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from instruments.sim.server import SerialServer

SCRIPTED = Path(__file__).with_name("scripted_bench.py")
ROOT = Path(__file__).parents[2]
TIMEOUT_S = 30.0
CONFIG = {
    "board": {"clock_hz": 24_000_000, "pins": {"level_v": 3.3}},
    "elf": "none",
    "seed": 5,
    "shunt": {"resistance_ohm": 1.3, "tolerance_ratio": 0.01},
    "supply": {"voltage_v": 3.3, "tolerance_ratio": 0.01},
    "decoupling": {"capacitance_f": 4.7e-6, "tolerance_ratio": 0.2},
    "crystal": {"tolerance_ratio": 50e-6},
    "wiring": {"shunt_channel": 1, "trigger_channel": 2},
    "faults": {},
}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


class Link:
    """A socket with exact reads and a limit on every wait."""

    def __init__(self, address):
        if "::" in address:
            host, port = address.split("::")[1:3]
        else:
            host, port = address.removeprefix("socket://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self.buffer = b""

    def send(self, text):
        self.socket.sendall(text.encode() + b"\n")

    def line(self):
        while b"\n" not in self.buffer:
            chunk = self.socket.recv(1 << 16)
            if not chunk:
                raise ConnectionError("closed")
            self.buffer += chunk
        text, _, self.buffer = self.buffer.partition(b"\n")
        return text.decode("latin-1")

    def exactly(self, n):
        while len(self.buffer) < n:
            chunk = self.socket.recv(1 << 20)
            if not chunk:
                raise ConnectionError(f"closed after {len(self.buffer)} of {n} bytes")
            self.buffer += chunk
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def ask(self, text):
        self.send(text)
        return self.line()

    def is_silent(self, timeout_s=0.3):
        """Tell whether nothing comes for a while; a peer that closes is not silent."""
        self.socket.settimeout(timeout_s)
        try:
            data = self.socket.recv(1 << 20)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(TIMEOUT_S)
        assert data != b"", "closed"
        return False

    def close(self):
        self.socket.close()


class Process:
    def __init__(self, config=None, command=(sys.executable, str(SCRIPTED))):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=ENVIRONMENT
        )
        self.process.stdin.write(json.dumps(config or CONFIG).encode())
        self.process.stdin.close()
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read().decode()
        self.addresses = json.loads(line)
        self.links = []

    def link(self, name):
        link = Link(self.addresses[name])
        self.links.append(link)
        return link

    def control(self, **command):
        with contextlib.closing(Link(self.addresses["control"])) as link:
            return json.loads(link.ask(json.dumps(command)))

    def close(self):
        for link in self.links:
            link.close()
        self.process.terminate()
        status = self.process.wait(timeout=TIMEOUT_S)
        self.process.stdout.close()
        self.process.stderr.close()
        return status


@pytest.fixture
def bench():
    process = Process()
    yield process
    process.close()


@pytest.fixture(scope="module")
def shared():
    """Give a bench for tests that leave it as it was."""
    process = Process()
    yield process
    process.close()


def until(link, question, answer):
    deadline = time.monotonic() + TIMEOUT_S
    while link.ask(question) != answer:
        assert time.monotonic() < deadline, f"{question} never answered {answer}"
        time.sleep(0.005)


def answers(address):
    """Tell whether something listens at an address."""
    try:
        Link(address).close()
    except OSError:
        return False
    return True


def take(bench, scope, n_segments=5):
    """Arm for trigger pulses, let the DUT run, wait for all segments."""
    scope.send(
        ":CHAN1:DISP 1;RANG 0.08;OFFS 0.02;:CHAN2:DISP 1;RANG 8;OFFS 2;:TIM:RANG 4E-4;REF LEFT;POS 0"
        f";:ACQ:MODE SEGM;SEGM:COUN {n_segments};:TRIG:SWE NORM;SOUR CHAN2;LEV 1.65"
        ";:WAV:POIN:MODE RAW;:WAV:POIN MAX;SEGM:ALL ON;:SING"
    )
    until(scope, ":AER?", "+1")
    dut = bench.link("dut")
    assert dut.ask("go") == "done"
    dut.close()


def read_block(scope):
    scope.send(":WAV:DATA?")
    header = scope.exactly(10)
    assert header[:2] == b"#8"
    data = scope.exactly(int(header[2:]))
    assert scope.exactly(1) == b"\n"
    return np.frombuffer(data, np.uint8)


def test_whole_bench_over_sockets(bench):
    scope = bench.link("scope")
    assert bench.addresses["pid"] == bench.process.pid
    _, model, serial, _ = scope.ask("*IDN?").split(",")
    # The seed of the configuration; by the first word everybody can tell what is emulated.
    assert (model, serial) == ("DSO-X 3024T", "EMULATED5")
    assert bench.link("power").ask("*IDN?").startswith("EMULATED,")
    take(bench, scope)
    until(scope, ":OPER:COND?", "+0")
    assert scope.ask(":WAV:SEGM:COUN?;:SYST:ERR?") == '+5;+0,"No error"'
    scope.send(":WAV:SOUR CHAN2")
    n = int(scope.ask(":WAV:POIN?"))
    codes = read_block(scope).reshape(5, n)
    dt_s = float(scope.ask(":WAV:XINC?"))
    # 4800 cycles of 24 MHz, crystal and time base apart by 60 ppm at most
    n_high = (codes > 128 - 0.35 * 32).sum(axis=1)
    assert n_high == pytest.approx(np.full(5, 200e-6 / dt_s), rel=61e-6, abs=2)
    draws = bench.control(cmd="draws")["draws"]
    windows = bench.control(cmd="windows")["windows"]
    duration_s = 4800 / 24e6 / (1 + draws["crystal_ratio"])
    assert [w["duration_s"] for w in windows] == pytest.approx([duration_s] * 5, rel=1e-9)
    assert [w["energy_supply_j"] for w in windows] == pytest.approx(
        [draws["supply_v"] * 10e-3 * duration_s] * 5, rel=1e-6
    )
    assert bench.control(cmd="windows") == {"windows": []}
    assert abs(draws["shunt_ohm"] / 1.3 - 1) <= 0.01
    assert draws["channels"]["1"]["range_v"] == 0.08


def test_full_memory_comes_as_one_block(bench):
    scope = bench.link("scope")
    scope.send(":CHAN1:RANG 0.08;:TIM:RANG 8E-4;:TRIG:SWE AUTO;:DIG CHAN1;:WAV:POIN:MODE RAW;:WAV:POIN MAX")
    assert scope.ask("*OPC?") == "1"
    codes = read_block(scope)
    assert len(codes) == 4_000_000
    assert scope.ask("*OPC?") == "1"


def test_an_unknown_query_is_silence_and_an_error(bench):
    scope = bench.link("scope")
    scope.send(":NONSENSE?")
    assert scope.is_silent()
    assert scope.ask(":SYST:ERR?") == '-113,"Undefined header"'


# --- clients that misbehave: the bench lives, and everybody else is served ------------------------------------------


def works(bench):
    """Check with new clients that every port does its duty."""
    with contextlib.closing(Link(bench.addresses["scope"])) as scope:
        scope.send("*CLS")
        assert scope.ask("*IDN?").startswith("KEYSIGHT")
    with contextlib.closing(Link(bench.addresses["power"])) as switch:
        switch.send("*CLS;OUTP ON")
        assert switch.ask("OUTP?;:SYST:ERR?") == '1;+0,"No error"'
    with contextlib.closing(Link(bench.addresses["dut"])) as dut:
        assert dut.ask("go") == "done"
    assert len(bench.control(cmd="windows")["windows"]) >= 5
    assert bench.control(cmd="status")["engine"] == "parked"
    assert bench.process.poll() is None


PORTS = ("scope", "power", "control", "dut")


def test_garbage_bytes_are_an_error_and_no_more(bench):
    garbage = np.random.default_rng(7).integers(0, 256, 200_000, np.uint8).tobytes().replace(b"\n", b"\r")
    for port in PORTS:
        link = bench.link(port)
        # In lines of a length that is read, and that is not.
        for piece in (garbage[:60_000], garbage[60_000:], b"\0" * 1000, b'\xff\xfe;;;:::???,,,"\'"', b"#800000010"):
            link.socket.sendall(piece + (b"\n" if port != "dut" else b""))
        if port in ("scope", "power"):
            assert link.ask("*ESR?") != "0"
        link.close()
    works(bench)


def test_a_line_without_end_is_one_error_once_it_ends(bench):
    for name in ("scope", "power"):
        link = bench.link(name)
        link.send("x" * 1_000_000)
        assert link.ask(":SYST:ERR?;:SYST:ERR?") == '-363,"Input buffer overrun";+0,"No error"'
    control = bench.link("control")
    control.send("x" * 1_000_000)
    assert json.loads(control.line()) == {"error": "the line is too long"}
    assert "draws" in json.loads(control.ask('{"cmd": "draws"}'))
    for name in PORTS:
        link = bench.link(name)
        link.socket.sendall(b"x" * 1_000_000)
        link.close()
    works(bench)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (":CHAN1:RANG " + "1" * 60_000 + "!", "-104"),
        (":CHAN" + "1" * 60_000 + ":RANG?", "-113"),
        (":ACQ:SEGM:COUN 1E999", "-222"),
        (":WAV:POIN -1E999", "-222"),
        ("*ESE 1E999", "-222"),
        (":TIM:POS 1E999", "-222"),
        (":CHAN1:RANG 1E999", "-222"),
        (":CHAN1:PROB 0", "-222"),
    ],
    ids=lambda text: text[:20],
)
def test_numbers_that_are_none_are_refused_at_once(shared, message, code):
    scope = shared.link("scope")
    scope.send(message)
    assert scope.ask(":SYST:ERR?").split(",")[0] == code
    assert scope.ask(":SYST:ERR?") == '+0,"No error"'


def test_half_open_connections_get_their_answer_and_hold_nobody_up(bench):
    for name, question, start in (
        ("scope", "*IDN?", "KEYSIGHT"),
        ("power", "OUTP?", "1"),
        ("control", '{"cmd": "draws"}', '{"draws"'),
        ("dut", "", ""),
    ):
        link = bench.link(name)
        link.send(question) if question else link.socket.sendall(b"half")
        link.socket.shutdown(socket.SHUT_WR)
        if question:
            assert link.line().startswith(start)
        with pytest.raises(ConnectionError, match="closed"):
            link.line()
    works(bench)


def test_a_serial_client_that_never_reads_does_not_stop_the_dut():
    """The DUT sends from its own thread; without flow control what nobody takes is lost, and the rest arrives."""
    greeted = threading.Event()
    server = SerialServer(lambda data: greeted.set())
    client = Link(f"socket://127.0.0.1:{server.port}")
    client.send("x")
    assert greeted.wait(TIMEOUT_S)
    sender = threading.Thread(target=lambda: [server.send(b"y" * 65_536) for _ in range(500)], daemon=True)
    sender.start()
    sender.join(TIMEOUT_S)
    assert not sender.is_alive()
    assert client.exactly(65_536) == b"y" * 65_536
    client.close()
    server.close()


@pytest.mark.parametrize("reset", [False, True])
def test_fifty_quick_connections_on_each_port(bench, reset):
    for name in PORTS:
        for _ in range(50):
            link = Link(bench.addresses[name])
            if reset:  # close by RST
                link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.close()
    works(bench)


def test_a_block_that_nobody_reads_holds_up_nobody_and_not_the_end():
    bench = Process()
    scope = bench.link("scope")
    scope.send(":CHAN1:RANG 0.08;:TIM:RANG 8E-4;:TRIG:SWE AUTO;:DIG CHAN1;:WAV:POIN:MODE RAW;:WAV:POIN MAX")
    assert scope.ask("*OPC?") == "1"
    for _ in range(8):  # 32 MB are more than the sockets' buffers take
        scope.send(":WAV:DATA?")
    assert scope.exactly(10) == b"#804000000"
    works(bench)
    bench.process.send_signal(signal.SIGTERM)
    assert bench.process.wait(timeout=TIMEOUT_S) == 0
    bench.close()


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        '"cmd"',
        "{}",
        '{"cmd": null}',
        '{"cmd": {"a": 1}}',
        '{"cmd": "_answer"}',
        "[" * 60_000,
        '{"cmd": "faults"}',
        '{"cmd": "faults", "faults": []}',
        '{"cmd": "faults", "faults": "scope"}',
        '{"cmd": "faults", "faults": {"scope": []}}',
        '{"cmd": "faults", "faults": {"scope": {"stall_after_bytes": "many"}}}',
        '{"cmd": "faults", "faults": {"scope": {"stall_after_bytes": -5}}}',
        '{"cmd": "faults", "faults": {"scope": {"close_after_bytes": 1E999}}}',
        '{"cmd": "faults", "faults": {"dut": 1}}',
        '{"cmd": "faults", "faults": {"trigger": []}}',
        "\x00\ud7ff",
    ],
    ids=lambda text: text[:60],
)
def test_what_is_no_command_to_the_control_socket_is_an_error_in_json(shared, line):
    with contextlib.closing(Link(shared.addresses["control"])) as control:
        assert list(json.loads(control.ask(line))) == ["error"]
        assert "draws" in json.loads(control.ask('{"cmd": "draws"}'))
    with contextlib.closing(Link(shared.addresses["scope"])) as scope:
        assert scope.ask("*OPC?") == "1"  # no fault was set


def test_lines_may_come_in_pieces_and_with_carriage_returns(bench):
    scope = bench.link("scope")
    for piece in (b"*ID", b"N?\r", b"\n*OPC", b"?\n"):
        scope.socket.sendall(piece)
    assert scope.line().startswith("KEYSIGHT")
    assert scope.line() == "1"


def test_the_switch_takes_the_current_away_and_brings_it_back(bench):
    switch, dut = bench.link("power"), bench.link("dut")
    assert switch.ask("OUTP?") == "1"
    switch.send("OUTPut:STATe OFF")
    assert switch.ask(":OUTP:STAT?") == "0"
    assert bench.control(cmd="status")["engine"] == "off"
    dut.send("go")
    assert dut.is_silent()
    switch.send("OUTP PERHAPS;NONSENSE")
    assert switch.ask("SYST:ERR?") == '-141,"Invalid character data"'
    assert switch.ask("SYSTem:ERRor?") == '-113,"Undefined header"'
    switch.send("OUTP 1")
    assert switch.ask("OUTP?") == "1"
    assert dut.ask("go") == "done"
    assert len(bench.control(cmd="windows")["windows"]) == 5


def test_a_supply_that_does_not_switch_is_an_error_and_the_truth_is_told(bench):
    switch = bench.link("power")
    bench.control(cmd="faults", faults={"dut": {"stuck": True}})
    switch.send("OUTP OFF")
    assert switch.ask("SYST:ERR?;:OUTP?") == '-200,"Execution error";1'
    assert bench.control(cmd="status")["engine"] == "parked"
    bench.control(cmd="faults", faults={})
    switch.send("OUTP OFF")
    assert switch.ask("SYST:ERR?;:OUTP?") == '+0,"No error";0'


def test_a_load_takes_the_supply_from_the_dut_and_gives_it_back(bench):
    """The switch acts on what is connected: the DUT is off meanwhile, and boots where the switch is on."""
    scope, switch, dut = bench.link("scope"), bench.link("power"), bench.link("dut")
    assert bench.control(cmd="connect", what="load", load_ohm=220.0) == {"connected": "load"}
    assert bench.control(cmd="status")["engine"] == "off"
    dut.send("go")
    assert dut.is_silent()
    draws = bench.control(cmd="draws")["draws"]
    assert abs(draws["load_ohm"] / 220.0 - 1) <= 0.001
    drop_v = draws["supply_v"] * draws["shunt_ohm"] / (draws["load_ohm"] + draws["shunt_ohm"])
    assert switch.ask("OUTP?") == "1"
    on_v = mean_v(bench, scope)
    switch.send("OUTP OFF")
    assert switch.ask("OUTP?") == "0"
    gain = 1 + bench.control(cmd="draws")["draws"]["channels"]["1"]["gain_ratio"]
    # Twice 4 000 000 samples with noise of some codes: the mean is good to a thousandth of a code.
    assert (on_v - mean_v(bench, scope)) / gain == pytest.approx(drop_v, abs=0.01 * 0.08 / 256)
    assert bench.control(cmd="connect", what="dut") == {"connected": "dut"}
    assert bench.control(cmd="status")["engine"] == "off"
    switch.send("OUTP ON")
    assert switch.ask("OUTP?") == "1"
    assert dut.ask("go") == "done"
    for what in ("pulse", "dut", "dut"):
        assert bench.control(cmd="connect", what=what) == {"connected": what}
    assert dut.ask("go") == "done"
    assert len(bench.control(cmd="windows")["windows"]) == 10


def mean_v(bench, scope):
    """Read the shunt's channel without a trigger."""
    scope.send(":CHAN1:DISP 1;RANG 0.08;OFFS 0.02;:TIM:RANG 8E-4;:TRIG:SWE AUTO;:DIG CHAN1")
    assert scope.ask("*OPC?") == "1"
    scope.send(":WAV:SOUR CHAN1;:WAV:POIN:MODE RAW;:WAV:POIN MAX")
    return (read_block(scope).mean() - 128) * 0.08 / 256 + 0.02


def test_fired_pulses_reach_both_channels_and_swapped_wires_the_other_one(bench):
    scope = bench.link("scope")
    assert bench.control(cmd="connect", what="pulsed-load", width_s=200e-6, period_s=1e-3) == {
        "connected": "pulsed-load"
    }
    bench.control(cmd="faults", faults={"wires": "swapped"})
    for trigger, shunt in ((1, 2), (2, 1)):
        scope.send(
            f":CHAN{shunt}:DISP 1;RANG 0.08;OFFS 0.02;:CHAN{trigger}:DISP 1;RANG 8;OFFS 2"
            ";:TIM:RANG 4E-4;REF LEFT;POS 0;:ACQ:MODE SEGM;SEGM:COUN 5"
            f";:TRIG:SWE NORM;SOUR CHAN{trigger};LEV 1.65;:WAV:POIN:MODE RAW;:WAV:POIN MAX;SEGM:ALL ON;:SING"
        )
        until(scope, ":AER?", "+1")
        assert bench.control(cmd="fire", n=5) == {"fired": 5}
        until(scope, ":OPER:COND?", "+0")
        scope.send(f":WAV:SOUR CHAN{shunt}")
        codes = read_block(scope).reshape(5, -1).astype(float)
        draws = bench.control(cmd="draws")["draws"]
        gain = 1 + draws["channels"][str(shunt)]["gain_ratio"]
        drop_v = draws["supply_v"] * draws["shunt_ohm"] / (draws["load_ohm"] + draws["shunt_ohm"])
        # Left at the edge: the second quarter is high and settled (8 tau), the fourth low.
        quarter = codes.shape[1] // 4
        step = codes[:, quarter : int(1.9 * quarter)].mean() - codes[:, 3 * quarter :].mean()
        assert step * 0.08 / 256 / gain == pytest.approx(drop_v, rel=2e-3)
        bench.control(cmd="faults", faults={})
    assert bench.control(cmd="windows") == {"windows": []}


def test_what_cannot_be_connected_or_fired_is_said(bench):
    for command, word in (
        ({"cmd": "connect"}, "'what' is missing"),
        ({"cmd": "connect", "what": "tea"}, "pulsed-load"),
        ({"cmd": "connect", "what": ["load"]}, "pulsed-load"),
        ({"cmd": "connect", "what": "load", "load_ohm": -1}, "load_ohm"),
        ({"cmd": "connect", "what": "pulse", "period_s": 1e-4}, "period_s"),
        ({"cmd": "fire", "n": 5}, "no generator"),
    ):
        assert word in bench.control(**command)["error"]
    with contextlib.closing(Link(bench.addresses["dut"])) as dut:
        assert dut.ask("go") == "done"
    bench.control(cmd="connect", what="pulse")
    assert "10000" in bench.control(cmd="fire", n=10**9)["error"]
    for name in ("shunt", "wires"):
        assert "lost" in bench.control(cmd="faults", faults={name: "lost"})["error"]
    bench.control(cmd="connect", what="dut")
    bench.control(cmd="faults", faults={"dut": {"stuck": True}})
    assert bench.control(cmd="connect", what="load") == {"error": "stuck"}  # its supply does not let go
    bench.control(cmd="faults", faults={})
    works(bench)


def test_the_serial_port_can_be_opened_again(bench):
    for _ in range(3):
        dut = bench.link("dut")
        assert dut.ask("go") == "done"
        dut.close()


def test_a_scope_that_falls_silent_in_mid_block_and_one_that_closes(bench):
    scope = bench.link("scope")
    take(bench, scope)
    until(scope, ":OPER:COND?", "+0")
    n = len(read_block(scope))
    bench.control(cmd="faults", faults={"scope": {"stall_after_bytes": 5000}})
    scope.send(":WAV:DATA?")
    assert len(scope.exactly(5000)) == 5000
    assert scope.is_silent()
    bench.control(cmd="faults", faults={"scope": {"close_after_bytes": 7000}})
    other = bench.link("scope")
    other.send(":WAV:DATA?")
    with pytest.raises(ConnectionError):
        other.exactly(n)
    assert len(other.buffer) == 7000
    bench.control(cmd="faults", faults={})
    assert len(read_block(bench.link("scope"))) == n


def test_a_scope_that_never_answers(bench):
    bench.control(cmd="faults", faults={"scope": {"silent": True}})
    scope = bench.link("scope")
    scope.send("*IDN?")
    assert scope.is_silent()


@pytest.mark.parametrize("fault", ["disconnected", "stuck-high"])
def test_a_trigger_that_is_not_wired_never_comes(bench, fault):
    bench.control(cmd="faults", faults={"trigger": fault})
    scope = bench.link("scope")
    take(bench, scope)
    assert scope.ask(":WAV:SEGM:COUN?;:OPER:COND?") == "+0;+40"
    assert len(bench.control(cmd="windows")["windows"]) == 5


def test_faults_of_the_dut_reach_it_and_unknown_ones_are_named(bench):
    bench.control(cmd="faults", faults={"dut": {"garbage": True}})
    assert bench.link("dut").ask("go") == "garbage"
    for faults, word in (({"trigger": "loose"}, "loose"), ({"scope": {"deaf": 1}}, "deaf"), ({"cat": 1}, "cat")):
        assert word in bench.control(cmd="faults", faults=faults)["error"]
    assert "windows" in bench.control(cmd="tea")["error"]
    with contextlib.closing(Link(bench.addresses["control"])) as link:
        assert "error" in json.loads(link.ask("no json"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_told(number):
    bench = Process()
    bench.link("scope")
    bench.process.send_signal(number)
    assert bench.process.wait(timeout=TIMEOUT_S) == 0
    bench.close()


def test_it_ends_on_quit(bench):
    assert bench.control(cmd="quit") == {"quit": True}
    assert bench.process.wait(timeout=TIMEOUT_S) == 0


def test_it_ends_with_the_process_that_started_it():
    starter = (
        "import subprocess, sys\n"
        f"p = subprocess.Popen([sys.executable, {str(SCRIPTED)!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "p.stdin.write(sys.stdin.buffer.read())\n"
        "p.stdin.close()\n"
        "sys.stdout.write(p.stdout.readline().decode())\n"
        "sys.stdout.flush()\n"
        "import os\n"
        "os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", starter],
        input=json.dumps(CONFIG).encode(), stdout=subprocess.PIPE, cwd=ROOT, env=ENVIRONMENT, timeout=TIMEOUT_S,
        check=True,
    )  # fmt: skip
    address = json.loads(done.stdout)["control"]
    deadline = time.monotonic() + TIMEOUT_S
    while answers(address):
        assert time.monotonic() < deadline, "the simulator outlived its parent"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("not json", "bad configuration"),
        ([], "one JSON object"),
        ({"elf": "/nowhere/firmware.elf"}, "/nowhere/firmware.elf"),
        ({"shunt": {}}, "resistance_ohm"),
        ({"wiring": {"shunt_channel": 1, "trigger_channel": 1}}, "two different channels"),
        ({"faults": {"trigger": "loose"}}, "loose"),
    ],
)
def test_a_bad_configuration_is_one_line_and_status_2(change, words):
    good = {**CONFIG, "elf": str(SCRIPTED)}
    text = change if isinstance(change, str) else json.dumps({**good, **change} if isinstance(change, dict) else change)
    done = subprocess.run(
        [sys.executable, "-m", "instruments.sim"],
        input=text.encode(), capture_output=True, cwd=ROOT, env=ENVIRONMENT, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert words in done.stderr.decode()
    assert len(done.stderr.decode().splitlines()) == 1
    assert done.stdout == b""


def test_firmware_that_is_none_ends_it_with_status_1():
    """The address line comes before the DUT boots; a DUT that cannot boot ends the bench with its reason."""
    bench = Process({**CONFIG, "elf": str(SCRIPTED)}, command=(sys.executable, "-m", "instruments.sim"))
    assert bench.process.wait(timeout=TIMEOUT_S) == 1
    assert "the DUT does not start" in bench.process.stderr.read().decode().splitlines()[-1]
    bench.close()
