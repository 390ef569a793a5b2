#include "sm3.h"

#include <string.h>

static uint32_t load(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void store(uint8_t *bytes, uint32_t word) {
    bytes[0] = (uint8_t)(word >> 24);
    bytes[1] = (uint8_t)(word >> 16);
    bytes[2] = (uint8_t)(word >> 8);
    bytes[3] = (uint8_t)word;
}

/* By 0 to 31 bits. */
static uint32_t rotate(uint32_t word, unsigned n) {
    return word << n | word >> (-n & 31u);
}

/* GB/T 32905-2016, 4.4: the permutations of the compression and of the expansion. */
static uint32_t permute_state(uint32_t x) {
    return x ^ rotate(x, 9) ^ rotate(x, 17);
}

static uint32_t permute_message(uint32_t x) {
    return x ^ rotate(x, 15) ^ rotate(x, 23);
}

/* 5.3.3: one round turns the eight words of the state by one place. `w` and `w4` are the expanded message's words j
   and j + 4, whose sum is the word j of its second series. */
static void turn(uint32_t *v, unsigned j, uint32_t w, uint32_t w4) {
    uint32_t constant = j < 16 ? 0x79CC4519u : 0x7A879D8Au;
    uint32_t a12 = rotate(v[0], 12);
    uint32_t ss1 = rotate(a12 + v[4] + rotate(constant, j % 32u), 7);
    uint32_t ff, gg;
    if (j < 16) {
        ff = v[0] ^ v[1] ^ v[2];
        gg = v[4] ^ v[5] ^ v[6];
    } else {
        ff = (v[0] & v[1]) | (v[0] & v[2]) | (v[1] & v[2]);
        gg = (v[4] & v[5]) | (~v[4] & v[6]);
    }
    uint32_t tt1 = ff + v[3] + (ss1 ^ a12) + (w ^ w4);
    uint32_t tt2 = gg + v[7] + ss1 + w;
    v[3] = v[2];
    v[2] = rotate(v[1], 9);
    v[1] = v[0];
    v[0] = tt1;
    v[7] = v[6];
    v[6] = rotate(v[5], 19);
    v[5] = v[4];
    v[4] = permute_state(tt2);
}

/* 5.3: expansion and compression side by side: word j + 16 of the expanded message takes the place of word j. */
static void compress(uint32_t *state, const uint8_t *block) {
    uint32_t v[8], w[16];
    memcpy(v, state, sizeof v);
    for (unsigned j = 0; j < 16; j++) {
        w[j] = load(block + 4 * j);
    }
    for (unsigned j = 0; j < 64; j++) {
        turn(v, j, w[j % 16], w[(j + 4) % 16]);
        w[j % 16] = permute_message(w[j % 16] ^ w[(j + 7) % 16] ^ rotate(w[(j + 13) % 16], 15)) ^
                    rotate(w[(j + 3) % 16], 7) ^ w[(j + 10) % 16];
    }
    for (unsigned i = 0; i < 8; i++) {
        state[i] ^= v[i];
    }
}

void sm3_start(struct sm3 *hash) {
    static const uint32_t initial[8] = {0x7380166Fu, 0x4914B2B9u, 0x172442D7u, 0xDA8A0600u,
                                        0xA96F30BCu, 0x163138AAu, 0xE38DEE4Du, 0xB0FB0E4Eu};
    memcpy(hash->state, initial, sizeof initial);
    hash->n_bytes = 0;
}

void sm3_add(struct sm3 *hash, const uint8_t *bytes, size_t n) {
    while (n > 0) {
        size_t held = hash->n_bytes % SM3_BLOCK_BYTES;
        if (held == 0 && n >= SM3_BLOCK_BYTES) {
            /* Whole blocks straight from where they lie. */
            compress(hash->state, bytes);
            hash->n_bytes += SM3_BLOCK_BYTES;
            bytes += SM3_BLOCK_BYTES;
            n -= SM3_BLOCK_BYTES;
            continue;
        }
        size_t taken = n < SM3_BLOCK_BYTES - held ? n : SM3_BLOCK_BYTES - held;
        memcpy(hash->block + held, bytes, taken);
        hash->n_bytes += taken;
        bytes += taken;
        n -= taken;
        if (hash->n_bytes % SM3_BLOCK_BYTES == 0) {
            compress(hash->state, hash->block);
        }
    }
}

/* 5.2: a one bit, zeros, and the length in bits as 64-bit number at the end of the last block. */
void sm3_finish(struct sm3 *hash, uint8_t *digest) {
    uint64_t n_bits = 8u * hash->n_bytes;
    size_t held = hash->n_bytes % SM3_BLOCK_BYTES;
    hash->block[held++] = 0x80u;
    if (held > SM3_BLOCK_BYTES - 8u) {
        memset(hash->block + held, 0, SM3_BLOCK_BYTES - held);
        compress(hash->state, hash->block);
        held = 0;
    }
    memset(hash->block + held, 0, SM3_BLOCK_BYTES - 8u - held);
    store(hash->block + SM3_BLOCK_BYTES - 8u, (uint32_t)(n_bits >> 32));
    store(hash->block + SM3_BLOCK_BYTES - 4u, (uint32_t)n_bits);
    compress(hash->state, hash->block);
    for (unsigned i = 0; i < 8; i++) {
        store(digest + 4 * i, hash->state[i]);
    }
}
