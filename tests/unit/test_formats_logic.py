"""Files of logic analysers: built here from their layouts, and public ones with what is known of them."""

import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from labctl.errors import FileFault
from labctl.formats import describe, detect, read_file

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
public = pytest.mark.skipif(not (DATA / "manifest.json").is_file(), reason=f"no public files at {DATA}")


def truth(entry_id):
    entries = json.loads((DATA / "manifest.json").read_text())["entries"]
    return next(entry["truth"] for entry in entries if entry["id"] == entry_id)["channels"]


def read(folder, content, name):
    path = folder / name
    path.write_bytes(content)
    return read_file(path)


def codes(foreign, name):
    return foreign.record.channels[name].codes[0].tolist()


def times_s(foreign, name):
    record = foreign.record
    return record.segment_start_s[0] + record.channels[name].codes.changes * record.dt_s


# ---- Saleae


def saleae_v0(level, begin_s, end_s, times, *, version=0, kind=0, n=None, tail=b""):
    head = b"<SALEAE>" + struct.pack("<ii", version, kind)
    count = len(times) if n is None else n
    return head + struct.pack("<IddQ", level, begin_s, end_s, count) + struct.pack(f"<{len(times)}d", *times) + tail


def saleae_v1(*chunks, n=None):
    body = b"".join(struct.pack("<IdddQ", level, rate_hz, begin_s, end_s, len(times))
                    + struct.pack(f"<{len(times)}d", *times) for level, rate_hz, begin_s, end_s, times in chunks)
    return b"<SALEAE>" + struct.pack("<iiQ", 1, 0, len(chunks) if n is None else n) + body


def test_saleae_version_0_with_the_trigger_inside(tmp_path):
    # 1 MS/s: from 2 us before the trigger, high at it, low 3 us later. At half the rate 3 us would lie between samples.
    foreign = read(tmp_path, saleae_v0(0, -2e-6, 6e-6, [0.0, 3e-6]), "digital_5.bin")
    assert (foreign.format, detect(foreign.path)) == ("saleae-bin", "saleae-bin")
    assert list(foreign.record.channels) == ["D5"]
    assert (foreign.record.dt_s, foreign.record.segment_start_s.tolist()) == (1e-6, [-2e-6])
    assert codes(foreign, "D5") == [0, 0, 1, 1, 1, 0, 0, 0]
    assert "1.00 MHz" in foreign.warnings[0]


@pytest.mark.parametrize(("times", "dt_s"), [([0.4e-6, 1e-6], 1 / 5e6), ([8e-9, 1e-6], 1 / 125e6),
                                            ([1 / 24e6, 2 / 24e6], None)])
def test_saleae_version_0_is_on_the_least_usual_rate_that_fits(tmp_path, times, dt_s):
    foreign = read(tmp_path, saleae_v0(1, 0.0, 2e-6, times), "digital_0.bin")
    assert foreign.record.dt_s == pytest.approx(dt_s or 1e-9)
    assert ("no usual one" in foreign.warnings[0]) == (dt_s is None)
    np.testing.assert_allclose(times_s(foreign, "D0"), times, atol=0.5e-9)


def test_saleae_version_1_gaps_are_gaps(tmp_path):
    # 10 MS/s: high from 0.2 us; lost from 0.5 us to 0.8 us; low again at the next chunk's begin.
    content = saleae_v1((0, 10e6, 0.0, 0.5e-6, [0.2e-6]), (0, 10e6, 0.8e-6, 1.2e-6, [1e-6]))
    foreign = read(tmp_path, content, "digital_2.bin")
    assert foreign.record.dt_s == 1e-7
    assert foreign.record.gaps == ((0, 5, 3),)
    assert codes(foreign, "D2") == [0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1]
    assert foreign.warnings == ("300 ns between its chunks were lost, in 1 gap(s)",)


