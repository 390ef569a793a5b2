"""labctl firmware: which images are meant, what is built, and the commands that flash."""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path

import pytest

from labctl import boards, cli, firmware
from labctl.cli.options import fitting_boards
from labctl.errors import FileFault
from labctl.firmware import PROFILES, Image
from labctl.firmware_image import write_binary
from labctl.images import Wanted, choose

BOARD = "stm32vldiscovery"
F0 = "stm32f0discovery"


def run(capsys, *arguments):
    status = cli.run(["firmware", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def empty(monkeypatch, tmp_path):
    """Give a build folder with nothing in it, and no program but what a test puts there."""
    monkeypatch.setattr(firmware, "BUILD", tmp_path / "build")
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return programs


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def segment_file(parts: list[tuple[int, int, bytes]]) -> bytes:
    """Make an ELF32 file for ARM of (virtual, load address, content): the header and program header of the TIS."""
    header_bytes, entry_bytes = 52, 32
    start = header_bytes + entry_bytes * len(parts)
    head = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack(
        "<HHIIIIIHHHHHH", 2, 40, 1, 0, header_bytes, 0, 0, header_bytes, entry_bytes, len(parts), 40, 0, 0)
    table, body = b"", b""
    for virtual, load, content in parts:
        size = len(content)
        table += struct.pack("<IIIIIIII", 1, start + len(body), virtual, load, size, size + 4, 7, 4)
        body += content
    return head + table + body


def test_a_binary_is_what_lies_in_flash_by_load_address(tmp_path):
    elf = tmp_path / "firmware.elf"
    elf.write_bytes(segment_file([
        (0x2000_0000, 0x0800_000A, b"data"), (0x0800_0000, 0x0800_0000, b"code78"), (0x2000_0100, 0x2000_0100, b""),
    ]))
    write_binary(elf, tmp_path / "firmware.bin")
    assert (tmp_path / "firmware.bin").read_bytes() == b"code78\xff\xff\xff\xffdata"
    elf.write_bytes(b"no such thing")
    with pytest.raises(FileFault, match="no ELF file"):
        write_binary(elf, tmp_path / "firmware.bin")
    with pytest.raises(FileFault, match="labctl firmware build"):
        write_binary(tmp_path / "absent.elf", tmp_path / "firmware.bin")


def test_the_image_of_each_board_begins_at_the_address_its_command_names():
    for name in boards.names():
        data = boards.load(name)
        command = data["flash"]["commands"].get("st-flash")
        if command:
            assert int(command[-1], 16) == data["memory"]["flash"]["address"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(), [(BOARD, "all", "Os", 24_000_000)]),
        (Wanted((F0,)), [(F0, name, "Os", 48_000_000) for name in ("aes", "others", "ecc")]),
        (Wanted((BOARD,), ("null", "op-sha256"), ("O2",)), [(BOARD, name, "O2", 24_000_000)
                                                           for name in ("null", "op-sha256")]),
        # What one of several boards has not is left to the others.
        (Wanted((BOARD, F0), ("ecc",), (), (24e6,)), [(BOARD, "ecc", "Os", 24_000_000), (F0, "ecc", "Os", 24_000_000)]),
        (Wanted((BOARD, F0), ("ecc",), (), (48e6,)), [(F0, "ecc", "Os", 48_000_000)]),
    ],
)
def test_which_images_are_meant(wanted, expected):
    assert choose(wanted) == [Image(*one) for one in expected]


