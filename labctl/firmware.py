"""Images of the firmware: which one holds an operation, where it lies, how it is built and flashed.

Names and folders are those of firmware/Makefile. An image that is missing or older than its sources is built where the
cross compiler is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from labctl import boards, interrupts
from labctl.errors import ConfigError, EnvironmentFault, Unsupported
from labctl.model import Operation
from labctl.operations import EVERYWHERE, NAMES, OF_IMAGE, parts, spelled

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "firmware"
BUILD = ROOT / "build"
PROFILES = ("Os", "O2", "O3", "O0")
COMPILER = "arm-none-eabi-gcc"
# What brings the compiler and its C library, and make itself.
PACKAGES = {"make": "make", COMPILER: "gcc-arm-none-eabi libnewlib-arm-none-eabi"}
# How a folder's name tells each setting of an image that is not the plain one, in this order.
_IN_FOLDER = {"tables": "ramtables", "workspace": "static", "ecp": "plainecp"}
_N_COMPLAINT_LINES = 3
MANIFEST_SECTION = ".labctl_manifest"
_MISSING_BYTES = re.compile(r"IMAGE \S+ does not fit \S+: (.*)")

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Image:
    """One build of the firmware: for a board, with some operations, at a profile, a clock and the image's variants."""

    board: str
    name: str
    profile: str
    clock_hz: int
    tables: str = "flash"
    workspace: str = "heap"
    ecp: str = "tuned"

    @property
    def path(self) -> Path:
        """Return where its ELF file lies, or will."""
        return BUILD / "firmware" / self.board / self.folder / "firmware.elf"

    @property
    def built(self) -> bool:
        """Tell whether its ELF file is there."""
        return self.path.is_file()

    @property
    def folder(self) -> str:
        """Name its folder, as firmware/Makefile does: what is left at its default is not in it."""
        clock = "" if self.clock_hz == boards.load(self.board)["clock_hz"] else f"-{self.clock_hz}hz"
        variants = "".join(f"-{_IN_FOLDER[key]}" for key in self.variant)
        return f"{self.profile}{clock}{variants}" + ("" if self.name == "all" else f"-{self.name}")

    @property
    def variant(self) -> dict[str, str]:
        """Tell its settings that are not the plain ones."""
        return {key: getattr(self, key) for key, values in OF_IMAGE.items() if getattr(self, key) != values[0]}

    @property
    def make(self) -> list[str]:
        """Give the command that builds it."""
        settings = {"BOARD": self.board, "PROFILE": self.profile, "CLOCK": self.clock_hz, "IMAGE": self.name}
        settings |= {key.upper(): getattr(self, key) for key in OF_IMAGE} | {"BUILD": BUILD}
        return ["make", "--no-print-directory", "-C", str(SOURCES), *(f"{k}={v}" for k, v in settings.items())]

    @property
    def options(self) -> str:
        """Give the options of `labctl firmware` that name it."""
        clock = f"{self.clock_hz / 1e6:.9g}MHz"
        options = ["--board", self.board, "--image", self.name, "--profile", self.profile, "--clock", clock]
        return shlex.join(options + (["--variant", spelled(self.variant)] if self.variant else []))


def names(board: Mapping[str, Any]) -> tuple[str, ...]:
    """List the images that hold a board's operations, the usual one first."""
    return tuple(board["images"])


def image_for(board: Mapping[str, Any], operation: Operation, unfit: Collection[Image] = ()) -> Image:
    """Choose the image that holds an operation with its profile, clock and variant, none of those that do not fit.

    Those of the board's data come first, in their order, then one with this operation alone. Raises Unsupported where
    none is left.
    """
    held = [name for name, patterns in board["images"].items() if holds(patterns, operation.name)]
    if operation.name in NAMES:
        held.append("null" if operation.name in EVERYWHERE else f"op-{operation.name}")
    for name in held:
        if (image := image_of(board, operation, name)) not in unfit:
            return image
    raise Unsupported(f"no image of {board['name']} holds an operation {operation.name!r}")


def holds(patterns: list[str], name: str) -> bool:
    """Tell whether an image with these patterns of [images] holds an operation."""
    return name in EVERYWHERE or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def image_of(board: Mapping[str, Any], operation: Operation, name: str) -> Image:
    """Make the image of a name that has the operation's profile, clock and variant."""
    chosen = {key: value for key, value in parts(operation.variant).items() if key in OF_IMAGE}
    return Image(board["name"], name, operation.profile, operation.clock_hz or board["clock_hz"], **chosen)


def mismatch(board: Mapping[str, Any], manifest: Mapping[str, Any], operation: Operation) -> str:
    """Say in which settings a running firmware is another than an operation asks for; "" where in none."""
    image = image_of(board, operation, "")
    wanted = {"profile": image.profile, "clock_hz": image.clock_hz, **{key: getattr(image, key) for key in OF_IMAGE}}
    other = [(key, manifest[key], value) for key, value in wanted.items() if manifest.get(key, value) != value]
    return ", ".join(f"{key} {is_now} and not {value}" for key, is_now, value in other)


def default_image(board: str) -> Image:
    """Return the image of a board that `make firmware` leaves: its first, everything else at its default."""
    data = boards.load(board)
    return Image(board, names(data)[0], PROFILES[0], data["clock_hz"])


def list_images(board: str | None = None) -> list[Image]:
    """List the images of a board, or of all: the usual ones, and whatever else has been built."""
    found: dict[Image, None] = {}
    for name in boards.names() if board is None else (board,):
        data = boards.load(name)
        found |= {Image(name, image, PROFILES[0], data["clock_hz"]): None for image in names(data)}
        for elf in sorted((BUILD / "firmware" / name).glob("*/firmware.elf")):
            image = _from_folder(data, elf.parent.name)
            if image is not None:
                found[image] = None
    return list(found)


