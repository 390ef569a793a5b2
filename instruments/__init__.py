"""Drivers of laboratory instruments, and the emulated bench that stands in for them.

Knows nothing of labctl, of cryptography or of campaigns. Driver authors use `protocols`, `record` and `errors`.
"""

# labctl checks this at start: another distribution also ships an import package called `instruments`.
LABCTL_INSTRUMENTS = True
# Raised when `protocols` changes in a way that breaks drivers of third parties.
DRIVER_API = 1
