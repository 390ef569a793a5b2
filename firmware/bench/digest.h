/* How a digest is measured: message, pieces, known answer and check are here; an algorithm gives the library's calls. */
#ifndef DIGEST_H
#define DIGEST_H

#include "operation.h"

#define DIGEST_BYTES_MAX 64u

/* An operation's detail, and that of its self-test. */
struct digest {
    uint32_t context_bytes, digest_bytes;
    int (*start)(void *context);
    int (*add)(void *context, const uint8_t *data, size_t n);
    int (*finish)(void *context, uint8_t *out);
    const uint8_t *abc; /* known answer: the digest of "abc" */
};

extern const struct kind kind_digest; /* 64 bytes by default; piece and offset variants */
int digest_step(void);
int digest_test(const struct self_test *test);

/* DIGEST_OPERATION(sha256, "sha256", &digest) defines op_sha256 with its self-test. */
#define DIGEST_OPERATION(symbol, text, the_digest)                                                          \
    static uint8_t passed_##symbol;                                                                         \
    static const struct self_test test_##symbol = {text, digest_test, the_digest, 1, &passed_##symbol};     \
    static const struct self_test *const tests_##symbol[] = {&test_##symbol, NULL};                         \
    const struct operation op_##symbol = {text, &kind_digest, tests_##symbol, digest_step, the_digest}

#endif
