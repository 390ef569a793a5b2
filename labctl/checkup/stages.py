"""Stage after stage of a check: a fault is named once, and what it keeps from being judged is "left out"."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from instruments.errors import InstrumentError
from instruments.protocols import ChannelSettings
from instruments.record import Record
from labctl import interrupts
from labctl.analysis.finding import FAULT, LEFT_OUT, Finding
from labctl.bench import Bench
from labctl.errors import CaptureError, DeviceError, NobodyThere

# Without these nothing can be judged.
_LINKS = ("scope", "DUT")


@dataclass(frozen=True)
class Clock:
    """What a series of the busy loop told: its mean current (None: the shunt is at fault), and the finest sampling."""

    current_a: float | None
    window_s: float
    dt_min_s: float


@dataclass
class Seen:
    """What one stage leaves to the next.

    `wide` are settings that show the shunt, `zero` a reading of no current at these; None where the shunt is at fault.
    `waiting_v` are the readings of the shunt's channels while the DUT waits, `margin_v` the room their offsets need;
    `reads` tells whether the shunt reads a current of the right sign, however large.
    """

    wide: tuple[ChannelSettings, ...] = ()
    zero: Record | None = None
    waiting_v: dict[str, float] = field(default_factory=dict)
    margin_v: float = 0.0
    reads: bool = False
    clock: Clock | None = None


Look = Callable[[Bench, Seen], Iterator[Finding]]


class Stages:
    """Run stages; remember in `faulty`, in order, the names of what is at fault, and in `n_run` their number.

    `unattended` tells that something was to be done by hand, and nobody was there.
    """

    def __init__(self) -> None:
        self.faulty: list[str] = []
        self.n_run = 0
        self.unattended = False

    def run(
        self, names: tuple[str, ...], look: Callable[[], Iterator[Finding]], needs: tuple[str, ...] = ()
    ) -> Iterator[Finding]:
        """Give the findings of one stage, and for each of `names` that it leaves unsaid one that is left out.

        A stage is not begun where one of `needs`, or the link to oscilloscope or DUT, is at fault. What these raise in
        it is a finding. Where nobody is at the keyboard, the stage is left out. Raises what nobody at the bench is to
        blame for.
        """
        interrupts.check()
        self.n_run += 1
        cause = next((name for name in self.faulty if name in (*_LINKS, *needs)), "")
        said: set[str] = set()
        if not cause:
            n_before = len(self.faulty)
            try:
                for finding in look():
                    said.add(finding.name)
                    self._note(finding)
                    yield finding
            except NobodyThere as error:
                self.unattended = True
                for name in names:
                    if name not in said:
                        yield Finding(name, LEFT_OUT, str(error))
                return
            except (DeviceError, CaptureError, InstrumentError) as error:
                finding = Finding(_blamed(error, names[0]), FAULT, str(error))
                said.add(finding.name)
                self._note(finding)
                yield finding
            cause = next(iter(self.faulty[n_before:]), "")
        for name in names:
            if cause and name not in said:
                yield Finding(name, LEFT_OUT, f"not judged, because of the fault above: {cause}")

    def _note(self, finding: Finding) -> None:
        if finding.status == FAULT:
            self.faulty.append(finding.name)


def _blamed(error: Exception, stage: str) -> str:
    """Name what an error speaks of."""
    if isinstance(error, DeviceError):
        return "DUT"
    return "scope" if isinstance(error, InstrumentError) else stage


def stop_quietly(bench: Bench) -> None:
    """Leave the oscilloscope safe, whatever happened."""
    with contextlib.suppress(InstrumentError):
        bench.scope.stop()
