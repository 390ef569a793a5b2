"""The firmware as it is built: reproducible, inside the board's memory, with its manifest, free of foreign source."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

import labctl.firmware
from labctl import boards
from labctl.errors import FileFault
from labctl.firmware import Image
from labctl.firmware_image import read_manifest, write_binary
from labctl.flash import plan

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


def test_same_source_gives_the_same_bytes_wherever_it_and_its_build_lie(first: tuple[Path, Path], apart: Any):
    """The other was built with a relative path to its folder."""
    assert apart.elf.read_bytes() == first[1].read_bytes()


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


def test_a_build_folder_spelt_relative_is_the_same_folder(first: tuple[Path, Path]):
    build, elf = first
    before = elf.stat().st_mtime_ns
    assert make(ROOT / "firmware", Path(os.path.relpath(build, ROOT / "firmware"))).returncode == 0
    assert elf.stat().st_mtime_ns == before


def test_a_linker_that_is_cut_off_leaves_no_image(apart: Any, tmp_path: Path):
    tools = tmp_path / "tools"
    tools.mkdir()
    # Dies in the middle of its output, as under kill -9, while the compiler itself works.
    fake = tools / "arm-none-eabi-gcc"
    real = shutil.which("arm-none-eabi-gcc")
    fake.write_text(
        "#!/bin/sh\n"
        'case "$*" in *-Map=*)\n'
        '  for one; do case $one in *.elf*) echo half > "$one";; esac; done; kill -9 $PPID;;\n'
        "esac\n"
        f'exec {real} "$@"\n'
    )
    fake.chmod(0o755)
    apart.elf.unlink()
    apart.make(f"CROSS={tools}/arm-none-eabi-")
    assert not apart.elf.exists()


@pytest.mark.parametrize("n_bytes", [0, 3, 60, 20_000])
def test_an_image_that_was_cut_is_built_again(apart: Any, monkeypatch: pytest.MonkeyPatch, n_bytes: int):
    monkeypatch.setattr(labctl.firmware, "BUILD", apart.build)
    monkeypatch.setattr(labctl.firmware, "SOURCES", apart.firmware)
    image = Image(BOARD, "all", "Os", 24_000_000)
    before = image.path.read_bytes()
    os.truncate(image.path, n_bytes)
    labctl.firmware.build(image)
    assert image.path.read_bytes() == before


def test_a_compiler_that_is_cut_off_leaves_no_object(apart: Any, tmp_path: Path):
    real = shutil.which("arm-none-eabi-gcc")
    fake = tmp_path / "arm-none-eabi-gcc"
    fake.write_text(
        "#!/bin/sh\n"
        'case "$*" in *bench/crc.c*)\n'
        '  for last; do :; done; echo half > "$last"; kill -9 $PPID; exit 1;;\n'
        "esac\n"
        f'exec {real} "$@"\n'
    )
    fake.chmod(0o755)
    (whole,) = apart.build.rglob("crc.o")
    whole.unlink()
    apart.make(f"CROSS={tmp_path}/arm-none-eabi-")
    assert whole.with_suffix(".o.new").read_text() == "half\n"
    assert not whole.exists()


def test_changed_flag_never_reuses_old_objects(apart: Any):
    original = apart.elf.read_bytes()
    done = apart.make("EXTRA=-DTRIAL=1")
    n_compiled = len(re.findall(r" -c ", done.stdout))
    n_objects = len(list((apart.build / "firmware").rglob("*.o")))
    assert n_compiled == n_objects
    assert "-DTRIAL=1" in read_manifest(apart.elf)["flags"]
    assert apart.make().returncode == 0
    assert apart.elf.read_bytes() == original


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
    assert manifest["image"] == "all"
    assert (manifest["tables"], manifest["workspace"], manifest["library"]) == ("flash", "heap", "full")
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


def test_source_identity_follows_the_contents(apart: Any):
    before = read_manifest(apart.elf)["source"]
    with (apart.firmware / "bench" / "crc.c").open("a") as stream:
        stream.write("/* another version */\n")
    assert apart.make().returncode == 0
    assert read_manifest(apart.elf)["source"] != before


def test_too_small_a_board_fails_with_the_bytes_missing(first: tuple[Path, Path], apart: Any):
    data = apart.firmware / "boards" / BOARD / "board.mk"
    data.write_text(data.read_text().replace("RAM_BYTES := 8192", "RAM_BYTES := 4096"))
    done = apart.make()
    assert done.returncode != 0
    missing = re.search(rf"^IMAGE all does not fit {BOARD}: (\d+) bytes missing in ram$", done.stderr, re.MULTILINE)
    assert missing is not None
    assert f"region `RAM' overflowed by {missing[1]} bytes" in done.stderr
    sizes = read_manifest(first[1])
    least_heap = int(re.search(r"HEAP_BYTES_MIN := (\d+)", data.read_text())[1])  # type: ignore[index]
    assert int(missing[1]) == sizes["stack_bytes"] + sizes["data_bytes"] + sizes["bss_bytes"] + least_heap - 4096


def test_too_small_a_flash_fails_with_the_bytes_missing(first: tuple[Path, Path], apart: Any):
    data = apart.firmware / "boards" / BOARD / "board.mk"
    data.write_text(data.read_text().replace("FLASH_BYTES := 131072", "FLASH_BYTES := 40000"))
    done = apart.make()
    missing = re.search(rf"^IMAGE all does not fit {BOARD}: (\d+) bytes missing in flash$", done.stderr, re.MULTILINE)
    assert missing is not None
    # What is at the very end is rounded up to whole words.
    assert int(missing[1]) == pytest.approx(read_manifest(first[1])["flash_bytes"] - 40000, abs=8)


def test_own_code_tolerates_no_warning(apart: Any):
    with (apart.firmware / "bench" / "crc.c").open("a") as stream:
        stream.write("static int unused;\n")
    done = apart.make()
    assert done.returncode != 0
    assert "unused" in done.stderr


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("BOARD=toaster", "no board is called 'toaster'; known boards: launchxl-cc26x2r1 stm32f0discovery"),
        ("PROFILE=O9", "no profile is called 'O9'; known profiles: Os O2 O3 O0"),
        ("CLOCK=7", "CLOCK of stm32vldiscovery cannot be '7'; choices: 24000000"),
        ("TABLES=rom", "TABLES cannot be 'rom'; choices: flash ram"),
        ("WORKSPACE=", "WORKSPACE needs one value, not ''; choices: heap static"),
        ("IMAGE=some", "no image is called 'some'; known images: all symmetric ecc"),
        ("IMAGE=op-md5", "no operation is called 'md5'; known operations: "),
        ("CROSS=no-such-", "no-such-gcc is missing; remedy: apt-get install"),
    ],
)
def test_wrong_setting_is_named(tmp_path: Path, setting: str, reason: str):
    done = make(ROOT / "firmware", tmp_path / "build", setting)
    assert done.returncode != 0
    assert reason in done.stderr


def test_a_project_path_with_a_space_is_refused_before_anything_is_done(tmp_path: Path):
    place = tmp_path / "my project"
    place.mkdir()
    shutil.copy(ROOT / "Makefile", place)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "setup"], cwd=place, capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    assert done.returncode == 2 and not done.stdout
    assert f"the project lies in '{place}'" in done.stderr and "move it to a path without one" in done.stderr
    assert [path.name for path in place.iterdir()] == ["Makefile"]


@pytest.fixture(scope="module")
def images(build: Callable[..., Path]) -> Callable[..., Path]:
    """Images of the project's own build folder, which share their objects."""

    def one(*settings: str) -> Path:
        return build(**{key.lower(): value for key, value in (setting.split("=") for setting in settings)})

    return one


