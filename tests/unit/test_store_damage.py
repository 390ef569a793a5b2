"""A file that is no sound capture is refused with one line that says what it is and what to do."""

import json
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from instruments.record import Channel, Identity, Record
from labctl.analysis.result import analyze
from labctl.errors import FileFault
from labctl.model import Capture, Shunt, Wiring
from labctl.store import (
    open_capture,
    range_statistics,
    read,
    read_capture,
    read_truth,
    verify_capture,
    write,
    write_capture,
)

SEED = 20260102


def small_capture():
    rng = np.random.default_rng(SEED)
    shunt = rng.integers(90, 110, (3, 3000)).astype(np.uint8)
    trigger = np.zeros((3, 3000), np.uint8)
    trigger[:, 100:2000] = 200
    lines = {"CH1": Channel("CH1", shunt, 0.1, -2.0), "CH2": Channel("CH2", trigger, 0.1, -2.0)}
    record = Record(lines, 1e-6, np.arange(3.0), Identity("a", "b", "c", "d"))
    return Capture({"series": record}, Wiring(Shunt(1.3), trigger_channel="CH2"), truth={"energy_j": 1e-6})


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = write_capture(tmp_path_factory.mktemp("sound") / "a.h5", small_capture())
    return path.read_bytes()


def refusal(path, function=read_capture):
    """Give the message that the file is refused with: one line, with a remedy after its semicolon."""
    with pytest.raises(FileFault) as caught:
        function(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert ";" in message or ": update it" in message
    problems = verify_capture(path)
    assert problems
    return message


def put(path, content):
    path.write_bytes(content)
    return path


def read_everything(path):
    """Read all there is of a capture, as an analysis would, and give it as bytes."""
    read = []
    with open_capture(path) as capture:
        for record in capture.records.values():
            read.append(record.segment_start_s.tobytes())
            for channel in record.channels.values():
                read.append(np.asarray(channel.codes).tobytes())
                if channel.codes.trigger is not None:
                    read.append(channel.codes.trigger.edges.position.tobytes())
        read.append(repr((capture.wiring, capture.operation, capture.board)).encode())
    read.append(repr(read_truth(path)).encode())
    return b"".join(read)


@pytest.mark.parametrize(("content", "what"), [
    (b"", "an empty file"),
    (b"time,volt\n0,1\n", "not HDF5"),
    (b"\x89HDF", "not HDF5"),
    (b"\x89HDF\r\n\x1a\n", "cut short or damaged"),
])
def test_other_files(tmp_path, content, what):
    assert what in refusal(put(tmp_path / "a.h5", content))


def test_no_file(tmp_path):
    assert "No such file" in refusal(tmp_path / "none.h5")
    assert "is a folder" in refusal(tmp_path)


def test_hdf5_of_someone_else(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["voltage"] = [1.0]
    assert "HDF5 but no labctl capture (it holds voltage)" in refusal(path)
    with h5py.File(path, "w") as file:
        file.attrs["schema"] = "keysight.waveform/3"
    assert "'keysight.waveform/3'" in refusal(path)
    with h5py.File(path, "w") as file:
        file.attrs["schema"] = np.arange(3)
    assert "no labctl capture (it holds nothing)" in refusal(path)


@pytest.mark.parametrize(("schema", "what"), [
    ("labctl.capture/2", "written by a newer labctl (labctl.capture/2)"),
    ("labctl.capture/99", "reads up to labctl.capture/1: update it"),
    ("labctl.capture/0", "never existed"),
    ("labctl.capture/x", "no 'labctl.capture'"),
])
def test_other_versions(tmp_path, sound, schema, what):
    path = put(tmp_path / "a.h5", sound)
    with h5py.File(path, "r+") as file:
        file.attrs["schema"] = schema
    for function in (read_capture, read_truth):
        assert what in refusal(path, function)


def change_metadata(path, change):
    with h5py.File(path, "r+") as file:
        document = json.loads(file["metadata"][()])
        change(document)
        text = json.dumps(document).encode()
        del file["metadata"]
        file.create_dataset("metadata", data=np.array(text, h5py.string_dtype("utf-8", len(text))))
        file["metadata"].attrs["crc32"] = np.uint32(zlib.crc32(text))


@pytest.mark.parametrize("change", [
    lambda d: d["capture"]["wiring"].update(new_field=3),
    lambda d: d["capture"].update(records={"series": {"dt_s": 1.0}}),
    lambda d: d["capture"].update(operation={"!": "Unheard"}),
    lambda d: d["capture"].update(records=3),
    lambda d: d["capture"]["records"]["series"]["channels"]["CH1"].pop("scale"),
    lambda d: d["datasets"].pop("records/series/CH1/codes"),
    lambda d: d["datasets"]["records/series/CH1/codes"].update(shape=[3, 9]),
    lambda d: d["datasets"]["records/series/CH1/codes"].update(dtype="<i2"),
    lambda d: d.pop("capture"),
    lambda d: d.pop("triggers"),
    lambda d: d.update(triggers={}),
])
def test_metadata_of_another_form(tmp_path, sound, change):
    path = put(tmp_path / "a.h5", sound)
    change_metadata(path, change)
    with pytest.raises(FileFault, match=r"a\.h5.*;"):
        read_capture(path)


def test_changed_metadata_fail_their_crc(tmp_path, sound):
    text = b'"resistance_ohm": 1.3'
    assert sound.count(text) == 1
    path = put(tmp_path / "a.h5", sound.replace(text, b'"resistance_ohm": 1.5'))
    assert "its metadata fail their CRC-32" in refusal(path)


def test_changed_truth_fails_its_crc(tmp_path, sound):
    assert sound.count(b'"energy_j": 1e-06') == 1
    path = put(tmp_path / "a.h5", sound.replace(b'"energy_j": 1e-06', b'"energy_j": 1e-05'))
    assert verify_capture(path) == ["truth fails its CRC-32"]
    with pytest.raises(FileFault, match="its truth fails its CRC-32"):
        read_truth(path)


@pytest.mark.parametrize("name", [
    "records/series/CH1/codes", "records/series/segment_start_s", "records/series/CH2/trigger/edges", "records",
    "metadata", "records/series/CH1/pyramid/1024/sum", "records/series/CH2/trigger/bits",
])
def test_a_missing_dataset(tmp_path, sound, name):
    path = put(tmp_path / "a.h5", sound)
    name = name.replace("trigger/edges", "trigger/position")
    with h5py.File(path, "r+") as file:
        del file[name]
    message = refusal(path)
    assert name in message or "damaged" in message


def test_a_group_in_the_place_of_a_dataset(tmp_path, sound):
    path = put(tmp_path / "a.h5", sound)
    with h5py.File(path, "r+") as file:
        del file["records/series/CH1/codes"]
        file.create_group("records/series/CH1/codes")
    assert "lacks records/series/CH1/codes" in refusal(path)


def test_changed_codes_fail_their_crc(tmp_path, sound):
    path = put(tmp_path / "a.h5", sound)
    with h5py.File(path, "r+") as file:
        file["records/series/CH1/codes"][1, 1234] ^= 1
    assert verify_capture(path) == ["records/series/CH1/codes fails its CRC-32"]
    with pytest.raises(FileFault, match=r"a\.h5 is a damaged capture: records/series/CH1/codes fails its CRC-32; copy"):
        read_capture(path, verify=True)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    return write_capture(tmp_path_factory.mktemp("unpacked") / "a.h5", small_capture(), compress=False).read_bytes()


def flipped_code(unpacked):
    codes = small_capture().records["series"].channels["CH1"].codes.tobytes()
    content = bytearray(unpacked)
    content[content.index(codes) + 4321] ^= 0x10
    return content


def test_a_flipped_bit_in_unpacked_codes_is_found_on_opening(tmp_path, unpacked):
    path = put(tmp_path / "a.h5", flipped_code(unpacked))
    assert verify_capture(path) == ["records/series/CH1/codes fails its CRC-32"]
    assert "a.h5 is a damaged capture: records/series/CH1/codes fails its CRC-32" in refusal(path)


def test_large_unpacked_codes_are_checked_when_asked(tmp_path, unpacked, monkeypatch):
    monkeypatch.setattr(read, "_CHECKED_BYTES", 8999)
    path = put(tmp_path / "a.h5", flipped_code(unpacked))
    with open_capture(path) as capture:
        assert capture.records["series"].channels["CH1"].codes.shape == (3, 3000)
    with pytest.raises(FileFault, match="fails its CRC-32"):
        read_capture(path, verify=True)
    monkeypatch.setattr(read, "_CHECKED_BYTES", 9000)
    with pytest.raises(FileFault, match="fails its CRC-32"):
        read_capture(path)


@pytest.mark.parametrize("name", ["CH1/pyramid/1024/sum", "CH2/trigger/bits"])
def test_damage_beside_the_codes_is_named_when_it_is_read(tmp_path, monkeypatch, name):
    monkeypatch.setattr(write, "_IN_HEADER_BYTES", 0)
    path = write_capture(tmp_path / "a.h5", small_capture())
    sound = path.read_bytes()
    with h5py.File(path) as file:
        place = file[f"records/series/{name}"].id.get_chunk_info(0).byte_offset
    content = bytearray(sound)
    content[place + 12] ^= 1
    put(path, content)
    with open_capture(path) as capture:
        look = {
            "CH1": lambda: range_statistics(capture, "series", "CH1"),
            "CH2": lambda: capture.records["series"].channels["CH2"].codes.trigger.bits[0],
        }[name[:3]]
        with pytest.raises(FileFault, match=f"a damaged capture: records/series/{name} cannot be read"):
            look()


@pytest.mark.parametrize("name", ["CH1/pyramid/1024/sum", "CH2/trigger/position"])
def test_damage_of_a_small_array_is_found_on_opening(tmp_path, sound, name):
    """A small array lies in the header of its dataset, whose checksum HDF5 looks at before anything is read."""
    path = put(tmp_path / "a.h5", sound)
    with h5py.File(path) as file:
        held = file[f"records/series/{name}"]
        assert held.chunks is None
        content = held[...].tobytes()
    assert sound.count(content) == 1
    damaged = bytearray(sound)
    damaged[sound.index(content) + 5] ^= 1
    message = refusal(put(path, damaged))
    assert name.rpartition("/")[0] in message or "damaged" in message


def test_no_damage_of_codes_changes_a_result_unseen(tmp_path):
    """Blocks of a real capture are zeroed, as a bad copy leaves them: the file is blamed, and nothing else."""
    golden = Path(__file__).parents[2] / "captures/golden/stm32vldiscovery-sha256-64.h5"
    with open_capture(golden) as capture:
        undamaged = analyze(capture)
    for packed in (True, False):
        with open_capture(golden) as capture:
            written = write_capture(tmp_path / "b.h5", capture, compress=packed, overwrite=True)
        original = written.read_bytes()
        rng = np.random.default_rng(SEED)
        n_refused = 0
        for place in rng.choice(len(original) // 512, 40, replace=False) * 512:
            content = bytearray(original)
            content[place : place + 512] = bytes(512)
            try:
                with open_capture(put(tmp_path / "a.h5", content)) as capture:
                    result = analyze(capture)
            except FileFault as fault:
                assert "damaged" in str(fault) or "lacks" in str(fault)  # noqa: PT017
                n_refused += 1
            else:
                assert (result.energy_mean_j, result.runs) == (undamaged.energy_mean_j, undamaged.runs), f"{place}"
        assert n_refused > 10


def test_a_damaged_chunk_is_refused_when_it_is_read(tmp_path, sound):
    path = put(tmp_path / "a.h5", sound)
    with h5py.File(path) as file:
        place = file["records/series/CH1/codes"].id.get_chunk_info(0).byte_offset
    content = bytearray(sound)
    content[place + 2] ^= 0x40  # the size that bitshuffle would set memory aside for
    put(path, content)
    with open_capture(path) as capture, pytest.raises(FileFault, match="records/series/CH1/codes cannot be read"):
        capture.records["series"].channels["CH1"].codes[0, 0:10]
    assert "records/series/CH1/codes cannot be read" in verify_capture(path)[0]


def test_no_structure_lies_in_a_heap_without_checksum(sound):
    # HDF5 reads a damaged global heap ("GCOL") for ever.
    assert b"GCOL" not in sound


def test_every_length_of_a_cut_file_is_refused(tmp_path, sound):
    lengths = {*range(0, 200), *range(200, len(sound), 61), *range(len(sound) - 20, len(sound))}
    for length in sorted(lengths):
        refusal(put(tmp_path / "a.h5", sound[:length]))


@pytest.mark.parametrize("packed", [True, False])
def test_a_flipped_bit_is_never_taken_for_a_capture(tmp_path, sound, unpacked, packed):
    sound = sound if packed else unpacked
    original = read_everything(put(tmp_path / "a.h5", sound))
    rng = np.random.default_rng(SEED)
    n_found = 0
    for place in rng.choice(len(sound), 600, replace=False):
        content = bytearray(sound)
        content[place] ^= 1 << int(rng.integers(8))
        path = put(tmp_path / "a.h5", content)
        problems = verify_capture(path)
        n_found += bool(problems)
        try:
            read = read_everything(path)
        except FileFault:
            read = None
        # Room that HDF5 sets aside and does not use may change without harm; nothing else may.
        assert read == original or (read is None and problems), f"byte {place}"
    assert n_found > 300
