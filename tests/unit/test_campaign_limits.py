"""Times of day, clocks, hooks' addresses, and what Ctrl-C once and twice do."""

import contextlib
import datetime
import http.server
import json
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from labctl import interrupts
from labctl.campaign import budget, hooks
from labctl.campaign.failures import classify
from labctl.campaign.journal import Journal
from labctl.campaign.model import Attempt
from labctl.errors import BusyFault, ConfigError, DiskFull, FileFault, LabctlError

from .campaign_synthetic import FakeClocks


@pytest.mark.parametrize(
    ("now", "until", "expected"),
    [
        ("2026-11-30 22:10", "07:00", "2026-12-01 07:00"),
        ("2026-11-30 06:59", "07:00", "2026-11-30 07:00"),
        ("2026-11-30 07:00", "07:00", "2026-12-01 07:00"),
        ("2026-12-31 23:59", "00:00", "2027-01-01 00:00"),
    ],
)
def test_the_next_such_time(now, until, expected):
    moment = budget.next_time(datetime.time.fromisoformat(until), datetime.datetime.fromisoformat(now))
    assert moment == datetime.datetime.fromisoformat(expected)


def test_a_budget_without_limits_is_never_used_up():
    assert budget.Budget().used_up(FakeClocks().clocks, 10**15) == ""


def test_a_budget_made_now_ends_when_its_time_is_over():
    clocks = FakeClocks()
    made = budget.make(clocks.clocks, max_time_s=60.0)
    clocks.now_s += 59.0
    assert made.used_up(clocks.clocks) == ""
    clocks.now_s += 1.0
    assert "time" in made.used_up(clocks.clocks)


def test_utc_text_to_the_millisecond():
    clocks = FakeClocks()
    clocks.ahead_s = -clocks.now_s + 0.25
    assert clocks.clocks.utc_text() == "1970-01-01T00:00:00.250Z"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DiskFull("full"), "disk"), (BusyFault("held"), "transient"), (ConfigError("no"), "stable"),
        (FileFault("no"), "stable"), (LabctlError("no"), "stable"), (MemoryError(), "stable"),
        (ConnectionResetError(), "transient"), (TimeoutError(), "transient"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_classes_of_failures(error, kind):
    assert classify(error) == kind


@pytest.fixture
def address():
    """Serve one address that keeps what is posted; /no refuses."""
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(500 if self.path == "/no" else 204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", got
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_address_gets_the_object_by_post(address):
    where, got = address
    assert hooks.call(where, {"event": "finish", "done": 3}) is None
    assert got == [{"event": "finish", "done": 3}]


def test_an_address_that_refuses(address):
    assert hooks.call(f"{address[0]}/no", {}) == hooks.Trouble("the address answered with status 500")


def test_an_address_that_answers_a_byte_at_a_time_is_left():
    # Each byte comes within the time-out of a read; the answer as a whole never does.
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip():
            with server.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not ended.wait(0.02):
                    with contextlib.suppress(OSError):
                        connection.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        trouble = hooks.call(f"http://127.0.0.1:{server.getsockname()[1]}/", {}, 0.3)
        ended.set()
        thread.join()
    assert trouble == hooks.Trouble("the address did not answer within 0.3 s")


@pytest.mark.parametrize("address", ["http://[::1/", "http://a:b/", "http://\ud800/", "http://127.0.0.1:9/a b"])
def test_an_address_that_is_none_raises_nothing(address):
    assert "address" in hooks.call(address, {}).text


def test_an_object_that_is_no_json_raises_nothing():
    assert "cannot be called" in hooks.call(("true",), {"elapsed_s": float("nan")}).text


def test_what_a_command_leaves_in_the_background_is_not_waited_for(tmp_path):
    told = tmp_path / "pid"
    trouble = hooks.call(("sh", "-c", f"sleep 60 & echo $! > {told}"), {}, 10.0)
    os.kill(int(told.read_text()), signal.SIGKILL)
    assert trouble is None


def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path):
    told = tmp_path / "pid"
    trouble = hooks.call(("sh", "-c", f"sleep 60 & echo $! > {told}; echo so far >&2; wait"), {}, 0.5)
    assert trouble == hooks.Trouble("the command did not end within 0.5 s", "so far")
    stat = Path(f"/proc/{told.read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_command_that_is_not_there_is_named_before():
    assert "'no-such-program-here'" in hooks.missing(("no-such-program-here", "x"))
    assert [hooks.missing(hook) for hook in (("sh", "-c", "x"), "http://127.0.0.1:9/", None)] == ["", "", ""]


def test_the_first_press_is_a_wish_and_the_second_ends_at_once():
    told = []
    with interrupts.at_second(lambda: told.append(1)) as wish:
        assert not wish.asked
        signal.raise_signal(signal.SIGINT)
        assert wish.asked
        interrupts.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert told == [1]
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()
    interrupts.reset()


def test_termination_is_a_wish_too_and_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with interrupts.at_second() as wish:
        signal.raise_signal(signal.SIGTERM)
        assert wish.asked
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_wish_during_something_that_must_not_be_broken_is_heard_after_it():
    with interrupts.at_second() as wish:
        with interrupts.held():
            signal.raise_signal(signal.SIGINT)
            assert not wish.asked
        assert wish.asked


def test_bytes_are_counted_over_all_processes():
    tally = budget.Tally(("left", "right"), 1000)
    process = os.fork()
    if not process:
        tally.add("left", 20)
        os._exit(0)
    os.waitpid(process, 0)
    tally.add("right", 3)
    assert tally.n_bytes == 1023


@pytest.mark.parametrize(("budget_bytes", "left_bytes"), [(None, None), (1000, 700), (300, 0), (100, 0)])
def test_what_is_left_of_a_budget_of_disk(budget_bytes, left_bytes):
    sizes = (100, 0, 200)
    attempts = tuple(
        Attempt(n, "k", 1, "done", True, "", "", 1.0, capture_bytes=size) for n, size in enumerate(sizes, 1)
    )
    assert budget.left_bytes(budget_bytes, Journal(attempts, ())) == left_bytes
