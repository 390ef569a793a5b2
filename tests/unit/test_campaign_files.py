"""Verify finds every fault and no other; a pack is the folder again, byte for byte; exports are what was measured."""

import csv
import dataclasses
import io
import shutil

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from labctl.analysis.result import analyze
from labctl.campaign import export, journal, pack, runner
from labctl.campaign.folder import open_campaign
from labctl.campaign.results import campaign_table
from labctl.campaign.verify import verify
from labctl.campaign.work import Policy
from labctl.cli import campaignfiles
from labctl.errors import BusyFault, ConfigError, DeviceTransient, FileFault
from labctl.store import open_capture

from .campaign_synthetic import DT_S, Synthetic, campaign_folder, capture_of, planned_folder, record_of, window_samples

UTC = "2026-11-30T12:00:00Z"


def flat(item):
    """Make a capture that gives no number: its trigger does not move."""
    records = {**capture_of(item).records, "series": record_of(3, 0)}
    return capture_of(item, records=records)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Give a campaign of three items, with an attempt that failed without a capture and one that failed with one."""
    opened = planned_folder(tmp_path_factory.mktemp("finished") / "night", 3)
    runner.run(opened, Synthetic({(2, 1): DeviceTransient("no answer"), (3, 1): flat}), "made-up-bench",
               Policy(backoff_s=0.0))
    return opened.path


@pytest.fixture
def night(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "night")


def test_failed_items_are_counted_by_verify(tmp_path):
    opened = planned_folder(tmp_path / "lost", 3)
    runner.run(opened, Synthetic({(2, 1): DeviceTransient("no answer")}), "made-up-bench", Policy(n_attempts=1))
    assert (verify(opened.path).n_captures, verify(opened.path).n_failed) == (2, 1)
    done = CliRunner().invoke(campaignfiles.verify, [str(opened.path)])
    assert "1 item failed and has no result to check" in " ".join(done.output.split())


def content(folder):
    return {
        one.relative_to(folder).as_posix(): one.read_bytes()
        for one in folder.rglob("*") if one.is_file() and one.name != ".lock"
    }


def the_capture(folder, number):
    (found,) = (folder / "captures").glob(f"{number:04d}-*.h5")
    return found


def faults(folder):
    return list(verify(folder).faults)


def test_a_sound_campaign(night):
    report = verify(night)
    assert (report.n_captures, report.faults, report.notes) == (4, (), ())
    assert report.n_bytes == sum(one.stat().st_size for one in (night / "captures").rglob("*.h5"))


def test_every_flipped_bit_of_a_capture_is_found(night):
    path = the_capture(night, 2)
    sound = path.read_bytes()
    for place in np.random.default_rng(1).integers(0, len(sound), 40):
        damaged = bytearray(sound)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        assert f"captures/{path.name} is not the file that was stored, its size or CRC-32 differs" in faults(night)


def test_a_capture_that_is_gone(night):
    path = the_capture(night, 1)
    path.unlink()
    assert faults(night) == [f"captures/{path.name} is missing, which the journal says was stored"]


def test_captures_in_each_others_places(night):
    first, second = the_capture(night, 1), the_capture(night, 2)
    first.rename(night / "x")
    second.rename(first)
    (night / "x").rename(second)
    found = faults(night)
    assert sum("is not the file that was stored" in one for one in found) == 2
    assert f"captures/{first.name} does not belong to item 1: it holds bytes 32 instead of 16" in found


def test_a_capture_of_another_item_with_its_own_line(night):
    """The journal speaks of the file that is there, and the file is another item's."""
    lines = journal.read(night).attempts
    other, path = the_capture(night, 2), the_capture(night, 1)
    shutil.copy(other, path)
    size, crc32 = journal.size_and_crc32(path)
    first = next(one for one in lines if one.item == 1)
    journal.append(night, dataclasses.replace(first, capture_bytes=size, capture_crc32=crc32))
    assert faults(night) == [f"captures/{path.name} does not belong to item 1: it holds bytes 32 instead of 16"]


def test_lines_of_no_item_and_of_another_key_and_place(night):
    first = next(one for one in journal.read(night).attempts if one.item == 1)
    journal.append(night, dataclasses.replace(first, item=99))
    journal.append(night, dataclasses.replace(first, key="another"))
    journal.append(night, dataclasses.replace(first, capture="../../x.h5"))
    found = faults(night)
    assert "the journal's attempt 1 at item 99 is at no item of campaign.json" in found
    assert any("at item 1 is of another, but that item is stm32vldiscovery sha256 16B" in one for one in found)
    assert any("names the capture ../../x.h5, but its place is captures/0001-" in one for one in found)
    assert any(one.startswith("'../../x.h5' is no place of a capture in the campaign's folder") for one in found)


