"""Times of day, clocks, hooks' addresses, and what Ctrl-C once and twice do."""

import datetime
import http.server
import json
import signal
import threading

import pytest

from labctl import interrupts
from labctl.campaign import budget, hooks
from labctl.campaign.failures import classify
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
    assert hooks.call(where, {"event": "finish", "done": 3}) == ""
    assert got == [{"event": "finish", "done": 3}]


def test_an_address_that_refuses(address):
    assert hooks.call(f"{address[0]}/no", {}) == "the address answered with status 500"


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
