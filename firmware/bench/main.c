/* The command loop: what PROTOCOL.md says. */
#include <string.h>

#include "board.h"
#include "hal.h"
#include "heap.h"
#include "image.h"
#include "line.h"
#include "operation.h"
#include "series.h"
#include "stack.h"

#define PROTOCOL_VERSION 1u
#define RUNS_DEFAULT 20u
#define PAUSE_US_DEFAULT 500u
#define CYCLES_A_LINE 8u

static struct series series;
static int prepared;

static void error(const char *code, const char *text) {
    line_text("err ");
    line_text(code);
    line_char(' ');
    line_text(text);
    line_end();
}

static void build_id(void) {
    line_text(" build=");
    for (int i = 0; i < 8; i++) {
        line_hex(IMAGE_BUILD_ID[i], 2);
    }
}

static void boot(void) {
    line_text("ok boot board=" BOARD_NAME);
    build_id();
    line_end();
}

static void hello(void) {
    line_text("ok hello");
    line_pair("proto", PROTOCOL_VERSION);
    line_text(" board=" BOARD_NAME);
    line_pair("clock_hz", hal_clock_hz());
    line_text(" clock=");
    line_text(hal_clock_source());
    line_text(" counter=dwt");
    build_id();
    line_end();
}

static void list(void) {
    line_text("ok list ops=");
    for (size_t i = 0; i < n_operations; i++) {
        if (i > 0) {
            line_char(',');
        }
        line_text(operations[i]->name);
    }
    line_end();
}

/* Takes a decimal number below 2^32 - 5. */
static int parse_number(const char *text, uint32_t *value) {
    uint32_t v = 0;
    if (*text == '\0') {
        return 0;
    }
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || v > (UINT32_MAX - 9u) / 10u) {
            return 0;
        }
        v = v * 10u + (uint32_t)(*text - '0');
    }
    *value = v;
    return 1;
}

/* Cuts the next word off; NULL at the end. (strtok would pull in the library's heap.) */
static char *next_word(char **rest) {
    char *word = *rest + strspn(*rest, " ");
    if (*word == '\0') {
        return NULL;
    }
    *rest = word + strcspn(word, " ");
    if (**rest != '\0') {
        *(*rest)++ = '\0';
    }
    return word;
}

struct request {
    const char *op;
    uint32_t bytes, runs, n, pause_us;
    int has_bytes;
};

static int take(struct request *r, const char *key, const char *value) {
    if (strcmp(key, "op") == 0) {
        r->op = value;
        return 1;
    }
    if (strcmp(key, "bytes") == 0) {
        r->has_bytes = 1;
        return parse_number(value, &r->bytes);
    }
    if (strcmp(key, "runs") == 0) {
        return parse_number(value, &r->runs);
    }
    if (strcmp(key, "n") == 0) {
        return parse_number(value, &r->n);
    }
    return strcmp(key, "pause_us") == 0 && parse_number(value, &r->pause_us);
}

/* Reads the arguments of a command; answers the error itself and returns 0 where one is wrong. */
static int parse(char *arguments, struct request *r) {
    *r = (struct request){.runs = RUNS_DEFAULT, .n = 1, .pause_us = PAUSE_US_DEFAULT};
    char *rest = arguments;
    for (char *word = next_word(&rest); word != NULL; word = next_word(&rest)) {
        char *equals = strchr(word, '=');
        if (equals != NULL) {
            *equals = '\0';
        }
        if (equals == NULL || !take(r, word, equals + 1)) {
            error("argument", word);
            return 0;
        }
    }
    return 1;
}

/* Finds the operation of a request; answers the error itself. */
static const struct operation *find(const struct request *r) {
    if (r->op == NULL) {
        error("argument", "op is missing");
        return NULL;
    }
    const struct operation *op = operation_find(r->op);
    if (op == NULL) {
        error("operation", r->op);
    }
    return op;
}

/* Lets go of what was prepared: its memory lies on the heap that comes next. */
static void forget(void) {
    if (series.operation != NULL) {
        series.operation->release();
        series.operation = NULL;
    }
    prepared = 0;
}

static int self_test(const struct self_test *test) {
    heap_reset();
    *test->passed = 0;
    const char *failed = test->run();
    if (failed != NULL) {
        error("kat", failed);
        return 0;
    }
    *test->passed = 1;
    return 1;
}

static void kat(char *arguments) {
    struct request r;
    const struct operation *only = NULL;
    uint32_t n = 0;
    if (!parse(arguments, &r) || (r.op != NULL && (only = find(&r)) == NULL)) {
        return;
    }
    forget();
    const struct self_test *previous = NULL;
    for (size_t i = 0; i < n_operations; i++) {
        const struct self_test *test = operations[i]->self_test;
        if (test == NULL || test == previous || (only != NULL && test != only->self_test)) {
            continue;
        }
        previous = test;
        if (!self_test(test)) {
            return;
        }
        n += test->n_vectors;
    }
    line_text("ok kat");
    line_pair("passed", n);
    line_end();
}

