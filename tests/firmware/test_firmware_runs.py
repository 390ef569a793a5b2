"""The firmware as it behaves: the real image in the emulated DUT, spoken to over its serial port."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import serial

from labctl import boards
from labctl.dut import Dut
from labctl.dut_link import frame, unframe
from labctl.errors import ConfigError
from labctl.firmware_image import read_manifest
from labctl.model import DutReport, Operation

ROOT = Path(__file__).resolve().parents[2]
BOARD = "stm32vldiscovery"
CLOCK_HZ = 24e6
CRYSTAL_RATIO = 50e-6
NAMES = (
    "null",
    "busy",
    "idle",
    "aes-128-ctr",
    "sha256",
    "ecdsa-p256.keygen",
    "ecdsa-p256.sign",
    "ecdsa-p256.verify",
)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def elf() -> Path:
    """The project's own build, brought up to date."""
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed: make test installs it")
    command = ["make", "-C", str(ROOT / "firmware"), f"BOARD={BOARD}", f"BUILD={ROOT / 'build'}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / ".lock").open("w") as lock:  # two builds in one folder would trip over each other
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode and "fetch_mbedtls" in done.stderr:
        pytest.skip(f"mbedTLS is not there: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return ROOT / "build" / "firmware" / BOARD / "Os" / "firmware.elf"


@dataclass
class World:
    """One emulated bench: the DUT's port, and the socket behind the scenes."""

    port: str
    power: tuple[str, int]
    control: tuple[str, int]

    def ask(self, command: str) -> dict[str, Any]:
        with socket.create_connection(self.control, timeout=30) as connection, connection.makefile("rw") as stream:
            stream.write(json.dumps({"cmd": command}) + "\n")
            stream.flush()
            return json.loads(stream.readline())

    def switch(self, on: bool) -> None:
        """SCPI-99 OUTPut, with a query behind it to know that it was obeyed."""
        with socket.create_connection(self.power, timeout=30) as connection, connection.makefile("rw") as stream:
            stream.write(f"OUTP {int(on)}\nOUTP?\n")
            stream.flush()
            assert stream.readline().strip() == str(int(on))


@pytest.fixture(scope="module")
def world(elf: Path) -> Iterator[World]:
    """A simulator process with the board's data and this image."""
    config = {
        "board": boards.load(BOARD),
        "elf": str(elf),
        "seed": 1,
        "shunt": {"resistance_ohm": 1.3, "tolerance_ratio": 0.01},
        "supply": {"voltage_v": 3.3, "tolerance_ratio": 0.01},
        "decoupling": {"capacitance_f": 4.7e-6, "tolerance_ratio": 0.2},
        "crystal": {"tolerance_ratio": CRYSTAL_RATIO},
        "wiring": {"shunt_channel": 1, "trigger_channel": 2},
        "faults": {},
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "instruments.sim"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(config))
    process.stdin.close()
    addresses = json.loads(process.stdout.readline())
    power = addresses["power"].split("::")
    host, control_port = addresses["control"].rsplit(":", 1)
    world = World(addresses["dut"], (power[1], int(power[2])), (host, int(control_port)))
    try:
        world.switch(True)
        yield world
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.fixture
def dut(world: World) -> Iterator[Dut]:
    """The DUT, in step."""
    dut = Dut(world.port, 30.0, BOARD)
    dut.hello()
    yield dut
    dut.close()


def measured(dut: Dut, operation: Operation, pause_s: float = 1e-3) -> DutReport:
    dut.prepare(operation, pause_s)
    return dut.go(60.0)


def test_what_it_says_of_itself(dut: Dut, elf: Path):
    assert dut.list_operations() == NAMES
    said, image = dut.hello(), read_manifest(elf)
    assert said["build"] == image.pop("build")
    assert float(said["clock_hz"]) == CLOCK_HZ
    assert dut.manifest() == image


def test_nothing_is_measured_before_the_known_answers(world: World):
    world.switch(False)
    world.switch(True)
    dut = Dut(world.port, 30.0, BOARD)
    dut.hello()
    link = dut._link
    try:
        for name in NAMES[3:]:
            link.write(frame(f"prepare op={name}"))
            assert raw_answer(link).startswith("err untested")
        # One primitive's answers vouch for that primitive alone.
        assert dut.self_test(Operation("sha256")) == 1
        dut.prepare(Operation("sha256", n_runs=1), 0.0)
        link.write(frame("prepare op=aes-128-ctr"))
        assert raw_answer(link).startswith("err untested")
        # The self-test takes the memory of what was prepared.
        dut.self_test(Operation("sha256"))
        link.write(frame("go"))
        assert raw_answer(link).startswith("err state")
    finally:
        dut.close()


def raw_answer(link: Any) -> str:
    line = link.read_line(float("inf"))
    payload = unframe(line)
    assert payload is not None, line
    return payload


def test_every_known_answer_is_right(dut: Dut):
    # AES both ways, SHA-256, and of ECDSA: verify, refusal, sign, key pair.
    assert dut.self_test() == 2 + 1 + 4


@pytest.mark.parametrize(
    "operation",
    [
        Operation("null", n_runs=100),
        Operation("aes-128-ctr", bytes=16, n_runs=2),
        Operation("aes-128-ctr", bytes=1024, n_runs=2),
        Operation("aes-128-ctr", bytes=77, n_runs=2, n_iterations=3),
        Operation("sha256", bytes=16, n_runs=20),
        Operation("sha256", bytes=1024, n_runs=2),
        Operation("ecdsa-p256.sign", n_runs=2),
        Operation("ecdsa-p256.verify", n_runs=1),
        Operation("ecdsa-p256.keygen", n_runs=1),
    ],
    ids=lambda operation: f"{operation.name}-{operation.bytes}",
)
def test_outputs_are_right_on_both_sides(dut: Dut, operation: Operation):
    """The DUT checks itself; labctl compares the checksum with hashlib, the message, and RFC 6979 A.2.5."""
    dut.self_test(operation)
    report = measured(dut, operation)
    assert len(report.cycles) == operation.n_runs
    assert report.output_ok
    stack, image = dut.stack(), dut.manifest()
    assert 0 < stack["stack_peak_bytes"] < image["stack_bytes"]
    assert stack["heap_peak_bytes"] < image["heap_bytes"]


def test_iterations_add_up_exactly(dut: Dut):
    """The emulated core has no jitter: a window of n iterations is a constant plus n times one iteration."""
    dut.self_test(Operation("sha256"))
    one, two, five = (measured(dut, Operation("sha256", n_runs=1, n_iterations=n)).cycles[0] for n in (1, 2, 5))
    assert two > one
    assert five - two == 3 * (two - one)


def test_own_count_and_pin_differ_by_the_same_cycles_for_all(dut: Dut, world: World):
    """What the counter misses of the pulse is the trigger functions' cost: the same for null, so null removes it."""
    dut.self_test(Operation("sha256"))
    missed = {}
    for name in ("null", "busy", "sha256", "idle"):
        dut.prepare(Operation(name, n_runs=3), 1e-3)
        world.ask("windows")
        report = dut.go(60.0)
        windows = world.ask("windows")["windows"]
        assert len(windows) == 3
        missed[name] = {w["cycles"] - c for w, c in zip(windows, report.cycles, strict=True)}
    assert missed["busy"] == missed["sha256"] == missed["null"]
    assert len(missed["null"]) == 1
    # Sleep is told from the SysTick: exact within a few cycles.
    assert all(abs(m - next(iter(missed["null"]))) <= 8 for m in missed["idle"])


def test_idle_sleeps_its_millisecond(dut: Dut):
    null = measured(dut, Operation("null", n_runs=1)).cycles[0]
    idle = measured(dut, Operation("idle", n_runs=1)).cycles[0]
    assert 24_000 <= idle - null <= 24_000 + 240


def test_busy_takes_its_thousand_rounds(dut: Dut):
    """A subtraction and a taken branch: 1 cycle, and 1 + P with P from 1 to 3 (ARM DDI 0337, table 18-1)."""
    null = measured(dut, Operation("null", n_runs=1)).cycles[0]
    busy = measured(dut, Operation("busy", n_runs=1)).cycles[0]
    assert 3_000 <= busy - null <= 5_050


@pytest.mark.parametrize("pause_s", [0.5e-3, 0.8], ids=["short", "beyond the SysTick's 24 bits"])
def test_pauses_before_and_after_each_window(dut: Dut, world: World, pause_s: float):
    dut.prepare(Operation("null", n_runs=4), pause_s)
    world.ask("windows")
    dut.go(60.0)
    windows = world.ask("windows")["windows"]
    gaps = [b["start_s"] - a["start_s"] - a["duration_s"] for a, b in itertools.pairwise(windows)]
    assert all(gap >= 2 * pause_s * (1 - CRYSTAL_RATIO) for gap in gaps)
    # The pseudo-random pause has up to 300 cycles; the check and the loop around it a few hundred.
    assert all(gap <= 2 * pause_s * (1 + CRYSTAL_RATIO) + 1500 / CLOCK_HZ for gap in gaps)


def test_phase_is_dithered(dut: Dut, world: World):
    dut.prepare(Operation("null", n_runs=50), 0.1e-3)
    world.ask("windows")
    dut.go(60.0)
    starts = [w["start_s"] for w in world.ask("windows")["windows"]]
    gaps = {round((b - a) * CLOCK_HZ) for a, b in itertools.pairwise(starts)}
    # 49 pauses drawn from 256 lengths: far fewer different ones would be a stuck generator.
    assert len(gaps) > 20


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Operation("sha256", bytes=15), "16 to 1024"),
        (Operation("aes-128-ctr", bytes=1025), "16 to 1024"),
        (Operation("null", bytes=64), "takes no message"),
        (Operation("null", n_runs=0), "1 to 1000"),
        (Operation("null", n_runs=1001), "1 to 1000"),
        (Operation("null", n_iterations=0), "at least 1"),
        (Operation("idle", n_iterations=100_000), "2.31 cycles"),
        (Operation("null", n_iterations=10**10), "the DUT refuses: n"),
        (Operation("ecdsa-p256.sign", n_runs=1000), "fewer runs"),
        (Operation("aes-128-ctr", bytes=1024, n_runs=1000), "fewer runs or bytes"),
        (Operation("md5"), "md5; it knows null, busy"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_what_it_refuses(dut: Dut, operation: Operation, reason: str):
    if operation.name in NAMES[3:]:
        dut.self_test(operation)
    with pytest.raises(ConfigError, match=reason):
        dut.prepare(operation, 0.0)
    assert dut.hello()["board"] == BOARD


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"hello*0000\n", "err checksum"),
        (b"hello\n", "err checksum"),
        (b"*\n", "err checksum"),
        (b"\xff\x00garbage\n", "err checksum"),
        (b"x" * 161 + b"\n", "err length"),
        (b"x" * 5000 + b"\n", "err length"),
        (frame("reboot"), "err command reboot"),
        (frame("hello now"), "err command hello"),
        (frame("prepare"), "err argument op is missing"),
        (frame("prepare op=null runs"), "err argument runs"),
        (frame("prepare op=null runs="), "err argument runs"),
        (frame("prepare op=null runs=-1"), "err argument runs"),
        (frame("prepare op=null runs=4294967296"), "err argument runs"),
        (frame("prepare op=null colour=2"), "err argument colour"),
        (frame("kat op=md5"), "err operation md5"),
        (b"\r\n\n" + frame("stack").replace(b"\n", b"\r\n"), "ok stack"),
    ],
    ids=range(16),
)
def test_lines_that_are_not_as_they_should_be(dut: Dut, sent: bytes, answer: str):
    dut._link.write(sent)
    assert raw_answer(dut._link).startswith(answer)
    assert dut.hello()["board"] == BOARD


def test_banner_after_power_on(world: World, elf: Path):
    with serial.serial_for_url(world.port, timeout=30) as port:
        world.switch(False)
        world.switch(True)
        banner = port.read_until(b"\n")
    assert unframe(banner.rstrip()) == f"ok boot board={BOARD} build={read_manifest(elf)['build']}"


def test_no_fault_has_happened(world: World):
    assert world.ask("status")["engine"] in ("running", "parked")
