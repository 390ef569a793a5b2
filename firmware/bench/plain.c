#include "plain.h"

#include <stddef.h>

#define BUSY_ROUNDS 1000u

static int no_prepare(const struct operation *op, const struct request *request) {
    (void)op;
    (void)request;
    return 0;
}

static void no_arm(void) {
}

static int nothing(void) {
    return 0;
}

static const uint8_t *no_output(size_t *n) {
    *n = 0;
    return NULL;
}

static int busy(void) {
    hal_busy_loop(BUSY_ROUNDS);
    return 0;
}

static int idle(void) {
    hal_sleep_us(IDLE_US);
    return 0;
}

const struct kind kind_plain = {
    .prepare = no_prepare, .arm = no_arm, .check = nothing, .output = no_output, .release = no_arm};

static int idle_prepare(const struct operation *op, const struct request *request) {
    (void)op;
    (void)request;
    return hal_idle_setup();
}

static const struct watch idle_watch = {hal_idle_watch_start, hal_idle_watch_us};

const struct kind kind_idle = {.prepare = idle_prepare,
                               .arm = no_arm,
                               .check = nothing,
                               .output = no_output,
                               .release = no_arm,
                               .watch = &idle_watch};

const struct operation op_null = {"null", &kind_plain, NULL, nothing, NULL};
const struct operation op_busy = {"busy", &kind_plain, NULL, busy, NULL};
const struct operation op_idle = {"idle", &kind_plain, NULL, idle, NULL};
