"""What sigrok writes: session files (.sr), and how it spells sample rates.

A session is a zip archive: `version`, `metadata` (which names each input, `probe1=D0`), and the samples in
`logic-1-1`, `logic-1-2` and so on, `unitsize` bytes a sample with the first input in the lowest bit; analog ones are
float32 in `analog-1-9-1` and so on. Sources:
sigrok.org, "File format:Sigrok/v2", and what sigrok-cli 0.7.2 (libsigrok 0.5.2) writes.
"""

from __future__ import annotations

import configparser
import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from instruments.errors import BadData
from instruments.levels import Levels

_RATE = re.compile(r"\s*([0-9.]+)\s*([kMG]?)Hz\s*")
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Session:
    """The inputs of a session by name, the analog ones float32, and their sample rate (None where it is not told)."""

    levels: dict[str, Levels]
    rate_hz: float | None
    version: str
    analog: dict[str, np.ndarray]


def parse_rate(text: str) -> float | None:
    """Read "24 MHz" or "500 kHz" in Hz; None for anything else."""
    match = _RATE.fullmatch(text)
    try:
        return None if match is None else float(match[1]) * _SCALES[match[2]] or None
    except ValueError:
        return None


def read_session(path: Path) -> Session:
    """Read the logic inputs of a session file. Raises BadData, and OSError where it cannot be opened."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, zlib.error) as error:
        raise BadData(f"{path}: a damaged session file ({error}); copy or record it again") from error


def _read(archive: zipfile.ZipFile, path: Path) -> Session:
    names = set(archive.namelist())
    if not {"version", "metadata"} <= names:
        raise BadData(f"{path}: no sigrok session: it holds no metadata")
    metadata = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        metadata.read_string(archive.read("metadata").decode("utf-8", "replace"))
    except configparser.Error as error:
        raise BadData(f"{path}: its metadata cannot be read ({error})") from error
    if not metadata.has_section("device 1"):
        raise BadData(f"{path}: its metadata name no device")
    device = metadata["device 1"]
    base, unit_bytes = device.get("capturefile", ""), _number(device.get("unitsize", ""), path)
    probes = {int(key[5:]) - 1: name for key, name in device.items() if re.fullmatch("probe[1-9][0-9]*", key)}
    chunks = sorted((int(name[len(base) + 1 :]), name) for name in names
                    if base and re.fullmatch(re.escape(base) + "-[0-9]+", name))
    if not probes or not (chunks or base in names):
        raise BadData(f"{path}: holds no samples of logic inputs; record again")
    if unit_bytes < 1 or max(probes) >= 8 * unit_bytes:
        raise BadData(f"{path}: {unit_bytes} bytes a sample do not hold input {max(probes) + 1}")
    rows = [_Row() for _ in probes]
    for name in [name for _, name in chunks] or [base]:
        raw = archive.read(name)
        if len(raw) % unit_bytes:
            raise BadData(f"{path}: {name} is no whole number of samples of {unit_bytes} bytes; record again")
        samples = np.frombuffer(raw, np.uint8).reshape(-1, unit_bytes)
        for row, bit in zip(rows, probes, strict=True):
            row.add((samples[:, bit // 8] >> (bit % 8)) & 1)
    if not rows[0].n_samples:
        raise BadData(f"{path}: holds no samples; record again")
    version = metadata.get("global", "sigrok version", fallback="")
    levels = {name: row.levels() for name, row in zip(probes.values(), rows, strict=True)}
    analog = {name: _analog(archive, names, key[6:], rows[0].n_samples, path) for key, name in device.items()
              if re.fullmatch("analog[1-9][0-9]*", key)}
    return Session(levels, parse_rate(device.get("samplerate", "")), version, analog)


def _analog(archive: zipfile.ZipFile, names: set[str], number: str, n_samples: int, path: Path) -> np.ndarray:
    """Read the float32 samples of one analog input, of shape (samples,)."""
    prefix = f"analog-1-{number}-"
    chunks = sorted(int(name[len(prefix) :]) for name in names if re.fullmatch(re.escape(prefix) + "[0-9]+", name))
    raw = b"".join(archive.read(f"{prefix}{chunk}") for chunk in chunks)
    if len(raw) != 4 * n_samples:
        raise BadData(f"{path}: {len(raw) // 4} samples of analog input {number} beside {n_samples} of the logic; "
                      "record again")
    return np.frombuffer(raw, "<f4")


def _number(text: str, path: Path) -> int:
    if not text.isdecimal():
        raise BadData(f"{path}: its metadata do not tell how many bytes a sample has")
    return int(text)


class _Row:
    """The changes of one input, chunk by chunk."""

    def __init__(self) -> None:
        self.n_samples = 0
        self._first = self._last = 0
        self._changes: list[np.ndarray] = []

    def add(self, samples: np.ndarray) -> None:
        if not len(samples):
            return
        if not self.n_samples:
            self._first = self._last = int(samples[0])
        before = np.concatenate([[self._last], samples[:-1]])
        self._changes.append(np.flatnonzero(samples != before) + self.n_samples)
        self._last = int(samples[-1])
        self.n_samples += len(samples)

    def levels(self) -> Levels:
        return Levels(self.n_samples, self._first, np.concatenate(self._changes))
