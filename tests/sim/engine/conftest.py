"""A sink that records, and an engine with it, for tests of the emulated DUT."""

from __future__ import annotations

import functools
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruments.sim.dut.engine import Engine
from labctl import boards

WAIT_S = 30.0


@dataclass
class Recorder:
    """Keep everything that an engine hands over, in order."""

    ends: list[np.ndarray] = field(default_factory=list)
    currents: list[np.ndarray] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    parks: list[tuple[int, float]] = field(default_factory=list)
    received: bytearray = field(default_factory=bytearray)
    order: list[tuple[str, int]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def current(self, end_cycle: np.ndarray, mean_current_a: np.ndarray) -> None:
        with self.changed:
            self.ends.append(end_cycle)
            self.currents.append(mean_current_a)
            self.order.append(("current", int(end_cycle[-1])))
            self.changed.notify_all()

    def pin(self, cycle: int, level: int) -> None:
        with self.changed:
            self.edges.append((cycle, level))
            self.order.append(("pin", cycle))
            self.changed.notify_all()

    def woken(self) -> None:
        """Ignore that the core goes on."""

    def parked(self, cycle: int, current_a: float) -> None:
        with self.changed:
            self.parks.append((cycle, current_a))
            self.order.append(("parked", cycle))
            self.changed.notify_all()

    def uart(self, data: bytes) -> None:
        with self.changed:
            self.received += data
            self.changed.notify_all()

    def wait(self, condition) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, WAIT_S), (self.edges, self.parks, bytes(self.received))

    def line(self) -> tuple[np.ndarray, np.ndarray]:
        """Give the whole time line: end cycles, mean currents."""
        with self.changed:
            return np.concatenate(self.ends), np.concatenate(self.currents)

    def charge(self, start: int, stop: int) -> float:
        """Integrate the current over cycles (start, stop], in ampere cycles."""
        ends, currents = self.line()
        edges = np.concatenate(([0], ends)).astype(np.float64)
        covered = np.clip(np.minimum(edges[1:], stop) - np.maximum(edges[:-1], start), 0, None)
        return float(np.sum(covered * currents.astype(np.float64)))


class Bench:
    """One engine with its recorder."""

    def __init__(self, board: dict[str, Any], elf: Path, faults: dict[str, bool] | None = None) -> None:
        self.recorder = Recorder()
        self.engine = Engine(board, elf, self.recorder, self.recorder.uart, faults)

    def boot(self) -> None:
        """Power up and wait until the firmware waits for input."""
        n_parks = len(self.recorder.parks) + 1
        self.engine.power(True)
        self.recorder.wait(lambda: len(self.recorder.parks) > n_parks)

    def tell(self, text: str) -> None:
        """Send and wait until the engine rests again: parked, or faulty."""
        n_parks = len(self.recorder.parks)
        self.engine.uart_write(text.encode())
        self.recorder.wait(lambda: len(self.recorder.parks) > n_parks)

    def window(self, command: str) -> int:
        """Give the cycles between the edges of the one trigger pulse that a command makes."""
        del self.recorder.edges[:]
        self.tell(command)
        (start, high), (stop, low) = self.recorder.edges
        assert (high, low) == (1, 0)
        return stop - start


@pytest.fixture(scope="session")
def board() -> dict[str, Any]:
    """Data of the board that the probe is built for."""
    return boards.load("stm32vldiscovery")


@pytest.fixture(scope="session")
def build_probe(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Build the probe firmware for a core; build_probe("cortex-m3")."""

    @functools.cache
    def build(core: str) -> Path:
        here = Path(__file__).parent
        elf = tmp_path_factory.mktemp(core) / "probe.elf"
        flags = [f"-mcpu={core}", "-mthumb", "-Os", "-nostdlib", "-ffreestanding", "-Wall", "-Werror"]
        flags.append("-fno-optimize-sibling-calls")  # the endless recursion must need stack
        command = ["arm-none-eabi-gcc", *flags, "-T", here / "probe.ld", here / "probe.c", "-lgcc", "-o", elf]
        subprocess.run(command, check=True)
        return elf

    return build


@pytest.fixture(scope="session")
def probe_elf(build_probe: Callable[[str], Path]) -> Path:
    """Give the probe firmware for the board's own core."""
    return build_probe("cortex-m3")


@pytest.fixture
def bench(board: dict[str, Any], probe_elf: Path) -> Iterator[Callable[..., Bench]]:
    """Make benches with the probe firmware, without power yet; close them at the end."""
    made: list[Bench] = []

    def make(faults: dict[str, bool] | None = None, board: dict[str, Any] = board, elf: Path = probe_elf) -> Bench:
        made.append(Bench(board, elf, faults))
        return made[-1]

    yield make
    for one in made:
        one.engine.close()


@pytest.fixture
def probe(bench: Callable[..., Bench]) -> Bench:
    """Give a booted probe that waits for a command."""
    one = bench()
    one.boot()
    return one


@pytest.fixture
def probe_on(board: dict[str, Any], bench: Callable[..., Bench], build_probe: Callable[[str], Path]):
    """Boot the probe on another core, with another family's flash interface: probe_on("cortex-m4", "stm32f4")."""

    def boot(core: str, flash: str = "", **fetch: int) -> Bench:
        emulation = board["emulation"]
        if flash:
            table = {"kind": f"{flash}-flash", "address": 0x4002_2000}
            emulation = emulation | {"fetch": fetch, "peripherals": emulation["peripherals"] | {"flash": table}}
        one = bench(board=board | {"core": core, "emulation": emulation}, elf=build_probe(core))
        one.boot()
        return one

    return boot
