"""What the store costs beside a bare write and fsync of the same bytes.

    benchmarks/store_cost.py [--check] [--runs 20] [--repeats 30]

A run is 120 kB of codes: two channels of 60 000 samples of one byte, noise of 3 codes on a level and a trigger line.
One repeat takes, in turn and into the same folder:

- bare: for each of 20 runs, `write` of its 120 kB at the end of one open file, and `fsync`;
- store: all 20 runs as one capture (`write_capture`: packed, with CRCs, pyramid, edges and bits of the trigger, its
  zero reading and its null series of 100 windows beside it, fsynced, linked, folder fsynced) and the line of the
  journal (fdatasynced): what a campaign does for an item once its codes are in memory, not the measurement, not the
  analysis.

Printed are medians per run, and the ratio of store to bare in the same repeat. The worst case, one run a capture, is
printed too and not judged: there the two fsyncs and the metadata of a whole capture fall to a single run.
`--check` ends with 1 where the ratio of a series of 20 exceeds 2.
"""

import argparse
import dataclasses
import os
import statistics
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

from instruments.record import Channel, Identity, Record
from labctl.campaign import journal
from labctl.campaign.model import Attempt
from labctl.model import Capture, DutReport, Operation, Shunt, Supply, Wiring
from labctl.store import write_capture

N_SAMPLES = 60_000
N_BYTES = 2 * N_SAMPLES
RATIO_MAX = 2.0
WIRING = Wiring(Shunt(1.3), Supply(3.3), shunt_channel="CH1", trigger_channel="CH2", threshold=1.65, hysteresis=0.3)
SCOPE = Identity("maker", "model", "1", "1.0")


def record(n_segments: int, n_samples: int, rng: np.random.Generator, quiet: bool = False) -> Record:
    """Make a record whose trigger is high in its middle half, with more current meanwhile."""
    inside = np.zeros(n_samples, bool)
    if not quiet:
        inside[n_samples // 4 : 3 * n_samples // 4] = True
    noise = rng.normal(0, 3, (n_segments, n_samples))
    shunt = np.clip(np.round(np.where(inside, 140, 100) + noise), 0, 255).astype(np.uint8)
    line = np.where(inside, np.uint8(200), np.uint8(60)) + rng.integers(0, 3, (n_segments, n_samples), np.uint8)
    channels = {
        "CH1": Channel("CH1", shunt, 1e-4, 0.0, code_min=0, code_max=255),
        "CH2": Channel("CH2", line, 0.0235, -1.4, code_min=0, code_max=255),
    }
    return Record(channels, 1e-7, np.arange(n_segments) * 0.01, SCOPE)


def capture(n_runs: int) -> Capture:
    """Make a capture of `n_runs` runs, with its null series and zero reading."""
    rng = np.random.default_rng(5)
    records = {"series": record(n_runs, N_SAMPLES, rng), "null": record(100, 200, rng)}
    records["zero"] = record(1, 2000, rng, quiet=True)
    operation = Operation("sha256", 1024, n_runs=n_runs, clock_hz=24_000_000)
    provenance = {"utc": "2026-11-30T12:00:00Z", "bench": {"name": "benchmark"}}
    return Capture(records, WIRING, operation, {"name": "a board"}, DutReport((), True), provenance=provenance)


def bare(folder: Path, runs: list[bytes]) -> float:
    """Write each run at the end of one file and fsync it; give the time a run."""
    begun = time.perf_counter()
    descriptor = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for run in runs:
        os.write(descriptor, run)
        os.fsync(descriptor)
    os.close(descriptor)
    return (time.perf_counter() - begun) / len(runs)


def store(folder: Path, taken: Capture, n_runs: int, number: int) -> float:
    """Write the capture and acknowledge it; give the time a run."""
    begun = time.perf_counter()
    path = write_capture(folder / f"{number:04d}.h5", taken)
    data, utc = path.read_bytes(), "2026-11-30T12:00:00Z"
    done = Attempt(number, "key", 1, "done", True, utc, utc, 1.0, capture=path.name, capture_bytes=len(data))
    row = {"energy_mean_j": 1e-6, "warnings": ["a sentence of the usual length about this result"]}
    journal.append(folder, dataclasses.replace(done, capture_crc32=f"{zlib.crc32(data):08x}", row=row))
    return (time.perf_counter() - begun) / n_runs


def runs_of(taken: Capture) -> list[bytes]:
    """Give the codes of each run, one channel after the other."""
    record = taken.records["series"]
    return [b"".join(one.codes[run].tobytes() for one in record.channels.values()) for run in range(record.n_segments)]


def compare(n_runs: int, repeats: int) -> tuple[list[float], list[float]]:
    """Give the times a run of bare and store, taken in turns."""
    taken = capture(n_runs)
    runs, times = runs_of(taken), ([], [])
    assert all(len(run) == N_BYTES for run in runs)
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as name:
        folder = Path(name)
        (folder / journal.NAME).touch()
        store(folder, taken, n_runs, 0)  # kernels compiled, libraries loaded
        for number in range(1, repeats + 1):
            times[0].append(bare(folder, runs))
            times[1].append(store(folder, taken, n_runs, number))
    return times


def main() -> int:
    """Compare, print, and judge where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    ratio = 0.0
    for n_runs in (1, options.runs):
        plain, kept = compare(n_runs, options.repeats)
        ratio = statistics.median(b / a for a, b in zip(plain, kept, strict=True))
        print(f"{n_runs:4d} runs a capture: bare {1e3 * statistics.median(plain):6.2f} ms a run, "
              f"store {1e3 * statistics.median(kept):6.2f} ms a run, ratio {ratio:.2f}")
    return 1 if options.check and ratio > RATIO_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
