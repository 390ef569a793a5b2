"""Name the files that labctl does not read, by their first bytes, and say what to do with each."""

from __future__ import annotations

import zipfile
from pathlib import Path

from labctl.errors import FileFault
from labctl.formats.foreign import READABLE
from labctl.formats.text import Sheet

_CSV = "export it as .csv on the scope"
# First bytes, what the file is, what to do.
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file that is no capture of labctl", "give a capture, or export the data as .csv"),
    (b"%RLD", "a RocketLogger .rld file", "convert it to a scope's .csv"),
    (b"A\x04", "a Riscure Inspector .trs file", "save the traces as .npy"),
    (b"jlsfmt", "a Joulescope .jls file", "export it as .csv and give it a scope's header"),
    (b"version https://git-lfs", "a Git LFS pointer, not the data", "run `git lfs pull` in that repository"),
    (b"\x7fELF", "a program (ELF)", "give a capture"),
    (b":WFM", "a Tektronix .isf file", _CSV),
    (b"WFMPRE", "a Tektronix .isf file", _CSV),
    (b":CURV", "a Tektronix .isf file", _CSV),
    (b"\xa5\xa5", "a Rigol .wfm file", _CSV),
    (b"\xa1\xa5", "a Rigol .wfm file", _CSV),
    (b"RG0", "a Rigol .bin file", _CSV),
    (b"RIFF", "a RIFF file such as .wav", "convert it to a scope's .csv"),
    (b"MATLAB", "a MATLAB .mat file", "save the traces as .npy"),
    (b"TDSm", "an NI .tdms file", "convert it to a scope's .csv"),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"\x89PNG", "a picture", "give the data, not its picture"),
    (b"\xff\xfe", "text in UTF-16", "save it as UTF-8 or plain ASCII"),
    (b"\xfe\xff", "text in UTF-16", "save it as UTF-8 or plain ASCII"),
)


def refuse(path: Path, head: bytes, sheet: Sheet | None) -> FileFault:
    """Compose the refusal of a file that no reader took, from its first bytes or from the table of numbers in it."""
    what, remedy = _recognise(path, head, sheet)
    return FileFault(f"{path}: {what}; labctl reads {READABLE}; {remedy}")


def _recognise(path: Path, head: bytes, sheet: Sheet | None) -> tuple[str, str]:
    for magic, what, remedy in _MAGIC:
        if head.startswith(magic):
            return what, remedy
    if b"WAVEDESC" in head[:64]:
        return "a LeCroy .trc file", _CSV
    if head[2:7] == b":WFM#" or head[2:6] == b"WFM#":
        return "a Tektronix .wfm file", _CSV
    if head.startswith(b"<?xml") and b"<Database" in head:
        return "the header half of a Rohde & Schwarz .bin pair", "export the waveform as .csv with a header and times"
    if head.startswith(b"PK"):
        return _zip(path)
    if sheet is not None:
        return _table(sheet)
    if b"\0" not in head and head.isascii():
        return "text without a table of numbers", "give a file with the samples in it"
    return _by_suffix(path.name.lower())


def _zip(path: Path) -> tuple[str, str]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return "a damaged zip archive", "copy it again"
    if any(name.endswith(".npy") for name in names):
        return "a NumPy .npz archive", "save the array of traces as .npy"
    return "a zip archive", "unpack it first"


def _table(sheet: Sheet) -> tuple[str, str]:
    if not sheet.header:
        return "a .csv without names and units (Rohde & Schwarz writes such)", "export it with a header and times"
    first_line = sheet.separator.join(sheet.header[0])
    if first_line.lower().startswith("time [s],channel"):
        return "a Saleae .csv of changes, not of samples", "export the digital inputs as binary"
    return f"text whose first line {first_line[:60]!r} is that of no scope known here", "give it a scope's header"


def _by_suffix(name: str) -> tuple[str, str]:
    known = {
        ".wfm.bin": ("the sample half of a Rohde & Schwarz .bin pair", "export the waveform as .csv with a header"),
        ".bin": ("a binary file, perhaps of a Siglent scope", _CSV),
        ".trc": ("a .trc file without a LeCroy header", _CSV),
        ".wfm": ("a scope's .wfm file, perhaps Rigol's", _CSV),
    }
    found = next((answer for suffix, answer in known.items() if name.endswith(suffix)), None)
    return found or ("a file of no kind known here", "export it as .csv")
