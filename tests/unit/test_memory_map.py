"""Maps of GNU ld: sums by object file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from labctl.errors import ConfigError, FileFault
from labctl.memory.elf import read_program
from labctl.memory.footprint import footprint
from labctl.memory.mapfile import FILL, Object, by_object, read_map

from .memory_elf import ALLOC, EXECUTE, WRITE, Part, make_elf

GCC = shutil.which("arm-none-eabi-gcc")
FLASH, RAM = 0x0800_0000, 0x2000_0000

# In the form of ld 2.40: long names with their numbers on the next line, fill, a member of an archive, a path with
# spaces, symbols, assignments, patterns, the size of strings before they were merged.
MAP = """
Discarded input sections

 .text          0x00000000       0x99 gone.o

Memory Configuration

Name             Origin             Length             Attributes
FLASH            0x08000000         0x00020000         xr

Linker script and memory map

LOAD main.o
LOAD my folder/other.o
                0x00002000                        room = 0x2000

.text           0x08000000       0x40
 *(.text .text.*)
 .text.main     0x08000000       0x20 main.o
                0x08000000                main
 *fill*         0x08000020        0x4
 .text.a_function_with_a_long_name
                0x08000024       0x14 my folder/other.o
                0x08000024                a_function_with_a_long_name
 .rodata.str1.1
                0x08000038        0x8 /lib/libc.a(memcpy.o)
                                  0xc (size before relaxing)
                0x08000040                        . = ALIGN (0x4)

.data           0x20000000       0x10 load address 0x08000040
                0x20000000                        begin = .
 .data          0x20000000       0x10 main.o

.bss            0x20000010       0x20 load address 0x08000050
 COMMON         0x20000010       0x20 my folder/other.o

/DISCARD/
 *(.comment)
.debug_info     0x00000000       0x50
 .debug_info    0x00000000       0x50 main.o
"""


def program(tmp_path: Path, text_bytes: int = 0x40):
    path = tmp_path / "program.elf"
    path.write_bytes(make_elf([
        Part(".text", FLASH, text_bytes, ALLOC | EXECUTE),
        Part(".data", RAM, 0x10, ALLOC | WRITE, load=FLASH + 0x40),
        Part(".bss", RAM + 0x10, 0x20, ALLOC | WRITE, None),
    ]))
    return read_program(path)


def write_map(tmp_path: Path, text: str = MAP) -> Path:
    path = tmp_path / "program.map"
    path.write_text(text)
    return path


def test_sums_by_object_are_those_of_the_map(tmp_path):
    one = program(tmp_path)
    found = by_object(one, footprint(one), read_map(write_map(tmp_path)))
    assert set(found) == {
        Object("main.o", 0x20 + 0x10, 0x10),
        Object("my folder/other.o", 0x14, 0x20),
        Object("/lib/libc.a(memcpy.o)", 0x8, 0),
        Object(FILL, 0x4, 0),
    }


def test_together_they_are_the_totals(tmp_path):
    one = program(tmp_path)
    totals = footprint(one)
    found = by_object(one, totals, read_map(write_map(tmp_path)))
    assert sum(each.flash_bytes for each in found) == totals.flash_bytes
    assert sum(each.ram_bytes for each in found) == totals.ram_bytes


def test_the_objects_that_were_linked(tmp_path):
    assert read_map(write_map(tmp_path)).objects == ("main.o", "my folder/other.o")


def test_the_map_of_another_link_is_refused(tmp_path):
    one = program(tmp_path, text_bytes=0x44)
    with pytest.raises(ConfigError, match=r"is not the map of .*\.text is 64 bytes .* 68 bytes"):
        by_object(one, footprint(one), read_map(write_map(tmp_path)))


@pytest.mark.parametrize("text", [
    "", "hello\n",
    "      VMA      LMA     Size Align Out     In      Symbol\n  8000000  8000000       40     4 .text\n",
    "Linker script and memory map\n\n",
])
def test_other_files_are_refused(tmp_path, text):
    with pytest.raises(FileFault, match="no map of GNU ld"):
        read_map(write_map(tmp_path, text))


def test_a_missing_map_is_refused(tmp_path):
    with pytest.raises(FileFault):
        read_map(tmp_path / "none.map")


@pytest.mark.skipif(GCC is None, reason="arm-none-eabi-gcc is not installed")
def test_a_map_of_the_linker_itself(tmp_path):
    (tmp_path / "a.c").write_text("extern int b(void); int a_data[5] = {1}; void _start(void) { a_data[0] = b(); }\n")
    (tmp_path / "b.c").write_text(
        "volatile char room[300]; const char b_text[77] = {1}; int b(void) { return room[3]; }\n")
    command = [str(GCC), "-mcpu=cortex-m3", "-mthumb", "-Os", "-fno-common", "-nostdlib", "-Wl,-Map=a.map",
               "-Wl,-Ttext=0x08000000", "-Wl,-Tdata=0x20000000"]
    for name in ("a", "b"):
        subprocess.run([*command[:5], "-c", f"{name}.c", "-o", f"{name}.o"], cwd=tmp_path, check=True)
    subprocess.run([*command, "a.o", "b.o", "-o", "a.elf"], cwd=tmp_path, check=True, capture_output=True)
    one = read_program(tmp_path / "a.elf")
    totals = footprint(one)
    found = {each.name: each for each in by_object(one, totals, read_map(tmp_path / "a.map"))}
    assert found["a.o"].ram_bytes == 20
    assert found["b.o"].ram_bytes >= 300
    assert found["b.o"].flash_bytes >= 77
    assert sum(each.flash_bytes for each in found.values()) == totals.flash_bytes
    assert sum(each.ram_bytes for each in found.values()) == totals.ram_bytes
