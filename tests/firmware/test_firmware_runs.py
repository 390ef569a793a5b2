"""The firmware as it behaves: real images in the emulated DUT, spoken to over its serial port."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM

from labctl.dut_link import frame, unframe
from labctl.firmware_image import read_manifest

BOARD = "stm32vldiscovery"
CLOCK_HZ = 24e6
CRYSTAL_RATIO = 50e-6

MODES = ("ecb", "cbc", "ctr", "ccm", "gcm")
AES = tuple(
    f"aes-{bits}-{mode}{direction}"
    for bits in (128, 192, 256)
    for mode in MODES
    for direction in ("", ".encrypt", ".decrypt")
)
SHA = ("sha224", "sha256", "sha384", "sha512")
SYMMETRIC = (*AES, *SHA, "drbg")

# SP 800-38A appendix F; SP 800-38C example 3 (nonce); McGrew and Viega (initial vector).
KEYS = {
    128: "2b7e151628aed2a6abf7158809cf4f3c",
    192: "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
    256: "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
}
CBC_IV = bytes(range(16))
CTR_START = bytes(range(0xF0, 0x100))
CCM_NONCE = bytes(range(0x10, 0x1C))
GCM_IV = bytes.fromhex("cafebabefacedbaddecaf888")
# NIST CAVP, HMAC_DRBG, no reseed, SHA-256, COUNT 0: entropy input and nonce.
DRBG_SEED = bytes.fromhex(
    "ca851911349384bffe89de1cbdc46e6831e44d34a4fb935ee285dd14b71a7488659ba96c601dc69fc902940805ec0ca8"
)
DRBG_REQUEST_MAX = 1024
# RFC 6979 A.2.5, P-256, SHA-256, message "sample": r, then s.
SIGNATURE = bytes.fromhex(
    "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
    "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"
)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def elf(build: Callable[..., Path]) -> Path:
    return build()


@pytest.fixture
def dut(elf: Path, emulate: Callable[..., Any]) -> Any:
    """The whole image, in step."""
    device = emulate(elf)
    device.link.write(b"\n")
    assert device.ask("hello")[0].startswith("ok hello ")
    return device


def message(n_bytes: int) -> bytes:
    return bytes((7 * i + 3) % 256 for i in range(n_bytes))


def ciphertext(bits: int, mode: str, plain: bytes) -> bytes:
    """Encrypt by another library."""
    key = bytes.fromhex(KEYS[bits])
    if mode == "ccm":
        return AESCCM(key, tag_length=16).encrypt(CCM_NONCE, plain, b"")
    if mode == "gcm":
        return AESGCM(key).encrypt(GCM_IV, plain, b"")
    chaining = {"ecb": modes.ECB(), "cbc": modes.CBC(CBC_IV), "ctr": modes.CTR(CTR_START)}[mode]
    encryptor = Cipher(algorithms.AES(key), chaining).encryptor()
    return encryptor.update(plain) + encryptor.finalize()


class HmacDrbg:
    """HMAC_DRBG with SHA-256, SP 800-90A 10.1.2, without reseeding and additional input."""

    def __init__(self, seed: bytes) -> None:
        self.key, self.value = bytes(32), b"\x01" * 32
        self.update(seed)

    def mac(self, text: bytes) -> bytes:
        return hmac.digest(self.key, text, "sha256")

    def update(self, data: bytes = b"") -> None:
        for separator in (b"\x00", b"\x01") if data else (b"\x00",):
            self.key = self.mac(self.value + separator + data)
            self.value = self.mac(self.value)

    def generate(self, n_bytes: int) -> bytes:
        out = b""
        while len(out) < n_bytes:
            self.value = self.mac(self.value)
            out += self.value
        self.update()
        return out[:n_bytes]


def random_output(n_bytes: int, piece: int, iterations: int) -> bytes:
    """What the last iteration puts out, in requests of `piece` bytes, at most 1024."""
    generator = HmacDrbg(DRBG_SEED)
    step = min(piece or n_bytes, DRBG_REQUEST_MAX)
    out = b""
    for _ in range(iterations):
        out = b"".join(generator.generate(min(step, n_bytes - at)) for at in range(0, n_bytes, step))
    return out


def expected(operation: str, n_bytes: int, piece: int = 0, iterations: int = 1) -> bytes:
    """One run's output, computed by other means."""
    if operation in SHA:
        return hashlib.new(operation, message(n_bytes)).digest()
    if operation == "drbg":
        return random_output(n_bytes, piece, iterations)
    match = re.fullmatch(r"aes-(\d+)-(\w+)(\.\w+)?", operation)
    assert match is not None
    if match[3] == ".encrypt":
        return ciphertext(int(match[1]), match[2], message(n_bytes))
    return message(n_bytes)


