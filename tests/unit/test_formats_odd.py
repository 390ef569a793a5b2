"""Odd things given as a file: each is refused with a sentence or read, and none takes for ever."""

import os
import socket
from pathlib import Path

import numpy as np
import pytest

from labctl.errors import FileFault
from labctl.formats import describe, detect, read_file

KEYSIGHT = b"x-axis,1\nsecond,Volt\n"


# A reader that hangs is ended; what ends it is no OSError, which it would take for a fault of the file.
pytestmark = pytest.mark.timeout(30)


def written(folder, content, name="scope.csv"):
    path = folder / name
    path.write_bytes(content)
    return path


def fifo(folder):
    os.mkfifo(folder / "pipe.csv")
    return folder / "pipe.csv"


def loop(folder):
    (folder / "a.csv").symlink_to(folder / "b.csv")
    (folder / "b.csv").symlink_to(folder / "a.csv")
    return folder / "a.csv"


def link_to_device(folder):
    (folder / "zero.csv").symlink_to("/dev/zero")
    return folder / "zero.csv"


def sparse(folder):
    path = folder / "sparse.csv"
    with path.open("wb") as file:
        file.truncate(1 << 36)
    return path


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (fifo, "a pipe, not a file"),
        (lambda _: Path("/dev/zero"), "a device, not a file"),
        (lambda _: Path("/dev/null"), "a device, not a file"),
        (link_to_device, "a device, not a file"),
        (loop, "cannot be opened"),
        (lambda folder: folder / "a\0b.csv", r"a\\0b.csv: cannot be opened \(embedded null byte\)"),
        (lambda folder: folder / ("n" * 300), "cannot be opened"),
        (lambda folder: written(folder, b"1") / "below.csv", "cannot be opened"),
        (sparse, "no kind known"),
    ],
)
def test_what_is_no_ordinary_file_is_named(tmp_path, make, words):
    path = make(tmp_path)
    for call in (read_file, detect):
        with pytest.raises(FileFault, match=words):
            call(path)


def test_a_socket_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the address of a socket may not be long
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("s.csv")
        with pytest.raises(FileFault, match="a socket, not a file"):
            read_file("s.csv")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = written(tmp_path, KEYSIGHT)

    def refuse(self, *_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileFault, match=r"cannot be opened \(Permission denied\)"):
        read_file(path)


def test_a_file_beyond_the_memory(tmp_path, monkeypatch):
    path = written(tmp_path, KEYSIGHT + b"0,1\n1,2\n")

    def exhaust(*_args, **_options):
        raise MemoryError

    monkeypatch.setattr(np, "loadtxt", exhaust)
    with pytest.raises(FileFault, match="too large for the memory"):
        read_file(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"1" * 8_000_000, "longer than 65536 bytes|without a table"),
        (b"1" * 8_000_000 + b"x", "without a table"),
        (b"1" * 60_000 + b"x\n1,2\n", "without a table"),
        (b"a" * 8_000_000, "without a table"),
        (b"1," * 10_000_000, "line 1 is longer than 65536 bytes"),
        (b"1;" * 10_000_000 + b"\n", "line 1 is longer than 65536 bytes"),
        (KEYSIGHT + b"1," * 10_000_000 + b"\n", "line 3 is longer than 65536 bytes"),
        (b"X," + b"CH1," * 10_000_000 + b"\nSecond,Volt\n0,1\n", "without a table"),
        (KEYSIGHT + b"0,1\n" + b"1," * 1_000_000 + b"\n1,2\n", "line 4: it has 1000001 fields, not 2"),
        (b"X," + b"CH1," * 2000 + b"\nSecond,\n" + b"1," * 2001 + b"\n", "2001 columns; labctl reads up to 1000"),
        (b'"Record Length",2\n' + b"0.5," * 2000 + b"\n", "2000 columns"),
        (b'"Record Length",' + b"1" * 60_000 + b"! a\n0.5\n", "without a table"),
        (b"X,CH1" + b" " * 60_000 + b"(V\nSecond,Volt\n0,1\n", "without a table"),
        (KEYSIGHT + b"0,1\n" * 50_000 + b"0,\x001\n", r"line 50003: '\\x001' is not a number"),
        (b"\0" * 100_000, "no kind known"),
        (KEYSIGHT.decode().encode("utf-16-le") + "0,1\n".encode("utf-16-le"), "no kind known"),
        (b"\xef\xbb\xbf" + KEYSIGHT.decode().encode("utf-16"), "no kind known"),
        (b"\xef\xbb\xbf", "no kind known"),
        (b"\r\n" * 100_000, "without a table"),
        (b"\r" * 100_000, "without a table"),
        (b"," * 100_000, "without a table"),
        (b'"' * 100_000, "without a table"),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else None,
)
def test_text_that_is_no_table_is_refused_soon(tmp_path, content, words):
    with pytest.raises(FileFault, match=words):
        read_file(written(tmp_path, content))


