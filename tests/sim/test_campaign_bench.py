"""A campaign on a bench that a file describes: the emulated instruments, reached as real ones would be."""

import tomllib

import pytest

from labctl import benchlock, boards
from labctl.benchfile import parse_bench
from labctl.campaign import journal
from labctl.campaign.drive import Options, begin, resume
from labctl.campaign.plan import load_plan
from labctl.campaign.work import Show
from labctl.errors import BusyFault, ConfigError, DeviceStable
from labctl.simulation import Simulation

BOARD = "stm32vldiscovery"
PLAN = """
[campaign]
name = "desk-night"
runs = 2
order = "listed"
backoff = "100 ms"
[factors]
boards = ["{board}"]
operations = ["sha256"]
bytes = [16, 32]
profiles = ["{profile}"]
[bench]
file = "desk.toml"
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr("labctl.bench.OPEN_TIMEOUT_S", 3.0)
    monkeypatch.setattr("labctl.bench.DUT_TIMEOUT_S", 3.0)
    monkeypatch.setenv(benchlock.FOLDER_VARIABLE, str(tmp_path / "locks"))


@pytest.fixture
def simulation(elf):
    simulation = Simulation(boards.load(BOARD), seed=1)
    simulation.start(simulation.bench_file())
    yield simulation
    simulation.stop()


@pytest.fixture
def desk(simulation, tmp_path):
    """Write a bench file for the simulator; give its folder and addresses."""
    where = simulation.addresses

    def write(board=BOARD, profile="Os", power=where["power"], rest=""):
        (tmp_path / "desk.toml").write_text(
            '[bench]\nname = "desk-3"\n[shunt]\nresistance_ohm = 1.3\ndecoupling_f = 4.7e-6\n'
            f'[scope]\ndriver = "keysight-infiniivision"\nresource = "{where["scope"]}"\n'
            f'[dut]\nboard = "{BOARD}"\nport = "{where["dut"]}"\npower = "{power}"\n'
        )
        (tmp_path / "plan.toml").write_text(PLAN.format(board=board, profile=profile) + rest)
        return load_plan(tmp_path / "plan.toml")

    return write


class Told(Show):
    """Does something when an item comes to its series."""

    def __init__(self, n=1, work=lambda: None):
        self.notes, self._n, self._work, self._item = [], n, work, None

    def began(self, item, attempt):
        self._item = item.number, attempt

    def stage(self, text):
        if self._item == (self._n, 1) and text.endswith(" runs"):
            self._item = None
            self._work()

    def note(self, text):
        self.notes.append(text)


def test_a_scope_that_vanishes_is_waited_for_and_costs_one_attempt(desk, simulation, tmp_path):
    def unplug():
        simulation.set_faults({"scope": {"vanish_after_bytes": 0, "return_after_s": 4.0}})

    show = Told(2, unplug)
    summary = begin(desk(), tmp_path / "night", Options(), show)
    assert (summary.exit_status, summary.state.n_done) == (0, 2)
    found = journal.read(tmp_path / "night")
    assert [(one.item, one.number, one.state) for one in found.attempts] == [
        (1, 1, "done"), (2, 1, "failed"), (2, 2, "done"),
    ]
    assert [event.kind for event in found.events] == ["begin", "pause", "go-on", "end"]
    assert any("Waiting for it" in note for note in show.notes)


def test_a_scope_that_stays_away_ends_it_and_a_resume_goes_on(desk, simulation, tmp_path):
    plan = desk()
    show = Told(2, lambda: simulation.set_faults({"scope": {"vanish_after_bytes": 0}}))
    summary = begin(plan, tmp_path / "night", Options(wait_s=1.0), show)
    assert (summary.ending.kind, summary.exit_status) == ("lost", 1)
    assert (summary.state.n_done, summary.state.n_failed, summary.state.n_pending) == (1, 0, 1)
    # The operator is told where to look, and the folder, which is handed on, what is away.
    address = simulation.addresses["scope"]
    assert any(address in note for note in show.notes)
    (pause,) = [event for event in journal.read(tmp_path / "night").events if event.kind == "pause"]
    assert "the oscilloscope" in pause.text
    simulation.set_faults({})
    with pytest.raises(ConfigError, match="--plan"):
        resume(tmp_path / "night", None, Options(), Show())
    other = tmp_path / "other.toml"
    other.write_text((tmp_path / "desk.toml").read_text().replace("resistance_ohm = 1.3", "resistance_ohm = 2.6"))
    for given in (plan, None):
        with pytest.raises(ConfigError, match=r"shunt resistance_ohm was 1\.3 when the campaign began and is 2\.6 now"):
            resume(tmp_path / "night", given, Options(bench_file=other), Show())
    assert resume(tmp_path / "night", None, Options(bench_file=tmp_path / "desk.toml"), Show()).exit_status == 0
    for file in (tmp_path / "night").rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert b"127.0.0.1" not in data, file.name
            assert str(tmp_path).encode() not in data, file.name


def test_a_limit_that_is_passed_switches_the_supply_off(desk, simulation, tmp_path):
    summary = begin(desk(rest='[limits]\ncurrent = "1 mA"\n'), tmp_path / "night", Options(), Show())
    assert summary.exit_status == 1
    assert "1.00 mA" in summary.ending.text
    assert simulation.ask(cmd="status")["engine"] == "off"


def test_a_bench_in_use_is_named_with_its_holder(desk, tmp_path):
    plan = desk()
    file = parse_bench(tomllib.loads((tmp_path / "desk.toml").read_text()), "desk.toml")
    with benchlock.hold(file), pytest.raises(BusyFault, match="by process"):
        begin(plan, tmp_path / "night", Options(), Show())
    assert not (tmp_path / "night").exists()


def test_other_firmware_than_asked_is_flashed(desk, tmp_path, monkeypatch):
    flashed = []
    monkeypatch.setattr("labctl.flash.flash", lambda flashing, quiet: flashed.append(flashing.image))
    with pytest.raises(DeviceStable, match="flashed and is still"):
        begin(desk(profile="O2"), tmp_path / "night", Options(), Show())
    assert [(image.board, image.profile) for image in flashed] == [(BOARD, "O2")]


def test_a_board_without_a_place_of_its_own(desk, tmp_path):
    with pytest.raises(ConfigError, match=r"\[\[dut\]\]"):
        begin(desk(board="stm32f4discovery"), tmp_path / "night", Options(), Show())


def test_a_supply_that_somebody_has_to_switch(desk, tmp_path):
    with pytest.raises(ConfigError, match="manual"):
        begin(desk(power="manual"), tmp_path / "night", Options(), Show())


def test_wrong_wiring_is_found_before_the_first_item(desk, simulation, tmp_path):
    plan = desk()
    simulation.set_faults({"trigger": "disconnected"})
    with pytest.raises(DeviceStable, match="trigger"):
        begin(plan, tmp_path / "night", Options(), Show())
    assert not (tmp_path / "night").exists()
