/* drbg: HMAC_DRBG with SHA-256 (SP 800-90A), `bytes` of output a time. Instantiated in `arm`, outside the window, so that
   each window gives the same output; with the key inside, in each iteration. */
#include <string.h>

#include "crc.h"
#include "mbedtls/hmac_drbg.h"
#include "mbedtls/sha256.h"
#include "operation.h"
#include "workspace.h"

#define NO_MEMORY (-1)
#define N 32u

/* NIST CAVP, DRBG test vectors, HMAC_DRBG without prediction resistance and reseeding, SHA-256, no personalisation and
   additional input, COUNT 0: entropy and nonce; the second request of 128 bytes. Operations use the same seed. */
static const uint8_t seed[48] = {
    0xca, 0x85, 0x19, 0x11, 0x34, 0x93, 0x84, 0xbf, 0xfe, 0x89, 0xde, 0x1c, 0xbd, 0xc4, 0x6e, 0x68,
    0x31, 0xe4, 0x4d, 0x34, 0xa4, 0xfb, 0x93, 0x5e, 0xe2, 0x85, 0xdd, 0x14, 0xb7, 0x1a, 0x74, 0x88,
    0x65, 0x9b, 0xa9, 0x6c, 0x60, 0x1d, 0xc6, 0x9f, 0xc9, 0x02, 0x94, 0x08, 0x05, 0xec, 0x0c, 0xa8,
};
static const uint8_t second_request[128] = {
    0xe5, 0x28, 0xe9, 0xab, 0xf2, 0xde, 0xce, 0x54, 0xd4, 0x7c, 0x7e, 0x75, 0xe5, 0xfe, 0x30, 0x21,
    0x49, 0xf8, 0x17, 0xea, 0x9f, 0xb4, 0xbe, 0xe6, 0xf4, 0x19, 0x96, 0x97, 0xd0, 0x4d, 0x5b, 0x89,
    0xd5, 0x4f, 0xbb, 0x97, 0x8a, 0x15, 0xb5, 0xc4, 0x43, 0xc9, 0xec, 0x21, 0x03, 0x6d, 0x24, 0x60,
    0xb6, 0xf7, 0x3e, 0xba, 0xd0, 0xdc, 0x2a, 0xba, 0x6e, 0x62, 0x4a, 0xbf, 0x07, 0x74, 0x5b, 0xc1,
    0x07, 0x69, 0x4b, 0xb7, 0x54, 0x7b, 0xb0, 0x99, 0x5f, 0x70, 0xde, 0x25, 0xd6, 0xb2, 0x9e, 0x2d,
    0x30, 0x11, 0xbb, 0x19, 0xd2, 0x76, 0x76, 0xc0, 0x71, 0x62, 0xc8, 0xb5, 0xcc, 0xde, 0x06, 0x68,
    0x96, 0x1d, 0xf8, 0x68, 0x03, 0x48, 0x2c, 0xb3, 0x7e, 0xd6, 0xd5, 0xc0, 0xbb, 0x8d, 0x50, 0xcf,
    0x1f, 0x50, 0xd4, 0x76, 0xaa, 0x04, 0x58, 0xbd, 0xab, 0xa8, 0x06, 0xf4, 0x8b, 0xe9, 0xdc, 0xb8,
};

static mbedtls_hmac_drbg_context *context;
static struct request request;
static uint8_t *out;
static uint32_t n_steps, crc32_first, crc32_last;

static int instantiate(void) {
    mbedtls_hmac_drbg_init(context);
    return mbedtls_hmac_drbg_seed_buf(context, mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), seed, sizeof seed);
}

/* One request of the generator takes so many bytes at most. */
static uint32_t request_bytes(uint32_t left) {
    uint32_t n = piece_bytes(request.piece, left);
    return n < MBEDTLS_HMAC_DRBG_MAX_REQUEST ? n : MBEDTLS_HMAC_DRBG_MAX_REQUEST;
}

static int generate(void) {
    int status = 0;
    for (uint32_t i = 0, n; i < request.bytes; i += n) {
        n = request_bytes(request.bytes - i);
        status |= mbedtls_hmac_drbg_random(context, out + i, n);
    }
    return status;
}

static int step(void) {
    n_steps++;
    if (!request.key_inside) {
        return generate();
    }
    int status = instantiate();
    status = status ? status : generate();
    mbedtls_hmac_drbg_free(context);
    return status;
}

/* The same generator once more, on the bare hash function: SP 800-90A 10.1.2, FIPS 198-1. */
struct reference {
    uint8_t key[N], value[N];
};

