"""InfiniiVision .bin and ChipWhisperer projects, built here byte by byte from their published layouts."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.errors import FileFault
from labctl.formats import describe, read_file

RAMP = np.linspace(-1.0, 1.0, 9).astype("<f4")


def waveform(samples, label="1", *, kind=1, buffers=None, unit=1, step_s=2e-6, start_s=-8e-6, tag_s=0.0, segment=0):
    """One waveform as the InfiniiVision 3000 X-Series User's Guide lays it out: header, then data headers and data."""
    buffers = buffers if buffers is not None else [(kind, samples)]
    header = struct.pack(
        "<5if3d2i16s16s24s16sdI",
        *(140, 1, len(buffers), len(buffers[0][1]), 0, 16e-6, start_s, step_s, start_s, 2, unit),
        *(b"", b"", b"DSO-X 3024T:MY1", label.encode(), tag_s, segment),
    )
    assert len(header) == 140
    parts = [header]
    for buffer_kind, data in buffers:
        parts += [struct.pack("<ihhi", 12, buffer_kind, data.itemsize, data.nbytes), data.tobytes()]
    return b"".join(parts)


def keysight(*waveforms) -> bytes:
    body = b"".join(waveforms)
    return struct.pack("<2s2sii", b"AG", b"10", 12 + len(body), len(waveforms)) + body


def read(folder, content, name="scope.bin", **options):
    path = folder / name
    path.write_bytes(content)
    return read_file(path, **options)


def test_several_channels(tmp_path):
    foreign = read(tmp_path, keysight(waveform(RAMP), waveform(RAMP * 2, "3", unit=4)))
    record = foreign.record
    assert list(record.channels) == ["CH1", "CH3"]
    assert [channel.unit for channel in record.channels.values()] == ["V", "A"]
    assert (record.dt_s, record.segment_start_s.tolist()) == (2e-6, [-8e-6])
    assert record.channels["CH3"].codes.dtype == np.float32
    assert record.channels["CH3"].codes[0].tolist() == (RAMP * 2).tolist()
    assert (record.instrument.model, record.instrument.serial) == ("DSO-X 3024T", "MY1")
    assert foreign.warnings == ()


def test_segments_are_stacked_in_their_order_with_their_times(tmp_path):
    parts = [waveform(RAMP + k, segment=k + 1, tag_s=k * 0.5) for k in (0, 2, 1)]
    record = read(tmp_path, keysight(*parts)).record
    assert record.channels["CH1"].codes[:, 0].tolist() == [-1.0, 0.0, 1.0]
    assert record.segment_start_s == pytest.approx([-8e-6, 0.5 - 8e-6, 1.0 - 8e-6])


def test_segments_of_two_channels(tmp_path):
    parts = [waveform(RAMP + k, label, segment=k + 1, tag_s=k * 0.5) for k in range(2) for label in "12"]
    record = read(tmp_path, keysight(*parts)).record
    assert {name: channel.codes.shape for name, channel in record.channels.items()} == {"CH1": (2, 9), "CH2": (2, 9)}


def test_digital_pods_become_one_channel_a_bit(tmp_path):
    low, high = np.arange(9, dtype=np.uint8), np.full(9, 0x80, np.uint8)
    foreign = read(tmp_path, keysight(waveform(RAMP), waveform(None, "D0-D15", buffers=[(6, low), (6, high)])))
    channels = foreign.record.channels
    assert list(channels) == ["CH1", *(f"D{bit}" for bit in range(16))]
    assert channels["D0"].codes[0].tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0]
    assert channels["D3"].codes[0].tolist() == [0] * 8 + [1]
    assert channels["D15"].codes[0].tolist() == [1] * 9
    assert (channels["D0"].kind, channels["D0"].label) == ("digital", "D0-D15")


def test_an_odd_digital_buffer_does_not_disturb_what_follows(tmp_path):
    pod = np.zeros(9, np.uint8)  # nine bytes: all that follows is off the four-byte grid
    foreign = read(tmp_path, keysight(waveform(None, "D0-D7", buffers=[(6, pod)]), waveform(RAMP)))
    codes = foreign.record.channels["CH1"].codes
    assert codes[0].tolist() == RAMP.tolist()
    assert codes.flags.aligned


def test_peak_detect_is_not_taken_for_the_signal(tmp_path):
    foreign = read(tmp_path, keysight(waveform(None, buffers=[(2, RAMP + 1), (3, RAMP)])))
    assert list(foreign.record.channels) == ["CH1_MAX", "CH1_MIN"]
    assert "peak detect" in foreign.warnings[0]


def test_another_sample_clock_is_left_out_and_told(tmp_path):
    foreign = read(tmp_path, keysight(waveform(RAMP), waveform(RAMP[:5], "2"), waveform(RAMP, "4", step_s=1e-6)))
    assert list(foreign.record.channels) == ["CH1"]
    assert [warning[:3] for warning in foreign.warnings] == ["'2'", "'4'"]


@pytest.mark.parametrize("step_s", [0.0, float("nan"), -1e-6])
def test_without_an_interval_a_rate_is_needed(tmp_path, step_s):
    foreign = read(tmp_path, keysight(waveform(RAMP, step_s=step_s)))
    assert foreign.record.dt_s is None
    assert "--rate" in foreign.warnings[-1]


@pytest.mark.parametrize(
    "content",
    [
        keysight(),
        keysight(waveform(np.array([1.0, np.nan], "<f4"))),
        keysight(waveform(RAMP, start_s=float("nan"))),
        keysight(waveform(None, buffers=[(4, RAMP)])),
        keysight(waveform(RAMP)).replace(struct.pack("<ihhi", 12, 1, 4, 36), struct.pack("<ihhi", 12, 1, 4, 32)),
    ],
)
def test_what_breaks_the_layout_is_refused(tmp_path, content):
    with pytest.raises(FileFault, match=r"scope\.bin: "):
        read(tmp_path, content)


