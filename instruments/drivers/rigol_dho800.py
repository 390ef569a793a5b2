"""Driver of Rigol DHO800 and DHO900 oscilloscopes (DHO802 to DHO824, DHO914 to DHO924S).

Sources, cited below by the short names in brackets:
  [PG]  Rigol DHO800/DHO900 Series Programming Guide, April 2025 (the copy read shows no publication number): sections
        3.1 run control, 3.3 memory depth, 3.6 channels, 3.19 recording, 3.26 time base, 3.27 trigger, 3.28 waveforms;
  [DS]  Rigol DHO800 data sheet DSA36106-1110, October 2024 (for the DHO900 not verified);
  [UG]  Rigol DHO800 User Guide, December 2024, chapter 17 (recording; the time of a frame counts from the first);
  [ZE]  Rigol DS1000Z-E Programming Guide p. 2-179 f. (paging: at most 125 000 points a read in WORD; [PG] names no
        limit).
What public reports add: a block may come without data when it is asked for too early (scopehal issues 359 and 696),
the reply to *IDN? may be a waveform that nobody fetched (libsigrok 246), *OPC? answers 0 and waits for nothing
(libsigrok 229; it is not used here), a frame may be read in place of another until :WAVeform:RESet and BEGin (libsigrok
71; not in [PG], so firmware is asked once whether it knows them). Recording, as users of the sibling MHO900 measured
it: seconds to get ready, the first query then waiting as long; frame 1 is current before the first trigger came; a time
stamp follows its frame 0.3 s late and is rounded to five digits.

Firmware revisions tried: none. Nothing ran on silicon; dialogues only. Order of the bytes of a WORD (little endian) and
its mid-screen code come from public captures of a DHO824. Not covered: digital channels, EXT trigger, average, peak
and UltraAcquire acquisition. A trigger that fires before the instrument was seen to wait for it is refused as "did not
arm": nothing tells it from an arming that got lost. A series that ended with one frame is taken for none.
"""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from math import inf
from typing import Any

import numpy as np

from instruments.drivers.dho_facts import (
    DEPTHS_MAX,
    RATE_MAX_HZ,
    SCALE_MAX_V,
    SEGMENTS_MAX,
    TIMEBASE_RATIO,
    Preamble,
    check_settings,
    choose_depth,
    make_channel,
    parse_stamp,
    scale_min_v,
)
from instruments.drivers.dho_readout import ReadOut
from instruments.drivers.oscilloscope import (
    DIVISIONS,
    GRANTED_MIN_RATIO,
    Oscilloscope,
    channel_number,
    polls,
)
from instruments.errors import BadData, InstrumentTimeout, LinkLost, Rejected
from instruments.protocols import AcquisitionSettings, Capabilities, ChannelSettings, Progress, TriggerSettings
from instruments.record import Channel, Identity, Record
from instruments.transport.link import QUERY_TIMEOUT_S, Deadline, Link

CHANNELS_MAX = ("CH1", "CH2", "CH3", "CH4")
TIME_DIVISIONS = 10
HOLDOFF_MIN_S, INTERVAL_MIN_S = 8e-9, 10e-9  # [PG] 3.27.5, 3.19.9
# A level that no signal on the screen reaches, in divisions from its middle: nothing triggers but what is forced.
LEVEL_PARKED_DIVISIONS = 4.4
# Recording takes up to 16 s to get ready.
ARM_TIMEOUT_S = 30.0
IDENTITY_TRIES = 3
STAMP_REFRESH_S = 0.5
FRAME, STAMP = ":RECord:WREPlay:FCURrent", ":RECord:WREPlay:FCURrent:TIME?"
STATE = ":TRIGger:STATus?"


