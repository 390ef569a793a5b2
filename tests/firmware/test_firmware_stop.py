"""Stop mode on each board, woken by its RTC on an LSI anywhere in its range, with the clock as before afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruments.sim.dut.engine import Engine
from labctl import boards
from labctl.dut_link import frame, unframe

NAMES = [name for name in boards.names() if boards.load(name).get("idle_modes")]
# Each board's typical LSI, and the ends of the range: 17 kHz (F4, F7), 60 kHz (F0, F1).
LSI_HZ = [None, 17_000, 60_000]
IDLE_S = 1e-3
RUNS = 5
TIMEOUT_S = 120.0

pytestmark = pytest.mark.timeout(600)


class Dut:
    """A board with an image, straight on its engine."""

    def __init__(self, board: dict[str, Any], elf: Path) -> None:
        self.edges: list[tuple[int, int]] = []
        self.steps: list[tuple[np.ndarray, np.ndarray]] = []
        self.clock_hz = board["clock_hz"]
        self._received = bytearray()
        self._changed = threading.Condition()
        self.engine = Engine(board, elf, self, self._take, {})
        self.engine.power(True)
        assert self.answer().startswith("ok boot ")

    def current(self, end_cycle: np.ndarray, mean_current_a: np.ndarray) -> None:
        self.steps.append((end_cycle.copy(), mean_current_a.astype(float)))

    def pin(self, cycle: int, level: int) -> None:
        self.edges.append((cycle, level))

    def woken(self) -> None:
        """Ignore that the core goes on."""

    def parked(self, cycle: int, current_a: float) -> None:
        pass

    def _take(self, data: bytes) -> None:
        with self._changed:
            self._received += data
            self._changed.notify_all()

    def answer(self) -> str:
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
        return self.answer()

    def windows_s(self, operation: str) -> tuple[dict[str, str], np.ndarray]:
        """Prepare and run a series: what was foretold, and each window from edge to edge."""
        ready = self.ask(f"prepare op={operation} runs={RUNS} pause_us=100")
        assert ready.startswith("ok ready ")
        self.edges.clear()
        done = self.ask("go")
        while operation in ("null", "busy") and done.startswith("data cycles "):
            done = self.answer()
        assert done.startswith(f"ok done runs={RUNS} check=pass"), done
        cycles = np.array([cycle for cycle, _ in self.edges], float).reshape(RUNS, 2)
        words = dict(word.split("=") for word in ready.split() if "=" in word)
        return words, np.diff(cycles)[:, 0] / self.clock_hz

    def charge_c(self, window: int) -> float:
        """Integrate the current between the edges of a window."""
        (start, _), (stop, _) = self.edges[2 * window : 2 * window + 2]
        handed_over = tuple(self.steps)
        ends = np.concatenate([[0], *(end for end, _ in handed_over)])
        charge = np.concatenate([[0.0], np.cumsum(np.concatenate([a for _, a in handed_over]) * np.diff(ends))])
        return float(np.diff(np.interp([start, stop], ends, charge))[0]) / self.clock_hz


def page(name: str, hz: int, lsi_hz: int | None) -> dict[str, Any]:
    board = {**boards.load(name), "clock_hz": hz}
    if lsi_hz is not None:
        board["emulation"]["peripherals"]["rtc"]["lsi_hz"] = lsi_hz
    return board


def image(build: Callable[..., Path], name: str, hz: int, mode: str) -> Path:
    default = boards.load(name)["clock_hz"]
    return build(board=name, image=f"op-idle.{mode}", **({} if hz == default else {"clock": str(hz)}))


def check_windows(board: dict[str, Any], elf: Path, mode: str) -> None:
    dut = Dut(board, elf)
    emulation, peripherals = board["emulation"], board["emulation"]["peripherals"]
    period_s = 1 / peripherals["rtc"]["lsi_hz"]
    hse_hz = peripherals["rcc"]["hse_hz"]
    stop = emulation["stop_modes"][mode]
    start_s = peripherals["rcc"].get("hse_start_s", 0.0)
    start_s += peripherals["rcc"]["pll_start_s"] if board["clock_hz"] != hse_hz else 0.0
    _, busy_s = dut.windows_s("busy")
    dut.steps.clear()
    ready, windows_s = dut.windows_s(f"idle.{mode}")
    # Nothing counts cycles over a stop, whatever the core has.
    assert "window_cycles" not in ready
    # It sleeps the usual time, to a tick of two periods at either end. Before, the alarm is set up: the F1 synchronises
    # in one period and writes in three, the others need two. Behind comes the wake-up: 100 us at HSI are 800 cycles.
    tick_s, set_up_s = 2 * period_s, (4 if board["family"] == "stm32f1" else 2) * period_s
    assert np.all(windows_s >= IDLE_S - tick_s + start_s)
    assert np.all(windows_s <= IDLE_S + tick_s + set_up_s + stop["wake_up_s"] + start_s + 100e-6)
    # The window foretold is never too short by more than a tick, nor so long that the scope would waste its memory.
    foretold_s = int(ready["window_us"]) * 1e-6
    assert np.all(windows_s <= foretold_s + tick_s)
    assert np.all(foretold_s <= 1.1 * windows_s + 2 * tick_s)
    # The charge is that of the stop, of the start-up on HSI (where the kinds of instruction differ by a tenth), and of
    # the set-up at the board's clock.
    clocks_hz, run_a = board["clocks_hz"], emulation["currents_by_clock_a"]["run"]
    hsi_hz = peripherals["rcc"]["hsi_hz"]
    slow_a = np.interp(hsi_hz, clocks_hz[::-1], run_a[::-1])
    most_a = run_a[clocks_hz.index(board["clock_hz"])]
    charge_c = dut.charge_c(0)
    assert 0.9 * slow_a * start_s + stop["current_a"] * (IDLE_S - tick_s) <= charge_c
    most_c = 1.1 * (slow_a * (start_s + 100e-6) + most_a * (set_up_s + 20e-6))
    assert charge_c <= most_c + stop["current_a"] * (IDLE_S + tick_s)
    # The clock and the flash settings are as before: a loop takes the same cycles, and the port the same rate.
    assert np.all(dut.windows_s("busy")[1] == busy_s)
    dut.engine.close()


@pytest.mark.parametrize("lsi_hz", LSI_HZ)
@pytest.mark.parametrize("name", NAMES)
def test_stops_a_millisecond_and_comes_back(build: Callable[..., Path], name: str, lsi_hz: int | None) -> None:
    hz = boards.load(name)["clock_hz"]
    check_windows(page(name, hz, lsi_hz), image(build, name, hz, "stop"), "stop")


@pytest.mark.parametrize("name", NAMES)
def test_with_the_regulator_in_low_power_mode(build: Callable[..., Path], name: str) -> None:
    hz = boards.load(name)["clock_hz"]
    check_windows(page(name, hz, None), image(build, name, hz, "lpstop"), "lpstop")


@pytest.mark.parametrize(("name", "hz"), [(name, hz) for name in NAMES for hz in boards.load(name)["clocks_hz"][1:]])
def test_at_the_other_clocks(build: Callable[..., Path], name: str, hz: int) -> None:
    check_windows(page(name, hz, None), image(build, name, hz, "stop"), "stop")


def test_a_wake_up_without_the_clock_is_caught(build_apart: Callable[..., Path]) -> None:
    """The emulator is the judge of the tests above: firmware that stays on HSI after its second stop does not pass."""
    once = "static int n;\n    if (n++ == 0 && !clock_restart()) {"
    elf = build_apart({"hal/stm32/stop.c": ("if (!clock_restart()) {", once)}, image="op-idle.stop")
    dut = Dut(page("stm32vldiscovery", 24_000_000, None), elf)
    dut.ask("prepare op=idle.stop runs=1 pause_us=100")
    with pytest.raises(AssertionError, match="trigger pin PC6 falls while the core runs at 8000000 Hz"):
        dut.ask("go")
    dut.engine.close()
