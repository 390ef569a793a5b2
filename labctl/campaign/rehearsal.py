"""The faults that a plan may rehearse on an emulated bench: their names, and what each may be set to.

docs/emulated-faults.md says what each does. The simulator is another process and refuses the same; a plan is checked
before anything is started.
"""

from __future__ import annotations

import math
from typing import Any

from labctl.errors import ConfigError
from labctl.tomlsource import nearest, shown

TRIGGER = ("disconnected", "inverted", "stuck-high", "extra-edge")
_FLAG, _BYTES, _TIME = "true or false", "a whole number of bytes, 0 or more", "a time in seconds, 0 or more"
DUT = dict.fromkeys(
    ("silent", "garbage", "corrupt_checksum", "hang", "hang_during_series", "reset_during_series", "wrong_result",
     "no_hse"), _FLAG,
)
SCOPE = {
    "silent": _FLAG, "stall_after_bytes": _BYTES, "close_after_bytes": _BYTES, "vanish_after_bytes": _BYTES,
    "return_after_s": _TIME,
}


def dut(value: Any) -> dict[str, Any]:
    """Check faults of the emulated DUT. Raises ConfigError."""
    return _checked(value, DUT)


def scope(value: Any) -> dict[str, Any]:
    """Check faults of the emulated oscilloscope. Raises ConfigError."""
    return _checked(value, SCOPE)


def _checked(value: Any, known: dict[str, str]) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise ConfigError(f"= {shown(value)} must be a table, for example {{silent = true}}")
    for name, setting in value.items():
        if name not in known:
            raise ConfigError(f"names {shown(name)}, which is no fault of it; {nearest(name, known)}")
        if not _fits(setting, known[name]):
            raise ConfigError(f"says {name} = {shown(setting)}: it must be {known[name]}")
    return value


def _fits(setting: Any, kind: str) -> bool:
    if kind == _FLAG or isinstance(setting, bool):
        return kind == _FLAG and isinstance(setting, bool)
    numbers = int if kind == _BYTES else (int, float)
    return isinstance(setting, numbers) and 0 <= setting < math.inf