static void series_error(enum series_result result, int status) {
    switch (result) {
    case SERIES_NO_MEMORY:
        error("memory", "the heap is too small: fewer runs or bytes");
        break;
    case SERIES_TOO_LONG:
        error("range", "a window would exceed 2^31 cycles: smaller n");
        break;
    case SERIES_WRONG:
        error("output", "the warm-up gave a wrong result");
        break;
    default:
        line_text("err failed");
        line_pair("run", series.bad_run);
        line_text(" status=-0x");
        line_hex((uint32_t)-status, 4);
        line_end();
    }
}

static const char *out_of_range(const struct request *r, const struct operation *op) {
    if (r->has_bytes && op->bytes_default == 0) {
        return "bytes: this operation takes no message";
    }
    if (r->has_bytes && (r->bytes < BYTES_MIN || r->bytes > BYTES_MAX)) {
        return "bytes: 16 to 1024";
    }
    if (r->runs < 1 || r->runs > RUNS_MAX) {
        return "runs: 1 to 1000";
    }
    if (r->n < 1) {
        return "n: at least 1";
    }
    return r->pause_us > HAL_SLEEP_MAX_US ? "pause_us: 0 to 10000000" : NULL;
}

static void prepare(char *arguments) {
    struct request r;
    const struct operation *op;
    forget();
    if (!parse(arguments, &r) || (op = find(&r)) == NULL) {
        return;
    }
    const char *reason = out_of_range(&r, op);
    if (reason != NULL) {
        error("range", reason);
        return;
    }
    if (op->self_test != NULL && !*op->self_test->passed) {
        error("untested", "no known answers checked since reset: send kat");
        return;
    }
    series = (struct series){.operation = op,
                             .bytes = r.has_bytes ? r.bytes : op->bytes_default,
                             .runs = r.runs,
                             .iterations = r.n,
                             .pause_us = r.pause_us};
    int status;
    enum series_result result = series_prepare(&series, &status);
    if (result != SERIES_OK) {
        series_error(result, status);
        return;
    }
    prepared = 1;
    line_text("ok ready op=");
    line_text(op->name);
    line_pair("bytes", series.bytes);
    line_pair("runs", series.runs);
    line_pair("n", series.iterations);
    line_pair("pause_us", series.pause_us);
    line_pair("window_cycles", series.window_cycles);
    line_pair("check_cycles", series.check_cycles);
    line_end();
}

static void go(void) {
    if (!prepared) {
        error("state", "nothing prepared: send prepare");
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
    for (uint32_t i = 0; i < series.runs; i += CYCLES_A_LINE) {
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

static void stack(void) {
    line_text("ok stack");
    line_pair("stack_peak_bytes", stack_peak_bytes());
    line_pair("heap_peak_bytes", heap_peak_bytes());
    line_end();
}

static uint32_t manifest_size(const char *key, const uint8_t *value) {
    line_text("data manifest ");
    line_text(key);
    line_char('=');
    line_number((uint32_t)value);
    line_end();
    return 1;
}

static void manifest(void) {
    uint32_t n = 0;
    for (const char *c = image_manifest_start; c < image_manifest_end; c++) {
        line_text("data manifest ");
        for (; c < image_manifest_end && *c != '\n'; c++) {
            line_char(*c);
        }
        line_end();
        n++;
    }
    n += manifest_size("flash_bytes", image_flash_bytes);
    n += manifest_size("text_bytes", image_text_bytes);
    n += manifest_size("data_bytes", image_data_bytes);
    n += manifest_size("bss_bytes", image_bss_bytes);
    n += manifest_size("stack_bytes", image_stack_bytes);
    n += manifest_size("heap_bytes", image_heap_bytes);
    line_text("ok manifest");
    line_pair("keys", n);
    line_end();
}

static void obey(char *line) {
    char *arguments = strchr(line, ' ');
    if (arguments != NULL) {
        *arguments++ = '\0';
    } else {
        arguments = line + strlen(line);
    }
    if (strcmp(line, "prepare") == 0) {
        prepare(arguments);
    } else if (strcmp(line, "kat") == 0) {
        kat(arguments);
    } else if (*arguments != '\0') {
        error("command", line);
    } else if (strcmp(line, "hello") == 0) {
        hello();
    } else if (strcmp(line, "list") == 0) {
        list();
    } else if (strcmp(line, "go") == 0) {
        go();
    } else if (strcmp(line, "stack") == 0) {
        stack();
    } else if (strcmp(line, "manifest") == 0) {
        manifest();
    } else {
        error("command", line);
    }
}

int main(void) {
    static char line[LINE_BYTES_MAX + 1];
    hal_setup();
    heap_reset();
    boot();
    for (;;) {
        enum line_result result = line_read(line);
        if (result == LINE_OK) {
            obey(line);
        } else {
            error(result == LINE_TOO_LONG ? "length" : "checksum", "line not understood: send it again");
        }
    }
}
