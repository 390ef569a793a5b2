"""Published tables: the data against where they were retyped from, ratios in closed form, what is compared."""

from __future__ import annotations

import csv
import json
import math
import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from labctl import boards, cli
from labctl.errors import ConfigError
from labctl.operations import NAMES
from labctl.published.compare import Found, chosen, compare, of_memory, to_measure
from labctl.published.tables import Column, half_step_of, load, value_of
from labctl.publishedsurvey import Quick, measure_published
from labctl.report.published import NO_CITATION, cell, to_json

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "captures" / "golden" / "stm32vldiscovery-sha256-64.h5"
REFERENCE = ROOT.parent / "shared" / "reference"
TABLES = {table.name: table for table in load()}


def run(capsys, *arguments):
    status = cli.run(["published", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def found(**changed):
    plain = Found("stm32f7discovery", "aes-128-ctr", 64, "mbedtls", "Os", 216_000_000, "", True,
                  {"duration": (162e-6, 8.1e-6), "power_at_5v": (286e-3, None), "current": (57.2e-3, None)}, ("a.h5",))
    return replace(plain, **changed)


@pytest.mark.parametrize("name", TABLES)
def test_the_data_are_those_of_the_reference(name):
    path = REFERENCE / f"{name}.csv"
    if not path.is_file():
        pytest.skip(f"{path} is not there: this is a checkout without the reference")
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    assert [dict(row) for row in TABLES[name].rows] == rows
    # What the table says is a number, is one, of the size and unit that the column's name tells.
    scales = {"_us": ("s", "1e-6"), "_s": ("s", "1"), "_a": ("A", "1"), "_w": ("W", "1"), "_hz": ("Hz", "1"),
              "_mbit_s": ("bit/s", "1e6"), "_mib_s": ("MiB/s", "1"), "_bytes": ("bytes", "1"), "_mib": ("MiB", "1")}
    for column in TABLES[name].columns:
        suffix = max((one for one in scales if column.name.endswith(one)), key=len, default=None)
        if suffix is not None:
            unit, scale = scales[suffix]
            assert column.unit == unit
            for row in rows:
                text = row[column.name]
                assert value_of(column, text) == (float(Decimal(text) * Decimal(scale)) if text else None)


def test_every_file_of_the_reference_is_there():
    if not REFERENCE.is_dir():
        pytest.skip(f"{REFERENCE} is not there: this is a checkout without the reference")
    assert {path.stem for path in REFERENCE.glob("*.csv")} == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_each_table_tells_its_origin_and_names_what_there_is(name):
    table = TABLES[name]
    assert table.origin.startswith("Published ") and table.title
    assert "reference/" not in table.origin  # no file that is not in the project
    assert set(table.operations.values()) <= set(NAMES)
    assert set(table.operations) <= {row["operation"] for row in table.rows if "operation" in row}
    for row in table.rows:
        board = table.board_of(row)
        if board in boards.names() and table.clock_of(row):
            assert table.clock_of(row) in boards.load(board)["clocks_hz"]
        for column, region in (("flash_bytes", "flash"), ("ram_bytes", "ram")):
            if board in boards.names() and row.get(column):
                assert boards.load(board)["memory"][region]["size_bytes"] == int(row[column])


def test_the_gains_of_the_accelerators_lie_where_their_rounded_inputs_allow():
    """t_sw/t_hw and (I_sw t_sw)/(I_hw t_hw), each input anywhere within half a unit of its last digit."""
    table = TABLES["cc26x2_accelerators"]
    columns = {column.name: column for column in table.columns}

    def span(row, name):
        value, half = value_of(columns[name], row[name]), half_step_of(columns[name], row[name])
        return value - half, value + half

    for row in table.rows:
        if not row["sw_s"]:
            continue
        (sw, hw), (sw_a, hw_a) = [[span(row, f"{kind}_{unit}") for kind in ("sw", "hw")] for unit in ("s", "a")]
        low, high = sw[0] / hw[1], sw[1] / hw[0]
        for name, a, b in (("time_improvement", low, high),
                           ("energy_improvement", low * sw_a[0] / hw_a[1], high * sw_a[1] / hw_a[0])):
            stated = span(row, name)
            assert stated[0] <= b and a <= stated[1], (row["operation"], row["bytes"], name)


@pytest.mark.parametrize(
    ("text", "exponent", "value", "half"),
    [("486e-6", 0, 486e-6, 0.5e-6), ("1.94e-3", 0, 1.94e-3, 5e-6), ("7.1", 0, 7.1, 0.05), ("231", 0, 231, 0.5),
     ("3833", -6, 3833e-6, 0.5e-6), ("128.6", 6, 128.6e6, 0.05e6), ("", 0, None, None)],
)
def test_half_a_unit_of_the_last_digit(text, exponent, value, half):
    column = Column("x", "x", "s", exponent)
    assert value_of(column, text) == value
    assert half_step_of(column, text) == (half if half is None else pytest.approx(half, rel=1e-12))


@pytest.mark.parametrize(
    ("column", "text", "printed"),
    [
        (Column("x", "x", "s", rounded=True), "1578e-6", "~1.578 ms"),
        (Column("x", "x", "W"), "38e-3", "38 mW"),
        (Column("x", "x", "W", rounded=True), "", "not published"),
        (Column("bytes", "x", "bytes"), "", ""),
        (Column("bytes", "x", "bytes", quantity="memory"), "", "not published"),
        (Column("x", "x", "s", -6), "11719", "11719"),
        (Column("percent", "x"), ">20", ">20"),
    ],
)
def test_a_value_is_printed_with_the_digits_published(column, text, printed):
    assert cell(column, text) == printed


def test_ratios_are_found_over_published():
    pairs = compare([TABLES["cortexm_discovery"]], [found()])
    by_quantity = {pair.column.quantity: pair for pair in pairs}
    assert set(by_quantity) == {"duration", "power_at_5v"}
    time, power = by_quantity["duration"], by_quantity["power_at_5v"]
    # 162 µs over 81 µs, 286 mW over 143 mW; the uncertainty is 5 % of the value.
    assert time.ratio == pytest.approx(2, rel=1e-12) and power.ratio == pytest.approx(2, rel=1e-12)
    assert time.ratio_expanded == pytest.approx(0.1, rel=1e-12) and power.ratio_expanded is None
    row = to_json([TABLES["cortexm_discovery"]], pairs)["comparisons"][0]
    assert row["ratio"] == time.ratio and row["published_half_step"] == pytest.approx(0.5e-6) and row["rounded"]


@pytest.mark.parametrize(
    "changed",
    [{"clock_hz": 108_000_000}, {"board": "stm32f4discovery"}, {"operation": "aes-128-ctr.encrypt"},
     {"values": {"duration": (math.nan, None)}}],
)
def test_what_was_done_otherwise_is_not_compared(changed):
    assert compare([TABLES["cortexm_discovery"]], [found(**changed)]) == []


def test_a_message_size_must_be_the_published_one():
    board = {"board": "launchxl-cc26x2r1", "clock_hz": 48_000_000, "operation": "sha256"}
    table = TABLES["cc26x2_accelerators"]
    sizes = {n: compare([table], [found(**board, bytes=n)]) for n in (64, 65, 8000)}
    assert [len(pairs) for pairs in sizes.values()] == [2, 0, 2]
    published = {pair.column.quantity: pair.published for pair in sizes[8000]}
    assert published == {"duration": 10.4e-3, "current": 3.10e-3}


def test_memory_is_compared_by_kind():
    row = {"board": "stm32f0discovery", "operation": "ecdsa-p256.sign", "ram_bytes": 100, "stack_bytes": 1400,
           "heap_bytes": 1500, "flash_bytes": 12500, "clock_hz": 48_000_000}
    (ram,) = compare([TABLES["cortexm_discovery_memory"]], [of_memory(row, True, "m.json")])
    assert (ram.published, ram.value, ram.ratio) == (1500, 3000, 2)
    (flash,) = compare([TABLES["cortexm_discovery_memory"]],
                       [of_memory(row | {"operation": "ecdsa-p256.full"}, True, "m.json")])
    assert (flash.published, flash.ratio) == (25000, 0.5)


def test_rows_are_chosen_by_board_and_operation():
    assert {table.name for table in chosen("stm32f4*", None)} == {"cortexm_discovery", "cortexm_discovery_memory"}
    # Either name of an operation does.
    for name in ("ecdsa-p256", "ecdsa sign+verify (preloaded key)"):
        (table,) = chosen(None, name)
        assert len(table.rows) == 4
    with pytest.raises(ConfigError, match="did you mean 'stm32f7discovery'"):
        chosen("stm32f7discover", None)
    with pytest.raises(ConfigError, match="did you mean 'sha256'"):
        chosen(None, "sha265")


def test_what_to_measure_is_what_is_published_of_our_boards():
    wanted = to_measure(load(), boards.names())
    assert set(wanted) == set(boards.names())
    assert wanted["stm32vldiscovery"] == (["aes-128-ctr", "sha256", "ecdsa-p256"], [])
    assert wanted["launchxl-cc26x2r1"][1] == [64, 8000, 16000]


def test_the_page_has_80_columns_and_every_table(capsys):
    status, out, _ = run(capsys)
    assert status == 0
    assert all(len(line) <= 80 for line in out.splitlines())
    said = " ".join(out.split())
    assert all(table.title in said and table.origin in said for table in load())
    assert said.count(NO_CITATION) == 1
    assert "5.0 V times the current" in out and "on-chip timer" in out and "not published" in out


def test_the_json_is_strict_and_null_where_nothing_was_published(capsys):
    status, out, _ = run(capsys, "--json")
    document = json.loads(out, parse_constant=pytest.fail)
    assert status == 0 and document["schema"] == "labctl.published/1"
    tables = {table["name"]: table for table in document["tables"]}
    assert set(tables) == set(TABLES) and document["comparisons"] == []
    first, second = tables["cortexm_discovery"]["rows"][:2]
    assert first["mean_power_w"] is None and second["mean_power_w"] == 38e-3 and second["duration_s"] == 1578e-6
    assert tables["cortexm_discovery_memory"]["rows"][0]["percent"] == ">20"


def test_memory_from_a_file_stands_beside_what_was_published(capsys, tmp_path):
    memory = tmp_path / "memory.json"
    row = {"board": "stm32vldiscovery", "operation": "aes-128-ctr", "ram_bytes": 100, "stack_bytes": 500,
           "heap_bytes": 200, "flash_bytes": 1, "clock_hz": 24_000_000, "bytes": 64, "profile": "Os"}
    memory.write_text(json.dumps({"schema": "labctl.memory/1", "emulated": True, "results": [row]}))
    status, out, _ = run(capsys, str(memory))
    assert status == 0 and "emulated" in out and all(len(line) <= 80 for line in out.splitlines())
    (line,) = [line for line in out.splitlines() if line.startswith("  aes-128-ctr, 64 B")]
    assert line.split()[-2:] == ["800", "0.500"]  # 800 bytes over 1600
    assert "as a row of: STM32 Discovery boards: time and power;" in " ".join(out.split())
    assert "5.0 V times the current" not in out  # notes are with the tables alone
    memory.write_text('{"schema": "another/1"}')
    status, _, err = run(capsys, str(memory))
    assert status == 1 and "another/1" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--profile", "O0"], "go with --measure"), (["--variant", "ecp=plain"], "go with --measure"),
     (["--bytes", "64"], "go with --measure"), (["--measure", "--variant", "ecp=slow"], "ecp=tuned|plain"),
     (["--measure", "."], "not from both"),
     (["--measure", "--board", "atmega8"], "has no board"), (["no-such-folder"], "does not exist")],
)
def test_usage_errors(capsys, arguments, words):
    status, _, err = run(capsys, *arguments)
    assert status == 2 and words in " ".join(err.split())


