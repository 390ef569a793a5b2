/* aes-128-ctr: the message encrypted, then decrypted. The key schedule is computed in `prepare`, outside the window. */
#include <string.h>

#include "crc.h"
#include "heap.h"
#include "mbedtls/aes.h"
#include "operation.h"

/* NIST SP 800-38A, F.5.1 CTR-AES128.Encrypt: key, initial counter, first two blocks. */
static const uint8_t key[16] = {0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6,
                                0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c};
static const uint8_t counter_start[16] = {0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7,
                                          0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff};
static const uint8_t vector_plain[32] = {0x6b, 0xc1, 0xbe, 0xe2, 0x2e, 0x40, 0x9f, 0x96, 0xe9, 0x3d, 0x7e,
                                         0x11, 0x73, 0x93, 0x17, 0x2a, 0xae, 0x2d, 0x8a, 0x57, 0x1e, 0x03,
                                         0xac, 0x9c, 0x9e, 0xb7, 0x6f, 0xac, 0x45, 0xaf, 0x8e, 0x51};
static const uint8_t vector_cipher[32] = {0x87, 0x4d, 0x61, 0x91, 0xb6, 0x20, 0xe3, 0x26, 0x1b, 0xef, 0x68,
                                          0x64, 0x99, 0x0d, 0xb6, 0xce, 0x98, 0x06, 0xf6, 0x6b, 0x79, 0x70,
                                          0xfd, 0xff, 0x86, 0x17, 0x18, 0x7b, 0xb9, 0xff, 0xfd, 0xff};

static mbedtls_aes_context context;
static uint8_t *plain, *cipher, *back;
static uint32_t n_bytes, cipher_crc32;

static int crypt(const uint8_t *in, uint8_t *out, size_t n) {
    uint8_t counter[16], stream[16];
    size_t offset = 0;
    memcpy(counter, counter_start, sizeof counter);
    return mbedtls_aes_crypt_ctr(&context, n, &offset, counter, stream, in, out);
}

static int set_key(void) {
    mbedtls_aes_init(&context);
    return mbedtls_aes_setkey_enc(&context, key, 128);
}

static const char *known_answers(void) {
    uint8_t out[32], again[32];
    if (set_key() != 0 || crypt(vector_plain, out, 32) != 0 || memcmp(out, vector_cipher, 32) != 0) {
        return "aes-128-ctr encrypt, SP 800-38A F.5.1";
    }
    if (crypt(vector_cipher, again, 32) != 0 || memcmp(again, vector_plain, 32) != 0) {
        return "aes-128-ctr decrypt, SP 800-38A F.5.2";
    }
    return NULL;
}

/* The expected ciphertext, reached another way: byte by byte through the streaming interface. */
static int expect_cipher(void) {
    uint8_t counter[16], stream[16];
    size_t offset = 0;
    int status = 0;
    memcpy(counter, counter_start, sizeof counter);
    cipher_crc32 = 0;
    for (uint32_t i = 0; i < n_bytes && status == 0; i++) {
        uint8_t byte;
        status = mbedtls_aes_crypt_ctr(&context, 1, &offset, counter, stream, plain + i, &byte);
        cipher_crc32 = crc32_add(cipher_crc32, &byte, 1);
    }
    return status;
}

static int prepare(uint32_t bytes) {
    n_bytes = bytes;
    plain = heap_calloc(1, bytes);
    cipher = heap_calloc(1, bytes);
    back = heap_calloc(1, bytes);
    if (plain == NULL || cipher == NULL || back == NULL) {
        return MBEDTLS_ERR_AES_BAD_INPUT_DATA;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        plain[i] = message_byte(i);
    }
    int status = set_key();
    return status != 0 ? status : expect_cipher();
}

static void arm(void) {
    memset(cipher, 0, n_bytes);
    memset(back, 0, n_bytes);
}

static int step(void) {
    int status = crypt(plain, cipher, n_bytes);
    return status | crypt(cipher, back, n_bytes);
}

static int check(void) {
    return crc32_add(0, cipher, n_bytes) != cipher_crc32 || memcmp(back, plain, n_bytes) != 0;
}

static const uint8_t *output(size_t *n) {
    *n = n_bytes;
    return back;
}

static void release(void) {
    mbedtls_aes_free(&context);
}

static int passed;
static const struct self_test self_test = {known_answers, 2, &passed};
const struct operation op_aes_128_ctr = {"aes-128-ctr", &self_test, 64, prepare, arm, step, check, output, release};
