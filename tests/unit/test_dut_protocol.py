"""The host's side of firmware/PROTOCOL.md against a scripted peer on a loopback socket."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import time
import zlib
from collections.abc import Iterator

import pytest

from labctl.dut import Dut
from labctl.dut_link import DutLink, crc16, frame
from labctl.errors import ConfigError, DeviceStable, DeviceTransient, Unsupported, WrongOutput
from labctl.model import Operation

BOARD = "stm32vldiscovery"
HELLO = f"ok hello proto=2 board={BOARD} clock_hz=24000000 clock=crystal counter=dwt build=0123456789ABCDEF"
BANNER = f"ok boot board={BOARD} build=0123456789ABCDEF"
SHA256 = Operation("sha256", bytes=64, n_runs=3)
PREPARE = "prepare op=sha256 bytes=64 runs=3 n=1 pause_us=1500"
PLAIN = "key=outside piece=0 offset=0"
READY = f"ok ready op=sha256 bytes=64 runs=3 n=1 pause_us=1500 {PLAIN} window_us=1001 window_cycles=24000 check_us=100"
UNCOUNTED = READY.replace(" window_cycles=24000", "")
# The message as PROTOCOL.md gives it, hashed by the standard library: what three right runs add up to.
DIGEST = hashlib.sha256(bytes((7 * i + 3) % 256 for i in range(64))).digest()
DONE = f"ok done runs=3 check=pass crc32={zlib.crc32(DIGEST * 3):08X}"


def crc_by_bits(data: bytes) -> int:
    """CRC-16/CCITT-FALSE, bit by bit, as an independent reference."""
    crc = 0xFFFF
    for byte in data:
        for bit in range(7, -1, -1):
            carry = (crc >> 15) ^ (byte >> bit & 1)
            crc = (crc << 1 & 0xFFFF) ^ (0x1021 if carry else 0)
    return crc


def line(payload: str) -> bytes:
    data = payload.encode()
    return data + b"*%04X\n" % crc_by_bits(data)


class Peer:
    """Plays a DUT: for each command of the script, in order, it sends what the script says.

    Replies are payloads to be framed, or bytes to be sent as they are. A command off the script stops the play.
    """

    def __init__(self, script: list[tuple[str, list[str | bytes]]], greeting: bytes = b"") -> None:
        self.script = list(script)
        self.greeting = greeting
        self.wrong: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(10)
        self.port = f"socket://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._play)
        self._thread.start()

    def _play(self) -> None:
        with self._listener, self._listener.accept()[0] as connection:
            connection.settimeout(10)
            connection.sendall(self.greeting)
            # The host may close with replies unread, which resets the connection.
            with connection.makefile("rb") as stream, contextlib.suppress(ConnectionError):
                for received in stream:
                    if received == b"\n":
                        continue
                    if not self.script or received != line(self.script[0][0]):
                        self.wrong.append(received)
                        return
                    for reply in self.script.pop(0)[1]:
                        connection.sendall(reply if isinstance(reply, bytes) else line(reply))

    def finish(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()
        assert self.wrong == []
        assert self.script == []


@contextlib.contextmanager
def talking(
    *script: tuple[str, list[str | bytes]], timeout_s: float = 2.0, board: str | None = BOARD, greeting: bytes = b""
) -> Iterator[Dut]:
    """A Dut connected to a peer that must be asked exactly this script."""
    peer = Peer(list(script), greeting)
    dut = Dut(peer.port, timeout_s, board)
    try:
        yield dut
    finally:
        dut.close()
    peer.finish()


def ready_for(*script: tuple[str, list[str | bytes]]) -> tuple[tuple[str, list[str | bytes]], ...]:
    return (("hello", [HELLO]), (PREPARE, [READY]), *script)


def test_published_check_values():
    # Check values of the CRC catalogue for "123456789".
    assert crc16(b"123456789") == 0x29B1
    assert crc_by_bits(b"123456789") == 0x29B1
    assert frame("123456789") == b"123456789*29B1\n"
    assert zlib.crc32(b"123456789") == 0xCBF43926


def test_hello_returns_what_the_dut_says():
    with talking(("hello", [HELLO])) as dut:
        said = dut.hello()
    assert said["board"] == BOARD
    assert said["build"] == "0123456789ABCDEF"
    assert said["clock_hz"] == "24000000"


def test_hello_gets_in_step_after_banner_and_half_a_line():
    with talking(("hello", ["err checksum x", HELLO]), greeting=b"board=stm*12\n" + line(BANNER)) as dut:
        assert dut.hello()["proto"] == "2"


def test_hello_is_repeated_while_the_board_boots():
    with talking(("hello", []), ("hello", [BANNER]), ("hello", [HELLO])) as dut:
        assert dut.hello()["board"] == BOARD


def test_list_and_self_test_and_stack():
    memory = {"stack_peak_bytes": 1320, "heap_peak_bytes": 2504, "heap_held_bytes": 640}
    memory |= {"state_bytes": 216, "buffer_bytes": 128}
    with talking(
        ("list", ["data ops null,busy", "data ops sha256", "ok list n=3"]),
        ("hello", [HELLO]),
        ("kat", ["ok kat passed=7"]),
        ("hello", [HELLO]),
        ("kat op=sha256", ["ok kat passed=1"]),
        ("stack", ["ok stack " + " ".join(f"{key}={value}" for key, value in memory.items())]),
    ) as dut:
        assert dut.list_operations() == ("null", "busy", "sha256")
        assert dut.self_test() == 7
        assert dut.self_test(SHA256) == 1
        assert dut.stack() == memory


def test_manifest_keeps_values_with_spaces_and_counts_lines():
    lines = ["data manifest flags=-Os -mthumb=x", "data manifest clock_hz=24000000", "data manifest bss_bytes=872"]
    with talking(("manifest", [*lines, "ok manifest keys=3"]), ("manifest", [*lines[:2], "ok manifest keys=3"])) as dut:
        assert dut.manifest() == {"flags": "-Os -mthumb=x", "clock_hz": 24_000_000, "bss_bytes": 872}
        with pytest.raises(DeviceTransient, match="2 lines"):
            dut.manifest()


def test_series_from_prepare_to_report():
    replies: list[str | bytes] = ["data cycles 0 100 101", "data cycles 2 102", DONE]
    with talking(*ready_for(("go", replies))) as dut:
        ready = dut.prepare(SHA256, pause_s=1.5e-3)
        report = dut.go(timeout_s=2.0)
    # 24 000 cycles at 24 MHz are 1 ms; a run takes two pauses of 1.5 ms, the window, and 2 400 cycles of check.
    assert ready.window_s == pytest.approx(1e-3)
    assert ready.series_s == pytest.approx(3 * (3e-3 + 1e-3 + 0.1e-3))
    assert report.cycles == (100, 101, 102)
    assert report.output_ok
    assert report.output_crc32 == zlib.crc32(DIGEST * 3)


def test_size_is_left_out_where_none_is_asked():
    command = "prepare op=null runs=100 n=2 pause_us=0"
    answer = f"ok ready op=null bytes=0 runs=100 n=2 pause_us=0 {PLAIN} window_us=2 window_cycles=30 check_us=1"
    with talking(("hello", [HELLO]), (command, [answer])) as dut:
        dut.prepare(Operation("null", n_iterations=2, n_runs=100), pause_s=0.0)


def test_a_variant_is_sent_and_must_come_back():
    """What the image decides is not the DUT's to hear; an answer without the variant is of another operation."""
    operation = Operation("aes-128-cbc", bytes=64, n_runs=3, variant="key=inside,piece=16,offset=1,tables=ram")
    command = "prepare op=aes-128-cbc bytes=64 runs=3 n=1 pause_us=1500 key=inside piece=16 offset=1"
    said = "window_us=9 window_cycles=200 check_us=1"
    right = f"ok ready op=aes-128-cbc bytes=64 runs=3 n=1 pause_us=1500 key=inside piece=16 offset=1 {said}"
    other = f"ok ready op=aes-128-cbc bytes=64 runs=3 n=1 pause_us=1500 key=outside piece=16 offset=1 {said}"
    with talking(("hello", [HELLO]), (command, [right]), ("hello", [HELLO]), (command, [other])) as dut:
        dut.prepare(operation, 1.5e-3)
        with pytest.raises(DeviceStable, match="made ready with key=outside"):
            dut.prepare(operation, 1.5e-3)


