"""The chips' models under the real firmware: known answers on every board, and what the flash adds where it must."""

from __future__ import annotations

import pytest

from labctl import boards

# By board the images that together hold every operation.
IMAGES = [(name, image) for name in boards.names() for image in boards.load(name)["images"]]
# SM4 looks its 256-byte table up four times in each of 32 rounds; sm4-ctr encrypts and decrypts.
BYTES = 256
N_LOOKUPS = 2 * BYTES // 16 * 32 * 4

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(("board", "image"), IMAGES)
def test_known_answers_are_right_on_every_board(build, emulate, board, image):
    device = emulate(build(board=board, **({} if image == "all" else {"image": image})), board)
    operations = device.operations()
    assert operations[:3] == ("null", "busy", "idle")
    assert len(operations) > 3
    assert device.self_test() > 0


def window_cycles(build, emulate, board: str, clock_hz: int | None = None, **settings: str) -> float:
    """Cycles between the trigger's edges while SM4 works, in the clock that the DUT really has."""
    hz = clock_hz or boards.load(board)["clock_hz"]
    clock = {"clock": str(clock_hz)} if clock_hz else {}
    device = emulate(build(board=board, image="op-sm4-ctr", **clock, **settings), board, clock_hz)
    device.self_test("sm4-ctr")
    device.prepare("sm4-ctr", bytes=BYTES, runs=3)
    device.behind_the_scenes("windows")
    assert device.go().check == "pass"
    windows = device.behind_the_scenes("windows")["windows"]
    durations_s = {round(window["duration_s"], 12) for window in windows}
    assert len(windows) == 3
    assert len(durations_s) == 1
    return durations_s.pop() * hz


def saved_by_ram(build, emulate, board: str, **settings) -> float:
    flash = window_cycles(build, emulate, board, **settings)
    return flash - window_cycles(build, emulate, board, tables="ram", **settings)


def test_tables_in_flash_cost_the_f0_a_wait_state_a_lookup(build, emulate):
    """RM0091, FLASH_ACR: one wait state at 48 MHz, none at 24 MHz; the prefetch buffer is for code."""
    assert saved_by_ram(build, emulate, "stm32f0discovery") == pytest.approx(N_LOOKUPS, abs=1)
    assert saved_by_ram(build, emulate, "stm32f0discovery", clock_hz=24_000_000) == pytest.approx(0, abs=1)


def test_tables_in_flash_cost_the_f4_what_its_data_cache_misses(build, emulate):
    """RM0090: five wait states at 168 MHz; eight lines of 16 bytes hold half of the table."""
    saved = saved_by_ram(build, emulate, "stm32f4discovery")
    assert 0.25 * 5 * N_LOOKUPS < saved < 5 * N_LOOKUPS


@pytest.mark.parametrize("board", ["stm32vldiscovery", "stm32f7discovery"])
def test_tables_cost_the_same_where_the_flash_does_not_wait(build, emulate, board):
    """No wait states on the STM32F100; on the STM32F7 the table fits the core's data cache."""
    assert saved_by_ram(build, emulate, board) == pytest.approx(0, abs=1)


def test_fewer_cycles_at_a_clock_without_wait_states(build, emulate):
    fast = window_cycles(build, emulate, "stm32f0discovery")
    slow = window_cycles(build, emulate, "stm32f0discovery", clock_hz=24_000_000)
    assert slow < fast - N_LOOKUPS
