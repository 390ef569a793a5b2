"""What a right DUT puts out: against published vectors, and CCM and GCM against their definitions computed slowly."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from labctl import expected
from labctl.expected import HmacDrbg, expected_output, message
from labctl.model import Operation
from labctl.operations import AES, NAMES, SM4

# SP 800-38A, appendix F: the first two blocks of plaintext, and their ciphertexts in F.1, F.2 and F.5.
PLAIN = bytes.fromhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51")
SP800_38A = {
    "aes-128-ecb": "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf",
    "aes-192-ecb": "bd334f1d6e45f25ff712a214571fa5cc974104846d0ad3ad7734ecb3ecee4eef",
    "aes-256-ecb": "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870",
    "aes-128-cbc": "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2",
    "aes-192-cbc": "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a",
    "aes-256-cbc": "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d",
    "aes-128-ctr": "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff",
    "aes-192-ctr": "1abc932417521ca24f2b0459fe7e6e0b090339ec0aa6faefd5ccc2c6f4ce8e94",
    "aes-256-ctr": "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5",
}
KEYS = {
    "128": "2b7e151628aed2a6abf7158809cf4f3c",
    "192": "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
    "256": "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
}


def output(name: str, **fields) -> bytes:
    found = expected_output(Operation(name, **fields))
    assert found is not None
    return found


def block(key: bytes, text: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(text)


def xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=False))


def counted(key: bytes, counters, text: bytes) -> bytes:
    return b"".join(xor(text[16 * i : 16 * i + 16], block(key, next(counters))) for i in range(-(-len(text) // 16)))


def ccm(key: bytes, nonce: bytes, data: bytes, text: bytes, n_tag: int) -> bytes:
    """SP 800-38C, with L = 3 for a nonce of 12 bytes (appendix A)."""
    flags = (64 if data else 0) + 8 * ((n_tag - 2) // 2) + 2
    blocks = bytes([flags]) + nonce + len(text).to_bytes(3, "big")
    for part in (len(data).to_bytes(2, "big") + data if data else b"", text):
        blocks += part + bytes(-len(part) % 16)
    mac = bytes(16)
    for i in range(0, len(blocks), 16):
        mac = block(key, xor(mac, blocks[i : i + 16]))
    counters = (bytes([2]) + nonce + i.to_bytes(3, "big") for i in range(2**24))
    tag = xor(mac, block(key, next(counters)))[:n_tag]
    return counted(key, counters, text) + tag


def gcm(key: bytes, iv: bytes, data: bytes, text: bytes) -> bytes:
    """SP 800-38D, sections 6 and 7, for an initial vector of 12 bytes."""
    h = int.from_bytes(block(key, bytes(16)), "big")

    def times(x: int, y: int) -> int:
        z = 0
        for i in range(128):
            z ^= y * (x >> (127 - i) & 1)
            y = (y >> 1) ^ (0xE1 << 120) * (y & 1)
        return z

    counters = (iv + i.to_bytes(4, "big") for i in range(1, 2**32))
    first = block(key, next(counters))
    cipher = counted(key, counters, text)
    hashed = b"".join(part + bytes(-len(part) % 16) for part in (data, cipher))
    hashed += (8 * len(data)).to_bytes(8, "big") + (8 * len(cipher)).to_bytes(8, "big")
    state = 0
    for i in range(0, len(hashed), 16):
        state = times(state ^ int.from_bytes(hashed[i : i + 16], "big"), h)
    return cipher + xor(state.to_bytes(16, "big"), first)


def test_the_message():
    assert message(4) == bytes([3, 10, 17, 24])
    assert message(256)[37] == (37 * 7 + 3) % 256


@pytest.mark.parametrize("name", SP800_38A)
def test_aes_modes_of_sp800_38a(monkeypatch, name):
    """The published plaintext in the message's place gives the published ciphertext: keys and vectors are theirs."""
    monkeypatch.setattr(expected, "message", lambda n_bytes: PLAIN[:n_bytes])
    assert output(f"{name}.encrypt", bytes=32).hex() == SP800_38A[name]


# GB/T 32907, annex A; draft-ribose-cfrg-sm4-10, A.2.2.1 and A.2.5.1.
CBC_TEXT = "aaaaaaaabbbbbbbbccccccccddddddddeeeeeeeeffffffffaaaaaaaabbbbbbbb"
CTR_TEXT = "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd"


@pytest.mark.parametrize(
    ("name", "text", "cipher"),
    [
        ("sm4-ecb", "0123456789abcdeffedcba9876543210", "681edf34d206965e86b3e94f536e4246"),
        ("sm4-cbc", CBC_TEXT, "78ebb11cc40b0a48312aaeb2040244cb4cb7016951909226979b0d15dc6a8f6d"),
        ("sm4-ctr", CTR_TEXT, "ac3236cb970cc20791364c395a1342d1a3cbc1878c6f30cd074cce385cdd70c7"),
    ],
)
def test_sm4(monkeypatch, name, text, cipher):
    monkeypatch.setattr(expected, "message", lambda _: bytes.fromhex(text))
    assert output(f"{name}.encrypt").hex() == cipher


