"""Compare labctl's one pass over codes with the script that a user would write in float64 numpy.

    python benchmarks/analysis_speed.py [--samples 2e8] [--windows N] [--repeats 3] [--skip-naive] [--folder DIR]

Writes one record of int16 codes with a trigger line as a capture, uncompressed and in the store's usual form, and
lets both programs read from these files, each time in a process of its own, in turn. Printed are the least times (from
the closed file to the table; imports, and compiled code loaded from numba's cache, apart), their ratios, and the peak
of memory above what the imports take. The tables must agree to 1e-6. With --skip-naive, for records that float64 would
not hold in memory, ours runs alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SHUNT_OHM = 1.3
SUPPLY_V = 3.3
SCALE_V = 2e-6
DT_S = 1e-8
SAMPLES_PER_WINDOW = 100_000
TOLERANCE_RATIO = 1e-6
RATIO_MIN = {"plain": 8, "packed": 5}
MEMORY_MAX_BYTES = 300e6


class Made:
    """Codes computed when they are sliced: 60 % of each period a window, noise on top; nothing is held."""

    def __init__(self, n_samples: int, n_windows: int, trigger: bool) -> None:
        self.shape = (1, n_samples)
        self.dtype = np.dtype(np.uint8 if trigger else np.int16)
        self._trigger = trigger
        self._period = n_samples // n_windows
        self._noise = np.random.default_rng(1).normal(0, 3, 1 << 20).round().astype(np.int16)

    def __getitem__(self, key: tuple[slice, slice]) -> np.ndarray:
        start, stop = key[1].start, key[1].stop
        index = np.arange(start, stop, dtype=np.int64)
        phase = index % self._period
        high = (phase >= 0.3 * self._period) & (phase < 0.9 * self._period)
        if self._trigger:
            return high.astype(np.uint8)[None, :]
        noise = np.roll(self._noise, -int(index[0] * 7919) % len(self._noise))
        level = np.where(high, 1200 + phase // (self._period // 16), 700).astype(np.int16)
        return (level + np.resize(noise, len(index)))[None, :]


def record_of(n_samples: int, n_windows: int) -> Any:
    """Make the record, with its wiring, as a capture."""
    from instruments.record import Channel, Identity, Record
    from labctl.model import Capture, Shunt, Supply, Wiring

    channels = {
        "CH1": Channel("CH1", Made(n_samples, n_windows, False), SCALE_V, 0.0),
        "D0": Channel("D0", Made(n_samples, n_windows, True), 1.0, 0.0, unit="", kind="digital"),
    }
    record = Record(channels, DT_S, np.zeros(1), Identity("made", "up", "0", "0"))
    wiring = Wiring(Shunt(SHUNT_OHM, decoupling_f=0.0), Supply(SUPPLY_V), shunt_channel="CH1", trigger_channel="D0")
    return Capture({"series": record}, wiring)


def table_by_hand(path: Path) -> np.ndarray:
    """Do what a user's script does: everything to float64, np.diff for the edges, a loop with the trapezoid rule."""
    import h5py
    import hdf5plugin  # noqa: F401  (registers the filter)

    with h5py.File(path) as file:
        volts = file["records/series/CH1/codes"][0].astype(np.float64) * SCALE_V
        gpio = file["records/series/D0/codes"][0].astype(np.float64)
    current = volts / SHUNT_OHM
    power = (SUPPLY_V - volts) * current
    steps = np.diff(gpio)
    starts = np.where(steps > 0.5)[0] + 1
    stops = np.where(steps < -0.5)[0] + 1
    rows = []
    for start, stop in zip(starts, stops, strict=True):
        i, p = current[start:stop], power[start:stop]
        # The pin's edges lie half a sample outside the first and last sample.
        energy = np.trapezoid(p, dx=DT_S) + (p[0] + p[-1]) / 2 * DT_S
        rows.append(((stop - start) * DT_S, i.mean(), i.min(), i.max(), energy, p.std()))
    return np.array(rows)


def table_by_labctl(path: Path) -> np.ndarray:
    """Measure the same windows from the same file with labctl."""
    from labctl.store import open_capture

    with open_capture(path) as capture:
        return measure(capture)


