"""Write captures in forked children and disturb them: run by test_store_atomic.py, prints JSON of what was left.

Usage: store_crash_child.py FOLDER kill-before|kill-half|kill-overwrite|random-kills|file-size-limit|interrupts|errors
"""

import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np

from instruments.record import Channel, Identity, Record
from labctl.errors import EnvironmentFault
from labctl.model import Capture, Wiring
from labctl.store import atomic, open_capture, verify_capture, write_capture

OLD, NEW = 1, 2
CALLS = ("pwrite", "ftruncate", "fsync", "link", "unlink", "replace", "rename")


def capture(value, shape=(3, 5000)):
    codes = np.full(shape, value, np.uint8)
    codes[:, 1::2] = np.random.default_rng(value).integers(0, 256, codes[:, 1::2].shape)
    line = Channel("CH1", codes, 0.1, 0.0)
    return Capture({"series": Record({"CH1": line}, 1e-6, np.zeros(shape[0]), Identity("a", "b", "c", "d"))}, Wiring())


def state(path):
    """Say what lies under the final name."""
    if not path.exists():
        return "absent"
    if verify_capture(path):
        return "broken"
    with open_capture(path) as read:
        value = int(read.records["series"].channels["CH1"].codes[0, 0])
    return {OLD: "old", NEW: "whole"}[value]


def die_at(k, half, tell):
    """Kill this process at its k-th call; with `half`, after half of a write is done."""
    left = k

    def wrap(name, real):
        def call(*arguments):
            nonlocal left
            left -= 1
            if left == 0:
                os.write(tell, name.encode())
                if half and name == "pwrite":
                    descriptor, data, place = arguments
                    real(descriptor, data[: len(data) // 2], place)
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        return call

    for name in CALLS:
        setattr(atomic.os, name, wrap(name, getattr(os, name)))


def fork(work):
    """Do `work` in a child and give (its wait status, what it wrote to its pipe)."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            work(writing)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        told = stream.read()
    _, status = os.waitpid(child, 0)
    return status, told.decode()


def sweep(folder, half, overwrite):
    points = []
    path = folder / "a.h5"
    for k in range(1, 10_000):
        for left in folder.iterdir():
            left.unlink()
        if overwrite:
            write_capture(path, capture(OLD))

        def work(tell, k=k):
            die_at(k, half, tell)
            write_capture(path, capture(NEW), overwrite=overwrite)

        status, told = fork(work)
        point = {"call": told or None, "final": state(path)}
        write_capture(path, capture(NEW), overwrite=True)
        point["after_next_write"] = sorted(left.name for left in folder.iterdir())
        points.append(point)
        if status == 0:
            return points
        if status != signal.SIGKILL:
            raise SystemExit(f"the child ended with wait status {status} at call {k}")
    raise SystemExit("the child never came to its end")


def random_kills(folder):
    """Kill a writer of one capture after another at moments drawn from a fixed seed."""
    moments = random.Random(20260102)
    broken, kills = [], 0
    for k in range(15):
        child = os.fork()
        if child == 0:
            for n in range(10_000):
                write_capture(folder / f"{k}-{n}.h5", capture(NEW, (3, 200_000)))
            os._exit(0)
        time.sleep(moments.uniform(0.05, 0.25))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += status == signal.SIGKILL
        for path in folder.glob("*.h5"):
            if state(path) != "whole":
                broken.append(path.name)
            path.unlink()
    return {"kills": kills, "broken": broken}


def file_size_limit(folder):
    """Set the greatest length of a file to one value after another."""
    path = write_capture(folder / "a.h5", capture(NEW))
    size = path.stat().st_size
    path.unlink()
    points = []
    for limit in [*range(0, 3000, 300), *range(3000, size, size // 25), size - 1]:

        def work(tell, limit=limit):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                write_capture(path, capture(NEW))
            except EnvironmentFault as error:
                os.write(tell, json.dumps({"status": type(error).__name__, "message": str(error)}).encode())

        status, told = fork(work)
        told = json.loads(told) if told else {"status": f"wait status {status}", "message": ""}
        points.append({"limit": limit, **told, "names": sorted(left.name for left in folder.iterdir())})
    return points


class Refused(BaseException):
    """No Exception, as KeyboardInterrupt is none."""


def disturb_sink(k, what):
    """Call `what` at the start of the k-th call that HDF5 makes of a sink."""
    left = k

    def wrap(real):
        def call(self, *arguments):
            nonlocal left
            left -= 1
            if left == 0:
                what()
            return real(self, *arguments)

        return call

    for name in ("write", "readinto", "seek", "truncate", "flush"):
        setattr(atomic.Sink, name, wrap(getattr(atomic.Sink, name)))


def fail_call(k):
    """Let the k-th system call of a sink raise what is no OSError."""
    left = k

    def wrap(real):
        def call(*arguments):
            nonlocal left
            left -= 1
            if left == 0:
                raise Refused
            return real(*arguments)

        return call

    for name in ("pwrite", "preadv", "ftruncate", "fstat"):
        setattr(atomic.os, name, wrap(getattr(os, name)))


def sweep_sink(folder, prepare):
    """Disturb one call after another, until a writer comes to its end undisturbed."""
    points, path = [], folder / "a.h5"
    for k in range(1, 10_000):
        for left in folder.iterdir():
            left.unlink()

        def work(tell, k=k):
            prepare(k)
            try:
                write_capture(path, capture(NEW))
            except BaseException as error:  # noqa: BLE001
                os.write(tell, type(error).__name__.encode())

        status, told = fork(work)
        final, left = state(path), sorted(one.name for one in folder.iterdir())
        points.append({"status": status, "raised": told or None, "final": final, "left": left})
        if status == 0 and not told:
            return points
    raise SystemExit("the child never came to its end")


def main():
    folder = Path(sys.argv[1])
    outcome = {
        "kill-before": lambda: sweep(folder, half=False, overwrite=False),
        "kill-half": lambda: sweep(folder, half=True, overwrite=False),
        "kill-overwrite": lambda: sweep(folder, half=True, overwrite=True),
        "random-kills": lambda: random_kills(folder),
        "file-size-limit": lambda: file_size_limit(folder),
        "interrupts": lambda: sweep_sink(folder, lambda k: disturb_sink(k, lambda: signal.raise_signal(signal.SIGINT))),
        "errors": lambda: sweep_sink(folder, fail_call),
    }[sys.argv[2]]()
    print(json.dumps(outcome))


main()
