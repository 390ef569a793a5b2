"""One bench with several boards, each an emulated one: which is opened, what is switched, who may use it."""

import contextlib
import json

import pytest

from labctl import benchlock, boards, survey
from labctl.bench import open_bench
from labctl.benchcheck import subjects
from labctl.benchfile import parse_bench
from labctl.combinations import Choice
from labctl.errors import BusyFault, ConfigError
from labctl.measure import Plan
from labctl.model import Operation
from labctl.simulation import Simulation, default_elf
from labctl.store import open_capture

BOARDS = ("stm32vldiscovery", "stm32f4discovery")


def nobody(sentence):
    raise AssertionError(sentence)


@pytest.fixture(scope="module")
def worlds():
    """Two emulated boards; each has a scope of its own, and the bench uses that of the first unless told otherwise."""
    if not all(default_elf(name).is_file() for name in BOARDS):
        pytest.skip("firmware of both boards is not built: run `make firmware`")
    with contextlib.ExitStack() as stack:
        simulations = [Simulation(boards.load(name), seed=1) for name in BOARDS]
        for simulation in simulations:
            stack.callback(simulation.stop)
            simulation.start(simulation.bench_file())
        yield simulations


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    monkeypatch.setenv(benchlock.FOLDER_VARIABLE, str(tmp_path / "locks"))


def table(worlds, scope=0):
    return {
        "bench": {"name": "two"},
        "shunt": {"resistance_ohm": 1.3, "decoupling_f": 4.7e-6},
        "scope": {"driver": "keysight-infiniivision", "resource": worlds[scope].addresses["scope"]},
        "dut": [
            {"board": name, "port": world.addresses["dut"], "power": world.addresses["power"]}
            for name, world in zip(BOARDS, worlds, strict=True)
        ],
    }


def bench_toml(worlds, duts):
    lines = [
        "[shunt]", "resistance_ohm = 1.3", "decoupling_f = 4.7e-6", "[scope]", 'driver = "keysight-infiniivision"',
        f'resource = "{worlds[0].addresses["scope"]}"',
    ]  # fmt: skip
    for dut in duts:
        lines += ["[[dut]]", *(f"{key} = {json.dumps(value)}" for key, value in dut.items())]
    return "\n".join(lines)


def powered(worlds):
    return [world.ask(cmd="status")["engine"] != "off" for world in worlds]


@pytest.mark.parametrize("chosen", [0, 1], ids=BOARDS)
def test_the_board_asked_is_opened_and_the_other_is_off(worlds, chosen):
    file = parse_bench(table(worlds, chosen), "bench.toml")
    with open_bench(file, board_name=BOARDS[chosen], overrides=lambda f: f, ask=nobody) as bench:
        assert bench.dut.hello()["board"] == BOARDS[chosen]
        assert powered(worlds) == [chosen == 0, chosen == 1]


def test_the_first_board_without_a_name_and_none_that_is_not_listed(worlds):
    file = parse_bench(table(worlds), "bench.toml")
    with open_bench(file, board_name=None, overrides=lambda f: f, ask=nobody) as bench:
        assert bench.board["name"] == BOARDS[0]
    with (
        pytest.raises(ConfigError, match="stm32f0discovery is no board of bench 'two'"),
        open_bench(file, board_name="stm32f0discovery", overrides=lambda f: f, ask=nobody),
    ):
        pass


def test_a_bench_in_use_is_refused_with_its_holder(worlds, labctl, tmp_path):
    (tmp_path / "bench.toml").write_text(bench_toml(worlds, table(worlds)["dut"][:1]))
    file = parse_bench(table(worlds), "bench.toml")
    with open_bench(file, board_name=None, overrides=lambda f: f, ask=nobody):
        for command in (("measure", "--op", "idle"), ("bench", "check")):
            done = labctl(*command, cwd=tmp_path, status=3)
            assert "is in use by process" in done.stderr
        with pytest.raises(BusyFault), open_bench(file, board_name=BOARDS[1], overrides=lambda f: f, ask=nobody):
            pass
    assert not (tmp_path / "captures").exists()


def test_an_emulated_bench_of_ones_own_needs_no_lock(elf, tmp_path):
    with open_bench(None, board_name=None, overrides=lambda f: f, ask=nobody):
        assert not (tmp_path / "locks").exists()


def test_a_survey_goes_over_the_boards_and_asks_nobody(worlds, tmp_path):
    """Each emulated board is seen by the scope of its own world only: the file's scope changes with the board."""
    file = parse_bench(table(worlds), "bench.toml")

    def overrides(bench_file):
        index = BOARDS.index(bench_file.dut.board)
        scope = bench_file.scope.model_copy(update={"resource": worlds[index].addresses["scope"]})
        return bench_file.model_copy(update={"scope": scope})

    choice = Choice(boards=(), names=("idle",), n_runs=3)
    plan = Plan((Operation("idle", n_runs=3),), tmp_path / "out")
    wanted = survey.Survey(choice, plan, file, overrides, nobody)
    taken = []
    for path in survey.survey(wanted):
        with open_capture(path) as capture:
            taken.append(capture.board["name"])
    assert taken == list(BOARDS)


def test_each_board_is_checked_unless_one_is_named(worlds, tmp_path, labctl):
    file = parse_bench(table(worlds), "bench.toml")
    assert [subject.board_name for subject in subjects(file, None, None, 1)] == list(BOARDS)
    assert [subject.board_name for subject in subjects(file, None, BOARDS[1], 1)] == [BOARDS[1]]
    (tmp_path / "bench.toml").write_text(bench_toml(worlds, table(worlds)["dut"]))
    # The scope sees the first board's world only, so the second board's signals are a fault.
    done = labctl("bench", "check", "--json", cwd=tmp_path, status=1)
    assert not done.stderr
    findings = {finding["name"]: finding["status"] for finding in json.loads(done.stdout)["findings"]}
    assert findings[f"{BOARDS[0]}: DUT"] == findings[f"{BOARDS[1]}: DUT"] == "ok"
    assert all(status != "fault" for name, status in findings.items() if name.startswith(BOARDS[0]))
    assert any(status == "fault" for name, status in findings.items() if name.startswith(BOARDS[1]))
