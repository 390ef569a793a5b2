"""SM4 and SM3: the portable code on the host against the standards and another implementation, then on the DUT."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

ROOT = Path(__file__).resolve().parents[2]
# GB/T 32907-2016, annex A: key and plaintext are the same.
SM4_KEY = bytes.fromhex("0123456789abcdeffedcba9876543210")
SM4_IV = bytes(range(16))
CHAINING = {"ecb": modes.ECB(), "cbc": modes.CBC(SM4_IV), "ctr": modes.CTR(SM4_IV)}
SM4 = tuple(f"sm4-{mode}{direction}" for mode in CHAINING for direction in ("", ".encrypt", ".decrypt"))

pytestmark = pytest.mark.timeout(300)


class Sm4Key(ctypes.Structure):
    """struct sm4_key."""

    _fields_ = (("round", ctypes.c_uint32 * 32),)


class Sm4Ctr(ctypes.Structure):
    """struct sm4_ctr."""

    _fields_ = (("counter", ctypes.c_uint8 * 16), ("stream", ctypes.c_uint8 * 16), ("used", ctypes.c_uint32))


class Sm3(ctypes.Structure):
    """struct sm3."""

    _fields_ = (("state", ctypes.c_uint32 * 8), ("n_bytes", ctypes.c_uint64), ("block", ctypes.c_uint8 * 64))


class Portable:
    """The firmware's C, compiled for this machine."""

    def __init__(self, library: Path) -> None:
        self.c = ctypes.CDLL(str(library))

    def key(self, key: bytes, decrypt: bool = False) -> Sm4Key:
        schedule = Sm4Key()
        (self.c.sm4_set_decrypt_key if decrypt else self.c.sm4_set_encrypt_key)(ctypes.byref(schedule), key)
        return schedule

    def ecb(self, schedule: Sm4Key, text: bytes) -> bytes:
        out = ctypes.create_string_buffer(len(text))
        self.c.sm4_ecb(ctypes.byref(schedule), ctypes.c_size_t(len(text)), text, out)
        return out.raw

    def cbc(self, schedule: Sm4Key, iv: bytes, pieces: list[bytes], decrypt: bool = False) -> bytes:
        function = self.c.sm4_cbc_decrypt if decrypt else self.c.sm4_cbc_encrypt
        chain = ctypes.create_string_buffer(iv, 16)
        whole = b""
        for text in pieces:
            out = ctypes.create_string_buffer(text, len(text))  # in place, as the header allows
            function(ctypes.byref(schedule), ctypes.c_size_t(len(text)), chain, out, out)
            whole += out.raw
        return whole

    def ctr(self, schedule: Sm4Key, counter: bytes, pieces: list[bytes]) -> bytes:
        state = Sm4Ctr((ctypes.c_uint8 * 16)(*counter))
        whole = b""
        for text in pieces:
            out = ctypes.create_string_buffer(len(text))
            self.c.sm4_ctr(ctypes.byref(schedule), ctypes.byref(state), ctypes.c_size_t(len(text)), text, out)
            whole += out.raw
        return whole

    def sm3(self, pieces: list[bytes]) -> bytes:
        state, digest = Sm3(), ctypes.create_string_buffer(32)
        self.c.sm3_start(ctypes.byref(state))
        for text in pieces:
            self.c.sm3_add(ctypes.byref(state), text, ctypes.c_size_t(len(text)))
        self.c.sm3_finish(ctypes.byref(state), digest)
        return digest.raw


@pytest.fixture(scope="module")
def portable(tmp_path_factory: pytest.TempPathFactory) -> Portable:
    """The code with tables in flash, as every image has it by default."""
    return compiled(tmp_path_factory.mktemp("flash"))


