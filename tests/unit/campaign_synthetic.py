"""A campaign whose captures are made up: small, and a function of the item's key alone."""

import dataclasses
import zlib
from pathlib import Path

import numpy as np

from instruments.record import Accuracy, Channel, Identity, Record
from labctl import __version__
from labctl.campaign.budget import Clocks
from labctl.campaign.folder import create
from labctl.campaign.items import expand, schedule
from labctl.campaign.model import Campaign, Item
from labctl.campaign.plan import parse_plan, to_toml
from labctl.campaign.work import Measurer
from labctl.model import Capture, Operation, Shunt, Supply, Wiring

OHM, SUPPLY_V, DT_S = 1.3, 3.3, 1e-6
IDLE_V, RUN_V = 4e-3, 13e-3
N_NULL_SAMPLES, N_SAMPLES = 40, 600
BOARD = {
    "name": "made-up",
    "clock_hz": 24_000_000,
    "crystal_tolerance_ratio": 50e-6,
    "pins": {"level_v": 3.3},
    "supply": {"current_min_a": 0.1e-3, "current_max_a": 100e-3},
}
WIRING = Wiring(Shunt(OHM, decoupling_f=0.0), Supply(SUPPLY_V), shunt_channel="CH1", trigger_channel="CH2")
IDENTITY = Identity("a", "b", "c", "d")
BENCH = "made-up-bench"


def window_samples(key):
    """Say how many samples the window of an item has."""
    return 100 + zlib.crc32(key.encode()) % 300


def record_of(n_runs, n_window, run_v=RUN_V):
    """Make segments of one flat window each."""
    drop = np.full((n_runs, N_SAMPLES), round(IDLE_V / 1e-6), np.int16)
    line = np.zeros(drop.shape, np.uint8)
    drop[:, 150 : 150 + n_window] = round(run_v / 1e-6)
    line[:, 150 : 150 + n_window] = 200
    sheet = Accuracy(0.02, 5e-3, 1e-6, "data sheet")
    channels = {
        "CH1": Channel("CH1", drop, 1e-6, 0.0, code_min=-32768, code_max=32767, accuracy=sheet),
        "CH2": Channel("CH2", line, 3.3 / 200, 0.0),
    }
    return Record(channels, DT_S, np.arange(n_runs) * 1.0, IDENTITY, timebase_ratio=1e-5)


def capture_of(item, **changed):
    """Make the capture of an item."""
    zero = Record({"CH1": Channel("CH1", np.zeros((1, 1000), np.int16), 1e-6, 0.0)}, DT_S, np.zeros(1), IDENTITY)
    records = {
        "series": record_of(item.operation.n_runs, window_samples(item.key)),
        "null": record_of(100, N_NULL_SAMPLES),
        "zero": zero,
    }
    provenance = {"bench": {"name": BENCH, "emulated": True}}
    board = {**BOARD, "name": item.board}
    return dataclasses.replace(Capture(records, WIRING, item.operation, board, provenance=provenance), **changed)


def duration_s(item):
    """Say how long the operation of an item takes: its window less that of null."""
    return (window_samples(item.key) - N_NULL_SAMPLES) * DT_S


class Synthetic(Measurer):
    """Makes captures up; `script` gives what happens instead, by item and attempt: an error, or a function of the item.

    `asked` lists what was asked for, `n_safe` counts calls to switch off; `away` are errors of the next recoveries.
    """

    def __init__(self, script=None, away=()):
        self.script = script or {}
        self.away = list(away)
        self.asked = []
        self.n_safe = 0
        self.n_recovered = 0

    def measure(self, item, attempt):
        self.asked.append((item.number, attempt))
        told = self.script.get((item.number, attempt), self.script.get(item.number))
        if isinstance(told, BaseException):
            raise told
        return told(item) if told else capture_of(item)

    def recover(self, item):
        if self.away:
            raise self.away.pop(0)
        self.n_recovered += 1

    def make_safe(self):
        self.n_safe += 1


class FakeClocks:
    """Clocks that go on only where somebody waits, or sets them."""

    def __init__(self):
        self.now_s, self.ahead_s, self.waits_s = 1000.0, 1.9e9, []
        self.clocks = Clocks(lambda: self.now_s, lambda: self.now_s + self.ahead_s, self.sleep)

    def sleep(self, span_s):
        self.waits_s.append(span_s)
        self.now_s += span_s


def items_of(n, n_runs=3):
    """List items of one board and several sizes."""
    sizes = {number: 16 * number for number in range(1, n + 1)}
    return tuple(
        Item(number, f"made-up sha256 {size}B", "made-up", Operation("sha256", size, n_runs=n_runs), BENCH)
        for number, size in sizes.items()
    )


def campaign_folder(path: Path, n=3, n_runs=3, schedule=None):
    """Make the folder of a campaign of `n` items."""
    items = items_of(n, n_runs)
    order = tuple(schedule or (item.number for item in items))
    facts = ({"name": BENCH, "emulated": True},)
    campaign = Campaign("made-up", 1, items, order, facts, "2026-11-30T12:00:00Z", "labctl")
    return create(path, '[campaign]\nname = "made-up"\n', campaign)


def planned_folder(path: Path, n=3, n_runs=3):
    """Make the folder of a campaign of `n` items that its plan comes to, on a board that there is."""
    sizes = [16 * number for number in range(1, n + 1)]
    plan = parse_plan(
        f'[campaign]\nname = "made-up"\nruns = {n_runs}\norder = "listed"\n[factors]\nboards = ["stm32vldiscovery"]\n'
        f'operations = ["sha256"]\nbytes = {sizes}\n[[benches]]\nname = "{BENCH}"\n', "plan.toml"
    )
    items = tuple(expand(plan))
    facts = ({"name": BENCH, "emulated": True, "shunt": {"resistance_ohm": OHM, "tolerance_ratio": 0.01},
              "supply": {"voltage_v": SUPPLY_V, "node": "mcu"}},)
    campaign = Campaign("made-up", 1, items, tuple(schedule(plan, items)), facts, "2026-11-30T12:00:00Z",
                        f"labctl {__version__}")
    return create(path, to_toml(plan), campaign)
