"""From captures to tables: closed forms; the same table from whatever folder, order, attempt and machine; the cache."""

import csv
import io
import json
import math
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labctl import cli
from labctl.campaign import journal, results, rowcache
from labctl.campaign.export import runs_csv
from labctl.campaign.pack import pack
from labctl.campaign.results import campaign_table, load_rows
from labctl.errors import ConfigError, FileFault
from labctl.report.tables.render import FORMATS, render
from labctl.report.tables.sheet import Layout
from labctl.store import write_capture

from .table_captures import (
    DT_S,
    FAILED,
    MANIFEST,
    N_NULL,
    OHM,
    PIN_V,
    RUN_V,
    SUPPLY_V,
    make,
    make_campaign,
    operation,
)


def lines(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))[1:]


def power_w(volts):
    return (SUPPLY_V - volts) * volts / OHM


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    return make_campaign(tmp_path_factory.mktemp("table") / "night")


@pytest.fixture
def copy(campaign, tmp_path):
    return Path(shutil.copytree(campaign, tmp_path / "copy"))


def test_every_quantity_follows_from_the_windows(campaign):
    first = lines(campaign_table(campaign))[1]
    assert (first["board"], first["operation"], first["bytes"], first["role"]) == ("stm32f4discovery", "sha256", "64",
                                                                                    "item")
    duration_s = (300 - N_NULL) * DT_S
    energy_j = (300 * power_w(RUN_V) - N_NULL * power_w(PIN_V)) * DT_S
    expected = {
        "duration": duration_s,
        "energy": energy_j,
        "power": energy_j / duration_s,
        "current": (300 * RUN_V - N_NULL * PIN_V) / OHM / (300 - N_NULL),
        "throughput": 64 / duration_s,
        "cycles_per_byte": (168 * 300 - 100) / 64,
        "fluctuation_between": 0.0,
        "flash": MANIFEST["flash_bytes"],
        "ram": MANIFEST["data_bytes"] + MANIFEST["bss_bytes"],
        "stack": MANIFEST["stack_bytes"],
    }
    for key, value in expected.items():
        assert float(first[key]) == pytest.approx(value, rel=1e-9, abs=1e-12), key
    assert float(first["throughput_expanded"]) / float(first["throughput"]) == pytest.approx(
        float(first["duration_expanded"]) / duration_s, rel=1e-9
    )
    assert float(first["energy_expanded"]) / energy_j == pytest.approx(1.96 * math.sqrt(6 / 3) * 0.01, rel=0.05)
    assert (first["bench"], first["emulated"], first["state"]) == ("emulated, seed 3", "yes", "done")
    assert (first["clock"], first["memory_of"], first["runs"]) == ("168000000", "image", "20")


def test_the_headline_power_is_that_of_the_plan_unless_asked_otherwise(copy, campaign, tmp_path):
    (copy / "plan.toml").write_text(
        '[campaign]\nname = "n"\npower = "supply"\n[factors]\nboards = ["stm32f4discovery"]\noperations = ["sha256"]\n'
    )
    # All of the shunt's node: the current times the supply's voltage, in windows of 300 and 40 us.
    supply_j = SUPPLY_V / OHM * (RUN_V * 300e-6 - PIN_V * N_NULL * 1e-6)
    dut_j = power_w(RUN_V) * 300e-6 - power_w(PIN_V) * N_NULL * 1e-6
    pack(copy, tmp_path / "packed.h5")
    for place in (copy, tmp_path / "packed.h5"):
        row = next(row for row in load_rows([place]) if row.operation == "sha256" and row.bytes == 64)
        assert (row.power_of, row.values["energy"].number) == ("supply", pytest.approx(supply_j, rel=1e-9))
        row = next(row for row in load_rows([place], "dut") if row.operation == "sha256" and row.bytes == 64)
        assert (row.power_of, row.values["energy"].number) == ("dut", pytest.approx(dut_j, rel=1e-9))
    assert {row.power_of for row in load_rows([campaign])} == {"dut"}
    both = load_rows([copy, campaign])
    assert json.loads(render(both, "json", Layout()))["power_of"] is None
    assert {one["power_of"] for one in json.loads(render(both, "json", Layout()))["rows"]} == {"dut", "supply"}
    assert [line["power_of"] for line in lines(render(both, "csv", Layout()))] == [row.power_of for row in both
                                                                                  if row.role == "item"]
    assert "the supply's, shunt included (" in render(both, "md", Layout())


