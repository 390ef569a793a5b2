"""``labctl memory`` from the command line: images built, read, and run on the emulated board."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from labctl.firmware import BUILD, COMPILER

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed: make test installs it"),
]
OPERATIONS = ("sha256", "ecdsa-p256.verify")
FOLDER = BUILD / "firmware" / "stm32vldiscovery"


def sizes(image: str) -> tuple[int, int, int]:
    """What the compiler's own tool says: text, data, bss (with the room for stack and heap)."""
    done = subprocess.run(["arm-none-eabi-size", str(FOLDER / f"Os-{image}" / "firmware.elf")], check=True,
                          capture_output=True, text=True)
    text, data, bss = map(int, done.stdout.splitlines()[1].split()[:3])
    return text, data, bss


@pytest.fixture(scope="module")
def document(elf, labctl, tmp_path_factory):
    arguments = [word for name in OPERATIONS for word in ("--op", name)]
    folder = tmp_path_factory.mktemp("memory")
    return json.loads(labctl("memory", *arguments, "--json", cwd=folder, timeout_s=500).stdout)


def test_both_operations_are_there(document):
    assert document["schema"] == "labctl.memory/1"
    assert document["emulated"] is True
    assert [row["operation"] for row in document["results"]] == list(OPERATIONS)


def test_sizes_are_those_of_the_compilers_tool(document):
    null_text, null_data, null_bss = sizes("null")
    for row in document["results"]:
        text, data, bss = sizes(f"op-{row['operation']}")
        assert row["image_flash_bytes"] == text + data
        reserved = row["stack_reserved_bytes"] + row["heap_reserved_bytes"]
        assert row["image_ram_bytes"] + reserved == data + bss
        assert row["flash_bytes"] == text + data - null_text - null_data
        assert row["null_ram_bytes"] + reserved >= null_data + null_bss


def test_the_mark_is_within_the_bound_and_the_room(document):
    for row in document["results"]:
        assert row["stack_null_bytes"] < row["stack_bytes"] <= row["stack_reserved_bytes"]
        if row["stack_unresolved_calls"] == 0:
            assert row["stack_bytes"] <= row["stack_bound_bytes"]
    assert document["results"][0]["stack_unresolved_calls"] == 0


def test_calls_through_pointers_are_counted(document):
    verify = document["results"][1]
    assert verify["stack_unresolved_calls"] == len(verify["stack_unresolved"]) > 0
    assert {one["what"] for one in verify["stack_unresolved"]} == {"pointer"}


def test_the_heap_of_a_digest_is_its_context_and_its_message(document):
    digest = document["results"][0]
    assert digest["heap_bytes"] == digest["state_bytes"] + digest["buffer_bytes"]
    assert digest["buffer_bytes"] == 64
    # FIPS 180-4: eight words of state, a length of 64 bits, a block of 64 bytes.
    assert digest["state_bytes"] >= 8 * 4 + 8 + 64


def test_the_image_with_all_takes_more_than_any_operation_alone(document):
    image = next(one for one in document["images"] if one["image"] == "all")
    assert image["n_operations"] > len(OPERATIONS)
    assert image["flash_bytes"] > max(row["image_flash_bytes"] for row in document["results"])
    assert image["flash_ratio"] == image["flash_bytes"] / 131_072


def test_a_page_of_80_columns(elf, labctl, tmp_path):
    text = labctl("memory", "--op", "sha256", "--op", "null", cwd=tmp_path, timeout_s=500).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "emulated" in text


def test_what_a_board_has_not_is_named_beside_the_rest(elf, labctl, tmp_path):
    done = labctl("memory", "--op", "sha256", "--op", "sha257", "--json", cwd=tmp_path, timeout_s=500, status=4)
    document = json.loads(done.stdout)
    assert [row["operation"] for row in document["results"]] == ["sha256"]
    assert [row["operation"] for row in document["missing"]] == ["sha257"]
    assert "sha257" in done.stderr


def test_any_image_as_a_file_with_its_map(elf, labctl, tmp_path, document):
    folder = FOLDER / "Os-op-sha256"
    done = labctl("memory", str(folder / "firmware.elf"), "--map", str(folder / "firmware.map"), "--json", cwd=tmp_path)
    file = json.loads(done.stdout)["file"]
    assert file["flash_bytes"] == document["results"][0]["image_flash_bytes"]
    assert sum(one["flash_bytes"] for one in file["objects"]) == file["flash_bytes"]
    assert sum(one["ram_bytes"] for one in file["objects"]) == file["ram_bytes"]
    wrong = FOLDER / "Os-op-ecdsa-p256.verify" / "firmware.map"
    labctl("memory", str(folder / "firmware.elf"), "--map", str(wrong), cwd=tmp_path, status=2)
