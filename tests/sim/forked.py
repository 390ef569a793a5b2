"""The command in a process of its own that need not import everything again: forked off one that has done so.

Run as a script it is that one: a line of JSON a command comes in, the process's number and its wait status go out.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import selectors
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


class Forker:
    """The process that has imported everything."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, arguments: list[str], cwd: Path, environment: dict[str, str], timeout_s: float):
        """Run the command as subprocess.run would, with its output captured and nothing to read."""
        assert self._process.stdin is not None
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            asked = {"arguments": arguments, "cwd": str(cwd), "environment": environment, "to": [str(out), str(err)]}
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            pid = self._number(60.0)
            try:
                status = os.waitstatus_to_exitcode(self._number(timeout_s))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._number(60.0)
                raise subprocess.TimeoutExpired(arguments, timeout_s, out.read_bytes(), err.read_bytes()) from None
            return subprocess.CompletedProcess(arguments, status, out.read_text(), err.read_text())

    def close(self) -> None:
        """End it."""
        self._process.communicate()

    def _number(self, timeout_s: float) -> int:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                raise TimeoutError
        # Without a buffer, in which the next number would be hidden from the selector.
        return int(self._process.stdout.readline())


def _become(asked) -> None:
    """Make this process what a shell would have started."""
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    tempfile.tempdir = None  # chosen by the environment when it is first needed
    for number, name in enumerate((os.devnull, *asked["to"])):
        file = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.path[0] = ""
    sys.argv = ["labctl", *asked["arguments"]]


def _import_everything() -> None:
    import labctl

    for module in pkgutil.walk_packages(labctl.__path__, "labctl."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    from numba.core.registry import cpu_target

    # What the first call of a compiled function would make each of them do.
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


def _serve() -> None:
    answers = os.dup(1)
    os.set_inheritable(answers, False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _import_everything()
    while asked := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            _become(json.loads(asked))
            from labctl.cli import main

            main()
        os.write(answers, b"%d\n" % pid)
        os.write(answers, b"%d\n" % os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    _serve()
