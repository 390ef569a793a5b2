/* Marsaglia's xorshift32, for pauses and for the blinding inside elliptic-curve code. It starts the same after every
   reset, so that a series can be repeated. Not for real keys. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stddef.h>
#include <stdint.h>

uint32_t random_word(void);
int random_bytes(void *unused, unsigned char *out, size_t n); /* the shape mbedTLS asks for; returns 0 */

#endif
