"""The three ways in which an N6705 records: scope view, data log, external log. Each sets up, arms, waits and fetches.

The short names in brackets are explained in `keysight_n6705`.
"""

from __future__ import annotations

import time
from math import ceil
from typing import Any

import numpy as np

from instruments.dlog import VALUE_BYTES, VALUE_TYPE, cleaned, parse_head, records_of
from instruments.drivers.n6705_elog import Drain
from instruments.drivers.n6705_facts import (
    DATA_LOG,
    EXTERNAL_LOG,
    QUANTITIES,
    SCOPE_VIEW,
    TRANSFER_MIN_BYTES_PER_S,
    Plan,
    Quantity,
    peak_v,
    resolution,
)
from instruments.drivers.oscilloscope import polls
from instruments.errors import BadData, InstrumentTimeout, Rejected
from instruments.protocols import AcquisitionSettings, ChannelSettings, CurrentSettings, Progress
from instruments.transport.link import Deadline, Link
from instruments.transport.scpi import Scpi

# Of the operation status register [OG] p. 350: MEAS-active, and WTG-meas, which an N6705C does not use and others of
# the family do: of those, the one may be clear while the other is set.
BUSY_BITS = 1 << 5 | 1 << 3
# The pre-trigger part fills from when the instrument takes the command: this is for what that may take.
FILL_MARGIN_S = 0.02
LOG_FILE = r"internal:\labctl.dlog"
# A range or interval may be rounded, but not so that what was asked for is clipped or missed.
GRANTED_MIN_RATIO = 0.99


class Mainframe:
    """One N6705: its link, and every setting that was read back."""

    def __init__(self, link: Link, timeout_s: float) -> None:
        self.link = link
        self.scpi = Scpi(link, timeout_s)
        self.replies: dict[str, str] = {}
        self.n_outputs = 0

    def set(self, header: str, value: str | int | float | bool, output: int | None = None) -> str:
        """Set, read the error queue, read back, remember and return the reply. Raises Rejected."""
        where = "" if output is None else channel_list((output,))
        reply = self.scpi.set(header, value, where)
        self.replies[f"{header} {where}".strip()] = reply
        return reply

    def require(self, header: str, kept: bool, asked: float, granted: float) -> None:
        """Raise Rejected unless what was granted will do."""
        if not kept:
            raise Rejected(f"{self.link.resource}: {header} was set to {asked:g} but {granted:g} was granted")

    def are_busy(self, outputs: tuple[int, ...]) -> list[bool]:
        """Tell of each output whether its measurement system is initiated or waits for a trigger. Raises BadData."""
        query = f"STAT:OPER:COND? {channel_list(outputs)}"
        reply = self.scpi.query(query)
        try:
            conditions = [int(float(field)) for field in reply.split(",")]
        except ValueError as error:
            raise BadData(f"{self.link.resource}: {query} answered {reply!r} where whole numbers belong") from error
        if len(conditions) != len(outputs):
            raise BadData(f"{self.link.resource}: {query} answered {reply!r}, not one number for each output")
        return [bool(condition & BUSY_BITS) for condition in conditions]


