/* The DWT's cycle counter, of the ARMv7-M cores. */
#include "core.h"
#include "hal.h"
#include "parts.h"

void counter_start(void) {
    SCB_DEMCR |= SCB_DEMCR_TRCENA;
    /* The Cortex-M7 locks the unit against software (ARM DDI 0489, DWT); where there is no lock, nothing listens. */
    DWT_LAR = DWT_LAR_KEY;
    DWT_CYCCNT = 0;
    DWT_CTRL |= DWT_CTRL_CYCCNTENA;
}

const char *hal_counter(void) {
    return "dwt";
}

uint32_t hal_cycles(void) {
    return DWT_CYCCNT;
}

static uint32_t stopwatch_start;

void hal_stopwatch_start(void) {
    stopwatch_start = DWT_CYCCNT;
}

uint32_t hal_stopwatch_us(void) {
    uint32_t cycles = DWT_CYCCNT - stopwatch_start;
    uint32_t cycles_a_us = hal_clock_hz() / 1000000u;
    return cycles / cycles_a_us + (cycles % cycles_a_us != 0);
}
