"""What drivers of oscilloscopes share: opening, who answers, setting and reading back, polling, common limits."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Self

from instruments.errors import InstrumentError, OutOfRange, Rejected, WrongIdentity
from instruments.protocols import AcquisitionSettings, ChannelSettings
from instruments.record import Identity
from instruments.transport.link import QUERY_TIMEOUT_S, Deadline, Link
from instruments.transport.scpi import Scpi

# A sibling of the InfiniiVision family needs 10 s from the accepted connection to its first reply (scopehal-apps issue
# 1056).
FIRST_REPLY_TIMEOUT_S = 15.0
# The granted range or span may be rounded, but a smaller one would clip or cut what was asked for.
GRANTED_MIN_RATIO = 0.99
DIVISIONS = 8
POLL_FIRST_S = 0.005
POLL_GROWTH = 1.5
# Old Agilent firmware stalls when polled without pauses of about this length (sicak issues 3 and 4).
POLL_MAX_S = 0.1
# Real oscilloscopes deliver 1 to 100 MB/s.
TRANSFER_MIN_BYTES_PER_S = 1e6


class Oscilloscope:
    """Hold the link to one oscilloscope and what was asked of it; the base of a driver, which adds the acquisition."""

    DRIVER_API = 1
    KIND = "oscilloscope"
    VENDORS: ClassVar[tuple[str, ...]]
    MODEL: ClassVar[re.Pattern[str]]
    FAMILY: ClassVar[str]

    def __init__(self, link: Link, timeout_s: float = QUERY_TIMEOUT_S) -> None:
        self._link = link
        self._scpi = Scpi(link, timeout_s)
        self._identity: Identity | None = None
        self._asked: AcquisitionSettings | None = None
        self._granted: AcquisitionSettings | None = None
        self._replies: dict[str, str] = {}
        self._n_taken = 0
        self._closed = False

    @classmethod
    def open(
        cls, resource: str, timeout_s: float = QUERY_TIMEOUT_S, first_reply_timeout_s: float = FIRST_REPLY_TIMEOUT_S
    ) -> Self:
        """Open the link, check who answers and clear the status.

        `timeout_s` holds for each exchange, and for a block beside the time that its bytes need. Raises LinkLost,
        InstrumentTimeout, WrongIdentity.
        """
        from instruments.transport.visa import VisaLink

        scope = cls(VisaLink(resource, timeout_s), timeout_s)
        try:
            scope._identify(first_reply_timeout_s)
            scope._link.write("*CLS")
        except InstrumentError:
            scope._link.close()
            raise
        return scope

    @classmethod
    def fits(cls, identity: Identity) -> bool:
        """Tell whether this driver is for the instrument that answers so."""
        known = identity.vendor.upper().startswith(cls.VENDORS)
        return known and cls.MODEL.fullmatch(identity.model.upper()) is not None

    def identify(self) -> Identity:
        """Return who answers. Raises WrongIdentity for another vendor or family, naming what answered."""
        return self._identify(self._scpi.timeout_s)

    def stop(self) -> None:
        """Stop an acquisition that is under way; harmless otherwise, and safe after errors."""
        if self._closed:
            return
        if self._link.tainted:
            self._link.reopen()
        self._link.write(":STOP")

    def close(self) -> None:
        """Stop the acquisition and release the link. May be called twice."""
        try:
            # Best effort: an instrument that cannot be reached cannot be stopped, and the caller is leaving anyway.
            with suppress(InstrumentError):
                self.stop()
        finally:
            self._closed = True
            self._link.close()

    def _identify(self, timeout_s: float) -> Identity:
        identity = self._ask_identity(timeout_s)
        if not self.fits(identity):
            raise WrongIdentity(
                f"{self._link.resource} answers as {identity.vendor} {identity.model}; this driver is for "
                f"{self.FAMILY}: choose another driver or address"
            )
        self._identity = identity
        return identity

    def _ask_identity(self, timeout_s: float) -> Identity:
        return self._scpi.identity(timeout_s)

    def _set(self, header: str, value: str | int | float | bool) -> str:
        """Set, read back, and keep the reply for the record."""
        reply = self._scpi.set(header, value)
        self._replies[header] = reply
        return reply

    def _require(self, header: str, kept: bool, asked: float, granted: float) -> None:
        if not kept:
            raise Rejected(f"{self._link.resource}: {header} was set to {asked:g} but {granted:g} was granted")

    def _configured(self, before: str = "configure") -> AcquisitionSettings:
        """Return what was granted. Raises Rejected where nothing is configured."""
        if self._granted is None:
            raise Rejected(f"{self._link.resource}: nothing is configured; call {before} first")
        return self._granted


def polls(deadline: Deadline) -> Iterator[None]:
    """Yield until the deadline, at once the first time, then after pauses that grow to the longest polite one."""
    pause_s = POLL_FIRST_S
    yield
    while (remaining_s := deadline.remaining_s) > 0:
        time.sleep(min(pause_s, remaining_s))
        pause_s = min(POLL_GROWTH * pause_s, POLL_MAX_S)
        yield


def channel_number(name: str) -> int:
    """Return 2 for CH2."""
    return int(name.removeprefix("CH"))


@dataclass(frozen=True)
class Limits:
    """What an instrument can do at most; the trigger level is counted in divisions from mid-screen."""

    span_min_s: float
    span_max_s: float
    rate_max_hz: float
    segments_max: int
    level_max_divisions: float


def check_plan(
    settings: AcquisitionSettings, limits: Limits, check_channel: Callable[[ChannelSettings], None]
) -> None:
    """Raise OutOfRange for what the instrument cannot do. NaN fails every comparison and so is refused too."""
    if not settings.channels:
        raise OutOfRange("at least one channel must be recorded")
    for channel in settings.voltages:
        check_channel(channel)
    used = [channel.name for channel in settings.channels]
    if len(set(used)) != len(used):
        raise OutOfRange(f"a channel is asked for twice: {', '.join(used)}")
    within("span", settings.span_s, limits.span_min_s, limits.span_max_s, "s")
    within("pre-trigger time", settings.pre_s, 0.0, settings.span_s, "s")
    within("sample rate", settings.rate_hz, 0.0, limits.rate_max_hz, "Hz")
    n_segments, most = settings.n_segments, limits.segments_max
    if not (isinstance(n_segments, int) and 1 <= n_segments <= most):
        raise OutOfRange(f"the number of segments must be a whole number from 1 to {most}, not {n_segments!r}")
    trigger = settings.trigger
    if trigger is None:
        if n_segments > 1:
            raise OutOfRange(f"without a trigger one segment is taken, not {n_segments}")
        return
    if trigger.source not in used:
        raise OutOfRange(f"trigger source {trigger.source!r} is not among the recorded channels {', '.join(used)}")
    if trigger.edge not in ("rising", "falling"):
        raise OutOfRange(f"trigger edge must be rising or falling, not {trigger.edge!r}")
    channel = settings.voltages[used.index(trigger.source)]
    reach_v = limits.level_max_divisions * channel.range_v / DIVISIONS
    within("trigger level", trigger.level_v, channel.offset_v - reach_v, channel.offset_v + reach_v, "V")


def check_input(channel: ChannelSettings, names: tuple[str, ...]) -> None:
    """Raise OutOfRange for a channel that is not there, or a coupling that no oscilloscope records with."""
    if channel.name not in names:
        raise OutOfRange(f"no channel {channel.name!r}; this instrument has {', '.join(names)}")
    if channel.coupling not in ("DC", "AC"):
        raise OutOfRange(f"{channel.name} coupling must be DC or AC, not {channel.coupling!r}")


def within(what: str, value: float, low: float, high: float, unit: str, condition: str = "") -> None:
    """Raise OutOfRange unless `value` lies between the limits."""
    if not low <= value <= high:
        limits = f"from {low:g} {unit} to {high:g} {unit}{condition}"
        raise OutOfRange(f"{what} must be {limits}, not {value:g} {unit}")
