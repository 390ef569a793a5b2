#include "operation.h"

#include <string.h>

const struct operation *operation_find(const char *name) {
    for (size_t i = 0; i < n_operations; i++) {
        if (strcmp(operations[i]->name, name) == 0) {
            return operations[i];
        }
    }
    return NULL;
}

uint8_t message_byte(uint32_t i) {
    return (uint8_t)(i * 7u + 3u);
}

void message_fill(uint8_t *buffer, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        buffer[i] = message_byte(i);
    }
}

int message_differs(const uint8_t *buffer, uint32_t n) {
    int differs = 0;
    for (uint32_t i = 0; i < n; i++) {
        differs |= buffer[i] ^ message_byte(i);
    }
    return differs;
}
