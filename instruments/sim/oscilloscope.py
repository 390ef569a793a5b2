"""What the emulated oscilloscopes have in common: settings told and asked one by one, and acquisitions one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from instruments.sim.acquisition import Acquisition, Plan
from instruments.sim.frontend import ChannelSetup, Family, FrontEnd, SampleClock
from instruments.sim.scpi import Instrument, ScpiError
from instruments.sim.vertical import N_CHANNELS, channel_index
from instruments.sim.world import World

# Pause between acquisitions in run mode, so that a steady line is not taken as fast as the host can compute.
RUN_PAUSE_S = 20e-3


class Oscilloscope(Instrument):
    """Settings and acquisition of a `family`. `world` is asked for only when something is acquired.

    `_settings` is a `Vertical` with what the instrument has beside.
    """

    def __init__(
        self, world: Callable[[], World], seed: int, signals: dict[int, str], family: Family, stream: int
    ) -> None:
        super().__init__()
        self.family = family
        self._world = world
        self._seed, self._stream = seed, stream
        self._signals = signals
        self._settings: Any
        self._acquisition: Acquisition | None = None
        self._n_acquisitions = 0
        self._run = threading.Event()

    def channel_setups(self) -> tuple[ChannelSetup, ...]:
        """Return the channels' settings in force."""
        return tuple(self._settings.channels)

    # --- settings -----------------------------------------------------------------------------------------------

    def _setting(
        self, header: str, name: str, read: Callable[[list[str]], Any], write: Callable[[Any], str] | None = None
    ) -> None:
        """Register command and query of a setting that needs no further thought."""
        show = write or (lambda value: str(int(value)) if isinstance(value, bool) else str(value))
        self.on(header, lambda p: self._set(**{name: read(p)}))
        self.on(header + "?", lambda: show(getattr(self._settings, name)))

    def _channel(
        self, name: str, change: Callable[[Any, int, list[str]], Any], show: Callable[[Any, int], str]
    ) -> None:
        """Register command and query of a channel's setting."""

        def handler(n: int, parameters: list[str]) -> None:
            self._settings = change(self._settings, n, parameters)

        self.on(f":CHANnel<n>:{name}", handler)
        self.on(f":CHANnel<n>:{name}?", lambda n: show(self._settings, n))

    def _set(self, **values: Any) -> None:
        self._settings = replace(self._settings, **values)

    def _only(self, n: int, value: str, modelled: str) -> None:
        channel_index(n)
        if value != modelled:
            raise ScpiError(-241)

    def _fixed(self, n: int, value: str) -> str:
        channel_index(n)
        return value

    # --- acquisition --------------------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        """Return what the settings in force take."""
        raise NotImplementedError

    def _beginning(self, acquisition: Acquisition) -> None:
        """Learn of an acquisition that is about to begin, before it takes the place of the one before."""

    def _front_ends(self) -> dict[int, FrontEnd]:
        """Return the front ends of the channels that are on, and of the trigger's source."""
        s = self._settings
        return {
            n: FrontEnd(self._seed, self._signals.get(n, "open"), s.channels[n - 1], self.family)
            for n in range(1, N_CHANNELS + 1)
            if s.display[n - 1] or n == s.source
        }

    def _begin(self, number: int) -> Acquisition:
        clock = SampleClock(self._seed, self._stream, number, self.family)
        acquisition = Acquisition(self._world(), clock, self._plan(), self._seed, number, self._stream)
        self._beginning(acquisition)
        self._acquisition = acquisition
        acquisition.start()
        return acquisition

    def _start(self, repeat: bool) -> None:
        if not any(self._settings.display):
            raise ScpiError(-221)
        self._stop()
        number = self._n_acquisitions
        self._n_acquisitions += 1
        acquisition = self._begin(number)
        if repeat:
            self._run.set()
            threading.Thread(target=self._repeat, args=(acquisition, number), name="run", daemon=True).start()

    def _repeat(self, acquisition: Acquisition, number: int) -> None:
        # The host's time decides how many there are: they have numbers of their own, so as not to move what follows.
        n_repeats = 0
        while acquisition.done.wait() and self._run.is_set():
            time.sleep(RUN_PAUSE_S)
            with self._lock:
                if not self._run.is_set() or self._acquisition is not acquisition:
                    return
                n_repeats += 1
                acquisition = self._begin(number + (n_repeats << 32))

    def _stop(self) -> None:
        self._run.clear()
        if self._acquisition is not None:
            self._acquisition.stop()

    def _force(self) -> None:
        if self._acquisition is not None:
            self._acquisition.force()