def test_saleae_transition_on_the_first_sample(tmp_path):
    foreign = read(tmp_path, saleae_v1((0, 1e6, 1.0, 1.000004, [1.0, 1.000002])), "digital_0.bin")
    assert codes(foreign, "D0") == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (saleae_v0(0, 0.0, 1.0, [0.5], n=3), "promises 3 transitions and holds 1"),
        (saleae_v0(0, 0.0, 1.0, [0.5], tail=b"\0" * 8), "8 bytes follow"),
        (saleae_v0(0, 0.0, 1.0, [0.5])[:30], "inside a head"),
        (saleae_v0(0, 0.0, 1.0, [0.5], version=2), "version 2"),
        (saleae_v0(0, 0.0, 1.0, [0.5], kind=1), "analog"),
        (saleae_v0(7, 0.0, 1.0, [0.5]), "level 7"),
        (saleae_v0(0, 0.0, 1.0, [0.5, 0.4]), "do not ascend"),
        (saleae_v0(0, 0.0, 1.0, [1.5]), "do not ascend"),
        (saleae_v0(0, 0.0, float("nan"), []), "do not ascend"),
        (saleae_v1((0, 1e6, 0.0, 1e-3, []), (0, 2e6, 2e-3, 3e-3, [])), "different rates"),
        (saleae_v1((0, 0.0, 0.0, 1e-3, [])), "different rates, or at none"),
        (saleae_v1((0, 1e6, 0.0, 2e-3, []), (0, 1e6, 1e-3, 3e-3, [])), "before the one before it ends"),
        (saleae_v1((0, 1e6, 0.0, 1e-3, [1.0e-4, 1.000001e-4])), "within one sample"),
        (saleae_v1(), "holds no data"),
        (saleae_v1(n=1 << 60), "inside a head"),
    ],
    ids=range(15),
)
def test_saleae_files_that_cannot_be_are_refused(tmp_path, content, words):
    with pytest.raises(FileFault, match=words):
        read(tmp_path, content, "digital_0.bin")


@public
@pytest.mark.parametrize("number", [0, 1])
def test_saleae_export_equals_the_manifest_and_its_own_csv(number):
    """The .csv beside it, by the same tool, has its times rounded to 10 ns."""
    foreign, expected = read_file(DATA / f"saleae/cap1_digital_{number}.bin"), truth("saleae-mixed")[number]
    levels = foreign.record.channels[f"D{number}"].codes
    assert levels.first_level == expected["initial"]
    assert len(levels.changes) == expected["transitions"]
    np.testing.assert_allclose(times_s(foreign, f"D{number}")[:3], expected["first_s"], atol=1e-12)
    mean = describe(foreign)["channels"][0]["mean"]
    span_s = expected["end_s"] - expected["begin_s"]
    assert mean * foreign.record.n_samples * foreign.record.dt_s == pytest.approx(expected["high_time_s"], abs=20e-9)
    assert foreign.record.n_samples * foreign.record.dt_s == pytest.approx(span_s, abs=foreign.record.dt_s)
    rows = np.loadtxt(DATA / "saleae/cap1_digital.csv", delimiter=",", skiprows=1)
    changes = np.flatnonzero(np.diff(rows[:, 1 + number])) + 1
    np.testing.assert_allclose(times_s(foreign, f"D{number}"), rows[changes, 0], atol=5.1e-9)


# ---- sigrok


def session(path, *, unit=1, probes=("D0", "D1"), chunks=(b"\1\3\2", b"\2\0"), rate="24 MHz", more="", files=None):
    metadata = f"[global]\nsigrok version=0.5.2\n\n[device 1]\ncapturefile=logic-1\ntotal probes=8\nunitsize={unit}\n"
    metadata += f"samplerate={rate}\n" if rate else ""
    metadata += "".join(f"probe{number + 1}={name}\n" for number, name in enumerate(probes)) + more
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", "2")
        archive.writestr("metadata", metadata)
        for number, chunk in enumerate(chunks):
            archive.writestr(f"logic-1-{number + 1}", chunk)
        for name, content in (files or {}).items():
            archive.writestr(name, content)
    return path


def test_a_session_chunk_after_chunk(tmp_path):
    foreign = read_file(session(tmp_path / "a.sr"))
    assert (foreign.format, detect(foreign.path)) == ("sigrok-sr", "sigrok-sr")
    assert (codes(foreign, "D0"), codes(foreign, "D1")) == ([1, 1, 0, 0, 0], [0, 1, 1, 1, 0])
    assert foreign.record.dt_s == 1 / 24e6
    assert foreign.warnings == ()