def measure(capture: Any) -> np.ndarray:
    """Measure a capture with labctl: one row a window."""
    from labctl.analysis.power import measure_windows
    from labctl.analysis.trigger import find_windows

    record = capture.records["series"]
    windows, _ = find_windows(record, capture.wiring)
    runs = measure_windows(record, capture.wiring, windows).runs
    return np.array([
        (r.duration_s, r.current_mean_a, r.current_min_a, r.current_max_a, r.energy_j, r.power_ripple_w) for r in runs
    ])


def warm_up() -> None:
    """Import what either way needs, and have numba load the kernels, with a record of a few samples."""
    import h5py  # noqa: F401
    import hdf5plugin  # noqa: F401

    import labctl.store  # noqa: F401

    measure(record_of(10_000, 5))


def peak_bytes() -> int:
    """Give this process's peak of resident memory (Linux; a child's getrusage would start from its parent's)."""
    line = next(x for x in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def work(way: str, path: Path, out: Path) -> None:
    """Run one way once, in this process, and print its time and memory."""
    loading = time.perf_counter()
    warm_up()
    loading_s = time.perf_counter() - loading if way == "labctl" else 0.0
    imported = peak_bytes()
    started = time.perf_counter()
    table = {"numpy": table_by_hand, "labctl": table_by_labctl}[way](path)
    elapsed_s = time.perf_counter() - started
    np.save(out, table)
    memory_bytes = peak_bytes() - imported
    print(json.dumps({"elapsed_s": elapsed_s, "loaded_s": elapsed_s + loading_s, "memory_bytes": memory_bytes}))


def compare(n_samples: int, n_windows: int, repeats: int, folder: Path, naive: bool = True) -> dict[str, Any]:
    """Run all ways in turn; give the least time and memory of each, and check that the tables agree."""
    from labctl.store import write_capture

    files = {"plain": folder / "plain.h5", "packed": folder / "packed.h5"}
    for form, path in files.items():
        write_capture(path, record_of(n_samples, n_windows), compress=form == "packed")
    ways = [("labctl", "plain"), ("labctl", "packed")]
    if naive:
        ways = [("numpy", "plain"), ("labctl", "plain"), ("numpy", "packed"), ("labctl", "packed")]
    best: dict[str, Any] = {}
    tables: dict[str, np.ndarray] = {}
    # The first round compiles the kernels and is not counted.
    for turn in range(repeats + 1):
        for way, form in ways if turn else ways[-1:]:
            out = folder / f"{way}-{form}.npy"
            command = [sys.executable, __file__, "--work", way, str(files[form]), str(out)]
            done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            if not turn:
                continue
            key = f"{way} {form}"
            tables[key] = np.load(out)
            best[key] = {k: min(v, best.get(key, done)[k]) for k, v in done.items()}
    reference = tables["numpy plain" if naive else "labctl plain"]
    for key, table in tables.items():
        np.testing.assert_allclose(table, reference, rtol=TOLERANCE_RATIO, err_msg=key)
    best["n_windows"] = len(reference)
    return best


def main() -> None:
    """Parse the command line, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=float, default=2e8)
    parser.add_argument("--windows", type=int, help="default: one every 100 000 samples")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--skip-naive", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail below 8 (plain) or 5 (packed) times, above 300 MB")
    parser.add_argument("--folder", type=Path, help="where the temporary files go")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work[0], Path(options.work[1]), Path(options.work[2]))
        return
    n_samples = int(options.samples)
    n_windows = options.windows or max(1, n_samples // SAMPLES_PER_WINDOW)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        best = compare(n_samples, n_windows, options.repeats, Path(folder), not options.skip_naive)
    print(f"{n_samples} samples, {best.pop('n_windows')} windows, tables agree to {TOLERANCE_RATIO:g}")
    failed = False
    for key, value in best.items():
        text = f"{key:14s} {value['elapsed_s']:8.3f} s {value['memory_bytes'] / 1e6:7.0f} MB above imports"
        if key.startswith("labctl"):
            failed |= value["memory_bytes"] > MEMORY_MAX_BYTES
            if "numpy plain" in best:
                numpy_s = best["numpy plain"]["elapsed_s"]
                ratio = numpy_s / value["elapsed_s"]
                failed |= ratio < RATIO_MIN[key.removeprefix("labctl ")]
                text += f"  {ratio:.1f} times numpy ({numpy_s / value['loaded_s']:.1f} with loading the kernels)"
        print(text)
    if options.check and failed:
        sys.exit("slower or larger than it must be")


if __name__ == "__main__":
    main()
