#include "measure.h"

#include "arguments.h"
#include "hal.h"
#include "heap.h"
#include "line.h"
#include "operation.h"
#include "series.h"
#include "workspace.h"

#define CYCLES_A_LINE 8u

static struct series series;
static int prepared;

/* Finds the operation by its name; answers the error itself. */
static const struct operation *find(const char *name) {
    if (name == NULL) {
        line_error("argument", "op is missing");
        return NULL;
    }
    const struct operation *op = operation_find(name);
    if (op == NULL) {
        line_error("operation", name);
    }
    return op;
}

/* Lets go of what was prepared: its memory lies on the heap that comes next. */
static void forget(void) {
    if (series.operation != NULL) {
        series.operation->kind->release();
        series.operation = NULL;
    }
    prepared = 0;
}

static void no_memory(void) {
    uint32_t of_arena = workspace_missing_bytes();
    line_text("err memory ");
    line_number(of_arena ? of_arena : heap_missing_bytes());
    line_text(of_arena ? " bytes are missing in the workspace" : " bytes are missing in the heap");
    line_end();
}

/* Runs the tests of one operation that have not been run for this command, and counts their vectors. */
static int run_tests(const struct operation *op, uint32_t *n_vectors) {
    for (const struct self_test *const *test = op->tests; test != NULL && *test != NULL; test++) {
        if (*(*test)->passed) {
            continue;
        }
        heap_reset();
        workspace_reset();
        if ((*test)->run(*test) != 0) {
            if (heap_missing_bytes() || workspace_missing_bytes()) {
                no_memory();
            } else {
                line_error("kat", (*test)->name);
            }
            return 0;
        }
        *(*test)->passed = 1;
        *n_vectors += (*test)->n_vectors;
    }
    return 1;
}

static void forget_tests(const struct operation *op) {
    for (const struct self_test *const *test = op->tests; test != NULL && *test != NULL; test++) {
        *(*test)->passed = 0;
    }
}

void measure_kat(char *text) {
    struct arguments a;
    const struct operation *only = NULL;
    uint32_t n = 0;
    if (!arguments_parse(text, &a) || (a.op != NULL && (only = find(a.op)) == NULL)) {
        return;
    }
    forget();
    for (size_t i = 0; i < n_operations; i++) {
        if (only == NULL || operations[i] == only) {
            forget_tests(operations[i]);
        }
    }
    for (size_t i = 0; i < n_operations; i++) {
        if ((only == NULL || operations[i] == only) && !run_tests(operations[i], &n)) {
            return;
        }
    }
    line_text("ok kat");
    line_pair("passed", n);
    line_end();
}

static int tested(const struct operation *op) {
    for (const struct self_test *const *test = op->tests; test != NULL && *test != NULL; test++) {
        if (!*(*test)->passed) {
            return 0;
        }
    }
    return 1;
}

static const char *out_of_range(const struct arguments *a, const struct operation *op) {
    const struct request *r = &a->request;
    if (a->has_bytes && op->kind->bytes_default == 0) {
        return "bytes: this operation takes no message";
    }
    if (a->has_bytes && (r->bytes < BYTES_MIN || r->bytes > BYTES_MAX)) {
        return "bytes: 16 to 16384";
    }
    if (r->piece > BYTES_MAX) {
        return "piece: 0 (whole) to 16384";
    }
    if (r->offset > OFFSET_MAX) {
        return "offset: 0 to 15";
    }
    if (a->runs < 1 || a->runs > RUNS_MAX) {
        return "runs: 1 to 1000";
    }
    if (r->n < 1) {
        return "n: at least 1";
    }
    return a->pause_us > HAL_SLEEP_MAX_US ? "pause_us: 0 to 10000000" : NULL;
}

/* A variant at its default is what every operation does. */
static const char *unsupported(const struct request *r, const struct operation *op) {
    if (r->key_inside && !(op->kind->takes & TAKES_KEY)) {
        return "key: this operation has no key set-up of its own";
    }
    if (r->piece != 0 && !(op->kind->takes & TAKES_PIECE)) {
        return "piece: this operation takes its message whole";
    }
    if (r->offset != 0 && !(op->kind->takes & TAKES_OFFSET)) {
        return "offset: this operation has no message buffer";
    }
    return op->kind->refuse != NULL ? op->kind->refuse(op, r) : NULL;
}

static void series_error(enum series_result result, int status) {
    switch (result) {
    case SERIES_NO_MEMORY:
        no_memory();
        break;
    case SERIES_TOO_LONG:
        line_error("range", "a window would exceed 2^31 cycles: smaller n");
        break;
    case SERIES_WRONG:
        line_error("output", "the warm-up gave a wrong result");
        break;
    default:
        line_text("err failed");
        line_pair("run", series.bad_run);
        line_text(" status=-0x");
        line_hex((uint32_t)-status, 4);
        line_end();
    }
}

static void ready(void) {
    line_text("ok ready op=");
    line_text(series.operation->name);
    line_pair("bytes", series.request.bytes);
    line_pair("runs", series.runs);
    line_pair("n", series.request.n);
    line_pair("pause_us", series.pause_us);
    line_text(series.request.key_inside ? " key=inside" : " key=outside");
    line_pair("piece", series.request.piece);
    line_pair("offset", series.request.offset);
    line_pair("window_us", series.window_us);
    if (series.has_cycles) {
        line_pair("window_cycles", series.window_cycles);
    }
    line_pair("check_us", series.check_us);
    line_end();
}

void measure_prepare(char *text) {
    struct arguments a;
    const struct operation *op;
    const char *reason;
    forget();
    if (!arguments_parse(text, &a) || (op = find(a.op)) == NULL) {
        return;
    }
    if (!a.has_bytes) {
        a.request.bytes = op->kind->bytes_default;
    }
    if ((reason = out_of_range(&a, op)) != NULL) {
        line_error("range", reason);
        return;
    }
    if ((reason = unsupported(&a.request, op)) != NULL) {
        line_error("unsupported", reason);
        return;
    }
    if (!tested(op)) {
        line_error("untested", "no known answers checked since reset: send kat");
        return;
    }
    series = (struct series){.operation = op,
                             .request = a.request,
                             .runs = a.runs,
                             .pause_us = a.pause_us};
    int status;
    enum series_result result = series_prepare(&series, &status);
    if (result != SERIES_OK) {
        series_error(result, status);
        return;
    }
    prepared = 1;
    ready();
}

void measure_go(void) {
    if (!prepared) {
        line_error("state", "nothing prepared: send prepare");
        return;
    }
    int status;
    hal_flush();
    enum series_result result = series_run(&series, &status);
    if (result != SERIES_OK) {
        prepared = 0;
        series_error(result, status);
        return;
    }
    for (uint32_t i = 0; series.has_cycles && i < series.runs; i += CYCLES_A_LINE) {
        line_text("data cycles ");
        line_number(i);
        for (uint32_t k = i; k < i + CYCLES_A_LINE && k < series.runs; k++) {
            line_char(' ');
            line_number(series.cycles[k]);
        }
        line_end();
    }
    line_text("ok done");
    line_pair("runs", series.runs);
    line_text(series.bad_run == series.runs ? " check=pass" : " check=fail");
    line_text(" crc32=");
    line_hex(series.crc32, 8);
    if (series.bad_run < series.runs) {
        line_pair("bad_run", series.bad_run);
    }
    line_end();
}
