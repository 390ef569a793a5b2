"""Every combination is a row; what shares board, clock and image is one measurement; what nothing has is told."""

from __future__ import annotations

import pytest

from labctl.combinations import Choice, Group, combine, operations_of, regroup
from labctl.errors import ConfigError, Unsupported
from labctl.firmware import Image
from labctl.model import Operation

BOARD = "stm32vldiscovery"
ALL = Image(BOARD, "all", "Os", 24_000_000)


def rows(choice: Choice) -> list[tuple[Image, Operation]]:
    groups, missing = combine(choice)
    assert missing == []
    return [(group.image, operation) for group in groups for operation in group.operations]


def test_nothing_asked_is_the_usual_four_on_the_usual_board():
    groups, missing = combine(Choice())
    assert missing == []
    (group,) = groups
    assert group.image == ALL
    assert [(o.name, o.bytes, o.profile, o.clock_hz, o.variant) for o in group.operations] == [
        ("aes-128-ctr", 64, "Os", 24_000_000, ""),
        ("sha256", 64, "Os", 24_000_000, ""),
        ("ecdsa-p256.sign", None, "Os", 24_000_000, ""),
        ("ecdsa-p256.verify", None, "Os", 24_000_000, ""),
    ]


def test_every_combination_is_a_row():
    choice = Choice(names=("sha256", "sm3", "null"), sizes=(16, 1024), profiles=("Os", "O2"),
                    clocks_hz=(24e6, 8e6), variants=("plain", "piece=16"))
    found = rows(choice)
    # Two profiles, two clocks, two variants; sizes for those with a message alone.
    assert len(found) == len(set(found)) == 2 * 2 * 2 * (2 + 2 + 1)
    assert {o.bytes for _, o in found if o.name == "null"} == {None}
    assert {(o.name, o.implementation) for _, o in found} == {
        ("sha256", "mbedtls"), ("sm3", "portable"), ("null", "mbedtls"),
    }


def test_what_shares_an_image_is_one_measurement():
    """Variants of the run go together; profile, clock, tables and workspace are another image."""
    variants = ("plain", "key=inside", "tables=ram", "key=inside,tables=ram", "workspace=static")
    groups, _ = combine(Choice(names=("aes-128-cbc",), variants=variants, profiles=("Os", "O3")))
    assert [(g.image.profile, g.image.tables, g.image.workspace, len(g.operations)) for g in groups] == [
        ("Os", "flash", "heap", 2), ("Os", "ram", "heap", 2), ("Os", "flash", "static", 1),
        ("O3", "flash", "heap", 2), ("O3", "ram", "heap", 2), ("O3", "flash", "static", 1),
    ]
    groups, _ = combine(Choice(names=("sha256",), boards=(BOARD, "stm32f4discovery"), clocks_hz=(8e6,)))
    assert [(g.image.board, g.image.clock_hz) for g in groups] == [(BOARD, 8_000_000), ("stm32f4discovery", 8_000_000)]


def test_a_board_with_several_images_is_several_measurements():
    """What every image holds costs no image of its own."""
    groups, _ = combine(Choice(boards=("stm32f0discovery",), names=("null", "ecdh-p256", "aes-128-ecb", "busy")))
    assert [(g.image.name, [o.name for o in g.operations]) for g in groups] == [
        ("ecc", ["null", "ecdh-p256", "busy"]),
        ("aes", ["aes-128-ecb"]),
    ]
    groups, _ = combine(Choice(boards=("stm32f0discovery",), names=("null",)))
    assert [g.image.name for g in groups] == ["aes"]


def test_what_is_asked_twice_is_measured_once():
    assert len(rows(Choice(names=("sha256", "sha256")))) == 1
    # A pattern holds one of the names beside it; the order is that of first appearance.
    names = [operation.name for _, operation in rows(Choice(names=("sha256", "sha2*", "sha256")))]
    assert names == ["sha256", "sha224"]
    assert len(rows(Choice(names=("sha256",), profiles=("Os", "Os"), sizes=(64, 64), variants=("plain", "offset=0"),
                           clocks_hz=(24e6, 24e6), boards=(BOARD, BOARD)))) == 1


@pytest.mark.parametrize(
    ("choice", "n_groups", "words"),
    [
        (Choice(names=("sha256",), clocks_hz=(24e6, 48e6)), 1, "stm32vldiscovery runs at 24 MHz, 8 MHz, not at 48 MHz"),
        (Choice(names=("sha256",), implementations=("mbedtls", "openssl")), 1, "by mbedtls here, not by 'openssl'"),
        (Choice(names=("md5", "sha256"), boards=("stm32f0discovery",)), 1, "no image of stm32f0discovery holds"),
        (Choice(names=("sm3",), implementations=("mbedtls",)), 0, "by portable here"),
    ],
)
def test_what_a_board_has_not_is_a_missing_row(choice, n_groups, words):
    groups, missing = combine(choice)
    assert len(groups) == n_groups
    (row,) = missing
    assert isinstance(row.error, Unsupported)
    assert words in str(row.error)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice(boards=("arduino",)), "no board is called 'arduino'"),
        (Choice(names=("des-*",)), "no operation fits"),
        (Choice(variants=("fast",)), "'fast' is none of"),
        (Choice(names=("null", "ecdh-p256"), sizes=(16,)), "none of null, ecdh-p256 has one"),
    ],
)
def test_what_nothing_knows_is_refused(choice, words):
    with pytest.raises(ConfigError, match=words):
        combine(choice)


def test_plain_operations_for_other_commands():
    assert operations_of(("sha256", "busy"), 128, n_runs=1) == (
        Operation("sha256", bytes=128, n_runs=1, clock_hz=24_000_000),
        Operation("busy", n_runs=1, clock_hz=24_000_000),
    )


def test_an_image_that_does_not_fit_is_several_smaller_ones():
    operations = operations_of(("null", "sha256", "aes-128-ecb", "sm3", "md5"), None, n_runs=1)
    groups, left = regroup(Group(ALL, operations), {ALL})
    assert [(g.image.name, [o.name for o in g.operations]) for g in groups] == [
        ("others", ["null", "sha256", "sm3"]), ("aes", ["aes-128-ecb"]),
    ]
    assert [o.name for o in left] == ["md5"]
