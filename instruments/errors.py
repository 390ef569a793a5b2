"""What can go wrong with an instrument.

    InstrumentError
    ├── TransientError     trying again may help
    │   ├── InstrumentTimeout   no answer in the time given
    │   └── LinkLost            the connection is gone, or out of step
    ├── StableError        trying again is useless
    │   ├── Rejected            the instrument refused a setting; its error queue is in the message
    │   ├── WrongIdentity       something else answers at this address
    │   ├── OutOfRange          a value outside what the instrument can do, stopped before the wire
    │   ├── BadData             the answer does not have the form that the manual gives
    │   └── DriverUnavailable   the driver or a package it needs is not installed
    └── SafetyStop         over-current or over-temperature: outputs off, stop everything

Every message says what happened, where, and what to do next.
"""


class InstrumentError(Exception):
    """Root of everything that an instrument or its link can raise."""


class TransientError(InstrumentError):
    """Fault of the environment: a new attempt may succeed."""


class InstrumentTimeout(TransientError, TimeoutError):
    """No complete answer within the time given."""


class LinkLost(TransientError, ConnectionError):
    """The connection is closed, refused, or tainted by an earlier time-out."""


class StableError(InstrumentError):
    """Fault that a new attempt meets again."""


class Rejected(StableError):
    """The instrument complained about a command or granted another setting than one that matters."""


class WrongIdentity(StableError):
    """Another instrument or firmware answers than the one asked for."""


class OutOfRange(StableError, ValueError):
    """A requested value lies outside the instrument's limits; nothing was sent."""


class BadData(StableError):
    """An answer breaks the form given by the manual."""


class DriverUnavailable(StableError):
    """No such driver, or a package it needs is missing; the message holds the install line, as does `install`."""

    def __init__(self, message: str, install: str = "") -> None:
        super().__init__(message)
        self.install = install


class SafetyStop(InstrumentError):
    """A limit that protects people or boards was passed."""
