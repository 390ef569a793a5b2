"""Print what an emulated EnergyTrace records, as the open command-line recorders do: ADDRESS [SECONDS].

ADDRESS is HOST:PORT. Lines go to stdout as they come; it ends after SECONDS of the recording's own time, when the
other end is gone, or when nobody reads any more. Exit status: 0, 1 where nothing answers at ADDRESS, 2 for wrong
arguments.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator, Sequence

USAGE = "usage: python -m instruments.sim.energytrace_recorder HOST:PORT [SECONDS]"


def _seconds(line: bytes) -> float:
    """Return the time of a line: whole numbers are microseconds."""
    first = line.split(maxsplit=1)[0]
    return float(first) if b"e" in first else int(first) * 1e-6


def _lines(connection: socket.socket) -> Iterator[bytes]:
    """Yield the lines of what arrives."""
    buffer = bytearray()
    while chunk := connection.recv(65536):
        buffer += chunk
        *whole, buffer = buffer.split(b"\n")
        yield from (bytes(line) for line in whole)


def main(arguments: Sequence[str]) -> int:
    """Record; return the exit status."""
    host, _, port = arguments[0].rpartition(":") if arguments else ("", "", "")
    try:
        limit_s = float(arguments[1]) if len(arguments) > 1 else float("inf")
        address = host, int(port)
    except ValueError:
        address = "", 0
    if not address[0] or len(arguments) > 2:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        connection = socket.create_connection(address, timeout=10.0)
    except OSError as error:
        print(f"{arguments[0]}: {error.strerror or error}", file=sys.stderr)
        return 1
    connection.settimeout(None)
    print("# emulated EnergyTrace: time, current, voltage, energy", flush=True)
    out = sys.stdout.buffer
    with connection, contextlib.suppress(BrokenPipeError, ConnectionError, KeyboardInterrupt):
        for line in _lines(connection):
            if _seconds(line) > limit_s:
                break
            out.write(line + b"\n")
            out.flush()
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    os._exit(status)  # a pipe that nobody reads any more must not be flushed once again