def check(dut: Any, operation: str, n_bytes: int, n_runs: int = 2, **keys: int | str) -> Any:
    """Measure, and compare the checksum over all runs with outputs computed here."""
    report = dut.measured(operation, bytes=n_bytes, runs=n_runs, pause_us=100, **keys)
    iterations = 1 if keys.get("key") == "inside" else int(keys.get("n", 1))
    output = expected(operation, n_bytes, int(keys.get("piece", 0)), iterations)
    assert report.crc32 == zlib.crc32(output * n_runs), (operation, n_bytes, keys)
    assert len(report.cycles) in (0, n_runs)
    return report


def pieces_of(operation: str) -> int:
    """A piece that the operation takes, and that does not divide a message of 80 bytes."""
    return 48 if any(mode in operation for mode in ("ecb", "cbc", "gcm")) else 7


def test_what_it_says_of_itself(dut: Any, elf: Path):
    names = dut.operations()
    assert names[:3] == ("null", "busy", "idle")
    assert set(SYMMETRIC) <= set(names)
    assert len(set(names)) == len(names)
    image = read_manifest(elf)
    hello, _ = dut.ask("hello")
    assert hello == (
        f"ok hello proto=2 board={BOARD} clock_hz={CLOCK_HZ:.0f} clock=crystal counter=dwt build={image.pop('build')}"
    )
    answer, data = dut.ask("manifest")
    assert answer == f"ok manifest keys={len(data)}"
    assert dict(line.removeprefix("manifest ").split("=", 1) for line in data) == {
        key: str(value) for key, value in image.items()
    }


def test_nothing_is_measured_before_the_known_answers(dut: Any):
    dut.restart()
    for name in dut.operations()[3:]:
        # What computes nothing has nothing to know.
        expected = "ok ready" if name.startswith("idle.") else "err untested"
        assert dut.ask(f"prepare op={name}")[0].startswith(expected), name
    # The known answers of one operation vouch for that operation alone, in its direction.
    assert dut.self_test("aes-128-ctr.encrypt") == 1
    dut.prepare("aes-128-ctr.encrypt")
    for other in ("aes-128-ctr.decrypt", "aes-128-ctr", "aes-192-ctr.encrypt", "sha256"):
        assert dut.ask(f"prepare op={other}")[0].startswith("err untested"), other
    # The self-test takes the memory of what was prepared.
    dut.prepare("aes-128-ctr.encrypt")
    dut.self_test("aes-128-ctr.encrypt")
    assert dut.ask("go")[0].startswith("err state")


def test_every_known_answer_is_right(dut: Any):
    n_all = dut.self_test()
    # Two directions of fifteen ciphers, four digests, one generator, and what else is in the image.
    assert n_all >= 2 * 15 + 4 + 1
    assert {dut.self_test(name) for name in AES if "." in name} == {1}
    assert {dut.self_test(name) for name in AES if "." not in name} == {2}
    assert {dut.self_test(name) for name in (*SHA, "drbg")} == {1}
    # One alone does not take the others' away.
    dut.prepare("sha256")


@pytest.mark.parametrize("operation", SYMMETRIC)
def test_outputs_are_those_of_another_library(dut: Any, operation: str):
    check(dut, operation, 16)
    check(dut, operation, 64, n_runs=3)
    check(dut, operation, 64, n=3)
    check(dut, operation, 1024)
    if not re.search("ecb|cbc", operation):
        check(dut, operation, 77)
        check(dut, operation, 1009)