def test_an_item_without_a_result_says_why(campaign):
    row = next(one for one in lines(campaign_table(campaign)) if one["state"] == "failed")
    assert (row["board"], row["bytes"], row["reason"], row["energy"]) == ("stm32vldiscovery", "1024", FAILED[5], "")
    assert (row["bench"], row["emulated"]) == ("emulated, seed 3", "yes")


def test_references_are_rows_of_their_own_when_asked_for(campaign):
    rows = load_rows([campaign])
    asked = lines(render(rows, "csv", Layout(roles=("reference",))))
    assert [(one["role"], one["repeat"]) for one in asked] == [("reference", "1"), ("reference", "2")]
    assert float(asked[1]["duration"]) == pytest.approx((301 - N_NULL) * DT_S, rel=1e-9)
    assert len(lines(render(rows, "csv", Layout()))) == 5
    assert len(lines(campaign_table(campaign))) == 7


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    order = list(range(1, 8))
    random.Random(5).shuffle(order)
    place = tmp_path_factory.mktemp("elsewhere ; & 'x'") / "another"
    return make_campaign(place, order=order, n_tries=3, utc="2031-01-01T00:00:00Z")


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_is_the_same_from_another_folder_order_attempt_and_time(format, campaign, other):
    assert (other / journal.NAME).read_bytes() != (campaign / journal.NAME).read_bytes()
    assert campaign_table(other, format) == campaign_table(campaign, format)
    named = Layout(roles=(), captures=True)
    assert render(load_rows([other]), format, named) == render(load_rows([campaign]), format, named)


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_is_the_same_whatever_the_order_of_folders(format, campaign, other):
    both = load_rows([campaign, other])
    assert len(both) == 14
    assert render(both, format, Layout()) == render(load_rows([other, campaign]), format, Layout())