def test_ten_chunks_are_taken_by_number_and_inputs_beyond_the_first_byte(tmp_path):
    chunks = [struct.pack("<H", 0x200 if number in (9, 10) else 0x1) for number in range(12)]
    foreign = read_file(session(tmp_path / "a.sr", unit=2, probes=[f"P{n}" for n in range(10)], chunks=chunks))
    assert codes(foreign, "P9") == [0] * 9 + [1, 1, 0]
    assert codes(foreign, "P0") == [1] * 9 + [0, 0, 1]


def test_a_session_without_a_rate_asks_for_one(tmp_path):
    path = session(tmp_path / "a.sr", rate="")
    foreign = read_file(path)
    assert foreign.record.dt_s is None
    assert "--rate" in foreign.warnings[0]
    assert read_file(path, rate_hz=1e6).record.dt_s == 1e-6


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"unit": 2}, "no whole number of samples"),
        ({"unit": 0}, "0 bytes a sample"),
        ({"unit": "x"}, "how many bytes"),
        ({"probes": [f"D{n}" for n in range(9)]}, "do not hold input 9"),
        ({"chunks": ()}, "no samples"),
        ({"chunks": (b"",)}, "no samples"),
        ({"probes": ()}, "no samples"),
        ({"more": "analog9=A0\n", "files": {"analog-1-9-1": bytes(8)}}, "2 samples of analog input 9 beside 5"),
    ],
    ids=range(8),
)
def test_sessions_that_cannot_be_are_refused(tmp_path, how, words):
    with pytest.raises(FileFault, match=words):
        read_file(session(tmp_path / "a.sr", **how))


def test_a_damaged_session_is_refused(tmp_path):
    path = session(tmp_path / "a.sr")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(FileFault, match="damaged"):
        read_file(path)


@public
def test_a_public_session_equals_the_manifest():
    foreign = read_file(DATA / "sigrok/100khz_clock_2logic_1analog.sr")
    told = {channel["name"]: channel for channel in describe(foreign)["channels"]}
    *logic, analog = truth("sigrok-mixed")
    for expected in logic:
        name = expected["name"]
        levels = foreign.record.channels[name].codes
        assert (told[name]["n"], told[name]["dt_s"]) == (expected["n"], expected["dt_s"])
        assert told[name]["mean"] == pytest.approx(expected["high_fraction"], abs=1e-12)
        assert (levels.first_level, len(levels.changes)) == (0, expected["rising"] + expected["falling"])
    channel = foreign.record.channels["A0"]
    values = channel.codes[0].astype(float) + channel.offset
    assert (channel.unit, told["A0"]["min"], told["A0"]["max"]) == ("V", analog["min"], analog["max"])
    assert told["A0"]["mean"] == pytest.approx(analog["mean"], abs=1e-6)
    assert [*values[:3], values[-1]] == pytest.approx([*analog["first"], analog["last"]], abs=1e-6)


CSV_HEAD = "; CSV generated by libsigrok 0.5.2\n; from Demo driver\n; Channels ({n}/8): {names}\n; Samplerate: {rate}\n"


def csv(rows, names="D0, D3", n=2, labels="logic,logic", rate="12.5 MHz"):
    return (CSV_HEAD.format(n=n, names=names, rate=rate) + labels + "\n" + "".join(row + "\n" for row in rows)).encode()


def test_csv_of_sigrok(tmp_path):
    foreign = read(tmp_path, csv(["0,1", "1,1", "1,0"]), "a.csv")
    assert (foreign.format, foreign.record.dt_s) == ("sigrok-csv", 1 / 12.5e6)
    assert (codes(foreign, "D0"), codes(foreign, "D3")) == ([0, 1, 1], [1, 1, 0])


