"""How a failed attempt is taken: tried again, given up, the end of all, or waited out (docs/decisions/0006)."""

from __future__ import annotations

import errno

from instruments.errors import SafetyStop, TransientError
from labctl.errors import CaptureError, DeviceTransient, DiskFull, EnvironmentFault, WrongOutput

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def classify(error: BaseException) -> str:
    """Tell "transient", "stable", "safety" or "disk" of an error, from its class alone.

    A capture that gives no number and a wrong output of the DUT may come right after a power cycle. So may what this
    machine lacks, a port for instance that comes back without its permissions: that it had all was checked at the
    start. What nobody foresaw costs its item and no more.
    """
    if isinstance(error, SafetyStop):
        return "safety"
    if isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in _NO_ROOM):
        return "disk"
    if isinstance(error, TransientError | DeviceTransient | CaptureError | WrongOutput | EnvironmentFault | OSError):
        return "transient"
    return "stable"


def text_of(error: BaseException) -> str:
    """Say what happened; of an error that is none of labctl's or an instrument's, its class too."""
    known = type(error).__module__.startswith(("labctl.", "instruments."))
    return str(error) if known and str(error) else f"{type(error).__name__}: {error}".removesuffix(": ")