def test_a_torn_tail_is_a_note_and_a_broken_line_a_fault(night):
    path = night / journal.NAME
    whole = path.read_bytes()
    path.write_bytes(whole + whole.split(b"\n")[1][:40])
    report = verify(night)
    assert report.faults == ()
    assert report.notes == ("1 line was cut off in journal.jsonl by a crash; nothing that was done is lost",)
    path.write_bytes(whole.replace(b'"key"', b'"kex"', 1))
    (fault,) = faults(night)
    assert fault == "journal.jsonl, line 2 is damaged: what it spoke of is not known"


def test_what_a_crash_leaves_and_what_is_foreign_is_named(night):
    shutil.copy(the_capture(night, 1), night / "captures/0009-left.h5")
    (night / "captures/.0001-x.h5.0123abcd.tmp").touch()
    (night / "thesis.tex").touch()
    report = verify(night)
    assert report.faults == ()
    assert [note.partition(" ")[0] for note in report.notes] == [
        "captures/.0001-x.h5.0123abcd.tmp", "captures/0009-left.h5", "thesis.tex"
    ]


def test_a_plan_that_is_gone(night):
    (night / "plan.toml").unlink()
    (night / "bench-made-up-bench.toml").unlink()
    assert faults(night) == ["bench-made-up-bench.toml is missing", "plan.toml is missing"]


@pytest.mark.parametrize("piece_min", [1, 500, 1 << 30])
def test_a_pack_is_the_folder_again(night, tmp_path, monkeypatch, piece_min):
    """Whatever is cut out of a capture's file, from every array to nothing."""
    monkeypatch.setattr(pack, "_PIECE_MIN_BYTES", piece_min)
    packed = pack.pack(night, tmp_path / "night.h5")
    report = verify(packed)
    assert (report.n_captures, report.faults, report.notes) == (4, (), ())
    again = pack.unpack(packed, tmp_path / "again")
    assert content(again) == content(night)
    assert verify(again).faults == ()
    assert campaign_table(again) == campaign_table(night)


def test_a_pack_can_be_browsed_and_its_chunks_are_as_they_were(night, tmp_path):
    pack.pack(night, tmp_path / "night.h5")
    path = the_capture(night, 1)
    name = "records/series/CH1/codes"
    with h5py.File(tmp_path / "night.h5") as packed, h5py.File(path) as single:
        assert packed["files/plan.toml"][()] == (night / "plan.toml").read_bytes()
        group = packed[f"captures/{path.name}"]
        assert group.attrs["schema"] == single.attrs["schema"]
        assert np.array_equal(group[name][...], single[name][...])
        assert group[name].id.read_direct_chunk((0, 0)) == single[name].id.read_direct_chunk((0, 0))


