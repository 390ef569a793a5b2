"""Compare a deep-memory block read through VisaLink with a bare `recv_into` loop on the same server.

Both read a definite-length block of random bytes from a server process of its own over loopback, in turns, into one
buffer each. The best of several turns counts: it is the one that the rest of the machine disturbed least.

    python benchmarks/block_transfer.py [--bytes 24000000] [--repeats 7] [--json]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import select
import socket
import sys
import time
from collections.abc import Callable

import numpy as np

from instruments.transport.visa import VisaLink

QUERY = ":WAVeform:DATA?"
TIMEOUT_S = 60.0

RATIO_MIN = 0.25


def serve(n_bytes: int, address: multiprocessing.connection.Connection) -> None:
    """Answer every line with the same block, for two connections one after the other."""
    payload = np.random.default_rng(1).integers(0, 256, n_bytes, np.uint8).tobytes()
    reply = memoryview(b"#8%08d" % n_bytes + payload + b"\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address.send(listener.getsockname()[1])
        peers = [listener.accept()[0] for _ in range(2)]
        while peers:
            for peer in select.select(peers, [], [])[0]:
                if peer.recv(4096):
                    peer.sendall(reply)
                else:
                    peers.remove(peer)
                    peer.close()


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


def measure(n_bytes: int, repeats: int) -> tuple[list[float], list[float]]:
    """Return the seconds of each turn: bare socket, and VisaLink."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(n_bytes, there), daemon=True)
    server.start()
    port = here.recv()
    link = VisaLink(f"TCPIP::127.0.0.1::{port}::SOCKET")
    reply = bytearray(len(b"#8") + 8 + n_bytes + 1)
    codes = np.zeros(n_bytes, np.uint8)
    raw_s, link_s = [], []
    with socket.create_connection(("127.0.0.1", port)) as peer:
        for _ in range(repeats):
            raw_s.append(timed(lambda: read_raw(peer, reply)))
            link_s.append(timed(lambda: link.query_block(QUERY, TIMEOUT_S, codes)))
    link.close()
    server.join(TIMEOUT_S)
    if codes.tobytes() != reply[10:-1]:
        raise AssertionError("the two ways read different bytes")
    return raw_s, link_s


def main() -> None:
    """Measure and print the times, the rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=24_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help=f"fail below {RATIO_MIN} of the loop's rate")
    options = parser.parse_args()
    raw_s, link_s = measure(options.bytes, options.repeats)
    ratio = min(raw_s) / min(link_s)
    if options.json:
        print(json.dumps({"n_bytes": options.bytes, "raw_s": raw_s, "link_s": link_s, "rate_ratio": ratio}))
        return
    for name, times_s in (("recv_into loop", raw_s), ("VisaLink", link_s)):
        best_s = min(times_s)
        print(f"{name:14}  best {best_s * 1e3:7.1f} ms  {options.bytes / best_s / 1e6:7.0f} MB/s")
    print(f"rate of VisaLink / rate of the loop: {ratio:.2f}")
    if options.check and ratio < RATIO_MIN:
        sys.exit("slower than it must be")


if __name__ == "__main__":
    main()
