/* A series: the same operation run after run, each in its own trigger pulse. */
#ifndef SERIES_H
#define SERIES_H

#include <stdint.h>

#include "operation.h"

#define RUNS_MAX 1000u

struct series {
    const struct operation *operation;
    struct request request;
    uint32_t runs, pause_us;
    uint32_t window_us, window_cycles; /* of one window, told from the warm-up */
    uint32_t check_us;                 /* of what follows each window, pauses apart */
    int has_cycles;                    /* whether they can be counted */
    uint32_t *cycles;                  /* one a run */
    uint32_t crc32;         /* over the outputs of all runs, one behind the other */
    uint32_t bad_run;       /* the first with a wrong output; `runs` where there is none */
};

enum series_result { SERIES_OK, SERIES_NO_MEMORY, SERIES_TOO_LONG, SERIES_FAILED, SERIES_WRONG };

enum series_result series_prepare(struct series *s, int *status); /* with one warm-up, outside any trigger pulse */
enum series_result series_run(struct series *s, int *status);

/* Memory of the last preparation and its windows; see PROTOCOL.md, `stack`. */
struct series_memory {
    uint32_t stack_peak_bytes; /* most in any window, warm-up included, with all that called the operation */
    uint32_t heap_peak_bytes;  /* most in any window above what was in use when it began */
    uint32_t heap_held_bytes;  /* what a library has put on the heap in set-up */
};
struct series_memory series_memory(void);

#endif