def test_damage_of_a_pack_is_found(night, tmp_path, monkeypatch):
    monkeypatch.setattr(pack, "_PIECE_MIN_BYTES", 1)
    packed = pack.pack(night, tmp_path / "night.h5")
    path = the_capture(night, 1)
    name = f"captures/{path.name}/records/series"
    with h5py.File(packed) as file:
        chunk = file[f"{name}/CH1/codes"].id.get_chunk_info(0)
    sound = packed.read_bytes()
    damaged = bytearray(sound)
    damaged[chunk.byte_offset + chunk.size // 2] ^= 1
    packed.write_bytes(damaged)
    assert any(path.name in fault for fault in faults(packed))
    with pytest.raises(FileFault, match="damaged"):
        pack.unpack(packed, tmp_path / "again")
    assert not (tmp_path / "again").exists()
    packed.write_bytes(sound)
    with h5py.File(packed, "r+") as file:
        file[f"{name}/segment_start_s"][1] = 7.0
    assert any("segment_start_s fails its CRC-32" in fault for fault in faults(packed))


def test_a_pack_cannot_write_outside_its_folder(night, tmp_path):
    packed = pack.pack(night, tmp_path / "night.h5")
    with h5py.File(packed, "r+") as file:
        file["files"].move("plan.toml", "evil.sh")
    with pytest.raises(FileFault, match=r"evil\.sh.*not unpacked"):
        pack.unpack(packed, tmp_path / "again")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["night", "night.h5"]


def test_a_damaged_or_busy_campaign_is_not_packed(night, tmp_path):
    with open_campaign(night).lock(UTC), pytest.raises(BusyFault, match="pack it when that is done"):
        pack.pack(night, tmp_path / "night.h5")
    the_capture(night, 2).write_bytes(b"x")
    with pytest.raises(FileFault, match="is not the file that was stored"):
        pack.pack(night, tmp_path / "night.h5")
    assert [one.name for one in tmp_path.iterdir()] == ["night"]


def test_nothing_is_written_over(night, tmp_path):
    packed = pack.pack(night, tmp_path / "night.h5")
    with pytest.raises(FileFault, match="exists already"):
        pack.pack(night, packed)
    with pytest.raises(FileFault, match="exists already"):
        pack.unpack(packed, night)


@pytest.mark.parametrize("what", ["capture", "text"])
def test_what_is_no_pack_is_refused(night, tmp_path, what):
    path = the_capture(night, 1) if what == "capture" else night / "plan.toml"
    with pytest.raises(FileFault, match="no packed campaign"):
        verify(path)


def test_a_row_a_run(night):
    rows = list(csv.DictReader(io.StringIO("".join(export.runs_csv(night)))))
    assert [(row["item"], row["run"]) for row in rows] == [(str(i), str(run)) for i in (1, 2, 3) for run in (1, 2, 3)]
    for number in (1, 2, 3):
        with open_capture(the_capture(night, number)) as capture:
            runs = analyze(capture).runs
        for row, run in zip([one for one in rows if one["item"] == str(number)], runs, strict=True):
            assert float(row["energy_j"]) == run.energy_j
            assert float(row["duration_s"]) == run.duration_s
            assert float(row["current_mean_a"]) == run.current_mean_a
            assert float(row["power_w"]) == run.power_w
            assert row["bytes"] == str(16 * number)
            assert row["clock_hz"] == "24000000"


def test_the_samples_of_the_windows(night):
    item = open_campaign(night).campaign.items[1]
    rows = list(csv.reader(io.StringIO("".join(export.waveform_csv(night, 2)))))
    assert rows[0] == ["run", "time_s", "CH1_v", "CH2_v"]
    n = window_samples(item.key)
    for run in ("1", "2", "3"):
        of_run = [row for row in rows[1:] if row[0] == run]
        # Edges lie between two samples, so that a window of n samples holds exactly these.
        assert len(of_run) == n
        assert 0 <= float(of_run[0][1]) < DT_S
        assert float(of_run[-1][1]) - float(of_run[0][1]) == pytest.approx((n - 1) * DT_S)
        assert {row[2] for row in of_run} == {"0.013"}
        assert [float(row[3]) for row in of_run] == pytest.approx([3.3] * n)
    with pytest.raises(ConfigError, match="has no item 9"):
        next(export.waveform_csv(night, 9))


def test_an_item_that_is_not_done_has_no_waveform(tmp_path):
    path = campaign_folder(tmp_path / "night", 2).path
    with pytest.raises(ConfigError, match="item 1 is pending"):
        next(export.waveform_csv(path, 1))
    assert len(list(export.runs_csv(path))) == 1


def run(command, *arguments):
    return CliRunner().invoke(command, [str(one) for one in arguments], standalone_mode=False)


def test_the_commands(night, tmp_path):
    assert "3 of 3 items done, 0 to do" in run(campaignfiles.status, night).output
    assert run(campaignfiles.verify, night).return_value == 0
    assert run(campaignfiles.pack, night).output == f"Written: {tmp_path / 'night.h5'}\n"
    made = tmp_path / "made"
    assert run(campaignfiles.unpack, tmp_path / "night.h5", "--out", made).output == f"Made: {made}\n"
    assert run(campaignfiles.verify, tmp_path / "night.h5").return_value == 0
    text = run(campaignfiles.export, night, "--format", "csv").output
    assert run(campaignfiles.export, night, "--out", tmp_path / "runs.csv").return_value == 0
    assert (tmp_path / "runs.csv").read_text() == text == "".join(export.runs_csv(night))
    the_capture(night, 1).unlink()
    done = run(campaignfiles.verify, night)
    assert done.return_value == 1
    assert "fault: captures/0001-" in done.output


def test_a_damaged_line_is_said_and_its_capture_packed_all_the_same(night, tmp_path):
    path = night / journal.NAME
    path.write_bytes(path.read_bytes().replace(b'"key"', b'"kex"', 1))
    name = the_capture(night, 1).relative_to(night).as_posix()
    done = run(campaignfiles.pack, night)
    assert "journal.jsonl (2) is damaged" in " ".join(done.stderr.split())
    assert name in "".join(done.stderr.split())
    made = tmp_path / "made"
    run(campaignfiles.unpack, tmp_path / "night.h5", "--out", made)
    assert (made / name).read_bytes() == (night / name).read_bytes()
    done = run(campaignfiles.export, night)
    assert "journal.jsonl (2) is damaged" in " ".join(done.stderr.split())
    assert done.return_value == 4


def test_status_looks_whether_captures_are_there(night):
    assert run(campaignfiles.status, night).stderr == ""
    with the_capture(night, 2).open("ab") as file:
        file.write(b"x")
    done = run(campaignfiles.status, night)
    assert "captures/0002-" in done.stderr
    assert "labctl campaign verify" in done.stderr
    the_capture(night, 1).unlink()
    assert "2 captures" in run(campaignfiles.status, night).stderr


def test_status_takes_no_lock(night):
    opened = open_campaign(night)
    with opened.lock(UTC):
        assert "Process" in run(campaignfiles.status, night).output
    shutil.rmtree(night / "captures")
    night.chmod(0o500)
    try:
        assert run(campaignfiles.status, night, "--json").exit_code == 0
    finally:
        night.chmod(0o700)
