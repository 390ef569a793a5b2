"""Driver of the Nordic Power Profiler Kit II (PPK2), as ampere meter or as the DUT's supply, over its serial port.

Its pins D0 to D7 are recorded beside the current, in the same words: one of them, at the DUT's trigger pin, begins the
recording and shows the windows. The raw stream is kept, without the filter that the maker's program puts over it.

Sources: the maker publishes no manual of the protocol. Commands, metadata, words and conversion are those of its
program, NordicSemiconductor/pc-nrfconnect-ppk (src/constants.ts, src/device/serialDevice.ts), the bytes of the voltage
those of IRNAS/ppk2-api-python; hardware and limits: Nordic "Power Profiler Kit II" product page (0.8 V to 5 V, 1 A,
100 kS/s).

Firmware assumed: that which pc-nrfconnect-ppk 4 loads. Nothing ran on a real PPK2; dialogues and the emulated bench
only. Not verified: that metadata tell voltage and mode as they were just set (the driver relies on it, where they tell
them at all); whether a sample is the mean over its 10 us or shorter (taken as the mean, which leaves out the samples
that hold an edge); accuracy, below; the time base, assumed. The device does not tell whether its output is on. A loss
of exactly 64 words, or a multiple, cannot be seen in the stream. Its measuring resistor drops some tens of millivolts
at the top of each range in ampere mode.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any, Self

import numpy as np

from instruments.drivers.ppk2_facts import (
    ACCURACY_SOURCE,
    CURRENT_CHANNEL,
    CURRENT_MAX_A,
    DT_S,
    GAIN_RATIO,
    INPUTS,
    MODES,
    OFFSET_A,
    RATE_HZ,
    SPAN_MAX_S,
    STEP_A,
    TIMEBASE_RATIO,
    VOLTAGE_DEFAULT_V,
    VOLTAGE_NEAR_V,
    check_settings,
    check_supply,
    granted_settings,
)
from instruments.drivers.ppk2_recording import ByteLink, Recording, Tape
from instruments.drivers.ppk2_words import (
    METADATA_END,
    Metadata,
    current_table,
    currents,
    find_gaps,
    levels,
    parse_metadata,
    ranges_used,
    voltage_bytes,
)
from instruments.errors import (
    BadData,
    InstrumentError,
    InstrumentTimeout,
    LinkLost,
    Rejected,
    WrongIdentity,
)
from instruments.protocols import AcquisitionSettings, Capabilities, Progress
from instruments.record import Accuracy, Channel, Identity, Record
from instruments.transport.link import QUERY_TIMEOUT_S, Deadline

START, STOP, POWER, REGULATOR, MODE, METADATA = 0x06, 0x07, 0x0C, 0x0D, 0x11, 0x19
METADATA_BYTES_MAX = 8192
VENDOR, MODEL = "Nordic Semiconductor", "PPK2"


class NordicPpk2:
    """Record the current of a DUT and eight logic levels, and supply it; a `protocols.Recorder` and `PowerSwitch`."""

    DRIVER_API = 1
    KIND = "meter"
    SUMMARY = "Nordic PPK2, which can supply the DUT; not tried on a real one"

    def __init__(
        self,
        link: ByteLink,
        timeout_s: float = QUERY_TIMEOUT_S,
        mode: str = "source",
        voltage_v: float | None = None,
    ) -> None:
        check_supply(mode, voltage_v)
        self._link, self._timeout_s = link, timeout_s
        self._mode, self._voltage_v = mode, voltage_v
        self._metadata: Metadata | None = None
        self._asked: AcquisitionSettings | None = None
        self._recording: Recording | None = None
        self._armed, self._complete, self._lost, self._closed = False, False, False, False

    @classmethod
    def open(
        cls,
        resource: str,
        timeout_s: float = QUERY_TIMEOUT_S,
        mode: str = "source",
        voltage_v: float | None = None,
    ) -> Self:
        """Open the port for this program alone, stop what streams, and read the calibration.

        `mode` is "source", where the PPK2 supplies the DUT, or "ampere", where something else does. `voltage_v` is set
        whenever the output is switched on; None leaves what is set. Raises LinkLost, InstrumentTimeout, BadData,
        OutOfRange.
        """
        from instruments.transport.serial import SerialLink

        check_supply(mode, voltage_v)
        meter = cls(SerialLink(resource), timeout_s, mode, voltage_v)
        try:
            meter.identify()
        except InstrumentError:
            meter._link.close()
            raise
        return meter

    @staticmethod
    def fits(identity: Identity) -> bool:
        """Tell whether this driver is for the instrument of that name."""
        return identity.vendor == VENDOR and identity.model == MODEL

    def identify(self) -> Identity:
        """Return who answers: its metadata carry no name, so that it answers with a calibration is what tells a PPK2.

        The serial number is that of the USB port, empty where there is none. Raises WrongIdentity for other answers.
        """
        try:
            metadata = self._metadata or self._read_metadata()
        except BadData as error:
            raise WrongIdentity(f"{error} Choose another driver or port") from error
        return Identity(VENDOR, MODEL, _usb_serial(self._link.resource), f"HW {metadata.hardware}", self._link.resource)

    def capabilities(self) -> Capabilities:
        """Return the limits to plan within: one rate, and ranges that change by themselves."""
        return Capabilities(
            channels=(CURRENT_CHANNEL, *INPUTS),
            range_min_v=0.0,
            range_max_v=0.0,
            rate_max_hz=RATE_HZ,
            memory_samples=int(SPAN_MAX_S * RATE_HZ),
            segments_max=1,
            units={CURRENT_CHANNEL: "A", **dict.fromkeys(INPUTS, "")},
            trigger_sources=INPUTS,
            range_max_a=CURRENT_MAX_A,
            averages=True,
        )

    def configure(self, settings: AcquisitionSettings) -> AcquisitionSettings:
        """Set the mode, read it back, and return what is granted: whole samples at 100 kS/s, ranges by themselves.

        Raises OutOfRange before anything is sent, Rejected where the mode does not change.
        """
        check_settings(settings)
        self.stop()
        self._asked, self._recording, self._complete = settings, None, False
        self._ensure_mode()
        return granted_settings(settings)

    def arm(self, timeout_s: float = 10.0) -> None:
        """Start the stream and return once an edge would be taken: the part before the trigger is full then.

        Raises InstrumentTimeout where that is not in time, LinkLost, BadData for a stream that holds no words, Rejected
        where nothing is configured.
        """
        if self._asked is None:
            raise Rejected(f"{self._link.resource}: nothing is configured; call configure first")
        self.stop()
        settings = granted_settings(self._asked)
        trigger = settings.trigger
        n_words, n_before = round(settings.span_s * RATE_HZ), round(settings.pre_s * RATE_HZ)
        edge = None if trigger is None else (INPUTS.index(trigger.source), trigger.edge)
        tape = Tape(n_words, n_before, edge)
        self._recording, self._armed, self._complete = Recording(self._link, tape), True, False
        self._send(bytes([START]))
        self._recording.start()
        if not self._awaited("armed", timeout_s):
            self.stop()
            raise InstrumentTimeout(
                f"{self._link.resource}: after the start command (0x06) the stream did not bring "
                f"{n_before * DT_S:g} s of samples within {timeout_s:g} s: reopen it, or give a longer time-out"
            )

    def wait(self, timeout_s: float, progress: Progress | None = None) -> int:
        """Wait until the recording is complete; return 1.

        Raises InstrumentTimeout where no edge came, or not all samples, LinkLost where the port is gone.
        """
        if self._recording is None or not self._armed:
            raise Rejected(f"{self._link.resource}: nothing is armed; call configure and arm first")
        tape = self._recording.tape
        if not self._awaited("complete", timeout_s):
            triggered, n_taken = tape.triggered, tape.n_taken
            self.stop()
            assert self._asked is not None
            source = self._asked.trigger.source if self._asked.trigger is not None else ""
            why = f"{n_taken} samples had come: check the USB cable" if triggered else (
                f"no edge came at {source}: check the cable there, its polarity, VCC of the logic port, and that the "
                "DUT runs"
            )
            raise InstrumentTimeout(f"{self._link.resource}: not complete within {timeout_s:g} s; {why}")
        self.stop()
        self._complete = True
        if progress is not None:
            progress(1, 1)
        return 1

    def fetch(self) -> Record:
        """Convert what was recorded: current as float32, NaN where words were lost, and levels, of shape (1, samples).

        A level holds where words were lost; `gaps` tells where that is. Raises Rejected where nothing was recorded.
        """
        recording, settings = self._recording, self._asked
        if recording is None or settings is None or not self._complete:
            raise Rejected(f"{self._link.resource}: nothing was recorded; call configure, arm and wait first")
        words, framer, granted = recording.tape.words(), recording.framer, granted_settings(settings)
        return Record(
            channels={channel.name: self._channel(channel, words) for channel in settings.channels},
            dt_s=DT_S,
            # A sample tells of the interval that ends with it. In that of the first one behind the trigger lies the
            # edge, in its middle on average.
            segment_start_s=np.array([(0.5 - round(granted.pre_s * RATE_HZ)) * DT_S]),
            instrument=self.identify(),
            timebase_ratio=TIMEBASE_RATIO,
            asked=asdict(settings),
            granted={
                **asdict(granted),
                "mode": self._mode,
                "supply_v": self._supply_v(),
                "calibrated": self._known().calibrated,
                "averages": True,
                "ranges": ranges_used(words),
                "words_lost": framer.n_lost,
                "words_repeated": framer.n_repeated,
                "resynchronised": framer.n_resyncs,
                "not_seen": "losses of a multiple of 64 words",
            },
            gaps=tuple((0, first, n) for first, n in find_gaps(words)),
        )

    def stop(self) -> None:
        """Stop a recording that is under way; harmless otherwise, and safe after errors: a lost port is reopened."""
        if self._closed:
            return
        if self._recording is not None:
            self._recording.stop()
        unquiet, self._armed = self._armed or self._lost, False
        if self._lost:
            self._link.reopen()
            self._lost, self._metadata = False, None
        if unquiet:
            self._quieten()

    def close(self) -> None:
        """Stop the recording and release the port; leaves the output as it is. May be called twice."""
        try:
            # Best effort: an instrument that cannot be reached cannot be stopped, and the caller is leaving anyway.
            with suppress(InstrumentError):
                self.stop()
        finally:
            self._closed = True
            self._link.close()

    def set_output(self, on: bool) -> None:
        """Switch the DUT's supply, or its way through the meter in ampere mode.

        Before it is on, mode and voltage are set and read back; after either, the metadata are asked for. Raises
        Rejected where mode or voltage is not as asked. The device does not tell whether its output is on.
        """
        if not isinstance(on, bool):
            raise TypeError(f"the output is either on (True) or off (False), not {on!r}")
        self.stop()
        if on:
            self._ensure_mode()
            self.set_supply(self._voltage_v)
        self._send(bytes([POWER, on]))
        self._read_metadata()  # it answers in order, so that the output has switched once it does

    def set_supply(self, voltage_v: float | None, current_limit_a: float | None = None) -> None:
        """Set the regulator's voltage and read it back; None leaves what is set. It has no current limit to set.

        Raises OutOfRange before anything is sent, Rejected where another voltage is told.
        """
        check_supply(self._mode, voltage_v)
        if voltage_v is None:
            return
        self.stop()
        self._voltage_v = voltage_v
        command = bytes([REGULATOR]) + voltage_bytes(voltage_v)
        self._send(command)
        told_v = self._read_metadata().vdd_v
        if told_v is not None and abs(told_v - voltage_v) > VOLTAGE_NEAR_V:
            raise Rejected(
                f"{self._link.resource}: {voltage_v:g} V were set ({command.hex(' ')}), and its metadata say "
                f"{told_v:g} V: check what the DUT gets before it is powered"
            )

    def _ensure_mode(self) -> None:
        """Set the mode unless the metadata say that it is set, and read it back."""
        wanted = MODES[self._mode]
        if self._known().mode == wanted:
            return
        self._send(bytes([MODE, wanted]))
        told = self._read_metadata().mode
        if told not in (None, wanted):
            raise Rejected(
                f"{self._link.resource}: {self._mode} mode was set (11 {wanted:02x}), and its metadata say mode "
                f"{told}: unplug it, plug it in again, and reopen"
            )

    def _channel(self, settings: Any, words: np.ndarray[Any, Any]) -> Channel:
        if settings.name != CURRENT_CHANNEL:
            codes = levels(words, INPUTS.index(settings.name))[np.newaxis]
            return Channel(settings.name, codes, 1.0, 0.0, unit="", kind="digital", settings=asdict(settings))
        codes = currents(words, current_table(self._known().constants, self._supply_v()))[np.newaxis]
        widest = max(ranges_used(words), default=len(GAIN_RATIO) - 1)
        accuracy = Accuracy(GAIN_RATIO[widest], OFFSET_A[widest], STEP_A[widest], ACCURACY_SOURCE)
        return Channel(CURRENT_CHANNEL, codes, 1.0, 0.0, unit="A", settings=asdict(settings), accuracy=accuracy)

    def _supply_v(self) -> float:
        told_v = self._known().vdd_v
        return told_v or self._voltage_v or VOLTAGE_DEFAULT_V

    def _known(self) -> Metadata:
        return self._metadata or self._read_metadata()

    def _read_metadata(self) -> Metadata:
        """Ask for the metadata, behind all that still comes. Raises InstrumentTimeout, LinkLost, BadData."""
        self._metadata = None
        self._quieten()
        self._send(bytes([METADATA]))
        data, scratch, deadline = bytearray(), memoryview(bytearray(1024)), Deadline(self._timeout_s)
        while METADATA_END not in data:
            if len(data) > METADATA_BYTES_MAX:
                raise BadData(f"{self._link.resource}: {len(data)} bytes without END after the command 0x19: "
                              f"{bytes(data[:32])!r}.")
            try:
                n_bytes, _ = self._link.receive_into(scratch, deadline)
            except InstrumentTimeout as error:
                raise InstrumentTimeout(
                    f"{error}; metadata (command 0x19) up to END were awaited, {bytes(data[:32])!r} had come: is this "
                    "the port of a PPK2? It has two, and one is silent"
                ) from error
            except LinkLost:
                self._lost = True
                raise
            data += scratch[:n_bytes]
        self._metadata = parse_metadata(bytes(data), self._link.resource)
        return self._metadata

    def _quieten(self) -> None:
        """Stop the stream, and let what is still on its way pass: it must not be read as something else."""
        self._send(bytes([STOP]))
        try:
            self._link.drain()
        except LinkLost:
            self._lost = True
            raise

    def _send(self, command: bytes) -> None:
        try:
            self._link.write(command, self._timeout_s)
        except LinkLost as error:
            self._lost = True
            raise LinkLost(f"{error} (command {command.hex(' ')})") from error

    def _awaited(self, state: str, timeout_s: float) -> bool:
        assert self._recording is not None
        try:
            return self._recording.wait(state, timeout_s)
        except LinkLost as error:
            self._lost = True
            raise LinkLost(f"{error} ({self._recording.tape.n_taken} samples had come)") from error


def _usb_serial(port: str) -> str:
    """Return the serial number of the USB device behind a port; empty where it has none."""
    from serial.tools.list_ports import comports

    return next((found.serial_number or "" for found in comports() if found.device == port), "")
