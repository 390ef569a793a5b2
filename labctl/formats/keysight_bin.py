"""Keysight and Agilent InfiniiVision .bin.

Layout: Agilent InfiniiVision 3000 X-Series Oscilloscopes User's Guide, "Binary Data (.bin)"; all little-endian. A file
header (cookie "AG", version, file size, number of waveforms); for each waveform a header, then for each of its
buffers a data header and the samples. Each segment of segmented memory is a waveform of its own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from instruments.record import Channel, Identity, Record
from labctl.errors import FileFault
from labctl.formats.foreign import ForeignFile, are_plausible, channel_name

NAME = "keysight-bin"
_FILE_HEADER = struct.Struct("<2s2sii")
_WAVEFORM_HEADER = struct.Struct("<5if3dii16s16s24s16sdI")
_DATA_HEADER = struct.Struct("<ihhi")
_UNITS = {1: "V", 2: "s", 4: "A", 5: "dB", 6: "Hz"}
_NORMAL, _MAXIMUM, _MINIMUM, _DIGITAL = 1, 2, 3, 6
_SUFFIXES = {_NORMAL: "", _MAXIMUM: "_MAX", _MINIMUM: "_MIN"}


@dataclass(frozen=True)
class _Buffer:
    """The samples of one waveform, and what its header says."""

    label: str
    frame: str
    kind: int
    unit: str
    dt_s: float
    start_s: float
    segment: int
    samples: np.ndarray
    pod: int


def matches(head: bytes) -> bool:
    """Recognise the cookie and a version of two digits."""
    return head.startswith(b"AG") and head[2:4].isdigit()


def read(path: Path) -> ForeignFile:
    """Read every waveform. Raises FileFault for a file that is cut or does not follow the layout."""
    # Copy-on-write: the samples stay on disk until used, yet the arrays are ordinary writable ones.
    data = np.memmap(path, np.uint8, "c").view(np.ndarray)
    buffers = _buffers(path, data)
    groups: dict[tuple[str, int, int], list[_Buffer]] = {}
    for buffer in buffers:
        groups.setdefault((buffer.label, buffer.kind, buffer.pod), []).append(buffer)
    first = next((group for group in groups.values() if group[0].kind != _DIGITAL), next(iter(groups.values())))
    channels: dict[str, Channel] = {}
    warnings = []
    for group in groups.values():
        group.sort(key=lambda buffer: buffer.segment)
        if not _same_clock(group, first):
            warnings.append(f"{group[0].label!r} was taken on another sample clock than the rest and is left out")
        elif group[0].kind == _DIGITAL:
            channels |= _digital_channels(group, channels)
        else:
            channel = _analog_channel(group, channels)
            channels[channel.name] = channel
    if any(buffer.kind in (_MAXIMUM, _MINIMUM) for buffer in buffers):
        warnings.append("peak detect: the file holds maxima and minima, the mean of neither is that of the signal")
    dt_s: float | None = first[0].dt_s
    if not dt_s or not 0 < dt_s < np.inf:
        warnings.append("the file tells no sample interval: the sample rate is unknown, give --rate")
        dt_s = None
    model, _, serial = first[0].frame.partition(":")
    starts_s = np.array([buffer.start_s for buffer in first])
    if not np.isfinite(starts_s).all():
        raise _broken(path, _FILE_HEADER.size)
    record = Record(channels, dt_s, starts_s, Identity("Keysight", model, serial, ""))
    return ForeignFile(path, NAME, record, tuple(warnings))


def _buffers(path: Path, data: np.ndarray) -> list[_Buffer]:
    _, _, n_bytes, n_waveforms = _unpack(path, data, 0, _FILE_HEADER)
    if n_bytes > len(data):
        raise FileFault(f"{path}: cut: {len(data)} of {n_bytes} bytes are there; copy it from the scope again")
    offset, buffers = _FILE_HEADER.size, []
    for _ in range(n_waveforms):
        header = _unpack(path, data, offset, _WAVEFORM_HEADER)
        size, _, n_buffers, n_points = header[:4]
        if size < _WAVEFORM_HEADER.size or n_buffers < 1 or n_points < 1:
            raise _broken(path, offset)
        offset += size
        for pod in range(n_buffers):
            size, kind, n_point_bytes, n_buffer_bytes = _unpack(path, data, offset, _DATA_HEADER)
            dtype = np.dtype("<f4") if kind in _SUFFIXES else np.dtype(np.uint8)
            wrong = kind not in (*_SUFFIXES, _DIGITAL) or n_point_bytes != dtype.itemsize
            if size < _DATA_HEADER.size or wrong or n_buffer_bytes != n_points * dtype.itemsize:
                raise _broken(path, offset)
            offset += size
            raw = data[offset : offset + n_buffer_bytes]
            if len(raw) < n_buffer_bytes:
                raise _broken(path, offset)
            samples = np.require(np.frombuffer(raw, dtype), requirements="A")
            buffers.append(_buffer(header, kind, samples, pod if kind == _DIGITAL else 0))
            offset += n_buffer_bytes
    if not buffers:
        raise FileFault(f"{path}: a Keysight .bin without a waveform in it; save it again with a channel on")
    analog = [buffer.samples for buffer in buffers if buffer.kind != _DIGITAL]
    if not all(map(are_plausible, analog)):
        raise FileFault(
            f"{path}: some samples are no numbers, or too large, so the file is damaged; copy it from the scope again"
        )
    return buffers


def _unpack(path: Path, data: np.ndarray, offset: int, layout: struct.Struct) -> tuple:
    if offset + layout.size > len(data):
        raise _broken(path, offset)
    return layout.unpack_from(data.data, offset)


def _broken(path: Path, offset: int) -> FileFault:
    return FileFault(
        f"{path}: a Keysight .bin that ends early or does not follow the published layout (at byte {offset}); "
        "copy it again, or export it as .csv"
    )


def _buffer(header: tuple, kind: int, samples: np.ndarray, pod: int) -> _Buffer:
    _, _, _, _, _, _, _, step_s, origin_s, _, unit, _, _, frame, label, tag_s, segment = header
    return _Buffer(
        label=_text(label),
        frame=_text(frame),
        kind=kind,
        unit=_UNITS.get(unit, ""),
        dt_s=step_s,
        start_s=(tag_s if segment else 0.0) + origin_s,
        segment=segment,
        samples=samples,
        pod=pod,
    )


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("latin-1").strip()


def _same_clock(group: list[_Buffer], first: list[_Buffer]) -> bool:
    def clock(buffers: list[_Buffer]) -> list[tuple]:
        return [(len(buffer.samples), buffer.dt_s, buffer.start_s) for buffer in buffers]

    return clock(group) == clock(first) and len({len(buffer.samples) for buffer in group}) == 1


def _stack(group: list[_Buffer]) -> np.ndarray:
    if len(group) == 1:
        return group[0].samples.reshape(1, -1)
    return np.stack([buffer.samples for buffer in group])


def _analog_channel(group: list[_Buffer], taken: dict[str, Channel]) -> Channel:
    first = group[0]
    name = channel_name(first.label, ()) + _SUFFIXES[first.kind]
    if name in taken:
        name = channel_name(name, taken)
    return Channel(name, _stack(group), 1.0, 0.0, first.unit, label=first.label)


def _digital_channels(group: list[_Buffer], taken: dict[str, Channel]) -> dict[str, Channel]:
    codes, first = _stack(group), group[0]
    channels = {}
    for bit in range(8):
        name = channel_name(f"D{8 * first.pod + bit}", taken)
        channels[name] = Channel(name, (codes >> bit) & 1, 1.0, 0.0, "", kind="digital", label=first.label)
    return channels
