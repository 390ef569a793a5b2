"""What a Keysight N6705C with N6781A modules grants of the times it is asked for, and its parameter lists.

Keysight N6705C Programmer's Reference p. 213 (SENSe:SWEep:TINTerval and its resolution), p. 155 (SENSe:DLOG:PERiod);
N6700 User's Guide p. 91 and N6702C guide p. 146 (SENSe:ELOG:PERiod); N6705 User's Guide p. 66 (file size) and p. 134
(20 us a parameter in the data logger). That values are rounded to the nearest step: assumed.
"""

from __future__ import annotations

import math
import re

from instruments.sim.scpi import NUMBER, ScpiError

N_OUTPUTS = 2
N_PINS = 7
TICK_S = 5.12e-6
STEP_S = {"RES20": 20.48e-6, "RES40": 40.96e-6}
POINTS_MAX = 524_288
INTERVAL_MAX_S, PERIOD_MAX_S = 40_000.0, 60.0
ELOG_PERIOD_S = 102.4e-6
FIFO_S = 20.0
FILE_MAX_BYTES = 2_000_000_000

_LIST = re.compile(r"\(@\s*(\d+(?:\s*:\s*\d+)?(?:\s*,\s*\d+(?:\s*:\s*\d+)?)*)\s*\)")


def scope_interval(asked_s: float, n_parameters: int, resolution: str) -> float:
    """Return the scope view's interval for so many traces: at least 5.12 us for one, 10.24 for two, 20.48 for more.

    Up to 20.48 us it moves in steps of 10.24 us, above in steps of the resolution; none is shorter than that for RES40.
    """
    if resolution == "RES40":
        shortest_s = STEP_S["RES40"]
    else:
        shortest_s = TICK_S if n_parameters <= 1 else 2 * TICK_S if n_parameters == 2 else STEP_S["RES20"]
    if asked_s <= STEP_S["RES20"] * (1 + 1e-9):
        granted_s = TICK_S if asked_s < 1.5 * TICK_S else _nearest(asked_s, 2 * TICK_S)
    else:
        granted_s = _nearest(asked_s, STEP_S[resolution])
    return max(granted_s, shortest_s)


def log_period(asked_s: float, time_s: float, n_values: int, resolution: str) -> float:
    """Return the data logger's period: at least 20.48 us for each value, raised where the file would be too large."""
    step_s = STEP_S[resolution]
    shortest_s = max(n_values, 1) * STEP_S["RES20"]
    fits_s = time_s * 4 * max(n_values, 1) / FILE_MAX_BYTES
    return max(_nearest(asked_s, step_s), _up(max(shortest_s, fits_s), step_s))


def elog_period(asked_s: float, n_values: int, resolution: str) -> float:
    """Return the external logger's period: at least 102.4 us for each value."""
    step_s = STEP_S[resolution]
    return max(_nearest(asked_s, step_s), _up(max(n_values, 1) * ELOG_PERIOD_S, step_s))


def _nearest(value: float, step: float) -> float:
    return max(1, round(value / step)) * step


def _up(value: float, step: float) -> float:
    return math.ceil(value / step - 1e-9) * step


def outputs(parameters: list[str]) -> list[int]:
    """Take the channel list off the end of the parameters. Raises -109 without one, -222 for an output there is not."""
    match = _LIST.fullmatch(parameters[-1]) if parameters else None
    if match is None:
        raise ScpiError(-109)
    del parameters[-1]
    found: list[int] = []
    for part in match[1].split(","):
        first, _, last = part.partition(":")
        found += range(int(first), int(last or first) + 1)
    if not found or not set(found) <= set(range(1, N_OUTPUTS + 1)):
        raise ScpiError(-222)
    return found


def value(parameters: list[str], low: float, high: float) -> float:
    """Read one number in [low, high], or MINimum or MAXimum; a unit behind it is not taken."""
    if len(parameters) != 1:
        raise ScpiError(-108 if parameters else -109)
    text = parameters[0].upper()
    if text in ("MIN", "MINIMUM"):
        return low
    if text in ("MAX", "MAXIMUM"):
        return high
    match = NUMBER.fullmatch(text)
    if not match:
        raise ScpiError(-104)
    if match[2]:
        raise ScpiError(-131)
    number = float(match[1])
    if not low - 1e-9 * abs(low) <= number <= high + 1e-9 * abs(high):
        raise ScpiError(-222)
    return number


def quoted(parameters: list[str], n: int = 1) -> list[str]:
    """Read n strings in quotation marks."""
    if len(parameters) != n:
        raise ScpiError(-108 if len(parameters) > n else -109)
    for text in parameters:
        if len(text) < 2 or text[0] not in "\"'" or text[-1] != text[0]:
            raise ScpiError(-104)
    return [text[1:-1] for text in parameters]


def show(number: float) -> str:
    """Write a number as the N6705C does."""
    return f"{number:.8E}"
