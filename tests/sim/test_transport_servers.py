"""HiSLIP and VXI-11 as they are served: bytes written out by hand from the protocols, and PyVISA-py as the client."""

import socket
import threading

import numpy as np
import pytest
import pyvisa

from instruments.errors import InstrumentTimeout, LinkLost
from instruments.sim.hislip import HislipServer
from instruments.sim.scpi import Instrument
from instruments.sim.vxi11 import Vxi11Server
from instruments.transport.visa import VisaLink

AMPLE_S = 20.0
CODES = np.random.default_rng(5).integers(0, 256, 3_000_001, np.uint8)


class Device(Instrument):
    """Say who it is, hold a block, and wait for as long as somebody does."""

    def __init__(self):
        super().__init__()
        self.n_triggers = 0
        self.on("*IDN?", lambda: "A,B,C,D")
        self.on(":BLOCk?", lambda: (f"#8{CODES.size:08d}", memoryview(CODES)))
        self.do("*TRG", self.trigger)
        self.on(":SLOW?", self.slow)
        self.waits = threading.Event()

    def trigger(self):
        self.n_triggers += 1

    def slow(self):
        self.waits.set()
        while not self._is_gone():
            threading.Event().wait(0.005)


@pytest.fixture
def hislip():
    server = HislipServer("device", Device())
    yield server
    server.close()


@pytest.fixture
def vxi11():
    server = Vxi11Server("device", Device())
    yield server
    server.close()


@pytest.fixture(params=["hislip", "vxi11"])
def server(request):
    return request.getfixturevalue(request.param)


class Wire:
    """A connection on which every byte is written out."""

    def __init__(self, port):
        self.peer = socket.create_connection(("127.0.0.1", port))
        self.peer.settimeout(AMPLE_S)

    def says(self, sent, *answers):
        """Send bytes (hexadecimal, or text between quotes); expect exactly the answer's."""
        self.peer.sendall(_bytes(sent))
        expected = b"".join(_bytes(answer) for answer in answers)
        got = b""
        while len(got) < len(expected):
            chunk = self.peer.recv(len(expected) - len(got))
            assert chunk, f"closed after {got.hex(' ')}"
            got += chunk
        assert got.hex(" ") == expected.hex(" ")

    def ends(self):
        assert self.peer.recv(1) == b""


def _bytes(text):
    parts = text.split("'")
    return b"".join(p.encode() if k % 2 else bytes.fromhex(p) for k, p in enumerate(parts))


# --- HiSLIP by hand -------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(hislip):
    """Open a session: Initialize (0) by version 1.0 and vendor "xx", AsyncInitialize (17) with the number given."""
    sync, other = Wire(hislip.port), Wire(hislip.port)
    sync.says("4853 00 00 0100 7878 0000000000000007 'hislip0'", "4853 01 00 0100 0001 0000000000000000")
    other.says("4853 11 00 00000001 0000000000000000", "4853 12 00 0000 454d 0000000000000000")
    yield sync, other
    sync.peer.close()
    other.peer.close()


IDN_100 = "4853 07 00 ffffff00 0000000000000006 '*IDN?' 0a"
IDN_ANSWER = "4853 07 00 ffffff00 0000000000000008 'A,B,C,D' 0a"


def test_hislip_a_query_is_answered_under_its_message_id(pair):
    sync, _ = pair
    sync.says(IDN_100, IDN_ANSWER)
    # In two pieces, Data (6) and DataEnd (7); the last answer was taken (control code 1).
    sync.says("4853 06 01 ffffff02 0000000000000003 '*ID'", "")
    sync.says("4853 07 01 ffffff04 0000000000000003 'N?' 0a", "4853 07 00 ffffff04 0000000000000008 'A,B,C,D' 0a")


def test_hislip_an_answer_not_taken_is_interrupted(pair):
    sync, other = pair
    sync.says(IDN_100, IDN_ANSWER)
    sync.says(
        "4853 07 00 ffffff02 000000000000000a ':SYST:ERR?'",
        "4853 0d 00 ffffff02 0000000000000000",
        "4853 07 00 ffffff02 0000000000000019 '-410,\"Query INTERRUPTED\"' 0a",
    )
    other.says("", "4853 0e 00 ffffff02 0000000000000000")


def test_hislip_sizes_status_locks_trigger(pair, hislip):
    sync, other = pair
    other.says("4853 0f 00 00000000 0000000000000008 0000000000100000",
               "4853 10 00 00000000 0000000000000008 0000000000010000")  # fmt: skip
    other.says("4853 15 00 ffffff00 0000000000000000", "4853 16 00 00000000 0000000000000000")
    other.says("4853 04 01 00000064 0000000000000000", "4853 05 01 00000000 0000000000000000")
    other.says("4853 18 00 00000000 0000000000000000", "4853 19 01 00000001 0000000000000000")
    other.says("4853 04 00 ffffff00 0000000000000000", "4853 05 01 00000000 0000000000000000")
    other.says("4853 04 00 ffffff00 0000000000000000", "4853 05 03 00000000 0000000000000000")
    sync.says("4853 0c 00 ffffff00 0000000000000000", "")
    sync.says("4853 07 00 ffffff02 0000000000000005 '*IDN?'", "4853 07 00 ffffff02 0000000000000008 'A,B,C,D' 0a")
    assert hislip.instrument.n_triggers == 1
    # The answer waits to be read (bit 4), until it is told that it was.
    other.says("4853 15 00 ffffff02 0000000000000000", "4853 16 10 00000000 0000000000000000")
    other.says("4853 15 01 ffffff02 0000000000000000", "4853 16 00 00000000 0000000000000000")


