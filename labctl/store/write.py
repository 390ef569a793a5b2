"""Write a capture: one HDF5 file, in blocks, each dataset with its CRC-32, put in place whole or not at all."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np

from instruments.record import Channel, Record
from labctl.errors import FileFault
from labctl.interrupts import held
from labctl.model import SCHEMA_CAPTURE, Capture, Wiring
from labctl.store import pyramid, schema
from labctl.store.atomic import Sink, new_file

# 2**20 codes a chunk: large enough for full reading speed, small enough to hold a few in memory.
CHUNK_SAMPLES = 1 << 20

# Arrays up to this size lie in the header of their dataset, which has a checksum of its own (the limit is 64 KiB).
_IN_HEADER_BYTES = 32 << 10

_PACKING = hdf5plugin.Bitshuffle(cname="lz4")

# The structures of HDF5 1.10 carry checksums of their own, so that a damaged file is refused and not misread.
_LIBVER = ("v110", "v110")


def write_capture(path: Path | str, capture: Capture, *, overwrite: bool = False, compress: bool = True) -> Path:
    """Write `capture` to `path` and return it; codes are read, packed and written a block at a time.

    The file appears whole, under its final name, or not at all; Ctrl-C meanwhile takes effect when it is in place,
    for HDF5 calls back into Python and an exception there crashes the process. `compress=False` leaves codes as they
    are, in one piece, for benchmarks. Raises FileFault where the name is taken and `overwrite` is false,
    EnvironmentFault where the disk is full or the folder cannot be written, TypeError for metadata that no file could
    give back.
    """
    path = Path(path)
    document = schema.encode_capture(capture)
    truth = None if capture.truth is None else schema.to_text(schema.encode(capture.truth, "truth"))
    with held(), new_file(path, overwrite) as sink, h5py.File(sink, "w", driver="fileobj", libver=_LIBVER) as file:
        writer = _Writer(file, sink, compress)
        triggers = {}
        for name, record in capture.records.items():
            writer.add_record(name, record)
            triggers[name] = writer.add_trigger(name, record, capture.wiring)
        if truth is not None:
            writer.add_text(schema.TRUTH, truth)
        text = schema.to_text({"capture": document, "triggers": triggers, "datasets": writer.datasets})
        writer.add_text(schema.METADATA, text)
        file[schema.METADATA].attrs["crc32"] = np.uint32(zlib.crc32(text))
        # Of fixed length: text of variable length lies in a heap without checksum, where damage makes HDF5 hang.
        file.attrs["schema"] = np.array(SCHEMA_CAPTURE.encode(), h5py.string_dtype("utf-8", len(SCHEMA_CAPTURE)))
    return path


def chunk_shape(n_segments: int, n_samples: int) -> tuple[int, int]:
    """Choose chunks of about 2**20 codes: many short segments together, a long one in equal parts.

    Parts of a segment are whole blocks of the pyramid's first level, so that a chunk is summed on its own.
    """
    if n_samples <= CHUNK_SAMPLES:
        # Equal shares: what a last chunk lacks would be filled up and packed all the same.
        n_chunks = -(-n_segments // max(1, CHUNK_SAMPLES // max(1, n_samples)))
        return max(1, -(-n_segments // max(1, n_chunks))), max(1, n_samples)
    n_parts = -(-n_samples // CHUNK_SAMPLES)
    block = pyramid.BLOCKS[0]
    return 1, -(-n_samples // (n_parts * block)) * block


def blocks(shape: tuple[int, int]) -> Iterator[tuple[int, int, int, int]]:
    """Walk (first segment, last, first sample, last) over codes of this shape, chunk by chunk, in memory's order."""
    n_segments, n_samples = shape
    rows, columns = chunk_shape(n_segments, n_samples)
    for row in range(0, n_segments, rows):
        for column in range(0, n_samples, columns):
            yield row, min(row + rows, n_segments), column, min(column + columns, n_samples)


