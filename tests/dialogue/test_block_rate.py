"""A deep-memory block: no slower than a part of a bare socket loop in the same run, and hardly larger than itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "block_transfer.py"


@pytest.fixture(scope="module")
def result():
    command = [sys.executable, str(BENCHMARK), "--bytes", "24000000", "--repeats", "7", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(("transport", "least_ratio"), [("socket", 0.25), ("hislip", 0.5)])
def test_a_24_mb_block_is_not_much_slower_than_a_bare_loop(result, transport, least_ratio):
    raw_s, link_s = result["times_s"]["raw"], result["times_s"][transport]
    assert len(raw_s) == len(link_s) == 7
    assert min(raw_s) / min(link_s) >= least_ratio


@pytest.mark.parametrize("transport", ["socket", "hislip"])
def test_a_24_mb_block_takes_no_more_memory_than_itself_and_1_mib(result, transport):
    assert 0 <= result["extra_bytes"][transport] <= 1 << 20
