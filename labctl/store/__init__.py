"""Capture files: everything needed to recompute every number of one series later, in one HDF5 file."""

from labctl.store.read import close_capture, open_capture, read_capture, read_truth, verify_capture
from labctl.store.schema import capture_name
from labctl.store.summary import Envelope, Summary, envelope, summarize
from labctl.store.write import write_capture

__all__ = [
    "Envelope",
    "Summary",
    "capture_name",
    "close_capture",
    "envelope",
    "open_capture",
    "read_capture",
    "read_truth",
    "summarize",
    "verify_capture",
    "write_capture",
]
