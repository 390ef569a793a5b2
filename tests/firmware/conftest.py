"""Firmware images as they are needed, and one in the emulated DUT, spoken to over its serial port."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from labctl import boards
from labctl.dut_link import DutLink, frame, unframe

ROOT = Path(__file__).resolve().parents[2]
BOARD = "stm32vldiscovery"
CRYSTAL_RATIO = 50e-6
# At -O0 all known answers take a minute of the DUT's time, and more than a second in the emulator.
ANSWER_TIMEOUT_S = 120.0


def pairs(payload: str) -> dict[str, str]:
    """The key=value words of an answer."""
    return dict(word.split("=", 1) for word in payload.split() if "=" in word)


def name_of(settings: dict[str, str]) -> str:
    """The folder that an image goes to: what is left at its default is not in the name."""
    return (
        settings.get("profile", "Os")
        + (f"-{settings['clock']}hz" if "clock" in settings else "")
        + ("-ramtables" if settings.get("tables") == "ram" else "")
        + ("-static" if settings.get("workspace") == "static" else "")
        + ("-plainecp" if settings.get("ecp") == "plain" else "")
        + (f"-{settings['image']}" if "image" in settings else "")
    )


@dataclass(frozen=True)
class Report:
    """What a series put out."""

    cycles: tuple[int, ...]
    crc32: int
    check: str


@dataclass
class Device:
    """An emulated bench with an image in it: the DUT's line, its supply's switch, the socket behind the scenes."""

    elf: Path
    port: str
    power: tuple[str, int]
    control: tuple[str, int]
    link: DutLink = field(init=False)

    def __post_init__(self) -> None:
        self.link = DutLink(self.port, 30.0)

    def behind_the_scenes(self, command: str) -> dict[str, Any]:
        """Ask the simulator itself."""
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

    def restart(self) -> str:
        """Power off and on; return the banner."""
        self.switch(False)
        self.link.drain()
        self.switch(True)
        return self.read()

    def read(self) -> str:
        """Take the next line's payload."""
        line = self.link.read_line(time.monotonic() + ANSWER_TIMEOUT_S)
        assert line is not None, "the DUT is silent"
        payload = unframe(line)
        assert payload is not None, line
        return payload

    def ask(self, command: str) -> tuple[str, list[str]]:
        """Send a command; return the answer's last line and its data lines."""
        self.link.write(frame(command))
        data = []
        while (payload := self.read()).startswith("data "):
            data.append(payload.removeprefix("data "))
        return payload, data

    def operations(self) -> tuple[str, ...]:
        """List what the image holds."""
        answer, data = self.ask("list")
        assert all(line.startswith("ops ") and len(line) <= 150 for line in data)
        names = tuple(itertools.chain.from_iterable(line.removeprefix("ops ").split(",") for line in data))
        assert answer == f"ok list n={len(names)}"
        return names

    def self_test(self, operation: str = "") -> int:
        """Check known answers; return how many were right."""
        answer, _ = self.ask(f"kat op={operation}" if operation else "kat")
        assert answer.startswith("ok kat "), answer
        return int(pairs(answer)["passed"])

    def prepare(self, operation: str, **keys: int | str) -> dict[str, str]:
        """Prepare a series, and expect that it works."""
        answer, _ = self.ask(" ".join([f"prepare op={operation}", *(f"{key}={value}" for key, value in keys.items())]))
        assert answer.startswith(f"ok ready op={operation} "), answer
        return pairs(answer)

    def go(self) -> Report:
        """Run the series."""
        answer, data = self.ask("go")
        assert answer.startswith("ok done "), answer
        cycles: list[int] = []
        for line in data:
            word, first, *counts = line.split()
            assert (word, int(first)) == ("cycles", len(cycles))
            cycles += map(int, counts)
        return Report(tuple(cycles), int(pairs(answer)["crc32"], 16), pairs(answer)["check"])

    def measured(self, operation: str, **keys: int | str) -> Report:
        """Check the known answers where that was not done yet, prepare, and run."""
        answer, _ = self.ask(" ".join([f"prepare op={operation}", *(f"{key}={value}" for key, value in keys.items())]))
        if answer.startswith("err untested"):
            self.self_test(operation)
            self.prepare(operation, **keys)
        else:
            assert answer.startswith("ok ready"), answer
        report = self.go()
        assert report.check == "pass"
        return report

    def memory(self) -> dict[str, int]:
        """Tell the memory of what was prepared last."""
        answer, _ = self.ask("stack")
        return {key: int(value) for key, value in pairs(answer).items()}


def make(firmware: Path, build: Path, *settings: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-C", str(firmware), "-j2", "V=1", f"BOARD={BOARD}", f"BUILD={build}", *settings]
    # A `make test` around us must not hand its own flags down.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))} | environment
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=240)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which make compiles nothing twice, for builds that are not themselves what is tested."""
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler is None:
        pytest.skip("arm-none-eabi-gcc is not installed: make test installs it")
    tools, compiled = tmp_path_factory.mktemp("tools"), ROOT / "build" / "compiled"
    compiled.mkdir(parents=True, exist_ok=True)
    (tools / "arm-none-eabi-gcc").symlink_to(Path(__file__).with_name("compile_once.sh"))
    return {"PATH": f"{tools}:{os.environ['PATH']}", "REAL_GCC": compiler, "COMPILED": str(compiled)}


@pytest.fixture(scope="session")
def make_here(once: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run make on the project's own build folder: make_here("IMAGE=ecc", "PROFILE=O2")."""
    folder = ROOT / "build"

    def one(*settings: str) -> subprocess.CompletedProcess[str]:
        with (folder / ".lock").open("w") as lock:  # two builds in one folder would trip over each other
            fcntl.flock(lock, fcntl.LOCK_EX)
            return make(ROOT / "firmware", folder, *settings, **once)

    return one


