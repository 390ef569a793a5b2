"""sigrok's session files (.sr); `instruments.sigrok` gives the layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from instruments import sigrok
from instruments.errors import BadData
from instruments.record import Identity
from labctl.errors import FileFault
from labctl.formats.foreign import ForeignFile, float_channel
from labctl.formats.logic import logic_record

NAME = "sigrok-sr"


def matches(head: bytes) -> bool:
    """Recognise a zip archive whose first file is called version."""
    return head.startswith(b"PK\x03\x04") and head[30:37] == b"version"


def read(path: Path) -> ForeignFile:
    """Read the logic inputs, and the analog ones, in volt as libsigrok takes them. Raises FileFault."""
    try:
        session = sigrok.read_session(path)
    except BadData as error:
        raise FileFault(str(error)) from error
    dt_s = None if session.rate_hz is None else 1 / session.rate_hz
    warnings = () if dt_s is not None else ("the session does not tell its sample rate; give it with --rate",)
    record = logic_record(session.levels, dt_s, 0.0, Identity("sigrok", "", "", session.version))
    analog = {name: float_channel(name, values[None, :], "V", "") for name, values in session.analog.items()}
    return ForeignFile(path, NAME, replace(record, channels={**record.channels, **analog}), warnings)
