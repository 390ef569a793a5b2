#include "reference.h"

#include <string.h>

#define BLOCK CIPHER_BLOCK_BYTES

static void mix(uint8_t *into, const uint8_t *from, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        into[i] ^= from[i];
    }
}

/* Big-endian, over the last `n` bytes of the block. */
static void increment(uint8_t *counter, uint32_t n) {
    for (uint32_t i = BLOCK; i > BLOCK - n && ++counter[i - 1] == 0; i--) {
    }
}

static uint32_t at_most_a_block(uint32_t left) {
    return left < BLOCK ? left : BLOCK;
}

int reference_ecb(const struct block_cipher *block, void *context, const struct passage *p) {
    int status = 0;
    for (uint32_t i = 0; i < p->bytes; i += BLOCK) {
        status |= block->encrypt(context, p->in + i, p->out + i);
    }
    return status;
}

int reference_cbc(const struct block_cipher *block, void *context, const struct passage *p) {
    uint8_t chain[BLOCK];
    int status = 0;
    memcpy(chain, p->iv, BLOCK);
    for (uint32_t i = 0; i < p->bytes; i += BLOCK) {
        mix(chain, p->in + i, BLOCK);
        status |= block->encrypt(context, chain, chain);
        memcpy(p->out + i, chain, BLOCK);
    }
    return status;
}

/* From `counter` on, its last `n_counting` bytes counting. */
static int count(const struct block_cipher *block, void *context, const struct passage *p, uint8_t *counter,
                 uint32_t n_counting) {
    uint8_t stream[BLOCK];
    int status = 0;
    for (uint32_t i = 0; i < p->bytes; i += BLOCK) {
        uint32_t n = at_most_a_block(p->bytes - i);
        status |= block->encrypt(context, counter, stream);
        memcpy(p->out + i, p->in + i, n);
        mix(p->out + i, stream, n);
        increment(counter, n_counting);
    }
    return status;
}

int reference_ctr(const struct block_cipher *block, void *context, const struct passage *p) {
    uint8_t counter[BLOCK];
    memcpy(counter, p->iv, BLOCK);
    return count(block, context, p, counter, BLOCK);
}

/* Formatting and counters of SP 800-38C A.2 and A.3, with q = 15 - n bytes of length. */
int reference_ccm(const struct block_cipher *block, void *context, const struct passage *p) {
    uint32_t q = 15u - p->iv_bytes;
    uint8_t mac[BLOCK] = {(uint8_t)((p->tag_bytes - 2u) / 2u << 3 | (q - 1u))}, counter[BLOCK] = {(uint8_t)(q - 1u)};
    uint8_t first[BLOCK];
    memcpy(mac + 1, p->iv, p->iv_bytes);
    memcpy(counter + 1, p->iv, p->iv_bytes);
    mac[14] = (uint8_t)(p->bytes >> 8);
    mac[15] = (uint8_t)p->bytes;
    int status = block->encrypt(context, mac, mac);
    for (uint32_t i = 0; i < p->bytes; i += BLOCK) {
        mix(mac, p->in + i, at_most_a_block(p->bytes - i));
        status |= block->encrypt(context, mac, mac);
    }
    status |= block->encrypt(context, counter, first);
    increment(counter, q);
    status |= count(block, context, p, counter, q);
    mix(mac, first, p->tag_bytes);
    memcpy(p->out + p->bytes, mac, p->tag_bytes);
    return status;
}

/* y becomes y times h: SP 800-38D 6.3, a bit at a time. */
static void multiply(uint8_t *y, const uint8_t *h) {
    uint8_t v[BLOCK], z[BLOCK] = {0};
    memcpy(v, h, BLOCK);
    for (uint32_t i = 0; i < 8u * BLOCK; i++) {
        if (y[i / 8u] & (0x80u >> i % 8u)) {
            mix(z, v, BLOCK);
        }
        uint32_t out = v[BLOCK - 1u] & 1u;
        for (uint32_t k = BLOCK - 1u; k > 0; k--) {
            v[k] = (uint8_t)(v[k] >> 1 | v[k - 1u] << 7);
        }
        v[0] = (uint8_t)(v[0] >> 1 ^ (out ? 0xE1u : 0u));
    }
    memcpy(y, z, BLOCK);
}

/* With the 96-bit IV whose first counter is IV || 1. */
int reference_gcm(const struct block_cipher *block, void *context, const struct passage *p) {
    uint8_t h[BLOCK] = {0}, counter[BLOCK] = {0}, tag[BLOCK] = {0}, first[BLOCK];
    int status = block->encrypt(context, h, h);
    memcpy(counter, p->iv, 12);
    counter[15] = 1;
    status |= block->encrypt(context, counter, first);
    increment(counter, 4);
    status |= count(block, context, p, counter, 4);
    for (uint32_t i = 0; i < p->bytes; i += BLOCK) {
        mix(tag, p->out + i, at_most_a_block(p->bytes - i));
        multiply(tag, h);
    }
    uint32_t bits = 8u * p->bytes;
    uint8_t lengths[BLOCK] = {[12] = (uint8_t)(bits >> 24), (uint8_t)(bits >> 16), (uint8_t)(bits >> 8), (uint8_t)bits};
    mix(tag, lengths, BLOCK);
    multiply(tag, h);
    mix(tag, first, BLOCK);
    memcpy(p->out + p->bytes, tag, p->tag_bytes);
    return status;
}
