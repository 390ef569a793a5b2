/* How a block cipher's mode is measured: buffers, directions, pieces, known answers and the check are here; a mode
 * gives the library's calls. Two buffers hold a message of any length: the plaintext, and the ciphertext with its tag.
 * Encrypting goes from the first to the second, decrypting back. */
#ifndef CIPHER_H
#define CIPHER_H

#include "operation.h"

#define CIPHER_BLOCK_BYTES 16u
#define CIPHER_TAG_BYTES 16u

/* One passage of a message through a mode. `in` and `out` do not overlap. A tag follows the ciphertext. */
struct passage {
    const uint8_t *in;
    uint8_t *out;
    uint32_t bytes; /* of the plaintext */
    uint32_t piece; /* 0: whole */
    const uint8_t *iv, *aad;
    uint8_t iv_bytes, aad_bytes, tag_bytes;
};

/* Length of the piece that begins at byte `at`. */
static inline uint32_t passage_piece(const struct passage *p, uint32_t at) {
    return piece_bytes(p->piece, p->bytes - at);
}

/* The block cipher behind the modes, encrypting one block: what references are made of. */
struct block_cipher {
    uint32_t context_bytes;
    int (*open)(void *context, const uint8_t *key, uint32_t key_bits);
    int (*encrypt)(void *context, const uint8_t *in, uint8_t *out);
    void (*close)(void *context);
};

struct mode {
    uint32_t context_bytes;
    uint8_t two_contexts; /* each direction has a key schedule of its own */
    uint8_t tag_bytes;    /* 0: no authentication */
    uint8_t unit;         /* a message is a multiple of so many bytes */
    uint8_t piece_unit;   /* and so is a piece; 0: the library takes the message whole */
    int (*open)(void *context, const uint8_t *key, uint32_t key_bits, int decrypt);
    int (*crypt)(void *context, int decrypt, const struct passage *p); /* a wrong tag is an error */
    void (*close)(void *context);
    /* The same encryption from single blocks, as the mode's standard writes it: see reference.h. */
    int (*reference)(const struct block_cipher *block, void *context, const struct passage *p);
};

/* An operation's detail: mode, key size and the fixed inputs. */
struct cipher {
    const struct mode *mode;
    const struct block_cipher *block;
    const uint8_t *key, *iv;
    uint16_t key_bits;
    uint8_t iv_bytes;
};

/* A self-test's detail. The ciphertext has its tag behind it. */
struct cipher_vector {
    const struct mode *mode;
    const uint8_t *key, *iv, *aad, *plain, *cipher;
    uint16_t key_bits;
    uint8_t iv_bytes, aad_bytes, bytes, tag_bytes;
};
#define CIPHER_VECTOR_BYTES_MAX 80u /* ciphertext with tag */

extern const struct kind kind_cipher; /* 64 bytes by default; key, piece and offset variants as the mode has them */
int cipher_step_encrypt(void);
int cipher_step_decrypt(void);
int cipher_step_both(void); /* encrypts, then decrypts */
int cipher_test_encrypt(const struct self_test *test);
int cipher_test_decrypt(const struct self_test *test);

/* The three operations and two self-tests of one cipher: CIPHER_OPERATIONS(aes_128_ecb, "aes-128-ecb", &cipher,
   &vector) defines op_aes_128_ecb, op_aes_128_ecb_encrypt and op_aes_128_ecb_decrypt. */
#define CIPHER_OPERATIONS(symbol, text, the_cipher, the_vector)                                                        \
    static uint8_t passed_##symbol[2];                                                                                 \
    static const struct self_test test_##symbol##_encrypt = {text ".encrypt", cipher_test_encrypt, the_vector, 1,      \
                                                             &passed_##symbol[0]};                                     \
    static const struct self_test test_##symbol##_decrypt = {text ".decrypt", cipher_test_decrypt, the_vector, 1,      \
                                                             &passed_##symbol[1]};                                     \
    static const struct self_test *const tests_##symbol[] = {&test_##symbol##_encrypt, &test_##symbol##_decrypt, NULL};\
    static const struct self_test *const tests_##symbol##_encrypt[] = {&test_##symbol##_encrypt, NULL};                \
    const struct operation op_##symbol##_encrypt = {text ".encrypt", &kind_cipher, tests_##symbol##_encrypt,           \
                                                    cipher_step_encrypt, the_cipher};                                  \
    const struct operation op_##symbol##_decrypt = {text ".decrypt", &kind_cipher, tests_##symbol + 1,                 \
                                                    cipher_step_decrypt, the_cipher};                                  \
    const struct operation op_##symbol = {text, &kind_cipher, tests_##symbol, cipher_step_both, the_cipher}

#endif
