"""VisaLink against real sockets: each provocation that pyvisa-py 0.8.1 fails on, and what must happen instead."""

import socket
import threading
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from instruments.errors import BadData, InstrumentTimeout, LinkLost, OutOfRange
from instruments.transport.visa import VisaLink

SHORT_S = 0.2
AMPLE_S = 20.0


@contextmanager
def instrument(*connections):
    """Serve one handler a connection on an ephemeral port; hand out the resource. A handler gets a `Wire`."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(AMPLE_S)
    failures = []

    def serve():
        try:
            for handler in connections:
                peer, _ = listener.accept()
                peer.settimeout(AMPLE_S)
                wire = Wire(peer)
                # A link that is closed with bytes unread resets the connection; that is the client's good right.
                with peer, wire.lines, suppress(ConnectionError):
                    handler(wire)
        except (AssertionError, OSError) as error:
            failures.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"TCPIP::127.0.0.1::{listener.getsockname()[1]}::SOCKET"
    finally:
        thread.join(AMPLE_S)
        listener.close()
    assert not thread.is_alive()
    assert not failures


class Wire:
    """The instrument's end of a connection."""

    def __init__(self, peer):
        self.peer = peer
        self.lines = peer.makefile("rb")

    def expect(self, command):
        line = self.lines.readline()
        assert line == command.encode() + b"\n", line

    def send(self, data):
        self.peer.sendall(data)

    def until_closed(self):
        assert self.lines.read() == b""


@contextmanager
def linked(*connections):
    with instrument(*connections) as resource:
        link = VisaLink(resource, open_timeout_s=AMPLE_S)
        try:
            yield link
        finally:
            link.close()


def answers(*pairs):
    """Return a handler that expects each command in turn and sends each reply."""

    def handler(wire):
        for command, reply in pairs:
            wire.expect(command)
            wire.send(reply)
        wire.until_closed()

    return handler


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def test_a_refused_port_is_reported_when_opening():
    resource = f"TCPIP::127.0.0.1::{free_port()}::SOCKET"
    with pytest.raises(LinkLost, match=f"{resource}.*check the address"):
        VisaLink(resource)


@pytest.mark.parametrize("name", ["scope", "TCPIP::127.0.0.1::SOCKET", ""])
def test_a_name_that_is_no_resource_says_how_one_is_written(name):
    with pytest.raises(OutOfRange, match="TCPIP::host::port::SOCKET"):
        VisaLink(name)


def test_lines_and_blocks_in_turn():
    payload = bytes(range(256)) * 4  # line feeds, hashes and NULs inside the data
    pairs = [("*IDN?", b"A,B,C,D\n"), ("DATA?", b"#800001024" + payload + b"\n"), ("*OPC?", b"+1\r\n")]
    with linked(answers(*pairs)) as link:
        assert link.query("*IDN?", AMPLE_S) == "A,B,C,D"
        data = link.query_block("DATA?", AMPLE_S)
        assert data.dtype == np.uint8
        assert data.tobytes() == payload
        assert link.query("*OPC?", AMPLE_S) == "+1"


def test_a_block_lands_in_the_buffer_that_is_given():
    buffer = np.zeros((2, 8), np.uint8)
    with linked(answers(("DATA?", b"#18" + bytes(range(8)) + b"\n"))) as link:
        data = link.query_block("DATA?", AMPLE_S, into=buffer[1])
    assert np.shares_memory(data, buffer)
    assert buffer.tolist() == [[0] * 8, list(range(8))]


def test_a_block_longer_than_the_buffer_is_refused_before_it_is_written():
    buffer = np.zeros(4, np.uint8)
    with linked(answers(("DATA?", b"#18ABCDEFGH\n"))) as link, pytest.raises(BadData, match="8 bytes where at most 4"):
        link.query_block("DATA?", AMPLE_S, into=buffer)
    assert not buffer.any()


