/* sm4-ecb, sm4-cbc, sm4-ctr: the modes of GB/T 17964, with the key of the standard's example. */
#include <string.h>

#include "cipher.h"
#include "reference.h"
#include "sm4.h"

/* GB/T 32907-2016, A.1: the key, and the plaintext alike; its ciphertext. */
static const uint8_t key[SM4_KEY_BYTES] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF,
                                           0xFE, 0xDC, 0xBA, 0x98, 0x76, 0x54, 0x32, 0x10};
static const uint8_t ecb_cipher[16] = {0x68, 0x1E, 0xDF, 0x34, 0xD2, 0x06, 0x96, 0x5E,
                                       0x86, 0xB3, 0xE9, 0x4F, 0x53, 0x6E, 0x42, 0x46};
/* draft-ribose-cfrg-sm4-10, A.2.2.1 (CBC) and A.2.5.1 (CTR): the same key, with this IV or first counter. */
static const uint8_t iv[SM4_BLOCK_BYTES] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07,
                                            0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F};
static const uint8_t cbc_plain[32] = {0xAA, 0xAA, 0xAA, 0xAA, 0xBB, 0xBB, 0xBB, 0xBB, 0xCC, 0xCC, 0xCC,
                                      0xCC, 0xDD, 0xDD, 0xDD, 0xDD, 0xEE, 0xEE, 0xEE, 0xEE, 0xFF, 0xFF,
                                      0xFF, 0xFF, 0xAA, 0xAA, 0xAA, 0xAA, 0xBB, 0xBB, 0xBB, 0xBB};
static const uint8_t cbc_cipher[32] = {0x78, 0xEB, 0xB1, 0x1C, 0xC4, 0x0B, 0x0A, 0x48, 0x31, 0x2A, 0xAE,
                                       0xB2, 0x04, 0x02, 0x44, 0xCB, 0x4C, 0xB7, 0x01, 0x69, 0x51, 0x90,
                                       0x92, 0x26, 0x97, 0x9B, 0x0D, 0x15, 0xDC, 0x6A, 0x8F, 0x6D};
static const uint8_t ctr_plain[64] = {
    0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xBB, 0xBB, 0xBB, 0xBB, 0xBB, 0xBB, 0xBB, 0xBB,
    0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xDD, 0xDD, 0xDD, 0xDD, 0xDD, 0xDD, 0xDD, 0xDD,
    0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
    0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xBB, 0xBB, 0xBB, 0xBB, 0xBB, 0xBB, 0xBB, 0xBB};
static const uint8_t ctr_cipher[64] = {
    0xAC, 0x32, 0x36, 0xCB, 0x97, 0x0C, 0xC2, 0x07, 0x91, 0x36, 0x4C, 0x39, 0x5A, 0x13, 0x42, 0xD1,
    0xA3, 0xCB, 0xC1, 0x87, 0x8C, 0x6F, 0x30, 0xCD, 0x07, 0x4C, 0xCE, 0x38, 0x5C, 0xDD, 0x70, 0xC7,
    0xF2, 0x34, 0xBC, 0x0E, 0x24, 0xC1, 0x19, 0x80, 0xFD, 0x12, 0x86, 0x31, 0x0C, 0xE3, 0x7B, 0x92,
    0x6E, 0x02, 0xFC, 0xD0, 0xFA, 0xA0, 0xBA, 0xF3, 0x8B, 0x29, 0x33, 0x85, 0x1D, 0x82, 0x45, 0x14};

static int open_mode(void *context, const uint8_t *bytes, uint32_t key_bits, int decrypt) {
    (void)key_bits;
    if (decrypt) {
        sm4_set_decrypt_key(context, bytes);
    } else {
        sm4_set_encrypt_key(context, bytes);
    }
    return 0;
}

/* Counter mode encrypts both ways. */
static int open_ctr(void *context, const uint8_t *bytes, uint32_t key_bits, int decrypt) {
    (void)decrypt;
    return open_mode(context, bytes, key_bits, 0);
}

static void close_context(void *context) {
    memset(context, 0, sizeof(struct sm4_key));
}

static uint32_t piece_at(const struct passage *p, uint32_t at) {
    uint32_t left = p->bytes - at;
    return p->piece != 0 && p->piece < left ? p->piece : left;
}