def functions(elf: Path) -> set[str]:
    with elf.open("rb") as stream:
        return {s.name for s in ELFFile(stream).get_section_by_name(".symtab").iter_symbols() if s["st_size"]}


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        (("IMAGE=null",), "Os-null"),
        (("IMAGE=symmetric",), "Os-symmetric"),
        (("IMAGE=op-sm4-ecb.encrypt",), "Os-op-sm4-ecb.encrypt"),
        (("IMAGE=null", "CLOCK=8000000"), "Os-8000000hz-null"),
        (("IMAGE=op-sm4-ecb", "TABLES=ram", "WORKSPACE=static"), "Os-ramtables-static-op-sm4-ecb"),
        (("IMAGE=null", "PROFILE=O0"), "O0-null"),
    ],
)
def test_folder_names_what_is_not_default(images: Callable[..., Path], settings: tuple[str, ...], folder: str):
    manifest = read_manifest(images(*settings).parents[1] / folder / "firmware.elf")
    for setting in settings:
        key, value = setting.split("=")
        assert str(manifest[{"CLOCK": "clock_hz"}.get(key, key.lower())]) == value


@pytest.mark.parametrize(
    ("image", "inside", "outside"),
    [
        ("null", {"hal_busy_loop"}, {"mbedtls_aes_setkey_enc", "sha256", "digest_step", "cipher_step_both"}),
        ("op-aes-128-ecb", {"mbedtls_internal_aes_encrypt", "ecb_128"}, {"mbedtls_gcm_setkey", "crypt_cbc", "ecb_192"}),
        ("op-aes-256-gcm.encrypt", {"mbedtls_gcm_starts"}, {"mbedtls_ccm_setkey", "mbedtls_aes_crypt_cbc"}),
        ("op-aes-128-ccm", {"mbedtls_ccm_setkey"}, {"mbedtls_gcm_setkey", "mbedtls_aes_crypt_cbc"}),
        ("op-sha256", {"mbedtls_internal_sha256_process"}, {"mbedtls_internal_sha512_process", "FT0"}),
        ("op-drbg", {"mbedtls_hmac_drbg_random"}, {"mbedtls_internal_sha512_process", "mbedtls_ecp_mul"}),
        ("op-ecdsa-p256.verify", {"mbedtls_ecdsa_verify"}, {"mbedtls_internal_sha512_process", "FT0"}),
    ],
)  # fmt: skip
def test_image_holds_what_its_operation_needs_and_no_more(
    images: Callable[..., Path], image: str, inside: set[str], outside: set[str]
):
    present = functions(images(f"IMAGE={image}"))
    assert inside <= present
    assert not outside & present


