"""Every window of a series begins from the same state, so that runs differ by nothing but the scope's noise."""

import numpy as np
import pytest

from labctl.bench import open_bench
from labctl.frontend import choose_range, look
from labctl.measure import N_NULL_WINDOWS
from labctl.model import Operation
from labctl.series import take_series
from labctl.simulation import default_elf


def nobody(sentence):
    raise AssertionError(sentence)


@pytest.mark.parametrize("board", ["stm32vldiscovery", "stm32f4discovery"])
def test_what_the_core_draws_is_the_same_in_each_window_and_the_scopes_samples_still_dither(board):
    if not default_elf(board).is_file():
        pytest.skip(f"the firmware of {board} is not built: run `make firmware`")
    null = Operation("null", n_runs=N_NULL_WINDOWS)
    with open_bench(None, board_name=board, overrides=lambda file: file, ask=nobody, seed=1) as bench:
        bench.dut.hello()
        trial = look(bench, null)
        series = take_series(bench, null, choose_range(bench, [trial]), trial.duration_s)
    # The charge is the core's own; the energy behind the shunt tells what the capacitors held at the start.
    for key in ("charge_c", "energy_dut_j"):
        values = np.array([window[key] for window in series.truth])
        assert len(values) == N_NULL_WINDOWS
        assert np.ptp(values) / values.mean() < 1e-5, key
    # Of 256 lengths of the random pause, in steps of four cycles or finer, 100 draws give half of the 64 or more.
    starts = np.array([window["start_s"] for window in series.truth])
    assert len(set(np.rint(np.diff(starts) * bench.board["clock_hz"]).astype(int))) > 32
