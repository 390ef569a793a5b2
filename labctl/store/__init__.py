"""Capture files: everything needed to recompute every number of one series later, in one HDF5 file."""

from labctl.store.read import close_capture, open_capture, read_capture, read_truth, verify_capture, verify_group
from labctl.store.schema import capture_name
from labctl.store.summary import Envelope, RangeStatistics, envelope, range_statistics
from labctl.store.write import write_capture

__all__ = [
    "Envelope",
    "RangeStatistics",
    "capture_name",
    "close_capture",
    "envelope",
    "open_capture",
    "range_statistics",
    "read_capture",
    "read_truth",
    "verify_capture",
    "verify_group",
    "write_capture",
]
