"""The benchmark in small: the same table as the float64 script, much faster in the same run, and in little memory."""

import importlib.util
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "analysis_speed.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("analysis_speed", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_pass_over_codes_beats_float64_and_agrees_with_it(benchmark, tmp_path):
    # compare() raises where the tables differ by more than 1e-6.
    best = benchmark.compare(20_000_000, 200, 1, tmp_path)
    assert best["n_windows"] == 200
    naive = best["numpy plain"]
    for form in ("plain", "packed"):
        ours = best[f"labctl {form}"]
        assert naive["elapsed_s"] > 3 * ours["elapsed_s"], form
        # Float64 takes tens of bytes a sample; ours a few blocks, however long the record is.
        assert ours["memory_bytes"] < 100e6 < naive["memory_bytes"], form
