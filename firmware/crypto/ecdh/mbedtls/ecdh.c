/* ecdh-p256, ecdh-curve25519: the public key of a given private key, the shared secret with a given peer, and both.
   Curve and keys are loaded in `prepare`; whether the peer's point lies on the curve is tested in the window. */
#include "mbedtls/ecdh.h"

#include <string.h>

#include "operation.h"
#include "random.h"
#include "workspace.h"

#define N 32

/* Two key pairs and the secret that they share, as they go over a wire: numbers of P-256 with the first byte most
   significant, its points as 4, x, y (SEC 1, 2.3.3); those of Curve25519 with the first byte least significant, its
   points as x (RFC 7748, 5). */
struct curve {
    mbedtls_ecp_group_id id;
    uint8_t n_point_bytes;
    uint8_t private_key[N], public_key[1 + 2 * N], peer_private[N], peer_public[1 + 2 * N], shared[N];
};

/* RFC 5903, 8.1: initiator, responder. */
static const struct curve p256 = {
    .id = MBEDTLS_ECP_DP_SECP256R1,
    .n_point_bytes = 1 + 2 * N,
    .private_key =
        {0xC8, 0x8F, 0x01, 0xF5, 0x10, 0xD9, 0xAC, 0x3F, 0x70, 0xA2, 0x92, 0xDA, 0xA2, 0x31, 0x6D, 0xE5,
         0x44, 0xE9, 0xAA, 0xB8, 0xAF, 0xE8, 0x40, 0x49, 0xC6, 0x2A, 0x9C, 0x57, 0x86, 0x2D, 0x14, 0x33},
    .public_key =
        {0x04,
         0xDA, 0xD0, 0xB6, 0x53, 0x94, 0x22, 0x1C, 0xF9, 0xB0, 0x51, 0xE1, 0xFE, 0xCA, 0x57, 0x87, 0xD0,
         0x98, 0xDF, 0xE6, 0x37, 0xFC, 0x90, 0xB9, 0xEF, 0x94, 0x5D, 0x0C, 0x37, 0x72, 0x58, 0x11, 0x80,
         0x52, 0x71, 0xA0, 0x46, 0x1C, 0xDB, 0x82, 0x52, 0xD6, 0x1F, 0x1C, 0x45, 0x6F, 0xA3, 0xE5, 0x9A,
         0xB1, 0xF4, 0x5B, 0x33, 0xAC, 0xCF, 0x5F, 0x58, 0x38, 0x9E, 0x05, 0x77, 0xB8, 0x99, 0x0B, 0xB3},
    .peer_private =
        {0xC6, 0xEF, 0x9C, 0x5D, 0x78, 0xAE, 0x01, 0x2A, 0x01, 0x11, 0x64, 0xAC, 0xB3, 0x97, 0xCE, 0x20,
         0x88, 0x68, 0x5D, 0x8F, 0x06, 0xBF, 0x9B, 0xE0, 0xB2, 0x83, 0xAB, 0x46, 0x47, 0x6B, 0xEE, 0x53},
    .peer_public =
        {0x04,
         0xD1, 0x2D, 0xFB, 0x52, 0x89, 0xC8, 0xD4, 0xF8, 0x12, 0x08, 0xB7, 0x02, 0x70, 0x39, 0x8C, 0x34,
         0x22, 0x96, 0x97, 0x0A, 0x0B, 0xCC, 0xB7, 0x4C, 0x73, 0x6F, 0xC7, 0x55, 0x44, 0x94, 0xBF, 0x63,
         0x56, 0xFB, 0xF3, 0xCA, 0x36, 0x6C, 0xC2, 0x3E, 0x81, 0x57, 0x85, 0x4C, 0x13, 0xC5, 0x8D, 0x6A,
         0xAC, 0x23, 0xF0, 0x46, 0xAD, 0xA3, 0x0F, 0x83, 0x53, 0xE7, 0x4F, 0x33, 0x03, 0x98, 0x72, 0xAB},
    .shared =
        {0xD6, 0x84, 0x0F, 0x6B, 0x42, 0xF6, 0xED, 0xAF, 0xD1, 0x31, 0x16, 0xE0, 0xE1, 0x25, 0x65, 0x20,
         0x2F, 0xEF, 0x8E, 0x9E, 0xCE, 0x7D, 0xCE, 0x03, 0x81, 0x24, 0x64, 0xD0, 0x4B, 0x94, 0x42, 0xDE},
};

