"""Chromium without a window, driven over the pipe of its DevTools protocol (chromedevtools.github.io)."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time

PROGRAMS = ("chromium", "chromium-headless-shell", "google-chrome")
_DEADLINE_S = 20.0
# The protocol's pipes are descriptors 3 and 4 of the browser.
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def program():
    """Find a browser; None where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One page of a browser, for the length of a `with` block. `said` is what its console and its policy said."""

    def __init__(self, folder):
        self._folder = folder
        self._buffer = b""
        self._number = 0
        self._session = {}
        self.said = []

    def __enter__(self):
        (to_read, self._to), (self._from, from_write) = os.pipe(), os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(to_read), str(from_write), program(), "--headless", "--no-sandbox",
             "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking",
             "--remote-debugging-pipe", f"--user-data-dir={self._folder}", "about:blank"],
            pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(from_write)
        try:
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _open(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def __exit__(self, *_):
        self._session = {}
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            self.call("Browser.close")
        try:
            self._process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def call(self, method, **parameters):
        """Call a method of the protocol and give its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if answer.get("method") == "Runtime.exceptionThrown":
                self.said.append(answer["params"]["exceptionDetails"]["exception"].get("description", "an exception"))
            if answer.get("method") == "Log.entryAdded":
                self.said.append(answer["params"]["entry"]["text"])

    def size(self, width, height=900):
        """Make the page so many pixels wide and high."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def go(self, address, until):
        """Load a page and wait until an expression is true on it."""
        self.call("Page.navigate", url=address)
        self.wait(until)

    def wait(self, expression):
        """Wait until an expression is true."""
        end_s = time.monotonic() + _DEADLINE_S
        while not self.value(f"document.readyState === 'complete' && !!({expression})"):
            if time.monotonic() > end_s:
                raise TimeoutError(f"never true: {expression}; the browser said {self.said}")
            time.sleep(0.05)

    def value(self, expression):
        """Evaluate an expression, a promise too, on the page; None where it raises."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return None if "exceptionDetails" in found else found["result"].get("value")

    def drag(self, start, stop):
        """Drag with the mouse from one point to another."""
        steps = [("mouseMoved", start), ("mousePressed", start)]
        steps += [("mouseMoved", [a + (b - a) * k / 4 for a, b in zip(start, stop, strict=True)]) for k in range(1, 5)]
        for kind, (x, y) in [*steps, ("mouseReleased", stop)]:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def _receive(self):
        end_s = time.monotonic() + _DEADLINE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end_s - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._from, 1 << 20)
            if not part:
                raise EOFError("the browser has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
