"""Ctrl-C at the right moment: held back where it would do harm, and remembered where Python would swallow it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_pressed = False


class Wish:
    """Somebody's wish that the work come to its end."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def at_second(told: Callable[[], None] = lambda: None) -> Iterator[Wish]:
    """Let the first Ctrl-C, or SIGTERM, be no more than a wish, and the second do what Ctrl-C does.

    `told` is called at the first, inside the signal's handler: it takes no lock and uses no stream of Python's. Does
    nothing outside the main thread; an ignored SIGINT stays so.
    """
    wish = Wish()
    if not _in_main_thread():
        yield wish
        return

    def pressed(number: int, frame: FrameType | None) -> None:
        if wish.asked:
            _interrupt(number, frame)
        wish.asked = True
        told()

    heard = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None):
        heard.append(signal.SIGINT)
    before = [(number, signal.signal(number, pressed)) for number in heard]
    try:
        yield wish
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block, then let it do what it would have done: KeyboardInterrupt.

    For code that an exception at any line would break: callbacks of C libraries, a file half written. Nests: the
    outermost block delivers. Does nothing outside the main thread, where Python delivers no signal, and where SIGINT
    is ignored. An error of the block itself becomes the context of the KeyboardInterrupt.
    """
    if not _in_main_thread() or signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
        yield
        return
    noted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if noted:
            signal.raise_signal(signal.SIGINT)


def install() -> None:
    """Make Ctrl-C leave a mark for `check` beside raising KeyboardInterrupt: for a command line, not for a library.

    Python prints and drops an exception that is raised inside `__del__` or the callback of a weak reference, and with
    it the interrupt. Does nothing outside the main thread, and where SIGINT is ignored or has a handler already.
    """
    if _in_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def check() -> None:
    """Raise KeyboardInterrupt where Ctrl-C was pressed since `reset`, whether or not its exception was swallowed."""
    if _pressed:
        raise KeyboardInterrupt


def reset() -> None:
    """Forget that Ctrl-C was pressed."""
    global _pressed  # noqa: PLW0603  (a signal handler belongs to the process, and so does its mark)
    _pressed = False


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _pressed  # noqa: PLW0603
    _pressed = True
    signal.default_int_handler(number, frame)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