@pytest.mark.parametrize("operation", SYMMETRIC)
def test_variants_change_the_cost_and_not_the_output(dut: Any, operation: str):
    plain = check(dut, operation, 80).cycles[0]
    check(dut, operation, 80, offset=1)
    check(dut, operation, 80, offset=15)
    if operation not in SHA:
        inside = check(dut, operation, 80, key="inside")
        assert inside.cycles[0] > plain + 100
        check(dut, operation, 80, key="inside", n=2)
    if "ccm" not in operation:
        piece = pieces_of(operation)
        cut = check(dut, operation, 80, piece=piece).cycles[0]
        # ECB is made of single blocks anyway.
        assert cut == plain if "ecb" in operation else cut > plain
        check(dut, operation, 80, piece=piece, offset=3)
        check(dut, operation, 80, piece=80)
        check(dut, operation, 80, piece=16384 // 16 * 16)
        if operation not in SHA:
            check(dut, operation, 80, piece=piece, offset=5, key="inside", n=2)


def test_a_generators_requests_shape_its_output(dut: Any):
    """Beyond 1024 bytes there are several requests; without key=inside the iterations follow on each other."""
    check(dut, "drbg", 1500)
    check(dut, "drbg", 1500, piece=1200)
    check(dut, "drbg", 1500, piece=100, n=3)
    check(dut, "drbg", 64, n=20)
    check(dut, "drbg", 64, n=20, key="inside")


def test_signatures_are_those_of_the_rfc(dut: Any):
    sign = dut.measured("ecdsa-p256.sign", runs=2)
    assert sign.crc32 == zlib.crc32(SIGNATURE * 2)
    verify = dut.measured("ecdsa-p256.verify", runs=1)
    assert verify.crc32 == zlib.crc32(b"\x00")


@pytest.mark.parametrize("operation", ["null", "busy", *SYMMETRIC])
def test_twenty_runs_take_identical_cycles(dut: Any, operation: str):
    """What draws no random numbers costs the same each time, counted by itself and between the trigger's edges."""
    keys = {} if operation in ("null", "busy") else {"bytes": 64}
    dut.self_test(operation)
    dut.prepare(operation, runs=20, pause_us=100, **keys)
    dut.behind_the_scenes("windows")
    report = dut.go()
    windows = dut.behind_the_scenes("windows")["windows"]
    assert len(report.cycles) == len(windows) == 20
    assert len(set(report.cycles)) == 1
    assert len({w["cycles"] for w in windows}) == 1


def test_iterations_add_up_exactly(dut: Any):
    """The emulated core has no jitter: a window of n iterations is a constant plus n times one iteration."""
    one, two, five = (dut.measured("sha256", runs=1, n=n).cycles[0] for n in (1, 2, 5))
    assert two > one
    assert five - two == 3 * (two - one)


def test_own_count_and_pin_differ_by_the_same_cycles_for_all(dut: Any):
    """What the counter misses of the pulse is the trigger functions' cost: the same for null, so null removes it."""
    missed = {}
    for name in ("null", "busy", "sha256", "aes-256-gcm", "idle"):
        dut.self_test(name)
        dut.prepare(name, runs=3)
        dut.behind_the_scenes("windows")
        report = dut.go()
        windows = dut.behind_the_scenes("windows")["windows"]
        assert len(windows) == 3
        missed[name] = {w["cycles"] - c for w, c in zip(windows, report.cycles, strict=True)}
    assert missed["busy"] == missed["sha256"] == missed["aes-256-gcm"] == missed["null"]
    assert len(missed["null"]) == 1
    # Sleep is told from the SysTick: exact within a few cycles.
    assert all(abs(m - next(iter(missed["null"]))) <= 8 for m in missed["idle"])


def test_idle_sleeps_its_millisecond(dut: Any):
    null = dut.measured("null", runs=1).cycles[0]
    idle = dut.measured("idle", runs=1).cycles[0]
    assert 24_000 <= idle - null <= 24_000 + 240


def test_busy_takes_its_thousand_rounds(dut: Any):
    """A subtraction and a taken branch: 1 cycle, and 1 + P with P from 1 to 3 (ARM DDI 0337, table 18-1)."""
    null = dut.measured("null", runs=1).cycles[0]
    busy = dut.measured("busy", runs=1).cycles[0]
    assert 3_000 <= busy - null <= 5_050


def test_the_warm_up_foretells_the_window(dut: Any):
    dut.self_test("aes-128-gcm")
    ready = dut.prepare("aes-128-gcm", bytes=256, n=3, runs=1)
    # One iteration times three, each with the window's own cost; microseconds rounded up, the readings within.
    measured = dut.go().cycles[0]
    assert measured < int(ready["window_cycles"]) <= measured + 200
    assert 0 <= 3 * -(-int(ready["window_us"]) // 3) - int(ready["window_cycles"]) / 24 <= 3 * 8
    assert int(ready["check_us"]) > 0
    assert {key: ready[key] for key in ("bytes", "runs", "n", "pause_us", "key", "piece", "offset")} == {
        "bytes": "256", "runs": "1", "n": "3", "pause_us": "500", "key": "outside", "piece": "0", "offset": "0",
    }  # fmt: skip


@pytest.mark.parametrize("pause_s", [0.5e-3, 0.8], ids=["short", "beyond the SysTick's 24 bits"])
def test_pauses_before_and_after_each_window(dut: Any, pause_s: float):
    dut.prepare("null", runs=4, pause_us=round(pause_s * 1e6))
    dut.behind_the_scenes("windows")
    dut.go()
    windows = dut.behind_the_scenes("windows")["windows"]
    gaps = [b["start_s"] - a["start_s"] - a["duration_s"] for a, b in itertools.pairwise(windows)]
    assert all(gap >= 2 * pause_s * (1 - CRYSTAL_RATIO) for gap in gaps)
    # The pseudo-random pause has up to 300 cycles; stack's paint, the check and the loop around it some ten thousand.
    assert all(gap <= 2 * pause_s * (1 + CRYSTAL_RATIO) + 20_000 / CLOCK_HZ for gap in gaps)


def test_phase_is_dithered(dut: Any):
    dut.prepare("null", runs=50, pause_us=100)
    dut.behind_the_scenes("windows")
    dut.go()
    starts = [w["start_s"] for w in dut.behind_the_scenes("windows")["windows"]]
    gaps = {round((b - a) * CLOCK_HZ) for a, b in itertools.pairwise(starts)}
    # 49 pauses drawn from 256 lengths: far fewer different ones would be a stuck generator.
    assert len(gaps) > 20


@pytest.mark.parametrize(
    ("request_text", "answer"),
    [
        ("op=sha256 bytes=15", "err range bytes: 16 to 16384"),
        ("op=sha256 bytes=16385", "err range bytes: 16 to 16384"),
        ("op=null bytes=64", "err range bytes: this operation takes no message"),
        ("op=null runs=0", "err range runs: 1 to 1000"),
        ("op=null runs=1001", "err range runs: 1 to 1000"),
        ("op=null n=0", "err range n: at least 1"),
        ("op=sha256 offset=16", "err range offset: 0 to 15"),
        ("op=sha256 piece=16385", "err range piece: 0 (whole) to 16384"),
        ("op=null pause_us=10000001", "err range pause_us: 0 to 10000000"),
        ("op=idle n=100000", "err range a window would exceed 2^31 cycles: smaller n"),
        ("op=md5", "err operation md5"),
        ("op=null key=inside", "err unsupported key: "),
        ("op=sha256 key=inside", "err unsupported key: "),
        ("op=null piece=16", "err unsupported piece: "),
        ("op=idle offset=1", "err unsupported offset: "),
        ("op=aes-128-ccm piece=16", "err unsupported piece: "),
        ("op=aes-128-cbc piece=8", "err unsupported piece: "),
        ("op=aes-128-gcm.encrypt piece=24", "err unsupported piece: "),
        ("op=aes-128-ecb bytes=65", "err unsupported bytes: "),
    ],
)
def test_what_it_refuses(dut: Any, request_text: str, answer: str):
    dut.self_test()
    assert dut.ask(f"prepare {request_text}")[0].startswith(answer)
    assert dut.ask("go")[0].startswith("err state")


def test_a_variant_at_its_default_is_no_variant(dut: Any):
    dut.prepare("null", key="outside", piece=0, offset=0)


def test_lack_of_memory_is_told_in_bytes(dut: Any):
    """What is said to be missing is missing: so many bytes less go, and not four more."""
    dut.self_test("sha256")
    answer, _ = dut.ask("prepare op=sha256 bytes=16384 runs=1")
    match = re.fullmatch(r"err memory (\d+) bytes are missing in the heap", answer)
    assert match is not None, answer
    largest = 16384 - int(match[1])
    dut.prepare("sha256", bytes=largest - 8, runs=1)
    assert dut.go().crc32 == zlib.crc32(expected("sha256", largest - 8))
    assert dut.ask(f"prepare op=sha256 bytes={largest + 8} runs=1")[0].startswith("err memory ")
    # The counts of all runs lie there too, four bytes each.
    assert dut.ask("prepare op=sha256 bytes=1024 runs=1000")[0].startswith("err memory ")
    dut.prepare("sha256", bytes=1024, runs=500)


def test_memory_of_an_operation(dut: Any, elf: Path):
    """Contexts by the library's own structures, messages by their lengths, heap from GCM's cipher context."""
    image = read_manifest(elf)
    dut.measured("null", runs=1)
    bare = dut.memory()
    assert bare == {**bare, "heap_peak_bytes": 0, "heap_held_bytes": 0, "state_bytes": 0, "buffer_bytes": 0}
    dut.measured("aes-128-cbc.encrypt", bytes=128, runs=1)
    one = dut.memory()
    dut.measured("aes-128-cbc", bytes=128, runs=1)
    both = dut.memory()
    # mbedtls_aes_context: a count, a pointer, 68 words (aes.h); a key schedule for each direction.
    assert one["state_bytes"] == 4 + 4 + 68 * 4
    assert both["state_bytes"] == 2 * one["state_bytes"]
    assert one["buffer_bytes"] == both["buffer_bytes"] == 2 * 128
    assert bare["stack_peak_bytes"] < one["stack_peak_bytes"] < image["stack_bytes"]
    assert one["heap_held_bytes"] == one["heap_peak_bytes"] == 0
    dut.measured("aes-128-gcm", bytes=128, runs=1)
    outside = dut.memory()
    # The library allocates an AES context; the heap's blocks have headers of 8 bytes and multiples of 8.
    assert outside["heap_held_bytes"] == one["state_bytes"] + 8
    assert outside["heap_peak_bytes"] == 0
    assert outside["buffer_bytes"] == 2 * 128 + 16
    dut.measured("aes-128-gcm", bytes=128, runs=1, key="inside")
    inside = dut.memory()
    assert (inside["heap_held_bytes"], inside["heap_peak_bytes"]) == (0, outside["heap_held_bytes"])


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"hello*0000\n", "err checksum"),
        (b"hello\n", "err checksum"),
        (b"*\n", "err checksum"),
        (b"\xff\x00garbage\n", "err checksum"),
        (b"x" * 161 + b"\n", "err length"),
        (b"x" * 5000 + b"\n", "err length"),
        (frame("reboot"), "err command reboot"),
        (frame("hello now"), "err command hello"),
        (frame("prepare"), "err argument op is missing"),
        (frame("prepare op=null runs"), "err argument runs"),
        (frame("prepare op=null runs="), "err argument runs"),
        (frame("prepare op=null runs=-1"), "err argument runs"),
        (frame("prepare op=null runs=4294967296"), "err argument runs"),
        (frame("prepare op=null n=10000000000"), "err argument n"),
        (frame("prepare op=null key=elsewhere"), "err argument key"),
        (frame("prepare op=null colour=2"), "err argument colour"),
        (frame("kat op=md5"), "err operation md5"),
        (b"\r\n\n" + frame("stack").replace(b"\n", b"\r\n"), "ok stack"),
    ],
    ids=range(18),
)
def test_lines_that_are_not_as_they_should_be(dut: Any, sent: bytes, answer: str):
    dut.link.write(sent)
    assert dut.read().startswith(answer)
    assert dut.ask("hello")[0].startswith("ok hello")


