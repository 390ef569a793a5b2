"""The bench file: wrong keys and values are named, the nearest valid key suggested, the command line overrides."""

import copy

import pytest

from labctl import boards
from labctl.bench import find_bench_file
from labctl.benchfile import check_value, default_of, is_required, parse_bench
from labctl.benchwiring import check_burden, wiring_of
from labctl.errors import ConfigError

GOOD = {
    "bench": {"name": "desk-3"},
    "supply": {"node": "mcu", "voltage_v": 3.3, "tolerance_ratio": 0.01, "sensed": "source"},
    "shunt": {"resistance_ohm": "1.3 ohm", "wiring": "low-side", "decoupling_f": "4.7 uF"},
    "scope": {"driver": "keysight-infiniivision", "resource": "TCPIP::scope.lab::5025::SOCKET"},
    "dut": {"board": "stm32vldiscovery", "port": "/dev/ttyUSB0"},
}


def changed(section: str, **values: object) -> dict:
    table = copy.deepcopy(GOOD)
    table[section].update(values)
    return table


def test_text_with_units_becomes_si():
    file = parse_bench(GOOD, "bench.toml")
    assert file.shunt.resistance_ohm == 1.3
    assert file.shunt.decoupling_f == pytest.approx(4.7e-6, rel=1e-12)
    assert file.dut.power == "manual"
    assert parse_bench(changed("supply", tolerance_ratio="0.5 %"), "b").supply.tolerance_ratio == 0.005


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (changed("shunt", resistence_ohm=1.3), ["[shunt] resistence_ohm", "did you mean 'resistance_ohm'"]),
        (changed("scope", triger_edge="rising"), ["[scope] triger_edge", "did you mean 'trigger_edge'"]),
        (changed("scope", trigger_edge="up"), ["[scope] trigger_edge", "rising", "falling"]),
        (changed("shunt", resistance_ohm=0), ["[shunt] resistance_ohm", "greater than 0"]),
        (changed("shunt", resistance_ohm=-1.3), ["[shunt] resistance_ohm", "greater than 0"]),
        (changed("shunt", resistance_ohm=float("nan")), ["[shunt] resistance_ohm", "number"]),
        (changed("shunt", resistance_ohm="a bit"), ["resistance_ohm", "1.3 ohm"]),
        (changed("shunt", resistance_ohm=True), ["[shunt] resistance_ohm", "number"]),
        (changed("shunt", wiring="two-channel"), ["shunt_high_channel", "shunt_low_channel"]),
        (changed("scope", shunt_channel=2), ["shunt_channel", "trigger_channel", "both 2"]),
        (changed("scope", shunt_probe_ratio=float("inf")), ["[scope] shunt_probe_ratio", "finite"]),
        (changed("supply", tolerance_ratio="one"), ["[supply] tolerance_ratio", "1 %"]),
        (changed("bench", name=" "), ["[bench] name", "empty"]),
        (changed("bench", name="two\nlines"), ["[bench] name", "line break"]),
        (changed("dut", port="\x1b[31m"), ["[dut] port", "control character"]),
        ({k: v for k, v in GOOD.items() if k != "dut"}, ["[dut] is missing"]),
        ({**GOOD, "shnut": {}}, ["[shnut]", "did you mean 'shunt'"]),
    ],
)
def test_a_wrong_entry_is_named(table, words):
    with pytest.raises(ConfigError) as caught:
        parse_bench(table, "desk.toml")
    assert str(caught.value).startswith("desk.toml: ")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [("shunt", "resistance_ohm", "50 mohm"), ("supply", "tolerance_ratio", "1 %"), ("scope", "trigger_channel", 4)],
)
def test_one_value_is_read_as_in_a_whole_file(section, name, value):
    whole = parse_bench(changed(section, **{name: value}), "b")
    assert check_value(section, name, value) == getattr(getattr(whole, section), name)


@pytest.mark.parametrize(
    ("section", "name", "value", "word"),
    [
        ("shunt", "resistance_ohm", "a bit", "1.3 ohm"),
        ("shunt", "resistance_ohm", -1.0, "greater than 0"),
        ("scope", "trigger_edge", "up", "rising"),
        ("dut", "port", "", "empty"),
    ],
)
def test_one_value_that_cannot_be_is_refused(section, name, value, word):
    with pytest.raises(ConfigError, match=word):
        check_value(section, name, value)


