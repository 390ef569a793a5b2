"""Many combinations in one command, on the emulated boards: rows, truth, what is missing, and which image runs."""

from __future__ import annotations

import json
import shutil

import pytest

from labctl import boards, firmware
from labctl.analysis.comparison import ratio
from labctl.analysis.result import analyze
from labctl.combinations import Choice
from labctl.errors import ConfigError, DeviceStable, EnvironmentFault, Unsupported
from labctl.firmware import COMPILER, Image, ensure, image_for
from labctl.measure import Plan
from labctl.model import MissingRow, Operation
from labctl.simulation import Simulation
from labctl.store import open_capture
from labctl.survey import Survey, survey

pytestmark = pytest.mark.timeout(600)
BOARD = "stm32vldiscovery"
MIB = 2**20


def images(board: str, *operations: Operation) -> None:
    """Have these operations' images, or skip where nothing can build them."""
    needed = [image_for(boards.load(board), operation) for operation in operations]
    if not all(image.built for image in needed) and shutil.which(COMPILER) is None:
        pytest.skip("arm-none-eabi-gcc is not installed: make test installs it")
    for image in needed:
        ensure(image)


def holds_the_truth(row: dict) -> None:
    for key, expanded, truth in (
        ("energy_mean_j", "energy_expanded_j", "truth_energy_j"),
        ("power_mean_w", "power_expanded_w", "truth_power_w"),
        ("duration_mean_s", "duration_expanded_s", "truth_duration_s"),
    ):
        # One seed in twenty may lie outside 95 %; none lies outside twice that.
        assert abs(row[key] - row[truth]) < 2 * row[expanded], (row["operation"], key)


@pytest.fixture(scope="module")
def matrix(elf, labctl, tmp_path_factory):
    """Measure operations, sizes and variants of one image, some of which there are not."""
    folder = tmp_path_factory.mktemp("matrix")
    arguments = ["--op", "sha256", "--op", "aes-128-gcm.*crypt", "--op", "sm3", "--bytes", "16", "--bytes", "256"]
    arguments += ["--variant", "plain", "--variant", "key=inside", "--variant", "piece=16,offset=1"]
    done = labctl("measure", "--shunt", "1.3", *arguments, "--runs", "3", "--json", cwd=folder, status=4)
    return folder, json.loads(done.stdout), done.stderr


def test_every_combination_is_a_row_or_is_missing(matrix):
    _, document, _ = matrix
    rows = [(r["operation"], r["bytes"], r["variant"]) for r in document["results"]]
    lacking = [(r["operation"], r["bytes"], r["variant"]) for r in document["missing"]]
    names = ("sha256", "aes-128-gcm.encrypt", "aes-128-gcm.decrypt", "sm3")
    variants = ("", "key=inside", "piece=16,offset=1")
    assert sorted(rows + lacking) == sorted((n, size, v) for n in names for size in (16, 256) for v in variants)
    assert set(lacking) == {(name, size, "key=inside") for name in ("sha256", "sm3") for size in (16, 256)}
    assert {row["implementation"] for row in document["results"] if row["operation"] == "sm3"} == {"portable"}
    for row in document["missing"]:
        assert "no key set-up of its own" in row["reason"]
        assert (row["board"], row["profile"], row["clock_hz"]) == (BOARD, "Os", 24_000_000)


def test_missing_rows_are_told_and_counted(matrix):
    _, _, stderr = matrix
    said = " ".join(stderr.split())
    assert "4 of 24 rows are missing" in said
    assert (
        "no result for sha256 (16 B, key=inside), sha256 (256 B, key=inside), sm3 (16 B, key=inside), "
        "sm3 (256 B, key=inside): the DUT refuses: key:"
    ) in said


def test_each_row_holds_the_truth(matrix):
    _, document, _ = matrix
    for row in document["results"]:
        holds_the_truth(row)
        assert not any("disagree" in sentence for sentence in row["warnings"]), row["warnings"]


