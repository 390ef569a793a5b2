#include "sm4.h"

#include <string.h>

#include "tables.h"

/* GB/T 32907-2016, 6.2: the S-box. It is the inverse in GF(2^8) modulo x^8+x^7+x^6+x^5+x^4+x^2+1 between two equal
   affine maps (rows: rotations of 0xD3; constant 0xD3), which the tests compute again. */
TABLE(uint8_t, sbox, 256) = {
    0xd6, 0x90, 0xe9, 0xfe, 0xcc, 0xe1, 0x3d, 0xb7, 0x16, 0xb6, 0x14, 0xc2, 0x28, 0xfb, 0x2c, 0x05,
    0x2b, 0x67, 0x9a, 0x76, 0x2a, 0xbe, 0x04, 0xc3, 0xaa, 0x44, 0x13, 0x26, 0x49, 0x86, 0x06, 0x99,
    0x9c, 0x42, 0x50, 0xf4, 0x91, 0xef, 0x98, 0x7a, 0x33, 0x54, 0x0b, 0x43, 0xed, 0xcf, 0xac, 0x62,
    0xe4, 0xb3, 0x1c, 0xa9, 0xc9, 0x08, 0xe8, 0x95, 0x80, 0xdf, 0x94, 0xfa, 0x75, 0x8f, 0x3f, 0xa6,
    0x47, 0x07, 0xa7, 0xfc, 0xf3, 0x73, 0x17, 0xba, 0x83, 0x59, 0x3c, 0x19, 0xe6, 0x85, 0x4f, 0xa8,
    0x68, 0x6b, 0x81, 0xb2, 0x71, 0x64, 0xda, 0x8b, 0xf8, 0xeb, 0x0f, 0x4b, 0x70, 0x56, 0x9d, 0x35,
    0x1e, 0x24, 0x0e, 0x5e, 0x63, 0x58, 0xd1, 0xa2, 0x25, 0x22, 0x7c, 0x3b, 0x01, 0x21, 0x78, 0x87,
    0xd4, 0x00, 0x46, 0x57, 0x9f, 0xd3, 0x27, 0x52, 0x4c, 0x36, 0x02, 0xe7, 0xa0, 0xc4, 0xc8, 0x9e,
    0xea, 0xbf, 0x8a, 0xd2, 0x40, 0xc7, 0x38, 0xb5, 0xa3, 0xf7, 0xf2, 0xce, 0xf9, 0x61, 0x15, 0xa1,
    0xe0, 0xae, 0x5d, 0xa4, 0x9b, 0x34, 0x1a, 0x55, 0xad, 0x93, 0x32, 0x30, 0xf5, 0x8c, 0xb1, 0xe3,
    0x1d, 0xf6, 0xe2, 0x2e, 0x82, 0x66, 0xca, 0x60, 0xc0, 0x29, 0x23, 0xab, 0x0d, 0x53, 0x4e, 0x6f,
    0xd5, 0xdb, 0x37, 0x45, 0xde, 0xfd, 0x8e, 0x2f, 0x03, 0xff, 0x6a, 0x72, 0x6d, 0x6c, 0x5b, 0x51,
    0x8d, 0x1b, 0xaf, 0x92, 0xbb, 0xdd, 0xbc, 0x7f, 0x11, 0xd9, 0x5c, 0x41, 0x1f, 0x10, 0x5a, 0xd8,
    0x0a, 0xc1, 0x31, 0x88, 0xa5, 0xcd, 0x7b, 0xbd, 0x2d, 0x74, 0xd0, 0x12, 0xb8, 0xe5, 0xb4, 0xb0,
    0x89, 0x69, 0x97, 0x4a, 0x0c, 0x96, 0x77, 0x7e, 0x65, 0xb9, 0xf1, 0x09, 0xc5, 0x6e, 0xc6, 0x84,
    0x18, 0xf0, 0x7d, 0xec, 0x3a, 0xdc, 0x4d, 0x20, 0x79, 0xee, 0x5f, 0x3e, 0xd7, 0xcb, 0x39, 0x48,
};

