"""Read the lines of EnergyTrace recorders: time, current, voltage, counted energy.

Sources: dfatool and energytrace-util, which read and write such lines (README and source of both); TI's maker document
is a web page on EnergyTrace, which gives the accuracy and no format. Not verified against a recording of an instrument.

- Four columns; five where a word of hardware state leads (EnergyTrace++).
- Whole numbers are microseconds, nanoampere, millivolt and a counter of 32 bits, signed or not, which wraps; anything
  else is seconds, ampere, volt and joule or a multiple of it.
- What one count is worth is told differently (0.1 uJ by energytrace-util, 1 nJ by dfatool). So it is found from the
  log itself: the counted energy against the integral of voltage times current, which is known to some percent.
- Energy over time is to be preferred to the current column (README of energytrace-util).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from instruments.errors import BadData

WRAP = 1 << 32
# What a count may be worth, in joule.
UNITS_J = (1e-9, 1e-8, 1e-7, 1e-6, 1e-3, 1.0)
# How far the integral of voltage times current may be off, as a factor: half way to the next unit would be 3.2.
UNIT_FACTOR_MAX = 1.6
INTERVAL_S = 1e-3


@dataclass(frozen=True)
class Trace:
    """A log on an even time line; arrays of shape (samples,), NaN where the recorder lost some.

    `energy_j` is counted from the first sample on. `gaps` are (first sample, number of samples). `unit_j` is what a
    count was found to be worth, `n_repeated` counts lines whose time was not after that of the line before.
    """

    dt_s: float
    current_a: np.ndarray
    voltage_v: np.ndarray
    energy_j: np.ndarray
    gaps: tuple[tuple[int, int], ...]
    unit_j: float
    n_repeated: int


def parse_line(text: str) -> tuple[float, float, float, float] | None:
    """Return the four numbers of a line, None for one that is empty or a remark. Raises BadData."""
    fields = text.split()
    if not fields or fields[0].startswith("#"):
        return None
    if len(fields) not in (4, 5):
        raise BadData(f"a line of EnergyTrace has four columns, or five, not {len(fields)}: {text[:80]!r}")
    if any("," in field for field in fields):
        raise BadData(f"a comma in a number, which may be decimal or not: {text[:80]!r}; record with a decimal point")
    try:
        time, current, voltage, energy = (float(field) for field in fields[-4:])
    except ValueError as error:
        raise BadData(f"no line of EnergyTrace: {text[:80]!r}") from error
    if not all(map(math.isfinite, (time, current, voltage, energy))):
        raise BadData(f"a line of EnergyTrace holds what is no number: {text[:80]!r}")
    return time, current, voltage, energy


def is_counts(text: str) -> bool:
    """Tell whether a line is in counts: all its numbers are whole."""
    return all(field.lstrip("+-").isdigit() for field in text.split()[-4:])


def make_trace(rows: Iterable[tuple[float, float, float, float]], counts: bool) -> Trace:
    """Put the rows of a log on an even time line. Raises BadData where they make no log."""
    table = np.array(list(rows), dtype=np.float64).reshape(-1, 4)
    if len(table) < 2:
        raise BadData(f"a log of {len(table)} lines tells no energy: record for longer")
    scales = (1e-6, 1e-9, 1e-3) if counts else (1.0, 1.0, 1.0)
    time_s, current_a, voltage_v = (table[:, k] * scale for k, scale in enumerate(scales))
    forward = np.concatenate([[True], time_s[1:] > np.maximum.accumulate(time_s)[:-1]])
    n_repeated = int(np.count_nonzero(~forward))
    time_s, current_a, voltage_v, counter = time_s[forward], current_a[forward], voltage_v[forward], table[forward, 3]
    if len(time_s) < 2:
        raise BadData("the times of the log do not go on: it tells no energy")
    steps = np.diff(counter)
    if counts:  # a counter that wraps, signed or not, goes on as it was, modulo its width
        steps = np.mod(steps, WRAP)
        if (steps >= WRAP / 2).any():
            raise BadData("the energy counter goes back by more than it can have wrapped: the log is out of step")
    elif (steps < 0).any():
        raise BadData("the energy goes back: the log is out of step")
    unit_j = _unit(float(steps.sum()), time_s, current_a, voltage_v)
    energy_j = np.concatenate([[0.0], np.cumsum(steps)]) * unit_j
    dt_s = float(np.median(np.diff(time_s)))
    place = np.rint((time_s - time_s[0]) / dt_s).astype(np.int64)
    kept = np.concatenate([np.diff(place) > 0, [True]])  # of two lines in one place the later one
    place = place[kept]
    n = int(place[-1]) + 1
    if n > 4 * len(time_s) + 1000:
        raise BadData(f"{n - len(time_s)} of {n} samples of the log are missing: check the recorder's cable")
    even = np.full((3, n), np.nan)
    even[:, place] = np.stack([current_a, voltage_v, energy_j])[:, kept]
    holes = np.flatnonzero(np.diff(place) > 1)
    gaps = tuple((int(place[k]) + 1, int(place[k + 1] - place[k] - 1)) for k in holes)
    return Trace((time_s[-1] - time_s[0]) / (n - 1), even[0], even[1], even[2], gaps, unit_j, n_repeated)


def _unit(counted: float, time_s: np.ndarray, current_a: np.ndarray, voltage_v: np.ndarray) -> float:
    """Find what a count is worth, from the integral of voltage times current. Raises BadData where none fits."""
    if counted <= 0:
        raise BadData("the energy counter stands still: it tells no energy; record a longer log, or a larger current")
    power_w = current_a * voltage_v
    integral_j = float(np.sum((power_w[1:] + power_w[:-1]) / 2 * np.diff(time_s)))
    if integral_j <= 0:
        raise BadData("current times voltage is nothing, so that what a count of energy is worth cannot be found")
    worth_j = integral_j / counted
    unit_j = min(UNITS_J, key=lambda unit: abs(math.log(worth_j / unit)))
    factor = max(worth_j / unit_j, unit_j / worth_j)
    if factor > UNIT_FACTOR_MAX:
        raise BadData(
            f"one count of energy would be {worth_j:.3g} J by voltage, current and time, which is none of those known "
            f"({', '.join(f'{unit:g}' for unit in UNITS_J)} J): the columns are not what they should be"
        )
    return unit_j