def test_the_slow_references_give_the_published_values():
    """SP 800-38C example 3; The Galois/Counter Mode of Operation, test case 4."""
    sealed = ccm(bytes(range(0x40, 0x50)), bytes(range(0x10, 0x1C)), bytes(range(20)), bytes(range(0x20, 0x38)), 8)
    assert sealed.hex() == "e3b201a9f5b71a7a9b1ceaeccd97e70b6176aad9a4428aa5484392fbc1b09951"
    text = (
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de6"
        "57ba637b39"
    )
    key, data = "feffe9928665731c6d6a8f9467308308", "feedfacedeadbeeffeedfacedeadbeefabaddad2"
    sealed = gcm(*map(bytes.fromhex, (key, "cafebabefacedbaddecaf888", data, text)))
    assert sealed[-16:].hex() == "5bc94fbc3221a5db94fae95ae7121a47"


@pytest.mark.parametrize("bits", KEYS)
@pytest.mark.parametrize("n_bytes", [16, 77, 1024])
def test_authenticated_modes_put_the_tag_behind(bits, n_bytes):
    key, text = bytes.fromhex(KEYS[bits]), message(n_bytes)
    assert output(f"aes-{bits}-ccm.encrypt", bytes=n_bytes) == ccm(key, bytes(range(0x10, 0x1C)), b"", text, 16)
    iv = bytes.fromhex("cafebabefacedbaddecaf888")
    assert output(f"aes-{bits}-gcm.encrypt", bytes=n_bytes) == gcm(key, iv, b"", text)


@pytest.mark.parametrize("name", [n for n in (*AES, *SM4) if not n.endswith(".encrypt")])
def test_what_decrypts_puts_the_message_out(name):
    assert output(name, bytes=48) == message(48)


def test_digests():
    assert output("sha384", bytes=100) == hashlib.sha384(bytes((7 * i + 3) % 256 for i in range(100))).digest()
    assert [len(output(f"sha{bits}")) for bits in (224, 256, 384, 512)] == [28, 32, 48, 64]


def test_sm3(monkeypatch):
    """GB/T 32905-2016, A.1."""
    monkeypatch.setattr(expected, "message", lambda _: b"abc")
    assert output("sm3").hex() == "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0"


SECOND_REQUEST = (
    "e528e9abf2dece54d47c7e75e5fe302149f817ea9fb4bee6f4199697d04d5b89d54fbb978a15b5c443c9ec21036d2460b6f73ebad0dc2aba"
    "6e624abf07745bc107694bb7547bb0995f70de25d6b29e2d3011bb19d27676c07162c8b5ccde0668961df86803482cb37ed6d5c0bb8d50cf"
    "1f50d476aa0458bdaba806f48be9dcb8"
)


def test_drbg():
    """NIST CAVP, HMAC_DRBG without reseeding, SHA-256, COUNT 0: the second request of 128 bytes is published."""
    assert output("drbg", bytes=128, n_iterations=2).hex() == SECOND_REQUEST
    # Two requests of 128 bytes, one behind the other in the same window.
    assert output("drbg", bytes=256, variant="piece=128")[128:].hex() == SECOND_REQUEST
    # With the instantiation inside, every iteration is the first.
    first = output("drbg", bytes=128)
    assert output("drbg", bytes=128, n_iterations=2, variant="key=inside") == first
    assert first.hex() != SECOND_REQUEST


def test_long_drbg_output_comes_in_requests_of_1024():
    generator = HmacDrbg(expected._DRBG_SEED)
    assert output("drbg", bytes=2500) == generator.generate(1024) + generator.generate(1024) + generator.generate(452)


def test_signature_is_one_of_the_published_key():
    """RFC 6979 A.2.5: the public key, and the message "sample"."""
    signature = output("ecdsa-p256.sign")
    assert signature == output("ecdsa-p256")
    r, s = (int.from_bytes(part, "big") for part in (signature[:32], signature[32:]))
    numbers = ec.EllipticCurvePublicNumbers(
        0x60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6,
        0x7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299,
        ec.SECP256R1(),
    )
    numbers.public_key().verify(encode_dss_signature(r, s), b"sample", ec.ECDSA(hashes.SHA256()))
    assert output("ecdsa-p256.verify") == b"\0"


def test_key_agreement():
    """RFC 5903 8.1 (x of the initiator's key, and the shared x); RFC 7748 6.1."""
    public, shared = output("ecdh-p256.public"), output("ecdh-p256.shared")
    assert len(public) == 64
    assert public[:32].hex() == "dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180"
    assert shared.hex() == "d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de"
    assert output("ecdh-p256") == public + shared
    public, shared = output("ecdh-curve25519.public"), output("ecdh-curve25519.shared")
    assert public.hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert shared.hex() == "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert output("ecdh-curve25519") == public + shared


def test_only_new_keys_and_operations_of_others_are_not_known():
    assert {name for name in NAMES if expected_output(Operation(name)) is None} == {
        "ecdsa-p256.keygen",
        "ecdsa-p256.full",
    }
    assert expected_output(Operation("md5")) is None
    assert output("null") == output("busy") == output("idle.stop") == b""
