/* sm3: the digest of the message, from start to finish. */
#include <string.h>

#include "digest.h"
#include "sm3.h"

/* GB/T 32905-2016: A.1, "abc"; A.2, "abcd" sixteen times, a block that is full before the padding. */
static const uint8_t abc[SM3_DIGEST_BYTES] = {0x66, 0xC7, 0xF0, 0xF4, 0x62, 0xEE, 0xED, 0xD9, 0xD1, 0xF2, 0xD4,
                                              0x6B, 0xDC, 0x10, 0xE4, 0xE2, 0x41, 0x67, 0xC4, 0x87, 0x5C, 0xF2,
                                              0xF7, 0xA2, 0x29, 0x7D, 0xA0, 0x2B, 0x8F, 0x4B, 0xA8, 0xE0};
static const uint8_t full_block[SM3_DIGEST_BYTES] = {
    0xDE, 0xBE, 0x9F, 0xF9, 0x22, 0x75, 0xB8, 0xA1, 0x38, 0x60, 0x48, 0x89, 0xC1, 0x8E, 0x5A, 0x4D,
    0x6F, 0xDB, 0x70, 0xE5, 0x38, 0x7E, 0x57, 0x65, 0x29, 0x3D, 0xCB, 0xA3, 0x9C, 0x0C, 0x57, 0x32};

static int start(void *context) {
    sm3_start(context);
    return 0;
}

static int add(void *context, const uint8_t *data, size_t n) {
    sm3_add(context, data, n);
    return 0;
}

static int finish(void *context, uint8_t *out) {
    sm3_finish(context, out);
    return 0;
}

static const struct digest sm3 = {.context_bytes = sizeof(struct sm3),
                                  .digest_bytes = SM3_DIGEST_BYTES,
                                  .start = start,
                                  .add = add,
                                  .finish = finish,
                                  .abc = abc};

static int known_answers(const struct self_test *test) {
    struct sm3 hash;
    uint8_t out[SM3_DIGEST_BYTES];
    if (digest_test(test) != 0) {
        return 1;
    }
    sm3_start(&hash);
    for (int i = 0; i < 16; i++) {
        sm3_add(&hash, (const uint8_t *)"abcd", 4);
    }
    sm3_finish(&hash, out);
    return memcmp(out, full_block, sizeof out) != 0;
}

static uint8_t passed;
static const struct self_test self_test = {"sm3", known_answers, &sm3, 2, &passed};
static const struct self_test *const tests[] = {&self_test, NULL};
const struct operation op_sm3 = {"sm3", &kind_digest, tests, digest_step, &sm3};
