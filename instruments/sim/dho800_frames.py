"""Waveform recording and playback of the emulated DHO814: frames, one for each trigger.

From the RIGOL DHO800/DHO900 Series Programming Guide, PGA39106-1110, 3.19. What it does not say is as users report of
the family (MHO98 and DHO800 in public notes, libsigrok pull request 71): a recording is staged for 1 to 16 s before it
takes triggers, and what is asked of it meanwhile is answered afterwards; the current frame is 0 until then, 1 once it
waits for the first trigger, and then the frame that is being taken; how many frames fit is only found by running at the
depth in force; the time stamp of a frame that was chosen comes 300 ms later, as text with a unit, truncated, seconds
after the first. Times scale with `slowness`.

With `trap`, as on older families, what is read stays that of the frame before until :WAVeform:RESet or :WAVeform:BEGin.

Assumed: playing goes from the start frame to the end frame at the interval set, 100 ms at first; choosing a frame ends
it; a recording that is complete leaves the instrument stopped.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from instruments.sim.acquisition import Acquisition
from instruments.sim.circuit import draw
from instruments.sim.dho800_settings import Settings
from instruments.sim.scpi import ScpiError, boolean, choice, number
from instruments.sim.vertical import between

if TYPE_CHECKING:
    from instruments.sim.dho800 import Dho800

STAGING_MIN_S, STAGING_MAX_S = 1.0, 16.0
STAMP_S = 0.3
STAMP_DIGITS = 6
_UNITS = (("ks", 1e3), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


class Frames:
    """The :RECord subsystem of a scope."""

    def __init__(self, scope: Dho800, seed: int, slowness: float, trap: bool) -> None:
        self._scope, self._seed, self._slowness, self._trap = scope, seed, slowness, trap
        self._n_recordings = 0
        self._held: Acquisition | None = None
        self.reset()
        self._register()

    def reset(self) -> None:
        """Go back to what holds after *RST."""
        self.enabled = False
        self.interval_s = 10e-9
        self._wanted = 1000
        self._prompt = True
        self._max = Settings().frames_max
        self._play_interval_s = 0.1
        self._repeats = self._backwards = False
        self._keep(None)

    def row(self, acquisition: Acquisition) -> int:
        """Return which of the frames of an acquisition is read: the current one, or the last."""
        if acquisition is not self._held:
            return acquisition.n_taken - 1
        return (self._loaded if self._trap else self._now()) - 1

    # --- tables -------------------------------------------------------------------------------------------------

    def _register(self) -> None:
        on, query = self._scope.on, "{}?".format
        for header, setter, getter in (
            (":RECord:WRECord:ENABle", self._enable, lambda: str(int(self.enabled))),
            (":RECord:ENABle", self._enable, lambda: str(int(self.enabled))),
            (":RECord:WRECord:OPERate", self._operate, lambda: "RUN" if self._is_recording() else "STOP"),
            (":RECord:STARt", self._record_if, lambda: str(int(self._is_recording()))),
            (":RECord:WRECord:FRAMes", self._want, lambda: str(self._wanted)),
            (":RECord:FRAMes", self._want, lambda: str(self._wanted)),
            (":RECord:WRECord:FINTerval", self._set_interval, lambda: f"{self.interval_s:.6E}"),
            (":RECord:WRECord:PROMpt", self._set_prompt, lambda: str(int(self._prompt))),
            (":RECord:WREPlay:FCURrent", self._pick, lambda: str(self._live())),
            (":RECord:CURRent", self._pick, lambda: str(self._live())),
            (":RECord:WREPlay:FSTart", self._set_first, lambda: str(self._ends()[0])),
            (":RECord:WREPlay:FEND", self._set_last, lambda: str(self._ends()[1])),
            (":RECord:WREPlay:FINTerval", self._set_play_interval, lambda: f"{self._play_interval_s:.6E}"),
            (":RECord:WREPlay:MODE", self._set_mode, lambda: "REP" if self._repeats else "SING"),
            (":RECord:WREPlay:DIRection", self._set_direction, lambda: "BACK" if self._backwards else "FORW"),
            (":RECord:WREPlay:OPERate", self._play, lambda: "RUN" if self._is_playing() else "STOP"),
            (":RECord:PLAY", self._play_if, lambda: str(int(self._is_playing()))),
        ):
            on(header, setter)
            on(query(header), getter)
        self._scope.do(":RECord:WRECord:FRAMes:MAX", lambda: setattr(self, "_wanted", self._max))
        on(":RECord:WRECord:FMAX?", lambda: str(self._max))
        on(":RECord:WREPlay:FMAX?", lambda: str(self._n_frames()))
        on(":RECord:WREPlay:FCURrent:TIME?", self._stamp)
        self._scope.do(":RECord:WREPlay:NEXT", lambda: self._go(min(self._now() + 1, self._n_frames())))
        self._scope.do(":RECord:WREPlay:BACK", lambda: self._go(max(self._now() - 1, 1)))
        if self._trap:
            self._scope.do(":WAVeform:RESet", self._load)
            self._scope.do(":WAVeform:BEGin", self._load)

    def _enable(self, parameters: list[str]) -> None:
        self.enabled = boolean(parameters)
        if not self.enabled:
            if self._goes_on():
                self._scope.halt()
            self._keep(None)

    def _want(self, parameters: list[str]) -> None:
        self._wanted = whole(parameters, 1, self._max)

    def _set_interval(self, parameters: list[str]) -> None:
        self.interval_s = between(number(parameters), 10e-9, 1.0)

    def _set_prompt(self, parameters: list[str]) -> None:
        self._prompt = boolean(parameters)

    def _set_first(self, parameters: list[str]) -> None:
        self._first = whole(parameters, 1, max(1, self._n_frames()))

    def _set_last(self, parameters: list[str]) -> None:
        self._last = whole(parameters, 1, max(1, self._n_frames()))

    def _set_play_interval(self, parameters: list[str]) -> None:
        self._play_interval_s = between(number(parameters), 1e-3, 1.0)

    def _set_mode(self, parameters: list[str]) -> None:
        self._repeats = choice(parameters, "REPeat", "SINGle") == "REP"

    def _set_direction(self, parameters: list[str]) -> None:
        self._backwards = choice(parameters, "FORWard", "BACKward") == "BACK"

    # --- recording ----------------------------------------------------------------------------------------------

    def _operate(self, parameters: list[str]) -> None:
        self._record(choice(parameters, "RUN", "STOP") == "RUN")

    def _record_if(self, parameters: list[str]) -> None:
        self._record(boolean(parameters))

    def _record(self, on: bool) -> None:
        if not on:
            if self._goes_on():
                self._scope.halt()
            return
        if not self.enabled:
            raise ScpiError(-221)
        self._max = self._scope.frames_max()
        self._wanted = min(self._wanted, self._max)
        share = (1 + draw(self._seed, "staging", self._n_recordings)) / 2
        self._n_recordings += 1
        staging_s = self._slowness * STAGING_MIN_S * (STAGING_MAX_S / STAGING_MIN_S) ** share
        self._keep(self._scope.record(self._wanted, staging_s))

    def _keep(self, acquisition: Acquisition | None) -> None:
        """Hold the frames of an acquisition, with none of them chosen."""
        self._held = acquisition
        self._picked: int | None = None
        self._before = self._loaded = 1
        self._picked_s = -math.inf
        self._playing_since_s: float | None = None
        self._first = self._last = 1

    def _settle(self) -> None:
        """Choose the last frame once a recording has ended."""
        if self._picked is None and self._held is not None and self._held.done.is_set():
            self._picked = self._before = self._loaded = self._last = self._held.n_taken

    def _goes_on(self) -> bool:
        return self._held is not None and not self._held.done.is_set()

    def _is_recording(self) -> bool:
        """Answer once the recording is staged."""
        self._staged()
        return self._goes_on()

    def _staged(self) -> None:
        if self._held is not None:
            self._scope.await_event(self._held.staged)

    def _n_frames(self) -> int:
        self._staged()
        self._settle()
        return self._held.n_taken if self._held is not None else 0

    def _ends(self) -> tuple[int, int]:
        self._settle()
        return self._first, self._last

    def _live(self) -> int:
        """Return the current frame, of a recording too that goes on."""
        held = self._held
        if held is None or not self._is_recording():
            return self._now()
        return min(max(1, held.n_triggered), held.plan.n_segments) if held.armed.is_set() else 0

    # --- playback -----------------------------------------------------------------------------------------------

    def _pick(self, parameters: list[str]) -> None:
        if self._goes_on():
            raise ScpiError(-221)
        self._go(whole(parameters, 1, self._n_frames()))

    def _go(self, frame: int) -> None:
        self._before = self._now()
        self._picked, self._picked_s = frame, time.monotonic()
        self._playing_since_s = None

    def _now(self) -> int:
        """Return the current frame, 0 where there is none."""
        self._settle()
        if self._playing_since_s is not None:
            n_steps = int((time.monotonic() - self._playing_since_s) / self._play_interval_s)
            n_span = max(1, self._last - self._first + 1)
            if not self._repeats and n_steps >= n_span:
                n_steps, self._playing_since_s = n_span - 1, None
            n_steps %= n_span
            self._picked = self._last - n_steps if self._backwards else self._first + n_steps
        return self._picked or 0

    def _load(self) -> None:
        self._loaded = self._now()

    def _is_playing(self) -> bool:
        self._now()
        return self._playing_since_s is not None

    def _play(self, parameters: list[str]) -> None:
        self._play_on(choice(parameters, "RUN", "STOP") == "RUN")

    def _play_if(self, parameters: list[str]) -> None:
        self._play_on(boolean(parameters))

    def _play_on(self, on: bool) -> None:
        if self._goes_on() or (on and not self._n_frames()):
            raise ScpiError(-221)
        self._now()
        self._playing_since_s = time.monotonic() if on else None

    def _stamp(self) -> str:
        if self._is_recording() or not self._n_frames():
            raise ScpiError(-221)
        now = self._now()
        is_fresh = time.monotonic() - self._picked_s >= self._slowness * STAMP_S
        assert self._held is not None
        return stamp_text(self._held.trigger_s[(now if is_fresh else self._before) - 1])


def stamp_text(time_s: float) -> str:
    """Write a time stamp as the instrument does: six digits, the rest cut off, and a unit."""
    for unit, size in _UNITS:
        if time_s >= size:
            digits = STAMP_DIGITS - len(str(int(time_s / size)))
            return f"{math.floor(time_s / size * 10**digits + 1e-6) / 10**digits:.{digits}f}{unit}"
    return "0s"


def whole(parameters: list[str], low: int, high: int) -> int:
    """Read an integer in [low, high], without point or exponent (guide 2.1, Integer)."""
    value = number(parameters)
    if not parameters[0].lstrip("+-").isdigit():
        raise ScpiError(-104)
    if not low <= value <= high:
        raise ScpiError(-222)
    return int(value)
