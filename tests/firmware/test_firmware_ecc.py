"""ECDSA and ECDH on the DUT: outputs against the standards and another library, cost, memory, what each image holds."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils, x25519
from elftools.elf.elffile import ELFFile

from labctl.firmware_image import read_manifest

N_BYTES = 32
ECDSA = ("ecdsa-p256", "ecdsa-p256.keygen", "ecdsa-p256.sign", "ecdsa-p256.verify", "ecdsa-p256.full")
ECDH = tuple(f"ecdh-{curve}{part}" for curve in ("p256", "curve25519") for part in ("", ".public", ".shared"))
# RFC 6979 A.2.5: private key; signature of "sample" with SHA-256.
SIGNER = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
SIGNATURE = bytes.fromhex(
    "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
    "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"
)
# RFC 5903, 8.1: private keys of initiator and responder.
INITIATOR = 0xC88F01F510D9AC3F70A292DAA2316DE544E9AAB8AFE84049C62A9C57862D1433
RESPONDER = 0xC6EF9C5D78AE012A011164ACB397CE2088685D8F06BF9BE0B283AB46476BEE53
# RFC 7748, 6.1: private keys of Alice and Bob, and what they come to.
ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
ALICES_PUBLIC_KEY = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
SECRET_25519 = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def elf(build: Callable[..., Path]) -> Path:
    return build(image="ecc")


@pytest.fixture(scope="module")
def dut(elf: Path, emulate: Callable[..., Any]) -> Any:
    """An image of all curves, its known answers right."""
    device = emulate(elf)
    device.self_test()
    return device


@pytest.fixture(scope="module")
def reports(dut: Any) -> dict[str, tuple[Any, dict[str, int]]]:
    """Every operation measured: its report of two runs, and its memory."""
    return {name: (dut.measured(name, runs=2), dut.memory()) for name in (*ECDSA, *ECDH)}


def coordinates(key: ec.EllipticCurvePrivateKey) -> bytes:
    numbers = key.public_key().public_numbers()
    return numbers.x.to_bytes(N_BYTES, "big") + numbers.y.to_bytes(N_BYTES, "big")


def expected() -> dict[str, bytes]:
    """One run's output of every operation that makes no new key, computed by another library."""
    mine = ec.derive_private_key(INITIATOR, ec.SECP256R1())
    peer = ec.derive_private_key(RESPONDER, ec.SECP256R1())
    secret = mine.exchange(ec.ECDH(), peer.public_key())
    alice, bob = (x25519.X25519PrivateKey.from_private_bytes(key) for key in (ALICE, BOB))
    public_25519, secret_25519 = alice.public_key().public_bytes_raw(), alice.exchange(bob.public_key())
    return {
        "ecdsa-p256": SIGNATURE,
        "ecdsa-p256.sign": SIGNATURE,
        "ecdsa-p256.verify": b"\x00",
        "ecdh-p256": coordinates(mine) + secret,
        "ecdh-p256.public": coordinates(mine),
        "ecdh-p256.shared": secret,
        "ecdh-curve25519": public_25519 + secret_25519,
        "ecdh-curve25519.public": public_25519,
        "ecdh-curve25519.shared": secret_25519,
    }


def test_the_expected_outputs_are_those_of_the_standards():
    """What the library here computes is what the RFCs print, byte for byte."""
    outputs = expected()
    assert outputs["ecdh-curve25519.public"] == ALICES_PUBLIC_KEY
    assert outputs["ecdh-curve25519.shared"] == SECRET_25519
    assert outputs["ecdh-p256.public"].hex().upper().startswith("DAD0B65394221CF9B051E1FECA5787D098DFE637FC90B9EF")
    assert outputs["ecdh-p256.shared"].hex().upper().startswith("D6840F6B42F6EDAFD13116E0E12565202FEF8E9ECE7DCE03")
    r, s = (int.from_bytes(SIGNATURE[i : i + N_BYTES], "big") for i in (0, N_BYTES))
    signer = ec.derive_private_key(SIGNER, ec.SECP256R1()).public_key()
    signer.verify(utils.encode_dss_signature(r, s), b"sample", ec.ECDSA(hashes.SHA256()))


