"""Kill the runner of a small campaign at every write: run by test_campaign_crash.py, prints JSON of what was left.

Usage: campaign_crash_child.py FOLDER STEP FIRST

The campaign is real: its folder, runner, store and journal; what measures is a closed form of seed and key. It takes
two items, is extended, and takes two more; one attempt fails without a capture, one with a capture that gives no
number. STEP and FIRST choose the points: FIRST, FIRST + STEP, ...
"""

import dataclasses
import json
import os
import shutil
import signal
import sys
import zlib
from pathlib import Path

import numpy as np

from instruments.record import Channel, Identity, Record
from labctl import __version__
from labctl.campaign import folder, journal, results, runner
from labctl.campaign.items import expand
from labctl.campaign.model import Campaign
from labctl.campaign.plan import parse_plan, to_toml
from labctl.campaign.state import state_of
from labctl.campaign.verify import verify
from labctl.campaign.work import Measurer, Policy
from labctl.errors import DeviceTransient
from labctl.model import Capture, DutReport, Shunt, Supply, Wiring

SEED = 3
CALLS = ("write", "pwrite", "fsync", "fdatasync", "link", "unlink", "rename", "replace", "mkdir", "ftruncate")
WRITES = ("write", "pwrite")
UTC = "2026-11-30T12:00:00Z"


def plan_of(sizes):
    """Write the plan of some sizes."""
    return to_toml(parse_plan(
        f"[campaign]\nname = 'crash'\nseed = {SEED}\nruns = 2\n[factors]\nboards = ['stm32vldiscovery']\n"
        f"operations = ['sha256']\nbytes = {sizes}\n[bench]\n", "plan.toml"
    ))


PLANS = plan_of([16, 32]), plan_of([16, 32, 48, 64])
ITEMS = tuple(expand(parse_plan(PLANS[1], "plan.toml")))
BEFORE, AFTER = (2, 1), (2, 1, 4, 3)


class Synthetic(Measurer):
    """Draws a capture from seed and key alone; the first attempts at items 2 and 3 go wrong."""

    def measure(self, item, attempt):
        if (item.number, attempt) == (2, 1):
            raise DeviceTransient("the DUT did not answer")
        rng = np.random.default_rng(zlib.crc32(f"{SEED} {item.key}".encode()))
        inside = np.zeros(1500, bool)
        inside[300 : 600 + 100 * item.number] = (item.number, attempt) != (3, 1)
        shunt = np.where(inside, 140, 100) + rng.integers(-3, 4, (2, 1500))
        line = np.broadcast_to(np.where(inside, 200, 60), (2, 1500))
        channels = {
            "CH1": Channel("CH1", shunt.astype(np.uint8), 1e-4, 0.0, code_min=0, code_max=255),
            "CH2": Channel("CH2", line.astype(np.uint8), 0.0235, -1.4, code_min=0, code_max=255),
        }
        series = Record(channels, 1e-6, np.array([0.0, 0.01]), Identity("a", "b", "c", "d"))
        wiring = Wiring(Shunt(1.3), Supply(3.3), shunt_channel="CH1", trigger_channel="CH2")
        provenance = {"utc": UTC, "bench": {"name": "bench", "emulated": True}}
        board = {"name": item.board, "clock_hz": 24_000_000}
        return Capture({"series": series}, wiring, item.operation, board, DutReport((), True), provenance=provenance)


def campaign(items, schedule):
    benches = ({"name": "bench", "emulated": True},)
    return Campaign("crash", SEED, items, schedule, benches, UTC, f"labctl {__version__}")


def work(path):
    """Begin or go on, to the end."""
    if not path.exists():
        folder.create(path, PLANS[0], campaign(ITEMS[:2], BEFORE))
    opened = folder.open_campaign(path)
    policy = Policy(n_attempts=5, backoff_s=0.0)
    with opened.lock(UTC):
        ending = runner.run(opened, Synthetic(), "bench", policy)
        if len(opened.campaign.items) == 2:
            opened.extend(ITEMS, AFTER, PLANS[1])
            ending = runner.run(opened, Synthetic(), "bench", policy)
    assert ending.kind == "complete", ending


def outcome(path):
    """Give what must not depend on crashes: the table, and every file but journal and failed attempts."""
    table = results.campaign_table(path)
    shutil.rmtree(path / "tables", ignore_errors=True)
    kept = [one for one in path.rglob("*") if one.is_file() and "failed" not in one.parts and one.name != journal.NAME]
    return table, {one.relative_to(path).as_posix(): zlib.crc32(one.read_bytes()) for one in kept}


def die_at(k, half, tell):
    """Kill this process at its k-th call; with `half`, after half of a write is done."""
    count = 0
    plain_write = os.write

    def wrap(name, real):
        def call(*arguments, **options):
            nonlocal count
            if half and name not in WRITES:
                return real(*arguments, **options)
            count += 1
            if count == k:
                if half:
                    descriptor, data, *place = arguments
                    real(descriptor, bytes(data)[: len(data) // 2], *place)
                plain_write(tell, f"died {name}\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, wrap(name, getattr(os, name)))
    real_append = journal.append

    def append(path, entry):
        real_append(path, entry)
        if getattr(entry, "state", "") == "done":
            plain_write(tell, f"acknowledged {entry.item} {entry.capture_crc32}\n".encode())

    journal.append = append


def crash(path, k, half):
    """Work in a forked child that dies at its k-th call; give what it died at (None: it did not) and acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            die_at(k, half, writing)
            work(path)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as stream:
        told = [line.split() for line in stream]
    _, status = os.waitpid(child, 0)
    if status not in (0, signal.SIGKILL):
        raise SystemExit(f"the child ended with wait status {status} at call {k}")
    died = next((words[1] for words in told if words[0] == "died"), None)
    return died, {int(words[1]): words[2] for words in told if words[0] == "acknowledged"}


def lost(path, acknowledged):
    """Name the acknowledged items that a campaign does not have any more, or has otherwise."""
    state = state_of(folder.open_campaign(path).campaign, journal.read(path))
    done = {one.item.number: one.last.capture_crc32 for one in state.items if one.state == "done"}
    return [number for number, crc32 in acknowledged.items() if done.get(number) != crc32]


def point(path, k, half, expected):
    """Crash at one point and go on; say what was found."""
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    died, acknowledged = crash(path, k, half)
    found = {"k": k, "half": half, "call": died, "exists": path.exists(), "acknowledged": len(acknowledged)}
    if found["exists"]:
        found |= {"faults": verify(path).faults, "lost": lost(path, acknowledged)}
    work(path)
    after = verify(path)
    found |= {"faults_after": after.faults, "notes_after": [one for one in after.notes if "cut off" not in one]}
    found |= {"same": outcome(path) == expected, "beside": [one.name for one in path.parent.iterdir()]}
    return found


def main():
    path = Path(sys.argv[1]) / "campaigns" / "night"
    step, first = int(sys.argv[2]), int(sys.argv[3])
    path.parent.mkdir()
    work(path)  # compiles, imports, and is the truth
    expected = outcome(path)
    points = []
    for half in (False, True):
        k = first
        while True:
            points.append(point(path, k, half, expected))
            if points[-1]["call"] is None:
                break
            k += step
    attempts = [dataclasses.asdict(one) for one in journal.read(path).attempts]
    print(json.dumps({"points": points, "table": expected[0], "attempts": attempts}))


main()
