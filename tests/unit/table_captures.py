"""Captures whose numbers follow from a line of arithmetic, and campaigns of them, for tests of tables."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from instruments.record import Accuracy, Channel, Identity, Record
from labctl.campaign import folder, journal
from labctl.campaign.model import Attempt, Campaign, Item
from labctl.model import Capture, DutReport, Operation, Shunt, Supply, Wiring
from labctl.store import write_capture

DT_S, OHM, SUPPLY_V = 1e-6, 1.3, 3.3
RUN_V, PIN_V, N_NULL = 13e-3, 8e-3, 40
_WIRING = Wiring(Shunt(OHM, decoupling_f=0.0), Supply(SUPPLY_V), shunt_channel="CH1", trigger_channel="CH2")
_SHEET = Accuracy(0.02, 5e-3, 1e-6, "data sheet")
_IDENTITY = Identity("maker", "scope", "0", "1")
MANIFEST = {"flash_bytes": 32680, "data_bytes": 24, "bss_bytes": 872, "stack_bytes": 2816}
EMULATED = {"name": "bench", "emulated": True, "seed": 3}


def _record(n_segments: int, n: int, run_v: float) -> Record:
    drop = np.full((n_segments, 600), 4000, np.int16)
    line = np.zeros(drop.shape, np.uint8)
    drop[:, 200 : 200 + n] = round(run_v / 1e-6)
    line[:, 200 : 200 + n] = 200
    channels = {
        "CH1": Channel("CH1", drop, 1e-6, 0.0, code_min=-32768, code_max=32767, accuracy=_SHEET),
        "CH2": Channel("CH2", line, 3.3 / 200, 0.0),
    }
    return Record(channels, DT_S, np.arange(n_segments) * 1.0, _IDENTITY, timebase_ratio=1e-5)


def make(
    operation: Operation, board: str = "stm32f4discovery", *, n: int = 300, run_v: float = RUN_V,
    bench: Mapping[str, object] = EMULATED, utc: str = "2026-11-30T12:00:00Z", cycles: Iterable[int] = (),
) -> Capture:
    """Make a capture of windows of `n` microseconds at `run_v` across the shunt, null of 40 at 8 mV taken off."""
    counted = tuple(cycles)
    return Capture(
        {
            "series": _record(operation.n_runs, n, run_v),
            "null": _record(100, N_NULL, PIN_V),
            "zero": Record({"CH1": Channel("CH1", np.zeros((1, 1000), np.int16), 1e-6, 0.0)}, DT_S, np.zeros(1),
                           _IDENTITY),
        },
        _WIRING,
        operation,
        {"name": board, "clock_hz": operation.clock_hz, "crystal_tolerance_ratio": 50e-6, "pins": {"level_v": 3.3},
         "supply": {"current_min_a": 0.1e-3, "current_max_a": 100e-3}},
        DutReport(counted, True) if counted else None,
        DutReport((100,) * 100, True) if counted else None,
        MANIFEST,
        {"utc": utc, "software": "labctl 0", "bench": dict(bench)},
    )


def operation(name: str = "sha256", n_bytes: int | None = 64, **changes: object) -> Operation:
    """Give an operation of 20 runs on a board at 168 MHz."""
    return replace(Operation(name, n_bytes, clock_hz=168_000_000), **changes)


ITEMS = tuple(
    Item(number, f"key {number}", board, replace(operation(name, size), clock_hz=clock_hz), "bench", role, repeat)
    for number, (board, clock_hz, name, size, role, repeat) in enumerate(
        [
            ("stm32f4discovery", 168_000_000, "sha256", 64, "item", 0),
            ("stm32f4discovery", 168_000_000, "sha256", 1024, "item", 0),
            ("stm32f4discovery", 168_000_000, "aes-128-ctr", 64, "item", 0),
            ("stm32vldiscovery", 24_000_000, "sha256", 64, "item", 0),
            ("stm32vldiscovery", 24_000_000, "sha256", 1024, "item", 0),
            ("stm32f4discovery", 168_000_000, "sha256", 64, "reference", 0),
            ("stm32f4discovery", 168_000_000, "sha256", 64, "reference", 1),
        ],
        1,
    )
)
# Windows of the items that are done, in microseconds.
DONE = {1: 300, 2: 340, 3: 240, 4: 290, 6: 300, 7: 301}
FAILED = {5: "the DUT is silent, so are others"}


def make_campaign(
    out: Path, *, order: Iterable[int] = (1, 2, 3, 4, 5, 6, 7), n_tries: int = 1, utc: str = "2026-11-30T12:00:00Z",
    items: tuple[Item, ...] = ITEMS,
) -> Path:
    """Make the folder of a campaign whose items were taken in some order, each at some attempt, at some time."""
    campaign = Campaign("night", 3, items, tuple(order), (EMULATED,), utc, "labctl 0")
    made = folder.create(out, "", campaign)
    for item in (items[number - 1] for number in order):
        common = {"item": item.number, "key": item.key, "begun_utc": utc, "ended_utc": utc, "elapsed_s": 1.0}
        for number in range(1, n_tries):
            journal.append(out, Attempt(number=number, state="failed", final=False, failure="transient",
                                        error="no answer", **common))
        if item.number in DONE:
            path = made.capture_path(item)
            n = DONE[item.number]
            write_capture(path, make(item.operation, item.board, n=n, utc=utc, cycles=[168 * n] * 20))
            data = path.read_bytes()
            journal.append(out, Attempt(
                number=n_tries, state="done", final=True, capture=path.relative_to(out).as_posix(),
                capture_bytes=len(data), capture_crc32=f"{zlib.crc32(data):08x}", **common,
            ))
        elif item.number in FAILED:
            journal.append(out, Attempt(number=n_tries, state="failed", final=True, failure="stable",
                                        error=FAILED[item.number], **common))
    return out