static int crypt_ecb(void *context, int decrypt, const struct passage *p) {
    (void)decrypt;
    for (uint32_t i = 0; i < p->bytes; i += piece_at(p, i)) {
        sm4_ecb(context, piece_at(p, i), p->in + i, p->out + i);
    }
    return 0;
}

static int crypt_cbc(void *context, int decrypt, const struct passage *p) {
    uint8_t chain[SM4_BLOCK_BYTES];
    memcpy(chain, p->iv, sizeof chain);
    for (uint32_t i = 0; i < p->bytes; i += piece_at(p, i)) {
        if (decrypt) {
            sm4_cbc_decrypt(context, piece_at(p, i), chain, p->in + i, p->out + i);
        } else {
            sm4_cbc_encrypt(context, piece_at(p, i), chain, p->in + i, p->out + i);
        }
    }
    return 0;
}

static int crypt_ctr(void *context, int decrypt, const struct passage *p) {
    (void)decrypt;
    struct sm4_ctr state = {.used = 0};
    memcpy(state.counter, p->iv, sizeof state.counter);
    for (uint32_t i = 0; i < p->bytes; i += piece_at(p, i)) {
        sm4_ctr(context, &state, piece_at(p, i), p->in + i, p->out + i);
    }
    return 0;
}

static int open_block(void *context, const uint8_t *bytes, uint32_t key_bits) {
    return open_mode(context, bytes, key_bits, 0);
}

static int encrypt_block(void *context, const uint8_t *in, uint8_t *out) {
    sm4_block(context, in, out);
    return 0;
}

static const struct block_cipher block = {.context_bytes = sizeof(struct sm4_key),
                                          .open = open_block,
                                          .encrypt = encrypt_block,
                                          .close = close_context};
static const struct mode ecb = {.context_bytes = sizeof(struct sm4_key),
                                .two_contexts = 1,
                                .unit = SM4_BLOCK_BYTES,
                                .piece_unit = SM4_BLOCK_BYTES,
                                .open = open_mode,
                                .crypt = crypt_ecb,
                                .close = close_context,
                                .reference = reference_ecb};
static const struct mode cbc = {.context_bytes = sizeof(struct sm4_key),
                                .two_contexts = 1,
                                .unit = SM4_BLOCK_BYTES,
                                .piece_unit = SM4_BLOCK_BYTES,
                                .open = open_mode,
                                .crypt = crypt_cbc,
                                .close = close_context,
                                .reference = reference_cbc};
static const struct mode ctr = {.context_bytes = sizeof(struct sm4_key),
                                .unit = 1,
                                .piece_unit = 1,
                                .open = open_ctr,
                                .crypt = crypt_ctr,
                                .close = close_context,
                                .reference = reference_ctr};

#define CIPHER(the_mode, the_iv, the_iv_bytes)                                                                     \
    {                                                                                                              \
        .mode = &(the_mode), .block = &block, .key = key, .iv = the_iv, .key_bits = 8u * SM4_KEY_BYTES,            \
        .iv_bytes = the_iv_bytes                                                                                   \
    }
static const struct cipher sm4_ecb_cipher = CIPHER(ecb, NULL, 0);
static const struct cipher sm4_cbc_cipher = CIPHER(cbc, iv, sizeof iv);
static const struct cipher sm4_ctr_cipher = CIPHER(ctr, iv, sizeof iv);

#define VECTOR(the_mode, the_iv, the_iv_bytes, plaintext, ciphertext)                                              \
    {                                                                                                              \
        .mode = &(the_mode), .key = key, .iv = the_iv, .plain = plaintext, .cipher = ciphertext,                   \
        .key_bits = 8u * SM4_KEY_BYTES, .iv_bytes = the_iv_bytes, .bytes = sizeof(ciphertext)                      \
    }
static const struct cipher_vector vector_ecb = VECTOR(ecb, NULL, 0, key, ecb_cipher);
static const struct cipher_vector vector_cbc = VECTOR(cbc, iv, sizeof iv, cbc_plain, cbc_cipher);
static const struct cipher_vector vector_ctr = VECTOR(ctr, iv, sizeof iv, ctr_plain, ctr_cipher);

CIPHER_OPERATIONS(sm4_ecb, "sm4-ecb", &sm4_ecb_cipher, &vector_ecb);
CIPHER_OPERATIONS(sm4_cbc, "sm4-cbc", &sm4_cbc_cipher, &vector_cbc);
CIPHER_OPERATIONS(sm4_ctr, "sm4-ctr", &sm4_ctr_cipher, &vector_ctr);