def test_csv_with_times_and_an_analog_column(tmp_path):
    content = csv(["12,0,1.5,1", "24,1,-0.5,1"], "D0, A0, D1", 3, "milliseconds,logic,V DC,logic", "77 Hz")
    foreign = read(tmp_path, content, "a.csv")
    assert (codes(foreign, "D0"), codes(foreign, "D1")) == ([0, 1], [1, 1])
    assert list(foreign.record.channels) == ["D0", "D1"]
    assert foreign.record.dt_s == 1 / 77
    assert "1 analog" in foreign.warnings[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (csv(["0,1", "2,1"]), "line 7 "),
        (csv(["0,1", "1"]), "line 7 "),
        (csv([]), "no row"),
        (csv(["0,1"], names="D0", n=1), "not the 1 channels"),
    ],
    ids=range(4),
)
def test_csv_that_cannot_be_is_refused(tmp_path, content, words):
    with pytest.raises(FileFault, match=words):
        read(tmp_path, content, "a.csv")


# ---- value change dumps


def dump(body, *, scale="1 us", wires='$var wire 1 ! D0 $end $var wire 1 " D1 $end', comment=""):
    head = f"$version a tool $end {comment} $timescale {scale} $end $scope module m $end {wires}"
    return f"{head} $upscope $end $enddefinitions $end\n{body}\n".encode()


def test_a_dump_is_on_the_longest_interval_that_fits_all_changes(tmp_path):
    foreign = read(tmp_path, dump('#100 0! 1"\n#106 1!\n#112 1! 0"\n#115 0!\n#121'), "a.vcd")
    assert (foreign.format, detect(foreign.path)) == ("vcd", "vcd")
    assert foreign.record.dt_s == pytest.approx(3e-6)
    assert foreign.record.segment_start_s[0] == pytest.approx(100e-6)
    assert codes(foreign, "D0") == [0, 0, 1, 1, 1, 0, 0]
    assert codes(foreign, "D1") == [1, 1, 1, 1, 0, 0, 0]


def test_sigroks_dump_is_on_its_rate_although_times_are_rounded(tmp_path):
    # At 24 MHz sigrok counts in 100 ps: samples 1, 4, 8 and 12 lie at 416.67, 1666.67, 3333.33 and 5000.
    comment = "$comment\n  Acquisition with 1/8 channels at 24 MHz\n$end"
    foreign = read(tmp_path, dump("#0 1!\n#417 0!\n#1667 1!\n#3333 0!\n#5000", scale="100 ps", comment=comment,
                                  wires="$var wire 1 ! D0 $end"), "a.vcd")
    assert foreign.record.dt_s == 1 / 24e6
    assert codes(foreign, "D0") == [1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]


def test_what_is_no_wire_of_one_bit_is_left_out_and_unknown_levels_are_said(tmp_path):
    wires = "$var wire 1 ! clk $end $var wire 4 % bus [3:0] $end $var real 64 & level $end $var wire 1 ! alias $end"
    foreign = read(tmp_path, dump("#0 x! b0101 % r1.5 &\n#2 1!\n#4 z!\n#6 0!\n#8", wires=wires), "a.vcd")
    assert list(foreign.record.channels) == ["clk"]
    assert codes(foreign, "clk") == [1, 1, 1, 0]
    assert "bus" in foreign.warnings[0]
    assert "level" in foreign.warnings[0]
    assert "clk: unknown (x) or floating (z)" in foreign.warnings[1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (dump("#5 0!\n#3 1!"), "time goes back"),
        (dump("#0 0! ?"), "no whole value change dump"),
        (dump(""), "nor does time pass"),
        (b"$version x $end $var wire 1 ! D0 $end $enddefinitions $end #0 0! #1 1!", "time scale"),
        (b"$timescale 1 ns", "no whole value change dump"),
    ],
    ids=range(5),
)
def test_dumps_that_cannot_be_are_refused(tmp_path, content, words):
    with pytest.raises(FileFault, match=words):
        read(tmp_path, content, "a.vcd")


def test_a_window_of_an_hour_at_a_picosecond_is_read_at_once(tmp_path):
    foreign = read(tmp_path, dump("#0 0!\n#1 1!\n#3600000000000000 0!\n#3600000000000001", scale="1 ps"), "a.vcd")
    assert describe(foreign)["channels"][0]["n"] == 3_600_000_000_000_001
    assert describe(foreign)["channels"][0]["mean"] == pytest.approx(1.0)
