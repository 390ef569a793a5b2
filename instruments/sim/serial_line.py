"""What the firmware sends, gathered into lines, with the faults that a serial link can have."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class SerialLine:
    """Gather bytes and hand them on at each line end and on `flush`.

    Faults: `silent` drops everything, `garbage` replaces every byte but line ends by one that is not ASCII,
    `corrupt_checksum` changes the last hexadecimal digit before a line end.
    """

    def __init__(self, deliver: Callable[[bytes], None]) -> None:
        self.faults: Mapping[str, bool] = {}
        self._deliver = deliver
        self._pending = bytearray()

    def put(self, byte: int) -> None:
        """Take one byte."""
        self._pending.append(byte)
        if byte == 0x0A:
            self.flush()

    def flush(self) -> None:
        """Hand on what is there."""
        data = bytes(self._pending)
        self._pending.clear()
        if not data or self.faults.get("silent"):
            return
        if self.faults.get("garbage"):
            data = bytes(byte if byte == 0x0A else (byte * 73 + 151) & 0xFF | 0x80 for byte in data)
        elif self.faults.get("corrupt_checksum") and data.endswith(b"\n") and b"*" in data[-6:-1]:
            digit = int(data[-2:-1], 16) ^ 1
            data = data[:-2] + b"%X" % digit + b"\n"
        self._deliver(data)