def test_without_a_counter_there_are_no_cycles():
    hello = HELLO.replace("counter=dwt", "counter=none")
    with talking(("hello", [hello]), (PREPARE, [UNCOUNTED]), ("go", [DONE])) as dut:
        ready = dut.prepare(SHA256, pause_s=1.5e-3)
        report = dut.go(timeout_s=2.0)
    # The window and the check as they are told, 1001 us and 100 us, and two pauses a run.
    assert ready.window_s == pytest.approx(1.001e-3)
    assert ready.series_s == pytest.approx(3 * (3e-3 + 1.001e-3 + 0.1e-3))
    assert report.cycles == ()
    assert report.output_crc32 == zlib.crc32(DIGEST * 3)


def test_cycles_without_a_counter_are_nobodys():
    hello = HELLO.replace("counter=dwt", "counter=none")
    with talking(("hello", [hello]), (PREPARE, [UNCOUNTED]), ("go", ["data cycles 0 1 2 3", DONE])) as dut:
        dut.prepare(SHA256, 1.5e-3)
        with pytest.raises(DeviceTransient, match="told cycles of 3 of 3 runs"):
            dut.go(2.0)


def test_a_counter_that_tells_no_window_is_refused():
    with talking(("hello", [HELLO]), (PREPARE, [UNCOUNTED])) as dut, pytest.raises(DeviceStable, match="window_cycles"):
        dut.prepare(SHA256, 1.5e-3)


