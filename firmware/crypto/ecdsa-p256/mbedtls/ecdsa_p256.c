/* ecdsa-p256: key generation, deterministic signature, verification. The curve is loaded in `prepare`; signature and
   verification take a digest, so no hashing of a message lies in the window. */
#include <string.h>

#include "mbedtls/ecdsa.h"
#include "operation.h"
#include "random.h"

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

static mbedtls_ecp_group group;
static mbedtls_mpi d, r, s;
static mbedtls_ecp_point q;
static int verdict;
static uint8_t out[2 * N];

static void release(void) {
    mbedtls_ecp_group_free(&group);
    mbedtls_mpi_free(&d);
    mbedtls_mpi_free(&r);
    mbedtls_mpi_free(&s);
    mbedtls_ecp_point_free(&q);
}

/* Starts anew on an empty heap: curve, key pair and signature of the vector. */
static int load(void) {
    mbedtls_ecp_group_init(&group);
    mbedtls_mpi_init(&d);
    mbedtls_mpi_init(&r);
    mbedtls_mpi_init(&s);
    mbedtls_ecp_point_init(&q);
    int status = mbedtls_ecp_group_load(&group, MBEDTLS_ECP_DP_SECP256R1);
    status = status ? status : mbedtls_mpi_read_binary(&d, vector_d, N);
    status = status ? status : mbedtls_mpi_read_binary(&r, vector_signature, N);
    status = status ? status : mbedtls_mpi_read_binary(&s, vector_signature + N, N);
    status = status ? status : mbedtls_mpi_read_binary(&q.X, vector_q, N);
    status = status ? status : mbedtls_mpi_read_binary(&q.Y, vector_q + N, N);
    return status ? status : mbedtls_mpi_lset(&q.Z, 1);
}

static const uint8_t *output_pair(const mbedtls_mpi *first, const mbedtls_mpi *second, size_t *n) {
    *n = sizeof out;
    if (mbedtls_mpi_write_binary(first, out, N) != 0 || mbedtls_mpi_write_binary(second, out + N, N) != 0) {
        memset(out, 0, sizeof out);
    }
    return out;
}

/* Key generation: a new key each time. */
static void arm_keygen(void) {
    mbedtls_mpi_free(&d);
    mbedtls_ecp_point_free(&q);
}

static int step_keygen(void) {
    return mbedtls_ecp_gen_keypair(&group, &d, &q, random_bytes, NULL);
}

static const uint8_t *output_keygen(size_t *n) {
    return output_pair(&q.X, &q.Y, n);
}

/* The public key lies on the curve and is d G, computed again with other blinding. */
static int check_keygen(void) {
    mbedtls_ecp_point again;
    mbedtls_ecp_point_init(&again);
    int status = mbedtls_ecp_check_pubkey(&group, &q);
    status = status ? status : mbedtls_ecp_mul(&group, &again, &d, &group.G, random_bytes, NULL);
    status = status ? status : mbedtls_ecp_point_cmp(&q, &again);
    mbedtls_ecp_point_free(&again);
    return status;
}

/* Signature: RFC 6979, so the result is known; blinding comes from the pseudo-random generator. */
static void arm_sign(void) {
    mbedtls_mpi_free(&r);
    mbedtls_mpi_free(&s);
}

static int step_sign(void) {
    return mbedtls_ecdsa_sign_det_ext(&group, &r, &s, &d, vector_digest, N, MBEDTLS_MD_SHA256, random_bytes, NULL);
}

static const uint8_t *output_sign(size_t *n) {
    return output_pair(&r, &s, n);
}

static int check_sign(void) {
    size_t n;
    return memcmp(output_sign(&n), vector_signature, sizeof vector_signature) != 0;
}

static void arm_verify(void) {
    verdict = -1;
}

static int step_verify(void) {
    verdict = mbedtls_ecdsa_verify(&group, vector_digest, N, &q, &r, &s);
    return verdict;
}

static const uint8_t *output_verify(size_t *n) {
    *n = 1;
    out[0] = verdict != 0;
    return out;
}

static int check_verify(void) {
    return verdict != 0;
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

static const char *failed_vector(void) {
    uint8_t tampered[N];
    size_t n;
    int used = 0;
    if (load() != 0) {
        return "ecdsa-p256, the vectors could not be loaded";
    }
    if (step_verify() != 0) {
        return "ecdsa-p256.verify, RFC 6979 A.2.5 sample";
    }
    memcpy(tampered, vector_digest, N);
    tampered[N - 1] ^= 1u;
    if (mbedtls_ecdsa_verify(&group, tampered, N, &q, &r, &s) != MBEDTLS_ERR_ECP_VERIFY_FAILED) {
        return "ecdsa-p256.verify, a false signature was taken";
    }
    arm_sign();
    if (step_sign() != 0 || check_sign() != 0) {
        return "ecdsa-p256.sign, RFC 6979 A.2.5 sample";
    }
    arm_keygen();
    if (mbedtls_ecp_gen_keypair(&group, &d, &q, vector_then_random, &used) != 0 ||
        memcmp(output_keygen(&n), vector_q, sizeof vector_q) != 0) {
        return "ecdsa-p256.keygen, RFC 6979 A.2.5 key";
    }
    return NULL;
}

static int known_answers(const struct self_test *test) {
    (void)test;
    const char *failed = failed_vector();
    release();
    return failed != NULL;
}

static int prepare(const struct operation *op, const struct request *request) {
    (void)op;
    (void)request;
    return load();
}

static uint8_t passed;
static const struct self_test self_test = {"ecdsa-p256", known_answers, NULL, 4, &passed};
static const struct self_test *const tests[] = {&self_test, NULL};

#define KIND(step)                                                                                            \
    static const struct kind kind_##step = {.prepare = prepare, .arm = arm_##step, .check = check_##step,     \
                                            .output = output_##step, .release = release}
KIND(keygen);
KIND(sign);
KIND(verify);
const struct operation op_ecdsa_p256_keygen = {"ecdsa-p256.keygen", &kind_keygen, tests, step_keygen, NULL};
const struct operation op_ecdsa_p256_sign = {"ecdsa-p256.sign", &kind_sign, tests, step_sign, NULL};
const struct operation op_ecdsa_p256_verify = {"ecdsa-p256.verify", &kind_verify, tests, step_verify, NULL};
