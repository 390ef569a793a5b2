/* Modes of operation made from single blocks, slow and plain: what a check compares a library's result with. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "cipher.h"

int reference_ecb(const struct block_cipher *block, void *context, const struct passage *p); /* SP 800-38A 6.1 */
int reference_cbc(const struct block_cipher *block, void *context, const struct passage *p); /* SP 800-38A 6.2 */
int reference_ctr(const struct block_cipher *block, void *context, const struct passage *p); /* SP 800-38A 6.5 */
int reference_ccm(const struct block_cipher *block, void *context, const struct passage *p); /* SP 800-38C 6.1, no A */
int reference_gcm(const struct block_cipher *block, void *context, const struct passage *p); /* SP 800-38D 7.1, no A */

#endif
