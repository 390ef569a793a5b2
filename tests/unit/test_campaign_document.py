"""What a campaign's files may hold: whatever else stands there is refused with file, line and key."""

import json
import os
import zlib

import pytest
from click.testing import CliRunner

from labctl.campaign import journal
from labctl.campaign.folder import from_text, holder, open_campaign, read_now
from labctl.campaign.model import Attempt
from labctl.cli import campaignfiles, campaignwatch, table
from labctl.errors import FileFault

from .campaign_synthetic import campaign_folder

UTC = "2026-11-30T12:00:00Z"
SOUND = {"item": 1, "key": "k", "number": 1, "state": "done", "final": True, "begun_utc": UTC, "ended_utc": UTC,
         "elapsed_s": 1.0}
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture
def night(tmp_path):
    return campaign_folder(tmp_path / "night", 2).path


def line(fields):
    """Spell a line of the journal whose CRC is right, whatever it holds."""
    body = fields if isinstance(fields, bytes) else json.dumps({"entry": "attempt", **SOUND, **fields}).encode()
    return body[:-1] + b', "crc32": "%08x"}\n' % zlib.crc32(body)


WRONG_LINES = {
    "text for a number": ({"item": "1"}, "item is '1' and no whole number"),
    "truth for a number": ({"number": True}, "number is True and no whole number"),
    "number for a text": ({"error": 7}, "error is 7 and no text"),
    "list for a row": ({"row": []}, "row is a list and no object"),
    "text in a row": ({"row": {"energy_mean_j": "x"}}, "row.energy_mean_j is 'x' and no number"),
    "table in a row": ({"row": {"n_runs": {}}}, "row.n_runs is an object and no number"),
    "huge": ({"item": 10**400}, "item is a huge number and no whole number"),
    "huge with a point": (json.dumps({"entry": "attempt", **SOUND}).replace("1.0", "1e999").encode(), "elapsed_s"),
    "nan": ({"elapsed_s": float("nan")}, "NaN is no number"),
    "long": ({"key": "k" * 100_000}, "key has 100000 characters"),
    "long key": ({"k" * 100_000: 1}, "is not known"),
    "control": ({"key": "\x1b[2J"}, r"key is '\\x1b\[2J': it has control characters"),
    "state": ({"state": "finished"}, "state is 'finished'"),
    "deep": (b'{"entry": "attempt", "row": ' + DEEP + b"}", "nested too deep"),
    "entry": ({"entry": ["attempt"]}, "entry is a list"),
}


@pytest.mark.parametrize(("wrong", "reason"), WRONG_LINES.values(), ids=WRONG_LINES)
def test_a_line_of_another_kind_is_refused_by_every_command(night, wrong, reason):
    with (night / journal.NAME).open("ab") as stream:
        stream.write(line({"state": "failed"}) + line(wrong))
    with pytest.raises(FileFault, match=rf"journal\.jsonl, line 2 .*{reason}"):
        journal.read(night)
    for command in (campaignfiles.status, campaignfiles.verify, campaignwatch.watch, table.command,
                    campaignfiles.export):
        found = CliRunner().invoke(command, [str(night)], standalone_mode=False)
        assert isinstance(found.exception, FileFault), (command, found.exception)
        assert str(found.exception).isprintable()
        assert len(str(found.exception)) < 600


def changed(night, *place, to):
    """Give the list of a campaign with one value changed."""
    document = json.loads((night / "campaign.json").read_bytes())
    *way, last = place
    inner = document
    for key in way:
        inner = inner[key]
    inner[last] = to
    return json.dumps(document).encode()


WRONG_LISTS = {
    "name": (("name",), 5, "name is 5 and no text"),
    "control": (("name",), "a\x1b[2Jb", "name is .*control characters"),
    "seed": (("seed",), "3", "seed is '3'"),
    "items": (("items",), {}, "items is no list"),
    "item": (("items", 0), 7, r"items\[0\] is no object"),
    "operation": (("items", 0, "operation"), None, r"items\[0\]\.operation is no object"),
    "bytes": (("items", 1, "operation", "bytes"), "64", r"items\[1\]\.operation\.bytes is '64'"),
    "number": (("items", 1, "number"), 1, r"items\[1\]\.number is 1: items are numbered from 1"),
    "schedule": (("schedule",), [1, "2"], "schedule has '2'"),
    "schedule of another": (("schedule",), [1, 3], "schedule has 3"),
    "bench": (("benches", 0, "name"), None, r"benches\[0\]\.name is None"),
    "facts": (("benches", 0, "shunt"), {"a": {"b": {"c": 1}}}, "nested too deep"),
}


@pytest.mark.parametrize(("place", "to", "reason"), WRONG_LISTS.values(), ids=WRONG_LISTS)
def test_a_list_of_another_kind_is_refused(night, place, to, reason):
    with pytest.raises(FileFault, match=rf"here is damaged, or of a newer labctl \(.*{reason}"):
        from_text(changed(night, *place, to=to), "here")


@pytest.mark.parametrize("text", [b"", b"null", b"[]", b'"x"', DEEP, b"\xff\xfe", b"1" * 5000, b'{"schema": []}'],
                         ids=["empty", "null", "list", "text", "deep", "bytes", "huge", "schema"])
def test_what_is_no_list_at_all_is_refused(text):
    with pytest.raises(FileFault, match=r"^here is "):
        from_text(text, "here")


def test_what_only_looks_like_a_lock_or_an_item_in_work_is_none(night):
    for text in (b"", b"7", DEEP, b'{"pid": "1", "since_utc": "", "start": "0"}', b'{"pid": -1, "since_utc": "", '
                 b'"start": null}', b'{"pid": 99999999999999999999, "since_utc": "", "start": null}'):
        (night / ".lock").write_bytes(text)
        (night / ".now-x.json").write_bytes(text)
        assert holder(night) is None
        assert read_now(night) == ()


def test_carriage_returns_of_a_copy_change_nothing(night):
    for number in (1, 2):
        journal.append(night, Attempt(**{**SOUND, "item": number}))
    before = journal.read(night)
    path = night / journal.NAME
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert journal.read(night) == before
    journal.append(night, Attempt(**SOUND))
    assert len(journal.read(night).attempts) == 3
    path.write_bytes(path.read_bytes()[:-3])
    assert journal.read(night) == journal.Journal(before.attempts, (), 1, ())


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(night):
    (night / journal.NAME).unlink()
    os.mkfifo(night / journal.NAME)
    with pytest.raises(FileFault, match="is a pipe"):
        journal.read(night)
    (night / "campaign.json").unlink()
    os.mkfifo(night / "campaign.json")
    with pytest.raises(FileFault, match="is a pipe"):
        open_campaign(night)
