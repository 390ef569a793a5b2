"""Read a capture: metadata at once, codes when they are asked for."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import hdf5plugin  # noqa: F401  (registers the filter that unpacks codes)
import numpy as np

from labctl.errors import FileFault
from labctl.model import SCHEMA_CAPTURE, Capture
from labctl.store import schema
from labctl.store.write import chunk_shape

if TYPE_CHECKING:
    from labctl.store.trigger import StoredTrigger

_TAKE_AGAIN = "copy it again from where it was taken, or take it anew"
# Room for a few unpacked chunks of a dataset, so that neighbouring slices unpack a chunk once.
_CACHE_BYTES = 16 << 20
# What is not packed has no checksum of HDF5; up to this size its CRC costs less than 20 ms. Beyond are benchmarks.
_CHECKED_BYTES = 16 << 20
# What h5py raises for damaged files, by the place that HDF5 stumbles at.
_H5PY_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError)


class Stored:
    """An array in a capture file, read when it is sliced.

    Reading raises FileFault where the file is damaged or was closed.
    """

    def __init__(self, dataset: h5py.Dataset, path: str) -> None:
        self._dataset = dataset
        self._path = path
        self.shape: tuple[int, int] = dataset.shape
        self.dtype: np.dtype = dataset.dtype
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        """Count the rows: segments."""
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Read a slice."""
        with self._explained():
            return self._dataset[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Read everything."""
        whole = self[...]
        return whole if dtype is None else whole.astype(dtype)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        if not self._dataset:
            raise FileFault(f"{self._path} was closed; read the capture again")
        try:
            yield
        except (OSError, RuntimeError) as error:
            raise FileFault(
                f"{self._path} is a damaged capture: {self._dataset.name.lstrip('/')} cannot be read ({_gist(error)}); "
                f"{_TAKE_AGAIN}"
            ) from error


class Codes(Stored):
    """The codes of one channel in a capture file: slices like an array of shape (segments, samples).

    Nothing is held: each slice reads what it needs. `pyramid` maps the length of a block to its sums; `trigger` holds
    the edges and bits of the trigger channel (a `labctl.store.trigger.StoredTrigger`), None where there are none.
    """

    def __init__(
        self,
        dataset: h5py.Dataset,
        path: str,
        pyramid: Mapping[int, Mapping[str, Stored]],
        trigger: StoredTrigger | None,
    ) -> None:
        super().__init__(dataset, path)
        self.chunks: tuple[int, int] | None = dataset.chunks
        self.pyramid = pyramid
        self.trigger = trigger

    def read_direct(self, destination: np.ndarray, source_sel: Any = None, dest_sel: Any = None) -> None:
        """Read a selection into an array that exists."""
        with self._explained():
            self._dataset.read_direct(destination, source_sel, dest_sel)

    def close(self) -> None:
        """Close the file, for all channels of its capture."""
        if self._dataset:
            self._dataset.file.close()


def read_capture(path: Path | str, *, verify: bool = False) -> Capture:
    """Read a capture; its codes stay in the file, which stays open until `close_capture` or until it is dropped.

    The truth of an emulated bench is not read (`truth` is None): see `read_truth`. Checked at once are the CRCs of the
    metadata and of all that is not packed and below 16 MiB; packed codes carry a checksum that is checked when they
    are read. With `verify` every CRC is checked, also those of large codes that are not packed. Raises FileFault,
    saying what the file is, where it is no good capture.
    """
    reader = _Reader(path)
    try:
        capture = reader.capture()
        for problem in reader.problems(None if verify else _CHECKED_BYTES):
            raise FileFault(f"{path} is a damaged capture: {problem}; {_TAKE_AGAIN}")
        return capture
    except BaseException:
        reader.close()
        raise


@contextmanager
def open_capture(path: Path | str, *, verify: bool = False) -> Iterator[Capture]:
    """Read a capture for the length of a `with` block."""
    capture = read_capture(path, verify=verify)
    try:
        yield capture
    finally:
        close_capture(capture)


def close_capture(capture: Capture) -> None:
    """Close the file behind a capture; does nothing for one that is in memory or closed already."""
    for record in capture.records.values():
        for channel in record.channels.values():
            if isinstance(channel.codes, Codes):
                channel.codes.close()


def read_truth(path: Path | str) -> dict[str, Any] | None:
    """Read the emulated world's own account of the windows, None where there is none. Only the output may."""
    reader = _Reader(path)
    try:
        return reader.truth()
    finally:
        reader.close()


def verify_capture(path: Path | str) -> list[str]:
    """Check the CRC of every dataset; give the problems found, an empty list for a sound capture."""
    try:
        reader = _Reader(path)
    except FileFault as fault:
        return [str(fault)]
    try:
        return list(reader.problems())
    finally:
        reader.close()


def verify_group(group: h5py.Group, where: str) -> list[str]:
    """Check a capture that lies as a group in another file, named `where` in problems, as `verify_capture` does."""
    try:
        return list(_Reader(where, group).problems())
    except FileFault as fault:
        return [str(fault)]


class _Reader:
    """One open capture file, or group of another file, whose metadata is known to be sound."""

    def __init__(self, path: Path | str, group: h5py.Group | None = None) -> None:
        self.path = str(path)
        self._group = group
        self._file = _open(Path(path)) if group is None else group
        try:
            document = self._metadata()
            self._document = document["capture"]
            self._triggers = document["triggers"]
            self._datasets: dict[str, dict[str, Any]] = document["datasets"]
        except FileFault:
            self.close()
            raise
        except (*_H5PY_ERRORS, schema.MetadataError) as error:
            self.close()
            raise FileFault(f"{path} is a damaged capture: {_gist(error)}; {_TAKE_AGAIN}") from error

    def close(self) -> None:
        if self._group is None:
            self._file.close()

    def _metadata(self) -> dict[str, Any]:
        found = self._file.attrs.get("schema")
        if isinstance(found, bytes):
            found = found.decode("utf-8", "replace")
        if not isinstance(found, str):
            held = ", ".join(sorted(self._file)[:5]) or "nothing"
            raise FileFault(f"{self.path} is HDF5 but no labctl capture (it holds {held}); give a capture file")
        family, _, version = found.partition("/")
        if family != schema.SCHEMA_FAMILY or not version.isdecimal():
            raise FileFault(f"{self.path} holds {found!r} and no {schema.SCHEMA_FAMILY!r}; give a capture file")
        if int(version) > schema.SCHEMA_VERSION:
            raise FileFault(
                f"{self.path} was written by a newer labctl ({found}); this one reads up to {SCHEMA_CAPTURE}: update it"
            )
        if int(version) != schema.SCHEMA_VERSION:
            raise FileFault(f"{self.path} claims {found}, which never existed; {_TAKE_AGAIN}")
        dataset = self._file[schema.METADATA]
        text = dataset[()]
        if zlib.crc32(text) != dataset.attrs["crc32"]:
            raise FileFault(f"{self.path} is a damaged capture: its metadata fail their CRC-32; {_TAKE_AGAIN}")
        return schema.from_text(text)

    def capture(self) -> Capture:
        try:
            return schema.decode_capture(self._document, self, self.path)
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            raise FileFault(
                f"{self.path} has metadata that this labctl does not know ({_gist(error)}); "
                "read it with the labctl that wrote it, or a newer one"
            ) from error

    def codes(self, record: str, channel: str) -> Codes:
        group = schema.channel_group(record, channel)
        levels: dict[int, dict[str, Stored]] = {}
        for name in self._datasets:
            if name.startswith(f"{group}/pyramid/"):
                block, field = name.rsplit("/", 2)[1:]
                levels.setdefault(int(block), {})[field] = Stored(self._dataset(name), self.path)
        dataset = self._dataset(f"{group}/{schema.CODES}")
        return Codes(dataset, self.path, levels, self._trigger(record, f"{group}/trigger"))

    def _trigger(self, record: str, group: str) -> StoredTrigger | None:
        if f"{group}/bits" not in self._datasets:
            return None
        from labctl.store import trigger  # brings compiled kernels, which only a capture with a trigger needs

        arrays = {field: self._checked(f"{group}/{field}") for field in trigger.ARRAYS}
        bits = Stored(self._dataset(f"{group}/bits"), self.path)
        return trigger.restore(schema.decode(self._triggers[record]), arrays, bits)

    def segment_start_s(self, record: str) -> np.ndarray:
        return self._checked(f"{schema.record_group(record)}/{schema.SEGMENT_START}")

    def _checked(self, name: str) -> np.ndarray:
        values = self._whole(name)
        if schema.crc32(values) != self._datasets[name]["crc32"]:
            raise FileFault(f"{self.path} is a damaged capture: {name} fails its CRC-32; {_TAKE_AGAIN}")
        return values

    def truth(self) -> dict[str, Any] | None:
        if schema.TRUTH not in self._datasets:
            return None
        text = self._whole(schema.TRUTH)
        if zlib.crc32(text) != self._datasets[schema.TRUTH]["crc32"]:
            raise FileFault(f"{self.path} is a damaged capture: its truth fails its CRC-32; {_TAKE_AGAIN}")
        return schema.decode(schema.from_text(text))

    def problems(self, unpacked_bytes: int | None = None) -> Iterator[str]:
        """Check CRCs: all, or those of datasets that are not packed and no larger than `unpacked_bytes`."""
        for name, noted in self._datasets.items():
            try:
                dataset = self._dataset(name)
                if unpacked_bytes is not None and (dataset.chunks or dataset.nbytes > unpacked_bytes):
                    continue
                crc = 0
                for part in _parts(dataset):
                    crc = schema.crc32(part, crc)
            except FileFault as fault:
                yield str(fault)
                continue
            except (OSError, RuntimeError) as error:
                yield f"{name} cannot be read ({_gist(error)})"
                continue
            if crc != noted["crc32"]:
                yield f"{name} fails its CRC-32"

    def _whole(self, name: str) -> Any:
        dataset = self._dataset(name)
        try:
            return dataset[()]
        except (OSError, RuntimeError) as error:
            raise FileFault(
                f"{self.path} is a damaged capture: {name} cannot be read ({_gist(error)}); {_TAKE_AGAIN}"
            ) from error

    def _dataset(self, name: str) -> h5py.Dataset:
        noted = self._datasets.get(name)
        try:
            dataset = self._file[name] if noted is not None else None
        except _H5PY_ERRORS as error:
            raise FileFault(f"{self.path} lacks {name} ({_gist(error)}); {_TAKE_AGAIN}") from error
        if noted is None or not isinstance(dataset, h5py.Dataset):
            raise FileFault(f"{self.path} lacks {name}; {_TAKE_AGAIN}")
        if list(dataset.shape) != noted["shape"] or dataset.dtype.str != noted["dtype"]:
            raise FileFault(f"{self.path}: {name} has another shape or type than its metadata say; {_TAKE_AGAIN}")
        return dataset


def _open(path: Path) -> h5py.File:
    try:
        if path.is_dir():
            raise FileFault(f"{path} is a folder; give a capture file in it")
        if path.exists() and not path.is_file():
            raise FileFault(f"{path} is no file: a pipe or a device cannot be a capture")
        with path.open("rb") as stream:
            head = stream.read(8)
    except OSError as error:
        raise FileFault(f"cannot read {path}: {error.strerror}; check its name and permissions") from error
    if head != b"\x89HDF\r\n\x1a\n":
        what = "an empty file" if not head else "not HDF5"
        raise FileFault(f"{path} is no labctl capture: it is {what}; give a capture file (.h5)")
    try:
        # A capture never changes once it has its name, so that no lock is needed (and none is asked of network disks).
        return h5py.File(path, "r", locking=False, rdcc_nbytes=_CACHE_BYTES, rdcc_nslots=521)
    except _H5PY_ERRORS as error:
        raise FileFault(f"{path} is HDF5 but cut short or damaged ({_gist(error)}); {_TAKE_AGAIN}") from error


def _parts(dataset: h5py.Dataset) -> Iterator[np.ndarray]:
    """Walk a dataset in memory's order, a chunk's worth at a time."""
    if dataset.ndim != 2:
        yield np.asarray(dataset[()])
        return
    n_rows, n_columns = dataset.shape
    rows, columns = dataset.chunks or chunk_shape(n_rows, n_columns)
    if rows > 1:
        columns = n_columns
    for row in range(0, n_rows, rows):
        for column in range(0, n_columns, max(1, columns)):
            yield dataset[row : row + rows, column : column + columns]


def _gist(error: BaseException) -> str:
    """Give the gist of an error of HDF5, which can run over several lines."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:120].strip(" ,'\"")