def test_what_the_settings_do(matrix):
    """Throughput and cycles per byte by their definitions; key set-up, many pieces and bytes each cost cycles."""
    _, document, _ = matrix
    cycles = {}
    for row in document["results"]:
        assert (row["profile"], row["clock_hz"]) == ("Os", 24_000_000)
        assert row["throughput_mib_s"] == pytest.approx(row["bytes"] / row["duration_mean_s"] / MIB)
        assert row["cycles_per_byte"] == pytest.approx(row["cycles_mean"] / row["bytes"])
        cycles[row["operation"], row["bytes"], row["variant"]] = row["cycles_mean"]
    for (name, size, variant), counted in cycles.items():
        if variant == "key=inside" or (variant and size == 256):
            assert counted > cycles[name, size, ""]
        if size == 256:
            assert counted > 4 * cycles[name, 16, variant] / 3
    # Setting a key up costs the same, however long the message.
    for name in ("aes-128-gcm.encrypt", "aes-128-gcm.decrypt"):
        setups = [cycles[name, size, "key=inside"] - cycles[name, size, ""] for size in (16, 256)]
        assert setups[0] == pytest.approx(setups[1], rel=0.01)


def test_captures_of_one_image_share_range_zero_and_null(matrix):
    folder, document, _ = matrix
    seen = set()
    for row in document["results"]:
        with open_capture(folder / row["captures"][0]) as capture:
            channel = capture.records["series"].channels[capture.wiring.shunt_channel]
            seen.add((channel.scale, channel.offset, capture.records["zero"].granted["utc"], capture.null_report))
            assert capture.operation.variant == row["variant"]
    assert len(seen) == 1


def test_rows_are_told_apart_on_the_page(matrix, labctl):
    folder, document, _ = matrix
    paths = [row["captures"][0] for row in document["results"]]
    lines = labctl("analyze", *paths, cwd=folder, COLUMNS="80").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "All rows: 24 MHz, profile Os." in lines
    named = [line.partition("  ")[0] for line in lines if line.startswith("sm3, ")]
    assert set(named) == {
        "sm3, 16 B, plain", "sm3, 256 B, plain", "sm3, 16 B, piece=16, offset=1", "sm3, 256 B, piece=16, offset=1",
    }
    again = json.loads(labctl("analyze", *paths, "--json", cwd=folder).stdout)
    assert again["results"] == document["results"]


def test_profiles_and_clocks_are_images_of_their_own(labctl, tmp_path):
    clocks_hz = (24_000_000, 8_000_000)
    images(BOARD, *(Operation("sha256", profile=p, clock_hz=hz) for p in ("Os", "O0") for hz in clocks_hz))
    arguments = ["--op", "sha256", "--op", "null", "--profile", "Os", "--profile", "O0", "--clock", "24MHz"]
    done = labctl("measure", "--shunt", "1.3", *arguments, "--clock", "8 MHz", "--runs", "3", "--json", cwd=tmp_path)
    rows = {(r["operation"], r["profile"], r["clock_hz"]): r for r in json.loads(done.stdout)["results"]}
    assert len(rows) == 8
    builds = set()
    for (_, profile, clock_hz), row in rows.items():
        holds_the_truth(row)
        assert not any("disagree" in sentence for sentence in row["warnings"]), row["warnings"]
        with open_capture(tmp_path / row["captures"][0]) as capture:
            assert (capture.manifest["profile"], capture.manifest["clock_hz"]) == (profile, clock_hz)
            assert capture.board["clock_hz"] == clock_hz
            builds.add(capture.manifest["build"])
    assert len(builds) == 4
    for profile in ("Os", "O0"):
        fast, slow = rows["sha256", profile, 24_000_000], rows["sha256", profile, 8_000_000]
        # RM0041: no wait states at either, so the same cycles, each three times as long.
        assert slow["cycles_mean"] == fast["cycles_mean"]
        assert slow["duration_mean_s"] == pytest.approx(3 * fast["duration_mean_s"], rel=200e-6)
        assert slow["power_mean_w"] < fast["power_mean_w"]
    assert rows["sha256", "O0", 24_000_000]["cycles_mean"] > 1.5 * rows["sha256", "Os", 24_000_000]["cycles_mean"]


