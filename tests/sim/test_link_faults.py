"""The InfiniiVision driver over links on which something is wrong: right data, or an error that says what; in time."""

import contextlib
import re
import time

import numpy as np
import pytest

from instruments.drivers.keysight_infiniivision import KeysightInfiniiVision
from instruments.errors import BadData, InstrumentError, InstrumentTimeout, LinkLost, Rejected, WrongIdentity
from instruments.protocols import AcquisitionSettings, ChannelSettings, TriggerSettings
from instruments.sim.circuit import Circuit
from instruments.sim.hislip import HislipServer
from instruments.sim.infiniivision import InfiniiVision
from instruments.sim.linkfaults import KINDS, PROFILES, check
from instruments.sim.server import ScpiServer
from instruments.sim.vxi11 import Vxi11Server
from instruments.sim.world import World

# A session that fails to open leaves its socket to the garbage collector (pyvisa-py 0.8.1).
pytestmark = pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning")

CLOCK_HZ = 24e6
QUIET_A, BUSY_A = 4e-3, 10e-3
# Of one exchange with the instrument; a measurement is bounded by the few that may fail in it.
TIMEOUT_S = 0.3
TRANSPORTS = {"socket": ScpiServer, "hislip": HislipServer, "vxi11": Vxi11Server}
SETTINGS = AcquisitionSettings(
    channels=(ChannelSettings("CH1", 0.08, 0.02), ChannelSettings("CH2", 8.0, 2.0)),
    trigger=TriggerSettings("CH2", 1.65),
    span_s=2e-6,
    pre_s=1e-6,
    n_segments=3,
)
RIGHT = None
EXPECTED = {
    "fragments": RIGHT,
    "line-end-missing": RIGHT,
    "line-end-late": RIGHT,
    "line-end-extra": RIGHT,
    "line-end-never": InstrumentTimeout,
    "stale-reply": InstrumentTimeout,
    "stale-block": BadData,
    "stall": InstrumentTimeout,
    "stall-until-reopened": InstrumentTimeout,
    "closed-in-block": LinkLost,
    "unplugged": LinkLost,
    "silent": InstrumentTimeout,
    "unknown-length": BadData,
    "no-data": BadData,
    "text-before-block": BadData,
    "nul-before-block": BadData,
    "length-too-long": BadData,
    "length-too-short": BadData,
    "short-page": BadData,
    "page-cap": BadData,
    "headers-and-units": (BadData, Rejected),
    "zero-increment": BadData,
    "opc-never": InstrumentTimeout,
    "opc-at-once": RIGHT,
    "lost-arm": InstrumentTimeout,
    "stuck-index": BadData,
    "full-queue": Rejected,
    "endless-queue": BadData,
    "query-interrupted": RIGHT,
    "busy": RIGHT,
    "busy-too-long": InstrumentTimeout,
}
# What a link that marks the end of a message is not disturbed by.
MARKED = {"line-end-never": RIGHT}


class Rig:
    """A scope on a world whose DUT gives pulses when it is told, its server, and the driver."""

    def __init__(self, transport, **options):
        self.world = World(Circuit(1.3, 3.3, 4.7e-6, 30e-6, CLOCK_HZ, 3.3))
        self.world.parked(0, QUIET_A)
        self.scope = InfiniiVision(lambda: self.world, 1, {1: "shunt", 2: "trigger"}, **options)
        self.server = TRANSPORTS[transport]("scope", self.scope)
        self.cycle = 0
        self.driver = None

    def open(self):
        self.driver = KeysightInfiniiVision.open(self.server.resource, TIMEOUT_S, TIMEOUT_S)
        return self.driver

    def reopen(self):
        """Leave the driver as a program does that gives up, and come again."""
        self.driver.close()
        end_s = time.monotonic() + 20
        while True:
            with contextlib.suppress(LinkLost):
                return self.open()
            assert time.monotonic() < end_s
            time.sleep(0.02)

    def run(self, n_cycles, current_a):
        self.cycle += n_cycles
        self.world.current(np.array([self.cycle], np.uint64), np.array([current_a], np.float32))

    def pulses(self, n):
        self.world.woken()
        self.run(4800, QUIET_A)
        for _ in range(n):
            self.world.pin(self.cycle, 1)
            self.run(480, BUSY_A)
            self.world.pin(self.cycle, 0)
            self.run(4800, QUIET_A)
        self.world.parked(self.cycle, QUIET_A)

    def arm(self):
        # The first arming of a process waits for the simulator's kernels to be compiled.
        self.driver.arm(TIMEOUT_S if {"arm", "opc"} & set(self.server.fault.entries) else 20.0)

    def measure(self):
        self.driver.configure(SETTINGS)
        self.arm()
        self.pulses(SETTINGS.n_segments)
        assert self.driver.wait(5.0) == SETTINGS.n_segments
        return self.driver.fetch()

    def memory(self, name):
        """Read what the scope holds of a channel, past every link: uint8 of shape (segments, samples)."""
        asked = f":WAV:SOUR CHAN{name[2:]};POIN MAX;POIN:MODE RAW;:WAV:SEGM:ALL 1;:WAV:DATA?;:WAV:SEGM:ALL 0"
        data = b"".join(p.encode("latin-1") if isinstance(p, str) else bytes(p) for p in self.scope.execute(asked))
        return np.frombuffer(data[10:-1], np.uint8).reshape(SETTINGS.n_segments, -1)

    def holds(self, record):
        """Check a record bit for bit against the scope's memory."""
        for name, channel in record.channels.items():
            assert np.array_equal(channel.codes, self.memory(name))
        assert np.unique(record.channels["CH2"].codes).size > 2
        assert np.isclose(np.diff(record.segment_start_s), 5280 / CLOCK_HZ, rtol=1e-3).all()

    def close(self):
        if self.driver is not None:
            self.driver.close()
        self.server.close()
        self.scope.execute(":STOP")
        self.world.close()


