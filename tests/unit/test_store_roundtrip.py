"""What is written to a capture file comes back, bit for bit."""

import dataclasses
import gc
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruments.record import Accuracy, Channel, Identity, Record
from labctl.errors import FileFault
from labctl.model import Calibration, Capture, DutReport, Operation, Shunt, Supply, Wiring
from labctl.store import (
    capture_name,
    close_capture,
    open_capture,
    read_capture,
    read_truth,
    verify_capture,
    write_capture,
)
from labctl.store.schema import decode, encode, from_text, hdf5_name, to_text

SCOPE = Identity("KEYSIGHT TECHNOLOGIES", "DSO-X 3024T", "MY1", "07.20")


def channel(name, codes, **more):
    return Channel(name, codes, scale=0.1, offset=-1.5, **more)


def record(**codes):
    first = next(iter(codes.values()))
    starts = np.arange(first.shape[0]) * 1.25e-3
    return Record({name: channel(name, one) for name, one in codes.items()}, 4e-9, starts, SCOPE)


def capture(**codes):
    return Capture({"series": record(**codes)}, Wiring(shunt_channel="CH1"))


def assert_same(read, given):
    """Compare everything but truth and path, which a reader does not get from the writer's object."""
    for field in ("wiring", "operation", "board", "dut_report", "null_report", "manifest", "provenance"):
        assert getattr(read, field) == getattr(given, field), field
    assert list(read.records) == list(given.records)
    for name, one in given.records.items():
        back = read.records[name]
        assert back.segment_start_s.dtype == one.segment_start_s.dtype
        assert back.segment_start_s.tobytes() == one.segment_start_s.tobytes()
        for field in ("dt_s", "instrument", "timebase_ratio", "asked", "granted", "gaps"):
            assert getattr(back, field) == getattr(one, field), field
        assert list(back.channels) == list(one.channels)
        for key, line in one.channels.items():
            held = back.channels[key]
            for field in ("name", "scale", "offset", "unit", "kind", "label", "code_min", "code_max", "settings"):
                assert getattr(held, field) == getattr(line, field), field
            assert held.accuracy == line.accuracy
            assert held.codes.dtype == line.codes.dtype
            assert held.codes.shape == line.codes.shape
            assert np.asarray(held.codes).tobytes() == np.ascontiguousarray(line.codes).tobytes()


def full_capture():
    rng = np.random.default_rng(7)
    shunt = Channel(
        "CH1", rng.integers(-128, 128, (20, 4001)).astype(np.int8), 1.5625e-4, -0.013, "V", "analog", "1 Ω shunt",
        -128.0, 127.0, {"range": 0.04, "probe": (1, 1.0, None), "coupling": "DC", "nested": {"a": [1, {"b": True}]}},
        Accuracy(0.02, math.inf, 1 / 3, "data sheet 5992-0140, p. 12"),
    )
    trigger = Channel("CH2", np.zeros((20, 4001), np.uint8), 0.02, 0.0, kind="digital")
    series = Record(
        {"CH1": shunt, "CH2": trigger}, 0.1 + 0.2, rng.random(20), SCOPE, 1.6e-6,
        {"rate_hz": 1e9, "segments": 20}, {"rate_hz": 9.999999999999999e8, "segments": 20, "limits": (0.1, 0.3)},
        ((3, 10, 5), (19, 4000, 1)),
    )
    zero = Record({"CH1": channel("CH1", np.arange(-5, 5, dtype=np.int16)[None])}, None, np.zeros(1), SCOPE)
    return Capture(
        {"series": series, "zero": zero, "null": record(CH1=np.full((100, 25), 9, np.uint8))},
        Wiring(
            Shunt(1.3, 0.01, "low-side", 4.7e-6), Supply(None, 0.005, "board", "dut", "CH4"), "CH1",
            shunt_high_channel="CH3", trigger_channel="CH2", threshold=1.65, hysteresis=0.1,
        ),
        Operation("aes-128-ctr.encrypt", 64, n_iterations=3, n_runs=20),
        {"core": "cortex-m3", "memory": {"flash_bytes": 131072, "ratio": 1e-300}, "pins": ["PC6", "PA9"]},
        DutReport((2**63 + 1, 0, 17), True, 0xFFFFFFFF),
        DutReport((), False, None),
        {"cflags": "-Os", "sections": {".text": 40_000}},
        {"utc": "2026-01-02T03:04:05Z", "note": 'ambient 23 °C, "quiet"\n\t\0', "empty": {}, "none": None},
        {"duration_s": 1.25e-3, "energy_j": 5.93e-5, "windows": (1.0, math.nan)},
    )


