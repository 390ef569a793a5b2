"""ChipWhisperer projects: a .cwp that names .cfg files, beside each of which lie the traces as .npy; or such a .npy.

Layout: ChipWhisperer 5 (newaetech), `software/chipwhisperer/common/traces`. The project is an INI file with nested
sections; its paths are relative to it and may use backslashes. Traces are ADC readings as a fraction of full scale.
"""

from __future__ import annotations

import tokenize
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath

import numpy as np

from instruments.record import Channel, Identity, Record
from labctl.errors import FileFault
from labctl.formats.foreign import ForeignFile, are_plausible, float_channel

NAME = "chipwhisperer"
_NPY_MAGIC = b"\x93NUMPY"
_LARGEST_TEXT_BYTES = 1 << 20
# What numpy raises for headers of all kinds that are none.
_BROKEN_ARRAY = (
    *(ValueError, OSError, EOFError, SyntaxError, TypeError, OverflowError, tokenize.TokenError),
    *(LookupError, AttributeError, RecursionError, MemoryError),
)
_NO_TRACES = ("textin", "textout", "keylist", "knownkey")


def matches(head: bytes) -> bool:
    """Recognise the first bytes of a project or of an array."""
    return head.startswith(_NPY_MAGIC) or b"[Trace Management]" in head


def read(path: Path) -> ForeignFile:
    """Read all enabled trace files of a project as segments, or one array of traces. Raises FileFault."""
    warnings: list[str] = []
    with path.open("rb") as file:
        is_array = file.read(len(_NPY_MAGIC)) == _NPY_MAGIC
    if is_array:
        stem = path.name.removesuffix("traces.npy")
        config = path.parent / f"config_{stem}.cfg"
        parts = [(path, _settings(config) if stem and config.is_file() else {})]
    else:
        parts = [_traces_of(path, config) for config in _configs(path)]
    arrays = [_array(traces, settings, warnings) for traces, settings in parts]
    if len({array.shape[1] for array in arrays}) > 1:
        lengths = ", ".join(str(array.shape[1]) for array in arrays)
        raise FileFault(f"{path}: its traces have different lengths ({lengths}); give each .npy by itself")
    channel = _channel(arrays)
    rates_hz = {_number(settings.get("scopesamplerate", "")) or None for _, settings in parts}
    rate_hz = rates_hz.pop() if len(rates_hz) == 1 else None
    if rate_hz is None:
        warnings.append("the project does not tell its sample rate: durations need --rate")
    instrument = Identity("NewAE", parts[0][1].get("scopename", ""), "", "")
    record = Record(
        {channel.name: channel}, 1 / rate_hz if rate_hz else None, np.zeros(channel.codes.shape[0]), instrument
    )
    return ForeignFile(path, NAME, record, tuple(warnings))


def _settings(path: Path) -> dict[str, str]:
    """Read `name = value` lines of all sections; names in lower case."""
    if path.stat().st_size > _LARGEST_TEXT_BYTES:
        raise FileFault(f"{path}: too large for a ChipWhisperer project file")
    lines = path.read_bytes().decode("utf-8", "replace").splitlines()
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith(("#", "["))]
    return {name.strip().lower(): value.strip().strip('"') for name, value in pairs}


def _configs(project: Path) -> list[Path]:
    settings = _settings(project)
    names = [
        value
        for key, value in settings.items()
        if key.startswith("tracefile") and settings.get(key.replace("tracefile", "enabled"), "True") != "False"
    ]
    if not names:
        raise FileFault(f"{project}: a ChipWhisperer project that names no trace file; save it with its traces")
    return [_inside(project, name) for name in names]


def _inside(project: Path, name: str) -> Path:
    """Find a file that the project names; never one outside the project's folder."""
    folder = project.parent.resolve()
    try:
        path = folder.joinpath(*PureWindowsPath(name).parts).resolve()
    except (RuntimeError, ValueError, OSError) as error:  # a loop of links, a NUL, a name too long
        raise FileFault(f"{project}: names {name[:60]!r}, which leads nowhere ({error}); correct that line") from error
    if not path.is_relative_to(folder):
        raise FileFault(f"{project}: names {name!r}, which lies outside its folder; labctl does not follow that")
    if not path.is_file():
        raise FileFault(f"{project}: names {name!r}, which is not there; copy the whole project folder")
    return path


def _traces_of(project: Path, config: Path) -> tuple[Path, dict[str, str]]:
    settings = _settings(config)
    if settings.get("format", "native") != "native":
        raise FileFault(f"{config}: traces in the format {settings['format']!r}; save the project in native format")
    prefix = settings.get("prefix") or config.stem.removeprefix("config_")
    folder = config.parent.relative_to(project.parent.resolve())
    return _inside(project, str(PureWindowsPath(*folder.parts, f"{prefix}traces.npy"))), settings


def _array(path: Path, settings: Mapping[str, str], warnings: list[str]) -> np.ndarray:
    if path.name.removesuffix(".npy").endswith(_NO_TRACES):
        raise FileFault(f"{path}: holds the operations' data, not traces; give the file that ends in traces.npy")
    try:
        # Pickled objects run code when loaded: never.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _BROKEN_ARRAY as error:
        raise FileFault(f"{path}: cannot be read as an array of traces ({error}); copy it again") from error
    if array.dtype.kind not in "fiu" or array.ndim not in (1, 2) or not array.size:
        shape = " x ".join(map(str, array.shape))
        raise FileFault(f"{path}: holds {shape or 'one'} values of type {array.dtype}, not traces of numbers")
    array = array.reshape(-1, array.shape[-1])
    n_traces, n_points = (_number(settings.get(key, "")) for key in ("numtraces", "numpoints"))
    if n_points and n_points != array.shape[1]:
        warnings.append(f"the project promises traces of {n_points:.0f} samples, {path.name} has {array.shape[1]}")
    if n_traces and n_traces > len(array):
        warnings.append(f"the project promises {n_traces:.0f} traces, {path.name} has {len(array)}")
    elif n_traces and n_traces < len(array):
        warnings.append(f"{len(array) - int(n_traces)} row(s) beyond the project's {n_traces:.0f} traces left out")
        array = array[: int(n_traces)]
    if array.dtype.kind == "f" and not are_plausible(array):
        raise FileFault(f"{path}: some samples are no numbers, or too large; export the traces again")
    return array


def _channel(arrays: list[np.ndarray]) -> Channel:
    kept = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
    if kept.dtype in (np.int8, np.uint8, np.int16):
        return Channel("CH1", np.array(kept), 1.0, 0.0, "", label="traces")
    return float_channel("CH1", kept, "", "traces")


def _number(text: str) -> float:
    """Read a positive number; 0 where there is none."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 < value < float("inf") else 0.0
