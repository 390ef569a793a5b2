#include "series.h"

#include <string.h>

#include "crc.h"
#include "hal.h"
#include "heap.h"
#include "random.h"
#include "stack.h"
#include "workspace.h"

/* The cycle counter has 32 bits: one window stays well below. */
#define WINDOW_CYCLES_MAX 0x80000000u
/* Busy between waking and a window, so that what is steady before its edge lasts longer than the edge is looked at. */
#define AWAKE_CYCLES 256u

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

static struct series_memory memory;

static uint32_t greater(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static void memory_watch(void) {
    heap_mark();
    stack_paint();
}

/* After a window, before anything else uses stack or heap. */
static void memory_note(void) {
    memory.stack_peak_bytes = greater(memory.stack_peak_bytes, stack_peak_bytes());
    memory.heap_peak_bytes = greater(memory.heap_peak_bytes, heap_peak_bytes());
}

struct series_memory series_memory(void) {
    return memory;
}

static enum series_result failure(void) {
    return heap_missing_bytes() || workspace_missing_bytes() ? SERIES_NO_MEMORY : SERIES_FAILED;
}

static const struct watch core_watch = {hal_stopwatch_start, hal_stopwatch_us};

static enum series_result warm_up(struct series *s, int *status) {
    const struct operation *op = s->operation;
    op->kind->arm();
    memory_watch();
    const struct watch *watch = op->kind->watch != NULL ? op->kind->watch : &core_watch;
    watch->start();
    uint32_t cycles = iterate(op->step, 1, status);
    uint64_t window_us = (uint64_t)watch->stop_us() * s->request.n;
    memory_note();
    if (*status != 0) {
        return failure();
    }
    hal_stopwatch_start();
    int wrong = op->kind->check();
    s->check_us = hal_stopwatch_us();
    if (window_us > WINDOW_CYCLES_MAX / (hal_clock_hz() / 1000000u)) {
        return SERIES_TOO_LONG;
    }
    s->window_us = (uint32_t)window_us;
    s->window_cycles = cycles * s->request.n;
    return wrong ? SERIES_WRONG : SERIES_OK;
}

enum series_result series_prepare(struct series *s, int *status) {
    heap_reset();
    workspace_reset();
    memory = (struct series_memory){0};
    *status = 0;
    s->bad_run = 0;
    s->has_cycles = s->operation->kind->watch == NULL && strcmp(hal_counter(), "none") != 0;
    s->cycles = s->has_cycles ? heap_calloc(s->runs, sizeof *s->cycles) : NULL;
    if (s->has_cycles && s->cycles == NULL) {
        return SERIES_NO_MEMORY;
    }
    uint32_t own_bytes = heap_in_use_bytes();
    *status = s->operation->kind->prepare(s->operation, &s->request);
    if (*status != 0) {
        return failure();
    }
    memory.heap_held_bytes = heap_in_use_bytes() - own_bytes - workspace_heap_bytes();
    return warm_up(s, status);
}

enum series_result series_run(struct series *s, int *status) {
    const struct operation *op = s->operation;
    s->crc32 = 0;
    s->bad_run = s->runs;
    for (uint32_t run = 0; run < s->runs; run++) {
        op->kind->arm();
        memory_watch();
        /* What is random comes before the sleep: every window begins as long after waking, and what the supply's
           capacitors have settled by then is the same in each. */
        hal_pause_cycles(random_word() >> 24);
        hal_sleep_us(s->pause_us);
        hal_pause_cycles(AWAKE_CYCLES);
        hal_trigger_high();
        uint32_t cycles = iterate(op->step, s->request.n, status);
        hal_trigger_low();
        hal_sleep_us(s->pause_us);
        memory_note();
        if (*status != 0) {
            s->bad_run = run;
            return failure();
        }
        if (s->has_cycles) {
            s->cycles[run] = cycles;
        }
        size_t n;
        const uint8_t *output = op->kind->output(&n);
        s->crc32 = crc32_add(s->crc32, output, n);
        if (op->kind->check() != 0 && s->bad_run == s->runs) {
            s->bad_run = run;
        }
    }
    return SERIES_OK;
}
