"""The main job, end to end: real firmware, a scope over a socket, the world's truth as the judge."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labctl.bench import open_bench
from labctl.errors import ConfigError, FileFault
from labctl.frontend import range_on_ladder_v
from labctl.measure import Plan, measure
from labctl.model import Operation
from labctl.store import open_capture, read_truth, verify_capture, write_capture

CONTRACT = """
board operation bytes implementation n_runs n_iterations n_refused n_clipped duration_mean_s duration_std_s
duration_se_s duration_max_s duration_expanded_s current_mean_a current_max_a power_mean_w power_supply_mean_w
power_std_w power_ripple_w power_min_w power_max_w power_expanded_w energy_mean_j energy_net_idle_j energy_std_j
energy_se_j energy_expanded_j coverage_factor charge_mean_c cycles_mean captures truth_duration_s truth_power_w
truth_energy_j"""
KEYS = set(CONTRACT.split())
PNG_END = b"IEND\xaeB`\x82"  # ISO/IEC 15948, 11.2.5: the last chunk's name and its CRC


def test_the_contract_of_the_json(measured):
    _, document = measured
    assert document["schema"] == "labctl.results/1"
    bench = document["bench"]
    assert (bench["name"], bench["emulated"], bench["shunt_ohm"], bench["supply_v"], bench["node"]) == (
        "emulated",
        True,
        1.3,
        3.3,
        "mcu",
    )
    assert [row["operation"] for row in document["results"]] == ["sha256", "aes-128-ctr"]
    for row in document["results"]:
        assert set(row) >= KEYS
        assert (row["n_runs"], row["n_refused"], row["n_clipped"], row["bytes"]) == (20, 0, 0, 64)


def test_measured_agrees_with_the_world(measured):
    _, document = measured
    for row in document["results"]:
        for measured_key, expanded_key, truth_key in (
            ("energy_mean_j", "energy_expanded_j", "truth_energy_j"),
            ("power_mean_w", "power_expanded_w", "truth_power_w"),
        ):
            # One seed in twenty may lie outside 95 %; none lies outside twice that.
            assert abs(row[measured_key] - row[truth_key]) < 2 * row[expanded_key]
        assert 0 < row["energy_expanded_j"] < 0.1 * row["energy_mean_j"]
        assert row["energy_mean_j"] == pytest.approx(row["power_mean_w"] * row["duration_mean_s"], rel=1e-9)
        assert row["power_min_w"] <= row["power_mean_w"] <= row["power_max_w"]


def test_duration_equals_cycles_over_clock(measured):
    folder, document = measured
    for row in document["results"]:
        with open_capture(folder / row["captures"][0]) as capture:
            clock_hz, crystal = capture.board["clock_hz"], capture.board["crystal_tolerance_ratio"]
            timebase = capture.records["series"].timebase_ratio
        expected_s = row["cycles_mean"] / clock_hz
        allowed_s = expected_s * (timebase + crystal) + 1 / clock_hz
        assert abs(row["duration_mean_s"] - expected_s) <= allowed_s + row["duration_expanded_s"]


def test_analyze_prints_exactly_the_same(measured, labctl):
    folder, document = measured
    paths = [row["captures"][0] for row in document["results"]]
    again = json.loads(labctl("analyze", *paths, "--json", cwd=folder).stdout)
    assert again == document


def test_supply_changes_the_computation_and_not_the_world(elf, measured, labctl, tmp_path):
    _, document = measured
    done = labctl("measure", "--shunt", "1.3", "--supply", "5.0", "--op", "sha256", "--json", cwd=tmp_path)
    row, reference = json.loads(done.stdout)["results"][0], document["results"][0]
    assert row["truth_energy_j"] == pytest.approx(reference["truth_energy_j"], rel=1e-3)
    # p = (V - v) i with v about 20 mV: a supply of 5.0 V in place of 3.3 V scales power by slightly more than 5/3.3.
    assert row["power_mean_w"] / reference["power_mean_w"] == pytest.approx(5.0 / 3.3, rel=5e-3)


def test_truth_stays_away_from_the_analysis(measured):
    folder, document = measured
    path = folder / document["results"][0]["captures"][0]
    with open_capture(path) as capture:
        assert capture.truth is None
    truth = read_truth(path)
    assert truth is not None
    assert truth["energy_j"] == document["results"][0]["truth_energy_j"]


def test_same_seed_same_bench_other_seed_other_errors(elf, measured, labctl, tmp_path):
    _, document = measured
    errors = []
    for seed in ("1", "2"):
        arguments = ["measure", "--shunt", "1.3", "--op", "sha256", "--json", "--seed", seed]
        row = json.loads(labctl(*arguments, cwd=tmp_path).stdout)["results"][0]
        errors.append(row["power_mean_w"] / row["truth_power_w"])
    reference = document["results"][0]
    assert errors[0] == pytest.approx(reference["power_mean_w"] / reference["truth_power_w"], abs=2e-3)
    assert errors[1] != pytest.approx(errors[0], abs=1e-4)


def test_the_captures_describe_themselves(measured):
    folder, document = measured
    with open_capture(folder / document["results"][0]["captures"][0]) as capture:
        assert set(capture.records) == {"series", "null", "zero"}
        assert capture.records["series"].n_segments == 20
        assert capture.records["null"].n_segments >= 100
        series = capture.records["series"]
        assert series.instrument.vendor
        assert series.asked
        assert series.granted
        assert capture.manifest["build"]
        assert capture.dut_report is not None
        assert len(capture.dut_report.cycles) == 20
        assert capture.dut_report.output_ok
        assert capture.provenance["bench"]["emulated"] is True
        assert capture.provenance["utc"].endswith("Z")


def test_a_person_reads_emulated_in_the_first_line(elf, labctl, tmp_path):
    done = labctl("measure", "--shunt", "1.3", "--op", "sha256", "--runs", "3", cwd=tmp_path, COLUMNS="80")
    lines = done.stdout.splitlines()
    assert "emulated" in lines[0]
    assert max(len(line) for line in lines) <= 80
    assert "sha256" in done.stdout
    assert "µJ" in done.stdout
    (png,) = tmp_path.glob("captures/*/*.png")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_dated_zero_is_applied(elf, measured, labctl, tmp_path):
    folder, document = measured
    earlier = str(folder / document["results"][0]["captures"][0])
    done = labctl("measure", "--shunt", "1.3", "--op", "sha256", "--zero", earlier, "--json", cwd=tmp_path)
    row = json.loads(done.stdout)["results"][0]
    assert abs(row["energy_mean_j"] - row["truth_energy_j"]) < 2 * row["energy_expanded_j"]
    # Not applied, the offset's full limit of some millivolts would be in the uncertainty of a 12 mV drop.
    assert row["energy_expanded_j"] < 0.05 * row["energy_mean_j"]
    assert not any("range or offset" in sentence for sentence in row["warnings"])


def test_a_zero_of_another_scope_or_range_is_refused(elf, measured, labctl, tmp_path):
    folder, document = measured
    with open_capture(folder / document["results"][0]["captures"][0]) as capture:
        zero = capture.records["zero"]
        other = dataclasses.replace(zero.instrument, serial="MY00000001")
        records = {**capture.records, "zero": dataclasses.replace(zero, instrument=other)}
        write_capture(tmp_path / "other.h5", dataclasses.replace(capture, records=records))
        wiring = capture.wiring
        assert wiring.shunt_channel is not None
        moved = dataclasses.replace(zero.channels[wiring.shunt_channel], offset=1e-3)
        records = {**capture.records, "zero": dataclasses.replace(zero, channels={wiring.shunt_channel: moved})}
        write_capture(tmp_path / "moved.h5", dataclasses.replace(capture, records=records))
    command = ["measure", "--shunt", "1.3", "--op", "sha256", "--runs", "2", "--out", "out", "--zero"]
    assert "MY00000001" in labctl(*command, "other.h5", cwd=tmp_path, status=2).stderr
    assert "another range or offset" in labctl(*command, "moved.h5", cwd=tmp_path, status=2).stderr
    assert not (tmp_path / "out").exists()


def test_a_zero_of_another_probe_is_refused(elf, measured, tmp_path):
    folder, document = measured
    earlier = folder / document["results"][0]["captures"][0]

    def with_probe(file):
        scope = file.scope.model_copy(update={"shunt_probe_ratio": 10.0})
        return file.model_copy(update={"scope": scope})

    with open_bench(None, board_name=None, overrides=with_probe, ask=print) as bench:
        plan = Plan((Operation("sha256", bytes=64, n_runs=2),), tmp_path / "out", zero=earlier)
        with pytest.raises(ConfigError, match="probe of 1:1"):
            next(measure(bench, plan))


def test_two_measurements_into_one_folder_lose_nothing(elf, tmp_path, monkeypatch):
    """The second finds the first one's name taken at the last moment, and takes another."""
    taken = []

    def taken_once(path, capture):
        if not taken:
            taken.append(path)
            path.write_bytes(b"the other measurement's")
            raise FileFault(f"{path} exists already")
        return write_capture(path, capture)

    monkeypatch.setattr("labctl.measure.write_capture", taken_once)
    with open_bench(None, board_name=None, overrides=lambda f: f, ask=print) as bench:
        (path,) = measure(bench, Plan((Operation("sha256", bytes=64, n_runs=2),), tmp_path))
    assert path != taken[0]
    assert taken[0].read_bytes() == b"the other measurement's"
    assert verify_capture(path) == []