/* RFC 7748, 6.1: Alice, Bob. */
static const struct curve curve25519 = {
    .id = MBEDTLS_ECP_DP_CURVE25519,
    .n_point_bytes = N,
    .private_key =
        {0x77, 0x07, 0x6D, 0x0A, 0x73, 0x18, 0xA5, 0x7D, 0x3C, 0x16, 0xC1, 0x72, 0x51, 0xB2, 0x66, 0x45,
         0xDF, 0x4C, 0x2F, 0x87, 0xEB, 0xC0, 0x99, 0x2A, 0xB1, 0x77, 0xFB, 0xA5, 0x1D, 0xB9, 0x2C, 0x2A},
    .public_key =
        {0x85, 0x20, 0xF0, 0x09, 0x89, 0x30, 0xA7, 0x54, 0x74, 0x8B, 0x7D, 0xDC, 0xB4, 0x3E, 0xF7, 0x5A,
         0x0D, 0xBF, 0x3A, 0x0D, 0x26, 0x38, 0x1A, 0xF4, 0xEB, 0xA4, 0xA9, 0x8E, 0xAA, 0x9B, 0x4E, 0x6A},
    .peer_private =
        {0x5D, 0xAB, 0x08, 0x7E, 0x62, 0x4A, 0x8A, 0x4B, 0x79, 0xE1, 0x7F, 0x8B, 0x83, 0x80, 0x0E, 0xE6,
         0x6F, 0x3B, 0xB1, 0x29, 0x26, 0x18, 0xB6, 0xFD, 0x1C, 0x2F, 0x8B, 0x27, 0xFF, 0x88, 0xE0, 0xEB},
    .peer_public =
        {0xDE, 0x9E, 0xDB, 0x7D, 0x7B, 0x7D, 0xC1, 0xB4, 0xD3, 0x5B, 0x61, 0xC2, 0xEC, 0xE4, 0x35, 0x37,
         0x3F, 0x83, 0x43, 0xC8, 0x5B, 0x78, 0x67, 0x4D, 0xAD, 0xFC, 0x7E, 0x14, 0x6F, 0x88, 0x2B, 0x4F},
    .shared =
        {0x4A, 0x5D, 0x9D, 0x5B, 0xA4, 0xCE, 0x2D, 0xE1, 0x72, 0x8E, 0x3B, 0xF4, 0x80, 0x35, 0x0F, 0x25,
         0xE0, 0x7E, 0x21, 0xC9, 0x47, 0xD1, 0x9E, 0x33, 0x76, 0xF0, 0x9B, 0x3C, 0x1E, 0x16, 0x17, 0x42},
};

static struct {
    const struct curve *curve;
    mbedtls_ecp_keypair key;
    mbedtls_ecp_point peer;
    mbedtls_mpi shared;
    uint8_t out[1 + 3 * N];
} *state;

static int load(const struct curve *curve, const uint8_t *private_key, const uint8_t *peer) {
    state = workspace_state(sizeof *state);
    if (state == NULL) {
        return MBEDTLS_ERR_ECP_ALLOC_FAILED;
    }
    state->curve = curve;
    mbedtls_ecp_keypair_init(&state->key);
    mbedtls_ecp_point_init(&state->peer);
    mbedtls_mpi_init(&state->shared);
    /* Curve25519: with the bits of the private key set and cleared as RFC 7748, 5 says. */
    int status = mbedtls_ecp_read_key(curve->id, &state->key, private_key, N);
    return status ? status : mbedtls_ecp_point_read_binary(&state->key.grp, &state->peer, peer, curve->n_point_bytes);
}

static int prepare(const struct operation *op, const struct request *request) {
    (void)request;
    const struct curve *curve = op->detail;
    return load(curve, curve->private_key, curve->peer_public);
}

/* All that is held lies in the workspace and on the heap, which start anew. */
static void release(void) {
}

/* Public key: a base point multiplication, blinded. */
static void arm_public(void) {
    mbedtls_ecp_point_free(&state->key.Q);
}

static int step_public(void) {
    return mbedtls_ecp_mul(&state->key.grp, &state->key.Q, &state->key.d, &state->key.grp.G, random_bytes, NULL);
}

