"""Count the instructions of each operation of the M3 image in this project's emulated DUT and in QEMU.

    python tests/firmware/qemu_counts/compare.py [--elf FILE] [--build FOLDER] [--json] [OPERATION ...]

Two emulators, one firmware, one dialogue: between the edges of the trigger both must execute the same instructions.
QEMU's `stm32vldiscovery` has no clock control, so the firmware there runs from its internal oscillator; no window
knows. Needs qemu-system-arm, a C compiler and QEMU's source for the plugin's header; status 3 says what is missing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from instruments.sim.dut.engine import Engine
from labctl import boards
from labctl.dut_link import frame, unframe

BOARD = "stm32vldiscovery"
ROOT = Path(__file__).resolve().parents[3]
# PC6, set and reset (RM0041, GPIOx_BSRR, GPIOx_BRR).
SET, RESET = 0x4001_1010, 0x4001_1014
ANSWER_TIMEOUT_S = 300.0

Talk = Callable[[str], list[str]]


class Missing(Exception):
    """Something that is needed cannot be had: what."""


class Emulated:
    """This project's engine, with the count of instructions at each edge."""

    def __init__(self, elf: Path) -> None:
        self._received = bytearray()
        self._changed = threading.Condition()
        self.edges: list[tuple[int, int]] = []
        self._engine = Engine(boards.load(BOARD), elf, self, self._take)
        self._engine.power(True)
        self.read_answer()

    def current(self, end_cycle: np.ndarray, mean_current_a: np.ndarray) -> None:
        """Ignore the time line."""

    def woken(self) -> None:
        """Ignore that the core goes on."""

    def parked(self, cycle: int, current_a: float) -> None:
        """Ignore that the core waits."""

    def pin(self, cycle: int, level: int) -> None:
        """Note an edge."""
        self.edges.append((level, self._engine.n_instructions))

    def _take(self, data: bytes) -> None:
        with self._changed:
            self._received += data
            self._changed.notify_all()

    def read_answer(self) -> list[str]:
        """Return the payloads up to the one that ends an answer."""
        lines: list[str] = []
        while not lines or not lines[-1].startswith(("ok", "err")):
            with self._changed:
                if not self._changed.wait_for(lambda: b"\n" in self._received, ANSWER_TIMEOUT_S):
                    raise TimeoutError(f"the emulated DUT is silent: {self._engine.status()}")
                line, _, rest = bytes(self._received).partition(b"\n")
                self._received[:] = rest
            lines.append(unframe(line) or f"err line {line!r}")
        return lines

    def ask(self, command: str) -> list[str]:
        """Send a command and return its answer."""
        self._engine.uart_write(frame(command))
        return self.read_answer()

    def close(self) -> None:
        """End the emulator."""
        self._engine.close()


@contextmanager
def qemu(elf: Path, build: Path) -> Iterator[tuple[Talk, Callable[[], list[tuple[int, int]]]]]:
    """Run the image in QEMU with the plugin; give how to ask, and the edges so far with their counts."""
    if shutil.which("qemu-system-arm") is None:
        raise Missing("qemu-system-arm is not installed: apt-get install --no-install-recommends qemu-system-arm")
    plugin, edges = build / "qemu" / "plugin.so", build / "qemu" / "edges.txt"
    _build_plugin(plugin)
    command = ["qemu-system-arm", "-M", BOARD, "-display", "none", "-monitor", "none", "-serial", "stdio"]
    command += ["-kernel", str(elf), "-plugin", f"{plugin},set={SET:#x},reset={RESET:#x},out={edges}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    watchdog = threading.Timer(20 * ANSWER_TIMEOUT_S, process.kill)
    watchdog.start()

    def read_answer() -> list[str]:
        lines: list[str] = []
        while not lines or not lines[-1].startswith(("ok", "err")):
            line = process.stdout.readline()  # type: ignore[union-attr]
            if not line:
                raise RuntimeError(f"QEMU ended: {process.communicate()[1].decode()}")
            lines.append(unframe(line.rstrip(b"\r\n")) or f"err line {line!r}")
        return lines

    def ask(text: str) -> list[str]:
        process.stdin.write(frame(text))  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        return read_answer()

    def read_edges() -> list[tuple[int, int]]:
        return [(int(level), int(count)) for level, count in (line.split() for line in edges.read_text().splitlines())]

    try:
        read_answer()
        yield ask, read_edges
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def _build_plugin(plugin: Path) -> None:
    here, folder = Path(__file__).parent, plugin.parent
    if shutil.which("gcc") is None:
        raise Missing("gcc is not installed: QEMU's plugin is built from C")
    done = subprocess.run([here / "fetch_header.sh", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(done.stderr.strip())
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{folder}"]
    subprocess.run(["gcc", *flags, here / "plugin.c", "-o", plugin], check=True)


def counts(ask: Talk, edges: Callable[[], list[tuple[int, int]]], operations: list[str]) -> dict[str, int]:
    """Return the instructions between the edges of one window of each operation."""
    found = {}
    for operation in operations:
        n_before = len(edges())
        for command in (f"kat op={operation}", f"prepare op={operation} runs=1 pause_us=100", "go"):
            answer = ask(command)
            if not answer[-1].startswith("ok"):
                raise RuntimeError(f"{command}: {answer[-1]}")
        # An output pin that is low already is written too when the DUT sets up; the last two are the window's.
        (up, start), (down, stop) = edges()[-2:]
        if (up, down) != (1, 0) or len(edges()) < n_before + 2:
            raise RuntimeError(f"{operation}: no window was seen")
        found[operation] = stop - start
    return found


def main() -> int:
    """Print both counts of each operation; 1 where any two differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operations", nargs="*", metavar="OPERATION")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--elf", type=Path)
    parser.add_argument("--json", action="store_true", help="an object: operation -> [here, in QEMU]")
    arguments = parser.parse_args()
    elf = arguments.elf or arguments.build / "firmware" / BOARD / "Os" / "firmware.elf"
    dut = Emulated(elf)
    try:
        listed = [name for line in dut.ask("list")[:-1] for name in line.removeprefix("data ops ").split(",")]
        # How often a sleeping core looks at its clock is time, not code.
        operations = arguments.operations or [name for name in listed if not name.startswith("idle")]
        with qemu(elf, arguments.build) as (ask, edges):
            there = counts(ask, edges, operations)
        here = counts(dut.ask, lambda: dut.edges, operations)
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 3
    finally:
        dut.close()
    if arguments.json:
        print(json.dumps({name: [here[name], there[name]] for name in operations}))
    else:
        print(f"{'operation':28}{'emulated DUT':>16}{'QEMU':>16}")
        for name in operations:
            print(f"{name:28}{here[name]:16,}{there[name]:16,}{'' if here[name] == there[name] else '  DIFFERENT'}")
    return int(here != there)


if __name__ == "__main__":
    sys.exit(main())