def test_banner_after_power_on(dut: Any, elf: Path):
    assert dut.restart() == f"ok boot board={BOARD} build={read_manifest(elf)['build']}"


def test_no_fault_has_happened(dut: Any):
    assert dut.behind_the_scenes("status")["engine"] in ("running", "parked")


def test_image_of_one_operation(build: Callable[..., Path], emulate: Callable[..., Any]):
    device = emulate(build(image="op-aes-192-gcm.decrypt"))
    assert device.operations() == ("null", "busy", "idle", "aes-192-gcm.decrypt")
    assert device.self_test() == 1
    check(device, "aes-192-gcm.decrypt", 64)
    assert device.ask("prepare op=sha256")[0] == "err operation sha256"


def test_null_image(build: Callable[..., Path], emulate: Callable[..., Any]):
    device = emulate(build(image="null"))
    assert device.operations() == ("null", "busy", "idle")
    assert device.self_test() == 0
    assert device.measured("null", runs=2).crc32 == 0


def test_static_workspace(dut: Any, build: Callable[..., Path], emulate: Callable[..., Any]):
    """The same cycles and outputs; state and messages in .bss, and nothing of them on the heap."""
    path = build(image="symmetric", workspace="static")
    device, image = emulate(path), read_manifest(path)
    for operation in ("aes-128-gcm", "aes-256-cbc.decrypt", "sha512", "drbg"):
        assert check(device, operation, 256).cycles == check(dut, operation, 256).cycles
    arena = int(image["bss_bytes"]) - int(read_manifest(build(image="symmetric"))["bss_bytes"])
    device.self_test("aes-128-ecb")
    answer, _ = device.ask("prepare op=aes-128-ecb bytes=2048 runs=1")
    match = re.fullmatch(r"err memory (\d+) bytes are missing in the workspace", answer)
    assert match is not None, answer
    # Two contexts, two messages, and at most 8 bytes each to reach a multiple of 16.
    assert int(match[1]) == pytest.approx(2 * 280 + 2 * 2048 - arena, abs=2 * 8 + 16)