def test_every_operation_of_the_readme(elf, labctl, tmp_path):
    names = ["null", "busy", "idle", "aes-128-ctr", "sha256", "ecdsa-p256.keygen"]
    options = [option for name in names for option in ("--op", name)]
    done = labctl("measure", "--shunt", "1.3", *options, "--runs", "3", "--json", cwd=tmp_path)
    rows = json.loads(done.stdout)["results"]
    assert [row["operation"] for row in rows] == names
    for row in rows:
        assert abs(row["energy_mean_j"] - row["truth_energy_j"]) < 2 * row["energy_expanded_j"], row["operation"]
        assert abs(row["duration_mean_s"] - row["truth_duration_s"]) < 2 * row["duration_expanded_s"]
        assert not any("disagree" in sentence for sentence in row["warnings"]), row["warnings"]
    by_name = {row["operation"]: row for row in rows}
    assert by_name["idle"]["power_mean_w"] < 0.5 * by_name["busy"]["power_mean_w"]  # asleep against awake
    assert by_name["null"]["duration_mean_s"] < 20e-6


def test_ten_iterations_give_the_energy_of_one(elf, measured, labctl, tmp_path):
    _, document = measured
    one = document["results"][0]
    done = labctl("measure", "--shunt", "1.3", "--op", "sha256", "--iterations", "10", "--json", cwd=tmp_path)
    ten = json.loads(done.stdout)["results"][0]
    assert ten["n_iterations"] == 10
    # A repetition costs the loop's own few cycles beside the operation's 7114.
    assert ten["cycles_mean"] == pytest.approx(one["cycles_mean"], rel=5e-3)
    assert ten["truth_energy_j"] == pytest.approx(one["truth_energy_j"], rel=5e-3)
    assert ten["energy_mean_j"] == pytest.approx(one["energy_mean_j"], rel=5e-3)


