#include "arguments.h"

#include <string.h>

#include "line.h"

#define RUNS_DEFAULT 20u
#define PAUSE_US_DEFAULT 500u

/* Takes a decimal number below 2^32 - 5. */
static int number(const char *text, uint32_t *value) {
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

static int take_key(struct arguments *a, const char *value) {
    a->request.key_inside = strcmp(value, "inside") == 0;
    return a->request.key_inside || strcmp(value, "outside") == 0;
}

static int take(struct arguments *a, const char *key, const char *value) {
    const struct {
        const char *key;
        uint32_t *value;
    } numbers[] = {
        {"bytes", &a->request.bytes}, {"piece", &a->request.piece}, {"offset", &a->request.offset},
        {"runs", &a->runs},           {"n", &a->request.n},         {"pause_us", &a->pause_us},
    };
    if (strcmp(key, "op") == 0) {
        a->op = value;
        return 1;
    }
    if (strcmp(key, "key") == 0) {
        return take_key(a, value);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(key, numbers[i].key) == 0) {
            a->has_bytes |= numbers[i].value == &a->request.bytes;
            return number(value, numbers[i].value);
        }
    }
    return 0;
}

int arguments_parse(char *text, struct arguments *a) {
    *a = (struct arguments){.request = {.n = 1}, .runs = RUNS_DEFAULT, .pause_us = PAUSE_US_DEFAULT};
    char *rest = text;
    for (char *word = next_word(&rest); word != NULL; word = next_word(&rest)) {
        char *equals = strchr(word, '=');
        if (equals != NULL) {
            *equals = '\0';
        }
        if (equals == NULL || !take(a, word, equals + 1)) {
            line_error("argument", word);
            return 0;
        }
    }
    return 1;
}
