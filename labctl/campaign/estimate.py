"""How long a plan may take and how much disk: an estimate, before anything is measured.

The orders of magnitude below are those of STM32F4DISCOVERY's firmware on the emulated bench, rounded; a running
campaign tells by what it has measured itself.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from labctl import boards
from labctl.campaign.model import Item
from labctl.campaign.plan import Plan
from labctl.operations import has_two_passes

# Patterns of operations -> CPU cycles of one iteration, and more a byte of message; profile Os, Cortex-M4. Of block
# ciphers one direction. The first that fits counts.
_CYCLES = (
    ("idle*", 2e5, 0), ("null", 10, 0), ("busy", 2e5, 0),
    ("aes-*-ccm*", 8e3, 280), ("aes-*-gcm*", 4e3, 220), ("aes-*", 1e3, 135), ("sm4-*", 1e3, 140), ("sm3", 7e3, 110),
    ("sha[23]*", 4e3, 52), ("sha*", 8e3, 120), ("drbg", 30e3, 460),
    ("ecdsa-p256", 69e6, 0), ("ecdsa-p256.full", 90e6, 0), ("ecdsa-p256.verify", 46e6, 0), ("ecdsa-*", 23e6, 0),
    ("ecdh-p256", 43e6, 0), ("ecdh-curve25519", 38e6, 0), ("ecdh-*", 21e6, 0),
    ("*", 1e6, 0),
)
_OF_CORE = {"cortex-m0": 2.0}
_OF_PROFILE = {"O0": 3.5, "O2": 0.9, "O3": 0.9}

# Windows besides those of the series: trial runs, and the null operation's own series.
_N_TRIALS = 3
_N_NULL = 100
_PAUSES_S = 1e-3  # firmware/PROTOCOL.md: 500 us before and after each window
# Powering up, the firmware's self-test, range, zero reading, transfer, analysis, storing. The bench's own time is an
# assumption.
_EMULATED_ITEM_S = 2.5
_ITEM_S = 15.0
# The emulated core, on one processor of 2020's.
_EMULATED_CYCLE_S = 1e-8
# Series, null and zero reading fill the scope's memory, whatever the runs: 5.1 to 5.3 MB on the emulated bench.
CAPTURE_BYTES = 5_300_000


@dataclass(frozen=True)
class Estimate:
    """What a plan may take. Benches work at the same time, so `time_s` is the longest of `bench_s`."""

    bench_s: dict[str, float]
    disk_bytes: int

    @property
    def time_s(self) -> float:
        """Return the time from begin to end."""
        return max(self.bench_s.values(), default=0.0)


def estimate(plan: Plan, items: Sequence[Item]) -> Estimate:
    """Estimate time and disk for some items of a plan."""
    emulated = {bench.name: bench.emulated for bench in plan.benches}
    bench_s = dict.fromkeys(emulated, 0.0)
    for item in items:
        bench_s[item.bench] += item_s(item, emulated=emulated[item.bench])
    return Estimate(bench_s, len(items) * CAPTURE_BYTES)


def item_s(item: Item, *, emulated: bool) -> float:
    """Estimate how long an attempt at an item takes."""
    operation = item.operation
    window_s = window_cycles(item) / (operation.clock_hz or boards.load(item.board)["clock_hz"])
    n_windows = operation.n_runs + item.n_warmup + _N_TRIALS
    if emulated:
        return _EMULATED_ITEM_S + n_windows * window_cycles(item) * _EMULATED_CYCLE_S
    return _ITEM_S + n_windows * (window_s + _PAUSES_S) + _N_NULL * _PAUSES_S


def window_cycles(item: Item) -> float:
    """Estimate the cycles of one window, within a factor of some two."""
    operation = item.operation
    fixed, each = next((n, m) for pattern, n, m in _CYCLES if fnmatch.fnmatchcase(operation.name, pattern))
    of_core = _OF_CORE.get(boards.load(item.board)["core"], 1.0)
    cycles = (fixed + each * (operation.bytes or 0)) * (1 + has_two_passes(operation.name))
    return cycles * operation.n_iterations * of_core * _OF_PROFILE.get(operation.profile, 1.0)