def test_the_supplys_power_holds_the_shunts_loss(measured, labctl):
    folder, document = measured
    row = document["results"][0]
    done = labctl("analyze", row["captures"][0], "--power", "supply", "--json", cwd=folder)
    supply = json.loads(done.stdout)["results"][0]
    # The shunt takes i R of the supply's voltage: 9.3 mA * 1.3 ohm of 3.3 V.
    loss_ratio = row["current_mean_a"] * 1.3 / 3.3
    assert supply["energy_mean_j"] / row["energy_mean_j"] == pytest.approx(1 / (1 - loss_ratio), rel=1e-4)
    assert supply["truth_energy_j"] / row["truth_energy_j"] == pytest.approx(1 / (1 - loss_ratio), rel=1e-3)


def test_a_page_speaks_of_one_bench(elf, measured, labctl):
    folder, document = measured
    golden = Path(__file__).parents[2] / "captures" / "golden" / "stm32vldiscovery-sha256-64.h5"
    with open_capture(golden) as capture:
        bench = {**capture.provenance["bench"], "name": "desk-3", "emulated": False}
        other = dataclasses.replace(capture, provenance={**capture.provenance, "bench": bench})
        write_capture(folder / "other.h5", other)
    done = labctl("analyze", document["results"][0]["captures"][0], "other.h5", "--json", cwd=folder, status=2)
    assert "another bench" in done.stderr


@pytest.mark.parametrize(("least_v", "range_v"), [(0.030, 0.040), (0.040, 0.040), (0.0401, 0.080), (0.2, 0.4)])
def test_ranges_are_the_usual_steps(least_v, range_v):
    assert range_on_ladder_v(least_v) == pytest.approx(range_v)


def test_a_folder_that_cannot_be_written_is_said_first(elf, labctl, tmp_path):
    (tmp_path / "file").write_text("")
    done = labctl("measure", "--shunt", "1.3", "--op", "sha256", "--out", "file", cwd=tmp_path, status=3)
    assert "--out" in done.stderr


def test_interrupted_leaves_nothing_half_written(elf, tmp_path):
    # Dozens of series after the first capture: however late that one is noticed, others are still to come.
    sizes = range(16, 641, 16)
    options = [option for n_bytes in sizes for option in ("--bytes", str(n_bytes))]
    process = subprocess.Popen(
        [sys.executable, "-c", "from labctl.cli import main; main()", "measure", "--shunt", "1.3", "--op", "sha256",
         *options, "--out", "out"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("out/*.h5")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in err
    files = list((tmp_path / "out").iterdir())
    assert 0 < sum(path.suffix == ".h5" for path in files) < len(sizes)
    for path in files:
        if path.suffix == ".png":  # drawn once its capture is there
            assert path.with_suffix(".h5") in files
            assert path.read_bytes().endswith(PNG_END)
            continue
        assert path.suffix == ".h5"
        with open_capture(path, verify=True) as capture:
            assert math.isfinite(capture.records["series"].segment_start_s[-1])
