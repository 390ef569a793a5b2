"""Whoever reads a capture of a campaign reads the one that was acknowledged; the others are named and go on."""

import contextlib
import csv
import dataclasses
import io
import json
import os
import shutil

import h5py
import pytest
from click.testing import CliRunner

from labctl.campaign import export, journal, pack, runner
from labctl.campaign.folder import holder, open_campaign
from labctl.campaign.results import load_rows
from labctl.campaign.source import open_source
from labctl.campaign.verify import verify
from labctl.campaign.work import Policy
from labctl.cli import campaignfiles, campaignwatch, table
from labctl.errors import BusyFault, FileFault

from .campaign_synthetic import Synthetic, planned_folder
from .serve_server import serving

UTC = "2026-11-30T12:00:00Z"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    opened = planned_folder(tmp_path_factory.mktemp("finished") / "night", 3)
    runner.run(opened, Synthetic(), "made-up-bench", Policy(backoff_s=0.0))
    return opened.path


@pytest.fixture
def night(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "night")


def the_capture(folder, number):
    (found,) = (folder / "captures").glob(f"{number:04d}-*.h5")
    return found


def invoke(command, *arguments):
    return CliRunner().invoke(command, [str(one) for one in arguments], standalone_mode=False)


def swap(night):
    """Put item 2's capture in the place of item 1's."""
    shutil.copyfile(the_capture(night, 2), the_capture(night, 1))


def flip(night):
    """Change one bit in the middle, and no time."""
    path = the_capture(night, 1)
    about, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def remove(night):
    the_capture(night, 1).unlink()


@pytest.mark.parametrize("harm", [swap, flip, remove])
def test_no_reader_takes_another_file_for_the_acknowledged_one(night, harm):
    load_rows([night])  # what was analysed before is kept
    list(export.runs_csv(night))
    name = f"captures/{the_capture(night, 1).name}"
    harm(night)
    reason = "is missing" if harm is remove else "is not the file that was stored"
    exported = invoke(campaignfiles.export, night)
    rows = list(csv.DictReader(io.StringIO(exported.stdout)))
    assert exported.return_value == 4
    assert [row["item"] for row in rows] == ["2", "2", "2", "3", "3", "3"]
    assert f"labctl: item 1 is left out: {name} {reason}" in exported.stderr
    assert "labctl campaign resume DIR --retry-failed" in exported.stderr
    with pytest.raises(FileFault, match=reason):
        next(export.waveform_csv(night, 1))
    with pytest.raises(FileFault, match=reason):
        pack.pack(night, night.with_suffix(".h5"))
    row = next(row for row in load_rows([night]) if row.bytes == 16)
    assert (row.state, row.values) == ("failed", {})
    assert reason in row.reason
    assert invoke(campaignfiles.verify, night).return_value == 1
    with serving(night) as server:
        page = server.ask("/c/night/items/1")
        assert page.status == 200
        assert reason in page.body.decode()
        assert 'id="waveform"' not in page.body.decode()
        for what in ("waveform", "runs"):
            assert server.ask(f"/c/night/items/1/{what}.json").status == 404
            assert server.ask(f"/c/night/items/2/{what}.json").status == 200


def test_a_file_that_is_damaged_under_the_server_is_not_shown_any_more(night):
    with serving(night) as server:
        assert server.ask("/c/night/items/1/waveform.json").status == 200
        flip(night)
        assert server.ask("/c/night/items/1/waveform.json").status == 404


@pytest.mark.parametrize("place", ["../outside.h5", "captures/../../outside.h5", "captures/link.h5", "campaign.json",
                                   "captures/failed/../../../outside.h5"])
def test_a_name_that_leads_elsewhere_is_not_opened(night, tmp_path, place):
    outside = tmp_path / "outside.h5"
    shutil.copyfile(the_capture(night, 1), outside)
    (night / "captures/link.h5").symlink_to(outside)
    first = next(one for one in journal.read(night).attempts if one.item == 1)
    path = night / journal.NAME
    path.write_bytes(b"")
    journal.append(night, dataclasses.replace(first, capture=place))
    exported = invoke(campaignfiles.export, night)
    assert exported.return_value == 4
    assert "is no place of a capture in the campaign's folder" in exported.stderr
    assert len(exported.stdout.splitlines()) == 1
    assert "is no place of a capture" in next(row for row in load_rows([night]) if row.bytes == 16).reason
    with pytest.raises(FileFault, match="is no place of a capture"):
        pack.pack(night, tmp_path / "packed.h5")
    assert invoke(campaignfiles.verify, night).return_value == 1
    with serving(night) as server:
        assert server.ask("/c/night/items/1/waveform.json").status == 404


