"""The emulated EnergyTrace recorder: columns, unit, wrap, charge pulses, and the energy of a known current."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from instruments.sim import energytrace_recorder
from instruments.sim.circuit import Circuit
from instruments.sim.energytrace import EnergyTrace
from instruments.sim.server import HOST, Server
from instruments.sim.world import World

CLOCK_HZ = 24e6
V_V = 3.3


@contextlib.contextmanager
def recorder(floor_a=4e-3, seed=2, **options):
    world = World(Circuit(0.0, V_V, 0.0, 0.0, CLOCK_HZ, 3.3))
    world.parked(0, floor_a)
    trace = EnergyTrace(lambda: world, seed, {"pace": 100.0, **options})
    server = Server("energytrace", trace.serve)
    try:
        yield world, trace, server.port
    finally:
        trace.close()
        server.close()
        world.close()


def read(port, n):
    """Return the first n lines as numbers, and the text of the first."""
    with socket.create_connection((HOST, port), timeout=20) as connection, connection.makefile("rb") as file:
        lines = [file.readline() for _ in range(n)]
    return np.array([[float(word) for word in line.split()] for line in lines]), lines[0].decode()


def plain(trace):
    """Take the unit's own errors away, so that closed forms hold."""
    trace.gain_ratio = trace.gain_high_ratio = trace.offset_a = trace.voltage_ratio = 0.0


def test_columns_are_us_na_mv_and_counts():
    with recorder() as (_, trace, port):
        plain(trace)
        rows, first = read(port, 2000)
    assert all(word.isdigit() for word in first.split())
    assert np.array_equal(rows[:, 0], 1000.0 * np.arange(1, 2001))
    assert np.array_equal(rows[:, 2], np.full(2000, 3300.0))
    # 4 mA x 3.3 V = 13.2 mW: 26.4 mJ in two seconds, in pulses of 50 uJ, a count of 0.1 uJ; the clock is the meter's.
    assert rows[-1, 3] * 1e-7 == pytest.approx(26.4e-3, abs=50e-6 + 1e-4 * 26.4e-3)
    assert np.array_equal(np.unique(np.diff(rows[:, 3])), [0, 500])
    # A pulse comes every 3.79 records, so the column shows a pulse in three or four of them: 5.05 or 3.79 mA.
    shown = np.unique(rows[20:, 1])
    assert shown == pytest.approx([50e-6 / 4e-3 / 3.3 * 1e9, 50e-6 / 3e-3 / 3.3 * 1e9], rel=1e-6)


def test_energy_of_a_rectangle():
    """20 mA for 0.5 s on 4 mA: 0.5 s x 16 mA x 3.3 V = 26.4 mJ more than the floor."""
    with recorder(pace=1.0) as (world, trace, port):
        plain(trace)
        with socket.create_connection((HOST, port), timeout=20) as connection, connection.makefile("rb") as file:
            file.readline()
            world.woken()
            ends = np.cumsum([12_000_000, 12_000_000, 12_000_000])
            world.current(ends.astype(np.uint64), np.array([4e-3, 20e-3, 4e-3], np.float32))
            world.parked(int(ends[-1]), 4e-3)
            lines = [file.readline() for _ in range(1400)]
    rows = np.array([[int(word) for word in line.split()] for line in lines])
    total_j = (rows[-1, 3] - rows[0, 3]) * 1e-7
    floor_j = 4e-3 * V_V * 1e-3 * (len(rows) - 1)
    assert total_j - floor_j == pytest.approx(26.4e-3, abs=100e-6)


@pytest.mark.parametrize("unit_j", [1e-7, 1e-9])
def test_the_counter_has_32_bits_and_the_unit_that_it_is_told(unit_j):
    start = (1 << 32) - 1000
    with recorder(unit_j=unit_j, counter_start=start) as (_, trace, port):
        plain(trace)
        rows, _ = read(port, 500)
    assert rows[0, 3] == start
    assert rows[:, 3].max() < 1 << 32
    grown = np.diff(rows[:, 3]) % (1 << 32)
    assert np.array_equal(np.unique(grown), [0, round(50e-6 / unit_j)])
    assert (np.diff(rows[:, 3]) < 0).sum() == 1


