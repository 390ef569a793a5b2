/* ecdsa-p256: key generation, deterministic signature, verification, and these one behind the other. The curve is
   loaded in `prepare`; signature and verification take a digest, so no hashing of a message lies in the window. */
#include <string.h>

#include "mbedtls/ecdsa.h"
#include "operation.h"
#include "random.h"
#include "workspace.h"

#define N 32

/* RFC 6979 A.2.5, P-256: key pair; SHA-256 of "sample"; its signature with SHA-256. */
static const uint8_t vector_d[N] = {0xC9, 0xAF, 0xA9, 0xD8, 0x45, 0xBA, 0x75, 0x16, 0x6B, 0x5C, 0x21,
                                    0x57, 0x67, 0xB1, 0xD6, 0x93, 0x4E, 0x50, 0xC3, 0xDB, 0x36, 0xE8,
                                    0x9B, 0x12, 0x7B, 0x8A, 0x62, 0x2B, 0x12, 0x0F, 0x67, 0x21};
static const uint8_t vector_q[2 * N] = {
    0x60, 0xFE, 0xD4, 0xBA, 0x25, 0x5A, 0x9D, 0x31, 0xC9, 0x61, 0xEB, 0x74, 0xC6, 0x35, 0x6D, 0x68,
    0xC0, 0x49, 0xB8, 0x92, 0x3B, 0x61, 0xFA, 0x6C, 0xE6, 0x69, 0x62, 0x2E, 0x60, 0xF2, 0x9F, 0xB6,
    0x79, 0x03, 0xFE, 0x10, 0x08, 0xB8, 0xBC, 0x99, 0xA4, 0x1A, 0xE9, 0xE9, 0x56, 0x28, 0xBC, 0x64,
    0xF2, 0xF1, 0xB2, 0x0C, 0x2D, 0x7E, 0x9F, 0x51, 0x77, 0xA3, 0xC2, 0x94, 0xD4, 0x46, 0x22, 0x99};
static const uint8_t vector_digest[N] = {0xAF, 0x2B, 0xDB, 0xE1, 0xAA, 0x9B, 0x6E, 0xC1, 0xE2, 0xAD, 0xE1,
                                         0xD6, 0x94, 0xF4, 0x1F, 0xC7, 0x1A, 0x83, 0x1D, 0x02, 0x68, 0xE9,
                                         0x89, 0x15, 0x62, 0x11, 0x3D, 0x8A, 0x62, 0xAD, 0xD1, 0xBF};
static const uint8_t vector_signature[2 * N] = {
    0xEF, 0xD4, 0x8B, 0x2A, 0xAC, 0xB6, 0xA8, 0xFD, 0x11, 0x40, 0xDD, 0x9C, 0xD4, 0x5E, 0x81, 0xD6,
    0x9D, 0x2C, 0x87, 0x7B, 0x56, 0xAA, 0xF9, 0x91, 0xC3, 0x4D, 0x0E, 0xA8, 0x4E, 0xAF, 0x37, 0x16,
    0xF7, 0xCB, 0x1C, 0x94, 0x2D, 0x65, 0x7C, 0x41, 0xD4, 0x36, 0xC7, 0xA1, 0xB6, 0xE2, 0x9F, 0x65,
    0xF3, 0xE9, 0x00, 0xDB, 0xB9, 0xAF, 0xF4, 0x06, 0x4D, 0xC4, 0xAB, 0x2F, 0x84, 0x3A, 0xCD, 0xA8};

static struct {
    mbedtls_ecp_group group;
    mbedtls_mpi d, r, s;
    mbedtls_ecp_point q;
    int verdict;
    uint8_t out[4 * N];
} *state;

