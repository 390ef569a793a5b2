/* Operations that involve no cryptography and give no output. */
#ifndef PLAIN_H
#define PLAIN_H

#include "hal.h"
#include "operation.h"

#define IDLE_US 1000u

extern const struct kind kind_plain;
extern const struct kind kind_idle; /* the board's own sleep modes */

/* idle.MODE: a millisecond in that sleep mode with the wake-up, by the family's hal_idle_MODE. */
#define IDLE_OPERATION(mode)                                                                       \
    void hal_idle_##mode(uint32_t us);                                                             \
    static int step_##mode(void) {                                                                 \
        hal_idle_##mode(IDLE_US);                                                                  \
        return 0;                                                                                  \
    }                                                                                              \
    const struct operation op_idle_##mode = {"idle." #mode, &kind_idle, NULL, step_##mode, NULL}

#endif