def _from_folder(board: Mapping[str, Any], folder: str) -> Image | None:
    """Read an image's settings from the name of its folder; None for what is no such name."""
    variants = "".join(f"(-{text})?" for text in _IN_FOLDER.values())
    match = re.fullmatch(rf"({'|'.join(PROFILES)})(?:-([0-9]+)hz)?{variants}(?:-(.+))?", folder)
    if match is None:
        return None
    profile, clock, *marks, name = match.groups()
    variant = {key: OF_IMAGE[key][1] for key, mark in zip(_IN_FOLDER, marks, strict=True) if mark}
    return Image(board["name"], name or "all", profile, int(clock or board["clock_hz"]), **variant)


def ensure(image: Image, progress: Progress = lambda *_: None) -> Path:
    """Return the path of an image's ELF file, built first where it is missing or its sources have changed.

    Without a compiler, or where nothing can be written, an image that is there is taken as it is. Raises
    EnvironmentFault where it cannot be built, with the command; Unsupported where it does not fit the board.
    """
    tools = all(map(shutil.which, PACKAGES))
    if image.built and not (tools and (SOURCES / "Makefile").is_file() and os.access(BUILD, os.W_OK)):
        return image.path
    if not tools:
        raise EnvironmentFault(
            f"there is no firmware for {image.board} at {image.path}, and no {COMPILER} to build it: run "
            f"`make firmware` in the project's folder, which installs the compiler, then `{shlex.join(image.make)}`"
        )
    return build(image, progress)


def check_toolchain() -> None:
    """Raise EnvironmentFault, with the command that installs it, where what builds firmware is missing."""
    missing = [tool for tool in PACKAGES if shutil.which(tool) is None]
    if missing:
        raise EnvironmentFault(
            f"{' and '.join(missing)} missing, which build{'s' * (len(missing) == 1)} the firmware: apt-get install "
            f"--no-install-recommends {' '.join(PACKAGES[tool] for tool in missing)}"
        )


def build(image: Image, progress: Progress = lambda *_: None) -> Path:
    """Build an image, or bring it up to date, and return the path of its ELF file.

    A file without a manifest that can be read, which make takes for up to date, is built anew. Raises EnvironmentFault
    where that fails, Unsupported with the bytes missing where the image does not fit the board.
    """
    if not (SOURCES / "Makefile").is_file():
        raise EnvironmentFault(f"the firmware's sources are not at {SOURCES}: build it in a checkout of the project")
    _make(image, progress)
    if _fault(image.path):
        image.path.unlink()
        _make(image, progress)
    if fault := _fault(image.path):
        image.path.unlink()
        raise EnvironmentFault(f"`{shlex.join(image.make)}` left no image that can be used: {fault}")
    return image.path


def _make(image: Image, progress: Progress) -> None:
    """Let make bring an image up to date. Raises as above."""
    title = f"building {image.board} {image.folder}"
    if not image.built:  # else there may be nothing to do
        progress(title, 0, 1)
    # What a make above us was told is not meant for this one.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    with _alone(), subprocess.Popen(
        [*image.make, "-j2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        lines = []
        try:
            for line in process.stdout or ():
                lines.append(line.strip())
                progress(f"{title}: {line.strip().split('/')[-1][:30]}", 0, 1)
                interrupts.check()
        except BaseException:
            process.terminate()
            raise
    if process.returncode == 0:
        return
    if missing := [match[1] for match in map(_MISSING_BYTES.search, lines) if match]:
        raise Unsupported(
            f"the image {image.name}, profile {image.profile}, does not fit {image.board}: {', '.join(missing)} "
            f"({image.folder})"
        )
    complaint = "; ".join([line for line in lines if line][-_N_COMPLAINT_LINES:])
    raise EnvironmentFault(f"`{shlex.join(image.make)}` failed: {complaint}")


def _fault(elf: Path) -> str:
    """Say why an image that make left cannot be used, as one of a program that was killed; "" where it can."""
    if not elf.is_file():
        return ""
    try:
        with elf.open("rb") as stream:
            section = ELFFile(stream).get_section_by_name(MANIFEST_SECTION)
    except ELFError as error:
        return f"{elf} is no ELF file ({error})"
    return "" if section is not None and section.data_size else f"{elf} has no {MANIFEST_SECTION}"


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of the build folder: images share objects, and two builds at a time would trip over each other."""
    try:
        BUILD.mkdir(exist_ok=True)
        lock = (BUILD / ".lock").open("w")
    except OSError as error:
        raise EnvironmentFault(f"{BUILD} cannot be written ({error.strerror or error})") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def flash_command(image: Image, tool: str | None = None) -> list[str]:
    """Give the command that writes an image to its board, by the board's usual tool or another that it names.

    Raises ConfigError for a tool that the board's data do not name.
    """
    flash = boards.load(image.board)["flash"]
    tool = tool or flash["tool"]
    if tool not in flash["commands"]:
        raise ConfigError(f"{image.board} is flashed by {', '.join(flash['commands'])}, not by {tool!r}")
    files = {"elf": str(image.path), "bin": str(image.path.with_suffix(".bin"))}
    # Inside a word of more, which is a script of the tool's (Tcl), a name with spaces needs braces.
    braced = {key: f"{{{file}}}" if " " in file else file for key, file in files.items()}
    return [word.format(**(files if word in ("{elf}", "{bin}") else braced)) for word in flash["commands"][tool]]