/* Curve, key pair and signature of the vector. */
static int load(void) {
    state = workspace_state(sizeof *state);
    if (state == NULL) {
        return MBEDTLS_ERR_ECP_ALLOC_FAILED;
    }
    mbedtls_ecp_group_init(&state->group);
    mbedtls_mpi_init(&state->d);
    mbedtls_mpi_init(&state->r);
    mbedtls_mpi_init(&state->s);
    mbedtls_ecp_point_init(&state->q);
    int status = mbedtls_ecp_group_load(&state->group, MBEDTLS_ECP_DP_SECP256R1);
    status = status ? status : mbedtls_mpi_read_binary(&state->d, vector_d, N);
    status = status ? status : mbedtls_mpi_read_binary(&state->r, vector_signature, N);
    status = status ? status : mbedtls_mpi_read_binary(&state->s, vector_signature + N, N);
    status = status ? status : mbedtls_mpi_read_binary(&state->q.X, vector_q, N);
    status = status ? status : mbedtls_mpi_read_binary(&state->q.Y, vector_q + N, N);
    return status ? status : mbedtls_mpi_lset(&state->q.Z, 1);
}

static int prepare(const struct operation *op, const struct request *request) {
    (void)op;
    (void)request;
    return load();
}

/* All that is held lies in the workspace and on the heap, which start anew. */
static void release(void) {
}

static void put_pair(uint8_t *out, const mbedtls_mpi *first, const mbedtls_mpi *second) {
    if (mbedtls_mpi_write_binary(first, out, N) != 0 || mbedtls_mpi_write_binary(second, out + N, N) != 0) {
        memset(out, 0, 2 * N);
    }
}

/* Key generation: a new key each time. */
static void arm_keygen(void) {
    mbedtls_mpi_free(&state->d);
    mbedtls_ecp_point_free(&state->q);
}

static int step_keygen(void) {
    return mbedtls_ecp_gen_keypair(&state->group, &state->d, &state->q, random_bytes, NULL);
}

static const uint8_t *output_keygen(size_t *n) {
    put_pair(state->out, &state->q.X, &state->q.Y);
    *n = 2 * N;
    return state->out;
}

/* The public key lies on the curve and is d G, computed again with other blinding. */
static int check_keygen(void) {
    mbedtls_ecp_point again;
    mbedtls_ecp_point_init(&again);
    int status = mbedtls_ecp_check_pubkey(&state->group, &state->q);
    status = status ? status
                    : mbedtls_ecp_mul(&state->group, &again, &state->d, &state->group.G, random_bytes, NULL);
    status = status ? status : mbedtls_ecp_point_cmp(&state->q, &again);
    mbedtls_ecp_point_free(&again);
    return status;
}

/* Signature: RFC 6979, so the result is known; blinding comes from the pseudo-random generator. */
static void arm_sign(void) {
    mbedtls_mpi_free(&state->r);
    mbedtls_mpi_free(&state->s);
}

static int step_sign(void) {
    return mbedtls_ecdsa_sign_det_ext(&state->group, &state->r, &state->s, &state->d, vector_digest, N,
                                      MBEDTLS_MD_SHA256, random_bytes, NULL);
}

static const uint8_t *output_sign(size_t *n) {
    put_pair(state->out, &state->r, &state->s);
    *n = 2 * N;
    return state->out;
}

static int check_sign(void) {
    size_t n;
    return memcmp(output_sign(&n), vector_signature, sizeof vector_signature) != 0;
}

/* Verification is not blinded: nothing in it is secret. */
static void arm_verify(void) {
    state->verdict = -1;
}

static int step_verify(void) {
    state->verdict = mbedtls_ecdsa_verify(&state->group, vector_digest, N, &state->q, &state->r, &state->s);
    return state->verdict;
}

static const uint8_t *output_verify(size_t *n) {
    *n = 1;
    state->out[0] = state->verdict != 0;
    return state->out;
}

static int check_verify(void) {
    return state->verdict != 0;
}

/* Signature, then its verification: the output is the signature. */
static void arm_both(void) {
    arm_sign();
    arm_verify();
}

static int step_both(void) {
    int status = step_sign();
    return status ? status : step_verify();
}

static int check_both(void) {
    return check_sign() | check_verify();
}