/* Coordinates alone, without the leading 4 of P-256. */
static const uint8_t *output_public(size_t *n) {
    size_t prefix = state->curve->n_point_bytes % N, n_written;
    *n = state->curve->n_point_bytes - prefix;
    if (mbedtls_ecp_point_write_binary(&state->key.grp, &state->key.Q, MBEDTLS_ECP_PF_UNCOMPRESSED, &n_written,
                                       state->out, state->curve->n_point_bytes) != 0) {
        memset(state->out, 0, state->curve->n_point_bytes);
    }
    return state->out + prefix;
}

static int check_public(void) {
    size_t n;
    const uint8_t *out = output_public(&n);
    return memcmp(out, state->curve->public_key + state->curve->n_point_bytes % N, n) != 0;
}

/* Shared secret: a multiplication of the peer's point, blinded. */
static void arm_shared(void) {
    mbedtls_mpi_free(&state->shared);
}

static int step_shared(void) {
    return mbedtls_ecdh_compute_shared(&state->key.grp, &state->shared, &state->peer, &state->key.d, random_bytes,
                                       NULL);
}

static void put_shared(uint8_t *out) {
    int status = state->curve->id == MBEDTLS_ECP_DP_CURVE25519 ? mbedtls_mpi_write_binary_le(&state->shared, out, N)
                                                               : mbedtls_mpi_write_binary(&state->shared, out, N);
    if (status != 0) {
        memset(out, 0, N);
    }
}

static const uint8_t *output_shared(size_t *n) {
    put_shared(state->out);
    *n = N;
    return state->out;
}

static int check_shared(void) {
    size_t n;
    return memcmp(output_shared(&n), state->curve->shared, N) != 0;
}

/* Both, as either side of an exchange does: the output is the public key, then the secret. */
static void arm_both(void) {
    arm_public();
    arm_shared();
}

static int step_both(void) {
    int status = step_public();
    return status ? status : step_shared();
}

static const uint8_t *output_both(size_t *n) {
    const uint8_t *out = output_public(n);
    put_shared(state->out + state->curve->n_point_bytes);
    *n += N;
    return out;
}

static int check_both(void) {
    return check_public() | check_shared();
}

static int known_public(const struct self_test *test) {
    const struct curve *curve = test->detail;
    if (load(curve, curve->private_key, curve->peer_public) != 0) {
        return 1;
    }
    return step_public() != 0 || check_public() != 0;
}

/* From the peer's side. */
static int known_shared(const struct self_test *test) {
    const struct curve *curve = test->detail;
    if (load(curve, curve->peer_private, curve->public_key) != 0) {
        return 1;
    }
    return step_shared() != 0 || check_shared() != 0;
}

#define KIND(what)                                                                                                 \
    static const struct kind kind_##what = {.prepare = prepare, .arm = arm_##what, .check = check_##what,          \
                                            .output = output_##what, .release = release}
KIND(public);
KIND(shared);
KIND(both);

#define OPERATIONS(curve, name, source)                                                                            \
    static uint8_t curve##_public_passed, curve##_shared_passed;                                                   \
    static const struct self_test curve##_public = {name ".public, " source, known_public, &curve, 1,              \
                                                    &curve##_public_passed};                                       \
    static const struct self_test curve##_shared = {name ".shared, " source, known_shared, &curve, 1,              \
                                                    &curve##_shared_passed};                                       \
    static const struct self_test *const curve##_tests_public[] = {&curve##_public, NULL};                         \
    static const struct self_test *const curve##_tests_shared[] = {&curve##_shared, NULL};                         \
    static const struct self_test *const curve##_tests_both[] = {&curve##_public, &curve##_shared, NULL};          \
    const struct operation op_ecdh_##curve##_public = {name ".public", &kind_public, curve##_tests_public,         \
                                                       step_public, &curve};                                       \
    const struct operation op_ecdh_##curve##_shared = {name ".shared", &kind_shared, curve##_tests_shared,         \
                                                       step_shared, &curve};                                       \
    const struct operation op_ecdh_##curve = {name, &kind_both, curve##_tests_both, step_both, &curve}
OPERATIONS(p256, "ecdh-p256", "RFC 5903 8.1");
OPERATIONS(curve25519, "ecdh-curve25519", "RFC 7748 6.1");
