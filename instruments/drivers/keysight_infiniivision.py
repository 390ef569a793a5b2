"""Driver of Keysight InfiniiVision 3000T X-Series oscilloscopes (DSO-X and MSO-X 3012T to 3104T).

Sources, cited below by the short names in brackets:
  [PG]  Keysight InfiniiVision 3000T X-Series Oscilloscopes Programmer's Guide: p. 1014 trigger level, p. 1095 BYTE
        format, p. 1255 run bit; its other pages are not verified, and cited from the same text in
  [PG3] Agilent InfiniiVision 3000 X-Series Programmer's Guide (p. 192 arm event register, p. 940 preamble),
  [PG2] Keysight InfiniiVision 2000 X-Series Programmer's Guide (p. 632 data conversion, p. 640 points) and
  [PG4] Keysight InfiniiVision 4000 X-Series Programmer's Guide (p. 1570 error queue);
  [UG]  Agilent InfiniiVision 3000 X-Series User's Guide p. 270 (memory: shared by a channel pair, divided by segments);
  [SG]  Agilent 4000 X-Series Service Guide p. 52 (time base);
  [DS]  Keysight InfiniiVision 3000T X-Series data sheet 5992-0140EN. Figures marked [DS] are assumptions, not verified
        against it: check them before a measurement is published.

Firmware revisions tried: none. Nothing ran on silicon; dialogues and the emulated bench only. Not covered: digital
channels, average, peak and high-resolution acquisition, 50 ohm input, external trigger.
"""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from instruments.drivers.infiniivision_facts import (
    MEMORY_SAMPLES,
    RANGE_MAX_V,
    RANGE_MIN_V,
    RATE_MAX_HZ,
    SEGMENTS_MAX,
    TIMEBASE_RATIO,
    Preamble,
    check_settings,
    make_channel,
    parse_preamble,
)
from instruments.drivers.oscilloscope import (
    DIVISIONS,
    GRANTED_MIN_RATIO,
    TRANSFER_MIN_BYTES_PER_S,
    Oscilloscope,
    channel_number,
    polls,
)
from instruments.errors import BadData, InstrumentTimeout, Rejected
from instruments.protocols import AcquisitionSettings, Capabilities, ChannelSettings, Progress, TriggerSettings
from instruments.record import Channel, Record
from instruments.transport.link import QUERY_TIMEOUT_S, Deadline, Link

CHANNELS_MAX = ("CH1", "CH2", "CH3", "CH4")
RUN_BIT = 1 << 3  # of the operation status condition register [PG] p. 1255


