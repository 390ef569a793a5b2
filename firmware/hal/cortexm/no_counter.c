/* For the Cortex-M0, which counts no cycles. */
#include "hal.h"
#include "parts.h"

void counter_start(void) {
}

const char *hal_counter(void) {
    return "none";
}

uint32_t hal_cycles(void) {
    return 0;
}
