"""The N6705's driver over a link on which something is wrong: right data, or an error that says what; in time."""

import contextlib
import re
import time

import numpy as np
import pytest

from instruments.drivers import n6705_facts
from instruments.drivers.keysight_n6705 import KeysightN6705
from instruments.errors import BadData, InstrumentTimeout, LinkLost, Rejected, WrongIdentity
from instruments.protocols import AcquisitionSettings, ChannelSettings, CurrentSettings, TriggerSettings
from instruments.sim.circuit import Circuit
from instruments.sim.linkfaults import PROFILES
from instruments.sim.n6705 import N6705
from instruments.sim.server import ScpiServer
from instruments.sim.world import World

# A session that fails to open leaves its socket to the garbage collector (pyvisa-py 0.8.1).
pytestmark = pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning")

CLOCK_HZ = 24e6
V_V, QUIET_A, BUSY_A, WINDOW_S = 3.3, 4e-3, 10e-3, 5e-3
# Of one exchange: short where it is waited for in vain, else more than a computer at work needs.
SHORT_S, LONG_S = 0.3, 20.0
# A steady line is looked at as soon as it is asked for, whatever the time: what is recorded hangs on the seed alone.
PACE = 1e9
CHANNELS = (CurrentSettings("I1", 0.1), ChannelSettings("V2", 6.6, 1.65))
SETTINGS = {
    "scope view": AcquisitionSettings(CHANNELS, TriggerSettings("PIN1", 1.65), span_s=0.015, pre_s=0.002),
    "data log": AcquisitionSettings(CHANNELS, TriggerSettings("VOLT2", 1.65), span_s=0.9, pre_s=0.002),
}
# The shortest data log lasts a second, so it has to be chosen for less than what the scope view really holds.
SCOPE_POINTS = 10_000
RIGHT = None
SILENCE = InstrumentTimeout, "no complete answer within"
CUT = r"\d+ of \d+ bytes of the block had arrived"
# Right data, or the error's class and what it tells of what came back.
EXPECTED = {
    "fragments": RIGHT,
    "line-end-missing": RIGHT,
    "line-end-late": RIGHT,
    "line-end-extra": RIGHT,
    "line-end-never": SILENCE,
    "stale-reply": SILENCE,
    "stale-block": (BadData, r"got .*: b'\\x01\\x02\\x03"),
    "stall": (InstrumentTimeout, CUT),
    "stall-until-reopened": (InstrumentTimeout, CUT),
    "closed-in-block": (LinkLost, f"the (connection|instrument) .*{CUT}"),
    "unplugged": (LinkLost, f"the (connection|instrument) .*{CUT}"),
    "silent": SILENCE,
    "unknown-length": (BadData, "got an indefinite-length block.*b'#0"),
    "no-data": (BadData, "gave 0 bytes"),
    "text-before-block": (BadData, "got something else: b'DATA,#"),
    "nul-before-block": (BadData, r"got something else: b'\\x00#"),
    "length-too-long": (BadData, r"the block holds \d+ bytes where at most \d+ were expected"),
    "length-too-short": (BadData, "expected the end of the reply after the block, got b'.+'"),
    "short-page": (BadData, r"gave \d+ bytes"),
    "page-cap": (BadData, "gave 1200 bytes"),
    "headers-and-units": (BadData, r"answered ':?(SYST|MMEM)|got something else: b'FETC:ARR"),
    "lost-arm": (InstrumentTimeout, r"not active within .*no error queued|FileSize.*error queue: -256"),
    "full-queue": (Rejected, "-113,.*-350,"),
    "endless-queue": (BadData, "did not end within 32 entries: -113"),
    "query-interrupted": SILENCE,
    "busy": RIGHT,
    "busy-too-long": SILENCE,
}
# Before a log the queue is emptied, since an instrument may complain where there is no earlier file to remove.
OF_A_LOG = {"full-queue": RIGHT}
# Where a recording is complete and is read: there is nothing more to start.
OF_A_READ_OUT = {"lost-arm": RIGHT}
# What the driver never sends and the profile is about: (pattern, why not).
UNCONCERNED = {
    "zero-increment": (r"WAV", "no preamble is asked for: the interval is set and read back, or stands in the file"),
    "opc-never": (r"\*OPC", "the condition register tells when a recording is complete"),
    "opc-at-once": (r"\*OPC", "the condition register tells when a recording is complete"),
    "stuck-index": (r"SEGM", "a meter records one segment"),
}
CASES = [(mode, profile) for mode in SETTINGS for profile in EXPECTED]


