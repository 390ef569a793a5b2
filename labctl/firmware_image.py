"""What a firmware's ELF file says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from labctl.dut import parse_manifest
from labctl.errors import FileFault

MANIFEST_SECTION = ".labctl_manifest"
_SIZES = ("flash", "text", "data", "bss", "stack", "heap")


def read_manifest(elf_path: Path | str) -> dict[str, Any]:
    """Read the build manifest of a firmware: the same keys and values that the DUT itself gives, plus `build`.

    Raises FileFault for what is no firmware of labctl.
    """
    try:
        with Path(elf_path).open("rb") as stream:
            elf = ELFFile(stream)
            section = elf.get_section_by_name(MANIFEST_SECTION)
            identity = elf.get_section_by_name(".note.gnu.build-id")
            symbols = elf.get_section_by_name(".symtab")
            if section is None or not isinstance(identity, NoteSection) or not isinstance(symbols, SymbolTableSection):
                raise FileFault(f"{elf_path} is an ELF file without {MANIFEST_SECTION}: build it with `make firmware`")
            manifest = parse_manifest(section.data().decode("ascii").rstrip("\0\n").split("\n"))
            values = {symbol.name: symbol["st_value"] for symbol in symbols.iter_symbols()}
            manifest |= {f"{size}_bytes": values[f"image_{size}_bytes"] for size in _SIZES}
            # The first 16 digits, as the firmware gives them.
            note = next(iter(identity.iter_notes()))
            manifest["build"] = note["n_desc"][:16].upper()
    except OSError as error:
        raise FileFault(f"{elf_path} cannot be read ({error.strerror}): build it with `make firmware`") from error
    except ELFError as error:
        raise FileFault(f"{elf_path} is no ELF file ({error}): build it with `make firmware`") from error
    return manifest


def write_binary(elf_path: Path, path: Path) -> None:
    """Write what an ELF file puts into flash as a plain memory image, from its lowest load address on.

    Gaps are 0xFF, as erased flash. Raises FileFault for what is no ELF file, or cannot be read or written.
    """
    try:
        with elf_path.open("rb") as stream:
            loads = [part for part in ELFFile(stream).iter_segments("PT_LOAD") if part["p_filesz"]]
            start = min((part["p_paddr"] for part in loads), default=0)
            image = bytearray()
            for part in sorted(loads, key=lambda part: part["p_paddr"]):
                image.extend(b"\xff" * (part["p_paddr"] - start - len(image)))
                image[part["p_paddr"] - start :] = part.data()
    except OSError as error:
        raise FileFault(f"{elf_path} cannot be read ({error.strerror}): labctl firmware build makes it") from error
    except ELFError as error:
        raise FileFault(f"{elf_path} is no ELF file ({error}): labctl firmware build makes it") from error
    try:
        path.write_bytes(image)
    except OSError as error:
        raise FileFault(f"{path} cannot be written ({error.strerror}): the tool that flashes needs it") from error