def test_a_block_of_no_bytes_is_a_block():
    with linked(answers(("DATA?", b"#10\n"), ("*OPC?", b"1\n"))) as link:
        assert link.query_block("DATA?", AMPLE_S).size == 0
        assert link.query("*OPC?", AMPLE_S) == "1"


@pytest.mark.parametrize("tail", [b"", b"\n", b"\n\n", b"\r\n"])
def test_any_line_end_after_a_block_keeps_the_link_in_step(tail):
    with linked(answers(("DATA?", b"#15\n\n\n\n\n" + tail), ("*OPC?", b"1\n"))) as link:
        assert link.query_block("DATA?", AMPLE_S).tobytes() == b"\n" * 5
        assert link.query("*OPC?", AMPLE_S) == "1"


@pytest.mark.parametrize("block", [False, True])
def test_a_line_end_that_comes_late_does_not_shift_the_answers(block):
    def handler(wire):
        wire.expect("DATA?")
        wire.send(b"#13abc")
        wire.expect("NEXT?")
        wire.send(b"\n")
        wire.send(b"#12de\n" if block else b"next\n")
        wire.until_closed()

    with linked(handler) as link:
        assert link.query_block("DATA?", AMPLE_S).tobytes() == b"abc"
        if block:
            assert link.query_block("NEXT?", AMPLE_S).tobytes() == b"de"
        else:
            assert link.query("NEXT?", AMPLE_S) == "next"


def test_bytes_behind_a_block_are_refused():
    with linked(answers(("DATA?", b"#13abcdef\n"))) as link, pytest.raises(BadData, match="after the block, got b'd'"):
        link.query_block("DATA?", AMPLE_S)


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (b"#0abc\n", "indefinite-length block.*b'#0abc"),
        (b"#A00000004abcd", "b'#A"),
        (b"#(4)abcd", "b'#"),
        (b"#2x4abcd", "b'#2x4"),
        (b'-113,"Undefined header"\n', "b'-113"),
        (b"\x00\x00", "b'.x00"),
    ],
)
def test_a_block_of_another_form_is_refused_by_its_first_bytes(reply, what):
    with linked(answers(("DATA?", reply))) as link:
        with pytest.raises(BadData, match=what):
            link.query_block("DATA?", AMPLE_S)
        with pytest.raises(LinkLost, match=r"out of step since DATA\? failed"):
            link.query("*OPC?", AMPLE_S)


@pytest.mark.parametrize(("reply", "what"), [(b"one\ntwo\n", "more"), (b"caf\xe9\n", "ASCII")])
def test_a_line_of_another_form_is_refused(reply, what):
    with linked(answers(("X?", reply))) as link, pytest.raises(BadData, match=what):
        link.query("X?", AMPLE_S)


def test_silence_taints_the_link_and_a_stale_answer_never_counts():
    late = threading.Event()

    def handler(wire):
        wire.expect("*OPC?")
        late.wait(AMPLE_S)
        wire.send(b"1\n")
        wire.expect("*IDN?")  # nothing was sent while the link was tainted
        wire.send(b"A,B,C,D\n")
        wire.until_closed()

    with linked(handler) as link:
        with pytest.raises(InstrumentTimeout, match=r"\*OPC\?: no complete answer within 0.2 s"):
            link.query("*OPC?", SHORT_S)
        assert link.tainted
        for use in (link.write, link.query, link.query_block):
            with pytest.raises(LinkLost, match=r"\*RST was not sent: clear or reopen"):
                use("*RST")
        late.set()
        link.clear()
        assert not link.tainted
        assert link.query("*IDN?", AMPLE_S) == "A,B,C,D"


def test_an_answer_that_was_never_asked_for_stops_the_next_command():
    both = threading.Barrier(2)

    def handler(wire):
        wire.expect("*OPC?")
        wire.send(b"1\n")
        both.wait(AMPLE_S)
        wire.send(b"+40\n")
        both.wait(AMPLE_S)
        wire.until_closed()

    with linked(handler) as link:
        assert link.query("*OPC?", AMPLE_S) == "1"
        both.wait(AMPLE_S)
        both.wait(AMPLE_S)
        with pytest.raises(LinkLost, match=r"b'\+40\\n' was never asked for"):
            link.write(":STOP")


