"""What a PPK2 says of itself, and what its words mean: calibration, current, logic levels, lost words.

A word is a little-endian uint32: bits 0-13 the converter's result in steps of four, 14-16 the measuring range, 18-23 a
counter modulo 64, 24-31 the levels of D0 to D7. With the unit's own constants of that range and r = (adc - O) (1.8 /
163840) / R the current is UG (r (GS r + GI) + S Vdd + I) in ampere (serialDevice.ts of NordicSemiconductor/
pc-nrfconnect-ppk, "Power Profiler app"; the maker publishes no manual of it). Its filter against spikes, which smears
three samples after each change of range, is no part of this.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from instruments.errors import BadData

WORD_TYPE = np.dtype("<u4")
WORD_BYTES = WORD_TYPE.itemsize
N_RANGES = 5
N_LEVELS = 8
COUNTER_MODULUS = 64
RESISTORS_OHM = (1031.64, 101.65, 10.15, 0.94, 0.043)
METADATA_END = b"END"

_ADC_STEP = 4
_VOLT_PER_CODE = 1.8 / 163840
_COUNTER_SHIFT, _LEVELS_SHIFT = 18, 24
_CURRENT_MASK = (1 << 17) - 1
_RANGE_MASK, _FIRST_BAD_RANGE = 7 << 14, N_RANGES << 14
# Stands in a word's place for one that was lost: a range that no PPK2 has, so that its current is NaN.
_LOST = _RANGE_MASK
_LEVELS_MASK = 0xFF << _LEVELS_SHIFT
# What factor or resistor is never zero: firmware that was not calibrated says so all the same.
_FACTORS = ("R", "GI", "UG")
_LINE = re.compile(r"\s*(\w+)\s*:\s*(\S+)\s*")
_CONSTANT = re.compile(r"(R|GS|GI|O|S|I|UG)([0-4])")
_DECODE_WORDS = 1 << 16


@dataclass(frozen=True)
class Metadata:
    """The constants of each range, and what else the unit tells: supply voltage, mode, hardware; None where it does
    not."""

    constants: dict[str, tuple[float, ...]]
    vdd_v: float | None = None
    mode: int | None = None
    calibrated: bool | None = None
    hardware: str = ""
    others: dict[str, str] = field(default_factory=dict)


def parse_metadata(data: bytes, where: str) -> Metadata:
    """Read the lines "key: value" up to END. What is not a number (`-nan`), or zero for a factor, leaves the default.

    Raises BadData, naming `where`, for a text without one constant of calibration.
    """
    constants = {
        "R": list(RESISTORS_OHM),
        **{name: [1.0] * N_RANGES for name in ("GS", "GI", "UG")},
        **{name: [0.0] * N_RANGES for name in ("O", "S", "I")},
    }
    others: dict[str, str] = {}
    n_known = 0
    for line in data.partition(METADATA_END)[0].decode("ascii", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        key, text = match.groups()
        constant = _CONSTANT.fullmatch(key.upper())
        if constant is None:
            others[key.upper()] = text
            continue
        n_known += 1
        name, value = constant[1], _number(text)
        if math.isfinite(value) and not (value == 0 and name in _FACTORS):
            constants[name][int(constant[2])] = value
    if not n_known:
        raise BadData(f"{where}: the metadata hold no constant of calibration: {data[:64]!r}; is this a PPK2?")
    vdd_millivolts, mode, calibrated = (_number(others.get(key, "")) for key in ("VDD", "MODE", "CALIBRATED"))
    return Metadata(
        {name: tuple(values) for name, values in constants.items()},
        vdd_v=vdd_millivolts / 1000 if math.isfinite(vdd_millivolts) else None,
        mode=int(mode) if math.isfinite(mode) else None,
        calibrated=bool(calibrated) if math.isfinite(calibrated) else None,
        hardware=others.get("HW", ""),
        others={key: text for key, text in others.items() if key not in ("VDD", "MODE", "CALIBRATED", "HW")},
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def current_table(constants: dict[str, tuple[float, ...]], vdd_v: float) -> np.ndarray[Any, Any]:
    """Convert every word there can be: currents in ampere, float32 of shape (2**17,), by the low 17 bits of a word.

    NaN in the ranges that a PPK2 does not have.
    """
    adc = np.arange(1 << 14, dtype=np.float64) * _ADC_STEP
    table = np.full((8, adc.size), np.nan, np.float32)
    for number in range(N_RANGES):
        gs, gi, o, s, i, ug, r = (constants[name][number] for name in ("GS", "GI", "O", "S", "I", "UG", "R"))
        raw_a = (adc - o) * (_VOLT_PER_CODE / r)
        table[number] = ug * (raw_a * (gs * raw_a + gi) + (s * vdd_v + i))
    return table.reshape(-1)


def currents(words: np.ndarray[Any, Any], table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Look up the current of each word in ampere, float32 of the shape (words,); NaN where one was lost."""
    found = np.empty(len(words), np.float32)
    index = np.empty(min(len(words), _DECODE_WORDS), np.intp)
    for start in range(0, len(words), _DECODE_WORDS):
        part = words[start : start + _DECODE_WORDS]
        np.bitwise_and(part, _CURRENT_MASK, out=index[: len(part)], casting="unsafe")
        np.take(table, index[: len(part)], out=found[start : start + len(part)], mode="clip")
    return found