class KeysightInfiniiVision(Oscilloscope):
    """Record waveforms with an InfiniiVision 3000T X-Series oscilloscope; implements `protocols.Recorder`."""

    SUMMARY = "Keysight InfiniiVision 3000T X-Series oscilloscopes; never tried on a real one"
    VENDORS = ("KEYSIGHT", "AGILENT")
    MODEL = re.compile(r"(?:DSO|MSO)-?X ?3\d\d[24]T")
    FAMILY = "Keysight InfiniiVision 3000T X-Series (DSO-X 3012T to MSO-X 3104T)"

    def __init__(self, link: Link, timeout_s: float = QUERY_TIMEOUT_S) -> None:
        super().__init__(link, timeout_s)
        self._bulk: bool | None = None

    def capabilities(self) -> Capabilities:
        """Return the limits to plan within, at 1:1: a probe multiplies those of the range.

        Rate and memory are for one channel of each pair (1-2, 3-4); with both it is half.
        """
        identity = self._identity or self.identify()
        n_channels = int(identity.model[-2])
        return Capabilities(
            channels=CHANNELS_MAX[:n_channels],
            range_min_v=RANGE_MIN_V,
            range_max_v=RANGE_MAX_V,
            rate_max_hz=RATE_MAX_HZ,
            memory_samples=MEMORY_SAMPLES,
            segments_max=SEGMENTS_MAX,
        )

    def configure(self, settings: AcquisitionSettings) -> AcquisitionSettings:
        """Set everything, read it back, and return what was granted.

        Raises OutOfRange before anything is sent, Rejected with the command where the instrument complains or grants
        another setting than one that matters.
        """
        check_settings(settings, self.capabilities().channels if self._identity else CHANNELS_MAX)
        names = self.capabilities().channels
        self._asked, self._granted, self._n_taken, self._replies = settings, None, 0, {}
        self._link.write("*CLS")
        self._scpi.command(":STOP")
        self._end_bulk()
        channels = tuple(self._set_channel(channel) for channel in settings.voltages)
        for name in names:
            if name not in {channel.name for channel in channels}:
                self._set(f":CHANnel{channel_number(name)}:DISPlay", False)
        span_s, pre_s = self._set_timebase(settings)
        self._set(":ACQuire:TYPE", "NORMal")
        if settings.n_segments > 1:
            self._set(":ACQuire:MODE", "SEGMented")
            self._set(":ACQuire:SEGMented:COUNt", settings.n_segments)
        else:
            self._set(":ACQuire:MODE", "RTIMe")
        trigger = self._set_trigger(settings)
        self._set(":WAVeform:FORMat", "BYTE")
        self._set(":WAVeform:UNSigned", True)
        self._set(":WAVeform:BYTeorder", "MSBFirst")
        rate_hz = self._scpi.number(":ACQuire:SRATe?")
        self._granted = replace(
            settings, channels=channels, trigger=trigger, span_s=span_s, pre_s=pre_s, rate_hz=rate_hz
        )
        return self._granted

    def arm(self, timeout_s: float = 10.0) -> None:
        """Start the acquisition and return once the instrument really waits for its trigger.

        Raises InstrumentTimeout where it does not arm in time, Rejected where nothing is configured.
        """
        self._configured()
        self._n_taken = 0
        deadline = Deadline(timeout_s)
        self._scpi.command(":STOP")
        self._scpi.query("*OPC?", timeout_s)
        self._scpi.query(":AER?")  # reading clears it, so that an earlier arming is not taken for this one
        self._scpi.command(":SINGle")
        for _ in polls(deadline):
            if self._scpi.number(":AER?") == 1:
                return
        errors = self._scpi.errors()
        self._scpi.command(":STOP")
        raise InstrumentTimeout(
            f"{self._link.resource} did not arm within {timeout_s:g} s ({'; '.join(errors) or 'no error queued'}): "
            "try a shorter span or longer time-out"
        )

    def wait(self, timeout_s: float, progress: Progress | None = None) -> int:
        """Wait until the acquisition is complete; return the number of segments taken, which may be fewer.

        Raises InstrumentTimeout with the error queue where no segment at all arrived.
        """
        granted = self._configured("configure and arm")
        wanted = granted.n_segments
        running = True
        for _ in polls(Deadline(timeout_s)):
            running = bool(int(self._scpi.number(":OPERegister:CONDition?")) & RUN_BIT)
            taken = self._count_segments(running)
            if progress is not None:
                progress(taken, wanted)
            if not running:
                break
        if running:
            self._scpi.command(":STOP")
            taken = self._count_segments(running)
        if taken == 0:
            errors = self._scpi.errors()
            what, check = (
                "saw no trigger",
                "the trigger channel's cable and pin, its level and edge, and that the DUT runs",
            )
            if granted.trigger is None:
                what, check = "did not finish", "that the span is shorter than the time-out"
            raise InstrumentTimeout(
                f"{self._link.resource} {what} within {timeout_s:g} s ({'; '.join(errors) or 'no error queued'}): "
                f"check {check}"
            )
        self._n_taken = taken
        return taken

    def fetch(self) -> Record:
        """Read the codes of every configured channel and segment, uint8 of shape (segments, samples).

        Raises BadData where a reply breaks the manual's form, Rejected where nothing was acquired.
        """
        if self._asked is None or self._granted is None or self._n_taken == 0:
            raise Rejected(f"{self._link.resource}: nothing was acquired; call configure, arm and wait first")
        segmented = self._granted.n_segments > 1
        tags_s = self._read_time_tags() if segmented else np.zeros(1)
        channels: dict[str, Channel] = {}
        first: Preamble | None = None
        for settings in self._granted.voltages:
            preamble = self._select(settings.name)
            first = first or preamble
            if (preamble.n_points, preamble.dt_s) != (first.n_points, first.dt_s):
                raise BadData(f"{self._link.resource}: {settings.name} has other sample times than the first channel")
            codes = np.empty((self._n_taken, preamble.n_points), np.uint8)
            if segmented:
                self._read_segments(codes, tags_s)
            else:
                self._read(codes[0])
            channels[settings.name] = make_channel(settings, codes, preamble)
        self._scpi.complain("the read-out")
        assert first is not None
        return Record(
            channels=channels,
            dt_s=first.dt_s,
            segment_start_s=tags_s + first.start_s,
            instrument=self._identity or self.identify(),
            timebase_ratio=TIMEBASE_RATIO,
            asked=asdict(self._asked),
            granted={**asdict(replace(self._granted, rate_hz=1 / first.dt_s)), "replies": dict(self._replies)},
        )

    def _set_channel(self, asked: ChannelSettings) -> ChannelSettings:
        # Range and offset mean volts at the probe tip, so the probe is set first.
        root = f":CHANnel{channel_number(asked.name)}"
        self._set(f"{root}:DISPlay", True)
        self._set(f"{root}:COUPling", asked.coupling)
        self._set(f"{root}:IMPedance", "ONEMeg")
        probe_ratio = float(self._set(f"{root}:PROBe", float(asked.probe_ratio)))
        range_v = float(self._set(f"{root}:RANGe", float(asked.range_v)))
        offset_v = float(self._set(f"{root}:OFFSet", float(asked.offset_v)))
        self._set(f"{root}:BWLimit", asked.bandwidth_limit)
        self._require(f"{root}:RANGe", range_v >= GRANTED_MIN_RATIO * asked.range_v, asked.range_v, range_v)
        drift_v = abs(offset_v - asked.offset_v)
        self._require(f"{root}:OFFSet", drift_v <= range_v / DIVISIONS, asked.offset_v, offset_v)
        near = abs(probe_ratio - asked.probe_ratio) <= 1e-3 * asked.probe_ratio
        self._require(f"{root}:PROBe", near, asked.probe_ratio, probe_ratio)
        return replace(asked, range_v=range_v, offset_v=offset_v, probe_ratio=probe_ratio)

    def _set_timebase(self, settings: AcquisitionSettings) -> tuple[float, float]:
        """Return the granted span and the part of it before the trigger."""
        self._set(":TIMebase:MODE", "MAIN")
        self._set(":TIMebase:REFerence", "CENTer")
        span_s = float(self._set(":TIMebase:RANGe", float(settings.span_s)))
        self._require(":TIMebase:RANGe", span_s >= GRANTED_MIN_RATIO * settings.span_s, settings.span_s, span_s)
        # The position is the time from the trigger to the reference, here mid-screen.
        position_s = float(self._set(":TIMebase:POSition", float(span_s / 2 - settings.pre_s)))
        return span_s, span_s / 2 - position_s

    def _set_trigger(self, settings: AcquisitionSettings) -> TriggerSettings | None:
        """Return the granted trigger."""
        trigger = settings.trigger
        self._set(":TRIGger:MODE", "EDGE")
        if trigger is None:
            self._set(":TRIGger:SWEep", "AUTO")  # triggers by itself after a moment
            return None
        self._set(":TRIGger:SWEep", "NORMal")
        self._set(":TRIGger:EDGE:SOURce", f"CHANnel{channel_number(trigger.source)}")
        self._set(":TRIGger:EDGE:SLOPe", "POSitive" if trigger.edge == "rising" else "NEGative")
        level_v = float(self._set(":TRIGger:EDGE:LEVel", float(trigger.level_v)))
        range_v = next(channel.range_v for channel in settings.voltages if channel.name == trigger.source)
        near = abs(level_v - trigger.level_v) <= range_v / DIVISIONS
        self._require(":TRIGger:EDGE:LEVel", near, trigger.level_v, level_v)
        return replace(trigger, level_v=level_v)

    def _count_segments(self, running: bool) -> int:
        assert self._granted is not None
        if self._granted.n_segments == 1:
            return 0 if running else 1
        return int(self._scpi.number(":WAVeform:SEGMented:COUNt?"))

    def _read_time_tags(self) -> np.ndarray[Any, Any]:
        """Return the seconds from the first trigger to each one, shape (segments,). Raises BadData."""
        # Tags are read of the waveform source, which must be a channel that was acquired.
        assert self._granted is not None
        self._scpi.command(f":WAVeform:SOURce CHANnel{channel_number(self._granted.channels[0].name)}")
        tags_s = np.empty(self._n_taken)
        for segment in range(self._n_taken):
            tags_s[segment] = self._tag_of(segment)
        if not (np.diff(tags_s) > 0).all():
            raise BadData(f"{self._link.resource}: time tags do not grow, so the segment index did not move: {tags_s}")
        return tags_s

    def _tag_of(self, segment: int) -> float:
        self._link.write(f":ACQuire:SEGMented:INDex {segment + 1}")
        return self._scpi.number(":WAVeform:SEGMented:TTAG?")

    def _select(self, name: str) -> Preamble:
        """Choose the channel to read, in full depth, and return its preamble."""
        self._scpi.command(f":WAVeform:SOURce CHANnel{channel_number(name)}")
        # POINts MAXimum also moves the mode to MAXimum, so RAW comes second.
        self._scpi.command(":WAVeform:POINts MAXimum")
        self._scpi.command(":WAVeform:POINts:MODE RAW")
        return parse_preamble(self._scpi.query(":WAVeform:PREamble?"), f"{self._link.resource} {name}")

    def _end_bulk(self) -> None:
        """Let a read-out hold one segment again, whatever an earlier one left, and learn whether the firmware knows."""
        if self._bulk is not False:
            self._link.write(":WAVeform:SEGMented:ALL OFF")
            self._bulk = not self._scpi.errors()

    def _read_segments(self, codes: np.ndarray[Any, Any], tags_s: np.ndarray[Any, Any]) -> None:
        """Fill `codes` with every segment: in one block where the firmware can, else one by one."""
        if self._bulk:
            self._link.write(":WAVeform:SEGMented:ALL ON")
            self._bulk = not self._scpi.errors()
        if self._bulk:
            self._read(codes.reshape(-1))
            self._scpi.command(":WAVeform:SEGMented:ALL OFF")
            return
        for segment, tag_s in enumerate(tags_s):
            if self._tag_of(segment) != tag_s:
                raise BadData(f"{self._link.resource}: segment {segment + 1} has another time tag than before")
            self._read(codes[segment])

    def _read(self, into: np.ndarray[Any, Any]) -> None:
        """Fill `into` with one block. Raises BadData where its length is another."""
        timeout_s = self._scpi.timeout_s + into.size / TRANSFER_MIN_BYTES_PER_S
        payload = self._link.query_block(":WAVeform:DATA?", timeout_s, into)
        if payload.size != into.size:
            raise BadData(
                f"{self._link.resource}: :WAVeform:DATA? gave {payload.size} points, the preamble promised {into.size}"
            )
        self._scpi.query("*OPC?")  # without it the next query is answered by -410, Query INTERRUPTED (sicak issue 5)