def test_every_cut_of_a_bin_is_refused(tmp_path):
    whole = keysight(waveform(RAMP), waveform(RAMP, "2"))
    for length in range(len(whole)):
        with pytest.raises(FileFault):
            read(tmp_path, whole[:length])


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_damage_to_a_bin_is_refused_or_read_as_numbers(tmp_path_factory, data):
    content = bytearray(keysight(waveform(RAMP), waveform(None, "D0", buffers=[(6, np.ones(9, np.uint8))])))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        described = describe(read(tmp_path_factory.getbasetemp(), bytes(content)))
    except FileFault:
        return
    assert all(channel["min"] <= channel["max"] for channel in described["channels"])


def project(folder, traces, *, rate="0", n_traces=None, cfg="demo_data\\traces\\config_a_.cfg", prefix="a_"):
    inside = folder / "demo_data" / "traces"
    inside.mkdir(parents=True, exist_ok=True)
    (folder / "demo.cwp").write_text(f"[Trace Management]\ntracefile0 = {cfg}\nenabled0 = True\n")
    rows, points = traces.shape
    (inside / "config_a_.cfg").write_text(
        f"[Trace Config]\nformat = native\nnumTraces = {n_traces or rows}\nnumPoints = {points}\nprefix = {prefix}\n"
        f"scopeName = CWLite\nscopeSampleRate = {rate}\n"
    )
    np.save(inside / "a_traces.npy", traces)
    return folder / "demo.cwp"


def test_a_project_that_tells_its_rate(tmp_path):
    traces = np.arange(12.0).reshape(3, 4) / 1024
    foreign = read_file(project(tmp_path, traces, rate="29538459"))
    assert foreign.record.dt_s == pytest.approx(1 / 29538459)
    assert foreign.record.n_segments == 3
    assert foreign.record.channels["CH1"].codes.dtype == np.float32
    assert foreign.record.channels["CH1"].codes.tolist() == traces.tolist()  # k/1024 is exact in float32
    assert foreign.record.instrument.model == "CWLite"
    assert foreign.warnings == ()


def test_unused_rows_are_left_out_and_missing_ones_told(tmp_path):
    foreign = read_file(project(tmp_path, np.ones((5, 4)), n_traces=3, rate="1e6"))
    assert foreign.record.n_segments == 3
    assert "2 row(s) beyond the project's 3 traces left out" in foreign.warnings
    foreign = read_file(project(tmp_path, np.ones((5, 4)), n_traces=9, rate="1e6"))
    assert "promises 9 traces" in foreign.warnings[0]


def test_integer_traces_stay_integers(tmp_path):
    foreign = read_file(project(tmp_path, np.arange(8, dtype=np.int16).reshape(2, 4)))
    assert foreign.record.channels["CH1"].codes.dtype == np.int16
    assert describe(foreign)["channels"][0]["mean"] == 3.5


@pytest.mark.parametrize(
    "name", ["..\\outside.cfg", "C:\\outside.cfg", "/etc/hostname", "demo_data\\..\\..\\outside.cfg"]
)
def test_a_path_outside_the_project_is_never_followed(tmp_path, name):
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "outside.cfg").write_text("[Trace Config]\n")
    with pytest.raises(FileFault, match=r"outside its folder|not there"):
        read_file(project(folder, np.ones((2, 2)), cfg=name))


def test_a_link_out_of_the_project_is_not_followed(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    path = project(folder, np.ones((2, 2)))
    traces = folder / "demo_data" / "traces" / "a_traces.npy"
    traces.rename(tmp_path / "a_traces.npy")
    traces.symlink_to(tmp_path / "a_traces.npy")
    with pytest.raises(FileFault, match="outside its folder"):
        read_file(path)


def test_a_prefix_cannot_lead_out_of_the_project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    np.save(tmp_path / "x_traces.npy", np.ones((2, 2)))
    with pytest.raises(FileFault, match=r"outside its folder|not there"):
        read_file(project(folder, np.ones((2, 2)), prefix="../../../x_"))


def test_missing_parts_are_named(tmp_path):
    path = project(tmp_path, np.ones((2, 2)))
    (tmp_path / "demo_data" / "traces" / "a_traces.npy").unlink()
    with pytest.raises(FileFault, match=r"a_traces\.npy.*not there"):
        read_file(path)
    path.write_text("[Trace Management]\n")
    with pytest.raises(FileFault, match="names no trace file"):
        read_file(path)


@pytest.mark.parametrize(
    "array",
    [np.array([[1, None]], dtype=object), np.ones((2, 2), complex), np.ones((2, 2, 2)), np.ones((0, 4)), np.array("a")],
)
def test_arrays_that_are_no_traces_are_refused(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(FileFault):
        read_file(tmp_path / "x.npy")


def test_traces_that_are_no_numbers_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1.0, np.nan]]))
    with pytest.raises(FileFault, match="no numbers"):
        read_file(tmp_path / "x.npy")


def test_every_cut_of_an_array_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    whole = (tmp_path / "x.npy").read_bytes()
    for length in range(len(whole)):
        with pytest.raises(FileFault):
            read(tmp_path, whole[:length], "cut.npy")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_damage_to_an_array_is_refused_or_read_as_numbers(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    np.save(folder / "whole.npy", np.arange(6.0).reshape(2, 3))
    content = bytearray((folder / "whole.npy").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        described = describe(read(folder, bytes(content), "damaged.npy"))
    except FileFault:
        return
    assert all(channel["min"] <= channel["max"] for channel in described["channels"])