class Mode:
    """What the three have in common: which outputs and quantities, their ranges, and the trigger."""

    # Words in front of a setting, and behind TRIG, INIT and ABOR; and what reads the recording.
    sense, system, reading = "", "", ""

    def __init__(self, unit: Mainframe, settings: AcquisitionSettings, plan: Plan) -> None:
        self.unit, self.settings, self.plan = unit, settings, plan
        self.asked = {channel.name: channel for channel in settings.channels}
        self.quantities = [QUANTITIES[channel.name] for channel in settings.channels]
        self.outputs = tuple(sorted({quantity.output for quantity in self.quantities}))
        # What was granted: half of full scale, None for the seamless one.
        self.ranges: dict[str, float | None] = {}
        self.level_v: float | None = None

    def set_up(self) -> None:
        """Set everything and read it back; afterwards `plan`, `ranges` and `level_v` are what was granted."""
        raise NotImplementedError

    def arm(self, timeout_s: float) -> None:
        """Start, and return once a trigger is heard."""
        raise NotImplementedError

    def wait(self, timeout_s: float, progress: Progress | None) -> bool:
        """Wait until the recording is complete; tell whether it is."""
        raise NotImplementedError

    def fetch(self) -> dict[str, np.ndarray[Any, Any]]:
        """Read float32 values of shape (samples,) by channel, NaN where nothing was measured."""
        raise NotImplementedError

    def stop(self) -> None:
        """Abort what is under way."""
        where = "" if self.system == "DLOG" else f" {channel_list(self.outputs)}"
        self.unit.link.write(f"ABOR:{self.system}{where}")

    def _set_functions(self) -> None:
        """Switch on what is recorded, and off what else would be.

        From power-on every output records its voltage, which counts against the interval (energyrunner 24).
        """
        wanted = {(quantity.output, quantity.function) for quantity in self.quantities}
        for output in range(1, self.unit.n_outputs + 1):
            for function in ("VOLT", "CURR"):
                self.unit.set(f"SENS:{self.sense}FUNC:{function}", (output, function) in wanted, output)

    def _set_ranges(self) -> None:
        for quantity in self.quantities:
            asked, header = self.asked[quantity.name], f"SENS:{self.sense}{quantity.function}:RANG"
            if isinstance(asked, CurrentSettings):
                self.unit.set(f"{header}:AUTO", asked.range_a is None, quantity.output)
                reach = asked.range_a
            else:
                assert isinstance(asked, ChannelSettings)
                reach = peak_v(asked)
            self.ranges[quantity.name] = reach
            if reach is not None:
                granted = float(self.unit.set(header, float(reach), quantity.output))
                self.unit.require(header, granted >= GRANTED_MIN_RATIO * reach, reach, granted)
                self.ranges[quantity.name] = granted

    def _set_interval(self, header: str, outputs: tuple[int | None, ...]) -> None:
        """Set the interval, and plan anew for the one that was granted."""
        asked_s = self.plan.dt_s
        found_s = [float(self.unit.set(header, asked_s, output)) for output in outputs]
        for granted_s in found_s:
            fits = granted_s > 0 and abs(granted_s - found_s[0]) <= 1e-6 * found_s[0]
            fast_enough = self.settings.rate_hz * granted_s <= 1 / GRANTED_MIN_RATIO
            self.unit.require(header, fits and fast_enough, asked_s, granted_s)
        self.plan = self.plan.at(found_s[0], self.settings)

    def _set_trigger(self, without: str, outputs: tuple[int | None, ...]) -> None:
        """Choose the trigger of every output; `without` is the source where there is none."""
        trigger = self.settings.trigger if self.plan.waits else None
        source = without if trigger is None else {"BNC": "EXT"}.get(trigger.source, trigger.source)
        if trigger is not None:
            slope = "POS" if trigger.edge == "rising" else "NEG"
            if source.startswith("PIN"):
                self.unit.set(f"DIG:{source}:FUNC", "TINP")
                self.unit.set(f"DIG:{source}:POL", slope)
            elif source.startswith("VOLT"):
                number = int(source.removeprefix("VOLT"))
                self.level_v = float(self.unit.set(f"TRIG:{self.system}:VOLT", float(trigger.level_v), number))
                watched = next(channel for channel in self.asked.values() if channel.name == f"V{number}")
                assert isinstance(watched, ChannelSettings)
                near = abs(self.level_v - trigger.level_v) <= watched.range_v / 8
                self.unit.require(f"TRIG:{self.system}:VOLT", near, trigger.level_v, self.level_v)
                self.unit.set(f"TRIG:{self.system}:VOLT:SLOP", slope, number)
        for output in outputs:
            self.unit.set(f"TRIG:{self.system}:SOUR", source, output)

    def _fill(self) -> None:
        """Let the pre-trigger part fill: a trigger before that is ignored, and the recording never ends [OG] p. 213."""
        if self.plan.waits:
            time.sleep(self.plan.n_before * self.plan.dt_s + FILL_MARGIN_S)


