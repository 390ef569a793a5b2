"""A campaign as one HDF5 file for the archive, and back again to the same files, byte for byte.

/                     attribute `schema`, "labctl.campaign-pack/1"
/files/<name>         campaign.json, plan.toml, journal.jsonl, bench-*.toml: their bytes, with `size` and `crc32`
/captures/<name>      each acknowledged capture as a group: what its file holds, packed chunks as they are
/captures/failed/<name>
/frames/<name>        what of a capture's file is not in its group, so that the file itself can be made again

A frame holds the bytes of the file without its large pieces; `pieces` names each of these: its place in the file, its
size, and where it lies in the group.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401  (registers the filter that packs codes)
import numpy as np

from labctl.campaign import folder, journal
from labctl.campaign.source import check_sound, place_of
from labctl.errors import BusyFault, FileFault
from labctl.interrupts import held
from labctl.store.atomic import explained, new_file
from labctl.userfile import open_regular

SCHEMA_PACK = "labctl.campaign-pack/1"
FILES, FRAMES = "files", "frames"

# Pieces below this stay in the frame: naming one takes 40 bytes.
_PIECE_MIN_BYTES = 1024
_LIBVER = ("v110", "v110")

Progress = Callable[[str], None]


def pack(
    path: Path, out: Path, progress: Progress = lambda _: None, note: Callable[[str], object] = lambda _: None
) -> Path:
    """Write a campaign's folder as one file, whole or not at all, and return its path.

    Taken are plan, benches, list, journal and every capture that the journal speaks of; where lines of that are
    damaged, of which `note` is told, captures that it does not speak of too, for a lost line may. Raises BusyFault
    while the campaign is at work, FileFault where a capture is missing or damaged or `out` exists, DiskFull,
    EnvironmentFault.
    """
    campaign = folder.open_campaign(path)
    _check_idle(path)
    noted = journal.read(path)
    taken = journal.acknowledged(noted)
    with held(), new_file(out) as sink, h5py.File(sink, "w", driver="fileobj", libver=_LIBVER) as file:
        file.attrs["schema"] = _text(SCHEMA_PACK.encode())
        for one in sorted(campaign.path.iterdir()):
            if one.is_file() and folder.is_ours(one.name):
                _add_file(file, f"{FILES}/{one.name}", one.read_bytes())
                sink.check()
        for name, attempt in taken.items():
            progress(name)
            source = place_of(path, name)
            check_sound(source, attempt, again=True)
            _add_capture(file, name, source)
            sink.check()
        if noted.broken:
            left = sorted(one.relative_to(path).as_posix() for one in (path / folder.CAPTURES).rglob("*.h5"))
            unspoken = [name for name in left if name not in taken]
            for name in unspoken:
                _add_capture(file, name, place_of(path, name))
                sink.check()
            also = f"; packed as they are, too: {', '.join(unspoken)}" if unspoken else ""
            note(f"{path}: {journal.damage(noted.broken)}{also}")
        _check_idle(path)  # what was read belongs together only where nobody began to work meanwhile
    return out


def _check_idle(path: Path) -> None:
    by = folder.holder(path)
    if by is not None:
        raise BusyFault(f"process {by.pid} works on {path} since {by.since_utc}: pack it when that is done")


def unpack(file: Path, out: Path, progress: Progress = lambda _: None) -> Path:
    """Make the folder of a campaign from its pack, whole or not at all, and return its path.

    Raises FileFault where the pack is damaged or there is something at `out`, DiskFull, EnvironmentFault.
    """
    with Pack(file) as packed, folder.new_folder(out) as temporary:
        for name in packed.file_names():
            folder.write_file(temporary / name, packed.file(name))
        for name in packed.capture_names():
            progress(name)
            packed.rebuild(name, temporary / name)
    return out


class Pack:
    """An open pack. Raises FileFault where the file is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            open_regular(path, sys.maxsize).close()  # HDF5 would wait for a pipe
        try:
            self._file = h5py.File(path, "r", locking=False)
        except OSError as error:
            raise FileFault(f"{path} is no packed campaign: it cannot be read as HDF5; give a campaign's folder, or "
                            "what `labctl campaign pack` wrote") from error
        schema = self._file.attrs.get("schema", b"")
        if schema != SCHEMA_PACK.encode():
            self._file.close()
            shown = schema.decode("utf-8", "replace") if isinstance(schema, bytes) else "something else"
            raise FileFault(f"{path} is {shown or 'other HDF5'!r} and no packed campaign ({SCHEMA_PACK}): give what "
                            "`labctl campaign pack` wrote")

    def __enter__(self) -> Pack:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def file_names(self) -> list[str]:
        """Name the files that are no captures."""
        with self._readable("its list of files"):
            names = sorted(self._file[FILES])
        for name in names:
            if not folder.is_ours(name):
                raise FileFault(f"{self.path} holds a file {name!r}, which no campaign has: it is not unpacked")
        return names

    def capture_names(self) -> list[str]:
        """Name the captures, as paths in the campaign's folder."""
        with self._readable("its list of captures"):
            names: list[str] = []
            if FRAMES in self._file:
                self._file[FRAMES].visititems(
                    lambda name, found: names.append(name) if isinstance(found, h5py.Dataset) else None
                )
        for name in names:
            if not name.startswith(f"{folder.CAPTURES}/") or ".." in name.split("/") or name.count("/") > 2:
                raise FileFault(f"{self.path} holds a capture {name!r}, whose place is not in a campaign's folder")
        return sorted(names)

    def strays(self) -> list[str]:
        """Name members that are neither files, nor captures with a frame."""
        with self._readable("its list of members"):
            found = [name for name in self._file if name not in (FILES, FRAMES, folder.CAPTURES)]
            groups = [f"{where}/{name}" for where in (folder.CAPTURES, folder.FAILED)
                      for name in self._file.get(where, ())]
        framed = {*self.capture_names(), folder.FAILED}
        return sorted([*found, *(name for name in groups if name not in framed)])

    def file(self, name: str) -> bytes:
        """Give the bytes of a file. Raises FileFault where they are damaged."""
        with self._readable(name):
            dataset = self._file[f"{FILES}/{name}"]
            data = dataset[...].tobytes()[: int(dataset.attrs["size"])]
            if zlib.crc32(data) != dataset.attrs["crc32"]:
                raise ValueError("it fails its CRC-32")
        return data

    def problems(self, name: str) -> list[str]:
        """Check every dataset of a capture's group."""
        from labctl.store import verify_group

        group = self._file.get(name)
        if not isinstance(group, h5py.Group):
            return [f"{self.path} lacks {name}"]
        return verify_group(group, f"{self.path}, {name}")

    def rebuild(self, name: str, path: Path) -> None:
        """Make the file of a capture again. Raises FileFault where that is not what was packed, DiskFull."""
        with self._readable(name):
            frame = self._file[f"{FRAMES}/{name}"]
            described = json.loads(bytes(frame.attrs["pieces"]))
            rest, group = memoryview(frame[...].tobytes()), self._file[name]
            size, crc = int(frame.attrs["size"]), int(frame.attrs["crc32"])
        found = 0
        with explained(path), path.open("xb") as stream:
            position = 0
            for piece in [*described, None]:
                start = size if piece is None else piece["place"]
                part, rest = rest[: start - position], rest[start - position :]
                data = b""
                if piece is not None:
                    with self._readable(name):
                        data = _read_piece(group[piece["dataset"]], piece)
                stream.write(part)
                stream.write(data)
                found = zlib.crc32(data, zlib.crc32(part, found))
                position = start + len(data)
            stream.flush()
            os.fsync(stream.fileno())
        if found != crc:
            raise FileFault(f"{self.path} is damaged: {name} does not come out as it was packed; copy the file again")

    @contextmanager
    def _readable(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            raise FileFault(f"{self.path} is damaged: {what} cannot be read ({error}); copy the file again") from error


def _add_file(file: h5py.File, name: str, data: bytes) -> None:
    dataset = file.create_dataset(name, data=_text(data), track_times=False)
    dataset.attrs["size"], dataset.attrs["crc32"] = np.uint64(len(data)), np.uint32(zlib.crc32(data))


def _text(data: bytes) -> np.ndarray:
    return np.array(data, h5py.string_dtype("utf-8", max(1, len(data))))


def _add_capture(file: h5py.File, name: str, source: Path) -> None:
    with h5py.File(source, "r", locking=False) as capture:
        file.copy(capture["/"], file, name)
        pieces = sorted(_pieces(capture), key=lambda piece: piece["place"])
    frame, position, size, crc = bytearray(), 0, source.stat().st_size, 0
    with source.open("rb") as stream:
        for piece in [*pieces, {"place": size, "size": 0}]:
            part = stream.read(piece["place"] - position)
            frame += part
            crc = zlib.crc32(stream.read(piece["size"]), zlib.crc32(part, crc))
            position = piece["place"] + piece["size"]
    held_bytes = np.frombuffer(bytes(frame), np.uint8)
    dataset = file.create_dataset(f"{FRAMES}/{name}", data=held_bytes, track_times=False, compression="gzip",
                                  shuffle=False, fletcher32=True)
    dataset.attrs["size"], dataset.attrs["crc32"] = np.uint64(size), np.uint32(crc)
    dataset.attrs["pieces"] = _text(json.dumps(pieces).encode())


def _pieces(capture: h5py.File) -> list[dict[str, Any]]:
    """List the large pieces of a capture's file: packed chunks, and arrays in one piece."""
    found: list[dict[str, Any]] = []

    def look(name: str, one: Any) -> None:
        if not isinstance(one, h5py.Dataset):
            return
        if one.chunks:
            for number in range(one.id.get_num_chunks()):
                chunk = one.id.get_chunk_info(number)
                if chunk.size >= _PIECE_MIN_BYTES:
                    at = [int(place) for place in chunk.chunk_offset]
                    found.append({"dataset": name, "place": chunk.byte_offset, "size": chunk.size, "chunk": at})
        elif one.id.get_offset() is not None and one.nbytes >= _PIECE_MIN_BYTES:
            found.append({"dataset": name, "place": one.id.get_offset(), "size": one.nbytes})

    capture.visititems(look)
    return found


def _read_piece(dataset: h5py.Dataset, piece: dict[str, Any]) -> bytes:
    data = dataset.id.read_direct_chunk(tuple(piece["chunk"]))[1] if "chunk" in piece else dataset[...].tobytes()
    if len(data) != piece["size"]:
        raise ValueError(f"a piece of {piece['dataset']} has another size")
    return bytes(data)
