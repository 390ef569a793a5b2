"""The SCPI dialect of a RIGOL DHO814, as far as this bench needs it.

From the RIGOL DHO800/DHO900 Series Programming Guide, PGA39106-1110, software 00.01.03: numbers without units and
integers without point (2.1, 3), *OPC? that does not wait (3.12.6), the error queue's text (3.24.3), :WAVeform (3.28:
volts are (code - YORigin - YREFerence) x YINCrement, YINCrement a division / 7500, memory only when stopped). An offset
moves the trace, so that mid-screen is at minus the offset (3.27.8.3). Paging is the DS1000Z guide's: 250 000 points of
BYTE, 125 000 of WORD and 15 625 of ASCii at most in one read; not verified for this family. WORD is little endian and
unsigned, its reference 32768: from a public capture of a DHO824 (6.6667 uV at 50 mV/div).

As users report of the family: the preamble's points are those of the page; a block asked for too soon after the last
trigger is a header without data (scopehal 358, 359, 696), for `ready_s` here, and *WAI helps; the memory is not read
while it runs, and MAXimum then reads the screen; one client at a time.

Assumed: BYTE is the upper half of WORD, rounded, so that its YINCrement is 256 times that; refusals are -221; texts of
errors but -113 are those of the SCPI standard.
Not modelled, and refused with -241: AC and ground coupling, inversion, other trigger types, acquisition types other
than NORMal, delayed sweep, sources other than analog channels.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from instruments.sim.acquisition import Acquisition, Plan
from instruments.sim.dho800_frames import Frames, whole
from instruments.sim.dho800_settings import INPUTS, PROBES, SCREEN_POINTS, Settings
from instruments.sim.dho800_waveform import (
    PAGE_POINTS,
    PREAMBLE_FIELDS,
    data,
    empty_data,
    empty_preamble,
    nr,
    preamble,
)
from instruments.sim.frontend import N_DIVISIONS
from instruments.sim.oscilloscope import Oscilloscope
from instruments.sim.scpi import MESSAGES, Reply, ScpiError, boolean, choice, number
from instruments.sim.vertical import N_TIME_DIVISIONS, between, channel_index, channel_name
from instruments.sim.world import World

IDENTITY = "RIGOL TECHNOLOGIES,DHO814,EMULATED{seed},00.01.03"
UNDEFINED = "Undefined header; command cannot be found"
WAIT_S = 0.05
# Times of the instrument, as part of what they are on a real one, unless it is said.
SLOWNESS = 0.01
COUPLINGS = ("AC", "DC", "LFReject", "HFReject")
TRIGGERS = (
    "EDGE", "PULSe", "SLOPe", "VIDeo", "PATTern", "DURation", "TIMeout", "RUNT", "WINDow", "DELay", "SETup", "NEDGe",
    "RS232", "IIC", "SPI", "CAN",
)  # fmt: skip


class Dho800(Oscilloscope):
    """The oscilloscope: settings, acquisition, read-out. It runs from power-up on, as if nobody looked."""

    def __init__(
        self,
        world: Callable[[], World],
        seed: int,
        signals: dict[int, str],
        *,
        stream: int = 0,
        slowness: float = SLOWNESS,
        ready_s: float = 0.0,
        frame_trap: bool = False,
    ) -> None:
        super().__init__(world, seed, signals, INPUTS, stream)
        self._settings = Settings()
        self._ready_s = ready_s
        self._idles = True
        self._n_frames, self._staging_s = 1, 0.0
        self._single_only = False
        self._shown: Acquisition | None = None
        self._frames = Frames(self, seed, slowness, frame_trap)
        self._register_common()
        self._register_vertical()
        self._register_horizontal()
        self._register_waveform()

    def say_integer(self, value: int) -> str:
        """Write an integer as the instrument does."""
        return str(value)

    def say_error(self, code: int) -> str:
        """Write an entry of the error queue as the guide does (3.24.3)."""
        return f'{code},"{UNDEFINED if code == -113 else MESSAGES[code]}"'

    def status_byte(self) -> int:
        """Return the status byte: bit 2 tells of errors in the queue (guide, table 3.129)."""
        return super().status_byte() | (4 if len(self.errors) else 0)

    def is_complete(self) -> bool:
        """Tell whether nothing is being taken or made ready."""
        a = self._acquisition
        return a is None or self._run.is_set() or time.monotonic() >= a.done_s + self._ready_s

    def wait_complete(self) -> None:
        """Wait until what was taken can be read, for as long as the client does."""
        a = self._acquisition
        if a is None or self._run.is_set():
            return
        self.await_event(a.done)
        if a.done.is_set():
            time.sleep(max(0.0, a.done_s + self._ready_s - time.monotonic()))

    # --- for the frames -----------------------------------------------------------------------------------------

    def await_event(self, event: threading.Event) -> None:
        """Wait for an event as long as the client does."""
        while not event.wait(WAIT_S) and not self._is_gone():
            pass

    def frames_max(self) -> int:
        """Return how many frames fit at the settings in force."""
        return int(self._settings.frames_max)

    def record(self, n_frames: int, staging_s: float) -> Acquisition:
        """Begin to take frames."""
        self._check_triggers()
        self._n_frames, self._staging_s, self._single_only = n_frames, staging_s, False
        self._idles = False
        self._start(False)
        assert self._acquisition is not None
        return self._acquisition

    def halt(self) -> None:
        """Stop."""
        self._idles = False
        self._stop()

    # --- tables -------------------------------------------------------------------------------------------------

    def _register_common(self) -> None:
        self.on("*IDN?", lambda: IDENTITY.format(seed=self._seed))
        self.do("*RST", self._reset)
        self.do(":RUN", self._go)
        self.do(":STOP", self.halt)
        self.do(":SINGle", self._single)
        self.do(":TFORce", self._force)
        self.do(":CLEar", self._clear)
        self.on(":SYSTem:RAMount?", lambda: str(len(self._settings.channels)))

    def _register_vertical(self) -> None:
        on_off = ("0", "1")
        self._channel(
            "DISPlay", lambda s, n, p: s.with_display(n, boolean(p)), lambda s, n: on_off[s.display[channel_index(n)]]
        )
        self._channel(
            "BWLimit",
            lambda s, n, p: s.with_channel(n, bandwidth_limit=choice(p, "20M", "OFF") == "20M"),
            lambda s, n: "20M" if s.channel(n).bandwidth_limit else "OFF",
        )
        self._channel(
            "UNITs",
            lambda s, n, p: s.with_units(n, choice(p, "WATT", "AMPere", "VOLTage", "UNKNown")),
            lambda s, n: s.units[channel_index(n)],
        )
        self._channel(
            "SCALe", lambda s, n, p: s.with_scale(n, number(p)), lambda s, n: nr(s.channel(n).range_v / N_DIVISIONS)
        )
        self._channel(
            "OFFSet", lambda s, n, p: s.with_offset(n, -number(p)), lambda s, n: nr(0.0 - s.channel(n).offset_v)
        )
        self._channel(
            "PROBe", lambda s, n, p: s.with_probe(n, _probe(number(p))), lambda s, n: f"{s.channel(n).probe_ratio:g}"
        )
        self._channel(
            "VERNier", lambda s, n, p: s.with_fine(n, boolean(p)), lambda s, n: on_off[s.fine[channel_index(n)]]
        )
        for name, read, only in (
            ("COUPling", lambda p: choice(p, "AC", "DC", "GND"), "DC"),
            ("INVert", lambda p: on_off[boolean(p)], "0"),
            ("TCALibrate", lambda p: nr(number(p)), nr(0.0)),
            ("POSition", lambda p: nr(number(p)), nr(0.0)),
        ):
            self.on(f":CHANnel<n>:{name}", lambda n, p, read=read, only=only: self._only(n, read(p), only))
            self.on(f":CHANnel<n>:{name}?", lambda n, only=only: self._fixed(n, only))
        self.on(":TRIGger:SWEep", self._sweep)
        self.on(":TRIGger:SWEep?", lambda: "SING" if self._single_only else self._settings.sweep)
        self.on(":TRIGger:STATus?", self._status)
        self._setting(":TRIGger:HOLDoff", "holdoff_s", lambda p: between(number(p), 8e-9, 10.0), nr)
        self._setting(":TRIGger:EDGE:SOURce", "source", channel_name, "CHAN{}".format)
        self.on(":TRIGger:EDGE:SLOPe", self._slope)
        self.on(":TRIGger:EDGE:SLOPe?", lambda: self._settings.slope)
        self._setting(":TRIGger:EDGE:LEVel", "level_v", lambda p: self._settings.level(number(p)), nr)
        self._fixed_setting(":TRIGger:MODE", lambda p: choice(p, *TRIGGERS), "EDGE")
        self._fixed_setting(":TRIGger:COUPling", lambda p: choice(p, *COUPLINGS), "DC")
        self._fixed_setting(":TRIGger:NREJect", lambda p: on_off[boolean(p)], "0")

    def _register_horizontal(self) -> None:
        self.on(":TIMebase[:MAIN]:SCALe", lambda p: self._change(self._settings.with_time_scale(number(p))))
        self.on(":TIMebase[:MAIN]:SCALe?", lambda: nr(self._settings.scale_s))
        self.on(":TIMebase[:MAIN][:OFFSet]", lambda p: self._change(self._settings.with_time_offset(number(p))))
        self.on(":TIMebase[:MAIN][:OFFSet]?", lambda: nr(self._settings.offset_s))
        self._setting(":TIMebase:VERNier", "fine_time", boolean)
        self._setting(":TIMebase:ROLL", "rolls", boolean)
        self._fixed_setting(":TIMebase:MODE", lambda p: choice(p, "MAIN", "XY", "ROLL"), "MAIN")
        self._fixed_setting(":TIMebase:DELay:ENABle", lambda p: str(int(boolean(p))), "0")
        self._fixed_setting(
            ":TIMebase:HREFerence:MODE", lambda p: choice(p, "CENTer", "LB", "RB", "TRIG", "USER"), "CENT"
        )
        self._fixed_setting(":ACQuire:TYPE", lambda p: choice(p, "NORMal", "PEAK", "AVERages", "ULTRa"), "NORM")
        self.on(":ACQuire:MDEPth", lambda p: self._change(self._settings.with_depth(p)))
        self.on(":ACQuire:MDEPth?", lambda: f"{self._settings.n_points:.3E}")
        self.on(":ACQuire:SRATe?", lambda: nr(self._settings.rate_hz))

    def _register_waveform(self) -> None:
        self._setting(":WAVeform:SOURce", "wave_source", channel_name, "CHAN{}".format)
        self._setting(":WAVeform:MODE", "wave_mode", lambda p: choice(p, "NORMal", "MAXimum", "RAW"))
        self._setting(":WAVeform:FORMat", "wave_format", lambda p: choice(p, "WORD", "BYTE", "ASCii"))
        self._setting(":WAVeform:STARt", "first", lambda p: whole(p, 1, self._n_readable()))
        self._setting(":WAVeform:STOP", "last", lambda p: whole(p, 1, self._n_readable()))
        self.on(":WAVeform:POINts", self._set_points)
        self.on(":WAVeform:POINts?", lambda: str(self._page(self._n_readable())[1]))
        self.on(":WAVeform:PREamble?", self._preamble)
        for place, name in enumerate(PREAMBLE_FIELDS):
            self.on(f":WAVeform:{name}?", lambda place=place: self._preamble().split(",")[place + 4])
        self.on(":WAVeform:DATA?", self._data)

    def _fixed_setting(self, header: str, read: Callable[[list[str]], str], modelled: str) -> None:
        """Register a setting of which one value is modelled."""
        self.on(header, lambda p: self._only(1, read(p), modelled))
        self.on(header + "?", lambda: modelled)

    def _change(self, settings: Settings) -> None:
        self._settings = settings

    def _slope(self, parameters: list[str]) -> None:
        slope = choice(parameters, "POSitive", "NEGative", "RFALl")
        if slope == "RFAL":
            raise ScpiError(-241)
        self._set(slope=slope)

    def _set_points(self, parameters: list[str]) -> None:
        n = whole(parameters, 1, self._n_readable() - self._settings.first + 1)
        self._set(last=self._settings.first + n - 1)

    # --- acquisition --------------------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        s = self._settings
        front_ends = self._front_ends()
        return Plan(
            front_ends={n: f for n, f in front_ends.items() if s.display[n - 1]},
            trigger=front_ends[s.source],
            level_v=s.level_v,
            rising=s.slope == "POS",
            auto=s.sweep == "AUTO" and not self._single_only,
            holdoff_s=max(s.holdoff_s, self._frames.interval_s if self._n_frames > 1 else 0.0),
            left_s=s.left_s,
            dt_s=1.0 / s.rate_hz,
            n_points=s.n_points,
            n_segments=self._n_frames,
            staging_s=self._staging_s,
        )

    def _beginning(self, acquisition: Acquisition) -> None:
        before = self._acquisition
        self._shown = before if before is not None and before.n_taken else self._shown

    def _reset(self) -> None:
        self.halt()
        self._settings = Settings()
        self._frames.reset()
        self._clear()
        self._single_only, self._idles = False, True

    def _clear(self) -> None:
        self._shown = None
        if self._acquisition is not None and self._acquisition.done.is_set():
            self._acquisition = None

    def _check_triggers(self) -> None:
        if self._settings.is_rolling:
            raise ScpiError(-221)

    def _take(self, single: bool) -> None:
        self._n_frames, self._staging_s, self._single_only = 1, 0.0, single
        self._idles = False
        self._start(not single)

    def _go(self) -> None:
        self._take(single=False)

    def _single(self) -> None:
        if self._frames.enabled:
            raise ScpiError(-221)
        self._check_triggers()
        self._take(single=True)

    def _sweep(self, parameters: list[str]) -> None:
        sweep = choice(parameters, "AUTO", "NORMal", "SINGle")
        if sweep == "SING":
            self._single()
            return
        self._single_only = False
        self._set(sweep=sweep)

    def _is_running(self) -> bool:
        a = self._acquisition
        return self._idles or self._run.is_set() or (a is not None and not a.done.is_set())

    def _status(self) -> str:
        if not self._is_running():
            return "STOP"
        a = self._acquisition
        if self._settings.sweep == "AUTO" and not self._single_only:
            return "AUTO"
        if self._idles or a is None:
            return "WAIT"
        if a.n_triggered > a.n_taken or a.done.is_set():
            return "TD"
        return "WAIT" if a.armed.is_set() else "RUN"

    # --- read-out -----------------------------------------------------------------------------------------------

    def _reads_screen(self) -> bool:
        """Tell whether the screen is read. Raises -221 where the memory is asked for and must not be read."""
        mode = self._settings.wave_mode
        if mode == "RAW" and self._is_running():
            raise ScpiError(-221)
        return bool(mode == "NORM" or (mode == "MAX" and self._is_running()))

    def _readable(self) -> Acquisition | None:
        """Return what can be read of the selected source now."""
        a = self._acquisition
        if a is None or not a.done.is_set() or not a.n_taken:
            a = self._shown
        elif time.monotonic() < a.done_s + self._ready_s:
            return None
        return a if a is not None and self._settings.wave_source in a.plan.front_ends else None

    def _n_readable(self) -> int:
        """Return how many points there are to choose from."""
        s = self._settings
        if s.wave_mode == "NORM" or (s.wave_mode == "MAX" and self._is_running()):
            return SCREEN_POINTS
        a = self._acquisition
        return a.plan.n_points if a is not None and not self._is_running() else s.n_points

    def _page(self, n_points: int) -> tuple[int, int]:
        """Return where the page to be read begins, from 0, and how many points it has."""
        s = self._settings
        return s.first - 1, max(0, min(s.last, n_points, s.first - 1 + PAGE_POINTS[s.wave_format]) - s.first + 1)

    def _preamble(self) -> str:
        s = self._settings
        screen = self._reads_screen()
        a = self._readable()
        if a is None:
            return empty_preamble(s.wave_format, s.wave_mode)
        return preamble(
            s.wave_format,
            s.wave_mode,
            self._page(SCREEN_POINTS if screen else a.plan.n_points)[1],
            s.scale_s / (SCREEN_POINTS // N_TIME_DIVISIONS) if screen else a.plan.dt_s,
            self._screen_left_s() if screen else a.x_origin_s[self._frames.row(a)],
            a.plan.front_ends[s.wave_source].setup,
        )

    def _screen_left_s(self) -> float:
        s = self._settings
        return float(s.offset_s - N_TIME_DIVISIONS / 2 * s.scale_s)

    def _data(self) -> Reply | tuple[Reply, ...]:
        s = self._settings
        screen = self._reads_screen()
        a = self._readable()
        if a is None:
            return empty_data(s.wave_format)
        row = self._frames.row(a)
        codes = a.codes[s.wave_source][row]
        first, n = self._page(SCREEN_POINTS if screen else len(codes))
        if screen:
            where_s = self._screen_left_s() + np.arange(first, first + n) * s.scale_s / 100 - a.x_origin_s[row]
            codes = codes[np.clip(np.rint(where_s / a.plan.dt_s), 0, len(codes) - 1).astype(int)]
        else:
            codes = codes[first : first + n]
        return data(s.wave_format, codes, a.plan.front_ends[s.wave_source].setup)


def _probe(ratio: float) -> float:
    """Return one of the probe ratios that there are. Raises -222."""
    for known in PROBES:
        if abs(ratio - known) <= 1e-9 * known:
            return float(f"{known:g}")
    raise ScpiError(-222)
