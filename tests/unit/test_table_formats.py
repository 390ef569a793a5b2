"""Tables in every format, against texts typed by hand; what formats may not let through; numbers that come back."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.errors import ConfigError
from labctl.report.tables.choose import unfitting
from labctl.report.tables.columns import QUANTITIES, Unit, fitting_unit, read_unit, read_units, texts
from labctl.report.tables.latex import number_text, table_format
from labctl.report.tables.render import render
from labctl.report.tables.row import Row, Value, arranged
from labctl.report.tables.sheet import Layout

F4, VL = "stm32f4discovery", "stm32vldiscovery"
COMMON = {"implementation": "mbedtls", "profile": "Os", "bench": "emulated, seed 3", "emulated": True}


def row(board, operation, n_bytes, energy=None, **changes):
    values = {} if energy is None else {"energy": Value(*energy)}
    clock_hz = 168_000_000 if board == F4 else 24_000_000
    return Row(board, operation, n_bytes, clock_hz=clock_hz, values=values, **{**COMMON, **changes})


ROWS = arranged([
    row(VL, "sha256", 64, (9.1942e-6, 2.54e-7)),
    row(F4, "sha256", 64, (5.93e-5, 2.14e-6)),
    row(F4, "sha256", 1024, (0.000412345, 1.51e-5)),
    row(F4, "aes-128-ctr", 64, (1.2e-5, 3.4e-7)),
    row(VL, "sha256", 1024, state="failed", reason="no answer"),
])
ENERGIES = Layout(columns=("board", "operation", "bytes", "energy"))


def test_csv_has_names_then_units_then_every_digit():
    assert render(ROWS, "csv", ENERGIES) == (
        "board,operation,bytes,energy,energy_expanded,state,reason,emulated,passes,power_of\r\n"
        ",,B,J,J,,,,,\r\n"
        "stm32f4discovery,aes-128-ctr,64,1.2e-05,3.4e-07,done,,yes,2,dut\r\n"
        "stm32f4discovery,sha256,64,5.93e-05,2.14e-06,done,,yes,1,dut\r\n"
        "stm32f4discovery,sha256,1024,0.000412345,1.51e-05,done,,yes,1,dut\r\n"
        "stm32vldiscovery,sha256,64,9.1942e-06,2.54e-07,done,,yes,1,dut\r\n"
        "stm32vldiscovery,sha256,1024,,,failed,no answer,yes,1,dut\r\n"
    )


def test_the_semicolon_dialect_has_decimal_commas_and_units_scale_without_losing_a_digit():
    layout = replace(ENERGIES, units={"energy": "uJ"}, where=("board=stm32f4*",))
    assert render(ROWS, "csv", layout, dialect="semicolon").split("\r\n")[1:4] == [
        ";;B;uJ;uJ;;;;;",
        "stm32f4discovery;aes-128-ctr;64;12,0;0,34;done;;yes;2;dut",
        "stm32f4discovery;sha256;64;59,3;2,14;done;;yes;1;dut",
    ]


def test_json_holds_numbers_in_si_and_says_emulated():
    document = json.loads(render(ROWS, "json", ENERGIES))
    assert (document["schema"], document["emulated"], document["power_of"]) == ("labctl.table/1", True, "dut")
    assert document["columns"][2:5] == [
        {"name": "bytes", "unit": "B"}, {"name": "energy", "unit": "J"}, {"name": "energy_expanded", "unit": "J"},
    ]
    assert document["rows"][1] == {
        "board": F4, "operation": "sha256", "bytes": 64, "energy": 5.93e-05, "energy_expanded": 2.14e-06,
        "state": "done", "reason": "", "emulated": True, "passes": 1, "warnings": [],
    }
    assert document["rows"][4]["energy"] is None


def test_markdown_rounds_by_the_uncertainty_and_shares_one_unit():
    assert render(ROWS, "md", Layout(columns=("operation", "bytes", "energy"), where=(f"board={F4}",))) == (
        "Emulated bench: the currents are a model, not silicon.\n"
        "Means per operation, the trigger's cost removed; power and energy are the DUT's, behind the shunt.\n"
        "All rows: stm32f4discovery, mbedtls, profile Os, 168 MHz, bench emulated, seed 3.\n"
        "± is the expanded uncertainty (95 %).\n"
        "\n"
        "| operation | bytes | energy / µJ |\n"
        "| --- | ---: | ---: |\n"
        "| aes-128-ctr\\* | 64 | 12.00 ± 0.34 |\n"
        "| sha256 | 64 | 59.3 ± 2.1 |\n"
        "| sha256 | 1024 | 412 ± 15 |\n"
        "\n"
        "- \\* Two passes: the message is encrypted, then decrypted, and a byte of it counts once for both. One pass "
        "alone: aes-128-ctr.encrypt, .decrypt.\n"
    )


def test_latex_has_s_columns_with_room_for_each_number():
    text = render(ROWS, "tex", Layout(columns=("operation", "bytes", "energy"), where=(f"board={F4}",)))
    assert text[text.index(r"\begin{tabular}") :] == (
        "\\begin{tabular}{lrS[table-format=3.2(2)]}\n"
        "\\toprule\n"
        "{operation} & {bytes} & {energy / \\si{\\micro\\joule}} \\\\\n"
        "\\midrule\n"
        "aes-128-ctr* & 64 & 12.00(34) \\\\\n"
        "sha256 & 64 & 59.3(21) \\\\\n"
        "sha256 & 1024 & 412(15) \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\end{table}\n"
    )
    assert "Emulated bench: the currents are a model, not silicon." in text
    assert r"In parentheses: expanded uncertainty (95 \%) in units of the last digits." in text


def test_a_matrix_has_boards_across_and_says_what_failed():
    assert render(ROWS, "md", Layout(matrix="energy")).split("\n\n")[1:] == [
        "**Energy**",
        "| operation | bytes | stm32f4discovery, 168 MHz / µJ | stm32vldiscovery, 24 MHz / µJ |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| aes-128-ctr\\* | 64 | 12.00 ± 0.34 |  |\n"
        "| sha256 | 64 | 59.3 ± 2.1 | 9.19 ± 0.25 |\n"
        "| sha256 | 1024 | 412 ± 15 | failed |",
        "- \\* Two passes: the message is encrypted, then decrypted, and a byte of it counts once for both. One pass "
        "alone: aes-128-ctr.encrypt, .decrypt.\n- failed: stm32vldiscovery sha256 1024 B: no answer\n",
    ]


def test_a_matrix_for_programs_keeps_numbers_apart_from_what_is_missing():
    rows = list(csv.reader(io.StringIO(render(ROWS, "csv", Layout(matrix="energy", across="bytes")), newline="")))
    assert rows[0] == [
        "board", "operation", "implementation", "profile", "clock", "variant", "role", "repeat",
        "energy 64", "energy 64_expanded", "energy 1024", "energy 1024_expanded", "emulated", "passes", "missing",
        "power_of",
    ]
    assert rows[1][8:12] == ["J"] * 4
    assert rows[1][4] == "Hz"
    assert [line[8:15] for line in rows[2:]] == [
        ["1.2e-05", "3.4e-07", "", "", "yes", "2", ""],
        ["5.93e-05", "2.14e-06", "0.000412345", "1.51e-05", "yes", "1", ""],
        ["9.1942e-06", "2.54e-07", "", "", "yes", "1", "1024 B: failed: no answer"],
    ]


def test_the_terminal_gets_eighty_columns_and_nothing_that_is_a_command_to_it():
    values = {key: Value(1.234567e-3, 2.1e-9) for key in QUANTITIES}
    wild = [
        row(F4, "ecdsa-p256.sign", None, variant=variant, state=state, reason="\x1b[31mred\x1b[0m " + "word " * 40)
        for variant in ("key=inside,piece=16,tables=ram,workspace=static", "")
        for state in ("done", "failed")
    ]
    wild[0] = replace(wild[0], values=values, captures=("x" * 100,))
    text = render(arranged(wild), "text", Layout(captures=True))
    assert max(map(len, text.split("\n"))) <= 80
    assert "\x1b" not in text
    assert "1.2345670 ± 0.0000021" in text
    assert text.startswith("Emulated bench: the currents are a model, not silicon.\n")


@pytest.mark.parametrize(("where", "n"), [
    (("board=stm32v*",), 2), (("bytes=64",), 3), (("clock=168MHz",), 3), (("clock=168 MHz",), 3),
    (("clock=168000000",), 3), (("board=stm32v*", f"board={F4}", "operation=sha*"), 4), (("state=failed",), 1),
    (("variant=plain",), 5), (("variant=key=inside",), 0),
])
def test_patterns_choose_rows(where, n):
    assert len(json.loads(render(ROWS, "json", Layout(where=where)))["rows"]) == n


def test_rows_without_a_result_are_there_unless_only_complete_ones_are_wanted():
    states = [one["state"] for one in json.loads(render(ROWS, "json", Layout(complete=True)))["rows"]]
    assert states == ["done"] * 4


def test_rows_sort_by_value_with_what_is_missing_last():
    def order(*keys):
        rows = json.loads(render(ROWS, "json", Layout(sort=keys)))["rows"]
        return [(one["board"][5:7], one["operation"][:3], one["bytes"]) for one in rows]

    assert order("-energy") == [("f4", "sha", 1024), ("f4", "sha", 64), ("f4", "aes", 64), ("vl", "sha", 64),
                                ("vl", "sha", 1024)]
    assert order("-bytes", "energy") == [("f4", "sha", 1024), ("vl", "sha", 1024), ("vl", "sha", 64), ("f4", "aes", 64),
                                         ("f4", "sha", 64)]


def test_numbers_in_names_sort_by_value():
    names = ["aes-256-ctr", "aes-128-gcm", "aes-128-ctr", "sha256", "sha1024", "sha5"]
    found = arranged(row(F4, name, size) for name in names for size in (1024, None, 64))
    assert [one.operation for one in found[::3]] == ["aes-128-ctr", "aes-128-gcm", "aes-256-ctr", "sha5", "sha256",
                                                     "sha1024"]
    assert [one.bytes for one in found[:3]] == [None, 64, 1024]


def test_what_is_measured_again_is_told_apart_by_its_data_and_not_by_when_it_came():
    again = [row(F4, "sha256", 64, (value, 1e-9)) for value in (3e-6, 1e-6, 2e-6)]
    for rows in (again, again[::-1]):
        found = [(one.repeat, one.values["energy"].number) for one in arranged(rows)]
        assert found == [(1, 1e-6), (2, 2e-6), (3, 3e-6)]
    kept = [row(F4, "sha256", 64, (value, 1e-9), role="reference", repeat=k)
            for k, value in enumerate([3e-6, 1e-6], 1)]
    assert [one.values["energy"].number for one in arranged(kept[::-1])] == [3e-6, 1e-6]


def test_groups_are_sheets_of_their_own_units():
    text = render(ROWS, "md", Layout(group_by=("board", "bytes"), columns=("operation", "energy"), complete=True,
                                     units={"energy": "auto"}))
    assert re.findall(r"\*\*(.*)\*\*", text) == [
        f"{F4}, 64 B, 168 MHz", f"{F4}, 1024 B, 168 MHz", f"{VL}, 64 B, 24 MHz",
    ]
    assert "Clocks" not in text
    assert text.count("| operation | energy / µJ |") == 3


def test_benches_are_told_apart_and_the_emulated_one_is_named():
    rows = arranged([*ROWS, row(F4, "sha256", 64, (6e-5, 1e-6), bench="left", emulated=False)])
    long = render(rows, "md", Layout(columns=("bench", "operation", "energy")))
    assert long.startswith("Emulated bench: the currents are a model, not silicon: emulated, seed 3.")
    assert "| left | sha256 | 60.0 ± 1.0 |" in long
    heads = render(rows, "csv", Layout(matrix="energy")).split("\r\n")[0]
    assert f"energy {F4} 168 MHz left,energy {F4} 168 MHz left_expanded" in heads
    lines = list(csv.DictReader(io.StringIO(render(rows, "csv", Layout(matrix="energy")), newline="")))
    assert [line["emulated"] for line in lines[1:]] == ["yes", "mixed", "yes"]
    assert json.loads(render(rows, "json", Layout()))["emulated"] is None


def test_memory_of_images_and_of_operations_is_told_apart():
    flash = {"flash": Value(32680.0), "ram": Value(896.0), "stack": Value(2816.0)}
    image = row(F4, "sha256", 64, memory_of="image")
    image = replace(image, values=flash)
    own = replace(row(F4, "sha512", 64, memory_of="operation"), values={**flash, "flash": Value(1234.0)})
    one, both = (render(rows, "md", Layout(columns=("operation", "flash"))) for rows in ([image], [image, own]))
    assert "Flash, RAM and stack are of the whole image" in one
    assert "| sha256 | 32680 |" in one
    assert "| sha256 | 32680 | image |\n| sha512 | 1234 | operation |" in both
    line = list(csv.reader(io.StringIO(render([image], "csv", Layout(columns=("flash",))), newline="")))[2]
    assert line[0] == "32680"


@pytest.mark.parametrize(("layout", "word"), [
    (Layout(columns=("enrgy",)), "--columns enrgy"), (Layout(sort=("speed",)), "--sort speed"),
    (Layout(group_by=("energy",)), "--group-by energy"), (Layout(matrix="board"), "--matrix board"),
    (Layout(matrix="energy", across="power"), "--across power"), (Layout(where=("bord=x",)), "--where"),
    (Layout(matrix="energy", columns=("power",)), "--columns"),
    (Layout(matrix="energy", group_by=("board",)), "--across board"),
])
def test_names_that_there_are_not_are_refused_with_those_there_are(layout, word):
    with pytest.raises(ConfigError, match=word):
        render(ROWS, "md", layout)


def test_warnings_are_notes_each_once_with_the_rows_that_it_is_of():
    told = arranged([
        row(F4, "sha256", 64, (1e-6, 1e-8), warnings=("noise of 2.9 mA", "clipped")),
        row(F4, "sha256", 1024, (2e-6, 1e-8), warnings=("noise of 7.6 mA",)),
        row(VL, "sha256", 64, (2e-6, 1e-8), warnings=("clipped",)),
        row(VL, "sm3", 64, (2e-6, 1e-8)),
    ])
    for name in ("md", "tex", "html", "text"):
        text = " ".join(render(told, name, Layout(columns=("energy",))).split())
        assert f"{F4}: noise of 2.9 to 7.6 mA" in text
        assert f"{F4} sha256 64 B, {VL} sha256 64 B: clipped" in text


def test_a_warning_of_all_rows_or_of_many_is_short():
    many = [row(F4, f"sha{n}", 64, (1e-6, 1e-8), warnings=("a", "b") if n else ("a",)) for n in range(9)]
    notes = render(arranged(many), "md", Layout(columns=("energy",))).split("\n\n")[-1].splitlines()
    assert notes == ["- all rows: a", f"- {F4} sha1, {F4} sha2, {F4} sha3 and 5 more: b"]


def test_what_tells_rows_apart_stays_unless_columns_are_to_be_exact():
    heads = render(ROWS, "csv", Layout(columns=("energy",))).split(",energy")[0]
    assert heads == "board,operation,bytes"
    assert render(ROWS, "csv", Layout(columns=("exact", "energy"))).startswith("energy,energy_expanded,state")
    clocks = arranged([*ROWS, row(F4, "sha256", 64, (1e-6, 1e-8), profile="O3")])
    assert "| board | operation | bytes | profile | energy / µJ |" in render(clocks, "md", Layout(columns=("energy",)))


def test_the_rows_of_null_are_said_to_be_the_cost_that_others_have_not():
    null = row(F4, "null", None, (1e-8, 1e-9), role="baseline")
    words = "(in rows of null, which are it, it is there)"
    assert words in render([null, *ROWS], "md", Layout(roles=()))
    assert words not in render([null, *ROWS], "md", Layout())


def test_ciphers_of_two_passes_are_marked_whatever_the_columns():
    rate = {"throughput": Value(2e6, 1e3), "energy": Value(1e-6, 1e-8)}
    rows = [replace(one, values=rate) for one in (row(F4, "aes-128-ctr", 64), row(F4, "aes-128-ctr.encrypt", 64))]
    for layout in (Layout(columns=("throughput",)), Layout(columns=("energy",)), Layout(), Layout(matrix="duration"),
                   Layout(matrix="energy", across="operation"), Layout(group_by=("operation",), columns=("energy",))):
        for name in ("md", "tex", "html", "text"):
            text = " ".join(render(rows, name, layout).replace("\\*", "*").split())
            assert "aes-128-ctr*" in text and not re.search(r"encrypt\*(?!\*)", text)
            assert "* Two passes: the message is encrypted, then decrypted" in text
    alone = render(rows[:1], "md", Layout(columns=("energy",)))
    assert f"All rows: {F4}, aes-128-ctr\\*, 64 B" in alone and "Two passes" in alone
    assert "passes" not in render(rows[1:], "md", Layout(columns=("energy",)))
    for layout in (Layout(columns=("energy",)), Layout(matrix="energy")):
        lines = list(csv.DictReader(io.StringIO(render(rows, "csv", layout), newline="")))[1:]
        assert [(line["operation"], line["passes"]) for line in lines] == [
            ("aes-128-ctr", "2"), ("aes-128-ctr.encrypt", "1"),
        ]
    across = list(csv.DictReader(io.StringIO(render(rows, "csv", Layout(matrix="energy", across="operation")))))[1:]
    assert [line["passes"] for line in across] == ["mixed"]


def test_the_spread_between_runs_has_an_upper_end_and_that_within_a_run_neither():
    # 0.0041 % of two runs: the interval reaches to 0.0117 %.
    values = {"fluctuation_between": Value(4.1e-5, 7.6e-5), "fluctuation_within": Value(0.00712)}
    rows = [replace(row(F4, "sha256", 64), values=values)]
    names = Layout(columns=("fluctuation_between", "fluctuation_within"))
    assert "| 0.0041 (≤ 0.0117) | 0.71 |" in render(rows, "md", names)
    text = " ".join(render(rows, "text", names).split())
    assert "±" not in text
    assert "≤ is the upper end of its interval (95 %)" in text and "as this bench sees it" in text
    assert r"{0.0041 (\ensuremath{\leq} 0.0117)} & 0.71 \\" in render(rows, "tex", names)
    line = next(iter(list(csv.DictReader(io.StringIO(render(rows, "csv", names), newline="")))[1:]))
    assert float(line["fluctuation_between_upper"]) == pytest.approx(1.17e-4, rel=1e-12)
    assert {key for key in line if key.startswith("fluct")} == {
        "fluctuation_between", "fluctuation_between_upper", "fluctuation_within",
    }


def test_lines_of_a_matrix_sort_by_the_values_of_what_they_are():
    clocks = [replace(row(board, "sha256", 64, (1e-6, 1e-8)), clock_hz=hz * 1_000_000)
              for board, hz in ((F4, 8), (F4, 168), (VL, 24))]
    text = render(arranged(clocks), "md", Layout(matrix="energy"))
    assert re.findall(r"\| ([0-9]+) MHz \|", text) == ["8", "24", "168"]
    program = csv.DictReader(io.StringIO(render(arranged(clocks), "csv", Layout(matrix="energy")), newline=""))
    assert [line["clock"] for line in program][1:] == ["8000000", "24000000", "168000000"]


def test_boards_stand_in_one_table_with_the_same_units_in_all_formats():
    for name in ("text", "md", "html", "tex"):
        text = render(ROWS, name, Layout())
        assert text.count("micro" if name == "tex" else "µJ") == 1


@pytest.mark.parametrize(("warning", "column"), [
    ("peak current and greatest power are mostly scope noise (220 µA rms)", "current_max"),
    ("std within runs is rough: more noise was taken off than is left", "fluctuation_within"),
    ("no std within runs: the decoupling is being charged", "fluctuation_within"),
    ("no quiet span beside the windows: no energy net of idle", "energy_net_idle"),
    ("least power is mostly scope noise (220 µA rms)", None),
])
def test_a_warning_of_one_quantity_stands_with_its_column(warning, column):
    values = {key: Value(1e-3, 1e-5) for key in QUANTITIES}
    rows = [replace(row(F4, "sha256", 64, warnings=(warning, "clipped")), values=values)]
    for key in QUANTITIES:
        for layout in (Layout(columns=(key,)), Layout(matrix=key)):
            text = render(rows, "md", layout)
            assert (warning in text, "clipped" in text) == (key == column, True)


def test_a_board_of_one_bench_has_it_said_once():
    one_each = arranged([replace(one, bench="left" if one.board == F4 else "right, seed 5") for one in ROWS])
    for layout in (Layout(columns=("energy",)), Layout(matrix="energy"), Layout(matrix="energy", across="bytes")):
        text = render(one_each, "md", layout)
        assert f"Benches: {F4} left; {VL} right, seed 5." in text
        assert (text.count("left"), text.count("right")) == (1, 1)
    grouped = render(one_each, "md", Layout(group_by=("board",), columns=("energy",)))
    assert re.findall(r"\*\*(.*)\*\*", grouped) == [f"{F4}, 168 MHz, bench left", f"{VL}, 24 MHz, bench right, seed 5"]
    assert "Benches" not in grouped


def test_memory_that_a_group_shares_is_in_its_title():
    rows = [replace(one, values={**one.values, "flash": Value(float(flash)), "ram": Value(600.0)}, memory_of="image")
            for one, flash in zip(ROWS, (68264, 68264, 68264, 67824, 67824), strict=True)]
    text = render(rows, "md", Layout(group_by=("board",)))
    assert re.findall(r"\*\*(.*)\*\*", text) == [f"{F4}, 168 MHz, flash 68264 B", f"{VL}, 24 MHz, flash 67824 B"]
    assert "RAM 600 B." in text and "flash / B" not in text


def test_memory_that_all_rows_share_is_said_once():
    flash = {"flash": Value(68264.0)}
    rows = [replace(row(F4, name, 64, memory_of="image"), values=flash) for name in ("sha256", "sm3")]
    text = render(rows, "md", Layout())
    assert "flash 68264 B." in text and "| 68264 |" not in text
    assert "| 68264 |" in render(rows, "md", Layout(columns=("flash",)))


@pytest.mark.parametrize(("where", "n"), [
    (("bench=emulated, seed 3",), 5), (("bench=emulated",), 5), (("bench=bench",), 5), (("bench=left",), 0),
])
def test_a_bench_is_found_by_the_names_of_table_and_plan(where, n):
    assert len(json.loads(render(ROWS, "json", Layout(where=where)))["rows"]) == n


@pytest.mark.parametrize(("layout", "hint"), [
    (Layout(columns=("enrgy",)), "did you mean 'energy'?"), (Layout(where=("op=sha256",)), "did you mean 'operation'?"),
    (Layout(sort=("-pwoer",)), "did you mean 'power'?"), (Layout(group_by=("bord",)), "did you mean 'board'?"),
    (Layout(matrix="enrgy"), "did you mean 'energy'?"),
])
def test_a_misspelt_name_is_answered_with_the_nearest(layout, hint):
    with pytest.raises(ConfigError, match=re.escape(hint)):
        render(ROWS, "md", layout)


def test_a_pattern_that_fits_nothing_is_named_with_what_is_near():
    assert unfitting(ROWS, ("board=*", "operation=sha265")) == (
        "--where 'operation=sha265' fits none of 5 rows; did you mean 'sha256'?"
    )
    assert unfitting(ROWS, ("operation=sha*",)) == ""


def test_a_table_that_goes_on_does_not_explain_again():
    full = replace(ROWS[0], values={key: Value(1e-3, 1e-5) for key in QUANTITIES})
    text = render([full], "tex", Layout())
    assert text.count(r"\begin{table}") == text.count("Emulated bench") > 1
    assert text.count("Means per operation") == 1


def test_every_latex_table_explains_its_signs_and_the_last_holds_the_notes():
    values = {key: Value(1e-3, 1e-5 if one.uncertain else None) for key, one in QUANTITIES.items()}
    full = replace(ROWS[0], values=values, warnings=("clipped",))
    tables = render([full, replace(full, operation="sha256")], "tex", Layout()).split(r"\begin{table}")[1:]
    assert len(tables) > 1
    assert all("* Two passes" in table for table in tables)
    assert [("(10)" in table) == ("In parentheses" in table) for table in tables] == [True] * len(tables)
    assert [r"\item all rows: clipped" in table.partition(r"\end{table}")[0] for table in tables[-2:]] == [False, True]


def test_no_latex_table_goes_on_for_one_column():
    # Four such numbers fit beside the names, then two wide ones, and one was left.
    rows = [replace(ROWS[0], operation=name, values={key: Value(1.234567e-3, 1e-9) for key in QUANTITIES})
            for name in ("aes-128-ctr", "sha256")]
    text = render(rows, "tex", Layout(columns=tuple(QUANTITIES)[:7]))
    assert [head.count(" & ") for head in re.findall(r"\{operation\}(.*) ", text)] == [3, 2, 2]


def test_control_characters_are_no_commands_to_a_terminal_that_shows_a_csv_file():
    text = render([row(F4, "\x1b[2Jsha256\x9b", None, state="failed", reason="\x07\x00")], "csv", Layout())
    assert "\ufffd[2Jsha256\ufffd" in text
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", text)


# -- Units ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("quantity", "text", "number", "found"), [
    ("energy", "uJ", 5.93e-5, 59.3), ("energy", "µJ", 5.93e-5, 59.3), ("energy", "\u03bcJ", 5.93e-5, 59.3),
    ("power", "mW", 0.0352, 35.2), ("fluctuation_between", "%", 0.0123, 1.23), ("throughput", "KiB/s", 2048.0, 2.0),
    ("throughput", "MB/s", 2.5e6, 2.5), ("flash", "KiB", 32768.0, 32.0), ("duration", "s", 2.5, 2.5),
])
def test_units(quantity, text, number, found):
    assert read_unit(QUANTITIES[quantity], text).of(number) == found


@pytest.mark.parametrize(("values", "symbol"), [
    ([7.3e-6, 12e-6, 25e-3], "µJ"), ([25e-3, 51e-3], "mJ"), ([999e-9], "nJ"), ([1e-6], "µJ"), ([], "J"), ([0.0], "J"),
    ([5e-15], "pJ"), ([7.3e-6, 12e-3], "µJ"), ([60e-9, 5e-3, 6e-3, 7e-3, 8e-3], "mJ"),
])
def test_the_least_awkward_numbers_choose_the_unit(values, symbol):
    assert fitting_unit(QUANTITIES["energy"], [Value(value) for value in values]).symbol == symbol


@pytest.mark.parametrize(("mib_s", "symbol"), [([0.1, 2.9], "MiB/s"), ([0.09, 2.9], "KiB/s")])
def test_throughputs_have_the_unit_of_measure(mib_s, symbol):
    values = [Value(value * 1024**2) for value in mib_s]
    assert fitting_unit(QUANTITIES["throughput"], values).symbol == symbol


def test_units_as_options():
    assert read_units(["energy=uJ,power=auto", "auto"]) == {"energy": "uJ", "power": "auto", "": "auto"}
    with pytest.raises(ConfigError, match="units of energy are pJ, nJ, uJ, mJ, J, kJ, MJ, GJ, or auto"):
        read_units(["energy=kWh"])
    with pytest.raises(ConfigError, match="write QUANTITY=UNIT"):
        read_units(["microjoule"])


@pytest.mark.parametrize(("value", "unit", "found"), [
    (Value(5.93e-5, 2.14e-6), ("µ", 6), ("59.3", "2.1")),
    (Value(0.0258123, 7.14e-4), ("µ", 6), ("25810", "710")),  # an uncertainty above the decimal point
    (Value(-3.2e-6, 9.96e-7), ("µ", 6), ("-3.2", "1.0")),
    (Value(0.0, 2.5e-8), ("n", 9), ("0", "25")),
    (Value(1.23456e-3), ("m", 3), ("1.23", "")),
    (Value(4e-8, 0.0), ("n", 9), ("40", "0")),
])
def test_numbers_for_people(value, unit, found):
    prefix, exponent = unit
    assert texts(value, Unit("J", {"µ": "\u00b5"}.get(prefix, prefix), Decimal(10) ** exponent)) == found


# -- siunitx --------------------------------------------------------------------------------------------------------

SIUNITX_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(\([0-9]+\))?")


@settings(deadline=None)
@given(
    st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-9),
    st.floats(1e-9, 1e6),
)
def test_a_number_in_parentheses_reads_back_as_the_pair_it_was(number, expanded):
    pair = texts(Value(number, expanded), Unit("J"))
    text = number_text(*pair)
    assert SIUNITX_NUMBER.fullmatch(text)
    # siunitx reads digits in parentheses as units of the last digit of the number.
    whole, _, digits = text.rstrip(")").partition("(")
    place = len(whole.partition(".")[2])
    assert Decimal(digits).scaleb(-place) == Decimal(pair[1])
    assert Decimal(whole) == Decimal(pair[0])
    # Rounded by two digits of the uncertainty, so by no more than a twentieth of it; to 15 digits at the most.
    assert abs(float(pair[0]) - number) <= 0.0501 * float(pair[1]) + 5.1e-15 * abs(number)


@pytest.mark.parametrize(("numbers", "found"), [
    (["12.00(34)", "59.3(21)", "412(15)"], "3.2(2)"), (["25810(710)"], "5(3)"), (["-3.2(10)", "0.5(1)"], "-1.1(2)"),
    (["32680", "424"], "5"), (["1.23"], "1.2"),
])
def test_the_format_of_an_s_column(numbers, found):
    assert table_format(numbers) == found


def test_latex_sets_special_signs_and_keeps_texts_out_of_numbers():
    evil = row(F4, r"a_b%c&d#e$f{g}h~i^j\k", None, state="failed", reason="50 % of µ\x07Ω 字 — `x` <y> [z] \"q\" a--b")
    text = render([evil], "tex", Layout(columns=("operation", "energy", "state")))
    assert r"a\_b\%c\&d\#e\$f\{g\}h\textasciitilde{}i\textasciicircum{}j\textbackslash{}k &  & failed \\" in text
    assert r"50 \% of \textmu{} \textohm{} {[}U+5B57{]} {[}U+2014{]} \textasciigrave{}x" in text
    assert r"a-{}-b" in text
    assert text.isascii()
    matrix = render(ROWS, "tex", Layout(matrix="energy"))
    assert r"sha256 & 1024 & 412(15) & {failed} \\" in matrix
    # Each line of a tabular has as many cells as columns, and braces are balanced.
    assert matrix.count("{") == matrix.count("}")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
@pytest.mark.parametrize("layout", [Layout(), Layout(matrix="energy"), Layout(columns=("energy", "power"))])
def test_latex_compiles_and_fits_the_page(tmp_path, layout):
    if subprocess.run(["kpsewhich", "siunitx.sty"], capture_output=True, check=False).returncode:
        pytest.skip("no siunitx on this machine")
    values = {key: Value(1.234567e-3, 2.1e-9) for key in QUANTITIES}
    wild = row(F4, r"a_b%c&d#e$f{g}", None, state="failed", reason="50 % of \u00b5\u03a9 \u5b57 [z] \"q\" ~^\\ <x>")
    done = [replace(one, values={**values, **one.values}, warnings=("noise & more_",)) for one in ROWS]
    rows = arranged([*done, wild])
    (tmp_path / "table.tex").write_text(render(rows, "tex", layout))
    (tmp_path / "page.tex").write_text(
        r"\documentclass{article}\usepackage{textcomp}\usepackage{booktabs}\usepackage{siunitx}"
        r"\begin{document}\input{table.tex}\end{document}"
    )
    done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"], cwd=tmp_path,
                          capture_output=True, check=False, timeout=60)
    log = done.stdout.decode("latin-1")
    assert done.returncode == 0, log[-2000:]
    assert (tmp_path / "page.pdf").stat().st_size > 5000
    assert "Overfull" not in log


def test_wide_tables_go_on_below_with_the_same_first_columns():
    full = replace(ROWS[0], values={key: Value(1e-3, 1e-5) for key in QUANTITIES})
    text = render([full], "tex", Layout())
    tables = re.findall(r"\\toprule\n(.*) \\\\", text)
    assert len(tables) == 3
    assert all(head.startswith("{operation} & ") for head in tables)
    assert text.count("Emulated bench") == 3


# -- HTML -----------------------------------------------------------------------------------------------------------

class Tags(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.texts.append(data)


def test_html_is_one_page_in_which_no_text_is_more_than_text():
    idn = "<script>alert(1)</script>\"' onload=x &amp; </td><img src=//evil>"
    rows = [
        row(F4, idn, 64, (5.93e-5, 2.14e-6), bench=idn, captures=(idn,)),
        row(VL, "sha256", 64, state="failed", reason=idn),
    ]
    page = Tags()
    text = render(rows, "html", Layout(captures=True, group_by=("bench",)))
    page.feed(text)
    assert set(page.tags) == {"html", "head", "meta", "title", "style", "body", "p", "section", "table", "caption",
                              "thead", "tbody", "tr", "th", "td", "ul", "li"}
    assert page.attributes == {"lang", "charset", "name", "content", "http-equiv", "scope", "class"}
    assert f"bench {idn}" in page.texts
    assert idn in page.texts
    assert "59.3 ± 2.1" in page.texts
    assert "http" not in text.replace("http-equiv", "")
    assert any(words.startswith("Emulated bench") for words in page.texts)


def test_markdown_shows_texts_as_they_are():
    evil = row(F4, "a|b*c_d`e<f>[g](h)\\i\nj", None, (1e-6, 1e-8))
    line = render([evil], "md", Layout(columns=("operation", "energy"))).split("\n")[-2]
    assert line == r"| a\|b\*c\_d\`e&lt;f&gt;\[g\](h)\\i j | 1.000 ± 0.010 |"


# -- CSV comes back -------------------------------------------------------------------------------------------------

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), FINITE, FINITE | st.none()), min_size=1),
    st.sampled_from(["comma", "semicolon"]),
)
def test_csv_reads_back_to_the_same_texts_and_numbers(cells, dialect):
    rows = [
        Row("b", "o", reason=text, values={"energy": Value(number, expanded)}) for text, number, expanded in cells
    ]
    text = render(rows, "csv", Layout(columns=("reason", "energy")), dialect=dialect)
    delimiter = {"comma": ",", "semicolon": ";"}[dialect]
    found = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    assert found[0][:3] == ["reason", "energy", "energy_expanded"]
    assert len(found) == 2 + len(cells)
    for line, (reason, number, expanded) in zip(found[2:], cells, strict=True):
        shown = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", "\ufffd", reason)
        assert line[0] in (shown, f"'{shown}")
        assert not line[0].startswith(("=", "+", "-", "@", "\t", "\r"))
        values = [one.replace(",", ".") if dialect == "semicolon" else one for one in line[1:3]]
        assert math.copysign(1, float(values[0])) == math.copysign(1, number)
        assert float(values[0]) == number
        assert (values[1] == "") if expanded is None else (float(values[1]) == expanded)


def test_a_formula_in_a_text_is_none_in_a_spreadsheet_but_a_negative_number_is_a_number():
    evil = row(F4, "=HYPERLINK(\"x\")", None, (-1.5e-6, 1e-8), state="failed", reason="@SUM(A1)")
    line = render([evil], "csv", ENERGIES).split("\r\n")[2]
    assert line == "stm32f4discovery,\"'=HYPERLINK(\"\"x\"\")\",,-1.5e-06,1e-08,failed,'@SUM(A1),yes,1,dut"
