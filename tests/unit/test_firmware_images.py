"""Which image holds what, where it lies, and how it is built: the firmware's Makefile is the reference."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from labctl import boards, firmware
from labctl.errors import ConfigError, EnvironmentFault, Unsupported
from labctl.firmware import Image, build, default_image, ensure, flash_command, image_for, list_images, mismatch
from labctl.model import Operation
from labctl.operations import NAMES

ROOT = Path(__file__).resolve().parents[2]
BOARD = "stm32vldiscovery"
IMAGES = [
    Image(BOARD, "all", "Os", 24_000_000),
    Image(BOARD, "all", "O2", 8_000_000),
    Image("stm32f0discovery", "aes", "O0", 48_000_000, "ram", "static"),
    Image("launchxl-cc26x2r1", "ecc", "O2", 48_000_000, ecp="plain"),
    Image("stm32f4discovery", "op-aes-128-cbc.encrypt", "O3", 84_000_000, "flash", "static"),
]


def cross_compiler() -> None:
    if subprocess.run(["which", firmware.COMPILER], capture_output=True, check=False).returncode:
        pytest.skip("arm-none-eabi-gcc is not installed: make test installs it")


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.folder)
def test_folder_and_command_are_the_makefiles(image):
    """What make would link, said by make itself."""
    cross_compiler()
    said = subprocess.run([*image.make, "-pn"], capture_output=True, text=True, check=False).stdout
    variables = dict(line.split(" := ", 1) for line in said.splitlines() if line.startswith("OUT := "))
    place = variables["OUT"].replace("$(PLACE)", f"{firmware.BUILD}/firmware/{image.board}")
    settings = next(line for line in said.splitlines() if line.startswith("SETTINGS := ")).removeprefix("SETTINGS := ")
    assert place.replace("$(SETTINGS)", settings) == str(image.path.parent)


@pytest.mark.parametrize("name", boards.names())
def test_every_operation_lies_in_an_image_of_each_board(name):
    board = boards.load(name)
    images = {operation: image_for(board, Operation(operation)).name for operation in NAMES}
    assert set(images.values()) <= set(board["images"])
    with pytest.raises(Unsupported, match=name):
        image_for({**board, "images": {"aes": ["aes-*"]}}, Operation("md5"))


def test_what_does_not_fit_is_looked_for_in_smaller_images():
    board, operation = boards.load(BOARD), Operation("sha256", variant="workspace=static")
    unfit: list[Image] = []
    for name in ("all", "others", "op-sha256"):
        image = image_for(board, operation, unfit)
        assert (image.name, image.workspace) == (name, "static")
        unfit.append(image)
    with pytest.raises(Unsupported, match="no image of stm32vldiscovery holds an operation 'sha256'"):
        image_for(board, operation, unfit)
    # With other settings they may fit.
    assert image_for(board, Operation("sha256"), unfit).name == "all"


def test_an_image_has_the_operations_profile_clock_and_variant():
    operation = Operation("sha256", profile="O3", clock_hz=8_000_000, variant="piece=16,tables=ram,workspace=static")
    image = image_for(boards.load(BOARD), operation)
    assert image == Image(BOARD, "all", "O3", 8_000_000, "ram", "static")
    assert image.options == (
        "--board stm32vldiscovery --image all --profile O3 --clock 8MHz --variant tables=ram,workspace=static"
    )


def test_images_of_a_build_folder_are_found_again(monkeypatch, tmp_path):
    monkeypatch.setattr(firmware, "BUILD", tmp_path)
    for image in IMAGES:
        image.path.parent.mkdir(parents=True)
        image.path.touch()
    for folder in ("Os/obj", "what-else"):
        (tmp_path / "firmware" / BOARD / folder).mkdir(parents=True)
    (tmp_path / "firmware" / BOARD / "what-else" / "firmware.elf").touch()
    found = list_images()
    assert {image for image in found if image.built} == set(IMAGES)
    assert {default_image(name) for name in boards.names()} <= set(found)
    assert {image.board for image in list_images(BOARD)} == {BOARD}


def test_a_missing_image_without_a_compiler_tells_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(firmware, "BUILD", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=r"no arm-none-eabi-gcc.*make firmware.*BOARD=stm32vldiscovery PR.*=O2"):
        ensure(Image(BOARD, "all", "O2", 24_000_000))


def fake_make(monkeypatch, tmp_path, script: str) -> None:
    """Put programs of the same names before the real ones."""
    for name, text in (("make", script), (firmware.COMPILER, "")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod((tmp_path / name).stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(firmware, "BUILD", tmp_path / "build")


def test_a_missing_image_is_built_with_progress(monkeypatch, tmp_path):
    image = Image(BOARD, "all", "O2", 24_000_000)
    fake_make(monkeypatch, tmp_path, 'echo "  CC    bench/line.c"; echo "$MAKEFLAGS" >>"$0.flags"')
    monkeypatch.setenv("MAKEFLAGS", "-j1 BOARD=other")
    told = []
    assert ensure(image, lambda text, *_: told.append(text)) == image.path
    assert told[0] == f"building {BOARD} O2"
    assert told[-1].endswith("line.c")
    assert (tmp_path / "make.flags").read_text() == "\n"


def test_an_image_that_is_there_is_brought_up_to_date(monkeypatch, tmp_path):
    """Made again, silently where nothing was to do; taken as it is where it cannot be made."""
    image = Image(BOARD, "all", "O2", 24_000_000)
    real = default_image(BOARD).path.read_bytes()
    fake_make(monkeypatch, tmp_path, 'echo "$*" >>"$0.calls"')
    image.path.parent.mkdir(parents=True)
    image.path.write_bytes(real)
    told = []
    assert ensure(image, lambda text, *_: told.append(text)) == image.path
    assert not told
    assert "BOARD=stm32vldiscovery PROFILE=O2" in (tmp_path / "make.calls").read_text()
    monkeypatch.setattr(firmware, "SOURCES", tmp_path / "installed-without-sources")
    assert ensure(image) == image.path
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert ensure(image) == image.path
    assert (tmp_path / "make.calls").read_text().count("\n") == 1


def test_an_image_that_does_not_fit_is_a_lack_of_the_board(monkeypatch, tmp_path):
    words = f"IMAGE all does not fit {BOARD}: 412 bytes missing in ram"
    fake_make(monkeypatch, tmp_path, f'echo "{words}" >&2; exit 2')
    with pytest.raises(Unsupported, match="does not fit stm32vldiscovery: 412 bytes missing in ram"):
        ensure(Image(BOARD, "all", "O0", 24_000_000))


def test_an_image_that_stays_unreadable_is_a_fault_and_does_not_stay(monkeypatch, tmp_path):
    image = Image(BOARD, "all", "O0", 24_000_000)
    elf = tmp_path / "build" / "firmware" / BOARD / "O0" / "firmware.elf"
    fake_make(monkeypatch, tmp_path, f'echo run >>"$0.runs"; printf half >"{elf}"')
    elf.parent.mkdir(parents=True)
    with pytest.raises(EnvironmentFault, match=r"`make .*` left no image that can be used: .* is no ELF file"):
        build(image)
    assert not elf.exists()  # or make would take it for up to date
    assert (tmp_path / "make.runs").read_text().split() == ["run", "run"]


def test_a_build_that_fails_says_why(monkeypatch, tmp_path):
    fake_make(monkeypatch, tmp_path, "echo fetch_mbedtls.sh: no network >&2; exit 2")
    with pytest.raises(EnvironmentFault, match=r"`make .*` failed: fetch_mbedtls.sh: no network"):
        ensure(Image(BOARD, "all", "O0", 24_000_000))


def test_a_running_firmware_is_compared_with_what_is_asked():
    board = boards.load(BOARD)
    manifest = {"profile": "O2", "clock_hz": 24_000_000, "tables": "flash", "workspace": "heap"}
    assert mismatch(board, manifest, Operation("sha256", profile="O2")) == ""
    assert mismatch(board, manifest, Operation("sha256", clock_hz=8_000_000, variant="piece=3,tables=ram")) == (
        "profile O2 and not Os, clock_hz 24000000 and not 8000000, tables flash and not ram"
    )
    assert mismatch(board, {}, Operation("sha256")) == ""


def test_flashing_names_the_file():
    image = Image(BOARD, "all", "Os", 24_000_000)
    command = flash_command(image)
    assert command[0] == "openocd"
    assert f"program {image.path} verify reset exit" in command
    assert flash_command(image, "st-flash")[-2:] == [str(image.path.with_suffix(".bin")), "0x08000000"]
    with pytest.raises(ConfigError, match="is flashed by openocd, st-flash, not by 'jlink'"):
        flash_command(image, "jlink")
