"""Which images of the firmware a person means, and what is known of each."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labctl import boards, interrupts
from labctl.errors import ConfigError, EnvironmentFault, LabctlError, Unsupported
from labctl.firmware import PROFILES, Image, Progress, build, check_toolchain, holds, image_for, image_of, names
from labctl.firmware_image import read_manifest
from labctl.firmware_source import out_of_date
from labctl.model import Operation
from labctl.operations import (
    EVERYWHERE,
    NAMES,
    OF_IMAGE,
    canonical,
    implementations,
    meaning,
    parts,
    step_bytes,
    variants_of,
)
from labctl.report.firmware import FirmwareRow, OperationRow

# Images that firmware/operations.mk names for every board; a board's own are in its data, and op-NAME is one each.
_EVERYWHERE = ("all", "symmetric", "aes", "others", "ecc", "null")
_ALONE = "op-"

Refused = Callable[[Image, LabctlError], None]


@dataclass(frozen=True)
class Wanted:
    """What a person asks for; of what is left empty the usual one, with `everything` each that a board lists."""

    boards: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    clocks_hz: tuple[float, ...] = ()
    variants: tuple[str, ...] = ()
    everything: bool = False


def choose(wanted: Wanted) -> list[Image]:
    """List the images that are asked for.

    Raises ConfigError for a board, an image or a variant that nothing knows, Unsupported for a clock that none of the
    boards has.
    """
    found: dict[Image, None] = {}
    variants = [_of_image(variant) for variant in wanted.variants or ("",)]
    for board in wanted.boards or (boards.names() if wanted.everything else (boards.DEFAULT,)):
        data = boards.load(board)
        usual_hz = data["clocks_hz"] if wanted.everything else data["clocks_hz"][:1]
        clocks_hz = [hz for hz in wanted.clocks_hz or usual_hz if hz in data["clocks_hz"]]
        profiles = wanted.profiles or (PROFILES if wanted.everything else PROFILES[:1])
        images = [_checked(data, name) for name in wanted.names] or (names(data) if wanted.everything else _first(data))
        for name, profile, hz, variant in itertools.product(images, profiles, clocks_hz, variants):
            operation = Operation("null", profile=profile, clock_hz=int(hz), variant=variant)
            found[image_of(data, operation, name)] = None
    if not found:
        for board, hz in itertools.product(wanted.boards or (boards.DEFAULT,), wanted.clocks_hz):
            boards.at_clock(board, hz)
    return list(found)


def left_out(wanted: Wanted) -> list[str]:
    """Say of each board and clock that are asked for, but do not go together, which clocks the board has."""
    reasons = []
    for board, hz in itertools.product(wanted.boards, wanted.clocks_hz):
        try:
            boards.at_clock(board, hz)
        except Unsupported as error:
            reasons.append(str(error))
    return reasons


def _first(board: Mapping[str, Any]) -> list[str]:
    """List the images that operations are measured in, those left out that others fall back on."""
    return list(dict.fromkeys(image_for(board, Operation(name)).name for name in NAMES))


def choose_one(wanted: Wanted) -> tuple[Image, tuple[str, ...]]:
    """Choose the one image that is asked for, of several that hold a board's operations the first.

    Also names all of these, where there was a choice. Raises as above.
    """
    found = choose(wanted)
    return found[0], tuple(image.name for image in found) if len(found) > 1 else ()


def _checked(board: Mapping[str, Any], name: str) -> str:
    """Return the name of an image. Raises ConfigError, with the nearest, for one that no board has."""
    modes = [f"idle.{mode}" for mode in board.get("idle_modes", ())]
    alone = [f"{_ALONE}{one}" for one in (*NAMES, *modes) if one not in EVERYWHERE]
    known = list(dict.fromkeys((*names(board), *_EVERYWHERE)))
    if name in known or name in alone:
        return name
    near = difflib.get_close_matches(name, known + alone, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(
        f"no image is called {name!r}; {hint}images: {', '.join(known)}, and {_ALONE}NAME for an operation alone"
    )


def _of_image(text: str) -> str:
    """Spell a variant. Raises ConfigError for one that the image does not decide."""
    variant = canonical(text)
    others = [key for key in parts(variant) if key not in OF_IMAGE]
    if others:
        raise ConfigError(
            f"--variant {text!r}: {', '.join(others)} is chosen when measuring; an image is built with "
            f"{', '.join(f'{key}={values[1]}' for key, values in OF_IMAGE.items())}"
        )
    return variant


def build_all(images: Sequence[Image], progress: Progress, refused: Refused) -> list[Image]:
    """Build images one after the other, or bring them up to date; return those that are.

    `refused` is told of each that does not fit its board; where only one is asked for, that is raised. Raises
    EnvironmentFault where nothing can be built.
    """
    check_toolchain()
    done = []
    for number, image in enumerate(images):
        interrupts.check()
        try:
            build(image, lambda text, *_, n=number: progress(text, n, len(images)))
        except Unsupported as error:
            if len(images) == 1:
                raise
            refused(image, error)
        else:
            if remark := row_of(image).remark:
                raise EnvironmentFault(f"make left an image that cannot be read: {remark}")
            done.append(image)
    return done


def operation_rows(names_of_boards: Sequence[str]) -> list[OperationRow]:
    """Tell of each operation that these boards have what it is, what it takes, and which of their images hold it."""
    data = [boards.load(name) for name in names_of_boards]
    had = {board["name"]: (*NAMES, *(f"idle.{mode}" for mode in board.get("idle_modes", ()))) for board in data}
    return [
        OperationRow(
            name, meaning(name), step_bytes(name), variants_of(name), implementations(name),
            {board["name"]: tuple(image for image, patterns in board["images"].items() if holds(patterns, name))
             for board in data if name in had[board["name"]]},
        )
        for name in dict.fromkeys(name for names_ in had.values() for name in names_)
    ]


def row_of(image: Image) -> FirmwareRow:
    """Tell what is known of an image, built or not; a file that is none of ours is told as a remark."""
    facts: dict[str, Any] = {}
    remark = ""
    if image.built:
        try:
            manifest = read_manifest(image.path)
            facts = {key: manifest[key] for key in ("build", "flash_bytes", "stack_bytes", "heap_bytes")}
            facts["ram_bytes"] = manifest["data_bytes"] + manifest["bss_bytes"]
        except LabctlError as error:
            remark = str(error)
    memory = boards.load(image.board)["memory"]
    return FirmwareRow(
        image.board, image.name, image.profile, image.clock_hz, image.variant, str(image.path), image.built,
        board_flash_bytes=memory["flash"]["size_bytes"], board_ram_bytes=memory["ram"]["size_bytes"],
        remark=remark, out_of_date=out_of_date(image), **facts,
    )
