"""Several benches at a time: a process each, and one that supervises them and passes on what they tell."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from labctl import interrupts
from labctl.campaign.model import Attempt, Item
from labctl.campaign.work import Ending, Show
from labctl.interrupts import Wish

# Works on one bench.
Job = Callable[[Show, Wish], Ending]
# How soon a wish to end is passed on, and the death of the supervisor noticed.
_HEAR_S = 0.2
_N_TOLD_MAX = 2
# How long a worker that was told to stop at once may take to leave its instruments safe.
STOP_TIMEOUT_S = 20.0


class _Forward(Show):
    """Sends what happens to the process that shows it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def began(self, item: Item, attempt: int) -> None:
        self._send("began", item, attempt)

    def stage(self, text: str) -> None:
        self._send("stage", text)

    def ended(self, item: Item, attempt: Attempt) -> None:
        self._send("ended", item, attempt)

    def note(self, text: str) -> None:
        self._send("note", text)

    def _send(self, *message: Any) -> None:
        with contextlib.suppress(OSError):  # nobody is there to be shown anything
            self._connection.send(message)


def run_all(jobs: Mapping[str, Job], show: Show, wish: Wish) -> dict[str, Ending]:
    """Run the job of each bench, by its name: a single one here, several in a process each.

    A wish to end is passed on to all, and so is the stop of one for safety. Raises KeyboardInterrupt once all have
    stopped at once, and the first error that a job raised once all others have come to their end.
    """
    if len(jobs) == 1:
        return {name: job(show, wish) for name, job in jobs.items()}
    workers = _Workers(show, wish)
    try:
        for name, job in jobs.items():
            workers.start(name, job)
        workers.supervise()
    finally:
        workers.stop()
    if workers.errors:
        raise workers.errors[0]
    return workers.endings


class _Workers:
    def __init__(self, show: Show, wish: Wish) -> None:
        self._show = show
        self._wish = wish
        self._live: dict[Connection, BaseProcess] = {}
        self._n_told = 0
        self.endings: dict[str, Ending] = {}
        self.errors: list[Exception] = []

    def start(self, name: str, job: Job) -> None:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(job, theirs, self._wish), name=name)
        process.start()
        theirs.close()
        self._live[ours] = process

    def supervise(self) -> None:
        """Pass on what the workers tell, until all have ended."""
        while self._live:
            for ready in wait(list(self._live), _HEAR_S):
                assert isinstance(ready, Connection)
                self._hear(ready)
            over = bool(self.errors) or any(ending.kind == "safety" for ending in self.endings.values())
            if not self._n_told and (self._wish.asked or over):
                self._tell()

    def stop(self) -> None:
        """See to it that no worker is left: told twice, they leave at once, and most have ended by themselves."""
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while self._live and self._n_told < _N_TOLD_MAX:
            self._tell()
            time.sleep(_HEAR_S)
        for connection, process in self._live.items():
            process.join(max(0.0, deadline_s - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
            connection.close()

    def _hear(self, connection: Connection) -> None:
        process = self._live[connection]
        name = process.name
        try:
            kind, *rest = connection.recv()
        except EOFError:
            process.join()
            connection.close()
            del self._live[connection]
            if process.exitcode:
                text = f"the worker of bench {name} ended unforeseen, with status {process.exitcode}"
                self.endings[name] = Ending("lost", text)
                self._show.note(text)
            return
        if kind == "ending":
            self.endings[name] = rest[0]
        elif kind == "error":
            self.errors.append(rest[0])
        else:
            getattr(self._show, kind)(*rest)

    def _tell(self) -> None:
        self._n_told += 1
        for process in self._live.values():
            if process.is_alive() and process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)


def _work(job: Job, connection: Connection, inherited: Wish) -> None:
    """Run one job in a process of its own, which Ctrl-C reaches through its supervisor alone."""
    os.setsid()
    interrupts.reset()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=_leave_with, args=(os.getppid(),), name="supervisor", daemon=True).start()
    forward = _Forward(connection)
    with interrupts.at_second() as wish:
        wish.asked = inherited.asked
        try:
            connection.send(("ending", job(forward, wish)))
        except KeyboardInterrupt:
            connection.send(("ending", Ending("interrupted", "stopped at once")))
        except Exception as error:  # noqa: BLE001 - the supervisor raises it
            connection.send(("error", error))


def _leave_with(supervisor: int) -> None:
    """Stop at once, instruments safe, when the supervisor is gone."""
    while os.getppid() == supervisor:
        time.sleep(_HEAR_S)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_HEAR_S)
