"""The SCPI dialect of a Keysight InfiniiVision DSO-X 3024T, as far as this bench needs it.

From: Keysight InfiniiVision 3000T X-Series Oscilloscopes Programmer's Guide (root commands pp. 194-229, :WAVeform
p. 1094 ff., status reporting p. 1243 ff.); Agilent InfiniiVision 3000 X-Series Programmer's Guide where the pages are
the same (:AER p. 192, :OPERegister:CONDition p. 171: run is bit 3, wait for trigger bit 5; :WAVeform:PREamble p. 940:
x reference 0, y reference half the steps); 4000 X-Series Programmer's Guide p. 1400 (settings after *RST).
Assumed, not verified against the 3000T guide: with :WAVeform:SEGMented:ALL one block holds all segments while the
preamble counts the points of one; NORMal points come from a record of at most 62 500.
Not modelled, and refused with -241: AC coupling, 50 ohm, acquisition types other than NORMal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from instruments.sim.acquisition import Acquisition, Plan
from instruments.sim.frontend import INFINIIVISION, MID_CODE, N_DIVISIONS
from instruments.sim.latch import Latch
from instruments.sim.oscilloscope import Oscilloscope
from instruments.sim.scope_settings import MEASUREMENT_POINTS, SEGMENTS_MAX, SEGMENTS_MIN, Settings, points, span
from instruments.sim.scpi import Reply, ScpiError, block, boolean, choice, integer, nr3, number
from instruments.sim.vertical import N_CHANNELS, N_TIME_DIVISIONS, between, channel_index, channel_name
from instruments.sim.world import World

IDENTITY = "KEYSIGHT TECHNOLOGIES,DSO-X 3024T,EMULATED{seed},07.30.2019051434"
RUN_BIT, WAIT_TRIGGER_BIT = 8, 32

# Fields of the preamble that can be asked for one by one, from its fourth on.
PREAMBLE_FIELDS = ("COUNt", "XINCrement", "XORigin", "XREFerence", "YINCrement", "YORigin", "YREFerence")


class InfiniiVision(Oscilloscope):
    """The oscilloscope: settings, acquisition, read-out."""

    def __init__(
        self,
        world: Callable[[], World],
        seed: int,
        signals: dict[int, str],
        *,
        stream: int = 0,
        has_bulk_segments: bool = True,
    ) -> None:
        super().__init__(world, seed, signals, INFINIIVISION, stream)
        self._settings = Settings()
        self._armed = Latch()
        self._triggered = Latch()
        self._ran = Latch()
        self._waited = Latch()
        self._oper_enable = 0
        self._register_common()
        self._register_vertical()
        self._register_horizontal()
        self._register_waveform()
        if has_bulk_segments:
            self._setting(":WAVeform:SEGMented:ALL", "all_segments", boolean)

    # --- tables -------------------------------------------------------------------------------------------------

    def _register_common(self) -> None:
        self.on("*IDN?", lambda: IDENTITY.format(seed=self._seed))
        self.on("*OPT?", lambda: "SGM")
        self.do("*RST", self._reset)
        self.do(":STOP", self._stop)
        self.do(":SINGle", lambda: self._start(False))
        self.do(":RUN", lambda: self._start(True))
        self.on(":DIGitize", self._digitize)
        self.do(":TRIGger:FORCe", self._force)
        self.do("*TRG", self._force)
        self.on(":AER?", lambda: f"{self._armed.read():+d}")
        self.on(":TER?", lambda: f"{self._triggered.read():+d}")
        self.on(":OPERegister:CONDition?", lambda: f"{self._condition():+d}")
        self.on(":OPERegister[:EVENt]?", self._read_oper_event)
        self.on(":OPEE", lambda p: setattr(self, "_oper_enable", integer(p, 0, 65535)))
        self.on(":OPEE?", lambda: f"{self._oper_enable:+d}")

    def _register_vertical(self) -> None:
        on_off = ("0", "1")
        self._channel(
            "DISPlay", lambda s, n, p: s.with_display(n, boolean(p)), lambda s, n: on_off[s.display[channel_index(n)]]
        )
        self._channel(
            "BWLimit",
            lambda s, n, p: s.with_channel(n, bandwidth_limit=boolean(p)),
            lambda s, n: on_off[s.channel(n).bandwidth_limit],
        )
        self._channel(
            "UNITs",
            lambda s, n, p: s.with_units(n, choice(p, "VOLT", "AMPere")),
            lambda s, n: s.units[channel_index(n)],
        )
        self._channel("RANGe", lambda s, n, p: s.with_range(n, number(p, "V")), lambda s, n: nr3(s.channel(n).range_v))
        self._channel(
            "SCALe",
            lambda s, n, p: s.with_range(n, number(p, "V") * N_DIVISIONS),
            lambda s, n: nr3(s.channel(n).range_v / N_DIVISIONS),
        )
        self._channel(
            "OFFSet", lambda s, n, p: s.with_offset(n, number(p, "V")), lambda s, n: nr3(s.channel(n).offset_v)
        )
        self._channel(
            "PROBe",
            lambda s, n, p: s.with_probe(n, between(number(p), 1e-3, 1e4)),
            lambda s, n: nr3(s.channel(n).probe_ratio),
        )
        self.on(":CHANnel<n>:COUPling", lambda n, p: self._only(n, choice(p, "DC", "AC"), "DC"))
        self.on(":CHANnel<n>:COUPling?", lambda n: self._fixed(n, "DC"))
        self.on(":CHANnel<n>:IMPedance", lambda n, p: self._only(n, choice(p, "ONEMeg", "FIFTy"), "ONEM"))
        self.on(":CHANnel<n>:IMPedance?", lambda n: self._fixed(n, "ONEM"))
        self.on(":TRIGger:MODE", lambda p: self._only(1, choice(p, "EDGE"), "EDGE"))
        self.on(":TRIGger:MODE?", lambda: "EDGE")
        self._setting(":TRIGger:SWEep", "sweep", lambda p: choice(p, "AUTO", "NORMal"))
        self._setting(":TRIGger:HOLDoff", "holdoff_s", lambda p: between(number(p, "S"), 40e-9, 10.0), nr3)
        self._setting(":TRIGger[:EDGE]:SOURce", "source", channel_name, "CHAN{}".format)
        self._setting(":TRIGger[:EDGE]:SLOPe", "slope", lambda p: choice(p, "POSitive", "NEGative"))
        self._setting(":TRIGger[:EDGE]:LEVel", "level_v", lambda p: self._settings.level(number(p, "V")), nr3)
        self.on(":TRIGger[:EDGE]:COUPling", lambda p: self._only(1, choice(p, "DC", "AC", "LFReject"), "DC"))
        self.on(":TRIGger[:EDGE]:COUPling?", lambda: "DC")

    def _register_horizontal(self) -> None:
        self.on(":TIMebase:MODE", lambda p: self._only(1, choice(p, "MAIN", "WINDow", "XY", "ROLL"), "MAIN"))
        self.on(":TIMebase:MODE?", lambda: "MAIN")
        self._setting(":TIMebase:RANGe", "span_s", lambda p: span(number(p, "S")), nr3)
        self.on(":TIMebase:SCALe", lambda p: self._set(span_s=span(number(p, "S") * N_TIME_DIVISIONS)))
        self.on(":TIMebase:SCALe?", lambda: nr3(self._settings.span_s / N_TIME_DIVISIONS))
        self._setting(":TIMebase:POSition", "position_s", lambda p: between(number(p, "S"), -500.0, 500.0), nr3)
        self._setting(":TIMebase:REFerence", "reference", lambda p: choice(p, "LEFT", "CENTer", "RIGHt"))
        self.on(
            ":ACQuire:TYPE",
            lambda p: self._only(1, choice(p, "NORMal", "AVERage", "HRESolution", "PEAK"), "NORM"),
        )
        self.on(":ACQuire:TYPE?", lambda: "NORM")
        self.on(":ACQuire:MODE", lambda p: self._set(segmented=choice(p, "RTIMe", "SEGMented") == "SEGM"))
        self.on(":ACQuire:MODE?", lambda: "SEGM" if self._settings.segmented else "RTIM")
        self._setting(
            ":ACQuire:SEGMented:COUNt", "n_segments", lambda p: integer(p, SEGMENTS_MIN, SEGMENTS_MAX), "{:+d}".format
        )
        self.on(":ACQuire:SEGMented:INDex", lambda p: self._set(index=integer(p, 1, max(1, self._n_taken()))))
        self.on(":ACQuire:SEGMented:INDex?", lambda: f"{self._settings.index:+d}")
        self.on(":ACQuire:SRATe?", lambda: nr3(1.0 / self._settings.sampling()[0]))
        self.on(":ACQuire:POINts?", lambda: f"{self._settings.sampling()[1]:+d}")

    def _register_waveform(self) -> None:
        self._setting(":WAVeform:SOURce", "wave_source", channel_name, "CHAN{}".format)
        self._setting(":WAVeform:FORMat", "wave_format", lambda p: choice(p, "BYTE", "WORD", "ASCii"))
        self._setting(":WAVeform:UNSigned", "unsigned", boolean)
        self._setting(":WAVeform:BYTeorder", "byte_order", lambda p: choice(p, "LSBFirst", "MSBFirst"))
        self._setting(":WAVeform:POINts:MODE", "points_mode", lambda p: choice(p, "NORMal", "MAXimum", "RAW"))
        self.on(":WAVeform:POINts", lambda p: self._set(points=points(p)))
        self.on(":WAVeform:POINts?", lambda: f"{self._readout()[1]:+d}")
        self.on(":WAVeform:PREamble?", self._preamble)
        for place, name in enumerate(PREAMBLE_FIELDS):
            self.on(f":WAVeform:{name}?", lambda place=place: self._preamble().split(",")[place + 3])
        self.on(":WAVeform:TYPE?", lambda: "NORM")
        self.on(":WAVeform:SEGMented:COUNt?", lambda: f"{self._n_taken() if self._settings.segmented else 0:+d}")
        self.on(":WAVeform:SEGMented:TTAG?", lambda: nr3(self._taken().trigger_s[self._segment()], 12))
        self.on(":WAVeform:DATA?", self._data)

    # --- settings -----------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        self._stop()
        self._acquisition = None
        self._settings = Settings()

    def clear_status(self) -> None:
        """Clear error queue and event registers."""
        super().clear_status()
        for latch in (self._armed, self._triggered, self._ran, self._waited):
            latch.read()

    def status_byte(self) -> int:
        """Return the status byte: event summary and operation register summary (3000T guide p. 1243 ff.)."""
        return super().status_byte() | (128 if self._oper_event() & self._oper_enable else 0)

    # --- acquisition --------------------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        s = self._settings
        front_ends = self._front_ends()
        dt_s, n_points = self._settings.sampling()
        return Plan(
            front_ends={n: f for n, f in front_ends.items() if s.display[n - 1]},
            trigger=front_ends[s.source],
            level_v=s.level_v,
            rising=s.slope == "POS",
            auto=s.sweep == "AUTO",
            holdoff_s=s.holdoff_s,
            left_s=s.left_s,
            dt_s=dt_s,
            n_points=n_points,
            n_segments=s.n_segments if s.segmented else 1,
        )

    def _beginning(self, acquisition: Acquisition) -> None:
        self._set(index=1)
        self._armed.follow(acquisition.armed)
        self._waited.follow(acquisition.armed)
        self._triggered.follow(acquisition.triggered)
        self._ran.follow(acquisition.started)

    def _digitize(self, parameters: list[str]) -> None:
        """Take one acquisition of the channels named (all displayed where none is) and wait for it."""
        if parameters:
            named = {channel_name([p]) for p in parameters}
            self._set(display=tuple(n in named for n in range(1, N_CHANNELS + 1)))
        self._start(False)
        assert self._acquisition is not None
        while not self._acquisition.done.wait(0.05):
            if self._is_gone():
                self._acquisition.stop()
        self.complete()

    def _condition(self) -> int:
        a = self._acquisition
        running = self._run.is_set() or (a is not None and not a.done.is_set())
        waiting = running and a is not None and a.armed.is_set()
        return (RUN_BIT if running else 0) | (WAIT_TRIGGER_BIT if waiting else 0)

    def _oper_event(self) -> int:
        return (RUN_BIT if self._ran.is_set() else 0) | (WAIT_TRIGGER_BIT if self._waited.is_set() else 0)

    def _read_oper_event(self) -> str:
        event = self._oper_event()
        self._ran.read()
        self._waited.read()
        return f"{event:+d}"

    # --- read-out -----------------------------------------------------------------------------------------------

    def _n_taken(self) -> int:
        return self._acquisition.n_taken if self._acquisition is not None else 0

    def _taken(self) -> Acquisition:
        """Return the acquisition that can be read: with data, of the selected source."""
        a = self._acquisition
        if a is None or a.n_taken == 0 or self._settings.wave_source not in a.plan.front_ends:
            raise ScpiError(-230)
        return a

    def _segment(self) -> int:
        return min(self._settings.index, self._n_taken()) - 1

    def _readout(self) -> tuple[int, int]:
        """Return (one sample of how many is read, points of one segment read)."""
        a = self._acquisition
        n = a.plan.n_points if a is not None else self._settings.sampling()[1]
        limit = n if self._settings.points is None else min(n, self._settings.points)
        if self._settings.points_mode == "NORM":
            limit = min(limit, MEASUREMENT_POINTS)
        step = -(-n // limit)
        return step, -(-n // step)

    def _preamble(self) -> str:
        s, a = self._settings, self._taken()
        front_end = a.plan.front_ends[s.wave_source]
        step, n = self._readout()
        word = 256 if s.wave_format == "WORD" else 1
        fields = (
            f"{({'BYTE': 0, 'WORD': 1, 'ASC': 4})[s.wave_format]:+d}",
            "+0",
            f"{n:+d}",
            "+1",
            nr3(a.plan.dt_s * step, 8),
            nr3(a.x_origin_s[self._segment()], 8),
            "+0",
            nr3(front_end.volts_per_code / word, 8),
            nr3(front_end.setup.offset_v, 8),
            f"{MID_CODE * word if s.unsigned else 0:+d}",
        )
        return ",".join(fields)

    def _data(self) -> tuple[Reply, ...]:
        s, a = self._settings, self._taken()
        step, _ = self._readout()
        n_taken = a.n_taken
        rows = slice(0, n_taken) if s.segmented and s.all_segments else slice(self._segment(), self._segment() + 1)
        codes = a.codes[s.wave_source][rows, ::step]
        if s.wave_format == "ASC":
            front_end = a.plan.front_ends[s.wave_source]
            volts = (codes.astype(float) - MID_CODE) * front_end.volts_per_code + front_end.setup.offset_v
            return block([",".join(nr3(v) for v in volts.ravel()).encode()])
        if not s.unsigned:
            codes = codes ^ np.uint8(MID_CODE)
        if s.wave_format == "WORD":
            words = np.zeros((*codes.shape, 2), np.uint8)
            words[..., 0 if s.byte_order == "MSBF" else 1] = codes
            return block([words])
        return block([np.ascontiguousarray(codes)])
