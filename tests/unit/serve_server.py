"""The server as a person starts it: a process of its own, on loopback and a free port."""

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def text(self):
        return self.body.decode()


@dataclass
class Server:
    """A server at work: `address` is as printed, `output` what the process said up to there."""

    address: str
    port: int
    process: subprocess.Popen

    def ask(self, path, method="GET", **headers):
        """Ask for a page, by exactly this path."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            link.putrequest(method, path, skip_host="Host" in headers)
            for name, value in headers.items():
                link.putheader(name, value)
            link.endheaders()
            found = link.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            link.close()


@contextlib.contextmanager
def serving(*places, options=()):
    """Serve some places for the length of the block; its end must be an orderly one."""
    process = subprocess.Popen(
        [Path(sys.executable).with_name("labctl"), "serve", *map(str, places), "--port", "0", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"http://[^ ]+:(\d+)/[^ ]*", line)
        assert found, line + process.stderr.read()
        yield Server(found[0], int(found[1]), process)
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert not said, said
    assert process.returncode == 0, process.returncode
