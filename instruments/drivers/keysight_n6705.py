"""Driver of the Keysight N6705B and N6705C DC power analysers with an N678xA module as output 1, the DUT's supply.

An N6781A as output 2 is a voltmeter on the trigger pin (channel V2), whose edges then show the windows.

Sources, cited here and in the modules beside by the short names in brackets:
  [OG]  Keysight N6705C Operating and Service Guide, SCPI Programming Reference: p. 155 trigger of the data log, p. 203
        trigger sources, p. 286 formats, p. 350 operation status; and N6705C User's Guide p. 213 intervals, pre-trigger;
  [UG]  Agilent N6705A User's Guide: p. 66-67 data log, p. 168-170 external log;
  [N67] Keysight N6700C Operating and Service Guide p. 146 (external log: intervals);
  [N69] Keysight N6900/N7900 Operating and Service Guide, of the same command family: p. 152-154 (digital port), p. 161
        (external log: order in a record);
  [SG]  Keysight N6700 Modular Power System Family Specifications Guide N6700-90001 p. 52 (noise);
  [DS]  Keysight N6780 Series SMU data sheet 5990-5829EN. Figures marked [DS] are not verified against it.
EMULation, MMEMory and settings of the logs are those that others' working programs send; no manual page was at hand.

Firmware assumed: that of the N6705C guide (E.02). Nothing ran on a real instrument; dialogues and the emulated bench
only. Not verified: that samples of the scope view are means over their interval, how many points it holds, that a data
log shows as an active measurement, and that the mainframe counts the quantities of all outputs together. Not covered:
least and largest values, current of output 2, outputs 3 and 4, arbitrary waveforms.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import asdict
from typing import Self

import numpy as np

from instruments.drivers.n6705_facts import (
    CURRENT_MAX_A,
    QUANTITIES,
    SCOPE_INTERVALS_S,
    SPAN_MAX_S,
    TIMEBASE_RATIO,
    TRIGGER_SOURCES,
    VOLTAGE_MAX_V,
    check_settings,
    check_supply,
    granted_settings,
    make_channel,
    make_plan,
)
from instruments.drivers.n6705_modes import FILL_MARGIN_S, MODES, Mainframe, Mode, channel_list
from instruments.errors import BadData, InstrumentError, InstrumentTimeout, Rejected, WrongIdentity
from instruments.protocols import AcquisitionSettings, Capabilities, Progress
from instruments.record import Identity, Record
from instruments.transport.link import QUERY_TIMEOUT_S, Link

MODEL = re.compile(r"N6705[BC]")
VENDORS = ("KEYSIGHT", "AGILENT")
MODULE = re.compile(r"N678[1-6]A")
VOLTMETER_MODULE = "N6781A"  # whose emulations include a voltmeter
SUPPLY_OUTPUT, VOLTMETER_OUTPUT = 1, 2
SUPPLY_EMULATIONS = ("PS4Q", "PS2Q", "PS1Q", "BATT")
# What a setting of the supply may be rounded by: its resolution is well below this.
SUPPLY_NEAR_V, SUPPLY_NEAR_RATIO = 2e-3, 1e-3


class KeysightN6705:
    """Record the current and voltage of a DUT, and supply it; implements `protocols.Recorder` and `PowerSwitch`."""

    DRIVER_API = 1
    KIND = "meter"
    SUMMARY = "Keysight N6705B/C with N678xA modules, which can supply the DUT; not tried on a real one"

    def __init__(
        self,
        link: Link,
        timeout_s: float = QUERY_TIMEOUT_S,
        voltage_v: float | None = None,
        current_limit_a: float | None = None,
    ) -> None:
        check_supply(voltage_v, current_limit_a)
        self._link = link
        self._unit = Mainframe(link, timeout_s)
        self._voltage_v, self._current_limit_a = voltage_v, current_limit_a
        self._identity: Identity | None = None
        self._modules: tuple[str, ...] = ()
        self._asked: AcquisitionSettings | None = None
        self._granted: AcquisitionSettings | None = None
        self._mode: Mode | None = None
        self._armed, self._complete, self._closed = False, False, False

    @classmethod
    def open(
        cls,
        resource: str,
        timeout_s: float = QUERY_TIMEOUT_S,
        voltage_v: float | None = None,
        current_limit_a: float | None = None,
    ) -> Self:
        """Open the link, check who answers and with which modules, and clear the status.

        `voltage_v` and `current_limit_a` are set whenever the output is switched on; None leaves what is set. Raises
        LinkLost, InstrumentTimeout, WrongIdentity, OutOfRange.
        """
        from instruments.transport.visa import VisaLink

        check_supply(voltage_v, current_limit_a)
        meter = cls(VisaLink(resource, timeout_s), timeout_s, voltage_v, current_limit_a)
        try:
            meter.identify()
            meter._link.write("*CLS")
        except InstrumentError:
            meter._link.close()
            raise
        return meter

    @staticmethod
    def fits(identity: Identity) -> bool:
        """Tell whether this driver is for the instrument of that name."""
        return identity.vendor.upper().startswith(VENDORS) and MODEL.fullmatch(identity.model.upper()) is not None

    def identify(self) -> Identity:
        """Return who answers. Raises WrongIdentity for another instrument, or one without an N678xA as output 1."""
        identity = self._unit.scpi.identity()
        if not self.fits(identity):
            raise WrongIdentity(
                f"{self._link.resource} answers as {identity.vendor} {identity.model}; this driver is for Keysight "
                "N6705B and N6705C: choose another driver or address"
            )
        if not self._modules:
            self._modules = self._read_modules()
            self._unit.n_outputs = len(self._modules)
        self._identity = identity
        return identity

    def capabilities(self) -> Capabilities:
        """Return the limits to plan within: the rate is that of one quantity in the scope view, the memory a log's."""
        if self._identity is None:
            self.identify()
        names = self._channel_names()
        return Capabilities(
            channels=names,
            range_min_v=0.2,
            range_max_v=2 * VOLTAGE_MAX_V,
            rate_max_hz=1 / SCOPE_INTERVALS_S[1],
            memory_samples=int(SPAN_MAX_S / SCOPE_INTERVALS_S[1]),
            segments_max=1,
            units={name: QUANTITIES[name].unit for name in names},
            trigger_sources=tuple(source for source in TRIGGER_SOURCES if source != "VOLT2" or "V2" in names),
            range_max_a=CURRENT_MAX_A,
            averages=True,
        )

    def configure(self, settings: AcquisitionSettings) -> AcquisitionSettings:
        """Set everything, read it back, and return what was granted.

        The scope view is used while its points suffice, else the data log, or the external log where a pin triggers;
        the record's `granted` names it. Raises OutOfRange before anything is sent, Rejected with the command where the
        instrument complains or grants another setting than one that matters.
        """
        check_settings(settings, self._channel_names() if self._modules else tuple(QUANTITIES))
        plan = make_plan(settings)
        if not self._modules:
            self.identify()
            check_settings(settings, self._channel_names())
        self.stop()
        self._asked, self._granted, self._mode, self._complete = settings, None, None, False
        self._unit.replies = {}
        outputs = channel_list(tuple(range(1, len(self._modules) + 1)))
        for command in (f"ABOR:ACQ {outputs}", "ABOR:DLOG", f"ABOR:ELOG {outputs}"):
            self._link.write(command)
        self._link.write("*CLS")  # an option can lack the external log, and complains of it
        self._unit.set("FORM", "REAL")
        self._unit.set("FORM:BORD", "NORM")
        if any(QUANTITIES[channel.name].output == VOLTMETER_OUTPUT for channel in settings.channels):
            self._ensure("EMUL", ("VMET",), VOLTMETER_OUTPUT)
        mode = MODES[plan.mode](self._unit, settings, plan)
        mode.set_up()
        self._mode = mode
        self._granted = granted_settings(settings, mode.plan, mode.ranges, mode.level_v)
        return self._granted

    def arm(self, timeout_s: float = 10.0) -> None:
        """Start the recording and return once a trigger is heard: its part before the trigger is full then.

        Raises InstrumentTimeout where it does not start in time, Rejected where nothing is configured.
        """
        if self._mode is None:
            raise Rejected(f"{self._link.resource}: nothing is configured; call configure first")
        plan = self._mode.plan
        if plan.waits and plan.n_before * plan.dt_s + FILL_MARGIN_S > timeout_s:
            raise InstrumentTimeout(
                f"{self._link.resource}: the {plan.n_before * plan.dt_s:g} s before the trigger do not fill within "
                f"{timeout_s:g} s: ask for less, or give a longer time-out"
            )
        self._complete, self._armed = False, True
        self._mode.arm(timeout_s)

    def wait(self, timeout_s: float, progress: Progress | None = None) -> int:
        """Wait until the recording is complete; return 1.

        Raises InstrumentTimeout with the error queue where it is not in time, and what reading an external log raises.
        """
        if self._mode is None or not self._armed:
            raise Rejected(f"{self._link.resource}: nothing is armed; call configure and arm first")
        if not self._mode.wait(timeout_s, progress):
            self.stop()
            errors = self._unit.scpi.errors()
            check = "the trigger's cable, its polarity, and that the DUT runs"
            if not self._mode.plan.waits:
                check = "that the span is shorter than the time-out"
            raise InstrumentTimeout(
                f"{self._link.resource}: the {self._mode.plan.mode} was not complete within {timeout_s:g} s "
                f"({'; '.join(errors) or 'no error queued'}): check {check}"
            )
        self._armed, self._complete = False, True
        return 1

    def fetch(self) -> Record:
        """Read every channel, float32 of shape (1, samples); NaN, and a gap, where the instrument measured nothing.

        Raises BadData where a block does not hold what was enabled, Rejected where nothing was recorded.
        """
        mode, asked, granted = self._mode, self._asked, self._granted
        if mode is None or asked is None or granted is None or not self._complete:
            raise Rejected(f"{self._link.resource}: nothing was recorded; call configure, arm and wait first")
        values = mode.fetch()
        self._unit.scpi.complain(f"the read-out by {mode.reading}")
        n_samples = min(len(column) for column in values.values())
        plan = mode.plan
        channels = {
            quantity.name: make_channel(
                quantity,
                asdict(mode.asked[quantity.name]),
                mode.ranges[quantity.name],
                values[quantity.name][np.newaxis, :n_samples],
                plan.dt_s,
            )
            for quantity in mode.quantities
        }
        lost = np.isnan(np.concatenate([channel.codes for channel in channels.values()])).any(axis=0)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], lost, [False])).astype(np.int8)))
        return Record(
            channels=channels,
            dt_s=plan.dt_s,
            # A sample is the mean over the interval that ends with it; the first after the trigger begins there.
            segment_start_s=np.array([(1 - plan.n_before) * plan.dt_s]),
            instrument=self._identity or self.identify(),
            timebase_ratio=TIMEBASE_RATIO,
            asked=asdict(asked),
            granted={
                **asdict(granted),
                "mode": plan.mode,
                "averages": True,
                "replies": dict(self._unit.replies),
            },
            gaps=tuple((0, int(a), int(b - a)) for a, b in zip(edges[::2], edges[1::2], strict=True)),
        )

    def stop(self) -> None:
        """Stop a recording that is under way; harmless otherwise, and safe after errors."""
        if self._closed:
            return
        if self._link.tainted:
            self._link.reopen()
        if self._mode is not None and self._armed:
            self._armed = False
            self._mode.stop()

    def close(self) -> None:
        """Stop the recording and release the link; leaves the outputs as they are. May be called twice."""
        try:
            # Best effort: an instrument that cannot be reached cannot be stopped, and the caller is leaving anyway.
            with suppress(InstrumentError):
                self.stop()
        finally:
            self._closed = True
            self._link.close()

    def set_output(self, on: bool) -> None:
        """Switch the DUT's supply and confirm by reading back that it switched. Raises Rejected.

        Before it is on, output 1 is a power supply with voltage priority, at the voltage and limit given to `open`.
        """
        if not isinstance(on, bool):
            raise TypeError(f"the output is either on (True) or off (False), not {on!r}")
        if self._link.tainted:
            self._link.reopen()
        if on:
            self._ensure("EMUL", SUPPLY_EMULATIONS, SUPPLY_OUTPUT, wanted="PS2Q")
            self._ensure("FUNC", ("VOLT",), SUPPLY_OUTPUT)
            self.set_supply(self._voltage_v, self._current_limit_a)
        self._unit.set("OUTP", on, SUPPLY_OUTPUT)

    def set_supply(self, voltage_v: float | None, current_limit_a: float | None = None) -> None:
        """Set the voltage and current limit of the DUT's supply and confirm them; None leaves what is set.

        Raises OutOfRange before anything is sent, Rejected where another value is granted.
        """
        check_supply(voltage_v, current_limit_a)
        for header, value in (("VOLT", voltage_v), ("CURR:LIM", current_limit_a)):
            if value is not None:
                granted = float(self._unit.set(header, float(value), SUPPLY_OUTPUT))
                near = abs(granted - value) <= SUPPLY_NEAR_V + SUPPLY_NEAR_RATIO * value
                self._unit.require(header, near, value, granted)

    def _ensure(self, header: str, fitting: tuple[str, ...], output: int, wanted: str = "") -> None:
        """Set a word only where another one is set: setting these switches an output off."""
        if self._unit.scpi.query(f"{header}? {channel_list((output,))}").upper() not in fitting:
            self._unit.set(header, wanted or fitting[0], output)

    def _channel_names(self) -> tuple[str, ...]:
        has_voltmeter = len(self._modules) >= VOLTMETER_OUTPUT and self._modules[1] == VOLTMETER_MODULE
        return tuple(name for name, quantity in QUANTITIES.items() if quantity.output == SUPPLY_OUTPUT or has_voltmeter)

    def _read_modules(self) -> tuple[str, ...]:
        n_outputs = self._unit.scpi.number("SYST:CHAN?")
        if not (n_outputs.is_integer() and 1 <= n_outputs <= 4):
            raise BadData(f"{self._link.resource}: SYST:CHAN? answered {n_outputs:g}; a mainframe has 1 to 4 outputs")
        query = f"SYST:CHAN:MOD? {channel_list(tuple(range(1, int(n_outputs) + 1)))}"
        reply = self._unit.scpi.query(query)
        modules = tuple(field.strip().strip('"') for field in reply.split(","))
        if len(modules) != n_outputs:
            raise BadData(f"{self._link.resource}: {query} answered {reply!r}; expected {n_outputs:g} models")
        if not MODULE.fullmatch(modules[0]):
            raise WrongIdentity(
                f"{self._link.resource}: output 1 is a {modules[0]}, and this driver measures with an N678xA: put one "
                "into slot 1, or choose another instrument"
            )
        return modules
