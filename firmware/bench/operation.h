/* One thing to measure, and the known answers that vouch for it.
 *
 * An operation reaches everything it needs by pointers from its own record, so that an image with this operation alone
 * holds nothing else: the linker drops what no listed operation reaches. The name `aes-128-ecb.encrypt` belongs to the
 * record `op_aes_128_ecb_encrypt` ('-' and '.' become '_'); operations.mk says which names an image holds. */
#ifndef OPERATION_H
#define OPERATION_H

#include <stddef.h>
#include <stdint.h>

/* What `prepare` was asked. Within the limits already, and refused already where the operation has not the variant. */
struct request {
    uint32_t bytes;  /* of the message; 0 for operations without one */
    uint32_t piece;  /* the message goes in pieces of so many bytes, the last may be shorter; 0: whole */
    uint32_t offset; /* 0 to 15: each message buffer begins so many bytes past a multiple of 16 */
    uint32_t n;      /* iterations in each window */
    int key_inside;  /* key set-up lies in the window, in each iteration */
};

/* Variants that an operation has; the others are refused. */
#define TAKES_KEY 1u
#define TAKES_PIECE 2u
#define TAKES_OFFSET 4u

/* Known answers, each test passed once after a reset however many operations share it. Memory comes from a fresh heap
   and workspace, and need not be handed back. */
struct self_test {
    const char *name; /* told where it fails; PROTOCOL.md says where its vectors come from */
    int (*run)(const struct self_test *test); /* 0 where all is right */
    const void *detail;                       /* run's own */
    uint32_t n_vectors;
    uint8_t *passed;
};

struct operation;

/* What times a warm-up. */
struct watch {
    void (*start)(void);
    uint32_t (*stop_us)(void);
};

/* What operations of one kind share. */
struct kind {
    uint32_t bytes_default; /* 0: takes no message */
    uint32_t takes;         /* TAKES_... */
    /* NULL, or a reason against this request beyond the above; may itself be NULL. */
    const char *(*refuse)(const struct operation *op, const struct request *request);
    int (*prepare)(const struct operation *op, const struct request *request); /* 0, or a library's error */
    void (*arm)(void);  /* before each window: inputs fresh, outputs cleared */
    int (*check)(void); /* after each window: 0 where the output is right, found another way than it was made */
    const uint8_t *(*output)(size_t *n);
    void (*release)(void); /* lets go of what the library holds */
    const struct watch *watch; /* of operations that stop the core's clock: no cycles are told; NULL for the others */
};

struct operation {
    const char *name;
    const struct kind *kind;
    const struct self_test *const *tests; /* ends with NULL; NULL itself: nothing to know */
    int (*step)(void);                    /* the measured part; 0, or a library's error */
    const void *detail;                   /* for prepare and refuse: key size, mode, curve, ... */
};

#define BYTES_MIN 16u
#define BYTES_MAX 16384u
#define OFFSET_MAX 15u

/* Written by the Makefile for each image. */
extern const struct operation *const operations[];
extern const size_t n_operations;

const struct operation *operation_find(const char *name);

/* The message of every operation that takes one: byte i is (7 i + 3) mod 256. */
uint8_t message_byte(uint32_t i);
void message_fill(uint8_t *buffer, uint32_t n);
int message_differs(const uint8_t *buffer, uint32_t n); /* 0 where it holds the message */

/* Length of the next piece, with `left` bytes to go. */
static inline uint32_t piece_bytes(uint32_t piece, uint32_t left) {
    return piece != 0 && piece < left ? piece : left;
}

#endif