def test_over_a_stop_mode_no_cycles_are_told_whatever_the_core_counts():
    answer = f"ok ready op=idle.stop bytes=0 runs=3 n=1 pause_us=1500 {PLAIN} window_us=3300 check_us=2"
    stop = (PREPARE.replace("sha256 bytes=64", "idle.stop"), [answer])
    stopped = ("go", ["ok done runs=3 check=pass crc32=00000000"])
    counted = ("go", ["data cycles 0 1 2 3", DONE])
    with talking(("hello", [HELLO]), stop, stopped, ("hello", [HELLO]), (PREPARE, [READY]), counted) as dut:
        assert dut.prepare(Operation("idle.stop", n_runs=3), 1.5e-3).window_s == pytest.approx(3.3e-3)
        assert dut.go(2.0).cycles == ()
        # The next operation is counted again.
        dut.prepare(SHA256, 1.5e-3)
        assert dut.go(2.0).cycles == (1, 2, 3)


def test_a_slow_clock_has_longer_to_compute(monkeypatch):
    monkeypatch.setattr("labctl.dut.SELF_TEST_TIMEOUT_S", 0.0625)
    hello = HELLO.replace("clock_hz=24000000", "clock_hz=8000000")
    with (
        talking(("hello", [hello]), ("hello", [hello]), ("kat", [])) as dut,
        pytest.raises(DeviceTransient, match=r"no answer to 'kat' within 0\.188 s"),
    ):
        assert dut.hello() and dut.self_test()


def test_garbled_answer_is_asked_again_but_not_for_ever():
    bad = b"ok list n=1*0000\n"
    good: list[str | bytes] = ["data ops null", "ok list n=1"]
    with talking(("list", [bad]), ("list", ["err checksum x"]), ("list", good)) as dut:
        assert dut.list_operations() == ("null",)
    with (
        talking(("list", [bad]), ("list", [bad]), ("list", [bad])) as dut,
        pytest.raises(DeviceTransient, match="wrong checksum"),
    ):
        dut.list_operations()


def test_garbled_report_is_never_asked_again():
    with talking(*ready_for(("go", [b"data cycles 0 100*0000\n"]))) as dut:
        dut.prepare(SHA256, 1.5e-3)
        with pytest.raises(DeviceTransient, match="wrong checksum"):
            dut.go(2.0)


