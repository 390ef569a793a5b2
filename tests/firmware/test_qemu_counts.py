"""The M3 image executes the same instructions in two emulators: this project's DUT, and QEMU's stm32vldiscovery."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "qemu_counts" / "compare.py"
ROOT = SCRIPT.parents[3]


@pytest.mark.sweep
def test_instructions_between_the_edges_equal_those_of_qemu(build):
    command = [sys.executable, SCRIPT, "--json", "--elf", build(), "--build", ROOT / "build"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.stdout, done.stderr
    counts = json.loads(done.stdout)
    assert len(counts) > 50
    assert {name: here for name, (here, _) in counts.items()} == {name: there for name, (_, there) in counts.items()}
    for name in ("sha256", "aes-128-ctr", "ecdsa-p256.sign", "ecdsa-p256.verify"):
        print(f"{name}: {counts[name][0]:,} instructions in both emulators")
