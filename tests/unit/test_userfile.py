"""Files that a person names: a pipe, a device or a file beyond all measure is refused, and never waited for."""

from __future__ import annotations

import os

import pytest

from labctl import cli
from labctl.errors import FileFault
from labctl.memory.elf import read_program
from labctl.memory.mapfile import read_map
from labctl.userfile import open_regular, read_regular


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    return path


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(FileFault, match="has 5 bytes, more than the 4 "):
        open_regular(path, 4)


def test_what_is_no_file_is_refused(pipe, tmp_path):
    for path, words in ((pipe, "pipe or a device"), ("/dev/zero", "pipe or a device"), (tmp_path, "a folder"),
                        (tmp_path / "none", "cannot be read: No such file"), ("a\0b", "cannot be read")):
        with pytest.raises(FileFault, match=words):
            open_regular(path, 1)


@pytest.mark.parametrize("read", [read_program, read_map])
def test_programs_and_maps_are_files(read, pipe, tmp_path):
    for path in (pipe, "/dev/zero"):
        with pytest.raises(FileFault, match="pipe or a device"):
            read(path)
    huge = tmp_path / "huge"
    with huge.open("wb") as stream:
        stream.truncate((1 << 30) + 1)  # a hole: takes no room
    with pytest.raises(FileFault, match="more than the"):
        read(huge)


@pytest.mark.parametrize(
    "arguments",
    [["memory"], ["published"], ["table"], ["campaign", "plan"], ["campaign", "verify"], ["budget"], ["analyze"],
     ["calibrate", "show"], ["campaign", "unpack", "--out", "never"], ["measure", "--zero"],
     ["measure", "--calibration"],
     ["measure", "--bench"], ["campaign", "run"]],
    ids=" ".join,
)
def test_no_command_waits_for_a_pipe(capsys, pipe, arguments):
    for path in (str(pipe), "/dev/zero"):
        assert cli.run([*arguments, path]) in (1, 2)
        assert path.rsplit("/", 1)[1] in capsys.readouterr().err