def test_images_share_their_objects(apart: Any):
    """After one image of these settings another compiles its table of operations alone."""
    done = apart.make("IMAGE=op-sha384")
    compiled = re.findall(r" -c (\S+)", done.stdout)
    assert [Path(source).name for source in compiled] == ["operations.c", "manifest.S"]


def test_library_of_an_image_changes_with_its_settings(images: Callable[..., Path], build_apart: Callable[..., Path]):
    """A setting that decides the code is in the folder's name: nothing of the one is used for the other."""
    heap, static = images("IMAGE=op-sm3"), images("IMAGE=op-sm3", "WORKSPACE=static")
    arena = read_manifest(static)["bss_bytes"] - read_manifest(heap)["bss_bytes"]
    larger = build_apart({}, "op-sm3", "Os-static-op-sm3", WORKSPACE="static", WORKSPACE_BYTES=3600)
    grown = read_manifest(larger)["bss_bytes"] - read_manifest(heap)["bss_bytes"]
    assert grown == pytest.approx(arena + 3600 - 2816, abs=8)


def test_tables_in_ram_need_more_than_a_small_board_has(images: Callable[..., Path], make_here: Callable[..., Any]):
    """mbedTLS computes ten tables of 256 words or bytes (aes.c): 8 of 1024 bytes, 2 of 256, and ten round constants."""
    done = make_here("IMAGE=op-aes-128-ctr", "TABLES=ram")
    missing = re.search(
        rf"^IMAGE op-aes-128-ctr does not fit {BOARD}: (\d+) bytes missing in ram$", done.stderr, re.MULTILINE
    )
    assert missing is not None
    in_flash, in_ram = (
        read_manifest(images("IMAGE=op-aes-128-ctr", "BOARD=stm32f4discovery", f"TABLES={where}"))
        for where in ("flash", "ram")
    )
    assert in_ram["bss_bytes"] - in_flash["bss_bytes"] == pytest.approx(8 * 1024 + 2 * 256 + 10 * 4, abs=16)
    # What computes them takes some hundred bytes of flash.
    assert 0 < 8 * 1024 + 2 * 256 - (in_flash["flash_bytes"] - in_ram["flash_bytes"]) < 1024


@pytest.mark.parametrize("profile", ["O2", "O3", "O0"])
def test_whole_image_fits_in_every_profile(images: Callable[..., Path], profile: str):
    assert read_manifest(images(f"PROFILE={profile}"))["profile"] == profile


def test_images_are_reproducible(images: Callable[..., Path], tmp_path: Path):
    settings = ("IMAGE=op-aes-256-gcm", "WORKSPACE=static", "PROFILE=O2")
    copy = tmp_path / "elsewhere"
    shutil.copytree(ROOT / "firmware", copy)
    build = seeded(tmp_path / "build")
    done = make(copy, build, *settings)
    assert done.returncode == 0, done.stderr
    second = build / "firmware" / BOARD / "O2-static-op-aes-256-gcm" / "firmware.elf"
    assert second.read_bytes() == images(*settings).read_bytes()


@pytest.mark.sweep
@pytest.mark.parametrize("board", boards.names())
def test_every_operation_has_an_image_on_every_board(images: Callable[..., Path], board: str):
    listed = make(ROOT / "firmware", images("IMAGE=null").parents[3], f"BOARD={board}", "IMAGE=op-none")
    known = listed.stderr.split("known operations:")[1].split(".  Stop.")[0].split()
    assert len(known) > 70
    for operation in known:
        assert read_manifest(images(f"BOARD={board}", f"IMAGE=op-{operation}"))["image"] == f"op-{operation}"


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


def test_the_command_shown_for_a_binary_makes_what_is_flashed(build: Callable[..., Path], tmp_path: Path, monkeypatch):
    """binutils' objcopy is the reference."""
    monkeypatch.setattr("labctl.firmware.BUILD", tmp_path)
    elf = build(image="null")
    flashing = plan(Image(BOARD, "null", "Os", 24_000_000), "st-flash")
    assert flashing.binary is not None
    flashing.image.path.parent.mkdir(parents=True)
    shutil.copy(elf, flashing.image.path)
    subprocess.run(shlex.split(flashing.binary_text), check=True)
    copied = flashing.binary.read_bytes()
    write_binary(elf, flashing.binary)
    assert copied == flashing.binary.read_bytes()
    assert len(copied) == read_manifest(elf)["flash_bytes"]
