"""The SCPI dialect of a Keysight N6705C with two N6781A modules, as far as this bench needs it.

From: Keysight N6705C Programmer's Reference (p. 155 data logger, p. 213 sweep; other pages not seen, the commands as
programs of others send them); N6700 User's Guide p. 91 and N6702C guide p. 146 (external data logger); N6705 User's
Guide p. 66-67 and 168 (triggers, what the data logger stops, what every module logs after power-on).

Output 1 supplies the DUT and sees its current; output 2 as a voltmeter (EMULation VMETer) sees its trigger pin, which
is led to the BNC input and to one digital pin too. The bench begins with output 1 on, as a two-quadrant supply.

Assumed, not verified against the guide: FETCh waits for an acquisition that is not complete; blocks have as few digits
of length as will do; several outputs are answered in one message, parted by commas; a level that triggers belongs to
the output that it is of; STATus:OPERation:CONDition has 1 for CV, 4 for off, 8 for waiting for a measurement's trigger,
32 for measuring, for the logs as for the scope view; a log that runs cannot be read; settings after *RST. Not modelled:
averages of markers, the front panel's keys (they may be named as a trigger and never come), export to CSV.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from instruments.sim import n6705_dlog
from instruments.sim.acquisition import REST_S
from instruments.sim.n6705_module import Module
from instruments.sim.n6705_rules import FIFO_S, N_OUTPUTS, outputs, quoted, show, value
from instruments.sim.n6705_settings import KINDS, Settings
from instruments.sim.n6705_view import Frame, Plan, Quantity, Run, Trigger, Wiring
from instruments.sim.scpi import Reply, ScpiError
from instruments.sim.world import World

METER_S = 20.48e-3


@dataclass
class Recording:
    """A run with what it took so far: parts of shape (records, values)."""

    quantities: tuple[Quantity, ...]
    run: Run | None = None
    keep: int | None = None
    name: str = ""
    head: bytes = b""
    _parts: list[np.ndarray] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def take(self, part: np.ndarray) -> None:
        """Append; of a buffer that is full the oldest are overwritten."""
        with self._lock:
            self._parts.append(part)
            if self.keep is not None and sum(map(len, self._parts)) > self.keep:
                self._parts[:] = [np.concatenate(self._parts)[-self.keep :]]

    @property
    def runs(self) -> bool:
        """Tell whether it is under way."""
        return self.run is not None and not self.run.done.is_set()

    def records(self) -> np.ndarray:
        """Return all records."""
        n_values = sum(q.n_values for q in self.quantities)
        with self._lock:
            return np.concatenate([np.empty((0, n_values), np.float32), *self._parts])

    def drain(self, n_max: int) -> np.ndarray:
        """Return the oldest records and forget them."""
        with self._lock:
            found = self.records()
            self._parts[:] = [found[n_max:]]
            return found[:n_max]

    def stop(self) -> None:
        """End it."""
        if self.run is not None:
            self.run.stop()


class N6705(Settings):
    """The mainframe. `power` switches the DUT, `is_on` tells whether it has its supply, `regulate` sets its level.

    `level_v` is the level that output 1 has at first. `power` raises OSError where the DUT does not switch.
    """

    def __init__(
        self,
        world: Callable[[], World],
        seed: int,
        *,
        power: Callable[[bool], None],
        is_on: Callable[[], bool],
        regulate: Callable[[float], None],
        level_v: float,
        pace: float,
        wiring: Wiring | None = None,
        stream: int = 0,
    ) -> None:
        super().__init__(seed, power, is_on, regulate)
        modules = {n: Module(seed, n) for n in range(1, N_OUTPUTS + 1)}
        self.frame = Frame(
            world, seed, stream, pace, wiring or Wiring(), modules,
            is_on=lambda n: self._outputs[n].on,
            is_voltmeter=lambda n: self._outputs[n].emulation == "VMET",
        )  # fmt: skip
        self._n_runs = 0
        self._scopes: dict[int, Recording] = {}
        self._elogs: dict[int, Recording] = {}
        self._log: Recording | None = None
        self._files: dict[str, bytes] = {}
        self._outputs[1].on, self._outputs[1].level_v, self._outputs[1].emulation = True, level_v, "PS2Q"
        self._register_runs()
        self._register_data()

    def _register_runs(self) -> None:
        self.do("*RST", self._reset)
        self.do("*TRG", self._bus)
        self.ask(":STATus:OPERation:CONDition?", self._conditions)
        self._list_command(":INITiate[:IMMediate]:ACQuire", self._init_scope)
        self._list_command(":INITiate[:IMMediate]:ELOG", self._init_elog)
        self.on(":INITiate[:IMMediate]:DLOG", self._init_log)
        for node, recordings in (("ACQuire", self._scopes), ("ELOG", self._elogs)):
            self._list_command(f":TRIGger:{node}[:IMMediate]", partial(self._force, recordings))
            self._list_command(f":ABORt:{node}", partial(self._abort, recordings))
        self.do(":TRIGger:DLOG[:IMMediate]", self._force_log)
        self.do(":ABORt:DLOG", self._abort_log)

    def _register_data(self) -> None:
        for kind, long in KINDS.items():
            self.ask(f":FETCh:ARRay:{long}[:DC]?", lambda p, kind=kind: self._array(kind, p))
            self.ask(f":MEASure[:SCALar]:{long}[:DC]?", lambda p, kind=kind: self._measure(kind, p))
        self.ask(":FETCh:ELOG?", self._fetch_elog)
        self.ask(":MMEMory:DATA?", lambda p: _block(self._file(p)))
        self.ask(":MMEMory:ATTRibute?", self._attribute)
        self.on(":MMEMory:DELete", self._delete)

    def _list_command(self, header: str, act: Callable[[list[int]], object]) -> None:
        """Serve a command whose only parameter is a list of outputs."""

        def obey(parameters: list[str]) -> None:
            act(self._only_list(parameters))

        self.on(header, obey)

    def _reset(self) -> None:
        self.close()
        self._scopes.clear()
        self._elogs.clear()
        self._set_defaults()
        self._supply()

    def close(self) -> None:
        """Stop whatever runs."""
        for recording in (*self._scopes.values(), *self._elogs.values(), *([self._log] if self._log else [])):
            recording.stop()
        self._settle_log()

    # --- recording ----------------------------------------------------------------------------------------------

    def _conditions(self, parameters: list[str]) -> str:
        return ",".join(str(self._condition(n)) for n in self._only_list(parameters))

    def _condition(self, n: int) -> int:
        mine = [self._scopes.get(n), self._elogs.get(n)]
        if self._log is not None and any(q.output == n for q in self._log.quantities):
            mine.append(self._log)
        runs = [r.run for r in mine if r is not None and r.run is not None and r.runs]
        waits, measures = any(r.waits for r in runs), any(not r.waits for r in runs)
        return (1 if self._outputs[n].on else 4) | (8 if waits else 0) | (32 if measures else 0)

    def _begin(self, recording: Recording, plan: Plan) -> None:
        # As for the oscilloscope: what the seed decides must not hang on when the emulator comes to rest.
        self.frame.world().rest(REST_S, self._is_gone)
        recording.run = Run(self.frame, plan, self._n_runs, recording.take)
        self._n_runs += 1

    def _is_logging(self) -> bool:
        return self._log is not None and self._log.runs

    def _init_scope(self, numbers: list[int]) -> None:
        """Start acquisitions; outputs with the same sweep and trigger share one, and its instants."""
        if self._is_logging():
            raise ScpiError(-221)
        if any(n in self._scopes and self._scopes[n].runs for n in numbers):
            raise ScpiError(-213)
        groups: dict[tuple[float, int, int, Trigger], list[int]] = {}
        for n in numbers:
            o = self._outputs[n]
            trigger = self._trigger(o.views["SCOPE"].source, "SCOPE")
            if not any(o.views["SCOPE"].on.values()):
                raise ScpiError(-221)
            groups.setdefault((self._interval(o.interval_s), o.offset, o.points, trigger), []).append(n)
        for (dt_s, offset, points, trigger), members in groups.items():
            quantities = tuple(q for n in members for q in self._quantities(n, "SCOPE", ("VOLT", "CURR")))
            recording = Recording(quantities)
            self._begin(recording, Plan(quantities, trigger, dt_s, offset, points))
            self._scopes.update(dict.fromkeys(members, recording))

    def _init_log(self, parameters: list[str]) -> None:
        (name,) = quoted(parameters)
        if not name.lower().endswith(".dlog"):
            raise ScpiError(-257)
        if self._is_logging():
            raise ScpiError(-213)
        quantities, dt_s = self._log_quantities(), self._log_period()
        if not quantities or any(r.runs for r in (*self._scopes.values(), *self._elogs.values())):
            raise ScpiError(-221)
        n_records = max(1, round(self._log_time_s / dt_s))
        offset = -round(n_records * self._log_offset / 100)
        trigger = self._trigger(self._log_source, "DLOG")
        self._settle_log()
        head = n6705_dlog.header(
            [(q.output, q.kind) for q in quantities], self._log_extremes, trigger.source,
            self._log_time_s, self._log_offset, dt_s,
        )  # fmt: skip
        self._log = Recording(quantities, name=name.lower(), head=head)
        self._begin(self._log, Plan(quantities, trigger, dt_s, offset, n_records))

    def _init_elog(self, numbers: list[int]) -> None:
        if self._is_logging():
            raise ScpiError(-221)
        if any(n in self._elogs and self._elogs[n].runs for n in numbers):
            raise ScpiError(-213)
        for n in numbers:
            quantities = self._quantities(n, "ELOG", ("CURR", "VOLT"))
            if not quantities:
                raise ScpiError(-221)
            dt_s = self._elog_period(self._outputs[n])
            trigger = self._trigger(self._outputs[n].views["ELOG"].source, "ELOG")
            recording = self._elogs[n] = Recording(quantities, keep=max(1, round(FIFO_S / dt_s)))
            self._begin(recording, Plan(quantities, trigger, dt_s, 1, None))

    def _bus(self) -> None:
        for recording in {id(r): r for r in (*self._scopes.values(), *self._elogs.values(), self._log) if r}.values():
            if recording.run is not None and recording.run.plan.trigger.source == "BUS":
                recording.run.force()

    @staticmethod
    def _force(recordings: dict[int, Recording], numbers: list[int]) -> None:
        for n in numbers:
            recording = recordings.get(n)
            if recording is not None and recording.run is not None:
                recording.run.force()

    def _force_log(self) -> None:
        if self._log is not None and self._log.run is not None:
            self._log.run.force()

    @staticmethod
    def _abort(recordings: dict[int, Recording], numbers: list[int]) -> None:
        for n in numbers:
            if n in recordings:
                recordings[n].stop()

    def _abort_log(self) -> None:
        if self._log is not None:
            self._log.stop()
        self._settle_log()

    def _settle_log(self) -> None:
        """Put the file of a log that is complete where files are."""
        if self._log is not None and not self._log.runs:
            self._files[self._log.name] = self._log.head + n6705_dlog.body(self._log.records())
            self._log = None

    # --- read-out -----------------------------------------------------------------------------------------------

    def _measure(self, kind: str, parameters: list[str]) -> str:
        """Read a mean over 20 ms from now on."""
        answers = []
        for n in self._only_list(parameters):
            v = self._outputs[n].views["SCOPE"]
            quantity = Quantity(n, kind, None if v.auto[kind] else v.full[kind])
            recording = Recording((quantity,))
            self._begin(recording, Plan((quantity,), Trigger("IMM"), METER_S, 1, 1))
            self._await(recording)
            answers.append(show(float(recording.records()[0, 0])))
        return ",".join(answers)

    def _await(self, recording: Recording) -> None:
        """Wait until a recording is complete, or nobody waits for it any more."""
        while recording.runs:
            if self._is_gone():
                recording.stop()
            time.sleep(0.002)
        if recording.run is None or recording.run.n_taken != recording.run.plan.n_records:
            raise ScpiError(-230)

    def _array(self, kind: str, parameters: list[str]) -> tuple[Reply, ...]:
        columns = []
        for n in self._only_list(parameters):
            recording = self._scopes.get(n)
            where = [(q.output, q.kind) for q in recording.quantities] if recording is not None else []
            if recording is None or (n, kind) not in where:
                raise ScpiError(-230)
            self._await(recording)
            columns.append(recording.records()[:, where.index((n, kind))])
        return self._numbers(columns)

    def _fetch_elog(self, parameters: list[str]) -> tuple[Reply, ...]:
        """Hand out, and forget, the oldest records of each output: current and then voltage."""
        numbers = outputs(parameters)
        n_max = round(value(parameters, 1, 16_384 * 1024))
        answers = []
        for n in numbers:
            recording = self._elogs.get(n)
            if recording is None:
                raise ScpiError(-230)
            answers.append(recording.drain(n_max).ravel())
        return self._numbers(answers)

    def _numbers(self, columns: list[np.ndarray]) -> tuple[Reply, ...]:
        """Write numbers in the format asked for, a block or a list for each output."""
        parts: list[Reply] = []
        for column in columns:
            parts += [","] if parts else []
            if self._format == "ASC":
                parts.append(",".join(show(float(v)) for v in column))
            else:
                parts += _block(column.astype(">f4" if self._border == "NORM" else "<f4").tobytes())
        return tuple(parts)

    def _readable(self, parameters: list[str]) -> str:
        """Return the name of a file that can be read. Raises -256, or -221 for a log that runs."""
        (name,) = (text.lower() for text in quoted(parameters))
        self._settle_log()
        if self._log is not None and self._log.name == name:
            raise ScpiError(-221)
        if name not in self._files:
            raise ScpiError(-256)
        return name

    def _file(self, parameters: list[str]) -> bytes:
        return self._files[self._readable(parameters)]

    def _delete(self, parameters: list[str]) -> None:
        del self._files[self._readable(parameters)]

    def _attribute(self, parameters: list[str]) -> str:
        """Tell the size of a file, in quotation marks; of a log that runs, as far as it got."""
        name, what = (text.lower() for text in quoted(parameters, 2))
        if what != "filesize":
            raise ScpiError(-224)
        self._settle_log()
        if self._log is not None and self._log.name == name:
            return f'"{len(self._log.head) + self._log.records().astype(np.float32).nbytes}"'
        return f'"{len(self._file([parameters[0]]))}"'


def _block(data: bytes) -> tuple[Reply, ...]:
    digits = str(len(data))
    return f"#{len(digits)}{digits}", memoryview(data)
