"""Names, patterns and variants of operations; what the firmware's Makefile lists is the reference."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from labctl.errors import ConfigError
from labctl.operations import (
    DEFAULT,
    EVERYWHERE,
    NAMES,
    canonical,
    families,
    parts,
    select,
    spelled,
    step_bytes,
    takes_message,
    variants_of,
)

ROOT = Path(__file__).resolve().parents[2]


def test_names_are_those_of_the_firmware(tmp_path):
    """firmware/operations.mk, as make reads it."""
    (tmp_path / "names.mk").write_text(f"IMAGE := all\ninclude {ROOT}/firmware/operations.mk\nall:;@echo $(KNOWN)\n")
    said = subprocess.run(["make", "-sf", tmp_path / "names.mk"], capture_output=True, text=True, check=True).stdout
    assert set(NAMES) == {*EVERYWHERE, *said.split()}
    assert len(set(NAMES)) == len(NAMES)


def test_names_without_a_pattern_are_taken_as_they_are():
    assert select(()) == DEFAULT
    assert select(("sha256", "md5", "sha256")) == ("sha256", "md5", "sha256")


def test_patterns_choose_in_order_and_nothing_twice():
    assert select(("sha*",)) == ("sha224", "sha256", "sha384", "sha512")
    assert select(("sha256", "sha*")) == ("sha256", "sha224", "sha384", "sha512")
    assert select(("aes-128-[eg]c[bm]*",)) == tuple(
        f"aes-128-{mode}{way}" for mode in ("ecb", "gcm") for way in ("", ".encrypt", ".decrypt")
    )
    assert select(("idle*",), ("idle.stop",)) == ("idle", "idle.stop")
    with pytest.raises(ConfigError, match=r"no operation fits 'des-\*'.*aes\*"):
        select(("des-*",))


def test_families_of_many_and_names_of_few():
    assert families(("null", "sha256")) == "null, sha256"
    assert families(NAMES) == "null, busy, idle, aes*, sha*, sm*, drbg, ecdsa*, ecdh*"


def test_what_has_a_message():
    """PROTOCOL.md, Operations: the others take no bytes."""
    without = {name for name in NAMES if not takes_message(name)}
    assert without == {name for name in NAMES if re.match("null|busy|idle|ec", name)}


@pytest.mark.parametrize(
    ("typed", "variant"),
    [
        ("", ""),
        ("plain", ""),
        ("key=outside", ""),
        ("piece=0,offset=0,tables=flash,workspace=heap,ecp=tuned", ""),
        ("key=inside", "key=inside"),
        ("ecp=plain,workspace=static, tables=ram,offset=3,piece=016,key=inside",
         "key=inside,piece=16,offset=3,tables=ram,workspace=static,ecp=plain"),
    ],
)
def test_variants_have_one_spelling(typed, variant):
    assert canonical(typed) == variant
    assert canonical(canonical(typed)) == variant
    assert spelled(parts(variant)) == variant


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("keys=inside", "'keys=inside' is none of key=outside|inside"),
        ("inside", "'inside' is none of"),
        ("key=in", "key cannot be 'in'; it is key=outside"),
        ("piece=-1", "piece cannot be '-1'"),
        ("piece=16385", "piece=0…16384"),
        ("offset=16", "offset=0…15"),
        ("offset=٣", "offset cannot be"),
        ("key=inside,key=outside", "says key twice"),
    ],
)
def test_variants_that_are_none(typed, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        canonical(typed)


@pytest.mark.parametrize(
    ("name", "step", "variants"),
    [
        ("aes-128-ecb", 16, "key piece offset"),
        ("sm4-cbc.decrypt", 16, "key piece offset"),
        ("aes-256-ctr", 1, "key piece offset"),
        ("aes-192-ccm.encrypt", 1, "key offset"),
        ("aes-128-gcm", 1, "key piece offset"),
        ("sha384", 1, "piece offset"),
        ("drbg", 1, "key piece offset"),
        ("ecdh-p256.shared", 0, ""),
        ("idle", 0, ""),
    ],
)
def test_what_an_operation_takes(name, step, variants):
    """firmware/PROTOCOL.md, the table of variants."""
    assert step_bytes(name) == step
    assert variants_of(name) == tuple(variants.split())