def test_known_answers_by_operation(dut: Any):
    """Each operation is vouched for by the parts that it consists of; the refusal counts as one."""
    assert set(dut.operations()) == {"null", "busy", "idle", *ECDSA, *ECDH}
    assert [dut.self_test(name) for name in ECDSA] == [1 + 2, 1, 1, 2, 1 + 1 + 2]
    assert [dut.self_test(name) for name in ECDH] == [2, 1, 1, 2, 1, 1]
    assert dut.self_test() == 4 + 2 + 2


def test_one_part_does_not_vouch_for_another(dut: Any):
    dut.restart()
    dut.self_test("ecdsa-p256.verify")
    dut.prepare("ecdsa-p256.verify", runs=1)
    for other in ("ecdsa-p256.sign", "ecdsa-p256", "ecdsa-p256.full", "ecdh-p256.public"):
        assert dut.ask(f"prepare op={other}")[0].startswith("err untested"), other
    dut.self_test("ecdsa-p256.sign")
    dut.prepare("ecdsa-p256", runs=1)
    dut.self_test()


@pytest.mark.parametrize("operation", sorted(expected()))
def test_outputs_are_those_of_another_library(reports: Any, operation: str):
    report, _ = reports[operation]
    assert report.crc32 == zlib.crc32(expected()[operation] * 2)
    assert len(report.cycles) == 2


def test_iterations_leave_the_output_of_the_last(dut: Any):
    report = dut.measured("ecdh-curve25519.public", runs=1, n=3)
    assert report.crc32 == zlib.crc32(ALICES_PUBLIC_KEY)


@pytest.mark.parametrize("operation", ["ecdsa-p256.keygen", "ecdsa-p256.full"])
def test_new_keys_are_new(dut: Any, operation: str):
    """The DUT proves them right (they lie on the curve and are d G; the signature verifies); here: they differ."""
    dut.self_test(operation)
    dut.prepare(operation, runs=1)
    first, second = dut.go(), dut.go()
    assert (first.check, second.check) == ("pass", "pass")
    assert first.crc32 != second.crc32


def test_only_what_is_blinded_varies(dut: Any, reports: Any):
    """Verification draws no random number: always the same cycles. The others spread, by little."""
    assert len(set(dut.measured("ecdsa-p256.verify", runs=4).cycles)) == 1
    for operation in {*ECDSA, *ECDH} - {"ecdsa-p256.verify"}:
        cycles = reports[operation][0].cycles
        assert len(set(cycles)) > 1, operation
        assert max(cycles) / min(cycles) < 1.05, (operation, cycles)


def test_a_series_costs_its_parts(reports: Any):
    """Blinding varies them by a few parts in a thousand."""

    def cost(*operations: str) -> float:
        return sum(sum(reports[name][0].cycles) / 2 for name in operations)

    keygen, sign, verify = ECDSA[1:4]
    assert cost("ecdsa-p256") == pytest.approx(cost(sign, verify), rel=0.01)
    assert cost("ecdsa-p256.full") == pytest.approx(cost(keygen, sign, verify), rel=0.01)
    for curve in ("ecdh-p256", "ecdh-curve25519"):
        assert cost(curve) == pytest.approx(cost(f"{curve}.public", f"{curve}.shared"), rel=0.01)


@pytest.mark.parametrize("key", ["bytes=64", "key=inside", "piece=16", "offset=1"])
def test_what_it_has_not_is_refused(dut: Any, key: str):
    answer, _ = dut.ask(f"prepare op=ecdsa-p256.sign {key}")
    assert re.match("err (range|unsupported) " + key.partition("=")[0], answer)


@pytest.mark.parametrize("operation", [*ECDSA, *ECDH])
def test_memory_suffices(reports: Any, elf: Path, operation: str):
    _, memory = reports[operation]
    image = read_manifest(elf)
    # A quarter of the stack stays free.
    assert 500 < memory["stack_peak_bytes"] < 0.75 * image["stack_bytes"]
    held = memory["heap_peak_bytes"] + memory["heap_held_bytes"] + memory["state_bytes"]
    assert 1000 < held < image["heap_bytes"]


def test_a_lack_of_memory_is_named(dut: Any, reports: Any, elf: Path):
    """1000 counts take 4000 bytes; with them the heap is too small for the curve, and the DUT goes on."""
    memory = reports["ecdsa-p256.verify"][1]
    assert memory["heap_peak_bytes"] + 4000 > read_manifest(elf)["heap_bytes"]
    answer, _ = dut.ask("prepare op=ecdsa-p256.verify runs=1000")
    assert re.fullmatch(r"err memory \d+ bytes are missing in the heap.*", answer)
    dut.prepare("ecdsa-p256.verify", runs=1)


