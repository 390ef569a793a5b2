"""What the tests of the emulated bench share: the firmware image, and one measured folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labctl.simulation import default_elf

BOARD = "stm32vldiscovery"


@pytest.fixture(scope="session")
def elf() -> Path:
    """Give the board's firmware, or skip where `make firmware` was not run."""
    path = default_elf(BOARD)
    if not path.is_file():
        pytest.skip(f"{path} is not built: run `make firmware`")
    return path


def run_labctl(*arguments: str, cwd: Path, status: int = 0, timeout_s: float = 110.0, **environment: str):
    """Run the command as a person does, in its own process; check its exit status."""
    done = subprocess.run(
        [sys.executable, "-c", "from labctl.cli import main; main()", *arguments],
        cwd=cwd,
        env={**os.environ, "XDG_CONFIG_HOME": str(cwd), **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture(scope="session")
def labctl():
    """Give the command as a function."""
    return run_labctl


@pytest.fixture(scope="session")
def measured(elf, labctl, tmp_path_factory):
    """Measure two operations once; give the folder and the printed object."""
    folder = tmp_path_factory.mktemp("measured")
    done = labctl(
        "measure", "--shunt", "1.3", "--op", "sha256", "--op", "aes-128-ctr", "--json", "--out", "out", cwd=folder
    )
    return folder, json.loads(done.stdout)
