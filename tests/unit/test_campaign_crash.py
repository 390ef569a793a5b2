"""The runner is killed at its writes, before each and half-way through it: nothing acknowledged is lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("campaign_crash_child.py")


def swept(folder, step, first):
    done = subprocess.run(
        [sys.executable, str(CHILD), str(folder), str(step), str(first)],
        capture_output=True, text=True, timeout=3000, check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(outcome):
    points = outcome["points"]
    for point in points:
        # Before its rename the folder is not there at all; after it, it opens, and what it has is sound.
        if point["exists"]:
            assert point["lost"] == [], point
            assert point["faults"] == [], point
        else:
            assert point["acknowledged"] == 0, point
        # Resumed, it comes to the same table and the same captures, byte for byte, and nothing is left over.
        assert point["same"], point
        assert point["faults_after"] == point["notes_after"] == [], point
        assert point["beside"] == ["night"], point
    for half in (False, True):
        counts = [point["acknowledged"] for point in points if point["half"] == half]
        assert counts == sorted(counts)
        assert counts[-1] == 4
    last = [(one["item"], one["number"], one["state"], bool(one["capture"])) for one in outcome["attempts"]]
    assert last == [
        (2, 1, "failed", False), (2, 2, "done", True), (1, 1, "done", True),
        (4, 1, "done", True), (3, 1, "failed", True), (3, 2, "done", True),
    ]
    assert outcome["table"].count(",done,") == 4
    return points


def test_kills_at_some_of_the_writes(tmp_path):
    points = check(swept(tmp_path, 23, 5))
    assert sum(point["call"] is not None for point in points) >= 18
    assert {point["exists"] for point in points} == {False, True}


@pytest.mark.sweep
def test_kills_at_every_write(tmp_path):
    points = check(swept(tmp_path, 1, 1))
    died = [point for point in points if point["call"] is not None]
    assert len(died) >= 200
    assert {point["call"] for point in died} >= {
        "write", "pwrite", "fsync", "fdatasync", "rename", "replace", "mkdir", "ftruncate"
    }
    print(f"crash sweep: {len(died)} points, {sum(point['half'] for point in died)} of them half-way through a write; "
          f"0 of {sum(point['acknowledged'] for point in died)} acknowledged items lost")