def compiled(folder: Path, *flags: str) -> Portable:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed: the portable code is compiled for the host here")
    firmware = ROOT / "firmware"
    sources = [firmware / "crypto/sm4/portable/sm4.c", firmware / "crypto/sm3/portable/sm3.c"]
    library = folder / "portable.so"
    flags += ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", f"-I{firmware / 'bench'}")
    command = ["gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags]
    subprocess.run([*command, *map(str, sources), "-o", str(library)], check=True)
    return Portable(library)


def pieces_of(text: bytes, length: int) -> list[bytes]:
    return [text[i : i + length] for i in range(0, len(text), length)]


def oracle(key: bytes, mode: Any, text: bytes) -> bytes:
    return Cipher(algorithms.SM4(key), mode).encryptor().update(text)


def sm3_oracle(text: bytes) -> bytes:
    digest = hashes.Hash(hashes.SM3())
    digest.update(text)
    return digest.finalize()


def test_sm4_example_1(portable: Portable):
    """GB/T 32907-2016, A.1: round keys 0 and 31, the block, and back."""
    schedule = portable.key(SM4_KEY)
    assert (schedule.round[0], schedule.round[31]) == (0xF12186F9, 0x9124A012)
    cipher = portable.ecb(schedule, SM4_KEY)
    assert cipher.hex() == "681edf34d206965e86b3e94f536e4246"
    assert portable.ecb(portable.key(SM4_KEY, decrypt=True), cipher) == SM4_KEY


def test_sm4_example_2(portable: Portable):
    """GB/T 32907-2016, A.2: a block encrypted 1 000 000 times, and back again.

    CBC over zeros feeds each block's ciphertext to the next, so one call encrypts the initial vector again and again.
    """
    n_rounds = 1_000_000
    out = portable.cbc(portable.key(SM4_KEY), SM4_KEY, [bytes(16 * n_rounds)])
    assert out[-16:].hex() == "595298c7c6fd271f0402f804c33d3f66"
    block = out[-16:]
    schedule = portable.key(SM4_KEY, decrypt=True)
    for _ in range(10_000):
        block = portable.ecb(schedule, block)
    assert block == out[16 * (n_rounds - 10_001) : 16 * (n_rounds - 10_000)]


def test_sm4_sbox_follows_from_its_algebra(portable: Portable):
    """Inverse in GF(2^8) modulo 0x1F5 between equal affine maps: circulant of 0xD3, plus 0xD3."""

    def times(a: int, b: int) -> int:
        product = 0
        for bit in range(8):
            product ^= (a << bit) * (b >> bit & 1)
        for bit in range(14, 7, -1):
            product ^= (0x1F5 << (bit - 8)) * (product >> bit & 1)
        return product

    def affine(x: int) -> int:
        rows = [(0xD3 >> i | 0xD3 << (8 - i)) & 0xFF for i in range(8)]
        return sum(((row & x).bit_count() & 1) << (7 - i) for i, row in enumerate(rows)) ^ 0xD3

    inverse = {0: 0} | {a: b for a in range(1, 256) for b in range(1, 256) if times(a, b) == 1}
    expected = bytes(affine(inverse[affine(x)]) for x in range(256))
    source = (ROOT / "firmware/crypto/sm4/portable/sm4.c").read_text()
    table = source.split("TABLE(uint8_t, sbox, 256) = {")[1].split("};")[0]
    assert bytes(int(value, 16) for value in table.replace(",", " ").split()) == expected


def test_sm4_tables_in_ram(portable: Portable, tmp_path: Path):
    ram = compiled(tmp_path, "-DTABLES_RAM")
    assert ram.ecb(ram.key(SM4_KEY), SM4_KEY) == portable.ecb(portable.key(SM4_KEY), SM4_KEY)


@pytest.mark.parametrize("seed", range(20))
def test_sm4_like_another_implementation(portable: Portable, seed: int):
    """ECB, CBC and CTR of random data in random pieces against the host's library."""
    source = random.Random(seed)
    key, iv = source.randbytes(16), source.randbytes(16)
    text = source.randbytes(16 * source.randrange(1, 70))
    forth, back = portable.key(key), portable.key(key, decrypt=True)
    cipher = portable.ecb(forth, text)
    assert cipher == oracle(key, modes.ECB(), text)
    assert portable.ecb(back, cipher) == text
    blocks = pieces_of(text, 16 * source.randrange(1, 9))
    cipher = portable.cbc(forth, iv, blocks)
    assert cipher == oracle(key, modes.CBC(iv), text)
    assert portable.cbc(back, iv, pieces_of(cipher, 16 * source.randrange(1, 9)), decrypt=True) == text
    text = text[: source.randrange(1, len(text) + 1)]
    cipher = portable.ctr(forth, iv, pieces_of(text, source.randrange(1, 40)))
    assert cipher == oracle(key, modes.CTR(iv), text)
    assert portable.ctr(forth, iv, pieces_of(cipher, source.randrange(1, 40))) == text


@pytest.mark.parametrize("low", [0xFF, 0xFFFF, 2**32 - 1, 2**64 - 1, 2**128 - 1])
def test_sm4_counter_carries_through_all_its_bytes(portable: Portable, low: int):
    counter = low.to_bytes(16, "big")
    text = bytes(64)
    assert portable.ctr(portable.key(SM4_KEY), counter, [text]) == oracle(SM4_KEY, modes.CTR(counter), text)


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        (b"abc", "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0"),
        (b"abcd" * 16, "debe9ff92275b8a138604889c18e5a4d6fdb70e5387e5765293dcba39c0c5732"),
    ],
    ids=["A.1", "A.2"],
)
def test_sm3_examples(portable: Portable, text: bytes, digest: str):
    """GB/T 32905-2016, annex A."""
    assert portable.sm3([text]).hex() == digest