def test_a_table_is_the_same_under_any_hash_seed_locale_and_time_zone(copy):
    code = (
        "import shutil, sys; from pathlib import Path; from labctl.campaign.results import campaign_table\n"
        "shutil.rmtree(Path(sys.argv[1], 'tables'), ignore_errors=True)\n"
        f"for format in {FORMATS!r}: sys.stdout.buffer.write(campaign_table(Path(sys.argv[1]), format).encode())"
    )
    environments = [
        {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC"},
        {"PYTHONHASHSEED": "4711", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "PYTHONUTF8": "0"},
    ]
    texts = [
        subprocess.run([sys.executable, "-c", code, str(copy)], env={**os.environ, **more}, check=True,
                       capture_output=True).stdout
        for more in environments
    ]
    assert texts[0] == texts[1] == "".join(campaign_table(copy, format) for format in FORMATS).encode()


def test_export_and_table_spell_bench_variant_and_repeat_alike(campaign):
    exported = list(csv.DictReader(runs_csv(campaign)))
    table = lines(render(load_rows([campaign]), "csv", Layout(roles=())))
    spelled = {(one["bench"], one["variant"], one["role"], one["repeat"]) for one in table if one["state"] == "done"}
    assert {(one["bench"], one["variant"], one["role"], one["repeat"]) for one in exported} == spelled == {
        ("emulated, seed 3", "plain", "item", "1"), ("emulated, seed 3", "plain", "reference", "1"),
        ("emulated, seed 3", "plain", "reference", "2"),
    }


def test_captures_are_named_by_their_place_in_the_folder(campaign):
    rows = json.loads(render(load_rows([campaign]), "json", Layout(columns=("bytes",), captures=True)))["rows"]
    assert rows[1]["captures"] == ["captures/0001-stm32f4discovery-sha256-64-168MHz.h5"]


def test_a_packed_campaign_makes_the_same_table(campaign, tmp_path):
    packed = pack(campaign, tmp_path / "any name.h5")
    for format in FORMATS:
        assert campaign_table(packed, format) == campaign_table(campaign, format)
    assert [path.name for path in tmp_path.iterdir()] == ["any name.h5"]


# -- Plain folders --------------------------------------------------------------------------------------------------

def test_a_folder_of_captures_makes_a_table_that_says_nothing_of_their_names(tmp_path):
    for place, names in (("a", "xyz"), ("b", "zxy")):
        (tmp_path / place).mkdir()
        for name, n in zip(names, (300, 310, 320), strict=True):
            write_capture(tmp_path / place / f"{name}.h5", make(operation(), n=n))
    first, second = (render(load_rows([tmp_path / place]), "csv", Layout()) for place in "ab")
    assert first == second
    assert [(one["repeat"], round(float(one["duration"]) * 1e6)) for one in lines(first)] == [
        ("1", 300 - N_NULL), ("2", 310 - N_NULL), ("3", 320 - N_NULL)
    ]


def test_a_single_capture_makes_a_row_and_leaves_nothing_behind(tmp_path):
    path = write_capture(tmp_path / "one.h5", make(operation()))
    assert len(load_rows([path])) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_captures_of_a_real_bench_stand_beside_those_of_the_emulated_one(tmp_path):
    write_capture(tmp_path / "a.h5", make(operation()))
    write_capture(tmp_path / "b.h5", make(operation(), bench={"name": "<b>desk</b>", "emulated": False}))
    rows = load_rows([tmp_path])
    assert [(one.bench, one.emulated) for one in rows] == [("<b>desk</b>", False), ("emulated, seed 3", True)]
    assert "<b>desk" not in render(rows, "html", Layout())


def test_a_capture_that_gives_no_number_is_a_failed_row(tmp_path):
    write_capture(tmp_path / "good.h5", make(operation()))
    write_capture(tmp_path / "short.h5", make(operation("sha512"), n=N_NULL))
    data = (tmp_path / "good.h5").read_bytes()
    (tmp_path / "torn.h5").write_bytes(data[: len(data) // 2])
    rows = {one.operation: one for one in load_rows([tmp_path])}
    assert rows["sha256"].state == "done"
    assert rows["sha512"].state == "failed"
    assert "no longer than the null windows" in rows["sha512"].reason
    assert rows[""].reason.startswith("torn.h5 is")
    assert str(tmp_path) not in "".join(one.reason for one in rows.values())


def test_what_is_no_place_of_captures_is_refused(tmp_path):
    with pytest.raises(FileFault, match="neither a campaign nor captures"):
        load_rows([tmp_path])
    (tmp_path / "m.json").write_text("{}")
    with pytest.raises(FileFault, match="nothing that labctl memory --json printed"):
        load_rows([tmp_path / "m.json"])


def test_memory_of_operations_takes_the_place_of_the_images(campaign, tmp_path):
    subject = {"board": "stm32f4discovery", "operation": "sha256", "bytes": 64, "implementation": "mbedtls",
               "profile": "Os", "clock_hz": 168_000_000, "variant": ""}
    figures = {"flash_bytes": 5120, "ram_bytes": 8, "stack_bytes": 700}
    path = tmp_path / "memory.json"
    path.write_text(json.dumps({"schema": "labctl.memory/1", "emulated": True, "results": [{**subject, **figures}]}))
    rows = lines(render(load_rows([path, campaign]), "csv", Layout()))
    assert [(one["flash"], one["ram"], one["stack"], one["memory_of"]) for one in rows[:2]] == [
        ("32680", "896", "2816", "image"), ("5120", "8", "700", "operation")
    ]
    with pytest.raises(ConfigError, match="name the folder of a campaign"):
        load_rows([path])


# -- The cache ------------------------------------------------------------------------------------------------------

@pytest.fixture
def analysed(monkeypatch):
    calls = []

    def counting(capture, power="dut"):
        calls.append(capture.path)
        return whole(capture, power)

    whole = results.analyze
    monkeypatch.setattr(results, "analyze", counting)
    return calls


def test_a_capture_is_analysed_once_and_its_row_is_the_same_from_the_cache(copy, analysed):
    shutil.rmtree(copy / rowcache.FOLDER, ignore_errors=True)
    first = load_rows([copy])
    assert len(analysed) == 6
    assert load_rows([copy]) == first
    assert len(analysed) == 6
    assert load_rows([copy], "supply") != first
    assert len(analysed) == 12


def test_rows_are_of_the_capture_and_not_of_its_place_or_time(copy, analysed, tmp_path):
    first = load_rows([copy])
    n = len(analysed)
    moved = Path(shutil.move(copy, tmp_path / "moved"))
    for path in moved.glob("captures/*.h5"):
        os.utime(path, (1, 1))
    assert load_rows([moved]) == first
    assert len(analysed) == n


@pytest.mark.parametrize("harm", ["cut", "other", "empty", "old", "changed", "gone"])
def test_a_cache_that_is_not_sound_is_made_again(copy, analysed, harm):
    first = load_rows([copy])
    n = len(analysed)
    path = copy / rowcache.FOLDER / "rows-dut.json"
    data = path.read_bytes()
    outer = json.loads(data)
    path.write_bytes({
        "cut": data[:-30],
        "other": b'{"schema": "labctl.rows/1"}',
        "empty": b"",
        "old": json.dumps({**outer, "software": "labctl 0"}).encode(),
        "changed": data.replace(b"32680", b"32681"),
        "gone": data,
    }[harm])
    if harm == "gone":
        shutil.rmtree(path.parent)
    assert load_rows([copy]) == first
    assert len(analysed) == n + 6


def test_a_folder_that_cannot_be_written_does_without(copy, analysed, monkeypatch):
    shutil.rmtree(copy / rowcache.FOLDER, ignore_errors=True)

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    first = load_rows([copy])
    assert load_rows([copy]) == first
    assert len(analysed) == 12
    assert not (copy / rowcache.FOLDER).exists()


def test_a_capture_that_is_not_the_acknowledged_one_is_no_result(copy):
    load_rows([copy])
    path = copy / "captures/0001-stm32f4discovery-sha256-64-168MHz.h5"
    write_capture(path, make(operation(), n=999 // 3), overwrite=True)
    gone = copy / "captures/0003-stm32f4discovery-aes-128-ctr-64-168MHz.h5"
    gone.unlink()
    rows = {(one.operation, one.bytes): one for one in load_rows([copy]) if one.role == "item" and "f4" in one.board}
    assert rows["sha256", 64].state == rows["aes-128-ctr", 64].state == "failed"
    assert "is not the file that was stored" in rows["sha256", 64].reason
    assert f"captures/{gone.name} is missing, which the journal says was stored" in rows["aes-128-ctr", 64].reason
    assert rows["sha256", 1024].state == "done"


# -- The command ----------------------------------------------------------------------------------------------------

def run(capfdbinary, *arguments, status):
    assert cli.run(["table", *map(str, arguments)]) == status
    return capfdbinary.readouterr()


def test_the_command_ends_with_4_where_rows_failed_and_says_so(campaign, capfdbinary):
    out, err = run(capfdbinary, campaign, "--format", "csv", status=4)
    assert out.decode() == render(load_rows([campaign]), "csv", Layout())
    assert b"labctl: of 5 rows, 1 failed" in err


def test_the_command_ends_with_0_where_the_rows_wanted_are_there(campaign, capfdbinary):
    out, _ = run(capfdbinary, campaign, "--where", "board=stm32f4*", "--columns", "operation,bytes,energy",
                 "--sort=-energy", "--units", "energy=nJ", status=0)
    text = out.decode()
    assert text.startswith("Emulated bench: the currents are a model, not silicon.\n")
    assert max(map(len, text.split("\n"))) <= 80
    # (300 - 40) us at some 33 mW, the windows of 340 us before those of 300 and 240.
    table = text[text.index("\u2500\n") + 2 :].split("\n\n")[0]
    assert [line.split()[0:3:2] for line in table.split("\n")] == [
        ["sha256,", "B"], ["sha256,", "B"], ["aes-128-ctr*,", "B"]
    ]
    assert "nJ" in text


def test_a_file_is_written_whole_in_the_format_of_its_name(campaign, tmp_path, capfdbinary):
    for name in FORMATS:
        out, _ = run(capfdbinary, campaign, "--out", tmp_path / f"t.{name}", status=4)
        assert out == b""
        assert (tmp_path / f"t.{name}").read_bytes() == render(load_rows([campaign]), name, Layout()).encode()


@pytest.mark.parametrize(("arguments", "word"), [
    (["--where", "board=avr*"], b"none of 7 rows"),
    (["--where", "board=stm32f4*", "--where", "operation=sha265"], b"did you mean 'sha256'?"),
    (["--across", "bytes"], b"--across goes with --matrix"),
    (["--dialect", "semicolon"], b"--dialect is for --format csv"), (["--columns", "watts"], b"--columns watts"),
])
def test_what_cannot_be_is_a_usage_error(campaign, arguments, word, capfdbinary):
    out, err = run(capfdbinary, campaign, *arguments, status=2)
    assert out == b""
    assert word in err


def test_pending_items_are_rows_and_no_failure(tmp_path, capfdbinary):
    folder = make_campaign(tmp_path / "c", order=(1, 2))
    out, err = run(capfdbinary, folder, "--format", "json", "--role", "item", "--role", "reference", status=0)
    rows = json.loads(out)["rows"]
    assert sorted(one["state"] for one in rows) == ["done"] * 2 + ["pending"] * 5
    assert err == b"labctl: of 7 rows, 5 are not measured yet\n"
