"""Calibrations of a bench: zero, gain, deskew, time base, each stored as a capture file with the readings behind it."""

from labctl.calibrate.common import VALID_S, Request
from labctl.calibrate.gain import calibrate_gain, calibrate_zero
from labctl.calibrate.reference import MeterReading
from labctl.calibrate.timing import calibrate_deskew, calibrate_timebase

__all__ = [
    "VALID_S",
    "MeterReading",
    "Request",
    "calibrate_deskew",
    "calibrate_gain",
    "calibrate_timebase",
    "calibrate_zero",
]
