"""What a right DUT puts out, computed here by other code than the firmware's: hashlib, and the package `cryptography`.

Inputs, keys and initial vectors are those that firmware/PROTOCOL.md lists.
"""

from __future__ import annotations

import hashlib
import hmac

from labctl.errors import EnvironmentFault
from labctl.model import Operation
from labctl.operations import BYTES_DEFAULT, EVERYWHERE, parts, takes_message

# SP 800-38A, appendix F: keys; initial vector of CBC, first counter block of CTR. The first is SM4's CBC and CTR too.
_AES_KEYS = {
    128: "2b7e151628aed2a6abf7158809cf4f3c",
    192: "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
    256: "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
}
_IV = bytes(range(16))
_COUNTER = bytes(range(0xF0, 0x100))
# SP 800-38C example 3; McGrew and Viega, The Galois/Counter Mode of Operation, test case 4.
_CCM_NONCE = bytes(range(0x10, 0x1C))
_GCM_IV = bytes.fromhex("cafebabefacedbaddecaf888")
_TAG_BYTES = 16
# GB/T 32907, annex A.
_SM4_KEY = bytes.fromhex("0123456789abcdeffedcba9876543210")
# NIST CAVP, HMAC_DRBG, no reseed, SHA-256, COUNT 0: entropy input and nonce.
_DRBG_SEED = bytes.fromhex(
    "ca851911349384bffe89de1cbdc46e6831e44d34a4fb935ee285dd14b71a7488659ba96c601dc69fc902940805ec0ca8"
)
_DRBG_REQUEST_BYTES_MAX = 1024
# RFC 6979 A.2.5, P-256, SHA-256, message "sample": r, then s.
_SIGNATURE = bytes.fromhex(
    "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
    "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"
)
# Private keys of both sides: RFC 5903 8.1, RFC 7748 6.1.
_P256 = (
    0xC88F01F510D9AC3F70A292DAA2316DE544E9AAB8AFE84049C62A9C57862D1433,
    0xC6EF9C5D78AE012A011164ACB397CE2088685D8F06BF9BE0B283AB46476BEE53,
)
_CURVE25519 = (
    bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"),
    bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"),
)


def message(n_bytes: int) -> bytes:
    """Return the message that the firmware uses: byte i is (7 i + 3) mod 256."""
    return bytes((7 * i + 3) & 0xFF for i in range(n_bytes))


def expected_output(operation: Operation) -> bytes | None:
    """Compute what one run puts out, or None where the host cannot know it: new keys, an operation of others.

    Raises EnvironmentFault where this machine's `cryptography` lacks a cipher.
    """
    name = operation.name
    primitive, _, step = name.partition(".")
    text = message(operation.bytes or BYTES_DEFAULT) if takes_message(name) else b""
    if primitive in EVERYWHERE:
        return b""
    if primitive in ("sha224", "sha256", "sha384", "sha512"):
        return hashlib.new(primitive, text).digest()
    if primitive == "drbg":
        return _drbg(operation)
    if primitive.startswith("ecdsa-"):
        return {"sign": _SIGNATURE, "verify": b"\x00", "": _SIGNATURE}.get(step)
    if not takes_message(name) and not primitive.startswith("ecdh-"):
        return None
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        if primitive == "sm3":
            return _sm3(text)
        if primitive.startswith("ecdh-"):
            return _ecdh(primitive.removeprefix("ecdh-"), step)
        return _ciphertext(primitive, text) if step == "encrypt" else text
    except UnsupportedAlgorithm as error:
        raise EnvironmentFault(
            f"what {name} must put out cannot be computed here ({error}): install `cryptography` from PyPI"
        ) from error


def _ciphertext(primitive: str, text: bytes) -> bytes:
    """Encrypt; with CCM and GCM the tag is behind the ciphertext."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM

    cipher, *bits, mode = primitive.split("-")
    key = _SM4_KEY if cipher == "sm4" else bytes.fromhex(_AES_KEYS[int(bits[0])])
    if mode == "ccm":
        return AESCCM(key, tag_length=_TAG_BYTES).encrypt(_CCM_NONCE, text, None)
    if mode == "gcm":
        return AESGCM(key).encrypt(_GCM_IV, text, None)
    algorithm = algorithms.SM4(key) if cipher == "sm4" else algorithms.AES(key)
    counter = _IV if cipher == "sm4" else _COUNTER
    chosen: modes.Mode = {"ecb": modes.ECB(), "cbc": modes.CBC(_IV), "ctr": modes.CTR(counter)}[mode]
    cipher_of_mode: Cipher[modes.Mode] = Cipher(algorithm, chosen)
    encryptor = cipher_of_mode.encryptor()  # type: ignore[misc]  # overloads by mode, chosen here by name
    return encryptor.update(text) + encryptor.finalize()


def _sm3(text: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes

    digest = hashes.Hash(hashes.SM3())
    digest.update(text)
    return digest.finalize()


def _ecdh(curve: str, step: str) -> bytes:
    """Give the public key's coordinates, the shared secret, or the one behind the other."""
    from cryptography.hazmat.primitives.asymmetric import ec, x25519
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    if curve == "p256":
        own, peer = (ec.derive_private_key(number, ec.SECP256R1()) for number in _P256)
        public = own.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)[1:]
        shared = own.exchange(ec.ECDH(), peer.public_key())
    else:
        mine, other = (x25519.X25519PrivateKey.from_private_bytes(number) for number in _CURVE25519)
        public, shared = mine.public_key().public_bytes_raw(), mine.exchange(other.public_key())
    return {"public": public, "shared": shared}.get(step, public + shared)


class HmacDrbg:
    """HMAC_DRBG with SHA-256 (SP 800-90A 10.1.2), without personalisation, additional input and reseeding."""

    def __init__(self, seed: bytes) -> None:
        self._key, self._value = bytes(32), b"\x01" * 32
        self._update(seed)

    def generate(self, n_bytes: int) -> bytes:
        """Answer one request."""
        output = b""
        while len(output) < n_bytes:
            self._value = self._mac(self._value)
            output += self._value
        self._update(b"")
        return output[:n_bytes]

    def _update(self, data: bytes) -> None:
        for round_byte in (b"\x00", b"\x01")[: 2 if data else 1]:
            self._key = self._mac(self._value + round_byte + data)
            self._value = self._mac(self._value)

    def _mac(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, "sha256")


def _drbg(operation: Operation) -> bytes:
    """Give the output of a window's last iteration; with the key inside each begins anew."""
    variant = parts(operation.variant)
    n_bytes = operation.bytes or BYTES_DEFAULT
    piece = min(int(variant.get("piece", 0)) or n_bytes, _DRBG_REQUEST_BYTES_MAX)
    generator, output = HmacDrbg(_DRBG_SEED), b""
    for _ in range(1 if variant.get("key") == "inside" else operation.n_iterations):
        output = b"".join(generator.generate(min(piece, n_bytes - i)) for i in range(0, n_bytes, piece))
    return output
