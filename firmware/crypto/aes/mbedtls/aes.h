/* What the modes of AES share. */
#ifndef AES_H
#define AES_H

#include "cipher.h"

extern const struct block_cipher aes_block;
/* SP 800-38A appendix F. The measured operations use these keys in every mode. */
extern const uint8_t aes_key_128[16], aes_key_192[24], aes_key_256[32];

/* The operations of one mode and key size, aes-BITS-MODE, with the vectors vector_MODE_BITS and the mode `MODE`. */
#define AES_OPERATIONS(mode, bits, iv, iv_bytes)                                                                  \
    static const struct cipher cipher_##mode##_##bits = {&mode, &aes_block, aes_key_##bits, iv, bits, iv_bytes}; \
    CIPHER_OPERATIONS(aes_##bits##_##mode, "aes-" #bits "-" #mode, &cipher_##mode##_##bits, &vector_##mode##_##bits)

#endif