def test_boards_are_benches_of_their_own(labctl, tmp_path):
    """Their rows stand on one page; of their errors only the scope's clock is the same one."""
    names = ("stm32f0discovery", "stm32f4discovery", "stm32f7discovery", "launchxl-cc26x2r1")
    for name in names:
        images(name, Operation("sha256"))
    arguments = [option for name in names for option in ("--board", name)]
    arguments += ["--op", "sha256", "--bytes", "1024", "--runs", "3", "--json"]
    document = json.loads(labctl("measure", "--shunt", "500 mohm", *arguments, cwd=tmp_path).stdout)
    rows = document["results"]
    assert [row["board"] for row in rows] == list(names)
    for row in rows:
        holds_the_truth(row)
        assert row["clock_hz"] == boards.load(row["board"])["clock_hz"]
        assert not any("disagree" in sentence for sentence in row["warnings"]), row["warnings"]
        # ARM DDI 0432: the M0 has no cycle counter, and nothing fakes one.
        assert (row["cycles_mean"] is None) == (row["board"] == "stm32f0discovery")
        assert (row["cycles_per_byte"] is None) == (row["cycles_mean"] is None)
    bench = document["bench"]
    assert (bench["supply_v"], bench["shunt_ohm"], bench["emulated"]) == (None, 0.5, True)
    assert {name: facts["supply_v"] for name, facts in bench["boards"].items()} == {
        name: boards.load(name)["supply"]["node_mcu_v"] for name in names
    }
    results = []
    for row in rows[1:3]:
        with open_capture(tmp_path / row["captures"][0]) as capture:
            results.append(analyze(capture))
    shared = ratio(*results, "energy").shared_keys
    assert not any(what in key for key in shared for what in ("supply", "decoupling"))
    assert any(key.startswith("shunt") for key in shared)


def test_an_image_that_is_not_there_costs_its_rows_alone(elf, tmp_path, monkeypatch):
    def only_usual(image: Image, progress):
        if image.profile != "Os":
            raise EnvironmentFault("no compiler")
        return image.path

    monkeypatch.setattr("labctl.survey.ensure", only_usual)
    lacking: list[MissingRow] = []
    choice = Choice(names=("null", "busy"), profiles=("O3", "Os"), n_runs=2)
    wanted = Survey(choice, Plan((), tmp_path / "out"), None, lambda f: f, print)
    paths = list(survey(wanted, missing=lacking.append))
    assert len(paths) == 2
    assert [(row.operation.name, row.operation.profile, str(row.error)) for row in lacking] == [
        ("null", "O3", "no compiler"), ("busy", "O3", "no compiler"),
    ]
    alone = Survey(Choice(names=("null",), profiles=("O3",)), Plan((), tmp_path / "out"), None, lambda f: f, print)
    with pytest.raises(EnvironmentFault, match="no compiler"):
        list(survey(alone))


def test_what_does_not_fit_goes_into_smaller_images(elf, tmp_path, monkeypatch):
    """At worst each operation alone; what fits in none is missing, with the bytes that it lacks."""
    tried: list[str] = []

    def small(image: Image, progress):
        tried.append(image.name)
        if image.name in ("all", "aes", "op-aes-128-ecb"):
            raise Unsupported(f"{image.name}: 12 bytes missing in ram")
        return ensure(image, progress)

    images(BOARD, Operation("sha256"))
    for name in ("others", "null"):
        ensure(Image(BOARD, name, "Os", 24_000_000))
    monkeypatch.setattr("labctl.survey.ensure", small)
    lacking: list[MissingRow] = []
    choice = Choice(names=("sha256", "aes-128-ecb", "sm3"), n_runs=2)
    paths = list(survey(Survey(choice, Plan((), tmp_path / "out"), None, lambda f: f, print), missing=lacking.append))
    names = []
    for path in paths:
        with open_capture(path) as capture:
            names.append((capture.operation.name, capture.manifest["image"]))
    assert names == [("sha256", "others"), ("sm3", "others")]
    assert tried == ["all", "others", "aes", "op-aes-128-ecb"]
    assert [(row.operation.name, str(row.error)) for row in lacking] == [
        ("aes-128-ecb", "op-aes-128-ecb: 12 bytes missing in ram")
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--op", "sha265"], 2, ["does not know the operation 'sha265'; did you mean 'sha256'?"]),
        (["--op", "sha256", "--clock", "48MHz"], 2, ["stm32vldiscovery runs at 24 MHz, 8 MHz, not at 48 MHz"]),
        (["--op", "aes-128-ecb", "--bytes", "17"], 2, ["whole blocks of 16"]),
        (["--op", "sha256", "--bytes", "16384"], 2, ["missing in the heap, which holds", "messages of up to"]),
        (["--op", "sha256", "--variant", "slow"], 2, ["'slow' is none of"]),
        (["--op", "null", "--bytes", "16"], 2, ["--bytes is for operations with a message"]),
        (["--op", "des-*"], 2, ["no operation fits 'des-*'"]),
    ],
)
def test_where_nothing_is_left_the_reason_is_the_error(elf, labctl, tmp_path, arguments, status, words):
    done = labctl("measure", "--shunt", "1.3", *arguments, "--json", cwd=tmp_path, status=status)
    said = " ".join(done.stderr.split())
    assert done.stdout == ""
    for word in words:
        assert word in said
    assert not list(tmp_path.glob("captures/*"))


