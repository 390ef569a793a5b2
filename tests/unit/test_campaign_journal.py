"""The journal: what is appended comes back, a crash's end is told from damage, a full disk takes nothing with it."""

import errno
import json
import multiprocessing
import os
import zlib

import pytest

from labctl.campaign import journal
from labctl.campaign.model import Attempt, Event
from labctl.errors import DiskFull, EnvironmentFault, FileFault

UTC = "2026-11-30T12:00:00.000Z"
ROW = {"energy_mean_j": 5.93e-5, "bytes": None, "warnings": ["25 °C, ±"], "odd": "half a character: \udc80"}


def attempt(number, **changed):
    fields = {"item": number, "key": f"k{number}", "number": 1, "state": "done", "final": True, "begun_utc": UTC,
              "ended_utc": UTC, "elapsed_s": 0.125, "row": ROW}
    return Attempt(**{**fields, **changed})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / journal.NAME).touch()
    return tmp_path


def put(folder, content):
    (folder / journal.NAME).write_bytes(content)


def test_what_is_appended_comes_back_in_order(folder):
    begin = Event("begin", UTC, "2 items", "left", {"n_left": 2})
    entries = [attempt(1), begin, attempt(2, state="failed", error="no")]
    for entry in entries:
        journal.append(folder, entry)
    assert journal.read(folder) == journal.Journal((entries[0], entries[2]), (entries[1],))


def test_a_line_is_json_with_sorted_keys_and_its_crc_last(folder):
    journal.append(folder, attempt(1))
    line = (folder / journal.NAME).read_bytes()
    assert line.endswith(b'"}\n')
    assert line.count(b"\n") == 1
    keys = list(json.loads(line))
    assert keys == [*sorted(keys[:-1]), "crc32"]
    before, _, crc = line.rpartition(b', "crc32": "')
    assert int(crc[:8], 16) == zlib.crc32(before + b"}")


def test_every_cut_of_the_last_line_is_dropped_and_closed(folder):
    first, second = journal.to_line(attempt(1)), journal.to_line(attempt(2))
    for n in range(1, len(second)):
        put(folder, first + second[:n])
        whole = n == len(second) - 1  # all but its newline
        kept = (attempt(1), attempt(2)) if whole else (attempt(1),)
        assert journal.read(folder) == journal.Journal(kept, (), 0 if whole else 1)
        journal.append(folder, attempt(3))
        assert journal.read(folder) == journal.Journal((*kept, attempt(3)), (), 0 if whole else 1), n


def test_a_cut_of_the_mark_itself_is_closed_too(folder):
    first, second = journal.to_line(attempt(1)), journal.to_line(attempt(2))
    closed = first + second[:30] + journal.TORN + b"\n" + second
    for n in range(len(first) + 30, len(closed)):
        put(folder, closed[:n])
        journal.append(folder, attempt(3))
        read = journal.read(folder)
        assert read.broken == ()
        assert read.attempts[0] == attempt(1)
        assert read.attempts[-1] == attempt(3)


def test_every_changed_byte_of_a_line_in_the_middle_is_named(folder):
    lines = [journal.to_line(attempt(number)) for number in (1, 2, 3)]
    for place in range(len(lines[1]) - 1):
        damaged = bytearray(lines[1])
        damaged[place] ^= 1
        if damaged[place] == ord("\n"):
            continue
        put(folder, lines[0] + damaged + lines[2])
        assert journal.read(folder) == journal.Journal((attempt(1), attempt(3)), (), 0, (2,)), place


def test_zeros_that_a_loss_of_power_left_are_dropped(folder):
    put(folder, journal.to_line(attempt(1)) + bytes(512))
    assert journal.read(folder) == journal.Journal((attempt(1),), (), 1)
    journal.append(folder, attempt(2))
    assert journal.read(folder) == journal.Journal((attempt(1), attempt(2)), (), 1)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_and_leaves_the_journal_as_it_was(folder, monkeypatch, number):
    journal.append(folder, attempt(1))
    before = (folder / journal.NAME).read_bytes()
    real = os.write

    def fail(descriptor, data):
        raise OSError(number, "no room")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(DiskFull, match="free some space"):
        journal.append(folder, attempt(2))
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[: len(data) // 2]))
    with pytest.raises(DiskFull, match=r"the disk is full; free some space"):
        journal.append(folder, attempt(2))
    assert (folder / journal.NAME).read_bytes() == before
    monkeypatch.setattr(os, "write", real)
    journal.append(folder, attempt(2))
    assert journal.read(folder).attempts == (attempt(1), attempt(2))


def test_a_journal_that_is_gone_is_not_begun_anew(tmp_path):
    with pytest.raises(EnvironmentFault, match="cannot write"):
        journal.append(tmp_path, attempt(1))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileFault, match="is missing, so that what was done is not known"):
        journal.read(tmp_path)


def test_an_entry_of_a_newer_labctl_is_refused(folder):
    body = json.dumps({"entry": "attempt", "item": 1, "colour": "red"}).encode()
    put(folder, body[:-1] + b', "crc32": "%08x"}\n' % zlib.crc32(body))
    with pytest.raises(FileFault, match=r"journal\.jsonl, line 1 is damaged, or of a newer labctl"):
        journal.read(folder)


def test_nan_is_no_json(folder):
    with pytest.raises(ValueError, match="JSON"):
        journal.append(folder, attempt(1, row={"x": float("nan")}))
    assert (folder / journal.NAME).read_bytes() == b""


def _append_many(folder, bench):
    for number in range(50):
        journal.append(folder, Event("pause", UTC, "x" * 3000, bench, {"n": number}))


def test_benches_append_to_one_journal(folder):
    context = multiprocessing.get_context("fork")  # a spawned one would import this file by a name it has not
    benches = [context.Process(target=_append_many, args=(folder, bench)) for bench in ("left", "right")]
    for one in benches:
        one.start()
    for one in benches:
        one.join()
        assert one.exitcode == 0
    read = journal.read(folder)
    assert read.n_dropped == 0
    for bench in ("left", "right"):
        assert [event.facts["n"] for event in read.events if event.bench == bench] == list(range(50))
