"""How the memory of a DHO800 or DHO900 is read: channel, preamble, and pages that each have a header of their own.

The short names in brackets are explained in `rigol_dho800`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from instruments.drivers.dho_facts import Preamble, parse_preamble
from instruments.drivers.oscilloscope import TRANSFER_MIN_BYTES_PER_S, channel_number
from instruments.errors import BadData
from instruments.transport.scpi import Scpi

PAGE_POINTS = 125_000  # [ZE]
PAGE_LEAST_POINTS = 1_000
EMPTY_TRIES, EMPTY_PAUSE_S = 5, 0.1


class ReadOut:
    """Read codes of the acquisition, or of the frame, that is in the memory; the instrument must be stopped."""

    def __init__(self, scpi: Scpi) -> None:
        self._scpi = scpi
        self._link = scpi.link
        self._knows_reset: bool | None = None

    def select(self, name: str, *, frame: bool = False, known: Preamble | None = None) -> Preamble:
        """Choose the channel to read, and return its preamble, asked for unless it is known.

        With `frame`, what is read is begun anew, so that it is the frame chosen before. Raises BadData.
        """
        self._link.write(f":WAVeform:SOURce CHANnel{channel_number(name)}")
        self._as_words()
        if frame and self._knows_reset is not False:
            self._link.write(":WAVeform:RESet")
            self._link.write(":WAVeform:BEGin")
            if self._knows_reset is None:
                self._knows_reset = not self._scpi.errors()
        if known is not None:
            return known
        return parse_preamble(self._scpi.query(":WAVeform:PREamble?"), f"{self._link.resource} {name}")

    def fill(self, into: np.ndarray[Any, Any]) -> None:
        """Fill `into`, uint16 of shape (samples,), page by page; where a page brings less, the next begins behind it.

        Raises BadData.
        """
        done, page = 0, PAGE_POINTS
        while done < into.size:
            part = into[done : done + page]
            got = self._read_page(part, done)
            done += got
            if got < part.size:
                page = got

    def _as_words(self) -> None:
        self._link.write(":WAVeform:MODE RAW")
        self._link.write(":WAVeform:FORMat WORD")

    def _read_page(self, part: np.ndarray[Any, Any], before: int) -> int:
        """Read one page; return how many points came. Raises BadData for none at all, a half one, or next to none."""
        timeout_s = self._scpi.timeout_s + part.nbytes / TRANSFER_MIN_BYTES_PER_S
        for attempt in range(EMPTY_TRIES):
            if attempt:
                time.sleep(EMPTY_PAUSE_S)
                self._link.write("*WAI")
                self._as_words()
            self._link.write(f":WAVeform:STARt {before + 1}")  # the first point is 1, and the last one is read too
            self._link.write(f":WAVeform:STOP {before + part.size}")
            n_bytes = self._link.query_block(":WAVeform:DATA?", timeout_s, part.view(np.uint8)).size
            if n_bytes:
                break
        points = n_bytes // part.itemsize
        if n_bytes % part.itemsize or points < min(part.size, PAGE_LEAST_POINTS):
            raise BadData(
                f"{self._link.resource}: :WAVeform:DATA? gave {n_bytes} bytes for the points {before + 1} to "
                f"{before + part.size}; expected {part.nbytes}"
            )
        return points
