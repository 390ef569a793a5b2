"""Time what a PPK2's stream goes through, from bytes to current and level, beside a copy of the same bytes.

All in one process, in turns; the best of several turns counts: it is the one that the rest of the machine disturbed
least. "recording" is framing, loss counter and search for the trigger, as the words come; "conversion" is what `fetch`
does: current and one level of every word. Beside the rates stands what it takes of Python's memory beyond the results.

    python benchmarks/ppk2_decode.py [--words 4000000] [--repeats 5] [--json] [--check]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from instruments.drivers.ppk2_framing import READ_BYTES, Framer
from instruments.drivers.ppk2_recording import N_SETTLING, Tape
from instruments.drivers.ppk2_words import WORD_BYTES, current_table, currents, levels, parse_metadata

RATE_MIN_PER_S = 10e6
LOSSY_RATE_MIN_PER_S = 2e6  # one packet in sixty lost, far beyond a link that works; the device gives 0.1e6
EXTRA_MAX_BYTES = 2 << 20
N_TAIL = 1000  # words behind the recording, which make its last ones sure


def make_stream(n_words: int, loss_each: int = 0) -> np.ndarray:
    """Make the bytes of that many words and what surrounds them; of each `loss_each` 16 are lost, a USB packet."""
    n = N_SETTLING + n_words + N_TAIL
    random = np.random.default_rng(1)
    words = random.integers(0, 1 << 14, n).astype("<u4")
    words |= (random.integers(0, 5, n) << 14).astype("<u4")
    words |= ((np.arange(n) % 64) << 18).astype("<u4")
    words[N_SETTLING + 100 :] |= np.uint32(1 << 24)
    if loss_each:
        words = words[np.arange(n) % loss_each >= 16]
    return words.view(np.uint8)


def record(data: np.ndarray, n_words: int) -> np.ndarray:
    """Run a stream through framer and tape, in the portions of a read, and return the words of the recording."""
    tape, framer = Tape(n_words, 50, (0, "rising")), Framer("benchmark")
    for start in range(0, len(data), READ_BYTES):
        part = data[start : start + READ_BYTES]
        framer.room[: len(part)] = part.data
        for words in framer.take(len(part)):
            tape.append(words)
    assert tape.complete
    return tape.words()


def convert(words: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return current and level of every word."""
    return currents(words, table), levels(words, 0)


def best_s(call: Callable[[], object], repeats: int) -> float:
    """Return the shortest of several durations."""
    times_s = []
    for _ in range(repeats):
        start_s = time.perf_counter()
        call()
        times_s.append(time.perf_counter() - start_s)
    return min(times_s)


def extra_bytes(call: Callable[[], object], n_kept_bytes: int) -> int:
    """Return how much more of Python's memory than what it keeps is in use at once during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] - n_kept_bytes
    finally:
        tracemalloc.stop()


def measure(n_words: int, repeats: int) -> dict[str, dict[str, float]]:
    """Time each part; a result holds words in a second, the rate against a copy, and the extra memory."""
    table = current_table(parse_metadata(b"R0: 1000\nEND", "benchmark").constants, 3.3)
    whole, lossy = make_stream(n_words), make_stream(n_words + n_words // 15 + 200, loss_each=16 * 64)
    words = record(whole, n_words)
    n_bytes = WORD_BYTES * n_words
    copied = np.empty_like(words)
    copy_s = best_s(lambda: np.copyto(copied, words), repeats)
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "recording": (lambda: record(whole, n_words), n_bytes),
        "recording with losses": (lambda: record(lossy, n_words), n_bytes),
        "conversion": (lambda: convert(words, table), n_bytes + n_words),
        "all": (lambda: convert(record(whole, n_words), table), 2 * n_bytes + n_words),
    }
    found = {"memory copy": {"words_per_s": n_words / copy_s, "ratio": 1.0, "extra_bytes": 0.0}}
    for name, (call, n_kept_bytes) in calls.items():
        took_s = best_s(call, repeats)
        found[name] = {
            "words_per_s": n_words / took_s,
            "ratio": copy_s / took_s,
            "extra_bytes": float(extra_bytes(call, n_kept_bytes)),
        }
    return found


def main() -> None:
    """Measure and print rates, ratios and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail where a rate or the memory is not as it must be")
    options = parser.parse_args()
    found = measure(options.words, options.repeats)
    if options.json:
        print(json.dumps({"n_words": options.words, **found}))
        return
    for name, one in found.items():
        print(f"{name:22} {one['words_per_s'] / 1e6:8.1f} MS/s  {one['ratio']:7.4f} of a copy  "
              f"{one['extra_bytes'] / 1024:6.0f} KiB beside it")
    if options.check:
        least = {name: LOSSY_RATE_MIN_PER_S if "losses" in name else RATE_MIN_PER_S for name in found}
        slow = [name for name, one in found.items() if one["words_per_s"] < least[name]]
        large = [name for name, one in found.items() if one["extra_bytes"] > EXTRA_MAX_BYTES]
        if slow or large:
            sys.exit(f"slower than it must be: {slow}; larger: {large}")


if __name__ == "__main__":
    main()