def test_a_pack_is_read_as_the_folder_is(night, tmp_path):
    packed = pack.pack(night, tmp_path / "night.h5")
    for command, arguments in ((campaignfiles.status, ["--json"]), (campaignfiles.status, []),
                               (campaignfiles.export, []), (campaignfiles.export, ["--waveform", "2"])):
        there, here = (invoke(command, place, *arguments) for place in (packed, night))
        assert there.output == here.output, arguments
        assert there.return_value == here.return_value == 0


def damaged(night, number):
    """Flip a byte of a line of the journal, and tear its last one."""
    path = night / journal.NAME
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b'"key"', b'"kex"')
    path.write_bytes(b"".join(lines) + lines[1][:40])


def test_damage_of_the_journal_is_said_by_all_and_a_torn_tail_by_none(night):
    said = "1 line of journal.jsonl (2) is damaged"

    def texts():
        with serving(night) as server:
            page = server.ask("/c/night/").body.decode()
        listed = invoke(campaignfiles.status, night).output, invoke(campaignwatch.watch, night, "--once").output
        return [" ".join(text.split()) for text in (*listed, invoke(table.command, night).stderr, page)]

    path = night / journal.NAME
    with path.open("ab") as stream:
        stream.write(b'{"begun_utc": "20')
    assert not any("damaged" in text for text in texts())
    damaged(night, 2)
    assert [said in text for text in texts()] == [True] * 4
    document = json.loads(invoke(campaignfiles.status, night, "--json").output)
    assert (document["n_dropped"], document["broken_lines"], document["n_done"]) == (2, [2], 2)
    with open_source(night) as source:
        assert (source.state().n_torn, source.state().broken) == (1, (2,))


def test_a_table_on_standard_output_is_not_mixed_with_what_is_said_of_the_journal(night):
    damaged(night, 2)
    found = invoke(table.command, night, "--format", "csv")
    assert "damaged" in found.stderr
    assert "damaged" not in found.stdout


@pytest.mark.parametrize("odd", ["list", "journal", "no journal", "pipe", "deep"])
def test_one_odd_folder_does_not_take_the_others_from_the_list(night, odd):
    other = shutil.copytree(night, night.parent / "odd")
    name = "campaign.json" if odd in ("list", "deep") else journal.NAME
    (other / name).unlink()
    if odd == "pipe":
        os.mkfifo(other / name)
    elif odd != "no journal":
        (other / name).write_bytes(b"[" * 100_000 if odd == "deep" else b'{"a": 1}' if odd == "list" else b"")
        if odd == "journal":
            (other / name).chmod(0)
            (other / name).unlink()
            (other / name).mkdir()
    with serving(night.parent) as server:
        page = server.ask("/")
        assert page.status == 200
        assert 'href="/c/night/"' in page.body.decode()
        assert f"odd/{name}" in page.body.decode()
        assert server.ask("/c/odd/").status == 404
        assert server.ask("/c/night/").status == 200


def edit_list(night, change):
    path = night / "campaign.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))


def rewrite_plan(before, after):
    def change(night):
        path = night / "plan.toml"
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))

    return change


