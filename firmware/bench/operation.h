/* One thing to measure, and the known answers that vouch for it. */
#ifndef OPERATION_H
#define OPERATION_H

#include <stddef.h>
#include <stdint.h>

/* Known answers of one primitive. `run` returns NULL, or the name of the vector that failed. */
struct self_test {
    const char *(*run)(void);
    uint32_t n_vectors;
    int *passed;
};

struct operation {
    const char *name;
    const struct self_test *self_test; /* NULL: nothing to know */
    uint32_t bytes_default;            /* 0: takes no message */
    int (*prepare)(uint32_t bytes);    /* allocates; 0, or a library's error */
    void (*arm)(void);                 /* before each window: inputs fresh, outputs cleared */
    int (*step)(void);                 /* the measured part; 0, or a library's error */
    int (*check)(void);                /* after each window: 0 where the output is right */
    const uint8_t *(*output)(size_t *n);
    void (*release)(void);
};

#define BYTES_MIN 16u
#define BYTES_MAX 1024u

extern const struct operation *const operations[];
extern const size_t n_operations;

extern const struct operation op_null, op_busy, op_idle;
extern const struct operation op_aes_128_ctr, op_sha256;
extern const struct operation op_ecdsa_p256_keygen, op_ecdsa_p256_sign, op_ecdsa_p256_verify;

const struct operation *operation_find(const char *name);

/* The message of every operation that takes one: byte i is (7 i + 3) mod 256. */
uint8_t message_byte(uint32_t i);

#endif