def test_hislip_a_device_clear_ends_what_is_under_way(pair, hislip):
    sync, other = pair
    sync.says("4853 07 00 ffffff00 0000000000000006 ':SLOW?'", "")
    assert hislip.instrument.waits.wait(AMPLE_S)
    other.says("4853 13 00 00000000 0000000000000000", "4853 17 00 00000000 0000000000000000")
    sync.says("4853 08 00 00000000 0000000000000000", "4853 09 00 00000000 0000000000000000")
    sync.says(IDN_100, IDN_ANSWER)


def test_hislip_breaches_are_fatal_and_strange_types_are_not(pair, hislip):
    sync, _ = pair
    sync.says("4853 c8 00 00000000 0000000000000000",
              "4853 03 01 00000000 0000000000000019 'unrecognized message type'")  # fmt: skip
    for first in ("4853 07 00 ffffff00 0000000000000000", "4853 11 00 00000063 0000000000000000"):
        wire = Wire(hislip.port)
        wire.says(first, "4853 02 03")
        wire.peer.close()
    wire = Wire(hislip.port)
    wire.says("5858 00 00 01007878 0000000000000000", "4853 02 01")
    wire.peer.close()
    alone = Wire(hislip.port)
    alone.says("4853 00 00 0100 7878 0000000000000007 'hislip0'", "4853 01 00 0100 0002 0000000000000000")
    alone.says(IDN_100, "4853 02 02")
    alone.peer.close()


# --- VXI-11 by hand -------------------------------------------------------------------------------------------------

# Record of one fragment, call (0) of RPC version 2, program 0x0607af version 1, no credentials, no verifier.
def call(xid, procedure, arguments):
    header = f"{xid:08x} 00000000 00000002 000607af 00000001 {procedure:08x}"
    body = f"{header} 00000000 00000000 00000000 00000000 {arguments}"
    return f"{len(_bytes(body)) | 1 << 31:08x} {body}"


def reply(xid, result):
    body = f"{xid:08x} 00000001 00000000 00000000 00000000 00000000 {result}"
    return f"{len(_bytes(body)) | 1 << 31:08x} {body}"


@pytest.fixture
def wire(vxi11):
    wire = Wire(vxi11.port)
    port = f"{vxi11._abort.port:08x}"
    # create_link: client 7, no lock, device "inst0" padded to 8; link 1, the abort port, at most 65536 bytes a write.
    wire.says(call(1, 10, "00000007 00000000 00000000 00000005 'inst0' 000000"),
              reply(1, f"00000000 00000001 {port} 00010000"))  # fmt: skip
    yield wire
    wire.peer.close()


WRITE_IDN = "00000001 000003e8 00000000 00000008 00000006 '*IDN?' 0a 0000"
READ_ALL = "00000001 00000400 000003e8 00000000 00000000 00000000"


def test_vxi11_a_query_and_the_reasons_why_a_read_ends(wire):
    wire.says(call(2, 11, WRITE_IDN), reply(2, "00000000 00000006"))
    wire.says(call(3, 12, READ_ALL), reply(3, "00000000 00000004 00000008 'A,B,C,D' 0a"))
    wire.says(call(4, 11, WRITE_IDN), reply(4, "00000000 00000006"))
    # Three bytes at most: the count was reached (1), one byte of padding follows.
    wire.says(call(5, 12, "00000001 00000003 000003e8 00000000 00000000 00000000"),
              reply(5, "00000000 00000001 00000003 'A,B' 00"))  # fmt: skip
    # Up to a comma (flag 128): the character was met (2).
    wire.says(call(6, 12, "00000001 00000400 000003e8 00000000 00000080 0000002c"),
              reply(6, "00000000 00000002 00000001 ',' 000000"))  # fmt: skip
    # Exactly what is left: the count and the end (1 + 4).
    wire.says(call(7, 12, "00000001 00000004 000003e8 00000000 00000000 00000000"),
              reply(7, "00000000 00000005 00000004 'C,D' 0a"))  # fmt: skip
    # Nothing more: input/output time-out (15) after 10 ms.
    wire.says(call(8, 12, "00000001 00000400 0000000a 00000000 00000000 00000000"),
              reply(8, "0000000f 00000000 00000000"))  # fmt: skip


