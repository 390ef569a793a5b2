/* mbedTLS 2.28 for a microcontroller without operating system: these primitives, tables in flash, the bench's heap.
 *
 * The Makefile defines LIBRARY_FULL, or for an image of one operation the part that its user would configure: the
 * library's dispatchers (cipher, md, ecp) link everything that is configured, needed or not. */
#ifndef LABCTL_MBEDTLS_CONFIG_H
#define LABCTL_MBEDTLS_CONFIG_H

#include <stddef.h>

#ifndef ECP_PLAIN
#define MBEDTLS_HAVE_ASM /* in this selection: the multiplication of big numbers */
#endif
#define MBEDTLS_PLATFORM_C
#define MBEDTLS_PLATFORM_MEMORY
void *heap_calloc(size_t count, size_t size);
void heap_free(void *block);
#define MBEDTLS_PLATFORM_CALLOC_MACRO heap_calloc
#define MBEDTLS_PLATFORM_FREE_MACRO heap_free

#define MBEDTLS_AES_C
#ifndef TABLES_RAM
#define MBEDTLS_AES_ROM_TABLES
#endif
#define MBEDTLS_SHA256_C

#ifdef LIBRARY_FULL
#define MBEDTLS_CIPHER_MODE_CBC
#define MBEDTLS_CIPHER_MODE_CTR
#define MBEDTLS_SHA512_C
#endif
#if defined(LIBRARY_FULL) || defined(LIBRARY_CCM)
#define MBEDTLS_CCM_C
#define MBEDTLS_CIPHER_C
#endif
#if defined(LIBRARY_FULL) || defined(LIBRARY_GCM)
#define MBEDTLS_GCM_C
#define MBEDTLS_CIPHER_C
#endif

/* HMAC_DRBG needs the message-digest layer. */
#define MBEDTLS_HMAC_DRBG_C
#define MBEDTLS_MD_C

/* Curve arithmetic: window and fixed-point choice trade time against heap. */
#if defined(LIBRARY_FULL) || defined(LIBRARY_ECC) || defined(LIBRARY_P256)
#define MBEDTLS_ECP_DP_SECP256R1_ENABLED
#endif
#if defined(LIBRARY_FULL) || defined(LIBRARY_ECC) || defined(LIBRARY_CURVE25519)
#define MBEDTLS_ECP_DP_CURVE25519_ENABLED
#endif
#if defined(MBEDTLS_ECP_DP_SECP256R1_ENABLED) || defined(MBEDTLS_ECP_DP_CURVE25519_ENABLED)
#define MBEDTLS_BIGNUM_C
#define MBEDTLS_MPI_MAX_SIZE 128
#define MBEDTLS_ECP_C
#ifdef ECP_PLAIN
/* Reduction by division, the smallest window: what publications seem to have measured. */
#define MBEDTLS_ECP_WINDOW_SIZE 2
#else
#define MBEDTLS_ECP_NIST_OPTIM
#define MBEDTLS_ECP_WINDOW_SIZE 4
#endif
#define MBEDTLS_ECP_FIXED_POINT_OPTIM 0
#define MBEDTLS_ECP_NO_INTERNAL_RNG
#define MBEDTLS_ECDH_C
#endif

/* Deterministic ECDSA (RFC 6979) needs HMAC_DRBG; ECDSA always wants ASN.1. */
#ifdef MBEDTLS_ECP_DP_SECP256R1_ENABLED
#define MBEDTLS_ECDSA_C
#define MBEDTLS_ECDSA_DETERMINISTIC
#define MBEDTLS_ASN1_PARSE_C
#define MBEDTLS_ASN1_WRITE_C
#endif

#include "mbedtls/check_config.h"

#endif