def test_every_field_comes_back(tmp_path):
    given = full_capture()
    path = write_capture(tmp_path / "a.h5", given)
    with open_capture(path, verify=True) as read:
        assert_same(read, given)
        assert read.path == str(path)
    assert verify_capture(path) == []


def test_an_instruments_address_stays_out_of_the_file(tmp_path):
    there = dataclasses.replace(SCOPE, resource="TCPIP::scope.lab.example::5025::SOCKET")
    line = channel("CH1", np.zeros((1, 9), np.int8))
    calibration = Calibration(
        "gain", 1.01, "1", (), there, "bench", "comparison", "2026-01-02T03:04:05Z", "2027-01-02T03:04:05Z"
    )
    given = Capture({"series": Record({"CH1": line}, 1e-6, np.zeros(1), there)}, Wiring(), calibrations=(calibration,))
    path = write_capture(tmp_path / "a.h5", given)
    assert b"scope.lab" not in path.read_bytes()
    with open_capture(path) as read:
        assert read.records["series"].instrument == SCOPE
        assert read.calibrations[0].instrument == SCOPE


def test_the_same_capture_gives_the_same_bytes(tmp_path):
    first, second = (write_capture(tmp_path / name, full_capture()).read_bytes() for name in ("a.h5", "b.h5"))
    assert first == second


def test_truth_is_not_in_what_the_analysis_gets(tmp_path):
    path = write_capture(tmp_path / "a.h5", full_capture())
    with open_capture(path) as read:
        assert read.truth is None
    truth = read_truth(path)
    assert truth["duration_s"] == 1.25e-3
    assert truth["windows"][0] == 1.0
    assert math.isnan(truth["windows"][1])
    with h5py.File(path) as file:
        assert "duration_s" not in file["metadata"][()].decode()
        assert "energy_j" in file["truth"][()].decode()


def test_a_real_bench_has_no_truth(tmp_path):
    path = write_capture(tmp_path / "a.h5", capture(CH1=np.zeros((1, 9), np.int8)))
    assert read_truth(path) is None


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "float32", "float64", "int32"])
def test_types_stay(tmp_path, dtype, compress):
    codes = np.arange(-4000, 4000).astype(dtype).reshape(2, 4000)
    given = capture(CH1=codes)
    path = write_capture(tmp_path / "a.h5", given, compress=compress)
    with open_capture(path, verify=True) as read:
        assert_same(read, given)


def test_floats_keep_their_bits(tmp_path):
    bits = np.array([[0x7FC00001, 0x7F800000, 0xFF800000, 0x80000000, 0x00000001, 0x3F800000]], np.uint32)
    codes = bits.view(np.float32)
    path = write_capture(tmp_path / "a.h5", capture(CH1=codes))
    with open_capture(path, verify=True) as read:
        assert np.asarray(read.records["series"].channels["CH1"].codes).view(np.uint32).tolist() == bits.tolist()


@pytest.mark.parametrize(
    "shape", [(0, 5), (3, 0), (1, 1), (1000, 1000), (1, 1_048_576), (2, 1_048_577), (3, 2_500_000)]
)
def test_shapes(tmp_path, shape):
    codes = (np.arange(shape[0] * shape[1]) % 251).astype(np.uint8).reshape(shape)
    given = Capture(
        {"series": Record({"CH1": channel("CH1", codes)}, 1e-6, np.arange(shape[0]) * 1.0, SCOPE)}, Wiring()
    )
    path = write_capture(tmp_path / "a.h5", given)
    with open_capture(path, verify=True) as read:
        assert_same(read, given)


def test_codes_are_read_when_sliced(tmp_path):
    codes = np.arange(3_000_000, dtype=np.int16).reshape(3, -1)
    path = write_capture(tmp_path / "a.h5", capture(CH1=codes))
    read = read_capture(path)
    held = read.records["series"].channels["CH1"].codes
    assert not isinstance(held, np.ndarray)
    assert held[1, 7:11].tolist() == codes[1, 7:11].tolist()
    assert held[2].shape == (1_000_000,)
    buffer = np.zeros((1, 10), np.int16)
    held.read_direct(buffer, np.s_[0:1, 100:110])
    assert buffer[0].tolist() == list(range(100, 110))
    close_capture(read)
    close_capture(read)
    with pytest.raises(FileFault, match="was closed"):
        held[0, 0:1]


def test_a_dropped_capture_lets_its_file_go(tmp_path):
    path = write_capture(tmp_path / "a.h5", capture(CH1=np.zeros((1, 9), np.int8)))
    read = read_capture(path)
    codes = read.records["series"].channels["CH1"].codes
    assert str(path) in _open_files()
    del read, codes
    gc.collect()
    assert str(path) not in _open_files()


