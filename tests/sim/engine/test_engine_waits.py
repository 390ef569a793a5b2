"""What the flash adds: counts by hand from the settings of ACR, by the rules that docs/cycle-model.md states."""

from __future__ import annotations

import pytest

from instruments.sim.dut.image import read_image

# Bits of ACR: F0 prefetch; F4 prefetch, instruction cache, data cache.
PRFTBE = 1 << 4
PRFTEN, ICEN, DCEN = 1 << 8, 1 << 9, 1 << 10
IC, DC = 2, 1
# Taken branches of any window: the return from pin_high, bl pin_low.
N_TAKEN = 2
# Reads of the window "r": its literal and five of the table, from two lines.
N_READS = 6


def added(one, command: str, acr: int, **ccr: int) -> int:
    """Give what settings add to a window's cycles."""
    one.tell("x000")
    bare = one.window(command)
    one.tell(f"x{acr:03X}")
    if ccr:
        one.tell(f"y{ccr['ccr']:03X}")
    return one.window(command) - bare


def n_lines(one, board, elf, command_function: str, line_bytes: int, body_bytes: int) -> int:
    """Count the lines that a window's code enters: from the return into it to its second bl, then pin_low."""
    functions = {name: start for start, _, name in read_image(elf, board["memory"]["flash"]).functions}
    # push (2 bytes) and bl pin_high (4) come before, bl pin_low (4) belongs to it.
    start = functions[command_function] + 6
    stop = start + body_bytes + 4
    pin_low = functions["pin_low"]
    return sum(
        (last - 1) // line_bytes - first // line_bytes + 1 for first, last in ((start, stop), (pin_low, pin_low + 14))
    )


def test_f0_prefetch_hides_all_but_taken_branches_and_data(probe_on):
    one = probe_on("cortex-m0", "stm32f0", line_bytes=4)
    assert added(one, "n", PRFTBE | 1) == N_TAKEN
    # 999 jumps back.
    assert added(one, "l", PRFTBE | 1) == N_TAKEN + 999
    assert added(one, "r", PRFTBE | 1) == N_TAKEN + N_READS
    assert added(one, "r", PRFTBE) == 0


def test_f0_without_prefetch_waits_for_every_line(probe_on, board, build_probe):
    one = probe_on("cortex-m0", "stm32f0", line_bytes=4)
    lines = n_lines(one, board, build_probe("cortex-m0"), "window_nops", 4, 200)
    assert lines == 200 // 4 + 2 + 4
    assert added(one, "n", 1) == lines


def test_f4_caches_leave_only_data_that_is_new(probe_on):
    one = probe_on("cortex-m4", "stm32f4", line_bytes=16, data_lines=8)
    on = PRFTEN | ICEN | DCEN | 5
    assert added(one, "n", on) == 0
    assert added(one, "l", on) == 0
    # The literal's line and two of the table's.
    assert added(one, "r", on) == 3 * 5
    # Eight lines stay through three rounds, nine drive each other out.
    assert added(one, "8", on) == (1 + 8) * 5
    assert added(one, "9", on) == (1 + 3 * 9) * 5
    assert added(one, "r", PRFTEN | ICEN | 5) == N_READS * 5


def test_f4_without_cache_waits_at_branches_and_without_prefetch_for_every_line(probe_on, board, build_probe):
    one = probe_on("cortex-m4", "stm32f4", line_bytes=16, data_lines=8)
    assert added(one, "n", PRFTEN | DCEN | 5) == N_TAKEN * 5
    assert added(one, "n", DCEN | 5) == 5 * n_lines(one, board, build_probe("cortex-m4"), "window_nops", 16, 200)


def test_f7_counts_nothing_with_the_cores_caches_and_all_without(probe_on, board, build_probe):
    one = probe_on("cortex-m7", "stm32f7", line_bytes=32, data_lines=512)
    lines = n_lines(one, board, build_probe("cortex-m7"), "window_nops", 32, 200)
    assert added(one, "n", 7, ccr=0) == 7 * lines
    assert added(one, "n", 7, ccr=IC) == 0
    assert added(one, "r", 7, ccr=IC) == 7 * N_READS
    assert added(one, "r", 7, ccr=IC | DC) == 0


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4", "cortex-m7"])
def test_a_read_from_flash_in_an_it_block_is_executed_as_without_the_model(probe_on, core):
    """The emulator leaves the IT state behind when it tells of a read: the branch target would be skipped."""
    one = probe_on(core, "stm32f4", line_bytes=16, data_lines=8)
    one.tell("t")
    one.tell("x005")
    one.tell("t")
    assert bytes(one.recorder.received).endswith(b"t=00000007\nt=00000007\n")