def levels(words: np.ndarray[Any, Any], number: int) -> np.ndarray[Any, Any]:
    """Return the level of one input in each word, uint8 of shape (words,), 0 or 1."""
    found = np.empty(len(words), np.uint8)
    for start in range(0, len(words), _DECODE_WORDS):
        part = slice(start, start + _DECODE_WORDS)
        np.not_equal(words[part] & np.uint32(1 << (_LEVELS_SHIFT + number)), 0, out=found[part].view(bool))
    return found


def counters(words: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the counter of each word, uint8 of shape (words,), 0 to 63."""
    return ((words >> np.uint32(_COUNTER_SHIFT)) & np.uint32(COUNTER_MODULUS - 1)).astype(np.uint8)


def ranges_used(words: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Return the measuring ranges that occur, in order."""
    used = np.zeros(8, bool)
    for start in range(0, len(words), _DECODE_WORDS):
        used |= np.bincount((words[start : start + _DECODE_WORDS] >> np.uint32(14)) & np.uint32(7), minlength=8) > 0
    return tuple(int(number) for number in np.flatnonzero(used[:N_RANGES]))


def lost_words(n: int, before: int) -> np.ndarray[Any, Any]:
    """Make what stands in the place of `n` lost words: no current, the levels of the word `before`, counting on."""
    counted = (before >> _COUNTER_SHIFT) + np.arange(1, n + 1, dtype=np.uint32)
    return (counted % COUNTER_MODULUS << np.uint32(_COUNTER_SHIFT)) | np.uint32((before & _LEVELS_MASK) | _LOST)


def find_gaps(words: np.ndarray[Any, Any]) -> tuple[tuple[int, int], ...]:
    """Find stretches (first word, number of words) that were lost or are of no range that there is."""
    gaps: list[tuple[int, int]] = []
    for start in range(0, len(words), _DECODE_WORDS):
        bad = (words[start : start + _DECODE_WORDS] & np.uint32(_RANGE_MASK)) >= _FIRST_BAD_RANGE
        if not bad.any():
            continue
        edges = start + np.flatnonzero(np.diff(bad, prepend=False, append=False))
        for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            # One that the block's border cuts goes on from the block before.
            begun = gaps.pop()[0] if gaps and sum(gaps[-1]) == first else first
            gaps.append((begun, end - begun))
    return tuple(gaps)


def voltage_bytes(voltage_v: float) -> bytes:
    """Encode the regulator's voltage: millivolt, the high byte first."""
    return round(voltage_v * 1000).to_bytes(2, "big")