class ScopeView(Mode):
    """One acquisition of all outputs on the same trigger."""

    system, reading = "ACQ", "FETC:ARR?"

    def set_up(self) -> None:
        """Set points, interval and trigger of each output, which acquires on its own."""
        self._set_functions()
        self._set_ranges()
        self.unit.set("SENS:SWE:TINT:RES", resolution(len(self.quantities)))
        self._set_interval("SENS:SWE:TINT", self.outputs)
        for output in self.outputs:
            self.unit.set("SENS:SWE:POIN", self.plan.n_samples, output)
            self.unit.set("SENS:SWE:OFFS:POIN", -self.plan.n_before, output)
        self._set_trigger("BUS", self.outputs)

    def arm(self, timeout_s: float) -> None:
        """Initiate all outputs. Raises InstrumentTimeout where one does not become active."""
        where = channel_list(self.outputs)
        self.unit.scpi.command(f"INIT:ACQ {where}")
        for _ in polls(Deadline(timeout_s)):
            if all(self.unit.are_busy(self.outputs)):
                break
        else:
            errors = self.unit.scpi.errors()
            self.stop()
            raise InstrumentTimeout(
                f"{self.unit.link.resource}: INIT:ACQ {where} was not active within {timeout_s:g} s "
                f"({'; '.join(errors) or 'no error queued'}): try a longer time-out"
            )
        self._fill()
        if not self.plan.waits:
            self.unit.scpi.command(f"TRIG:ACQ {where}")

    def wait(self, timeout_s: float, progress: Progress | None) -> bool:
        """Wait until no output measures any more."""
        for _ in polls(Deadline(timeout_s)):
            done = not any(self.unit.are_busy(self.outputs))
            if progress is not None:
                progress(int(done), 1)
            if done:
                return True
        return False

    def fetch(self) -> dict[str, np.ndarray[Any, Any]]:
        """Read one block for each quantity. Raises BadData where it holds another number of points."""
        return {quantity.name: self._read(quantity) for quantity in self.quantities}

    def _read(self, quantity: Quantity) -> np.ndarray[Any, Any]:
        command = f"FETC:ARR:{quantity.function}? {channel_list((quantity.output,))}"
        into = np.empty(VALUE_BYTES * self.plan.n_samples, np.uint8)
        payload = self.unit.link.query_block(command, _transfer_s(self.unit, into.size), into)
        if payload.size != into.size:
            raise BadData(
                f"{self.unit.link.resource}: {command} gave {payload.size} bytes; {self.plan.n_samples} points of one "
                f"quantity are {into.size}"
            )
        return cleaned(payload.view(VALUE_TYPE))


class DataLog(Mode):
    """A log to a file in the instrument, which then is read. It takes the converters of all outputs."""

    sense, system, reading = "DLOG:", "DLOG", "MMEM:DATA?"

    def set_up(self) -> None:
        """Set interval, length and trigger, which are those of all outputs."""
        self._set_functions()
        self.unit.set("SENS:DLOG:FUNC:MINM", False)
        self._set_ranges()
        self._set_interval("SENS:DLOG:PER", (None,))
        # The trigger's place is a whole percentage, and lengths in the files are whole seconds.
        before_s = self.plan.n_before * self.plan.dt_s
        percent = ceil(100 * before_s / self.settings.span_s)
        after_s = self.settings.span_s - before_s
        span_s = ceil(max(self.settings.span_s, after_s / (1 - percent / 100) if percent < 100 else 0.0))
        granted_s = float(self.unit.set("SENS:DLOG:TIME", float(span_s)))
        self.unit.require("SENS:DLOG:TIME", granted_s >= GRANTED_MIN_RATIO * span_s, span_s, granted_s)
        self.unit.set("SENS:DLOG:OFFS", percent)
        n_samples = int(granted_s / self.plan.dt_s)
        n_before = round(percent / 100 * granted_s / self.plan.dt_s)
        self.plan = Plan(DATA_LOG, self.plan.dt_s, n_samples, n_before, self.plan.waits)
        self._set_trigger("IMM", (None,))

    def arm(self, timeout_s: float) -> None:
        """Remove an earlier file, then start."""
        # An earlier log must not be taken for this one. Where there is none, the instrument complains.
        self.unit.link.write(f'MMEM:DEL "{LOG_FILE}"')
        self.unit.scpi.errors()
        self.unit.scpi.command(f'INIT:DLOG "{LOG_FILE}"')
        self._fill()

    def wait(self, timeout_s: float, progress: Progress | None) -> bool:
        """Wait until nothing measures and the file is long enough."""
        # No manual at hand says whether a log shows as an active measurement, so its file must be long enough too.
        n_bytes = (self.plan.n_samples - 1) * len(self.quantities) * VALUE_BYTES
        for _ in polls(Deadline(timeout_s)):
            done = not any(self.unit.are_busy(self.outputs)) and self._file_bytes() >= n_bytes
            if progress is not None:
                progress(int(done), 1)
            if done:
                return True
        return False

    def _file_bytes(self) -> int:
        query = f'MMEM:ATTR? "{LOG_FILE}","FileSize"'
        reply = self.unit.scpi.query(query)
        size = reply.strip().strip('"')
        if not (size.isascii() and size.isdigit()):
            raise BadData(f"{self.unit.link.resource}: {query} answered {reply!r} where a number of bytes belongs")
        return int(size)

    def fetch(self) -> dict[str, np.ndarray[Any, Any]]:
        """Read the file. Raises BadData where it is cut short, or holds other quantities, another interval or less."""
        resource = self.unit.link.resource
        command = f'MMEM:DATA? "{LOG_FILE}"'
        into = np.empty(self._file_bytes(), np.uint8)
        data = self.unit.link.query_block(command, _transfer_s(self.unit, into.size), into)
        if data.size != into.size:
            raise BadData(f"{resource}: {command} gave {data.size} bytes of a file that has {into.size}")
        head = parse_head(data.data, f"{resource}: {command}")
        names = [column.name for column in head.columns]
        expected = sorted((q.name for q in self.quantities), key=lambda name: (name[1:], name[0] == "I"))
        records = records_of(data, head)
        wrong_step = abs(head.dt_s - self.plan.dt_s) > 1e-3 * self.plan.dt_s
        # Whether the last interval counts is the instrument's choice.
        if names != expected or wrong_step or len(records) < self.plan.n_samples - 1:
            raise BadData(
                f"{resource}: {command} holds {len(records)} records of {', '.join(names)} every {head.dt_s:g} s; "
                f"{self.plan.n_samples} of {', '.join(expected)} every {self.plan.dt_s:g} s were set"
            )
        return {name: cleaned(records[: self.plan.n_samples, index]) for index, name in enumerate(names)}


