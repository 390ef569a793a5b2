#include "hal.h"

void hal_pause_cycles(uint32_t n) {
    if (n & 1u) {
        __asm volatile("nop");
    }
    if (n & 2u) {
        __asm volatile("nop\n\tnop");
    }
    hal_busy_loop(n / 4u + 1u);
}

/* Begins a flash line on every board, so that the loop costs the same in every image. */
__attribute__((noinline, aligned(32))) void hal_busy_loop(uint32_t rounds) {
    __asm volatile(".syntax unified\n1: subs %0, %0, #1\n\tbne 1b" : "+l"(rounds) : : "cc");
}