class RigolDho800(Oscilloscope):
    """Record waveforms with a DHO800 or DHO900 oscilloscope; implements `protocols.Recorder`."""

    SUMMARY = "Rigol DHO800 and DHO900 oscilloscopes; never tried on a real one"
    VENDORS = ("RIGOL",)
    MODEL = re.compile(r"DHO[89]\d[24](?:S|-EDU)?")
    FAMILY = "Rigol DHO800 and DHO900 (DHO802 to DHO924S)"

    def __init__(self, link: Link, timeout_s: float = QUERY_TIMEOUT_S) -> None:
        super().__init__(link, timeout_s)
        self._depth = 0
        self._selected = 0
        self._read_out = ReadOut(self._scpi)

    def capabilities(self) -> Capabilities:
        """Return the limits to plan within, at 1:1: a probe multiplies those of the range.

        Rate and memory are for one channel; with more they are less. How many segments fit depends on their depth.
        """
        model = self._model
        return Capabilities(
            channels=CHANNELS_MAX[: int(model[5])],
            range_min_v=DIVISIONS * scale_min_v(model),
            range_max_v=DIVISIONS * SCALE_MAX_V,
            rate_max_hz=RATE_MAX_HZ,
            memory_samples=DEPTHS_MAX[model[3]][0],
            segments_max=SEGMENTS_MAX,
        )

    def configure(self, settings: AcquisitionSettings) -> AcquisitionSettings:
        """Set everything, read it back, and return what was granted: a range is rounded up to a step of 1, 2 or 5.

        `span_s` is what a segment occupies, all of its memory, which may be more than was asked for. Raises OutOfRange
        before anything is sent, Rejected with the command where the instrument complains or grants another setting
        than one that matters.
        """
        if self._identity is None:
            check_settings(settings, CHANNELS_MAX, "DHO924")
        names, model = self.capabilities().channels, self._model
        stepped = check_settings(settings, names, model)
        self._asked, self._granted, self._n_taken, self._selected, self._replies = settings, None, 0, 0, {}
        self._link.write("*CLS")
        # Stopped, it would keep the offset within what lies in the memory [PG] 3.26.4.
        self._set(":RECord:WRECord:ENABle", False)
        self._scpi.command(":RUN")
        channels = tuple(self._set_channel(channel) for channel in stepped.voltages)
        for name in names:
            if name not in {channel.name for channel in channels}:
                self._set(f":CHANnel{channel_number(name)}:DISPlay", False)
        scale_s, offset_s = self._set_timebase(settings)
        self._set(":ACQuire:TYPE", "NORMal")
        self._depth = choose_depth(replace(stepped, span_s=TIME_DIVISIONS * scale_s), model)
        self._set(":ACQuire:MDEPth", self._depth)  # after the time base, which would choose another
        trigger = self._set_trigger(stepped)
        if settings.n_segments > 1:
            self._set_frames(settings.n_segments)
        rate_hz = self._scpi.number(":ACQuire:SRATe?")
        if not 0 < rate_hz < inf:
            raise BadData(f"{self._link.resource}: :ACQuire:SRATe? answered {rate_hz:g}; try again")
        memory_s = self._depth / rate_hz
        self._require(":ACQuire:MDEPth", memory_s >= GRANTED_MIN_RATIO * settings.span_s, settings.span_s, memory_s)
        pre_s = max(0.0, memory_s / 2 - offset_s)
        self._granted = replace(
            settings, channels=channels, trigger=trigger, span_s=memory_s, pre_s=pre_s, rate_hz=rate_hz
        )
        return self._granted

    def arm(self, timeout_s: float = ARM_TIMEOUT_S) -> None:
        """Start the acquisition and return once the instrument really waits for its trigger.

        Raises InstrumentTimeout where it is not seen to arm in time, Rejected where nothing is configured.
        """
        granted = self._configured()
        self._n_taken = 0
        deadline = Deadline(timeout_s)
        if granted.n_segments > 1:
            self._scpi.command(":RECord:WRECord:OPERate STOP")
            if self._start_frames(deadline):
                return
        else:
            self._halt(deadline)
            self._scpi.command(":SINGle")
            for _ in polls(deadline):
                if self._state() in ("WAIT", "TD"):
                    if granted.trigger is None:
                        self._scpi.command(":TFORce")
                    return
        errors = self._scpi.errors()
        self._scpi.command(":STOP")
        raise InstrumentTimeout(
            f"{self._link.resource} did not arm within {timeout_s:g} s ({'; '.join(errors) or 'no error queued'}), or "
            "triggered before that was seen: silence the trigger until then, or try a longer time-out"
        )

    def wait(self, timeout_s: float, progress: Progress | None = None) -> int:
        """Wait until the acquisition is complete; return the number of segments taken, which may be fewer.

        Raises InstrumentTimeout with the error queue where no segment at all arrived.
        """
        granted = self._configured("configure and arm")
        wanted, series = granted.n_segments, granted.n_segments > 1
        running = True
        for _ in polls(Deadline(timeout_s)):
            ended = self._scpi.query(":RECord:WRECord:OPERate?").upper() if series else self._state()
            running = ended != "STOP"
            if progress is not None:
                # While it records, the current frame is the one that waits for its trigger.
                waiting = self._count(f"{FRAME}?") if series and running else 1
                progress(max(0, waiting - 1) if running else wanted, wanted)
            if not running:
                break
        taken = 0 if running else 1
        if series:
            if running:
                self._scpi.command(":RECord:WRECord:OPERate STOP")
            taken = min(wanted, self._count(":RECord:WREPlay:FMAX?"))
            self._note_frame(taken)
        elif running:
            self._scpi.command(":STOP")
        if taken < min(wanted, 2):
            errors = self._scpi.errors()
            raise InstrumentTimeout(
                f"{self._link.resource} saw no trigger within {timeout_s:g} s ({'; '.join(errors) or 'no error queued'}"
                "): check the trigger channel's cable and pin, its level and edge, and that the DUT runs"
            )
        self._n_taken = taken
        return taken

    def fetch(self) -> Record:
        """Read the codes of every configured channel and segment, uint16 of shape (segments, samples).

        Raises BadData where a reply breaks the manual's form, Rejected where nothing was acquired.
        """
        if self._asked is None or self._granted is None or self._n_taken == 0:
            raise Rejected(f"{self._link.resource}: nothing was acquired; call configure, arm and wait first")
        self._halt(Deadline(self._scpi.timeout_s))  # RAW reads the memory only then [PG] 3.28.2
        depth = self._count(":ACQuire:MDEPth?")
        if depth != self._depth:
            raise BadData(f"{self._link.resource}: :ACQuire:MDEPth? is {depth} now, {self._depth} was recorded")
        voltages = self._granted.voltages
        codes = {s.name: np.empty((self._n_taken, depth), np.dtype("<u2")) for s in voltages}
        preambles: dict[str, Preamble] = {}
        if self._granted.n_segments > 1:
            stamps_s = self._read_frames(codes, preambles)
        else:
            stamps_s = np.zeros(1)
            for name, into in codes.items():
                preambles[name] = self._read_out.select(name)
                self._read_out.fill(into[0])
        self._scpi.complain("the read-out")
        first = preambles[voltages[0].name]
        for name, preamble in preambles.items():
            if (preamble.dt_s, preamble.start_s) != (first.dt_s, first.start_s):
                raise BadData(f"{self._link.resource}: {name} has other sample times than the first channel")
        channels: dict[str, Channel] = {s.name: make_channel(s, codes[s.name], preambles[s.name]) for s in voltages}
        return Record(
            channels=channels,
            dt_s=first.dt_s,
            segment_start_s=stamps_s + first.start_s,
            instrument=self._identity or self.identify(),
            timebase_ratio=TIMEBASE_RATIO,
            asked=asdict(self._asked),
            granted={
                **asdict(replace(self._granted, rate_hz=1 / first.dt_s)),
                "replies": dict(self._replies),
                "segment_start": "time stamps of the frames, as displayed: about five digits",
            },
        )

    @property
    def _model(self) -> str:
        return (self._identity or self.identify()).model.upper()

    def _ask_identity(self, timeout_s: float) -> Identity:
        for _ in range(IDENTITY_TRIES - 1):
            try:
                return self._scpi.identity(timeout_s)
            except (BadData, LinkLost):
                self._link.clear()  # of a waveform that somebody left there
        return self._scpi.identity(timeout_s)

    def _state(self) -> str:
        return self._scpi.query(STATE).upper()

    def _count(self, query: str, timeout_s: float | None = None) -> int:
        """Return a reply that must be a count. Raises BadData."""
        reply = self._scpi.query(query, timeout_s)
        try:
            value = float(reply)
        except ValueError:
            value = -1.0
        if value < 0 or not value.is_integer():
            raise BadData(f"{self._link.resource}: {query} answered {reply!r} where a count was expected")
        return int(value)

    def _halt(self, deadline: Deadline) -> None:
        """Stop, and wait until it did."""
        self._scpi.command(":STOP")
        for _ in polls(deadline):
            if (state := self._state()) == "STOP":
                return
        raise InstrumentTimeout(f"{self._link.resource} does not stop: {STATE} still answers {state!r}; try again")

    def _set_channel(self, asked: ChannelSettings) -> ChannelSettings:
        # Scale and offset mean volts at the probe tip, so the probe is set first. The offset that is set moves the
        # trace: what is mid-screen then has the opposite sign [PG] 3.27.8.3.
        root = f":CHANnel{channel_number(asked.name)}"
        self._set(f"{root}:DISPlay", True)
        self._set(f"{root}:COUPling", asked.coupling)
        self._set(f"{root}:INVert", False)
        probe_ratio = float(self._set(f"{root}:PROBe", float(asked.probe_ratio)))
        self._require(f"{root}:PROBe", probe_ratio == asked.probe_ratio, asked.probe_ratio, probe_ratio)
        scale_v = asked.range_v / DIVISIONS
        granted_v = float(self._set(f"{root}:SCALe", scale_v))
        self._require(f"{root}:SCALe", granted_v >= GRANTED_MIN_RATIO * scale_v, scale_v, granted_v)
        offset_v = float(self._set(f"{root}:OFFSet", 0.0 - asked.offset_v))
        self._require(f"{root}:OFFSet", abs(offset_v + asked.offset_v) <= granted_v, -asked.offset_v, offset_v)
        self._set(f"{root}:BWLimit", "20M" if asked.bandwidth_limit else "OFF")
        return replace(asked, range_v=DIVISIONS * granted_v, offset_v=0.0 - offset_v, probe_ratio=probe_ratio)

    def _set_timebase(self, settings: AcquisitionSettings) -> tuple[float, float]:
        """Return the granted scale, and the time from the trigger to mid-screen."""
        self._set(":TIMebase:MODE", "MAIN")
        self._set(":TIMebase:DELay:ENABle", False)
        self._set(":TIMebase:ROLL", 0)  # from 50 ms/div on it would neither trigger nor record
        self._set(":TIMebase:VERNier", True)
        asked_s = settings.span_s / TIME_DIVISIONS
        scale_s = float(self._set(":TIMebase:MAIN:SCALe", asked_s))
        self._require(":TIMebase:MAIN:SCALe", scale_s >= GRANTED_MIN_RATIO * asked_s, asked_s, scale_s)
        centre_s = TIME_DIVISIONS * scale_s / 2 - settings.pre_s
        offset_s = float(self._set(":TIMebase:MAIN:OFFSet", centre_s))
        near = abs(offset_s - centre_s) <= (1 - GRANTED_MIN_RATIO) * TIME_DIVISIONS * scale_s
        self._require(":TIMebase:MAIN:OFFSet", near, centre_s, offset_s)
        return scale_s, offset_s

    def _set_trigger(self, settings: AcquisitionSettings) -> TriggerSettings | None:
        """Return the granted trigger. Without one the level is out of reach, and the trigger is forced when armed."""
        trigger = settings.trigger
        parked = settings.voltages[0]
        parked_v = parked.offset_v + LEVEL_PARKED_DIVISIONS * parked.range_v / DIVISIONS
        asked = trigger or TriggerSettings(parked.name, parked_v)
        self._set(":TRIGger:MODE", "EDGE")
        self._set(":TRIGger:COUPling", "DC")
        self._set(":TRIGger:HOLDoff", HOLDOFF_MIN_S)
        self._set(":TRIGger:SWEep", "NORMal")
        self._set(":TRIGger:EDGE:SOURce", f"CHANnel{channel_number(asked.source)}")
        self._set(":TRIGger:EDGE:SLOPe", "POSitive" if asked.edge == "rising" else "NEGative")
        level_v = float(self._set(":TRIGger:EDGE:LEVel", float(asked.level_v)))
        range_v = next(channel.range_v for channel in settings.voltages if channel.name == asked.source)
        self._require(
            ":TRIGger:EDGE:LEVel", abs(level_v - asked.level_v) <= range_v / DIVISIONS, asked.level_v, level_v
        )
        return replace(trigger, level_v=level_v) if trigger else None

    def _set_frames(self, n_frames: int) -> None:
        """Prepare the recording of frames. Raises Rejected where fewer fit."""
        self._set(":RECord:WRECord:ENABle", True)
        self._set(":RECord:WRECord:OPERate", "STOP")
        self._set(":RECord:WRECord:FINTerval", INTERVAL_MIN_S)
        self._set(":RECord:WRECord:PROMpt", False)
        header = ":RECord:WRECord:FRAMes"
        self._note_frame(self._count(f"{FRAME}?"))
        self._link.write(f"{header} {n_frames}")
        granted, errors = self._count(f"{header}?"), self._scpi.errors()
        if granted != n_frames or errors:
            # What fits is known only after something was recorded at this depth.
            self._start_frames(Deadline(ARM_TIMEOUT_S))
            self._scpi.command(":RECord:WRECord:OPERate STOP")
            self._note_frame(self._count(f"{FRAME}?"))
            most = self._count(":RECord:WRECord:FMAX?")
            if most < n_frames:
                raise Rejected(
                    f"{self._link.resource}: {n_frames} segments of {self._depth} samples do not fit, {most} do: ask "
                    "for fewer, or for a lower sample rate"
                )
            self._set(header, n_frames)
        self._replies[header] = str(n_frames)

    def _start_frames(self, deadline: Deadline) -> bool:
        """Start to record; return whether a frame began to wait for its trigger."""
        self._link.write(":RECord:WRECord:OPERate RUN")
        for _ in polls(deadline):
            # Until it is ready the first query, whichever it is, may wait; and an earlier frame may still be current.
            if self._count(f"{FRAME}?", max(deadline.remaining_s, self._scpi.timeout_s)) not in (0, self._selected):
                return True
        return False

    def _note_frame(self, number: int) -> None:
        # Frame 1 is also the one that a recording begins with.
        self._selected = number if number > 1 else 0

    def _read_frames(
        self, codes: dict[str, np.ndarray[Any, Any]], preambles: dict[str, Preamble]
    ) -> np.ndarray[Any, Any]:
        """Fill `codes` and `preambles` frame by frame; return the seconds from the first to each one. Raises BadData.

        That the right frame was read is told by the current frame afterwards, by the codes, which noise makes different
        from frame to frame, and by the time stamp.
        """
        self._scpi.command(":RECord:WREPlay:OPERate STOP")
        stamps_s = np.empty(self._n_taken)
        for index in range(self._n_taken):
            self._link.write(f"{FRAME} {index + 1}")
            self._note_frame(index + 1)
            for name, into in codes.items():
                preambles[name] = self._read_out.select(name, frame=True, known=preambles.get(name))
                self._read_out.fill(into[index])
            if (current := self._count(f"{FRAME}?")) != index + 1:
                raise BadData(f"{self._link.resource}: frame {index + 1} was asked for, frame {current} was read")
            if index and all(np.array_equal(into[index], into[index - 1]) for into in codes.values()):
                raise BadData(f"{self._link.resource}: frame {index + 1} holds the codes of frame {index}: it stuck")
            stamps_s[index] = self._stamp_of(index, stamps_s)
        return stamps_s - stamps_s[0]

    def _stamp_of(self, index: int, before_s: np.ndarray[Any, Any]) -> float:
        """Return the frame's time stamp once it has followed. Equal ones are possible: they are rounded."""
        for _ in polls(Deadline(STAMP_REFRESH_S)):
            stamp_s = parse_stamp(self._scpi.query(STAMP), f"{self._link.resource}: {STAMP}")
            if stamp_s > before_s[index - 1] if index else stamp_s == 0:
                return stamp_s
        if index and stamp_s < before_s[index - 1]:
            raise BadData(f"{self._link.resource}: the time stamp of frame {index + 1} is before that of frame {index}")
        return stamp_s
