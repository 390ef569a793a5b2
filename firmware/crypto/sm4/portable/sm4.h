/* SM4, the 128-bit block cipher of GB/T 32907-2016, and three of its modes. One S-box of 256 bytes and nothing else
   in tables: 32 rounds from the same few instructions. The S-box is looked up by secret bytes, so a cache or flash
   accelerator can make the time depend on them. */
#ifndef SM4_H
#define SM4_H

#include <stddef.h>
#include <stdint.h>

#define SM4_BLOCK_BYTES 16u
#define SM4_KEY_BYTES 16u

struct sm4_key {
    uint32_t round[32];
};

/* Round keys in the order of use: decryption is encryption with their order reversed. */
void sm4_set_encrypt_key(struct sm4_key *key, const uint8_t *bytes);
void sm4_set_decrypt_key(struct sm4_key *key, const uint8_t *bytes);

/* One block; `in` and `out` may be the same, at any alignment. */
void sm4_block(const struct sm4_key *key, const uint8_t *in, uint8_t *out);

/* Whole blocks: `n` is a multiple of 16. `chain` is the initial vector before the first call and what the next call
   needs after each, so that a message may come in pieces. */
void sm4_ecb(const struct sm4_key *key, size_t n, const uint8_t *in, uint8_t *out);
void sm4_cbc_encrypt(const struct sm4_key *key, size_t n, uint8_t *chain, const uint8_t *in, uint8_t *out);
void sm4_cbc_decrypt(const struct sm4_key *key, size_t n, uint8_t *chain, const uint8_t *in, uint8_t *out);

/* Counter mode, any number of bytes, both directions alike. The counter is one number of 128 bits, first byte most
   significant. `used` counts the bytes taken from `stream`: 0 before the first call. */
struct sm4_ctr {
    uint8_t counter[SM4_BLOCK_BYTES], stream[SM4_BLOCK_BYTES];
    uint32_t used;
};
void sm4_ctr(const struct sm4_key *key, struct sm4_ctr *state, size_t n, const uint8_t *in, uint8_t *out);

#endif
