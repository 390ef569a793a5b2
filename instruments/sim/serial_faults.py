"""What a serial link does to the bytes of a meter that streams: loses them, repeats them, or is unplugged."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

NAMES = ("serial_loss", "serial_repeat", "packet_loss", "unplug_after_bytes", "replug_after_s")
# Bytes of one USB packet, which is lost or arrives as a whole.
PACKET_BYTES = 64


class SerialFaults:
    """Disturb what is passed on, by the seed.

    `serial_loss` and `serial_repeat` are probabilities of one byte, `packet_loss` of 64 bytes together; after
    `unplug_after_bytes` the port is gone, and comes back after `replug_after_s` where that is given. `unplug` does it.
    """

    def __init__(self, faults: Mapping[str, Any], seed: int, unplug: Callable[[float | None], None]) -> None:
        for name, value in faults.items():
            if name not in NAMES:
                raise ValueError(f"faults: meter {name!r} is not one of {', '.join(NAMES)}")
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise ValueError(f"faults: meter {name} {value!r} must not be less than 0")
        self._faults, self._seed, self._unplug = dict(faults), seed, unplug
        self._left_bytes = faults.get("unplug_after_bytes")
        self._random = np.random.default_rng([seed, zlib.crc32(b"serial")])

    def replaced(self, faults: Mapping[str, Any]) -> SerialFaults:
        """Return others for the same port."""
        return SerialFaults(faults, self._seed, self._unplug)

    def pass_on(self, data: bytes) -> Iterator[bytes]:
        """Yield what arrives of the data."""
        data = self._disturbed(data)
        if self._left_bytes is None:
            yield data
            return
        yield data[: self._left_bytes]
        self._left_bytes -= len(data)
        if self._left_bytes <= 0:
            self._left_bytes = None
            self._unplug(self._faults.get("replug_after_s"))

    def _disturbed(self, data: bytes) -> bytes:
        loss, repeat, packet = (self._faults.get(name, 0.0) for name in NAMES[:3])
        if not (loss or repeat or packet):
            return data
        codes = np.frombuffer(data, np.uint8)
        times = np.ones(len(codes), np.int64)
        draws = self._random.random(len(codes))
        times[draws < loss] = 0
        times[draws > 1.0 - repeat] = 2
        if packet:
            n_packets = -(-len(codes) // PACKET_BYTES)
            lost = np.repeat(self._random.random(n_packets) < packet, PACKET_BYTES)[: len(codes)]
            times[lost] = 0
        return np.repeat(codes, times).tobytes()