class _Writer:
    """Datasets of one file, each noted with shape, type and CRC-32."""

    def __init__(self, file: h5py.File, sink: Sink, compress: bool) -> None:
        self._file = file
        self._sink = sink
        self._compress = compress
        self.datasets: dict[str, dict[str, Any]] = {}
        self._kinds: dict[np.dtype, h5py.h5t.TypeID] = {}
        self._in_header = self._layout(())
        self._in_header.set_layout(h5py.h5d.COMPACT)
        self._with_groups = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        self._with_groups.set_create_intermediate_group(True)
        self._with_groups.set_char_encoding(h5py.h5t.CSET_UTF8)

    def add_record(self, name: str, record: Record) -> None:
        starts = np.asarray(record.segment_start_s)
        for channel_name, channel in record.channels.items():
            if len(channel.codes.shape) != 2 or channel.codes.shape[0] != len(starts):
                raise FileFault(
                    f"cannot store channel {channel_name} of record {name}: its codes have shape "
                    f"{tuple(channel.codes.shape)}, and the record has {len(starts)} segment starts; "
                    "give codes of shape (segments, samples)"
                )
        self.add(f"{schema.record_group(name)}/{schema.SEGMENT_START}", starts)
        for channel_name, channel in record.channels.items():
            self._add_channel(schema.channel_group(name, channel_name), channel)

    def add_trigger(self, name: str, record: Record, wiring: Wiring) -> Any:
        """Add edges and bits of the trigger channel, where it switches; give what the metadata say of them."""
        channel = None if wiring.trigger_channel is None else record.channels.get(wiring.trigger_channel)
        if channel is None or not all(channel.codes.shape):
            return None
        # Only a capture with a trigger needs the compiled kernels.
        from labctl.store import trigger

        found = trigger.find(channel, wiring)
        if found is None:
            return None
        group = f"{schema.channel_group(name, str(wiring.trigger_channel))}/trigger"
        for field in trigger.ARRAYS:
            self.add(f"{group}/{field}", getattr(found[0], field))
        shape = (int(channel.codes.shape[0]), int(channel.codes.shape[1]))
        size = (shape[0], -(-shape[1] // 8))
        bits = self._create(f"{group}/bits", size, np.dtype(np.uint8), blocks_of=self._compress)
        crc = 0
        for rows, columns, packed in trigger.packed_bits(found[0], blocks(shape)):
            crc = schema.crc32(packed, crc)
            _write_block(bits, packed, rows.start, columns.start)
            self._sink.check()
        self._note(f"{group}/bits", size, np.dtype(np.uint8), crc)
        return schema.encode(trigger.describe(wiring, *found), "trigger")

    def add(self, name: str, data: np.ndarray) -> None:
        """Add a dataset that is in memory."""
        data = np.ascontiguousarray(data)
        small = 0 < data.nbytes <= _IN_HEADER_BYTES
        packed = data.ndim == 2 and self._compress
        dataset = self._create(name, data.shape, data.dtype, blocks_of=packed, in_header=small)
        if data.size:
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
        self._sink.check()
        self._note(name, data.shape, data.dtype, schema.crc32(data))

    def add_text(self, name: str, text: bytes) -> None:
        """Add a text of UTF-8, as one string of exactly its length."""
        dtype = h5py.string_dtype("utf-8", len(text))
        self._file.create_dataset(name, data=np.array(text, dtype), track_times=False)
        self._sink.check()
        self._note(name, (), dtype, zlib.crc32(text))

    def _add_channel(self, group: str, channel: Channel) -> None:
        codes = channel.codes
        shape, dtype = (int(codes.shape[0]), int(codes.shape[1])), np.dtype(codes.dtype)
        dataset = self._create(f"{group}/{schema.CODES}", shape, dtype, blocks_of=self._compress)
        level = _FirstLevel(shape, dtype) if channel.kind == "analog" and pyramid.has_pyramid(dtype) else None
        crc = 0
        for row, row_stop, column, column_stop in blocks(shape):
            block = np.ascontiguousarray(codes[row:row_stop, column:column_stop])
            crc = schema.crc32(block, crc)
            _write_block(dataset, block, row, column)
            self._sink.check()
            if level is not None:
                level.take(block, row, column)
        self._note(f"{group}/{schema.CODES}", shape, dtype, crc)
        if level is not None:
            for block_length, sums in level.levels():
                for field in pyramid.FIELDS:
                    self.add(f"{group}/pyramid/{block_length}/{field}", sums[field])

    def _create(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype, *, blocks_of: bool, in_header: bool = False
    ) -> h5py.h5d.DatasetID:
        # The calls of HDF5 itself: a capture has dozens of datasets, and h5py's own way takes ten times as long.
        layout = self._in_header if in_header else self._layout(shape if blocks_of else ())
        if dtype not in self._kinds:
            self._kinds[dtype] = h5py.h5t.py_create(dtype, logical=True)
        space = h5py.h5s.create_simple(shape)
        return h5py.h5d.create(self._file.id, name.encode(), self._kinds[dtype], space, layout, self._with_groups)

    def _layout(self, packed_shape: tuple[int, ...]) -> h5py.h5p.PropDCID:
        """Lay a dataset out in one piece, or in packed chunks where it has a shape of two sides."""
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_obj_track_times(False)
        if packed_shape and all(packed_shape):
            # The checksum lies over the packed bytes and is checked before they are unpacked: a damaged chunk makes the
            # unpacking of bitshuffle crash the process.
            layout.set_chunk(chunk_shape(packed_shape[0], packed_shape[1]))
            layout.set_filter(_PACKING["compression"], h5py.h5z.FLAG_OPTIONAL, _PACKING["compression_opts"])
            layout.set_fletcher32()
        return layout

    def _note(self, name: str, shape: tuple[int, ...], dtype: np.dtype, crc: int) -> None:
        self.datasets[name] = {"shape": list(shape), "dtype": dtype.str, "crc32": crc}


def _write_block(dataset: h5py.h5d.DatasetID, block: np.ndarray, row: int, column: int) -> None:
    place = dataset.get_space()
    place.select_hyperslab((row, column), block.shape)
    dataset.write(h5py.h5s.create_simple(block.shape), place, block)


class _FirstLevel:
    """The pyramid's finest level, filled chunk by chunk, and the coarser ones made from it."""

    def __init__(self, shape: tuple[int, int], dtype: np.dtype) -> None:
        size = (shape[0], shape[1] // pyramid.BLOCKS[0])
        types = {"sum": np.int64, "sum_squares": np.int64, "minimum": dtype, "maximum": dtype}
        self._level = {field: np.zeros(size, types[field]) for field in pyramid.FIELDS}

    def take(self, codes: np.ndarray, row: int, column: int) -> None:
        sums = pyramid.block_sums(codes, pyramid.BLOCKS[0])
        first = column // pyramid.BLOCKS[0]
        for field, values in sums.items():
            self._level[field][row : row + values.shape[0], first : first + values.shape[1]] = values

    def levels(self) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Give (block length, sums) of each level that has a block."""
        level = self._level
        for finer, block in zip((pyramid.BLOCKS[0], *pyramid.BLOCKS), pyramid.BLOCKS, strict=False):
            level = pyramid.coarser(level, block // finer)
            if not level["sum"].size:
                return
            yield block, level