def test_many_rows_without_values_at_the_end_are_left_out_soon(tmp_path):
    foreign = read_file(written(tmp_path, KEYSIGHT + b"0.000,1\n1.000,2\n" + b"2.000,\n" * 400_000))
    assert foreign.record.n_samples == 2
    assert foreign.warnings == ("400000 incomplete row(s) at the end left out",)


def test_many_short_traces_are_read_soon(tmp_path):
    """Ten million traces of one sample: a loop over rows would take minutes."""
    path = tmp_path / "traces.npy"
    codes = np.zeros((10_000_000, 1), np.int8)
    codes[1], codes[-1] = -3, 5
    np.save(path, codes)
    (channel,) = describe(read_file(path))["channels"]
    assert (channel["n"], channel["segments"]) == (1, 10_000_000)
    assert (channel["min"], channel["max"]) == (-3.0, 5.0)
    assert channel["mean"] == pytest.approx(2 / 10_000_000, rel=1e-9)


@pytest.mark.parametrize("shape", [(7, 3), (1, 2_500_000), (2_500_000, 1), (3, 1_100_000), (5_000, 300)])
def test_statistics_do_not_depend_on_the_shape(tmp_path, shape):
    """The sum over 0..n-1 in closed form, whatever parts it was computed in; float32 keeps these numbers exact."""
    n = shape[0] * shape[1]
    path = tmp_path / "traces.npy"
    np.save(path, np.arange(n, dtype=np.float64).reshape(shape))
    (channel,) = describe(read_file(path))["channels"]
    assert (channel["min"], channel["max"], channel["mean"]) == (0.0, n - 1, (n - 1) / 2)


@pytest.mark.parametrize("header", [b"-" * 3000 + b"1", b"{'descr': " + b"(" * 150, b"{" * 3000, b"\xff" * 60, b""])
def test_array_headers_that_are_none(tmp_path, header):
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with pytest.raises(FileFault, match="array of traces"):
        read_file(written(tmp_path, content, "traces.npy"))


@pytest.mark.parametrize("name", ["a\\loop.cfg", "nul\0.cfg", "n" * 300 + ".cfg", "a.cfg/b.cfg"])
def test_a_project_that_names_what_leads_nowhere(tmp_path, name):
    (tmp_path / "a").mkdir()
    (tmp_path / "a.cfg").write_text("")
    (tmp_path / "a" / "loop.cfg").symlink_to("loop.cfg")
    project = tmp_path / "p.cwp"
    project.write_text(f"[Trace Management]\ntracefile0 = {name}\nenabled0 = True\n")
    with pytest.raises(FileFault, match=r"leads nowhere|is not there|File name too long"):
        read_file(project)


@pytest.mark.parametrize("prefix", ["/etc/", "..\\..\\", "nul\0"])
def test_a_prefix_that_leads_nowhere(tmp_path, prefix):
    (tmp_path / "a.cfg").write_text(f"[Trace Config]\nprefix = {prefix}\n")
    project = tmp_path / "p.cwp"
    project.write_text("[Trace Management]\ntracefile0 = a.cfg\n")
    with pytest.raises(FileFault, match=r"leads nowhere|outside its folder|is not there"):
        read_file(project)


def test_a_fifo_beside_a_project_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "a.cfg")
    project = tmp_path / "p.cwp"
    project.write_text("[Trace Management]\ntracefile0 = a.cfg\n")
    with pytest.raises(FileFault, match="is not there"):
        read_file(project)


@pytest.mark.parametrize(
    "text",
    [
        "X,CH1,Start,Increment,\nSequence,Volt,0,1e999\n0,1,\n1,2,\n",
        '"Record Length",2\n"Sample Rate",1e-320\n"CH1"\n1\n2\n',
        '"Record Length",2\n"Sampling Period",1e999\n"CH1"\n1\n2\n',
    ],
)
def test_an_interval_beyond_all_numbers_is_none(tmp_path, text):
    foreign = read_file(written(tmp_path, text.encode()))
    assert foreign.record.dt_s is None
    assert np.isfinite(foreign.record.segment_start_s).all()
    assert "--rate" in foreign.warnings[0]
