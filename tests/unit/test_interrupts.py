"""Ctrl-C is held back where asked, delivered afterwards, and not lost where Python swallows its exception."""

import signal
import subprocess
import sys
import threading
import weakref

import pytest

from labctl import interrupts


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def handler():
    """Give Python's own handler, whatever the test runner has, and put back what was there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    interrupts.reset()


def test_held_back_until_the_block_ends():
    done = []

    @interrupts.held()
    def work():
        press()
        press()
        done.append("whole")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nothing_happens_where_nothing_is_pressed():
    with interrupts.held():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        press()


def test_the_outermost_block_delivers():
    done = []

    @interrupts.held()
    def inner():
        press()
        done.append("inner")

    @interrupts.held()
    def outer():
        inner()
        done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        outer()
    assert done == ["inner", "outer"]


def test_an_error_of_the_block_is_kept_as_the_context():
    @interrupts.held()
    def work():
        press()
        raise OSError("disk full")

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    assert isinstance(caught.value.__context__, OSError)
    with pytest.raises(OSError, match="disk full"), interrupts.held():
        raise OSError("disk full")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_handler_that_was_there_gets_the_signal():
    got = []
    signal.signal(signal.SIGINT, lambda number, frame: got.append(number))
    with interrupts.held():
        press()
        assert got == []
    assert got == [signal.SIGINT]


def test_an_ignored_signal_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.held():
        press()
    interrupts.install()
    press()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    interrupts.check()


def test_other_threads_change_nothing():
    seen = []

    def work():
        interrupts.install()
        with interrupts.held():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_an_installed_handler_raises_and_leaves_a_mark_until_reset():
    interrupts.install()
    interrupts.check()
    with pytest.raises(KeyboardInterrupt):
        press()
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()
    interrupts.reset()
    interrupts.check()


def test_installed_and_held():
    @interrupts.held()
    def work():
        press()
        interrupts.check()

    interrupts.install()
    with pytest.raises(KeyboardInterrupt):
        work()
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()


def test_a_handler_of_somebody_else_is_left():
    def somebody(number, frame):
        raise NotImplementedError

    signal.signal(signal.SIGINT, somebody)
    interrupts.install()
    assert signal.getsignal(signal.SIGINT) is somebody


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_swallows_is_found_by_check():
    class Thing:
        pass

    interrupts.install()
    thing = Thing()
    reference = weakref.ref(thing, lambda _: press())
    del thing
    assert reference() is None
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()


def test_a_library_that_is_imported_leaves_the_handler_as_it_is():
    code = (
        "import signal, labctl.store, labctl.interrupts, sys; "
        "sys.exit(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
