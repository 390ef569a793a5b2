"""What labctl itself can refuse, and the exit status that goes with it.

    LabctlError                 exit status
    ├── ConfigError        2    a wrong option, bench file or value typed by a person
    │   ├── NobodyThere         something has to be done by hand, and nobody is at the keyboard
    │   └── Unsupported         what this DUT, image or board has not; others may go on without it (then 4)
    ├── EnvironmentFault   3    a tool, package or permission is missing on this machine
    │   ├── DiskFull            no room left; going on helps once there is some
    │   └── BusyFault           somebody else holds the bench or the folder
    ├── DeviceError        1    the device under test misbehaves
    │   ├── DeviceTransient     trying again may help (time-out, garbled line)
    │   └── DeviceStable        it will not (firmware of another board, operation unknown)
    │       └── WrongOutput     a wrong result, or a self-test that fails; after a power cycle it may be right
    ├── CaptureError       1    a capture cannot give a number: no edge, clipped, cut, too few samples
    └── FileFault          1    a file cannot be read: what it is, and what to do

Errors of instruments are `instruments.errors.InstrumentError`: exit status 1. Interrupted: 130.
"""


class LabctlError(Exception):
    """Root of what labctl refuses."""

    exit_status = 1


class ConfigError(LabctlError):
    """A person typed something that cannot be."""

    exit_status = 2


class NobodyThere(ConfigError):
    """Something has to be done by hand, and nobody is at the keyboard."""


class Unsupported(ConfigError):
    """An operation, size or variant that this DUT, image or board has not; the others it may have."""


class EnvironmentFault(LabctlError):
    """Something that should be installed or permitted is not."""

    exit_status = 3


class DiskFull(EnvironmentFault):
    """No room left on the disk, or in the quota: the same may do once there is some."""


class BusyFault(EnvironmentFault):
    """A bench or a folder that another process holds."""


class DeviceError(LabctlError):
    """The device under test does not do what its protocol says."""


class DeviceTransient(DeviceError):
    """A fault of the moment."""


class DeviceStable(DeviceError):
    """A fault that will be met again."""


class WrongOutput(DeviceStable):
    """The DUT computed something else than it should: its firmware is wrong, or its supply or memory was."""


class CaptureError(LabctlError):
    """A capture from which no honest number can be computed."""


class FileFault(LabctlError):
    """A file that cannot be read."""