class Rig:
    """The analyser as the supply of a DUT that gives one pulse when it is told, its server, and the driver."""

    def __init__(self, mode):
        self.world = World(Circuit(0.0, V_V, 0.0, 0.0, CLOCK_HZ, 3.3))
        self.world.parked(0, QUIET_A)
        self.meter = N6705(
            lambda: self.world, 1, power=lambda on: None, is_on=lambda: True, regulate=lambda level_v: None,
            level_v=V_V, pace=PACE,
        )  # fmt: skip
        self.server = ScpiServer("meter", self.meter)
        self.settings, self.mode = SETTINGS[mode], mode
        self.cycle = 0
        self.driver = None

    def open(self, timeout_s=LONG_S):
        self.driver = KeysightN6705.open(self.server.resource, timeout_s)
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

    @property
    def n_runs(self):
        """Tell how many recordings were started: each has noise of its own."""
        return self.meter._n_runs

    def pulse(self):
        """Give one, once the part before the trigger is full; nothing waits for it where the start was not heard."""
        while self._condition() & 8 and self.world.end_s < 0.999 * self.granted.pre_s:
            time.sleep(0.002)
        self.world.woken()
        for length_s, current_a, level in ((0.001, QUIET_A, 0), (WINDOW_S, BUSY_A, 1), (0.001, QUIET_A, 0)):
            self.world.pin(self.cycle, level)
            self.cycle += round(length_s * CLOCK_HZ)
            self.world.current(np.array([self.cycle], np.uint64), np.array([current_a], np.float32))
        self.world.parked(self.cycle, QUIET_A)

    def _condition(self):
        return int(str(self.meter.execute("STAT:OPER:COND? (@1)")[0]))

    def arm(self):
        self.driver.arm(SHORT_S if "arm" in self.server.fault.entries else LONG_S)

    def configure(self):
        self.granted = self.driver.configure(self.settings)

    def measure(self):
        self.configure()
        return self.record()

    def record(self):
        self.finish()
        return self.driver.fetch()

    def finish(self):
        self.arm()
        self.pulse()
        assert self.driver.wait(LONG_S) == 1

    def close(self):
        if self.driver is not None:
            self.driver.close()
        self.server.close()
        self.meter.close()
        self.world.close()


@contextlib.contextmanager
def rigged(mode):
    rig = Rig(mode)
    try:
        yield rig
    finally:
        rig.close()


@pytest.fixture(autouse=True)
def short_log(monkeypatch):
    """Let a data log be chosen for less than a second."""
    monkeypatch.setattr(n6705_facts, "POINTS_MAX", SCOPE_POINTS)


@pytest.fixture(scope="module")
def undisturbed():
    """Give recordings of the same seed over a link on which nothing is wrong, by mode and number."""
    with contextlib.ExitStack() as stack:
        rigs, records = {}, {mode: [] for mode in SETTINGS}

        def record(mode, number):
            while len(records[mode]) <= number:
                if mode not in rigs:
                    rigs[mode] = stack.enter_context(rigged(mode))
                    rigs[mode].open()
                records[mode].append(rigs[mode].measure())
                assert rigs[mode].n_runs == len(records[mode])
            return records[mode][number]

        yield record


def is_that_of(record, other):
    """Check that two records are the same to the last bit."""
    assert list(record.channels) == list(other.channels) == ["I1", "V2"]
    for name, channel in record.channels.items():
        assert np.asarray(channel.codes).tobytes() == np.asarray(other.channels[name].codes).tobytes()
    assert (record.dt_s, record.gaps, record.n_samples) == (other.dt_s, (), other.n_samples)
    assert np.array_equal(record.segment_start_s, other.segment_start_s)
    # A word that switches the output off is set only where another one is set.
    granted, others = (
        {name: value for name, value in r.granted.items() if name != "replies"}
        | {name: value for name, value in r.granted["replies"].items() if not name.startswith("EMUL")}
        for r in (record, other)
    )
    assert granted == others


def raises(rig, outcome, act):
    """Check that there is an error of this class, with instrument, a command of its, and what came back."""
    error_class, words = outcome
    start_s = time.monotonic()
    with pytest.raises(error_class, match=words) as caught:
        act()
    # Each exchange has its deadline; at most the failed one, its post-mortem and a stop wait for theirs.
    assert time.monotonic() - start_s < 30
    assert caught.type is error_class
    said = str(caught.value)
    assert rig.server.resource in said
    assert re.search(r"\b[A-Z]{3,4}[a-z]*:\w{3,}|\*[A-Z]{3}\b", said.replace(rig.server.resource, "")), said
    assert len(said) < 2000


def timeout_s(outcome):
    return SHORT_S if outcome is not RIGHT and outcome[0] is InstrumentTimeout else LONG_S


def test_every_profile_stands_in_one_table():
    assert sorted([*EXPECTED, *UNCONCERNED]) == sorted(PROFILES)


