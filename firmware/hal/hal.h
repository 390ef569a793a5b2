/* What the bench needs of a microcontroller. One implementation a family, in hal/<family>/. */
#ifndef HAL_H
#define HAL_H

#include <stdint.h>

void hal_setup(void);                 /* clock BOARD_CLOCK_HZ, trigger pin (low), serial port, cycle counter; no interrupt
                                         ever runs in a window */
uint32_t hal_clock_hz(void);          /* the clock that set-up really reached */
const char *hal_clock_source(void);   /* "crystal", or "internal" where the crystal or the PLL did not start */
const char *hal_counter(void);        /* "dwt"; "none": the core has no cycle counter, and hal_cycles gives 0 always */
uint32_t hal_cycles(void);            /* core cycles, modulo 2^32; sleep counts too */
void hal_stopwatch_start(void);       /* for the warm-up, outside every window: up to 60 s, to a microsecond or so */
uint32_t hal_stopwatch_us(void);      /* stops it: microseconds since the start, rounded up */
uint8_t hal_read(void);               /* waits for one byte */
void hal_write(uint8_t byte);         /* waits for room */
void hal_flush(void);                 /* waits until the last bit has left */
void hal_trigger_high(void);          /* never inlined: the same few cycles on both edges */
void hal_trigger_low(void);
void hal_sleep_us(uint32_t us);       /* core asleep; at most HAL_SLEEP_MAX_US */
void hal_pause_cycles(uint32_t n);    /* busy for about n cycles */
void hal_busy_loop(uint32_t rounds);  /* known loop: a subtraction and a taken branch each round */
/* Where board.mk names IDLE_MODES: void hal_idle_MODE(uint32_t us) for each, that sleep mode for us, then awake with the
   clock as before. The core's clock stands still meanwhile, and hal_cycles with it; another one times the warm-up. */
int hal_idle_setup(void);             /* before the first; 0, or -1 where that other clock does not start */
void hal_idle_watch_start(void);      /* as the stopwatch above, up to a tenth of a second, coarser */
uint32_t hal_idle_watch_us(void);

#define HAL_SLEEP_MAX_US 10000000u

#endif
