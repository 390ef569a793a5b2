"""Write firmware to a board's flash by the tool that the board's data name."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from labctl import boards
from labctl.errors import DeviceStable, EnvironmentFault
from labctl.firmware import Image, flash_command
from labctl.firmware_image import write_binary

# What brings each tool.
REMEDIES = {
    "openocd": "apt-get install --no-install-recommends openocd",
    "st-flash": "apt-get install --no-install-recommends stlink-tools",
    "uniflash": "install UniFlash from https://www.ti.com/tool/UNIFLASH and put the folder of dslite.sh into PATH",
}
_TARGET = "--config="
OBJCOPY = "arm-none-eabi-objcopy"


@dataclass(frozen=True)
class Flashing:
    """How an image gets into its board: by which tool, and the command in full."""

    image: Image
    tool: str
    command: tuple[str, ...]

    @property
    def text(self) -> str:
        """Give the command as one types it."""
        return shlex.join(self.command)

    @property
    def binary(self) -> Path | None:
        """Return the memory image that the command reads, made from the ELF file; None where it reads the latter."""
        path = self.image.path.with_suffix(".bin")
        return path if any(str(path) in word for word in self.command) else None

    @property
    def binary_text(self) -> str:
        """Give the command that makes the memory image, for who runs `text` by hand; "" where none is read."""
        if self.binary is None:
            return ""
        return shlex.join([OBJCOPY, "-O", "binary", "--gap-fill", "0xff", str(self.image.path), str(self.binary)])

    @property
    def lacking(self) -> str:
        """Say what this machine lacks, with the remedy; "" where nothing."""
        program = self.command[0]
        if shutil.which(program) is None:
            return f"{program} is missing, which flashes {self.image.board}: {REMEDIES.get(self.tool, 'install it')}"
        for word in self.command:
            if word.startswith(_TARGET) and not Path(word.removeprefix(_TARGET)).is_file():
                return (
                    f"{word.removeprefix(_TARGET)} is missing in this folder, the target configuration that tells "
                    f"{program} of the probe: export it from UniFlash for {self.image.board}"
                )
        return ""


def plan(image: Image, tool: str | None = None) -> Flashing:
    """Plan how to flash an image. Raises ConfigError for a tool that the board's data do not name."""
    return Flashing(image, tool or boards.load(image.board)["flash"]["tool"], tuple(flash_command(image, tool)))


def flash(flashing: Flashing, *, quiet: bool = False) -> None:
    """Flash an image that is built; the tool writes to our own streams, unless it is to be `quiet`.

    Raises EnvironmentFault where the tool is missing, FileFault where the image cannot be read, DeviceStable where the
    tool fails.
    """
    if flashing.lacking:
        raise EnvironmentFault(flashing.lacking)
    if flashing.binary is not None:
        write_binary(flashing.image.path, flashing.binary)
    try:
        output = subprocess.DEVNULL if quiet else None
        status = subprocess.run(flashing.command, check=False, stdout=output, stderr=output).returncode
    except OSError as error:
        raise EnvironmentFault(f"`{flashing.text}` cannot be run ({error.strerror or error})") from error
    if status:
        raise DeviceStable(
            f"`{flashing.text}` ended with status {status}: is {flashing.image.board} connected and powered, may you "
            "use its probe, and has no other program got hold of it?"
        )