class ExternalLog(Mode):
    """A log that is read while it runs, by a thread of its own: what is not read in time is overwritten."""

    sense, system, reading = "ELOG:", "ELOG", "FETC:ELOG?"

    def set_up(self) -> None:
        """Set the interval and trigger of each output, which logs on its own."""
        self._drain: Drain | None = None
        self._set_functions()
        for output in self.outputs:
            for function in ("VOLT", "CURR"):
                if any((q.output, q.function) == (output, function) for q in self.quantities):
                    self.unit.set(f"SENS:ELOG:FUNC:{function}:MINM", False, output)
        self._set_ranges()
        self.unit.set("SENS:SWE:TINT:RES", resolution(len(self.quantities)))
        self._set_interval("SENS:ELOG:PER", self.outputs)
        # Each output logs on its own [UG] p. 168: of one trigger command, not of IMMediate, they begin together.
        self._set_trigger("BUS", self.outputs)

    def arm(self, timeout_s: float) -> None:
        """Start all outputs, and the thread that reads them."""
        # Current goes before voltage in a record [N69] p. 161.
        self._columns = {
            output: sorted((q for q in self.quantities if q.output == output), key=lambda q: q.function)
            for output in self.outputs
        }
        self.unit.scpi.command(f"INIT:ELOG {channel_list(self.outputs)}")
        if not self.plan.waits:
            self.unit.scpi.command(f"TRIG:ELOG {channel_list(self.outputs)}")
        widths = {output: len(columns) for output, columns in self._columns.items()}
        self._drain = Drain(self.unit.link, self.unit.scpi.timeout_s, widths, self.plan.n_samples)

    def wait(self, timeout_s: float, progress: Progress | None) -> bool:
        """Wait for the last record, then end the log. Raises what reading raised."""
        assert self._drain is not None
        done = self._drain.wait(timeout_s)
        if done:
            super().stop()
        if progress is not None:
            progress(int(done), 1)
        return done

    def fetch(self) -> dict[str, np.ndarray[Any, Any]]:
        """Give what was read."""
        assert self._drain is not None
        return {
            quantity.name: cleaned(self._drain.records[output][:, index])
            for output, columns in self._columns.items()
            for index, quantity in enumerate(columns)
        }

    def stop(self) -> None:
        """Stop reading, then abort."""
        if self._drain is not None:
            self._drain.stop()
        super().stop()


MODES: dict[str, type[Mode]] = {SCOPE_VIEW: ScopeView, DATA_LOG: DataLog, EXTERNAL_LOG: ExternalLog}


def channel_list(outputs: tuple[int, ...]) -> str:
    """Write a channel list: (@1,2)."""
    return f"(@{','.join(map(str, outputs))})"


def _transfer_s(unit: Mainframe, n_bytes: int) -> float:
    return unit.scpi.timeout_s + n_bytes / TRANSFER_MIN_BYTES_PER_S