@pytest.fixture(params=list(TRANSPORTS))
def rig(request):
    rig = Rig(request.param)
    yield rig
    rig.close()


def expected(rig, profile):
    return EXPECTED[profile] if isinstance(rig.server, ScpiServer) else (EXPECTED | MARKED)[profile]


def names_what_happened(error, resource):
    """Check that the message has the instrument, a command of its, and something of what came, or did not, back."""
    assert resource in str(error)
    assert re.search(r"[:*]\w{3,}|the read-out|did not arm", str(error)), error
    assert len(str(error)) < 2000


def test_every_profile_is_expected_to_do_something():
    assert set(EXPECTED) == set(PROFILES)
    for name in PROFILES:
        check({"profile": name}, "scope")


def test_an_undisturbed_link_carries_what_the_scope_holds(rig):
    rig.open()
    rig.holds(rig.measure())


@pytest.mark.parametrize("profile", EXPECTED)
def test_right_data_or_an_error_that_says_what_and_the_next_one_works(rig, profile):
    driver = rig.open()
    driver.configure(SETTINGS)
    rig.server.fault.set({"profile": profile})
    start_s = time.monotonic()
    outcome = expected(rig, profile)
    if outcome is RIGHT:
        rig.holds(rig.measure())
    else:
        # A queue that is full is emptied by the *CLS of configuring, and shows where nothing is configured anew.
        act = rig.arm if profile == "full-queue" else rig.measure
        with pytest.raises(outcome) as caught:
            act()
        names_what_happened(caught.value, rig.server.resource)
        # Each exchange has its deadline; at most the failed one, its post-mortem and a stop wait for theirs.
        assert time.monotonic() - start_s < 30
    if not PROFILES[profile].get("once") and "replug_after_s" not in PROFILES[profile]:
        rig.server.fault.set({})
    rig.reopen()
    rig.holds(rig.measure())


@pytest.mark.parametrize("profile", EXPECTED)
def test_what_opens_on_a_disturbed_link_is_the_instrument_or_an_error(rig, profile):
    rig.server.fault.set({"profile": profile} | ({"stall_after_bytes": 10} if "stall" in profile else {}))
    with contextlib.suppress(InstrumentTimeout, LinkLost, BadData, WrongIdentity):
        assert rig.open().identify().vendor == "KEYSIGHT TECHNOLOGIES"
    rig.server.fault.set({})
    rig.open()
    rig.holds(rig.measure())


@pytest.mark.parametrize("cut_bytes", [0, 1, 777, 1998, 3331])
@pytest.mark.parametrize("kind", ["stall_after_bytes", "close_after_bytes", "vanish_after_bytes"])
def test_a_link_cut_anywhere_gives_an_error_and_no_data(rig, kind, cut_bytes):
    rig.open()
    rig.server.fault.set({kind: cut_bytes})
    with pytest.raises(InstrumentError) as caught:
        rig.measure()
    assert isinstance(caught.value, InstrumentTimeout | LinkLost)
    names_what_happened(caught.value, rig.server.resource)
    rig.server.fault.set({})
    rig.reopen()
    rig.holds(rig.measure())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"profile": "none-such"}, "profile 'none-such' is not one of fragments,"),
        ({"nonsense": True}, "'nonsense' is not one of silent,"),
        ({"fragment": -1}, "fragment must be a number of bytes, not -1"),
        ({"stall_after_bytes": True}, "stall_after_bytes must be a number of bytes"),
        ({"line_end": "some"}, "line_end must be one of extra, missing, late, never, not 'some'"),
        ({"length": True}, "length must be one of 1, -1, not True"),
        ({"busy_s": float("inf")}, "busy_s must be a time in seconds"),
        ({"once": 1}, "once must be true or false"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(fault, words):
    with pytest.raises(ValueError, match=words):
        check(fault, "scope")


def test_every_kind_is_part_of_a_profile_or_stands_for_itself():
    used = {name for entries in PROFILES.values() for name in entries}
    assert set(KINDS) - used == {"vanish_after_bytes", "return_after_s"}  # unplug and replug by their older names
