/* The list, and the operations that involve no cryptography. */
#include <string.h>

#include "hal.h"
#include "operation.h"

#define BUSY_ROUNDS 1000u
#define IDLE_US 1000u

static int nothing(void) {
    return 0;
}

static void no_arm(void) {
}

static int no_prepare(uint32_t bytes) {
    (void)bytes;
    return 0;
}

static const uint8_t *no_output(size_t *n) {
    *n = 0;
    return NULL;
}

static int busy(void) {
    hal_busy_loop(BUSY_ROUNDS);
    return 0;
}

static int idle(void) {
    hal_sleep_us(IDLE_US);
    return 0;
}

#define WITHOUT_OUTPUT(operation_name, step_function)                                                              \
    {                                                                                                              \
        .name = operation_name, .prepare = no_prepare, .arm = no_arm, .step = step_function, .check = nothing,     \
        .output = no_output, .release = no_arm                                                                     \
    }

const struct operation op_null = WITHOUT_OUTPUT("null", nothing);
const struct operation op_busy = WITHOUT_OUTPUT("busy", busy);
const struct operation op_idle = WITHOUT_OUTPUT("idle", idle);

const struct operation *const operations[] = {
    &op_null,        &op_busy,   &op_idle,
    &op_aes_128_ctr, &op_sha256, &op_ecdsa_p256_keygen, &op_ecdsa_p256_sign, &op_ecdsa_p256_verify,
};
const size_t n_operations = sizeof operations / sizeof operations[0];

const struct operation *operation_find(const char *name) {
    for (size_t i = 0; i < n_operations; i++) {
        if (strcmp(operations[i]->name, name) == 0) {
            return operations[i];
        }
    }
    return NULL;
}

uint8_t message_byte(uint32_t i) {
    return (uint8_t)(i * 7u + 3u);
}
