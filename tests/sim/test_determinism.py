"""The same seed, stream and commands give the same captures to the last bit, whatever host and computer are doing."""

import random
import subprocess
import sys
import time

import numpy as np
import pytest

from instruments.sim import line
from instruments.sim.circuit import Circuit
from instruments.sim.dut.inbox import Inbox
from instruments.sim.world import World
from labctl.bench import open_bench
from labctl.dut_link import DutLink
from labctl.measure import Plan, measure
from labctl.model import Operation
from labctl.simulation import default_elf
from labctl.store import open_capture, read_truth

# Signing blinds itself at random; the cipher on a core without a cycle counter; a sleep that a timer ends.
CASES = [
    ("stm32vldiscovery", (Operation("ecdsa-p256.sign", n_runs=3), Operation("sha256", bytes=64, n_runs=5))),
    ("stm32f0discovery", (Operation("aes-128-ctr.encrypt", bytes=64, n_runs=5), Operation("idle", n_runs=3))),
]


def nobody(sentence):
    raise AssertionError(sentence)


def taken(folder, board, operations, stream=0):
    """Measure; give all that a capture holds but its date."""
    with open_bench(None, board_name=board, overrides=lambda f: f, ask=nobody, seed=3, stream=stream) as bench:
        found = []
        for path in measure(bench, Plan(operations, folder)):
            facts = {"truth": read_truth(path)}
            with open_capture(path) as capture:
                facts |= {"report": capture.dut_report, "null report": capture.null_report}
                facts |= {"bench": capture.provenance["bench"], "build": capture.manifest["build"]}
                for name, record in capture.records.items():
                    facts[name] = record.dt_s, np.asarray(record.segment_start_s).tobytes()
                    for key, channel in record.channels.items():
                        facts[f"{name} {key}"] = channel.scale, channel.offset
                        facts[f"{name} {key} codes"] = np.asarray(channel.codes).tobytes()
            found.append(facts)
    assert len(found) == len(operations)
    return found


def differences(one, two):
    """Name what is not the same in two captures."""
    return [key for key in one.keys() | two.keys() if one.get(key) != two.get(key)]


@pytest.fixture
def unrest(monkeypatch):
    """Make host and computer behave badly: both cores busy, pauses anywhere, a `hello` said again while it boots."""
    chance = random.Random(1)
    write, read_line = DutLink.write, DutLink.read_line

    def slow_write(link, data):
        time.sleep(0.1 * chance.random())
        write(link, data)
        if b"hello" in data and chance.random() < 0.5:
            write(link, data)

    def slow_read(link, deadline_s):
        time.sleep(0.05 * chance.random())
        return read_line(link, deadline_s)

    monkeypatch.setattr(DutLink, "write", slow_write)
    monkeypatch.setattr(DutLink, "read_line", slow_read)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield
    for process in busy:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """Give what a board gave when nothing disturbed it."""
    kept = {}

    def give(board, operations):
        if not default_elf(board).is_file():
            pytest.skip(f"firmware of {board} is not built: run `make firmware`")
        if board not in kept:
            kept[board] = taken(tmp_path_factory.mktemp(board), board, operations)
        return kept[board]

    return give


@pytest.mark.parametrize(("board", "operations"), CASES, ids=[board for board, _ in CASES])
def test_a_busy_host_changes_no_bit_of_a_capture(quiet, request, tmp_path, board, operations):
    expected = quiet(board, operations)
    request.getfixturevalue("unrest")
    again = taken(tmp_path, board, operations)
    assert [differences(*pair) for pair in zip(expected, again, strict=True)] == [[], []]


def test_another_stream_is_the_same_bench_at_another_time(quiet, tmp_path):
    board, operations = CASES[0]
    (*_, here), (*_, there) = quiet(board, operations), taken(tmp_path, board, operations, stream=1)
    assert (here["bench"]["seed"], here["bench"]["stream"]) == (3, 0)
    assert there["bench"] == here["bench"] | {"stream": 1}
    # The DUT does the same and the world gives the same; the scope's noise and phase are others.
    assert not {"truth", "report", "null report", "build"} & set(differences(here, there))
    assert {"series", "series CH1 codes", "null CH1 codes", "zero CH1 codes"} <= set(differences(here, there))