def test_silence_says_what_to_check():
    with talking(("hello", []), timeout_s=0.3) as dut, pytest.raises(DeviceTransient, match="silence") as caught:
        dut.hello()
    for word in ("right port", "power", "baud", "TX and RX"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("answers", "error", "words"),
    [
        (["ok list n=0"], DeviceStable, "lacks names"),
        (["ok list"], DeviceStable, "lacks a number 'n'"),
        (["ok list ops=null"], DeviceStable, "lacks a number 'n'"),
        (["data ops null,busy", "ok list n=3"], DeviceTransient, "came with 2 names"),
        (["data ops ,", "ok list n=1"], DeviceTransient, "came with 0 names"),
        (["data names null", "ok list n=1"], DeviceTransient, "no part of one"),
    ],
)
def test_a_list_that_is_none_shows_what_came(answers: list[str | bytes], error: type[Exception], words: str):
    with talking(("list", answers)) as dut, pytest.raises(error, match=words):
        dut.list_operations()


def test_an_unknown_operation_and_no_list_of_known_ones():
    command = "prepare op=md5 runs=20 n=1 pause_us=1000"
    with (
        talking(("hello", [HELLO]), (command, ["err operation md5"]), ("list", ["ok list n=0"])) as dut,
        pytest.raises(DeviceStable, match="lacks names"),
    ):
        dut.prepare(Operation("md5"), 1e-3)


def test_a_clock_that_stands_still_is_refused():
    with (
        talking(("hello", [HELLO.replace("clock_hz=24000000", "clock_hz=0")])) as dut,
        pytest.raises(DeviceStable, match="clock_hz=0"),
    ):
        dut.hello()


@pytest.mark.parametrize(
    ("call", "command", "bound"),
    [
        (lambda dut: dut.self_test(), "kat", "SELF_TEST_TIMEOUT_S"),
        (lambda dut: dut.prepare(SHA256, 1.5e-3), PREPARE, "PREPARE_TIMEOUT_S"),
    ],
)
def test_a_long_silence_says_how_long_it_was(monkeypatch, call, command: str, bound: str):
    monkeypatch.setattr(f"labctl.dut.{bound}", 0.125)
    script = ([("hello", [HELLO])] if command in (PREPARE, "kat") else []) + [(command, [])]
    with talking(*script) as dut, pytest.raises(DeviceTransient, match=r"no answer to '.*' within 0\.125 s"):
        call(dut)


def test_a_dut_that_is_not_there_any_more_is_told_before_the_long_wait():
    """Its self-test may be silent for minutes, its answer to `hello` for the link's time-out only."""
    with (
        talking(("hello", [HELLO]), ("hello", []), timeout_s=0.25) as dut,
        pytest.raises(DeviceTransient, match=r"no answer to 'hello' within 0\.25 s.*lost its supply"),
    ):
        assert dut.hello() and dut.self_test(SHA256)
    with (
        talking(*ready_for(("hello", [])), timeout_s=0.25) as dut,
        pytest.raises(DeviceTransient, match=r"no answer to 'hello' within 0\.25 s"),
    ):
        assert dut.prepare(SHA256, 1.5e-3) and dut.prepare(SHA256, 1.5e-3)


def test_whoever_watches_the_bench_ends_the_silence(monkeypatch):
    monkeypatch.setattr("labctl.dut_link._WATCH_INTERVAL_S", 0.05)

    def watch():
        raise DeviceStable("the core stopped")

    peer = Peer([("hello", [HELLO]), (PREPARE, [])])
    dut = Dut(peer.port, 2.0, BOARD, watch)
    with pytest.raises(DeviceStable, match="the core stopped"):
        dut.prepare(SHA256, 1.5e-3)
    dut.close()
    peer.finish()


def test_silence_within_a_report_is_the_short_one():
    """After the first line the others follow at once: the link's time-out holds, and is the one named."""
    script = ready_for(("go", ["data cycles 0 1"]))
    with talking(*script, timeout_s=0.25) as dut:
        dut.prepare(SHA256, 1.5e-3)
        with pytest.raises(DeviceTransient, match=r"answered by 1 line\(s\), then by nothing within 0\.25 s"):
            dut.go(60.0)


def test_a_wrong_result_before_the_series_is_told_by_what_happened():
    """Also where no warm-up was asked for: the firmware runs an operation once, to know its window."""
    with talking(("hello", [HELLO]), (PREPARE, ["err output the warm-up gave a wrong result"])) as dut:
        with pytest.raises(WrongOutput, match="a wrong result on the DUT in the run before the series") as caught:
            dut.prepare(SHA256, 1.5e-3)
        assert "warm-up" not in str(caught.value)


