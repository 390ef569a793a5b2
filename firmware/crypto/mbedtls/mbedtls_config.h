/* mbedTLS 2.28 for a microcontroller without operating system: these primitives, tables in flash, the bench's heap. */
#ifndef LABCTL_MBEDTLS_CONFIG_H
#define LABCTL_MBEDTLS_CONFIG_H

#include <stddef.h>

#define MBEDTLS_HAVE_ASM
#define MBEDTLS_PLATFORM_C
#define MBEDTLS_PLATFORM_MEMORY
void *heap_calloc(size_t count, size_t size);
void heap_free(void *block);
#define MBEDTLS_PLATFORM_CALLOC_MACRO heap_calloc
#define MBEDTLS_PLATFORM_FREE_MACRO heap_free

#define MBEDTLS_AES_C
#define MBEDTLS_AES_ROM_TABLES
#define MBEDTLS_CIPHER_MODE_CTR
#define MBEDTLS_SHA256_C

/* Curve arithmetic: window and fixed-point choice trade time against heap. */
#define MBEDTLS_BIGNUM_C
#define MBEDTLS_MPI_MAX_SIZE 128
#define MBEDTLS_ECP_C
#define MBEDTLS_ECP_DP_SECP256R1_ENABLED
#define MBEDTLS_ECP_NIST_OPTIM
#define MBEDTLS_ECP_WINDOW_SIZE 4
#define MBEDTLS_ECP_FIXED_POINT_OPTIM 0
#define MBEDTLS_ECP_NO_INTERNAL_RNG

/* Deterministic ECDSA (RFC 6979) needs HMAC-DRBG and its message-digest layer; ECDSA always wants ASN.1. */
#define MBEDTLS_ECDSA_C
#define MBEDTLS_ECDSA_DETERMINISTIC
#define MBEDTLS_HMAC_DRBG_C
#define MBEDTLS_MD_C
#define MBEDTLS_ASN1_PARSE_C
#define MBEDTLS_ASN1_WRITE_C

#include "mbedtls/check_config.h"

#endif
