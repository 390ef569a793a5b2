"""The digital files that Saleae Logic 2 exports in binary, ``digital_N.bin``, versions 0 and 1.

Source: support.saleae.com, "Binary Export Format - Version 0" and "Binary and CSV Export Formats - 2025 Update".
Version 0 does not tell the sample rate: it is the least of `RATES_HZ` on which all times lie. Version 1 comes in
chunks, and what lies between two of them was lost. The time of a transition is taken as that of the first sample with
the new level; the pages do not say. Nothing was tried on files of an instrument.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np

from instruments.errors import BadData
from instruments.levels import Levels

MAGIC = b"<SALEAE>"
# Digital sample rates of Logic 8 and Logic Pro, and of simulated ones.
RATES_HZ = (
    1e6, 2e6, 2.5e6, 3.125e6, 4e6, 5e6, 6.25e6, 8e6, 10e6, 12.5e6, 16e6, 20e6, 25e6, 31.25e6, 32e6, 40e6, 50e6, 62.5e6,
    100e6, 125e6, 200e6, 250e6, 400e6, 500e6,
)  # fmt: skip
# What a time may be off a sample, in samples, beside some units of its last place.
_OFF_SAMPLES = 1e-6
_N_PLACES = 4
# Where the times lie on no usual rate.
_FINEST_HZ = 1e9
_HEAD = struct.Struct("<8sii")
_V0 = struct.Struct("<IddQ")
_V1_COUNT = struct.Struct("<Q")
_V1 = struct.Struct("<IdddQ")


@dataclass(frozen=True)
class Digital:
    """One input: its levels from `start_s` on, `dt_s` apart, and (first sample, number) of what was lost.

    `rate_told` says whether the rate stands in the file, or is one on which all times lie (`rate_found`), or neither.
    """

    levels: Levels
    dt_s: float
    start_s: float
    gaps: tuple[tuple[int, int], ...]
    rate_told: bool
    rate_found: bool


@dataclass(frozen=True)
class _Chunk:
    level: int
    rate_hz: float
    begin_s: float
    end_s: float
    times_s: np.ndarray


def parse_digital(data: bytes, where: str, rate_hz: float | None = None) -> Digital:
    """Read one file; `rate_hz` is the rate where it is known. Raises BadData, which names `where`."""
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise BadData(f"{where}: no binary export of Saleae Logic 2")
    _, version, kind = _HEAD.unpack_from(data)
    if kind != 0:
        raise BadData(f"{where}: analog samples of Saleae Logic 2; export the digital channels")
    if version not in (0, 1):
        raise BadData(f"{where}: version {version} of the binary export, and 0 and 1 are known")
    chunks = _read_v0(data, where) if version == 0 else _read_v1(data, where)
    for chunk in chunks:
        _check(chunk, where)
    told = version == 1
    if told:
        if any(not 0 < chunk.rate_hz < math.inf or chunk.rate_hz != chunks[0].rate_hz for chunk in chunks):
            raise BadData(f"{where}: its chunks are sampled at different rates, or at none; record at one rate")
        rate_hz = chunks[0].rate_hz
    found_hz = rate_hz or _rate_of(chunks[0])
    levels, gaps = _joined(chunks, found_hz or _FINEST_HZ, where)
    return Digital(levels, 1 / (found_hz or _FINEST_HZ), chunks[0].begin_s, gaps, told, found_hz is not None)


def _read_v0(data: bytes, where: str) -> list[_Chunk]:
    level, begin_s, end_s, n = _unpack(_V0, data, _HEAD.size, where)
    times_s, end = _times(data, _HEAD.size + _V0.size, n, where)
    _check_end(data, end, where)
    return [_Chunk(level, 0.0, begin_s, end_s, times_s)]


def _read_v1(data: bytes, where: str) -> list[_Chunk]:
    (n_chunks,) = _unpack(_V1_COUNT, data, _HEAD.size, where)
    position, chunks = _HEAD.size + _V1_COUNT.size, list[_Chunk]()
    for _ in range(n_chunks):
        level, rate_hz, begin_s, end_s, n = _unpack(_V1, data, position, where)
        times_s, position = _times(data, position + _V1.size, n, where)
        chunks.append(_Chunk(level, rate_hz, begin_s, end_s, times_s))
    _check_end(data, position, where)
    if not chunks:
        raise BadData(f"{where}: holds no data; record again with this input on")
    return chunks


def _unpack(layout: struct.Struct, data: bytes, position: int, where: str) -> tuple:
    if position + layout.size > len(data):
        raise BadData(f"{where}: ends after {len(data)} bytes, inside a head; export it again")
    return layout.unpack_from(data, position)


def _times(data: bytes, position: int, n: int, where: str) -> tuple[np.ndarray, int]:
    end = position + 8 * n
    if end > len(data):
        n_there = (len(data) - position) // 8
        raise BadData(f"{where}: promises {n} transitions and holds {n_there}; export it again")
    return np.frombuffer(data, "<f8", n, position), end


def _check_end(data: bytes, end: int, where: str) -> None:
    if end != len(data):
        raise BadData(f"{where}: {len(data) - end} bytes follow its last transition; export it again")


def _check(chunk: _Chunk, where: str) -> None:
    if chunk.level not in (0, 1):
        raise BadData(f"{where}: begins with level {chunk.level}, which is neither 0 nor 1")
    bounds_s = np.concatenate([[chunk.begin_s], chunk.times_s, [chunk.end_s]])
    if not np.isfinite(bounds_s).all() or not chunk.end_s > chunk.begin_s or not (np.diff(bounds_s) >= 0).all():
        raise BadData(f"{where}: its times do not ascend from {chunk.begin_s} s to {chunk.end_s} s; export it again")


def _rate_of(chunk: _Chunk) -> float | None:
    """Find the least usual rate on whose samples all transitions lie, None where there is none."""
    since_s = chunk.times_s - chunk.begin_s
    for rate_hz in RATES_HZ:
        samples = since_s * rate_hz
        rounding = _N_PLACES * np.spacing(np.abs(chunk.times_s).max(initial=abs(chunk.begin_s))) * rate_hz
        if len(samples) > 1 and np.abs(samples - samples.round()).max() <= _OFF_SAMPLES + rounding:
            return rate_hz
    return None


def _joined(chunks: list[_Chunk], rate_hz: float, where: str) -> tuple[Levels, tuple[tuple[int, int], ...]]:
    """Put chunks on one row of samples; through what was lost the last level is held."""
    start_s = chunks[0].begin_s
    changes, gaps, level, n_samples = list[np.ndarray](), list[tuple[int, int]](), chunks[0].level, 0
    for chunk in chunks:
        begin = round((chunk.begin_s - start_s) * rate_hz)
        if begin < n_samples:
            raise BadData(f"{where}: a chunk begins before the one before it ends; export it again")
        if begin > n_samples:
            gaps.append((n_samples, begin - n_samples))
        if chunk.level != level:
            changes.append(np.array([begin]))
        changes.append(((chunk.times_s - start_s) * rate_hz).round().astype(np.int64))
        level = (chunk.level + len(chunk.times_s)) & 1
        n_samples = max(round((chunk.end_s - start_s) * rate_hz), int(changes[-1][-1]) + 1 if len(changes[-1]) else 0)
    every = np.concatenate(changes)
    if len(every) and every[0] == 0:  # a transition on the very first sample
        return _levels(n_samples, 1 - chunks[0].level, every[1:], where), tuple(gaps)
    return _levels(n_samples, chunks[0].level, every, where), tuple(gaps)


def _levels(n_samples: int, level: int, changes: np.ndarray, where: str) -> Levels:
    try:
        return Levels(max(n_samples, 1), level, changes)
    except ValueError as error:
        raise BadData(f"{where}: two transitions lie within one sample; is the sample rate right?") from error
