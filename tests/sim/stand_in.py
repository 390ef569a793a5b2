"""Stands in for `python -m instruments.sim`: has a simulator forked off with its own streams, and ends as that does.

Signals are passed on. Whatever ends this process ends the simulator; so does the end of the one that started it.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys

POLL_S = 0.1


def _pass_on(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        os.kill(pid, number)


def _main() -> None:
    parent = os.getppid()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(sys.argv[1])
        asked = {"arguments": None, "cwd": os.getcwd(), "environment": dict(os.environ)}
        socket.send_fds(connection, [json.dumps(asked).encode()], [0, 1, 2])
        # Whoever reads them sees the end of the simulator's.
        for number in (0, 1, 2):
            os.close(number)
        answers = connection.makefile("rb", buffering=0)
        pid = int(answers.readline())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: _pass_on(pid, number))
        while not select.select([connection], [], [], POLL_S)[0]:
            if os.getppid() != parent:
                _pass_on(pid, signal.SIGTERM)
        status = os.waitstatus_to_exitcode(int(answers.readline()))
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL does what it does by default
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


_main()
