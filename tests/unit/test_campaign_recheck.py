"""Captures that are damaged or gone are taken again on request, and nothing sound is written over."""

import pytest

from labctl.campaign import journal, recheck
from labctl.campaign.runner import run
from labctl.campaign.state import state_of
from labctl.campaign.verify import verify

from .campaign_synthetic import BENCH, FakeClocks, Synthetic, campaign_folder

NOW = "2026-12-01T06:00:00.000Z"


@pytest.fixture
def folder(tmp_path):
    folder = campaign_folder(tmp_path / "night", 4)
    work(folder)
    return folder


def work(folder):
    measurer = Synthetic()
    run(folder, measurer, BENCH, clocks=FakeClocks().clocks)
    return [number for number, _ in measurer.asked]


def capture(folder, number):
    return folder.capture_path(folder.campaign.items[number - 1])


def take_damaged_again(folder):
    notes = []
    recheck.take_damaged_again(folder, journal.read(folder.path), NOW, lambda text: None, notes.append)
    return notes


def states(folder):
    return [one.state for one in state_of(folder.campaign, journal.read(folder.path)).items]


def damage(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    return bytes(data)


def break_line_of(folder, number):
    """Damage the line that acknowledges an item."""
    file = folder.path / journal.NAME
    lines = file.read_bytes().split(b"\n")
    (index,) = (n for n, line in enumerate(lines) if b'"item": %d,' % number in line and b'"attempt"' in line)
    lines[index] = lines[index].replace(b"done", b"dome")
    file.write_bytes(b"\n".join(lines))


def test_what_is_sound_stays(folder):
    before = (folder.path / journal.NAME).read_bytes()
    assert take_damaged_again(folder) == []
    assert (folder.path / journal.NAME).read_bytes() == before


def test_damaged_and_missing_captures_are_taken_again_and_the_damaged_one_is_kept(folder):
    good = capture(folder, 2).read_bytes()
    bad = damage(capture(folder, 2))
    capture(folder, 3).unlink()
    (told,) = take_damaged_again(folder)
    assert told == "2 items that were done are taken again: the capture is damaged or gone"
    assert states(folder) == ["done", "pending", "pending", "done"]
    kept = folder.path / "captures" / "failed" / f"{capture(folder, 2).stem}-damaged.h5"
    assert kept.read_bytes() == bad != good
    last = {one.item: one for one in journal.read(folder.path).attempts}
    assert (last[2].number, last[2].state, last[2].capture) == (2, "failed", "")
    assert f"is not the file that was stored, and is kept as captures/failed/{kept.name}" in last[2].error
    assert "is missing" in last[3].error
    assert verify(folder.path).faults == ()  # pending is no fault
    assert work(folder) == [2, 3]
    assert states(folder) == ["done"] * 4
    found = verify(folder.path)
    assert found.faults == ()
    said = f"captures/failed/{kept.name} was in the way of a new capture and is kept; no result counts it"
    assert [note for note in found.notes if kept.name in note] == [said]
    assert kept.read_bytes() == bad


def test_damaged_twice_both_are_kept(folder):
    for name in ("damaged", "damaged2"):
        bad = damage(capture(folder, 1))
        take_damaged_again(folder)
        kept = folder.path / "captures" / "failed" / f"{capture(folder, 1).stem}-{name}.h5"
        assert kept.read_bytes() == bad
        assert work(folder) == [1]


def test_a_capture_that_a_lost_line_may_speak_of_is_kept(folder):
    sound = capture(folder, 3).read_bytes()
    break_line_of(folder, 3)
    assert states(folder) == ["done", "done", "pending", "done"]
    past, notes = journal.read(folder.path), []
    recheck.keep_unacknowledged(folder, past, [folder.campaign.items[2]], notes.append)
    assert f"({past.broken[0]}) is damaged" in notes[0]
    kept = folder.path / "captures" / "failed" / f"{capture(folder, 3).stem}-unacknowledged.h5"
    assert f"captures/failed/{kept.name}" in notes[1]
    assert work(folder) == [3]
    assert kept.read_bytes() == sound


def test_attempts_that_a_lost_line_may_speak_of_are_kept_too(folder):
    break_line_of(folder, 3)
    failed = folder.path / "captures" / "failed"
    (failed / f"{capture(folder, 3).stem}-attempt1.h5").write_bytes(b"of a lost attempt")
    recheck.keep_unacknowledged(folder, journal.read(folder.path), [folder.campaign.items[2]], lambda text: None)
    assert (failed / f"{capture(folder, 3).stem}-attempt1-unacknowledged.h5").read_bytes() == b"of a lost attempt"


def test_what_a_crash_left_is_no_more_than_that(folder):
    with (folder.path / journal.NAME).open("ab") as stream:
        stream.write(b'{"cut off')
    item, notes = folder.campaign.items[2], []
    recheck.keep_unacknowledged(folder, journal.read(folder.path), [item], notes.append)
    assert notes == []
    assert folder.capture_path(item).exists()