def test_all_is_every_profile_clock_and_usual_image():
    found = choose(Wanted(everything=True))
    n = sum(len(data["images"]) * len(data["clocks_hz"]) for data in map(boards.load, boards.names()))
    assert len(found) == len(set(found)) == n * len(PROFILES)
    assert {image.board for image in choose(Wanted((F0,), everything=True))} == {F0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build", "--board", "stm32vldiscover"], "did you mean 'stm32vldiscovery'"),
        (["flash", "--board", "stm32f4discovry"], "did you mean 'stm32f4discovery'"),
        (["list", "--board", "launchxl"], "known boards: launchxl-cc26x2r1"),
        (["build", "--image", "op-sha265"], "did you mean 'op-sha256'"),
        (["build", "--clock", "7MHz"], "runs at 24 MHz, 8 MHz, not at 7 MHz"),
        (["build", "--variant", "key=inside"], "chosen when measuring"),
        (["build", "--profile", "O9"], "'Os'"),
        (["flash"], "--board"),
        (["flash", "--board", BOARD, "--tool", "uniflash"], "flashed by openocd, st-flash, not by 'uniflash'"),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(capsys, empty, arguments, words):
    status, out, err = run(capsys, *arguments)
    assert status == 2 and not out
    assert words in " ".join(err.split())


def test_building_without_a_compiler_tells_the_packages(capsys, empty):
    status, _, err = run(capsys, "build")
    assert status == 3
    assert "apt-get install --no-install-recommends make gcc-arm-none-eabi libnewlib-arm-none-eabi" in err
    program(empty, "make", "exit 0")
    status, _, err = run(capsys, "build")
    assert status == 3
    assert err.rstrip().endswith("apt-get install --no-install-recommends gcc-arm-none-eabi libnewlib-arm-none-eabi")


def test_an_image_that_does_not_fit_does_not_cost_the_others(capsys, empty, tmp_path):
    program(empty, firmware.COMPILER, "exit 0")
    complaint = "IMAGE ecc does not fit b: 12 bytes missing in ram"
    program(empty, "make", f'case "$*" in *IMAGE=ecc*) echo "{complaint}"; exit 2;; esac; exit 0')
    status, out, err = run(capsys, "build", "--board", F0, "--tables", "ram", "--json")
    assert status == 4
    document = json.loads(out)
    assert [(row["image"], row["variant"]) for row in document["images"]] == [
        ("aes", {"tables": "ram"}), ("others", {"tables": "ram"})]
    (missing,) = document["missing"]
    assert missing["image"] == "ecc" and "12 bytes missing in ram" in missing["reason"] and missing["reason"] in err
    status, out, err = run(capsys, "build", "--board", F0, "--image", "ecc")
    assert status == 2 and "12 bytes missing in ram" in err and not out


def test_a_board_without_the_clock_is_named_and_does_not_cost_the_others(capsys, empty):
    for name in (firmware.COMPILER, "make"):
        program(empty, name, "exit 0")
    boards_ = ["--board", BOARD, "--board", F0, "--image", "ecc"]
    status, out, err = run(capsys, "build", *boards_, "--clock", "48MHz", "--json")
    assert status == 4 and [row["board"] for row in json.loads(out)["images"]] == [F0]
    assert "labctl: not built: stm32vldiscovery runs at 24 MHz, 8 MHz, not at 48 MHz" in err
    status, _, err = run(capsys, "build", *boards_, "--clock", "24MHz")
    assert status == 0 and "not built:" not in err


def test_the_list_tells_what_is_built_and_what_is_broken(capsys, empty):
    broken = Image(F0, "ecc", "O2", 8_000_000)
    broken.path.parent.mkdir(parents=True)
    broken.path.write_bytes(b"half a file")
    status, out, _ = run(capsys, "list", "--board", F0, "--json")
    document = json.loads(out)
    assert status == 0 and document["schema"] == "labctl.firmware/1" and document["profiles"] == list(PROFILES)
    assert [board["board"] for board in document["boards"]] == [F0]
    by_image = {(row["image"], row["profile"]): row for row in document["images"]}
    assert not by_image["aes", "Os"]["built"] and by_image["aes", "Os"]["flash_bytes"] is None
    assert by_image["ecc", "O2"]["built"] and "no ELF file" in by_image["ecc", "O2"]["remark"]
    status, out, _ = run(capsys, "list")
    assert status == 0 and "unreadable" in out and "not built" in out
    assert all(len(line) <= 80 for line in out.splitlines() if str(firmware.BUILD) not in line)
    assert all(name in out for name in boards.names())


def test_a_dry_run_shows_the_command_and_runs_nothing(capsys, empty):
    for tool in ("openocd", "st-flash", "make", firmware.COMPILER):
        program(empty, tool, f'echo ran >> "{empty}/ran"')
    elf = f"{firmware.BUILD}/firmware/{BOARD}/O3-8000000hz-ramtables/firmware.elf"
    options = ["--board", BOARD, "--profile", "O3", "--clock", "8MHz", "--variant", "tables=ram", "--dry-run"]
    status, out, err = run(capsys, "flash", *options)
    assert status == 0
    assert out == f"openocd -f board/stm32vldiscovery.cfg -c 'program {elf} verify reset exit'\n"
    assert "not built yet" in err
    status, out, _ = run(capsys, "flash", *options, "--tool", "st-flash")
    binary = f"{elf.removesuffix('elf')}bin"
    assert out.splitlines() == [
        f"arm-none-eabi-objcopy -O binary --gap-fill 0xff {elf} {binary}", f"st-flash --reset write {binary} 0x08000000"
    ]
    assert not (empty / "ran").exists() and not Path(firmware.BUILD).exists()


def test_of_several_images_the_one_that_is_flashed_is_named(capsys, empty):
    status, out, err = run(capsys, "flash", "--board", F0, "--dry-run")
    assert status == 0 and "/Os-aes/firmware.elf" in out
    assert "labctl: image aes of aes, others, ecc (--image names another)" in err
    for options in (["--board", F0, "--image", "ecc"], ["--board", BOARD]):
        assert "names another" not in run(capsys, "flash", *options, "--dry-run")[2]


def test_operations_are_listed_with_what_they_take_and_where_they_are(capsys):
    status, out, _ = run(capsys, "operations", "--board", "stm32[fv][0l]*", "--json")
    assert status == 0
    rows = {row["operation"]: row for row in json.loads(out)["operations"]}
    assert rows["sha256"]["images"] == {F0: ["others"], BOARD: ["all", "others"]}
    assert rows["ecdsa-p256.sign"]["images"] == {F0: ["ecc"], BOARD: ["all", "ecc"]}
    assert rows["idle.stop"]["images"][F0] == ["aes"]
    assert rows["aes-128-cbc"]["bytes"] == {"min": 16, "max": 16384, "step": 16}
    assert rows["ecdsa-p256.sign"]["bytes"] is None
    assert all(row["meaning"] for row in rows.values())
    status, out, _ = run(capsys, "operations")
    assert status == 0
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines[2 : 2 + len(rows)]]
    assert sorted(names) == sorted(rows)  # a line each


