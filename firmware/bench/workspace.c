#include "workspace.h"

#include <string.h>

#include "heap.h"

static uint32_t state_bytes, buffer_bytes;

#ifdef WORKSPACE_STATIC_BYTES
static _Alignas(16) uint8_t arena[WORKSPACE_STATIC_BYTES];
static uint32_t used, missing;

static uint8_t *take(size_t n) {
    n = (n + 7u) & ~(size_t)7u;
    if (n > sizeof arena - used) {
        missing += (uint32_t)(n - (sizeof arena - used));
        return NULL;
    }
    uint8_t *block = arena + used;
    used += (uint32_t)n;
    return memset(block, 0, n);
}

static void start_over(void) {
    used = missing = 0;
}

uint32_t workspace_heap_bytes(void) {
    return 0;
}

uint32_t workspace_missing_bytes(void) {
    return missing;
}
#else
static uint32_t heap_bytes;

static uint8_t *take(size_t n) {
    uint32_t before = heap_in_use_bytes();
    uint8_t *block = heap_calloc(1, n);
    heap_bytes += heap_in_use_bytes() - before;
    return block;
}

static void start_over(void) {
    heap_bytes = 0;
}

uint32_t workspace_heap_bytes(void) {
    return heap_bytes;
}

uint32_t workspace_missing_bytes(void) {
    return 0;
}
#endif

void workspace_reset(void) {
    state_bytes = buffer_bytes = 0;
    start_over();
}

void *workspace_state(size_t n) {
    state_bytes += (uint32_t)n;
    return take(n);
}

uint8_t *workspace_buffer(uint32_t n, uint32_t offset) {
    buffer_bytes += n;
    /* Blocks lie on 8 bytes, so 8 more reach the next multiple of 16. */
    uint8_t *block = take(n + 8u + offset);
    return block == NULL ? NULL : block + ((uintptr_t)block & 8u) + offset;
}

uint32_t workspace_state_bytes(void) {
    return state_bytes;
}

uint32_t workspace_buffer_bytes(void) {
    return buffer_bytes;
}
