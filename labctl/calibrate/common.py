"""What all calibrations share: what is asked, the DUT brought back, the file that is written."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instruments.record import Record
from labctl.analysis import keys
from labctl.analysis.benefit import drawback
from labctl.bench import Bench, Fixture
from labctl.dated import CALIBRATION
from labctl.errors import CaptureError, ConfigError, FileFault, LabctlError
from labctl.frontend import utc_text
from labctl.measure import provenance
from labctl.model import Calibration, Capture, Contribution, Operation
from labctl.store import write_capture

Progress = Callable[[str, int, int], None]

# How long a calibration holds unless told otherwise, in seconds (docs/decisions/0005-calibrations.md says why).
VALID_S = {"zero": 8 * 3600.0, "gain": 30 * 86400.0, "deskew": 365 * 86400.0, "timebase": 30 * 86400.0}


@dataclass(frozen=True)
class Request:
    """What to calibrate for, and how to keep it.

    `operations` choose range and offset, as a measurement of them does; delay and time base do without. `valid_s` is
    how long the calibration holds from now. With `force` a calibration is stored that leaves its number no better
    known than none would, or that nothing told explains.
    """

    operations: tuple[Operation, ...]
    out: Path
    valid_s: float
    temperature_degc: float | None = None
    force: bool = False


@dataclass(frozen=True)
class Found:
    """What a calibration found: `Calibration` without what the bench and the clock add, and what speaks against it."""

    kind: str
    value: float
    unit: str
    contributions: tuple[Contribution, ...]
    method: str
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shunt_ohm: float | None = None
    doubt: str = ""


def keys_of(bench: Bench) -> keys.Keys:
    """Give the names of the errors of this bench."""
    return keys.Keys.of(bench.describe(), bench.scope.identify())


@contextlib.contextmanager
def fixture_in_place(bench: Bench, what: str, fixture: Fixture) -> Iterator[None]:
    """Connect a fixture for the length of the block, and the DUT again after it, also where a reading was refused.

    After Ctrl-C, or an instrument's fault, all stays as it is: nothing more is asked of a person or a broken link.
    """
    bench.connect(what, fixture)
    try:
        yield
    except LabctlError:
        from instruments.errors import InstrumentError

        with contextlib.suppress(LabctlError, InstrumentError):
            bench.connect("dut", fixture)
        raise
    bench.connect("dut", fixture)


def check_benefit(bench: Bench, request: Request, found: Found, record: Record) -> str:
    """Say where a calibration does more harm than good. Raises ConfigError for it unless it is forced."""
    sentence = drawback(_calibration(bench, request, found, record, datetime.datetime.now(datetime.UTC)),
                        bench.wiring, record)
    if sentence and not request.force:
        remedy = {
            "gain": "tell the supply's tolerance where it is better known (bench file), use a closer load, or a "
            "reference meter (--meter), which does without the supply",
            "deskew": "use a generator with faster edges",
            "timebase": "use a better reference (--against pulse), or tell its tolerance where it is better known",
        }[found.kind]
        raise ConfigError(
            f"this {found.kind} calibration would do more harm than good: {sentence}. Nothing was stored: {remedy}; "
            "--force stores it all the same"
        )
    return sentence


def store(bench: Bench, request: Request, found: Found, records: Mapping[str, Record]) -> Path:
    """Write a calibration with its readings and return the path.

    Unless the request forces it, raises ConfigError where it would do harm and CaptureError where its value is in
    doubt; FileFault and EnvironmentFault where it cannot be written.
    """
    record = next(iter(records.values()))
    harm = check_benefit(bench, request, found, record)
    if found.doubt and not request.force:
        raise CaptureError(f"{found.doubt}. Nothing was stored; --force stores it all the same")
    taken = datetime.datetime.now(datetime.UTC)
    remarks = [f"stored by --force: {text}" for text in (harm, found.doubt) if text]
    capture = Capture(
        records=records,
        wiring=bench.wiring,
        board=bench.board,
        provenance={**provenance(bench, taken, request.temperature_degc), "what": CALIBRATION,
                    "remarks": remarks},
        calibrations=(_calibration(bench, request, found, record, taken),),
    )
    name = f"calibration-{found.kind}-{taken:%Y%m%dT%H%M%SZ}"
    number = 1
    while True:
        path = request.out / (f"{name}.h5" if number == 1 else f"{name}-{number}.h5")
        try:
            return write_capture(path, capture)
        except FileFault:
            if not path.exists():
                raise
        number += 1  # another calibration of this second, into the same folder


def _calibration(
    bench: Bench, request: Request, found: Found, record: Record, taken: datetime.datetime
) -> Calibration:
    return Calibration(
        kind=found.kind,
        value=found.value,
        unit=found.unit,
        contributions=found.contributions,
        instrument=record.instrument,
        bench=keys.bench(bench.describe(), record.instrument),
        method=found.method,
        utc=utc_text(taken),
        valid_until_utc=utc_text(taken + datetime.timedelta(seconds=request.valid_s)),
        channels=found.channels,
        shunt_ohm=found.shunt_ohm,
        temperature_degc=request.temperature_degc,
    )
