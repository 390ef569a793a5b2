/* Set-up in the order that holds for every family. */
#include "hal.h"
#include "parts.h"

static struct clock clock;

void hal_setup(void) {
    __asm volatile("cpsid i" ::: "memory");
    clock = clock_start();
    pins_start();
    serial_start(clock.serial_hz);
    counter_start();
}

uint32_t hal_clock_hz(void) {
    return clock.core_hz;
}

const char *hal_clock_source(void) {
    return clock.source;
}