def test_silence_in_a_series_names_the_bound():
    with talking(*ready_for(("go", [b"data cyc"]))) as dut:
        dut.prepare(SHA256, 1.5e-3)
        with pytest.raises(DeviceTransient, match=r"no answer to 'go' within 0\.2 s.*data cyc"):
            dut.go(0.2)


def test_garbage_shows_the_first_bytes_and_asks_for_the_baud_rate():
    with (
        talking(("hello", [b"\xf8\x00\xe6\n"]), timeout_s=0.3) as dut,
        pytest.raises(DeviceTransient, match=r"garbage.*f8 00 e6.*115200 baud"),
    ):
        dut.hello()


def test_endless_garbage_without_newline_is_bounded():
    with (
        talking(("list", [b"\xff" * 5000]), ("list", [b"\xff" * 5000]), ("list", [b"\xff" * 5000])) as dut,
        pytest.raises(DeviceTransient, match="garbage"),
    ):
        dut.list_operations()


def test_wrong_checksum_in_hello():
    with (
        talking(("hello", [HELLO.encode() + b"*0000\n"]), timeout_s=0.3) as dut,
        pytest.raises(DeviceTransient, match="wrong checksum"),
    ):
        dut.hello()


def test_firmware_of_another_board_names_both():
    with (
        talking(("hello", [HELLO.replace(BOARD, "stm32f4discovery")])) as dut,
        pytest.raises(DeviceStable, match="firmware for stm32f4discovery, but the bench names stm32vldiscovery"),
    ):
        dut.hello()


@pytest.mark.parametrize("version", ["1", "3"])
def test_other_protocol_version(version: str):
    with (
        talking(("hello", [HELLO.replace("proto=2", f"proto={version}")])) as dut,
        pytest.raises(DeviceStable, match=f"protocol version {version}, labctl speaks 2: flash the firmware"),
    ):
        dut.hello()


def test_dead_crystal_is_refused():
    with (
        talking(("hello", [HELLO.replace("clock=crystal", "clock=internal")])) as dut,
        pytest.raises(DeviceStable, match=r"crystal .* did not start"),
    ):
        dut.hello()


def test_something_else_that_speaks_the_line_format():
    with (
        talking(("hello", ["err command hello"]), timeout_s=0.3) as dut,
        pytest.raises(DeviceStable, match="another firmware"),
    ):
        dut.hello()


def test_failed_known_answer():
    with (
        talking(("hello", [HELLO]), ("kat", ["err kat sha256 abc, FIPS 180"])) as dut,
        pytest.raises(DeviceStable, match=r"self-test.*sha256 abc, FIPS 180"),
    ):
        dut.self_test()


def test_wrong_output_is_never_a_result():
    done = "ok done runs=3 check=fail crc32=00000000 bad_run=1"
    with talking(*ready_for(("go", ["data cycles 0 1 2 3", done]))) as dut:
        dut.prepare(SHA256, 1.5e-3)
        with pytest.raises(DeviceStable, match=r"wrong result on the DUT \(run 1\)"):
            dut.go(2.0)


def test_output_that_only_the_dut_calls_right():
    done = DONE[:-8] + "DEADBEEF"
    with talking(*ready_for(("go", ["data cycles 0 1 2 3", done]))) as dut:
        dut.prepare(SHA256, 1.5e-3)
        with pytest.raises(DeviceStable, match="DEADBEEF is not the one computed here"):
            dut.go(2.0)


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        (["data cycles 0 1 2", DONE], "2 of 3 runs"),
        ([DONE], "0 of 3 runs"),
        (["data cycles 0 1 2 3", DONE.replace("runs=3", "runs=2")], "not of 3 runs"),
        (["data cycles 0 1", "data cycles 2 3", DONE], "a part of the report is missing"),
        (["data cycles 0 1 2 3", "ok done runs=3 check=pass"], "no checksum of the output"),
        (["data", DONE], "'data ' is no part of a report"),
        (["data ", DONE], "'data ' is no part of a report"),
        (["data  ", DONE], "is no part of a report"),
        (["data cycles", DONE], "'data cycles' is no part of a report"),
        (["data cycles 0", DONE], "'data cycles 0' is no part of a report"),
        (["data cycles 0 1 x 3", DONE], "'data cycles 0 1 x 3' is no part of a report"),
        (["data ticks 0 1 2 3", DONE], "'data ticks 0 1 2 3' is no part of a report"),
        ([BANNER], "reset in the middle of 'go'"),
    ],
)
def test_broken_report(replies: list[str | bytes], reason: str):
    with talking(*ready_for(("go", replies))) as dut:
        dut.prepare(SHA256, 1.5e-3)
        with pytest.raises(DeviceTransient, match=reason):
            dut.go(2.0)