HARMS = {
    "the plan is no TOML": (lambda night: (night / "plan.toml").write_text("[campaign"), "plan.toml cannot be read"),
    "runs of the plan": (rewrite_plan("runs = 3", "runs = 4"),
                         "differ: [campaign] runs was 3 when the campaign began and is 4 now (3 items)"),
    "items of the plan": (rewrite_plan("[16, 32, 48]", "[16, 32]"), "[factors] bytes held 48"),
    "name of the plan": (rewrite_plan('name = "made-up"\n', 'name = "other"\n'), "has the name 'other'"),
    "what a key says": (lambda night: edit_list(night, lambda one: one["items"][0].update(repeat=5)),
                        "item 1 of campaign.json is not what its key says"),
    "the schedule": (lambda night: edit_list(night, lambda one: one.update(schedule=[1, 3])),
                     "the schedule of campaign.json lacks item 2"),
    "an item twice": (lambda night: edit_list(night, lambda one: one.update(schedule=[1, 2, 3, 2])),
                      "the schedule of campaign.json has item 2 more than once"),
    "the bench of an item": (lambda night: edit_list(night, lambda one: one["items"][1].update(bench="other")),
                             "item 2 is on bench other, of which campaign.json has no facts"),
    "the bench's file": (lambda night: (night / "bench-made-up-bench.toml").write_text('name = "x"\n'),
                         "bench-made-up-bench.toml does not hold the facts"),
    "the bench's shunt": (
        lambda night: edit_list(night, lambda one: one["benches"][0]["shunt"].update(resistance_ohm=2.6)),
        "does not belong to item 1: it holds shunt resistance_ohm 1.3 instead of 2.6"),
    "runs of an item": (lambda night: edit_list(night, lambda one: one["items"][2]["operation"].update(n_runs=30)),
                        "does not belong to item 3: it holds n_runs 3 instead of 30"),
}


@pytest.mark.parametrize(("harm", "said"), HARMS.values(), ids=HARMS)
def test_verify_holds_plan_list_schedule_and_benches_against_each_other(night, harm, said):
    assert verify(night).faults == ()
    harm(night)
    found = verify(night).faults
    assert any(said in one for one in found), found


def test_a_plan_that_has_more_than_the_list_is_what_a_crash_leaves(night):
    rewrite_plan("[16, 32, 48]", "[16, 32, 48, 64]")(night)
    report = verify(night)
    assert report.faults == ()
    assert report.notes == ("plan.toml has 1 item more than campaign.json, to be added by the next `resume`",)


def test_a_plan_of_another_labctl_is_no_fault(night):
    edit_list(night, lambda one: one.update(software="labctl 0.0.1"))
    rewrite_plan("runs = 3", "runs = 4")(night)
    report = verify(night)
    assert report.faults == ()
    assert "(it was made by labctl 0.0.1, and this is labctl" in report.notes[0]


def test_every_member_of_a_pack_is_checked(night, tmp_path):
    packed = pack.pack(night, tmp_path / "night.h5")
    with h5py.File(packed, "r+") as file:
        file.create_group("more")
        file.create_group("captures/0009-left.h5")
        for name in ("plan.toml", "bench-made-up-bench.toml"):
            file[f"files/{name}"].attrs["crc32"] = 1
    report = verify(packed)
    for name in ("plan.toml", "bench-made-up-bench.toml"):
        assert any(f"{name} cannot be read (it fails its CRC-32)" in one for one in report.faults)
    assert report.notes == ("captures/0009-left.h5 is no part of the campaign", "more is no part of the campaign")


def test_verify_names_the_command_that_takes_a_damaged_capture_again(night):
    assert "--retry-failed" not in invoke(campaignfiles.verify, night).output
    flip(night)
    said = " ".join(invoke(campaignfiles.verify, night).output.split())
    assert f"`labctl campaign resume {night} --retry-failed` takes this capture again" in said


def test_a_campaign_that_is_gone_on_with_while_it_is_packed_is_not_packed(night, tmp_path):
    def begin(stack):
        if holder(night) is None:
            stack.enter_context(open_campaign(night).lock(UTC))

    with contextlib.ExitStack() as stack, pytest.raises(BusyFault, match="pack it when that is done"):
        pack.pack(night, tmp_path / "night.h5", lambda _: begin(stack))
    assert not (tmp_path / "night.h5").exists()


@pytest.mark.parametrize("command", [campaignfiles.status, campaignfiles.verify, campaignfiles.pack,
                                     campaignfiles.export, campaignwatch.watch, table.command])
def test_a_folder_without_a_journal_says_what_is_lost_and_what_to_do(night, command):
    (night / journal.NAME).unlink()
    found = invoke(command, night)
    assert isinstance(found.exception, FileFault)
    assert "journal.jsonl is missing, so that what was done is not known" in str(found.exception)
    assert sorted(one.name for one in night.parent.iterdir()) == ["night"]