def test_sm3_padding_at_every_length(portable: Portable):
    """Where the length just fits, just does not, and everything between."""
    text = bytes(7 * i % 251 for i in range(300))
    for n_bytes in range(len(text)):
        assert portable.sm3([text[:n_bytes]]) == sm3_oracle(text[:n_bytes]), n_bytes


def test_sm3_length_beyond_32_bits_of_bits(portable: Portable):
    """2^32 bits are 512 MiB."""
    pieces = [bytes(2**20)] * 513
    digest = hashes.Hash(hashes.SM3())
    for piece in pieces:
        digest.update(piece)
    assert portable.sm3(pieces) == digest.finalize()


@pytest.mark.parametrize("seed", range(20))
def test_sm3_like_another_implementation(portable: Portable, seed: int):
    source = random.Random(seed)
    text = source.randbytes(source.randrange(0, 2000))
    assert portable.sm3(pieces_of(text, source.randrange(1, 150))) == sm3_oracle(text)


@pytest.fixture(scope="module")
def dut(build: Callable[..., Path], emulate: Callable[..., Any]) -> Any:
    """An image of what is not AES, its known answers right."""
    device = emulate(build(image="others"))
    device.self_test()
    return device


def check(dut: Any, operation: str, n_bytes: int, n_runs: int = 2, **keys: int | str) -> Any:
    """Measure, and compare the checksum over all runs with outputs computed here."""
    message = bytes((7 * i + 3) % 256 for i in range(n_bytes))
    output = message
    if operation == "sm3":
        output = sm3_oracle(message)
    elif operation.endswith(".encrypt"):
        output = oracle(SM4_KEY, CHAINING[operation[4:7]], message)
    report = dut.measured(operation, bytes=n_bytes, runs=n_runs, pause_us=100, **keys)
    assert report.crc32 == zlib.crc32(output * n_runs), (operation, n_bytes, keys)
    return report


def test_dut_knows_its_vectors(dut: Any):
    assert set(SM4) | {"sm3"} <= set(dut.operations())
    assert {dut.self_test(name) for name in SM4 if "." in name} == {1}
    assert {dut.self_test(name) for name in SM4 if "." not in name} == {2}
    assert dut.self_test("sm3") == 2


@pytest.mark.parametrize("operation", [*SM4, "sm3"])
def test_dut_like_another_implementation(dut: Any, operation: str):
    check(dut, operation, 16)
    check(dut, operation, 64, n_runs=3)
    check(dut, operation, 64, n=3)
    check(dut, operation, 1024)
    if operation[4:7] not in ("ecb", "cbc"):
        for n_bytes in (17, 55, 56, 63, 65, 119, 120, 1009):
            check(dut, operation, n_bytes)


