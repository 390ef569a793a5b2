/* sha256: the digest of the message, from start to finish. */
#include "mbedtls/sha256.h"

#include <string.h>

#include "heap.h"
#include "operation.h"

/* NIST, FIPS 180 example "abc" (one block). */
static const uint8_t vector_digest[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                          0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                          0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
#define PIECE_BYTES 7u

static uint8_t *message;
static uint32_t n_bytes;
static uint8_t digest[32], expected[32];

static const char *known_answers(void) {
    uint8_t out[32];
    if (mbedtls_sha256_ret((const uint8_t *)"abc", 3, out, 0) != 0 || memcmp(out, vector_digest, 32) != 0) {
        return "sha256 abc, FIPS 180";
    }
    return NULL;
}

/* The expected digest, reached another way: the message in small pieces. */
static int expect(void) {
    mbedtls_sha256_context context;
    mbedtls_sha256_init(&context);
    int status = mbedtls_sha256_starts_ret(&context, 0);
    for (uint32_t i = 0; i < n_bytes && status == 0; i += PIECE_BYTES) {
        uint32_t left = n_bytes - i;
        status = mbedtls_sha256_update_ret(&context, message + i, left < PIECE_BYTES ? left : PIECE_BYTES);
    }
    if (status == 0) {
        status = mbedtls_sha256_finish_ret(&context, expected);
    }
    mbedtls_sha256_free(&context);
    return status;
}

static int prepare(uint32_t bytes) {
    n_bytes = bytes;
    message = heap_calloc(1, bytes);
    if (message == NULL) {
        return MBEDTLS_ERR_SHA256_BAD_INPUT_DATA;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        message[i] = message_byte(i);
    }
    return expect();
}

static void arm(void) {
    memset(digest, 0, sizeof digest);
}

static int step(void) {
    return mbedtls_sha256_ret(message, n_bytes, digest, 0);
}

static int check(void) {
    return memcmp(digest, expected, sizeof digest) != 0;
}

static const uint8_t *output(size_t *n) {
    *n = sizeof digest;
    return digest;
}

static void release(void) {
}

static int passed;
static const struct self_test self_test = {known_answers, 1, &passed};
const struct operation op_sha256 = {"sha256", &self_test, 64, prepare, arm, step, check, output, release};
