"""Value change dumps (.vcd) of logic analysers and simulators.

Source: IEEE 1364-2005, clause 18.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from instruments.levels import Levels
from instruments.record import Identity
from instruments.sigrok import parse_rate
from labctl.errors import FileFault
from labctl.formats.foreign import ForeignFile
from labctl.formats.logic import logic_record

NAME = "vcd"
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12, "fs": 1e-15}
_AT_RATE = re.compile(r"Acquisition with .* at ([0-9.]+ [kMG]?Hz)")


def matches(head: bytes) -> bool:
    """Recognise a value change dump by the first of its keywords."""
    return bool(re.match(rb"\s*\$(date|version|comment|timescale|scope|var)\s", head))


def read(path: Path) -> ForeignFile:
    """Read the wires of one bit. Raises FileFault.

    The sample interval is that of sigrok's comment where there is one, else the longest on which all changes lie.
    """
    found = _Dump(path)
    found.read()
    n_ticks = found.times[-1] - found.times[0] if found.times else 0
    if not found.names or n_ticks <= 0:
        raise FileFault(f"{path}: no wire of one bit changes in it, nor does time pass; dump it again")
    first = found.times[0]
    warnings = found.warnings()
    since = {identifier: np.array(times, dtype=np.int64) - first for identifier, times in found.changes.items()}
    if found.rate_hz is not None:
        # Times are rounded to whole ticks: each is the sample that lies nearest.
        dt_s, per_sample = 1 / found.rate_hz, 1 / found.rate_hz / found.tick_s
    else:
        every = np.concatenate([*since.values(), [n_ticks]])
        per_sample = float(np.gcd.reduce(every))
        dt_s = per_sample * found.tick_s
    n_samples = max(1, round(n_ticks / per_sample))
    levels: dict[str, Levels] = {}
    for identifier, name in found.names.items():
        at = np.round(since[identifier] / per_sample).astype(np.int64)
        levels[name] = _levels(at, found.levels[identifier], n_samples)
    instrument = Identity("sigrok" if "sigrok" in found.version else "", "", "", found.version)
    return ForeignFile(path, NAME, logic_record(levels, dt_s, first * found.tick_s, instrument), tuple(warnings))


def _levels(samples: np.ndarray, values: list[int], n_samples: int) -> Levels:
    """Hold the levels at samples, the last of several at one; repeated levels are no changes."""
    inside = samples < n_samples
    samples, level = samples[inside], np.array(values, dtype=np.int8)[inside]
    if not len(samples):
        return Levels(n_samples, 0, samples)
    last = np.append(samples[1:] != samples[:-1], True)
    samples, level = samples[last], level[last]
    changed = np.flatnonzero(level[1:] != level[:-1]) + 1
    return Levels(n_samples, int(level[0]), samples[changed])


class _Dump:
    """What a dump holds: by identifier the wires' names, and the times and levels of what they do."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: dict[str, str] = {}
        self.changes: dict[str, list[int]] = {}
        self.levels: dict[str, list[int]] = {}
        self.times: list[int] = []  # the first and the last
        self.tick_s = 0.0
        self.rate_hz: float | None = None
        self.version = ""
        self._left_out: list[str] = []
        self._unknown: set[str] = set()

    def read(self) -> None:
        """Read the file. Raises FileFault."""
        from vcd.reader import VCDParseError, tokenize

        try:
            with self.path.open("rb") as file:
                self._take(tokenize(file))
        except (VCDParseError, ValueError, IndexError) as error:
            raise FileFault(f"{self.path}: no whole value change dump ({error}); dump it again") from error

    def warnings(self) -> list[str]:
        found = []
        if self._left_out:
            found.append(f"{', '.join(self._left_out)}: no wire of one bit, left out")
        if self._unknown:
            found.append(f"{', '.join(sorted(self._unknown))}: unknown (x) or floating (z) at times; the last level is "
                         "held there")
        return found

    def _take(self, tokens: Iterable[Any]) -> None:
        from vcd.reader import TokenKind

        now = 0
        for token in tokens:
            if token.kind is TokenKind.CHANGE_TIME:
                if self.times and token.time_change < now:
                    raise ValueError(f"time goes back from {now} to {token.time_change}")
                now = token.time_change
                self.times = [self.times[0] if self.times else now, now]
            elif token.kind is TokenKind.CHANGE_SCALAR:
                self._change(token.scalar_change.id_code, token.scalar_change.value, now)
            elif token.kind is TokenKind.VAR:
                self._declare(token.var)
            elif token.kind is TokenKind.TIMESCALE:
                self.tick_s = token.timescale.magnitude * _SECONDS[token.timescale.unit.value]
            elif token.kind is TokenKind.COMMENT:
                rate = _AT_RATE.search(token.comment)
                self.rate_hz = parse_rate(rate[1]) if rate else self.rate_hz
            elif token.kind is TokenKind.VERSION:
                self.version = token.version.strip()
            elif token.kind is TokenKind.ENDDEFINITIONS and not self.tick_s:
                raise ValueError("it does not tell its time scale")

    def _declare(self, var: Any) -> None:
        if var.size != 1 or var.type_.value in ("real", "string", "event"):
            self._left_out.append(var.reference)
        elif var.id_code not in self.names:  # an alias of a wire is the wire
            taken, count = set(self.names.values()), 1
            name = var.reference if var.bit_index is None else f"{var.reference}[{var.bit_index}]"
            while (unique := name if count == 1 else f"{name}_{count}") in taken:
                count += 1
            self.names[var.id_code] = unique
            self.changes[var.id_code], self.levels[var.id_code] = [], []

    def _change(self, identifier: str, value: str, now: int) -> None:
        if identifier not in self.names:
            return
        if value not in "01":
            self._unknown.add(self.names[identifier])
            return
        self.changes[identifier].append(now)
        self.levels[identifier].append(int(value))
