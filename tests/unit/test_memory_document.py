"""What labctl memory --json printed, read back: everything that it never prints is refused."""

from __future__ import annotations

import json

import pytest

from labctl.campaign.results import load_rows
from labctl.errors import FileFault
from labctl.memory.document import read_rows
from labctl.publishedsurvey import read_found

ROW = {"board": "stm32f4discovery", "operation": "sha256", "bytes": 64, "implementation": "mbedtls", "profile": "Os",
       "clock_hz": 168_000_000, "variant": "", "flash_bytes": 5120, "ram_bytes": 8, "stack_bytes": 700,
       "heap_bytes": 0}


def written(path, text):
    path.write_text(text)
    return path


def document(**changes):
    return json.dumps({"schema": "labctl.memory/1", "emulated": True, "results": [ROW | changes]})


def test_rows_are_read_as_they_were_printed(tmp_path):
    assert read_rows(written(tmp_path / "m.json", document())) == ([ROW], True)
    without_message = written(tmp_path / "n.json", document(bytes=None))
    assert read_rows(without_message)[0][0]["bytes"] is None


@pytest.mark.parametrize("reader", [read_found, lambda path: load_rows([path])], ids=["published", "table"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nothing that labctl memory"),
        ("[]", "nothing that labctl memory"),
        ("\x00", "nothing that labctl memory"),
        ('{"schema": "another/1"}', "another/1"),
        ('{"schema": "labctl.memory/1", "results": {}}', "nothing that labctl memory"),
        ('{"schema": "labctl.memory/1", "results": [], "file": {}}', "holds no operations"),
        ('{"schema": "labctl.memory/1", "results": [3]}', "row 1: it is no object"),
        (document(flash_bytes=float("nan")), "flash_bytes nan is no whole number"),
        (document().replace("5120", "1e999"), "flash_bytes inf is no whole number"),
        (document(ram_bytes="8"), "ram_bytes 8 is no whole number"),
        (document(stack_bytes=-1), "stack_bytes -1 is no whole number"),
        (document(heap_bytes=True), "heap_bytes True is no whole number"),
        (document(stack_bytes=None), "stack_bytes None is no whole number"),
        (document(board="nucleo"), "board 'nucleo' is none of"),
        (document(board=["stm32f4discovery"]), "is none of"),
        (document(operation=None), "names no operation"),
        (document(variant=[]), "variant is no text"),
    ],
    ids=range(17),
)
def test_what_was_never_printed_is_refused(tmp_path, reader, text, words):
    with pytest.raises(FileFault, match=words):
        reader(written(tmp_path / "m.json", text))
