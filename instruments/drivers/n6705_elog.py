"""Empty the FIFO of an N6705's external log while it runs.

The FIFO holds about 20 s [UG] p. 168; what is not read by then is overwritten without a word, and the DUT may be busy
for longer. So a thread reads it from arming to the end; the link lets one exchange through at a time. Records are not
numbered: what is lost inside the instrument in spite of that cannot be seen.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from instruments.dlog import VALUE_BYTES, VALUE_TYPE
from instruments.drivers.n6705_facts import ELOG_FIFO_S, TRANSFER_MIN_BYTES_PER_S
from instruments.errors import BadData, InstrumentError, InstrumentTimeout
from instruments.transport.link import Deadline, Link

RECORDS_MAX = 16384  # of one reading: 1.7 s of the shortest interval
PAUSE_S = 0.2
# The FIFO's length is "about" 20 s; beyond this, records may be gone.
LATE_S = 0.75 * ELOG_FIFO_S
STOP_TIMEOUT_S = 30.0


class Drain:
    """Read records of each output, float32 of shape (records, quantities), until there are as many as wanted."""

    def __init__(self, link: Link, timeout_s: float, widths: dict[int, int], n_wanted: int) -> None:
        """Start to read; `widths` is the number of quantities by output."""
        self.records = {output: np.empty((n_wanted, width), np.float32) for output, width in widths.items()}
        self._link, self._timeout_s, self._n_wanted = link, timeout_s, n_wanted
        self._n_taken = dict.fromkeys(widths, 0)
        self._stopping = threading.Event()
        self._error: InstrumentError | None = None
        self._thread = threading.Thread(target=self._run, name="N6705 external log", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the last record; tell whether it came. Raises what reading raised."""
        self._thread.join(timeout_s)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive() and self._is_complete()

    def stop(self) -> None:
        """Stop reading. Raises InstrumentTimeout where the exchange under way does not end."""
        self._stopping.set()
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise InstrumentTimeout(f"{self._link.resource}: FETC:ELOG? did not end within {STOP_TIMEOUT_S:g} s")

    def _is_complete(self) -> bool:
        return min(self._n_taken.values()) >= self._n_wanted

    def _run(self) -> None:
        late = Deadline(LATE_S)
        try:
            while not self._stopping.is_set() and not self._is_complete():
                started = Deadline(LATE_S)
                behind = [self._take(output) for output in self.records]
                if late.remaining_s <= 0 and any(self._n_taken.values()):
                    raise InstrumentTimeout(
                        f"{self._link.resource}: FETC:ELOG? was sent after more than {LATE_S:g} s, when records may "
                        "have been overwritten: keep this computer and the link from other work"
                    )
                late = started
                if not any(behind):
                    self._stopping.wait(PAUSE_S)
        except InstrumentError as error:
            self._error = error

    def _take(self, output: int) -> bool:
        """Read what one output has; tell whether there is more."""
        records, n_taken = self.records[output], self._n_taken[output]
        width = records.shape[1]
        command = f"FETC:ELOG? {RECORDS_MAX},(@{output})"
        into = np.empty(VALUE_BYTES * width * RECORDS_MAX, np.uint8)
        timeout_s = self._timeout_s + into.size / TRANSFER_MIN_BYTES_PER_S
        data: np.ndarray[Any, Any] = self._link.query_block(command, timeout_s, into)
        if data.size % (VALUE_BYTES * width):
            raise BadData(
                f"{self._link.resource}: {command} gave {data.size} bytes, which are no whole records of {width} "
                f"quantities ({VALUE_BYTES * width} bytes each)"
            )
        found = data.view(VALUE_TYPE).reshape(-1, width)
        n_kept = min(len(found), self._n_wanted - n_taken)
        records[n_taken : n_taken + n_kept] = found[:n_kept]
        self._n_taken[output] = n_taken + n_kept
        return len(found) == RECORDS_MAX and not self._is_complete()
