"""Lines with a checksum over a serial port: the lowest layer of firmware/PROTOCOL.md, version 2."""

from __future__ import annotations

import binascii
import contextlib
import re
import select
import socket
import time
from collections.abc import Callable
from typing import NoReturn

import serial
from serial.urlhandler import protocol_socket

from labctl.errors import DeviceTransient, EnvironmentFault

BAUD_HZ = 115200
_POLL_S = 0.02
# Between one call of `watch` and the next.
_WATCH_INTERVAL_S = 1.0
_LINE_BYTES_MAX = 1024
_SHOWN_BYTES = 32
_CHUNK_BYTES = 4096
# A server of serial ports takes one caller at a time and needs this long to see that the last one has left.
_REOPEN_S = 0.3
_closed_s: dict[str, float] = {}
_FRAMED = re.compile(rb"([\x20-\x7e]*)\*([0-9A-F]{4})")


class GarbledLine(DeviceTransient):
    """A line whose form or checksum is wrong, on either side."""


def crc16(payload: bytes) -> int:
    """Compute the CRC-16/CCITT-FALSE (polynomial 0x1021, start 0xFFFF) that closes every line."""
    return binascii.crc_hqx(payload, 0xFFFF)


def frame(payload: str) -> bytes:
    """Make the line that carries a payload."""
    data = payload.encode("ascii")
    return b"%s*%04X\n" % (data, crc16(data))


def unframe(line: bytes) -> str | None:
    """Take the payload out of a line without its newline; None where form or checksum is wrong."""
    match = _FRAMED.fullmatch(line)
    if match is None or crc16(match[1]) != int(match[2], 16):
        return None
    return match[1].decode("ascii")


def describe(line: bytes) -> str:
    """Say in words what is wrong with a line, and show its beginning."""
    head = line[:_SHOWN_BYTES]
    what = "a wrong checksum" if _FRAMED.fullmatch(line) else "garbage"
    return f"{what}, beginning {head!r} (hex {head.hex(' ')})"


class DutLink:
    """A serial port (a device name, or a URL such as socket://HOST:PORT) that carries lines; every wait is bounded.

    `watch` is called about once a second while a line is waited for; what it raises ends the wait. Raises
    DeviceTransient where the port cannot be opened or breaks, EnvironmentFault where it is not permitted.
    """

    def __init__(self, port: str, timeout_s: float, watch: Callable[[], object] = lambda: None) -> None:
        self.port = port
        self.timeout_s = timeout_s
        self._watch = watch
        self.pending = bytearray()
        time.sleep(max(0.0, _closed_s.pop(port, 0.0) + _REOPEN_S - time.monotonic()))
        try:
            self._serial = serial.serial_for_url(port, baudrate=BAUD_HZ, timeout=_POLL_S, write_timeout=timeout_s)
        except (serial.SerialException, ValueError, OSError) as error:
            if isinstance(error, PermissionError) or "Permission denied" in str(error):
                raise EnvironmentFault(
                    f"{port} may not be opened by this user; on Debian: sudo adduser $USER dialout, then log in again"
                ) from error
            raise DeviceTransient(
                f"{port} cannot be opened ({getattr(error, 'strerror', None) or error}): check the name of the port, "
                "the cable, and that no other "
                "program holds it"
            ) from error
        # pyserial reads a socket byte by byte, and rests after every close.
        plain = isinstance(self._serial, protocol_socket.Serial)
        self._socket: socket.socket | None = self._serial._socket if plain else None

    def write(self, data: bytes) -> None:
        """Send bytes."""
        try:
            self._serial.write(data)
        except (serial.SerialException, OSError) as error:
            self._lost(error)

    def read_line(self, deadline_s: float) -> bytes | None:
        """Read up to a newline; None when time.monotonic() passes `deadline_s` (what has come so far is kept)."""
        watch_s = time.monotonic() + _WATCH_INTERVAL_S
        while b"\n" not in self.pending and len(self.pending) < _LINE_BYTES_MAX:
            if time.monotonic() >= deadline_s:
                return None
            if time.monotonic() >= watch_s:
                self._watch()
                watch_s = time.monotonic() + _WATCH_INTERVAL_S
            self._fill()
        line, _, rest = bytes(self.pending).partition(b"\n")
        self.pending = bytearray(rest)
        return line.rstrip(b"\r")

    def drain(self) -> None:
        """Drop what is still arriving, until the line is quiet; bounded by the time-out."""
        deadline_s = time.monotonic() + self.timeout_s
        self.pending.clear()
        while time.monotonic() < deadline_s:
            self._fill()
            if not self.pending:
                return
            self.pending.clear()

    def close(self) -> None:
        """Let go of the port."""
        if self._socket is None:
            # pyserial 3.5 leaves the socket of RFC 2217 open where the peer was first to hang up.
            connection = getattr(self._serial, "_socket", None)
            self._serial.close()
            if connection is not None:
                connection.close()
            return
        with contextlib.suppress(OSError):  # the peer was first to hang up
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._serial.is_open = False
        _closed_s[self.port] = time.monotonic()

    def _fill(self) -> None:
        try:
            self.pending += self._read()
        except (serial.SerialException, OSError) as error:
            self._lost(error)

    def _read(self) -> bytes:
        if self._socket is None:
            return self._serial.read(max(1, self._serial.in_waiting))
        if not select.select([self._socket], [], [], _POLL_S)[0]:
            return b""
        data = self._socket.recv(_CHUNK_BYTES)
        if not data:
            raise serial.SerialException("socket disconnected")
        return data

    def _lost(self, error: Exception) -> NoReturn:
        raise DeviceTransient(
            f"{self.port}: the serial link broke ({error}): check the cable and the adapter, then measure again"
        ) from error
