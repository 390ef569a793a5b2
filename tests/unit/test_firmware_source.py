"""Images that are older than the firmware's sources: the same identity as make's own commands give, and who is told."""

from __future__ import annotations

import hashlib
import os
import shutil

import pytest

from labctl import boards, cli, firmware, firmware_source
from labctl.firmware import default_image
from labctl.firmware_source import out_of_date, source_id, stale_sentence

BOARD = "stm32vldiscovery"
# The folders of one board's family, as firmware/hal/stm32f1/family.mk names them.
PLACES = ["bench/", "crypto/", "hal/cortexm/", "hal/stm32/", "hal/stm32f1/", f"boards/{BOARD}/"]
FILES = ["Makefile", "operations.mk", "hal/hal.h"]


@pytest.fixture
def sources(monkeypatch, tmp_path):
    """Give a copy of the firmware's sources, which nothing can be built from: there are no programs."""
    monkeypatch.setattr(firmware, "SOURCES", shutil.copytree(firmware.SOURCES, tmp_path / "firmware"))
    monkeypatch.setenv("PATH", str(tmp_path))
    firmware_source._now.cache_clear()
    return firmware.SOURCES


def identity(folder, places):
    """Hash what sha256sum prints, as its manual says: digest, two spaces, name; the files in the order of bytes."""
    names = sorted(name.relative_to(folder).as_posix().encode() for name in folder.rglob("*") if name.is_file())
    wanted = [name for name in names if name.decode() in FILES or name.decode().startswith(tuple(places))]
    text = b"".join(hashlib.sha256((folder / os.fsdecode(n)).read_bytes()).hexdigest().encode() + b"  " + n + b"\n"
                    for n in wanted)
    return hashlib.sha256(text).hexdigest()[:16]


def test_the_identity_is_that_of_the_makefile(sources):
    assert source_id(sources, BOARD) == identity(sources, PLACES)
    before = source_id(sources, BOARD)
    for ignored in ("bench/.hidden.c", "bench/main.c~", "boards/stm32f4discovery/board.h", "hal/stm32f4/new.c"):
        (sources / ignored).write_text("other")
    assert source_id(sources, BOARD) == before
    (sources / "bench" / "Main.c").write_text("")  # before every small letter, as in the C locale
    assert source_id(sources, BOARD) != before
    assert source_id(sources / "none", BOARD) == ""
    assert len({source_id(sources, board) for board in boards.names()}) == len(boards.names())


@pytest.fixture
def image(sources, monkeypatch, tmp_path):
    """Give an image that says it was built from these very sources."""
    built = default_image(BOARD)
    data = built.path
    now = source_id(sources, BOARD)
    monkeypatch.setattr(firmware_source, "read_manifest", lambda path: {"source": now})
    assert data.is_file()
    return built


def test_an_image_of_other_sources_is_out_of_date(image, sources):
    assert not out_of_date(image) and stale_sentence(image) == ""
    with (sources / "bench" / "main.c").open("a") as file:
        file.write("/* a change */\n")
    firmware_source._now.cache_clear()
    assert out_of_date(image)
    assert str(image.path) in stale_sentence(image) and "make firmware" in stale_sentence(image)


def test_measure_and_list_say_that_firmware_is_out_of_date(capsys, image, sources, tmp_path):
    (sources / "bench" / "new.h").write_text("")
    firmware_source._now.cache_clear()
    assert cli.run(["firmware", "list", "--board", BOARD]) == 0
    out = capsys.readouterr().out
    assert "out of date" in out and "other sources than those there are now" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines())
    assert cli.run(["measure", "--op", "sha256", "--runs", "2", "--shunt", "1.3", "--out", str(tmp_path / "out"),
                    "--json"]) == 0
    assert f"{image.path} is out of date" in capsys.readouterr().err
