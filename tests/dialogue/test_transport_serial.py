"""SerialLink and the emulated serial port, each against the other's plain end: a pseudo-terminal."""

import os
import pty
import threading
import time
import tty
from contextlib import suppress

import pytest
import serial

from instruments.errors import InstrumentTimeout, LinkLost, OutOfRange
from instruments.sim.ptyserial import PtySerial
from instruments.transport.framing import read_block, read_line
from instruments.transport.link import Deadline
from instruments.transport.serial import SerialLink

SHORT_S = 0.1
AMPLE_S = 20.0
EVERY_BYTE = bytes(range(256))


@pytest.fixture
def wire():
    """Give the instrument's end of a terminal, and the name of the other end."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    yield master, os.ttyname(slave)
    for end in (master, slave):
        with suppress(OSError):  # a test pulled it
            os.close(end)


@pytest.fixture
def link(wire):
    link = SerialLink(wire[1])
    yield link
    link.close()


def test_every_byte_passes_both_ways_as_it_is(wire, link):
    link.write(EVERY_BYTE)
    assert os.read(wire[0], 1000) == EVERY_BYTE
    os.write(wire[0], EVERY_BYTE)
    assert link.read(256, AMPLE_S) == EVERY_BYTE
    assert link.receive_now(memoryview(bytearray(8))) == 0


def test_lines_and_blocks_can_be_read_here_too(wire, link):
    os.write(wire[0], b"+1\n")
    assert read_line(link, Deadline(AMPLE_S)) == "+1"
    os.write(wire[0], b"#15\n\x00\xff\x11\x13\n")
    assert read_block(link, Deadline(AMPLE_S), None).tobytes() == b"\n\x00\xff\x11\x13"


def test_silence_ends_in_time_and_says_what_had_come(wire, link):
    os.write(wire[0], b"abc")
    with pytest.raises(InstrumentTimeout, match=rf"{wire[1]}: no byte came within 0.1 s \(3 of 5 bytes had come\)"):
        link.read(5, SHORT_S)
    os.write(wire[0], b"VDD: 3300\nEN")
    with pytest.raises(InstrumentTimeout, match=r"b'END' was awaited, b'VDD: 3300\\nEN' had come"):
        link.read_until(b"END", SHORT_S)


def test_a_mark_ends_a_text(wire, link):
    os.write(wire[0], b"R0: 1031.64\nEND")
    assert link.read_until(b"END", AMPLE_S) == b"R0: 1031.64\nEND"
    os.write(wire[0], b"x" * 2000)
    with pytest.raises(InstrumentTimeout, match="bytes without b'END', beginning b'xxx"):
        link.read_until(b"END", AMPLE_S, max_bytes=1000)


def test_a_trickle_does_not_extend_the_deadline(wire, link):
    done = threading.Event()

    def trickle():
        while not done.wait(0.02):
            os.write(wire[0], b"x")

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        with pytest.raises(InstrumentTimeout, match="of 1000000 bytes had come"):
            link.read(1_000_000, SHORT_S)
    finally:
        done.set()
        thread.join()


def test_a_side_that_takes_nothing_ends_the_write_in_time(link):
    with pytest.raises(InstrumentTimeout, match=r"of 10000000 bytes could be sent within 0.1 s"):
        link.write(bytes(10_000_000), SHORT_S)


def test_stale_bytes_are_drained_and_endless_ones_told(wire, link, monkeypatch):
    os.write(wire[0], b"x" * 1000)
    assert link.drain() == 1000
    monkeypatch.setattr("instruments.transport.serial.DRAIN_MAX_S", SHORT_S)
    done = threading.Event()

    def pour():
        while not done.is_set():
            os.write(wire[0], b"x")

    thread = threading.Thread(target=pour)
    thread.start()
    try:
        with pytest.raises(LinkLost, match="bytes keep coming"):
            link.drain(AMPLE_S)
    finally:
        done.set()
        thread.join()


def test_nobody_else_can_open_the_port_meanwhile(wire, link):
    with pytest.raises(LinkLost, match=f"{wire[1]} cannot be opened .*no other program holds"):
        SerialLink(wire[1])
    link.close()
    SerialLink(wire[1]).close()


def test_a_port_that_is_not_there_and_a_rate_that_cannot_be(wire):
    with pytest.raises(LinkLost, match=r"/dev/none-such cannot be opened \(No such file"):
        SerialLink("/dev/none-such")
    with pytest.raises(OutOfRange, match="at -1 baud"):
        SerialLink(wire[1], -1)


def test_a_closed_link_says_so(link):
    link.close()
    link.close()
    for use in (lambda: link.write(b"x"), lambda: link.read(1), link.drain):
        with pytest.raises(LinkLost, match="is closed: reopen it"):
            use()


def test_a_plug_that_is_pulled_while_waiting_is_told_from_a_time_out(wire, link):
    threading.Timer(0.05, os.close, (wire[0],)).start()
    with pytest.raises(LinkLost, match=r"was unplugged|is gone"):
        link.read(1, AMPLE_S)
    with pytest.raises(LinkLost, match=r"was unplugged|is gone"):
        link.write(b"x")


# --- the emulated port, with pyserial as the client -----------------------------------------------------------------


class Echo:
    def __init__(self):
        self.heard = bytearray()
        self.port = PtySerial(self.receive)

    def receive(self, data):
        self.heard += data
        self.port.send(data[::-1])


@pytest.fixture
def echo():
    echo = Echo()
    yield echo
    echo.port.close()


def test_the_emulated_port_passes_bytes_both_ways(echo):
    with serial.Serial(echo.port.path, timeout=AMPLE_S) as client:
        client.write(EVERY_BYTE)
        assert sorted(client.read(256)) == list(range(256))  # turned round piece by piece
        assert bytes(echo.heard) == EVERY_BYTE


def test_what_is_sent_to_nobody_is_refused(echo):
    with pytest.raises(OSError, match="nobody has the port open"):
        echo.port.send(b"x")


def test_the_emulated_plug_is_pulled_and_put_in_again_under_the_same_name(echo):
    link = SerialLink(echo.port.path)
    link.write(b"ab")
    assert link.read(2, AMPLE_S) == b"ba"
    echo.port.unplug()
    with pytest.raises(LinkLost):
        link.read(1, AMPLE_S)
    with pytest.raises(LinkLost, match="No such file"):
        link.reopen()
    with pytest.raises(OSError, match="unplugged"):
        echo.port.send(b"x")
    echo.port.replug()
    link.reopen()
    link.write(b"cd")
    assert link.read(2, AMPLE_S) == b"dc"
    link.close()


def test_a_plug_that_is_pulled_for_a_while_comes_back(echo):
    echo.port.unplug(0.05)
    end_s = time.monotonic() + AMPLE_S
    while not os.path.exists(echo.port.path):
        assert time.monotonic() < end_s
        time.sleep(0.01)
    SerialLink(echo.port.path).close()


def test_the_emulated_port_waits_for_a_slow_client(echo):
    data = EVERY_BYTE * 4000
    with serial.Serial(echo.port.path, timeout=AMPLE_S) as client:
        client.write(b"x")
        assert client.read(1) == b"x"
        thread = threading.Thread(target=echo.port.send, args=(data,))
        thread.start()
        assert client.read(len(data)) == data
        thread.join(AMPLE_S)