def test_vxi11_status_trigger_clear_lock_destroy(wire, vxi11):
    generic = "00000001 00000000 00000000 000003e8"
    wire.says(call(2, 11, WRITE_IDN), reply(2, "00000000 00000006"))
    wire.says(call(3, 13, generic), reply(3, "00000000 00000010"))
    wire.says(call(4, 15, generic), reply(4, "00000000"))
    wire.says(call(5, 13, generic), reply(5, "00000000 00000000"))
    wire.says(call(6, 14, generic), reply(6, "00000000"))
    assert vxi11.instrument.n_triggers == 1
    wire.says(call(7, 18, "00000001 00000000 00000000"), reply(7, "00000000"))
    other = Wire(vxi11.port)
    other.says(call(1, 10, "00000008 00000000 00000000 00000005 'inst0' 000000"), "80000028 00000001 00000001")
    other.peer.recv(1000)
    other.says(call(2, 13, "00000002 00000000 00000000 000003e8"), reply(2, "0000000b 00000000"))  # locked (11)
    wire.says(call(8, 19, "00000001"), reply(8, "00000000"))
    other.says(call(3, 13, "00000002 00000000 00000000 000003e8"), reply(3, "00000000 00000000"))
    wire.says(call(9, 19, "00000001"), reply(9, "0000000c"))  # no lock held (12)
    wire.says(call(10, 23, "00000001"), reply(10, "00000000"))
    wire.says(call(11, 23, "00000001"), reply(11, "00000004"))  # invalid link (4)
    other.peer.close()


def test_vxi11_what_it_does_not_know(wire, vxi11):
    wire.says(call(2, 99, ""), "80000018 00000002 00000001 00000000 00000000 00000000 00000003")
    wire.says(call(3, 12, "0000"), "80000018 00000003 00000001 00000000 00000000 00000000 00000004")
    body = call(4, 0, "").replace("000607af", "000607b0")
    wire.says(body, "80000018 00000004 00000001 00000000 00000000 00000000 00000001")
    wire.says(call(5, 10, "00000007 00000000 00000000 00000005 'gpib0' 000000"),
              reply(5, "00000003 00000000 00000000 00000000"))  # fmt: skip


def test_vxi11_a_call_in_fragments_and_an_abort(wire, vxi11):
    whole = _bytes(call(2, 11, "00000001 00002710 00000000 00000008 00000006 ':SLOW?' 0000"))[4:]
    wire.peer.sendall(len(whole[:10]).to_bytes(4, "big") + whole[:10])
    wire.peer.sendall((len(whole[10:]) | 1 << 31).to_bytes(4, "big") + whole[10:])
    assert vxi11.instrument.waits.wait(AMPLE_S)
    abort = Wire(vxi11._abort.port)
    abort.says(call(1, 1, "00000001").replace("000607af", "000607b0"), reply(1, "00000000"))
    wire.says("", reply(2, "00000017 00000006"))  # abort (23)
    abort.peer.close()


# --- PyVISA-py as the client, and the link --------------------------------------------------------------------------


def test_pyvisa_py_reads_lines_blocks_and_status(server):
    with pyvisa.ResourceManager("@py").open_resource(server.resource, timeout=20_000) as client:
        assert client.query("*IDN?") == "A,B,C,D\n"
        data = client.query_binary_values(":BLOCk?", "B", container=np.array, chunk_size=1 << 20)
        assert np.array_equal(data, CODES)
        assert client.read_stb() == 0
        client.write("*CLS" if isinstance(server, HislipServer) else "*IDN?")  # it cannot clear an answer of HiSLIP
        client.clear()
        assert client.query("*IDN?") == "A,B,C,D\n"


def test_the_link_clears_after_a_time_out_and_goes_on(server):
    link = VisaLink(server.resource)
    for _ in range(2):
        with pytest.raises(InstrumentTimeout, match="NONSENSE"):
            link.query(":NONSENSE?", 0.1)
        with pytest.raises(LinkLost, match="out of step"):
            link.query("*IDN?")
        link.clear()
        assert link.query("*IDN?") == "A,B,C,D"
    assert link.query(":SYST:ERR?") == '-113,"Undefined header"'
    assert np.array_equal(link.query_block(":BLOCk?", AMPLE_S), CODES)
    link.close()
    link.close()


def test_the_link_is_repaired_by_reopening_alone_after_a_stall(server):
    link = VisaLink(server.resource)
    server.fault.set({"stall_after_bytes": 100_000, "once": True})
    with pytest.raises(InstrumentTimeout, match="of 3000001 bytes of the block had arrived"):
        link.query_block(":BLOCk?", 0.3)
    with pytest.raises(LinkLost, match="reopen"):
        link.clear()
    link.reopen()
    assert np.array_equal(link.query_block(":BLOCk?", AMPLE_S), CODES)
    link.close()


def test_a_peer_that_closes_is_told_at_once(server):
    link = VisaLink(server.resource)
    server.fault.set({"close_after_bytes": 100_000})
    with pytest.raises(LinkLost, match="closed the connection"):
        link.query_block(":BLOCk?", AMPLE_S)
    link.close()


def test_two_links_get_their_own_answers(server):
    links = [VisaLink(server.resource) for _ in range(2)]
    got = []

    def ask(link):
        got.append({link.query("*IDN?") for _ in range(50)})

    threads = [threading.Thread(target=ask, args=(link,)) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(AMPLE_S)
    assert got == [{"A,B,C,D"}] * 2
    for link in links:
        link.close()
