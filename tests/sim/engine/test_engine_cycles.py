"""Cycles and currents of known instruction sequences, counted by hand from the cores' manuals.

Cortex-M0: ARM DDI 0432, table 3-1. M3: ARM DDI 0337, table 3-1 and section 3.3.2; P, the refill after a taken branch,
is 2 (the manual: 1 to 3); UMULL 4 (3 to 5), UMLAL 5 (4 to 7), UDIV 7 (2 to 12). M4: ARM DDI 0439, the same but for
multiplications. M7: half of the M4's, each block rounded up: this model's assumption, not a manual's.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

P = 2
# Between the edges of an empty window: the return of pin_high refills (its bx lr itself is counted before the edge, as
# that of pin_low is at the other end), then bl pin_low, movs, movs, lsls, adds, lsls, str, bx lr.
EMPTY = P + (1 + P) + 5 + 1 + 1
LONG_LOOP = 11_500_000

# movs or movw, then 1000 x subs and bne, all but the last taken.
LOOP = 1000 * 2 + 999 * P
# By command: the cycles beyond those of an empty window.
ARMV7M = {
    "0": 0,
    "n": 100,
    # Longer than one block of the emulator can be, over several pages.
    "N": 5000,
    # bl, push 2, movs, pop 2 with a refill.
    "g": (1 + P) + 3 + 1 + (3 + P),
    "l": 1 + LOOP,
    # push 4, ldr literal, movs, str, str by register, ldr, ldrb, ldrd, stm 3, pop 4.
    "m": 5 + 2 + 1 + 1 + 2 + 2 + 2 + 3 + 4 + 5,
    # movs, cmp, ite, addeq, addne (skipped: a cycle), nop.
    "i": 6,
    # 46 million cycles between two edges: the time line is joined and fetched on the way. ldr, loop.
    "L": 2 + 2 * LONG_LOOP + (LONG_LOOP - 1) * P,
    # ldr, mov, str, movs, str, movs, str, wfi; 1000 ticks from 0 to 0; ldr, movs, str, ldr, movs, lsls, str.
    "w": 2 + 1 + 5 * 1 + 1 + 1000 + 2 + 1 + 1 + 2 + 1 + 1 + 1,
    # ldr literal and five more.
    "r": 6 * 2,
}
# movs, movs, muls, mla, umull, umlal, udiv.
M3 = ARMV7M | {"a": 1 + 1 + 1 + 2 + 4 + 5 + 7}
M4 = ARMV7M | {"a": 1 + 1 + 1 + 1 + 1 + 1 + 7}
# As for the M3, but bl 4, stores 2; bx lr 3 of which 2 come with the jump.
EMPTY_M0 = 2 + 4 + 5 + 2 + 1
M0 = {
    "0": 0,
    "n": 100,
    "N": 5000,
    # bl, push 2, movs, pop 2 with the program counter.
    "g": 4 + 3 + 1 + (4 + 2),
    "l": 2 + LOOP,
    # push 4, ldr literal, movs, str, str by register, ldr, ldrb, stm 3, pop 4.
    "m": 5 + 2 + 1 + 2 + 2 + 2 + 2 + 4 + 5,
    # movs, movs, muls, mrs, dmb, dsb, isb, adds.
    "a": 1 + 1 + 1 + 4 + 4 + 4 + 4 + 1,
    "L": 2 + 2 * LONG_LOOP + (LONG_LOOP - 1) * P,
    # As above, but 999 comes from a literal; WFI takes two, stores two.
    "w": 2 + 2 + 2 + 1 + 2 + 1 + 2 + 2 + 1000 + 2 + 1 + 2 + 2 + 1 + 1 + 2,
    "r": 6 * 2,
}


def halves(*blocks: int) -> int:
    """Add up blocks given in half cycles, each rounded up to a whole one."""
    return sum(-(-block // 2) for block in blocks)


# pin_low: the refill of bl, five moves and shifts, str, bx lr.
PIN_LOW_M7 = 2 + 5 + 1 + 1
# By command: the whole window, block by block, in half cycles. A block begins with the refill of the jump to it.
M7 = {
    # bl pin_low after the return from pin_high.
    "0": halves(2 + 1, PIN_LOW_M7),
    "n": halves(2 + 100 + 1, PIN_LOW_M7),
    # To the call; the function; from its return.
    "g": halves(2 + 1, 2 + 3 + 1 + 3, 2 + 1, PIN_LOW_M7),
    # movw and the first round; 999 rounds of a jump each; bl behind the loop.
    "l": halves(2 + 1 + 2) + 999 * halves(2 + 2) + halves(1, PIN_LOW_M7),
    "m": halves(2 + 5 + 2 + 1 + 1 + 2 + 2 + 2 + 3 + 4 + 5 + 1, PIN_LOW_M7),
    # Six multiplications and moves; udiv is not halved.
    "a": halves(2 + 6 + 2 * 7 + 1, PIN_LOW_M7),
}


@pytest.mark.parametrize("command", M3)
def test_window_lasts_what_the_manual_says(probe, command):
    assert probe.window(command) == EMPTY + M3[command]


@pytest.mark.parametrize("command", M0)
def test_window_on_a_cortex_m0(probe_on, command):
    assert probe_on("cortex-m0").window(command) == EMPTY_M0 + M0[command]


@pytest.mark.parametrize("command", M4)
def test_window_on_a_cortex_m4(probe_on, command):
    assert probe_on("cortex-m4").window(command) == EMPTY + M4[command]


@pytest.mark.parametrize("command", M7)
def test_window_on_a_cortex_m7(probe_on, command):
    assert probe_on("cortex-m7").window(command) == M7[command]


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
    pin_low = 5 * i["alu"] + 1 * i["store"]
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
    frame = 2 * i["load"] + (P + 1 + P + 1) * i["branch"] + 5 * i["alu"] + i["store"]
    assert probe.recorder.charge(start, stop) == pytest.approx(loop + frame, rel=1e-6)