@pytest.mark.parametrize("mode", SETTINGS)
def test_what_an_undisturbed_link_carries_is_the_pulse(undisturbed, mode):
    record = undisturbed(mode, 0)
    assert record.granted["mode"] == mode
    current_a, pin_v = (np.asarray(channel.codes[0], float) for channel in record.channels.values())
    high = pin_v > 1.65
    assert high.sum() * record.dt_s == pytest.approx(WINDOW_S, abs=2 * record.dt_s)
    limits = record.channels["I1"].accuracy
    inside = np.flatnonzero(high)[1:-1]
    limit_a = limits.gain_ratio * BUSY_A + limits.offset_limit + 5 * limits.noise_rms / len(inside) ** 0.5
    assert current_a[inside].mean() == pytest.approx(BUSY_A, abs=limit_a)
    assert np.array_equal(inside, np.arange(inside[0], inside[-1] + 1))
    assert current_a[: inside[0] - 2].mean() == pytest.approx(QUIET_A, abs=limit_a)


@pytest.mark.parametrize("mode", SETTINGS)
def test_what_a_profile_is_about_that_is_no_concern_is_never_sent(mode):
    with rigged(mode) as rig:
        heard, execute = [], rig.meter.execute
        rig.meter.execute = lambda message, *more: heard.append(message) or execute(message, *more)
        rig.open()
        rig.measure()
    assert any("FETC:ARR" in message or "MMEM:DATA" in message for message in heard)
    for pattern, _ in UNCONCERNED.values():
        assert not [message for message in heard if re.search(pattern, message.upper())]


@pytest.mark.parametrize(("mode", "profile"), CASES)
def test_right_data_or_an_error_that_says_what_and_the_next_one_works(undisturbed, mode, profile):
    outcome = (EXPECTED | OF_A_LOG if mode == "data log" else EXPECTED)[profile]
    with rigged(mode) as rig:
        rig.open(timeout_s(outcome))
        rig.configure()
        rig.server.fault.set({"profile": profile})
        # A queue that is full is emptied by the *CLS of configuring, and shows where nothing is configured anew.
        act = rig.record if profile == "full-queue" else rig.measure
        if outcome is RIGHT:
            is_that_of(act(), undisturbed(mode, 0))
        else:
            raises(rig, outcome, act)
        if not PROFILES[profile].get("once") and "replug_after_s" not in PROFILES[profile]:
            rig.server.fault.set({})
        rig.reopen()
        is_that_of(rig.measure(), undisturbed(mode, rig.n_runs - 1))


@pytest.mark.parametrize(("mode", "profile"), CASES)
def test_what_strikes_the_read_out_alone_is_told_and_the_same_driver_goes_on(undisturbed, mode, profile):
    outcome = (EXPECTED | OF_A_READ_OUT)[profile]
    with rigged(mode) as rig:
        driver = rig.open(timeout_s(outcome))
        rig.configure()
        rig.finish()
        rig.server.fault.set({"profile": profile})
        if outcome is RIGHT:
            is_that_of(driver.fetch(), undisturbed(mode, 0))
        else:
            raises(rig, outcome, driver.fetch)
        rig.server.fault.set({})
        is_that_of(rig.measure(), undisturbed(mode, 1))


@pytest.mark.parametrize("mode", SETTINGS)
def test_a_read_out_without_its_last_sample_is_noticed(mode):
    with rigged(mode) as rig:
        rig.open()
        rig.configure()
        rig.finish()
        rig.server.fault.set({"short_page": 1 - 1e-6})
        with pytest.raises(BadData, match=r"(FETC:ARR:CURR\? \(@1\)|MMEM:DATA\? .*) gave \d+ bytes"):
            rig.driver.fetch()


@pytest.mark.parametrize("mode", SETTINGS)
def test_a_start_that_is_not_heard_does_not_give_the_recording_before(undisturbed, mode):
    with rigged(mode) as rig:
        driver = rig.open(SHORT_S)
        is_that_of(rig.measure(), undisturbed(mode, 0))
        rig.server.fault.set({"profile": "lost-arm"})
        with pytest.raises(InstrumentTimeout):
            rig.record()
        with pytest.raises(Rejected, match="nothing was recorded"):
            driver.fetch()
        rig.server.fault.set({})
        is_that_of(rig.measure(), undisturbed(mode, 1))


@pytest.mark.parametrize("profile", EXPECTED)
def test_what_opens_on_a_disturbed_link_is_the_instrument_or_an_error(undisturbed, profile):
    with rigged("scope view") as rig:
        rig.server.fault.set({"profile": profile} | ({"stall_after_bytes": 10} if "stall" in profile else {}))
        with contextlib.suppress(InstrumentTimeout, LinkLost, BadData, WrongIdentity):
            assert rig.open(SHORT_S).identify().model == "N6705C"
        if rig.driver is not None:
            rig.driver.close()
        rig.server.fault.set({})
        rig.open()
        is_that_of(rig.measure(), undisturbed("scope view", 0))
