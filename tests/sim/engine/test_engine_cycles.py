"""Cycles and currents of known instruction sequences, counted by hand from ARM DDI 0337, table 3-1 and section 3.3.2.

P, the refill after a taken branch, is 2 (the manual: 1 to 3); UMULL 4 (3 to 5), UMLAL 5 (4 to 7), UDIV 7 (2 to 12).
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

P = 2
# Between the edges of an empty window: the return of pin_high refills (its bx lr itself is counted before the edge, as
# that of pin_low is at the other end), then bl pin_low, movs, ldr, str, bx lr.
EMPTY = P + (1 + P) + 1 + 2 + 1 + 1
LONG_LOOP = 11_500_000


@pytest.mark.parametrize(
    ("command", "body"),
    [
        pytest.param("0", 0, id="empty"),
        pytest.param("n", 100, id="nops"),
        # Longer than one block of the emulator can be, over several pages.
        pytest.param("N", 5000, id="many-nops"),
        # movw, then 1000 x subs and bne, all but the last taken.
        pytest.param("l", 1 + 1000 * 2 + 999 * P, id="loop"),
        # push 4, ldr literal, movs, str, str by register, ldr, ldrb, ldrd, stm 3, pop 4.
        pytest.param("m", 5 + 2 + 1 + 1 + 2 + 2 + 2 + 3 + 4 + 5, id="memory"),
        # movs, movs, muls, mla, umull, umlal, udiv.
        pytest.param("a", 1 + 1 + 1 + 2 + 4 + 5 + 7, id="arithmetic"),
        # movs, cmp, ite, addeq, addne (skipped: a cycle), nop.
        pytest.param("i", 6, id="it-block"),
        # 46 million cycles between two edges: the time line is joined and fetched on the way. ldr, loop.
        pytest.param("L", 2 + 2 * LONG_LOOP + (LONG_LOOP - 1) * P, id="long-loop"),
        # ldr, movw, str, movs, str, movs, str, wfi; 1000 ticks from 0 to 0; ldr, movs, str, ldr, mov, str.
        pytest.param("w", 2 + 6 * 1 + 1 + 1000 + 2 + 1 + 1 + 2 + 1 + 1, id="sleep"),
    ],
)
def test_window_lasts_what_the_manual_says(probe, command, body):
    assert probe.window(command) == EMPTY + body


def test_counts_are_the_same_every_time(probe):
    assert len({probe.window("l") for _ in range(20)}) == 1


def test_stopping_a_run_changes_no_count(probe):
    done = threading.Event()
    n_stops = 0

    def disturb():
        nonlocal n_stops
        while not done.is_set():
            probe.engine._hook.request_stop()
            n_stops += 1

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        width = probe.window("L")
    finally:
        done.set()
        thread.join()
    assert n_stops > 100
    assert width == EMPTY + 2 + 2 * LONG_LOOP + (LONG_LOOP - 1) * P


def test_cycle_counter_measures_what_the_pin_shows(probe):
    width = probe.window("c")
    # The counter is read before and after the call: in addition push, bl pin_high and that function, then pop, and a
    # few cycles around the reading.
    count = int(probe.recorder.received.split(b"c=")[1][:8], 16)
    assert 0 < count - width < 40


def test_cycle_counter_stands_still_in_sleep(bench, board):
    counts = {}
    for counts_in_sleep in (False, True):
        one = bench(board=board | {"emulation": board["emulation"] | {"cyccnt_counts_in_sleep": counts_in_sleep}})
        one.boot()
        one.tell("C")
        counts[counts_in_sleep] = int(one.recorder.received.split(b"c=")[1][:8], 16)
    assert counts[True] - counts[False] == 1000


def test_time_line_is_complete_and_in_order(probe):
    for command in "lNw":
        probe.tell(command)
    ends, currents = probe.recorder.line()
    assert ends.dtype == np.uint64
    assert currents.dtype == np.float32
    assert np.all(np.diff(ends.astype(np.int64)) > 0)
    assert int(ends[-1]) == probe.engine.status()["cycles"] == probe.recorder.parks[-1][0]
    handed_over = 0
    for kind, cycle in probe.recorder.order:
        if kind == "current":
            handed_over = cycle
        else:
            assert cycle == handed_over


def test_current_follows_the_kind_of_instruction(probe, board):
    i = board["emulation"]["currents_a"]
    probe.window("N")
    (start, _), (stop, _) = probe.recorder.edges
    refill_and_calls = (P + 1 + P + 1) * i["branch"]
    pin_low = 1 * i["alu"] + 2 * i["load"] + 1 * i["store"]
    assert probe.recorder.charge(start, stop) == pytest.approx(5000 * i["nop"] + refill_and_calls + pin_low, rel=1e-6)


def test_sleep_draws_the_sleep_current(probe, board):
    probe.window("w")
    (start, _), (stop, _) = probe.recorder.edges
    ends, currents = probe.recorder.line()
    steps = np.diff(ends.astype(np.int64), prepend=0)
    asleep = (steps == 1000) & (ends > start) & (ends <= stop)
    assert currents[asleep] == pytest.approx([board["emulation"]["currents_a"]["sleep"]])


def test_long_window_keeps_its_charge_when_entries_are_joined(probe, board):
    i = board["emulation"]["currents_a"]
    probe.window("L")
    (start, _), (stop, _) = probe.recorder.edges
    loop = LONG_LOOP * i["alu"] + LONG_LOOP * i["branch"] + (LONG_LOOP - 1) * P * i["branch"]
    frame = 2 * i["load"] + (P + 1 + P + 1) * i["branch"] + i["alu"] + 2 * i["load"] + i["store"]
    assert probe.recorder.charge(start, stop) == pytest.approx(loop + frame, rel=1e-6)
