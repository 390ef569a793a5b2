"""Data logs of a Keysight N6705, built here byte by byte from their layout."""

import struct

import numpy as np
import pytest

from labctl.errors import FileFault
from labctl.formats import describe, detect, read_file

# Element names that start with a digit are as the instrument writes them.
IDENT = "<ident><model>N6781A</model><option><1ua>0</1ua><2ua>0</2ua></option></ident>"


def output(number, volt, curr):
    sensed = f"<sense_volt>{volt}</sense_volt><sense_curr>{curr}</sense_curr>"
    return f'<channel id="{number}">\n{sensed}\n{IDENT}</channel>\n'


BOTH = (output(1, 1, 1),)


def log(values, outputs=BOTH, *, minmax=0, time="10", tint="4.096e-05", start="", tail=b""):
    """One file: head, line end, 8 bytes, big-endian float32."""
    frame = f"<frame><sense_minmax>{minmax}</sense_minmax><time>{time}</time><tint>{tint}</tint></frame>"
    head = f"{start}<dlog>\n{''.join(outputs)}{frame}\n</dlog>\n"
    return head.encode() + b"\x12\x34\x56\x78\x9a\xbc\xde\xf0" + struct.pack(f">{len(values)}f", *values) + tail


def read(folder, content):
    path = folder / "data.dlog"
    path.write_bytes(content)
    return read_file(path)


def codes(record, name):
    return np.asarray(record.channels[name].codes).tolist()


def test_volts_before_amperes_by_output(tmp_path):
    outputs = (output(1, 1, 1), output(2, 0, 0), output(3, 0, 1))
    foreign = read(tmp_path, log([3.5, 0.25, -0.5, 3.0, 0.125, 1.0], outputs, time="8.192e-05"))
    record = foreign.record
    assert (foreign.format, detect(foreign.path)) == ("keysight-dlog", "keysight-dlog")
    assert list(record.channels) == ["V1", "I1", "I3"]
    assert [channel.unit for channel in record.channels.values()] == ["V", "A", "A"]
    assert [codes(record, name) for name in record.channels] == [[[3.5, 3.0]], [[0.25, 0.125]], [[-0.5, 1.0]]]
    assert (record.n_segments, record.n_samples, record.dt_s) == (1, 2, 4.096e-05)
    assert record.granted["averages"] is True
    assert (record.instrument.vendor, record.instrument.model) == ("Keysight", "N6781A")
    assert (record.gaps, foreign.warnings) == ((), ())


@pytest.mark.parametrize("start", ['<?xml version="1.0"?>\n', "<!-- settings -->\n"])
def test_what_stands_before_the_root_and_windows_line_ends(tmp_path, start):
    content = log([1.5, 2.5], time="4.096e-05", start=start)
    record = read(tmp_path, content.replace(b"</dlog>\n", b"</dlog>\r\n")).record
    assert (codes(record, "V1"), codes(record, "I1")) == ([[1.5]], [[2.5]])


def test_mean_least_and_largest_of_each_quantity(tmp_path):
    record = read(tmp_path, log([1.0, 0.5, 2.0, -1.0, -3.0, 4.0], minmax=1)).record
    assert list(record.channels) == ["V1", "V1_MIN", "V1_MAX", "I1", "I1_MIN", "I1_MAX"]
    assert [codes(record, name)[0][0] for name in record.channels] == [1.0, 0.5, 2.0, -1.0, -3.0, 4.0]


def test_markers_become_gaps_and_never_values(tmp_path):
    values = [1.0, 9.91e37, 1.0, -2e6, 2.0, 0.5, float("nan"), 0.25]
    foreign = read(tmp_path, log(values, time="1.6384e-04"))
    assert foreign.record.gaps == ((0, 0, 2), (0, 3, 1))
    assert "3 of 4 records" in foreign.warnings[0]
    current = np.asarray(foreign.record.channels["I1"].codes)
    assert np.isnan(current[0]).tolist() == [True, True, False, False]
    assert current[0, 2:].tolist() == [0.5, 0.25]
    # Least, largest and mean are of what was measured.
    told = {channel["name"]: channel for channel in describe(foreign)["channels"]}
    assert (told["I1"]["min"], told["I1"]["max"], told["I1"]["mean"]) == (0.25, 0.5, 0.375)


def test_a_quantity_that_was_never_measured_has_no_statistics(tmp_path):
    foreign = read(tmp_path, log([1.0, 9.91e37], time="4.096e-05"))
    told = describe(foreign)["channels"][1]
    assert (told["min"], told["max"], told["mean"]) == (None, None, None)


def test_a_million_is_a_value(tmp_path):
    foreign = read(tmp_path, log([1e6, -1e6], time="4.096e-05"))
    assert (foreign.record.gaps, codes(foreign.record, "V1")) == ((), [[1e6]])


def test_slices_are_native_float32(tmp_path):
    record = read(tmp_path, log([float(k) for k in range(20)], time="4.096e-04")).record
    piece = record.channels["I1"].codes[0, 2:5]
    assert piece.dtype == np.dtype(np.float32)
    assert piece.tolist() == [5.0, 7.0, 9.0]
    assert record.channels["I1"].codes[0, 9] == 19.0
    assert record.channels["V1"].codes.shape == (1, 10)


def test_of_a_cut_log_what_is_whole_is_read_and_the_rest_said(tmp_path):
    foreign = read(tmp_path, log([1.0, 2.0, 3.0, 4.0], tail=b"\0" * 5))
    assert codes(foreign.record, "I1") == [[2.0, 4.0]]
    assert foreign.warnings == (
        "cut inside a record: its last 5 bytes are left out",
        "the log ends early: 8.192e-05 s of 10 s planned",
    )


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (log([]), "without a whole record"),
        (log([1.0]), "without a whole record"),
        (log([1.0])[:150], "no </dlog> ends the head"),
        (log([1.0, 2.0]).replace(b"<frame>", b"<fram>"), "not well formed"),
        (log([1.0, 2.0], tint="0"), "no sample interval"),
        (log([1.0, 2.0], tint="nan"), "no sample interval"),
        (log([1.0, 2.0], tint="soon"), "frame/tint in the head of the data log must be a number, not 'soon'"),
        (log([1.0, 2.0]).replace(b"tint", b"tent"), "frame/tint"),
        (log([1.0, 2.0], [output(1, 0, 0)]), "logs nothing"),
        (log([1.0, 2.0], [output(1, 1, 0), output(1, 1, 0)]), "an output twice"),
        (log([1.0, 2.0], [output("one", 1, 1)]), "no number but 'one'"),
        (log([1.0, 2.0], start='<?xml version="1.0"?><!DOCTYPE dlog [<!ENTITY a "b">]>'), "declarations, which"),
    ],
    ids=["empty", "half", "head", "tags", "zero", "nan", "word", "missing", "nothing", "twice", "number", "doctype"],
)
def test_broken_files_are_refused(tmp_path, content, word):
    with pytest.raises(FileFault, match="again") as caught:
        read(tmp_path, content)
    assert word in str(caught.value)
    assert "data.dlog" in str(caught.value)