def test_a_folder_without_captures_is_named(capsys, tmp_path):
    status, _, err = run(capsys, str(tmp_path))
    assert status == 2 and "holds no captures (*.h5), nor do the folders in it" in " ".join(err.split())


def test_a_folder_of_folders_stands_for_the_captures_in_these(capsys, tmp_path):
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        shutil.copy(GOLDEN, tmp_path / folder)
    status, out, _ = run(capsys, str(tmp_path), "--json")
    assert status == 0
    sources = {path for pair in json.loads(out)["comparisons"] for path in pair["captures"]}
    assert sources == {str(tmp_path / folder / GOLDEN.name) for folder in ("first", "second")}


def test_settings_reach_the_survey_and_a_published_size_stays(monkeypatch, tmp_path):
    choices = []
    monkeypatch.setattr("labctl.publishedsurvey.survey", lambda wanted, *_: choices.append(wanted.choice) or [])
    quick = Quick(tmp_path, ("Os", "O0"), ("plain", "ecp=plain"), (128,))
    assert list(measure_published(load(), quick, print, print)) == []
    sizes = {choice.boards[0]: choice.sizes for choice in choices}
    assert sizes == {board: (64, 8000, 16000) if board == "launchxl-cc26x2r1" else (128,) for board in boards.names()}
    assert {(choice.profiles, choice.variants) for choice in choices} == {(quick.profiles, quick.variants)}
    # Signatures have no message: none is asked for.
    choices.clear()
    list(measure_published(chosen("stm32f4*", "ecdsa*"), quick, print, print))
    assert [choice.sizes for choice in choices] == [()]


def test_a_quick_run_measures_what_it_prints(capsys, tmp_path):
    status, out, _ = run(capsys, "--measure", "--board", "stm32vldiscovery", "--op", "sha256", "--out", str(tmp_path),
                         "--json")
    document = json.loads(out)
    assert status == 0 and document["emulated"]
    (pair,) = document["comparisons"]
    assert pair["published"] == 1124e-6 and pair["ratio"] == pytest.approx(pair["value"] / 1124e-6, rel=1e-12)
    assert (pair["board"], pair["operation"], pair["bytes"]) == ("stm32vldiscovery", "sha256", 64)
    # The same captures give the same from their files.
    status, out, _ = run(capsys, str(tmp_path), "--op", "sha256", "--board", "stm32vldiscovery", "--json")
    assert status == 0 and json.loads(out) == document
