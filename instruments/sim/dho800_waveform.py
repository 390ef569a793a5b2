"""What the emulated DHO814 says of a waveform: the codes of a page, and how they become volts and seconds.

The converter's 12 bit are the upper ones of a word; see dho800.py for sources and for what is assumed.
"""

from __future__ import annotations

import numpy as np

from instruments.sim.dho800_settings import CODES_PER_DIVISION, INPUTS
from instruments.sim.frontend import N_DIVISIONS, ChannelSetup
from instruments.sim.scpi import Reply, block

PAGE_POINTS = {"BYTE": 250_000, "WORD": 125_000, "ASC": 15_625}
PREAMBLE_FIELDS = ("XINCrement", "XORigin", "XREFerence", "YINCrement", "YORigin", "YREFerence")
_FORMATS = ("BYTE", "WORD", "ASC")
_MODES = ("NORM", "MAX", "RAW")
_NOTHING = "0,1,0.000000,0.000000,0,0.000000,0,0"
_WORD_STEP = (1 << 16) // INPUTS.n_codes
_BYTE_STEP = 256
_MID_WORD = 1 << 15


def nr(value: float) -> str:
    """Write a number as the guide's examples do: six digits after the point, and an exponent."""
    return f"{value:.6E}"


def preamble(wave_format: str, mode: str, n_points: int, dt_s: float, left_s: float, setup: ChannelSetup) -> str:
    """Return the ten fields (3.28.14)."""
    step = _BYTE_STEP if wave_format == "BYTE" else 1
    step_v = _step_v(setup) * step
    kind = str(_FORMATS.index(wave_format)), str(_MODES.index(mode))
    horizontal = nr(dt_s), nr(left_s), nr(0.0)
    vertical = nr(step_v), str(round(-setup.offset_v / step_v)), str(_MID_WORD // step)
    return ",".join((*kind, str(n_points), "1", *horizontal, *vertical))


def empty_preamble(wave_format: str, mode: str) -> str:
    """Return what is said where there is no waveform."""
    return f"{_FORMATS.index(wave_format)},{_MODES.index(mode)},{_NOTHING}"


def data(wave_format: str, codes: np.ndarray, setup: ChannelSetup) -> Reply | tuple[Reply, ...]:
    """Return the answer that holds the converter's codes, uint16 of shape (n,): a block, or volts as text."""
    words = codes * np.uint16(_WORD_STEP)
    if wave_format == "ASC":
        volts = (words.astype(float) - _MID_WORD) * _step_v(setup) + setup.offset_v
        return ",".join(map(nr, volts))
    if wave_format == "BYTE":
        coarse = np.minimum((words.astype(np.uint32) + _BYTE_STEP // 2) // _BYTE_STEP, 255)
        return block([coarse.astype(np.uint8)], 9)
    return block([words.astype("<u2")], 9)


def empty_data(wave_format: str) -> Reply | tuple[Reply, ...]:
    """Return the answer that holds nothing."""
    return "" if wave_format == "ASC" else block([], 9)


def _step_v(setup: ChannelSetup) -> float:
    return setup.range_v / N_DIVISIONS / CODES_PER_DIVISION