def test_tables_in_ram(build: Callable[..., Path], emulate: Callable[..., Any], dut: Any):
    """The S-box of SM4 moves; nothing else of the image's data does, and the outputs stay."""
    in_flash, in_ram = (build(image="op-sm4-ecb.encrypt", **tables) for tables in ({}, {"tables": "ram"}))
    assert read_manifest(in_ram)["data_bytes"] == read_manifest(in_flash)["data_bytes"] + 256
    device = emulate(in_ram)
    assert device.measured("sm4-ecb.encrypt", runs=1).crc32 == dut.measured("sm4-ecb.encrypt", runs=1).crc32


def test_another_clock(build: Callable[..., Path], emulate: Callable[..., Any]):
    path = build(image="op-sha256", clock="8000000")
    device = emulate(path, clock_hz=8_000_000)
    assert "clock_hz=8000000 clock=crystal" in device.ask("hello")[0]
    assert read_manifest(path)["clock_hz"] == 8_000_000
    check(device, "sha256", 64)
    device.prepare("idle", runs=1)
    device.behind_the_scenes("windows")
    device.go()
    (window,) = device.behind_the_scenes("windows")["windows"]
    assert window["duration_s"] == pytest.approx(1e-3, rel=0.03)


@pytest.mark.parametrize("profile", ["O0", *(pytest.param(p, marks=pytest.mark.sweep) for p in ("O2", "O3"))])
def test_other_profiles_give_the_same_outputs(build: Callable[..., Path], emulate: Callable[..., Any], profile: str):
    device = emulate(build(image="symmetric", profile=profile))
    device.self_test()
    for operation in SYMMETRIC:
        check(device, operation, 64)
        assert device.memory()["stack_peak_bytes"] < read_manifest(device.elf)["stack_bytes"]