static uint32_t load(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void store(uint8_t *bytes, uint32_t word) {
    bytes[0] = (uint8_t)(word >> 24);
    bytes[1] = (uint8_t)(word >> 16);
    bytes[2] = (uint8_t)(word >> 8);
    bytes[3] = (uint8_t)word;
}

static uint32_t rotate(uint32_t word, unsigned n) {
    return word << n | word >> (32u - n);
}

/* 6.2: the nonlinear map, the S-box on each byte. */
static uint32_t substitute(uint32_t word) {
    return (uint32_t)sbox[word >> 24] << 24 | (uint32_t)sbox[word >> 16 & 0xFFu] << 16 |
           (uint32_t)sbox[word >> 8 & 0xFFu] << 8 | sbox[word & 0xFFu];
}

/* 6.2: the nonlinear map, then the linear one of the rounds. */
static uint32_t mix(uint32_t word) {
    uint32_t b = substitute(word);
    return b ^ rotate(b, 2) ^ rotate(b, 10) ^ rotate(b, 18) ^ rotate(b, 24);
}

/* 7.3: the linear map of the key schedule. */
static uint32_t mix_key(uint32_t word) {
    uint32_t b = substitute(word);
    return b ^ rotate(b, 13) ^ rotate(b, 23);
}

/* 7.3: byte j of the constant of round i is 7 (4 i + j) mod 256. */
static uint32_t round_constant(uint32_t i) {
    uint32_t word = 0;
    for (uint32_t j = 0; j < 4; j++) {
        word = word << 8 | (7u * (4u * i + j) & 0xFFu);
    }
    return word;
}

void sm4_set_encrypt_key(struct sm4_key *key, const uint8_t *bytes) {
    uint32_t k[4] = {load(bytes) ^ 0xA3B1BAC6u, load(bytes + 4) ^ 0x56AA3350u, load(bytes + 8) ^ 0x677D9197u,
                     load(bytes + 12) ^ 0xB27022DCu};
    for (uint32_t i = 0; i < 32; i++) {
        k[i % 4] ^= mix_key(k[(i + 1) % 4] ^ k[(i + 2) % 4] ^ k[(i + 3) % 4] ^ round_constant(i));
        key->round[i] = k[i % 4];
    }
}

void sm4_set_decrypt_key(struct sm4_key *key, const uint8_t *bytes) {
    sm4_set_encrypt_key(key, bytes);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t word = key->round[i];
        key->round[i] = key->round[31 - i];
        key->round[31 - i] = word;
    }
}

void sm4_block(const struct sm4_key *key, const uint8_t *in, uint8_t *out) {
    uint32_t a = load(in), b = load(in + 4), c = load(in + 8), d = load(in + 12);
    /* Four rounds a turn, so that no word has to change its place. */
    for (uint32_t i = 0; i < 32; i += 4) {
        a ^= mix(b ^ c ^ d ^ key->round[i]);
        b ^= mix(c ^ d ^ a ^ key->round[i + 1]);
        c ^= mix(d ^ a ^ b ^ key->round[i + 2]);
        d ^= mix(a ^ b ^ c ^ key->round[i + 3]);
    }
    store(out, d);
    store(out + 4, c);
    store(out + 8, b);
    store(out + 12, a);
}

static void add(uint8_t *out, const uint8_t *a, const uint8_t *b) {
    for (uint32_t i = 0; i < SM4_BLOCK_BYTES; i++) {
        out[i] = a[i] ^ b[i];
    }
}

void sm4_ecb(const struct sm4_key *key, size_t n, const uint8_t *in, uint8_t *out) {
    for (size_t i = 0; i < n; i += SM4_BLOCK_BYTES) {
        sm4_block(key, in + i, out + i);
    }
}

void sm4_cbc_encrypt(const struct sm4_key *key, size_t n, uint8_t *chain, const uint8_t *in, uint8_t *out) {
    for (size_t i = 0; i < n; i += SM4_BLOCK_BYTES) {
        add(chain, chain, in + i);
        sm4_block(key, chain, chain);
        memcpy(out + i, chain, SM4_BLOCK_BYTES);
    }
}

void sm4_cbc_decrypt(const struct sm4_key *key, size_t n, uint8_t *chain, const uint8_t *in, uint8_t *out) {
    uint8_t block[SM4_BLOCK_BYTES], cipher[SM4_BLOCK_BYTES];
    for (size_t i = 0; i < n; i += SM4_BLOCK_BYTES) {
        memcpy(cipher, in + i, SM4_BLOCK_BYTES); /* kept, as `out` may lie over `in` */
        sm4_block(key, cipher, block);
        add(out + i, block, chain);
        memcpy(chain, cipher, SM4_BLOCK_BYTES);
    }
}

static void count(uint8_t *counter) {
    for (uint32_t i = SM4_BLOCK_BYTES; i-- > 0 && ++counter[i] == 0;) {
    }
}

void sm4_ctr(const struct sm4_key *key, struct sm4_ctr *state, size_t n, const uint8_t *in, uint8_t *out) {
    for (size_t i = 0; i < n; i++) {
        if (state->used % SM4_BLOCK_BYTES == 0) {
            sm4_block(key, state->counter, state->stream);
            count(state->counter);
            state->used = 0;
        }
        out[i] = in[i] ^ state->stream[state->used++];
    }
}
