"""Other people's files as records: recognised by content, read exactly or refused with a sentence."""

from __future__ import annotations

import math
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

from instruments.record import Record
from labctl.errors import ConfigError, FileFault
from labctl.formats import (
    chipwhisperer,
    energytrace,
    keysight_bin,
    keysight_csv,
    keysight_dlog,
    other,
    rigol_csv,
    saleae_bin,
    sigrok_csv,
    sigrok_sr,
    vcd,
)
from labctl.formats.foreign import ForeignFile, statistics
from labctl.formats.text import Sheet, open_sheet

__all__ = ["ForeignFile", "describe", "detect", "read_file"]

_HEAD_BYTES = 4096
_SHEETS = (keysight_csv, rigol_csv)
_WHOLE = (keysight_bin, keysight_dlog, chipwhisperer, saleae_bin, sigrok_sr, sigrok_csv, vcd, energytrace)


def detect(path: str | Path) -> str:
    """Name the format of a file by its content. Raises FileFault, which says what the file is, for all others."""
    return _recognise(Path(path))[0]


def read_file(path: str | Path, rate_hz: float | None = None) -> ForeignFile:
    """Read a file of another tool.

    `rate_hz` is the sample rate where the file does not tell it, and goes before the file's own. Raises FileFault
    for a file that cannot be read, ConfigError for a rate that is none.
    """
    if rate_hz is not None and not 0 < rate_hz < math.inf:
        raise ConfigError(f"sample rate {rate_hz} is none; give it in Hz, for example 29.5e6")
    path = Path(path)
    try:
        name, sheet = _recognise(path)
        if sheet is not None:
            foreign = {module.NAME: module for module in _SHEETS}[name].read(sheet)
        else:
            foreign = {module.NAME: module for module in _WHOLE}[name].read(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    except MemoryError as error:
        raise FileFault(f"{path}: too large for the memory of this machine; export a part of it") from error
    return foreign if rate_hz is None else _with_rate(foreign, rate_hz)


def describe(foreign: ForeignFile) -> dict[str, Any]:
    """Describe a file as the JSON contract asks: file, format, and each channel with its statistics."""
    record = foreign.record
    start_s = None if record.dt_s is None else float(record.segment_start_s[0])
    channels = []
    for channel in record.channels.values():
        low, high, mean = (None if math.isnan(value) else value for value in statistics(channel))
        n_segments, n_samples = channel.codes.shape
        channels.append(
            {
                **{"name": channel.name, "label": channel.label, "kind": channel.kind, "unit": channel.unit or None},
                **{"n": int(n_samples), "segments": int(n_segments), "dt_s": record.dt_s, "t0_s": start_s},
                **{"min": low, "max": high, "mean": mean},
            }
        )
    return {"file": str(foreign.path), "format": foreign.format, "channels": channels}


def _recognise(path: Path) -> tuple[str, Sheet | None]:
    try:
        _refuse_special(path)
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if not head:
            raise FileFault(f"{path}: empty; copy or export it again")
        for module in _WHOLE:
            if module.matches(head):
                return module.NAME, None
        sheet = open_sheet(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(path, error) from error
    except MemoryError as error:
        raise FileFault(f"{path}: too large for the memory of this machine; export a part of it") from error
    for reader in _SHEETS if sheet is not None else ():
        if reader.matches(sheet):
            return reader.NAME, sheet
    raise other.refuse(path, head, sheet)


def _refuse_special(path: Path) -> None:
    """Raise FileFault for what is no file: reading it could wait for ever, or never end."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise FileFault(f"{path}: a folder; give a file in it, for a ChipWhisperer project its .cwp")
    if not stat.S_ISREG(mode):
        what = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise FileFault(f"{path}: {what}, not a file; save what comes out of it as a file, and give that")


def _unreadable(path: Path, error: Exception) -> FileFault:
    reason = getattr(error, "strerror", None) or error
    name = str(path).replace("\0", "\\0")
    return FileFault(f"{name}: cannot be opened ({reason}); check the name and the permissions")


def _with_rate(foreign: ForeignFile, rate_hz: float) -> ForeignFile:
    record: Record = foreign.record
    warnings = tuple(warning for warning in foreign.warnings if "--rate" not in warning)
    if record.dt_s is not None and abs(record.dt_s * rate_hz - 1) > 1e-6:
        warnings += (f"the file itself says {1 / record.dt_s:.6g} Hz; {rate_hz:.6g} Hz as given goes before it",)
    return replace(foreign, record=replace(record, dt_s=1 / rate_hz), warnings=warnings)
