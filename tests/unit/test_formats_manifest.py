"""Public files beside the repository: what labctl reads must equal the manifest's truth, written by other readers."""

import json
from pathlib import Path

import numpy as np
import pytest

from labctl.errors import FileFault
from labctl.formats import describe, detect, read_file

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not (DATA / "manifest.json").is_file(), reason=f"no public files at {DATA}")

READ = {
    "rigol/DS2072A-9.csv": "rigol-csv",
    "keysight/scope_30.bin": "keysight-bin",
    "keysight/scope_3.csv": "keysight-csv",
    "chipwhisperer/jittertime.cwp": "chipwhisperer",
}


def truth(entry_id: str) -> dict:
    entries = json.loads((DATA / "manifest.json").read_text())["entries"]
    return next(entry["truth"] for entry in entries if entry["id"] == entry_id)


def check_channel(found: dict, expected: dict, code: float) -> None:
    assert found["name"] == expected["name"]
    assert found["unit"] == expected["unit"]
    assert found["n"] == expected["n"]
    assert found["dt_s"] == pytest.approx(expected["dt_s"], rel=1e-6)
    assert found["t0_s"] == pytest.approx(expected["t0_s"], abs=expected["dt_s"] / 2)
    assert found["min"] == pytest.approx(expected["min"], abs=code)
    assert found["max"] == pytest.approx(expected["max"], abs=code)
    assert found["mean"] == pytest.approx(expected["mean"], abs=1e-6 * (expected["max"] - expected["min"]))


def check_ends(path: str, expected: list[dict]) -> None:
    for wanted in expected:
        channel = read_file(DATA / path).record.channels[wanted["name"]]
        values = np.asarray(channel.codes[0], np.float64) * channel.scale + channel.offset
        reach = 1e-6 * (wanted["max"] - wanted["min"])
        assert values[:3] == pytest.approx(wanted["first"], abs=reach)
        assert values[-1] == pytest.approx(wanted["last"], abs=reach)
        assert values.std() == pytest.approx(wanted["std"], abs=reach)


@pytest.mark.parametrize(("path", "name"), READ.items())
def test_formats_are_recognised_by_content(path, name, tmp_path):
    assert detect(DATA / path) == name
    disguised = tmp_path / "file.dat"
    disguised.write_bytes((DATA / path).read_bytes())
    assert detect(disguised) == name


def test_rigol_csv_equals_the_manifest():
    (channel,) = describe(read_file(DATA / "rigol/DS2072A-9.csv"))["channels"]
    expected = truth("rigol-ds2072a")["channels"]
    check_channel(channel, expected[0], code=0.04)  # two divisions of 1 V over 25 codes each
    check_ends("rigol/DS2072A-9.csv", expected)


def test_keysight_bin_equals_the_manifest():
    foreign = read_file(DATA / "keysight/scope_30.bin")
    expected = truth("keysight-mso7034a")["channels"]
    for found, wanted in zip(describe(foreign)["channels"], expected, strict=True):
        check_channel(found, wanted, code=0.03125)
    check_ends("keysight/scope_30.bin", expected)
    assert (foreign.record.instrument.model, foreign.record.instrument.serial) == ("MSO7034A", "MY12345678")
    assert [channel.label for channel in foreign.record.channels.values()] == ["1", "2"]


def test_keysight_csv_is_its_bin_without_the_last_sample():
    # Manifest: 999 valid rows equal the first 999 samples of the .bin to 1.2e-7 V; the last row holds no values.
    # float32 codes add half a unit in the last place of 2.5 V, 1.2e-7 V.
    text, binary = read_file(DATA / "keysight/scope_3.csv"), read_file(DATA / "keysight/scope_30.bin")
    assert text.record.n_samples == 999
    assert any("1 incomplete row" in warning for warning in text.warnings)
    assert text.record.dt_s == pytest.approx(2e-6, rel=1e-6)
    assert text.record.segment_start_s[0] == pytest.approx(-1e-3, abs=1e-6)
    for name in ("CH1", "CH2"):
        ours, theirs = text.record.channels[name], binary.record.channels[name]
        difference = ours.codes[0] * ours.scale + ours.offset - theirs.codes[0, :999]
        assert np.abs(difference).max() <= 2.4e-7 * 1.01


def test_chipwhisperer_project_equals_the_manifest():
    foreign, expected = read_file(DATA / "chipwhisperer/jittertime.cwp"), truth("cw-jittertime")
    (channel,) = describe(foreign)["channels"]
    assert (channel["segments"], channel["n"]) == (expected["traces_valid"], expected["samples_per_trace"])
    assert channel["dt_s"] is None
    assert channel["unit"] is None
    assert channel["min"] == expected["min"]
    assert channel["max"] == expected["max"]
    assert channel["mean"] == pytest.approx(expected["mean"], abs=1e-6 * (expected["max"] - expected["min"]))
    codes = foreign.record.channels["CH1"].codes
    assert codes[0, :4].tolist() == expected["trace0_first"]
    means = codes.mean(axis=1, dtype=np.float64)
    assert means.min() == pytest.approx(expected["per_trace_mean_min"])
    assert means.max() == pytest.approx(expected["per_trace_mean_max"])
    assert any("--rate" in warning for warning in foreign.warnings)


def test_a_rate_makes_time_of_a_chipwhisperer_project():
    foreign = read_file(DATA / "chipwhisperer/jittertime.cwp", rate_hz=29.5e6)
    assert foreign.record.dt_s == pytest.approx(1 / 29.5e6)
    assert not any("--rate" in warning for warning in foreign.warnings)


def test_an_array_of_traces_is_read_with_its_configuration():
    path = next((DATA / "chipwhisperer/jittertime_data/traces").glob("*traces.npy"))
    assert (
        describe(read_file(path))["channels"] == describe(read_file(DATA / "chipwhisperer/jittertime.cwp"))["channels"]
    )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("rigol/DS2072A-9.wfm", "Rigol .wfm"),
        ("rigol/DHO824-ch12.wfm", "Rigol"),
        ("tek_isf/tek0000CH1.isf", "Tektronix .isf"),
        ("tek_wfm/data_test_waveform.wfm", "Tektronix .wfm"),
        ("siglent/SDS814X-amps-300ma.bin", "Siglent"),
        ("lecroy/lecroy_4.trc", "LeCroy .trc"),
        ("rs/rs_rtp_02.bin", "Rohde & Schwarz"),
        ("rs/rs_rtp_02.Wfm.bin", "Rohde & Schwarz"),
        ("rs/rs_rtp_02.Wfm.csv", "without names and units"),
        ("saleae/cap1_analog_1_ds4.bin", "Saleae"),
        ("saleae/cap1_digital.csv", "Saleae .csv of changes"),
        ("trs/90x500xfloat.trs", "Inspector .trs"),
        ("rocketlogger/test_full.rld", "RocketLogger .rld"),
        ("manifest.json", "no scope known"),
        ("chipwhisperer", "a folder"),
    ],
)
def test_other_files_are_named_in_one_line_with_a_remedy(path, words):
    with pytest.raises(FileFault) as refusal:
        read_file(DATA / path)
    sentence = str(refusal.value)
    assert sentence.startswith(str(DATA / path))
    assert words in sentence
    assert "\n" not in sentence
    assert ";" in sentence


def test_pickled_objects_are_never_loaded():
    path = next((DATA / "chipwhisperer/jittertime_data/traces").glob("*knownkey.npy"))
    with pytest.raises(FileFault, match="not traces"):
        read_file(path)
