/* What a family gives to the set-up that all cores share. */
#ifndef PARTS_H
#define PARTS_H

#include <stdint.h>

struct clock {
    uint32_t core_hz;
    uint32_t serial_hz; /* what the serial port's divider gets */
    const char *source; /* see hal_clock_source */
};

struct clock clock_start(void); /* BOARD_CLOCK_HZ, or the internal oscillator where that cannot be reached */
/* After stop mode, which ends on the internal oscillator with all settings kept: the crystal as clock_start had it.
   0 where it does not start. */
int clock_restart(void);
void pins_start(void);          /* trigger low, serial port connected */
void serial_start(uint32_t clock_hz);

/* startup.c: where what cannot go on ends. */
__attribute__((noreturn)) void fault_handler(void);

/* The core's own; counter.c, or no_counter.c where it has none. */
void counter_start(void);

/* Polls before a clock is given up: several cycles each at 8 to 48 MHz, so tens of milliseconds; a crystal needs about
   two (data sheets, start-up time of the HSE), a PLL 0.3. */
#define POLLS_MAX 50000u

static inline int wait_for(volatile uint32_t *reg, uint32_t mask, uint32_t value) {
    for (uint32_t polls = 0; polls < POLLS_MAX; polls++) {
        if ((*reg & mask) == value) {
            return 1;
        }
    }
    return 0;
}

#endif
