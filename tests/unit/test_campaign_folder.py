"""The folder of a campaign appears whole, holds nothing that names a place, and has one runner at a time."""

import dataclasses
import errno
import os
import signal
import subprocess
import sys
import tomllib

import pytest

from labctl.campaign.folder import Now, capture_name, create, holder, open_campaign
from labctl.campaign.model import Campaign, Item
from labctl.errors import BusyFault, DiskFull, FileFault
from labctl.model import Operation

from .campaign_synthetic import campaign_folder, items_of

UTC = "2026-11-30T12:00:00Z"


def names(folder):
    return sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*"))


def test_what_is_created_is_opened(tmp_path):
    made = campaign_folder(tmp_path / "deep" / "night")
    assert open_campaign(made.path).campaign == made.campaign
    assert names(made.path) == [
        "bench-made-up-bench.toml", "campaign.json", "captures", "captures/failed", "journal.jsonl", "plan.toml"
    ]
    assert names(tmp_path / "deep")[0] == "night"


def test_facts_of_a_bench_lose_what_names_a_place(tmp_path):
    facts = {
        "name": "left",
        "emulated": False,
        "boards": ["a", "b"],
        "file": "/home/somebody/bench.toml",
        "scope": {"driver": "x", "resource": "TCPIP::10.1.2.3::5025::SOCKET", "trigger_channel": 2, "none": None},
        "dut": {"port": "/dev/ttyUSB0", "power": "socket://10.1.2.4:1", "board": "a"},
    }
    campaign = Campaign("n", 1, items_of(1), (1,), (facts,), UTC, "labctl")
    made = create(tmp_path / "night", "", campaign)
    text = b"".join(one.read_bytes() for one in made.path.iterdir() if one.is_file())
    for place in (b"10.1.2", b"ttyUSB", b"somebody", b"TCPIP"):
        assert place not in text
    assert tomllib.loads((made.path / "bench-left.toml").read_text()) == {
        "name": "left", "emulated": False, "boards": ["a", "b"], "scope": {"driver": "x", "trigger_channel": 2},
        "dut": {"board": "a"},
    }


@pytest.mark.parametrize("there", ["file", "full", "link"])
def test_what_is_there_is_kept(tmp_path, there):
    out = tmp_path / "night"
    if there == "file":
        out.write_text("mine")
    elif there == "link":
        out.symlink_to(tmp_path / "nowhere")
    else:
        out.mkdir()
        (out / "mine").touch()
    before = names(tmp_path)
    with pytest.raises(FileFault, match="exists already and is kept"):
        campaign_folder(out)
    assert names(tmp_path) == before


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "night").mkdir()
    assert open_campaign(campaign_folder(tmp_path / "night").path).campaign.name == "made-up"


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DiskFull):
        campaign_folder(tmp_path / "night")
    assert names(tmp_path) == []


def test_only_what_a_dead_maker_left_is_removed(tmp_path):
    left = tmp_path / ".night.0123abcd.tmp"
    (left / "captures").mkdir(parents=True)
    (left / "plan.toml").touch()
    foreign = tmp_path / ".mine.0123abcd.tmp"
    foreign.mkdir()
    (foreign / "thesis.tex").touch()
    campaign_folder(tmp_path / "night")
    assert sorted(one.name for one in tmp_path.iterdir()) == [".mine.0123abcd.tmp", "night"]
    assert (foreign / "thesis.tex").exists()


def test_a_campaign_grows_and_does_nothing_else(tmp_path):
    made = campaign_folder(tmp_path / "night", 2)
    longer = items_of(3)
    made.extend(longer, (3, 1, 2), "# more\n")
    again = open_campaign(made.path)
    assert again.campaign == made.campaign
    assert again.campaign.items == longer
    assert again.campaign.schedule == (3, 1, 2)
    assert (made.path / "plan.toml").read_text() == "# more\n"
    changed = (dataclasses.replace(longer[0], key="other"), *longer[1:])
    for items in (longer[:2], changed):
        with pytest.raises(ValueError, match="only grows"):
            made.extend(items, (1, 2), "")
    assert open_campaign(made.path).campaign.items == longer


@pytest.mark.parametrize(("operation", "name"), [
    (Operation("idle"), "0007-b-idle"),
    (Operation("sha256", 64, clock_hz=24_000_000), "0007-b-sha256-64-24MHz"),
    (Operation("sha256", 64, "tinycrypt", profile="O3", clock_hz=16_500_000, variant="tables=ram,offset=1"),
     "0007-b-sha256-64-tinycrypt-O3-16.5MHz-tables_ram_offset_1"),
    (Operation("../../x y"), "0007-b-_.._x_y"),
])
def test_a_capture_is_named_by_its_item_alone(operation, name):
    item = Item(7, "key", "b", operation, "bench")
    assert capture_name(item) == f"captures/{name}.h5"
    assert capture_name(item, 2) == f"captures/failed/{name}-attempt2.h5"


def test_a_second_runner_is_told_who_holds_it(tmp_path):
    path = campaign_folder(tmp_path / "night").path
    with open_campaign(path).lock(UTC):
        assert holder(path).pid == os.getpid()
        with pytest.raises(BusyFault, match=rf"by process {os.getpid()} since {UTC}"), open_campaign(path).lock("x"):
            raise AssertionError
        assert holder(path).since_utc == UTC
    assert holder(path) is None
    with open_campaign(path).lock(UTC):
        pass


HOLD = """
import sys, pathlib
from labctl.campaign.folder import Now, open_campaign
opened = open_campaign(pathlib.Path(sys.argv[1]))
with opened.lock("2026-11-30T12:00:00Z"):
    opened.show_now(Now("left/1", 2, 1, "2026-11-30T12:00:01Z"))
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_dead_process_holds_nothing(tmp_path):
    path = campaign_folder(tmp_path / "night").path
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as child:
        assert child.stdout.readline() == "held\n"
        opened = open_campaign(path)
        assert holder(path).pid == child.pid
        assert opened.now() == (Now("left/1", 2, 1, "2026-11-30T12:00:01Z"),)
        with pytest.raises(BusyFault, match=f"process {child.pid} "), opened.lock(UTC):
            raise AssertionError
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert holder(path) is None
    assert opened.now() == ()
    with opened.lock(UTC):
        assert holder(path).pid == os.getpid()


def test_a_number_used_again_by_another_process_is_told(tmp_path):
    path = campaign_folder(tmp_path / "night").path
    (path / ".lock").write_text(f'{{"pid": {os.getpid()}, "since_utc": "{UTC}", "start": "1"}}')
    assert holder(path) is None


def test_what_is_no_campaign_is_refused(tmp_path):
    with pytest.raises(FileFault, match=r"holds no campaign\.json"):
        open_campaign(tmp_path)
    with pytest.raises(FileFault, match="there is no such folder"):
        open_campaign(tmp_path / "nowhere")
    newer = '{"schema": "labctl.campaign/2"}'
    for text, reason in (("{", "damaged"), (newer, "read it with the labctl that wrote it")):
        (tmp_path / "campaign.json").write_text(text)
        with pytest.raises(FileFault, match=reason):
            open_campaign(tmp_path)
