#include "digest.h"

#include <string.h>

#include "crc.h"
#include "workspace.h"

#define NO_MEMORY (-1)
/* Of the check, where the measured message goes whole: no divisor of any block. */
#define CHECK_PIECE_BYTES 7u

static const struct digest *digest;
static void *context;
static uint8_t *message;
static struct request request;
static uint8_t out[DIGEST_BYTES_MAX];
static uint32_t out_crc32;

static int compute(const struct digest *d, void *with, const uint8_t *data, const struct request *how) {
    int status = d->start(with);
    for (uint32_t i = 0, n; i < how->bytes; i += n) {
        n = piece_bytes(how->piece, how->bytes - i);
        status |= d->add(with, data + i, n);
    }
    return status | d->finish(with, out);
}

int digest_step(void) {
    return compute(digest, context, message, &request);
}

static void arm(void) {
    memset(out, 0, sizeof out);
}

/* The digest as it must be: cut another way than in the window. */
static int expect(void) {
    struct request other = request;
    other.piece = request.piece == 0 ? CHECK_PIECE_BYTES : 0;
    int status = compute(digest, context, message, &other);
    out_crc32 = crc32_add(0, out, digest->digest_bytes);
    return status;
}

static int prepare(const struct operation *op, const struct request *asked) {
    digest = op->detail;
    request = *asked;
    context = workspace_state(digest->context_bytes);
    message = workspace_buffer(request.bytes, request.offset);
    if (context == NULL || message == NULL) {
        return NO_MEMORY;
    }
    message_fill(message, request.bytes);
    return expect();
}

static int check(void) {
    return crc32_add(0, out, digest->digest_bytes) != out_crc32 || message_differs(message, request.bytes);
}

static const uint8_t *output(size_t *n) {
    *n = digest->digest_bytes;
    return out;
}

static void release(void) {
}

const struct kind kind_digest = {.bytes_default = 64,
                                 .takes = TAKES_PIECE | TAKES_OFFSET,
                                 .prepare = prepare,
                                 .arm = arm,
                                 .check = check,
                                 .output = output,
                                 .release = release};

int digest_test(const struct self_test *test) {
    const struct digest *d = test->detail;
    const struct request whole = {.bytes = 3};
    void *with = workspace_state(d->context_bytes);
    int status = with == NULL ? NO_MEMORY : compute(d, with, (const uint8_t *)"abc", &whole);
    return status != 0 || memcmp(out, d->abc, d->digest_bytes) != 0;
}
