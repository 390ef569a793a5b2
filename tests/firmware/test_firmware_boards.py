"""Each board's firmware in the emulated DUT, at each of its clocks: start-up, with and without crystal, and windows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from instruments.sim.dut.engine import Engine
from labctl import boards
from labctl.dut_link import frame, unframe

CASES = [(name, hz) for name in boards.names() for hz in boards.load(name)["clocks_hz"]]
TIMEOUT_S = 120.0
RUNS = 20

pytestmark = pytest.mark.timeout(600)


class Dut:
    """A board with an image, straight on its engine."""

    def __init__(self, name: str, hz: int, elf: Path, crystal: bool = True) -> None:
        self.edges: list[tuple[int, int]] = []
        self.currents: list[tuple[np.ndarray, np.ndarray]] = []
        self._received = bytearray()
        self._changed = threading.Condition()
        board = {**boards.load(name), "clock_hz": hz}
        self.engine = Engine(board, elf, self, self._take, {"no_hse": not crystal})
        self.engine.power(True)
        assert self.read().startswith(f"ok boot board={name} ")

    def current(self, end_cycle: np.ndarray, mean_current_a: np.ndarray) -> None:
        self.currents.append((end_cycle.copy(), mean_current_a.copy()))

    def pin(self, cycle: int, level: int) -> None:
        self.edges.append((cycle, level))

    def woken(self) -> None:
        """Ignore that the core goes on."""

    def parked(self, cycle: int, current_a: float) -> None:
        with self._changed:
            self._changed.notify_all()

    def _take(self, data: bytes) -> None:
        with self._changed:
            self._received += data
            self._changed.notify_all()

    def read(self) -> str:
        deadline = time.monotonic() + TIMEOUT_S
        with self._changed:
            while b"\n" not in self._received:
                assert not self.engine.status()["fault"], self.engine.status()["fault"]
                assert time.monotonic() < deadline, bytes(self._received)
                self._changed.wait(0.1)
            line, _, rest = bytes(self._received).partition(b"\n")
            self._received[:] = rest
        payload = unframe(line)
        assert payload is not None, line
        return payload

    def ask(self, command: str) -> str:
        self.engine.uart_write(frame(command))
        while (payload := self.read()).startswith("data "):
            pass
        assert payload.startswith("ok "), payload
        return payload

    def windows(self, operation: str, **keys: int) -> np.ndarray:
        """Trigger to trigger, in cycles."""
        words = " ".join(f"{key}={value}" for key, value in {"runs": RUNS, **keys}.items())
        self.ask(f"prepare op={operation} {words}")
        self.edges.clear()
        self.ask("go")
        up, down = np.array(self.edges).reshape(-1, 2, 2).transpose(1, 0, 2)
        assert np.all(up[:, 1] == 1)
        assert np.all(down[:, 1] == 0)
        return down[:, 0] - up[:, 0]

    def mean_current_a(self) -> float:
        """Over the first window of the series before."""
        (start, _), (stop, _) = self.edges[:2]
        handed_over = tuple(self.currents)  # the engine goes on
        ends = np.concatenate([[0], *(end for end, _ in handed_over)])
        current_a = np.concatenate([current for _, current in handed_over])
        charge = np.concatenate([[0.0], np.cumsum(current_a * np.diff(ends))])
        return float(np.diff(np.interp([start, stop], ends, charge))[0]) / (stop - start)


def image(build: Callable[..., Path], name: str, hz: int, **settings: str) -> Path:
    default = boards.load(name)["clock_hz"]
    return build(board=name, **settings, **({} if hz == default else {"clock": str(hz)}))


@pytest.mark.parametrize(("name", "hz"), CASES)
def test_starts_from_the_crystal(build: Callable[..., Path], name: str, hz: int) -> None:
    dut = Dut(name, hz, image(build, name, hz, image="null"))
    hello = dut.ask("hello")
    assert f" clock_hz={hz} clock=crystal counter={boards.load(name)['counter']} " in hello
    assert len(set(dut.windows("null"))) == 1
    assert len(set(dut.windows("busy"))) == 1
    dut.engine.close()


@pytest.mark.parametrize(("name", "hz"), CASES)
def test_without_crystal_says_so(build: Callable[..., Path], name: str, hz: int) -> None:
    dut = Dut(name, hz, image(build, name, hz, image="null"), crystal=False)
    hello = dut.ask("hello")
    assert " clock=internal " in hello
    # The PLL gives the same clock from the internal oscillator; without PLL that oscillator itself is the clock.
    internal_hz = next(t["hsi_hz"] for t in boards.load(name)["emulation"]["peripherals"].values() if "hsi_hz" in t)
    uses_pll = hz != next(t["hse_hz"] for t in boards.load(name)["emulation"]["peripherals"].values() if "hse_hz" in t)
    assert f" clock_hz={hz if uses_pll else internal_hz} " in hello
    dut.engine.close()


@pytest.mark.parametrize(("name", "hz"), CASES)
def test_sleeps_a_millisecond(build: Callable[..., Path], name: str, hz: int) -> None:
    dut = Dut(name, hz, image(build, name, hz, image="null"))
    null, idle = dut.windows("null")[0], dut.windows("idle")
    assert len(set(idle)) == 1
    # Setting the SysTick up and accounting for the sleep take some two hundred cycles at most.
    assert hz // 1000 <= idle[0] - null <= hz // 1000 + 250
    dut.engine.close()


@pytest.mark.parametrize("name", [name for name in boards.names() if "scaled_to" in boards.load(name)["emulation"]])
def test_mean_current_is_the_published_one(build: Callable[..., Path], name: str) -> None:
    board = boards.load(name)
    published = board["emulation"]["scaled_to"]
    operation = published["operation"]
    elf = build(board=name, image=f"op-{operation}", profile=published["profile"])
    dut = Dut(name, board["clock_hz"], elf)
    dut.ask("kat")
    dut.currents.clear()
    dut.windows(operation, runs=1, **({"bytes": published["bytes"]} if "bytes" in published else {}))
    assert dut.mean_current_a() == pytest.approx(published["mean_current_a"], rel=0.005)
    dut.engine.close()
