"""What the tests of the emulated bench share: the firmware image, and one measured folder."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

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


@pytest.fixture(scope="session", autouse=True)
def simulators(forker):
    """Let simulators that a test starts itself be forked off too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labctl.simulation.sys", SimpleNamespace(executable=str(forker.simulator)))
        yield


@pytest.fixture(scope="session")
def labctl(forker):
    """Give the command as a function: it runs in its own process, as a person's does; its exit status is checked."""

    def run(*arguments: str, cwd: Path, status: int = 0, timeout_s: float = 110.0, **environment: str):
        environment = {**os.environ, "XDG_CONFIG_HOME": str(cwd), **environment}
        done = forker.run(list(arguments), cwd, environment, timeout_s)
        assert done.returncode == status, done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def measured(elf, labctl, tmp_path_factory):
    """Measure two operations once; give the folder and the printed object."""
    folder = tmp_path_factory.mktemp("measured")
    done = labctl(
        "measure", "--shunt", "1.3", "--op", "sha256", "--op", "aes-128-ctr", "--json", "--out", "out", cwd=folder
    )
    return folder, json.loads(done.stdout)