def make_world():
    return World(Circuit(1.3, 3.3, 4.7e-6, 30e-6, 24e6, 3.3))


def window(world, cycle):
    """Let the DUT do something with its pin up, then rest."""
    world.current(np.array([cycle + 700], np.uint64), np.array([4e-3], np.float32))
    world.pin(cycle + 700, 1)
    world.current(np.array([cycle + 900, cycle + 1700], np.uint64), np.array([9e-3, 12e-3], np.float32))
    world.pin(cycle + 1700, 0)
    world.parked(cycle + 1900, 4e-3)


def test_what_was_before_an_instrument_looked_leaves_no_trace():
    seen = []
    for n_before, rest_s in ((0, 0.0), (1, 3.7), (5, 0.123456789)):
        world = make_world()
        world.parked(0, 4e-3)
        for k in range(n_before):
            window(world, 1900 * k)
            world.reach(world.end_s + rest_s, 0.0)
        world.windows()
        viewer, start_s = world.view()
        world.reach(1e-3, 0.0)
        window(world, 1900 * n_before)
        world.reach(2e-3, 0.0)
        (truth,) = world.windows()
        edge_s = world.pin_crossing(0.0, 1.65, True, 1e-9)
        seen.append((start_s, truth, edge_s, world.sample(0.9e-3, 1e-8, 50_000).tobytes()))
        viewer.close()
    assert seen[0][0] == 0.0
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]


def test_a_rest_is_the_same_in_one_stretch_or_in_many():
    at_once, in_parts = make_world(), make_world()
    for world in (at_once, in_parts):
        world.view()
        window(world, 0)
    for part in range(1, 20):
        in_parts.reach(1e-4 * part, 0.0)
    at_once.reach(19e-4, 0.0)
    assert in_parts.n_pieces == at_once.n_pieces
    assert in_parts.sample(0.0, 1e-8, 100_000).tobytes() == at_once.sample(0.0, 1e-8, 100_000).tobytes()


@pytest.mark.parametrize("n_part", [1, 7, 1000])
def test_a_record_filled_in_parts_is_the_one_filled_at_once(n_part):
    rng = np.random.default_rng(1)
    end_s = np.cumsum(rng.uniform(1e-7, 3e-6, 400))
    x = rng.uniform(0.0, 20e-3, 400).astype(np.float32)
    y_end, tau_s, dt_s, n = np.empty(400), 6.1e-6, 3.3e-8, 5000
    line.append_pieces(0.0, 0.0, end_s, x, tau_s, y_end, np.zeros(2))
    whole, parts = np.empty(n), np.empty(n)
    assert line.sample_pieces(0.0, 0.0, end_s, x, y_end, tau_s, 1e-7, dt_s, whole, 0, 0) == n
    for first in range(0, n, n_part):
        part = parts[first : first + n_part]
        assert line.sample_pieces(0.0, 0.0, end_s, x, y_end, tau_s, 1e-7, dt_s, part, 0, first) == len(part)
    assert parts.tobytes() == whole.tobytes()


def test_the_dut_gets_a_line_at_a_time_however_it_came():
    split, joined = Inbox(), Inbox()
    for part in (b"hel", b"lo*D26E\n\nli", b"st*1\n"):
        split.put(part)
    joined.put(b"hello*D26E\n\nlist*1\n")
    for inbox in (split, joined):
        assert [inbox.take() for _ in range(3)] == [b"hello*D26E\n", b"\n", b"list*1\n"]
        assert not inbox
    split.put(b"L")
    assert split.take() == b"L"
    joined.put(b"lost\n")
    joined.clear()
    assert not joined


def test_a_dut_that_was_woken_is_not_at_rest_before_its_current_is_known():
    world = make_world()
    world.parked(0, 4e-3)
    world.reach(5e-3, 0.0)
    world.woken()
    assert world.reach(9e-3, 0.01) == (5e-3, False)
    world.current(np.array([24_000], np.uint64), np.array([9e-3], np.float32))
    assert world.end_s == pytest.approx(5e-3 + 1e-3 / (1 + 30e-6), rel=1e-12)
