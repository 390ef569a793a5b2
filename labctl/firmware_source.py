"""Whether an image is of the firmware's sources as they are now: the identity that firmware/Makefile gives them."""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path

from labctl import firmware
from labctl.errors import FileFault
from labctl.firmware import Image
from labctl.firmware_image import read_manifest

_N_DIGITS = 16


def source_id(sources: Path, board: str) -> str:
    """Compute the identity of a board's sources, as `SOURCE_ID` of firmware/Makefile; "" where they are not there."""
    try:
        family = re.findall(r"(?m)^FAMILY := (\S+)", (sources / "boards" / board / "board.mk").read_text("utf-8"))[0]
        used = re.findall(r"(hal/\w+)/\w+\.c", (sources / "hal" / family / "family.mk").read_text("utf-8"))
        folders = {"bench", "crypto", "hal/cortexm", f"hal/{family}", f"boards/{board}", *used}
        names = [name for folder in folders for name in _names(sources, folder)]
        lines = [
            f"{hashlib.sha256((sources / name).read_bytes()).hexdigest()}  {name}\n".encode()
            for name in sorted(["Makefile", "operations.mk", "hal/hal.h", *names], key=os.fsencode)
        ]
    except (OSError, LookupError):
        return ""
    return hashlib.sha256(b"".join(lines)).hexdigest()[:_N_DIGITS]


def _names(sources: Path, folder: str) -> list[str]:
    """List the files in a folder and below that are sources: a letter first, and no editor's copy."""
    return [
        str(path.relative_to(sources)) for path in (sources / folder).rglob("*")
        if re.fullmatch("[A-Za-z].*(?<!~)", path.name) and path.is_file() and not path.is_symlink()
    ]


def out_of_date(image: Image) -> bool:
    """Tell whether an image that is there was built from other sources than those there are now.

    False where the sources are not there, and for what is no image that can be read.
    """
    now = _now(firmware.SOURCES, image.board)
    if not now or not image.built:
        return False
    try:
        return read_manifest(image.path).get("source", now) != now
    except FileFault:
        return False


def stale_sentence(image: Image) -> str:
    """Say that an image is out of date, which is so where nothing could be built; "" where it is not."""
    if not out_of_date(image):
        return ""
    return (
        f"the firmware at {image.path} is out of date: its sources have changed since, and nothing can be built here. "
        "It is measured as it is; run `make firmware` in the project's folder, which installs the compiler"
    )


@cache
def _now(sources: Path, board: str) -> str:
    return source_id(sources, board)
