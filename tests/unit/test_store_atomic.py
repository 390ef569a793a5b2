"""Whatever happens while a capture is written, its name holds the old file, the whole new one, or nothing."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from instruments.record import Channel, Identity, Record
from labctl.errors import EnvironmentFault, FileFault
from labctl.model import Capture, Wiring
from labctl.store import atomic, open_capture, verify_capture, write_capture

CHILD = Path(__file__).with_name("store_crash_child.py")


def capture(value=1, shape=(3, 5000)):
    line = Channel("CH1", np.full(shape, value, np.uint8), 0.1, 0.0)
    return Capture({"series": Record({"CH1": line}, 1e-6, np.zeros(shape[0]), Identity("a", "b", "c", "d"))}, Wiring())


def value_of(path):
    with open_capture(path, verify=True) as read:
        return int(read.records["series"].channels["CH1"].codes[0, 0])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def run_child(folder, what):
    done = subprocess.run(
        [sys.executable, str(CHILD), str(folder), what], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("half", ["before", "half"])
def test_a_kill_at_any_system_call_leaves_nothing_half_written(tmp_path, half):
    points = run_child(tmp_path, f"kill-{half}")
    calls = [point["call"] for point in points]
    assert calls.count("pwrite") > 10
    assert calls[-5:] == ["fsync", "link", "unlink", "fsync", None]
    placed = calls.index("link")
    for k, point in enumerate(points):
        assert point["final"] == ("absent" if k <= placed else "whole"), point
        # A dead writer leaves its temporary file; the next writer takes it away.
        assert point["after_next_write"] == ["a.h5"], point


def test_a_kill_while_a_file_is_replaced_leaves_the_old_or_the_new(tmp_path):
    points = run_child(tmp_path, "kill-overwrite")
    calls = [point["call"] for point in points]
    assert calls[-4:] == ["fsync", "replace", "fsync", None]
    placed = calls.index("replace")
    for k, point in enumerate(points):
        assert point["final"] == ("old" if k <= placed else "whole"), point
        assert point["after_next_write"] == ["a.h5"], point


def test_kills_at_random_moments(tmp_path):
    outcome = run_child(tmp_path, "random-kills")
    assert outcome["kills"] == 15
    assert outcome["broken"] == []


def test_a_file_that_may_not_grow_any_more(tmp_path):
    """The kernel cuts the file short at many lengths, as a full disk does, with half of a write done."""
    points = run_child(tmp_path, "file-size-limit")
    assert len(points) > 20
    for point in points:
        assert point["status"] == "EnvironmentFault", point
        assert "a.h5: the file grew beyond the size allowed here" in point["message"]
        assert point["names"] == [], point


@pytest.mark.parametrize("old", [False, True])
def test_a_full_disk(tmp_path, monkeypatch, old):
    path = tmp_path / "a.h5"
    if old:
        write_capture(path, capture(1))
    real = os.pwrite
    n_calls = 0

    def count(*arguments):
        nonlocal n_calls
        n_calls += 1
        return real(*arguments)

    monkeypatch.setattr(atomic.os, "pwrite", count)
    write_capture(tmp_path / "b.h5", capture(2))
    (tmp_path / "b.h5").unlink()
    for fatal in range(1, n_calls + 1):
        left = fatal

        def fail(descriptor, data, place):
            nonlocal left
            left -= 1
            if left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            # Short writes are allowed by POSIX, and come before a disk is full.
            return real(descriptor, data[: max(1, len(data) // 2)], place)

        monkeypatch.setattr(atomic.os, "pwrite", fail)
        with pytest.raises(EnvironmentFault, match=r"cannot write .*a\.h5: the disk is full; free some space"):
            write_capture(path, capture(2), overwrite=True)
        assert names(tmp_path) == (["a.h5"] if old else [])
    monkeypatch.setattr(atomic.os, "pwrite", real)
    if old:
        assert value_of(path) == 1


def test_short_writes_are_completed(tmp_path, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(atomic.os, "pwrite", lambda descriptor, data, place: real(descriptor, data[:100], place))
    path = write_capture(tmp_path / "a.h5", capture(3))
    monkeypatch.undo()
    assert verify_capture(path) == []
    assert value_of(path) == 3


def test_data_reach_the_disk_before_the_name_does(tmp_path, monkeypatch):
    steps = []

    def note(name):
        real = getattr(os, name)

        def noted(*arguments):
            kind = name
            if name == "fsync":
                kind = "fsync folder" if Path(f"/proc/self/fd/{arguments[0]}").readlink().is_dir() else "fsync file"
            steps.append(kind)
            return real(*arguments)

        monkeypatch.setattr(atomic.os, name, noted)

    for name in ("pwrite", "fsync", "link", "replace", "rename"):
        note(name)
    write_capture(tmp_path / "a.h5", capture())
    write_capture(tmp_path / "a.h5", capture(), overwrite=True)
    assert [step for step in steps if step != "pwrite"] == [
        "fsync file", "link", "fsync folder", "fsync file", "replace", "fsync folder",
    ]
    assert steps.index("fsync file") > 10


def test_a_name_that_is_taken_is_kept(tmp_path):
    path = write_capture(tmp_path / "a.h5", capture(1))
    with pytest.raises(FileFault, match=r"a\.h5 exists already and is kept; choose another name"):
        write_capture(path, capture(2))
    assert value_of(path) == 1
    write_capture(path, capture(2), overwrite=True)
    assert value_of(path) == 2
    assert names(tmp_path) == ["a.h5"]


def test_a_dangling_link_is_a_name_that_is_taken(tmp_path):
    (tmp_path / "a.h5").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileFault, match="exists already"):
        write_capture(tmp_path / "a.h5", capture())


class ComesUpMeanwhile:
    """Codes whose reading lets another writer take the name first."""

    shape = (1, 10)
    dtype = np.dtype(np.uint8)

    def __init__(self, path):
        self.path = path

    def __getitem__(self, key):
        self.path.write_text("another")
        return np.zeros((1, 10), np.uint8)[key]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_comes_up_meanwhile_is_kept(tmp_path, monkeypatch, links):
    path = tmp_path / "a.h5"
    if not links:
        refuse_links(monkeypatch)
    line = Channel("CH1", ComesUpMeanwhile(path), 1.0, 0.0, kind="digital")
    given = Capture({"series": Record({"CH1": line}, 1e-6, np.zeros(1), Identity("a", "b", "c", "d"))}, Wiring())
    with pytest.raises(FileFault, match="exists already"):
        write_capture(path, given)
    assert path.read_text() == "another"
    assert names(tmp_path) == ["a.h5"]


def refuse_links(monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(atomic.os, "link", refuse)


def test_where_there_are_no_hard_links(tmp_path, monkeypatch):
    refuse_links(monkeypatch)
    path = write_capture(tmp_path / "a.h5", capture(4))
    assert value_of(path) == 4
    assert names(tmp_path) == ["a.h5"]


def test_an_interrupt_at_any_call_of_hdf5_waits_for_the_file(tmp_path):
    *points, undisturbed = run_child(tmp_path, "interrupts")
    assert len(points) > 20
    whole = {"status": 0, "final": "whole", "left": ["a.h5"]}
    assert undisturbed == {**whole, "raised": None}
    for k, point in enumerate(points, 1):
        assert point == {**whole, "raised": "KeyboardInterrupt"}, f"call {k}"


def test_any_exception_in_a_call_of_hdf5_is_raised_and_leaves_nothing(tmp_path):
    *points, undisturbed = run_child(tmp_path, "errors")
    assert len(points) > 20
    assert undisturbed["final"] == "whole"
    for k, point in enumerate(points, 1):
        assert point == {"status": 0, "raised": "Refused", "final": "absent", "left": []}, f"call {k}"


class Interrupts:
    """Codes whose reading is interrupted by the person."""

    shape = (1, 10)
    dtype = np.dtype(np.uint8)

    def __getitem__(self, key):
        raise KeyboardInterrupt


def test_an_interrupt_leaves_nothing(tmp_path):
    line = Channel("CH1", Interrupts(), 1.0, 0.0)
    given = Capture({"series": Record({"CH1": line}, 1e-6, np.zeros(1), Identity("a", "b", "c", "d"))}, Wiring())
    with pytest.raises(KeyboardInterrupt):
        write_capture(tmp_path / "a.h5", given)
    assert names(tmp_path) == []


def test_only_what_dead_writers_left_is_taken_away(tmp_path):
    dead = [tmp_path / ".a.h5.01234567.tmp", tmp_path / ".another.h5.fedcba98.tmp"]
    alive = tmp_path / ".a.h5.89abcdef.tmp"
    foreign = [tmp_path / "a.h5.01234567.tmp", tmp_path / ".a.h5.tmp", tmp_path / ".a.h5.01234567.txt"]
    for path in (*dead, alive, *foreign):
        path.write_bytes(b"x")
    with alive.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_capture(tmp_path / "a.h5", capture())
    assert names(tmp_path) == sorted(["a.h5", alive.name, *(path.name for path in foreign)])


def test_a_file_that_another_writer_took_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    real = fcntl.flock
    taken = []

    def late(descriptor, operation):
        if not taken:
            taken.append(Path(f"/proc/self/fd/{descriptor}").readlink())
            taken[0].unlink()
        real(descriptor, operation)

    monkeypatch.setattr(atomic.fcntl, "flock", late)
    path = write_capture(tmp_path / "a.h5", capture(6))
    assert len(taken) == 1
    assert value_of(path) == 6
    assert names(tmp_path) == ["a.h5"]


def test_a_disk_that_knows_no_locks(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(atomic.fcntl, "flock", refuse)
    with pytest.raises(EnvironmentFault, match=r"cannot write .*a\.h5: No locks available"):
        write_capture(tmp_path / "a.h5", capture())
    assert names(tmp_path) == []


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(EnvironmentFault, match="its folder does not exist; create it"):
        write_capture(tmp_path / "none" / "a.h5", capture())


def test_a_folder_in_the_place_of_the_file(tmp_path):
    (tmp_path / "a.h5").mkdir()
    with pytest.raises(EnvironmentFault, match=r"a\.h5: Is a directory"):
        write_capture(tmp_path / "a.h5", capture(), overwrite=True)
    assert names(tmp_path) == ["a.h5"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(EnvironmentFault, match="Permission denied; check the folder and its permissions"):
            write_capture(tmp_path / "a.h5", capture())
    finally:
        tmp_path.chmod(0o700)


def test_signals_of_too_large_files_are_left_to_the_error(tmp_path):
    """The sweep of file sizes rests on this: Python ignores SIGXFSZ, so that a write fails instead."""
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