/* New key, signature with it, verification: the output is the public key, then the signature. */
static void arm_full(void) {
    arm_keygen();
    arm_both();
}

static int step_full(void) {
    int status = step_keygen();
    return status ? status : step_both();
}

static const uint8_t *output_full(size_t *n) {
    put_pair(state->out, &state->q.X, &state->q.Y);
    put_pair(state->out + 2 * N, &state->r, &state->s);
    *n = 4 * N;
    return state->out;
}

static int check_full(void) {
    int status = check_keygen();
    return status ? status : check_verify();
}

/* Hands out the vector's d as the first 32 random bytes. */
static int vector_then_random(void *used, unsigned char *bytes, size_t n) {
    if (!*(int *)used && n == N) {
        *(int *)used = 1;
        memcpy(bytes, vector_d, N);
        return 0;
    }
    return random_bytes(NULL, bytes, n);
}

static int known_keygen(const struct self_test *test) {
    (void)test;
    size_t n;
    int used = 0;
    if (load() != 0) {
        return 1;
    }
    arm_keygen();
    return mbedtls_ecp_gen_keypair(&state->group, &state->d, &state->q, vector_then_random, &used) != 0 ||
           memcmp(output_keygen(&n), vector_q, sizeof vector_q) != 0;
}

static int known_sign(const struct self_test *test) {
    (void)test;
    if (load() != 0) {
        return 1;
    }
    arm_sign();
    return step_sign() != 0 || check_sign() != 0;
}

/* The vector's signature, and the refusal of the same signature over another digest. */
static int known_verify(const struct self_test *test) {
    (void)test;
    uint8_t tampered[N];
    if (load() != 0 || step_verify() != 0) {
        return 1;
    }
    memcpy(tampered, vector_digest, N);
    tampered[N - 1] ^= 1u;
    return mbedtls_ecdsa_verify(&state->group, tampered, N, &state->q, &state->r, &state->s) !=
           MBEDTLS_ERR_ECP_VERIFY_FAILED;
}

static uint8_t keygen_passed, sign_passed, verify_passed;
static const struct self_test self_keygen = {"ecdsa-p256.keygen, RFC 6979 A.2.5 key", known_keygen, NULL, 1,
                                             &keygen_passed};
static const struct self_test self_sign = {"ecdsa-p256.sign, RFC 6979 A.2.5 sample", known_sign, NULL, 1,
                                           &sign_passed};
static const struct self_test self_verify = {"ecdsa-p256.verify, RFC 6979 A.2.5 sample", known_verify, NULL, 2,
                                             &verify_passed};
static const struct self_test *const tests_keygen[] = {&self_keygen, NULL};
static const struct self_test *const tests_sign[] = {&self_sign, NULL};
static const struct self_test *const tests_verify[] = {&self_verify, NULL};
static const struct self_test *const tests_both[] = {&self_sign, &self_verify, NULL};
static const struct self_test *const tests_full[] = {&self_keygen, &self_sign, &self_verify, NULL};

#define KIND(what, made)                                                                                           \
    static const struct kind kind_##what = {.prepare = prepare, .arm = arm_##what, .check = check_##what,          \
                                            .output = output_##made, .release = release}
KIND(keygen, keygen);
KIND(sign, sign);
KIND(verify, verify);
KIND(both, sign);
KIND(full, full);
const struct operation op_ecdsa_p256_keygen = {"ecdsa-p256.keygen", &kind_keygen, tests_keygen, step_keygen, NULL};
const struct operation op_ecdsa_p256_sign = {"ecdsa-p256.sign", &kind_sign, tests_sign, step_sign, NULL};
const struct operation op_ecdsa_p256_verify = {"ecdsa-p256.verify", &kind_verify, tests_verify, step_verify, NULL};
const struct operation op_ecdsa_p256 = {"ecdsa-p256", &kind_both, tests_both, step_both, NULL};
const struct operation op_ecdsa_p256_full = {"ecdsa-p256.full", &kind_full, tests_full, step_full, NULL};