def test_a_pattern_chooses_boards(capsys, empty):
    status, out, _ = run(capsys, "list", "--board", "stm32f*", "--json")
    assert status == 0
    assert [row["board"] for row in json.loads(out)["boards"]] == [F0, "stm32f4discovery", "stm32f7discovery"]
    status, _, err = run(capsys, "list", "--board", "lpc*")
    assert status == 2 and "no board fits 'lpc*'" in err
    assert fitting_boards(("stm32f*", BOARD), (F0, BOARD)) == (F0, BOARD)


def test_a_dry_run_needs_no_tool_and_a_flash_does(capsys, empty):
    status, out, err = run(capsys, "flash", "--board", "launchxl-cc26x2r1", "--tool", "uniflash", "--dry-run")
    assert status == 0 and out.startswith("dslite.sh --config=launchxl-cc26x2r1.ccxml --flash --verify ")
    assert "https://www.ti.com/tool/UNIFLASH" in err
    for tool, remedy in (("openocd", "openocd"), ("st-flash", "stlink-tools")):
        status, out, err = run(capsys, "flash", "--board", BOARD, "--tool", tool)
        assert status == 3 and not out
        assert f"apt-get install --no-install-recommends {remedy}" in err


def test_uniflash_without_its_target_configuration_is_refused(capsys, empty, monkeypatch, tmp_path):
    program(empty, "dslite.sh", "exit 0")
    monkeypatch.chdir(tmp_path)
    status, _, err = run(capsys, "flash", "--board", "launchxl-cc26x2r1", "--tool", "uniflash")
    assert status == 3 and "launchxl-cc26x2r1.ccxml is missing" in err


def test_flashing_hands_the_tool_the_image_and_its_failure_on(capsys, empty, tmp_path):
    image = Image(BOARD, "all", "Os", 24_000_000)
    image.path.parent.mkdir(parents=True)
    image.path.write_bytes(segment_file([(0x0800_0000, 0x0800_0000, b"all of it")]))
    program(empty, "st-flash", f'printf "%s\\n" "$@" > "{tmp_path}/heard"')
    status, out, _ = run(capsys, "flash", "--board", BOARD, "--tool", "st-flash")
    binary = image.path.with_suffix(".bin")
    assert status == 0 and out.startswith(f"st-flash --reset write {binary} 0x08000000\n")
    assert (tmp_path / "heard").read_text().split() == ["--reset", "write", str(binary), "0x08000000"]
    assert binary.read_bytes() == b"all of it"
    program(empty, "openocd", "exit 7")
    status, _, err = run(capsys, "flash", "--board", BOARD)
    assert status == 1 and "status 7" in err and "connected and powered" in err


def test_a_folder_with_spaces_stays_one_name_for_the_tools(monkeypatch, tmp_path):
    monkeypatch.setattr(firmware, "BUILD", tmp_path / "my build")
    image = Image(BOARD, "all", "Os", 24_000_000)
    assert firmware.flash_command(image)[-1] == f"program {{{image.path}}} verify reset exit"
    assert firmware.flash_command(image, "st-flash")[3] == str(image.path.with_suffix(".bin"))


def test_the_same_image_built_elsewhere_has_the_same_bytes(capsys, monkeypatch, tmp_path):
    if shutil.which(firmware.COMPILER) is None:
        pytest.skip("arm-none-eabi-gcc is not installed: make test installs it")
    if not (firmware.BUILD / "mbedtls" / ".sha256").exists():
        pytest.skip("the crypto library is not fetched yet: make firmware does it")
    contents = []
    sources = firmware.BUILD / "mbedtls"
    for folder in ("one", "another"):
        monkeypatch.setattr(firmware, "BUILD", tmp_path / folder)
        (tmp_path / folder).mkdir()
        shutil.copytree(sources, tmp_path / folder / "mbedtls")
        status, out, _ = run(capsys, "build", "--image", "null", "--json")
        (row,) = json.loads(out)["images"]
        assert status == 0 and row["built"] and row["image"] == "null" and len(row["build"]) == 16
        assert os.path.getsize(row["path"]) > row["flash_bytes"]
        contents.append((row["build"], Path(row["path"])))
    write_binary(contents[0][1], tmp_path / "a.bin")
    write_binary(contents[1][1], tmp_path / "b.bin")
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes()
    assert contents[0][0] == contents[1][0]
