"""Saleae Logic 2's binary exports of digital inputs, one a file; `instruments.saleae` gives the layout."""

from __future__ import annotations

import re
from pathlib import Path

from instruments import saleae
from instruments.errors import BadData
from instruments.record import Identity
from labctl.errors import FileFault
from labctl.formats.foreign import ForeignFile
from labctl.formats.logic import logic_record
from labctl.units import quantity

NAME = "saleae-bin"


def matches(head: bytes) -> bool:
    """Recognise a binary export of digital samples."""
    return head.startswith(saleae.MAGIC)


def read(path: Path) -> ForeignFile:
    """Read one input, named D and the number in the file's name. Raises FileFault."""
    number = re.search(r"([0-9]+)$", path.stem)
    try:
        found = saleae.parse_digital(path.read_bytes(), str(path))
    except BadData as error:
        raise FileFault(str(error)) from error
    warnings = []
    if not found.rate_found:
        warnings.append("the sample rate does not stand in the file, and its times lie on no usual one: they are "
                        "rounded to 1 ns, and may be less exact than that")
    elif not found.rate_told:
        rate = quantity(1 / found.dt_s, "Hz")
        warnings.append(f"the sample rate does not stand in the file; all its times lie on {rate}")
    if found.gaps:
        lost = quantity(sum(n for _, n in found.gaps) * found.dt_s, "s")
        warnings.append(f"{lost} between its chunks were lost, in {len(found.gaps)} gap(s)")
    levels = {f"D{int(number[1]) if number else 0}": found.levels}
    record = logic_record(levels, found.dt_s, found.start_s, Identity("Saleae", "Logic 2", "", ""), found.gaps)
    return ForeignFile(path, NAME, record, tuple(warnings))
