"""What all tests need of the process that runs them, and what forks commands and simulators off."""

import signal
from collections.abc import Iterator

import pytest

from .sim.forked import Forker


def pytest_configure() -> None:
    """Hear Ctrl-C, and let what tests start hear it: a shell lets what it runs in the background ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    """Give what forks commands and simulators off."""
    forker = Forker()
    yield forker
    forker.close()