static int reference_hmac(const uint8_t *key, const uint8_t *text, size_t n, uint8_t *mac) {
    uint8_t pad[2u * N], inner[N]; /* the result may go where the key is */
    mbedtls_sha256_context sha;
    int status = 0;
    for (int outer = 0; outer < 2; outer++) {
        memset(pad, outer ? 0x5C : 0x36, sizeof pad);
        for (uint32_t i = 0; i < N; i++) {
            pad[i] ^= key[i];
        }
        mbedtls_sha256_init(&sha);
        status |= mbedtls_sha256_starts_ret(&sha, 0);
        status |= mbedtls_sha256_update_ret(&sha, pad, sizeof pad);
        status |= mbedtls_sha256_update_ret(&sha, outer ? inner : text, outer ? N : n);
        status |= mbedtls_sha256_finish_ret(&sha, outer ? mac : inner);
    }
    return status;
}

static int reference_update(struct reference *r, const uint8_t *data, uint32_t n) {
    uint8_t text[N + 1u + sizeof seed];
    int status = 0;
    for (uint8_t round = 0; round < (n ? 2 : 1); round++) {
        memcpy(text, r->value, N);
        text[N] = round;
        memcpy(text + N + 1u, data, n);
        status |= reference_hmac(r->key, text, N + 1u + n, r->key);
        status |= reference_hmac(r->key, r->value, N, r->value);
    }
    return status;
}

static int reference_generate(struct reference *r) {
    int status = 0;
    for (uint32_t i = 0, n; i < request.bytes; i += n) {
        n = request_bytes(request.bytes - i);
        for (uint32_t k = 0; k < n; k += N) {
            status |= reference_hmac(r->key, r->value, N, r->value);
            memcpy(out + i + k, r->value, n - k < N ? n - k : N);
        }
        status |= reference_update(r, seed, 0);
    }
    return status;
}

/* The outputs of the warm-up's one iteration and of a window's last. */
static int expect(void) {
    struct reference r;
    memset(r.key, 0, N);
    memset(r.value, 1, N);
    int status = reference_update(&r, seed, sizeof seed);
    status |= reference_generate(&r);
    crc32_first = crc32_last = crc32_add(0, out, request.bytes);
    for (uint32_t i = 1; i < request.n && !request.key_inside; i++) {
        status |= reference_generate(&r);
        crc32_last = crc32_add(0, out, request.bytes);
    }
    return status;
}

static void release(void) {
    if (context != NULL) {
        mbedtls_hmac_drbg_free(context);
    }
    context = NULL;
}

static int prepare(const struct operation *op, const struct request *asked) {
    (void)op;
    request = *asked;
    context = workspace_state(sizeof *context);
    out = workspace_buffer(request.bytes, request.offset);
    if (context == NULL || out == NULL) {
        context = NULL;
        return NO_MEMORY;
    }
    int status = expect();
    /* Once here, so that a lack of memory shows, and what it holds counts as prepared. */
    return status || request.key_inside ? status : instantiate();
}

static void arm(void) {
    n_steps = 0;
    memset(out, 0, request.bytes);
    if (!request.key_inside) {
        mbedtls_hmac_drbg_free(context);
        (void)instantiate();
    }
}

static int check(void) {
    return crc32_add(0, out, request.bytes) != (n_steps == 1 ? crc32_first : crc32_last);
}

static const uint8_t *output(size_t *n) {
    *n = request.bytes;
    return out;
}

static int known_answer(const struct self_test *test) {
    (void)test;
    request = (struct request){.bytes = sizeof second_request};
    context = workspace_state(sizeof *context);
    out = workspace_buffer(sizeof second_request, 0);
    if (context == NULL || out == NULL || instantiate() != 0) {
        return NO_MEMORY;
    }
    int status = generate();
    status |= generate();
    status |= memcmp(out, second_request, sizeof second_request);
    release();
    return status;
}

static uint8_t passed;
static const struct self_test self_test = {"drbg", known_answer, NULL, 1, &passed};
static const struct self_test *const tests[] = {&self_test, NULL};
static const struct kind kind_drbg = {.bytes_default = 64,
                                      .takes = TAKES_KEY | TAKES_PIECE | TAKES_OFFSET,
                                      .prepare = prepare,
                                      .arm = arm,
                                      .check = check,
                                      .output = output,
                                      .release = release};
const struct operation op_drbg = {"drbg", &kind_drbg, tests, step, NULL};
