"""The firmware as it is built: reproducible, inside the board's memory, with its manifest, free of foreign source."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from labctl import boards
from labctl.errors import FileFault
from labctl.firmware_image import read_manifest

ROOT = Path(__file__).resolve().parents[2]
BOARD = "stm32vldiscovery"
MBEDTLS_SHA256 = "3b4953aa55a681e084d31892d9904cc5328d6b4958ea57b90ae4b4f94ae69a8d"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        shutil.which("arm-none-eabi-gcc") is None or shutil.which("make") is None,
        reason="arm-none-eabi-gcc or make is not installed: make test installs them",
    ),
]


def archive() -> Path | None:
    """The mbedTLS archive that the project's own build fetched, by its hash."""
    for file in sorted((ROOT / "build" / "downloads").glob("*.tar.*")):
        if hashlib.sha256(file.read_bytes()).hexdigest() == MBEDTLS_SHA256:
            return file
    return None


def make(firmware: Path, build: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-C", str(firmware), "-j2", "V=1", f"BOARD={BOARD}", f"BUILD={build}", *settings]
    # A `make test` around us must not hand its own flags down.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=240)


def built(firmware: Path, build: Path, *settings: str) -> Path:
    done = make(firmware, build, *settings)
    assert done.returncode == 0, done.stderr
    return build / "firmware" / BOARD / "Os" / "firmware.elf"


def seeded(build: Path) -> Path:
    """A build folder that needs no network: the archive lies there already."""
    source = archive()
    if source is None:
        pytest.skip("the mbedTLS archive has not been fetched: make test fetches it")
    (build / "downloads").mkdir(parents=True)
    (build / "downloads" / "source.tar.gz").symlink_to(source)
    return build


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One build folder and the ELF in it."""
    build = seeded(tmp_path_factory.mktemp("first") / "build")
    return build, built(ROOT / "firmware", build)


def test_same_source_gives_the_same_bytes_wherever_it_lies(first: tuple[Path, Path], tmp_path: Path):
    copy = tmp_path / "elsewhere" / "fw"
    shutil.copytree(ROOT / "firmware", copy)
    second = built(copy, seeded(tmp_path / "another-build"))
    assert second.read_bytes() == first[1].read_bytes()


def test_relative_build_folder_gives_the_same_bytes(first: tuple[Path, Path], tmp_path: Path):
    copy = tmp_path / "firmware"
    shutil.copytree(ROOT / "firmware", copy)
    seeded(tmp_path / "build")
    assert make(copy, Path("../build")).returncode == 0
    second = tmp_path / "build" / "firmware" / BOARD / "Os" / "firmware.elf"
    assert second.read_bytes() == first[1].read_bytes()


def test_no_path_of_this_machine_is_inside(first: tuple[Path, Path]):
    image = first[1].read_bytes()
    assert str(ROOT).encode() not in image
    assert str(first[0]).encode() not in image


def test_nothing_is_rebuilt_without_a_change(first: tuple[Path, Path]):
    build, elf = first
    before = elf.stat().st_mtime_ns
    done = make(ROOT / "firmware", build)
    assert "arm-none-eabi-gcc" not in done.stdout
    assert elf.stat().st_mtime_ns == before


def test_changed_flag_never_reuses_old_objects(first: tuple[Path, Path], tmp_path: Path):
    build = seeded(tmp_path / "build")
    original = built(ROOT / "firmware", build).read_bytes()
    done = make(ROOT / "firmware", build, "EXTRA=-DTRIAL=1")
    n_compiled = len(re.findall(r" -c ", done.stdout))
    n_objects = len(list((build / "firmware").rglob("*.o")))
    assert n_compiled == n_objects
    assert "-DTRIAL=1" in read_manifest(build / "firmware" / BOARD / "Os" / "firmware.elf")["flags"]
    assert built(ROOT / "firmware", build).read_bytes() == original


def test_image_lies_inside_the_boards_memory(first: tuple[Path, Path]):
    memory = boards.load(BOARD)["memory"]
    spans = [(m["address"], m["address"] + m["size_bytes"]) for m in memory.values()]
    with first[1].open("rb") as stream:
        elf = ELFFile(stream)
        loaded = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_memsz"]]
        assert loaded
        for segment in loaded:
            for start, size in (
                (segment["p_paddr"], segment["p_filesz"]),
                (segment["p_vaddr"], segment["p_memsz"]),
            ):
                assert size == 0 or any(low <= start and start + size <= high for low, high in spans)
        symbols = {s.name: s["st_value"] for s in elf.get_section_by_name(".symtab").iter_symbols()}
    # The stack lies at the bottom of RAM, so that an overflow leaves it; the heap reaches to the top.
    assert symbols["image_stack_start"] == memory["ram"]["address"]
    assert symbols["image_heap_end"] == memory["ram"]["address"] + memory["ram"]["size_bytes"]


def test_vector_table(first: tuple[Path, Path]):
    """ARM DDI 0403 B1.5.3: initial stack pointer, then the reset handler with its Thumb bit."""
    flash = boards.load(BOARD)["memory"]["flash"]["address"]
    with first[1].open("rb") as stream:
        elf = ELFFile(stream)
        text = elf.get_section_by_name(".text")
        symbols = {s.name: s["st_value"] for s in elf.get_section_by_name(".symtab").iter_symbols()}
        assert text["sh_addr"] == flash
        words = [int.from_bytes(text.data()[i : i + 4], "little") for i in range(0, 64, 4)]
    assert words[0] == symbols["image_stack_end"]
    assert words[1] == symbols["reset_handler"]
    assert set(words[2:]) == {symbols["fault_handler"]}
    assert all(word & 1 for word in words[1:])


def test_manifest(first: tuple[Path, Path]):
    manifest = read_manifest(first[1])
    board = boards.load(BOARD)
    assert manifest["schema"] == "labctl.manifest/1"
    assert manifest["board"] == BOARD
    assert manifest["profile"] == "Os"
    assert manifest["clock_hz"] == board["clock_hz"]
    assert manifest["mbedtls"] == "2.28.3"
    assert manifest["mbedtls_sha256"] == MBEDTLS_SHA256
    assert manifest["compiler"].startswith("arm-none-eabi-gcc ")
    assert f"-mcpu={board['core']} -mthumb -Os" in manifest["flags"]
    assert re.fullmatch("[0-9A-F]{16}", manifest["build"])
    with first[1].open("rb") as stream:
        sections = {s.name: s["sh_size"] for s in ELFFile(stream).iter_sections()}
    for name in ("text", "data", "bss", "stack"):
        assert manifest[f"{name}_bytes"] == sections[f".{name}"]
    n_ram_bytes = sum(manifest[f"{name}_bytes"] for name in ("stack", "data", "bss", "heap"))
    assert n_ram_bytes == board["memory"]["ram"]["size_bytes"]
    assert manifest["flash_bytes"] >= manifest["text_bytes"] + manifest["data_bytes"]


def test_source_identity_follows_the_contents(first: tuple[Path, Path], tmp_path: Path):
    copy = tmp_path / "firmware"
    shutil.copytree(ROOT / "firmware", copy)
    with (copy / "bench" / "crc.c").open("a") as stream:
        stream.write("/* another version */\n")
    changed = read_manifest(built(copy, seeded(tmp_path / "build")))
    assert changed["source"] != read_manifest(first[1])["source"]


def test_too_small_a_board_fails_with_the_bytes_missing(first: tuple[Path, Path], tmp_path: Path):
    copy = tmp_path / "firmware"
    shutil.copytree(ROOT / "firmware", copy)
    data = copy / "boards" / BOARD / "board.mk"
    data.write_text(data.read_text().replace("RAM_BYTES := 8192", "RAM_BYTES := 4096"))
    done = make(copy, seeded(tmp_path / "build"))
    assert done.returncode != 0
    missing = re.search(r"region `RAM' overflowed by (\d+) bytes", done.stderr)
    assert missing is not None
    sizes = read_manifest(first[1])
    least_heap = int(re.search(r"HEAP_BYTES_MIN := (\d+)", data.read_text())[1])  # type: ignore[index]
    assert int(missing[1]) == sizes["stack_bytes"] + sizes["data_bytes"] + sizes["bss_bytes"] + least_heap - 4096


def test_own_code_tolerates_no_warning(tmp_path: Path):
    copy = tmp_path / "firmware"
    shutil.copytree(ROOT / "firmware", copy)
    with (copy / "bench" / "crc.c").open("a") as stream:
        stream.write("static int unused;\n")
    done = make(copy, seeded(tmp_path / "build"))
    assert done.returncode != 0
    assert "unused" in done.stderr


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("BOARD=toaster", "no board is called 'toaster'; known boards: stm32vldiscovery"),
        ("PROFILE=O9", "no profile is called 'O9'; known profiles: Os O2 O3 O0"),
        ("CROSS=no-such-", "no-such-gcc is missing; remedy: apt-get install"),
    ],
)
def test_wrong_setting_is_named(tmp_path: Path, setting: str, reason: str):
    done = make(ROOT / "firmware", tmp_path / "build", setting)
    assert done.returncode != 0
    assert reason in done.stderr


def test_file_that_is_no_firmware(tmp_path: Path):
    other = tmp_path / "other.elf"
    with pytest.raises(FileFault, match="cannot be read"):
        read_manifest(other)
    other.write_bytes(b"hello, I am text, and longer than a header " * 4)
    with pytest.raises(FileFault, match="no ELF file"):
        read_manifest(other)
    (tmp_path / "other.c").write_text("int x;")
    subprocess.run(["arm-none-eabi-gcc", "-c", "other.c", "-o", "other.elf"], cwd=tmp_path, check=True)
    with pytest.raises(FileFault, match=r"without \.labctl_manifest"):
        read_manifest(other)
