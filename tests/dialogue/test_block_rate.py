"""A deep-memory block must come at no less than a quarter of the rate of a bare socket loop, in the same run."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "block_transfer.py"


def test_a_24_mb_block_is_no_slower_than_a_quarter_of_a_bare_loop():
    command = [sys.executable, str(BENCHMARK), "--bytes", "24000000", "--repeats", "7", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    result = json.loads(done.stdout)
    assert len(result["raw_s"]) == len(result["link_s"]) == 7
    assert min(result["raw_s"]) / min(result["link_s"]) >= 0.25