def test_error_in_a_series():
    with talking(*ready_for(("go", ["err failed run=2 status=-0x4E80"]))) as dut:
        dut.prepare(SHA256, 1.5e-3)
        with pytest.raises(DeviceStable, match="run=2 status=-0x4E80"):
            dut.go(2.0)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("err range bytes: 16 to 16384", "16 to 16384"),
        ("err memory 412 bytes are missing in the heap", "412 bytes are missing"),
        ("err unsupported piece: this mode takes its message whole", "takes its message whole"),
    ],
)
def test_what_the_firmware_has_not_can_be_told_from_other_errors(answer: str, reason: str):
    with talking(("hello", [HELLO]), (PREPARE, [answer])) as dut, pytest.raises(Unsupported, match=reason):
        dut.prepare(SHA256, 1.5e-3)


def test_an_argument_that_it_does_not_know_is_no_lack():
    with talking(("hello", [HELLO]), (PREPARE, ["err argument runs"])) as dut, pytest.raises(ConfigError) as caught:
        dut.prepare(SHA256, 1.5e-3)
    assert not isinstance(caught.value, Unsupported)


def test_unknown_operation_is_answered_by_the_list():
    command = "prepare op=sha265 runs=20 n=1 pause_us=1000"
    names: list[str | bytes] = ["data ops null,sha256", "ok list n=2"]
    with (
        talking(("hello", [HELLO]), (command, ["err operation sha265"]), ("list", names)) as dut,
        pytest.raises(Unsupported, match=r"'sha265'; did you mean 'sha256'\? it knows null, sha256"),
    ):
        dut.prepare(Operation("sha265"), 1e-3)


@pytest.mark.parametrize("pause_s", [-1e-3, 10.1, float("nan")])
def test_bad_pause_never_reaches_the_wire(pause_s: float):
    with talking() as dut, pytest.raises(ConfigError, match="pause"):
        dut.prepare(SHA256, pause_s)


def test_other_implementation_never_reaches_the_wire():
    with talking() as dut, pytest.raises(Unsupported, match="mbedtls, not by 'compact'"):
        dut.prepare(Operation("sha256", implementation="compact"), 1e-3)


def test_series_without_preparation():
    with talking() as dut, pytest.raises(DeviceStable, match="none was prepared"):
        dut.finish(1.0)


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(DeviceTransient, match="cannot be opened"):
        Dut(f"socket://127.0.0.1:{port}")


def test_port_that_does_not_exist():
    with pytest.raises(DeviceTransient, match="check the name of the port"):
        Dut("/dev/no-such-port")


def test_link_that_breaks():
    listener = socket.create_server(("127.0.0.1", 0))
    dut = Dut(f"socket://127.0.0.1:{listener.getsockname()[1]}", 2.0)
    connection, _ = listener.accept()
    connection.close()
    listener.close()
    with pytest.raises(DeviceTransient, match="the serial link broke"):
        dut.list_operations()
    dut.close()


def test_only_a_port_that_was_just_closed_is_waited_for(monkeypatch):
    rests = []
    monkeypatch.setattr("labctl.dut_link.time.sleep", lambda rest_s: rests.append(rest_s > 0))
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        for listener in (one, one, other):
            DutLink(f"socket://127.0.0.1:{listener.getsockname()[1]}", 1.0).close()
    assert rests == [False, True, False]


def test_what_came_at_once_is_taken_at_once():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = DutLink(f"socket://127.0.0.1:{listener.getsockname()[1]}", 1.0)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"one\ntwo\n")
            assert link.read_line(time.monotonic() + 10.0) == b"one"
            assert link.pending == b"two\n"
        link.close()
