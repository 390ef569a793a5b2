"""Settings of the emulated N6705C: what each output has, what the mainframe has, and what follows from them.

See `n6705` for where the commands are from and what is assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from instruments.sim.n6705_module import MODEL, RANGES, range_for
from instruments.sim.n6705_rules import (
    ELOG_PERIOD_S,
    INTERVAL_MAX_S,
    N_OUTPUTS,
    N_PINS,
    PERIOD_MAX_S,
    POINTS_MAX,
    STEP_S,
    TICK_S,
    elog_period,
    log_period,
    outputs,
    scope_interval,
    show,
    value,
)
from instruments.sim.n6705_view import Quantity, Trigger
from instruments.sim.scpi import Instrument, ScpiError, boolean, choice

IDENTITY = "Keysight Technologies,N6705C,EMULATED{seed},E.02.10.3327"
VOLTAGE_MAX_V, CURRENT_MAX_A = 20.4, 3.06
# Below this the DUT has no supply to speak of.
ALIVE_V = 1.0
KINDS = {"VOLT": "VOLTage", "CURR": "CURRent"}
VIEWS = {"SCOPE": "", "DLOG": "DLOG:", "ELOG": "ELOG:"}
TRIGGER_NODES = {"SCOPE": "ACQuire", "DLOG": "DLOG", "ELOG": "ELOG"}
EMULATIONS = (
    "PS4Q", "PS2Q", "PS1Q", "BATTery", "CHARger", "CCLoad", "CVLoad", "VMETer", "AMETer",
)  # fmt: skip


@dataclass
class View:
    """What one output gives to the scope view or to a log, and how it triggers it."""

    on: dict[str, bool] = field(default_factory=lambda: {"VOLT": True, "CURR": False})
    full: dict[str, float] = field(default_factory=lambda: {k: RANGES[k][-1].full for k in RANGES})
    auto: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(RANGES, False))
    extremes: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(RANGES, False))
    level: dict[str, float] = field(default_factory=lambda: dict.fromkeys(RANGES, 0.0))
    slope: dict[str, str] = field(default_factory=lambda: dict.fromkeys(RANGES, "POS"))
    source: str = "BUS"


@dataclass
class Output:
    """Everything that *RST resets of an output."""

    emulation: str = "PS4Q"
    on: bool = False
    level_v: float = 0.0
    limit_a: float = CURRENT_MAX_A
    protection_v: float = 22.0
    priority: str = "VOLT"
    compensation: bool = True
    interval_s: float = STEP_S["RES20"]
    points: int = 1024
    offset: int = 0
    elog_period_s: float = 0.1
    views: dict[str, View] = field(default_factory=lambda: {name: View() for name in VIEWS})


class Settings(Instrument):
    """The commands that only set and tell. `power`, `is_on` and `regulate` as of `n6705.N6705`."""

    def __init__(
        self, seed: int, power: Callable[[bool], None], is_on: Callable[[], bool], regulate: Callable[[float], None]
    ) -> None:
        super().__init__()
        self._seed = seed
        self._power, self._is_on, self._regulate = power, is_on, regulate
        self._set_defaults()
        self._register_frame()
        self._register_source()
        self._register_sense()
        self._register_triggers()

    # --- tables -------------------------------------------------------------------------------------------------

    def _each(
        self,
        header: str,
        read: Callable[[list[str]], Any],
        put: Callable[[Output, Any], object],
        get: Callable[[Output], str],
    ) -> None:
        """Serve command and query of a setting that each output has."""

        def obey(parameters: list[str]) -> None:
            numbers = outputs(parameters)
            setting = read(parameters)
            for n in numbers:
                put(self._outputs[n], setting)

        self.on(header, obey)
        self.ask(header + "?", lambda p: ",".join(get(self._outputs[n]) for n in self._only_list(p)))

    def _field(self, header: str, name: str, read: Callable[[list[str]], Any], write: Callable[[Any], str]) -> None:
        """Serve command and query of a field of each output."""
        self._each(header, read, lambda o, v: setattr(o, name, v), lambda o: write(getattr(o, name)))

    def _frame_field(
        self, header: str, name: str, read: Callable[[list[str]], Any], write: Callable[[Any], str]
    ) -> None:
        """Serve command and query of a setting of the mainframe."""
        self.on(header, lambda p: setattr(self, name, read(p)))
        self.on(header + "?", lambda: write(getattr(self, name)))

    @staticmethod
    def _only_list(parameters: list[str]) -> list[int]:
        numbers = outputs(parameters)
        if parameters:
            raise ScpiError(-108)
        return numbers

    def _register_frame(self) -> None:
        self.on("*IDN?", lambda: IDENTITY.format(seed=self._seed))
        self.on("*OPT?", lambda: "0")
        self.on(":SYSTem:CHANnel[:COUNt]?", lambda: str(N_OUTPUTS))
        self.ask(":SYSTem:CHANnel:MODel?", lambda p: ",".join(MODEL for _ in self._only_list(p)))
        self._frame_field(":FORMat[:DATA]", "_format", lambda p: choice(p, "ASCii", "REAL"), str)
        self._frame_field(":FORMat:BORDer", "_border", lambda p: choice(p, "NORMal", "SWAPped"), str)
        for name, options in (
            ("FUNCtion", ("DIO", "DINPut", "TOUTput", "TINPut", "FAULt", "INHibit", "ONCouple", "OFFCouple")),
            ("POLarity", ("POSitive", "NEGative")),
        ):

            def put(n: int, p: list[str], name: str = name, options: tuple[str, ...] = options) -> None:
                self._pin(n)[name] = choice(p, *options)

            self.on(f"[:SOURce]:DIGital:PIN<n>:{name}", put)
            self.on(f"[:SOURce]:DIGital:PIN<n>:{name}?", lambda n, name=name: self._pin(n)[name])

    def _register_source(self) -> None:
        def emulate(output: Output, emulation: str) -> None:
            if emulation != output.emulation:
                output.emulation, output.on = emulation, False
                self._supply()

        def switch(output: Output, on: bool) -> None:
            output.on = on
            self._supply()

        def level(output: Output, level_v: float) -> None:
            output.level_v = level_v
            self._supply()

        volts = "[:SOURce]:VOLTage"
        level_header = f"{volts}[:LEVel][:IMMediate][:AMPLitude]"
        self._each(":OUTPut[:STATe]", boolean, switch, lambda o: str(int(o.on)))
        self._each("[:SOURce]:EMULation", lambda p: choice(p, *EMULATIONS), emulate, lambda o: o.emulation)
        self._each(level_header, lambda p: value(p, 0.0, VOLTAGE_MAX_V), level, lambda o: show(o.level_v))
        self._field("[:SOURce]:FUNCtion", "priority", lambda p: choice(p, "VOLTage", "CURRent"), str)
        limit = "[:SOURce]:CURRent:LIMit[:POSitive][:IMMediate][:AMPLitude]"
        self._field(limit, "limit_a", lambda p: value(p, 0.0, CURRENT_MAX_A), show)
        self._field(f"{volts}:PROTection:REMote", "protection_v", lambda p: value(p, 0.0, 22.0), show)

    def _register_sense(self) -> None:
        def count(parameters: list[str], low: int, high: int) -> int:
            return round(value(parameters, low, high))

        sweep = ":SENSe:SWEep"
        self._frame_field(f"{sweep}:TINTerval:RESolution", "_resolution", lambda p: choice(p, *STEP_S), str)
        self._field(
            f"{sweep}:TINTerval", "interval_s",
            lambda p: value(p, TICK_S, INTERVAL_MAX_S), lambda s: show(self._interval(s)),
        )  # fmt: skip
        self._field(f"{sweep}:POINts", "points", lambda p: count(p, 1, POINTS_MAX), str)
        self._field(f"{sweep}:OFFSet:POINts", "offset", lambda p: count(p, 1 - POINTS_MAX, 2_000_000_000), str)
        self._field(":SENSe:CURRent:CCOMpensate", "compensation", boolean, lambda on: str(int(on)))
        for view, node in VIEWS.items():
            for kind, long in KINDS.items():
                self._view_field(view, f":SENSe:{node}FUNCtion:{long}", "on", kind, boolean, lambda on: str(int(on)))
                header = f":SENSe:{node}{long}[:DC]:RANGe"
                self._view_field(view, f"{header}:AUTO", "auto", kind, boolean, lambda on: str(int(on)))
                self._range_field(view, f"{header}[:UPPer]", kind)
        for kind, long in KINDS.items():
            header = f":SENSe:ELOG:FUNCtion:{long}:MINMax"
            self._view_field("ELOG", header, "extremes", kind, boolean, lambda on: str(int(on)))
        self._each(
            ":SENSe:ELOG:PERiod",
            lambda p: value(p, ELOG_PERIOD_S, PERIOD_MAX_S),
            lambda o, s: setattr(o, "elog_period_s", s),
            lambda o: show(self._elog_period(o)),
        )
        self._frame_field(":SENSe:DLOG:FUNCtion:MINMax", "_log_extremes", boolean, lambda on: str(int(on)))
        self._frame_field(":SENSe:DLOG:TIME", "_log_time_s", lambda p: value(p, 1e-3, 99_999 * 3600.0), show)
        self.on(":SENSe:DLOG:PERiod", lambda p: setattr(self, "_log_asked_s", value(p, STEP_S["RES20"], PERIOD_MAX_S)))
        self.on(":SENSe:DLOG:PERiod?", lambda: show(self._log_period()))
        self._frame_field(":SENSe:DLOG:OFFSet", "_log_offset", lambda p: value(p, 0.0, 100.0), show)

    def _view_field(
        self,
        view: str,
        header: str,
        name: str,
        kind: str,
        read: Callable[[list[str]], Any],
        write: Callable[[Any], str],
    ) -> None:
        """Serve what each output has for each quantity in one of the views."""
        self._each(
            header,
            read,
            lambda o, v: getattr(o.views[view], name).__setitem__(kind, v),
            lambda o: write(getattr(o.views[view], name)[kind]),
        )

    def _range_field(self, view: str, header: str, kind: str) -> None:
        """Serve a range: the smallest that holds what is asked for, and no longer one that changes by itself."""

        def put(output: Output, full: float) -> None:
            output.views[view].full[kind], output.views[view].auto[kind] = full, False

        def read(parameters: list[str]) -> float:
            return range_for(kind, value(parameters, 0.0, RANGES[kind][-1].full))

        self._each(header, read, put, lambda o: show(o.views[view].full[kind]))

    def _register_triggers(self) -> None:
        for view, node in TRIGGER_NODES.items():
            header = f":TRIGger:{node}:SOURce"
            if view == "DLOG":
                self._frame_field(header, "_log_source", lambda p: self._source(p, "ARSK", "OOOK"), str)
            else:
                self._source_field(view, header)
            for kind, long in KINDS.items():
                read = self._level_of(VOLTAGE_MAX_V if kind == "VOLT" else CURRENT_MAX_A)
                self._view_field(view, f":TRIGger:{node}:{long}[:LEVel]", "level", kind, read, show)
                self._view_field(
                    view, f":TRIGger:{node}:{long}:SLOPe", "slope", kind,
                    lambda p: choice(p, "POSitive", "NEGative"), str,
                )  # fmt: skip

    def _source_field(self, view: str, header: str) -> None:
        def put(output: Output, source: str) -> None:
            output.views[view].source = source

        self._each(header, self._source, put, lambda o: o.views[view].source)

    @staticmethod
    def _level_of(top: float) -> Callable[[list[str]], float]:
        return lambda p: value(p, -top, top)

    # --- what follows from them ----------------------------------------------------------------------------------

    def _set_defaults(self) -> None:
        self._outputs = {n: Output() for n in range(1, N_OUTPUTS + 1)}
        self._pins = {n: {"FUNCtion": "DINP", "POLarity": "POS"} for n in range(1, N_PINS + 1)}
        self._format, self._border, self._resolution = "ASC", "NORM", "RES20"
        self._log_extremes, self._log_source = False, "IMM"
        self._log_time_s, self._log_asked_s, self._log_offset = 30.0, 0.1, 0.0

    def _pin(self, n: int) -> dict[str, str]:
        if n not in self._pins:
            raise ScpiError(-113)
        return self._pins[n]

    def _supply(self) -> None:
        """Let the DUT have what output 1 gives."""
        output = self._outputs[1]
        gives = output.on and output.level_v >= ALIVE_V and output.emulation.startswith("PS")
        if gives:
            self._regulate(output.level_v)
        if gives != self._is_on():
            try:
                self._power(gives)
            except OSError as error:
                raise ScpiError(-200) from error

    def _source(self, parameters: list[str], *more: str) -> str:
        levels = [f"{long}{n}" for long in KINDS.values() for n in self._outputs]
        return choice(parameters, "IMMediate", "BUS", "EXTernal", *levels, *(f"PIN{n}" for n in self._pins), *more)

    def _trigger(self, source: str, view: str) -> Trigger:
        """Return a trigger with its level. Raises -221 for a pin that is no trigger input."""
        if source.startswith("PIN"):
            pin = self._pins[int(source[3:])]
            if pin["FUNCtion"] != "TINP":
                raise ScpiError(-221)
            return Trigger(source, rising=pin["POLarity"] == "POS")
        if source[:4] in KINDS:
            of = self._outputs[int(source[4:])].views[view]
            return Trigger(source, of.level[source[:4]], of.slope[source[:4]] == "POS")
        return Trigger(source)

    def _quantities(
        self, n: int, view: str, kinds: tuple[str, ...], extremes: bool | None = None
    ) -> tuple[Quantity, ...]:
        v = self._outputs[n].views[view]
        return tuple(
            Quantity(n, k, None if v.auto[k] else v.full[k], v.extremes[k] if extremes is None else extremes)
            for k in kinds
            if v.on[k]
        )

    def _interval(self, asked_s: float) -> float:
        n_traces = sum(sum(o.views["SCOPE"].on.values()) for o in self._outputs.values())
        return scope_interval(asked_s, n_traces, self._resolution)

    def _log_quantities(self) -> tuple[Quantity, ...]:
        return tuple(
            q for n in self._outputs for q in self._quantities(n, "DLOG", ("VOLT", "CURR"), self._log_extremes)
        )

    def _log_period(self) -> float:
        n_values = sum(q.n_values for q in self._log_quantities())
        return log_period(self._log_asked_s, self._log_time_s, n_values, self._resolution)

    def _elog_period(self, output: Output) -> float:
        v = output.views["ELOG"]
        n_values = sum(3 if v.extremes[k] else 1 for k in KINDS if v.on[k])
        return elog_period(output.elog_period_s, n_values, self._resolution)
