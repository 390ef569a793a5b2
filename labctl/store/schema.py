"""What a capture file holds: names of its groups, and its metadata as text that comes back exactly.

/               attribute `schema`, "labctl.capture/1"
/metadata       JSON, attribute `crc32`; also names every other dataset with shape, type and CRC-32
/truth          JSON, on the emulated bench only
/records/<record>/segment_start_s
/records/<record>/<channel>/codes                      (segments, samples)
/records/<record>/<channel>/pyramid/<block>/{sum,sum_squares,minimum,maximum}
/records/<record>/<channel>/trigger/{segment,position,rising,level,bits}
"""

from __future__ import annotations

import dataclasses
import json
import math
import zlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import numpy as np

from instruments.record import Accuracy, Channel, Identity, Record
from labctl.model import (
    SCHEMA_CAPTURE,
    Calibration,
    Capture,
    Contribution,
    DutReport,
    Operation,
    Shunt,
    Supply,
    Wiring,
)

SCHEMA_FAMILY, _, _version = SCHEMA_CAPTURE.partition("/")
SCHEMA_VERSION = int(_version)

METADATA = "metadata"
TRUTH = "truth"
CODES = "codes"
SEGMENT_START = "segment_start_s"

_PLAIN_CLASSES = (Accuracy, Identity, Shunt, Supply, Wiring, Operation, DutReport, Calibration, Contribution)
_CLASSES: dict[str, Any] = {cls.__name__: cls for cls in _PLAIN_CLASSES}
_TAG = "!"


class MetadataError(ValueError):
    """Metadata that does not have the form of this schema."""


def hdf5_name(name: str) -> str:
    """Spell any text as one link name of HDF5, where "/" and "." have meanings of their own."""
    return quote(name, safe=" #+-_()").replace(".", "%2E") or "%"


def record_group(record: str) -> str:
    """Name the group of a record."""
    return f"records/{hdf5_name(record)}"


def channel_group(record: str, channel: str) -> str:
    """Name the group of a channel."""
    return f"{record_group(record)}/{hdf5_name(channel)}"


def capture_name(taken: datetime, board: str, operation: Operation | None, number: int = 1, n_digits: int = 3) -> str:
    """Name a capture file: ``<utc>-<board>-<operation>[-<bytes>]-<number>.h5``.

    `taken` must know its time zone; ValueError where it does not.
    """
    if taken.tzinfo is None:
        raise ValueError("the time of a capture needs a time zone, for instance datetime.now(UTC)")
    utc = taken - taken.utcoffset()  # type: ignore[operator]
    parts = [utc.strftime("%Y%m%dT%H%M%SZ"), board, operation.name if operation else "capture"]
    if operation and operation.bytes is not None:
        parts.append(str(operation.bytes))
    parts.append(f"{number:0{n_digits}d}")
    return "-".join(file_part(part) for part in parts) + ".h5"