@pytest.mark.parametrize("operation", [*SM4, "sm3"])
def test_dut_variants(dut: Any, operation: str):
    """Each costs what it must, and none changes the output."""
    plain = check(dut, operation, 80).cycles[0]
    check(dut, operation, 80, offset=1)
    check(dut, operation, 80, offset=15, n=2)
    piece = 7 if operation == "sm3" or "ctr" in operation else 32
    assert check(dut, operation, 80, piece=piece).cycles[0] > plain
    check(dut, operation, 80, piece=piece, offset=3)
    if operation != "sm3":
        inside = check(dut, operation, 80, key="inside").cycles[0]
        # 32 round keys, each with a few dozen instructions; in both directions with a schedule for each, CTR with one.
        n_schedules = 2 if operation in ("sm4-ecb", "sm4-cbc") else 1
        assert n_schedules * 32 * 20 < inside - plain < n_schedules * 32 * 150
        check(dut, operation, 80, key="inside", piece=piece, offset=5, n=2)


@pytest.mark.parametrize(
    ("request_text", "reason"),
    [
        ("sm4-ecb bytes=20", "bytes: this mode takes whole blocks"),
        ("sm4-cbc.decrypt bytes=20", "bytes: this mode takes whole blocks"),
        ("sm4-cbc.encrypt bytes=64 piece=8", "piece: this mode takes pieces of whole blocks"),
        ("sm3 key=inside", "key: this operation has no key set-up"),
    ],
)
def test_dut_refuses_what_it_has_not(dut: Any, request_text: str, reason: str):
    answer, _ = dut.ask(f"prepare op={request_text}")
    assert answer.startswith(f"err unsupported {reason}")


@pytest.mark.parametrize("operation", [*SM4, "sm3"])
def test_dut_takes_identical_cycles(dut: Any, operation: str):
    report = check(dut, operation, 64, n_runs=20)
    assert len(report.cycles) == 20
    assert len(set(report.cycles)) == 1


def test_sm4_costs_a_line_over_the_blocks(dut: Any):
    """Each block the same: the cost of n blocks is a constant plus n times that of one."""
    one, two, eight = (check(dut, "sm4-ecb.encrypt", 16 * n).cycles[0] for n in (1, 2, 8))
    assert eight - two == 6 * (two - one)


def test_sm3_costs_by_its_blocks(dut: Any):
    """64 bytes need a second block for the padding; 119 fit into two, 120 need a third."""
    cycles = {n: check(dut, "sm3", n).cycles[0] for n in (55, 64, 119, 120)}
    block = cycles[120] - cycles[119]
    assert block > 64 * 20
    assert abs(cycles[64] - cycles[55] - block) < block / 10
    assert abs(cycles[119] - cycles[64]) < block / 10


@pytest.mark.parametrize("settings", [{"tables": "ram"}, {"workspace": "static"}], ids=["ram", "static"])
def test_dut_with_tables_and_workspace_elsewhere(
    build: Callable[..., Path], emulate: Callable[..., Any], settings: dict[str, str]
):
    device = emulate(build(image="op-sm4-cbc", **settings))
    assert device.operations() == ("null", "busy", "idle", "sm4-cbc")
    check(device, "sm4-cbc", 256)
    check(device, "sm4-cbc", 256, key="inside", offset=1)


def test_dut_finds_a_wrong_table(build_apart: Callable[..., Path], emulate: Callable[..., Any]):
    """Two entries of the S-box changed round: the known answers say so, and nothing is measured."""
    edits = {"crypto/sm4/portable/sm4.c": ("0xd6, 0x90,", "0x90, 0xd6,")}
    device = emulate(build_apart(edits, image="op-sm4-ecb.encrypt"))
    assert device.ask("kat")[0] == "err kat sm4-ecb.encrypt"
    assert device.ask("prepare op=sm4-ecb.encrypt")[0].startswith("err untested")