BOARDS = {
    # board: image with the symmetric operations, the largest message of a cipher there
    "stm32f0discovery": ("symmetric", 1024),
    "stm32f4discovery": ("all", 16384),
    "stm32f7discovery": ("all", 16384),
    "launchxl-cc26x2r1": ("all", 16384),
}


@pytest.mark.parametrize("board", BOARDS)
def test_other_boards_give_the_same_outputs(build: Callable[..., Path], emulate: Callable[..., Any], board: str):
    image, n_bytes_max = BOARDS[board]
    device = emulate(build(board=board, **({} if image == "all" else {"image": image})), board=board)
    device.self_test()
    for operation in SYMMETRIC:
        check(device, operation, 64)
    for operation in ("aes-256-ctr", "aes-192-gcm.encrypt", "aes-128-ccm", "sha384", "drbg"):
        check(device, operation, n_bytes_max, n_runs=1)


def test_without_counter_no_cycles_are_told(build: Callable[..., Path], emulate: Callable[..., Any]):
    """ARMv6-M has no DWT_CYCCNT (ARM DDI 0419, C1.8): time comes from a timer, and the trigger."""
    board = "stm32f0discovery"
    device = emulate(build(board=board, image="symmetric"), board=board)
    assert " counter=none " in device.ask("hello")[0]
    device.self_test("sha256")
    ready = device.prepare("sha256", bytes=1024, runs=5)
    assert "window_cycles" not in ready
    device.behind_the_scenes("windows")
    assert device.go().cycles == ()
    durations_s = [w["duration_s"] for w in device.behind_the_scenes("windows")["windows"]]
    assert len(durations_s) == 5
    # The timer counts microseconds; the warm-up is what follows, and the crystal is off by its tolerance.
    assert int(ready["window_us"]) * 1e-6 == pytest.approx(durations_s[0], abs=3e-6)


def test_boot_line_is_framed(dut: Any):
    dut.switch(False)
    dut.link.drain()
    dut.switch(True)
    line = dut.link.read_line(float("inf"))
    assert unframe(line) is not None
