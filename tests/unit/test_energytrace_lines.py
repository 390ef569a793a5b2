"""Lines of EnergyTrace recorders: columns, units, the counter's wrap, gaps."""

import numpy as np
import pytest

from instruments.energytrace import WRAP, is_counts, make_trace, parse_line
from instruments.errors import BadData

# 3 V and 2 mA are 6 mW: 6 uJ in each millisecond.
CURRENT, VOLTAGE, STEP_J = 2_000_000, 3000, 6e-6


def rows(n=11, unit_j=1e-7, start=0, dt=1000, signed=False):
    step = round(STEP_J * dt / 1000 / unit_j)
    values = []
    for k in range(n):
        count = (start + k * step) % WRAP
        values.append((k * dt, CURRENT, VOLTAGE, count - WRAP if signed and count >= WRAP // 2 else count))
    return values


def test_four_columns_or_five_where_a_state_leads():
    assert parse_line("1000 2000000 3000 60") == (1000, 2_000_000, 3000, 60)
    assert parse_line("00000001ffffffff 1000 2000000 3000 60") == (1000, 2_000_000, 3000, 60)
    assert parse_line("") is None
    assert parse_line("# time current") is None


@pytest.mark.parametrize("text", ["1 2 3", "1 2 3 4 5 6", "1,5 2 3 4", "a b c d", "1 2 3 nan", "1 2 3 inf"])
def test_what_is_no_line_is_refused(text):
    with pytest.raises(BadData, match=r"EnergyTrace|comma"):
        parse_line(text)


def test_counts_and_si_are_told_apart():
    assert is_counts("1000 2000000 3000 60")
    assert is_counts("1000 2000000 3000 -60")
    assert not is_counts("1.000000e-03 2.000000e-03 3.000000e+00 6.0e-06")


@pytest.mark.parametrize("unit_j", [1e-9, 1e-8, 1e-7])
def test_what_a_count_is_worth_is_found_from_voltage_current_and_time(unit_j):
    trace = make_trace(rows(unit_j=unit_j), counts=True)
    assert trace.unit_j == unit_j
    assert trace.dt_s == pytest.approx(1e-3)
    np.testing.assert_allclose(trace.energy_j, STEP_J * np.arange(11), rtol=1e-6)
    np.testing.assert_allclose(trace.current_a, 2e-3)
    np.testing.assert_allclose(trace.voltage_v, 3.0)


def test_a_current_column_that_is_off_by_a_third_does_not_mislead():
    off = [(t, current * 1.35, voltage, e) for t, current, voltage, e in rows()]
    assert make_trace(off, counts=True).unit_j == 1e-7


def test_a_unit_between_those_known_is_refused():
    odd = [(t, current * 3, voltage, e) for t, current, voltage, e in rows()]
    with pytest.raises(BadData, match="none of those known"):
        make_trace(odd, counts=True)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("start", [WRAP - 200, WRAP // 2 - 200])
def test_a_counter_that_wraps_goes_on(start, signed):
    trace = make_trace(rows(start=start, signed=signed), counts=True)
    np.testing.assert_allclose(trace.energy_j, STEP_J * np.arange(11), rtol=1e-6)


def test_lost_samples_are_a_gap_and_cost_no_energy():
    kept = [row for k, row in enumerate(rows()) if k not in (4, 5)]
    trace = make_trace(kept, counts=True)
    assert trace.gaps == ((4, 2),)
    assert np.isnan(trace.energy_j[4:6]).all()
    assert trace.energy_j[-1] == pytest.approx(10 * STEP_J)


def test_a_time_that_stands_is_left_out_and_counted():
    twice = rows()
    twice.insert(3, twice[2])
    trace = make_trace(twice, counts=True)
    assert trace.n_repeated == 1
    np.testing.assert_allclose(trace.energy_j, STEP_J * np.arange(11), rtol=1e-6)


def test_si_lines_are_taken_as_they_are():
    si = [(k * 1e-3, 2e-3, 3.0, k * STEP_J) for k in range(11)]
    trace = make_trace(si, counts=False)
    assert trace.unit_j == 1.0
    assert trace.energy_j[-1] == pytest.approx(10 * STEP_J)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table[:1], "1 lines"),
        (lambda table: [(0, *row[1:]) for row in table], "times of the log"),
        (lambda table: [(*row[:3], 7) for row in table], "stands still"),
        (lambda table: [(row[0], 0, *row[2:]) for row in table], "cannot be found"),
        (lambda table: [*table[:-1], (*table[-1][:3], 0)], "goes back"),
        (lambda table: [table[0], (10**9, *table[1][1:]), *table[2:]], "times of the log|are missing|none of those"),
    ],
)
def test_logs_that_tell_no_energy_are_refused(change, words):
    with pytest.raises(BadData, match=words):
        make_trace(change(rows(unit_j=1e-8)), counts=True)