@pytest.fixture
def desk(tmp_path):
    """The emulated instruments through a bench file, as real ones would be, with a firmware of -O0 at 8 MHz."""
    operation = Operation("sha256", profile="O0", clock_hz=8_000_000)
    images(BOARD, operation)
    simulation = Simulation(boards.at_clock(BOARD, 8e6), 1, elf=image_for(boards.load(BOARD), operation).path)
    try:
        simulation.start(simulation.bench_file())
        addresses = simulation.addresses
        (tmp_path / "desk.toml").write_text(
            '[bench]\nname = "desk"\n[shunt]\nresistance_ohm = 1.3\ndecoupling_f = 4.7e-6\n'
            f'[scope]\ndriver = "keysight-infiniivision"\nresource = "{addresses["scope"]}"\n'
            f'[dut]\nboard = "{BOARD}"\nport = "{addresses["dut"]}"\npower = "{addresses["power"]}"\n'
        )
        yield tmp_path
    finally:
        simulation.stop()


def test_what_nobody_chose_is_what_is_flashed(desk, labctl):
    done = labctl("measure", "--bench", "desk.toml", "--op", "sha256", "--runs", "3", "--json", cwd=desk)
    (row,) = json.loads(done.stdout)["results"]
    assert (row["profile"], row["clock_hz"]) == ("O0", 8_000_000)
    assert row["duration_mean_s"] == pytest.approx(row["cycles_mean"] / 8e6, rel=100e-6)


def test_another_firmware_than_asked_is_to_be_flashed(desk, labctl):
    arguments = ["--bench", "desk.toml", "--op", "sha256", "--profile", "Os"]
    done = labctl("measure", *arguments, "--json", cwd=desk, status=2)
    said = " ".join(done.stderr.split())
    assert "profile O0 and not Os: flash another" in said
    assert "labctl firmware flash --board stm32vldiscovery --image all --profile Os --clock 24MHz" in said
    assert "nobody is at the keyboard" in said


def test_a_person_who_flashed_nothing_is_told_so(desk):
    from labctl.bench import find_bench_file

    asked: list[str] = []
    wanted = Survey(Choice(names=("sha256",), profiles=("O2",)), Plan((), desk / "out"),
                    find_bench_file(desk / "desk.toml"), lambda f: f, asked.append)
    with pytest.raises(DeviceStable, match="built with profile O0 and not O2"):
        list(survey(wanted))
    assert len(asked) == 1


def test_a_clock_for_every_board():
    for name in boards.names():
        board = boards.load(name)
        assert board["clock_hz"] == board["clocks_hz"][0]
        for clock_hz in board["clocks_hz"]:
            found = boards.at_clock(name, clock_hz)
            supply = {**board["supply"], "current_typical_a": found["supply"]["current_typical_a"]}
            assert found == {**board, "clock_hz": clock_hz, "supply": supply}
        with pytest.raises(ConfigError, match=f"{name} runs at"):
            boards.at_clock(name, 1e6)
    assert firmware.default_image("stm32f0discovery").name == "aes"


def test_a_crystal_is_no_reference_without_a_counter(labctl, tmp_path):
    """ARM DDI 0432: the M0 counts no cycles that a duration could be compared with."""
    images("stm32f0discovery", Operation("null"))
    arguments = ["--against", "crystal", "--board", "stm32f0discovery"]
    done = labctl("calibrate", "timebase", *arguments, cwd=tmp_path, status=2)
    assert "no cycle counter" in " ".join(done.stderr.split())