def _open_files():
    links = Path("/proc/self/fd").iterdir()
    return {str(link.readlink()) for link in links if link.is_symlink()}


class OneBlockAtATime:
    """Codes that are made when asked for, and refuse to be asked for much."""

    shape = (1, 40_000_000)
    dtype = np.dtype(np.int8)

    def __getitem__(self, key):
        columns = key[1]
        assert columns.stop - columns.start <= 1 << 20
        return (np.arange(columns.start, columns.stop) % 101).astype(np.int8)[None]


def test_writing_streams(tmp_path):
    given = Capture({"series": Record({"CH1": channel("CH1", OneBlockAtATime())}, 1e-6, np.zeros(1), SCOPE)}, Wiring())
    path = write_capture(tmp_path / "a.h5", given)
    with open_capture(path, verify=True) as read:
        codes = read.records["series"].channels["CH1"].codes
        assert codes[0, 39_999_990:].tolist() == [k % 101 for k in range(39_999_990, 40_000_000)]


def test_a_capture_read_from_a_file_can_be_written_again(tmp_path):
    given = full_capture()
    first = write_capture(tmp_path / "a.h5", given)
    with open_capture(first) as read:
        second = write_capture(tmp_path / "b.h5", read)
    with open_capture(second, verify=True) as read:
        assert_same(read, given)


@pytest.mark.parametrize("name", ["a/b", ".", "..", "", "CH 1", "Kanal µ", "100%", "%", "%2E"])
def test_any_name_is_a_name(tmp_path, name):
    given = Capture({name: record(**{name: np.arange(9, dtype=np.int8)[None]})}, Wiring(shunt_channel=name))
    path = write_capture(tmp_path / "a.h5", given)
    with open_capture(path, verify=True) as read:
        assert_same(read, given)


def test_names_do_not_meet():
    names = ["", "%", ".", "%2E", "a/b", "a%2Fb", "a", "A", "a.", "µ"]
    assert len({hdf5_name(name) for name in names}) == len(names)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.lists(inner, max_size=4).map(tuple)
    | st.dictionaries(st.text(max_size=8) | st.just("!"), inner, max_size=4)
    | st.dictionaries(st.integers() | st.tuples(st.integers(), st.text(max_size=3)), inner, max_size=3),
    max_leaves=20,
)


@given(values)
@settings(deadline=None)
def test_metadata_comes_back_exactly(value):
    back = decode(from_text(to_text(encode(value))))
    # repr tells 1 from 1.0 and True, -0.0 from 0.0, a tuple from a list, and is the same for every NaN.
    assert repr(back) == repr(value)


@given(values)
@settings(deadline=None, max_examples=30)
def test_metadata_are_plain_json(value):
    json.loads(to_text(encode(value)).decode("utf-8", "surrogatepass"), parse_constant=pytest.fail)


def test_numpy_scalars_become_numbers():
    back = decode(encode({"a": np.float64(0.1), "b": np.int16(-3), "c": np.bool_(True), "d": np.float32(0.1)}))
    assert back == {"a": 0.1, "b": -3, "c": True, "d": 0.10000000149011612}
    assert [type(v) for v in back.values()] == [float, int, bool, float]


def test_what_no_file_can_keep_is_named(tmp_path):
    series = record(CH1=np.zeros((1, 9), np.int8))
    given = Capture({"series": series}, Wiring(), provenance={"bench": {"lock": object()}})
    with pytest.raises(TypeError, match=r"capture\.provenance\.bench\.lock holds a object"):
        write_capture(tmp_path / "a.h5", given)
    assert list(tmp_path.iterdir()) == []


def test_codes_that_do_not_fit_their_record_are_refused(tmp_path):
    odd = Record({"CH1": channel("CH1", np.zeros((2, 9), np.int8))}, 1e-6, np.zeros(3), SCOPE)
    with pytest.raises(FileFault, match=r"CH1 of record series.*\(2, 9\).*3 segment starts"):
        write_capture(tmp_path / "a.h5", Capture({"series": odd}, Wiring()))
    assert list(tmp_path.iterdir()) == []


def test_names_of_files():
    noon = datetime(2026, 1, 2, 12, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    operation = Operation("ecdsa-p256.sign")
    assert capture_name(noon, "stm32vldiscovery", operation, 7) == (
        "20260102T100405Z-stm32vldiscovery-ecdsa-p256.sign-007.h5"
    )
    assert capture_name(noon.astimezone(UTC), "b/../c", Operation("sha256", 64)) == (
        "20260102T100405Z-b_.._c-sha256-64-001.h5"
    )
    with pytest.raises(ValueError, match="time zone"):
        capture_name(datetime(2026, 1, 2), "b", operation)
