"""Compare a deep-memory block read through VisaLink, by raw socket and by HiSLIP, with a bare `recv_into` loop.

All read the same definite-length block of random bytes from one server process over loopback, in turns, into one
buffer each. The best of several turns counts: it is the one that the rest of the machine disturbed least. Beside the
rates stands what a read takes of Python's memory beyond the block itself, in a turn of its own.

    python benchmarks/block_transfer.py [--bytes 24000000] [--repeats 7] [--json]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import socket
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from instruments.transport.visa import VisaLink

QUERY = ":WAVeform:DATA?"
TIMEOUT_S = 60.0

# Of the bare loop's rate, and of memory beyond the block.
RATIO_MIN = {"socket": 0.25, "hislip": 0.5}
EXTRA_MAX_BYTES = 1 << 20


def serve(n_bytes: int, address: multiprocessing.connection.Connection) -> None:
    """Answer every line with the same block, on a bare socket and by HiSLIP, until told to stop."""
    from instruments.sim.hislip import HislipServer
    from instruments.sim.scpi import Instrument
    from instruments.sim.server import ScpiServer

    payload = np.random.default_rng(1).integers(0, 256, n_bytes, np.uint8)
    instrument = Instrument()
    instrument.on(QUERY, lambda: (f"#8{n_bytes:08d}", memoryview(payload)))
    servers = [ScpiServer("socket", instrument), HislipServer("hislip", instrument)]
    address.send((servers[0].port, {"socket": servers[0].resource, "hislip": servers[1].resource}))
    address.recv()


def read_raw(peer: socket.socket, buffer: bytearray) -> None:
    """Read the whole reply the shortest way there is."""
    peer.sendall(QUERY.encode() + b"\n")
    view, done = memoryview(buffer), 0
    while done < len(buffer):
        done += peer.recv_into(view[done:])


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    start_s = time.perf_counter()
    call()
    return time.perf_counter() - start_s


def measure(n_bytes: int, repeats: int) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Return the seconds of each turn of the bare loop ("raw") and of each transport, and each one's extra memory."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(n_bytes, there), daemon=True)
    server.start()
    port, resources = here.recv()
    links = {name: VisaLink(resource) for name, resource in resources.items()}
    reply = bytearray(len(b"#8") + 8 + n_bytes + 1)
    codes = np.zeros(n_bytes, np.uint8)
    times_s: dict[str, list[float]] = {"raw": [], **{name: [] for name in links}}
    extra_bytes = {}
    with socket.create_connection(("127.0.0.1", port)) as peer:
        for _ in range(repeats):
            times_s["raw"].append(timed(lambda: read_raw(peer, reply)))
            for name, link in links.items():
                codes[:] = 0
                times_s[name].append(timed(lambda link=link: link.query_block(QUERY, TIMEOUT_S, codes)))
                if codes.tobytes() != reply[10:-1]:
                    raise AssertionError(f"the bare loop and {name} read different bytes")
    for name, link in links.items():
        extra_bytes[name] = memory_beyond(link)
        link.close()
    here.send("stop")
    server.join(TIMEOUT_S)
    return times_s, extra_bytes


def memory_beyond(link: VisaLink) -> int:
    """Return how much more of Python's memory than the block itself is in use at once while one is read."""
    tracemalloc.start()
    try:
        block = link.query_block(QUERY, TIMEOUT_S)
        return tracemalloc.get_traced_memory()[1] - block.nbytes
    finally:
        tracemalloc.stop()


def main() -> None:
    """Measure and print the times, the rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=24_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail where a rate or the memory is not as it must be")
    options = parser.parse_args()
    times_s, extra_bytes = measure(options.bytes, options.repeats)
    ratios = {name: min(times_s["raw"]) / min(times_s[name]) for name in RATIO_MIN}
    if options.json:
        print(json.dumps(
            {"n_bytes": options.bytes, "times_s": times_s, "rate_ratio": ratios, "extra_bytes": extra_bytes}
        ))  # fmt: skip
        return
    for name, turns_s in times_s.items():
        best_s = min(turns_s)
        print(f"{name:8} best {best_s * 1e3:7.1f} ms  {options.bytes / best_s / 1e6:7.0f} MB/s", end="")
        print(f"  {ratios[name]:5.2f} of raw  {extra_bytes[name] / 1024:6.0f} KiB beside it" if name in ratios else "")
    if options.check:
        slow = [name for name, least in RATIO_MIN.items() if ratios[name] < least]
        large = [name for name, extra in extra_bytes.items() if extra > EXTRA_MAX_BYTES]
        if slow or large:
            sys.exit(f"slower than it must be: {slow}; larger: {large}")


if __name__ == "__main__":
    main()
