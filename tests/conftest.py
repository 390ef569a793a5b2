"""What all tests need of the process that runs them."""

import signal


def pytest_configure() -> None:
    """Hear Ctrl-C, and let what tests start hear it: a shell lets what it runs in the background ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
