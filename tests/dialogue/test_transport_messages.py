"""The message path of VisaLink (USB, HiSLIP, VXI-11), on a session that marks the end of each message."""

import pytest
import pyvisa
from pyvisa.constants import StatusCode

from instruments.errors import BadData, InstrumentTimeout, LinkLost
from instruments.transport import visa


class MessageSession:
    """Stand for a PyVISA resource that is not a socket: each reply is a list of (bytes, status)."""

    resource_class = "INSTR"
    session = 1

    def __init__(self, *replies):
        self.replies = list(replies)
        self.visalib = self
        self.sessions = {1: object()}
        self.written = []
        self.n_cleared = 0
        self.timeout = 0

    def read(self, session, count):
        assert count >= 4096, "small reads lose data on some instruments"
        assert self.timeout > 0
        data, status = self.replies.pop(0)
        if isinstance(status, Exception):
            raise status
        return data, status

    def write_raw(self, data):
        self.written.append(data)

    def clear(self):
        self.n_cleared += 1

    def close(self):
        self.replies = []


END, MORE = StatusCode.success, StatusCode.success_max_count_read
SILENCE = pyvisa.errors.VisaIOError(StatusCode.error_timeout)
BROKEN = pyvisa.errors.VisaIOError(StatusCode.error_connection_lost)


@pytest.fixture
def link(monkeypatch, request):
    session = MessageSession(*request.param)
    monkeypatch.setattr(visa, "_open_resource", lambda *_: session)
    return visa.VisaLink("USB::session"), session


def replies(*parts):
    return pytest.mark.parametrize("link", [parts], indirect=True)


@replies((b"A,B,C,D\n", END), (b"no line feed", END))
def test_a_line_ends_with_its_message(link):
    visa_link, session = link
    assert visa_link.query("*IDN?") == "A,B,C,D"
    assert visa_link.query("X?") == "no line feed"
    assert session.written == [b"*IDN?\n", b"X?\n"]


@replies((b"#6", MORE), (b"000006ab\n", MORE), (b"\ncd\n", END), (b"1\n", END))
def test_a_block_may_be_cut_anywhere(link):
    visa_link, _ = link
    assert visa_link.query_block("DATA?").tobytes() == b"ab\n\ncd"
    assert visa_link.query("*OPC?") == "1"


@replies((b"#15abcde", END), (b"1\n", END))
def test_a_block_may_end_without_a_line_feed(link):
    visa_link, _ = link
    assert visa_link.query_block("DATA?").tobytes() == b"abcde"
    assert visa_link.query("*OPC?") == "1"


@replies((b"#15abc", END))
def test_a_message_that_ends_inside_the_block_is_refused(link):
    visa_link, _ = link
    with pytest.raises(BadData, match="ended after 3 of 5 bytes"):
        visa_link.query_block("DATA?")


@replies((b"#15ab", MORE), (b"", SILENCE), (b"1\n", END))
def test_a_time_out_taints_and_clear_is_a_device_clear(link):
    visa_link, session = link
    with pytest.raises(InstrumentTimeout, match="2 of 5 bytes"):
        visa_link.query_block("DATA?")
    assert visa_link.tainted
    visa_link.clear()
    assert session.n_cleared == 1
    assert visa_link.query("*OPC?") == "1"


@replies((b"", BROKEN))
def test_a_broken_connection_is_no_time_out(link):
    visa_link, _ = link
    with pytest.raises(LinkLost, match="connection broke"):
        visa_link.query("*OPC?")


@replies((b"", RuntimeError("protocol synchronization error")))
def test_a_hislip_session_out_of_step_asks_to_be_reopened(link):
    visa_link, session = link
    with pytest.raises(LinkLost, match=r"synchronization error.*reopen"):
        visa_link.query("*OPC?")
    session.clear = lambda: (_ for _ in ()).throw(RuntimeError("protocol synchronization error"))
    with pytest.raises(LinkLost, match="reopen it"):
        visa_link.clear()
