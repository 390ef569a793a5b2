/* The key=value words behind a command. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdint.h>

#include "operation.h"

struct arguments {
    const char *op; /* NULL where not given */
    struct request request;
    uint32_t runs, pause_us;
    int has_bytes;
};

/* Takes the words of `text` apart, in place. Answers the error itself and returns 0 where one is wrong. */
int arguments_parse(char *text, struct arguments *a);

#endif
