"""Flash and RAM of ELF files whose every number is known."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from labctl import boards
from labctl.errors import FileFault
from labctl.memory.elf import read_program
from labctl.memory.footprint import fits, footprint

from .memory_elf import ALLOC, EXECUTE, WRITE, X86, Part, make_elf

FLASH, RAM = 0x0800_0000, 0x2000_0000
GCC = shutil.which("arm-none-eabi-gcc")


def usual() -> list[Part]:
    """1000 of code, 200 of constants, 40 of data that are copied, 300 of bss, room for stack and heap."""
    return [
        Part(".text", FLASH, 1000, ALLOC | EXECUTE),
        Part(".rodata", FLASH + 1000, 200),
        Part(".stack", RAM, 2048, ALLOC | WRITE, None),
        Part(".data", RAM + 2048, 40, ALLOC | WRITE, load=FLASH + 1200),
        Part(".bss", RAM + 2088, 300, ALLOC | WRITE, None),
        Part("._user_heap_stack", RAM + 2388, 1536, ALLOC | WRITE, None),
    ]


def written(folder: Path, content: bytes) -> Path:
    path = folder / "program.elf"
    path.write_bytes(content)
    return path


def test_data_count_in_flash_and_in_ram(tmp_path):
    totals = footprint(read_program(written(tmp_path, make_elf(usual()))))
    assert totals.flash_bytes == 1000 + 200 + 40
    assert totals.ram_bytes == 40 + 300


def test_room_for_stack_and_heap_is_apart(tmp_path):
    totals = footprint(read_program(written(tmp_path, make_elf(usual()))))
    assert totals.reserved_bytes == {"stack": 2048, "heap and stack": 1536}


def test_a_function_that_is_called_after_the_stack_is_code(tmp_path):
    parts = [Part(".text.stack_paint", FLASH, 24, ALLOC | EXECUTE), Part(".bss.heap_peak", RAM, 4, ALLOC | WRITE, None)]
    totals = footprint(read_program(written(tmp_path, make_elf(parts))))
    assert (totals.flash_bytes, totals.ram_bytes, totals.reserved_bytes) == (24, 4, {})


def test_code_that_is_copied_to_ram_counts_in_both(tmp_path):
    parts = [Part(".text", FLASH, 100, ALLOC | EXECUTE), Part(".fast", RAM, 60, ALLOC | EXECUTE, load=FLASH + 100)]
    totals = footprint(read_program(written(tmp_path, make_elf(parts))))
    assert (totals.flash_bytes, totals.ram_bytes) == (160, 60)


def test_core_coupled_ram_in_the_code_region_is_ram(tmp_path):
    parts = [Part(".text", FLASH, 100, ALLOC | EXECUTE), Part(".ccm", 0x1000_0000, 512, ALLOC | WRITE, None)]
    assert footprint(read_program(written(tmp_path, make_elf(parts)))).ram_bytes == 512


def test_a_program_that_is_loaded_into_ram_takes_no_flash(tmp_path):
    parts = [Part(".text", RAM, 100, ALLOC | EXECUTE), Part(".data", RAM + 100, 8, ALLOC | WRITE)]
    totals = footprint(read_program(written(tmp_path, make_elf(parts))))
    assert (totals.flash_bytes, totals.ram_bytes) == (0, 108)


def test_what_is_not_for_memory_counts_nowhere(tmp_path):
    parts = [*usual(), Part(".debug_info", 0, 5000, 0)]
    content = make_elf(parts)
    assert footprint(read_program(written(tmp_path, content))).flash_bytes == 1240


def test_without_sections_the_segments_tell_the_same(tmp_path):
    program = read_program(written(tmp_path, make_elf(usual(), sections=False)))
    totals = footprint(program)
    assert totals.flash_bytes == 1240
    # Nothing names the room for stack and heap any more.
    assert totals.ram_bytes == 40 + 300 + 2048 + 1536
    assert any("no sections" in note for note in totals.notes)


def test_a_stripped_program_says_so_and_keeps_its_totals(tmp_path):
    symbols = [("main", FLASH + 1, 100, 1)]
    named = read_program(written(tmp_path, make_elf(usual(), symbols)))
    assert [(one.name, one.address, one.size_bytes) for one in named.symbols] == [("main", FLASH, 100)]
    stripped = footprint(read_program(written(tmp_path, make_elf(usual()))))
    assert any("stripped" in note for note in stripped.notes)
    assert not any("stripped" in note for note in footprint(named).notes)


def test_another_machine_is_counted_and_named(tmp_path):
    program = read_program(written(tmp_path, make_elf(usual(), machine=X86)))
    totals = footprint(program)
    assert totals.flash_bytes == 1240
    assert any("x86" in note and "not for ARM" in note for note in totals.notes)


def test_a_machine_without_a_name(tmp_path):
    program = read_program(written(tmp_path, make_elf(usual(), machine=0xFEED)))
    assert program.machine_name == f"machine {0xFEED}"


def test_an_oversized_section_is_named(tmp_path):
    parts = [*usual()[:4], Part(".bss", RAM + 2088, 0xF000_0000, ALLOC | WRITE, None)]
    notes = footprint(read_program(written(tmp_path, make_elf(parts)))).notes
    assert any(".bss" in note and "32-bit address space" in note for note in notes)


def test_what_leaves_the_boards_memory_is_named(tmp_path):
    memory = boards.load("stm32vldiscovery")["memory"]
    parts = [*usual()[:4], Part(".bss", RAM + 2088, 8192, ALLOC | WRITE, None)]
    totals = footprint(read_program(written(tmp_path, make_elf(parts))), memory)
    # 8 KiB of RAM: 2088 + 8192 bytes end at 0x2827.
    assert totals.beyond == (f"Beyond the board's RAM, 0x20000000 to 0x20001fff: section .bss, up to "
                             f"{RAM + 2088 + 8192 - 1:#010x}.",)
    assert not fits(totals, memory)
    fitting = footprint(read_program(written(tmp_path, make_elf(usual()))), memory)
    assert not fitting.beyond and fits(fitting, memory)


def test_many_sections_beyond_one_region_are_one_sentence(tmp_path):
    memory = boards.load("stm32vldiscovery")["memory"]
    parts = [Part(f".text.{n}", FLASH + 131_072 + 100 * n, 100, ALLOC | EXECUTE) for n in range(9)]
    parts.append(Part(".elsewhere", 0x1000, 16, ALLOC | EXECUTE))
    totals = footprint(read_program(written(tmp_path, make_elf(parts))), memory)
    assert totals.beyond == (
        "Outside the board's flash and RAM: section .elsewhere.",
        "Beyond the board's flash, 0x08000000 to 0x0801ffff: sections .text.0, .text.1, .text.2 and 6 more, up to "
        f"{FLASH + 131_072 + 900 - 1:#010x}.",
    )


def test_sections_that_overlap_are_named(tmp_path):
    parts = [Part(".bss", RAM, 100, ALLOC | WRITE, None), Part(".heap", RAM + 60, 100, ALLOC | WRITE, None)]
    notes = footprint(read_program(written(tmp_path, make_elf(parts)))).notes
    assert "Sections .bss and .heap overlap by 40 bytes." in notes


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.999])
def test_a_file_that_is_cut_short_is_refused(tmp_path, share):
    content = make_elf(usual(), [("main", FLASH + 1, 100, 1)])
    with pytest.raises(FileFault):
        read_program(written(tmp_path, content[: int(share * len(content))]))


def test_cut_short_says_where_it_ends(tmp_path):
    content = make_elf(usual())
    with pytest.raises(FileFault, match=f"cut short.*{len(content)}, the file has {len(content) - 10}"):
        read_program(written(tmp_path, content[:-10]))


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b":10000000", b"\x7fELF" + b"\xff" * 60])
def test_what_is_no_elf_is_refused(tmp_path, content):
    with pytest.raises(FileFault):
        read_program(written(tmp_path, content))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "none.elf", tmp_path):
        with pytest.raises(FileFault):
            read_program(path)


def test_wild_bytes_give_an_answer_or_a_file_fault(tmp_path):
    content = make_elf(usual(), [("main", FLASH + 1, 100, 1)])
    rng = random.Random(20)
    for _ in range(400):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 6)):
            # Headers hold what a reader trusts.
            place = rng.choice([rng.randrange(52 + 32 * 6), len(content) - 1 - rng.randrange(400)])
            changed[place] = rng.randrange(256)
        try:
            footprint(read_program(written(tmp_path, bytes(changed))))
        except FileFault:
            continue


@pytest.mark.skipif(GCC is None, reason="arm-none-eabi-gcc is not installed")
def test_the_totals_agree_with_the_tools_of_the_compiler(tmp_path):
    (tmp_path / "a.c").write_text(
        "const char text[100] = {1}; int data[8] = {1}; char bss[500];\n"
        "void _start(void) { bss[0] = text[data[0]]; for (;;) {} }\n"
    )
    elf = tmp_path / "a.elf"
    command = [str(GCC), "-mcpu=cortex-m3", "-mthumb", "-O0", "-nostdlib", "-Wl,-Ttext=0x08000000",
               "-Wl,-Tdata=0x20000000", str(tmp_path / "a.c"), "-o", str(elf)]
    subprocess.run(command, check=True, capture_output=True)
    told = subprocess.run(["arm-none-eabi-size", str(elf)], check=True, capture_output=True, text=True).stdout
    text, data, bss = map(int, told.splitlines()[1].split()[:3])
    assert (data, bss) == (32, 500)
    totals = footprint(read_program(elf))
    assert totals.ram_bytes == data + bss
    # This script leaves the data where they run: loaded there, in no flash.
    assert totals.flash_bytes == text