@pytest.fixture(scope="session")
def build(make_here: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., Path]:
    """The project's own build of an image, brought up to date: build(image="ecc", profile="O2", tables="ram")."""

    @functools.cache
    def one(board: str = BOARD, **settings: str) -> Path:
        done = make_here(f"BOARD={board}", *(f"{key.upper()}={value}" for key, value in settings.items()))
        if done.returncode and "fetch_mbedtls" in done.stderr:
            pytest.skip(f"mbedTLS is not there: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        return ROOT / "build" / "firmware" / board / name_of(settings) / "firmware.elf"

    return one


@pytest.fixture(scope="session")
def folder_name() -> Callable[[dict[str, str]], str]:
    """The rule by which the folder of an image is named."""
    return name_of


@contextlib.contextmanager
def bench(simulator: Path, elf: Path, board: str, clock_hz: int | None) -> Iterator[Device]:
    data = boards.load(board)
    config = {
        "board": data if clock_hz is None else {**data, "clock_hz": clock_hz},
        "elf": str(elf),
        "seed": 1,
        "shunt": {"resistance_ohm": 1.3, "tolerance_ratio": 0.01},
        "supply": {"voltage_v": 3.3, "tolerance_ratio": 0.01},
        "decoupling": {"capacitance_f": 4.7e-6, "tolerance_ratio": 0.2},
        "crystal": {"tolerance_ratio": CRYSTAL_RATIO},
        "wiring": {"shunt_channel": 1, "trigger_channel": 2},
        "faults": {},
    }
    process = subprocess.Popen([simulator], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(config))
    process.stdin.close()
    try:
        addresses = json.loads(process.stdout.readline())
        power = addresses["power"].split("::")
        host, control_port = addresses["control"].rsplit(":", 1)
        device = Device(elf, addresses["dut"], (power[1], int(power[2])), (host, int(control_port)))
        assert device.restart().startswith(f"ok boot board={board}")
        yield device
        device.link.close()
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.fixture(scope="module")
def emulate(forker: Any) -> Iterator[Callable[..., Device]]:
    """An image in the emulated DUT, once a module: emulate(elf, board="stm32f4discovery")."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def one(elf: Path, board: str = BOARD, clock_hz: int | None = None) -> Device:
            return stack.enter_context(bench(forker.simulator, elf, board, clock_hz))

        yield one


@dataclass(frozen=True)
class Apart:
    """The firmware's sources, and a build of them, in folders of their own."""

    firmware: Path
    build: Path

    @property
    def elf(self) -> Path:
        """The image that is built when nothing else is asked for."""
        return self.build / "firmware" / BOARD / "Os" / "firmware.elf"

    def make(self, *settings: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Bring the build up to date."""
        return make(self.firmware, self.build, *settings, **environment)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Apart, Apart]:
    """Where a build stands apart, made with a relative path to its folder, and a copy of it when it was whole."""
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed: make test installs it")
    archives = sorted((ROOT / "build" / "downloads").glob("*.tar.*"))
    if not archives:
        pytest.skip("the mbedTLS archive has not been fetched: make test fetches it")
    place, kept = (Apart(folder / "firmware", folder / "build") for folder in map(tmp_path_factory.mktemp, "ab"))
    shutil.copytree(ROOT / "firmware", place.firmware)
    (place.build / "downloads").mkdir(parents=True)
    (place.build / "downloads" / archives[0].name).symlink_to(archives[0])
    done = make(place.firmware, Path("../build"))
    assert done.returncode == 0, done.stderr
    shutil.copytree(place.firmware, kept.firmware)
    shutil.copytree(place.build / "firmware", kept.build / "firmware")
    return place, kept


@pytest.fixture
def apart(whole: tuple[Apart, Apart]) -> Apart:
    """A build to be altered: whole again for each test, at the same place and so without compiling it again."""
    place, kept = whole
    for folder, old in ((place.firmware, kept.firmware), (place.build / "firmware", kept.build / "firmware")):
        shutil.rmtree(folder)
        shutil.copytree(old, folder)
    return place


@pytest.fixture
def build_apart(apart: Apart, once: dict[str, str]) -> Callable[..., Path]:
    """Build from altered sources, or with settings that no image has.

    `edits` maps a source below firmware/ to a text in it and what stands there instead; `folder` is the image's, where
    its name tells more than the image.
    """

    def one(edits: dict[str, tuple[str, str]], image: str, folder: str = "", **settings: int | str) -> Path:
        for name, (old, new) in edits.items():
            text = (apart.firmware / name).read_text()
            assert old in text
            (apart.firmware / name).write_text(text.replace(old, new, 1))
        done = apart.make(f"IMAGE={image}", *(f"{key}={value}" for key, value in settings.items()), **once)
        assert done.returncode == 0, done.stderr
        return apart.build / "firmware" / BOARD / (folder or f"Os-{image}") / "firmware.elf"

    return one