def stall(wire):
    wire.expect("DATA?")
    wire.send(b"#810000000" + bytes(5000))
    wire.until_closed()


def test_a_stall_inside_a_block_taints_until_reopened():
    with linked(stall, answers(("*IDN?", b"A,B,C,D\n"))) as link:
        with pytest.raises(InstrumentTimeout, match="5000 of 10000000 bytes of the block had arrived"):
            link.query_block("DATA?", SHORT_S)
        with pytest.raises(LinkLost, match="out of step"):
            link.query("*IDN?", AMPLE_S)
        link.reopen()
        assert link.query("*IDN?", AMPLE_S) == "A,B,C,D"


def test_a_peer_that_closes_inside_a_block_is_told_from_a_time_out():
    def handler(wire):
        wire.expect("DATA?")
        wire.send(b"#810000000" + bytes(5000))

    with linked(handler) as link:
        with pytest.raises(LinkLost, match=r"closed the connection.*5000 of 10000000"):
            link.query_block("DATA?", AMPLE_S)
        with pytest.raises(LinkLost, match="closed the connection"):
            link.clear()
        assert link.tainted


def test_a_peer_that_closed_is_noticed_by_the_next_command():
    def handler(wire):
        wire.expect("*OPC?")
        wire.send(b"1\n")
        wire.peer.shutdown(socket.SHUT_WR)
        gone.set()
        wire.until_closed()

    gone = threading.Event()
    with linked(handler) as link:
        assert link.query("*OPC?", AMPLE_S) == "1"
        gone.wait(AMPLE_S)
        with pytest.raises(LinkLost, match="closed the connection"):
            link.query(":STOP", AMPLE_S)


def test_a_trickle_does_not_extend_the_deadline():
    done = threading.Event()

    def handler(wire):
        wire.expect("DATA?")
        wire.send(b"#810000000")
        while not done.wait(0.02):  # would last for days at this pace
            wire.send(b"x")
        wire.until_closed()

    with linked(handler) as link:
        with pytest.raises(InstrumentTimeout, match="of 10000000 bytes"):
            link.query_block("DATA?", SHORT_S)
        done.set()


def test_clear_gives_up_on_a_peer_that_never_falls_silent(monkeypatch):
    monkeypatch.setattr("instruments.transport.visa.CLEAR_MAX_S", SHORT_S)
    monkeypatch.setattr("instruments.transport.visa.CLEAR_QUIET_S", AMPLE_S)
    done = threading.Event()

    def handler(wire):
        while not done.wait(0.02):
            wire.send(b"x")
        wire.until_closed()

    with linked(handler) as link:
        with pytest.raises(LinkLost, match="bytes keep coming"):
            link.clear()
        assert link.tainted
        done.set()


def test_an_interrupt_inside_an_exchange_taints(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with linked(answers(("*OPC?", b"1\n"))) as link:
        monkeypatch.setattr("instruments.transport.visa.read_line", interrupt)
        with pytest.raises(KeyboardInterrupt):
            link.query("*OPC?", AMPLE_S)
        assert link.tainted


def test_threads_never_swap_answers():
    def echo(wire):
        for line in wire.lines:
            wire.send(line)

    def ask(name):
        got[name] = {link.query(f"{name}{k}?", AMPLE_S) == f"{name}{k}?" for k in range(200)}

    got = {}
    with linked(echo) as link:
        threads = [threading.Thread(target=ask, args=(name,)) for name in "AB"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(AMPLE_S)
    assert got == {"A": {True}, "B": {True}}


def test_closing_twice_is_harmless_and_use_after_it_is_refused():
    with linked(answers()) as link:
        link.close()
        link.close()
        with pytest.raises(LinkLost, match="is closed"):
            link.write(":STOP")
        with pytest.raises(LinkLost, match="is closed"):
            link.clear()
