"""A DHO800 that answers with what nobody asked for, over a real socket."""

import socket
import threading
from contextlib import suppress

import numpy as np
import pytest

from instruments.drivers.rigol_dho800 import RigolDho800
from instruments.errors import BadData

AMPLE_S = 20.0
IDENTITY = b"RIGOL TECHNOLOGIES,DHO804,DHO8A000000000,00.01.02\n"
HEADER = b"#9000030000"
LETTERS = b"MKJJIIJKKM" * 3000
WORDS = np.random.default_rng(1).integers(0, 1 << 16, 15_000, np.uint16).tobytes()


def serve(replies):
    """Answer the commands of one connection in turn; return resource, what was asked, and the thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(AMPLE_S)
    asked = []

    def answer():
        # A link that is closed with bytes unread resets the connection; that is the client's good right.
        with listener, listener.accept()[0] as peer, peer.makefile("rb") as lines, suppress(ConnectionError):
            peer.settimeout(AMPLE_S)
            for reply in replies:
                asked.append(lines.readline())
                peer.sendall(reply)
            lines.read()

    thread = threading.Thread(target=answer)
    thread.start()
    return f"TCPIP::127.0.0.1::{listener.getsockname()[1]}::SOCKET", asked, thread


@pytest.mark.parametrize("data", [LETTERS, WORDS], ids=["bytes", "words"])
def test_a_stale_waveform_in_the_place_of_the_identity(data):
    """As libsigrok 246 reports it: 30 000 bytes of a waveform come first, then the answer."""
    resource, asked, thread = serve([HEADER + data + b"\n" + IDENTITY, IDENTITY, b"", IDENTITY, b""])
    scope = RigolDho800.open(resource, timeout_s=AMPLE_S)
    assert scope.identify().model == "DHO804"
    scope.close()
    thread.join(AMPLE_S)
    assert asked == [b"*IDN?\n", b"*IDN?\n", b"*CLS\n", b"*IDN?\n", b":STOP\n"]


def test_who_never_says_who_it_is_is_refused():
    resource, asked, thread = serve(3 * [HEADER + LETTERS + b"\n"])
    with pytest.raises(BadData, match=r"\*IDN\? answered '#9000030000MKJJ"):
        RigolDho800.open(resource, timeout_s=AMPLE_S)
    thread.join(AMPLE_S)
    assert asked == 3 * [b"*IDN?\n"]
