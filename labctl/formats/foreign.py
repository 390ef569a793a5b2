"""What reading somebody else's file gives, and what the readers share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from instruments.levels import Levels
from instruments.record import Channel, Record

READABLE = (
    "Keysight .bin, .csv and .dlog, Rigol .csv, ChipWhisperer .cwp or .npy, digital Saleae .bin, sigrok .sr and .csv, "
    ".vcd, and EnergyTrace logs and .csv"
)
_BLOCK = 1 << 20
_LARGEST = 1e30
_CHANNEL_NUMBER = re.compile(r"(?:X\()?(?:CHAN(?:NEL)?|CH|C)?[\s_]*([1-9][0-9]?)\)?", re.IGNORECASE)
_UNITS = {
    **dict.fromkeys(("v", "volt", "volts", "voltage"), "V"),
    **dict.fromkeys(("a", "amp", "amps", "ampere", "amperes"), "A"),
    **dict.fromkeys(("w", "watt", "watts"), "W"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
}


@dataclass(frozen=True)
class ForeignFile:
    """One file of another tool: where it lies, its format's short name, its data, and what a person should know."""

    path: Path
    format: str
    record: Record
    warnings: tuple[str, ...] = ()


def channel_name(label: str, taken: object = ()) -> str:
    """Turn a file's own spelling ("1", "Channel 1", "CHAN1") into CH1; anything else stays as it is, made unique."""
    match = _CHANNEL_NUMBER.fullmatch(label.strip())
    base = f"CH{match[1]}" if match else (label.strip() or "CH")
    name, count = base, 1
    while name in taken:  # type: ignore[operator]
        count += 1
        name = f"{base}_{count}"
    return name


def unit_symbol(text: str) -> str:
    """Turn a file's spelling of a unit into its symbol; "" where it is not known."""
    return _UNITS.get(text.strip().strip("()[]").lower(), "")


def are_plausible(values: np.ndarray) -> bool:
    """Tell whether all values are numbers that an instrument could give; works along the last axis, part by part."""
    rows = values.reshape(-1, values.shape[-1])
    # In double precision, where the limit itself is a number; False for nan as well.
    return all(bool((np.abs(rows[part].astype(np.float64)) <= _LARGEST).all()) for part in _parts(rows.shape))


def float_channel(name: str, values: np.ndarray, unit: str, label: str) -> Channel:
    """Hold `values`, shape (segments, samples), as float32 codes, exact to 1e-7 of their range.

    Where a small signal rides on a large level, float32 of the values themselves would lose that, so the level goes
    into the channel's offset.
    """
    low, high = float(values.min()), float(values.max())
    # float32 resolves 2**-24 of a value, so up to this ratio the rounding stays below 1e-7 of the range.
    offset = 0.0 if max(abs(low), abs(high)) <= 1.6 * (high - low) else (low + high) / 2
    codes = np.empty(values.shape, np.float32)
    for part in _parts(values.shape):
        codes[part] = values[part] - offset
    return Channel(name, codes, 1.0, offset, unit, label=label)


def _parts(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Cut an array of shape (segments, samples) into parts of about a million values at most, whatever its form."""
    n_segments, n_samples = shape
    n_rows = max(1, _BLOCK // max(1, n_samples))
    for row in range(0, n_segments, n_rows):
        for start in range(0, n_samples, _BLOCK):
            yield slice(row, min(row + n_rows, n_segments)), slice(start, min(start + _BLOCK, n_samples))


def even_step(times_s: np.ndarray, resolution_s: float) -> tuple[float, float] | None:
    """Find (dt_s, t0_s) of time stamps that were each rounded by up to `resolution_s`; None where they are not even.

    The first and last stamp bound dt to ±2 `resolution_s` / (n - 1). Every value inside fits the stamps equally, and
    a scope's interval is a round number: the one with the fewest digits is taken.
    """
    n_steps = len(times_s) - 1
    estimate = float(times_s[-1] - times_s[0]) / n_steps
    bound = 2 * resolution_s / n_steps
    if not estimate > bound:
        return None
    dt_s = next(
        candidate
        for digits in range(1, 18)
        if abs((candidate := float(f"{estimate:.{digits}g}")) - estimate) <= bound or digits == 17
    )
    residues_s = times_s - np.arange(len(times_s)) * dt_s
    if np.ptp(residues_s) > dt_s / 2 + 4 * resolution_s:
        return None
    return dt_s, float(residues_s.mean())


def statistics(channel: Channel) -> tuple[float, float, float]:
    """Compute (min, max, mean) of a channel in its unit, block by block, without what was not measured (NaN)."""
    if isinstance(channel.codes, Levels):
        return channel.codes.statistics()
    low, high, total, count = math.inf, -math.inf, 0.0, 0
    for part in _parts(channel.codes.shape):
        block = np.asarray(channel.codes[part])
        if block.dtype.kind == "f":
            block = block[~np.isnan(block)]
        if not block.size:
            continue
        low, high = min(low, float(block.min())), max(high, float(block.max()))
        total += float(block.sum(dtype=np.float64))
        count += block.size
    ends = sorted((low * channel.scale + channel.offset, high * channel.scale + channel.offset))
    if not count:
        return math.nan, math.nan, math.nan
    return ends[0], ends[1], total / count * channel.scale + channel.offset
