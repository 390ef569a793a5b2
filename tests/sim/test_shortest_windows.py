"""The shortest windows there are, `null` on every board: their charge comes out of the decoupling, nearly all of it."""

import pytest
from scipy import stats

from labctl import boards
from labctl.analysis.result import analyze
from labctl.bench import open_bench
from labctl.measure import Plan, measure
from labctl.model import Operation
from labctl.simulation import default_elf
from labctl.store import open_capture, read_truth


def nobody(sentence):
    raise AssertionError(sentence)


def errors(board, seed, folder):
    """Measure `null` on an emulated bench; give how far duration and energy are from the truth, over what is stated."""
    if not default_elf(board).is_file():
        pytest.skip(f"the firmware of {board} is not built: run `make firmware`")
    with open_bench(
        None, board_name=board, overrides=lambda f: f.with_values(shunt_ohm=1.3), ask=nobody, seed=seed
    ) as bench:
        (path,) = measure(bench, Plan((Operation("null", n_runs=20),), folder))
    truth = read_truth(path)
    assert truth is not None
    with open_capture(path) as capture:
        result = analyze(capture)
    path.unlink()
    return (
        (result.duration_mean_s - truth["duration_s"]) / result.duration_expanded_s,
        (result.energy_mean_j - truth["energy_j"]) / result.energy_expanded_j,
    )


# 222 ns and 3.54 us: a thirtieth, and half, of the time constant.
@pytest.mark.parametrize("board", ["stm32f7discovery", "stm32vldiscovery"])
def test_the_truth_is_within_what_is_stated(board, tmp_path):
    duration, energy = errors(board, 3, tmp_path)
    assert abs(duration) <= 1
    assert abs(energy) <= 1


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("board", boards.names())
def test_the_truth_is_within_what_is_stated_on_ten_benches(board, tmp_path):
    found = [errors(board, seed, tmp_path) for seed in range(1, 11)]
    # Ten counts, of two quantities on five boards: together one false alarm in 1000, were every interval right.
    least = int(stats.binom.ppf(1e-4, 10, 0.95))
    for quantity, values in zip(("duration", "energy"), zip(*found, strict=True), strict=True):
        assert sum(abs(v) <= 1 for v in values) >= least, quantity