def test_a_heap_too_small_for_the_known_answers_is_named(build_apart: Callable[..., Path], emulate: Callable[..., Any]):
    """2.8 KB of a smaller RAM are stack, and what is left does not hold the curve: no vector was wrong."""
    device = emulate(build_apart({}, image="op-ecdsa-p256.verify", RAM_BYTES=5120, HEAP_BYTES_MIN=1024))
    assert re.fullmatch(r"err memory \d+ bytes are missing in the heap.*", device.ask("kat")[0])
    assert device.ask("prepare op=ecdsa-p256.verify")[0].startswith("err untested")


def test_a_wrong_secret_is_found(build_apart: Callable[..., Path], emulate: Callable[..., Any]):
    """The peer's key of another byte: it agrees on another secret."""
    edits = {"crypto/ecdh/mbedtls/ecdh.c": ("0x5D, 0xAB, 0x08,", "0x5D, 0xAB, 0x09,")}
    device = emulate(build_apart(edits, image="op-ecdh-curve25519.shared"))
    assert device.ask("kat")[0] == "err kat ecdh-curve25519.shared, RFC 7748 6.1"


def symbols(elf: Path) -> set[str]:
    with elf.open("rb") as stream:
        table: Any = ELFFile(stream).get_section_by_name(".symtab")
        return {symbol.name for symbol in table.iter_symbols()}


@pytest.mark.parametrize(
    ("operation", "settings", "present", "absent"),
    [
        (
            "ecdsa-p256.verify",
            {},
            "mbedtls_ecdsa_verify",
            "mbedtls_hmac_drbg_random mbedtls_ecp_gen_privkey ecp_mod_p255",
        ),
        ("ecdsa-p256.keygen", {}, "mbedtls_ecp_gen_privkey", "mbedtls_hmac_drbg_random mbedtls_ecdsa_verify"),
        ("ecdh-curve25519", {}, "ecp_mod_p255", "ecp_mod_p256 mbedtls_ecdsa_verify mbedtls_ecp_gen_privkey"),
        ("ecdh-p256.shared", {"workspace": "static"}, "ecp_mod_p256", "ecp_mod_p255 mbedtls_ecdsa_verify"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_an_image_of_one_operation_holds_it_alone(
    build: Callable[..., Path],
    emulate: Callable[..., Any],
    operation: str,
    settings: dict[str, str],
    present: str,
    absent: str,
):
    elf = build(image=f"op-{operation}", **settings)
    held = {name.split(".")[0] for name in symbols(elf)}
    assert present in held
    assert not held & set(absent.split())
    device = emulate(elf)
    assert device.operations() == ("null", "busy", "idle", operation)
    report = device.measured(operation, runs=1)
    if operation in expected():
        assert report.crc32 == zlib.crc32(expected()[operation])


def test_plain_curves_cost_more_and_say_so(
    build: Callable[..., Path], emulate: Callable[..., Any], reports: Any, elf: Path
):
    """Without the reduction made for P-256, with the smallest window, in C alone: a multiple of the time.

    Curve25519 has its own reduction and no window: there only the multiplication differs.
    """
    plain_elf = build(image="ecc", ecp="plain")
    tuned, plain = read_manifest(elf), read_manifest(plain_elf)
    assert (tuned["ecp"], plain["ecp"]) == ("tuned", "plain")
    assert {"ECP_NIST_OPTIM", "HAVE_ASM", "ECP_WINDOW_SIZE=4"} <= set(tuned["mbedtls_config"].split())
    assert "ECP_WINDOW_SIZE=2" in plain["mbedtls_config"].split()
    assert not {"ECP_NIST_OPTIM", "HAVE_ASM"} & set(plain["mbedtls_config"].split())
    device = emulate(plain_elf)
    for operation, ratio in (("ecdsa-p256.verify", 2.0), ("ecdh-p256.public", 2.0), ("ecdh-curve25519.shared", 0.9)):
        report = device.measured(operation, runs=1)
        assert report.crc32 == zlib.crc32(expected()[operation])
        assert report.cycles[0] > ratio * reports[operation][0].cycles[0], operation