def test_what_a_file_may_leave_out():
    required = {(s, n) for s, table in GOOD.items() for n in table if is_required(s, n)}
    assert required == {
        ("shunt", "resistance_ohm"), ("scope", "driver"), ("scope", "resource"), ("dut", "board"), ("dut", "port")
    }  # fmt: skip
    least = {s: {n: v for n, v in table.items() if (s, n) in required} for s, table in GOOD.items()}
    file = parse_bench({s: table for s, table in least.items() if table}, "least")
    for section in ("bench", "supply", "shunt", "scope", "dut"):
        for name, value in getattr(file, section):
            if (section, name) not in required:
                assert value == default_of(section, name)


def test_command_line_overrides_the_file():
    file = parse_bench(GOOD, "bench.toml").with_values(shunt_ohm=2.2, supply_v=5.0)
    wiring = wiring_of(file, boards.load("stm32vldiscovery"))
    assert wiring.shunt is not None
    assert wiring.supply is not None
    assert (wiring.shunt.resistance_ohm, wiring.supply.voltage_v) == (2.2, 5.0)


def test_board_data_supply_the_voltage_of_the_node():
    table = copy.deepcopy(GOOD)
    del table["supply"]
    wiring = wiring_of(parse_bench(table, "bench.toml"), boards.load("stm32vldiscovery"))
    assert wiring.supply is not None
    assert wiring.supply.voltage_v == 3.3  # UM0919: the MCU's rail


@pytest.mark.parametrize(("resistance_ohm", "words"), [(1300.0, "would drop"), (200.0, "would leave")])
def test_a_shunt_that_starves_the_board_is_refused(resistance_ohm, words):
    with pytest.raises(ConfigError, match=words):
        check_burden(resistance_ohm, 3.3, boards.load("stm32vldiscovery"))


def test_the_usual_shunt_is_accepted():
    check_burden(1.3, 3.3, boards.load("stm32vldiscovery"))


def test_lookup_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert find_bench_file(None) is None
    text = '[shunt]\nresistance_ohm = 1.3\n[scope]\ndriver = "d"\nresource = "r"\n[dut]\nboard = "b"\nport = "p"\n'
    (tmp_path / "config" / "labctl").mkdir(parents=True)
    (tmp_path / "config" / "labctl" / "bench.toml").write_text(text + '[bench]\nname = "users"\n')
    found = find_bench_file(None)
    assert found is not None
    assert found.bench.name == "users"
    (tmp_path / "bench.toml").write_text(text + '[bench]\nname = "folders"\n')
    found = find_bench_file(None)
    assert found is not None
    assert found.bench.name == "folders"


def test_a_missing_bench_file_and_bad_toml_are_said(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        find_bench_file(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[shunt\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        find_bench_file(tmp_path / "bad.toml")


def listed(*duts):
    return {**GOOD, "dut": list(duts)}


VL = {"board": "stm32vldiscovery", "port": "/dev/ttyUSB0"}
F4 = {"board": "stm32f4discovery", "port": "/dev/ttyUSB1", "power": "TCPIP::supply.lab::INSTR"}


def test_several_boards_in_the_order_of_the_file():
    file = parse_bench(listed(VL, F4), "bench.toml")
    assert [dut.board for dut in file.duts] == ["stm32vldiscovery", "stm32f4discovery"]
    assert file.dut == file.duts[0]
    other = file.for_board("stm32f4discovery")
    assert (other.dut.port, other.dut.power) == (F4["port"], F4["power"])
    assert other.duts == file.duts
    assert other.with_values(shunt_ohm=2.0).duts == file.duts
    assert file.for_board(None) == file


def test_a_board_that_the_bench_has_not():
    with pytest.raises(ConfigError, match=r"stm32f0discovery is no board of bench.*stm32vldiscovery, stm32f4discovery"):
        parse_bench(listed(VL, F4), "bench.toml").for_board("stm32f0discovery")


def test_the_one_board_of_a_file_can_be_exchanged_by_hand():
    file = parse_bench(GOOD, "bench.toml")
    assert file.for_board("stm32f4discovery") == file
    assert file.duts == (file.dut,)


@pytest.mark.parametrize(
    ("duts", "words"),
    [
        ([], r"dut"),
        ([VL, {**F4, "prot": "x"}], r"\[\[dut\]\] number 2.*prot.*did you mean 'port'"),
        ([VL, {"board": "stm32f4discovery"}], r"number 2: \[dut\] port is missing"),
        ([VL, {**F4, "board": VL["board"]}], r"board = 'stm32vldiscovery' stands there twice"),
        ([VL, {**F4, "port": VL["port"]}], r"port = '/dev/ttyUSB0' stands there twice"),
        ([VL, 3], r"number 2"),
    ],
    ids=["none", "wrong-key", "missing-key", "board-twice", "port-twice", "no-table"],
)
def test_what_a_list_of_boards_cannot_be(duts, words):
    with pytest.raises(ConfigError, match=words):
        parse_bench(listed(*duts), "bench.toml")
