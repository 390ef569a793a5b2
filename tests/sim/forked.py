"""Commands and simulators in processes of their own that need not import everything again: forked off one that has.

Run as a script, it is that one. Whoever wants a process connects to its socket and hands over what to run and the
streams to do it with; the process's number comes back, and its wait status once it has ended. Closing the connection
before kills it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import IO

MESSAGE_BYTES_MAX = 1 << 17


class Forked:
    """A command under way, to be handled like one of subprocess.Popen."""

    def __init__(self, address: str, arguments: list[str], cwd: Path, environment: dict[str, str], one_stream: bool):
        self.args = arguments
        self.returncode: int | None = None
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the connection
        self._err = self._out if one_stream else tempfile.TemporaryFile()  # noqa: SIM115
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(address)
        asked = {"arguments": arguments, "cwd": str(cwd), "environment": environment}
        with open(os.devnull) as nothing:
            streams = [stream.fileno() for stream in (nothing, self._out, self._err)]
            socket.send_fds(self._connection, [json.dumps(asked).encode()], streams)
        # Without a buffer, in which the next number would be hidden from select.
        self._answers = self._connection.makefile("rb", buffering=0)
        self.pid = int(self._answers.readline())

    def poll(self) -> int | None:
        """Tell its exit status if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0, _text(self._out), _text(self._err))
            self.returncode = os.waitstatus_to_exitcode(int(self._answers.readline()))
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, and give what it has put out and complained of."""
        self.wait(timeout)
        return _text(self._out), _text(self._err)

    def close(self) -> None:
        """End it, where it has not ended."""
        if self.poll() is None:
            self.kill()
            self.wait()
        for one in (self._answers, self._connection, self._out, self._err):
            one.close()


def _text(stream: IO[bytes]) -> str:
    return os.pread(stream.fileno(), os.fstat(stream.fileno()).st_size, 0).decode()


class Forker:
    """The process that has imported everything."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.address = str(Path(self._folder.name, "socket"))
        # What a simulator is started with in Python's place: the process there stays beside the simulator.
        self.simulator = Path(self._folder.name, "python")
        self.simulator.write_text(
            "#!/bin/sh\n"
            # Another module than the simulator is Python's own work.
            f'case "$*" in ""|"-m instruments.sim") ;; *) exec {shlex.quote(sys.executable)} "$@";; esac\n'
            f"exec {shlex.quote(sys.executable)} -IS "
            f"{shlex.quote(str(Path(__file__).with_name('stand_in.py')))} {shlex.quote(self.address)}\n"
        )
        self.simulator.chmod(0o755)
        self._process = subprocess.Popen(
            [sys.executable, __file__, self.address, str(self.simulator)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def start(self, arguments: list[str], cwd: Path, environment: dict[str, str], one_stream: bool = False) -> Forked:
        """Start the command in a session of its own, as a shell's job, with its output kept and nothing to read."""
        return Forked(self.address, arguments, cwd, environment, one_stream)

    def run(self, arguments: list[str], cwd: Path, environment: dict[str, str], timeout_s: float):
        """Run the command as subprocess.run would."""
        with contextlib.closing(self.start(arguments, cwd, environment)) as process:
            out, err = process.communicate(timeout_s)
            return subprocess.CompletedProcess(arguments, process.wait(), out, err)

    def close(self) -> None:
        """End it."""
        self._process.communicate()
        self._folder.cleanup()


class _Children:
    """The connections, and the processes that were forked off for them."""

    def __init__(self, address: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(sys.stdin, selectors.EVENT_READ, self._end)
        self._live: dict[socket.socket, int] = {}
        self._ended = False

    def serve(self) -> None:
        """Fork off whatever is asked for, until standard input ends."""
        while not self._ended:
            for key, _ in self._selector.select():
                key.data(key.fileobj)
        for pid in self._live.values():
            os.kill(pid, signal.SIGKILL)

    def _end(self, _) -> None:
        self._ended = True

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        message, streams, _, _ = socket.recv_fds(connection, MESSAGE_BYTES_MAX, 3)
        asked = json.loads(message)
        pid = os.fork()
        if pid == 0:
            for one in (*self._live, connection, listener, self._selector):
                one.close()
            _become(asked, streams)
            _work(asked)
        for stream in streams:
            os.close(stream)
        ended = os.pidfd_open(pid)
        self._live[connection] = pid
        self._selector.register(connection, selectors.EVENT_READ, self._kill)
        self._selector.register(ended, selectors.EVENT_READ, lambda _: self._bury(connection, ended))
        _tell(connection, pid)

    def _kill(self, connection: socket.socket) -> None:
        if connection in self._live:
            os.kill(self._live[connection], signal.SIGKILL)

    def _bury(self, connection: socket.socket, ended: int) -> None:
        pid = self._live.pop(connection)
        self._selector.unregister(ended)
        self._selector.unregister(connection)
        os.close(ended)
        with connection:
            _tell(connection, os.waitpid(pid, 0)[1])


def _tell(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody waits for it any more
        connection.sendall(b"%d\n" % number)


def _become(asked: dict, streams: list[int]) -> None:
    """Make this process what a shell would have started."""
    os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    tempfile.tempdir = None  # chosen by the environment when it is first needed
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.path[0] = ""


def _work(asked: dict) -> None:
    """Do what is asked for, and leave."""
    if asked["arguments"] is None:
        from instruments.sim.__main__ import main as simulate

        status = simulate()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.argv = ["labctl", *asked["arguments"]]
    from labctl.cli import main

    main()


def _import_everything() -> None:
    import instruments
    import labctl

    for package in (labctl, instruments):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    from numba.core.registry import cpu_target

    # What the first call of a compiled function would make each of them do.
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


def _serve(address: str, simulator: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _import_everything()
    from labctl import simulation

    simulation.sys = SimpleNamespace(executable=simulator)  # type: ignore[attr-defined]
    gc.freeze()  # what is there is left alone, and stays shared
    children = _Children(address)
    print("ready", flush=True)
    children.serve()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
