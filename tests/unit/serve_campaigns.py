"""A campaign of several boards and operations, with failures and texts that would do harm, on made-up captures."""

import dataclasses
import zlib

import numpy as np

from instruments.errors import LinkLost
from instruments.record import Accuracy, Channel, Identity, Record
from labctl.campaign import runner
from labctl.campaign.folder import create
from labctl.campaign.model import Campaign, Item
from labctl.campaign.work import Policy
from labctl.errors import DeviceStable
from labctl.model import Operation

from .campaign_synthetic import BENCH, BOARD, IDLE_V, RUN_V, FakeClocks, Synthetic, capture_of, record_of

BOARDS = ("made-up", "other<b>board</b>")
SIZES = (64, 1024)
# What an instrument may answer to *IDN?, and an error may quote.
HARMFUL = "<script>alert('idn')</script>\"&\x1b[31m"
HARMFUL_IDENTITY = Identity("ACME", HARMFUL, "<img src=x onerror=alert(1)>", "1.0")
N_LONG = 3_000_000
LONG_S = 1e-6


def items(n_runs=4):
    """List the items: two operations in two sizes on two boards, a reference three times and a baseline twice."""
    found = []
    for board in BOARDS:
        for name in ("sha256", "aes-128-ctr.encrypt"):
            found += [(board, Operation(name, size, n_runs=n_runs), "item", 0) for size in SIZES]
        found += [(board, Operation("sha256", 16, n_runs=n_runs), "reference", repeat) for repeat in range(3)]
        found += [(board, Operation("busy", None, n_runs=n_runs), "baseline", repeat) for repeat in range(2)]
    return tuple(
        Item(number, f"{board} {operation.name} {operation.bytes} {repeat}", board, operation, BENCH, role, repeat)
        for number, (board, operation, role, repeat) in enumerate(found, 1)
    )


def noisy(item, **changed):
    """Make a capture whose runs differ, by the item's key."""
    random = np.random.default_rng(zlib.crc32(item.key.encode()))
    window = 100 + 10 * len(item.operation.name) + (item.operation.bytes or 0) // 8
    runs = [record_of(1, window, RUN_V * (1 + 0.01 * random.standard_normal())) for _ in range(item.operation.n_runs)]
    channels = {
        name: dataclasses.replace(channel, codes=np.concatenate([run.channels[name].codes for run in runs]))
        for name, channel in runs[0].channels.items()
    }
    series = dataclasses.replace(
        runs[0], channels=channels, segment_start_s=np.arange(len(runs)) * 1.0, instrument=HARMFUL_IDENTITY
    )
    plain = capture_of(item)
    board = {**BOARD, "name": item.board}
    return dataclasses.replace(plain, records={**plain.records, "series": series}, board=board, **changed)


def long_capture(item):
    """Make a capture of one window in three million samples, with a spike of one sample."""
    drop = np.full((1, N_LONG), round(IDLE_V / 1e-6), np.int16)
    drop[0] += np.random.default_rng(5).integers(-200, 200, N_LONG, dtype=np.int16)
    line = np.zeros(drop.shape, np.uint8)
    drop[0, 1_000_000:2_000_000] += round((RUN_V - IDLE_V) / 1e-6)
    line[0, 1_000_000:2_000_000] = 200
    drop[0, 1_234_567] = 30_000
    channels = {
        "CH1": Channel("CH1", drop, 1e-6, 0.0, code_min=-32768, code_max=32767,
                       accuracy=Accuracy(0.02, 5e-3, 1e-6, "data sheet")),
        "CH2": Channel("CH2", line, 3.3 / 200, 0.0),
    }
    plain = noisy(dataclasses.replace(item, operation=dataclasses.replace(item.operation, n_runs=1)))
    series = Record(channels, LONG_S, np.zeros(1), HARMFUL_IDENTITY, timebase_ratio=1e-5)
    return dataclasses.replace(plain, records={**plain.records, "series": series})


SCRIPT = {
    # One that is done in its second attempt, and one that fails for good.
    (2, 1): LinkLost(f"the scope answered {HARMFUL}"),
    4: DeviceStable(f"the DUT says {HARMFUL}"),
}


class Noisy(Synthetic):
    """Makes captures of noisy runs; that of item 1 is a long one."""

    def measure(self, item, attempt):
        """Take it, or raise what the script says."""
        self.asked.append((item.number, attempt))
        told = self.script.get((item.number, attempt), self.script.get(item.number))
        if isinstance(told, BaseException):
            raise told
        return long_capture(item) if item.number == 1 else noisy(item)


def begin(path, name="night <i>1</i>"):
    """Make the folder of the campaign."""
    listed = items()
    facts = ({"name": BENCH, "emulated": True},)
    campaign = Campaign(name, 1, listed, tuple(one.number for one in listed), facts, "2026-11-30T12:00:00Z", "labctl")
    return create(path, '[campaign]\nname = "night"\n', campaign)


def take(folder, script=None):
    """Work through a campaign."""
    script = SCRIPT if script is None else script
    return runner.run(folder, Noisy(script), BENCH, Policy(), clocks=FakeClocks().clocks)
