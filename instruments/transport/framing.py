"""From bytes to replies: one text line, or one definite-length block. Knows neither VISA nor sockets.

Source of the block form: IEEE 488.2-1992, section 8.7.9 (definite length arbitrary block response data): ``#``, one
digit k from 1 to 9, k decimal digits with the number of bytes, the bytes. Whether a line feed follows differs by
instrument and firmware, so up to two are taken after a block and any number is skipped before a reply.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from instruments.errors import BadData, InstrumentTimeout, LinkLost
from instruments.transport.link import Deadline

CHUNK_BYTES = 256 * 1024
LINE_CHUNK_BYTES = 4096
LINE_MAX_BYTES = 1 << 20
# A line feed that follows its block at all arrives with it or within a round trip of a local network.
TAIL_WAIT_S = 0.05
LINE_ENDS = b"\r\n"


class Source(Protocol):
    """Where bytes come from. A source that knows where messages end says so; a raw socket never does."""

    def receive_into(self, view: memoryview, deadline: Deadline) -> tuple[int, bool]:
        """Wait for at least one byte; return how many were put into `view` and whether a message ended with them.

        Raises InstrumentTimeout once the deadline has passed, LinkLost if the other side is gone.
        """
        ...

    def receive_now(self, view: memoryview) -> int:
        """Return at once the number of bytes put into `view`; 0 where none is waiting. Raises LinkLost."""
        ...


def read_line(source: Source, deadline: Deadline) -> str:
    """Return one reply line without its end. Raises BadData where it is not text or more than one line."""
    received = bytearray()
    scratch = memoryview(bytearray(LINE_CHUNK_BYTES))
    while True:
        n, ended = source.receive_into(scratch, deadline)
        received += scratch[:n]
        line, newline, rest = received.lstrip(LINE_ENDS).partition(b"\n")
        if rest.strip(LINE_ENDS):
            raise BadData(f"expected one reply line, got more: {_shown(received)}")
        if newline or (ended and line):
            break
        if len(received) > LINE_MAX_BYTES:
            raise BadData(f"expected a reply line, got {len(received)} bytes without a line end: {_shown(received)}")
    try:
        return line.decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise BadData(f"expected a reply line of ASCII text, got {_shown(received)}") from error


def read_block(source: Source, deadline: Deadline, into: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """Return the payload of one definite-length block, in `into` where given, else in one new buffer.

    Raises BadData where the header is of another form or the block does not fit, InstrumentTimeout and LinkLost
    with the number of bytes that had arrived.
    """
    length = _read_header(source, deadline)
    if into is None:
        into = np.empty(length, np.uint8)
    if length > into.size:
        raise BadData(f"the block holds {length} bytes where at most {into.size} were expected")
    payload = into[:length]
    ended = _fill(source, payload.data, deadline, "the block")
    if not ended:
        _read_tail(source)
    return payload


def _read_header(source: Source, deadline: Deadline) -> int:
    """Return the length that a block header announces."""
    byte = bytearray(1)
    view = memoryview(byte)
    _fill(source, view, deadline, "the block header")
    while byte in (b"\n", b"\r"):
        _fill(source, view, deadline, "the block header")
    header = bytearray(byte)
    if byte == b"#":
        _fill(source, view, deadline, "the block header")
        header += byte
        if byte in (b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9"):
            digits = bytearray(int(byte))
            _fill(source, memoryview(digits), deadline, "the block header")
            header += digits
            if digits.isdigit():
                return int(digits)
    scratch = bytearray(24)
    header += scratch[: source.receive_now(memoryview(scratch))]
    kind = "an indefinite-length block, whose end cannot be told" if header.startswith(b"#0") else "something else"
    raise BadData(f"expected a definite-length block (#, digit, length), got {kind}: {_shown(header)}")


def _fill(source: Source, view: memoryview, deadline: Deadline, what: str) -> bool:
    """Fill `view` exactly; return whether a message ended with its last byte."""
    done, ended = 0, False
    try:
        while done < len(view):
            n, ended = source.receive_into(view[done : done + CHUNK_BYTES], deadline)
            done += n
            if ended and done < len(view):
                raise BadData(f"the message ended after {done} of {len(view)} bytes of {what}")
    except (InstrumentTimeout, LinkLost) as error:
        raise type(error)(f"{error} ({done} of {len(view)} bytes of {what} had arrived)") from error
    return ended


def _read_tail(source: Source) -> None:
    """Take the line end after a block, if there is one."""
    byte = bytearray(1)
    view = memoryview(byte)
    try:
        n, _ = source.receive_into(view, Deadline(TAIL_WAIT_S))
        while n and byte in (b"\n", b"\r"):
            n = source.receive_now(view)
    except (InstrumentTimeout, LinkLost):
        # Some instruments send none, and a late one is skipped before the next reply. The block itself is complete;
        # a connection closed behind it is reported by the next use.
        return
    if n:
        raise BadData(f"expected the end of the reply after the block, got {_shown(byte)}")


def _shown(data: bytes | bytearray) -> str:
    return repr(bytes(data[:32]))
