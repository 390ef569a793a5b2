/* SM3, the 256-bit hash function of GB/T 32905-2016. Sixteen words of message schedule, no tables. */
#ifndef SM3_H
#define SM3_H

#include <stddef.h>
#include <stdint.h>

#define SM3_DIGEST_BYTES 32u
#define SM3_BLOCK_BYTES 64u

struct sm3 {
    uint32_t state[8];
    uint64_t n_bytes; /* taken so far */
    uint8_t block[SM3_BLOCK_BYTES];
};

void sm3_start(struct sm3 *hash);
void sm3_add(struct sm3 *hash, const uint8_t *bytes, size_t n);
void sm3_finish(struct sm3 *hash, uint8_t *digest);

#endif