def test_as_the_si_tool_prints_it():
    with recorder(format="si") as (_, trace, port):
        plain(trace)
        rows, first = read(port, 1000)
    assert first.split()[0] == "1.000000e-03"
    assert rows[-1, 0] == 1.0
    assert rows[-1, 1] == pytest.approx(4e-3, rel=0.3)  # pulses in three or four records
    assert rows[-1, 2] == 3.3
    assert rows[-1, 3] == pytest.approx(13.2e-3, abs=51e-6 + 1e-4 * 13.2e-3)


def test_small_currents_come_in_few_pulses():
    """50 uA at 3.3 V are 165 uW: 3.3 pulses of 50 uJ a second, between the 2 and 4 that are reported."""
    with recorder(floor_a=50e-6) as (_, trace, port):
        plain(trace)
        rows, _ = read(port, 10_000)
    assert 20 <= np.count_nonzero(np.diff(rows[:, 3])) <= 40
    assert len(np.unique(rows[:, 1])) <= 40


def test_gain_is_that_of_the_span_of_current():
    for floor_a, name in ((4e-3, "gain_ratio"), (50e-3, "gain_high_ratio")):
        with recorder(floor_a=floor_a) as (_, trace, port):
            rows, _ = read(port, 2000)
            power_w = floor_a * V_V * (1 + getattr(trace, name)) + trace.offset_a * V_V
        assert rows[-1, 3] * 1e-7 == pytest.approx(2 * power_w, rel=1e-4, abs=51e-6)


def test_draws_stay_inside_their_limits():
    units = [EnergyTrace(lambda: None, seed, {}) for seed in range(200)]
    for name, limit in (("gain_ratio", 0.02), ("gain_high_ratio", 0.05), ("offset_a", 500e-9), ("voltage_ratio", 0.01)):
        draws = np.abs([getattr(unit, name) for unit in units])
        assert 0.95 * limit < draws.max() <= limit


@pytest.mark.parametrize("options", [{"unit_j": 0.0}, {"counter_start": -1}, {"format": "xml"}, {"pace": 0}])
def test_options_are_checked(options):
    with pytest.raises(ValueError, match=f"meter: {next(iter(options))}"):
        EnergyTrace(lambda: None, 1, options)


def run_recorder(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "instruments.sim.energytrace_recorder", *arguments],
        cwd=Path(__file__).parents[2],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_the_console_program_prints_so_many_seconds():
    with recorder() as (_, _, port):
        done = run_recorder(f"{HOST}:{port}", "0.5")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0].startswith("# emulated")
    assert len(lines) == 501
    assert lines[-1].startswith("500000 ")


def test_the_console_program_ends_when_nobody_reads():
    with recorder() as (_, _, port), subprocess.Popen(
        [sys.executable, "-m", "instruments.sim.energytrace_recorder", f"{HOST}:{port}"],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=30) == 0


@pytest.mark.parametrize(("arguments", "status"), [((), 2), (("nohost",), 2), ((f"{HOST}:1", "x"), 2)])
def test_the_console_program_says_how_it_is_used(arguments, status, capsys):
    assert energytrace_recorder.main(arguments) == status
    assert "usage" in capsys.readouterr().err


def test_the_console_program_says_that_nothing_answers(capsys):
    with socket.create_server((HOST, 0)) as closed:
        port = closed.getsockname()[1]
    assert energytrace_recorder.main((f"{HOST}:{port}",)) == 1
    assert "refused" in capsys.readouterr().err


def test_a_client_that_leaves_lets_go_of_the_line():
    with recorder() as (world, _, port):
        read(port, 3)
        for _ in range(1000):
            if not world.viewed:
                break
            threading.Event().wait(0.01)
        assert not world.viewed
