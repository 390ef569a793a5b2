#include "series.h"

#include "crc.h"
#include "hal.h"
#include "heap.h"
#include "random.h"
#include "stack.h"

/* The cycle counter has 32 bits: one window stays well below. */
#define WINDOW_CYCLES_MAX 0x80000000u

/* The part between the edges. Identical for every operation, `null` included, so that its cost cancels. */
static __attribute__((noinline)) uint32_t iterate(int (*step)(void), uint32_t iterations, int *status) {
    int worst = 0;
    uint32_t start = hal_cycles();
    for (uint32_t i = 0; i < iterations; i++) {
        worst |= step();
    }
    uint32_t stop = hal_cycles();
    *status = worst;
    return stop - start;
}

static enum series_result warm_up(struct series *s, int *status) {
    const struct operation *op = s->operation;
    op->arm();
    uint32_t cycles = iterate(op->step, 1, status);
    if (*status != 0) {
        return heap_exhausted() ? SERIES_NO_MEMORY : SERIES_FAILED;
    }
    uint32_t start = hal_cycles();
    int wrong = op->check();
    s->check_cycles = hal_cycles() - start;
    if ((uint64_t)cycles * s->iterations > WINDOW_CYCLES_MAX) {
        return SERIES_TOO_LONG;
    }
    s->window_cycles = cycles * s->iterations;
    return wrong ? SERIES_WRONG : SERIES_OK;
}

enum series_result series_prepare(struct series *s, int *status) {
    heap_reset();
    stack_paint();
    *status = 0;
    s->bad_run = 0;
    s->cycles = heap_calloc(s->runs, sizeof *s->cycles);
    if (s->cycles == NULL) {
        return SERIES_NO_MEMORY;
    }
    *status = s->operation->prepare(s->bytes);
    if (*status != 0) {
        return heap_exhausted() ? SERIES_NO_MEMORY : SERIES_FAILED;
    }
    heap_mark();
    return warm_up(s, status);
}

enum series_result series_run(struct series *s, int *status) {
    const struct operation *op = s->operation;
    s->crc32 = 0;
    s->bad_run = s->runs;
    for (uint32_t run = 0; run < s->runs; run++) {
        op->arm();
        hal_sleep_us(s->pause_us);
        hal_pause_cycles(random_word() >> 24);
        hal_trigger_high();
        s->cycles[run] = iterate(op->step, s->iterations, status);
        hal_trigger_low();
        hal_sleep_us(s->pause_us);
        if (*status != 0) {
            s->bad_run = run;
            return heap_exhausted() ? SERIES_NO_MEMORY : SERIES_FAILED;
        }
        size_t n;
        const uint8_t *output = op->output(&n);
        s->crc32 = crc32_add(s->crc32, output, n);
        if (op->check() != 0 && s->bad_run == s->runs) {
            s->bad_run = run;
        }
    }
    return SERIES_OK;
}