def file_part(text: str) -> str:
    """Spell any text as one part of a file's name."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in text)
    return kept.strip(".") or "_"


def encode(value: Any, where: str = "metadata") -> Any:
    """Turn a value of the model into what JSON can hold, so that `decode` gives an equal one.

    JSON has no tuple, no infinity, no bytes and no keys but text: those are objects with the key "!". Scalars of
    numpy become Python's, of the same value. Raises TypeError, with its place, for what has no such form.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}
    if isinstance(value, (bytes, bytearray)):
        return {_TAG: "bytes", "hex": bytes(value).hex()}
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, tuple):
        return {_TAG: "tuple", "items": [encode(item, f"{where}[{i}]") for i, item in enumerate(value)]}
    if isinstance(value, (list, np.ndarray)):
        return [encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        if _TAG not in value and all(isinstance(key, str) for key in value):
            return {key: encode(item, f"{where}.{key}") for key, item in value.items()}
        pairs = [[encode(key, where), encode(item, f"{where}.{key}")] for key, item in value.items()]
        return {_TAG: "dict", "pairs": pairs}
    if isinstance(value, Identity):
        # An address is no fact about what was measured: a capture is handed on, and names nobody's network.
        return {_TAG: Identity.__name__, **_encode_fields(value, where, skip=("resource",))}
    if isinstance(value, _PLAIN_CLASSES):
        return {_TAG: type(value).__name__, **_encode_fields(value, where)}
    raise TypeError(f"{where} holds a {type(value).__name__}, which a capture file cannot keep: give plain values")


def _encode_fields(value: Any, where: str, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    names = (f.name for f in dataclasses.fields(value) if f.name not in skip)
    return {name: encode(getattr(value, name), f"{where}.{name}") for name in names}


def decode(value: Any) -> Any:
    """Give back what `encode` was given. Raises MetadataError for a form that this schema does not know."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: decode(item) for key, item in value.items()}
    tag = value[_TAG]
    if tag == "float":
        return float(value["value"])
    if tag == "bytes":
        return bytes.fromhex(value["hex"])
    if tag == "tuple":
        return tuple(decode(item) for item in value["items"])
    if tag == "dict":
        return {decode(key): decode(item) for key, item in value["pairs"]}
    if tag not in _CLASSES:
        raise MetadataError(f"unknown kind of value {tag!r}")
    return _build(_CLASSES[tag], {key: item for key, item in value.items() if key != _TAG})


def _build(cls: Any, fields: dict[str, Any], **given: Any) -> Any:
    unknown = fields.keys() - {f.name for f in dataclasses.fields(cls)}
    if unknown:
        raise MetadataError(f"{cls.__name__} has no {', '.join(sorted(unknown))}")
    return cls(**{key: decode(item) for key, item in fields.items()}, **given)


def encode_capture(capture: Capture) -> dict[str, Any]:
    """Describe a capture without its arrays and without its truth."""
    document = _encode_fields(capture, "capture", skip=("records", "truth", "path"))
    document["records"] = {
        name: _encode_fields(record, name, skip=("channels", SEGMENT_START))
        | {
            "channels": {
                key: _encode_fields(channel, f"{name}.{key}", skip=("codes",))
                for key, channel in record.channels.items()
            }
        }
        for name, record in capture.records.items()
    }
    return document


def decode_capture(document: dict[str, Any], arrays: Any, path: str) -> Capture:
    """Build the capture from its description; `arrays` gives codes and segment starts by the name of a record.

    `arrays.codes(record, channel)` and `arrays.segment_start_s(record)` are called once each. Raises ValueError,
    LookupError, AttributeError or TypeError for a document that is not of this schema.
    """
    records = {}
    for name, fields in document["records"].items():
        channels = {
            key: _build(Channel, channel, codes=arrays.codes(name, key)) for key, channel in fields["channels"].items()
        }
        rest = {key: item for key, item in fields.items() if key != "channels"}
        records[name] = _build(Record, rest, channels=channels, segment_start_s=arrays.segment_start_s(name))
    rest = {key: item for key, item in document.items() if key != "records"}
    return _build(Capture, rest, records=records, path=path)


def crc32(data: np.ndarray, before: int = 0) -> int:
    """Give the CRC-32 of an array's bytes in memory's order, going on from the CRC `before`."""
    return zlib.crc32(np.ascontiguousarray(data).reshape(-1).view(np.uint8).data, before)


def to_text(document: Mapping[str, Any]) -> bytes:
    """Write a document as UTF-8 JSON, an entry of each of its tables a line.

    Numbers are in the shortest form that reads back to the same bits.
    """
    return _lines(document, depth=2).encode("utf-8", "surrogatepass")


def _lines(value: Any, depth: int) -> str:
    # json.dumps is compiled only where it is not asked to indent.
    if not depth or not isinstance(value, Mapping) or not value:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    entries = (f"{json.dumps(key, ensure_ascii=False)}: {_lines(one, depth - 1)}" for key, one in value.items())
    return "{\n" + ",\n".join(entries) + "\n}"


def from_text(text: bytes) -> Any:
    """Read a document back."""
    return json.loads(text.decode("utf-8", "surrogatepass"))
